import json
from dataclasses import replace

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.ensemble.average import make_ensemble
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

RTE = find_task("glue/rte")
SPLITS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def fingerprints():
    return {f"glue/rte:{s}": read(RTE, s, parse_data("mini")).fingerprint for s in SPLITS}


def run(fingerprints, model, seed, wrong, splits=("dev", "test")):
    """Build a run that is certain and right, except for uncertain errors in rows `wrong` of dev."""
    names = ("train", *splits)
    used = {f"glue/rte:{name}": fingerprints[f"glue/rte:{name}"] for name in names}
    job = make_job(model=model, seed=seed, fingerprints=used, precision="fp32", recipe="paper")
    evaluations = []
    for split in splits:
        rows = read_split(job, f"glue/rte:{split}")
        predictions = [
            predict(example, wrong=number in wrong) for number, example in enumerate(rows.examples)
        ]
        evaluations.append(evaluate_split(f"glue/rte:{split}", rows, predictions))
    return replace(make_result(job), evaluations=tuple(evaluations))


def predict(example, *, wrong):
    gold = RTE.labels.index(example.label or "entailment")
    chance = 0.55 if wrong else 0.9
    place = 1 - gold if wrong else gold
    scores = tuple(chance if number == place else 1 - chance for number in range(2))
    return PairPrediction(id=example.id, label=RTE.labels[place], scores=scores)


@pytest.fixture
def stored(tmp_path, monkeypatch, fingerprints):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for seed in range(3):
            store.add_result(run(fingerprints, "minilm", seed, {seed, 5 + seed}))
        store.add_result(run(fingerprints, "bert", 0, {9}, splits=("dev",)))


def ensembles():
    with open_store("board.sqlite") as store:
        rows = [row for row in store.runs() if row.kind == "ensemble"]
        return [store.result(row.key) for row in rows]


def test_ensemble_command_averages_all_seeds_of_a_model(bench, stored):
    ended = bench("ensemble", "minilm", "--task", "glue/rte", "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    (result,) = ensembles()
    dev, test = result.evaluations
    # At most one of the three members is wrong on each row, and this member is uncertain.
    assert dev.scores == {"accuracy": 1.0}
    assert (test.split, test.scores) == ("test", {})
    assert len(test.predictions) > 20
    assert result.job.recipe == "ensemble"
    members = result.provenance["members"]
    assert [member["seed"] for member in members.values()] == [0, 1, 2]
    assert {s.value for s in result.job.settings.values()} == {m["key"] for m in members.values()}
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["minilm", "x3", "100.0!"] in lines
    assert "below the models, without a rank: ensembles." in ended.out


def test_identical_ensembles_are_stored_once(bench, stored):
    for words in (("minilm",), ("minilm",), ("minilm", "bert"), ("minilm", "--name", "mine")):
        assert bench("ensemble", *words, "--db", "board.sqlite").code == 0
    assert sorted(r.job.model for r in ensembles()) == ["mine", "minilm x3", "minilm x3 + bert"]


def test_json_of_an_ensemble_has_its_members_and_scores_on_common_splits(bench, stored):
    ended = bench("ensemble", "bert", "minilm", "--name", "both", "--db", "board.sqlite", "--json")
    (made,) = json.loads(ended.out)
    assert (made["name"], made["task"]) == ("both", "glue/rte")
    assert list(made["members"].values()) == ["bert:paper:fp32", *["minilm:paper:fp32"] * 3]
    # bert has not predicted the test rows.
    assert set(made["scores"]) == {"glue/rte:dev"}
    shown = bench("show", made["key"][:12], "--db", "board.sqlite", "--json")
    assert json.loads(shown.out)["provenance"]["members"]["member_1"]["model"] == "bert"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bert",), "each task has only one run of bert on mini data, but"),
        (("roberta",), "no leaderboard has results of roberta. "),
        (("minilm", "--task", "cola"), "no requested task has results for minilm."),
    ],
)
def test_ensemble_with_too_few_members_is_an_error(bench, stored, words, sentence):
    ended = bench("ensemble", *words, "--db", "board.sqlite")
    assert ended.code == 2
    assert sentence in ended.err
    assert ensembles() == []


def test_ensemble_cannot_be_a_member_of_another_ensemble(bench, stored):
    bench("ensemble", "minilm", "--db", "board.sqlite")
    ended = bench("ensemble", "minilm x3", "bert", "--db", "board.sqlite")
    assert "is an ensemble" in ended.err


def test_ensemble_of_members_with_different_rows_is_an_error(fingerprints):
    one, other = (run(fingerprints, "minilm", seed, set()) for seed in (1, 2))
    dev = replace(other.evaluations[0], fingerprint="0" * 64)
    moved = replace(other, evaluations=(dev, *other.evaluations[1:]))
    with pytest.raises(DataError, match="have predicted different rows of glue/rte dev"):
        make_ensemble([("minilm", one), ("minilm", moved)], "x")


def test_ensemble_of_members_without_a_common_split_is_an_error(fingerprints):
    one = run(fingerprints, "minilm", 1, set(), splits=("dev",))
    other = run(fingerprints, "minilm", 2, set(), splits=("test",))
    with pytest.raises(BenchError, match="have no predicted split in common"):
        make_ensemble([("minilm", one), ("minilm", other)], "x")
    with pytest.raises(BenchError, match="at least two runs"):
        make_ensemble([("minilm", one), ("minilm", one)], "x")
