"""Runs of two stores in one: none doubled, none lost, the newest result counts."""

from pathlib import Path

from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.results import make_cost, make_failure, make_job, make_result


def _timed(job_seed: int, day: int) -> Result:
    return make_result(
        make_job(seed=job_seed),
        finished=f"2026-08-{day:02}T12:00:00Z",
        cost=make_cost(seconds=float(day)),
    )


def _store(path: Path, *results: Result) -> Store:
    store = open_store(path)
    for result in results:
        store.add_result(result)
    return store


def test_what_only_one_has_is_taken(tmp_path: Path) -> None:
    with _store(tmp_path / "a", _timed(1, 1)) as a, _store(tmp_path / "b", _timed(2, 1)) as b:
        merged = a.merge(b.stored_runs())
        assert (merged.added, merged.shared) == (1, ())
        assert [row.seed for row in a.runs()] == [1, 2]
        assert [row.seed for row in b.runs()] == [2]


def test_what_both_have_is_not_doubled(tmp_path: Path) -> None:
    same = _timed(1, 1)
    with _store(tmp_path / "a", same) as a, _store(tmp_path / "b", same) as b:
        assert a.merge(b.stored_runs()) == (0, ())
        assert len(a.attempts(same.job.key)) == 1


def test_different_results_of_a_job_are_kept_in_the_order_in_which_they_ended(
    tmp_path: Path,
) -> None:
    old, new = _timed(1, 3), _timed(1, 9)
    for mine, theirs in ((old, new), (new, old)):
        folder = tmp_path / mine.finished[:10]
        folder.mkdir()
        with _store(folder / "a", mine) as a, _store(folder / "b", theirs) as b:
            merged = a.merge(b.stored_runs())
            assert (merged.added, merged.shared) == (1, (old.job.key,))
            assert [row.seconds for row in a.attempts(old.job.key)] == [3.0, 9.0]
            assert a.result(old.job.key) == new
            assert [row.seconds for row in a.runs()] == [9.0]
            assert list(a.faults()) == []
            assert a.merge(b.stored_runs()) == (0, ())


def test_a_clock_that_jumped_does_not_reorder_a_stores_own_attempts(tmp_path: Path) -> None:
    mine = (_timed(1, 8), _timed(1, 2))  # the second was run later, with the clock set back
    with _store(tmp_path / "a", *mine) as a, _store(tmp_path / "b", _timed(1, 5)) as b:
        a.merge(b.stored_runs())
        assert [row.seconds for row in a.attempts(mine[0].job.key)] == [5.0, 8.0, 2.0]
        assert a.result(mine[0].job.key) == mine[1]


def test_a_failure_of_the_other_store_hides_no_result(tmp_path: Path) -> None:
    done = _timed(1, 1)
    failed = make_failure(done.job, finished="2026-09-01T00:00:00Z")
    with _store(tmp_path / "a", done) as a, _store(tmp_path / "b") as b:
        b.add_failure(failed)
        a.merge(b.stored_runs())
        assert a.result(done.job.key) == done
        b.merge(a.stored_runs())
        assert b.result(done.job.key) == done
        assert [row.status for row in b.attempts(done.job.key)] == ["finished", "diverged"]
        assert list(b.faults()) == []


def test_merged_attempts_go_on_in_their_order(tmp_path: Path) -> None:
    """Attempts that were numbered anew are carried further by their numbers."""
    with _store(tmp_path / "a", _timed(1, 9)) as a, _store(tmp_path / "b", _timed(1, 3)) as b:
        a.merge(b.stored_runs())
        with open_store(tmp_path / "c") as c:
            c.merge(a.stored_runs())
            key = make_job(seed=1).key
            assert [row.seconds for row in c.attempts(key)] == [3.0, 9.0]
            assert c.result(key) == _timed(1, 9)
