import pytest

from benchharness.extensions.plots.cost import (
    ModelSize,
    RunFacts,
    facts_of,
    size_of_run,
    training_flops,
)
from benchharness.leaderboard.job import Setting
from tests.helpers.boards import make_job
from tests.helpers.results import make_cost, make_failure, make_result

BERT = ModelSize(parameters=110e6, backbone=85.1e6)
SIZES = {"bert-base": BERT}


def facts(**fields: object) -> RunFacts:
    found = facts_of(make_result(**fields))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_run_of_a_known_model_has_its_documented_size() -> None:
    run = facts(cost=make_cost(parameters=109_483_778))
    assert size_of_run("bert-base", run, SIZES) is BERT
    assert size_of_run("/models/BERT-base", run, SIZES) is BERT


def test_model_size_is_measured_if_a_known_name_has_other_weights() -> None:
    run = facts(cost=make_cost(parameters=22_713_601))
    assert size_of_run("bert-base", run, SIZES) == ModelSize(parameters=22_713_601)


def test_training_flops_are_6_times_weights_times_tokens() -> None:
    run = facts(cost=make_cost(train_tokens=1000))
    assert training_flops(BERT, run) == 6 * 85.1e6 * 1000
    assert training_flops(ModelSize(parameters=10), run) == 6 * 10 * 1000


def test_models_with_shared_layers_have_no_training_flops_estimate() -> None:
    albert = ModelSize(parameters=12e6, backbone=7.2e6, is_dense=False)
    assert training_flops(albert, facts()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("lora_rank", 8), ("features", "last"), ("unfreeze", "gradual"), ("frozen_layers", 6)],
)
def test_partially_trained_models_have_no_training_flops_estimate(
    name: str, value: str | int
) -> None:
    settings = {**make_job().settings, name: Setting(value=value, source="--set")}
    run = facts(job=make_job(settings={k: s.value for k, s in settings.items()}))
    assert not run.trains_all
    assert training_flops(BERT, run) is None


def test_run_with_default_settings_counts_as_training_all_weights() -> None:
    values = {"lora_rank": 0, "features": "fine-tuned", "unfreeze": "all", "frozen_layers": 0}
    assert facts(job=make_job(settings=values)).trains_all


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ({"device": "NVIDIA H200", "cpu": "a CPU", "threads": 4}, "NVIDIA H200"),
        ({"device": "cpu", "cpu": "AMD EPYC", "threads": 1}, "AMD EPYC, 1 thread"),
        ({"device": "cpu", "cpu": "AMD EPYC", "threads": 4}, "AMD EPYC, 4 threads"),
        ({"cpu": "a processor"}, "a processor"),
        ({}, ""),
    ],
)
def test_machine_label_is_the_gpu_or_the_cpu_with_its_threads(
    machine: dict[str, object], text: str
) -> None:
    assert facts(provenance={"machine": machine}).machine == text


def test_failures_baselines_and_ensembles_have_no_costs() -> None:
    assert facts_of(make_failure()) is None
    assert facts_of(make_result(make_job(kind="baseline", weights="baseline:majority"))) is None
    assert facts_of(make_result(make_job(kind="ensemble", weights="ensemble:abc"))) is None
    assert facts_of(make_result(cost=make_cost(parameters=0))) is None
