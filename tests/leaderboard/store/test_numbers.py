"""Imported runs with valid digests but inconsistent numbers are refused."""

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError, StoreError
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store import merging
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.record import portions
from benchharness.leaderboard.store.store import open_store
from tests.helpers.compared_runs import made


@pytest.fixture(scope="module")
def sound() -> Result:
    return made("good", "glue/rte", 1, {1, 4})


def _changed(result: Result, **fields: Any) -> Result:
    (evaluation,) = result.evaluations
    return replace(result, evaluations=(replace(evaluation, **fields),))


def _predicting(result: Result, change: Callable[[list[dict[str, Any]]], list[Any]]) -> Result:
    rows = change([dict(row) for row in result.evaluations[0].predictions])
    return _changed(result, predictions=tuple(rows))


def _saying(result: Result, rows: int) -> Result:
    fingerprint = result.evaluations[0].fingerprint
    data = {"glue/rte:dev": {"rows": rows, "fingerprint": fingerprint}}
    return replace(result, provenance={**result.provenance, "data": data})


FAULTS: dict[str, tuple[Callable[[Result], Result], str]] = {
    "a row twice": (
        lambda r: _predicting(r, lambda rows: [*rows[:-1], rows[0]]),
        "two predictions for one row",
    ),
    "no id": (
        lambda r: _predicting(r, lambda rows: [{**rows[0], "id": 1}, *rows[1:]]),
        "without the id of its row",
    ),
    "other rows": (lambda r: _changed(r, fingerprint="0" * 64), "other rows than the run states"),
    "more than it says": (lambda r: _saying(r, 3), r"predictions for 3 rows"),
    "a score above 1": (
        lambda r: _changed(r, scores={"accuracy": 1.5}),
        "has the accuracy 1.5, which is outside of 0 to 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_import_of_runs_with_inconsistent_numbers_is_refused(
    sound: Result, tmp_path: Path, fault: str
) -> None:
    change, said = FAULTS[fault]
    path = tmp_path / "theirs.jsonl.gz"
    with open_store(tmp_path / "theirs.sqlite") as theirs:
        theirs.add_result(made("good", "glue/rte", 2, {3}))
        theirs.add_result(change(sound))  # the digests match the changed run
        with path.open("wb") as file:
            write_archive(file, theirs.stored_runs())
        with pytest.raises(DataError, match=said):
            check_archive(path)
        with open_store(tmp_path / "here.sqlite") as here:
            for runs in (theirs.stored_runs(), read_archive(path)):
                with pytest.raises(StoreError, match=said) as raised:
                    here.merge(runs)
                assert len(str(raised.value).splitlines()) == 1
            assert here.attempt_count() == 0


OTHER_ROWS: dict[str, Callable[[list[dict[str, Any]]], list[Any]]] = {
    "fewer": lambda rows: rows[:-1],
    "none": lambda rows: [],
    "another order": lambda rows: rows[::-1],
}


def _stored(path: Path, *results: Result) -> str:
    with open_store(path) as store:
        for result in results:
            store.add_result(result)
    return str(path)


def _count(path: str) -> int:
    with open_store(path) as store:
        return store.attempt_count()


def test_merge_of_a_valid_and_a_contradictory_run_on_one_split_is_refused(
    bench: Any, sound: Result, tmp_path: Path
) -> None:
    bad = _predicting(made("bad", "glue/rte", 1, {2}), OTHER_ROWS["fewer"])
    here = _stored(tmp_path / "here.sqlite", sound)
    theirs = _stored(tmp_path / "theirs.sqlite", made("better", "glue/rte", 2, {1}), bad)
    ended = bench("db", "merge", theirs, "--db", here)
    assert (ended.code, _count(here)) == (5, 1)
    assert bad.job.key[:12] in ended.err


@pytest.mark.parametrize("rows", OTHER_ROWS)
@pytest.mark.parametrize("kind", ["import", "merge"])
def test_import_that_contradicts_a_stored_run_fails_until_it_is_deleted(
    bench: Any, sound: Result, tmp_path: Path, kind: str, rows: str
) -> None:
    """Import valid runs after an invalid one.

    The error names both, and the command that removes the stored one.
    """
    bad = _predicting(made("bad", "glue/rte", 1, {2}), OTHER_ROWS[rows])
    here = _stored(tmp_path / "here.sqlite", bad)
    theirs = _stored(tmp_path / "theirs.sqlite", made("better", "glue/wnli", 1, {1}), sound)
    if kind == "import":
        bench("export", "--all", "theirs.jsonl.gz", "--db", theirs)
        theirs = "theirs.jsonl.gz"
    ended = bench("db", kind, theirs, "--db", here)
    assert ended.code == 5
    assert f"the run {sound.job.key[:12]} (attempt 1, good, from" in ended.err
    assert f" of {theirs} and the stored run {bad.job.key[:12]} (attempt 1, bad, from" in ended.err
    assert "the same rows of glue/rte dev" in ended.err
    assert "was changed" not in ended.err
    assert len(ended.err.splitlines()) == 1
    assert _count(here) == 1
    remove = shlex.split(re.findall("`(bench db delete .*?)`", ended.err)[0])
    assert bench(*remove[1:], "--yes").code == 0
    assert bench("db", kind, theirs, "--db", here).code == 0
    assert (_count(here), bench("db", "check", "--db", here).code) == (2, 0)
    # The deleted run can be imported again from its archive, although it contradicts a stored run.
    ended = bench("db", "import", next(tmp_path.glob("*.deleted-*")), "--db", here)
    assert (ended.code, _count(here)) == (0, 3)
    assert bad.job.key[:12] in ended.err


def test_archive_of_a_store_with_contradicting_runs_can_be_imported(
    bench: Any, sound: Result, tmp_path: Path
) -> None:
    """Check that `bench db check` and the import name the contradicting runs."""
    bad = _predicting(made("bad", "glue/rte", 1, {2}), OTHER_ROWS["another order"])
    here = _stored(tmp_path / "here.sqlite", bad, sound)
    names = [run.job.key[:12] for run in (bad, sound)]
    ended = bench("db", "check", "--db", here)
    assert ended.code == 5
    assert all(name in ended.out for name in names)
    assert len(ended.out.splitlines()) == 1
    bench("export", "--all", "self.jsonl.gz", "--db", here)
    with open_store(here) as store:
        store.add_result(replace(sound, finished="2026-09-01T12:00:00Z"))
    for place, added in ((here, 0), ("new.sqlite", 2)):
        ended = bench("db", "import", "self.jsonl.gz", "--db", place)
        assert (ended.code, f"{added} of 2 runs added" in ended.out) == (0, True)
        assert all(name in ended.err for name in names)
    assert bench("db", "delete", bad.job.key, "--yes", "--db", here).code == 0
    assert bench("db", "import", "self.jsonl.gz", "--db", here).code == 0
    deleted = bench("db", "delete", "--suite", "glue", "--yes", "--db", here)
    back = shlex.split(deleted.out.partition("To restore them: ")[2])[1:]
    assert bench(*back).code == 0
    assert _count(here) == 3


def test_merge_is_accepted_if_at_least_one_stored_run_predicted_the_same_rows(
    bench: Any, sound: Result, tmp_path: Path
) -> None:
    bad = _predicting(made("bad", "glue/rte", 1, {2}), OTHER_ROWS["fewer"])
    here = _stored(tmp_path / "here.sqlite", bad, sound)
    theirs = _stored(tmp_path / "theirs.sqlite", made("better", "glue/rte", 2, {1}))
    assert bench("db", "merge", theirs, "--db", here).code == 0


def test_imported_score_without_predictions_contradicts_no_run(
    bench: Any, sound: Result, tmp_path: Path
) -> None:
    score = replace(
        _predicting(sound, OTHER_ROWS["none"]),
        job=replace(sound.job, kind="imported", model="said"),
    )
    here, theirs = (_stored(tmp_path / n, run) for n, run in (("a", score), ("b", sound)))
    assert bench("db", "merge", theirs, "--db", here).err == ""
    assert bench("db", "check", "--db", here).code == 0


def test_run_with_consistent_numbers_is_imported(sound: Result, tmp_path: Path) -> None:
    count = len(sound.evaluations[0].predictions)
    with open_store(tmp_path / "theirs.sqlite") as theirs, open_store(tmp_path / "s") as here:
        theirs.add_result(_saying(sound, count))
        assert here.merge(theirs.stored_runs()).added == 1


def test_import_error_reports_the_number_of_runs_already_stored(
    sound: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Import a file whose third run is invalid: the same command would stop there again."""
    monkeypatch.setattr(merging, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(merging, "portions", partial(portions, most=1))
    change, said = FAULTS["a score above 1"]
    with open_store(tmp_path / "theirs.sqlite") as theirs, open_store(tmp_path / "s") as here:
        theirs.add_result(sound)
        theirs.add_result(made("better", "glue/rte", 1, {1}))
        theirs.add_result(change(made("bad", "glue/rte", 1, {2})))
        with pytest.raises(StoreError, match=said) as raised:
            here.merge(theirs.stored_runs())
        assert str(raised.value).endswith("are stored. Fix the problem and repeat the command.")
        assert here.attempt_count() == 1
