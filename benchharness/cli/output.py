"""Output of data as JSON, as a table, or as an indented list of names and values."""

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
from benchharness.leaderboard.boards.cell import Noted, note_lines
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
from benchharness.tasks.task import Task, score_title

PIPE_WIDTH = 100_000
"""Width of a table that is not printed in a terminal, so large that each row is one line."""


def tell_notes(sentences: Iterable[str]) -> None:
    """Print sentences for the user on stderr, each on a line that begins with "bench:"."""
    for sentence in sentences:
        typer.echo(visible(f"bench: {sentence}"), err=True)


def tell_marks(noted: Iterable[Noted]) -> None:
    """Print sentences that explain the warning marks next to scores.

    `noted` contains the name of each score with the warnings about it.
    """
    for line in note_lines(noted):
        typer.echo(visible(line))


@contextmanager
def writing(path: Path | str, advice: str = "Use another file.") -> Iterator[None]:
    """Context manager that turns an OSError in its block into a BenchError.

    Args:
        path: The file that the block writes, which the error names.
        advice: The last sentence of the error.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise BenchError(f"{path} could not be written: {reason}. {advice}") from error


def print_json(data: object) -> None:
    """Print data as JSON on stdout.

    Raises:
        ValueError: The data contain NaN or infinity, which JSON does not allow.
    """
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_json_lines(things: Iterable[object]) -> None:
    """Print a JSON array on stdout, one item at a time, so that a long array needs little memory.

    `things` yields the items.
    """
    before = "["
    for thing in things:
        # Indent the item by two spaces, as `json.dumps` does for items of a list.
        text = json.dumps(thing, indent=2, allow_nan=False).replace("\n", "\n  ")
        typer.echo(f"{before}\n  {text}", nl=False)
        before = ","
    typer.echo("[]" if before == "[" else "\n]")


def complaints(failures: Sequence[Failure], names: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each distinct error, which names the jobs that failed with this error.

    If an error occurred in loading a model, the message does not name jobs, because all jobs of the
    model fail.

    Args:
        failures: Failed jobs with their errors.
        names: The names of the jobs, keyed by job key.
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
    """Return the exit code of a run with these failures.

    The code is 0 if there are no failures, 4 if a model that cannot be used caused every failure,
    and otherwise 1.
    """
    if not failures:
        return 0
    only_models = all(failure.exit_code == ModelError.exit_code for failure in failures)
    return ModelError.exit_code if only_models else JobError.exit_code


def print_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str, *, in_parts: bool = False
) -> None:
    """Print a table on stdout.

    Args:
        rows: The rows, each as a mapping from the names of columns to values.
        columns: The names of the columns, in order.
        empty: The sentence that is printed instead if there are no rows.
        in_parts: Whether a table that is wider than the terminal is split into several tables, each
            of which has the first column. Otherwise, the text in its cells is wrapped.
    """
    if not rows:
        typer.echo(empty)
        return
    from benchharness.cli.tables import parts_that_fit, print_cells  # noqa: PLC0415  (imports rich, which --json does not need)

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
    """Return whether the width of the output is limited, by a terminal or by $COLUMNS."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def print_outline(facts: Mapping[str, Any]) -> None:
    """Print a nested mapping as an indented list, with one name and its value per line."""
    typer.echo("\n".join(outline(facts)))


def outline(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a nested mapping as an indented list, with a name and its value per line.

    Empty values are omitted. A mapping {"value": ..., "source": ...}, such as a hyperparameter,
    becomes a single line.

    Args:
        facts: The nested mapping.
        indent: The spaces at the beginning of each line.
    """
    deeper = indent + "  "
    for name, value in facts.items():
        label = f"{indent}{visible(name)}:"
        match value:
            case None | "" | []:
                continue
            case Mapping() if not value:
                continue
            case {"value": inner, "source": source}:
                shown = shown_source(str(source), value.get("one_of", ()))
                yield f"{label} {_text(inner)}  ({visible(shown)})"
            case Mapping():
                yield label
                yield from outline(value, deeper)
            case str() if "\n" in value:
                yield label
                yield from (deeper + visible(line) for line in value.splitlines())
            case _:
                yield f"{label} {_text(value)}"


def _text(value: object) -> str:
    """Format a value as text on one line; None becomes ""."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            # The format ".4g" would print 12345.0 as 1.234e+04.
            return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
        case Mapping():
            return ", ".join(
                f"{visible(str(name))} {_text(inner)}" for name, inner in value.items()
            )
        case list() | tuple():
            return ", ".join(_text(inner) for inner in value)
    return visible(str(value))


# Properties of suites, tasks, models, recipes and runs as JSON data, for lists and `bench show`.


def in_words(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties, such as those of a task or a run, with values that are easy to read.

    For example, names of tasks are replaced by their titles. The value of "name" stays unchanged,
    because the user types this name on the command line. `facts` contains the properties, as
    returned by `task_facts`, `run_facts` or a similar function.
    """
    words = dict(facts)
    if facts.get("name") in TASKS:
        words = {"name": words.pop("name"), "title": title_of(facts["name"]), **words}
    for name, shown in _SHOWN.items():
        if facts.get(name):
            words[name] = shown(facts[name])
    if facts.get("name") in TASKS and "metrics" in facts:  # "f1 (macro F1)" if f1 is ambiguous
        titles = ((each, score_title(TASKS[facts["name"]], each)) for each in facts["metrics"])
        words["metrics"] = [
            each if title == each else f"{each} ({title})" for each, title in titles
        ]
    return words


def _by_split(found: Mapping[str, Any]) -> dict[str, Any]:
    return {split_title(*name.rsplit(":", 1)): value for name, value in found.items()}


def _by_title(found: Mapping[str, Any]) -> dict[str, Any]:
    return {distinct_title(task): value for task, value in found.items()}


def _switched(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters with readable values, such as a word for a disabled technique."""
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
    """Return the properties of a suite, including its tasks and its score rule."""
    return {
        "name": suite.name,
        "title": suite.title,
        "tasks": list(suite.tasks),
        "rule": suite.rule.name,
        "cite": suite.cite,
    }


def collection_facts(name: str) -> dict[str, Any]:
    """Return the properties of a collection: a name for several suites, without a score rule."""
    members = find_suites(name)
    return {
        "name": name,
        "title": ", ".join(suite.title for suite in members),
        "tasks": [task for suite in members for task in suite.tasks],
        "rule": None,
        "cite": "",
    }


def task_facts(task: Task) -> dict[str, Any]:
    """Return the properties of a task, such as its labels, metrics and data source."""
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
    """Return the properties of a model: fields of `ModelSpec`, and "published".

    The value of "published" lists the tables of published scores that contain the model.
    """
    tables = dict.fromkeys(row.table for row in rows_of_model(spec.name))
    unsaid = ("trust", "is_baseline", "builtin", "start")
    facts = {name: value for name, value in asdict(spec).items() if name not in unsaid}
    return {**facts, "aliases": list(spec.aliases), "published": list(tables)}


def system_facts(system: System) -> dict[str, Any]:
    """Return the properties of a system for which papers report scores.

    "status" states whether benchharness can run the system, and "model" is the model to use. If
    "model" is empty, "reason" explains why the system cannot be run, or how to run it.
    "published_rows" is the number of published results. "in_lectures" is true if the lectures from
    which these results were collected mention the system.
    """
    return {
        "system": f"{system.name} (in {system.table})" if system.table else system.name,
        "status": system.status,
        "model": system.model,
        "reason": system.reason,
        "published_rows": system.rows,
        "in_lectures": system.in_lectures,
    }


def recipe_facts(recipe: ResolvedRecipe, model: str, task: str) -> dict[str, Any]:
    """Return the hyperparameters of a resolved recipe, each with its value and its source.

    `model` and `task` are the names of the model and the task for which the recipe was resolved.
    """
    settings = {name: setting.to_json() for name, setting in recipe.settings.items()}
    return {"recipe": recipe.label, "model": model, "task": task, "settings": settings}


def published_facts(row: PublishedRow) -> dict[str, Any]:
    """Return a published result with its source.

    "scores" has the form `{task: {metric: score in percent}}`. For an average over tasks, the name
    of the suite takes the place of the task.
    """
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
    """Return the properties of a run for `bench show runs`; "seconds" is its wall-clock time."""
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
    """Return {"together": tasks} if a run was trained on several tasks, else {}."""
    return {"together": list(tasks)} if len(tasks) > 1 else {}


_SHOWN_OF_JOB = frozenset(
    {"model", "checkpoint", "weights", "task", "task_version", "data", "fingerprints", "seed"}
    | {"precision", "limit", "start_from", "plugins", "trust_remote_code", "allow_pickle"}
    | {"method"}
)
"""Fields of a job that `outcome_facts` copies."""


def outcome_facts(outcome: Result | Failure) -> dict[str, Any]:
    """Return the stored facts about a run as JSON data.

    Predictions are replaced by their number.
    """
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
    """Return the source of the tokenizer's settings, and counts of unknown tokens and lost words.

    A lost word is a word for which the tokenizer returned no token.
    """
    if found is None:
        return {}
    parts = {
        "unknown_tokens": {n: {"tokens": k, "of": of} for n, (k, of) in found.unknown.items()},
        "words_without_token": {n: {"words": k, "of": of} for n, (k, of) in found.lost.items()},
    }
    source = found.source
    by = " by ".join(str(source[name]) for name in ("file", "reader") if source.get(name))
    # If the settings in tokenizer.json took precedence over those of the tokenizer's class,
    # `found.words` already mentions both.
    words = "; ".join(filter(None, ("" if source.get("texts") else by, found.words)))
    return ({"tokenizer": words} if words else {}) | {n: v for n, v in parts.items() if v}


def _evaluation(evaluation: Any) -> Mapping[str, Any]:
    return {
        "scores": dict(evaluation.scores),
        "predictions": len(evaluation.predictions),
        "flags": list(evaluation.flags),
    }
