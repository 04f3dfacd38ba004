"""Create the files of a submission from stored predictions, or from constant answers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchharness.discovery import member, places
from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.answer_file import AnswerFile, Form
from benchharness.extensions.submission.files import (
    SUBMISSIONS,
    compose,
    filled,
    needs_examples,
)
from benchharness.extensions.submission.questions import (
    write_no_answer_scores,
    write_predictions,
)
from benchharness.extensions.submission.table import write_race
from benchharness.leaderboard.result import Result, RunRow, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.splits import ChangedRowsError
from benchharness.stored.predictions import StoredPredictions
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suite import Suite
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import suffix_of

Split = tuple[str, str]
"""Pair of the name of a task and the name of one of its splits."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """File in a submission, and the run whose predictions it contains.

    Attributes:
        path: Path of the file in the submission; empty if the submission is a single file.
        task: Name of the task.
        content: Bytes of the file.
        run: Run whose predictions the file contains; None if it has constant answers.
    """

    path: Path
    task: str
    content: bytes
    run: RunRow | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for creating a submission.

    Attributes:
        suite: Suite to submit.
        seed: Seed of the runs; None to select the runs that are best on the dev split.
        fill: True to write a constant answer for tasks that were not run.
        threshold: For SQuAD 2.0, the no-answer score above which a question is left unanswered;
            None for the threshold that is stored with the predictions (0 for trained models).
    """

    suite: Suite
    seed: int | None = None
    fill: bool = False
    threshold: float | None = None


def gather(store: Store, rows: Sequence[RunRow], wanted: Wanted) -> list[Gathered]:
    """Create the files of a submission from stored runs of one model.

    For suites other than GLUE and SuperGLUE, tasks without a run are left out.

    Args:
        store: Store with the predictions.
        rows: Runs of the model.
        wanted: Options of the submission.

    Returns:
        The files, each with the run whose predictions it contains.

    Raises:
        BenchError: No run can be submitted (see `choose_runs`), a task of GLUE or SuperGLUE has no
            run although `wanted.fill` is False, the suite has no submission, `fill` or `threshold`
            does not apply to the suite, or a run did not predict exactly the official test set.
        DataError: The examples have changed since a run predicted them.
    """
    stored, suite = StoredPredictions(store), wanted.suite.name
    if wanted.fill and suite not in SUBMISSIONS:
        raise BenchError(f"--fill works for glue and superglue, not for {suite}: remove it.")
    if wanted.threshold is not None and suite != "squad":
        raise BenchError(f"--threshold works for squad, not for {suite}: remove it.")
    if suite in SUBMISSIONS:
        return _zipped(stored, rows, wanted)
    if suite in FORMS:
        return _in_form(stored, rows, wanted, FORMS[suite])
    raise BenchError(
        f"there is no submission for {suite}, because its labels are public. Suites with a "
        f"submission: {', '.join(SUBMITTED[:-1])} and {SUBMITTED[-1]}."
    )


def _zipped(stored: StoredPredictions, rows: Sequence[RunRow], wanted: Wanted) -> list[Gathered]:
    files = SUBMISSIONS[wanted.suite.name].files
    splits = [(file.task, file.split) for file in files]
    chosen = choose_runs(rows, splits, wanted.suite, wanted.seed)
    runs = {file.name: _run_of(file, chosen) for file in files}
    missing = list(dict.fromkeys(file.task for file in files if runs[file.name] is None))
    if missing and not wanted.fill:
        raise BenchError(
            f"no stored run has predicted the test split of {', '.join(missing)}: run `bench run "
            "--test` on these tasks first, or pass --fill to write a constant answer for each."
        )
    data = next(iter(chosen.values())).data
    return [
        Gathered(
            path=Path(file.name),
            task=file.task,
            content=_filled(file, data) if run is None else _composed(stored, file, run),
            run=run,
        )
        for file in files
        for run in [runs[file.name]]
    ]


def _run_of(file: AnswerFile, chosen: Mapping[str, RunRow]) -> RunRow | None:
    # Some tasks are predicted by runs of another task, e.g. AX by runs of MNLI.
    run = chosen.get(find_task(file.task).trained_on or file.task)
    return run if run and f"{file.task}:{file.split}" in run.fingerprints else None


def _composed(stored: StoredPredictions, file: AnswerFile, run: RunRow) -> bytes:
    result, name = stored.result(run.key), f"{file.task}:{file.split}"
    examples = _examples(stored, result, name) if needs_examples(file) else ()
    kind = answer_type(find_task(file.task))
    return compose(file, kind, predictions_of(result.evaluation(name), examples or None), examples)


def _examples(stored: StoredPredictions, result: Result, name: str) -> tuple[Example, ...]:
    """Return the examples that the run predicted; raise DataError if they have changed since."""
    try:
        return stored.rows(result.job, name).examples
    except ChangedRowsError as error:
        raise DataError(
            f"{name.replace(':', ' ')} ({result.job.data}) has changed since run "
            f"{result.job.key[:12]} predicted it: restore the old data, or run the task again."
        ) from error


def _filled(file: AnswerFile, data: str) -> bytes:
    """Return the bytes of a file with a constant answer; examples are read if they are needed."""
    examples: tuple[Example, ...] = ()
    if needs_examples(file, fill=True):
        examples = read(find_task(file.task), file.split, parse_data(data)).examples
    kind = answer_type(find_task(file.task))
    return compose(file, kind, filled(file, kind, examples), examples)


# Some submissions are not zips. Their files usually have the format that the official script reads.


def _in_form(
    stored: StoredPredictions, rows: Sequence[RunRow], wanted: Wanted, form: Form
) -> list[Gathered]:
    found: list[Gathered] = []
    splits = [
        (task, split)
        for task in wanted.suite.tasks
        for split in find_task(task).source.splits
        if split.startswith(form.split)
    ]
    runs = choose_runs(rows, splits, wanted.suite, wanted.seed)
    for task, split in splits:
        run, name = runs.get(find_task(task).trained_on or task), f"{task}:{split}"
        if run is None or name not in run.fingerprints:
            continue
        result = stored.result(run.key)
        examples = _examples(stored, result, name) if form.needs_rows else ()
        predictions = predictions_of(result.evaluation(name), examples or None)
        files = form.write(find_task(task), predictions, examples, wanted.threshold)
        folder, language = Path(task.rpartition("/")[2]), suffix_of(split)[1:]
        found += [
            Gathered(
                path=folder / each.format(language) if each else Path(),
                task=task,
                content=content,
                run=run,
            )
            for each, content in files.items()
        ]
    return found


def _squad(task: Any, predictions: Any, _: Any, threshold: float | None) -> Mapping[str, bytes]:
    if not task.no_answer:
        return {"predictions.json": write_predictions(predictions, None)}
    chosen = predictions[0].threshold if threshold is None else threshold
    return {
        "predictions.json": write_predictions(predictions, chosen),
        "na_prob.json": write_no_answer_scores(predictions),
    }


FORMS: Mapping[str, Form] = {
    "squad": Form(split="dev", write=_squad),
    "race": Form(
        split="test",
        write=lambda _, predictions, *__: {"": write_race(predictions)},
        ending=".tsv",
    ),
    **{
        suite: member(f"the submission of {suite}", place)
        for suite, place in places("submissions").items()
    },
}
"""Descriptions of the submissions that are not zips, keyed by suite."""

SUBMITTED = (*SUBMISSIONS, *FORMS)
"""Names of the suites that have a submission."""


# Select the stored runs for a submission.


def choose_runs(
    rows: Iterable[RunRow], wanted: Sequence[Split], suite: Suite, seed: int | None = None
) -> Mapping[str, RunRow]:
    """Select the run to submit for each task.

    Runs on mini data or with limited rows are not selected, because no server accepts them. If a
    model name was used for several checkpoints, only the checkpoint with the latest run is used,
    because a submission must be from a single model. For each task, the run that has predicted the
    most of the splits is selected; among several such runs, the one with the best dev score; and
    among equal scores, the latest.

    Args:
        rows: Stored runs of a model.
        wanted: Splits to submit.
        suite: Suite to submit; its rule computes the dev score of a run.
        seed: Seed that the runs must have; None for any.

    Returns:
        Runs, keyed by the tasks on which they were trained.

    Raises:
        BenchError: No run can be submitted.
    """
    able = [row for row in rows if _is_able(row, wanted) and seed in (None, row.seed)]
    if not able:
        whose = "" if seed is None else f" with seed {seed}"
        raise BenchError(
            f"no stored run{whose} has the predictions to submit: run `bench run --test` "
            "on the official data (not mini, and without --limit) first."
        )
    weights = max(able, key=lambda row: row.finished).weights
    runs: defaultdict[str, list[RunRow]] = defaultdict(list)
    for row in (row for row in able if row.weights == weights):
        for task in row.trained_tasks:
            runs[task].append(row)
    return {
        task: max(found, key=partial(_preference, task=task, wanted=wanted, suite=suite))
        for task, found in runs.items()
    }


def _is_able(row: RunRow, wanted: Sequence[Split]) -> bool:
    is_official = row.limit is None and row.data != "mini"
    return row.status == "finished" and is_official and _covered(row, wanted) > 0


def _covered(row: RunRow, wanted: Sequence[Split]) -> int:
    """Return the number of wanted splits that the run has predicted."""
    return sum(f"{task}:{split}" in row.fingerprints for task, split in wanted)


def _preference(
    row: RunRow, task: str, wanted: Sequence[Split], suite: Suite
) -> tuple[int, float, str]:
    """Return a sort key for runs: number of covered splits, then dev score, then date."""
    scores = row.scores.get(task, {})
    ruled = suite.rule.task_score(task, scores) if task in suite.rule.cells else None
    return _covered(row, wanted), -1.0 if ruled is None else ruled, row.finished
