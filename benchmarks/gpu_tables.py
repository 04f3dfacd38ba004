"""The page's tables of what benchmarks/gpu.py has measured."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any

from benchmarks.figures import Comparison, floor_seconds, mean_ratio
from benchmarks.markdown import DASH, number, table
from benchmarks.workloads import find_workload

PIECES = ("smoke", "tests", "peer", "together", "profile", "kills", "growth", "scores")

NOTHING = "Not measured on a GPU yet."

TRIAL = (
    "**A trial of the program on a CPU, with a tiny encoder: none of these figures says anything "
    "of a GPU.**"
)

HOW = (
    "Whole processes with random weights of BERT's shapes; the best flags are the Trainer's with "
    "tf32, bf16, SDPA, fused AdamW, rows grouped by length and four loader workers, of SQuAD the "
    "faster of these compiled and not. Seconds are medians; ratios are those of rounds, in which "
    "both run one after the other. Compiled and as shipped the Trainer runs once."
)

MARGIN = 1.0
"""How many points apart the mean scores of two devices may be, and still count as the same."""

LEVEL = 0.05

Steps = Mapping[str, Mapping[str, Any]]
Record = Mapping[str, Any]


def gpu_page(records: Mapping[str, Record | None], *, trial: bool = True) -> list[str]:
    """All tables of the records that are there; those of a CPU only as a `trial`."""
    found = {name: r for name, r in records.items() if r and (trial or r["device"] == "cuda")}
    if not found:
        return [NOTHING]
    lines = [] if all(r["device"] == "cuda" for r in found.values()) else [TRIAL, ""]
    for name, record in found.items():
        done = {step: one for step, one in record["steps"].items() if "error" not in one}
        title, make = _BLOCKS[name]
        blocks = list(make(record, done))
        lines += [line for block in ([f"**{title}**"], *blocks) for line in (*block, "")]
    notes = dict.fromkeys(r["note"] for r in found.values() if r["note"])
    lines += [line for note in notes for line in (f"**{note}**", "")]
    lines += [line for failure in _failures(found) for line in (failure, "")]
    return lines[:-1]


def _failures(found: Mapping[str, Record]) -> Iterator[str]:
    for name, record in found.items():
        for step, one in record["steps"].items():
            if "error" in one:
                last = one["error"].strip().splitlines()[-1].replace("|", "/")
                yield f"Failed: {name}, {step}: `{last[:200].replace('`', '')}`"


def _smoke(record: Record, done: Steps) -> Iterator[Sequence[str]]:
    if about := done.get("machine"):
        device, peaks = about["device"], about["peak_gflops"]
        name = device.get("name", about["processor"])
        memory = f", {device['memory_bytes'] / 2**30:.0f} GiB" if "memory_bytes" in device else ""
        rates = ", ".join(f"{rate / 1000:.1f} in {form}" for form, rate in peaks.items())
        libraries = f"transformers {about['versions']['transformers']}"
        yield [
            (
                f"Measured {record['measured'][:10]} at commit {record['commit']}: {name}{memory}, "
                f"{about['cores']} cores of {about['processor']}; torch {device['torch']}, "
                f"CUDA {device['cuda'] or 'none'}, {libraries}. "
                f"Matrix products reach, in TFLOP/s, {rates}."
            )
        ]
    runs = {step: one for step, one in done.items() if "jobs" in one}
    if runs:
        yield table(
            ("trains on a few rows", "tasks", "seconds, of the whole command"),
            [(step, str(len(one["jobs"])), f"{one['seconds']:.0f}") for step, one in runs.items()],
        )


def _tests(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    for step, one in done.items():
        wrong = one["failures"] + one["errors"]
        passed = one["tests"] - wrong - one["skipped"]
        names = "".join(f"; {line}" for line in one["failed"])
        yield [f"`{step}`: {passed} passed, {wrong} failed, {one['skipped']} skipped{names}."]


def _peer(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    peaks = done.get("peak", {}).get("peak_gflops")
    runs = [one for one in done.values() if "run" in one]
    if not peaks or not runs:
        return
    found = [
        (shape, compared)
        for shape in ("base", "large")
        for compared in _compared([one for one in runs if one["shape"] == shape], peaks)
    ]
    yield [HOW]
    head = (
        "task, train rows",
        "seconds: ours, best, shipped",
        "times faster than best",
        "than shipped",
        "training: ours, at the peak, s",
        "share of the matrix peak: ours, best",
        "memory of the device, GB: ours, best",
    )
    yield table(head, [_peer_row(shape, compared) for shape, compared in found])
    glue = [c for shape, c in found if shape == "base" and c.entry["task"].startswith("glue/")]
    means = [number(mean_ratio(glue, side), ".1f") for side in ("best", "default")]
    yield [f"Geometric mean of GLUE's tasks: {means[0]} and {means[1]}."]


def _compared(
    runs: Sequence[Mapping[str, Any]], peaks: Mapping[str, float]
) -> Iterator[Comparison]:
    """The runs of one shape by task, of the best flags' variants the faster one."""
    for task in dict.fromkeys(one["workload"]["task"] for one in runs):
        own = [one for one in runs if one["workload"]["task"] == task]
        sides: dict[str, list[Mapping[str, Any]]] = {}
        for one in own:
            sides.setdefault(one["run"]["side"], []).append(one["run"])
        best = [runs for side, runs in sides.items() if side.startswith("best")]
        kept = [one["run"] for one in own if not one["run"]["side"].startswith("best")]
        if best:
            fastest = min(best, key=lambda runs: median(run["seconds"] for run in runs))
            kept += [{**run, "side": "best"} for run in fastest]
        if "ours" in sides:
            entry = {**own[0]["workload"], "runs": kept}
            yield Comparison.of(entry, {"model": own[0]["model"], "peak_gflops": [peaks]})


def _peer_row(shape: str, c: Comparison) -> Sequence[str]:
    name = f"{c.name}, {c.entry['train_rows']:,}" + (" (large)" if shape == "large" else "")
    held = [[run["details"]["device_bytes"] for run in c.runs.get(s, ())] for s in ("ours", "best")]
    return (
        name,
        ", ".join(number(c.middle(s, "seconds"), ".1f") for s in ("ours", "best", "default")),
        *(number(c.ratio(side), ".1f") for side in ("best", "default")),
        f"{number(c.middle('ours', 'train_seconds'), '.1f')}, {floor_seconds(c):.1f}",
        ", ".join(number(c.share_of_peak(side), ".0%") for side in ("ours", "best")),
        ", ".join(number(max(each) / 1e9 if each else None, ".1f") for each in held),
    )


def _together(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    alone = done.get("one seed", {}).get("seconds")
    rows = [
        (step, f"{run['seconds']:.1f}", number(alone and run["seconds"] / alone, ".1f"))
        for step, run in done.items()
    ]
    yield table(("MRPC, BERT-base's shape", "seconds", "times one seed"), rows)


def _growth(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    rows = [
        (p["series"], str(p[p["series"]]), f"{p['seconds']:.1f}", f"{p['cpu_seconds']:.1f}")
        for p in done.values()
    ]
    yield table(("series", "", "seconds", "of processor"), rows)


def _scores(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    """Each metric's mean and deviation on both devices, and whether they are within the margin."""
    rows, every = [], list[float]()
    for task in dict.fromkeys(step.rpartition(" ")[0] for step in done):
        sides = [done.get(f"{task} {side}") for side in ("device", "CPU")]
        if None in sides:
            continue
        here, there = (side["scores"] for side in sides if side)
        workload = find_workload(task)
        factor = 1 if workload.head == "span" else 100
        for number_, metric in enumerate(here[0]):
            a, b = ([factor * seed[metric] for seed in scores] for scores in (here, there))
            apart = [x - y for x, y in zip(a, b, strict=True)]
            every += apart if number_ == 0 else []
            rows.append((workload.name, metric, _spread(a), _spread(b), *_same(apart)))
    if rows:
        rows.append(("all tasks", "the first of each", DASH, DASH, *_same(every)))
        yield table(
            ("task", "metric", "device", "CPU", "apart", f"within {MARGIN:g} point (TOST)"), rows
        )


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.1f} ± {stdev(values):.1f}"


def _same(apart: Sequence[float]) -> tuple[str, str]:
    p = two_one_sided(apart)
    return f"{mean(apart):+.2f}", f"{'yes' if p < LEVEL else 'not shown'} (p = {p:.3f})"


def two_one_sided(apart: Sequence[float], margin: float = MARGIN) -> float:
    """The p-value of Schuirmann's two one-sided t-tests on differences of pairs.

    A small one says that the mean lies within the margin to both sides.
    """
    from scipy.stats import ttest_1samp

    if stdev(apart) == 0.0:
        return 0.0 if abs(apart[0]) < margin else 1.0
    above = ttest_1samp(apart, -margin, alternative="greater").pvalue
    below = ttest_1samp(apart, margin, alternative="less").pvalue
    return float(max(above, below))


def _profile(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    if not done:
        return
    kinds = list(dict.fromkeys(kind for p in done.values() for kind in p["seconds"]))
    totals = {task: sum(p["seconds"].values()) for task, p in done.items()}
    kinds.sort(key=lambda kind: -sum(p["seconds"].get(kind, 0.0) for p in done.values()))
    rows: list[Sequence[str]] = [
        (kind, *(f"{p['seconds'].get(kind, 0.0) / totals[task]:.0%}" for task, p in done.items()))
        for kind in kinds
    ]
    rows += [
        (f"{count} a step", *(f"{p[count] / p['steps']:.1f}" for p in done.values()))
        for count in ("launches", "waits")
    ]
    yield table(("share of the time on the device", *done), rows)


def _kills(_record: Record, done: Steps) -> Iterator[Sequence[str]]:
    plain, asked, killed = (done.get(name) for name in ("as it is", "deterministic", "killed"))
    if plain and asked:
        cost = asked["seconds"] / plain["seconds"]
        yield [f"With `--set deterministic=true` a whole command takes {cost:.2f} times as long."]
    if asked and killed:
        same = {**asked["found"], "resumed": 0} == {**killed["found"], "resumed": 0}
        ending = "with the same bits" if same else "**otherwise**"
        often = f"Killed {killed['kills']} times and resumed {killed['found']['resumed']} times"
        yield [f"{often}, it ended {ending}: scores, losses and predictions."]


_BLOCKS: Mapping[str, Any] = {
    "smoke": ("The machine", _smoke),
    "tests": ("Tests", _tests),
    "peer": ("Beside the Trainer", _peer),
    "together": ("Five seeds", _together),
    "growth": ("How cost grows", _growth),
    "scores": ("Scores beside a CPU's", _scores),
    "profile": ("Where the time goes", _profile),
    "kills": ("Killed and resumed", _kills),
}
