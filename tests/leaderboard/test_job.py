from dataclasses import replace

import pytest

from benchharness.leaderboard.job import START_FROM, Job, Setting, Start
from benchharness.leaderboard.store.schema import recipe_digest
from tests.helpers.results import make_job

KEY = "ab" * 32


def started(value: str, source: str = "a paper", start_from: str | None = KEY) -> Job:
    job = make_job(task="glue/rte")
    settings = {**job.settings, START_FROM: Setting(value=value, source=source)}
    start = Start(kind="task" if start_from else "checkpoint", name=value, model="minilm")
    return replace(job, settings=settings, start=start, start_from=start_from)


def test_the_run_that_a_job_starts_from_is_part_of_its_key() -> None:
    keys = {replace(make_job(), start_from=start).key for start in (None, KEY, "cd" * 32)}
    assert len(keys) == 3


def test_what_that_run_is_called_is_not() -> None:
    assert started("glue/mnli").key == started("snli/snli").key
    assert started("pretrained", start_from=None).key == make_job(task="glue/rte").key


def test_a_start_is_no_hyperparameter() -> None:
    job = started("glue/mnli")
    assert START_FROM not in job.values
    assert recipe_digest(job) == recipe_digest(make_job())


def test_a_start_is_named_for_a_reader() -> None:
    assert started("glue/mnli").started_from == "glue/mnli (run abababababab)"
    assert replace(make_job(), start_from=KEY).started_from == "run abababababab"
    assert make_job().started_from == ""
    assert replace(make_job(), start=Start(kind="pretrained")).started_from == ""
    assert started("my-mnli", start_from=None).started_from == "my-mnli"


def test_a_job_survives_its_json() -> None:
    job = started("glue/mnli")
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    "changed",
    [{"fingerprints": []}, {"fingerprints": {"glue/rte:dev": []}}, {"model": None}, {"task": 7}],
)
def test_a_job_of_other_types_is_none(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Job.from_json(make_job().to_json() | changed)
