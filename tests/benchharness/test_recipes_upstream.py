"""Tests of recipes against the scripts of the models' authors, listed in recipes_upstream.csv.

A line of that file is one value of a recipe and task, in a script, README or configuration at a
pinned commit, with its line number. Steps are listed as printed and computed again here. If a
recipe differs, its table [[unlike]] names the file, the settings and the reason.
"""

import csv
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchharness.leaderboard.job import START_FROM, Setting
from benchharness.models import ModelSpec
from benchharness.recipes import Recipe, resolve_recipe
from benchharness.recipes.read import packaged_names
from benchharness.recipes.recipe import count_steps
from benchharness.recipes.resolve import with_start
from benchharness.tasks.suites import TASKS

TRAIN_ROWS = {
    "glue/cola": 8551,
    "glue/sst2": 67349,
    "glue/mrpc": 3668,
    "glue/stsb": 5749,
    "glue/qqp": 363846,
    "glue/mnli": 392702,
    "glue/qnli": 104743,
    "glue/rte": 2490,
    "glue/wnli": 635,
    "conll2003/ner": 14041,
    "race/all": 87866,
    "squad/v2.0": 130319,
    "superglue/copa": 400,
    "superglue/record": 100730,
}

_WORDS = (START_FROM, "orders")

_BATCH = ("devices", "device_batch_size")
"""Upstream settings of a batch that several devices share."""


@dataclass(frozen=True)
class Fact:
    """One value of an upstream file; `task` is a task's full name, or "glue/*" for a suite."""

    recipe: str
    task: str
    setting: str
    value: str
    repository: str
    commit: str
    file: str
    line: int

    def tasks(self) -> list[str]:
        suite, _, task = self.task.partition("/")
        if task != "*":
            return [self.task]
        # Most authors have no file for WNLI, whose values are listed separately.
        return [t for t in TASKS if t.startswith(f"{suite}/") and t not in {"glue/wnli", "glue/ax"}]


def read_facts() -> list[Fact]:
    path = Path(__file__).with_name("recipes_upstream.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return [Fact(**{**row, "line": int(row["line"])}) for row in csv.DictReader(file)]


FACTS = read_facts()


@dataclass(frozen=True)
class Unlike:
    """A table [[unlike]] of a recipe."""

    recipe: str
    file: str
    tasks: tuple[str, ...]
    settings: tuple[str, ...]
    reason: str

    def covers(self, fact: Fact) -> bool:
        return (
            (fact.recipe, fact.file) == (self.recipe, self.file)
            and fact.setting in self.settings
            and set(fact.tasks()) <= set(self.tasks)
        )


def read_unlike() -> Iterator[Unlike]:
    for name, path in packaged_names().items():
        for table in tomllib.loads(path.read_text(encoding="utf-8")).get("unlike", []):
            tasks, settings = tuple(table.pop("tasks")), tuple(table.pop("settings"))
            yield Unlike(recipe=name, tasks=tasks, settings=settings, **table)


UNLIKE = tuple(read_unlike())


def settings_of(recipe: str, task: str) -> Mapping[str, Setting]:
    spec = ModelSpec(name="x", checkpoint="org/x", recipe=recipe)
    resolved = resolve_recipe(spec, task, None, {})
    return with_start(resolved, spec, TASKS[task]).settings


def differs(fact: Fact, task: str) -> str:
    """Return the recipe's value if it differs from the upstream value, else ""."""
    settings = settings_of(fact.recipe, task)
    if fact.setting in _WORDS:
        found = settings.get(fact.setting)
        return "" if found is not None and found.value == fact.value else f"{found}"
    if fact.setting in _BATCH:
        return differs_in_batch(fact, settings)
    if fact.setting.endswith(("_steps", "_updates")):
        return differs_in_steps(fact, task, settings)
    # A job lacks values that are switched off, e.g. no layer decay or the checkpoint's own dropout.
    found = settings.get(fact.setting)
    return "" if found is not None and float(found.value) == float(fact.value) else f"{found}"


def differs_in_batch(fact: Fact, settings: Mapping[str, Setting]) -> str:
    """Return the total batch size of the recipe if it differs from that of all devices, else ""."""
    place = (fact.recipe, fact.task, fact.file)
    (devices, each) = (
        next(int(f.value) for f in FACTS if (f.recipe, f.task, f.file, f.setting) == (*place, name))
        for name in _BATCH
    )
    batch = settings["batch_size"].value
    return "" if batch == devices * each else f"{batch}"


def differs_in_steps(fact: Fact, task: str, settings: Mapping[str, Setting]) -> str:
    """Return the recipe's steps if they differ from the printed ones on the whole data, else "".

    fairseq omits rows that are too long, and makes batches by tokens: its steps may differ by 2 %.
    """
    epochs, ratio, batch = (settings[n].value for n in ("epochs", "warmup_ratio", "batch_size"))
    steps = count_steps([TRAIN_ROWS[task]], int(batch), float(epochs))
    ours = math.ceil(steps * float(ratio)) if fact.setting.startswith("warmup") else steps
    slack = 0.02 * int(fact.value) if fact.setting.endswith("_updates") else 0
    return "" if abs(ours - int(fact.value)) <= slack else f"{ours}"


@pytest.mark.parametrize("recipe", sorted({fact.recipe for fact in FACTS}))
def test_recipe_values_equal_upstream_values_or_have_a_listed_reason(recipe: str) -> None:
    unexplained = {
        f"{task} {fact.setting} {fact.value} ({fact.file}:{fact.line})": difference
        for fact in FACTS
        if fact.recipe == recipe and not any(unlike.covers(fact) for unlike in UNLIKE)
        for task in fact.tasks()
        if (difference := differs(fact, task))
    }
    assert unexplained == {}


@pytest.mark.parametrize("unlike", UNLIKE, ids=lambda unlike: f"{unlike.recipe}-{unlike.file}")
def test_each_listed_difference_from_upstream_values_exists(unlike: Unlike) -> None:
    """Each listed task and setting differs from an upstream value, and it has a reason."""
    found = [
        (task, fact.setting)
        for fact in FACTS
        if unlike.covers(fact)
        for task in fact.tasks()
        if differs(fact, task)
    ]
    assert {task for task, _ in found} == set(unlike.tasks)
    assert {setting for _, setting in found} == set(unlike.settings)
    assert len(unlike.reason.split()) > 5


def test_each_upstream_value_is_listed_once_with_a_pinned_commit() -> None:
    places = Counter((f.recipe, f.task, f.setting, f.repository, f.file) for f in FACTS)
    assert [place for place, count in places.items() if count > 1] == []
    assert len(FACTS) >= 400
    assert all(len(fact.commit) == 40 and fact.line > 0 for fact in FACTS)
    assert {fact.recipe for fact in FACTS} <= packaged_names().keys()


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [("learning_rate", "1"), ("warmup_steps", "7"), ("start_from", "glue/rte")],
)
def test_recipe_value_different_from_upstream_is_detected(setting: str, wrong: str) -> None:
    (right,) = (
        f for f in FACTS if (f.recipe, f.task, f.setting) == ("deberta", "glue/mrpc", setting)
    )
    assert not differs(right, right.task)
    assert differs(Fact(**{**vars(right), "value": wrong}), right.task)


STEPS = re.compile(r"(\d+) of (\d+) steps")


@pytest.mark.parametrize("task", [name for name in TRAIN_ROWS if name.startswith("glue/")])
@pytest.mark.parametrize(
    "name", ["albert", "xlnet", *(name for name in packaged_names() if name.startswith("deberta"))]
)
def test_step_counts_in_recipe_sources_match_the_size_of_the_training_data(
    name: str, task: str
) -> None:
    settings = settings_of(name, task)
    recipe = Recipe.from_settings(settings)
    printed = STEPS.search(settings["warmup_ratio"].source)
    if printed is None:
        assert settings["warmup_ratio"].source.startswith("as bert")
        return
    warmup, total = map(int, printed.groups())
    steps = count_steps([TRAIN_ROWS[task]], recipe.optim.batch_size, recipe.schedule.epochs)
    assert steps == total
    assert math.ceil(steps * recipe.schedule.warmup_ratio) == warmup
