"""Large stores: a command reads only the runs that it shows."""

import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from benchharness.cli import report as report_cli
from benchharness.cli import tables
from benchharness.extensions.exports import command as export_module
from benchharness.extensions.exports.lines import COLUMNS as EXPORTED
from benchharness.leaderboard.result import Evaluation, Result
from benchharness.leaderboard.store import PREDICTIONS, RUNS, SCORES, PackedJson
from benchharness.leaderboard.store import record as record_module
from benchharness.leaderboard.store import store as store_module
from benchharness.leaderboard.store.record import (
    COPIES,
    _data_of,
    headline_columns,
    outcome_to_run,
    row_of,
    rows_of,
)
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import to_text
from benchharness.stored import report as report_module
from benchharness.stored.report import Wanted, make_report
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.report_page import PACKED, unpacked
from tests.helpers.results import SCORES as GLUE
from tests.helpers.results import make_job, make_result

# A store of very many results is generated as text: a template per task, which is filled in for
# each run. The rows, including their digests, equal those that `Store.add_result` would write.

MODEL, SEED, SCORE = "model-00000", 777_777_777, 0.7654321

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class Template:
    """Result as the columns of its rows, with placeholders where the runs differ."""

    result: Result
    run: dict[str, Any]
    canonical: str
    shared: str
    headline: str
    scores: tuple[tuple[str, str, str, str], ...]
    predictions: tuple[tuple[Any, ...], ...]


def template(result: Result) -> Template:
    """Return the template of a task's runs; model, weights, seed and scores are placeholders."""
    marked = [
        replace(each, scores=dict.fromkeys(each.scores, SCORE)) for each in result.evaluations
    ]
    job = replace(result.job, model=MODEL, checkpoint=MODEL, weights=MODEL, seed=SEED)
    result = replace(result, job=job, evaluations=tuple(marked))
    run = outcome_to_run(result)
    columns = {column.name: getattr(run, column.name) for column in RUNS.columns}
    texts = ("job", "curve", "cost", "provenance", "fingerprints")
    copies = {name: getattr(run, name) for name in COPIES}
    canonical = _canonical([_data_of(run), copies])
    return Template(
        result=result,
        run={name: to_text(v) if name in texts else v for name, v in columns.items()},
        canonical=canonical,
        shared=headline_columns(run)["shared"],
        headline=to_text(headline_columns(run)["content"]),
        scores=tuple((s.task, s.split, s.name, s.metric) for s in run.scores),
        predictions=tuple(_predicted(each) for each in result.evaluations),
    )


def fill(path: Path, templates: Iterable[Template], *, models: Sequence[str], seeds: int) -> int:
    """Add a run of every model, seed and task to the store, and return their number."""
    open_store(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-400000"):
            connection.execute(f"PRAGMA {statement}")
        (number,) = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
        first = number
        for each in templates:
            connection.execute("BEGIN")
            rows = _rows(each, models, seeds, number)
            for table, found in rows.items():
                _insert(connection, table, found)
            number += len(rows["runs"])
            connection.execute("COMMIT")
        return int(number - first)


def _canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _predicted(evaluation: Evaluation) -> tuple[Any, ...]:
    packed = PackedJson().process_bind_param(list(evaluation.predictions), None)  # type: ignore[arg-type]
    flags = to_text(evaluation.flags)
    return evaluation.task, evaluation.split, evaluation.fingerprint, flags, packed


def _rows(template: Template, models: Sequence[str], seeds: int, number: int) -> Rows:
    found: Rows = {"runs": [], "scores": [], "predictions": [], "headlines": []}
    job, draw = template.result.job, random.Random(template.result.job.task)
    for model in models:
        quality = draw.uniform(0.4, 0.9)
        for seed in range(1, seeds + 1):
            number += 1
            score = round(quality + draw.gauss(0, 0.01), 4)
            key = replace(job, model=model, checkpoint=model, weights=model, seed=seed).key
            marks = [(MODEL, model), (str(SEED), str(seed)), (str(SCORE), str(score))]
            marks.append((job.key, key))
            run = {name: _filled(value, marks) for name, value in template.run.items()}
            canonical = str(_filled(template.canonical, marks))
            digest = hashlib.sha256(canonical.encode("ascii")).hexdigest()
            run |= {"id": number, "attempt": 1, "digest": digest, "seed": seed}
            found["runs"].append(tuple(run.values()))
            found["scores"] += [
                (number, *where, score, metric) for *where, metric in template.scores
            ]
            found["predictions"] += [(number, *each) for each in template.predictions]
            content = _filled(template.headline, marks)
            shared = _filled(template.shared, marks)
            names = (run["suite"], run["task"], model, "finished", shared, content)
            found["headlines"].append((number, key, *names))
    return found


def _filled(value: Any, marks: Iterable[tuple[str, str]]) -> Any:
    if not isinstance(value, str):
        return value
    for mark, filled in marks:
        value = value.replace(mark, filled)
    return value


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    names = {
        "runs": [column.name for column in RUNS.columns],
        "scores": [c.name for c in SCORES.columns if c.name != "id"],
        "predictions": [c.name for c in PREDICTIONS.columns if c.name != "id"],
        "headlines": ["run_id", "job_key", "suite", "task", "model", "status", "shared", "content"],
    }[table]
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)


def names_of(count: int) -> Iterator[str]:
    """Return names of models: "model-00001" and so on."""
    return (f"model-{number:05}" for number in range(1, count + 1))


TASKS, SEEDS = 10, 5
"""Numbers of tasks and seeds per suite."""

PLUGIN = """
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.glue import pair_task

TASKS = tuple(
    pair_task(
        name=f"made{{suite:02}}/task{{task}}",
        folder=f"made{{suite:02}}-task{{task}}",
        texts={{"text": "text"}},
        labels=("no", "yes"),
        label_texts="01",
        metrics=(accuracy,),
    )
    for suite in range(1, {suites})
    for task in range({tasks})
)
"""

SETTINGS = {
    "learning_rate": 2e-5,
    "epochs": 3,
    "batch_size": 32,
    "warmup": 0.1,
    "weight_decay": 0.01,
    "max_length": 128,
    "adam_epsilon": 1e-6,
    "clip_norm": 1.0,
    "dropout": 0.1,
}


def make_store(folder: Path, suites: int, models: int) -> Path:
    """Make a store of `suites` suites with `models` models each, and the plugin next to it."""
    (folder / "many.py").write_text(PLUGIN.format(suites=suites, tasks=TASKS))
    path = folder / "many.sqlite"
    names = list(names_of(models))
    fill(path, map(template, _glue()), models=names, seeds=SEEDS)
    for number in range(1, suites):
        made = [f"made{number:02}/task{task}" for task in range(TASKS)]
        results = [make_result(_job(task, data="hub")) for task in made]
        ours = [f"{name}-of-{number:02}" for name in names]
        fill(path, map(template, results), models=ours, seeds=SEEDS)
    return path


def _job(task: str, **fields: object) -> object:
    return make_job(task=task, settings=SETTINGS, precision="fp32", recipe="paper", **fields)


def _glue() -> Iterator[Result]:
    """Yield a result of every task of GLUE, on the rows of the packaged data."""
    for name in GLUE:
        task = find_task(name)
        splits = ("train", *task.dev_splits)
        prints = {
            f"{name}:{split}": read(task, split, parse_data("mini")).fingerprint for split in splits
        }
        yield make_result(replace(_job(name), fingerprints=prints))


SUITES, MODELS = 101, 200
"""Numbers of suites and models: 1,009,000 results, 9,000 of them GLUE's."""

NO_OP = "run --model tiny --task glue/wnli --data mini --limit 16 --seeds 1 --no-baselines"
"""Command that has nothing to do when repeated."""

LIMITS = {
    NO_OP: 5.0,
    "report": 8.0,
    "leaderboard": 4.0,
    "show runs": 4.0,
    "leaderboard --suite made07": 4.0,
    "compare model-00001-of-05 model-00002-of-05 --suite made05": 6.0,
}
"""Limits of processor time per command, in multiples of the time of `import pandas`.

The two are measured in turn, so that a slow or busy machine slows both.
"""

TABLES = ("runs", "scores", "predictions", "headlines")
SCANS = tuple(f"SCAN {table}" for table in TABLES)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store of three suites with two models."""
    return make_store(tmp_path_factory.mktemp("small"), 3, 2)


@pytest.fixture
def store(small: Path) -> Iterator[Store]:
    with open_store(small) as opened:
        yield opened


@contextmanager
def noted_plans(engine: Engine) -> Iterator[list[str]]:
    """Yield a list that finally has SQLite's query plans, such as "SCAN runs"."""
    issued: list[tuple[str, object]] = []
    plans: list[str] = []

    def note(
        connection: object, cursor: object, statement: str, values: object, *_: object
    ) -> None:
        if statement.startswith(("SELECT", "WITH")):
            issued.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    yield plans
    event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        for statement, values in issued:
            explained = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.extend(row[-1] for row in explained)


def test_generated_store_of_the_load_tests_is_valid(store: Store) -> None:
    assert list(store.faults()) == []
    assert store.count() == (9 + 10 + 10) * 2 * 5
    assert store.suites() == ["made02", "made01", "glue"]


def test_queries_use_an_index_and_never_scan_a_table(store: Store) -> None:
    key = store.runs(suite="glue")[0].key
    with noted_plans(store._engine) as plans:
        store.runs(suite="made01", model={"model-00001-of-01", "x"})
        store.runs(key=key[:10])
        store.runs_with([key])
        store.finished_keys([key])
        store.result(key)
        store.attempts(key)
        store.count(suite="glue")
    found = {plan.split()[1] for plan in plans if plan.startswith("SEARCH")}
    assert found == set(TABLES)
    assert [plan for plan in plans if plan.startswith(SCANS)] == []


@pytest.mark.parametrize("names", [Store.suites, Store.models])
def test_model_and_suite_names_are_read_from_an_index_without_table_rows(
    store: Store, names: Callable[[Store], list[str]]
) -> None:
    """Check that only an index is read, and no row of the table."""
    with noted_plans(store._engine) as plans:
        assert names(store)
    about = [plan for plan in plans if "headlines" in plan]
    assert len(about) >= 2
    assert all(plan.startswith("SEARCH headlines USING COVERING INDEX") for plan in about)


def test_load_tests_detect_a_table_scan_in_the_query_plan(store: Store) -> None:
    with store._engine.connect() as connection:
        plan = connection.execute(text("EXPLAIN QUERY PLAN SELECT * FROM runs WHERE data = 'x'"))
        assert [row[-1] for row in plan] == ["SCAN runs"]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store of GLUE by 50 models: 2,250 runs."""
    return make_store(tmp_path_factory.mktemp("many"), 1, 50)


@contextmanager
def counted(engine: Engine) -> Iterator[list[str]]:
    """Yield a list of the statements that are issued."""
    issued: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("PRAGMA"):  # every connection runs some pragmas
            issued.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield issued
    event.remove(engine, "before_cursor_execute", note)


def reported(store: Store, page: Path, **wanted: bool) -> tuple[list[str], int]:
    """Return the run files that a report writes, and the number of statements it issues."""
    known = {path: path.stat().st_mtime_ns for path in page.with_suffix(".runs").glob("*")}
    with counted(store._engine) as issued:
        make_report(store, page, Wanted(**wanted))
    files = page.with_suffix(".runs").iterdir()
    written = [path.name for path in files if path.stat().st_mtime_ns != known.get(path)]
    return written, len(issued)


@pytest.mark.soak
def test_repeated_report_reads_and_writes_only_changed_runs(many: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with open_store(many) as store:
        written, first = reported(store, page)
        assert len(written) == 50
        assert first < 150  # about three statements per hundred runs
        written, again = reported(store, page)
        assert written == []
        assert again < 50
        found = store.result(store.runs(model="model-00007", task="glue/rte")[0].key)
        # A repeated run, as with --force.
        store.add_result(replace(found, finished="2026-09-01T12:00:00Z"))
        (written,), changed = reported(store, page)
        assert written.startswith("model-00007-")
        assert changed < again + 10
        # Files with full paths are not reused for a report with shortened paths, or vice versa.
        assert len(reported(store, page, show_paths=True)[0]) == 50


def test_show_runs_reads_only_the_newest_rows(many: Path, bench: Any, monkeypatch: Any) -> None:
    read = list[str]()
    monkeypatch.setattr(
        record_module, "row_of", lambda key, *data: read.append(key) or row_of(key, *data)
    )
    listed = bench("show", "runs", "--db", str(many)).out
    assert len(read) == 100
    assert "newest 100 of 2,250 runs" in listed
    assert listed.count("model-") == 100
    every = bench("show", "runs", "--db", str(many), "--newest", "0", "--task", "rte").out
    assert every.count("model-") == 250
    keys = [
        row["key"] for row in json.loads(bench("show", "runs", "--db", str(many), "--json").out)
    ]
    with open_store(many) as store:
        assert keys == [row.key for row in store.runs()]


def test_run_command_reads_only_its_own_models_from_a_large_store(
    many: Path, bench: Any, monkeypatch: Any
) -> None:
    words = [
        "run",
        "--model",
        "majority",
        "--task",
        "glue/rte",
        "--data",
        "mini",
        "--limit",
        "16",
        "--seeds",
        "1",
    ]
    read = list[str]()
    monkeypatch.setattr(
        record_module, "row_of", lambda key, *data: read.append(key) or row_of(key, *data)
    )
    ended = bench(*words, "--db", str(many))
    assert ended.code == 0
    assert "majority" in ended.out
    assert "model-0" not in ended.out
    assert f"bench report --db {many} --out {many.with_suffix('.html')}" in ended.out
    assert not many.with_suffix(".html").exists()
    assert len(read) < 10
    assert json.loads(bench(*words, "--db", str(many), "--json").out)["report"] is None


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store of GLUE by 10 models: 450 runs."""
    return make_store(tmp_path_factory.mktemp("few"), 1, 10)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("leaderboard", 0),
        ("leaderboard --details --top 0", 0),
        ("show runs", 0),
        ("show runs --newest 0", 2),
        ("export --format csv", 2),
        ("export --format json", 2),
        ("export --format latex", 0),
    ],
)
def test_number_of_sql_statements_does_not_grow_with_the_number_of_runs(
    few: Path, many: Path, bench: Any, words: str, most: int
) -> None:
    """Check that a command makes at most `most` statements more for 500 runs more."""
    numbers = []
    for path in (few, many):
        with open_store(path) as store, counted(store._engine) as issued:
            assert bench(*words.split(), "--db", str(path)).code == 0
        numbers.append(len(issued))
    assert numbers[1] - numbers[0] <= most * 4  # the larger store has 1,800 more runs


def test_csv_export_is_streamed(many: Path, bench: Any, monkeypatch: Any) -> None:
    happened = list[str]()
    said = export_module.typer.echo
    monkeypatch.setattr(
        export_module.typer,
        "echo",
        lambda text, **options: happened.append(text) or said(text, **options),
    )
    monkeypatch.setattr(
        store_module, "rows_of", lambda found: happened.append("read") or rows_of(found)
    )
    ended = bench("export", "--db", str(many))
    assert happened.index("read") == 1
    assert ended.out.startswith(",".join(EXPORTED) + "\n")
    assert ended.out.count("\n") == len(happened) - happened.count("read")


@pytest.mark.parametrize("job", ["{}", "{", "[]"])
def test_export_of_a_store_with_a_damaged_job_is_an_error(
    few: Path, bench: Any, tmp_path: Path, job: str
) -> None:
    path = Path(shutil.copy(few, tmp_path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET job = ? WHERE task = 'glue/rte'", [job])
        connection.commit()
    ended = bench("export", "--db", str(path))
    assert ended.code == 5
    assert f"the leaderboard {path} is damaged" in ended.err


@pytest.mark.parametrize("words", [["--suite", "no"], ["--model", "no"], ["--task", "wsc"]])
def test_csv_export_with_an_unmatched_filter_is_an_error_without_output(
    many: Path, bench: Any, words: list[str]
) -> None:
    ended = bench("export", *words, "--db", str(many))
    assert (ended.code, ended.out) == (2, "")


def test_report_of_many_runs_has_run_details_and_links_only_for_the_best_entries(
    few: Path, bench: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(report_module, "MOST_DETAILS", 150)
    monkeypatch.setattr(report_cli, "LARGE_STORE", 400)
    monkeypatch.setattr(tables, "MANY", 100)
    ended = bench("report", "--db", str(few), "--out", "page.html")
    first, second, *_ = ended.err.splitlines()
    assert first == "bench: reading 450 runs for the report."
    assert second.startswith("100 of ")
    files = {path.name for path in Path("page.runs").iterdir()}
    assert 3 <= len(files) < 10
    html = Path("page.html").read_text(encoding="utf-8")
    shown = html + "".join(map(unpacked, re.findall(PACKED, html)))
    links = re.findall(r'href=\\?"(?:page\.runs/([^#"]+))?#runs?-', shown)
    assert {*links} == files
    noted = f"GLUE: details were written for the best {len(files)} of 10 entries"
    assert f"{noted}; `bench report --split` writes them for all." in unescape(html)
    bench("report", "--db", str(few), "--out", "page.html", "--split")
    assert len(list(Path("page.runs").iterdir())) == 10


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_commands_on_a_million_results_take_at_most_8_times_as_long_as_importing_pandas(
    tmp_path: Path,
) -> None:
    path = make_store(tmp_path, SUITES, MODELS)
    with open_store(path) as store:
        assert store.count() > 1_000_000
    _seconds(NO_OP.split(), path)
    for words, limit in LIMITS.items():
        measured = [(_import_seconds(), _seconds(words.split(), path)) for _ in range(3)]
        peer, seconds = map(min, zip(*measured, strict=True))
        sys.stdout.write(f"{words}: {seconds:.2f} s, {seconds / peer:.2f} of import pandas\n")
        assert seconds < limit * peer, words


SCALE = {
    "show runs": (2.0, 600),
    "show runs --newest 0": (10.0, 600),
    "leaderboard": (10.0, 600),
    "leaderboard --details": (10.0, 600),
    "export --format csv": (30.0, 600),
    NO_OP: (2.0, 600),
    "report": (30.0, 600),
}
"""Limits of processor seconds and MB per command, with 100,035 runs in a suite."""


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_commands_on_a_suite_of_100000_runs_stay_within_their_time_and_memory_limits(
    tmp_path: Path,
) -> None:
    path = make_store(tmp_path, 1, 2_223)
    _seconds(NO_OP.split(), path)  # from now on, the command has nothing to do
    for words, (most_seconds, most_megabytes) in SCALE.items():
        # For this measurement, the report is written from scratch.
        seconds, megabytes = _cost(words.split(), path)
        sys.stdout.write(f"{words}: {seconds:.2f} s, {megabytes:.0f} MB\n")
        assert (seconds < most_seconds, megabytes < most_megabytes) == (True, True), words
    assert _cost(["export"], path, lines=1)[0] < 2.0


def _import_seconds() -> float:
    """Return the processor seconds of a process that only imports pandas."""
    process = subprocess.Popen([sys.executable, "-P", "-c", "import pandas"])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def _seconds(words: list[str], path: Path) -> float:
    """Return the processor seconds of a command, without the time that it waits."""
    return _cost(words, path)[0]


MEASURED = """
import re
from pathlib import Path
from benchharness.cli.app import main
try:
    main()
finally:
    peak = re.search("VmHWM:[^0-9]*([0-9]+)", Path("/proc/self/status").read_text())
    Path({peak!r}).write_text(peak[1])
"""
"""Command that writes its peak memory in kB to the file `peak`.

The memory that `wait4` reports includes this process's: a child begins with its parent's.
"""


def _cost(words: list[str], path: Path, *, lines: int | None = None) -> tuple[float, float]:
    """Return the processor seconds and the MB of a command, which is ended after `lines` lines."""
    environment = {"BENCH_DB": str(path), "BENCH_PLUGINS": str(path.with_name("many.py"))}
    peak = path.with_name("peak")
    code = MEASURED.format(peak=str(peak))
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, *words],
        cwd=path.parent,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL if lines is None else subprocess.PIPE,
    )
    if process.stdout is not None:
        assert all(process.stdout.readline() for _ in range(lines or 0))
        process.terminate()
        process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert lines is not None or process.returncode == 0, words
    return usage.ru_utime + usage.ru_stime, int(peak.read_text()) / 1024
