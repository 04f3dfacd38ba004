"""Tests of the calibration of stored runs: kinds of tasks, intervals, errors, and output."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import benchharness as bh
from benchharness.errors import BenchError, DataError
from benchharness.extensions.calibration.calibrate import (
    NAMES,
    Calibration,
    Wanted,
    calibrate,
)
from benchharness.extensions.calibration.figures import CALIBRATION
from benchharness.extensions.calibration.judged import Judged, Run, judge
from benchharness.extensions.plots.chart import named_entries
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split, read_split
from benchharness.stored import gather_boards
from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

DB = "board.sqlite"


def examples_of(task, split="dev"):
    return read(find_task(task), split, parse_data("mini")).examples


def few(count):
    """Return rows of RTE whose labels alternate between the two classes."""
    examples = examples_of("glue/rte")
    sides = ([e for e in examples if e.label == label] for label in find_task("glue/rte").labels)
    return [each for pair in zip(*sides, strict=False) for each in pair][:count]


def predicted(task, predictions, examples=None):
    """Return the predictions of a single run for a split."""
    examples = examples_of(task) if examples is None else examples
    return PredictedSplit(
        task=find_task(task), split="dev", examples=tuple(examples), one=(tuple(predictions),)
    )


def labelled(task, example, chance):
    """Return a prediction with this probability of the gold label; other labels share the rest."""
    gold = task.labels.index(example.label)
    rest = (1 - chance) / (len(task.labels) - 1)
    scores = tuple(chance if n == gold else rest for n in range(len(task.labels)))
    return PairPrediction(
        id=example.id, label=task.labels[scores.index(max(scores))], scores=scores
    )


def job_of(task="glue/rte", **fields):
    return make_job(task=task, **fields)


# Kinds of tasks.


def test_measures_of_classes_use_the_probability_of_the_gold_label():
    task, examples = find_task("glue/rte"), few(4)
    chances = [0.9, 0.8, 0.3, 0.6]
    found = judge(
        predicted(
            "glue/rte",
            [labelled(task, *pair) for pair in zip(examples, chances, strict=True)],
            examples,
        ),
        [job_of()],
    )
    (run,) = found.runs
    assert run.chance.tolist() == chances
    assert run.brier.tolist() == pytest.approx([2 * (1 - p) ** 2 for p in chances])
    assert run.confidence.tolist() == run.row_confidence.tolist() == [0.9, 0.8, 0.7, 0.6]
    assert run.right.tolist() == run.row_right.tolist() == [1, 1, 0, 1]
    assert found.group.tolist() == [task.labels.index(e.label) for e in examples]


def test_measures_of_options_use_the_sum_of_all_right_options():
    plain = examples_of("race/all")[:2]
    several = replace(plain[0], id="several", options=("a", "b", "c"), gold=(0, 2))
    examples = (plain[0], plain[1], several)
    scores = [(0.1, 0.2, 0.3, 0.4), (0.25, 0.25, 0.3, 0.2), (0.2, 0.5, 0.3)]
    found = judge(
        predicted(
            "race/all",
            [
                ChoicePrediction(id=e.id, option=s.index(max(s)), scores=s)
                for e, s in zip(examples, scores, strict=True)
            ],
            examples,
        ),
        [job_of("race/all")],
    )
    (run,) = found.runs
    golds = [e.gold[0] for e in plain]
    assert run.chance.tolist() == pytest.approx([scores[0][golds[0]], scores[1][golds[1]], 0.5])
    assert run.brier[2] == pytest.approx(0.5**2 + 0.5**2)
    assert run.confidence.tolist() == [0.4, 0.3, 0.5]
    assert found.group is None


def test_each_label_of_a_row_is_judged_as_a_separate_decision():
    task, examples = find_task("lexglue/ecthr_a"), examples_of("lexglue/ecthr_a")[:3]
    count = len(task.labels)
    predictions = [
        PairPrediction(id=e.id, label=task.labels[:1], scores=(0.8, *[0.1] * (count - 1)))
        for e in examples
    ]
    found = judge(predicted(task.name, predictions, examples), [job_of(task.name)])
    (run,) = found.runs
    has = np.array([[label in e.label for label in task.labels] for e in examples])
    chance = np.array([0.8, *[0.1] * (count - 1)])
    assert run.chance.reshape(3, count) == pytest.approx(np.where(has, chance, 1 - chance))
    assert run.confidence.reshape(3, count)[0].tolist() == pytest.approx(
        [0.8, *[0.9] * (count - 1)]
    )
    assert run.row_confidence.tolist() == pytest.approx([0.8 * 0.9 ** (count - 1)] * 3)
    assert run.row_right.tolist() == [float(e.label == task.labels[:1]) for e in examples]
    assert found.unit.tolist() == [n for n in range(3) for _ in range(count)]


def test_decisions_on_unanswerable_questions_use_the_no_answer_score():
    examples = examples_of("squad/v2.0")
    some = [e for e in examples if e.answers][:2] + [e for e in examples if not e.answers][:2]
    texts = [some[0].answers[0][0], "something else", "word", "word"]
    margins = [-2.0, -1.0, 3.0, -0.5]
    found = judge(
        predicted(
            "squad/v2.0",
            [
                SpanPrediction(id=e.id, text=t, no_answer_score=m)
                for e, t, m in zip(some, texts, margins, strict=True)
            ],
            some,
        ),
        [job_of("squad/v2.0")],
    )
    (run,) = found.runs
    sure = [1 / (1 + np.exp(-abs(m))) for m in margins]
    assert run.confidence.tolist() == pytest.approx(sure)
    assert run.right.tolist() == [1, 1, 1, 0]  # the last question has no answer
    assert run.chance.tolist() == pytest.approx([*sure[:3], 1 - sure[3]])
    assert run.row_right.tolist() == [1, 0, 1, 0]  # the second text is not the answer
    assert found.group.tolist() == [1, 1, 0, 0]


# Errors.


def test_probabilities_that_do_not_sum_to_one_raise_an_error_with_the_row():
    task, examples = find_task("glue/rte"), few(3)
    good = [labelled(task, e, 0.8) for e in examples]
    for scores, said in (
        ((0.9, 0.9), "sum to 1.8 instead of 1"),
        ((1.2, -0.2), "are from -0.2 to 1.2 instead of from 0 to 1"),
    ):
        bad = [*good[:2], replace(good[2], scores=scores)]
        with pytest.raises(DataError) as caught:
            judge(predicted("glue/rte", bad, examples), [job_of(model="theirs")])
        assert f"the probabilities of row '{examples[2].id}' in run" in str(caught.value)
        assert f"of theirs {said}" in str(caught.value)
    rounded = [*good[:2], replace(good[2], scores=(0.6664, 0.3332))]
    judge(predicted("glue/rte", rounded, examples), [job_of()])


@pytest.mark.parametrize(
    ("task", "change", "said"),
    [
        ("conll2003/ner", {}, "are stored without probabilities"),
        ("glue/stsb", {}, "are stored without probabilities"),
        ("squad/v1.1", {}, "are stored without probabilities"),
        ("glue/rte", {"scores": ()}, "has predictions of RTE dev without probabilities"),
    ],
)
def test_predictions_without_probabilities_raise_an_error(task, change, said):
    examples = examples_of(task)[:3]
    golds = {
        "conll2003/ner": lambda e: TagPrediction(id=e.id, tags=e.tags),
        "squad/v1.1": lambda e: SpanPrediction(id=e.id, text="a"),
    }
    of = golds.get(task, lambda e: PairPrediction(id=e.id, label=e.label))
    with pytest.raises(BenchError, match=said):
        judge(
            predicted(task, [replace(of(e), **change) for e in examples], examples), [job_of(task)]
        )


def test_no_answer_scores_of_a_prediction_file_are_refused_as_probabilities():
    examples = examples_of("squad/v2.0")[:4]
    guesses = [SpanPrediction(id=e.id, text="a", no_answer_score=0.2) for e in examples]
    with pytest.raises(BenchError, match="are not differences of logits"):
        judge(predicted("squad/v2.0", guesses, examples), [job_of("squad/v2.0", kind="scored")])


def test_rows_of_one_class_or_a_single_row_raise_an_error():
    task = find_task("glue/rte")
    same = [e for e in examples_of("glue/rte") if e.label == task.labels[0]][:5]
    with pytest.raises(BenchError, match="all rows of RTE dev have the same gold answer"):
        judge(predicted("glue/rte", [labelled(task, e, 0.7) for e in same], same), [job_of()])
    one = same[:1]
    with pytest.raises(BenchError, match="RTE dev has only one row, or one group"):
        judge(predicted("glue/rte", [labelled(task, e, 0.7) for e in one], one), [job_of()])


# Stored runs.


def run(model, seed, chances, task="glue/rte", split="dev"):
    """Return a run on mini data; `chances(draw)` draws the probability of a gold label."""
    found = find_task(task)
    names = ("train", split)
    prints = {f"{task}:{s}": read(found, s, parse_data("mini")).fingerprint for s in names}
    job = make_job(
        model=model, task=task, seed=seed, fingerprints=prints, precision="fp32", recipe="paper"
    )
    rows = read_split(job, f"{task}:{split}")
    draw = random.Random(f"{model} {seed}")
    guesses = [labelled(found, e, chances(draw)) for e in rows.examples]
    return replace(
        make_result(job), evaluations=(evaluate_split(f"{task}:{split}", rows, guesses),)
    )


def sure(draw):
    """Draw a gold label's probability of an overconfident model: at least 0.95 in 80 % of draws."""
    return draw.uniform(0.95, 0.999) if draw.random() < 0.8 else draw.uniform(0.001, 0.05)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / DB
    with open_store(str(path)) as store:
        for seed in (1, 2, 3):
            store.add_result(run("bold", seed, sure))
        store.add_result(run("stuck", 1, lambda _: 0.5))
        store.add_result(
            run("careful", 1, lambda draw: 0.75 + 0.2 * draw.random() * draw.choice((1, -1)))
        )
    return path


@pytest.fixture
def stored(made, tmp_path, monkeypatch):
    shutil.copy(made, tmp_path / DB)
    monkeypatch.chdir(tmp_path)


def test_command_shows_measures_with_intervals_and_the_coverage(bench, stored):
    ended = bench("calibration", "bold", "--task", "rte", "--accuracy", "0.9", "--db", DB)
    assert ended.code == 0, ended.err
    assert "RTE dev: 160 rows, 3 seeds" in ended.out
    for name in (*NAMES.values(), "coverage with 90 % right answers"):
        assert name.strip() in ended.out
    (line,) = [line for line in ended.out.splitlines() if "confidence minus accuracy" in line]
    value, low, _, high = line.split()[3:]
    assert 10 < float(value) < 25
    assert 5 < float(low) < float(value) < float(high) < 30


def test_json_has_the_measures_the_bins_and_the_curve(bench, stored):
    ended = bench("calibration", "bold", "--db", DB, "--json")
    (board,) = json.loads(ended.out)
    (found,) = board["splits"].values()
    assert board["system"].startswith("bold")
    assert (found["rows"], found["seeds"], found["items"]) == (160, 3, 160)
    assert list(found["measures"]) == list(NAMES)
    measures = {name: each["value"] for name, each in found["measures"].items()}
    assert measures["ece"] > 3 * measures["ece_if_calibrated"]
    assert measures["rms_error"] == pytest.approx(measures["overconfidence"], abs=0.03)
    assert len(found["curve"]) == 100
    assert found["curve"][-1]["accuracy"] == pytest.approx(measures["accuracy"])
    assert sum(each["share"] for each in found["reliability"]) == pytest.approx(1)
    reached = found["reached"]
    assert reached["coverage"]["low"] <= reached["coverage"]["value"] <= reached["coverage"]["high"]


def test_calibration_of_a_run_key_is_about_this_run_only(bench, stored):
    key = run("bold", 2, sure).job.key[:12]
    ended = bench("calibration", key, "--db", DB, "--json")
    (found,) = json.loads(ended.out)[0]["splits"].values()
    assert found["seeds"] == 1


def test_python_function_returns_a_data_frame_with_bins_and_curve(stored):
    frame = bh.calibration("bold", task="glue/rte", accuracy=0.9, db=DB)
    assert list(frame["measure"])[: len(NAMES)] == list(NAMES)
    values = frame.set_index("measure")
    assert values.loc["nll", "low"] < values.loc["nll", "value"] < values.loc["nll", "high"]
    assert np.isnan(values.loc["ece", "low"])
    assert set(frame.attrs["curve"]["glue/rte:dev"]) == {
        "coverage", "accuracy", "confidence", "low", "high"
    }  # fmt: skip
    assert len(frame.attrs["reliability"]["glue/rte:dev"]) == 15


def test_warnings_about_a_run_that_learned_nothing_are_shown(bench, stored):
    for form in ((), ("--json",)):
        ended = bench("calibration", "stuck", "--db", DB, *form)
        assert "constant predictions" in ended.out
    assert "constant predictions" in bh.calibration("stuck", db=DB)["flags"].iloc[0]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nobody",), 2, "nobody"),
        (("bold", "--accuracy", "95"), 2, "--accuracy must be above 0 and at most 1, but got 95"),
        (("bold", "--split", "test"), 2, "has no predictions for glue/rte test"),
    ],
)
def test_wrong_arguments_are_reported_in_one_sentence(bench, stored, words, code, said):
    ended = bench("calibration", *words, "--db", DB)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_task_without_probabilities_is_listed_with_the_reason(bench, stored):
    task = find_task("glue/stsb")
    prints = {
        f"glue/stsb:{s}": read(task, s, parse_data("mini")).fingerprint for s in ("train", "dev")
    }
    job = make_job(
        model="bold", task="glue/stsb", fingerprints=prints, precision="fp32", recipe="paper"
    )
    rows = read_split(job, "glue/stsb:dev")
    numbers = [PairPrediction(id=e.id, label=e.label) for e in rows.examples]
    made = replace(make_result(job), evaluations=(evaluate_split("glue/stsb:dev", rows, numbers),))
    with open_store(DB) as store:
        store.add_result(made)
    ended = bench("calibration", "bold", "--db", DB)
    assert ended.code == 0
    assert "STS-B dev: no calibration, because predictions of STS-B dev are stored without" in (
        ended.out
    )
    alone = bench("calibration", "bold", "--task", "stsb", "--db", DB)
    assert (alone.code, alone.out) == (2, "")
    assert "are stored without probabilities" in alone.err
    assert list(bh.calibration("bold", db=DB).attrs["reasons"]) == ["glue/stsb:dev"]


def test_report_has_a_reliability_diagram_and_a_risk_coverage_curve(bench, stored):
    assert bench("report", "--out", "page.html", "--db", DB).code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    for title in ("RTE dev: reliability", "RTE dev: risk and coverage"):
        assert f"<b>{title}</b>" in page
    assert "bold: ECE" in page


def test_figures_have_the_best_models_a_diagonal_and_intervals(stored):
    with open_store(DB) as store:
        (board,) = gather_boards(store)
        figures = CALIBRATION.prepare(store, board, True)(named_entries(board, "b"), board)
        assert CALIBRATION.prepare(store, board, False)(named_entries(board, "b"), board) == ()
    reliability, risk = figures
    assert {key.text for key in reliability.keys} == {"bold", "careful", "stuck"}
    assert reliability.paths[0].kind == "line zero"
    x, y = reliability.x, reliability.y
    start = reliability.paths[0].d.removeprefix("M").split()[0].split(",")
    place = max(x.low, y.low)
    assert [float(each) for each in start] == [x(place), y(place)]
    assert all("range" in mark.paths for mark in (*reliability.marks, *risk.marks))
    rows = [row for row in risk.table.rows if row.name == "bold"]
    assert len(rows) == 10
    assert rows[-1].cells[0] == "100.0"


# Coverage of intervals: the share of simulations whose interval contains the true value.

SURE = Wanted(accuracy=0.9)


def simulated(draw, rows, seeds, noise):
    """Return simulated predictions of an overconfident model for two classes.

    Args:
        draw: Random generator.
        rows: Number of rows.
        seeds: Number of runs.
        noise: Standard deviation of a seed's effect on all logits; twice as large on single logits.
    """
    truth = draw.normal(0, 2, rows)
    gold = (draw.uniform(size=rows) < 1 / (1 + np.exp(-truth))).astype(int)
    runs = []
    for _ in range(seeds):
        logits = 1.4 * (truth + noise * draw.normal() + 2 * noise * draw.normal(size=rows))
        upper = 1 / (1 + np.exp(-logits))
        right = ((logits > 0) == (gold == 1)).astype(float)
        chance = np.where(gold == 1, upper, 1 - upper)
        confidence = np.maximum(upper, 1 - upper)
        runs.append(
            Run(
                chance=chance,
                brier=2 * (1 - chance) ** 2,
                confidence=confidence,
                right=right,
                row_confidence=confidence,
                row_right=right,
            )
        )
    place = np.arange(rows)
    return Judged(units=rows, unit=place, row_unit=place, group=gold, runs=tuple(runs))


PLAIN = Calibration(task="glue/rte", split="dev", measures={})


def values_of(found):
    measures = {n: m for n, m in found.measures.items() if not n.startswith("ece")}
    return measures | {"coverage": found.reached.coverage}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("seeds", "noise"), [(1, 0.0), (5, 0.3)])
def test_intervals_contain_the_true_value_in_95_of_100_simulations(seeds, noise):
    draw = np.random.default_rng(11)
    large = [
        values_of(calibrate(simulated(draw, 20_000, seeds, noise), PLAIN, SURE)) for _ in range(60)
    ]
    known = {name: np.mean([found[name].value for found in large]) for name in large[0]}
    hits = dict.fromkeys(known, 0)
    for _ in range(1_000):
        found = values_of(calibrate(simulated(draw, 500, seeds, noise), PLAIN, SURE))
        for name, each in found.items():
            hits[name] += each.interval.has(known[name])
    assert all(930 <= count <= 970 for count in hits.values()), hits


def test_intervals_contain_the_true_value_in_most_small_simulations():
    draw = np.random.default_rng(12)
    coarse = Wanted(accuracy=0.9, coverages=20)
    known = values_of(calibrate(simulated(draw, 5_000, 6, 0.3), PLAIN, coarse))
    hits = dict.fromkeys(known, 0)
    for _ in range(20):
        found = values_of(calibrate(simulated(draw, 300, 3, 0.3), PLAIN, coarse))
        for name, each in found.items():
            hits[name] += each.interval.has(known[name].value)
    assert all(count >= 17 for count in hits.values()), hits
