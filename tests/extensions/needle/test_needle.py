"""Tests of the needle probe: reproducible rows, reachable needles, encoders that are too short."""

import re
from collections import Counter
from typing import Any

import pytest
from transformers import AutoTokenizer

from benchharness.driver.plan import plan
from benchharness.errors import BenchError
from benchharness.extensions.needle.tasks import DEPTHS, NUMBERS
from benchharness.extensions.needle.tasks import TASKS as NEEDLE_TASKS
from benchharness.extensions.plots.rows import category_names
from benchharness.heads import Limits
from benchharness.heads.pair import encode
from benchharness.models import find_model
from benchharness.recipes.resolve import resolve_recipe
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_task
from benchharness.tasks.task import score
from benchharness.tiny import folder
from benchharness.worker.job import run_job
from tests.helpers.plans import plan_job, request_of

NEEDLE = re.compile(r"The pass key is (\w+)\.")
SHORT = find_task("needle/512")


def rows(task: Any, split: str = "dev", data: str = "hub", limit: int | None = None) -> Any:
    return read(task, split, parse_data(data), limit=limit)


def test_generated_needle_rows_have_fixed_fingerprints() -> None:
    found = [rows(task, data="mini").fingerprint[:8] for task in NEEDLE_TASKS]
    assert found == ["64a69c79", "f358c84f", "486a3d6e", "96da95f3", "5fcfa590"]
    assert rows(SHORT).fingerprint[:8] == "a966eddd"
    assert rows(SHORT, "train").fingerprint[:8] == "37d0a9d7"


@pytest.mark.parametrize("task", NEEDLE_TASKS, ids=lambda task: task.name)
def test_needle_rows_have_every_label_equally_often_at_every_depth(task: Any) -> None:
    data = "hub" if task is SHORT else "mini"
    for split, times in (("train", 20), ("dev", 5)):
        examples = rows(task, split, data).examples
        cells = Counter((example.categories, example.label) for example in examples)
        wanted = {((f"depth_{depth}",), number) for depth in DEPTHS for number in NUMBERS}
        assert cells == dict.fromkeys(wanted, times)
        assert len({example.text_a for example in examples}) == len(examples)


def test_needle_occurs_once_at_its_depth_and_contains_the_label() -> None:
    for task in (SHORT, find_task("needle/8192")):
        for example in rows(task, limit=100).examples:
            (found,) = NEEDLE.finditer(example.text_a)
            assert found[1] == example.label
            sentences = example.text_a.split(". ")
            place = example.text_a[: found.start()].count(". ") / len(sentences)
            depth = int(example.categories[0].removeprefix("depth_")) / 100
            assert depth - 1 / len(sentences) < place <= depth


def test_number_frequencies_in_the_text_do_not_reveal_the_label() -> None:
    """Check that the most frequent number is right for less than a quarter of the rows."""
    right = 0
    for example in (examples := rows(SHORT).examples):
        counts = Counter(word for word in example.text_a.split() if word in NUMBERS)
        counts += Counter(word for word in re.findall(r"is (\w+)\.", example.text_a))
        right += counts.most_common(1)[0][0] == example.label
    assert 0.1 < right / len(examples) < 0.25


def test_needle_is_not_truncated_even_with_10_percent_more_tokens() -> None:
    """Check that tiny's tokens fit.

    With one token in ten more, the needle at 90 % is still read.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder())
    examples = rows(SHORT, limit=100).examples
    for limit in (SHORT.longest, int(SHORT.longest / 1.1)):
        features = encode(examples, tokenizer, Limits(max_tokens=limit))
        for row, example in enumerate(examples):
            start, end = features.starts[row : row + 2]
            assert end - start <= limit
            read_text = tokenizer.decode(features.token_ids[start:end])
            assert f"the pass key is {example.label}" in read_text.lower()


def test_needle_recipe_has_the_maximum_length_of_the_task() -> None:
    for model in ("modernbert", "tiny"):
        settings = resolve_recipe(find_model(model), SHORT.name, None, {}).settings
        assert settings["max_tokens"].value == 512
    settings = resolve_recipe(find_model("modernbert"), "needle/8192", None, {}).settings
    assert settings["max_tokens"].value == 8192


def test_needle_tasks_longer_than_the_model_accepts_are_skipped() -> None:
    made = plan(request_of(suite=("needle",), data="mini"))
    assert {job.task for job in made.jobs if job.model == "tiny"} == {"needle/512"}
    assert made.notes[0] == (
        "tiny reads at most 512 tokens, but the documents of needle/1024 have 1,024: the model is "
        "not trained on this task."
    )
    assert len(made.notes) == 4
    with pytest.raises(BenchError, match="needle/8192 have 8,192: the model is not trained"):
        plan(request_of(task=("needle/8192",), data="mini"))


def test_needle_scores_are_reported_per_depth() -> None:
    examples = rows(SHORT, data="mini").examples
    near = [e.label if e.categories[0] >= "depth_5" else None for e in examples]
    predictions = [PairPrediction(id=e.id, label=x) for e, x in zip(examples, near, strict=True)]
    found = score(SHORT, "dev", predictions, examples)
    assert found["accuracy"] == 0.5
    assert [found[f"accuracy_depth_{d}"] for d in DEPTHS] == [0.0] * 5 + [1.0] * 5
    names = category_names(SHORT.name, SUITES["needle"].rule)
    assert names["depth 90 %"] == "accuracy_depth_90"
    assert len(names) == 10


@pytest.mark.soak
def test_network_without_pretraining_learns_the_needle_task_at_512_tokens() -> None:
    """Train for minutes on one core; chance is 0.1."""
    found = run_job(plan_job("tiny", SHORT.name, "hub"), lambda _: None).evaluations[0].scores
    assert found["accuracy"] > 0.95
    assert min(found[f"accuracy_depth_{depth}"] for depth in DEPTHS) > 0.8
