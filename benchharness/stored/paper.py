"""A paper's tables out of stored runs, and the folder that they are written into."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.exports.paper import LongTable, Paper, PaperTable, paper_tables
from benchharness.leaderboard.exports.table import SCORE, Choice
from benchharness.leaderboard.job import Job, value_text
from benchharness.leaderboard.report.plots import named_entries
from benchharness.leaderboard.report.plots.cost import facts_of, size_of_run, training_flops
from benchharness.leaderboard.report.plots.tradeoff import measured_points, tradeoffs
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, counted, whole_file
from benchharness.stored import Rows, gained
from benchharness.stored.predictions import add_uncertainty, contrasts_of, ties_of
from benchharness.stored.report import known_sizes
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import SUITES, distinct_title, split_title, title_of

MANIFEST = "manifest.json"
"""The digests of each file as it was before and as it is: what somebody has changed stays."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a paper is of: jobs, the suites in their order, and where the rows are on this machine.

    `mine` are the weights of the model that the others stand against; `left_out` says why tasks
    have no jobs.
    """

    jobs: Sequence[Job]
    suites: Sequence[str]
    data: str
    mine: str
    left_out: Mapping[str, str] = field(default_factory=dict)


def make_paper(store: Store, planned: Planned, folder: Path) -> list[str]:
    """Writes the folder; gives what is to be said of it.

    Examples are read for intervals and tests. Raises BenchError, and leaves the folder as it is,
    where no job has finished or the folder is none of ours.
    """
    check_paper(folder)
    rows = store.runs_with(job.key for job in planned.jobs)
    if not any(row.status == "finished" for row in rows):
        raise BenchError(
            f"none of the {counted(len(planned.jobs), 'run')} of this paper has finished, and a "
            "table without numbers is not written: run the same command without --dry-run, or with "
            "more --hours."
        )
    here = store.reading_from(planned.data)
    boards = [board for name in planned.suites for board in build_boards(rows, SUITES[name])]
    boards = [board for board in boards if any(entry.cells for entry in board.entries)]
    boards = [add_uncertainty(board, here) for board in gained(boards, here)]
    ties, notes = ties_of(here, boards)
    names = [row.model for row in rows if row.weights == planned.mine]
    said = dict.fromkeys(note.removeprefix("--ties: ") for note in notes)
    choice = Choice(intervals=True, ties=ties, other=names[0] if names else "")
    tables = paper_tables(
        (board, replace(choice, apart=_apart(here, board, planned.mine, said))) for board in boards
    )
    results = {r.job.key: r for r in here.results(row.key for row in rows)}
    finished = {key: r for key, r in results.items() if isinstance(r, Result)}
    figures, lack = _figures(tables, finished)
    said |= dict.fromkeys(lack)
    paper = Paper(
        models=list(dict.fromkeys((*names[:1], *(job.model for job in planned.jobs)))),
        tables=tables,
        appendix=[
            LongTable(title, shares, list(rows))
            for title, shares, rows in (
                ("Hyperparameters", _OF_RECIPES, _recipes(tables, finished)),
                ("Seeds and compute", _OF_COSTS, _computed(tables, finished)),
                ("Data", _OF_DATA, sorted({*_data(finished.values())})),
                ("Beside published numbers", _OF_REPRODUCTIONS, _reproduced(tables)),
            )
        ],
        figures=figures,
        missing=list(_missing(planned, results)),
    )
    _write(folder, paper.files())
    return list(said)


def _apart(
    store: Store, board: Board, mine: str, said: dict[str, None]
) -> dict[str, frozenset[str]]:
    """By task and SCORE, the labels of the entries that a paired test tells from mine."""
    ours = [e for e in board.entries if any(run.weights == mine for run in e.runs)]
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in ((a, b) for a in ours for b in board.entries if b not in ours):
        tasks = tuple(t for t in board.tasks if t in one.cells and t in other.cells)
        try:
            contrasts = contrasts_of(
                store, Rows(board, (one, other), tasks), "dev", with_slices=False
            )
        except BenchError as error:
            said[str(error)] = None
            continue
        for each in contrasts:
            found[each.task] |= {full_label(other)} if each.is_shown else set()
        sure = one.uncertainty
        if sure and sure.ranks and other.rank is not None and other.name not in sure.tied:
            found[SCORE].add(full_label(other))
    return {name: frozenset(labels) for name, labels in found.items()}


# The appendix: the columns of its tables, with their shares of the line, and their rows.

_OF_RECIPES = {"Model": 0.15, "Setting": 0.16, "Value": 0.12, "Tasks": 0.27, "Source": 0.3}
_OF_COSTS = {"Model": 0.24, "Suite": 0.13, "Seeds": 0.1, "Precision": 0.11, "Runs": 0.07}
_OF_COSTS |= {"Device-hours": 0.1, "FLOP": 0.1, "Device": 0.15}
_OF_DATA = {"Split": 0.4, "Rows": 0.15, "Fingerprint": 0.45}
_OF_REPRODUCTIONS = {"Model": 0.2, "Task": 0.14, "Published": 0.1, "Ours": 0.08, "Noise": 0.08}
_OF_REPRODUCTIONS |= {"Verdict": 0.15, "Source": 0.25}


def _recipes(tables: Sequence[PaperTable], results: Mapping[str, Result]) -> Iterator[list[str]]:
    """Every value of the recipes, with the tasks that have it and its source."""
    known: dict[tuple[str, str, str, str], dict[str, dict[str, None]]] = {}
    every: dict[tuple[str, str], dict[str, None]] = {}
    for table, name, job in _jobs(tables, results):
        every.setdefault((name, table.board.title), {})[job.title] = None
        for setting, each in job.settings.items():
            # A source may be a place on the machine that made the run.
            source = each.source.rpartition("/")[2] if _is_place(each.source) else each.source
            suites = known.setdefault((name, setting, value_text(each.value), source), {})
            suites.setdefault(table.board.title, {})[job.title] = None
    for (name, setting, value, source), suites in sorted(known.items()):
        tasks = (
            suite if len(found) == len(every[name, suite]) else ", ".join(found)
            for suite, found in suites.items()
        )
        yield [name, setting.replace("_", " "), value, "; ".join(tasks), source]


def _jobs(
    tables: Sequence[PaperTable], results: Mapping[str, Result]
) -> Iterator[tuple[PaperTable, str, Job]]:
    """The jobs of encoders, with the table and the row that they stand in."""
    for table in tables:
        for name, entry in table.rows:
            jobs = (results[run.key].job for run in entry.runs if run.key in results)
            yield from ((table, name, job) for job in jobs if job.kind != "baseline")


def _is_place(source: str) -> bool:
    return source.startswith(("/", "~", "."))


def _computed(tables: Sequence[PaperTable], results: Mapping[str, Result]) -> Iterator[list[str]]:
    """What the runs of each row have taken, as far as the store knows it."""
    sizes = known_sizes()
    for table in tables:
        for name, entry in table.rows:
            runs = [results[run.key] for run in entry.runs if run.key in results]
            facts = [facts_of(run) for run in runs]
            flops = [f and training_flops(size_of_run(entry.model, f, sizes), f) for f in facts]
            machines = (run.provenance.get("machine", {}) for run in runs)
            hours = [
                run.cost.seconds / 3600 * int(machine.get("processes", 1))
                for run, machine in zip(runs, machines, strict=True)
            ]
            devices = {f.machine for f in facts if f and f.machine}
            yield [
                name,
                table.board.title,
                ", ".join(map(str, sorted({run.job.seed for run in runs}))),
                entry.precision,
                str(len(runs)),
                f"{sum(hours):.3g}",
                _power(sum(filter(None, flops))) if all(flops) else "not known",
                "; ".join(sorted(devices)) or "not known",
            ]


def _power(value: float) -> str:
    digits, _, exponent = f"{value:.1e}".partition("e")
    return rf"${digits}\cdot10^{{{int(exponent)}}}$"


def _data(results: Iterable[Result]) -> Iterator[tuple[str, str, str]]:
    """The splits of the runs, with their digests."""
    for result in results:
        rows = result.provenance.get("data", {})
        for name, digest in result.job.fingerprints.items():
            count = rows.get(name, {}).get("rows", "")
            yield split_title(*name.rsplit(":", 1)), f"{count:,}" if count else "", digest[:32]


def _reproduced(tables: Sequence[PaperTable]) -> Iterator[list[str]]:
    for table in tables:
        for name, entry in table.rows:
            for each in reproductions(table.board, entry):
                numbers = (each.ours, each.noise)
                ours, noise = ("" if n is None else f"{n:.1f}" for n in numbers)
                verdict = f"{each.verdict}: {each.reason}" if each.reason else each.verdict
                task, printed = title_of(each.task), each.theirs.printed
                source = f"{each.row.source}, {each.row.place}"
                yield [name, task, printed, ours, noise, verdict, source]


def _missing(planned: Planned, results: Mapping[str, Result | Failure]) -> Iterator[str]:
    """A sentence for each task without jobs, and for what has not finished."""
    yield from (f"{task}: {why}." for task, why in planned.left_out.items())
    lacking = defaultdict(list)
    for job in planned.jobs:
        found = results.get(job.key)
        if not isinstance(found, Result):
            how = found.kind if found else "not run"
            lacking[job.model, distinct_title(job.task), how].append(job.seed)
    for (model, task, how), seeds in sorted(lacking.items()):
        yield f"{model} {task}, seed {', '.join(map(str, sorted(seeds)))}: {how}."


# Figures.


def _figures(
    tables: Sequence[PaperTable], results: Mapping[str, Result]
) -> tuple[dict[str, bytes], list[str]]:
    """The suites' scores against sizes and operations, as PDF by caption; why there are none."""
    if find_spec("matplotlib") is None:
        return {}, ["no figures were drawn: pip install 'benchharness[paper]' draws them."]
    to_pdf = resolve_name("benchharness.leaderboard.report.plots.pdf:to_pdf")
    facts = {key: f for key, result in results.items() if (f := facts_of(result))}
    found = {}
    for table in tables:
        named = named_entries(table.board, "")
        points = [
            # What training took depends on what else ran there, and is in the appendix.
            replace(p, costs={name: c for name, c in p.costs.items() if name != "training-time"})
            for p in measured_points(named, table.board.rule, None, facts, known_sizes())
        ]
        for figure in tradeoffs(points, table.board.title):
            found[figure.title] = to_pdf(figure)
    return found, []


# The folder.


def check_paper(folder: Path) -> None:
    """BenchError where files cannot be written there, or somebody else's would be lost."""
    try:
        check_place(folder / MANIFEST)
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        reason = error.strerror or error
        raise BenchError(f"{folder} cannot be written ({reason}): give another --to.") from error
    known = _known(folder)
    if there and not known:
        raise BenchError(
            f"{folder} is not empty, and `bench paper` has not made it: give another --to."
        )
    for name in sorted(there & known.keys()):
        if sha256((folder / name).read_bytes()).hexdigest() not in known[name]:
            raise BenchError(
                f"{folder / name} was changed after `bench paper` had written it: give it another "
                "name, or give another --to."
            )


def _known(folder: Path) -> dict[str, list[str]]:
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["paper"]
        return {str(name): list(map(str, digests)) for name, digests in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes each file whole; those of an earlier paper that this one has not are deleted."""
    old = _known(folder)
    digests = {name: sha256(content).hexdigest() for name, content in files.items()}
    kept = {name: [*old.get(name, ())[-1:], digest] for name, digest in digests.items()}
    manifest = json.dumps({"paper": kept}, indent=1)
    try:
        for name, content in {MANIFEST: manifest.encode(), **files}.items():
            with whole_file(folder / name) as file:
                file.write(content)
        for name in old.keys() - files.keys():
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise BenchError(f"{folder} could not be written: {reason}. Give another --to.") from error
