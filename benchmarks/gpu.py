"""What a GPU is worth here, in pieces that fit into a scarce hour.

    python -m benchmarks.gpu --model CHECKPOINT --data FOLDER
    python -m benchmarks.gpu --device cpu        each piece to its end, on a tiny encoder

A piece is a row of steps, most of them whole processes. What a step has found is in
FOLDER/PIECE.json as soon as it has ended, and is not measured again; one that failed is. With
--seconds no step begins after so many, so that the same command goes on in the next free minutes.
`python -m benchmarks.tables` puts the figures of a GPU into docs/performance.md; those of any
device are in FOLDER/tables.md.

Nothing is fetched: what pyproject.toml asks for has to be there, in Python's own folders or in
those of PYTHONPATH. One GPU is used, the first that is visible. The last steps, those of `scores`
on the CPU, need none: `--piece scores` computes them on any machine, into the same FOLDER.

Without --model encoders have the tiny tokenizer, without --data rows are the packaged ones: enough
to try a GPU out, and too short for figures that mean anything.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.gpu_tables import gpu_page
from benchmarks.growth import SERIES, Point, draw_checkpoint, measure
from benchmarks.record import RESULTS, ROOT, begin, load, write
from benchmarks.sample import draw_sample
from benchmarks.sides import ENVIRONMENT, SIDES, bench, machine, measure_peak, run_ours
from benchmarks.whole_process import LIMIT, run_whole
from benchmarks.workloads import Workload, find_workload

Figures = Mapping[str, Any]
Step = Callable[[], Figures]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured: rows of a task at most, epochs, the sizes of drawn encoders.

    `rows` are those of 128 tokens: a task with longer ones, or several to an item, has fewer. Ours
    and the `best` flags take turns for so many `rounds`; the `others`, which are slow, run once, on
    the tasks that are named. `points` are those of each series of growth. A run of `kill_epochs`,
    which keeps its state every `kill_seconds`, is killed so many times. A command that takes
    `step_seconds` is ended.
    """

    tasks: Sequence[str]
    rows: int
    epochs: int
    base: Mapping[str, int]
    large: Mapping[str, int]
    best: str
    others: Mapping[str, Sequence[str]]
    rounds: int
    together: Sequence[str]
    points: int
    profiled: Sequence[str]
    kills: int
    kill_epochs: int
    kill_seconds: float
    precisions: Sequence[str]
    step_seconds: float


def _sizes(layers: int, size: int) -> Mapping[str, int]:
    """Of a BERT; the embeddings of its whole vocabulary are trained like any other's."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": size,
        "num_attention_heads": size // 64,
        "intermediate_size": 4 * size,
        "max_position_embeddings": 512,
        "vocab_size": 30_522,
    }


GLUE = ("glue/sst2", "glue/mrpc", "glue/rte", "glue/stsb", "glue/cola")

SCALES = {
    "cuda": Scale(
        tasks=(*GLUE, "squad/v1.1", "race/all"),
        rows=3_000,
        epochs=3,
        base=_sizes(12, 768),
        large=_sizes(24, 1024),
        best="best-gpu",
        # As shipped RACE takes a quarter of an hour.
        others=dict.fromkeys(GLUE, ("default",)) | {"squad/v1.1": ("best-compiled", "default")},
        rounds=2,
        together=("1", "2", "5", "auto"),
        points=3,
        profiled=("glue/mrpc", "squad/v1.1"),
        kills=10,
        kill_epochs=8,
        kill_seconds=1.2,
        precisions=("fp32", "tf32", "bf16"),
        step_seconds=300.0,
    ),
    "cpu": Scale(
        tasks=("glue/mrpc", "glue/stsb", "squad/v1.1", "race/all"),
        rows=32,
        epochs=1,
        base=_sizes(2, 64),
        large=_sizes(3, 64),
        best="best",
        others={"glue/mrpc": ("default",)},
        rounds=2,
        together=("1", "auto"),
        points=1,
        profiled=("glue/mrpc",),
        kills=2,
        kill_epochs=100,
        kill_seconds=0.5,
        precisions=("fp32",),
        step_seconds=1800.0,
    ),
}

HEADS = (*GLUE, "superglue/wic", "squad/v1.1", "race/all", "swag/regular", "conll2003/ner")
"""A task for each way of a head: classes, numbers, marked words, spans, choices, tags."""

SEEDS = range(1, 6)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a call was given, and a folder for what its steps make and no one keeps."""

    device: str
    model: Path
    data: Path
    scratch: Path

    @property
    def scale(self) -> Scale:
        return SCALES[self.device]

    def drawn(self, shape: str) -> str:
        """A checkpoint of a shape, "base" or "large", with random weights."""
        sizes = getattr(self.scale, shape)
        return str(draw_checkpoint(self.model, self.scratch / shape, **sizes))

    @property
    def encoder(self) -> str:
        """The checkpoint that was given; a drawn one in the place of one without weights."""
        return str(self.model) if any(self.model.glob("*.safetensors")) else self.drawn("base")

    def workload(self, task: str, epochs: int | None = None) -> Workload:
        found, usual = find_workload(task), find_workload("glue/mrpc").values
        values = replace(found.values, epochs=epochs or self.scale.epochs)
        # A batch of RACE has a quarter of the items: each of them is four rows.
        share = usual.max_tokens / values.max_tokens * values.batch_size / usual.batch_size
        rows = max(32, round(self.scale.rows * share))  # of both of RACE's levels some
        return replace(found, train_rows=rows, dev_rows=max(8, rows // 8), values=values)

    def sample(self, workload: Workload) -> Path:
        """The rows of a workload, drawn at their first use."""
        folder = self.scratch / "rows" / workload.task
        return folder if folder.exists() else draw_sample(workload, self.data, folder)


# The pieces, in the order in which they are worth a GPU's time.


def smoke(at: Setting) -> Iterator[tuple[str, Step]]:
    """What is here, and whether each head trains on it at all."""
    yield "machine", lambda: machine() | {"device": _device(), "peak_gflops": measure_peak()}
    for precision in at.scale.precisions:
        tasks = [word for task in HEADS for word in ("--task", task)]
        yield f"heads in {precision}", lambda p=precision, t=tasks: _tiny(*t, "--precision", p)
    for setting in ("features=last", "lora_rank=4", "deterministic=true", "accumulation=4"):
        yield setting, lambda s=setting: _tiny("--task", "glue/rte", "--set", s)


def _tiny(*options: str) -> Figures:
    """A `bench run` of the tiny encoder on a few packaged rows, its seconds by task."""
    with TemporaryDirectory(prefix="benchmark-") as folder:
        places = ("--db", f"{folder}/runs.sqlite", "--out", f"{folder}/leaderboard.html")
        few = ("--limit", "32", "--seed", "1", "--set", "epochs=1", "--no-baselines")
        command = bench("run", "--model", "tiny", "--data", "mini", *few, *places, *options)
        ended = run_whole(command, ENVIRONMENT)
        listed = run_whole(
            bench("show", "runs", "--db", f"{folder}/runs.sqlite", "--json"), ENVIRONMENT
        )
    runs = json.loads(listed.stdout)
    return {
        "seconds": round(ended.seconds, 1),
        "jobs": {run["task"]: round(run["seconds"], 2) for run in runs},
    }


DEVICE = """
import json, torch
found = {"torch": torch.__version__, "cuda": torch.version.cuda, "gpus": torch.cuda.device_count()}
if torch.cuda.is_available():
    about = torch.cuda.get_device_properties(0)
    found |= {
        "name": about.name,
        "memory_bytes": about.total_memory,
        "capability": [about.major, about.minor],
        "bf16": torch.cuda.is_bf16_supported(),
        "cudnn": torch.backends.cudnn.version(),
    }
print(json.dumps(found))
"""


def _device() -> Figures:
    found: Figures = json.loads(run_whole([sys.executable, "-c", DEVICE], {}).stdout)
    return found


def tests(at: Setting) -> Iterator[tuple[str, Step]]:
    """`pytest -m gpu`."""
    # By file: the others ask for libraries that are of no use here, when they are collected.
    for file in sorted((ROOT / "tests").glob("**/test_*.py")):
        if "mark.gpu" in file.read_text(encoding="utf-8"):
            yield f"pytest -m gpu {file.relative_to(ROOT)}", lambda f=file: _pytest(at, f)


def _pytest(at: Setting, file: Path) -> Figures:
    with TemporaryDirectory(prefix="benchmark-") as folder:
        report = Path(folder) / "report.xml"
        # Libraries may be of other versions: that one of them warns is no failure here.
        options = ("-q", "-p", "no:cacheprovider", "-W", "default", "-m", "gpu")
        ended = subprocess.run(
            (sys.executable, "-m", "pytest", *options, f"--junitxml={report}", str(file)),
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            timeout=2 * at.scale.step_seconds,  # many commands; each test has its own limit
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise RuntimeError(ended.stdout[-2000:] + ended.stderr[-2000:])
        suite = next(ET.parse(report).getroot().iter("testsuite"))
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return counts | {"failed": failed}


def peer(at: Setting) -> Iterator[tuple[str, Step]]:
    """Whole processes of ours and of transformers' Trainer, BERT-base's and -large's shape."""
    yield "peak", lambda: {"peak_gflops": measure_peak()}
    for number in range(1, at.scale.rounds + 1):
        for shape, task in (*(("base", t) for t in at.scale.tasks), ("large", "glue/mrpc")):
            others = at.scale.others.get(task, ()) if (number, shape) == (1, "base") else ()
            for side in ("ours", at.scale.best, *others):
                step = f"{shape} {task} {side}, round {number}"
                yield step, lambda x=shape, t=task, s=side: _side(at, x, t, s)


def _side(at: Setting, shape: str, task: str, side: str) -> Figures:
    workload = at.workload(task)
    run = SIDES[side](workload, at.drawn(shape), at.sample(workload), [1])
    model = {"model_type": "bert", **getattr(at.scale, shape)}
    return {"shape": shape, "model": model, "workload": asdict(workload), "run": asdict(run)}


def together(at: Setting) -> Iterator[tuple[str, Step]]:
    """Five seeds of a small task, in each way of running them."""
    yield "one seed", lambda: _seeds(at, SEEDS[:1], "1")
    for jobs in at.scale.together:
        yield f"five seeds, --jobs {jobs}", lambda j=jobs: _seeds(at, SEEDS, j)


def _seeds(at: Setting, seeds: Sequence[int], jobs: str) -> Figures:
    workload = at.workload("glue/mrpc")
    run = run_ours(workload, at.drawn("base"), at.sample(workload), seeds, "--jobs", jobs)
    return asdict(run)


def growth(at: Setting) -> Iterator[tuple[str, Step]]:
    """How the cost of a command grows with rows, their length, layers and seeds."""
    for name, points in SERIES.items():
        for point in points[: at.scale.points]:
            step = f"{name} {getattr(point, name)}"
            yield step, lambda p=point, n=name: _grown(at, n, p)


def _grown(at: Setting, series: str, point: Point) -> Figures:
    return {"series": series, **measure(point, "ours", Path(at.drawn("base")), at.scratch)}


def scores(at: Setting) -> Iterator[tuple[str, Step]]:
    """Dev scores of five seeds on the device and on the CPU, of the encoder that was given."""
    for device, precision in ((at.device, "auto"), ("cpu", "fp32")):
        for task in (task for task in at.scale.tasks if task in GLUE):
            name = f"{task} {'device' if precision == 'auto' else 'CPU'}"
            yield name, lambda t=task, d=device, p=precision: _scored(at, t, d, p)


def _scored(at: Setting, task: str, device: str, precision: str) -> Figures:
    workload = at.workload(task)
    options = ("--device", device, "--precision", precision)
    limit = LIMIT.set(None if device == "cpu" else LIMIT.get())  # a CPU takes what it takes
    try:
        return asdict(run_ours(workload, at.encoder, at.sample(workload), SEEDS, *options))
    finally:
        LIMIT.reset(limit)


def profile(at: Setting) -> Iterator[tuple[str, Step]]:
    """Where the time of training and predicting goes."""
    for task in at.scale.profiled:
        yield task, lambda t=task: _profiled(at, t)


def _profiled(at: Setting, task: str) -> Figures:
    record = at.scratch / "profile"
    workload = at.workload(task, epochs=1)
    command = (sys.executable, "-m", "benchmarks.step_profile", "--model", at.drawn("base"))
    rows = min(1000, workload.train_rows)
    options = ("--data", str(at.data), "--task", task, "--limit", str(rows), "--out", str(record))
    run_whole([*command, *options], ENVIRONMENT)
    found: Figures = json.loads(record.with_suffix(".json").read_text())["profiles"][task]
    return found


def kills(at: Setting) -> Iterator[tuple[str, Step]]:
    """A run that is killed again and again ends as one that is not, bit for bit."""
    yield "as it is", lambda: _undisturbed(at)
    yield "deterministic", lambda: _undisturbed(at, *DETERMINISTIC)
    yield "killed", lambda: _killed(at, *DETERMINISTIC)


DETERMINISTIC = ("--set", "deterministic=true")


def _undisturbed(at: Setting, *options: str) -> Figures:
    """Without states, whose writing would take longer than the training."""
    with TemporaryDirectory(prefix="benchmark-") as folder:
        ended = run_whole(_long_run(at, Path(folder), 0.0, *options), ENVIRONMENT)
        return {"seconds": round(ended.seconds, 1), "found": _found(Path(folder))}


def _killed(at: Setting, *options: str) -> Figures:
    """SIGKILL to the driver, with which its workers die, after each new snapshot."""
    kills, deadline = 0, time.monotonic() + at.scale.step_seconds
    with TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        command = _long_run(at, folder, at.scale.kill_seconds, *options)
        while kills < at.scale.kills and time.monotonic() < deadline:
            before = _snapshots(folder)
            with subprocess.Popen(
                command,
                env={**os.environ, **ENVIRONMENT},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as process:
                while process.poll() is None and _snapshots(folder) <= before:
                    time.sleep(0.02)
                    if time.monotonic() > deadline:
                        break
                if process.poll() is not None:  # it was over sooner than it could be killed
                    break
                process.send_signal(signal.SIGKILL)
            kills += 1
        run_whole(command, ENVIRONMENT)
        return {"kills": kills, "found": _found(folder)}


def _long_run(at: Setting, folder: Path, seconds: float, *options: str) -> list[str]:
    """A run of one job that keeps its state every so many seconds, never with 0."""
    workload = at.workload("glue/mrpc", epochs=at.scale.kill_epochs)
    values = asdict(workload.values) | {"evaluations": 3}
    return [
        *bench("run", "--model", at.drawn("base"), "--task", workload.task, "--seed", "1"),
        *("--data", str(at.sample(workload)), "--no-baselines"),
        *("--checkpoint-every", f"{seconds / 60:.4f}"),
        *(word for name, value in values.items() for word in ("--set", f"{name}={value}")),
        *("--db", str(folder / "runs.sqlite"), "--out", str(folder / "page.html"), *options),
    ]


def _snapshots(folder: Path) -> set[str]:
    """The names of those that are whole, which sort as their steps do; the newest of the last."""
    return {path.parent.name for path in folder.glob("snapshots/*/step-*/manifest.json")}


def _found(folder: Path) -> Figures:
    """All that a job leaves but its seconds: scores, curve, and a digest of its predictions."""
    from benchharness.leaderboard.result import Failure
    from benchharness.leaderboard.store.store import open_store
    from benchharness.machine import text_digest

    with open_store(folder / "runs.sqlite", create=False) as store:
        (row,) = store.runs()
        result = store.result(row.key)
    if isinstance(result, Failure):
        raise RuntimeError(result.error)
    predictions = json.dumps([asdict(each) for each in result.evaluations], sort_keys=True)
    return {
        "scores": dict(result.evaluations[0].scores),
        "predictions": text_digest(predictions),
        "losses": [point.loss for point in result.curve],
        "resumed": len(result.provenance.get("resumed", {}).get("steps", ())),
    }


PIECES: Mapping[str, Callable[[Setting], Iterator[tuple[str, Step]]]] = {
    piece.__name__: piece
    for piece in (smoke, tests, peer, together, profile, kills, growth, scores)
}


def main() -> int:
    """1 where a step failed, 3 where time was over before the last one began."""
    if missing := what_is_missing():
        raise SystemExit(
            f"{sys.executable} lacks {', '.join(missing)}: install them, or put them into a folder "
            "that PYTHONPATH names (pip install --target)."
        )
    options = _parse()
    # The Trainer would divide a batch among several GPUs. Both sides count as nvidia-smi does.
    os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": options.gpu}
    LIMIT.set(SCALES[options.device].step_seconds)
    deadline = time.monotonic() + (options.seconds or float("inf"))
    failed = left = 0
    with TemporaryDirectory(prefix="benchmark-") as scratch:
        at = Setting(
            device=options.device, model=options.model, data=options.data, scratch=Path(scratch)
        )
        for name in options.piece or PIECES:
            failures, more = _run_piece(name, at, options, deadline)
            failed, left = failed + failures, left + more
            page = gpu_page({piece: load(piece, options.out) for piece in PIECES})
            (options.out / "tables.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    print(f"{failed} steps failed, {left} are left; the tables are in {options.out}/tables.md")
    return 1 if failed else 3 if left else 0


def _run_piece(
    name: str, at: Setting, options: argparse.Namespace, deadline: float
) -> tuple[int, int]:
    """Runs the steps of a piece that are missing; gives how many failed, and are left."""
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
        except Exception as error:  # noqa: BLE001  (the other steps are worth the time all the same)
            record["steps"][step] = {"error": f"{type(error).__name__}: {error}"[-1500:]}
            failed += 1
        write(name, record, options.out)
        told = record["steps"][step].get("error", "done")
        print(f"{name}, {step}: {told} in {time.monotonic() - start:.1f} s", flush=True)
    return failed, left


def _name_of(gpu: str) -> str:
    """What the driver calls a GPU; empty where there is none, or none of its tools."""
    query = ("nvidia-smi", f"--id={gpu}", "--query-gpu=name", "--format=csv,noheader")
    try:
        return subprocess.check_output(query, text=True).strip() if gpu else ""
    except (OSError, subprocess.CalledProcessError):
        return ""


def _begun(kept: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The record to go on with, which names each commit that steps were measured at."""
    if kept is None:
        return {"steps": {}} | new
    # What needs no GPU may be measured on a machine without.
    before = {**kept, "gpu": new["gpu"] and kept["gpu"]}
    if any(before[name] != new[name] for name in ("device", "gpu", "model") if before[name]):
        raise SystemExit("--out has figures of another device or model: name another folder.")
    commits = dict.fromkeys((*kept["commit"].split(", "), new["commit"]))
    return kept | new | {"commit": ", ".join(commits), "gpu": new["gpu"] or kept["gpu"]}


TESTERS = ("pytest", "pytest-timeout")
"""What is used of the extra "dev"."""


def what_is_missing() -> list[str]:
    """What pyproject.toml asks for that is not there, or is too old."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    testers = [each for each in extras["dev"] if each.partition(">=")[0] in TESTERS]
    asked = (*project["dependencies"], *extras["peer"], *extras["lora"], *testers)
    return [lack for each in asked if (lack := _lack(each))]


def _lack(requirement: str) -> str:
    """A requirement, name>=version, that is not met, with what is there; empty where it is."""
    name, _, least = requirement.partition(">=")
    try:
        there = version(name)
    except PackageNotFoundError:
        return requirement
    return "" if _numbers(there) >= _numbers(least) else f"{requirement} (has {there})"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])]


def _parse() -> argparse.Namespace:
    from benchharness.engines.slots import find_gpus
    from benchharness.tasks.sources.files import mini_folder
    from benchharness.tiny import folder

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=list(SCALES), default="cuda")
    parser.add_argument("--model", type=Path, default=folder(), help="folder of a small BERT")
    parser.add_argument("--data", type=Path, default=mini_folder())
    parser.add_argument("--out", type=Path, help="the folder of the records")
    parser.add_argument("--piece", action="append", choices=list(PIECES))
    parser.add_argument("--seconds", type=float, help="after which no step begins")
    parser.add_argument("--note", default="", help="what a reader of the tables must know")
    options = parser.parse_args()
    options.gpu = ",".join(find_gpus()[:1]) if options.device == "cuda" else ""
    if options.device == "cuda" and not options.gpu and options.piece != ["scores"]:
        parser.error("`nvidia-smi -L` lists no GPU: --device cpu tries the program without one.")
    options.out = options.out or (
        RESULTS / "gpu" if options.device == "cuda" else Path("results") / "gpu-on-a-cpu"
    )
    return options


if __name__ == "__main__":
    sys.exit(main())
