"""Create the sections of a sheet that need no other extension."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, marked, note_lines, shown
from benchharness.leaderboard.boards.reproduction import made_by, reproductions
from benchharness.leaderboard.job import shown_source
from benchharness.leaderboard.result import Result, truncated_words
from benchharness.leaderboard.sharing import shared_outcome
from benchharness.leaderboard.statistics import Interval
from benchharness.splits import ChangedRowsError
from benchharness.stored import facts_of
from benchharness.stored.predictions import (
    UnreadableError,
    add_uncertainty,
    predicted_split,
    splits_of,
)
from benchharness.stored.sheet import Evidence, Line, Part, Subject, Table, parts_of
from benchharness.tasks.answers import answer_type
from benchharness.tasks.suites import distinct_title, find_task, split_title

ORDER = (
    "Score", "Calibration", "Robustness", "Groups", "Speed", "Variants", "Proof", "Data",
    "Recipe", "Needed labels",
)  # fmt: skip
"""Headings of the sections, in order. Sections with other headings come last."""

ABSENT = {
    "Calibration": "calibration was not measured, because its extension is not installed",
    "Robustness": "robustness was not measured: `bench robustness SYSTEM --sets all --perturb all` "
    "measures it, for models that were kept",
    "Groups": "groups were not measured, because their extension is not installed",
    "Variants": "smaller and faster variants (int8) were not checked: `bench model SYSTEM --to DIR "
    "--int8` writes and checks them, then `bench sheet DIR`",
}
"""Reasons why a section is missing if no extension has written it, keyed by heading."""


def sheet_of(subject: Subject) -> dict[str, Part]:
    """Return all sections of a sheet, in order, keyed by their headings."""
    made: dict[str, Callable[[Subject], Part]] = {
        "Score": score,
        "Speed": speed,
        "Proof": proof,
        "Data": data,
        "Recipe": recipe,
        "Needed labels": needed_labels,
    }
    found = {heading: make(subject) for heading, make in made.items()}
    found |= dict(parts_of(subject))
    found |= {each: Part(missing=(said,)) for each, said in ABSENT.items() if each not in found}
    order = {heading: number for number, heading in enumerate(ORDER)}
    return dict(sorted(found.items(), key=lambda pair: order.get(pair[0], len(ORDER))))


def _cells(subject: Subject) -> Iterator[tuple[str, Cell]]:
    yield from ((task, subject.entry.cells[task]) for task in subject.tasks)


def _evidence(subject: Subject) -> dict[str, Evidence]:
    """Return the rows of each task's first scored split, keyed by task."""
    found = {}
    for task in subject.tasks:
        split = splits_of(find_task(task), "dev")[0]
        if rows := evidence_of(subject, task, split):
            found[task] = rows
    return found


def evidence_of(subject: Subject, task: str, split: str) -> Evidence | None:
    """Return all rows of a split, from which scores are computed, and the wrong ones among them.

    A row is wrong if at least half of the runs answer it wrongly. Returns None if the rows or the
    predictions cannot be read.

    Args:
        subject: System with the runs.
        task: Name of the task.
        split: Name of the split.
    """
    results = [subject.stored.result(run.key) for run in subject.entry.cells[task].runs]
    try:
        predicted = predicted_split(subject.stored, find_task(task), split, results)
    except (UnreadableError, BenchError):
        return None
    judge = answer_type(predicted.task).is_right
    rows = zip(predicted.examples, *predicted.one, strict=True)
    shares = {row.id: fmean(judge(each, row) for each in found) for row, *found in rows}
    return Evidence(
        title=split_title(task, split),
        task=task,
        ids=tuple(shares),
        wrong=tuple(name for name, share in shares.items() if share <= 0.5),
        runs=tuple(result.job.key for result in results),
    )


def _ends(interval: Interval | None) -> str:
    return "" if interval is None else f"{shown(interval.low)} to {shown(interval.high)}"


def score(subject: Subject) -> Part:
    """Return the section about scores, with intervals and published scores."""
    board: Board = replace(subject.board, entries=(subject.entry,))
    (entry,) = add_uncertainty(board, subject.store).entries
    known = entry.uncertainty.cells if entry.uncertainty else {}
    lines, facts, evidence = [], {}, _evidence(subject)
    for task, cell in _cells(subject):
        ends = known[task].both if task in known else None
        cells = (
            distinct_title(task),
            cell.text,
            _ends(ends),
            ", ".join(f"{run.seed}: {shown(value)}" for run, value in _by_seed(cell)),
        )
        rows = task if task in evidence else ""
        lines.append(Line(cells=cells, evidence=rows, is_bad=bool(cell.notes)))
        facts[task] = {
            "median": cell.median,
            "low": ends and ends.low,
            "high": ends and ends.high,
            "seeds": {str(run.seed): value for run, value in _by_seed(cell)},
            "flags": list(cell.notes),
            "reason": known[task].reason if task in known else "",
        }
    columns = ("task", "median", "95 % interval", "seeds")
    tables = [Table(title="Scores", columns=columns, lines=tuple(lines))]
    published = [each for each in reproductions(subject.board, entry) if each.task in facts]
    if published:
        tables.append(_published(published))
    scores = [
        f"{line.cells[0]} {line.cells[1]}{f' ({line.cells[2]})' if line.cells[2] else ''}"
        for line in lines
    ]
    missing = [str(each["reason"]) for each in facts.values() if each["reason"]]
    missing += [] if published else [_unpublished(subject)]
    missing += [
        f"the rows of {distinct_title(task)} cannot be read, so its numbers link to no rows"
        for task in subject.tasks
        if task not in evidence
    ]
    noted = note_lines((distinct_title(task), cell.notes) for task, cell in _cells(subject))
    return Part(
        text=" ".join((f"{', '.join(scores)}.", *noted)),
        basis="Medians over seeds. Intervals are 95 %, over rows and seeds.",
        missing=missing,
        tables=tables,
        evidence=evidence,
        facts=facts,
    )


def _by_seed(cell: Cell) -> list[tuple[Any, float]]:
    return sorted(zip(cell.runs, cell.values, strict=True), key=lambda pair: pair[0].seed)


def _unpublished(subject: Subject) -> str:
    if not subject.board.is_whole:
        return (
            "published scores are not shown, because these runs are on "
            f"{subject.board.data_label}, not on the whole official data"
        )
    return "no published score of this model on these tasks is known"


def _published(found: Any) -> Table:
    lines = tuple(
        Line(
            cells=(
                distinct_title(each.task),
                " or ".join(each.theirs.scores),
                each.text or "–",
                each.theirs.printed,
                "–" if each.difference is None else f"{each.difference:+.1f}",
                f"{each.verdict}{f' ({each.reason})' if each.reason else ''}",
                f"{each.row.system}, {each.row.source}",
            ),
            evidence=each.task,
            is_bad=each.verdict == "below",
        )
        for each in found
    )
    columns = ("task", "score", "measured", "published", "difference", "verdict", "source")
    return Table(title="Published scores", columns=columns, lines=lines)


def _results(subject: Subject) -> Iterator[tuple[str, list[Result]]]:
    for task, cell in _cells(subject):
        yield task, [shared(subject.stored.result(run.key)) for run in cell.runs]


def shared(result: Result) -> Result:
    """Return a result without paths of this machine."""
    found = shared_outcome(result)
    assert isinstance(found, Result), "a result stays a result"
    return found


def speed(subject: Subject) -> Part:
    """Return the section about the duration and the memory of the runs."""
    lines, facts, machines = [], {}, dict[str, None]()
    for task, results in _results(subject):
        costs = [result.cost for result in results]
        # The prediction time includes the evaluations during training.
        facts[task] = {
            "parameters": costs[0].parameters,
            "train_seconds": median(cost.train_seconds for cost in costs),
            "predict_seconds": median(cost.predict_seconds for cost in costs),
            "train_examples_per_second": median(c.train_examples_per_second for c in costs),
            "peak_memory_bytes": max(cost.peak_memory_bytes for cost in costs),
        }
        cells = (
            distinct_title(task),
            f"{costs[0].parameters:,}",
            f"{facts[task]['train_seconds']:.0f}",
            f"{facts[task]['train_examples_per_second']:.0f}",
            f"{facts[task]['predict_seconds']:.1f}",
            f"{facts[task]['peak_memory_bytes'] / 1e6:,.0f}",
        )
        lines.append(Line(cells=cells, evidence=task))
        for result in results:
            machine = result.provenance.get("machine")
            said = machine if isinstance(machine, Mapping) else {}
            machines[str(said.get("gpu") or said.get("cpu") or "an unknown machine")] = None
    columns = (
        "task", "parameters", "training s", "training rows/s", "prediction s", "memory MB",
    )  # fmt: skip
    return Part(
        text=f"Measured on {', '.join(machines)}.",
        basis="Medians over seeds, from the records of the runs; the memory is the maximum. The "
        "prediction time includes all evaluations of a run.",
        missing=(
            "energy: `bench run --suite efficiency` measures it where the machine has a counter",
            "the time per row was not measured: `bench model DIR --check` measures it",
        ),
        tables=[Table(title="Time and memory", columns=columns, lines=tuple(lines))],
        facts=facts,
    )


def proof(subject: Subject) -> Part:
    """Return the section about parity certificates, and about facts such as reproductions."""
    lines, facts, missing = [], {}, []
    known = facts_of(subject.store, subject.entry.runs)
    for task, cell in _cells(subject):
        parity = subject.board.parity_of(cell.runs)
        every = [(run, name, fact) for run in cell.runs for name, fact in
                 known.get(run.key, {}).items()]  # fmt: skip
        said = [f"seed {run.seed}: {fact['text']}" for run, _, fact in every]
        facts[task] = {"parity": parity, **{f"{name} {r.key[:12]}": f for r, name, f in every}}
        lines.append(Line(cells=(distinct_title(task), parity or "none", "; ".join(said) or "–")))
        if not said:
            missing.append(f"{distinct_title(task)}: no run was repeated (`bench reproduce`)")
    columns = ("task", "equal to training with transformers", "repetitions")
    return Part(
        text="",
        basis=f"Parity certificate: {made_by()}.",
        missing=missing,
        tables=[Table(title="Proofs", columns=columns, lines=tuple(lines))],
        facts=facts,
    )


def data(subject: Subject) -> Part:
    """Return the section about the data: source, and the size and the digest of each split."""
    lines, facts = [], {}
    missing: list[str] = []
    for task, results in _results(subject):
        result = results[0]
        found = result.provenance.get("data")
        said = found if isinstance(found, Mapping) else {}
        for name, digest in result.job.fingerprints.items():
            facts[name] = dict(said.get(name) or {}) | {"fingerprint": digest}
            rows = facts[name].get("rows")
            more = ", ".join(
                f"{facts[name][word]:,} {text}"
                for word, text in _COUNTS.items()
                if facts[name].get(word)
            )
            cells = (
                split_title(*name.rsplit(":", 1)),
                "?" if rows is None else f"{rows:,}",
                digest[:12],
                more,
            )
            lines.append(Line(cells=cells, evidence=task))
        missing += _unreadable(subject, task)
    label = subject.board.data_label
    columns = ("rows", "number", "fingerprint", "notes")
    return Part(
        text=f"The runs used {label}.",
        basis=" ".join(truncated_words(subject.entry.runs)) or "No truncated rows were recorded.",
        missing=missing,
        tables=[Table(title="Data", columns=columns, lines=tuple(lines))],
        facts=facts,
    )


_COUNTS = {
    "left_out": "left out",
    "truncated": "truncated",
    "repeated": "repeated",
    "in_train": "also in train",
}


def _unreadable(subject: Subject, task: str) -> Iterator[str]:
    """Yield a sentence if the rows of a task have changed or can no longer be read."""
    result = subject.stored.result(subject.entry.cells[task].runs[0].key)
    try:
        subject.stored.rows(result.job, f"{task}:{splits_of(find_task(task), 'dev')[0]}")
    except ChangedRowsError as error:
        yield subject.stored.said_of(result.job, str(error))
    except BenchError as error:
        reason = subject.stored.said_of(result.job, str(error)).removesuffix(".")
        yield f"the rows of {distinct_title(task)} cannot be read: {reason}"


def recipe(subject: Subject) -> Part:
    """Return the section about the recipe: the value and the source of each hyperparameter."""
    tables, facts, weights = [], {}, ""
    for task, results in _results(subject):
        job = results[0].job
        weights = job.weights
        tables.append(
            Table(
                title=f"{distinct_title(task)}: recipe {job.recipe_label}, {job.precision}, seeds "
                f"{', '.join(str(result.job.seed) for result in results)}",
                columns=("setting", "value", "source"),
                lines=tuple(
                    Line(cells=(name, str(each.value), shown_source(each.source, each.one_of)))
                    for name, each in job.settings.items()
                ),
            )
        )
        facts[task] = {
            "recipe": job.recipe_label,
            "weights": job.weights,
            "settings": {name: each.value for name, each in job.settings.items()},
        }
    return Part(
        text=f"Weights {weights[:24]}.",
        basis="Jobs are described completely by these values and the fingerprints of the data.",
        tables=tables,
        facts=facts,
    )


STEPS = (0.05, 0.02, 0.01)
"""Half widths of a score's 95 % interval for which the number of dev rows is computed."""


def needed_labels(subject: Subject) -> Part:
    """Return the section about the number of labelled rows that are needed.

    For dev, it is the number with which the 95 % interval of a score has a given half width. For
    train, the scores of stored runs with fewer training rows (`--shots`) are shown.
    """
    lines, facts = [], {}
    for task, cell in _cells(subject):
        share = min(max(cell.median, 0.01), 0.99)
        needed = {reach: round(1.96**2 * share * (1 - share) / reach**2) for reach in STEPS}
        facts[task] = {f"{reach:g}": rows for reach, rows in needed.items()}
        cells = (distinct_title(task), *(f"{rows:,}" for rows in needed.values()))
        lines.append(Line(cells=cells, evidence=task))
    columns = ("task", *(f"for ± {100 * reach:g} points" for reach in STEPS))
    tables = [Table(title="Dev rows", columns=columns, lines=tuple(lines))]
    shots = _shots(subject)
    if shots:
        columns = ("task", "training rows", "median", "seeds")
        tables.append(Table(title="Fewer training rows", columns=columns, lines=tuple(shots)))
    missing = (
        "the score with fewer training rows: `bench run --shots 100` (and 300, 1000) shows whether "
        "more labels would help"
    )
    return Part(
        text="",
        basis="Dev rows: for a score that is a share of right rows, with one seed.",
        missing=[] if shots else [missing],
        tables=tables,
        facts=facts,
    )


def _shots(subject: Subject) -> list[Line]:
    found = []
    for entry in subject.board.entries:
        for task, cell in entry.cells.items():
            shots = cell.runs[0].settings.get("shots")
            is_ours = entry.model == subject.entry.model and task in subject.tasks
            if is_ours and shots is not None and shots.value:
                text = marked(shown(cell.median), cell.notes)
                cells = (distinct_title(task), f"{shots.value:,}", text, str(len(cell.runs)))
                found.append((task, int(shots.value), Line(cells=cells, evidence=task)))
    return [line for *_, line in sorted(found, key=lambda each: each[:2])]
