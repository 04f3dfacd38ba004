"""Tests of fault 46: an engine that loses, repeats and reorders results."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchharness.engines.process import Outcome
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.made_engine import MadeEngine, driven, jobs_of
from tests.helpers.results import make_result


@pytest.mark.parametrize("force", [False, True])
def test_46_reordered_and_repeated_results_are_stored_once(store: Store, force: bool) -> None:
    def shuffled(jobs: list[Job]) -> Iterator[Outcome]:
        twice = [make_result(job) for job in (*jobs, *jobs)]
        random.Random(5).shuffle(twice)
        yield from twice

    jobs = jobs_of(6)
    stored, told = driven(store, MadeEngine(shuffled), jobs, force=force)
    assert sorted(told.finished) == sorted(outcome.job.seed for outcome in stored) == [*range(6)]
    assert all(len(store.attempts(job.key)) == 1 for job in jobs)
    assert all(store.result(job.key).job == job for job in jobs)


def test_46_result_of_an_unrequested_job_is_not_stored(store: Store) -> None:
    strange = make_result(jobs_of(9)[8])
    driven(store, MadeEngine(lambda jobs: iter([strange, make_result(jobs[0])])), jobs_of(1))
    assert [row.seed for row in store.runs()] == [0]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lost=st.sets(st.integers(0, 5)))
def test_46_lost_results_are_computed_by_the_next_command(tmp_path: Path, lost: set[int]) -> None:
    jobs = jobs_of(6)
    (tmp_path / "board.sqlite").unlink(missing_ok=True)
    with open_store(tmp_path / "board.sqlite") as store:
        some = MadeEngine(lambda jobs: (make_result(job) for job in jobs if job.seed not in lost))
        driven(store, some, jobs)
        assert {row.seed for row in store.runs()} == set(range(6)) - lost
        stored, _ = driven(store, MadeEngine(), jobs)
        assert {outcome.job.seed for outcome in stored} == lost
        assert [len(store.attempts(job.key)) for job in jobs] == [1] * 6
