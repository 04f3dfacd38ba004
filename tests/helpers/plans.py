"""Plans of the tiny encoder, on the packaged data or on a folder of official files."""

from collections.abc import Mapping
from pathlib import Path

from benchharness.driver.plan import plan_jobs
from benchharness.leaderboard.job import Job
from benchharness.models import MODELS
from benchharness.tasks.suites import TASKS

TINY = MODELS["tiny"]

RTE, COLA, MNLI, AX = (TASKS[f"glue/{name}"] for name in ("rte", "cola", "mnli", "ax"))


def plan_mini(*names: str, **options: object) -> list[Job]:
    tasks = [TASKS[f"glue/{name}"] for name in names]
    return list(plan_jobs([TINY], tasks, "mini", [1], **options).jobs)  # type: ignore[arg-type]


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
