"""Write the tables and the figure of docs/performance.md from the existing records.

    python -m benchmarks.tables

Each table is between two comments with its name; the rest of the page is unchanged.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from benchmarks.figures import Comparison, comparisons, floor_seconds, mean_ratio
from benchmarks.gpu_tables import PIECES, gpu_page
from benchmarks.growth_figure import growth_figure
from benchmarks.markdown import DASH, number, table
from benchmarks.record import RESULTS, ROOT, load

__all__ = ["BLOCKS", "MISSING", "PAGE", "RECORDS", "RESULTS", "fill"]

PAGE = ROOT / "docs" / "performance.md"
FIGURE = ROOT / "docs" / "growth.svg"
MISSING = "Not measured yet."
GPU = "gpu"
"""Name of the folder with the records of benchmarks/gpu.py, and of their block on the page."""

RECORDS = ("speed", "seeds", "growth", "profile", GPU)

Record = Mapping[str, Any]


def main() -> None:
    records = {name: load(name) for name in RECORDS if name != GPU}
    records[GPU] = {piece: load(piece, RESULTS / GPU) for piece in PIECES}
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), records), encoding="utf-8")
    if growth := records["growth"]:
        FIGURE.write_text(growth_figure(growth["points"]), encoding="utf-8")


def fill(page: str, records: Mapping[str, Record | None]) -> str:
    """Return the page with the content of every block replaced by new tables."""
    for name, (sources, make) in BLOCKS.items():
        found = [record for source in sources if (record := records[source]) is not None]
        text = "\n".join(make(*found)) if len(found) == len(sources) else MISSING
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"docs/performance.md must have one block {begin.strip()}")
        page = pattern.sub(lambda _, new=begin + text + end: new, page)
    return page


def _conditions(record: Record) -> Iterable[str]:
    machine, model = record["machine"], record["model"]
    peaks = {n: max(p[n] for p in record["peak_gflops"]) for n in ("fp32", "bf16")}
    units = ", ".join(machine["matrix_units"]) or "no matrix units"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield (
        f"Measured {record['measured'][:10]} at commit {record['commit']}: {machine['cores']} "
        f"cores of {machine['processor']} ({units}), threads: {machine['threads']}; {versions}; "
        f"{model['model_type']}, {model['num_hidden_layers']} layers of {model['hidden_size']}."
    )
    yield (
        f"Matrix products reach {peaks['fp32']:.0f} GFLOP/s in fp32 and {peaks['bf16']:.0f} in "
        f"bf16, {peaks['bf16'] / peaks['fp32']:.1f} times as many."
    )
    if record["note"]:
        yield f"**{record['note']}**"


def _speed(record: Record) -> Iterable[str]:
    """Return a table with the seconds of whole processes, and ratios of wall-clock and CPU time."""
    found = comparisons(record)
    head = (
        "task, train rows",
        "runs",
        "seconds: ours, best, shipped",
        "times faster than best (processor)",
        "than shipped (processor)",
    )
    rows = [
        (
            f"{c.name}, {c.entry['train_rows']:,}",
            str(len(c.runs["ours"])),
            ", ".join(number(c.middle(side, "seconds"), ".1f") for side in SIDES),
            *(
                f"{number(c.ratio(side), '.1f')} ({number(c.ratio(side, 'cpu_seconds'), '.1f')})"
                for side in PEERS
            ),
        )
        for c in found
    ]
    means = [number(mean_ratio(_glue(found), side), ".1f") for side in PEERS]
    return [*table(head, rows), "", f"Geometric mean of GLUE's tasks: {means[0]} and {means[1]}."]


SIDES, PEERS = ("ours", "best", "default"), ("best", "default")


def _glue(found: Sequence[Comparison]) -> list[Comparison]:
    return [c for c in found if c.entry["task"].startswith("glue/")]


def _scores(record: Record) -> Iterable[str]:
    """Return a table with the dev scores of each seed."""
    return table(
        ("task", "metric", "ours", "best flags", "as shipped"),
        [
            (c.name, metric, *(_by_seed(c, side, metric) for side in SIDES))
            for c in comparisons(record)
            for metric in c.runs["ours"][0]["scores"][0]
        ],
    )


def _by_seed(comparison: Comparison, side: str, metric: str) -> str:
    """Return the scores of all seeds in percent; scores of spans are percentages already."""
    runs = comparison.runs.get(side, ())
    scores = [of_seed.get(metric) for run in runs for of_seed in run["scores"]]
    factor = 1 if comparison.entry["head"] == "span" else 100
    return " ".join(DASH if s is None else f"{s * factor:.1f}" for s in scores) or DASH


def _work(record: Record) -> Iterable[str]:
    """Return a table with training speed, share of the matrix peak, memory and bounds."""
    head = (
        "task",
        "real tokens/s in training: ours, best, shipped",
        "share of the matrix peak",
        "peak memory, MB",
        "training: ours, at the peak, s",
        "bound on the ratio to best",
    )
    return table(head, map(_work_row, comparisons(record)))


def _work_row(c: Comparison) -> Sequence[str]:
    seconds = {side: c.middle(side, "train_seconds") for side in SIDES}
    memory = {side: c.middle(side, "peak_bytes") for side in SIDES}
    floor = floor_seconds(c)
    bound = seconds["best"] and floor and seconds["best"] / floor
    return (
        c.name,
        ", ".join(number(s and c.tokens / s, ",.0f") for s in seconds.values()),
        ", ".join(number(c.share_of_peak(side), ".0%") for side in SIDES),
        ", ".join(number(m and m / 1e6, ",.0f") for m in memory.values()),
        f"{number(seconds['ours'], '.1f')}, {number(floor, '.1f')}",
        number(bound, ".1f"),
    )


def _growth(record: Record) -> Iterable[str]:
    """Yield the lines of a table with the seconds and memory of each series."""
    series = groupby(record["points"], lambda point: (point["series"], point["side"]))
    rows = []
    for (name, side), found in series:
        points = list(found)
        columns = (
            [f"{point[name]:,}" for point in points],
            [f"{point['seconds']:.1f}" for point in points],
            [f"{point['cpu_seconds']:.1f}" for point in points],
            [f"{point['peak_bytes'] / 1e6:,.0f}" for point in points],
        )
        rows.append((f"{name} ({side})", *("; ".join(column) for column in columns)))
    yield from table(("series", "values", "seconds", "of processor", "peak memory, MB"), rows)
    if record["note"]:
        yield f"\n**{record['note']}**"


MOST_KINDS = 6
"""Number of kinds of operations that the page lists, those with the most time first."""


def _profile(record: Record) -> Iterable[str]:
    """Yield the lines of a table with the share of time of each kind of operation."""
    profiles = record["profiles"]
    kinds = list(dict.fromkeys(kind for p in profiles.values() for kind in p["seconds"]))
    totals = {task: sum(p["seconds"].values()) for task, p in profiles.items()}
    kinds.sort(key=lambda kind: -sum(p["seconds"].get(kind, 0.0) for p in profiles.values()))
    rows = [
        (kind, *(f"{p['seconds'].get(kind, 0.0) / totals[t]:.0%}" for t, p in profiles.items()))
        for kind in kinds
    ]
    yield from table(("share of training and predicting", *profiles), rows[:MOST_KINDS])
    if record["note"]:
        yield f"\n**{record['note']}**"


BLOCKS: Mapping[str, tuple[Sequence[str], Callable[..., Iterable[str]]]] = {
    GPU: ((GPU,), partial(gpu_page, trial=False)),
    "conditions": (("speed",), _conditions),
    "speed": (("speed",), _speed),
    "several seeds": (("seeds",), _speed),
    "scores": (("seeds",), _scores),
    "work": (("speed",), _work),
    "profile": (("profile",), _profile),
    "growth": (("growth",), _growth),
}
"""Blocks of the page, each with the records that it needs and the function that makes it."""


if __name__ == "__main__":
    main()
