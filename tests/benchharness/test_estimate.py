from dataclasses import replace

import pytest

from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.result import RunRow
from benchharness.machine import estimate_memory, estimate_seconds, estimate_states
from benchharness.models import MODELS, ModelSpec
from tests.helpers.plans import RTE, plan_job, plan_mini


def make_row(job: Job, **fields: object) -> RunRow:
    standard: dict[str, object] = {
        "key": job.key,
        "model": job.model,
        "weights": job.weights,
        "recipe": job.recipe,
        "recipe_digest": recipe_digest(job),
        "task": job.task,
        "data": job.data,
        "limit": job.limit,
        "seed": job.seed,
        "precision": job.precision,
        "status": "finished",
        "scores": {},
        "flags": {},
        "fingerprints": job.fingerprints,
        "seconds": 60.0,
        "parameters": 1,
        "finished": "2026-08-01T12:00:00Z",
        "error": "",
    }
    return RunRow(**{**standard, **fields})  # type: ignore[arg-type]


def test_time_estimate_is_the_median_of_matching_stored_runs() -> None:
    (job,) = plan_mini("rte")
    history = [
        make_row(job, seed=2, seconds=10.0),
        make_row(job, seed=3, seconds=30.0),
        make_row(job, seed=4, seconds=20.0),
        make_row(job, seconds=999.0, status="killed"),
        make_row(job, seconds=999.0, model="other"),
        make_row(job, seconds=999.0, task="glue/cola"),
        make_row(job, seconds=999.0, fingerprints={}),
        make_row(job, seconds=999.0, precision="fp8"),
        make_row(job, seconds=999.0, recipe_digest="another"),
    ]
    assert estimate_seconds(job, history, {}) == (20.0, False)


def test_time_estimate_without_stored_runs_is_rough_and_grows_with_the_work() -> None:
    (job,) = plan_mini("rte")
    (longer,) = plan_mini("rte", overrides={"epochs": "1000"})
    large = replace(job, checkpoint=MODELS["bert-large-uncased"].checkpoint)
    rows = dict.fromkeys(job.fingerprints.values(), 100)
    more = dict.fromkeys(job.fingerprints.values(), 1000)
    assert estimate_seconds(job, [], rows).rough
    seconds = [estimate_seconds(j, [], rows).seconds for j in (job, longer, large)]
    assert 0 < seconds[0] < seconds[1]
    assert seconds[0] < seconds[2]
    assert estimate_seconds(large, [], rows, gpu=True).seconds < seconds[2]
    assert estimate_seconds(large, [], more).seconds > 5 * seconds[2]


def test_time_estimate_exists_for_an_unregistered_model() -> None:
    spec = ModelSpec(name="org/x", checkpoint="org/x", revision="ab" * 20)
    job = plan_job([spec], [RTE])
    rows = dict.fromkeys(job.fingerprints.values(), 100)
    assert estimate_seconds(job, [], rows).seconds > 0


def test_memory_estimate_includes_copies_of_weights_for_selection_or_averaging() -> None:
    (job,) = plan_mini("rte")
    large = replace(job, checkpoint=MODELS["bert-large-uncased"].checkpoint)
    parameters = (MODELS["bert-large-uncased"].parameters or 0) * 1e6
    for choice in ({"best_checkpoint": "true"}, {"average_last": "2"}):
        (chosen,) = plan_mini("rte", overrides=choice)
        more = replace(chosen, checkpoint=large.checkpoint)
        assert estimate_memory(more) - estimate_memory(large) == 4 * parameters
        assert estimate_memory(more, gpu=True) - estimate_memory(large, gpu=True) == 4 * parameters


@pytest.mark.parametrize(
    ("changes", "bytes_per_weight"),
    [
        ({}, 16),
        ({"activation_checkpointing": "true"}, 16),
        ({"optimizer": "adafactor"}, 8),
        ({"lora_rank": "8"}, 4),
        ({"features": "last"}, 4),
    ],
)
def test_memory_estimate_counts_weights_gradients_and_states_of_the_optimizer(
    changes: dict[str, str], bytes_per_weight: int
) -> None:
    (job,) = plan_mini("rte", overrides=changes)
    large = replace(job, checkpoint=MODELS["bert-large-uncased"].checkpoint)
    parameters = (MODELS["bert-large-uncased"].parameters or 0) * 1e6
    assert estimate_states(large) - 2e9 == bytes_per_weight * parameters
    assert estimate_memory(large) - estimate_states(large) == 16 * parameters
