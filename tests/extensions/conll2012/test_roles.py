"""Tests of semantic roles, scored as srl-eval.pl scores them."""

from random import Random

import pytest

from benchharness.extensions.conll2012.files import write_roles
from benchharness.extensions.conll2012.tasks import SRL
from benchharness.tasks.examples import RoleExample, TagPrediction
from benchharness.tasks.metrics.entities import Argument, arguments, to_iob2
from benchharness.tasks.task import score
from tests.helpers.srl_oracle import srl_eval

ROLES = ("ARG0", "ARG1", "C-ARG0", "C-ARG1", "R-ARG0", "ARGM-TMP", "C-V")


def draw_tags(random: Random, words: int, verb: int) -> tuple[str, ...]:
    tags, place = list[str](), 0
    while place < words:
        role = random.choice((*ROLES, "O", "O"))
        size = min(random.randint(1, 3), words - place)
        if place <= verb < place + size:  # no other argument may contain the predicate
            size = max(1, verb - place)
        if place == verb:
            role, size = "V", 1
        tags += ["O"] * size if role == "O" else [f"B-{role}", *[f"I-{role}"] * (size - 1)]
        place += size
    return tuple(tags)


def draw(random: Random) -> tuple[list[TagPrediction], list[RoleExample]]:
    predictions, examples = list[TagPrediction](), list[RoleExample]()
    for sentence in range(random.randint(1, 4)):
        words = random.randint(2, 9)
        for number, verb in enumerate(sorted(random.sample(range(words), random.randint(1, 2)))):
            gold = draw_tags(random, words, verb)
            same = random.random() < 0.3
            guess = gold if same else draw_tags(random, words, verb)
            # Errors as those of a model: tags of both sequences are combined.
            if random.random() < 0.5:
                cut = random.randint(0, words)
                guess = to_iob2(gold[:cut] + guess[cut:])
            name = f"doc/000/{sentence}/{number}"
            words_of = tuple(f"w{place}" for place in range(words))
            examples.append(RoleExample(id=name, words=words_of, tags=gold, predicate=verb))
            predictions.append(TagPrediction(id=name, tags=guess))
    return predictions, examples


def test_scores_of_1000_random_files_match_srl_eval():
    values = set[float]()
    for seed in range(1000):
        predictions, examples = draw(Random(seed))
        gold = [TagPrediction(id=e.id, tags=e.tags or ()) for e in examples]
        files = (write_roles(side, examples).decode() for side in (gold, predictions))
        expected = srl_eval(*files)
        found = {
            name: 100 * value for name, value in score(SRL, "dev", predictions, examples).items()
        }
        assert found == pytest.approx(dict(expected)), seed
        values.add(expected["f1"])
    assert len(values) > 100, "the sets must differ"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-ARG0 I-ARG0 B-V O", [Argument("ARG0", ((0, 2),))]),
        ("B-ARG1 B-V B-C-ARG1 I-C-ARG1", [Argument("ARG1", ((0, 1), (2, 4)))]),
        ("B-C-ARG1 B-V B-C-ARG1", [Argument("ARG1", ((0, 1), (2, 3)))]),
        ("B-R-ARG0 B-V B-C-V B-ARG0", [Argument("R-ARG0", ((0, 1),)), Argument("ARG0", ((3, 4),))]),
        (
            "B-ARG1 B-ARG1 B-C-ARG1",
            [Argument("ARG1", ((0, 1),)), Argument("ARG1", ((1, 2), (2, 3)))],
        ),
        ("O O", []),
    ],
)
def test_continuation_tag_extends_the_last_argument_of_its_role(
    tags: str, expected: list[Argument]
):
    assert arguments(tags.split()) == expected


def test_argument_without_its_continuation_counts_as_wrong():
    gold = ("B-ARG1", "B-V", "B-C-ARG1")
    example = RoleExample(id="a/0/0", words=("x", "y", "z"), tags=gold, predicate=1)
    half = TagPrediction(id="a/0/0", tags=("B-ARG1", "B-V", "O"))
    found = score(SRL, "dev", [half], [example])
    assert dict(found) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "perfect": 0.0}
