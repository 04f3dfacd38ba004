"""Tests of fault 43: no command and no Python call shows or stores a database password.

Every command runs in this process on a PostgreSQL server, with the password before the host, in the
query and in BENCH_DB: successfully, with a role that is refused, and without a server.
"""

import gzip
import inspect
import os
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

import benchharness as bh
from benchharness.cli.app import load_command
from benchharness.cli.commands import commands
from benchharness.errors import BenchError, shown_place
from benchharness.leaderboard.job import Stage
from benchharness.leaderboard.store.archive import write_archive
from benchharness.leaderboard.store.database import open_engine, writing
from benchharness.leaderboard.store.store import open_store
from tests.helpers.compared_runs import made
from tests.helpers.extensions import of_extensions
from tests.helpers.postgres import server
from tests.helpers.soak import in_part

pytestmark = pytest.mark.timeout(900)

WORDS = ("Geheimnis", "Kennwort", "Losung")
PASSWORD = "{}@{}/+ {}%&".format(*WORDS)
QUOTED = quote(PASSWORD, safe="")

RUN = ("--model", "majority", "--task", "glue/rte", "--data", "mini", "--no-baselines")
CALLS: Mapping[str, Sequence[str]] = {
    "run": (*RUN, "--log", "tensorboard"),
    "watch": ("--once",),
    "show": ("{key}",),
    "model": ("{key}", "--to", "taken"),
    "predict": ("{key}", "rows.csv"),
    "leaderboard": (),
    "report": (),
    "ensemble": ("one",),
    "compare": ("one", "other"),
    "report predictions": ("one",),
    "which": ("--among", "tiny,bert", "--task", "glue/rte", "--data", "mini", "--minutes", "0.001"),
    "curve": ("small", "--task", "glue/rte"),
    "plan": ("one", "other"),
    "check --write": ("--model", "one", "--allow-weak"),
    "check": ("--model", "tiny", "--task", "glue/cola"),
    "score": (
        "rte.tsv",
        "--task",
        "glue/rte",
        "--data",
        "mini",
        "--store",
        "--model",
        "mine",
    ),
    "submit": ("--model", "one", "--suite", "glue"),
    "export": ("--all", "all.jsonl.gz"),
    "db import": ("one.jsonl.gz",),
    "db rename": ("other", "renamed"),
    "db hide": ("one",),
    "db delete": ("--model", "renamed", "--yes"),
    "doctor": (),
    "run --write-task": ("--data-file", "rows.csv"),
    "fetch": (),
    "show suites": (),
    "show tasks": (),
    "show models": (),
    "show published": (),
    "show runs": (),
    "db check": (),
    "db backup": ("copy.jsonl.gz",),
    "db merge": ("{url}",),
    **of_extensions(
        {
            "calibration": {"calibration": ("one",)},
            "groups": {"groups": ("one",)},
            "robustness": {"robustness": ("one", "--perturb", "all")},
            "sheet": {"sheet": ("one",)},
            "demo": {"demo": ("--dry-run",)},
            "run_file": {"show config": ("run.toml",)},
            "hub_results": {"show eval-yaml": ("glue",)},
            "explanation": {"explain": ("{key}", "--from", "{key}")},
            "reproduce": {"reproduce": ("{key}",)},
            "share": {
                "share init": ("board",),
                "share add": ("one", "--as", "ada", "--to", "nowhere"),
                "share check": ("nowhere",),
                "share build": ("nowhere", "--out", "site"),
            },
            "paper": {
                "paper": ("--model", "one", "--suite", "snli", "--data", "mini", "--to", "paper")
            },
        }
    ),
}
"""Arguments of each command; add new commands here."""

CODES = {
    **dict.fromkeys(("which", "submit", "fetch", "model", "predict", "paper", "calibration"), 2),
    **dict.fromkeys(("groups", "sheet", "robustness"), 2),
    **dict.fromkeys(("show config", "share add", "share check", "share build"), 2),
    **dict.fromkeys(("check", "reproduce"), 4),
}
"""Exit codes of commands that have no valid input here."""


COMMAND_LINES = {
    name: any("--db" in param.opts for param in load_command(name).params)
    for name, line in commands().items()
    if line.place
}
"""Whether the command has --db, by command."""


def test_43_passwords_are_tested_with_every_command() -> None:
    assert CALLS.keys() == COMMAND_LINES.keys()


@pytest.fixture(scope="module")
def filled() -> Iterator[str]:
    """URL of a server, with a password, and a database `filled` with a few runs."""
    with server(PASSWORD) as url:
        _administer(url, "CREATE DATABASE filled")
        with open_store(url.replace("/postgres", "/filled")) as store:
            store.add_results(
                made(model, "glue/rte", seed, {seed, *wrong})
                for model, wrong in (("one", {7}), ("other", {5, 6}))
                for seed in range(3)
            )
            store.add_results(
                made(
                    f"small/step-{step}",
                    "glue/rte",
                    0,
                    {step},
                    weights=f"sha256:{step}",
                    stage=Stage(run="small", step=step, tokens=step, family="bert"),
                )
                for step in (1, 2, 3)
            )
        yield url


def _administer(url: str, statement: str) -> None:
    with open_engine(url).connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text(statement))


@pytest.fixture
def url(filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of a copy of that database; creates the files that commands read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", f"http://me:{QUOTED}@127.0.0.1:9")
    _administer(filled, "CREATE DATABASE board TEMPLATE filled")
    extra = made("extra", "glue/rte", 0, {1})
    with open_store(tmp_path / "o.sqlite") as store, Path("one.jsonl.gz").open("wb") as file:
        store.add_result(extra)
        write_archive(file, store.stored_runs())
    Path("o.sqlite").unlink()
    answers = [f"{n}\t{p['label']}\n" for n, p in enumerate(extra.evaluations[0].predictions)]
    Path("rte.tsv").write_text("index\tprediction\n" + "".join(answers))
    rows = [f"film {number},{'yes' if number % 2 else 'no'}\n" for number in range(60)]
    Path("rows.csv").write_text("text,label\n" + "".join(rows))
    yield filled.replace("/postgres", "/board")
    _administer(filled, "DROP DATABASE board WITH (FORCE)")


def forms(url: str) -> Mapping[str, tuple[str, str]]:
    """Return (--db, BENCH_DB), one of them empty, per place of the password."""
    in_query = url.replace(f":{QUOTED}@", "@") + f"?connect_timeout=9&password={QUOTED}"
    return {"before the host": (url, ""), "in the query": (in_query, ""), "in BENCH_DB": ("", url)}


def tells(content: str | bytes) -> list[str]:
    """Return the parts of the password that occur in the content."""
    if isinstance(content, bytes):
        content = content.decode("utf-8", "replace")
    return [word for word in WORDS if word.lower() in content.lower()]


def assert_nothing_is_left(folder: Path, url: str = "") -> None:
    """Check that no file and no row of the database has the password."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            packed = content[:2] == b"\x1f\x8b"
            assert not tells(gzip.decompress(content) if packed else content), path
    for table in ("runs", "headlines", "annotations", "scores") if url else ():
        with writing(open_engine(url)) as session:
            for row in session.execute(text(f"SELECT t::text FROM {table} t")):
                assert not tells(row[0]), table


class Caller:
    """Runs commands and checks that their output has no password."""

    def __init__(self, bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bench, self._patch = bench, monkeypatch

    def __call__(self, name: str, given: tuple[str, str], more: Mapping[str, str]) -> Any:
        option, variable = given
        self._patch.setenv("BENCH_DB", variable)
        if not variable:
            self._patch.delenv("BENCH_DB")
        words = [word.format(**more) for word in CALLS[name]]
        if option and COMMAND_LINES[name]:
            words += ["--db", option]
        ended = self._bench(*name.split(), *words)
        assert not tells(ended.out + ended.err), (name, ended)
        assert "Traceback" not in ended.err
        return ended


@pytest.fixture
def call(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(bench, monkeypatch)


@pytest.mark.parametrize("form", in_part(forms(""), ["in BENCH_DB"]))
def test_43_no_command_prints_or_stores_a_password(
    call: Caller, url: str, tmp_path: Path, form: str
) -> None:
    given = forms(url)[form]
    with open_store(url) as store:
        key = store.runs(model="one")[0].key
    ended = {name: call(name, given, {"key": key[:12], "url": "".join(given)}) for name in CALLS}
    assert [(name, *e) for name, e in ended.items() if e.code != CODES.get(name, 0)] == []
    assert_nothing_is_left(tmp_path, url)


@pytest.mark.parametrize("form", ["before the host", "in the query"])
def test_43_printed_undo_command_works_without_the_password(
    bench: Any, url: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    renamed = bench("db", "rename", "other", "renamed", "--db", forms(url)[form][0])
    back = shlex.split(renamed.out.partition("To undo it: bench ")[2])
    assert "--db" in back
    assert bench(*back).code == 5, "the server wants a password"
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert bench(*back).code == 0


@pytest.mark.parametrize("fault", ["refused", "away"])
def test_43_no_failing_command_prints_a_password(
    call: Caller, url: str, tmp_path: Path, fault: str
) -> None:
    bad = url.replace("bench:", "nobody:") if fault == "refused" else re.sub(r":\d+/", ":1/", url)
    given = list(forms(bad).values())
    for number, name in enumerate(CALLS):
        ended = call(name, given[number % 3], {"key": "abc", "url": bad})
        assert ended.code or name == "watch" or not COMMAND_LINES[name], (name, ended)
    assert_nothing_is_left(tmp_path)


PYTHON: Mapping[str, tuple[Sequence[Any], Mapping[str, Any]]] = {
    "run": (("majority",), {"task": "glue/rte", "data": "mini", "baselines": False}),
    "which": ((), {"among": ["tiny", "bert"], "minutes": 1, "suite": "glue", "data": "mini"}),
    "model": (("abc",), {}),
    "predict": (("abc", [{"text": "a row"}]), {}),
    "board": (("glue",), {}),
    "boards": ((), {}),
    "compare": (("one", "other"), {}),
    "curve": (("abc",), {}),
    "predictions": (("abc",), {}),
    "runs": ((), {}),
    **of_extensions(
        {
            "calibration": {"calibration": (("one",), {})},
            "explanation": {"explain": (("abc", "abc"), {})},
            "paper": {
                "paper": (("tiny",), {"against": "majority", "suite": "snli", "data": "mini"})
            },
        }
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("form", ["before the host", "in the query"])
def test_43_no_python_call_shows_a_password(url: str, tmp_path: Path, form: str) -> None:
    """Include causes of exceptions, which a notebook prints."""
    calls = {name for name in dir(bh) if inspect.isfunction(getattr(bh, name))}
    assert PYTHON.keys() == {
        name for name in calls if "db" in inspect.signature(getattr(bh, name)).parameters
    }
    for number, (name, (words, options)) in enumerate(PYTHON.items()):
        bad = url.replace("bench:", "nobody:") if number % 2 else re.sub(r":\d+/", ":1/", url)
        with pytest.raises(BenchError) as raised:
            getattr(bh, name)(*words, **options, db=forms(bad)[form][0])
        said = "".join(traceback.format_exception(raised.value))
        assert not tells("\n".join(line for line in said.splitlines() if line[:6] != "  File"))
        assert not tells(repr(raised.value))
    found = bh.run("majority", **PYTHON["run"][1], db=forms(url)[form][0])
    assert not tells(repr(found) + found._repr_html_())
    assert len(found.frame()) == 1
    assert_nothing_is_left(tmp_path, url)


@pytest.mark.soak
def test_43_no_experiment_tracker_stores_a_password(url: str, tmp_path: Path) -> None:
    """Run a separate process, because some trackers record its command line."""
    trackers = ("tensorboard", "mlflow", "trackio", "wandb")
    logs = [word for name in trackers for word in ("--log", name)]
    program = "from benchharness.cli.app import main; main()"
    quiet = {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio")}
    ran = subprocess.run(
        (sys.executable, "-P", "-c", program, "run", *RUN, *logs, "--db", url),
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not tells(ran.stdout + ran.stderr)
    assert "failed and will log" not in ran.stderr
    assert_nothing_is_left(tmp_path, url)


SECRET = "Geheimnis"
HOST = "postgresql+psycopg://rw@127.0.0.1:5432/b2"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (f"postgresql+psycopg://rw:{SECRET}@127.0.0.1:5432/b2", HOST),
        (f"postgresql+psycopg://rw:a@{SECRET}@127.0.0.1:5432/b2", HOST),
        (f"postgresql+psycopg://rw:a/?{SECRET}@127.0.0.1:5432/b2", HOST),
        (f"{HOST}?password={SECRET}", HOST),
        (
            f"{HOST}?sslmode=require&%70assword=a@{SECRET}&host=/x",
            f"{HOST}?sslmode=require&host=/x",
        ),
        (f"{HOST}?sslpassword=a&{SECRET}=1&passfile=/home/{SECRET}", HOST),
        (f"{HOST}?options=-c%20password%3D{SECRET}", HOST),
        (f"postgresql://127.0.0.1:5432/b2?password=a@{SECRET}", "postgresql://127.0.0.1@"),
        (f"postgresql://rw:{SECRET}/b2", "postgresql://rw/b2"),
        (f"postgresql:rw:{SECRET}@h/b2", "postgresql:rw@h/b2"),
        (f"host=h password={SECRET} dbname=b2", "host=h "),
        (f"mssql+pyodbc:///?odbc_connect=DRIVER%3Dx%3BPWD%3D{SECRET}", "mssql+pyodbc:///"),
        ("results/leaderboard.sqlite", "results/leaderboard.sqlite"),
        ("postgresql://[::1]:5432/b2", "postgresql://[::1]:5432/b2"),
    ],
)
def test_43_passwords_in_any_form_of_url_are_not_shown(bench: Any, place: str, shown: str) -> None:
    assert shown_place(place) == shown
    if SECRET in place:
        for words in (
            ("show", "glue/rte", "nothing"),
            ("watch",),
            ("show", place),
            ("--db",),
        ):
            ended = bench(*words, "--db", place)
            assert SECRET not in ended.out + ended.err
