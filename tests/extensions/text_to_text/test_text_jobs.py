"""Tests of text-to-text jobs, from the option to a result that resumes bit for bit."""

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers.optimization import Adafactor

from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.models import ModelSpec, find_model
from benchharness.models.weights import require_checkpoint
from benchharness.recipes import resolve_recipe
from benchharness.tasks.suites import find_task
from benchharness.training.optimizer import (
    make_optimizer,
    moments,
    param_groups,
    restore_moments,
)
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.plans import plan_jobs
from tests.helpers.stopped_jobs import deterministic, stop
from tests.helpers.text_models import TEXT, save_text_model, text_job
from tests.helpers.training import RECIPE, having

T5_SMALL = "t5-small"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_text_model(tmp_path_factory.mktemp("models") / "t5")


# The recipe.


def settings_of(
    model: str, task: str, recipe: str | None = None, **overrides: str
) -> dict[str, Any]:
    task = find_task(task).name
    found = resolve_recipe(find_model(model), task, recipe, overrides)
    return {name: setting.value for name, setting in found.settings.items()}


def test_text_to_text_recipe_has_the_settings_of_t5():
    found = settings_of(T5_SMALL, "glue/mnli", **TEXT)
    assert (found["learning_rate"], found["schedule"]) == (1e-3, "constant")
    assert (found["optimizer"], found["steps"], found["epochs"]) == ("adafactor", 2**18, 0.0)
    assert (found["dropout"], found["weight_decay"], found["warmup_ratio"]) == (0.1, 0.0, 0.0)
    assert (found["batch_size"], found["evaluations"]) == (8, 2**18 // 1000)
    assert (found["max_tokens"], found["max_target_tokens"]) == (512, 84)
    assert found["best_checkpoint"] is True
    assert not [name for name in found if name.startswith("adam_")]
    squad = settings_of(T5_SMALL, "squad/v1.1", **TEXT)
    assert (squad["batch_size"], squad["evaluations"]) == (128, 2**18 // 5000)
    assert squad["max_target_tokens"] == 97
    assert not {"stride", "max_question_tokens", "beam_size"} & squad.keys()


def test_job_without_text_to_text_has_none_of_the_text_settings():
    for task in ("glue/mnli", "squad/v1.1", "superglue/copa"):
        found = settings_of(T5_SMALL, task)
        assert not {"as_text", "steps", "optimizer", "max_target_tokens"} & found.keys()
        assert found == settings_of(T5_SMALL, task, as_text="false", max_target_tokens="9")


def test_setting_epochs_replaces_steps_and_vice_versa():
    assert settings_of(T5_SMALL, "glue/rte", epochs="3", **TEXT)["epochs"] == 3.0
    assert "steps" not in settings_of(T5_SMALL, "glue/rte", epochs="3", **TEXT)
    assert settings_of("tiny", "glue/rte", steps="50")["epochs"] == 0.0


@pytest.mark.parametrize(
    ("recipe", "settings", "name", "overridden"),
    [
        (None, TEXT, "text", False),
        ("paper", TEXT, "text", False),
        ("fast", TEXT, "text-fast", False),
        (None, TEXT | {"dropout": "0"}, "text", True),
        (None, {}, "paper", False),
        ("fast", {"as_text": "no"}, "fast", False),
    ],
)
def test_recipe_of_a_text_to_text_job_is_named_text(
    recipe: str | None, settings: dict[str, str], name: str, overridden: bool
):
    found = resolve_recipe(find_model(T5_SMALL), "glue/rte", recipe, settings)
    assert (found.name, found.overridden) == (name, overridden)


def test_recipe_file_overrides_the_settings_of_t5(tmp_path: Path):
    own = tmp_path / "mine.toml"
    own.write_text("[default]\nas_text = true\nlearning_rate = 5e-4\n")
    spec = find_model(T5_SMALL)
    found = resolve_recipe(spec, "glue/rte", str(own), {})
    assert found.name == "mine"
    assert found.settings["learning_rate"].value == 5e-4
    assert found.settings["optimizer"].value == "adafactor"
    assert "as_text" not in resolve_recipe(spec, "glue/rte", str(own), {"as_text": "no"}).settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"as_text": "maybe"}, r"as_text is 'maybe' \(--set\), expected true or false"),
        (TEXT | {"features": "last"}, r"features is 'last' .* but as_text is True"),
        (TEXT | {"lora_rank": "4"}, r"lora_rank is 4 .* which trains the whole encoder"),
        (TEXT | {"layer_decay": "0.9"}, r"layer_decay is 0.9 .* but as_text is True"),
        (TEXT | {"unfreeze": "gradual"}, r"unfreeze is 'gradual' .* but as_text is True"),
        (TEXT | {"max_target_tokens": "2"}, r"max_target_tokens is '2' .* at least 3"),
        ({"optimizer": "sgd"}, r"optimizer is 'sgd' .* one of: adamw, adafactor"),
    ],
)
def test_settings_incompatible_with_text_to_text_are_an_error(
    settings: dict[str, str], problem: str
):
    with pytest.raises(BenchError, match=problem):
        resolve_recipe(find_model(T5_SMALL), "glue/rte", None, settings)


def test_planning_a_text_to_text_job_for_an_encoder_only_model_is_an_error():
    with pytest.raises(BenchError, match=r"tiny belongs to the family bert, which has no decoder"):
        resolve_recipe(find_model("tiny"), "glue/rte", None, TEXT)


def test_planning_a_text_to_text_job_on_a_tagging_task_is_an_error():
    with pytest.raises(BenchError, match=r"conll2003/ner .* have no text form"):
        plan_jobs(T5_SMALL, "ner", overrides=TEXT)


def test_checkpoint_that_does_not_fit_text_to_text_is_an_error_before_a_run(
    checkpoint: Path, tmp_path: Path
):
    bert = save_family(tmp_path / "bert", "bert")
    bart = save_text_model(tmp_path / "bart", "bart")
    for folder in (checkpoint, bart):
        require_checkpoint(str(folder), None, whole=True)
    with pytest.raises(ModelError, match=r"contains bert, which has no decoder to generate"):
        require_checkpoint(str(bert), None, whole=True)
    with pytest.raises(ModelError, match=r"pass --text-to-text"):
        require_checkpoint(str(bart), None)


# Complete jobs.


def test_text_to_text_job_runs_for_each_head_type(checkpoint: Path):
    for task in ("glue/stsb", "superglue/wsc", "superglue/copa", "superglue/record", "squad/v2.0"):
        job = text_job(checkpoint, task, limit=8, steps="2", evaluations="1", max_target_tokens="6")
        result = Result.from_json(run_job(job).to_json())
        assert job.recipe == "text"
        assert {e.name for e in result.evaluations} == {
            f"{task}:{split}" for task, split in job.predicted_splits
        }
        dev = result.evaluations[0]
        assert all(math.isfinite(value) for value in dev.scores.values())
        assert len(predictions_of(dev)) == len(dev.predictions)


def test_generated_answers_that_are_not_a_label_are_counted_in_a_warning_of_the_run(
    checkpoint: Path,
):
    job = text_job(checkpoint, steps="1", evaluations="1", learning_rate="1e-9")
    dev = run_job(job).evaluations[0]
    assert dev.scores == {"accuracy": 0.0}
    assert "16 of 16 answers are not a valid label" in dev.flags
    assert {p.label for p in predictions_of(dev)} == {""}  # type: ignore[union-attr]


@pytest.mark.parametrize("optimizer", ["adafactor", "adamw"])
def test_interrupted_text_to_text_job_resumes_bit_for_bit(
    checkpoint: Path, tmp_path: Path, optimizer: str
):
    job = text_job(checkpoint, optimizer=optimizer, best_checkpoint="true", dropout="0.1")
    whole = run_job(job)
    stop(job, tmp_path, step=4)
    again = run_job(job, snapshots=tmp_path)
    assert again.provenance["resumed"]["steps"] == [4]
    assert deterministic(again) == deterministic(whole)


def test_text_to_text_job_can_start_from_another_text_to_text_job(checkpoint: Path, tmp_path: Path):
    first = text_job(checkpoint, "glue/mnli", limit=12, steps="2", evaluations="1")
    run_job(first, keep=tmp_path / first.key)
    plan = plan_jobs(
        str(checkpoint),
        "glue/rte",
        overrides=dict(TEXT, steps="2", batch_size="8", evaluations="1", learning_rate="0.01"),
        limit=12,
        precision="fp32",
        test=True,
        start_from="glue/mnli",
    )
    mnli, rte = plan.jobs
    assert rte.start_from == mnli.key == first.key
    assert run_job(rte, start_from=tmp_path / first.key).provenance["started_from"]


# Adafactor, compared with the equations of its paper.


def test_adafactor_follows_the_formula_of_its_paper():
    """arXiv:1804.04235, algorithm 4 with relative step sizes as in T5, over five steps."""
    torch.manual_seed(3)
    network = nn.Linear(5, 3)
    weights = [w.detach().double().clone() for w in network.parameters()]
    recipe = having(RECIPE, optimizer="adafactor", learning_rate=0.02, weight_decay=0.0)
    optimizer = make_optimizer(network, recipe)
    kept: list[Any] = [None, None]
    for step in range(1, 6):
        decay = 1 - step**-0.8
        for i, weight in enumerate(network.parameters()):
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
            grad, mine = weight.grad.double(), weights[i]
            square = grad**2 + 1e-30
            if grad.ndim == 2:
                rows, columns = kept[i] or (0.0, 0.0)
                rows = decay * rows + (1 - decay) * square.mean(1)
                columns = decay * columns + (1 - decay) * square.mean(0)
                kept[i] = (rows, columns)
                mean = torch.outer(rows, columns) / rows.mean()
            else:
                kept[i] = mean = (
                    decay * (0.0 if kept[i] is None else kept[i]) + (1 - decay) * square
                )
            update = grad / mean.sqrt()
            update /= max(1.0, float(update.pow(2).mean().sqrt()))
            scale = max(1e-3, float(mine.pow(2).mean().sqrt()))
            weights[i] = mine - 0.02 * scale * update
        optimizer.step()
    for weight, mine in zip(network.parameters(), weights, strict=True):
        torch.testing.assert_close(weight.detach().double(), mine, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_adafactor_equals_transformers_bit_for_bit(weight_decay: float):
    """Include weights whose scale is below the minimum, 1e-3."""
    torch.manual_seed(3)
    ours = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 40), nn.LayerNorm(40))
    with torch.no_grad():
        ours[1].weight.mul_(1e-3)
        ours[1].bias.zero_()
    theirs = deepcopy(ours)
    recipe = having(RECIPE, optimizer="adafactor", learning_rate=0.02, weight_decay=weight_decay)
    one = make_optimizer(ours, recipe)
    other = Adafactor(param_groups(theirs, recipe), lr=0.02, relative_step=False)
    for _ in range(5):
        for mine, their in zip(ours.parameters(), theirs.parameters(), strict=True):
            their.grad = torch.randn(their.shape)
            mine.grad = their.grad.clone()
        one.step()
        other.step()
    for mine, their in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, their)


def test_adafactor_moments_are_restored_from_a_saved_state():
    network = nn.Linear(4, 2)
    recipe = having(RECIPE, optimizer="adafactor")
    one, other = make_optimizer(network, recipe), make_optimizer(network, recipe)
    for weight in network.parameters():
        weight.grad = torch.ones_like(weight)
    one.step()
    kept = moments(one)
    assert all(isinstance(value, torch.Tensor) for value in kept.values())
    restore_moments(other, kept)
    assert {name: value.tolist() for name, value in moments(other).items()} == {
        name: value.tolist() for name, value in kept.items()
    }


def test_a_hub_model_of_unknown_family_is_accepted_at_planning():
    """The worker checks a hub checkpoint of unknown family."""
    spec = ModelSpec(name="x", checkpoint="org/x")
    assert resolve_recipe(spec, "glue/rte", None, TEXT).name == "text"
