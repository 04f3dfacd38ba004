"""Fixtures: the command line without real jobs."""

from functools import partial

import pytest

import benchharness.driver.retrain  # noqa: F401  (bound before tests put other engines in its place)
from tests.helpers.fake_worker import COMMAND


@pytest.fixture
def fake_jobs(monkeypatch):
    """Make `bench run` plan these jobs and run them with the fake worker."""
    from benchharness.driver.plan import Plan
    from benchharness.engines.local import LocalEngine

    engine = partial(LocalEngine, command=COMMAND)
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)

    def plan(jobs):
        planned = Plan(jobs=tuple(jobs), rows={})
        monkeypatch.setattr("benchharness.driver.session.plan", lambda *args, **options: planned)

    return plan
