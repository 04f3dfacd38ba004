import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchharness.cli.options import page_beside
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import store_mark
from tests.helpers.fake_worker import make_failure, make_job, make_result

DB = ("--db", "board.sqlite")


@pytest.fixture
def board(bench):
    """Store two seeds of a model on mini data, another model on hub data, and a failure."""
    hub = replace(make_job(model="other"), data="hub", fingerprints={"glue/cola:dev": "real"})
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
        store.add_result(make_result(make_job(seed=2)))
        store.add_failure(make_failure(make_job(task="glue/rte"), error="out of <memory>"))
        store.add_result(make_result(hub))
    return bench


def test_leaderboard_has_one_table_per_data_source(board):
    ended = board("leaderboard", *DB)
    assert ended.code == 0
    assert "GLUE on mini data" in ended.out
    assert "GLUE on hub data" in ended.out
    assert "50.0" in ended.out


@pytest.mark.parametrize(("data", "other"), [("mini", "hub"), ("hub", "mini")])
def test_the_leaderboard_is_filtered_by_data_source(board, data, other):
    out = board("leaderboard", *DB, "--data", data).out
    assert f"on {data} data" in out
    assert f"on {other} data" not in out


def test_leaderboard_without_matching_runs_prints_a_message(board):
    ended = board("leaderboard", *DB, "--data", "elsewhere")
    assert ended.code == 0
    assert ended.out.startswith("no stored run matches")


def test_leaderboard_of_a_collection_shows_each_of_its_suites_once(board):
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(task="snli/snli")))
    boards = json.loads(board("leaderboard", *DB, "--json", "--suite", "seeds").out)
    assert {found["suite"] for found in boards} == {"glue", "snli"}
    assert {found["rule"] for found in boards} == {"GLUE-9", "SNLI"}
    doubly = board("leaderboard", *DB, "--json", "--suite", "seeds", "--suite", "snli").out
    assert json.loads(doubly) == boards


def test_the_leaderboard_as_json_has_entries_and_scores(board):
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


def test_published_scores_follow_leaderboards_of_official_data_on_request(board):
    assert "published (" not in board("leaderboard", *DB).out
    out = board("leaderboard", *DB, "--published").out
    assert out.count("GLUE, published (dev)") == 1
    assert out.index("GLUE on hub data") < out.index("GLUE, published (dev)")
    on_mini = " ".join(board("leaderboard", *DB, "--published", "--data", "mini").out.split())
    assert "GLUE, published" not in on_mini
    said = "no published scores are shown for mini data, because they are on the complete official"
    assert said in on_mini
    assert said not in " ".join(board("leaderboard", *DB, "--data", "mini").out.split())
    real, mini = (
        json.loads(board("leaderboard", *DB, "--published", "--json", "--data", data).out)[0]
        for data in ("hub", "mini")
    )
    assert mini["published"] == []
    assert {row["split"] for row in real["published"]} == {"dev", "test"}


def test_leaderboard_json_compares_measured_with_published_scores(bench):
    with open_store("board.sqlite") as store:
        for seed in (1, 2):
            job = replace(make_job(model="minilm", seed=seed), data="hub")
            store.add_result(make_result(job))
    (found,) = json.loads(bench("leaderboard", *DB, "--json").out)
    (line,) = found["entries"][0]["reproduction"]
    assert (line["task"], line["score"], line["theirs"]) == ("glue/cola", "mcc", 47.5)
    assert (line["ours"], line["difference"], line["verdict"]) == (50.0, 2.5, "above")
    assert line["source"] == "microsoft/unilm minilm/README.md"


def test_option_out_sets_the_path_of_the_report(board):
    ended = board("report", *DB, "--out", "deep/page.html")
    assert (ended.code, ended.out) == (0, "report: deep/page.html\n")
    page = Path("deep/page.html").read_text()
    assert "mini data" in page
    assert "hub data" in page
    assert "out of &lt;memory&gt;" in page


def test_option_open_shows_the_report_in_a_browser(board, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    board("report", *DB, "--out", "page.html")
    assert opened == []
    board("report", *DB, "--out", "page.html", "--open")
    assert opened == [str(Path("page.html").resolve())]


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_report_of_a_missing_database_is_an_error_that_suggests_bench_run(bench, command):
    ended = bench(command, *DB)
    assert ended.code == 5
    assert "`bench run` creates one" in ended.err
    assert not Path("board.sqlite").exists()


@pytest.mark.parametrize("command", ["report", "leaderboard"])
def test_unknown_suite_exits_with_2_and_a_suggestion(board, command):
    ended = board(command, *DB, "--suite", "gleu")
    assert ended.code == 2
    assert "Did you mean 'glue'?" in ended.err


# Runs that need a plugin that is not loaded.

NEEDED = (
    "the runs of the suite mine need the plugin irony.py: load its file with --plugin, or install "
    "its package."
)


@pytest.fixture
def theirs(bench):
    """Store a run of a suite that only a plugin defines."""
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
def test_report_with_only_runs_of_an_unloaded_plugin_gives_an_error_naming_the_plugin(
    theirs, words
):
    ended = theirs(*words, *DB)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f"bench: {NEEDED}\n")
    assert not Path("results").exists()


def test_report_warns_if_some_runs_need_a_plugin_that_is_not_loaded(theirs):
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
    ended = theirs("report", *DB)
    assert (ended.code, ended.err) == (0, f"bench: {NEEDED}\n")
    assert NEEDED in Path("board.html").read_text()
    assert theirs("leaderboard", *DB).out.endswith(f"{NEEDED}\n")
    assert theirs("report", *DB, "--suite", "glue").err == ""


@pytest.mark.parametrize("words", [(), ("--suite", "glue")], ids=["all suites", "one suite"])
def test_leaderboard_names_the_missing_plugin_of_a_stored_task_in_a_known_suite(bench, words):
    job = replace(make_job(task="glue/irony"), plugins={"irony.py": "0" * 64})
    with open_store("board.sqlite") as store:
        store.add_result(make_result(job))
    needed = NEEDED.replace("suite mine", "task glue/irony")
    ended = bench("leaderboard", *DB, *words)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("no stored run matches")
    assert ended.out.endswith(f"{needed}\n")
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
    ended = bench("leaderboard", *DB, *words)
    assert "GLUE on " in ended.out
    assert ended.out.endswith(f"{needed}\n")
    assert "irony" not in ended.out.removesuffix(f"{needed}\n")


def test_show_runs_lists_a_plugin_suite_only_if_the_plugin_is_loaded(theirs):
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


def test_reports_of_two_databases_do_not_overwrite_each_other(bench):
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
def test_the_default_report_is_named_after_the_database(db, page):
    assert page_beside(db) == Path(page)
    assert page_beside(db, "mine.html") == Path("mine.html")


def test_report_of_another_database_is_kept_and_mentioned(bench):
    for name in ("x.sqlite", "x.db"):
        with open_store(name) as store:
            store.add_result(make_result(make_job(model=f"of {name}")))
    assert bench("report", "--db", "x.sqlite").out == "report: x.html\n"
    first = Path("x.html").read_bytes()
    for _ in range(2):
        ended = bench("report", "--db", "x.db")
        (other,) = Path().glob("x-*.html")
        assert re.fullmatch(r"x-[0-9a-f]{6}\.html", other.name)
        assert ended.out == f"report: {other}\n"
        kept = "x.html is the report of another database and is kept; this report is"
        assert f"bench: {kept} {other}.\n" in ended.err
        assert "of x.db" in other.read_text(encoding="utf-8")
        assert Path("x.html").read_bytes() == first
    # Move the database and its report together to another folder.
    for name in ("x.sqlite", "x.html"):
        Path("moved").mkdir(exist_ok=True)
        Path(name).rename(f"moved/{name}")
    ended = bench("report", "--db", "moved/x.sqlite")
    assert (ended.out, ended.err) == ("report: moved/x.html\n", "")
    assert bench("report", "--db", "x.db", "--out", "moved/x.html").err == "", "as told"


def test_report_does_not_overwrite_a_file_that_is_not_a_report(bench):
    with open_store("notes.sqlite") as store:
        store.add_result(make_result(make_job()))
    Path("notes.html").write_text("<p>mine</p>")
    ended = bench("report", "--db", "notes.sqlite")
    assert ended.code == 0
    assert "bench: notes.html is not a report of benchharness and is kept; " in ended.err
    assert Path("notes.html").read_text() == "<p>mine</p>"


def test_databases_of_a_server_are_distinguished_by_host_and_name(tmp_path):
    def mark(name):
        return store_mark(SimpleNamespace(name=name), tmp_path / "team.html")

    assert mark("postgresql://ann@host:5432/team") == mark("postgresql://bob@host:5432/team?a=b")
    different = ("postgresql://host/team", "postgresql://other/team", "postgresql://host/x")
    assert len({mark(name) for name in different}) == 3
