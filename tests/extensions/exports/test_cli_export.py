"""`bench export` and `bench db import`."""

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import time

import httpx
import pytest
import yaml

from benchharness.extensions.exports import cards
from benchharness.leaderboard.store.store import open_store
from tests.helpers.boards import make_job, make_runs
from tests.helpers.compared_runs import made
from tests.helpers.hub_server import serve_hub
from tests.helpers.results import make_failure, make_result

ROWS = "model,task,metric,split,score,source\ntheirs,glue/rte,accuracy,dev,0.99,their blog\n"


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "board.sqlite"
    with open_store(path) as store:
        for seed, model in ((0, "one"), (1, "one"), (0, "=two()")):
            for task in ("glue/rte", "glue/mrpc", "superglue/copa"):
                store.add_result(make_result(make_job(model=model, task=task, seed=seed)))
        store.add_failure(make_failure(make_job(model="one", task="glue/cola")))
    return path


@pytest.fixture
def official(tmp_path):
    """Store two models on official data, each with three seeds of a task."""
    path = tmp_path / "official.sqlite"
    with open_store(path) as store:
        for model in ("minilm", "tiny"):
            for run in [run for run in make_runs() if run.job.model == model][:3]:
                job = make_job(model=model, task=run.job.task, seed=run.job.seed, data="hub")
                store.add_result(make_result(job, evaluations=run.evaluations))
    return path


def stored(path):
    with open_store(path, create=False) as store:
        return [(run.key, run.attempt, run.digest) for run in store.stored_runs()]


def test_export_writes_csv_to_stdout_by_default(bench, db):
    ended = bench("export", "--db", db)
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert ended.code == 0
    assert {row["model"] for row in rows} == {"one", "'=two()"}
    assert {row["task"] for row in rows} == {"glue/rte", "glue/mrpc", "superglue/copa"}
    assert {row["seeds"] for row in rows if row["model"] == "one"} == {"2"}


def test_export_filters_scores_by_suite_task_model_and_data(bench, db):
    words = ("--suite", "glue", "--task", "rte", "--model", "one", "--data", "mini")
    ended = bench("export", "--format", "json", *words, "--db", db)
    assert {(row["model"], row["task"]) for row in json.loads(ended.out)} == {("one", "glue/rte")}


def test_out_option_writes_the_export_to_a_file(bench, db, tmp_path):
    out = tmp_path / "new" / "table.tex"
    ended = bench("export", "--format", "latex", "--out", out, "--db", db)
    assert (ended.code, ended.out) == (0, f"export: {out}\n")
    assert r"\toprule" in out.read_text(encoding="utf-8")
    assert list(out.parent.iterdir()) == [out]


def test_exported_tables_have_the_requested_columns_and_models(bench, official):
    table = ("export", "--format", "latex", "--db", official)
    text = bench(*table, "--columns", "rte,seeds", "--models", "minilm,tiny").out
    assert r"Model & Seeds & RTE \\" in text
    one = bench(*table, "--task", "cola", "--model", "tiny", "--no-spread").out
    assert "MiniLM" not in one
    assert not re.search(r"\\pm|_{", one)
    assert "47.5" in bench(*table, "--published", "models").out
    lines = bench("export", "--columns", "model,score", "--db", official).out.splitlines()
    assert lines[0] == "model,score"


def test_ties_option_shows_scores_not_significantly_below_the_best_in_bold(bench, tmp_path):
    db = tmp_path / "ties.sqlite"
    with open_store(db) as store:
        for model, wrong in (("best", range(5)), ("near", range(4, 10)), ("far", range(60))):
            store.add_result(made(model, "glue/rte", 1, set(wrong)))
    words = ("export", "--format", "latex", "--columns", "rte", "--db", db)
    assert bench(*words).out.count("textbf") == 1
    text = bench(*words, "--ties").out
    assert text.count("textbf") == 2
    assert "near & \\textbf" in text
    assert "far & \\textbf" not in text


def test_statistical_ties_are_omitted_if_the_rows_of_a_task_are_unreadable(bench, official):
    ended = bench("export", "--format", "latex", "--ties", "--caption", "Ours.", "--db", official)
    assert ended.code == 0
    assert "--ties shows no ties on CoLA" in ended.err
    assert r"\textbf" in ended.out
    assert r"\caption{Ours.}" in ended.out


@pytest.mark.parametrize("form", ["model-index", "eval-results"])
def test_export_as_model_card_or_eval_results_needs_exactly_one_model(bench, official, form):
    ended = bench("export", "--format", form, "--model", "minilm", "--db", official)
    assert ended.code == 0
    data = yaml.safe_load(ended.out)
    found = data if form == "eval-results" else data.get("model-index") or [data["model_info"]]
    assert found[0].get("name", "minilm") == "minilm"
    ended = bench("export", "--format", form, "--db", official)
    assert ended.code == 2
    assert "Select one with --model" in ended.err


PUSH = """
from benchharness.extensions.exports import cards
from benchharness.cli.app import main
cards.ANSWER_SECONDS = {seconds}
main()
"""


def push(db, endpoint, form, seconds=1, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    places = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(db.parent / "home"),
        "HF_HUB_DISABLE_XET": "1",
    }
    words = ("--format", form, "--model", "minilm", "--push", "me/mine", "--db", str(db))
    return subprocess.run(
        (sys.executable, "-P", "-c", PUSH.format(seconds=seconds), "export", *words),
        env=kept | places | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_push_to_the_hub_is_one_commit_or_sends_nothing(official, tmp_path):
    readme = tmp_path / "hub" / "models" / "me" / "mine" / ("a" * 40) / "README.md"
    readme.parent.mkdir(parents=True)
    readme.write_text("---\nlicense: mit\n---\n# Mine\n")
    with serve_hub(tmp_path / "hub") as hub:
        # On a busy machine, an answer may take more than a second.
        refused = push(official, hub.endpoint, "model-index", seconds=60)
        assert refused.returncode == 2
        assert not hub.taken
        assert "nothing was sent to me/mine" in refused.stderr
        assert "hf auth login" in refused.stderr
        for form in ("model-index", "eval-results"):
            sent = push(official, hub.endpoint, form, seconds=60, HF_TOKEN="hf_secret")
            assert sent.returncode == 0, sent.stderr
            assert sent.stdout.startswith("sent: ")
            assert "hf_secret" not in sent.stdout + sent.stderr
        assert sum("/commit/" in request for request in hub.requests) == 2
    _, data, text = hub.taken["README.md"].decode().split("---\n", 2)
    card = yaml.safe_load(data)
    assert card["license"] == "mit"
    assert text == "# Mine\n"
    assert card["model-index"][0]["results"][0]["metrics"]
    assert yaml.safe_load(hub.taken[".eval_results/benchharness.yaml"])[0]["value"] > 0
    silent = push(official, "http://127.0.0.1:9", "eval-results", HF_TOKEN="hf_secret")
    assert silent.returncode == 2
    assert "the hub does not answer" in silent.stderr


@pytest.mark.parametrize(
    ("trouble", "is_known", "reason"),
    [
        ({"dropped": "/commit/"}, False, "disconnected"),
        ({"failing": {"/commit/": 500}}, False, "500"),
        ({"silent": "/preupload/"}, True, "the hub has not answered for 1 seconds"),
        ({"failing": {"/commit/": 403}}, True, "hf auth login"),
    ],
)
def test_failed_push_reports_whether_anything_was_sent(
    official, tmp_path, trouble, is_known, reason
):
    (tmp_path / "hub" / "models" / "me" / "mine" / ("a" * 40)).mkdir(parents=True)
    with serve_hub(tmp_path / "hub") as hub:
        vars(hub).update(trouble)
        ended = push(official, hub.endpoint, "eval-results", HF_TOKEN="hf_secret")
        where = f"{hub.endpoint}/me/mine/commits/main"
    assert bool(hub.taken) == ("dropped" in trouble)
    # Earlier lines are the client's own messages about repeated requests.
    said = ended.stderr.splitlines()[-1]
    assert ended.returncode == 2
    assert said.startswith("bench: nothing was sent to me/mine") == is_known
    assert said.startswith("bench: it is unknown whether the scores have arrived") != is_known
    assert (where in said) != is_known
    assert reason in said
    assert ("hf auth login" in said) == (reason == "hf auth login")
    assert "hf_secret" not in ended.stderr
    assert re.search(r"[1-9]?[0-9]\.[0-9] seconds after the start", ended.stderr)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--push", "me/mine"], "--push needs --format model-index or eval-results"),
        (["--model", "nobody"], "no stored results of nobody"),
        (["--task", "glue/nope"], "no task"),
        (["--format", "model-index", "--model", "one"], "scores on the complete official data"),
        (
            ["--format", "latex", "--columns", "rte,nope"],
            "there is no column 'nope'. The columns are",
        ),
        (["--columns", "nope"], "there is no column 'nope'. The columns are model, task"),
        (["--format", "model-index", "--columns", "score"], "--columns needs --format csv or"),
        (["--models", "one,nobody"], "no stored results of nobody, only of"),
        (["--format", "latex", "--published", "models"], "published scores are on complete"),
        (["--all", "x.jsonl.gz", "--suite", "glue"], "--all writes the whole database"),
        (["--all", "x.jsonl"], "the name of an archive must end in .jsonl.gz"),
        (["--all", "/proc/none/x.jsonl.gz"], "could not be written"),
        (["--out", "/proc/none/x.csv"], "could not be written"),
    ],
)
def test_invalid_export_options_are_a_one_line_error(bench, db, words, sentence):
    ended = bench("export", *words, "--db", db)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1


def test_exported_database_can_be_imported(bench, db, tmp_path):
    archive, other = tmp_path / "store.jsonl.gz", tmp_path / "other.sqlite"
    ended = bench("export", "--all", archive, "--db", db)
    assert ended.out == f"archive: {archive}, 10 runs\n"
    ended = bench("db", "import", archive, "--db", other)
    assert (ended.code, ended.out) == (0, f"{archive}: 10 of 10 runs added\n")
    assert stored(other) == stored(db)
    assert bench("export", "--db", other).out == bench("export", "--db", db).out
    ended = bench("db", "import", archive, "--db", other, "--json")
    assert json.loads(ended.out) == {"file": str(archive), "runs": 10, "added": 0}
    assert stored(other) == stored(db)


def test_import_of_a_damaged_archive_is_an_error_without_changes(bench, db, tmp_path):
    archive, other = tmp_path / "store.jsonl.gz", tmp_path / "other.sqlite"
    bench("export", "--all", archive, "--db", db)
    lines = gzip.decompress(archive.read_bytes()).splitlines(keepends=True)
    archive.write_bytes(gzip.compress(b"".join(lines[:-1])))
    ended = bench("db", "import", archive, "--db", other)
    assert (ended.code, ended.out) == (4, "")
    assert "is truncated" in ended.err
    assert not other.exists()
    before = stored(db)
    assert bench("db", "import", archive, "--db", db).code == 4
    assert stored(db) == before


def test_imported_scores_are_listed_without_a_rank(bench, db, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(ROWS.replace("source\n", "source,data\n").replace("blog\n", "blog,mini\n"))
    assert bench("db", "import", file, "--db", db).out == f"{file}: 1 of 1 rows added\n"
    ended = bench("db", "import", file, "--db", db)
    assert "0 of 1 rows added" in ended.out
    ended = bench("leaderboard", "--suite", "glue", "--db", db)
    measured, _, imported = ended.out.partition("GLUE, imported (dev)")
    assert "theirs" not in measured
    assert "theirs" in imported
    (board,) = json.loads(bench("leaderboard", "--suite", "glue", "--db", db, "--json").out)
    assert "theirs" not in {entry["model"] for entry in board["entries"]}
    assert board["imported"][0]["source"] == "their blog"
    assert bench("report", "--db", db).code == 0
    assert bench("show", "runs", "--db", db).code == 0
    key = stored(db)[-1][0]
    assert "their blog" in bench("show", key, "--db", db).out
    # Imported scores were not measured here, so they are not exported.
    assert "theirs" not in bench("export", "--db", db).out


WRONG = {
    "rows.csv": (ROWS.replace("0.99", "99"), 4, "row 1 of"),
    "rows.json": ("{}", 4, "must be a JSON list"),
    "rows.txt": (ROWS, 2, "cannot be imported"),
    "rows.gz": (ROWS, 4, "is damaged or truncated"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_import_file_is_an_error_and_creates_no_database(bench, tmp_path, name):
    content, code, sentence = WRONG[name]
    (tmp_path / name).write_text(content)
    ended = bench("db", "import", tmp_path / name, "--db", tmp_path / "none.sqlite")
    assert (ended.code, ended.out) == (code, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "none.sqlite").exists()


def test_push_restores_the_timeout_and_hooks_of_the_http_client(monkeypatch):
    """Each response restarts the timeout of the next request. Later requests are not affected."""
    monkeypatch.setattr(cards, "ANSWER_SECONDS", 0.2)

    def answer(_):
        time.sleep(0.12)
        return httpx.Response(200)

    asked = []
    with httpx.Client(transport=httpx.MockTransport(answer), timeout=7) as session:
        hooks = dict(session.event_hooks)
        with cards.watched(session, asked):
            for number in range(3):
                session.get(f"http://hub/{number}")
        assert asked == [f"http://hub/{number}" for number in range(3)]
        with pytest.raises(ZeroDivisionError), cards.watched(session, asked):
            raise ZeroDivisionError
        assert dict(session.event_hooks) == hooks
        assert session.timeout == httpx.Timeout(7)
        time.sleep(0.25)
        session.get("http://hub/later")
    assert len(asked) == 3
