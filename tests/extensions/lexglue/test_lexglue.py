"""LexGLUE: official files, and scores equal to those of its scripts."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from benchharness.extensions.lexglue.tasks import AREAS, ARTICLES
from benchharness.models import find_model
from benchharness.recipes.resolve import resolve_recipe
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import score


def example(label: Any, number: int) -> PairExample:
    return PairExample(id=str(number), text_a="x", label=label)


def test_ecthr_f1_treats_rows_without_articles_as_an_additional_label() -> None:
    """scikit-learn gets the columns of experiments/ecthr.py: ten articles, and one for none."""
    draw, task = random.Random(7), find_task("lexglue/ecthr_a")

    def some() -> tuple[str, ...]:
        return tuple(name for name in ARTICLES if draw.random() < draw.choice((0.0, 0.1, 0.4)))

    def columns(found: list[Any]) -> Any:
        own = np.array([[int(name in each.label) for name in ARTICLES] for each in found])
        return np.hstack([own, (own.sum(axis=1, keepdims=True) == 0).astype(int)])

    for size in [1, 2, *range(5, 155)]:
        golds = [example(some(), n) for n in range(size)]
        guesses = [PairPrediction(id=g.id, label=draw.choice((g.label, some()))) for g in golds]
        found = score(task, "dev", guesses, golds)
        for name in ("micro", "macro"):
            expected = f1_score(
                columns(golds),
                columns(guesses),
                average=name,
                zero_division=0,  # type: ignore[arg-type]
            )
            assert found[f"{name}_f1"] == pytest.approx(expected, abs=1e-12)


def test_scotus_f1_averages_over_areas_that_occur_in_the_split() -> None:
    """experiments/scotus.py passes no labels, so that only areas in the split count."""
    draw, task = random.Random(8), find_task("lexglue/scotus")
    for size in [1, 2, *range(5, 155)]:
        known = draw.sample(AREAS, draw.randint(1, 13))
        golds = [example(draw.choice(known), n) for n in range(size)]
        guesses = [PairPrediction(id=g.id, label=draw.choice((g.label, *known))) for g in golds]
        found = score(task, "dev", guesses, golds)
        numbers = [[AREAS.index(each.label) for each in some] for some in (golds, guesses)]
        for name in ("micro", "macro"):
            expected = f1_score(*numbers, average=name, zero_division=0)
            assert found[f"{name}_f1"] == pytest.approx(expected, abs=1e-12)


def write(folder: Path, file: str, *rows: Any) -> str:
    (folder / "lexglue").mkdir(exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "lexglue" / file).write_text(lines, encoding="utf-8")
    return str(folder)


def test_lexglue_file_with_all_splits_is_read_without_unknown_articles(tmp_path: Path) -> None:
    rows = [
        {
            "facts": ["1. One.", "2. Two."],
            "violated_articles": ["P1-1", "46", "3"],
            "allegedly_violated_articles": [],
            "data_type": part,
            "case_no": "1/01",
        }
        for part in ("dev", "train", "test", "train")
    ]
    data = parse_data(write(tmp_path, "ecthr.jsonl", *rows))
    found = {
        (name, split): read(find_task(f"lexglue/ecthr_{name}"), split, data).examples
        for name in "ab"
        for split in ("train", "dev", "test")
    }
    assert {split: len(examples) for (_, split), examples in found.items()} == {
        "train": 2, "dev": 1, "test": 1,
    }  # fmt: skip
    (case,) = found["a", "dev"]
    assert (case.text_a, case.label) == ("1. One.\n2. Two.", ("3", "P1-1"))  # type: ignore[attr-defined]
    (case,) = found["b", "dev"]
    assert case.label == ()  # type: ignore[attr-defined]
    opinions = [{"text": "We affirm.", "issueArea": "13", "data_type": "dev", "docket": "7"}]
    data = parse_data(write(tmp_path, "scotus.jsonl", *opinions))
    (opinion,) = read(find_task("lexglue/scotus"), "dev", data).examples
    assert opinion.label == "13"  # type: ignore[attr-defined]


def test_lexglue_recipe_applies_to_every_encoder() -> None:
    for task in ("ecthr_a", "scotus"):
        found = resolve_recipe(find_model("longformer"), f"lexglue/{task}", None, {}).settings
        values = {name: setting.value for name, setting in found.items()}
        assert values["learning_rate"] == 3e-5
        assert (values["epochs"], values["batch_size"]) == (20.0, 8)
        assert (values["best_checkpoint"], values["early_stopping"]) == (True, 3)
        assert values["max_tokens"] == 4096
        assert found["max_tokens"].source.startswith("all that longformer")
