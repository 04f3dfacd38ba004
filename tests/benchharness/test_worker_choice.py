"""Tests of jobs that select a checkpoint or average weights: results and held-out rows."""

from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchharness.leaderboard.result import Result, Selection
from benchharness.splits import headline
from benchharness.tasks.read import hold_out, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job

LONG = {"epochs": "6", "batch_size": "8", "evaluations": "6", "learning_rate": "3e-3"}
BEST = {**LONG, "best_checkpoint": "true"}


@cache
def job_of(task: str = "cola", **settings: str) -> Result:
    return run_job(make_job(task, limit=24, **LONG | settings))


def values_of(result: Result) -> list[float | None]:
    dev = result.evaluations[0]
    return [headline(dev.name, point.scores) for point in result.curve if point.scores]


@pytest.mark.parametrize(
    "task",
    [
        "cola",
        "squad/v2.0",
        *(pytest.param(t, marks=pytest.mark.soak) for t in ("mrpc", "copa", "conll2003/ner")),
    ],
)
def test_dev_scores_with_best_checkpoint_are_from_the_best_evaluation(task: str):
    plain, best = job_of(task), job_of(task, best_checkpoint="true")
    assert best.curve == plain.curve, "the choice changes no step"
    values = values_of(best)
    assert len(values) == 6
    number = max(range(6), key=lambda n: values[n] or 0.0)
    scored = [point for point in best.curve if point.scores]
    assert best.evaluations[0].scores == scored[number].scores
    chosen = Selection(evaluations=6, step=scored[number].step, is_best=True)
    assert best.provenance["selection"] == asdict(chosen)
    assert "selection" not in plain.provenance
    assert [e.name for e in best.evaluations] == [e.name for e in plain.evaluations]


def test_test_split_is_predicted_with_the_best_weights():
    best, last = job_of(best_checkpoint="true"), job_of()
    assert best.provenance["selection"]["step"] < best.cost.steps
    assert best.evaluations[1].predictions != last.evaluations[1].predictions
    # If the last evaluation is the best one, the last weights are the best weights.
    rising = {"learning_rate": "1e-3", "evaluations": "2", "epochs": "12"}
    best, last = job_of("sst2", best_checkpoint="true", **rising), job_of("sst2", **rising)
    assert best.provenance["selection"]["step"] == best.cost.steps
    assert best.evaluations == last.evaluations


def test_encoder_kept_with_best_checkpoint_has_the_best_weights(tmp_path: Path):
    def kept(**settings: str) -> dict[str, torch.Tensor]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        run_job(make_job("cola", limit=24, **LONG | settings), keep=folder)
        return load_file(folder / "model.safetensors")

    best, last, mean = kept(best_checkpoint="true"), kept(), kept(average_last="4")
    name = next(name for name in best if name.endswith("attention.self.query.weight"))
    assert not torch.equal(best[name], last[name])
    assert not torch.equal(mean[name], last[name])
    assert best.keys() == last.keys() == mean.keys()


def test_job_with_early_stopping_ends_before_the_last_step():
    whole, stopped = job_of(), job_of(early_stopping="1")
    values = values_of(whole)
    made = next(n + 1 for n in range(1, 6) if max(values[:n]) >= values[n])  # type: ignore[type-var]
    assert values_of(stopped) == values[:made]
    assert stopped.cost.steps == whole.cost.steps * made // 6
    chosen = Selection(evaluations=made, step=stopped.cost.steps, is_best=False)
    assert stopped.provenance["selection"] == asdict(chosen)
    assert stopped.evaluations[0].scores == stopped.curve[-1].scores


def test_averaged_weights_are_scored_without_checkpoint_selection():
    result = job_of(average_last="4")
    assert result.curve == job_of().curve
    assert "selection" not in result.provenance
    assert [e.split for e in result.evaluations] == ["dev", "test"]
    assert result.evaluations[0].predictions != job_of().evaluations[0].predictions


# Evaluation on a held-out part of train.


def test_job_does_not_train_on_held_out_rows_and_scores_dev_once():
    result = job_of("glue/rte", best_checkpoint="true", select_on="train:0.25")
    rows = read(find_task("glue/rte"), "train", parse_data("mini"), 24)
    left, held = hold_out(rows, 0.25)
    assert (len(left.examples), len(held.examples)) == (18, 6)
    assert result.cost.steps == 6 * 3
    assert result.provenance["data"]["glue/rte:train"]["rows"] == 24, "what was read"
    assert result.provenance["selection"]["held_out"] == 0.25
    accuracies = {point.scores["accuracy"] for point in result.curve if point.scores}
    assert all((6 * accuracy).is_integer() for accuracy in accuracies), "of six rows"
    assert [e.name for e in result.evaluations] == ["glue/rte:dev", "glue/rte:test"]
    assert len(result.evaluations[0].predictions) == 24


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("copa", {}),
        ("squad/v1.1", {}),
        ("conll2003/ner", {}),
        ("superglue/multirc", {}),
        ("cola", {"features": "last"}),
        ("cola", {"lora_rank": "2"}),
    ],
)
def test_every_head_can_hold_out_training_rows(
    task: str, more: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    result = job_of(task, best_checkpoint="true", select_on="train:0.3", **more)
    assert result.provenance["selection"]["held_out"] == 0.3
    assert result.evaluations[0].split == "dev"


def test_setting_select_on_is_part_of_the_job_key():
    keys = [
        make_job("glue/rte", **BEST | more).key
        for more in ({}, {"select_on": "train:0.1"}, {"select_on": "train:0.2"})
    ]
    assert len(set(keys)) == 3
    assert make_job("glue/rte", **BEST | {"select_on": "dev"}).key == keys[0]


@pytest.mark.parametrize(
    ("task", "scores", "value"),
    [
        ("glue/mrpc", {"f1": 0.8, "accuracy": 0.6}, 0.7),
        ("glue/mnli", {"accuracy": 0.6}, 0.6),
        ("glue/stsb", {"pearson": 0.5, "spearman": 0.7}, 0.6),
        ("glue/stsb", {"spearman": 0.7}, None),
        ("squad/v2.0", {"em": 0.3, "f1": 0.4}, 0.4),
        ("superglue/multirc", {"f1a": 0.3, "em": 0.1}, 0.2),
        ("conll2003/ner", {"f1": 0.9, "precision": 0.1}, 0.9),
        ("glue/rte", {}, None),
    ],
)
def test_headline_score_of_a_run_is_its_leaderboard_score(
    task: str, scores: dict[str, float], value: float | None
):
    assert headline(f"{task}:dev", scores) == (None if value is None else pytest.approx(value))
