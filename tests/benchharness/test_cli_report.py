import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.cli.options import page_beside
from benchharness.leaderboard.store.store import open_store
from tests.helpers.fake_worker import make_failure, make_job, make_result

DB = ("--db", "board.sqlite")


@pytest.fixture
def board(bench):
    """Two seeds of a model on mini data, another model on hub data, and a failure."""
    hub = replace(make_job(model="other"), data="hub", fingerprints={"glue/cola:dev": "real"})
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
        store.add_result(make_result(make_job(seed=2)))
        store.add_failure(make_failure(make_job(task="glue/rte"), error="out of <memory>"))
        store.add_result(make_result(hub))
    return bench


def test_leaderboard_is_a_table_per_data_set(board):
    ended = board("leaderboard", *DB)
    assert ended.code == 0
    assert "GLUE on mini data" in ended.out
    assert "GLUE on hub data" in ended.out
    assert "50.0" in ended.out


@pytest.mark.parametrize(("data", "other"), [("mini", "hub"), ("hub", "mini")])
def test_leaderboard_of_one_door(board, data, other):
    out = board("leaderboard", *DB, "--data", data).out
    assert f"on {data} data" in out
    assert f"on {other} data" not in out


def test_leaderboard_without_fitting_runs_says_so(board):
    ended = board("leaderboard", *DB, "--data", "elsewhere")
    assert ended.code == 0
    assert ended.out.startswith("no run matches")


def test_a_collection_is_the_boards_of_its_suites(board):
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(task="snli/snli")))
    boards = json.loads(board("leaderboard", *DB, "--json", "--suite", "seeds").out)
    assert {found["suite"] for found in boards} == {"glue", "snli"}
    assert {found["rule"] for found in boards} == {"GLUE-9", "SNLI"}
    doubly = board("leaderboard", *DB, "--json", "--suite", "seeds", "--suite", "snli").out
    assert json.loads(doubly) == boards


def test_leaderboard_as_json(board):
    boards = json.loads(
        board("leaderboard", *DB, "--json", "--suite", "glue", "--data", "mini").out
    )
    (found,) = boards
    (entry,) = found["entries"]
    cell = entry["tasks"]["glue/cola"]
    assert (found["suite"], found["data"], found["limit"]) == ("glue", ["mini"], None)
    assert (entry["model"], entry["score"], entry["rank"]) == ("tiny", None, None)
    assert (cell["median"], cell["values"], cell["seeds"]) == (0.5, [0.5, 0.5], [1, 2])
    assert cell["spread"] == 0.0
    assert entry["failures"] == [make_job(task="glue/rte").key]
    assert "glue/rte" in entry["missing"]


def test_published_results_stand_below_boards_of_whole_data_when_asked(board):
    assert "published (" not in board("leaderboard", *DB).out
    out = board("leaderboard", *DB, "--published").out
    assert out.count("GLUE, published (dev)") == 1
    assert out.index("GLUE on hub data") < out.index("GLUE, published (dev)")
    assert "GLUE, published" not in board("leaderboard", *DB, "--published", "--data", "mini").out
    real, mini = (
        json.loads(board("leaderboard", *DB, "--published", "--json", "--data", data).out)[0]
        for data in ("hub", "mini")
    )
    assert mini["published"] == []
    assert {row["split"] for row in real["published"]} == {"dev", "test"}


def test_json_holds_measured_scores_against_published_ones(bench):
    with open_store("board.sqlite") as store:
        for seed in (1, 2):
            job = replace(make_job(model="minilm", seed=seed), data="hub")
            store.add_result(make_result(job))
    (found,) = json.loads(bench("leaderboard", *DB, "--json").out)
    (line,) = found["entries"][0]["reproduction"]
    assert (line["task"], line["score"], line["theirs"]) == ("glue/cola", "mcc", 47.5)
    assert (line["ours"], line["difference"], line["verdict"]) == (50.0, 2.5, "above")
    assert line["source"] == "microsoft/unilm minilm/README.md"


def test_report_is_written_where_it_is_wanted(board):
    ended = board("report", *DB, "--out", "deep/page.html")
    assert (ended.code, ended.out) == (0, "report: deep/page.html\n")
    page = Path("deep/page.html").read_text()
    assert "mini data" in page
    assert "hub data" in page
    assert "out of &lt;memory&gt;" in page


def test_report_opens_the_browser_when_asked(board, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    board("report", *DB, "--out", "page.html")
    assert opened == []
    board("report", *DB, "--out", "page.html", "--open")
    assert opened == [str(Path("page.html").resolve())]


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_without_a_leaderboard_both_say_how_to_make_one(bench, command):
    ended = bench(command, *DB)
    assert ended.code == 5
    assert "`bench run` makes one" in ended.err
    assert not Path("board.sqlite").exists()


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_an_unknown_suite_is_exit_2(board, command):
    ended = board(command, *DB, "--suite", "gleu")
    assert ended.code == 2
    assert "Did you mean 'glue'?" in ended.err


# runs of a plugin that is not loaded

NEEDED = (
    "the runs of the suite mine need the plugin irony.py: name its file with --plugin, or install "
    "its package."
)


@pytest.fixture
def theirs(bench):
    """A run of a suite that only a plugin knows."""
    job = replace(make_job(task="mine/irony"), plugins={"irony.py": "0" * 64})
    with open_store("board.sqlite") as store:
        store.add_result(make_result(job))
    return bench


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("report", "--suite", "mine"),
        ("leaderboard",),
        ("leaderboard", "--json"),
        ("leaderboard", "--suite", "mine"),
        ("export", "--format", "csv"),
        ("compare", "tiny", "other"),
        ("plan", "tiny", "other", "--task", "mine/irony"),
        ("ensemble", "tiny"),
        ("check", "--write", "--model", "tiny"),
    ],
    ids=" ".join,
)
def test_where_nothing_else_is_stored_the_plugin_is_named_and_nothing_written(theirs, words):
    ended = theirs(*words, *DB)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"bench: {NEEDED}\n")
    assert not Path("results").exists()


def test_beside_other_runs_the_plugin_is_named_too(theirs):
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
    ended = theirs("report", *DB)
    assert (ended.code, ended.err) == (0, f"bench: {NEEDED}\n")
    assert NEEDED in Path("board.html").read_text()
    assert theirs("leaderboard", *DB).out.endswith(f"{NEEDED}\n")
    assert theirs("report", *DB, "--suite", "glue").err == ""


def test_runs_are_listed_by_a_plugins_suite(theirs):
    Path("mine.py").write_text(
        "from dataclasses import replace\n"
        "from benchharness.tasks.suites import TASKS as KNOWN\n"
        "TASKS = [replace(KNOWN['glue/rte'], name='mine/irony')]\n"
    )
    assert theirs("show", "runs", *DB, "--suite", "mine").code == 2
    from benchharness.tasks import suites

    before = dict(suites._tasks), dict(suites._suites)
    try:
        listed = theirs("show", "runs", *DB, "--suite", "mine", "--plugin", "mine.py", "--json")
    finally:
        for table, kept in zip((suites._tasks, suites._suites), before, strict=True):
            table.clear()
            table.update(kept)
    assert [run["task"] for run in json.loads(listed.out)] == ["mine/irony"]


def test_the_report_of_one_store_leaves_that_of_another(bench):
    for name in ("results/leaderboard.sqlite", "other/mine.sqlite"):
        with open_store(name) as store:
            store.add_result(make_result(make_job(model=Path(name).stem)))
    assert bench("report").out == "report: results/leaderboard.html\n"
    before = Path("results/leaderboard.html").read_bytes()
    assert bench("report", "--db", "other/mine.sqlite").out == "report: other/mine.html\n"
    assert Path("results/leaderboard.html").read_bytes() == before
    assert "mine" in Path("other/mine.html").read_text()


@pytest.mark.parametrize(
    ("db", "page"),
    [
        ("results/leaderboard.sqlite", "results/leaderboard.html"),
        ("board.sqlite", "board.html"),
        ("postgresql://me:secret@host:5432/team?sslmode=require", "results/team.html"),
        ("sqlite:////srv/shared/lab.sqlite", "results/lab.html"),
        ("postgresql://host", "results/leaderboard.html"),
    ],
)
def test_a_page_has_the_name_of_its_store(db, page):
    assert page_beside(db) == Path(page)
    assert page_beside(db, "mine.html") == Path("mine.html")
