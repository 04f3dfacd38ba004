"""Plans of the tiny encoder, on the packaged data or a folder of official files."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from benchharness.driver.options import OPTIONS, RunOptions
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import Request, check_request
from benchharness.driver.schedule import Schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines.local import LocalEngine, Placement
from benchharness.engines.slots import Slot
from benchharness.leaderboard.job import Job
from benchharness.machine import Estimate
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import Task

TINY = MODELS["tiny"]

RTE, COLA, MNLI, AX = (TASKS[f"glue/{name}"] for name in ("rte", "cola", "mnli", "ax"))

ASKED = {field.name for field in fields(Request)}


def plan_jobs(
    models: str | Iterable[ModelSpec],
    tasks: str | Iterable[Task],
    data: str = "mini",
    seeds: Iterable[int] = (1,),
    *,
    gpu: bool = False,
    **others: Any,
) -> Plan:
    """Return the plan of a request with these fields, for a CPU or a GPU.

    A name is one model or task.
    """
    slot = Slot(device="cuda:0" if gpu else "cpu", environment={})
    placement = Placement(slots=(slot,), engine=partial(LocalEngine, (slot,)))
    told = {name: others.pop(name) for name in OPTIONS if name in others and name not in ASKED}
    request = Request(
        options=RunOptions(**{"baselines": False, "data": data, **told}),
        models=(find_model(models),) if isinstance(models, str) else tuple(models),
        tasks=(find_task(tasks),) if isinstance(tasks, str) else tuple(tasks),
        seeds=tuple(seeds),
        placement=placement,
        **{name: tuple(v) if isinstance(v, list) else v for name, v in others.items()},
    )
    return plan(request)


def plan_job(*words: Any, **fields: Any) -> Job:
    """Return the only job of such a plan."""
    (job,) = plan_jobs(*words, **fields).jobs
    return job


def request_of(**options: Any) -> Request:
    """Return the request of these options in Python; by default `tiny` on a CPU."""
    return check_request(RunOptions.of(**{"model": "tiny", "device": "cpu", **options}))


def plan_mini(*names: str, **options: object) -> list[Job]:
    tasks = [TASKS[f"glue/{name}"] for name in names]
    return list(plan_jobs([TINY], tasks, **options).jobs)


def schedule_of(*jobs: Job, seconds: float = 20.0, at_once: int = 1) -> Schedule:
    """Return a schedule of jobs that are estimated to take `seconds` each."""
    return Schedule(
        jobs=jobs,
        todo=jobs,
        estimates={job.key: Estimate(seconds, rough=True) for job in jobs},
        at_once=at_once,
        checkpoints=StartCheckpoints.of(jobs, "none.sqlite", keep=False),
    )


def write_rte(folder: Path, rows: int = 3, splits: Mapping[str, bool] | None = None) -> Path:
    """Write official files of RTE; `splits` maps each split to whether it is labelled."""
    (folder / "RTE").mkdir(parents=True)
    for split, labelled in (splits or {"train": True, "dev": True}).items():
        header = ["index", "sentence1", "sentence2", *(["label"] if labelled else [])]
        lines = [
            [str(i), f"{split} a {i}", f"b {i}", *(["entailment"] if labelled else [])]
            for i in range(rows)
        ]
        text = "".join("\t".join(line) + "\n" for line in [header, *lines])
        (folder / "RTE" / f"{split}.tsv").write_text(text)
    return folder
