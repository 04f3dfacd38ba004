"""MUC, B3 and CEAF-e, counted as the official scorer counts them."""

from pathlib import Path
from random import Random

import pytest

from benchharness.tasks.conll import COREF
from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import ClusterPrediction, Clusters, DocumentExample
from benchharness.tasks.metrics.entities import b_cubed, ceaf_e, muc
from benchharness.tasks.prediction_files import read_predictions
from benchharness.tasks.read import SplitRows
from benchharness.tasks.submission.columns import write_clusters
from benchharness.tasks.task import score
from tests.helpers.coref_oracle import score as official


def draw_clusters(random: Random, words: int, alone: bool) -> Clusters:
    """A few clusters of different mentions; with some of a single mention where `alone`."""
    stretches = [(a, b) for a in range(words) for b in range(a + 1, min(words, a + 3) + 1)]
    mentions = random.sample(stretches, random.randint(0, min(8, len(stretches))))
    clusters: dict[int, list[tuple[int, int]]] = {}
    for mention in mentions:
        clusters.setdefault(random.randint(0, 3), []).append(mention)
    kept = [c for c in clusters.values() if alone or len(c) > 1]
    # A column cannot say which of two crossing mentions of one chain ends first.
    return tuple(tuple(c) for c in kept if not any(_cross(a, b) for a in c for b in c))


def _cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] < one[1] < other[1]


def draw(random: Random) -> tuple[list[ClusterPrediction], list[DocumentExample]]:
    predictions, examples = list[ClusterPrediction](), list[DocumentExample]()
    for number in range(random.randint(1, 3)):
        words = random.randint(3, 8)
        gold = draw_clusters(random, words, random.random() < 0.3)
        guess = draw_clusters(random, words, random.random() < 0.3)
        if random.random() < 0.5:  # some of the gold clusters beside some of others
            kept = [c for c in gold if random.random() < 0.7]
            taken = {mention for c in kept for mention in c}
            guess = (*kept, *(c for c in guess if taken.isdisjoint(c)))
        example = DocumentExample(
            id=f"nw/{number}/000",
            sentences=(tuple("abcdefgh"[:words]),),
            speakers=("-",),
            clusters=gold,
        )
        examples.append(example)
        predictions.append(ClusterPrediction(id=example.id, clusters=guess))
    return predictions, examples


@pytest.mark.parametrize("sets", [200, pytest.param(1_000, marks=pytest.mark.soak)])
def test_random_files_score_as_the_scorer_does(sets):
    values = set[float]()
    for seed in range(sets):
        predictions, examples = draw(Random(seed))
        gold = [ClusterPrediction(id=e.id, clusters=e.clusters or ()) for e in examples]
        key, response = (write_clusters(side, examples).decode() for side in (gold, predictions))
        expected = official(key, response)
        found = dict(score(COREF, "dev", predictions, examples))
        for ours, theirs in (("muc", "muc"), ("b3", "bcub"), ("ceafe", "ceafe")):
            names = f"{ours}_recall", f"{ours}_precision", f"{ours}_f1"
            assert [found[name] for name in names] == pytest.approx(expected[theirs]), seed
        assert found["f1"] == pytest.approx(sum(f1 for *_, f1 in expected.values()) / 3)
        values.add(found["f1"])
    assert len(values) > 0.3 * sets, "the sets must differ"


def test_crossing_mentions_of_a_chain_are_read_as_the_scorer_reads_them(tmp_path: Path) -> None:
    """A word's marks in any order: of "0)|(0" the end is of what begins there."""
    values = set[float]()
    for seed in range(150):
        random = Random(seed)
        _, (example, *_) = draw(random)
        stretches = [(a, b) for b in range(2, len(example.words) + 1) for a in range(b - 1)]
        drawn = random.sample(stretches, min(4, len(stretches)))
        response = ClusterPrediction(id=example.id, clusters=(tuple(drawn[:3]), tuple(drawn[3:])))
        key = write_clusters(
            [ClusterPrediction(id=example.id, clusters=example.clusters or ())], [example]
        )
        lines = write_clusters([response], [example]).decode().split("\n")
        for number, line in enumerate(lines):
            rest, tab, cell = line.rpartition("\t")
            marks = cell.split("|")
            random.shuffle(marks)
            lines[number] = rest + tab + "|".join(marks)
        (tmp_path / "response").write_text("\n".join(lines))
        rows = SplitRows(examples=(example,), fingerprint="")
        try:
            read = read_predictions(tmp_path / "response", COREF, rows).predictions
        except DataError:
            continue  # one mention twice
        found = score(COREF, "dev", read, [example])
        expected = official(key.decode(), "\n".join(lines))
        assert found["f1"] == pytest.approx(sum(f1 for *_, f1 in expected.values()) / 3), seed
        values.add(found["f1"])
    assert len(values) > 20, "the files must differ"


A, B, C, D, E, F, G, H, P, Q, R, S = ((n, n + 1) for n in range(12))


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        # The example of the scorer's own tests (Luo 2005, figure 1): a key of {A B C D E}, {F G},
        # {H P Q R S}, and a response that joins the first or the second with the last.
        (((A, B, C, D, E), (F, G, H, P, Q, R, S)), (1.0, 0.9, 1.0, 16 / 21)),
        (((A, B, C, D, E, H, P, Q, R, S), (F, G)), (1.0, 0.9, 1.0, 7 / 12)),
    ],
)  # fmt: skip
def test_the_measures_of_a_known_example(predicted: Clusters, expected: tuple[float, ...]):
    gold = ((A, B, C, D, E), (F, G), (H, P, Q, R, S))
    found = muc(gold, predicted)
    assert (found.recall, found.precision) == pytest.approx(expected[:2])
    found = b_cubed(gold, predicted)
    assert (found.recall, found.precision) == pytest.approx(expected[2:])


def test_entities_are_paired_one_to_one():
    gold = ((A, B, C), (D, E, F, G))
    predicted = ((A, B), (C, D), (F, G, H, P))
    found = ceaf_e(gold, predicted)
    # {A B C} with {A B}: 4/5, {D E F G} with {F G H P}: 1/2.
    assert found == pytest.approx((1.3, 2, 1.3, 3))


def test_nothing_predicted_scores_nothing():
    example = DocumentExample(
        id="nw/0/000", sentences=(("a", "b"),), speakers=("-",), clusters=(((0, 1), (1, 2)),)
    )
    prediction = ClusterPrediction(id=example.id, clusters=())
    assert set(score(COREF, "dev", [prediction], [example]).values()) == {0.0}
