"""Tests that perturbations depend only on the seed, and keep answers, options and marks."""

from dataclasses import replace

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.robustness.perturb import (
    CONTRACTIONS,
    KEYS,
    PERTURBATIONS,
    SENTENCES,
    Draw,
    named_perturbations,
    perturbed,
    refusal,
)
from benchharness.tasks.examples import (
    ChoiceExample,
    Mark,
    PairExample,
    SpanExample,
    Surroundings,
    TagExample,
)
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS as EVERY
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import find_fault

TEXT = "The farmers don't sell their apples at the market, do they?"


def changed(name, text=TEXT, seed=1, row="7"):
    return perturbed(PairExample(id=row, text_a=text), name, seed).text_a


EXPECTED = {
    "typos": "The farmers don't sell their apples at the mariet, do they?",
    "case": "THE FARMERS DON'T SELL THEIR APPLES AT THE MARKET, DO THEY?",
    "punctuation": "The farmers don't sell their apples at the market, do they???",
    "spaces": "The farmers don't\tsell their apples at the\tmarket, do they?",
    "contractions": "The farmers do not sell their apples at the market, do they?",
    "sentence": f"{TEXT} There are seven days in a week.",
}


def test_seed_1_gives_the_recorded_texts():
    assert {name: changed(name) for name in PERTURBATIONS} == EXPECTED


def distance(one, other):
    """Return the edit distance of two words, in which a swap of adjacent letters is one edit."""
    table = {(i, -1): i + 1 for i in range(-1, len(one))}
    table |= {(-1, j): j + 1 for j in range(-1, len(other))}
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            steps = [table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)]
            if i and j and a == other[j - 1] and one[i - 1] == b:
                steps.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(steps)
    return table[len(one) - 1, len(other) - 1]


def test_typos_are_single_edits_with_neighbouring_keys_in_a_tenth_of_the_words():
    words = [f"word{chr(97 + n % 26)}" for n in range(200)]
    found = changed("typos", " ".join(words)).split()
    pairs = [(a, b) for a, b in zip(words, found, strict=True) if a != b]
    assert 15 <= len(pairs) <= 20
    assert all(distance(a, b) == 1 and a[0] == b[0] for a, b in pairs)
    for one, other in pairs:
        if len(one) == len(other):
            wrong = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
            assert len(wrong) == 2 or wrong[0][1] in KEYS[wrong[0][0]]
    assert changed("typos", "a b 12 in") == "a b 12 in", "short words are left as they are"
    assert all(letter in KEYS[near] for letter, keys in KEYS.items() for near in keys)


def test_case_changes_every_text_with_letters():
    assert {changed("case", "Bonn 12", seed=n) for n in range(9)} == {"BONN 12", "bonn 12"}
    assert changed("case", "bonn") == "BONN"
    assert changed("case", "12") == "12"


def test_final_punctuation_is_removed_repeated_or_added():
    found = {changed("punctuation", "Is it so? Yes. No? ", seed=n) for n in range(9)}
    assert found == {"Is it so? Yes. No ", "Is it so? Yes. No??? "}
    assert changed("punctuation", "no mark") == "no mark."
    assert changed("punctuation", " ") == " "


def test_white_space_changes_only_between_words():
    found = changed("spaces")
    assert found != TEXT
    assert found.split() == TEXT.split()
    assert changed("spaces", "one") == "one"


def test_contractions_are_expanded_or_made():
    for full, short in CONTRACTIONS.items():
        assert changed("contractions", f"So {short} there.") == f"So {full} there."
        assert changed("contractions", f"So {full} there.") == f"So {short} there."
    assert changed("contractions", "Don’t stay, they 're late") == "Do not stay, they are late"
    assert changed("contractions", "it is n't true") == "it is not true"
    same = "It's Ann's; his knot isnt tied"
    assert changed("contractions", same) == same


def test_same_true_sentence_is_appended_to_both_texts():
    found = perturbed(PairExample(id="1", text_a="One.", text_b="Two. "), "sentence", 1)
    ends = (found.text_a.removeprefix("One. "), found.text_b.removeprefix("Two. "))
    assert ends[0] == ends[1]
    assert ends[0] in SENTENCES


def test_random_draws_depend_on_the_seed_the_perturbation_and_the_example_id():
    text = " ".join(f"number{n}" for n in "abcdefghij" * 3)
    found = [changed("typos", text, seed, row) for seed in (1, 2) for row in ("7", "8")]
    assert len({*found}) == 4
    assert found[0] == changed("typos", text, 1, "7")
    draws = [Draw(3, "x").below(6) for _ in range(3)]
    assert len({*draws}) == 1
    draw = Draw("even")
    counts = [draw.below(3) for _ in range(600)]
    assert all(150 < counts.count(n) < 250 for n in range(3))


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_marked_spans_keep_their_words(name):
    text = "Mark told Pete many lies about himself, which Pete included in his book."
    example = PairExample(
        id="1",
        text_a=text,
        text_b="The book of Pete doesn't lie.",
        marks=(
            Mark(text="a", start=10, end=14),
            Mark(text="b", start=12, end=16),
            Mark(text="a", start=0, end=4),
            Mark(text="a", start=2, end=9),
        ),
    )
    found = perturbed(example, name, 3)
    assert (found.text_a, found.text_b) != (example.text_a, example.text_b)
    for one, other in zip(example.marks, found.marks, strict=True):
        texts = {"a": example.text_a, "b": example.text_b}, {"a": found.text_a, "b": found.text_b}
        assert (
            texts[1][other.text][other.start : other.end]
            == (texts[0][one.text][one.start : one.end])
        )


TASKS = ("glue/cola", "glue/stsb", "glue/mnli", "superglue/wic", "superglue/wsc",
         "superglue/record", "superglue/multirc", "superglue/copa", "squad/v1.1", "squad/v2.0",
         "race/all", "conll2003/ner", "lexglue/ecthr_a", "hotpotqa/distractor")  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_perturbed_examples_of_every_kind_of_task_are_valid_and_keep_their_answers(task):
    known = find_task(task)
    examples = read(known, known.dev_splits[0], parse_data("mini"), 12).examples
    names = [name for name in PERTURBATIONS if not refusal(known, name)]
    assert {"case", "typos"} - {*names} <= {"typos"}
    moved = dict.fromkeys(names, 0)
    for name in names:
        for example in examples:
            found = perturbed(example, name, 5)
            assert find_fault(known, found) == ""
            assert (found.id, getattr(found, found.gold_field)) == (
                example.id,
                getattr(example, example.gold_field),
            )
            assert getattr(found, "options", ()) == getattr(example, "options", ())
            moved[name] += found != example
    assert all(count for name, count in moved.items() if name != "contractions"), moved


def test_placeholders_in_questions_of_choice_tasks_are_unchanged():
    example = ChoiceExample(
        id="1", context="", question="Then @placeholder visited ___ cities.", options=("A", "B")
    )
    for name in ("typos", "case", "spaces"):
        asked = perturbed(example, name, 2).question
        assert "@placeholder" in asked
        assert "___" in asked
    assert perturbed(example, "sentence", 2).question.startswith(example.question)
    told = perturbed(replace(example, context="Told."), "sentence", 2)
    assert (told.question, told.context in {f"Told. {s}" for s in SENTENCES}) == (
        example.question,
        True,
    )


def test_answers_of_a_span_question_keep_their_character_offsets():
    example = SpanExample(
        id="1", question="Where was it held?", context="In Bonn. ", answers=(("Bonn", 3),)
    )
    for name in PERTURBATIONS:
        found = perturbed(example, name, 1)
        assert found.context.startswith("In Bonn.")
        is_added = name == "sentence"
        assert (found.question == example.question) == is_added or name == "contractions"


def test_questions_of_multirc_are_unchanged():
    example = PairExample(
        id="1", text_a="A passage.", text_b="Which town? the second town", about="Which town?"
    )
    for name in PERTURBATIONS:
        assert perturbed(example, name, 1).text_b.startswith("Which town?")


def test_perturbed_words_of_a_sentence_also_change_in_its_document():
    whole = ("Before", "Peter", "visited", "Bonn", "After")
    example = TagExample(
        id="1", words=whole[1:4], tags=("B-PER", "O", "B-LOC"),
        document=Surroundings(words=whole, start=1),
    )  # fmt: skip
    found = perturbed(example, "typos", 1)
    assert found.words != example.words
    assert found.document.words == ("Before", *found.words, "After")
    assert replace(found, words=example.words) == example, "only words are compared"


def test_perturbations_that_could_change_labels_are_refused():
    cola, stsb = find_task("glue/cola"), find_task("glue/stsb")
    assert refusal(cola, "typos").endswith("CoLA: they are about the form of a sentence")
    assert refusal(cola, "case") == ""
    assert "more similar" in refusal(stsb, "sentence")
    assert "CoNLL-2003 has no texts" in refusal(find_task("conll2003/ner"), "spaces")
    ranking = next(task for task in EVERY.values() if task.kind == "ranking")
    assert "has no texts" in refusal(ranking, "typos")


def test_unknown_perturbations_are_refused_and_all_selects_every_one():
    assert named_perturbations(["all", "case"]) == (*PERTURBATIONS,)
    assert named_perturbations(["sentence", "typos"]) == ("typos", "sentence")
    with pytest.raises(
        BenchError, match=r"no perturbation is called 'typo'\. Did you mean 'typos'"
    ):
        named_perturbations(["typo"])
