from random import Random

import pytest

from benchharness.errors import BenchError
from benchharness.tasks.examples import TagExample, TagPrediction
from benchharness.tasks.metrics.entities import (
    CONLLEVAL,
    Entity,
    entities,
    entity_f1,
    entity_precision,
    entity_recall,
    is_iob1,
    tag_accuracy,
    to_iob1,
    to_iob2,
    words_share,
)
from tests.helpers.conlleval_oracle import conlleval
from tests.helpers.scripts import printed

TAGS = ("O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "I-MISC")


def build(pairs):
    """Make predictions and examples from (predicted, gold) tags, written with spaces."""
    predictions = [
        TagPrediction(id=str(i), tags=tuple(guess.split())) for i, (guess, _) in enumerate(pairs)
    ]
    examples = [
        TagExample(id=str(i), words=("w",) * len(gold.split()), tags=tuple(gold.split()))
        for i, (_, gold) in enumerate(pairs)
    ]
    return predictions, examples


def lines_of(pairs):
    """Yield the lines that conlleval reads: word, gold and predicted tag."""
    for guess, gold in pairs:
        yield from (f"w {g} {p}" for g, p in zip(gold.split(), guess.split(), strict=True))
        yield ""


def random_pairs(random: Random) -> list[tuple[str, str]]:
    pairs = []
    for _ in range(random.randint(1, 6)):
        gold = random.choices(TAGS, k=random.randint(1, 12))
        guess = [tag if random.random() < 0.8 else random.choice(TAGS) for tag in gold]
        pairs.append((" ".join(guess), " ".join(gold)))
    return pairs


def conllevals(pairs):
    """Return the numbers that conlleval prints for a file with these columns."""
    columns = [(tuple(guess.split()), tuple(gold.split())) for guess, gold in pairs]
    return printed(CONLLEVAL, *build(pairs), {tag_accuracy: words_share(columns)})


def test_scores_of_1000_random_files_match_conlleval():
    for seed in range(1000):
        pairs = random_pairs(Random(seed))
        expected = conlleval(lines_of(pairs))
        assert conllevals(pairs) == expected, pairs
        metrics = entity_precision, entity_recall, entity_f1
        found = [100 * metric.compute(*build(pairs)) for metric in metrics]
        assert found == pytest.approx([expected[n] for n in ("precision", "recall", "FB1")]), pairs


def test_tag_accuracy_matches_conlleval_on_iob2_columns():
    for seed in range(300):
        pairs = [
            tuple(" ".join(to_iob2(tags.split())) for tags in pair)
            for pair in random_pairs(Random(seed))
        ]
        expected = conlleval(lines_of(pairs))["accuracy"]
        assert 100 * tag_accuracy.compute(*build(pairs)) == pytest.approx(expected), pairs


def test_conlleval_compares_tags_without_scheme_conversion():
    """Check a second word that is I-PER on both sides in IOB1, and I- against B- in IOB2."""
    iob1, iob2 = [("I-PER I-PER", "O I-PER")], [("B-PER I-PER", "O B-PER")]
    assert conllevals(iob1)["accuracy"] == 50.0
    assert conlleval(lines_of(iob1))["accuracy"] == 50.0
    assert conlleval(lines_of(iob2))["accuracy"] == 0.0
    assert tag_accuracy.compute(*build(iob1)) == tag_accuracy.compute(*build(iob2)) == 0.0


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("I-PER I-PER O I-LOC", True),
        ("I-PER B-PER I-PER", True),
        ("O O", True),
        ("B-PER I-PER", False),
        ("I-PER O B-PER", False),
    ],
)
def test_tags_are_detected_as_iob1_only_if_every_b_tag_is_needed(tags, expected):
    assert is_iob1(tags.split()) is expected


def test_entity_scores_of_a_worked_example_are_correct():
    """Check a sentence in which one of two predicted entities is right, of three gold ones."""
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
        # Invalid tags, which a model may predict.
        ("B-PER I-LOC", [Entity(0, 1, "PER"), Entity(1, 2, "LOC")]),
        ("B-PER O I-PER", [Entity(0, 1, "PER"), Entity(2, 3, "PER")]),
    ],
)
def test_entity_spans_are_extracted_as_in_conlleval(tags, expected):
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
def test_iob1_and_iob2_tags_are_converted_in_both_directions(iob1, iob2):
    assert to_iob2(iob1.split()) == tuple(iob2.split())
    assert to_iob1(iob2.split()) == tuple(iob1.split())


def test_iob1_and_iob2_conversions_preserve_entities():
    for seed in range(300):
        tags = Random(seed).choices(TAGS, k=12)
        assert entities(to_iob1(tags)) == entities(to_iob2(tags)) == entities(tags)
        assert to_iob2(to_iob1(tags)) == to_iob2(tags)


def test_iob1_gold_and_iob2_predictions_are_comparable():
    pairs = [("B-PER I-PER O B-LOC", "I-PER I-PER O I-LOC")]
    assert entity_f1.compute(*build(pairs)) == tag_accuracy.compute(*build(pairs)) == 1.0


def test_entities_do_not_continue_into_the_next_sentence():
    assert entity_recall.compute(*build([("I-PER", "I-PER"), ("I-PER", "I-PER")])) == 1.0
    assert conlleval(["w I-PER O", "", "w I-PER I-PER"])["recall"] == 50.0


def test_scores_without_any_entities_are_0_as_in_conlleval():
    assert entity_f1.compute(*build([("O O", "O O")])) == 0.0


@pytest.mark.parametrize("tag", ["E-PER", "PER", "B-", "", "o"])
def test_entity_scores_of_tags_in_another_scheme_are_an_error(tag):
    with pytest.raises(BenchError, match=r"is not O, B-\.\.\. or I-\.\.\."):
        entities(["O", tag])


def test_prediction_with_fewer_tags_than_words_is_an_error():
    with pytest.raises(BenchError, match="sentence 0 has 1 predicted tags, expected 2"):
        entity_f1.compute(*build([("O", "O O")]))
