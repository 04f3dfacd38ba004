"""Tests of MUC, B3 and CEAF-e against a reimplementation of the official scorer."""

import re
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from benchharness.errors import DataError
from benchharness.extensions.conll2012.files import write_clusters
from benchharness.extensions.conll2012.metrics import b_cubed, ceaf_e, muc
from benchharness.extensions.conll2012.resampling import breakdowns
from benchharness.extensions.conll2012.task import ClusterPrediction, Clusters, DocumentExample
from benchharness.extensions.conll2012.tasks import COREF
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.leaderboard.comparing import CLOSE, units_of
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.task import score

# Independent reimplementation of reference-coreference-scorers (CorScorer.pm), which reads the same
# files. It shares no code with the metrics: mentions are numbered over key and response as in the
# script, links are counted mention by mention, and all alignments of entities are tried.

Chains = list[list[int]]


def official(key: str, response: str) -> Mapping[str, tuple[float, float, float]]:
    """Return recall, precision and F1 of "muc", "bcub" and "ceafe", as fractions."""
    keys, responses = _documents(key), _documents(response)
    assert keys.keys() == responses.keys()
    found = {}
    for name, count in (("muc", _muc), ("bcub", _bcub), ("ceafe", _ceafe)):
        sums = [0.0] * 4
        for document in keys:
            numbers = count(*_numbered(keys[document], responses[document]))
            sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        recall = sums[0] / sums[1] if sums[1] else 0.0
        precision = sums[2] / sums[3] if sums[3] else 0.0
        both = recall + precision
        found[name] = recall, precision, 2 * precision * recall / both if both else 0.0
    return found


def _documents(text: str) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Return the mentions of every chain, by document; words are counted through its sentences."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for block in re.split(r"^#begin document ", text, flags=re.MULTILINE)[1:]:
        name, *lines = block.splitlines()
        chains: dict[str, list[tuple[int, int]]] = {}
        half: dict[str, list[int]] = {}
        rows = [line.split() for line in lines if line and not line.startswith("#")]
        for word, row in enumerate(rows):
            cell = row[-1]
            for chain in re.findall(r"\((\d+)\)", cell):
                chains.setdefault(chain, []).append((word, word))
            cell = re.sub(r"\(\d+\)", "", cell)
            for chain in re.findall(r"\((\d+)", cell):
                # Chains are numbered in the order of their first marks.
                chains.setdefault(chain, [])
                half.setdefault(chain, []).append(word)
            for chain in re.findall(r"(\d+)\)", cell):
                chains.setdefault(chain, []).append((half[chain].pop(), word))
        assert not any(half.values())
        found[name] = chains
    return found


def _numbered(key: Mapping, response: Mapping) -> tuple[Chains, Chains]:
    numbers: dict[tuple[int, int], int] = {}
    # The script keeps only the first occurrence of a gold mention that the response repeats.
    gold, seen = {m for chain in key.values() for m in chain}, set[tuple[int, int]]()
    response = {
        name: [m for m in chain if not (m in gold and (m in seen or seen.add(m)))]  # type: ignore[func-returns-value]
        for name, chain in response.items()
    }
    response = {name: chain for name, chain in response.items() if chain}
    for chains in (key, response):
        for mentions in chains.values():
            for mention in mentions:
                numbers.setdefault(mention, len(numbers))
    one, other = ([[numbers[m] for m in c] for c in side.values()] for side in (key, response))
    return one, other


def _muc(key: Chains, response: Chains) -> list[float]:
    chain_of = {mention: place for place, chain in enumerate(key) for mention in chain}
    right = 0
    for chain in response:
        for place, mention in enumerate(chain):
            if any(
                mention in chain_of and chain_of[mention] == chain_of.get(later)
                for later in chain[place + 1 :]
            ):
                right += 1
    links = [sum(len(chain) - 1 for chain in side) for side in (key, response)]
    return [right, links[0], right, links[1]]


def _bcub(key: Chains, response: Chains) -> list[float]:
    recall = precision = 0.0
    for chain in response:
        for mention in chain:
            gold = next((other for other in reversed(key) if mention in other), [])
            common = len([each for each in chain if each in gold])
            precision += common / len(chain)
            recall += common / len(gold) if gold else 0.0
    return [recall, sum(map(len, key)), precision, sum(map(len, response))]


def _ceafe(key: Chains, response: Chains) -> list[float]:
    def alike(gold: list[int], other: list[int]) -> float:
        return 2 * sum(mention in other for mention in gold) / (len(gold) + len(other))

    # Empty clusters have the similarity 0 with any cluster.
    empty: Chains = [[]] * max(0, len(key) - len(response))
    best = max(
        sum(alike(gold, other) for gold, other in zip(key, chosen, strict=True))
        for chosen in permutations([*response, *empty], len(key))
    )
    return [best, len(key), best, len(response)]


# Tests.


def draw_clusters(random: Random, words: int, alone: bool) -> Clusters:
    """Draw a few clusters of different mentions; some have a single mention if `alone`."""
    stretches = [(a, b) for a in range(words) for b in range(a + 1, min(words, a + 3) + 1)]
    mentions = random.sample(stretches, random.randint(0, min(8, len(stretches))))
    clusters: dict[int, list[tuple[int, int]]] = {}
    for mention in mentions:
        clusters.setdefault(random.randint(0, 3), []).append(mention)
    kept = [c for c in clusters.values() if alone or len(c) > 1]
    # The column does not determine which of two crossing mentions of a chain ends first.
    return tuple(tuple(c) for c in kept if not any(_cross(a, b) for a in c for b in c))


def _cross(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] < one[1] < other[1]


def draw(random: Random) -> tuple[list[ClusterPrediction], list[DocumentExample]]:
    predictions, examples = list[ClusterPrediction](), list[DocumentExample]()
    for number in range(random.randint(1, 3)):
        words = random.randint(3, 8)
        gold = draw_clusters(random, words, random.random() < 0.3)
        guess = draw_clusters(random, words, random.random() < 0.3)
        if random.random() < 0.5:  # combine some gold clusters with some of the other clusters
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
def test_coreference_scores_of_random_files_match_the_official_scorer(sets):
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


def test_crossing_mentions_are_scored_as_by_the_official_scorer(tmp_path: Path) -> None:
    """Shuffle the marks of each word.

    In "0)|(0" the end belongs to the mention that begins there.
    """
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
        text = shuffled(write_clusters([response], [example]).decode(), random)
        (tmp_path / "response").write_text(text)
        rows = SplitRows(examples=(example,), fingerprint="")
        read = read_predictions(tmp_path / "response", COREF, rows).predictions
        found = score(COREF, "dev", read, [example])
        expected = official(key.decode(), text)
        assert found["f1"] == pytest.approx(sum(f1 for *_, f1 in expected.values()) / 3), seed
        values.add(found["f1"])
    assert len(values) > 20, "the files must differ"


def shuffled(text: str, random: Random) -> str:
    """Return the same columns with the marks of each word in another order."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        rest, tab, cell = line.rpartition("\t")
        marks = cell.split("|")
        random.shuffle(marks)
        lines[number] = rest + tab + "|".join(marks)
    return "\n".join(lines)


def gold_file(words: int, chains: list[list[tuple[int, int]]]) -> str:
    """Return the columns of a document of one sentence, its chains numbered in their order."""
    marks: list[list[str]] = [[] for _ in range(words)]
    numbered = [(a, b, n) for n, chain in enumerate(chains) for a, b in chain]
    for start, end, number in sorted(numbered, key=lambda mark: (mark[0], -mark[1])):
        marks[start].append(f"({number})" if end == start + 1 else f"({number}")
    for start, end, number in sorted(numbered, key=lambda mark: -mark[0]):
        marks[end - 1] += [f"{number})"] if end > start + 1 else []
    lines = [
        "\t".join(["nw/x", "0", str(n), "abcdefgh"[n], *"-" * 7, "|".join(found) or "-"])
        for n, found in enumerate(marks)
    ]
    return "\n".join(["#begin document (nw/x); part 000", *lines, "", "#end document", ""])


@pytest.mark.parametrize("kind", ["in two chains", "twice", "crossing", "marks in any order"])
def test_overlapping_gold_chains_are_scored_as_by_the_official_scorer(
    kind: str, tmp_path: Path
) -> None:
    """Compare on random files.

    The rules were compared with scorer.pl itself on 471, 900 and 240 random files; and 120 where a
    response repeats mentions.
    """
    values, odd = list[float](), 0
    for seed in range(150):
        random, words = Random(f"{kind} {seed}"), 5 if kind == "marks in any order" else 8
        stretches = [(a, b) for a in range(words) for b in range(a + 1, min(words, a + 4) + 1)]
        drawn = random.sample(stretches, 6)
        chains = [drawn[:2], drawn[2:5], drawn[5:]]
        if kind != "crossing":
            one, other = random.sample(range(3), 2)
            chains[other].append(random.choice(chains[other if kind == "twice" else one]))
        path = tmp_path / "conll2012" / "dev.english.v4_gold_conll"
        path.parent.mkdir(exist_ok=True)
        text = gold_file(words, chains)
        path.write_text(shuffled(text, random) if kind == "marks in any order" else text)
        rows = read(COREF, "dev", Data(source="files", folder=tmp_path))
        guess = draw_clusters(random, words, alone=True)
        if kind in (
            "twice",
            "marks in any order",
        ):  # the chain of a mention matters only if the mention is also predicted
            drawn = random.sample([*dict.fromkeys(m for c in chains for m in c)], 5)
            halves = tuple(drawn[:3]), tuple(drawn[3:])
            guess = tuple(c for c in halves if not any(_cross(a, b) for a in c for b in c))
        made = [ClusterPrediction(id=e.id, clusters=guess) for e in rows.examples]
        response = write_clusters(made, rows.examples).decode()  # type: ignore[arg-type]
        expected = official(path.read_text(), response)
        found = score(COREF, "dev", made, rows.examples)
        for ours, theirs in (("muc", "muc"), ("b3", "bcub"), ("ceafe", "ceafe")):
            names = f"{ours}_recall", f"{ours}_precision", f"{ours}_f1"
            assert [found[name] for name in names] == pytest.approx(expected[theirs]), seed
        ((parts, mean_f1),) = ((b.parts, b.score) for b in breakdowns(COREF, "f1"))
        sums = parts(made, rows.examples, units_of(rows.examples)).sum(axis=0)
        assert mean_f1(sums) == pytest.approx(found["f1"], abs=CLOSE), seed
        values.append(found["f1"])
        odd += bool(rows.odd)
    assert len(set(values)) > 40
    assert odd > (0 if kind == "crossing" else 90)


A, B, C, D, E, F, G, H, P, Q, R, S = ((n, n + 1) for n in range(12))


@pytest.mark.parametrize(
    ("predicted", "expected"),
    [
        # The example in the tests of the official scorer (Luo 2005, figure 1): the key is {A B C D
        # E}, {F G}, {H P Q R S}, and the response joins the first or the second cluster with the
        # last.
        (((A, B, C, D, E), (F, G, H, P, Q, R, S)), (1.0, 0.9, 1.0, 16 / 21)),
        (((A, B, C, D, E, H, P, Q, R, S), (F, G)), (1.0, 0.9, 1.0, 7 / 12)),
    ],
)  # fmt: skip
def test_muc_and_b3_match_the_worked_examples_of_the_official_scorer(
    predicted: Clusters, expected: tuple[float, ...]
):
    gold = ((A, B, C, D, E), (F, G), (H, P, Q, R, S))
    found = muc(gold, predicted)
    assert (found.recall, found.precision) == pytest.approx(expected[:2])
    found = b_cubed(gold, predicted)
    assert (found.recall, found.precision) == pytest.approx(expected[2:])


def test_repeated_gold_mentions_are_scored_as_by_scorer_pl():
    gold = ((A, A, B), (B, C), (D, E, E, F, G))
    found = [measure(gold, ((A, B), (D, E, F, G))) for measure in (muc, b_cubed, ceaf_e)]
    printed = (
        (3, 7, 3, 4),
        (4.36666666666667, 10, 5.5, 6),
        (2.31111111111111, 3, 2.31111111111111, 2),
    )
    assert found == [pytest.approx(sums) for sums in printed]


def test_repeated_gold_mention_can_raise_f1_above_1_but_not_above_4_3():
    chain = tuple((0, place, place + 1) for place in range(100))
    gold = (chain, ((0, 200, 201), (0, 202, 203), (0, 200, 201)))
    example = DocumentExample(
        id="nw/x/000", sentences=(tuple("w" * 300),), speakers=("-",), clusters=gold
    )
    answer = ClusterPrediction(id=example.id, clusters=gold)
    scores = score(COREF, "dev", [answer], [example])
    assert 1.0 < scores["f1"] <= 4 / 3


def test_response_that_repeats_over_10_gold_mentions_is_an_error(tmp_path):
    example = DocumentExample(
        id="nw/x/000", sentences=(tuple("abcdefgh"),), speakers=("-",), clusters=((A, B), (C, D))
    )
    rows, path = SplitRows(examples=(example,), fingerprint=""), tmp_path / "response"
    path.write_text(gold_file(8, [[A, C], [A, B, E, E], [C]]))
    found = read_predictions(path, COREF, rows)
    assert found.predictions[0].clusters == ((A, C), (B, E, E))
    assert found.notes == ("repeated gold mentions are ignored, as in scorer.pl: 2",)
    path.write_text(gold_file(8, [[A] * 12]))
    with pytest.raises(DataError, match="repeats 11 gold mentions, but scorer"):
        read_predictions(path, COREF, rows)


def test_ceafe_aligns_gold_and_predicted_entities_one_to_one():
    gold = ((A, B, C), (D, E, F, G))
    predicted = ((A, B), (C, D), (F, G, H, P))
    found = ceaf_e(gold, predicted)
    # The similarity of {A B C} and {A B} is 4/5, and that of {D E F G} and {F G H P} is 1/2.
    assert found == pytest.approx((1.3, 2, 1.3, 3))


def test_coreference_score_of_an_empty_prediction_is_0():
    example = DocumentExample(
        id="nw/0/000", sentences=(("a", "b"),), speakers=("-",), clusters=(((0, 1), (1, 2)),)
    )
    prediction = ClusterPrediction(id=example.id, clusters=())
    assert set(score(COREF, "dev", [prediction], [example]).values()) == {0.0}
