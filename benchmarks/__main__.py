"""Compare the speed of benchharness and transformers' Trainer, which run in turn, as processes.

    python -m benchmarks --model CHECKPOINT --data FOLDER

Each round has its own seed, and runs benchharness, the Trainer with its best flags, and the Trainer
with its example script's defaults, on the same files. With `--seeds 3` a round has three seeds:
benchharness trains them in one command, and the Trainer trains each in its own process. The record
is written after every run, so an interruption loses no finished run.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Comparison
from benchmarks.record import begin, write
from benchmarks.sample import draw_sample
from benchmarks.sides import SIDES, USUAL, Run, machine, measure_peak
from benchmarks.workloads import WORKLOADS, Workload


def main() -> None:
    options = _parse()
    record = begin(options.model, options.note)
    chosen = _chosen(options)
    record |= {
        "machine": machine(),
        "peak_gflops": [measure_peak()],
        "workloads": [{**asdict(workload), "runs": []} for workload in chosen],
    }
    with TemporaryDirectory(prefix="benchmark-") as folder:
        samples = [draw_sample(w, options.data, Path(folder) / w.name) for w in chosen]
        for number in range(1, options.rounds + 1):
            last = number * options.seeds
            seeds = range(last - options.seeds + 1, last + 1)
            for workload, data, entry in zip(chosen, samples, record["workloads"], strict=True):
                for side in _turns(options, number):
                    run = SIDES[side](workload, options.model, data, seeds)
                    entry["runs"].append(asdict(run))
                    write(options.out, record)
                    _tell(workload, run)
                print(Comparison.of(entry, record).sentence(), flush=True)
            record["peak_gflops"].append(measure_peak())
            write(options.out, record)


def _turns(options: argparse.Namespace, number: int) -> Sequence[str]:
    """Return the sides of a round; the slowest side may be left out of later rounds."""
    sides = options.side or USUAL
    if options.default_rounds is None or number <= options.default_rounds:
        return tuple(sides)
    return [side for side in sides if side != "default"]


def _tell(workload: Workload, run: Run) -> None:
    print(
        f"  {workload.name}, {run.side}, seeds {list(run.seeds)}: {run.seconds:.1f} s, "
        f"{run.cpu_seconds:.1f} s of processor, {run.peak_bytes / 1e6:.0f} MB, {run.scores}",
        flush=True,
    )


def _chosen(options: argparse.Namespace) -> Sequence[Workload]:
    """Return the requested workloads, with the requested number of rows."""
    chosen = [w for w in WORKLOADS if not options.task or w.task in options.task]
    if options.limit is None:
        return chosen
    dev_rows = max(1, options.limit // 4)
    return [replace(w, train_rows=options.limit, dev_rows=dev_rows) for w in chosen]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the encoder's checkpoint")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="folder with glue/, squad-by-article/ and race-by-passage/",
    )
    parser.add_argument("--task", action="append", choices=[w.task for w in WORKLOADS])
    parser.add_argument(
        "--side",
        action="append",
        choices=list(SIDES),
        help=f"program to measure: benchharness (ours), or the Trainer with a set of flags "
        f"(repeatable; default: {', '.join(USUAL)})",
    )
    parser.add_argument("--limit", type=int, help="train rows per task; dev gets a quarter of it")
    parser.add_argument(
        "--rounds", type=int, default=2, help="times to measure each side, with new seeds each time"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="seeds per round; benchharness trains all of them in one command",
    )
    parser.add_argument(
        "--default-rounds",
        type=int,
        help="rounds that include the side `default`, which is slow (default: all rounds)",
    )
    parser.add_argument("--out", default="speed", help="name of the record in benchmarks/results")
    parser.add_argument("--note", default="", help="a remark to print below the tables")
    return parser.parse_args()


if __name__ == "__main__":
    main()
