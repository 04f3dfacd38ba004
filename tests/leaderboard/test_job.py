import re
from dataclasses import fields, replace

import pytest

from benchharness.leaderboard.job import (
    START_FROM,
    Job,
    Setting,
    Stage,
    Start,
    Teacher,
    Trust,
    is_setting,
    recipe_digest,
)
from tests.helpers.results import make_job

KEY = "ab" * 32


def started(value: str, source: str = "a paper", start_from: str | None = KEY) -> Job:
    job = make_job(task="glue/rte")
    settings = {**job.settings, START_FROM: Setting(value=value, source=source)}
    start = Start(kind="task" if start_from else "checkpoint", name=value, model="minilm")
    return replace(job, settings=settings, start=start, start_from=start_from)


TEACHER = Teacher(run=KEY, model="bert-large", variant="v", alone="cd" * 32)
OTHER = {
    "weights": "other",
    "task": "glue/cola",
    "task_version": 7,
    "seed": 9,
    "precision": "bf16",
    "fingerprints": {"glue/rte:dev": "x"},
    "documents": {"glue/rte:dev": "x"},
    "settings": {"epochs": Setting(value=4, source="a paper")},
    "start_from": KEY,
    "teacher": TEACHER,
    "plugins": {"mine": "digest"},
    "method": 99,
    "trust": Trust(remote_code=True),
}
"""Fields that can change a result, with other values."""

NAMES = {
    "model": "other",
    "checkpoint": "/other",
    "data": "/other",
    "recipe": "other",
    "own_recipe": True,
    "overridden": True,
    "is_sweep": True,
    "source": "them",
    "limit": 5,
    "start": Start(kind="pretrained"),
    "stage": Stage(run="r", step=1),
    "off": {"dropout": 0.1},
}


def test_job_key_depends_only_on_fields_that_change_a_result() -> None:
    job = make_job(task="glue/rte")
    assert len({job.key, *(replace(job, **{name: OTHER[name]}).key for name in OTHER)}) == 1 + len(
        OTHER
    )
    assert {replace(job, **{name: NAMES[name]}).key for name in NAMES} == {job.key}
    assert set(OTHER) | set(NAMES) | {"kind", "definition"} == {each.name for each in fields(Job)}
    sources = {name: replace(each, source="else") for name, each in job.settings.items()}
    backwards = dict(reversed(sources.items()))
    splits = dict(reversed(job.fingerprints.items()))
    assert replace(job, settings=backwards, fingerprints=splits).key == job.key
    assert re.fullmatch("[0-9a-f]{64}", job.key)


def test_job_properties_are_derived_from_settings_start_and_tasks() -> None:
    job = make_job(task="glue/rte")
    assert (job.needs, job.shown_teacher, job.as_text, job.is_zero_shot) == ((), "", False, False)
    taught = replace(job, start_from="ef" * 32, teacher=TEACHER)
    assert taught.needs == ("ef" * 32, KEY)
    assert taught.shown_teacher == "bert-large (run abababababab)"
    text = replace(job, settings={"as_text": Setting(value=True, source="")})
    assert text.as_text
    cloze = replace(job, recipe="zero-shot")
    assert cloze.is_zero_shot
    assert not replace(cloze, own_recipe=True).is_zero_shot
    assert job.curve_split == "dev"
    held = replace(job, settings={"select_on": Setting(value="train:0.1", source="")})
    assert held.curve_split == "held-out"
    splits = {"glue/rte:dev": "1", "glue/rte:train": "2", "glue/cola:train": "3"}
    shared = replace(job, fingerprints=splits)
    assert (shared.trained_tasks, shared.title) == (("glue/cola", "glue/rte"), "2 tasks together")
    assert shared.predicted_splits == (("glue/rte", "dev"),)


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        *(("lr=3e-4", True), ("learning_rate=0.0003", True), ("lr=3e-5", False)),
        *(("lr", False), ("batch_size=16", False), ("lr=fast", False), ("epochs=3", False)),
    ],
)
def test_word_from_the_command_line_matches_a_setting_by_short_or_full_name_and_value(
    word: str, fits: bool
) -> None:
    assert is_setting(word, {"learning_rate": Setting(value=3e-4, source="")}) == fits


def test_case_of_letters_is_ignored_if_a_word_is_matched_with_a_setting() -> None:
    settings = {"template": Setting(value="It was {mask}", source="")}
    assert is_setting("template=it was {MASK}", settings)
    assert not is_setting("template=It is {mask}", settings)


def test_job_key_does_not_depend_on_the_name_of_the_start_run() -> None:
    assert started("glue/mnli").key == started("snli/snli").key
    assert started("pretrained", start_from=None).key == make_job(task="glue/rte").key


def test_start_run_is_not_part_of_the_recipe_digest() -> None:
    job = started("glue/mnli")
    assert START_FROM not in job.values
    assert recipe_digest(job) == recipe_digest(make_job())


def test_start_run_of_a_job_has_a_readable_name() -> None:
    assert started("glue/mnli").started_from == "glue/mnli (run abababababab)"
    assert replace(make_job(), start_from=KEY).started_from == "run abababababab"
    assert make_job().started_from == ""
    assert replace(make_job(), start=Start(kind="pretrained")).started_from == ""
    assert started("my-mnli", start_from=None).started_from == "my-mnli"


def test_job_round_trips_through_json() -> None:
    job = started("glue/mnli")
    assert Job.from_json(job.to_json()) == job


def test_setting_whose_source_is_not_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="a setting's source has the wrong type: 3"):
        Setting.from_json({"value": 0.1, "source": 3})


@pytest.mark.parametrize(
    "changed",
    [
        *({"fingerprints": []}, {"fingerprints": {"glue/rte:dev": []}}, {"model": None}),
        *({"task": 7}, {"overridden": []}, {"seed": "1"}, {"limit": 0.5}, {"start_from": []}),
    ],
)
def test_job_with_fields_of_wrong_types_is_an_error(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Job.from_json(make_job().to_json() | changed)
