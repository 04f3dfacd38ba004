"""Runs from elsewhere whose digests fit and whose numbers do not: nothing of them is taken in."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store import merging
from benchharness.leaderboard.store.archive import check_archive, read_archive, write_archive
from benchharness.leaderboard.store.record import portions
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.errors import DataError, StoreError
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
    "fewer": (lambda r: _predicting(r, lambda rows: rows[:-1]), "says that they are the same"),
    "none": (lambda r: _predicting(r, lambda rows: []), "says that they are the same"),
    "another order": (
        lambda r: _predicting(r, lambda rows: rows[::-1]),
        "says that they are the same",
    ),
    "a row twice": (
        lambda r: _predicting(r, lambda rows: [*rows[:-1], rows[0]]),
        "two predictions for one row",
    ),
    "no id": (
        lambda r: _predicting(r, lambda rows: [{**rows[0], "id": 1}, *rows[1:]]),
        "without the id of its row",
    ),
    "other rows": (lambda r: _changed(r, fingerprint="0" * 64), "other rows than the run says"),
    "more than it says": (lambda r: _saying(r, 3), r"predictions for 3 rows"),
    "a score above 1": (
        lambda r: _changed(r, scores={"accuracy": 1.5}),
        "has the accuracy 1.5, outside of 0 to 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_numbers_that_do_not_fit_are_refused_and_nothing_is_taken_in(
    sound: Result, tmp_path: Path, fault: str
) -> None:
    change, said = FAULTS[fault]
    path = tmp_path / "theirs.jsonl.gz"
    with open_store(tmp_path / "theirs.sqlite") as theirs:
        theirs.add_result(made("good", "glue/rte", 2, {3}))
        theirs.add_result(change(sound))  # digests are made of what it is
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


def test_runs_that_say_the_same_rows_have_the_same_ids(sound: Result, tmp_path: Path) -> None:
    """Rows that are read nowhere here: a folder of official files, whose fingerprint is known."""
    one, two = (
        replace(run, job=replace(run.job, data="/their/folder"))
        for run in (sound, _predicting(made("bad", "glue/rte", 1, {2}), lambda rows: rows[:-1]))
    )
    with open_store(tmp_path / "theirs.sqlite") as theirs, open_store(tmp_path / "s") as here:
        theirs.add_result(one)
        theirs.add_result(two)
        with pytest.raises(StoreError, match="says that they are the same"):
            here.merge(theirs.stored_runs())


@pytest.mark.parametrize("kind", ["import", "merge"])
def test_runs_with_other_rows_than_those_here_are_refused_before_anything_changes(
    bench: Any, sound: Result, tmp_path: Path, kind: str
) -> None:
    """They fit each other, and say that the rows are those of a run that the store has."""
    here, path = tmp_path / "here.sqlite", tmp_path / "theirs.sqlite"
    with open_store(here) as store, open_store(path) as theirs:
        store.add_result(sound)
        theirs.add_result(made("better", "glue/wnli", 1, {1}))
        theirs.add_result(_predicting(made("bad", "glue/rte", 1, {2}), lambda rows: rows[:-1]))
        if kind == "import":
            path = tmp_path / "theirs.jsonl.gz"
            with path.open("wb") as file:
                write_archive(file, theirs.stored_runs())
    ended = bench("db", kind, str(path), "--db", str(here))
    assert ended.code == 5
    assert "glue/rte dev has predictions for other rows than another run" in ended.err
    assert len(ended.err.splitlines()) == 1
    with open_store(here) as store:
        assert store.attempt_count() == 1


def test_runs_that_fit_are_taken_in(sound: Result, tmp_path: Path) -> None:
    count = len(sound.evaluations[0].predictions)
    with open_store(tmp_path / "theirs.sqlite") as theirs, open_store(tmp_path / "s") as here:
        theirs.add_result(_saying(sound, count))
        assert here.merge(theirs.stored_runs()).added == 1


def test_runs_before_one_that_does_not_fit_are_said_to_be_stored(
    sound: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command would stop there again."""
    monkeypatch.setattr(merging, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(merging, "portions", partial(portions, most=1))
    change, said = FAULTS["a score above 1"]
    with open_store(tmp_path / "theirs.sqlite") as theirs, open_store(tmp_path / "s") as here:
        theirs.add_result(sound)
        theirs.add_result(made("better", "glue/rte", 1, {1}))
        theirs.add_result(change(made("bad", "glue/rte", 1, {2})))
        with pytest.raises(StoreError, match=said) as raised:
            here.merge(theirs.stored_runs())
        assert str(raised.value).endswith("are stored: repeat the command once that is mended.")
        assert here.attempt_count() == 1
