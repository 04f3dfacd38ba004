"""`bench robustness`: score kept models on challenge sets and on perturbed dev rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import typer

from benchharness.cli.chosen import Chosen, System, board_facts, print_heading
from benchharness.cli.options import with_options
from benchharness.cli.output import print_json, print_table, tell_marks, tell_notes
from benchharness.driver.options import option
from benchharness.driver.start_checkpoints import kept_model
from benchharness.errors import BenchError
from benchharness.extensions.robustness.perturb import named_perturbations, refusal
from benchharness.extensions.robustness.records import Record, Records
from benchharness.extensions.robustness.rows import DevRows, SetRows, is_found, read_dev, read_set
from benchharness.extensions.robustness.sets import ChallengeSet, named_sets
from benchharness.extensions.robustness.shown import interval_text, percent
from benchharness.leaderboard.boards.cell import Cell, marked, score_names
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted, visible
from benchharness.progress import alive
from benchharness.stored import Rows
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.sources import Data, parse_data
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task
from benchharness.worker import importing


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `bench robustness`."""

    sets: tuple[str, ...] = option(
        (),
        "Challenge sets, separated by commas: hans, anli, snli-hard, mnli-hard, paws, advglue, "
        "boolq-contrast, squad-adversarial, or 'all' for all sets that fit the task and have rows "
        "in --sets-data.",
        metavar="NAME,...",
        separated=True,
    )
    sets_data: str = option(
        "hub",
        "Source of the rows of the challenge sets.",
        metavar="hub|DIR",
        proposes=("hub",),
    )
    perturb: tuple[str, ...] = option(
        (),
        "Perturbations of the task's own dev rows, separated by commas: typos, case, punctuation, "
        "spaces, contractions, sentence, or 'all'. The texts must be English.",
        metavar="NAME,...",
        separated=True,
    )
    seed: int = option(1, "Seed of the perturbations.", metavar="N", least=0)
    limit: int | None = option(
        None, "Maximum number of rows per split (a fixed stratified subset).", metavar="N", least=1
    )


@with_options()
def robustness(system: System, *, chosen: Chosen, asked: Asked) -> None:
    """Score kept models on challenge sets and on perturbed dev rows; nothing is trained.

    The models must have been kept (bench run --keep-models). All kept seeds of a leaderboard entry
    are used: values are means over seeds, with 95 % intervals over rows and seeds. The results are
    stored next to the database and shown by the report. No score on a leaderboard changes.
    """
    if not asked.sets and not asked.perturb:
        raise BenchError(
            "pass --sets (challenge sets to score), or --perturb (perturbations of dev rows), "
            "or both."
        )
    sets, data = named_sets(asked.sets), parse_data(asked.sets_data)
    named_perturbations(asked.perturb)  # refuse unknown names before anything is read
    found: list[tuple[Rows, list[Record]]] = []
    with chosen.open() as store:
        every = chosen.rows(store, (system,))
        for rows in every:
            for task in rows.tasks:
                if records := _Measuring(store, chosen, asked, rows).of(task, sets, data):
                    Records(store).add(records)  # store them before the next task starts
                    found.append((rows, records))
    if not found:
        raise _nothing(system, chosen, every, sets)
    if chosen.as_json:
        print_json(
            [
                {
                    **board_facts(rows.board),
                    "system": full_label(rows.entries[0]),
                    "task": records[0].task,
                    "results": [asdict(record) for record in records],
                }
                for rows, records in found
            ]
        )
        return
    for rows, records in found:
        print_heading(rows.board, rows.entries[0].name)
        _show(records)
    tell_marks((distinct_title(some[0].task), some[0].flags) for _, some in found)


@dataclass(frozen=True)
class _Measuring:
    """Measurement of the robustness of one leaderboard entry.

    Attributes:
        store: Store that contains the runs.
        chosen: Options that select leaderboards and runs.
        asked: Options of the measurement.
        rows: Leaderboard entry and tasks.
    """

    store: Store
    chosen: Chosen
    asked: Asked
    rows: Rows

    def of(self, name: str, sets: Sequence[ChallengeSet], data: Data) -> list[Record]:
        """Return the robustness of the entry's kept models on one task.

        The result is empty if no model was kept, or if no set and no perturbation fits the task.

        Args:
            name: Name of the task.
            sets: Challenge sets that the user selected.
            data: Source of the rows of the challenge sets.
        """
        cell, task = self.rows.entries[0].cells[name], find_task(name)
        folders = {run.key: kept_model(self.chosen.db, run.key) for run in cell.runs}
        pairs = zip(cell.runs, cell.values, strict=True)
        kept = [(run, value) for run, value in pairs if folders[run.key]]
        if not kept or not task.has_train:  # the models of AX belong to MNLI
            return []
        challenges = list(self._challenges(task, sets, data))
        dev = self._dev(task, [run.key for run, _ in kept])
        if not challenges and dev is None:
            return []
        if len(kept) < len(cell.runs):
            count = f"{len(kept)} of {counted(len(cell.runs), 'seed')}"
            tell_notes([f"{distinct_title(name)}: only {count} kept a model."])
        with importing():  # importing torch takes seconds
            from benchharness.extensions.robustness import measure

        system = measure.System(
            task=task,
            names=score_names(name, self.rows.board.rule),
            runs=tuple(run for run, _ in kept),
            values=tuple(value for _, value in kept),
            folders=tuple(place for run, _ in kept if (place := folders[run.key])),
            trust=self.chosen.trust_remote_code,
        )
        with alive(lambda: f"scoring the models of {distinct_title(name)}"):
            return measure.measure(system, challenges, dev, self.asked.limit)

    def _challenges(
        self, task: Task, sets: Sequence[ChallengeSet], data: Data
    ) -> Iterator[SetRows]:
        """Yield the rows of the sets that fit a task; with "all", skip sets without rows."""
        if "all" in self.asked.sets:
            sets = [each for each in sets if task.name in each.models and is_found(each, data)]
        for each in sets:
            if each.fits(task):
                each.merged(task)  # before rows are read: raises an error if a class does not map
                yield read_set(each, data, self.asked.limit)

    def _dev(self, task: Task, keys: Sequence[str]) -> DevRows | None:
        """Read the dev rows to perturb; return None if no perturbation fits the task."""
        reasons = {name: refusal(task, name) for name in named_perturbations(self.asked.perturb)}
        refused = [reason for reason in reasons.values() if reason]
        if refused and "all" not in self.asked.perturb:
            raise BenchError(f"{refused[0]}. Choose other perturbations with --perturb.")
        tell_notes(f"{reason}, so it is left out." for reason in refused)
        names = tuple(name for name, reason in reasons.items() if not reason)
        if not names:
            return None
        stored = StoredPredictions(self.store, paths=self.rows.board.paths)
        jobs = [stored.result(key).job for key in keys]
        splits = read_dev(stored, task, jobs, self.asked.limit)
        return DevRows(splits=splits, perturbations=names, seed=self.asked.seed)


def _nothing(
    system: str, chosen: Chosen, every: Sequence[Rows], sets: Sequence[ChallengeSet]
) -> BenchError:
    """Return the error for a system without kept models, or without a fitting set or change."""
    cells: list[Cell] = [rows.entries[0].cells[task] for rows in every for task in rows.tasks]
    runs = [run for cell in cells for run in cell.runs]
    if not any(kept_model(chosen.db, run.key) for run in runs):
        again = f", or `bench model {runs[0].key[:12]} --retrain`" if runs else ""
        return BenchError(f"no model of {system} was kept: use `bench run --keep-models`{again}.")
    tasks = ", ".join(dict.fromkeys(distinct_title(cell.task) for cell in cells))
    if len(sets) == 1:
        fits = ", ".join(dict.fromkeys(map(distinct_title, sets[0].models)))
        said = f"{sets[0].title} tests models of {fits}, but {system} was trained on {tasks}"
    else:
        said = f"no selected test fits models of {tasks}, or has rows in --sets-data"
    return BenchError(f"{said}: choose other --sets, --perturb or --task.")


# Tables.

_SET_COLUMNS = ("challenge set", "split", "rows", "measure", "score", "95 % interval", "majority")
_DROP_COLUMNS = ("change", "changed rows", "measure", "score", "drop", "95 % interval of the drop")


def _show(records: Sequence[Record]) -> None:
    """Print a table of challenge sets and a table of perturbations, for the records of one task."""
    sets = [record for record in records if record.kind == "set"]
    drops = [record for record in records if record.kind == "perturbation"]
    for some in filter(None, (sets, drops)):
        own, seeds = (
            marked(percent(some[0].own), some[0].flags),
            counted(len(some[0].seeds), "seed"),
        )
        title = distinct_title(some[0].task)
        typer.echo(visible(f"{title}, {seeds}: {own} on its own dev rows"))
        if some is sets:
            print_table([line for each in some for line in _set_lines(each)], _SET_COLUMNS, "")
        else:
            print_table([_drop_line(each) for each in some], _DROP_COLUMNS, "")


def _set_lines(record: Record) -> Iterator[Mapping[str, Any]]:
    majority = record.facts["majority"]
    about = [record.title, record.split, f"{record.rows:,}"]
    for name, score in record.scores.items():
        values = [name, marked(percent(score.value), record.flags), interval_text(score)]
        last = "" if majority is None or about[0] == "" else percent(majority)
        yield dict(zip(_SET_COLUMNS, (*about, *values, last), strict=True))
        about = ["", "", ""]


def _drop_line(record: Record) -> Mapping[str, Any]:
    assert record.drop is not None, "perturbations have a drop"
    values = (
        record.name,
        f"{record.facts['changed']:,} of {record.rows:,}",
        next(iter(record.scores)),
        marked(percent(record.shown.value), record.flags),
        percent(record.drop.value),
        interval_text(record.drop),
    )
    return dict(zip(_DROP_COLUMNS, values, strict=True))
