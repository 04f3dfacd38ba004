"""Tests of the hooks of a new training technique in a job and in a plan."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from benchharness.driver import technique as planned
from benchharness.driver.request import Request
from benchharness.errors import BenchError
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task
from benchharness.worker import technique as worked
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job
from tests.helpers.plans import plan_mini


class EveryOtherRow(worked.Technique):
    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        return replace(rows, examples=rows.examples[::2])

    def on_network(self, prepared: worked.Prepared) -> None:
        self.provenance = {"every other row": [setup.task.name for setup in prepared.setups]}


def test_job_calls_the_hooks_of_its_training_technique(monkeypatch: pytest.MonkeyPatch):
    job = make_job("cola", limit=16, batch_size="4", evaluations="1")
    other = replace(job, seed=2)
    own = worked.techniques_of

    def with_new(work: worked.Work) -> list[worked.Technique]:
        return [*own(work), *([EveryOtherRow(work=work)] if work.job.seed == 1 else [])]

    monkeypatch.setattr("benchharness.worker.task_setup.techniques_of", with_new)
    found, whole = run_job(job), run_job(other)
    assert (found.cost.steps, whole.cost.steps) == (2, 4)
    assert found.provenance["every other row"] == ["glue/cola"]
    assert "every other row" not in whole.provenance


class TwoRates(planned.Technique):
    def check(self, request: Request) -> None:
        if request.options.limit is None:
            raise BenchError("two rates are for few rows: give --limit.")

    def values(self, task: Task) -> list[Mapping[str, str]]:
        return [{"learning_rate": rate} for rate in ("1e-3", "2e-3")]


def test_plan_calls_the_hooks_of_its_training_techniques(monkeypatch: pytest.MonkeyPatch):
    def with_rates(request: Request) -> tuple[planned.Technique, ...]:
        return (*planned.techniques_of(request), TwoRates())

    monkeypatch.setattr("benchharness.driver.plan.techniques_of", with_rates)
    with pytest.raises(BenchError, match="give --limit"):
        plan_mini("cola")
    rates = [job.settings["learning_rate"].value for job in plan_mini("cola", limit=32)]
    assert rates == [1e-3, 2e-3]
    found = [job.values for job in plan_mini("cola", limit=32, shots=[8, 16])]
    assert [(each["shots"], each["learning_rate"]) for each in found] == [
        (shots, rate) for shots in (8, 16) for rate in (1e-3, 2e-3)
    ]
