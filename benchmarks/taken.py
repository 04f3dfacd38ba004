"""Compare predictions of exported models by transformers, ONNX and int8 with the stored ones.

    python -m benchmarks.taken --model CHECKPOINT --data FOLDER

For each workload of `benchmarks.equivalence` one run in fp32 is kept and exported, and its
predictions of all dev rows are compared with the stored ones. Needs the extra "onnx". The table
goes into docs/taking.md.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers

import benchharness as bh
from benchharness.extensions.kept_models.export import find_run, take_run
from benchharness.extensions.kept_models.measure import Check, check_folder_with
from benchharness.extensions.kept_models.onnx_files import export
from benchharness.leaderboard.store.store import open_store
from benchmarks.derived import FILES as DERIVED
from benchmarks.derived import write as write_derived
from benchmarks.equivalence import WORKLOADS
from benchmarks.markdown import number, table
from benchmarks.record import ROOT, begin, load, write
from benchmarks.sample import draw_sample
from benchmarks.sides import machine
from benchmarks.tost import ALL
from benchmarks.workloads import Workload

PAGE = ROOT / "docs" / "taking.md"
COLUMNS = (
    "rows of", "", "file", "score", "other answers", "p change", "time", "size", "verdict",
)  # fmt: skip
BEGIN, END = "<!-- measured by benchmarks/taken.py -->\n", "<!-- end -->\n"


def _files(workload: Workload, data: Path, folder: Path) -> None:
    """Write the training rows of a workload and all its dev rows."""
    if (suite := workload.task.partition("/")[0]) in DERIVED:
        for split, rows in (("train", workload.train_rows), ("dev", workload.dev_rows)):
            write_derived(suite, data, split, rows, folder)
    else:
        draw_sample(workload, data, folder)


def measure(workload: Workload, model: str, data: Path, folder: Path) -> dict[str, Any]:
    """Train and export a model; return how well each file reproduces the stored predictions."""
    _files(workload, data, folder / "data")
    db = str(folder / "results.sqlite")
    run = bh.run(
        model,
        task=workload.task,
        data=str(folder / "data"),
        seeds=[1],
        set={**asdict(workload.values), "evaluations": 1},
        precision="fp32",
        baselines=False,
        keep_models=True,
        jobs=1,
        db=db,
    )
    assert not run.failures, run.failures
    with open_store(db, create=False) as store:
        found = find_run(store, db, run.keys[0])
        (taken,) = take_run(found, folder / "taken")
    export(taken.folder, int8=True)
    checks = check_folder_with(taken.folder, data=str(folder / "data"))
    return {
        "task": workload.name,
        "setup": asdict(workload),
        "rows": taken.checked.rows,
        "score": checks[0].scores[0],
        "taken": asdict(taken.checked),
        "files": {each.variant: _facts(each) for each in checks},
    }


def _facts(check: Check) -> dict[str, Any]:
    return {
        "differ": check.differ,
        "change": check.change,
        "score": check.scores[1],
        "told": check.verdict.told,
        "lost": check.verdict.lost,
        "gained": check.verdict.gained,
        "high": check.verdict.interval.high,
        "time": check.time,
        "size": check.costs[1].bytes / check.costs[0].bytes,
        "sentence": check.sentence,
    }


def _lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    for run in runs:
        found = [("transformers", run["taken"]), *run["files"].items()]
        for place, (name, file) in enumerate(found):
            told = [run["task"], str(run["rows"])] if place == 0 else ["", ""]
            score = run["score"] if place == 0 else file["score"]
            change = file["largest_change" if place == 0 else "change"]
            yield [
                *told,
                name,
                number(100 * score, ".2f"),
                str(file["differ"]),
                number(change, ".1g"),
                number(file.get("time"), ".2f"),
                number(file.get("size"), ".2f"),
                file.get("told", ""),
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the encoder's checkpoint")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with glue/ and squad-by-article/"
    )
    parser.add_argument(
        "--task", action="append", help="task to measure again (repeatable; default: all)"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    known = {run["task"]: run for run in (load("taken") or {"runs": []})["runs"]}
    for workload in WORKLOADS:
        if options.task and workload.name not in options.task:
            continue
        with TemporaryDirectory(prefix="taken-") as name:
            whole = replace(workload, dev_rows=ALL)
            known[workload.name] = measure(whole, options.model, options.data, Path(name))
        runs = [known[each.name] for each in WORKLOADS if each.name in known]
        write("taken", begin(options.model, "") | {"machine": machine(), "runs": runs})
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = table(COLUMNS, _lines(runs))
    PAGE.write_text(before + BEGIN + "\n".join(["", *lines, "", END]) + rest.partition(END)[2])


if __name__ == "__main__":
    main()
