"""Tests that this version reads the stores and the archives of all releases, which are in kept/.

A development version is among them, because its store lacks fields that later ones have.

Before a release, `python -m tests.leaderboard.test_kept_store 0.1.0` writes its store, the output
that is printed for it, and its archive. After the release, these files never change.
"""

import gzip
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from benchharness.extensions.custom_data.find import find_own
from benchharness.leaderboard.job import Job, Kind, Setting, Stage, Start, Teacher, Trust
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.archive import (
    archive_facts,
    check_archive,
    read_archive,
    write_archive,
)
from benchharness.leaderboard.store.store import open_store
from benchharness.version import release_of
from tests.helpers.own_files import GOOD
from tests.helpers.results import make_failure, make_job, make_result, make_suite

KEPT = Path(__file__).with_name("kept")
RELEASES = sorted(path.name.removesuffix(".sqlite.gz") for path in KEPT.glob("*.sqlite.gz"))

SELECTION = {"evaluations": 10, "step": 20, "is_best": True, "held_out": 0.0}


def outcomes(folder: Path) -> Iterator[Result | Failure]:
    """Yield a run of every kind, and runs with every optional field."""
    yield from make_suite(seeds=2)
    plain = make_job(model="tiny")
    teacher = replace(plain, model="large", weights="of large")
    rate = Setting(value=3e-5, source="--set", one_of=("2e-5", "3e-5"))
    yield make_result(teacher)
    for job in (
        replace(plain, teacher=Teacher(run=teacher.key, model="large", variant="v", alone="a")),
        replace(plain, weights="of a start", start_from=teacher.key, start=Start(kind="task")),
        replace(plain, weights="w 2", start=Start(kind="checkpoint", name="second", model="tiny")),
        replace(plain, weights="step 3", stage=Stage(run="run", step=3, tokens=4, family="bert")),
        replace(plain, overridden=True, is_sweep=True, settings={"learning_rate": rate}),
        replace(plain, recipe="mine", own_recipe=True, off={"dropout": 0.1}, limit=24),
        replace(plain, documents={"glue/rte:dev": "ab" * 32}, plugins={"p": "cd" * 32}),
        replace(plain, trust=Trust(remote_code=True, pickle=True)),
        _zero_shot(plain),
        make_job(model="both", kind="ensemble", weights="ensemble:x", recipe="ensemble"),
        make_job(model="their model", kind="scored", weights="predictions of their model"),
        make_job(model="theirs", kind="imported", weights="imported:a paper", source="a paper"),
        make_job(model="majority", kind="baseline", weights="baseline:majority", recipe="baseline"),
        make_job(model="nul \0 surrogate \udc80 <b>\u202e"),
        _of_own_data(folder),
    ):
        yield make_result(job)
    chosen = {"selection": SELECTION, "data": {"glue/rte:dev": {"rows": 9, "truncated": 2}}}
    yield make_result(replace(plain, seed=7), provenance=chosen)
    yield make_failure(replace(plain, seed=8))
    yield make_failure(replace(plain, seed=9), kind="killed", details="nul \0 and \udc80")
    yield make_result(replace(plain, seed=9), finished="2026-08-02T12:00:00Z")


def _zero_shot(job: Job) -> Job:
    return replace(job, model="speaker", kind="zero-shot", recipe="zero-shot", weights="speaks")


def _of_own_data(folder: Path) -> Job:
    task = find_own(str(GOOD["comma"].write(folder))).task
    return make_job(model="tiny", task=task.name, data="a folder", definition=task.definition)


def make(path: Path) -> None:
    """Make a store with all of these, with rows that the user has renamed and hidden."""
    with TemporaryDirectory() as folder, open_store(path) as store:
        for outcome in outcomes(Path(folder)):
            if isinstance(outcome, Result):
                store.add_result(outcome)
            else:
                store.add_failure(outcome)
        (renamed,), (hidden,) = (store.runs(model=name) for name in ("theirs", "both"))
        store.annotate([renamed.key], "name", "another name")
        store.annotate([hidden.key], "hidden")


def printed(path: Path) -> dict[str, Any]:
    """Return the JSON output of lists, boards and every single run."""
    with open_store(path, create=False) as store:
        keys = [row.key for row in store.runs()]
    # The keys are commands of the first release, in which `bench list runs` listed the runs.
    words = {"list runs": ["show", "runs"], "leaderboard": ["leaderboard"]}
    words |= {f"show {key}": ["show", key] for key in keys}
    return {name: _json(each, path) for name, each in words.items()}


def _json(words: list[str], path: Path) -> Any:
    from benchharness.cli.app import app

    ended = CliRunner().invoke(app, [*words, "--json", "--db", str(path)])
    assert ended.exit_code == 0, (words, ended.output, ended.exception)
    # Round to 12 digits, because numpy adds numbers in another order on processors with wider
    # registers.
    return json.loads(ended.stdout, parse_float=lambda digits: round(float(digits), 12))


def main(release: str) -> None:
    """Write the kept files of a release."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        make(path)
        (KEPT / f"{release}.sqlite.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        text = json.dumps(printed(path), indent=1, sort_keys=True)
        (KEPT / f"{release}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        with open_store(path) as store, (KEPT / f"{release}.jsonl.gz").open("wb") as file:
            write_archive(file, store.stored_runs())
    sys.stdout.write(f"{KEPT / release}.sqlite.gz, .json.gz and .jsonl.gz are written\n")


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(release: str, tmp_path: Path) -> Path:
    """Store of the release, in a new folder."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(gzip.decompress((KEPT / f"{release}.sqlite.gz").read_bytes()))
    return path


def test_printed_output_for_the_store_of_a_release_is_unchanged(release: str, path: Path) -> None:
    expected = json.loads(gzip.decompress((KEPT / f"{release}.json.gz").read_bytes()))
    assert _comparable(printed(path)) == _comparable(expected)


def _comparable(said: dict[str, Any]) -> dict[str, Any]:
    """Return printed output without fields that later versions added or depend on other files."""
    for run in said.values():
        # These values depend on the newest certificate, and on a folder next to the database.
        if "key" in run:
            run.pop("kept_model", None)
            assert bool(run.pop("parity", "")) == bool(run.pop("certificate", ""))
    for board in said["leaderboard"]:  # the runs of this store have no flags
        assert not any(entry.pop("flags", ()) for entry in board["entries"])
        # Entries without a rank used to be sorted by name; now they are sorted by score.
        board["entries"].sort(key=lambda entry: (entry["rank"] is None, entry["name"]))
    return said


def test_archive_of_a_release_is_imported_and_has_the_runs_of_its_store(
    release: str, path: Path, tmp_path: Path
) -> None:
    archive = KEPT / f"{release}.jsonl.gz"
    with open_store(path) as store, open_store(tmp_path / "other.sqlite") as other:
        assert check_archive(archive) == store.attempt_count()
        assert other.add_stored(read_archive(archive), are_checked=True) == store.attempt_count()
        assert list(other.stored_runs()) == list(store.stored_runs())
    assert release_of(archive_facts(archive)["benchharness"]) == release_of(release)


def test_store_of_a_release_is_valid_and_its_archive_round_trips(
    path: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "all.jsonl.gz"
    with open_store(path) as store, open_store(tmp_path / "other.sqlite") as other:
        assert list(store.faults()) == []
        with archive.open("wb") as file:
            write_archive(file, store.stored_runs())
        other.merge(read_archive(archive))
        assert list(other.stored_runs()) == list(store.stored_runs())


def test_store_of_the_first_release_has_every_kind_of_run(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(gzip.decompress((KEPT / "0.1.0.sqlite.gz").read_bytes()))
    with open_store(path) as store:
        rows = store.runs()
        jobs = [store.result(row.key).job for row in rows]
        assert {row.kind for row in rows} == set(get_args(Kind))
        assert {row.status for row in rows} == {"finished", "diverged"}
        assert all(any(getattr(job, name) for job in jobs) for name in vars(jobs[0]))
        assert len(store.attempts(next(row.key for row in rows if row.seed == 9))) == 2
        whole = [store.result(row.key) for row in rows if row.status == "finished"]
    assert all(isinstance(each, Result) and each.evaluations[0].predictions for each in whole)
    assert any(row.truncated and row.selection for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
