import json

import pytest

from benchharness.errors import DataError
from benchharness.extensions.gate.judge import judge
from benchharness.extensions.gate.sample import Baseline, conditions_of, sample_of
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.tasks.examples import PairExample
from tests.extensions.gate.samples import BEFORE, MORE_IDS, sample

BASELINE = Baseline(
    model="tiny",
    data="mini",
    limit=300,
    recipe="paper",
    environment={"versions": {"torch": "2"}},
    tasks=BEFORE,
)


def test_baseline_file_round_trips():
    text = BASELINE.to_text()
    assert Baseline.from_text(text, "baseline.json") == BASELINE
    assert json.loads(text)["summary"]["glue/rte"]["mean"] == pytest.approx(0.804)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a valid baseline"),
        ("[]", "is not a valid baseline"),
        ('{"format": 2}', "KeyError: 'tasks'"),
        ('{"format": 1, "tasks": {}}', "in format 1, but this version reads format 2"),
    ],
)
def test_invalid_baseline_file_is_an_error_that_names_it(text, words):
    with pytest.raises(DataError, match=words) as raised:
        Baseline.from_text(text, "baseline.json")
    assert str(raised.value).startswith("baseline.json is")


def changed(where, value):
    """Return the baseline file with one value changed, in RTE's sample if it has that key."""
    data = json.loads(BASELINE.to_text())
    inside = data["tasks"]["glue/rte"] if where in data["tasks"]["glue/rte"] else data
    inside[where] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("seeds", ["1", "2", "3", "4", "5"]),
        ("seeds", []),
        ("scores", [0.8]),
        ("scores", [0.8, 0.8, 0.8, 0.8, float("nan")]),
        ("scores", [0.8, 0.8, 0.8, 0.8, 10**400]),
        ("right", {"glue/rte:dev": [None] * 5}),
        ("right", {"glue/rte:dev": ["10", "1", "10", "10", "10"]}),
        ("right", {"glue/rte:dev": ["12"] * 5}),
        ("right", {"glue/rte:dev": ["10"] * 4}),
        ("right", {}),
        ("conditions", {**vars(BEFORE["glue/rte"].conditions), "weights": ["x"]}),
        ("conditions", {**vars(BEFORE["glue/rte"].conditions), "settings": []}),
        ("model", None),
        ("limit", "300"),
        ("environment", []),
    ],
)
def test_invalid_value_in_a_baseline_is_an_error(where, value):
    with pytest.raises(DataError, match=r"baseline\.json is not a valid baseline"):
        Baseline.from_text(changed(where, value), "baseline.json")


def test_deeply_nested_json_is_an_invalid_baseline():
    with pytest.raises(DataError, match="is not a valid baseline"):
        Baseline.from_text("[" * 100_000, "baseline.json")


@pytest.mark.parametrize("right", [{"glue/rte:dev": "10"}, {"glue/cola:dev": "1" * 104}])
def test_baseline_outcomes_for_other_examples_are_an_error(right):
    ((split, outcomes),) = right.items()
    before = {**BEFORE, "glue/rte": sample(BEFORE["glue/rte"].scores, outcomes, split)}
    with pytest.raises(DataError, match="the baseline of glue/rte has outcomes for"):
        judge("tiny", before, BEFORE, MORE_IDS, alpha=0.05)


def test_baseline_sample_of_one_seed_has_no_spread():
    assert sample((0.5,), "10").spread is None


ROWS = (
    PairExample(id="1", text_a="x", label="yes"),
    PairExample(id="2", text_a="y", label="no"),
)


def result(seed, *labels):
    job = Job(
        model="tiny",
        checkpoint="builtin:tiny",
        weights="builtin:tiny",
        task="glue/rte",
        task_version=1,
        data="mini",
        fingerprints={"glue/rte:train": "1", "glue/rte:dev": "2"},
        recipe="paper",
        settings={"epochs": Setting(value=2, source="a paper")},
        seed=seed,
        precision="fp32",
    )
    predictions = tuple(
        {"id": str(n), "label": label, "scores": []} for n, label in enumerate(labels, start=1)
    )
    evaluation = Evaluation(
        task="glue/rte", split="dev", fingerprint="2", scores={}, predictions=predictions
    )
    return Result(
        job=job,
        evaluations=(evaluation,),
        curve=(),
        cost=Cost.without_network(1.0),
        provenance={},
        finished="",
    )


def test_baseline_sample_records_correct_examples_per_seed():
    found = sample_of(
        [result(1, "yes", "yes"), result(2, "no", "no")], [0.5, 0.5], {"glue/rte:dev": ROWS}
    )
    assert found.seeds == (1, 2)
    assert found.right == {"glue/rte:dev": ("10", "01")}
    assert found.examples == 2
    assert found.conditions == conditions_of(result(3, "yes", "no").job)
    assert found.conditions.settings == {"epochs": 2}


def test_outcomes_of_predictions_for_other_rows_are_an_error():
    with pytest.raises(DataError, match="are for other rows than"):
        sample_of([result(1, "yes")], [1.0], {"glue/rte:dev": ROWS})
