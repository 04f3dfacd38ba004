"""Archives: a whole store is exported to a file and imported; damaged archives are refused."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError, StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.record import StoredRun, _run_of, stored_to_run
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import whole_file
from tests.helpers.results import make_failure, make_job, make_result


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Store of results, an ensemble, a baseline, failures, second attempts and hostile names."""
    with open_store(tmp_path_factory.mktemp("store") / "here.sqlite") as opened:
        opened.add_failure(make_failure(make_job(seed=1), details="nul \0 and \udc80"))
        opened.add_result(make_result(make_job(seed=1)))
        opened.add_result(make_result(make_job(seed=1), finished="2026-08-02T12:00:00Z"))
        opened.add_result(make_result(make_job(seed=1), finished="2026-08-02T12:00:00Z"))
        opened.add_result(make_result(make_job(task="glue/mnli", start_from="ab" * 32)))
        opened.add_result(
            make_result(make_job(model="both", kind="ensemble", weights="ensemble:x"))
        )
        opened.add_result(
            make_result(make_job(model="majority", kind="baseline", weights="baseline:majority"))
        )
        opened.add_result(make_result(make_job(model="nul \0 surrogate \udc80 <b>\u202e")))
        opened.add_failure(make_failure(make_job(seed=9)))
        yield opened


@pytest.fixture
def archive(store: Store, tmp_path: Path) -> Path:
    path = tmp_path / "new" / "store.jsonl.gz"
    with whole_file(path) as file:
        assert write_archive(file, store.stored_runs()) == 9
    return path


def _lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("ascii").splitlines(keepends=True)


def test_archive_round_trip_is_exact(store: Store, archive: Path, tmp_path: Path) -> None:
    before = list(store.stored_runs())
    assert check_archive(archive) == 9
    with open_store(tmp_path / "there.sqlite") as other:
        assert other.add_stored(read_archive(archive)) == 9
        assert list(other.stored_runs()) == before
        assert other.runs() == store.runs()
        for run in store.runs():
            assert other.result(run.key) == store.result(run.key)


def test_repeated_archive_import_adds_no_runs(store: Store, archive: Path, tmp_path: Path) -> None:
    assert store.add_stored(read_archive(archive)) == 0
    with open_store(tmp_path / "there.sqlite") as other:
        assert other.add_stored(read_archive(archive)) == 9
        assert other.add_stored(read_archive(archive)) == 0
        assert len(list(other.stored_runs())) == 9


def test_archive_import_keeps_existing_runs_and_shows_the_newest(
    archive: Path, tmp_path: Path
) -> None:
    mine = make_result(make_job(seed=1), finished="2026-09-01T12:00:00Z")
    with open_store(tmp_path / "there.sqlite") as other:
        other.add_result(mine)
        assert other.add_stored(read_archive(archive)) == 9
        statuses = [row.status for row in other.attempts(mine.job.key)]
        assert "diverged" in statuses[:-1], "it ended earlier, so it is an earlier attempt"
        assert other.result(mine.job.key) == mine


def test_equal_stores_have_byte_identical_archives(
    store: Store, archive: Path, tmp_path: Path
) -> None:
    with open_store(tmp_path / "there.sqlite") as other:
        other.add_stored(read_archive(archive))
        with whole_file(tmp_path / "again.jsonl.gz") as file:
            write_archive(file, other.stored_runs())
    assert (tmp_path / "again.jsonl.gz").read_bytes() == archive.read_bytes()


def test_archive_of_an_empty_store_has_no_runs(tmp_path: Path) -> None:
    with whole_file(tmp_path / "empty.jsonl.gz") as file:
        assert write_archive(file, []) == 0
    assert list(read_archive(tmp_path / "empty.jsonl.gz")) == []


def test_run_stored_before_a_field_of_job_existed_keeps_its_digest(
    store: Store, tmp_path: Path
) -> None:
    """Test a job that was stored before a field of Job existed, and lacks it in its JSON."""
    found = next(run for run in store.stored_runs() if run.status == "finished")
    data = json.loads(json.dumps(found.data))
    del data["job"]["plugins"]
    with pytest.raises(StoreError, match="was changed after it had been exported"):
        stored_to_run(StoredRun(**{**vars(found), "data": data}))
    digest = _run_of(data).digest
    older = StoredRun(**{**vars(found), "data": data, "digest": digest})
    with open_store(tmp_path / "older.sqlite") as other:
        assert other.add_stored([older]) == 1
        assert [run.digest for run in other.stored_runs()] == [older.digest]


def _changed_score(lines: list[str]) -> list[str]:
    changed = re.sub(r'"train_seconds":10.25', '"train_seconds":9.25', lines[2])
    return [*lines[:2], changed, *lines[3:]]


def _header(**fields: object) -> Callable[[list[str]], list[str]]:
    def change(lines: list[str]) -> list[str]:
        return [json.dumps({**json.loads(lines[0]), **fields}) + "\n", *lines[1:]]

    return change


DAMAGE: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "no end": (lambda lines: lines[:-1], "is truncated"),
    "empty": (lambda lines: [], "is not a JSON object"),
    "one run less": (lambda lines: [*lines[:3], *lines[4:]], "do not match the digest"),
    "a run twice": (lambda lines: [*lines[:3], lines[2], *lines[3:]], "twice|do not match"),
    "another order": (lambda lines: [lines[0], *lines[2:0:-1], *lines[3:]], "do not match"),
    "something after the end": (lambda lines: [*lines, "{}\n"], "do not match"),
    "another number": (_changed_score, "was changed after it was written"),
    "a newer version": (
        _header(version=3, benchharness="0.3.0"),
        r"of version 3, but .* reads version 2: update benchharness \(benchharness 0.3.0 wrote it",
    ),
    "a newer version of no name": (_header(version=3, benchharness=["x"]), "benchharness\\.$"),
    "a newer version of another form": (
        lambda lines: [*_header(version=3)(lines[:1]), "\0"],
        "update benchharness",
    ),
    "an older version": (
        _header(version=1),
        r"development version .* again \(benchharness 0.1.0 of commit 0+ made its first result\)",
    ),
    "an older version without runs": (
        lambda lines: [*_header(version=1)(lines[:1]), *lines[-1:]],
        r"so run its jobs again\.",
    ),
    "another format": (_header(format="zip"), "is not a benchharness archive"),
    "no object": (
        lambda lines: [lines[0], "[1]\n", *lines[1:]],
        "line 2 of .* is not a JSON object",
    ),
    "no run": (lambda lines: [lines[0], "{}\n", *lines[1:]], "line 2 of .* is not a run"),
    "deep": (lambda lines: [lines[0], "[" * 10**5, *lines[1:]], "line 2 of .* is not a JSON"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_archive_is_an_error_in_one_sentence(
    store: Store, archive: Path, damage: str
) -> None:
    change, sentence = DAMAGE[damage]
    archive.write_bytes(gzip.compress("".join(change(_lines(archive))).encode("ascii")))
    with pytest.raises(DataError, match=sentence) as raised:
        check_archive(archive)
    assert "\n" not in str(raised.value)
    before = [run.digest for run in store.stored_runs()]
    with pytest.raises((DataError, StoreError)):
        store.add_stored(read_archive(archive))
    assert [run.digest for run in store.stored_runs()] == before


def test_duplicate_run_in_a_consistent_archive_is_an_error(store: Store, tmp_path: Path) -> None:
    runs = list(store.stored_runs())
    with whole_file(tmp_path / "twice.jsonl.gz") as file:
        write_archive(file, [*runs, runs[0]])
    with pytest.raises(DataError, match=r"contains the run \w{12} \(attempt 1\) twice"):
        check_archive(tmp_path / "twice.jsonl.gz")


@pytest.mark.parametrize("kept", [0, 1, 10, 200, -9, -1])
def test_truncated_archive_is_an_error(archive: Path, kept: int) -> None:
    archive.write_bytes(archive.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"truncated|not a JSON object"):
        check_archive(archive)


def test_archive_with_flipped_bits_is_an_error(archive: Path) -> None:
    whole = archive.read_bytes()
    for place in range(12, len(whole), max(1, len(whole) // 40)):
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(DataError):
            check_archive(archive)


@pytest.mark.parametrize("content", [b"", b"not gzip", b"\x1f\x8b"])
def test_importing_a_file_that_is_not_an_archive_is_an_error(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with pytest.raises(DataError):
        check_archive(path)
    with pytest.raises(DataError, match="cannot be read"):
        check_archive(tmp_path / "missing.gz")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("job"),
        lambda data: data["job"].update(settings=3),
        lambda data: data["cost"].update(seconds="soon"),
        lambda data: data.update(evaluations=[{"task": 1}]),
        lambda data: data["job"].update(seed=5),
        lambda data: data["evaluations"][0].update(scores={"f1": "high"}),
    ],
)
def test_run_with_malformed_data_is_an_error_and_changes_nothing(
    store: Store, change: Callable[[dict[str, object]], object]
) -> None:
    found = next(run for run in store.stored_runs() if run.status == "finished")
    data = json.loads(json.dumps(found.data))
    change(data)
    before = list(store.stored_runs())
    with pytest.raises(StoreError, match="was changed after it had been exported"):
        store.add_stored([before[0], StoredRun(**{**vars(found), "data": data})])
    assert list(store.stored_runs()) == before


def _deep() -> list[object]:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a seed beyond 64 bits": lambda data: data["job"].update(seed=2**70),
    "no seed": lambda data: data["job"].update(seed=None),
    "a split twice": lambda data: data["evaluations"].append(data["evaluations"][0]),
    "seconds beyond floats": lambda data: data["cost"].update(seconds=10**400),
    "another kind": lambda data: data["job"].update(kind="other"),
    "no name": lambda data: data["job"].update(recipe=7),
    "half a start": lambda data: data["job"].update(start={"kind": "task"}, source=None),
    "an object for a number": lambda data: data["cost"].update(parameters={"a": 1}),
    "deep provenance": lambda data: data.update(provenance=_deep()),
}


@pytest.mark.parametrize("forged", FORGED)
def test_forged_run_with_a_valid_digest_is_refused_without_any_change(
    store: Store, forged: str
) -> None:
    """Test forged runs whose key and digest were made to fit."""
    found = next(run for run in store.stored_runs() if run.status == "finished")
    data = json.loads(json.dumps(found.data))
    FORGED[forged](data)
    fields: dict[str, Any] = {**vars(found), "data": data}
    with suppress(TypeError, ValueError, OverflowError, RecursionError, StoreError):
        key = Job.from_json(data["job"]).key
        fields |= {"key": key, "digest": _run_of(data).digest}
    before = [run.digest for run in store.stored_runs()]
    with pytest.raises(StoreError, match="was changed after it had been exported"):
        store.add_stored([StoredRun(**fields)])
    assert [run.digest for run in store.stored_runs()] == before
