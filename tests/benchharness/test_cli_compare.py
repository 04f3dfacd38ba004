import json
import re
import time
from dataclasses import replace

import pytest

import benchharness as bh
from benchharness.cli.tables import parts_that_fit, print_cells
from benchharness.leaderboard.comparing.contrast import Contrast, mcnemar_exact
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import open_store
from tests.helpers.compared_runs import made


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Store three seeds of two models on RTE, one on CoLA, and equal predictions on WNLI."""
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for seed in range(3):
            store.add_result(made("good", "glue/rte", seed, {seed}))
            store.add_result(made("bad", "glue/rte", seed, set(range(1, 40))))
        for model in ("good", "bad"):
            store.add_result(made(model, "glue/wnli", 0, {3, 4}))
        store.add_result(made("good", "glue/cola", 0, set(range(5))))
        store.add_result(made("bad", "glue/cola", 0, set(range(3, 30))))


def compared(bench, *words):
    ended = bench("compare", *words, "--db", "board.sqlite", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def key(model, task, seed):
    with open_store("board.sqlite") as store:
        rows = store.runs(model=model, task=task)
        return next(row.key for row in rows if row.seed == seed)


def test_compare_json_has_the_test_result_of_every_task(bench, stored):
    (found,) = compared(bench, "good", "bad")
    assert (found["suite"], found["split"], found["data"]) == ("glue", "dev", ["mini"])
    assert found["systems"] == ["good:paper:fp32", "bad:paper:fp32"]
    assert set(found["tasks"]) == {"glue/rte", "glue/wnli", "glue/cola"}
    rte = found["tasks"]["glue/rte"]
    assert (rte["seeds"], rte["test"]) == ([0, 1, 2], "t, examples and seeds")
    assert rte["flipped"] == [39, 1]
    assert rte["difference"] == pytest.approx(38 / rte["examples"])
    assert rte["interval"]["low"] < rte["difference"] < rte["interval"]["high"]
    assert rte["is_shown"]
    assert rte["flips"] == rte["slices"] == []
    wnli = found["tasks"]["glue/wnli"]
    assert (wnli["p_value"], wnli["is_shown"], wnli["flipped"]) == (1.0, False, [0, 0])
    p_values = [task["p_value"] for task in found["tasks"].values()]
    assert rte["corrected"] == pytest.approx(3 * min(p_values))
    assert {task["corrected_for"] for task in found["tasks"].values()} == {3}


def test_compare_gives_the_number_of_tasks_in_holms_correction(bench, stored):
    call = ("compare", "good", "bad", "--db", "board.sqlite")
    assert "Holm's correction for the 3 tasks shown" in bench(*call).out
    (alone,) = compared(bench, "good", "bad", "--task", "rte")
    rte = alone["tasks"]["glue/rte"]
    assert (rte["corrected_for"], rte["corrected"]) == (1, rte["p_value"])
    frame = bh.compare("good", "bad", task=["rte", "cola"], db="board.sqlite")
    assert set(frame["corrected_for"]) == {2}


def test_single_runs_are_compared_by_a_prefix_of_their_key(bench, stored):
    one, second = key("good", "glue/rte", 0)[:12], key("bad", "glue/rte", 2)[:12]
    (found,) = compared(bench, one, second)
    assert found["systems"][0].startswith(f"good (run {one})")
    assert set(found["tasks"]) == {"glue/rte"}
    rte = found["tasks"]["glue/rte"]
    assert rte["test"] == "McNemar, exact"
    assert rte["p_value"] == pytest.approx(mcnemar_exact(39, 1))
    # A single run is compared with the run of the same seed.
    (found,) = compared(bench, one, "bad")
    assert found["tasks"]["glue/rte"]["seeds"] == [0]


def test_compare_table_shows_flipped_examples_and_slices(bench, stored):
    words = ("good", "bad", "--task", "glue/rte", "--by-category", "--examples", "2")
    ended = bench("compare", *words, "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("GLUE dev on mini data: good and bad")
    row = next(line.split() for line in ended.out.splitlines() if line.split()[:1] == ["RTE"])
    assert row[3].startswith("+23.75*")
    assert row[-2:] == ["39:1", "160"]
    assert ended.out.splitlines()[0].endswith(" (3 seeds)")
    assert "with negation" in ended.out
    assert ended.out.count("right with 0 of 3 seeds") == 2
    assert "corrected: the p-value after Holm's correction for the 1 task shown." in ended.out
    assert "below 0.05. Tests and intervals cover examples and seeds." in ended.out
    assert "the choice of examples" not in ended.out


def test_examples_show_each_distinct_answer_with_its_number_of_seeds(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for seed in range(3):
            # Row 5 is predicted wrongly with one seed of "good", and with two seeds of "bad".
            store.add_result(made("good", "glue/rte", seed, {5} if seed == 0 else set()))
            store.add_result(made("bad", "glue/rte", seed, {5} if seed else set()))
    call = ("good", "bad", "--examples", "1")
    text = bench("compare", *call, "--db", "board.sqlite").out
    gold = re.search("  gold: (.*)", text)[1]
    other = "entailment" if gold == "not_entailment" else "not_entailment"
    good = f"  good: {gold} with 2 seeds, {other} with 1 seed  (right with 2 of 3 seeds)"
    bad = f"  bad: {other} with 2 seeds, {gold} with 1 seed  (right with 1 of 3 seeds)"
    assert f"{good}\n{bad}\n" in text
    (flip,) = compared(bench, *call)[0]["tasks"]["glue/rte"]["flips"]
    assert (flip["one"], flip["other"], flip["answers"]) == (2, 1, [gold, other])
    assert flip["answer_counts"] == [{gold: 2, other: 1}, {other: 2, gold: 1}]


def test_a_significant_difference_is_not_rounded_to_an_insignificant_one(
    bench, stored, monkeypatch
):
    found = Contrast(
        task="glue/rte",
        seeds=(1, 2),
        scores=(0.5396, 0.5),
        examples=160,
        interval=Interval(low=0.00003, high=0.0792),
        p_value=0.04997,
        corrected=0.04997,
    )
    monkeypatch.setattr("benchharness.cli.compare.contrasts_of", lambda *_, **__: [found])
    line = bench("compare", "good", "bad", "--db", "board.sqlite").out.splitlines()[4]
    assert line.split()[3:9] == ["+3.96*", "+0.003", "to", "+7.92", "0.04997", "0.04997"]


def test_compare_lists_settings_of_two_models_with_different_values(bench, tmp_path, monkeypatch):
    """Two recipes may have the same name, "paper", but other values."""
    monkeypatch.chdir(tmp_path)
    rates = {"good": {"learning_rate": 1e-3, "epochs": 3.0}, "bad": {"learning_rate": 5e-5}}
    tasks = ("glue/rte", "glue/wnli", "glue/cola")
    with open_store("board.sqlite") as store:
        for model, values in rates.items():
            said = {name: Setting(value=value, source="a paper") for name, value in values.items()}
            for task in tasks:
                own = said if task != "glue/cola" else {}
                store.add_result(made(model, task, 0, {1}, settings=own))
    text = bench("compare", "good", "bad", "--db", "board.sqlite").out
    assert (
        "good and bad were trained with different settings on RTE, WNLI: learning_rate 1e-3 and "
        "5e-5, epochs 3 and " in text
    )
    found = compared(bench, "good", "bad")[0]["tasks"]
    differing = {"learning_rate": [0.001, 5e-05], "epochs": [3, None]}
    assert [found[task]["settings"] for task in tasks] == [differing, differing, {}]
    with open_store("board.sqlite") as store:
        baseline = made("majority", "glue/rte", 0, {2}, kind="baseline", settings={})
        store.add_result(baseline)
    assert (
        "different settings" not in bench("compare", "good", "majority", "--db", "board.sqlite").out
    )


def words_of(table):
    """Return the words of a table; names of columns may be broken after a hyphen."""
    return {word for word in re.split(r"[\s-]+", table) if set(word) - {"─"}}


@pytest.mark.parametrize(("width", "tables"), [(40, 3), (60, 2), (100, 1)])
def test_a_narrow_terminal_splits_the_table_without_breaking_words(
    bench, stored, monkeypatch, width, tables
):
    """Columns that do not fit are printed in a second table below, which repeats the task names."""
    call = ("compare", "good", "bad", "--db", "board.sqlite")
    whole = bench(*call).out.partition("wins: ")[0]
    monkeypatch.setenv("COLUMNS", str(width))
    table = bench(*call).out.partition("wins: ")[0]
    assert max(map(len, table.splitlines())) <= width
    assert words_of(table) == words_of(whole)
    assert sum(line.split()[:1] == ["RTE"] for line in table.splitlines()) == tables


@pytest.mark.parametrize("width", range(40, 130, 3))
def test_table_columns_that_fit_the_terminal_have_no_broken_words(capsys, width):
    columns = ("task", "bag-of-words", "95 % interval", "only tiny", "only bag-of-words", "seeds")
    rows = [("MNLI", "58.18", "-38.91 to -7.20", "4", "7", "3")]
    for part in parts_that_fit(columns, rows, width):
        heads, cells = ([line[place] for place in part] for line in (columns, rows[0]))
        print_cells([(head, False) for head in heads], [cells], width)
        printed = capsys.readouterr().out
        assert words_of(printed) == words_of(" ".join(heads + cells))
        assert max(map(len, printed.splitlines())) <= width


@pytest.mark.parametrize(
    "names",
    [
        ("tiny", "bag-of-words"),
        ("roberta-base", "bert-base"),
        ("modernbert-base", "deberta-v3-base"),
    ],
)
def test_comparison_fits_100_columns_with_each_task_on_one_line(
    bench, tmp_path, monkeypatch, names
):
    monkeypatch.chdir(tmp_path)
    one, other = names
    with open_store("board.sqlite") as store:
        for seed in range(2):
            store.add_result(made(one, "glue/cola", seed, set(range(8))))
            store.add_result(made(other, "glue/cola", seed, set(range(4, 90 + seed))))
    monkeypatch.setenv("COLUMNS", "100")
    ended = bench("compare", one, other, "--db", "board.sqlite")
    table = ended.out.partition("wins: ")[0].splitlines()
    assert max(map(len, table)) <= 100
    rule = next(place for place, line in enumerate(table) if "─" in line)
    (row,) = filter(str.strip, table[rule + 1 :])
    assert re.search(r"[+-]\d+\.\d\d to [+-]\d+\.\d\d ", row), "the interval is on one line"


def test_names_of_columns_are_wrapped_before_cells(capsys):
    columns = [("task", False), ("deberta-v3-large", False), ("p-value", False), ("range", False)]
    print_cells(columns, [("MNLI", "84.50", "0.0400", "-1.00 to +2.00")], 46)
    first, second, _, row = capsys.readouterr().out.splitlines()[1:5]
    assert [first.split(), second.split()] == [
        ["deberta-"],
        ["task", "v3-large", "p-value", "range"],
    ]
    assert row.endswith("   0.0400    -1.00 to +2.00 ")


def test_table_cells_are_padded_wrapped_and_aligned(capsys):
    columns = [("model", False), ("first seed", True)]
    print_cells(columns, [("a [bold]", "0.5"), ("日本 lm", "12.25")], 19)
    assert capsys.readouterr().out.splitlines() == [
        " " * 19,
        "             first ",
        " model        seed ",
        f" {'─' * 17} ",
        " a [bold]      0.5 ",
        " 日本 lm     12.25 ",
        " " * 19,
    ]


def test_printing_a_table_of_5000_rows_takes_under_0_8_seconds(capsys):
    rows = [(f"{number:012x}", f"model-{number}", "accuracy 0.5") for number in range(5_000)]
    began = time.process_time()
    print_cells([("key", False), ("model", False), ("scores", False)], rows, 100_000)
    assert time.process_time() - began < 0.8  # tables of the library rich take 1.5 s or more
    assert capsys.readouterr().out.count("\n") == 5_004


def test_comparison_of_one_seed_is_labelled_as_over_examples_only(bench, stored):
    ended = bench("compare", "good", "bad", "--task", "glue/cola", "--db", "board.sqlite")
    assert "*: the corrected p-value is below 0.05, and the interval, if there is one," in ended.out
    assert (
        "with one seed, tests and intervals cover the choice of examples, but not of seeds."
        in ended.out
    )
    assert "cover examples and seeds" not in ended.out
    both = bench("compare", "good", "bad", "--db", "board.sqlite").out
    assert "with several seeds, tests and intervals cover examples and seeds." in both
    assert "with one seed, tests and intervals cover the choice of examples" in both
    assert " CoLA " in ended.out


def test_a_task_with_unreadable_examples_is_compared_by_its_scores(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gone = str(tmp_path / "gone")
    with open_store("board.sqlite") as store:
        for seed in range(3):
            store.add_result(made("good", "glue/rte", seed, {seed}, data=gone))
            store.add_result(made("bad", "glue/rte", seed, {seed, 7 + seed, 8}, data=gone))
    (found,) = compared(bench, "good", "bad")
    rte = found["tasks"]["glue/rte"]
    assert rte["difference"] == pytest.approx(5 / 3 / 160)
    assert 0 < rte["interval"]["low"] < rte["difference"] < rte["interval"]["high"]
    assert (rte["p_value"], rte["flipped"], rte["is_shown"]) == (None, None, False)
    assert rte["reason"].startswith("the examples could not be read: ")
    ended = bench("compare", "good", "bad", "--db", "board.sqlite")
    assert "RTE: no test, because the examples could not be read" in ended.out


def test_comparison_of_runs_on_different_data_is_an_error(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changed = {"glue/rte:train": "a" * 64, "glue/rte:dev": "b" * 64}
    with open_store("board.sqlite") as store:
        store.add_result(made("good", "glue/rte", 0, {1}))
        store.add_result(made("bad", "glue/rte", 0, {2}, fingerprints=changed))
    ended = bench("compare", "good", "bad", "--db", "board.sqlite")
    assert (ended.code, ended.out) == (2, "")
    assert "no leaderboard has results of good and bad" in ended.err


def test_comparison_of_runs_with_different_row_digests_is_an_error(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        store.add_result(made("good", "glue/rte", 0, {1}))
        store.add_result(made("bad", "glue/rte", 0, {2}, digest="c" * 64))
    ended = bench("compare", "good", "bad", "--db", "board.sqlite")
    assert (ended.code, ended.out) == (4, "")
    assert "different rows of glue/rte dev" in ended.err


def test_compare_supports_test_splits_with_public_labels(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        store.add_result(made("good", "snli/snli", 0, {1}))
        store.add_result(made("bad", "snli/snli", 0, set(range(20))))
    (found,) = compared(bench, "good", "bad", "--split", "test", "--examples", "1")
    snli = found["tasks"]["snli/snli"]
    assert (found["split"], snli["flipped"]) == ("test", [19, 0])
    assert snli["difference"] == pytest.approx(19 / snli["examples"])
    assert [flip["split"] for flip in snli["flips"]] == ["test"]


def test_comparison_of_models_without_a_common_seed_is_an_error(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for model, seeds in {"good": (1, 2), "bad": (3, 4)}.items():
            for seed in seeds:
                store.add_result(made(model, "glue/rte", seed, {1}))
    ended = bench("compare", "good", "bad", "--db", "board.sqlite")
    assert (ended.code, ended.out) == (2, "")
    assert "3, 4): run both with the same --seed" in ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("good", "best"), "no leaderboard has results of best. There are results of bad, good."),
        (("good", "bad", "--task", "colla"), "Did you mean"),
        (("good", "bad", "--split", "test", "--task", "glue/rte"), "the labels are hidden"),
    ],
)
def test_an_invalid_comparison_is_reported_in_one_sentence(bench, stored, words, sentence):
    ended = bench("compare", *words, "--db", "board.sqlite")
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert len(ended.err.strip().splitlines()) == 1


ODD = {
    "fewer": lambda rows: rows[:-1],
    "another label": lambda rows: [{**rows[0], "label": "perhaps"}, *rows[1:]],
    "a list for a label": lambda rows: [{**rows[0], "label": [{}]}, *rows[1:]],
    "other probabilities": lambda rows: [{**rows[0], "scores": ["a"]}, *rows[1:]],
    "another kind": lambda rows: [{"id": row["id"], "tags": []} for row in rows],
}


@pytest.mark.parametrize("change", ODD)
def test_stored_predictions_that_do_not_match_the_data_rows_are_an_error(bench, tmp_path, change):
    """Predictions from another version, or edited ones, may not match the rows."""
    with open_store("odd.sqlite") as store:
        store.add_result(made("good", "glue/rte", 0, {1}))
        result = made("odd", "glue/rte", 0, {2})
        (evaluation,) = result.evaluations
        rows = tuple(ODD[change]([dict(row) for row in evaluation.predictions]))
        odd = replace(evaluation, predictions=rows)
        store.add_result(replace(result, evaluations=(odd,)))
    for words in (("compare", "good", "odd"), ("report", "predictions", "odd")):
        ended = bench(*words, "--db", "odd.sqlite")
        assert (ended.code, ended.err.count("\n")) == (4, 1), ended
        assert re.search("rows that were read now|do not fit this task", ended.err)
    for words in (("leaderboard", "--intervals"), ("plan", "good", "odd"), ("report",)):
        assert bench(*words, "--db", "odd.sqlite").code == 0
