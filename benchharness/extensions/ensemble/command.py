"""`bench ensemble`: combine the stored predictions of several runs into one system."""

from collections.abc import Iterator
from typing import Annotated, Any

from benchharness.cli.chosen import Chosen
from benchharness.cli.leaderboard import show_boards
from benchharness.cli.options import argument, with_options
from benchharness.cli.output import print_json
from benchharness.driver.options import option
from benchharness.errors import BenchError
from benchharness.extensions.ensemble.average import make_ensemble
from benchharness.leaderboard.boards.board import boards_of
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store
from benchharness.stored import Rows, Within, find_rows, gather_boards
from benchharness.stored.predictions import StoredPredictions

Systems = Annotated[
    list[str],
    argument(
        "SYSTEM...",
        "Models with stored runs; all their seeds are averaged. Use MODEL:RECIPE if a model has "
        "several leaderboard entries.",
        "stored_models",
    ),
]


@with_options()
def ensemble(
    systems: Systems,
    *,
    chosen: Chosen,
    name: str | None = option(
        None, "Name of the ensemble. Default: the names of its members.", metavar="NAME"
    ),
) -> None:
    """Average the stored predictions of all seeds of one or several models, and score the average.

    Nothing is trained. The result is stored, and leaderboards list it as an ensemble.
    """
    with chosen.open() as store:
        members = tuple(dict.fromkeys(systems))
        found = find_rows(store, members, chosen.within)
        made = [result for rows in found for result in _ensembles(store, rows, name)]
        for result in made:
            if not store.finished_keys([result.job.key]):
                store.add_result(result)
        suites = tuple(dict.fromkeys(rows.board.suite for rows in found))
        boards = boards_of(
            {result.job.key for result in made}, gather_boards(store, Within(suites=suites))
        )
    if chosen.as_json:
        print_json([_to_json(result) for result in made])
    else:
        show_boards(boards)


def _ensembles(store: Store, rows: Rows, name: str | None) -> Iterator[Result]:
    """Yield the result of an ensemble for each task on which the entries have at least two runs.

    Raises:
        BenchError: An entry is not a single trained model, or no task has two runs.
    """
    for entry in rows.entries:
        if not entry.is_single:
            kind = {"ensemble": "an ensemble", "zero-shot": "zero-shot"}
            raise BenchError(
                f"{entry.model} is {kind.get(entry.kind, 'a baseline')}: an ensemble can have only "
                "fine-tuned models."
            )
    groups = [members for members in _members(rows).values() if len(members) > 1]
    if not groups:
        names = " and ".join(entry.model for entry in rows.entries)
        raise BenchError(
            f"each task has only one run of {names} on {rows.board.data_label}, but an ensemble "
            "needs at least two runs: add seeds, e.g. with `bench run --seeds 5`."
        )
    label = name or _name(rows.entries, groups)
    predictions = StoredPredictions(store)
    for group in groups:
        members = [(system, predictions.result(key)) for key, system in group.items()]
        yield make_ensemble(members, label)


def _members(rows: Rows) -> dict[str, dict[str, str]]:
    """Return the label of the system to which each run belongs, keyed by task, then by run key."""
    found: dict[str, dict[str, str]] = {}
    for task in rows.tasks:
        for entry in rows.entries:
            for run in entry.cells[task].runs:
                found.setdefault(run.task, {})[run.key] = full_label(entry)
    return found


def _name(entries: tuple[Entry, ...], groups: list[dict[str, str]]) -> str:
    """Return a default name for the ensemble, e.g. "bert x3 + roberta".

    The name consists of the names of the models. If a model has several runs, and equally many on
    all tasks, their number is added to its name ("x3").
    """
    names = []
    for entry in entries:
        counts = {list(members.values()).count(full_label(entry)) for members in groups}
        several = len(counts) == 1 and counts != {1}
        names.append(f"{entry.model} x{counts.pop()}" if several else entry.model)
    return " + ".join(names)


def _to_json(result: Result) -> dict[str, Any]:
    job = result.job
    return {
        "key": job.key,
        "name": job.model,
        "task": job.task,
        "data": job.data,
        "members": {str(s.value): s.source for s in job.settings.values()},
        "flags": {task: list(flags) for task, flags in result.flags.items()},
        "scores": {evaluation.name: dict(evaluation.scores) for evaluation in result.evaluations},
    }
