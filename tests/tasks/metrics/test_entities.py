from random import Random

import pytest

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import TagExample, TagPrediction
from benchharness.tasks.metrics import (
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    to_iob1,
    to_iob2,
)
from benchharness.tasks.metrics.entities import Entity, entities

TAGS = ("O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-MISC")


def build(pairs):
    """Predictions and examples of (predicted, gold) tags, written with spaces."""
    predictions = [
        TagPrediction(id=str(i), tags=tuple(guess.split())) for i, (guess, _) in enumerate(pairs)
    ]
    examples = [
        TagExample(id=str(i), words=("w",) * len(gold.split()), tags=tuple(gold.split()))
        for i, (_, gold) in enumerate(pairs)
    ]
    return predictions, examples


def conlleval(pairs) -> tuple[int, int, int]:
    """Right, predicted and gold chunks, by conlleval's own method.

    It never builds chunks: it walks over the words once, asks at each whether a chunk ends or
    starts on either side, and counts a chunk as right when both sides started and ended together.
    """
    right = predicted = gold = 0
    for guess_line, gold_line in pairs:
        guesses = ["O", *guess_line.split(), "O"]
        golds = ["O", *gold_line.split(), "O"]
        together = False
        for i in range(1, len(golds)):
            gold_ends = ends(golds[i - 1], golds[i])
            guess_ends = ends(guesses[i - 1], guesses[i])
            if together and (gold_ends or guess_ends):
                right += gold_ends and guess_ends
                together = False
            gold_starts = starts(golds[i - 1], golds[i])
            guess_starts = starts(guesses[i - 1], guesses[i])
            if gold_starts and guess_starts and golds[i][2:] == guesses[i][2:]:
                together = True
            gold += gold_starts
            predicted += guess_starts
    return right, predicted, gold


def ends(before: str, tag: str) -> bool:
    return before != "O" and (tag == "O" or tag[0] == "B" or tag[2:] != before[2:])


def starts(before: str, tag: str) -> bool:
    return tag != "O" and (before == "O" or tag[0] == "B" or tag[2:] != before[2:])


def random_pairs(random: Random) -> list[tuple[str, str]]:
    pairs = []
    for _ in range(random.randint(1, 6)):
        gold = random.choices(TAGS, k=random.randint(1, 12))
        guess = [tag if random.random() < 0.8 else random.choice(TAGS) for tag in gold]
        pairs.append((" ".join(guess), " ".join(gold)))
    return pairs


def test_a_thousand_random_files_score_as_conlleval_does():
    for seed in range(1000):
        pairs = random_pairs(Random(seed))
        right, predicted, gold = conlleval(pairs)
        precision = right / predicted if predicted else 0.0
        recall = right / gold if gold else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        metrics = entity_precision, entity_recall, entity_f1
        found = [metric.compute(*build(pairs)) for metric in metrics]
        assert found == pytest.approx([precision, recall, f1]), pairs


def test_a_worked_sentence():
    """U.N. official Ekeus heads for Baghdad: one of two found entities is right, of three."""
    gold = "B-ORG O B-PER O O B-LOC"
    guess = "B-ORG O B-ORG O O O"
    built = build([(guess, gold)])
    assert entity_precision.compute(*built) == 1 / 2
    assert entity_recall.compute(*built) == 1 / 3
    assert entity_f1.compute(*built) == pytest.approx(0.4)
    assert tag_accuracy.compute(*built) == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-PER I-PER O", [Entity(0, 2, "PER")]),
        ("I-PER I-PER O", [Entity(0, 2, "PER")]),  # IOB1
        ("I-PER B-PER", [Entity(0, 1, "PER"), Entity(1, 2, "PER")]),
        ("B-PER I-LOC", [Entity(0, 1, "PER"), Entity(1, 2, "LOC")]),  # a model's fault
        ("B-PER O I-PER", [Entity(0, 1, "PER"), Entity(2, 3, "PER")]),
    ],
)
def test_entities_are_read_as_conlleval_reads_them(tags, expected):
    assert entities(tags.split()) == expected


@pytest.mark.parametrize(
    ("iob1", "iob2"),
    [
        ("I-PER I-PER O I-LOC", "B-PER I-PER O B-LOC"),
        ("I-PER B-PER I-PER", "B-PER B-PER I-PER"),
        ("I-PER I-LOC", "B-PER B-LOC"),
        ("O", "O"),
    ],
)
def test_iob1_and_iob2_turn_into_each_other(iob1, iob2):
    assert to_iob2(iob1.split()) == tuple(iob2.split())
    assert to_iob1(iob2.split()) == tuple(iob1.split())


def test_conversions_keep_the_entities_of_any_tags():
    for seed in range(300):
        tags = Random(seed).choices(TAGS, k=12)
        assert entities(to_iob1(tags)) == entities(to_iob2(tags)) == entities(tags)
        assert to_iob2(to_iob1(tags)) == to_iob2(tags)


def test_iob1_gold_and_iob2_predictions_score_alike():
    pairs = [("B-PER I-PER O B-LOC", "I-PER I-PER O I-LOC")]
    assert entity_f1.compute(*build(pairs)) == tag_accuracy.compute(*build(pairs)) == 1.0


def test_an_entity_does_not_run_on_into_the_next_sentence():
    assert entity_recall.compute(*build([("I-PER", "I-PER"), ("I-PER", "I-PER")])) == 1.0
    right, predicted, gold = conlleval([("I-PER", "I-PER"), ("I-PER", "I-PER")])
    assert (right, predicted, gold) == (2, 2, 2)


def test_no_entities_anywhere_score_zero_as_conlleval_prints():
    assert entity_f1.compute(*build([("O O", "O O")])) == 0.0


@pytest.mark.parametrize("tag", ["E-PER", "PER", "B-", "", "o"])
def test_another_scheme_is_refused(tag):
    with pytest.raises(BenchError, match=r"is not O, B-\.\.\. or I-\.\.\."):
        entities(["O", tag])


def test_a_sentence_with_too_few_tags_is_refused():
    with pytest.raises(BenchError, match="sentence 0 has 1 predicted tags, expected 2"):
        entity_f1.compute(*build([("O", "O O")]))
