"""Output on stdout: plain data as JSON, as a table, or as an outline of names and values."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from benchharness.errors import BenchError, JobError, ModelError
from benchharness.leaderboard.boards.cell import note_lines
from benchharness.leaderboard.boards.published import PublishedRow, System, rows_of_model
from benchharness.leaderboard.boards.reproduction import made_by, parity_of
from benchharness.leaderboard.job import Setting, shown_source
from benchharness.leaderboard.result import (
    Failure,
    Reading,
    Result,
    RunRow,
    curve_flags,
    truncated_rows,
)
from benchharness.leaderboard.text import visible
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.recipe import shown_value
from benchharness.tasks.suite import Suite
from benchharness.tasks.suites import TASKS, distinct_title, find_suites, split_title, title_of
from benchharness.tasks.task import Task

PIPE_WIDTH = 100_000
"""Table width if there is no terminal: wide enough for one line per row."""


def tell_notes(sentences: Iterable[str]) -> None:
    """Print sentences for the user on stderr, in addition to the command's output."""
    for sentence in sentences:
        typer.echo(visible(f"bench: {sentence}"), err=True)


def tell_marks(noted: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Print the reasons for marked numbers, given the name and the notes of each number."""
    for line in note_lines(noted):
        typer.echo(visible(line))


@contextmanager
def writing(path: Path | str, advice: str = "Give another file.") -> Iterator[None]:
    """Turn an OSError within the block into a BenchError about the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise BenchError(f"{path} could not be written: {reason}. {advice}") from error


def print_json(data: object) -> None:
    """Print JSON; NaN is refused because JSON has none."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_json_lines(things: Iterable[object]) -> None:
    """Print a JSON array item by item, so that a very long one needs little memory."""
    before = "["
    for thing in things:
        # Indented by two blanks, as `json.dumps` would print it within a list.
        text = json.dumps(thing, indent=2, allow_nan=False).replace("\n", "\n  ")
        typer.echo(f"{before}\n  {text}", nl=False)
        before = ","
    typer.echo("[]" if before == "[" else "\n]")


def complaints(failures: Sequence[Failure], names: Mapping[str, str]) -> Iterator[str]:
    """Yield each distinct reason of failures, with the jobs that it stopped.

    A model's error comes without jobs, because it stops all of the model's jobs.
    """
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.error, []).append(failure)
    for reason, stopped in by_reason.items():
        if all(failure.exit_code == ModelError.exit_code for failure in stopped):
            yield reason
        else:
            yield f"{', '.join(names[failure.job.key] for failure in stopped)}: {reason}"


def exit_code(failures: Sequence[Failure]) -> int:
    """Return the exit code for these failures: 0 for none, 4 if only checkpoints failed, else 1."""
    if not failures:
        return 0
    only_models = all(failure.exit_code == ModelError.exit_code for failure in failures)
    return ModelError.exit_code if only_models else JobError.exit_code


def print_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str, *, in_parts: bool = False
) -> None:
    """Print the named columns of rows, or the sentence `empty` if there are no rows.

    With `in_parts`, columns that do not fit are printed in further tables, each with the first
    column. Otherwise cells are folded.
    """
    if not rows:
        typer.echo(empty)
        return
    from benchharness.cli.tables import parts_that_fit, print_cells  # noqa: PLC0415  (rich: --json needs none)

    numbers = [all(isinstance(row[c], int | float | None) for row in rows) for c in columns]
    cells = [[_text(row[column]) for column in columns] for row in rows]
    width = None if is_bounded() else PIPE_WIDTH
    every = list(range(len(columns)))
    for part in parts_that_fit(columns, cells, width) if in_parts and width is None else [every]:
        print_cells(
            [(columns[place], numbers[place]) for place in part],
            [[line[place] for place in part] for line in cells],
            width,
        )


def is_bounded() -> bool:
    """Return whether the output has a limited width: of a terminal, or $COLUMNS."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def print_outline(facts: Mapping[str, Any]) -> None:
    """Print nested names and values, one per line."""
    typer.echo("\n".join(outline(facts)))


def outline(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of an outline; empty values are omitted, a sourced value is on one line."""
    deeper = indent + "  "
    for name, value in facts.items():
        label = f"{indent}{visible(name)}:"
        match value:
            case None | "" | []:
                continue
            case Mapping() if not value:
                continue
            case {"value": inner, "source": source}:
                yield f"{label} {_text(inner)}  ({visible(shown_source(str(source)))})"
            case Mapping():
                yield label
                yield from outline(value, deeper)
            case str() if "\n" in value:
                yield label
                yield from (deeper + visible(line) for line in value.splitlines())
            case _:
                yield f"{label} {_text(value)}"


def _text(value: object) -> str:
    """Return a value as text on one line; None is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            # With four significant digits, 12345.0 would be 1.234e+04.
            return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
        case Mapping():
            return ", ".join(
                f"{visible(str(name))} {_text(inner)}" for name, inner in value.items()
            )
        case list() | tuple():
            return ", ".join(_text(inner) for inner in value)
    return visible(str(value))


# Facts about suites, tasks, models, recipes and runs, as plain data for lists and `bench show`.


def in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts for people: tasks by title, and readable values instead of stored forms.

    A task's or model's own facts keep the name that the command line takes.
    """
    words = dict(facts)
    if facts.get("name") in TASKS:
        words = {"name": words.pop("name"), "title": title_of(facts["name"]), **words}
    for name, shown in _SHOWN.items():
        if facts.get(name):
            words[name] = shown(facts[name])
    return words


def _by_split(found: Mapping[str, Any]) -> dict[str, Any]:
    return {split_title(*name.rsplit(":", 1)): value for name, value in found.items()}


def _by_title(found: Mapping[str, Any]) -> dict[str, Any]:
    return {distinct_title(task): value for task, value in found.items()}


def _switched(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a word as value for those that are switched off."""
    return {
        name: {**each, "value": shown_value(name, Setting.from_json(each))}
        for name, each in settings.items()
    }


_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "settings": _switched,
    "task": distinct_title,
    "trained_on": distinct_title,
    "tasks": lambda tasks: [distinct_title(task) for task in tasks],
    "together": lambda tasks: [distinct_title(task) for task in tasks],
    "scores": _by_title,
    "evaluations": _by_split,
    "truncated": lambda found: {
        name: f"{of['rows']:,} of {of['of']:,} rows" for name, of in _by_split(found).items()
    },
    "unknown_tokens": lambda found: {
        name: f"{of['tokens']:,} of {of['of']:,} tokens" for name, of in _by_split(found).items()
    },
    "words_without_token": lambda found: {
        name: f"{of['words']:,} of {of['of']:,} words" for name, of in _by_split(found).items()
    },
}


def suite_facts(suite: Suite) -> dict[str, Any]:
    """Return a suite with its tasks and its score rule."""
    return {
        "name": suite.name,
        "title": suite.title,
        "tasks": list(suite.tasks),
        "rule": suite.rule.name,
        "cite": suite.cite,
    }


def collection_facts(name: str) -> dict[str, Any]:
    """Return a collection of suites, which has no common score."""
    members = find_suites(name)
    return {
        "name": name,
        "title": ", ".join(suite.title for suite in members),
        "tasks": [task for suite in members for task in suite.tasks],
        "rule": None,
        "cite": "",
    }


def task_facts(task: Task) -> dict[str, Any]:
    """Return a task: its input, labels, metrics and sources."""
    return {
        "name": task.name,
        "suite": task.suite,
        "head": task.head,
        "labels": list(getattr(task, "labels", ()) or getattr(task, "tags", ())),
        "value_range": list(getattr(task, "value_range", None) or ()),
        "metrics": [metric.name for metric in task.metrics],
        "details": [metric.name for metric in task.details],
        "splits": list(task.source.splits),
        "trained_on": task.trained_on,
        "hub": f"{task.source.hub} {task.source.config}",
        "revision": task.source.revision,
        "version": task.version,
        "cite": task.cite,
    }


def model_facts(spec: ModelSpec) -> dict[str, Any]:
    """Return a model; `parameters` are in millions, `published` names tables with its results."""
    tables = dict.fromkeys(row.table for row in rows_of_model(spec.name))
    unsaid = ("trust", "is_baseline", "builtin", "start")
    facts = {name: value for name, value in asdict(spec).items() if name not in unsaid}
    return {**facts, "aliases": list(spec.aliases), "published": list(tables)}


def system_facts(system: System) -> dict[str, Any]:
    """Return a published system: the checkpoint that it is, or the reason why none runs here."""
    return {
        "system": f"{system.name} (in {system.table})" if system.table else system.name,
        "status": system.status,
        "model": system.model,
        "reason": system.reason,
        "published_rows": system.rows,
        "in_lectures": system.in_lectures,
    }


def recipe_facts(recipe: ResolvedRecipe, model: str, task: str) -> dict[str, Any]:
    """Return a resolved recipe: every value with its source."""
    settings = {name: setting.to_json() for name, setting in recipe.settings.items()}
    return {"recipe": recipe.label, "model": model, "task": task, "settings": settings}


def published_facts(row: PublishedRow) -> dict[str, Any]:
    """Return a published row with its source; scores are in percent, averages by suite and rule."""
    scores: dict[str, dict[str, float]] = {}
    for cell in row.cells:
        scores.setdefault(cell.task, {})[" or ".join(cell.scores)] = cell.value
    names = ("suite", "table", "system", "by", "split", "protocol", "parameters", "date")
    return {
        **{name: getattr(row, name) for name in names},
        "scores": scores,
        "source": row.source,
        "place": row.place,
    }


def run_facts(row: RunRow) -> dict[str, Any]:
    """Return a run as a row of a list; `seconds` is its wall-clock time."""
    return {
        "key": row.key,
        "model": row.model,
        "suite": row.suite,
        "task": row.task,
        **_together(row.trained_tasks),
        "data": row.data,
        "limit": row.limit,
        "seed": row.seed,
        "recipe": row.recipe_label,
        "precision": row.precision,
        "status": row.status,
        "scores": {task: dict(scores) for task, scores in row.scores.items()},
        "seconds": row.seconds,
        "flags": {task: list(flags) for task, flags in row.flags.items()},
        "start_from": row.start_from,
        **({"teacher": asdict(row.teacher)} if row.teacher else {}),
        "finished": row.finished,
        "error": row.error,
        **({"selection": asdict(row.selection)} if row.selection else {}),
        **({"truncated": _lost_words(row.truncated)} if row.truncated else {}),
        **_reading(row.reading),
    }


def _together(tasks: Sequence[str]) -> dict[str, list[str]]:
    """Return the tasks that a run was trained on, if there are several."""
    return {"together": list(tasks)} if len(tasks) > 1 else {}


_SHOWN_OF_JOB = frozenset(
    {"model", "checkpoint", "weights", "task", "task_version", "data", "fingerprints", "seed"}
    | {"precision", "limit", "start_from", "plugins", "trust_remote_code", "allow_pickle"}
    | {"method"}
)
"""Fields of a job that `outcome_facts` copies."""


def outcome_facts(outcome: Result | Failure) -> dict[str, Any]:
    """Return all stored facts of a run; predictions are only counted."""
    job = outcome.job
    head: dict[str, Any] = {
        "key": job.key,
        "status": outcome.kind if isinstance(outcome, Failure) else "finished",
        "finished": outcome.finished,
        "started_from": job.started_from,
        **({"teacher": asdict(job.teacher)} if job.teacher else {}),
        **_together(job.trained_tasks),
        **{name: value for name, value in job.to_json().items() if name in _SHOWN_OF_JOB},
        "recipe": job.recipe_label,
        "settings": {name: setting.to_json() for name, setting in job.settings.items()},
    }
    if isinstance(outcome, Failure):
        return head | {
            "error": outcome.error,
            "exit_code": outcome.exit_code,
            "details": outcome.details,
        }
    return head | {
        "evaluations": {e.name: _evaluation(e) for e in outcome.evaluations},
        **_parity(outcome),
        "truncated": _lost_words(truncated_rows(outcome.provenance)),
        **_reading(Reading.of(outcome.provenance)),
        "flags": list(curve_flags([point.loss for point in outcome.curve])),
        "curve": [asdict(point) for point in outcome.curve],
        "cost": asdict(outcome.cost),
        "provenance": dict(outcome.provenance),
    }


def _parity(outcome: Result) -> dict[str, str]:
    words = parity_of(outcome)
    return {"parity": words, "certificate": made_by()} if words else {}


def _lost_words(found: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {name: {"rows": lost, "of": count} for name, (lost, count) in found.items()}


def _reading(found: Reading | None) -> dict[str, Any]:
    """Return the source of the tokenizer's settings, and counts of unknown and lost tokens."""
    if found is None:
        return {}
    parts = {
        "unknown_tokens": {n: {"tokens": k, "of": of} for n, (k, of) in found.unknown.items()},
        "words_without_token": {n: {"words": k, "of": of} for n, (k, of) in found.lost.items()},
    }
    source = found.source
    by = " by ".join(str(source[name]) for name in ("file", "reader") if source.get(name))
    # If the file took precedence over a class, the words name both.
    words = "; ".join(filter(None, ("" if source.get("texts") else by, found.words)))
    return ({"tokenizer": words} if words else {}) | {n: v for n, v in parts.items() if v}


def _evaluation(evaluation: Any) -> Mapping[str, Any]:
    return {
        "scores": dict(evaluation.scores),
        "predictions": len(evaluation.predictions),
        "flags": list(evaluation.flags),
    }
