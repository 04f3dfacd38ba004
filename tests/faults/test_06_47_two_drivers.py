"""Tests of faults 6 and 47: several drivers with the same jobs, and results that come too late.

Drivers on one machine lock the jobs that they run, and no lock expires by time. Drivers on several
machines may compute the same job: a result is stored only if the job has none yet.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchharness.engines.process import Outcome
from benchharness.kept_folders import Holds
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.made_engine import MadeEngine, driven, jobs_of
from tests.helpers.results import make_cost, make_failure, make_job, make_result


def test_06_jobs_stored_by_another_driver_meanwhile_are_skipped(store: Store) -> None:
    jobs = jobs_of(4)

    class Slow(MadeEngine):
        def run(self, jobs_to_run, report):  # type: ignore[no-untyped-def]
            for job in jobs_to_run:
                # During the first job of this driver, another driver runs two jobs.
                if job.seed == 0:
                    driven(store, MadeEngine(), jobs[1:3])
                yield make_result(job)

    stored, told = driven(store, Slow(), jobs)
    assert [outcome.job.seed for outcome in stored] == [0, 3]
    assert told.left_out == [1, 2]
    assert [len(store.attempts(job.key)) for job in jobs] == [1, 1, 1, 1]


def test_06_job_computed_by_two_drivers_is_stored_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patch the locks so that both drivers get them, as on two machines that share no locks."""
    job = make_job()
    monkeypatch.setattr(Holds, "take", lambda *_: True)

    def both(jobs: list[Job]) -> Iterator[Outcome]:
        driven(store, MadeEngine(), jobs)
        yield make_result(job, cost=make_cost(seconds=99.0))

    stored, told = driven(store, MadeEngine(both), [job])
    assert (stored, told.finished) == ([], [0])
    assert [row.seconds for row in store.attempts(job.key)] == [12.5]


def test_06_one_of_many_simultaneous_results_of_a_job_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "board.sqlite"
    open_store(path).close()

    def add(number: int) -> bool:
        with open_store(path) as store:
            return store.add_missing(make_result(cost=make_cost(seconds=float(number))))

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(add, range(16))) == [False] * 15 + [True]
    with open_store(path) as store:
        assert len(store.attempts(make_job().key)) == 1


def test_06_option_force_runs_stored_jobs_again(store: Store) -> None:
    jobs = jobs_of(2)
    for _ in range(2):
        driven(store, MadeEngine(), jobs, force=True)
    assert [len(store.attempts(job.key)) for job in jobs] == [2, 2]


def test_47_late_second_result_of_a_job_is_not_stored(store: Store) -> None:
    first, late = make_result(), make_result(cost=make_cost(seconds=999.0))
    assert store.add_missing(first)
    assert not store.add_missing(late)
    assert store.result(first.job.key) == first


def test_47_late_result_of_a_job_with_a_stored_timeout_is_stored(store: Store) -> None:
    assert store.add_missing(make_failure(kind="timeout"))
    assert store.add_missing(make_result())
    assert not store.add_missing(make_failure(kind="timeout"))
    assert [row.status for row in store.runs()] == ["finished"]
    assert [row.status for row in store.attempts(make_job().key)] == ["timeout", "finished"]
