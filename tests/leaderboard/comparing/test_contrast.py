"""Tests of the comparison of two systems: test, flips, slices and correction."""

import math
from dataclasses import replace

import pytest
import scipy

from benchharness.errors import BenchError
from benchharness.leaderboard.comparing.contrast import (
    FEWEST,
    Contrast,
    contrast,
    correct,
    difference_bounds,
    flips_of,
    match_runs,
    mcnemar_exact,
    slices_of,
)
from benchharness.leaderboard.statistics import Interval
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    SpanExample,
    SpanPrediction,
)
from benchharness.tasks.suites import find_task
from tests.helpers.boards import make_row
from tests.helpers.drawn_predictions import drawn, mini


def rte(**fields: object) -> Contrast:
    return contrast([drawn("glue/rte", **fields)], ("accuracy",), (0,), (0.0, 0.0))


def test_comparison_of_single_runs_by_accuracy_uses_mcnemars_test() -> None:
    found = rte()
    assert found.flipped is not None
    assert found.test == "McNemar, exact"
    assert found.p_value == pytest.approx(mcnemar_exact(*found.flipped))
    assert found.examples == len(mini("glue/rte", "dev"))


def test_comparison_uses_a_t_test_for_several_seeds_and_permutations_for_mcc_of_one_seed() -> None:
    split = drawn("glue/rte", one=(0.9, 0.9, 0.9), other=(0.5, 0.5, 0.5))
    found = contrast([split], ("accuracy",), (0, 1, 2), (0.9, 0.7))
    assert found.test == "t, examples and seeds"
    assert found.difference == pytest.approx(0.2)
    assert correct([found])[0].is_shown
    cola = contrast([drawn("glue/cola")], ("mcc",), (0,), (0.5, 0.4))
    assert cola.test == "paired permutation"


def test_score_without_per_example_parts_is_not_tested_and_has_a_reason() -> None:
    found = contrast([drawn("glue/rte")], ("f9",), (0,), (0.5, 0.4))
    assert (found.p_value, found.interval) == (None, None)
    assert found.reason == "f9 cannot be computed from single examples"
    assert found.flipped == rte().flipped


def test_flips_are_examples_that_one_system_gets_right_with_more_seeds_than_the_other() -> None:
    split = drawn("glue/rte", one=(1.0, 1.0), other=(1.0, 1.0))
    wrong = [replace(p, label="not_entailment") for p in split.other[0][:8]]
    changed = replace(split, other=((*wrong, *split.other[0][8:]), split.other[1]))
    flips = flips_of([changed])
    assert flips is not None
    entailed = [e.id for e in split.examples[:8] if e.label == "entailment"]
    assert [flip.id for flip in flips] == entailed
    assert {(flip.one, flip.other) for flip in flips} == {(2, 1)}
    assert {flip.answers for flip in flips} == {("entailment", "not_entailment")}
    for flip in flips:
        assert flip.answer_counts == ({"entailment": 2}, {"not_entailment": 1, "entailment": 1})


def test_answers_of_flips_are_the_most_frequent_ones_and_agree_with_the_counts() -> None:
    """Regression test: the answer of the first seed was shown next to the counts of all seeds."""
    split = drawn("glue/rte", one=(1.0, 1.0, 1.0), other=(1.0, 1.0, 1.0))
    wrong = [replace(p, label="not_entailment") for p in split.one[0][:8]]
    first = (*wrong, *split.one[0][8:])
    flips = flips_of([replace(split, one=(first, *split.one[1:]))])
    assert flips
    for flip in flips:
        assert (flip.one, flip.other, flip.gold) == (2, 3, "entailment")
        assert flip.answers == ("entailment", "entailment")
        assert flip.answer_counts == ({"entailment": 2, "not_entailment": 1}, {"entailment": 3})
        assert next(iter(flip.answer_counts[0])) == "entailment"


def test_flips_are_indexed_across_splits_and_absent_for_regression() -> None:
    splits = [drawn("glue/mnli", split) for split in ("dev", "dev_mm")]
    flips = flips_of(splits)
    assert flips is not None
    examples = [example for split in splits for example in split.examples]
    assert all(examples[flip.place].id == flip.id for flip in flips)
    assert {flip.split for flip in flips} == {"dev", "dev_mm"}
    assert flips_of([drawn("glue/stsb")]) is None
    assert contrast([drawn("glue/stsb")], ("pearson",), (0,), (0.5, 0.4)).flipped is None


@pytest.mark.parametrize("name", ["squad/v2.0", "race/all", "conll2003/ner", "superglue/record"])
def test_flips_show_readable_gold_answers_and_predictions(name: str) -> None:
    flips = flips_of([drawn(name, one=(1.0,), other=(0.3,))])
    assert flips
    for flip in flips:
        assert (flip.one, flip.other) == (1, 0)
        assert flip.answers[0] in flip.gold.split(" | ")
        assert flip.answers[1] != flip.answers[0]
        assert flip.text


def test_flips_apply_the_no_answer_threshold_of_the_squad_score() -> None:
    task = find_task("squad/v2.0")
    example = SpanExample(id="q", question="Who?", context="Ann sang.", answers=())
    sure = SpanPrediction(id="q", text="Ann", no_answer_score=-1.0)
    unsure = replace(sure, no_answer_score=1.0)
    split = replace(
        drawn("squad/v2.0"), task=task, examples=(example,), one=((unsure,),), other=((sure,),)
    )
    (flip,) = flips_of([split]) or ()
    assert (flip.gold, flip.answers) == ("(no answer)", ("(no answer)", "Ann"))
    of_files = ((replace(unsure, threshold=0.5),),), ((replace(unsure, threshold=1.0),),)
    (flip,) = flips_of([replace(split, one=of_files[0], other=of_files[1])]) or ()
    assert flip.answers == ("(no answer)", "Ann")


def test_flips_show_free_text_answers_unchanged() -> None:
    task = find_task("superglue/record")
    example = ChoiceExample(id="0", context="", question="?", options=("Ann", "Bob"), gold=(0,))
    right = ChoicePrediction(id="0", option=0)
    for text, shown in (("Atlantis", "Atlantis"), (None, "(no answer)")):
        wrong = ChoicePrediction(id="0", option=-1, text=text)
        split = replace(
            drawn("superglue/record"),
            task=task,
            examples=(example,),
            one=((right,),),
            other=((wrong,),),
        )
        (flip,) = flips_of([split]) or ()
        assert flip.answers == ("Ann", shown)


def test_p_values_are_corrected_over_the_tested_tasks_only() -> None:
    plain = Contrast(task="glue/rte", seeds=(1,), scores=(0.6, 0.5), examples=9)
    apart = Interval(low=0.05, high=0.15)
    tested = replace(plain, p_value=0.02, interval=apart)
    found = correct([tested, plain, replace(tested, p_value=0.04)])
    assert [c.corrected for c in found] == [0.04, None, 0.04]
    assert [c.is_shown for c in found] == [True, False, True]
    touching = replace(tested, interval=Interval(low=-0.01, high=0.2))
    assert not correct([touching])[0].is_shown


def test_slice_difference_is_computed_from_the_examples_of_the_slice() -> None:
    split = drawn("squad/v2.0", one=(0.9,), other=(0.5,))
    found = contrast([split], ("f1",), (0,), (0.9, 0.5), with_slices=True)
    by_name = {piece.name: piece for piece in found.slices}
    (with_answer, without) = by_name["HasAns"], by_name["NoAns"]
    assert with_answer.examples + without.examples == found.examples
    assert without.interval.has(without.difference)
    flips = [f for f in found.flips or () if f.gold == "(no answer)"]
    balance = sum(1 if f.one > f.other else -1 for f in flips)
    assert without.difference == pytest.approx(balance / without.examples)


def test_slice_that_lacks_examples_of_a_split_is_omitted() -> None:
    matched, other = drawn("glue/mnli", "dev"), drawn("glue/mnli", "dev_mm")
    rare = tuple(replace(example, categories=("rare",)) for example in other.examples[:2])
    marked = replace(other, examples=(*rare, *other.examples[2:]))
    names = ("accuracy", "accuracy_mm")
    found = contrast([matched, marked], names, (0,), (0.8, 0.6), with_slices=True)
    assert "category rare" not in {piece.name for piece in found.slices}
    assert found.slices


@pytest.mark.parametrize(
    ("task", "split", "names"),
    [
        (
            "glue/ax",
            "test",
            {f"category {n}" for n in ("lex_sem", "pr_ar_str", "logic", "knowledge")},
        ),
        ("race/all", "dev", {"level middle", "level high", "question who"}),
        ("squad/v2.0", "dev", {"HasAns", "NoAns", "question when"}),
    ],
)
def test_slices_include_categories_annotated_in_the_benchmark(
    task: str, split: str, names: set[str]
) -> None:
    assert names <= set(slices_of(mini(task, split)))


def test_slices_include_negation_question_word_and_word_overlap() -> None:
    examples = [
        PairExample(id="0", text_a="He didn't sing.", text_b="He sang"),
        PairExample(id="1", text_a="Nothing moved at all here", text_b="It was still"),
        PairExample(id="2", text_a="To whom does a knot belong?", text_b="a knot"),
        PairExample(id="3", text_a="One two three four five six seven", text_b="one two three"),
    ]
    found = slices_of(examples)
    assert found["with negation"] == [0, 1]
    assert found["without negation"] == [2, 3]
    assert found["question who"] == [2]
    thirds = [places for name, places in found.items() if name.startswith("overlap")]
    assert sorted(place for places in thirds for place in places) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([3, 5, 7, 8, 9, 12], ["words 1/3: to 5.67", "words 2/3: to 8.67", "words 3/3: over 8.67"]),
        ([9, 9, 9, 9, 10, 10, 10], ["words 1/2: to 9", "words 2/2: over 9"]),
        ([4, 9, 9, 9, 9, 9, 12], ["words 1/2: to 9", "words 2/2: over 9"]),
        ([5, 5, 5], []),
    ],
)
def test_thirds_by_length_without_examples_are_left_out(words: list[int], names: list[str]) -> None:
    examples = [
        PairExample(id=str(place), text_a="w " * count, text_b=None)
        for place, count in enumerate(words)
    ]
    assert [name for name in slices_of(examples) if name.startswith("words")] == names


def test_slice_that_contains_all_examples_is_omitted() -> None:
    alike = [
        ChoiceExample(id=str(i), context="a b", question="Why?", options=("a", "b"), group="high")
        for i in range(4)
    ]
    assert slices_of(alike) == {}


def runs(model: str, seeds: tuple[int, ...], **fields: object) -> list:
    return [make_row(model, seed=seed, **fields) for seed in seeds]


def test_comparison_pairs_runs_by_seed() -> None:
    pairs = match_runs(runs("a", (1, 2, 3)), runs("b", (3, 2, 9)))
    assert [(a.seed, b.seed) for a, b in pairs] == [(2, 2), (3, 3)]
    assert len(match_runs(runs("a", (1,)), runs("b", (7,)))) == 1
    floor = runs("majority", (0,), kind="baseline", weights="baseline:majority")
    assert [b.seed for _, b in match_runs(runs("a", (1, 2)), floor)] == [0, 0]
    assert [b.seed for _, b in match_runs(floor, runs("a", (1, 2)))] == [1, 2]
    with pytest.raises(BenchError, match="no seed in common"):
        match_runs(runs("a", (1, 2)), runs("b", (3,)))


def test_interval_of_a_difference_is_clipped_to_possible_values() -> None:
    """Test two seeds that are 60 points apart: Student's t alone goes far beyond 100."""
    split = drawn("glue/rte", one=(0.95, 0.2), other=(0.2, 0.95))
    found = contrast([split], ("accuracy",), (0, 1), (0.6, 0.9), with_slices=True)
    assert found.interval == Interval(low=-1.0, high=1.0)
    widest = [piece.interval for piece in found.slices if piece.interval is not None]
    assert widest
    assert all(interval.low >= -1.0 and interval.high <= 1.0 for interval in widest)


@pytest.mark.parametrize(
    ("task", "names", "scores", "low"),
    [
        ("glue/rte", ("accuracy",), (0.5, 0.6), -1.0),
        ("glue/mnli", ("accuracy", "accuracy_mm"), (0.5, 0.6), -1.0),
        ("glue/cola", ("mcc",), (0.5, 0.6), -2.0),
        ("glue/stsb", ("pearson", "spearman"), (0.5, 0.6), -2.0),
        ("glue/rte", ("accuracy",), (50.0, 0.6), -math.inf),
        ("glue/rte", ("f9",), (0.5, 0.6), -math.inf),
    ],
)
def test_bounds_of_a_score_difference_follow_from_the_metric_range(
    task, names, scores, low
) -> None:
    assert difference_bounds(find_task(task), names, scores) == Interval(low=low, high=-low)


def test_slice_with_few_examples_has_no_interval() -> None:
    split = drawn("glue/rte")
    few = tuple(replace(example, categories=("few",)) for example in split.examples[: FEWEST - 1])
    some = (replace(split.examples[FEWEST - 1], categories=("few",)), *split.examples[FEWEST:])
    for examples, has in (((*few, *split.examples[FEWEST - 1 :]), False), ((*few, *some), True)):
        marked = replace(split, examples=examples)
        found = contrast([marked], ("accuracy",), (0,), (0.8, 0.6), with_slices=True)
        (piece,) = [piece for piece in found.slices if piece.name == "category few"]
        assert piece.examples == len([e for e in examples if e.categories])
        assert (piece.interval is not None) is has


@pytest.mark.parametrize("seeds", [1, 3])
def test_models_with_equal_answers_have_an_exact_binomial_interval(seeds: int) -> None:
    split = drawn("glue/rte", one=(0.9,) * seeds)
    split = replace(split, one=split.one[:1] * seeds, other=split.one[:1] * seeds)
    found = contrast([split], ("accuracy",), tuple(range(seeds)), (0.9, 0.9))
    exact = scipy.stats.binomtest(0, found.examples).proportion_ci(0.95)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((-exact.high, exact.high))
    assert found.p_value == 1.0


def test_equal_answers_have_no_interval_if_the_score_is_not_an_accuracy() -> None:
    split = drawn("glue/cola")
    found = contrast([replace(split, other=split.one)], ("mcc",), (0,), (0.5, 0.5))
    assert (found.interval, found.p_value) == (None, 1.0)
