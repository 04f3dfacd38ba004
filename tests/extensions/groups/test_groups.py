"""Tests of groups of stored runs: conditions, columns of custom data, and output."""

import csv
import json
import random
import shutil
from dataclasses import replace

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.groups.conditions import Rows, with_groups
from benchharness.extensions.groups.groups import DEFAULTS, Found, groups_of_split
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

DB = "board.sqlite"
CHANNELS = ("mail", "chat", "phone")


def write_rows(path, count, *, first=0):
    """Write a table of tickets: "chat" rows are short, and one row in twenty has no channel."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label", "channel", "age"))
        for number in range(first, first + count):
            channel = "" if number % 20 == 0 else CHANNELS[number % 3]
            more = "" if channel == "chat" else " which I bought from you some weeks ago"
            text = f"ticket {number} about the thing{more}"
            writer.writerow((text, ("refund", "praise")[number % 2], channel, number % 50))


def tickets(folder):
    """Write train and dev files to a new folder, and return their custom task."""
    folder.mkdir()
    write_rows(folder / "train.csv", 40)
    write_rows(folder / "dev.csv", 240, first=40)
    return find_own(
        str(folder),
        hub=False,
        columns="text=text,label=label",
        metrics=(),
        encoding="",
        no_header=False,
        sheet="",
    )


def run(found, seed, wrong):
    """Return a run on the dev rows that answers a row wrongly if `wrong(draw, row)` is true.

    `draw` is a random generator with the run's seed.
    """
    task = found.task
    prints = {
        f"{task.name}:{split}": read(task, split, parse_data(found.data)).fingerprint
        for split in ("train", "dev")
    }
    job = make_job(
        task=task.name,
        data=found.data,
        definition=task.definition,
        fingerprints=prints,
        seed=seed,
        precision="fp32",
        recipe="paper",
    )
    rows, draw, guesses = read_split(job, f"{task.name}:dev"), random.Random(seed), []
    for row in rows.examples:
        gold = task.labels.index(row.label)
        guess = 1 - gold if wrong(draw, row) else gold
        scores = tuple(0.9 if n == guess else 0.1 for n in range(2))
        guesses.append(PairPrediction(id=row.id, label=task.labels[guess], scores=scores))
    made = evaluate_split(f"{task.name}:dev", rows, guesses)
    return replace(make_result(job), evaluations=(made,))


def is_chat(row):
    return "which I bought" not in row.text_a


def is_wrong(draw, row):
    return draw.random() < (0.35 if is_chat(row) else 0.05)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a store of three seeds of a model that is worse on "chat" rows."""
    folder = tmp_path_factory.mktemp("made")
    found = tickets(folder / "tickets")
    with open_store(str(folder / DB)) as store:
        for seed in (1, 2, 3):
            store.add_result(run(found, seed, is_wrong))
    return folder


@pytest.fixture
def stored(made, tmp_path, monkeypatch):
    shutil.copy(made / DB, tmp_path / DB)
    monkeypatch.chdir(tmp_path)


def groups_in(ended, spec):
    (board,) = json.loads(ended.out)
    (found,) = board["splits"].values()
    return found["groupings"][spec]


def test_grouping_by_a_column_of_custom_data_finds_the_worse_group(bench, stored):
    ended = bench("groups", "minilm", "--groups", "channel", "--db", DB, "--json")
    assert ended.code == 0, ended.err
    found = groups_in(ended, "channel")
    by_name = {each["group"]: each for each in found["groups"]}
    assert set(by_name) == {"channel chat", "channel mail", "channel phone"}
    assert sum(each["rows"] for each in by_name.values()) == 228  # 12 rows have no channel
    chat = by_name["channel chat"]
    assert chat["p_value"] < 0.01
    assert -0.45 < chat["gap"] < -0.2
    assert chat["gap_low"] < chat["gap"] < chat["gap_high"] < 0
    assert found["worst"]["groups"] == ["channel chat"]
    assert found["gap"]["groups"][1] == "channel chat"
    assert chat["rows"] == len(chat["ids"]) == len(set(chat["ids"]))


def test_table_marks_significant_gaps_and_explains_its_columns(bench, stored):
    ended = bench("groups", "minilm", "--groups", "len(text) < 40", "--points", "10", "--db", DB)
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.out.splitlines() if line.lstrip().startswith("len(text)")]
    assert "*" in line
    assert "worst: len(text) < 40" in ended.out
    assert "a gap of 10 points" in ended.out
    assert "corrected for all groups of the split (Holm)" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--groups", "colour"), "has no column 'colour': its columns are 'text', 'label'"),
        (("--groups", "age"), "has 50 different values"),
        (("--groups", "len(text) > many"), "compares len(text) with 'many', which is not a number"),
        (("--groups", "channel > 3"), "in 'channel', which is not a number"),
        (("--groups", "text = nothing at all"), "no row of"),
        (("--groups", "text contains ticket 41 "), "has only one row"),
        (("--groups", "label = __import__('os')"), "no row of"),
        (("--points", "0"), "--points must be above 0 and below 100"),
    ],
)
def test_wrong_groups_are_reported_in_one_sentence(bench, stored, words, said):
    ended = bench("groups", "minilm", *words, "--db", DB)
    assert (ended.code, ended.out) == (4 if "in 'channel'" in said else 2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


# Conditions.


def rows_of(*examples):
    return Rows(examples=examples, job=make_job(task="glue/rte"), split="dev")


def pair(name, text, label="entailment"):
    return PairExample(id=name, text_a=text, text_b="b", label=label)


EXAMPLES = (
    pair("1", "one"),
    pair("2", "one two", "not_entailment"),
    pair("3", "one two three"),
    pair("4", "one two three Four", "not_entailment"),
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("len(text) > 9", {"len(text) > 9": [2, 3], "others": [0, 1]}),
        ("words(text)<=3", {"words(text) <= 3": [0, 1], "others": [2, 3]}),
        ("text contains FOUR", None),
        ("text contains three", {"text contains three": [2, 3], "others": [0, 1]}),
        ("answer = entailment", {"answer = entailment": [0, 2], "others": [1, 3]}),
        ("answer != entailment", {"answer != entailment": [1, 3], "others": [0, 2]}),
        ("answer", {"answer entailment": [0, 2], "answer not_entailment": [1, 3]}),
    ],
)
def test_conditions_select_the_rows_that_fulfil_them(spec, expected):
    if expected is None:
        with pytest.raises(BenchError, match="has only one row"):
            with_groups([spec], rows_of(*EXAMPLES))
        return
    (found,) = with_groups([spec], rows_of(*EXAMPLES)).values()
    assert {name: list(places) for name, places in found.items()} == expected


def test_grouping_by_answer_is_refused_if_all_rows_have_one_class():
    same = [pair(str(n), "word " * n) for n in range(4)]
    with pytest.raises(BenchError, match="all rows of RTE dev are in one group"):
        with_groups(["answer"], rows_of(*same))


def test_unknown_grouping_of_a_benchmark_raises_an_error_that_lists_the_forms():
    with pytest.raises(BenchError, match="expected length, category, answer, the name of a column"):
        with_groups(["colour"], rows_of(*EXAMPLES))
    with pytest.raises((BenchError, DataError)):
        with_groups(["os.system('ls') > 1"], rows_of(*EXAMPLES))


def test_default_groups_are_thirds_by_length_and_the_benchmarks_categories():
    rows = read(find_task("race/all"), "dev", parse_data("mini")).examples
    found = with_groups((), Rows(examples=rows, job=make_job(task="race/all"), split="dev"))
    assert list(found) == ["length", "category"]
    assert set(found["category"]) == {"level middle", "level high"}
    assert sum(map(len, found["length"].values())) == len(rows)


def test_rows_that_are_scored_together_count_as_one_unit():
    task = find_task("superglue/multirc")
    rows = read(task, "dev", parse_data("mini")).examples
    guesses = tuple(PairPrediction(id=e.id, label=e.label) for e in rows)
    predicted = PredictedSplit(task=task, split="dev", examples=rows, one=(guesses,))
    job = make_job(task=task.name)
    plain = Found(task=task.name, split="dev")
    found = groups_of_split(predicted, job, plain, DEFAULTS)
    (grouping,) = found.groupings
    places = [place for group in grouping.groups for place in group.places]
    assert len(places) == len(set(places))
    units = [{rows[place].unit for place in group.places} for group in grouping.groups]
    assert not set.intersection(*units)
    assert all(group.score == pytest.approx(1) for group in grouping.groups)


def test_runs_without_readable_rows_are_listed_with_the_reason(bench, stored):
    with open_store(DB) as store:
        store.add_result(make_result(make_job(model="other")))
    ended = bench("groups", "other", "--db", DB)
    assert ended.code == 2
    assert "the examples could not be read" in ended.err
