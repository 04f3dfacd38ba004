"""Make the tables of the results of benchmarks/gpu.py."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.figures import Comparison, floor_seconds, mean_ratio
from benchmarks.markdown import number, table
from benchmarks.tost import Equivalence, shown
from benchmarks.workloads import find_workload

PIECES = ("tests", "peer", "together", "scores")

NOTHING = "No complete measurement on a GPU yet."

TRIAL = (
    "**A test of the program on a CPU with a tiny encoder: these figures say nothing about a GPU.**"
)

HOW = (
    "Whole processes with random weights of BERT's shapes; the best flags are the Trainer's with "
    "tf32, bf16, SDPA, fused AdamW, rows grouped by length and four loader workers, of SQuAD the "
    "faster of these compiled and not. Figures are medians, ratios those of rounds."
)

Steps = Mapping[str, Mapping[str, Any]]
Record = Mapping[str, Any]


def gpu_page(records: Mapping[str, Record | None], *, trial: bool = True) -> list[str]:
    """Return the lines of all tables for the existing records.

    Records that were measured on a CPU are included only if `trial` is true.
    """
    found = {name: r for name, r in records.items() if r and (trial or r["device"] == "cuda")}
    if not found:
        return [NOTHING]
    lines = [] if all(r["device"] == "cuda" for r in found.values()) else [TRIAL, ""]
    for name, record in found.items():
        done = {step: one for step, one in record["steps"].items() if "error" not in one}
        for block in ([f"**{name}**"], *_BLOCKS[name](done)):
            lines += [*block, ""]
        for step, one in record["steps"].items():
            if "error" in one:
                last = one["error"].strip().splitlines()[-1].replace("|", "/").replace("`", "")
                lines += [f"Failed: {name}, {step}: `{last[:200]}`", ""]
        where = f", {record['gpu']}" if record["gpu"] else ""
        lines += [f"{record['measured'][:10]}, commit {record['commit']}{where}.", ""]
    notes = dict.fromkeys(r["note"] for r in found.values() if r["note"])
    return [*lines, *(f"**{note}**" for note in notes)]


def _tests(done: Steps) -> Iterator[Sequence[str]]:
    yield from ([f"`{step}`: {one['told']}."] for step, one in done.items())


def _peer(done: Steps) -> Iterator[Sequence[str]]:
    about = done.get("machine", {})
    peaks = about.get("peak_gflops")
    if peaks:
        rates = ", ".join(f"{rate / 1000:.1f} in {form}" for form, rate in peaks.items())
        libraries = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        yield [f"{about['cores']} cores of {about['processor']}; {libraries}."]
        yield [f"Matrix products reach, in TFLOP/s, {rates}."]
    runs = [one for one in done.values() if "run" in one]
    keys = dict.fromkeys((one["shape"], one["workload"]["task"]) for one in runs)
    found = [(key[0], _compared(runs, key, peaks)) for key in keys if peaks]
    yield [HOW]
    head = (
        "task, train rows",
        "seconds: ours, best, shipped",
        "times faster than best",
        "than shipped",
        "ms a step: ours, best, ours at the peak",
        "share of the matrix peak: ours, best",
        "memory of the device, GB: ours, best",
    )
    yield table(head, [_peer_row(shape, compared) for shape, compared in found])
    glue = [c for shape, c in found if shape == "base" and c.entry["task"].startswith("glue/")]
    means = [number(mean_ratio(glue, side), ".1f") for side in ("best", "default")]
    yield [f"Geometric mean of GLUE's tasks: {means[0]} and {means[1]}."]


def _compared(
    runs: Sequence[Mapping[str, Any]], key: tuple[str, str], peaks: Mapping[str, float]
) -> Comparison:
    """Return the comparison of a shape and a task.

    If there are several variants of the best flags, only the fastest one is compared.
    """
    own = [one for one in runs if (one["shape"], one["workload"]["task"]) == key]
    sides: dict[str, list[Mapping[str, Any]]] = {}
    for one in own:
        sides.setdefault(one["run"]["side"], []).append(one["run"])
    best = [sides.pop(side) for side in [*sides] if side.startswith("best")]
    kept = [run for runs in sides.values() for run in runs]
    if best:
        fastest = min(best, key=lambda runs: median(run["seconds"] for run in runs))
        kept += [{**run, "side": "best"} for run in fastest]
    entry = {**own[0]["workload"], "runs": kept}
    return Comparison.of(entry, {"model": own[0]["model"], "peak_gflops": [peaks]})


def _peer_row(shape: str, c: Comparison) -> Sequence[str]:
    counts = [r["details"]["train_rows"] for r in c.runs.get("best", ())]
    rows = counts[0] if counts else c.entry["train_rows"]  # the file may have fewer than requested
    steps = math.ceil(rows / c.entry["values"]["batch_size"]) * c.entry["values"]["epochs"]
    train = [c.middle(side, "train_seconds") for side in ("ours", "best")]
    held = [[run["details"]["device_bytes"] for run in c.runs.get(s, ())] for s in ("ours", "best")]
    return (
        f"{c.name}, {rows:,}" + (" (large)" if shape == "large" else ""),
        ", ".join(number(c.middle(s, "seconds"), ".1f") for s in ("ours", "best", "default")),
        *(number(c.ratio(side), ".1f") for side in ("best", "default")),
        ", ".join(number(s and 1000 * s / steps, ".1f") for s in (*train, floor_seconds(c))),
        ", ".join(number(c.share_of_peak(side), ".0%") for side in ("ours", "best")),
        ", ".join(number(max(each) / 1e9 if each else None, ".1f") for each in held),
    )


def _together(done: Steps) -> Iterator[Sequence[str]]:
    alone = done.get("one seed", {}).get("seconds")
    rows = [
        (step, f"{run['seconds']:.1f}", number(alone and run["seconds"] / alone, ".1f"))
        for step, run in done.items()
    ]
    yield table(("MRPC, BERT-base's shape", "seconds", "times one seed"), rows)


def _scores(done: Steps) -> Iterator[Sequence[str]]:
    """Yield a table of equivalence tests of the scores on both devices, per task and metric.

    The differences in the first metric are also pooled over all tasks.
    """
    found = []
    for task in dict.fromkeys(step.rpartition(" ")[0] for step in done):
        keys = (f"{task} device", f"{task} CPU")
        if not done.keys() >= {*keys}:
            continue
        sides = [done[key]["scores"] for key in keys]
        for metric in sides[0][0]:
            ours, theirs = ([100 * seed[metric] for seed in scores] for scores in sides)
            name = find_workload(task).name
            found.append(Equivalence(task=name, score=metric, margin=1.0, ours=ours, theirs=theirs))
    if firsts := list({each.task: each for each in reversed(found)}.values()):
        ours, theirs = (
            [x for each in firsts for x in getattr(each, s)] for s in ("ours", "theirs")
        )
        found.append(Equivalence(task="all", score="", margin=1.0, ours=ours, theirs=theirs))
    yield shown(found, ("device", "CPU"))


_BLOCKS: Mapping[str, Any] = dict(zip(PIECES, (_tests, _peer, _together, _scores), strict=True))
