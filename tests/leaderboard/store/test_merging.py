"""Tests of merging stores: no run is duplicated or lost, and the newest result counts."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from benchharness.errors import StoreError
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store import merging
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


def test_merge_adds_the_runs_of_the_other_store(tmp_path: Path) -> None:
    with _store(tmp_path / "a", _timed(1, 1)) as a, _store(tmp_path / "b", _timed(2, 1)) as b:
        merged = a.merge(b.stored_runs())
        assert (merged.added, merged.shared) == (1, ())
        assert [row.seed for row in a.runs()] == [1, 2]
        assert [row.seed for row in b.runs()] == [2]


def test_merge_does_not_duplicate_runs_in_both_stores(tmp_path: Path) -> None:
    same = _timed(1, 1)
    with _store(tmp_path / "a", same) as a, _store(tmp_path / "b", same) as b:
        assert a.merge(b.stored_runs()) == (0, ())
        assert len(a.attempts(same.job.key)) == 1


def test_merge_orders_results_of_a_job_by_finish_time(
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


def test_merging_does_not_reorder_attempts_after_a_clock_change(tmp_path: Path) -> None:
    # The second attempt has an earlier time, because the clock was set back.
    mine = (_timed(1, 8), _timed(1, 2))
    with _store(tmp_path / "a", *mine) as a, _store(tmp_path / "b", _timed(1, 5)) as b:
        a.merge(b.stored_runs())
        assert [row.seconds for row in a.attempts(mine[0].job.key)] == [5.0, 8.0, 2.0]
        assert a.result(mine[0].job.key) == mine[1]


def test_merged_failure_does_not_hide_a_result(tmp_path: Path) -> None:
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


def test_merged_attempts_keep_their_order_in_a_third_store(tmp_path: Path) -> None:
    """Merge renumbered attempts into a third store, by their new numbers."""
    with _store(tmp_path / "a", _timed(1, 9)) as a, _store(tmp_path / "b", _timed(1, 3)) as b:
        a.merge(b.stored_runs())
        with open_store(tmp_path / "c") as c:
            c.merge(a.stored_runs())
            key = make_job(seed=1).key
            assert [row.seconds for row in c.attempts(key)] == [3.0, 9.0]
            assert c.result(key) == _timed(1, 9)


def test_attempts_added_in_batches_keep_their_order(tmp_path: Path) -> None:
    """Add runs with attempts at one job in two batches, and with some that are stored already."""
    # 100 jobs have two attempts, and the second attempts are in the second batch.
    seeds = [*range(160), *range(60, 160)]
    theirs = [_timed(seed, day=1 + (number >= 160)) for number, seed in enumerate(seeds)]
    with _store(tmp_path / "a", *theirs[:3], theirs[0]) as a:
        assert a.add_results(theirs) == len(theirs) - 3
        assert a.add_results([theirs[0]] * 3) == 1, "two of the three are here"
        found = a.runs()
        assert sorted(row.seed for row in found) == [*range(160)]
        for seed in (0, 3, 60, 159):
            attempts = a.attempts(make_job(seed=seed).key)
            assert [row.seconds for row in attempts] == {0: [1.0] * 3, 3: [1.0]}.get(seed, [1, 2])
        assert {row.seconds for row in found if row.seed >= 60} == {2.0}
        assert list(a.faults()) == []
        with open_store(tmp_path / "b") as b:
            assert b.merge(a.stored_runs()) == (len(theirs) + 2, ())
            assert sorted(map(str, b.runs())) == sorted(map(str, found))
            assert list(b.faults()) == []


def test_merge_error_names_the_run_that_violates_the_schema(tmp_path: Path) -> None:
    good = [_timed(seed, 1) for seed in range(120)]
    # The run has all fields, but a number that is too large for the database.
    huge = replace(good[70], cost=make_cost(parameters=2**70))
    with open_store(tmp_path / "a") as store:
        with pytest.raises(StoreError, match=rf"the run {huge.job.key[:12]} .* was changed after"):
            store.add_results([*good[:70], huge, *good[71:]])
        assert store.count() == 0


def test_large_merge_releases_the_lock_between_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each transaction then has about a hundred runs.
    monkeypatch.setattr(merging, "PIECE_SECONDS", 0)
    theirs, mine = [_timed(seed, 1) for seed in range(250)], [_timed(9, 2), _timed(500, 1)]
    seen = list[int]()

    def others_write(_: float) -> None:
        with open_store(tmp_path / "a") as other:
            seen.append(other.attempt_count())
            assert list(other.faults()) == []
            for result in mine[len(seen) - 1 : len(seen)]:
                other.hurried(0.05).add_result(result)

    monkeypatch.setattr(merging.time, "sleep", others_write)
    with open_store(tmp_path / "a") as a, _store(tmp_path / "b") as b:
        monkeypatch.setattr(merging, "PIECE_SECONDS", 60)
        b.add_results(theirs)
        monkeypatch.setattr(merging, "PIECE_SECONDS", 0)
        assert a.merge(b.stored_runs()).added == 250
        assert seen == [100, 201]
        assert a.attempt_count() == 252
        assert [row.seconds for row in a.attempts(make_job(seed=9).key)] == [1.0, 2.0]
        assert list(a.faults()) == []


def test_failed_merge_reports_stored_runs_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "PIECE_SECONDS", 0)
    results = [_timed(seed, 1 + seed % 2) for seed in range(120)]
    mine = [_timed(seed, 2 - seed % 2) for seed in (1, 119)]
    huge = replace(results[110], cost=make_cost(parameters=2**70))
    with _store(tmp_path / "a", *mine) as store:
        with pytest.raises(StoreError, match="100 earlier runs are stored"):
            store.add_results([*results[:110], huge, *results[111:]])
        assert store.attempt_count() == 102
        assert list(store.faults()) == []
        assert store.add_results(results) == 20
        assert store.add_results(results) == 0
        for seed in (1, 119):
            attempts = store.attempts(make_job(seed=seed).key)
            assert [row.seconds for row in attempts] == [1.0, 2.0]
        assert list(store.faults()) == []


def test_deletion_in_batches_can_be_resumed_after_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each transaction then has about a hundred runs.
    monkeypatch.setattr(merging, "PIECE_SECONDS", 0)
    results = [_timed(seed, 1) for seed in range(250)]
    keys = {result.job.key for result in results}
    left = list[int]()

    def others_write(_: float) -> None:
        with open_store(tmp_path / "a") as other:
            left.append(other.count())
            other.hurried(0.05).add_result(_timed(300 + len(left), 1))
        if len(left) == 1:
            raise KeyboardInterrupt

    with open_store(tmp_path / "a") as store:
        store.add_results(results)
        monkeypatch.setattr(merging.time, "sleep", others_write)
        with pytest.raises(KeyboardInterrupt):
            store.delete(keys)
        assert store.delete(keys) == 150
        assert left == [150, 151, 52], "the first hundred were gone"
        assert store.count() == 3
        assert list(store.faults()) == []


def test_runs_deleted_by_another_process_meanwhile_are_skipped(tmp_path: Path) -> None:
    """Delete a run that the list of runs has already returned; this is not damage."""
    results = [_timed(seed, 1) for seed in range(120)]
    with _store(tmp_path / "a", *results) as store, open_store(tmp_path / "a") as other:
        runs = store.stored_runs()
        found = [next(runs)]
        assert other.delete({results[110].job.key}) == 1
        assert other.delete({results[110].job.key}) == 0
        found += runs
    assert [run.key for run in found] == [r.job.key for r in results if r is not results[110]]


def test_import_needs_few_sql_statements_per_run_and_constant_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Few transactions, because each transaction needs statements of its own.
    monkeypatch.setattr(merging, "PIECE_SECONDS", 60)

    def measured(count: int) -> tuple[int, int]:
        statements = list[str]()
        with open_store(tmp_path / f"{count}.sqlite") as store:
            event.listen(
                store._engine, "before_cursor_execute", lambda *words: statements.append(words[2])
            )
            tracemalloc.start()
            assert store.add_results(_timed(seed, 1) for seed in range(count)) == count
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return len(statements), peak

    measured(100)  # loads modules and compiles statements, which happens only once
    few, small = measured(200)
    many, large = measured(500)
    assert many - few <= 3 * 8, "eight statements for a hundred runs"
    assert large < 1.5 * small
