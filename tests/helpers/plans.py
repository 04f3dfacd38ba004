"""Plans of the tiny encoder, on the packaged data or on a folder of official files."""

from collections.abc import Mapping
from pathlib import Path

from benchharness.driver.plan import plan_jobs
from benchharness.driver.schedule import Schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.estimate import Estimate
from benchharness.leaderboard.job import Job
from benchharness.models import MODELS
from benchharness.tasks.suites import TASKS

TINY = MODELS["tiny"]

RTE, COLA, MNLI, AX = (TASKS[f"glue/{name}"] for name in ("rte", "cola", "mnli", "ax"))


def plan_mini(*names: str, **options: object) -> list[Job]:
    tasks = [TASKS[f"glue/{name}"] for name in names]
    return list(plan_jobs([TINY], tasks, "mini", [1], **options).jobs)  # type: ignore[arg-type]


def schedule_of(*jobs: Job, seconds: float = 20.0, at_once: int = 1) -> Schedule:
    """A schedule of jobs that are estimated to take so long each."""
    return Schedule(
        jobs=jobs,
        todo=jobs,
        estimates={job.key: Estimate(seconds, rough=True) for job in jobs},
        at_once=at_once,
        checkpoints=StartCheckpoints.of(jobs, "none.sqlite", keep=False),
    )


def write_rte(folder: Path, rows: int = 3, splits: Mapping[str, bool] | None = None) -> Path:
    """A folder of official files with RTE; `splits` say whether each is labelled."""
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
