"""Readers of the outputs of runs: stores, archives, baselines, results, checkpoints."""

import gzip
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchharness.engines.process import _parse_progress, _read_outcome
from benchharness.kept_folders import check_checkpoint, new_checkpoint
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.imported import read_rows
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.record import StoredRun, _run_of, outcome_to_run
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.progress import Progress
from benchharness.tasks.suites import SUITES
from tests.helpers.extensions import of_extensions
from tests.helpers.fuzz.reader import Case, Reader
from tests.helpers.results import make_failure, make_job, make_result

JOB = make_job(seed=3)


def _filled(path: Path) -> None:
    """Return a store with runs of several kinds."""
    with open_store(path) as store:
        store.add_result(make_result(make_job(seed=1)))
        store.add_result(make_result(make_job(task="glue/mnli", start_from="ab" * 32)))
        store.add_result(
            make_result(make_job(model="majority", kind="baseline", weights="baseline:majority"))
        )
        store.add_failure(make_failure(JOB))


def _from_store(take: Callable[[Path, Store], bytes]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "board.sqlite"
        _filled(path)
        with open_store(path) as store:
            return take(path, store)


def _stores() -> list[Case]:
    """Return the store file, and SQL that recreates it, whose values can be damaged one by one."""
    content = _from_store(lambda path, _: path.read_bytes())
    script = _from_store(lambda path, _: _as_script(path))
    return [Case(content=content, read=_read_store), Case(content=script, read=_read_script)]


def _as_script(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()).encode()


def _read_script(content: bytes, folder: Path) -> None:
    """Read the store that the SQL script creates, if SQLite accepts any of it."""
    path = folder / "made.sqlite"
    path.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(path)) as connection,
        suppress(sqlite3.Error, UnicodeError, ValueError),
    ):
        connection.executescript(content.decode(errors="replace"))
    _use(path)


def _read_store(content: bytes, folder: Path) -> None:
    path = folder / "board.sqlite"
    path.write_bytes(content)
    _use(path)


def _use(path: Path) -> None:
    """Use a store as the commands do: lists, boards, complete runs, an export."""
    with open_store(path, create=False) as store:
        rows = store.runs()
        for suite in {row.suite for row in rows} & SUITES.keys():
            build_boards(rows, SUITES[suite])
        for row in rows:
            store.result(row.key)
        for _ in store.stored_runs():
            pass


def _archives() -> list[Case]:
    """Return the archive, its lines with a new seal, and one run in it with a new digest."""
    packed = _from_store(lambda _, store: _archive_of(store))
    lines = gzip.decompress(packed)
    run = lines.splitlines()[1]
    return [
        Case(content=packed, read=_read_archive),
        Case(content=lines, read=_read_resealed),
        Case(content=run, read=_read_forged),
        Case(content=lines.splitlines()[-2], read=_read_forged),
    ]


def _archive_of(store: Store) -> bytes:
    file = BytesIO()
    write_archive(file, store.stored_runs())
    return file.getvalue()


def _read_archive(content: bytes, folder: Path) -> None:
    path = folder / "runs.jsonl.gz"
    path.write_bytes(content)
    check_archive(path)


def _read_resealed(content: bytes, folder: Path) -> None:
    lines = content.splitlines(keepends=True)[:-1]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    end = json.dumps({"runs": len(lines) - 1, "sha256": digest}).encode()
    _read_archive(gzip.compress(b"".join(lines) + end, compresslevel=1), folder)


def _read_forged(content: bytes, folder: Path) -> None:
    """Read a changed run whose digest matches, as only an attacker writes it."""
    path = folder / "forged.jsonl.gz"
    header = b'{"format":"benchharness archive","version":2}'
    with suppress(Exception):  # content without a computable digest is left unchanged
        content = _with_digest(json.loads(content))
    _read_resealed(header + b"\n" + content + b"\n\n", folder)
    (folder / "runs.jsonl.gz").replace(path)
    for leftover in folder.glob("forged.sqlite*"):
        leftover.unlink()
    with open_store(folder / "forged.sqlite") as store:
        store.add_stored(read_archive(path))
    _use(folder / "forged.sqlite")


def _with_digest(run: dict[str, Any]) -> bytes:
    stored = StoredRun(**run)
    made = _run_of(stored.data)
    made.attempt = stored.attempt
    fitting = replace(stored, key=made.job_key, status=made.status, digest=made.digest)
    return json.dumps(asdict(fitting)).encode()


ROW = {
    "model": "theirs",
    "task": "glue/rte",
    "metric": "accuracy",
    "split": "dev",
    "score": 0.7,
    "source": "a paper",
    "limit": None,
    "date": "2020",
}


def _rows() -> list[Case]:
    table = "\n".join((",".join(ROW), ",".join(str(value or "") for value in ROW.values())))
    return [
        Case(content=json.dumps([ROW]).encode(), read=partial(_read_rows, "rows.json")),
        Case(content=table.encode(), read=partial(_read_rows, "rows.csv")),
    ]


def _read_rows(name: str, content: bytes, folder: Path) -> None:
    from benchharness.leaderboard.boards.imported import to_result

    (folder / name).write_bytes(content)
    for score in read_rows(folder / name):
        assert to_result(score).job.key


def _baselines() -> list[Case]:
    from benchharness.extensions.gate.sample import Baseline
    from tests.extensions.gate.samples import BEFORE

    baseline = Baseline(
        model="tiny", data="mini", limit=300, recipe="paper", environment={}, tasks=BEFORE
    )
    return [Case(content=baseline.to_text().encode(), read=_judge)]


def _judge(content: bytes, folder: Path) -> None:
    """Compare the same runs with a baseline, as a check does; only comparable tasks."""
    from benchharness.extensions.gate.gate import read_baseline
    from benchharness.extensions.gate.judge import judge
    from tests.extensions.gate.samples import BEFORE, MORE_IDS

    (folder / "baseline.json").write_bytes(content)
    baseline = read_baseline(folder / "baseline.json")
    now = {
        task: sample
        for task, sample in BEFORE.items()
        if task in baseline.tasks
        and len(baseline.tasks[task].scores) > 1
        and baseline.tasks[task].conditions == sample.conditions
    }
    judge("tiny", baseline.tasks, now, MORE_IDS, alpha=0.05)


def _outcomes() -> list[Case]:
    """Return the result and output of a worker, and the encoder that it leaves."""
    with TemporaryDirectory() as folder:
        with new_checkpoint(Path(folder) / "kept", JOB) as draft:
            (draft / "config.json").write_text("{}")
        manifest = (Path(folder) / "kept" / "manifest.json").read_bytes()
    line = json.dumps(asdict(Progress(phase="training", step=1, steps=2, loss=0.5))).encode()
    return [
        Case(content=json.dumps(make_result(JOB).to_json()).encode(), read=_read_result),
        Case(content=json.dumps(make_failure(JOB).to_json()).encode(), read=_read_result),
        Case(content=line, read=lambda content, _: _parse_progress(content)),
        Case(content=manifest, read=_read_manifest),
    ]


def _read_result(content: bytes, folder: Path) -> None:
    (folder / "result.json").write_bytes(content)
    _read_outcome(folder / "result.json")


def _read_manifest(content: bytes, folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "manifest.json").write_bytes(content)
    check_checkpoint(folder, JOB.key)


def _hub_results() -> list[Case]:
    """Return the files of a model on the hub, as block YAML and as JSON, which is YAML too."""
    entries = """
- dataset: {id: nyu-mll/glue, task_id: rte, revision: abc}
  value: 71.5
  date: "2026-01-02"
  source: {url: "https://a.example", name: b, user: c}
  notes: |
    two
    lines
- &other
  dataset: {id: cais/hle, task_id: hle}
  value: 20.9
- *other
"""
    results = [{"dataset": {"id": "glue", "task_id": "mrpc"}, "value": 88, "date": "2026-01-02"}]
    data = {"name": "GLUE", "type": "nyu-mll/glue", "config": "cola", "split": "validation"}
    metrics = [{"type": "matthews_correlation", "value": 0.5, "args": {"seeds": 3}}]
    result = {"task": {"type": "text-classification"}, "dataset": data, "metrics": metrics}
    index = json.dumps({"model-index": [{"name": "a", "results": [result]}], "license": "mit"})
    files = {
        ".eval_results/a.yaml": (entries, json.dumps(results)),
        ".eval_results/benchharness.yaml": (entries,),
        "README.md": (f"---\n{index}\n---\n# A model\n",),
    }
    return [
        Case(content=text.encode(), read=partial(_read_hub_results, path))
        for path, texts in files.items()
        for text in texts
    ]


def _read_hub_results(path: str, content: bytes, _: Path) -> None:
    from benchharness.extensions.hub_results.records import to_results
    from benchharness.extensions.hub_results.repository import Repository
    from benchharness.extensions.hub_results.scores import read_scores

    names = {"name": "a/b", "commit": "a" * 40, "date": "", "url": "https://hub.example/a/b"}
    repository = Repository(**names, files={path: content.decode(errors="replace")})
    for result in to_results(repository, read_scores(repository)):
        outcome_to_run(result)


STORES = (
    Reader(name="store", cases=_stores, share=0.5),
    Reader(name="archive", cases=_archives, share=2),
    Reader(name="imported rows", cases=_rows, share=1.5),
    *of_extensions({"gate": {0: Reader(name="baseline", cases=_baselines, share=2)}}).values(),
    *of_extensions({"hub_results": {0: Reader(name="hub results", cases=_hub_results)}}).values(),
    Reader(name="outcome", cases=_outcomes, share=1.5),
)
