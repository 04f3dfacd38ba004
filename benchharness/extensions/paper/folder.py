"""Build a paper's tables from stored runs, and write them to a folder."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

from benchharness.errors import BenchError
from benchharness.extensions.exports.table import SCORE, Choice
from benchharness.extensions.paper.tables import LongTable, Paper, PaperTable, paper_tables
from benchharness.extensions.plots.chart import named_entries
from benchharness.extensions.plots.cost import facts_of, size_of_run, training_flops
from benchharness.extensions.plots.tradeoff import CROSSES, measured_points, tradeoffs
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.job import Job, shown_source, value_text
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, counted, grouped, whole_file
from benchharness.stored import Rows, gained, read_outcomes
from benchharness.stored.predictions import add_uncertainty, contrasts_of, ties_of
from benchharness.stored.report import known_sizes
from benchharness.tasks.suites import SUITES, split_title, title_of

Results = Mapping[str, Result]
"""Finished runs, keyed by run key."""

_RECIPES = {"Model": 0.15, "Setting": 0.16, "Value": 0.12, "Tasks": 0.27, "Source": 0.3}
_COSTS = {"Model": 0.24, "Suite": 0.13, "Seeds": 0.1, "Precision": 0.11, "Runs": 0.07}
_COSTS |= {"Device-hours": 0.1, "FLOP": 0.1, "Device": 0.15}
_DATA = {"Split": 0.4, "Rows": 0.15, "Fingerprint": 0.45}
_PUBLISHED = {"Model": 0.2, "Task": 0.14, "Published": 0.1, "Measured": 0.1, "Noise": 0.08}
_PUBLISHED |= {"Verdict": 0.15, "Source": 0.23}
"""Columns of the tables in the appendix, each with its share of the line width."""

_LEAST_HOURS = 0.001  # a smaller number of device-hours is not printed as such


def make_paper(
    store: Store,
    jobs: Sequence[Job],
    suites: Sequence[str],
    left_out: Mapping[str, str],
    folder: Path,
) -> list[str]:
    """Write the LaTeX files of a paper to a folder, from the stored runs of its jobs.

    Args:
        store: The store that contains the runs.
        jobs: The jobs of the paper. The model of the first job is compared with all others. To
            compute confidence intervals and tests, the examples are read from the data source of
            the first job.
        suites: The suites that get tables.
        left_out: The reasons why tasks have no jobs, keyed by task.
        folder: The folder to write.

    Returns:
        Notes for the user, such as reasons why a test is missing.

    Raises:
        BenchError: No job has finished (the folder is then left unchanged), or the folder cannot be
            written.
    """
    check_paper(folder)
    rows = store.runs_with(job.key for job in jobs)
    finished = [row.key for row in rows if row.status == "finished"]
    if not finished:
        raise BenchError(
            f"none of the {counted(len(jobs), 'run')} of this paper has finished, so no tables "
            "were written: list the runs with `bench show runs`, or increase --hours."
        )
    here = store.reading_from(jobs[0].data)
    boards = [board for name in suites for board in build_boards(rows, SUITES[name])]
    boards = [board for board in boards if any(entry.cells for entry in board.entries)]
    boards = [add_uncertainty(board, here) for board in gained(boards, here)]
    ties, notes = ties_of(here, boards)
    said = dict.fromkeys(note.removeprefix("--ties: ") for note in notes)
    mine = next((row.model for row in rows if row.weights == jobs[0].weights), jobs[0].model)
    choice = Choice(intervals=True, ties=ties, other=mine)
    tables = paper_tables(
        (board, replace(choice, apart=_apart(here, board, mine, said))) for board in boards
    )
    results = {r.job.key: r for r in read_outcomes(here, finished) if isinstance(r, Result)}
    if find_spec("matplotlib") is None:
        said["no figures were drawn: run pip install 'benchharness[paper]' first."] = None
    lacking = _unfinished(jobs, results)
    paper = Paper(
        models=[mine, *sorted({row.model for row in rows} - {mine})],
        tables=tables,
        appendix=[
            LongTable("Hyperparameters", _RECIPES, list(_recipes(tables, results))),
            LongTable("Seeds and compute", _COSTS, list(_costs(tables, results))),
            LongTable("Data", _DATA, sorted({*_data(results)})),
            LongTable("Comparison with published numbers", _PUBLISHED, list(_published(tables))),
        ],
        figures=dict(_figures(tables, results)) if find_spec("matplotlib") else {},
        missing=[*(f"{task}: {why}." for task, why in left_out.items()), *lacking],
    )
    _write(folder, paper.files())
    return list(said)


def _apart(
    store: Store, board: Board, mine: str, said: dict[str, None]
) -> dict[str, frozenset[str]]:
    """Return the labels of the entries that differ significantly from the model `mine`.

    They are keyed by task, or by SCORE for the suite's score.
    """
    ours = [entry for entry in board.entries if entry.model == mine]
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in ((a, b) for a in ours for b in board.entries if b not in ours):
        rows = Rows(board, (one, other), tuple(t for t in one.cells if t in other.cells))
        try:
            contrasts = contrasts_of(store, rows, "dev", with_slices=False)
        except BenchError as error:
            said[str(error)] = None
            continue
        for each in contrasts:
            found[each.task] |= {full_label(other)} if each.is_shown else set()
        sure = one.uncertainty
        if sure and sure.ranks and other.rank is not None and other.name not in sure.tied:
            found[SCORE].add(full_label(other))
    return {name: frozenset(labels) for name, labels in found.items()}


def _recipes(tables: Sequence[PaperTable], results: Results) -> Iterator[list[str]]:
    """Yield one table row per model, setting and value, with the tasks and the value's source."""
    known: dict[tuple[str, str, str, str], dict[str, None]] = {}
    every: dict[str, dict[str, None]] = {}
    for name, entry in (row for table in tables for row in table.rows):
        for job in (results[run.key].job for run in entry.runs if run.key in results):
            settings = {} if job.kind == "baseline" else job.settings
            every.setdefault(name, {})[job.title] = None
            for setting, each in settings.items():
                key = name, setting, value_text(each.value), shown_source(each.source, each.one_of)
                known.setdefault(key, {})[job.title] = None
    for (name, setting, value, source), tasks in sorted(known.items()):
        shown = "all" if tasks.keys() == every[name].keys() else ", ".join(tasks)
        yield [name, setting.replace("_", " "), value, shown, source]


def _costs(tables: Sequence[PaperTable], results: Results) -> Iterator[list[str]]:
    """Yield the seeds and the compute of the runs behind each row of the tables."""
    sizes = known_sizes()
    for title, name, entry in ((t.board.title, *row) for t in tables for row in t.rows):
        runs = [results[run.key] for run in entry.runs if run.key in results]
        facts = [facts_of(run) for run in runs]
        flops = [
            training_flops(size_of_run(entry.model, f, sizes), f) if f else None for f in facts
        ]
        count = (run.provenance.get("machine", {}).get("processes", 1) for run in runs)
        hours = sum(n * run.cost.seconds / 3600 for n, run in zip(count, runs, strict=True))
        seeds = ", ".join(map(str, sorted({run.job.seed for run in runs if entry.is_single})))
        digits, _, exponent = f"{sum(filter(None, flops)):.1e}".partition("e")
        power = rf"${digits}\cdot10^{{{int(exponent)}}}$" if all(flops) else "unknown"
        if entry.kind == "baseline":  # it has no seeds and no network
            seeds = power = "none"
        devices = "; ".join(sorted({f.machine for f in facts if f}))
        said = f"{hours:.3g}" if hours >= _LEAST_HOURS else f"below {_LEAST_HOURS:g}"
        yield [name, title, seeds, entry.precision, str(len(runs)), said, power, devices]


def _data(results: Results) -> Iterator[tuple[str, str, str]]:
    """Yield the title, number of rows and digest of each split that the runs used."""
    for result in results.values():
        rows = result.provenance.get("data", {})
        for name, digest in result.job.fingerprints.items():
            count = str(rows.get(name, {}).get("rows", ""))
            yield split_title(*name.rsplit(":", 1)), count, digest[:32]


def _published(tables: Sequence[PaperTable]) -> Iterator[list[str]]:
    for board, name, entry in ((t.board, *row) for t in tables for row in t.rows):
        for each in reproductions(board, entry):
            noise = "" if each.noise is None else f"{each.noise:.1f}"
            verdict = ": ".join(filter(None, (each.verdict, each.reason)))
            said = (each.theirs.printed, each.text, noise, verdict)
            yield [name, title_of(each.task), *said, f"{each.row.source}, {each.row.place}"]


def _unfinished(jobs: Sequence[Job], results: Results) -> Iterator[str]:
    found = grouped(((j.model, j.title), j.seed) for j in jobs if j.key not in results)
    for (model, title), seeds in found.items():
        yield f"{model} {title}: no result for seed {', '.join(map(str, seeds))}."


def _figures(tables: Sequence[PaperTable], results: Results) -> Iterator[tuple[str, bytes]]:
    """Yield a caption and a PDF file for each figure of scores against model size or FLOP."""
    to_pdf = resolve_name("benchharness.extensions.plots.pdf:to_pdf")
    facts = {key: f for key, result in results.items() if (f := facts_of(result))}
    for board in (table.board for table in tables):
        points = [
            # The training time depends on other programs on the machine, so it is not drawn. The
            # appendix contains it.
            replace(p, costs={name: c for name, c in p.costs.items() if name != "training-time"})
            for p in measured_points(
                named_entries(board, ""), board.rule, None, facts, known_sizes()
            )
        ]
        for figure in tradeoffs(points, board.title):
            has_crosses = any("crosses" in mark.paths for mark in figure.marks)
            note = f". {CROSSES.removesuffix('.')}" if has_crosses else ""
            yield figure.title + note, to_pdf(figure)


# Check and write the folder.

MANIFEST = "manifest.json"
"""Name of the file with the current and the previous digest of each other file. The digests show
whether the user has edited a file."""


def check_paper(folder: Path) -> None:
    """Raise BenchError if the folder of a paper cannot be written.

    BenchError is also raised if the folder contains files (other than hidden ones) but no valid
    manifest of `bench paper`, or if a file that `bench paper` wrote was edited afterwards.
    """
    try:
        check_place(folder / MANIFEST)
        found = folder.iterdir() if folder.exists() else ()
        # Ignore hidden files: they are unfinished files of a command that was killed.
        there = {path.name for path in found if not path.name.startswith(".")}
    except OSError as error:
        raise _unwritable(folder, error) from error
    known = _known(folder)
    if there and not known:
        raise BenchError(
            f"{folder} is not empty, and `bench paper` did not create it: pass another --to."
        )
    for name in sorted(there & known.keys()):
        if sha256((folder / name).read_bytes()).hexdigest() not in known[name]:
            raise BenchError(
                f"{folder / name} was edited after `bench paper` wrote it: rename the file, or "
                "pass another --to."
            )


def _unwritable(folder: Path, error: OSError) -> BenchError:
    return BenchError(f"{folder} cannot be written ({error.strerror or error}): pass another --to.")


def _known(folder: Path) -> dict[str, list[str]]:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["paper"]
        return {str(name): list(map(str, digests)) for name, digests in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write each file atomically, and delete files of an earlier paper that are not needed now."""
    old = _known(folder)
    digests = {name: sha256(content).hexdigest() for name, content in files.items()}
    known = {name: list(dict.fromkeys((*old.get(name, ())[-1:], d))) for name, d in digests.items()}
    manifest = json.dumps({"paper": known}, indent=1).encode()
    try:
        for name in old.keys() - files.keys():
            (folder / name).unlink(missing_ok=True)
        for name, content in {MANIFEST: manifest, **files}.items():
            for draft in folder.glob(f".{name}.*"):
                draft.unlink(missing_ok=True)
            with whole_file(folder / name) as file:
                file.write(content)
    except OSError as error:
        raise _unwritable(folder, error) from error
