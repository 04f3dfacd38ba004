"""Tests of efficiency tasks, which time a job's loops alternating with a reference model."""

import json
import time
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pytest
import torch

from benchharness.driver.plan import plan
from benchharness.encoder import load_encoder
from benchharness.engines.slots import Slot, machine_of
from benchharness.errors import BenchError, JobError
from benchharness.extensions.efficiency import timing
from benchharness.extensions.efficiency.energy import EnergyCounter, processor_counters
from benchharness.extensions.efficiency.task import TimedPrediction
from benchharness.extensions.efficiency.timing import (
    Side,
    check_machine,
    documents,
    largest_batch,
    part,
    reference_of,
    time_encoder,
    variations,
)
from benchharness.extensions.plots.cost import timed_of
from benchharness.extensions.plots.section import Known, build_plots
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.job import MACHINE, Setting
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.result import Result
from benchharness.machine import machine_name
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.answers import answer_type
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_task
from benchharness.tasks.task import score
from benchharness.training.predict import OutOfMemoryError
from benchharness.worker.technique import Work
from tests.helpers.boards import make_runs, row_of
from tests.helpers.plans import plan_job, plan_jobs, request_of
from tests.helpers.plots import facts_by_key
from tests.helpers.soak import in_part
from tests.helpers.training import CPU, RECIPE, having

TASK: Any = find_task("efficiency/drawn-256")


def job_here(task: str = TASK.name, **fields: Any) -> Any:
    job = plan_job("tiny", task, precision="fp32", **fields)
    here = Setting(value=machine_name(torch.get_num_threads()), source="the test")
    return replace(job, settings={**job.settings, MACHINE: here})


def test_timed_lengths_follow_the_distribution_in_the_modernbert_script() -> None:
    """N(256, 64), of which few are clipped at 16 and 512; packaged lengths are divided by eight."""
    lengths = [e.tokens for e in read(TASK, "dev", parse_data("hub")).examples]  # type: ignore[attr-defined]
    assert (len(lengths), min(lengths) >= 16, max(lengths) <= 512) == (8192, True, True)
    assert fmean(lengths) == pytest.approx(256, abs=2)
    assert pstdev(lengths) == pytest.approx(64, abs=2)
    small = [e.tokens for e in read(TASK, "dev", parse_data("mini")).examples]  # type: ignore[attr-defined]
    assert len(small) == 8
    assert max(small) <= 64
    fixed = read(find_task("efficiency/fixed-8192"), "dev", parse_data("hub")).examples
    assert {e.tokens for e in fixed} == {8192}  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", [TASK.name, "efficiency/mnli-lengths"])
def test_timed_encoder_has_speed_latency_and_memory_scores(task: str) -> None:
    job = job_here(task, overrides={"passes": "2"})
    result = time_encoder(job, lambda _: None)
    (evaluation,) = result.evaluations
    found = evaluation.scores
    assert {"predict_speed", "train_speed", "p50_ms", "p95_ms"} < found.keys()
    assert "largest_batch" not in found  # a CPU's
    readable = bool(processor_counters())
    assert ("predict_joules_per_1000" in found, "train_joules_per_1000" in found) == (
        readable,
        readable,
    )
    assert 0 < found["p50_ms"] <= found["p95_ms"]
    assert found["predict_peak_mb"] <= found["train_peak_mb"]
    # A training step takes longer than its forward pass alone.
    assert found["predict_tokens_per_second"] > found["train_tokens_per_second"] > 0
    # The layers of BERT-mini have 8 times as many weights as those of the encoder (3.2 and 0.4
    # million).
    assert found["predict_speed"] > 1
    passes = result.provenance["passes"]
    assert np.array(passes["train"]["reference"]).shape == (2, 3)
    assert len(evaluation.predictions) == min(job.limit or 8, 8)
    assert Result.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_energy_of_a_processor_that_uses_50_watts_is_50_times_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = EnergyCounter(name="package-0", read=lambda: 50 * time.process_time())
    monkeypatch.setattr(timing, "processor_counters", lambda: [counter])
    (evaluation,) = time_encoder(job_here(overrides={"passes": "3"}), lambda _: None).evaluations
    tokens = sum(p["tokens"] for p in evaluation.predictions)
    for phase in ("predict", "train"):
        seconds = tokens / evaluation.scores[f"{phase}_tokens_per_cpu_second"]
        expected = 50 * seconds * 1000 / len(evaluation.predictions)
        found = evaluation.scores[f"{phase}_joules_per_1000"]
        assert found == pytest.approx(expected, rel=0.1)


def test_efficiency_scores_are_computed_from_sums_over_documents() -> None:
    """The expected values are for 300 tokens, 3 s, 2 s of the processor, and a reference of 8 s."""
    first = TimedPrediction(
        id="1", tokens=100, train=(1.0, 0.5, 2.0), predict=(0.5, 0.25, 0.75), alone=(0.010, 0.01),
        peaks=(10**9, 2 * 10**9),
    )  # fmt: skip
    other = replace(first, id="2", tokens=200, train=(2.0, 1.5, 6.0), alone=(0.030, 0.02))
    examples = [replace(e, id=str(n)) for n, e in enumerate(_two(), start=1)]
    found = score(TASK, "dev", [first, other], examples)
    assert found == {
        "predict_speed": pytest.approx(3.0),
        "train_speed": pytest.approx(4.0),
        "predict_tokens_per_second": pytest.approx(300.0),
        "train_tokens_per_second": pytest.approx(100.0),
        "predict_tokens_per_cpu_second": pytest.approx(600.0),
        "train_tokens_per_cpu_second": pytest.approx(150.0),
        "p50_ms": pytest.approx(20.0),
        "p95_ms": pytest.approx(29.0),
        "predict_peak_mb": 1000.0,
        "train_peak_mb": 2000.0,
    }
    # On a GPU, wall-clock time is used, and the largest batch is measured.
    gpu = [replace(p, train=(p.train[0], 0.0, 12.0), largest=96) for p in (first, other)]
    found = score(TASK, "dev", gpu, examples)
    assert (found["train_speed"], found["largest_batch"]) == (8.0, 96.0)
    assert "train_tokens_per_cpu_second" not in found
    used = [replace(p, joules=joules) for p, joules in ((first, (1.0, 4.0)), (other, (3.0, 9.0)))]
    found = score(TASK, "dev", used, examples)
    assert (found["predict_joules_per_1000"], found["train_joules_per_1000"]) == (2000, 6500)


def _two() -> Any:
    return read(TASK, "dev", parse_data("mini"), limit=2).examples


def side(batch_size: int = 3) -> tuple[Side, Any]:
    encoder = load_encoder("builtin:tiny", None, 1)
    features = documents(read(TASK, "dev", parse_data("mini")).examples, encoder, 64)  # type: ignore[arg-type]
    return Side.of(work_of(having(RECIPE, batch_size=batch_size)), encoder, features), features


def work_of(recipe: Recipe) -> Work:
    return Work(job=job_here(), recipe=recipe, compute=CPU)


def test_timed_training_pass_is_one_epoch_over_all_tokens() -> None:
    made, features = side()
    examples = read(TASK, "dev", parse_data("mini")).examples
    assert features.lengths.tolist() == [e.tokens for e in examples]  # type: ignore[attr-defined]
    before = made.network.state_dict()["classifier.output.weight"].clone()  # type: ignore[operator]
    clock, processor, joules = made.train()
    assert clock > 0
    assert joules >= 0
    assert processor > 0
    assert next(made.steps) == 4  # training on 8 documents in batches of 3 took steps 1 to 3
    assert not torch.equal(before, made.network.state_dict()["classifier.output.weight"])
    # `part` selects whole rows.
    some = part(features, np.array([2, 0]))
    assert some.lengths.tolist() == features.lengths[[2, 0]].tolist()
    assert some.token_ids[: some.lengths[0]].tolist() == (
        features.token_ids[features.starts[2] : features.starts[3]].tolist()
    )


def test_timed_model_and_reference_have_full_vocabulary_and_recipe_dropout() -> None:
    """A reduced vocabulary would make scores depend on the number of documents."""
    encoder = load_encoder("builtin:tiny", None, 1)
    features = documents(_two(), encoder, 64)
    recipe = having(RECIPE, dropout=0.0, classifier_dropout=0.0)
    for of in (encoder, features), reference_of("bert-mini", encoder, features):
        made = Side.of(work_of(recipe), *of)
        words: Any = made.network.get_submodule("encoder").get_input_embeddings()  # type: ignore[operator]
        assert words.num_embeddings == of[0].config.vocab_size
        assert {m.p for m in made.network.modules() if hasattr(m, "p")} == {0.0}


def test_timing_reference_has_the_size_of_bert_and_the_same_documents() -> None:
    encoder = replace(load_encoder("builtin:tiny", None, 1), max_tokens=2048)
    features = documents(_two(), encoder, 1024)
    made, read_too = reference_of("bert-mini", encoder, features)
    # Turc et al., table 1, states 11.3 million weights with the masked-token head; BERT's body has
    # 11.2 million.
    assert sum(w.numel() for w in made.network.parameters()) == pytest.approx(11.2e6, rel=0.03)
    assert made.config.max_position_embeddings == 1024
    assert read_too.lengths.tolist() == features.lengths.tolist()


@pytest.mark.parametrize("room", in_part([1, 5, 21, 64, 100], [1, 21]))
def test_largest_batch_that_fits_in_memory_is_found_within_12_5_percent(
    monkeypatch: Any, room: int
) -> None:
    made, _ = side()

    def training(_: Side, recipe: Any, batches: Any) -> Any:
        assert batches.is_whole
        assert batches.items == recipe.optim.batch_size == len(batches.targets)
        if batches.items > room:
            raise OutOfMemoryError(batches.items)
        yield 1

    monkeypatch.setattr(Side, "training", training)
    assert room * 7 / 8 - 1 <= largest_batch(made) <= room


def test_timing_passes_with_high_variation_are_reported() -> None:
    steady, shaky = [[1.0, 1.0]] * 4, [[1.0, 1.0], [1.0, 2.0]] * 2
    assert list(variations(np.array([steady, steady]))) == []
    (note,) = variations(np.array([steady, shaky]))
    assert note == "in the phase 'train', times vary by 38 % between passes"


def test_timing_job_on_another_machine_than_planned_is_an_error() -> None:
    with pytest.raises(JobError, match="timed on Z80, 1 thread, but this machine is "):
        check_machine("Z80, 1 thread", CPU)
    check_machine(machine_name(torch.get_num_threads()), CPU)


def test_measurements_of_several_models_cannot_form_an_ensemble() -> None:
    with pytest.raises(BenchError, match="cannot form an ensemble"):
        answer_type(TASK).average([])


def test_timing_task_longer_than_the_model_limit_is_skipped_with_a_note() -> None:
    made = plan(request_of(suite=("efficiency",), data="mini"))
    assert [job.task for job in made.jobs] == [
        "efficiency/fixed-512", "efficiency/drawn-256", "efficiency/mnli-lengths",
    ]  # fmt: skip
    (note,) = made.notes
    assert note == (
        "tiny reads at most 512 tokens, but the documents of efficiency/fixed-8192 have 8,192: the "
        "model is not timed on this task."
    )
    with pytest.raises(BenchError, match="is not timed on this task"):
        plan(request_of(task=("efficiency/fixed-8192",), data="mini"))
    with pytest.raises(BenchError, match="timed only on this machine: remove --engine slurm"):
        request_of(task=(TASK.name,), data="mini", engine="slurm")
    with pytest.raises(BenchError, match="is not supported when models are timed"):
        plan(request_of(task=(TASK.name,), data="mini", set=("lora_rank=8",)))


def test_timing_on_a_cpu_uses_few_documents_unless_a_limit_is_given() -> None:
    jobs = [
        plan_job("tiny", TASK.name, data="hub", precision="fp32", **others)
        for others in ({}, {"limit": 4}, {"gpu": True})
    ]
    assert [job.limit for job in jobs] == [8, 4, 1024]
    assert command_of(jobs[1]) == (
        "bench run --model tiny --suite efficiency --task drawn-256 --data hub --precision fp32 "
        "--limit 4"
    )


def test_machine_name_is_the_processor_with_threads_or_the_gpu() -> None:
    slot = Slot(device="cpu", environment={"OMP_NUM_THREADS": "3"})
    assert machine_of([slot]) == machine_name(3)
    assert machine_name(3).endswith(", 3 threads")
    assert machine_of([Slot(device="cuda:0", environment={})])


def timed(model: str, machine: str, rate: float) -> Any:
    """Return a stored row of a timed model."""
    job = plan_jobs(model, TASK.name, precision="fp32").jobs[0]
    settings = {**job.settings, MACHINE: Setting(value=machine, source="test")}
    result = time_encoder(job_here(limit=1, overrides={"passes": "1"}), lambda _: None)
    made = replace(result, job=replace(job, settings=settings, model=model))
    row = row_of(made)
    scores = {TASK.name: {**row.scores[TASK.name], "predict_tokens_per_second": rate}}
    return replace(row, settings=settings, scores=scores)


def test_results_of_different_machines_are_on_separate_leaderboards() -> None:
    rows = [timed("tiny", machine, 1e4) for machine in ("A, 2 threads", "B, 2 threads")]
    boards = build_boards(rows, SUITES["efficiency"])
    assert {board.machine for board in boards} == {
        "A, 2 threads, reference bert-mini",
        "B, 2 threads, reference bert-mini",
    }
    assert all(len(board.entries) == 1 for board in boards)
    assert "on A, 2 threads, reference bert-mini" in " ".join(board.data_label for board in boards)
    other = Setting(value="bert-base", source="test")
    beside = replace(rows[0], key="3", settings={**rows[0].settings, "reference": other})
    assert len(build_boards([rows[0], beside], SUITES["efficiency"])) == 2


def test_quality_is_plotted_against_prediction_time() -> None:
    """The times are from the machine with most models; models without a time are omitted."""
    runs = [run for run in make_runs() if isinstance(run, Result)]
    rows = list(map(row_of, runs))
    (board, *_) = build_boards(rows, SUITES["glue"])
    weights = dict.fromkeys(row.weights for row in rows if row.kind == "model")
    assert len(weights) > 1
    one = timed("tiny", "A, 2 threads", 2e4)
    half = replace(one, scores={TASK.name: {"predict_tokens_per_second": 1e4}})
    first, *others = weights
    slower = [replace(half, weights=each) for each in (*others, "other")]
    elsewhere = replace(timed("tiny", "B", 1e9), weights=first)
    found = timed_of([replace(one, weights=first), *slower, elsewhere])
    assert found.machine == "A, 2 threads, fp32"
    assert (found.seconds[first], found.seconds["other"]) == (50.0, 100.0)
    facts = {
        run.job.key: replace(known, predict_seconds=found.seconds[run.job.weights])
        for run in runs
        if (known := facts_by_key(runs).get(run.job.key))
    }
    plots = build_plots(board, "a", Known(facts=facts, timed=found))
    choices = [f.choice for each in plots.tradeoffs for f in each.figures]
    assert "prediction time (A, 2 threads, fp32)" in choices
    assert "prediction time" in plots.tradeoffs[0].table.columns
    plain = build_plots(board, "a", Known(facts=facts_by_key(runs)))
    assert "prediction time" not in plain.tradeoffs[0].table.columns
