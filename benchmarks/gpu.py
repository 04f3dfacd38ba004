"""Measurements on a GPU, in pieces that fit into an hour.

    python -m benchmarks.gpu --model CHECKPOINT --data FOLDER
    python -m benchmarks.gpu --device cpu        run each piece completely, on a tiny encoder

A piece is a sequence of steps, most of which run a whole process. Results are in the folder of
--out. The result of a step is written to PIECE.json as soon as the step has ended. A finished step
is not repeated, but a failed one is. With --seconds no step begins after that time, so the same
command can be repeated to continue. `python -m benchmarks.tables` puts the figures of a GPU into
docs/performance.md; the figures of any device are in tables.md.

Nothing is downloaded: libraries must be in Python's own folders or in the folders of PYTHONPATH.
Only the first visible GPU is used. `--piece scores` runs its CPU part on any machine.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchharness.engines.slots import Slot, find_gpus, machine_of
from benchharness.tasks.sources.files import mini_folder
from benchharness.tiny import folder as tiny_folder
from benchmarks.gpu_tables import gpu_page
from benchmarks.growth import draw_checkpoint
from benchmarks.record import RESULTS, ROOT, begin, load, write
from benchmarks.sample import draw_sample
from benchmarks.sides import ENVIRONMENT, SIDES, machine, measure_peak, run_ours
from benchmarks.whole_process import LIMIT, run_whole
from benchmarks.workloads import Workload, find_workload

Figures = Mapping[str, Any]
Step = Callable[[], Figures]

GLUE = ("glue/sst2", "glue/mrpc", "glue/rte", "glue/stsb", "glue/cola")

SEEDS = range(1, 6)
ROUNDS = 2
ALL = 10**6
"""More rows than any file has."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maximum number of rows per task, and layers and width of two encoders.

    benchharness and the Trainer with the flags `best` take turns. The flags in `others`, which are
    slow, are used once per task.
    """

    rows: Mapping[str, int]
    shapes: Mapping[str, tuple[int, int]]
    best: str
    others: Mapping[str, Sequence[str]]


SCALES = {
    "cuda": Scale(
        rows=dict.fromkeys(GLUE, 9_000) | {"glue/sst2": ALL, "squad/v1.1": 6_000, "race/all": 800},
        shapes={"base": (12, 768), "large": (24, 1024)},
        best="best-gpu",
        # With default flags, all of SST-2 and RACE take a quarter of an hour.
        others=dict.fromkeys(GLUE[1:], ("default",)) | {"squad/v1.1": ("best-compiled",)},
    ),
    "cpu": Scale(
        rows=dict.fromkeys(("glue/mrpc", "glue/stsb", "squad/v1.1", "race/all"), 32),
        shapes={"base": (2, 64), "large": (3, 64)},
        best="best",
        others={"glue/mrpc": ("default",)},
    ),
}

STEP_SECONDS = 450.0
"""Seconds after which a command is killed."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Options of the command line, and a scratch folder for the files of the steps."""

    device: str
    model: Path
    data: Path
    scratch: Path

    @property
    def scale(self) -> Scale:
        return SCALES[self.device]

    def sizes(self, shape: str) -> dict[str, int]:
        """Return the config values of a BERT of a shape, with the vocabulary size of BERT."""
        layers, size = self.scale.shapes[shape]
        return {
            "num_hidden_layers": layers,
            "hidden_size": size,
            "num_attention_heads": size // 64,
            "intermediate_size": 4 * size,
            "max_position_embeddings": 512,
            "vocab_size": 30_522,
        }

    def drawn(self, shape: str) -> str:
        """Return the checkpoint of a shape, "base" or "large", with random weights."""
        return str(draw_checkpoint(self.model, self.scratch / shape, **self.sizes(shape)))

    def workload(self, task: str) -> Workload:
        rows = self.scale.rows[task]
        dev_rows = max(8, min(rows // 8, 1_000))
        return replace(find_workload(task), train_rows=rows, dev_rows=dev_rows)

    def sample(self, workload: Workload) -> Path:
        """Return the folder with a workload's rows, which are drawn at their first use."""
        folder = self.scratch / "rows" / workload.task
        return folder if folder.exists() else draw_sample(workload, self.data, folder)


# The pieces, in order of priority.


def tests(_at: Setting) -> Iterator[tuple[str, Step]]:
    """Yield the steps of `pytest -m gpu`, which also kill and resume jobs."""
    # Only files with GPU tests are run, because others import libraries that are not needed here.
    # Versions of libraries may differ, so their warnings are not errors.
    options = ("-q", "-p", "no:cacheprovider", "-W", "default", "-m", "gpu")
    for file in sorted((ROOT / "tests").glob("**/test_*.py")):
        if "mark.gpu" in file.read_text(encoding="utf-8"):
            command = [sys.executable, "-m", "pytest", *options, str(file)]
            yield f"pytest -m gpu {file.relative_to(ROOT)}", lambda c=command: _told(c)


def _told(command: Sequence[str]) -> Figures:
    """Return the last line of a command's output; raise RuntimeError if the command fails."""
    return {"told": run_whole(command, ENVIRONMENT).stdout.splitlines()[-1].strip("= ")}


def peer(at: Setting) -> Iterator[tuple[str, Step]]:
    """Yield steps that time benchharness and the Trainer, in BERT-base's and BERT-large's sizes."""
    yield "machine", lambda: machine() | {"peak_gflops": measure_peak()}
    for number in range(1, ROUNDS + 1):
        for shape, task in (*(("base", t) for t in at.scale.rows), ("large", "glue/mrpc")):
            others = at.scale.others.get(task, ()) if (number, shape) == (1, "base") else ()
            for side in ("ours", at.scale.best, *others):
                step = f"{shape} {task} {side}, round {number}"
                yield step, lambda x=shape, t=task, s=side: _side(at, x, t, s)


def _side(at: Setting, shape: str, task: str, side: str) -> Figures:
    workload, sizes = at.workload(task), {"model_type": "bert", **at.sizes(shape)}
    run = SIDES[side](workload, at.drawn(shape), at.sample(workload), SEEDS[:1])
    return {"shape": shape, "model": sizes, "workload": asdict(workload), "run": asdict(run)}


def together(at: Setting) -> Iterator[tuple[str, Step]]:
    """Yield steps that run five seeds of a small task, with different numbers of jobs at once."""
    yield "one seed", lambda: _ours(at, "glue/mrpc", "base", SEEDS[:1])
    for jobs in ("1", "2", "5", "auto"):
        yield f"--jobs {jobs}", lambda j=jobs: _ours(at, "glue/mrpc", "base", SEEDS, "--jobs", j)


def _ours(at: Setting, task: str, shape: str, seeds: Sequence[int], *options: str) -> Figures:
    workload = at.workload(task)
    checkpoint = str(at.model) if shape == "given" else at.drawn(shape)
    return asdict(run_ours(workload, checkpoint, at.sample(workload), seeds, *options))


def scores(at: Setting) -> Iterator[tuple[str, Step]]:
    """Yield steps that score five seeds of the given encoder, on the device and on the CPU."""
    shape = "given" if any(at.model.glob("*.safetensors")) else "base"
    for place, device, precision in (("device", at.device, "auto"), ("CPU", "cpu", "fp32")):
        options = ("--device", device, "--precision", precision)
        for task in (task for task in at.scale.rows if task in GLUE[1:]):
            yield f"{task} {place}", lambda t=task, o=options: _ours(at, t, shape, SEEDS, *o)


PIECES: Mapping[str, Callable[[Setting], Iterator[tuple[str, Step]]]] = {
    piece.__name__: piece for piece in (tests, peer, together, scores)
}


def main() -> int:
    """Run the pieces; return 1 if a step failed, or 3 if the time was too short for all steps."""
    options = _parse()
    # The Trainer would split a batch over several GPUs. Both sides number GPUs as nvidia-smi does.
    os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": options.gpu}
    LIMIT.set(STEP_SECONDS)
    deadline = time.monotonic() + (options.seconds or float("inf"))
    failed = left = 0
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="benchmark-") as scratch:
        at = Setting(
            device=options.device, model=options.model, data=options.data, scratch=Path(scratch)
        )
        for name in options.piece or PIECES:
            failures, more = _run_piece(name, at, options, deadline)
            failed, left = failed + failures, left + more
            page = gpu_page({piece: load(piece, options.out) for piece in PIECES})
            (options.out / "tables.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    print(f"{failed} steps failed, {left} were not started; tables: {options.out}/tables.md")
    return 1 if failed else 3 if left else 0


def _run_piece(
    name: str, at: Setting, options: argparse.Namespace, deadline: float
) -> tuple[int, int]:
    """Run the missing steps of a piece; return how many failed, and how many are left."""
    told = begin(str(at.model), options.note) | {"device": at.device, "gpu": _name_of(options.gpu)}
    record = _begun(load(name, options.out), told)
    failed = left = 0
    for step, run in PIECES[name](at):
        if "error" not in record["steps"].get(step, {"error": ""}):
            continue
        if time.monotonic() > deadline:
            left += 1
            continue
        start = time.monotonic()
        try:
            record["steps"][step] = run()
        except Exception as error:  # noqa: BLE001  (other steps may succeed)
            record["steps"][step] = {"error": f"{type(error).__name__}: {error}"[-1500:]}
            failed += 1
        write(name, record, options.out)
        told = record["steps"][step].get("error", "done")
        print(f"{name}, {step}: {told} in {time.monotonic() - start:.1f} s", flush=True)
    return failed, left


def _name_of(gpu: str) -> str:
    """Return the driver's name of a GPU; empty if there is none."""
    return machine_of([Slot(device=f"cuda:{gpu}", environment={})]) if gpu else ""


def _begun(kept: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the record to continue, with the names of all commits at which steps were measured."""
    if kept is None:
        return {"steps": {}} | new
    # Steps that need no GPU may be measured on a machine without one.
    before = {**kept, "gpu": new["gpu"] and kept["gpu"]}
    if any(before[name] != new[name] for name in ("device", "gpu", "model") if before[name]):
        raise SystemExit("--out has results of another device or model: name another folder.")
    commits = dict.fromkeys((*kept["commit"].split(", "), new["commit"]))
    return kept | new | {"commit": ", ".join(commits), "gpu": new["gpu"] or kept["gpu"]}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=list(SCALES), default="cuda")
    parser.add_argument("--model", type=Path, default=tiny_folder(), help="folder of a small BERT")
    parser.add_argument("--data", type=Path, default=mini_folder())
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--piece", action="append", choices=list(PIECES))
    parser.add_argument("--seconds", type=float, help="start no further step after this time")
    parser.add_argument("--note", default="", help="a remark to print below the tables")
    options = parser.parse_args()
    options.gpu = ",".join(find_gpus()[:1]) if options.device == "cuda" else ""
    if options.device == "cuda" and not options.gpu and options.piece != ["scores"]:
        parser.error("`nvidia-smi -L` lists no GPU; --device cpu tests this program without one.")
    options.out = options.out or (
        RESULTS / "gpu" if options.device == "cuda" else Path("results") / "gpu-on-a-cpu"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
