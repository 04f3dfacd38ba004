"""Tests of the content of prediction pages, without a browser."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from benchharness.extensions.prediction_pages.examples import PredictedTask, System
from benchharness.extensions.prediction_pages.page import build_view, render_predictions
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.comparing.contrast import flips_of
from benchharness.tasks.examples import ChoicePrediction, PairPrediction
from benchharness.tasks.metrics.entities import entity_f1
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task
from tests.helpers.drawn_predictions import drawn, mini
from tests.helpers.report_page import PACKED, WHEN, Page, unpacked

TASKS = (
    "glue/rte",
    "glue/stsb",
    "superglue/wic",
    "race/all",
    "superglue/record",
    "squad/v1.1",
    "squad/v2.0",
    "conll2003/ner",
)


def system(name: str, seeds: int) -> System:
    names = tuple(str(seed) for seed in range(1, seeds + 1))
    return System(
        name=name,
        details="paper, fp32",
        seeds=names,
        keys=names,
        scores=({"accuracy": 0.5},) * seeds,
    )


def page_of(name: str, *, seeds: int = 2, two: bool = True, **fields: object) -> PredictedTask:
    """Make predictions for mini data that are right for eight and for six of ten examples."""
    split = drawn(name, one=(0.8,) * seeds, other=(0.6,) * seeds if two else ())
    systems = (system("good", seeds), system("poor", seeds))[: 1 + two]
    found = PredictedTask(task=split.task, data="mini data", systems=systems, splits=(split,))
    return replace(found, **fields)  # type: ignore[arg-type]


def records(html: str) -> list[dict[str, object]]:
    (packed,) = re.findall(PACKED, html)
    found: list[dict[str, object]] = json.loads(unpacked(packed))
    return found


@pytest.mark.parametrize("name", TASKS)
def test_prediction_page_has_every_example_with_gold_answer(name: str) -> None:
    html = render_predictions(page_of(name), WHEN)
    cards = records(html)
    assert [card["place"] for card in cards] == list(range(1, len(mini(name, "dev")) + 1))
    assert sorted(card["rank"] for card in cards) == list(range(len(cards)))  # type: ignore[type-var]
    for card, example in zip(cards, mini(name, "dev"), strict=True):
        text = Page(str(card["html"])).text
        assert example.id in text
        assert text.count("gold") >= 1
        assert "good" in text
        assert "poor" in text
        assert "every seed" in text or "seed 1" in text
    # The hardest examples are plain HTML, so that they are visible without scripts.
    hardest = min(cards, key=lambda card: card["rank"])  # type: ignore[arg-type, return-value]
    page = Page(html)
    assert f"example-{hardest['place']}" in page.values("id")
    assert page.values("id").count("list") == 1


def test_prediction_page_counts_agree_with_the_predictions() -> None:
    predicted = page_of("glue/rte", seeds=3)
    view = build_view(predicted)
    (split,) = predicted.splits
    right = [
        sum(run[place].label == example.label for run in split.one)  # type: ignore[union-attr]
        for place, example in enumerate(split.examples)
    ]
    assert view.states == {
        "all": right.count(3),
        "none": right.count(0),
        "some": right.count(1) + right.count(2),
    }
    flips = flips_of([split]) or ()
    assert view.flips == (
        sum(flip.one > flip.other for flip in flips),
        sum(flip.one < flip.other for flip in flips),
    )
    first = view.matrices[0].confusion
    assert sum(map(sum, first.counts)) == 3 * len(split.examples)
    assert first.counts[0][0] + first.counts[1][1] == sum(right)
    # With one seed, each cell of the matrix links to as many examples as it counts.
    one = build_view(page_of("glue/rte", seeds=1, two=False))
    leads = Counter(cell for example in one.examples for cell in example.cells)
    counts = one.matrices[0].confusion.counts
    assert leads == {f"0.{i}.{j}": n for i, row in enumerate(counts) for j, n in enumerate(row)}


def test_entity_type_counts_of_the_prediction_page_give_the_entity_f1() -> None:
    predicted = page_of("conll2003/ner", seeds=1, two=False)
    view, (split,) = build_view(predicted), predicted.splits
    lines = [line for (line,) in view.types]
    assert [line.name for line in lines] == ["PER", "ORG", "LOC", "MISC"]
    right, guessed, gold = (
        sum(getattr(line, name) for line in lines) for name in ("right", "predicted", "gold")
    )
    assert 2 * right / (guessed + gold) == entity_f1.compute(split.one[0], split.examples)  # type: ignore[arg-type]


def test_prediction_page_sorts_examples_by_gold_answer_probability() -> None:
    task, examples = find_task("glue/rte"), mini("glue/rte", "dev")[:3]
    gold = [0 if example.label == "entailment" else 1 for example in examples]
    seeds = []
    for shift in (0.0, 0.1):
        chances = [0.6 - shift, 0.2 - shift, 0.9 - shift]
        rows = [(p, 1 - p) if g == 0 else (1 - p, p) for p, g in zip(chances, gold, strict=True)]
        seeds.append(
            tuple(
                PairPrediction(
                    id=e.id, label=("entailment", "not_entailment")[row[1] > row[0]], scores=row
                )
                for e, row in zip(examples, rows, strict=True)
            )
        )
    split = PredictedSplit(task=task, split="dev", examples=examples, one=tuple(seeds))
    found = PredictedTask(task=task, data="mini", systems=(system("m", 2),), splits=(split,))
    view = build_view(found)
    assert [example.place for example in view.examples] == [2, 1, 3]
    near = [f"probability of gold {chance}" for chance in ("0.150", "0.550", "0.850")]
    assert [example.near for example in view.examples] == near
    assert [example.state for example in view.examples] == ["none", "all", "all"]
    (answer,) = view.examples[0].answers[0]
    assert (answer.state, answer.note) == ("wrong", "every seed, probability 0.850")


def test_gold_and_predicted_spans_are_marked_in_their_passage() -> None:
    predicted = page_of("squad/v1.1", seeds=1, two=False)
    view, (split,) = build_view(predicted), predicted.splits
    for example in view.examples:
        context = split.examples[example.place - 1]
        passage = next(block for block in example.blocks if block.name == "passage")
        assert "".join(part.text for part in passage.segments) == context.context  # type: ignore[union-attr]
        marked = "".join(part.text for part in passage.segments if "gold" in part.kinds)
        assert context.answers[0][0] in marked  # type: ignore[union-attr, index]
        if example.state == "all":
            assert any({"gold", "one"} <= set(part.kinds.split()) for part in passage.segments)


@pytest.mark.parametrize("name", TASKS)
def test_prediction_page_without_texts_contains_no_text_of_the_data(name: str) -> None:
    html = render_predictions(page_of(name, texts=False), WHEN)
    whole = html + json.dumps(records(html), ensure_ascii=False)
    assert "written with --no-texts" in whole
    for example in mini(name, "dev"):
        for text in texts_of(example):
            assert text not in whole
    assert len(records(html)) == len(mini(name, "dev"))
    assert build_view(page_of(name, texts=False)).states == build_view(page_of(name)).states


def texts_of(example: object) -> list[str]:
    fields = vars(example)
    names = ("text_a", "text_b", "question", "context")
    words = " ".join(fields.get("words", ())) or None
    answers = [text for text, _ in fields.get("answers") or ()]
    found = [*(fields.get(name) for name in names), words, *fields.get("options", ()), *answers]
    return [text for text in found if text and (len(text) > 12 or " " in text)]


def test_prediction_page_without_readable_examples_states_the_reason() -> None:
    predicted = page_of("glue/rte")
    (split,) = predicted.splits
    alone = replace(predicted, splits=(replace(split, examples=()),), reason="RTE dev has changed.")
    html = render_predictions(alone, WHEN)
    assert "RTE dev has changed" in Page(html).text
    view = build_view(alone)
    assert (view.matrices, view.types, view.slices, view.states) == ((), (), (), {})
    assert {example.gold for example in view.examples} == {"unknown"}
    assert view.order == "largest disagreement first"
    agree = [len(example.answers[0]) == 1 for example in view.examples]
    assert agree == sorted(agree)


def test_predictions_without_gold_answers_are_not_marked_right_or_wrong() -> None:
    predicted = page_of("glue/rte")
    (split,) = predicted.splits
    hidden = tuple(replace(example, label=None) for example in split.examples)  # type: ignore[call-arg]
    view = build_view(replace(predicted, splits=(replace(split, examples=hidden),)))
    assert {example.gold for example in view.examples} == {"hidden"}
    assert "hides the gold answers" in view.texts
    assert {answer.state for e in view.examples for side in e.answers for answer in side} == {""}


def test_prediction_page_escapes_markup_in_texts_and_answers() -> None:
    task: Task = find_task("race/all")
    evil = "<script>alert(1)</script>"
    example = replace(mini("race/all", "dev")[0], question=evil, options=(evil, "b"), gold=(0,))
    split = PredictedSplit(
        task=task,
        split="dev",
        examples=(example,),
        one=((ChoicePrediction(id=example.id, option=0),),),
    )
    found = PredictedTask(task=task, data=evil, systems=(system(evil, 1),), splits=(split,))
    html = render_predictions(found, WHEN)
    (card,) = records(html)
    assert evil not in html
    assert evil not in str(card["html"])
    assert "&lt;script&gt;" in html
