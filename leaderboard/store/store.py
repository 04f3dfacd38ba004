"""Store of results and failures, from which runs can be read completely or as rows for lists."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Subquery,
    Text,
    func,
    select,
    type_coerce,
)

from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.job import PAPER, Setting
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store import (
    BETWEEN_NAMES,
    FINISHED,
    HEADLINES,
    PREDICTIONS,
    RUNS,
    Annotation,
    AnnotationKind,
    DamagedError,
    annotated,
    annotations_digest,
    fields_of,
    put_annotation,
    read_annotations,
    stored_names,
    take_annotations,
)
from benchharness.leaderboard.store.archive import (
    Taken,
    code_named_for,
    forget_code_named,
    keep_code_named,
    kept_elsewhere,
    kept_files,
    own_folders,
    read_kept,
    write_kept,
)
from benchharness.leaderboard.store.database import (
    archive_runs,
    check_new,
    copy_sqlite,
    file_of,
    hurried,
    name_of,
    newest_maker,
    open_engine,
    prepare,
    reading,
    writing,
)
from benchharness.leaderboard.store.merging import (
    Merged,
    append_missing,
    append_run,
    delete_attempts,
    faults_in,
    in_pieces,
    merge_runs,
    run_ids,
    whole_runs,
)
from benchharness.leaderboard.store.numbers import (
    Known,
    Place,
    contradict,
    contradictions,
    differing,
    fitting,
    note_rows,
)
from benchharness.leaderboard.store.record import (
    KEYS_AT_ONCE,
    Run,
    StoredRun,
    define_task_of,
    headline_columns,
    outcome_to_run,
    portions,
    read_runs,
    row_of,
    rows_of,
    run_to_outcome,
    run_to_stored,
    stored_to_run,
    without_evaluations,
)
from benchharness.leaderboard.text import digest, plain, storable
from benchharness.tasks.foreign_code import named_code, remember_code
from benchharness.tasks.suites import SUITES

# Queries for lists and leaderboards: runs with their scores, without predictions and curves.


def _listed_rows(
    db: Connection, annotations: Sequence[Annotation], *conditions: ColumnElement[bool]
) -> list[RunRow]:
    """Return one row per job, oldest first: its newest result, else its newest failure."""
    return annotated(_with_settings(db, _stored_rows(db, *conditions)), annotations)


def _stored_rows(db: Connection, *conditions: ColumnElement[bool]) -> list[RunRow]:
    """Return the rows of the headlines that fulfil the conditions, without annotations."""
    # JSON is read as text, because `rows_of` parses all of it at once, which is faster.
    columns = (HEADLINES.c.job_key, HEADLINES.c.shared, type_coerce(HEADLINES.c.content, Text))
    query = select(*columns).where(*conditions).order_by(HEADLINES.c.run_id)
    return rows_of([tuple(found) for found in db.execute(query)])


def _with_settings(db: Connection, rows: Sequence[RunRow]) -> list[RunRow]:
    """Add the settings to the rows whose recipe name does not determine the settings' values.

    Settings are read once per set of values, from the job of one run.
    """
    # The recipe name "paper" determines the values only if all rows of a model and task with this
    # name have the same digest of their values.
    digests: defaultdict[tuple[object, ...], set[str]] = defaultdict(set)
    for row in rows:
        digests[_named(row)].add(row.recipe_digest)
    of: dict[tuple[object, ...], str] = {}
    for row in rows:
        says = row.recipe == PAPER and not row.overridden and len(digests[_named(row)]) == 1
        if row.kind == "model" and not says:
            of.setdefault(_values_of_row(row), row.key)
    if not of:
        return list(rows)
    known = _settings_of(db, of.values())
    found = {values: known[key] for values, key in of.items() if key in known}
    return [
        replace(row, settings=found[values]) if (values := _values_of_row(row)) in found else row
        for row in rows
    ]


def _named(row: RunRow) -> tuple[object, ...]:
    return row.model, row.recipe, row.overridden, row.is_sweep, row.task


def _values_of_row(row: RunRow) -> tuple[object, ...]:
    """Return a key that is equal for rows with the same values and sources of settings."""
    return row.kind, row.recipe, row.overridden, row.recipe_digest


def _settings_of(db: Connection, keys: Iterable[str]) -> dict[str, dict[str, Setting]]:
    """Return the settings of these jobs, keyed by job key.

    Damaged jobs are left out; `bench db check` reports them.
    """
    found = {}
    for some in _portions(keys):
        # JSON is read as text, because the column's own type raises DamagedError for the whole
        # query if one row is damaged.
        query = select(RUNS.c.job_key, type_coerce(RUNS.c.job, Text))
        for key, text in db.execute(query.where(RUNS.c.job_key.in_(some))):
            with suppress(ValueError, TypeError, KeyError, AttributeError):
                settings = json.loads(text)["settings"]
                found[key] = {
                    name: Setting.from_json(setting) for name, setting in settings.items()
                }
    return found


def _attempts_at(db: Connection, key: str) -> list[RunRow]:
    """Return every attempt at a job, oldest first."""
    runs = read_runs(db, RUNS.c.job_key == key, with_rows=False)
    return [_row_of_run(run) for run in sorted(runs, key=lambda run: run.attempt)]


def _row_of_run(run: Run) -> RunRow:
    columns = headline_columns(run)
    return row_of(run.job_key, columns["shared"], plain(columns["content"]))


def _finished_among(db: Connection, keys: Iterable[str]) -> set[str]:
    """Return the job keys among `keys` whose jobs have a result."""
    found: set[str] = set()
    for some in _portions(keys):
        query = select(RUNS.c.job_key).where(RUNS.c.job_key.in_(some), RUNS.c.status == FINISHED)
        found.update(db.scalars(query))
    return found


def _values_of(column: Column[str]) -> Subquery:
    """Return a query for the distinct values of an indexed column: one index lookup per value."""
    # The first lookup gives the smallest value, each further one the next larger value, and the
    # last one NULL.
    known = select(func.min(column).label("value")).cte(recursive=True)
    following = select(func.min(column)).where(column > known.c.value).scalar_subquery()
    steps = known.union_all(select(following).where(known.c.value.is_not(None)))
    return select(steps.c.value).where(steps.c.value.is_not(None)).subquery()


def _count_rows(db: Connection, *conditions: ColumnElement[bool]) -> int:
    """Return the number of jobs whose headlines fulfil the conditions."""
    return db.scalar(select(func.count()).select_from(HEADLINES).where(*conditions)) or 0


def _portions(keys: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield the distinct keys in portions that are small enough for one SQL statement."""
    return portions(sorted(set(keys)), KEYS_AT_ONCE)


Names = str | Collection[str] | None
_Condition = ColumnElement[bool]


def open_store(url_or_path: str | Path, *, create: bool = True, upgrade: bool = True) -> "Store":
    """Open the store at a path or a SQLAlchemy URL; create a missing one, upgrade an older one.

    Args:
        url_or_path: Path of an SQLite file, or SQLAlchemy URL.
        create: Open the store for writing: create it if it is missing, and add the outcomes that
            were saved in files while the store could not be written (see `Store.keep`).
        upgrade: Upgrade a store with an older schema; if False, such a store is an error.

    Raises:
        StoreError: If the store is missing (with `create=False`), has an older schema (with
            `upgrade=False`), is damaged, belongs to another program, or was written by a newer
            version. The file is not changed then.
    """
    engine = open_engine(url_or_path)
    prepare(engine, create=create, upgrade=upgrade)
    store = Store(engine)
    store.define_tasks()
    remember_code(code_named_for(store.place_digest))
    return Store(engine, store.take_kept()) if create else store


@contextmanager
def as_store_error(left: str) -> Iterator[None]:
    """Context manager that converts every error that is not a StoreError to a StoreError.

    It is used while a result or failure is stored. The caller then has to handle only StoreError,
    e.g. by saving the result in a file.

    Args:
        left: Description of the result or failure, for the error message.
    """
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        reason = " ".join((str(error).splitlines() or [""])[0].split())
        raise StoreError(
            f"the leaderboard cannot store {left} ({type(error).__name__}: {reason})."
        ) from error


class Store:
    """Database of results and failures. `open_store` opens it, usually in a `with` statement.

    Unless documented otherwise, every method is one transaction. Many processes may use a store at
    the same time. All methods raise StoreError if the database is locked, full or damaged.

    Results that cannot be stored are saved in files (see `keep`), and added when the store is
    opened for writing. The attribute `taken` counts how many were added, and lists the damaged
    files.
    """

    _data = ""

    def __init__(self, engine: Engine, taken: Taken = Taken()) -> None:  # noqa: B008  (a tuple)
        self._engine = engine
        self.taken = taken

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Path of the SQLite file, or URL without passwords."""
        return name_of(self._engine)

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def add_result(self, result: Result) -> int:
        """Store the result of a job with its predictions; return the number of the attempt."""
        return self._add(outcome_to_run(result))

    def add_failure(self, failure: Failure) -> int:
        """Store the failure of a job; return the number of the attempt.

        If the job has a result, lists still show the result.
        """
        return self._add(outcome_to_run(failure))

    def add_missing(self, outcome: Result | Failure) -> bool:
        """Store a result or failure unless its job already has a result.

        The check and the write are one transaction. So if several processes run the same job at the
        same time, only the first result is stored.

        Returns:
            True if the outcome was stored, False if the job already had a result.
        """
        run = outcome_to_run(outcome)
        with writing(self._engine) as db:
            if _finished_among(db, [run.job_key]):
                return False
            append_run(db, run)
            return True

    def hurried(self, seconds: float, since: float | None = None) -> "Store":
        """Return an object for the same store whose methods wait only a given time for a lock.

        Args:
            seconds: Maximum waiting time in seconds. If the database is still locked then, the
                methods raise StoreError.
            since: Time at which the store was found to be locked, as returned by `time.monotonic`.
                It is used in the error message; None if it is unknown.
        """
        return Store(hurried(self._engine, seconds, since))

    def reading_from(self, data: str) -> "Store":
        """Return an object for the same store that replaces the data source of results.

        Its methods `result` and `results` set `Job.data` to `data`. This is used for archives,
        because their runs were made on another machine, with data in other folders. The stored
        results do not change.

        Args:
            data: Source of the data on this machine: "hub", "mini" or a folder.
        """
        found = Store(self._engine, self.taken)
        found._data = data
        return found

    @property
    def kept_folder(self) -> Path:
        """Folder for files with results and failures that cannot be stored (see `keep`).

        It is next to the store's file or, for a database server, in the folder "results" of the
        current folder.
        """
        file = file_of(self._engine)
        if file is not None:
            # Links are resolved, so that all links to the same file share a folder.
            file = file.resolve()
            return file.with_name(f"{file.name}.unstored")
        # A server has no file: the folder is named after the digest of host, port and database.
        return Path("results").absolute() / f"{self.place_digest}.unstored"

    @property
    def place_digest(self) -> str:
        """Digest (12 hex digits) of the store's path, or of its server's host, port and database.

        It identifies the store in the names of files and folders.
        """
        url, file = self._engine.url, file_of(self._engine)
        return digest([str(file.resolve())] if file else [url.host, url.port, url.database])[:12]

    @property
    def _kept_folders(self) -> list[Path]:
        return [self.kept_folder, *kept_elsewhere(self.place_digest)]

    def keep_named_code(self) -> None:
        """Record the code (scripts, plugins) that the user has named in this command.

        The record is kept on this machine, and allows later commands for the same store to load the
        code again. Code that is needed by runs from an archive or another store, but that the user
        has not named, is not recorded.
        """
        keep_code_named(self.place_digest, named_code())

    def forget_named_code(self) -> None:
        """Delete the record that `keep_named_code` has written, before the store is deleted."""
        forget_code_named(self.place_digest)

    def keep(self, outcome: Result | Failure, *, force: bool = False) -> Path:
        """Save a result or failure that cannot be stored now in a file; return the file's path.

        The file is written completely or not at all. It is in `kept_folder` or, if this folder
        cannot be written, in the user's data folder or the folder for temporary files (TMPDIR). The
        next process that opens the store for writing adds the outcome to the store.

        Args:
            outcome: Result or failure to save.
            force: Add the outcome to the store even if its job has a result by then.

        Raises:
            OSError: If the file cannot be written in any of these folders.
            DataError: If the outcome is too large for an archive.
            StoreError: If the outcome contains values that no database can store unchanged.
        """
        return write_kept(self._kept_folders, outcome_to_run(outcome), force=force)

    def take_kept(self) -> Taken:
        """Store the results and failures that `keep` saved in files, and delete these files.

        Damaged files are not deleted. Each file is one transaction.

        Returns:
            Number of outcomes that were stored, number of those that were no longer needed, and
            messages about damaged files.
        """
        added, needless, faults = 0, 0, list[str]()
        for path in kept_files(self._kept_folders):
            try:
                run, force = read_kept(path)
            except FileNotFoundError:  # another process has stored it
                continue
            except StoreError as error:
                faults.append(str(error))
                continue
            with as_store_error(str(path)), writing(self._engine) as db:
                is_new = append_missing(db, run, force=force)
            added, needless = added + is_new, needless + (not is_new)
            # If the file cannot be deleted, the next call finds that its run is stored already.
            with suppress(OSError):
                path.unlink()
        for folder in own_folders(self._kept_folders):
            with suppress(OSError):  # the folder contains damaged files, or does not exist
                folder.rmdir()
        return Taken(added, needless, tuple(faults))

    def kept_faults(self) -> Iterator[str]:
        """Check the files that `keep` has written and yield a message for each damaged one."""
        for path in kept_files(self._kept_folders):
            try:
                read_kept(path)
            except FileNotFoundError:
                continue
            except StoreError as error:
                yield str(error)

    def finished_keys(self, keys: Iterable[str]) -> set[str]:
        """Return the job keys among `keys` whose jobs have a result."""
        with reading(self._engine) as db:
            return _finished_among(db, keys)

    def runs(
        self,
        *,
        model: Names = None,
        suite: Names = None,
        task: Names = None,
        key: str | None = None,
    ) -> list[RunRow]:
        """Return one row per job: its newest result or, without a result, its newest failure.

        The rows are in the order in which they were stored, oldest first. An argument that is None
        selects all rows.

        Args:
            model: Names of models to select, or one name. For a model or an entry that the user has
                renamed, use the new name.
            suite: Names of suites to select, or one name.
            task: Names of tasks to select, or one name. A multi-task run is selected by each of
                its tasks and their suites.
            key: Prefix of the job keys to select.
        """
        with reading(self._engine) as db:
            annotations = read_annotations(db)
            conditions = _conditions(db, annotations, model, suite, task)
            if key is not None:
                conditions.append(_begins_with(HEADLINES.c.job_key, key))
            return _called(_listed_rows(db, annotations, *conditions), model)

    def newest_runs(
        self, most: int, *, model: Names = None, suite: Names = None, task: Names = None
    ) -> Iterator[list[RunRow]]:
        """Yield the newest rows that `runs` would return, in lists, oldest first.

        Each list is read in its own transaction, so that other processes may write between two
        lists. No run is yielded twice.

        Args:
            most: Maximum total number of rows; 0 for all rows. There may be fewer if the user has
                renamed only some entries of a model in `model`.
            model: As for `runs`.
            suite: As for `runs`.
            task: As for `runs`.
        """
        with reading(self._engine) as db:
            annotations = read_annotations(db)
            conditions = _conditions(db, annotations, model, suite, task)
            ids = select(HEADLINES.c.run_id).where(*conditions).order_by(HEADLINES.c.run_id.desc())
            # The query sorts the newest runs first, because of the limit. Yield the oldest first.
            wanted = db.scalars(ids.limit(most) if most else ids).all()
        for some in portions(reversed(wanted), KEYS_AT_ONCE):
            with reading(self._engine) as db:
                rows = _listed_rows(db, annotations, HEADLINES.c.run_id.in_(some))
            yield _called(rows, model)

    def runs_with(self, keys: Iterable[str]) -> list[RunRow]:
        """Return one row per job with one of these keys, as `runs` does.

        A row is the newest result of the job or, without a result, its newest failure. Jobs that
        are not stored are left out.
        """
        with reading(self._engine) as db:
            annotations = read_annotations(db)
            return [
                row
                for some in _portions(keys)
                for row in _listed_rows(db, annotations, HEADLINES.c.job_key.in_(some))
            ]

    def define_tasks(self) -> None:
        """Register the custom tasks that have runs in this store, from their stored definitions."""
        unknown = [name for name in self.suites() if name not in SUITES]
        with reading(self._engine) as db:
            for suite in unknown:
                query = select(HEADLINES.c.shared).where(HEADLINES.c.suite == suite).limit(1)
                define_task_of(db.scalars(query).one())

    def suites(self) -> list[str]:
        """Return the names of all suites with stored runs; the one with the newest run is first."""
        with reading(self._engine) as db:
            known = _values_of(HEADLINES.c.suite)
            newest = select(func.max(HEADLINES.c.run_id)).where(HEADLINES.c.suite == known.c.value)
            query = select(known.c.value).order_by(newest.scalar_subquery().desc())
            found = (name for value in db.scalars(query) for name in _names_in(value))
            return list(dict.fromkeys(found))

    def tasks(self) -> list[str]:
        """Return the sorted names of all tasks that have stored runs."""
        with reading(self._engine) as db:
            known = _values_of(HEADLINES.c.task)
            return sorted(
                {name for each in db.scalars(select(known.c.value)) for name in _names_in(each)}
            )

    def models(self) -> list[str]:
        """Return the sorted names of all models that have stored runs.

        For a model or an entry that the user has renamed, this is the new name.
        """
        with reading(self._engine) as db:
            known = _values_of(HEADLINES.c.model)
            names = list(db.scalars(select(known.c.value).order_by(known.c.value)))
            annotations = read_annotations(db)
            named = [each for each in annotations if each.kind == "name"]
            # An annotation may rename some runs of a model while others keep the stored name, so
            # the names of such models are read from their rows.
            renamed = {str(dict(each.fields)["model"]) for each in named}
            rows = _listed_rows(db, annotations, HEADLINES.c.model.in_(renamed)) if renamed else []
            return sorted({*names} - renamed | {row.model for row in rows})

    def count(self, *, model: Names = None, suite: Names = None, task: Names = None) -> int:
        """Return the number of stored jobs with these models, suites and tasks (see `runs`).

        If the user has renamed only some entries of a model, all jobs of the model are counted.
        """
        with reading(self._engine) as db:
            annotations = [] if model is None else read_annotations(db)
            return _count_rows(db, *_conditions(db, annotations, model, suite, task))

    def newest_maker(self) -> str:
        """Return which benchharness made the newest stored result, such as "benchharness 0.1.0"."""
        with reading(self._engine) as db:
            return newest_maker(db)

    def attempt_count(self) -> int:
        """Return the total number of attempts at all jobs."""
        with reading(self._engine) as db:
            return db.scalar(select(func.count(RUNS.c.id))) or 0

    def newest(self) -> str:
        """Return a digest that changes whenever runs or annotations change."""
        # The digest of the newest run does not change if another run is deleted, but the number of
        # runs does.
        query = select(RUNS.c.digest).order_by(RUNS.c.id.desc()).limit(1)
        with reading(self._engine) as db:
            count = db.scalar(select(func.count(RUNS.c.id))) or 0
            return digest([db.scalar(query), count, annotations_digest(read_annotations(db))])

    def attempts(self, key_prefix: str) -> list[RunRow]:
        """Return one row per attempt at the job whose key has this prefix, oldest first.

        Raises BenchError if no stored job, or more than one, has a key with this prefix.
        """
        with reading(self._engine) as db:
            return _attempts_at(db, _find_key(db, key_prefix))

    def result(self, key_prefix: str) -> Result | Failure:
        """Return the newest result of the job whose key has this prefix, with its predictions.

        If the job has no result, its newest failure is returned.

        Raises:
            BenchError: If no stored job, or more than one, has a key with this prefix.
            StoreError: If the stored run is damaged.
        """
        with reading(self._engine) as db:
            key = _find_key(db, key_prefix)
        return next(self.results([key]))

    def results(self, keys: Iterable[str]) -> Iterator[Result | Failure]:
        """Yield the newest result of each job, or its newest failure if it has no result.

        Results are in the order of the keys. They are read in several transactions, so that not all
        of them are in memory at the same time.

        Args:
            keys: Complete job keys.

        Raises:
            BenchError: If a job is not stored.
            StoreError: If a stored run is damaged.
        """
        for some in portions(keys):
            listed = select(HEADLINES.c.run_id).where(HEADLINES.c.job_key.in_(some))
            with reading(self._engine) as db:
                runs = read_runs(db, RUNS.c.id.in_(listed))
                found = {run.job_key: self._placed(run_to_outcome(run)) for run in runs}
                for key in some:
                    if key not in found:
                        _find_key(db, key)  # raises an error if the job is not stored
                        raise DamagedError(f"run {key[:12]} is missing from the table `headlines`")
            yield from (found[key] for key in some)

    def origins(self, keys: Iterable[str]) -> Iterator[Result]:
        """Yield the newest results of the jobs with these keys, without evaluations and curves.

        The order is arbitrary, and jobs without a result are left out. Digests are not checked,
        because the digest of a run also covers the evaluations, which are not read.

        Args:
            keys: Complete job keys.

        Raises:
            StoreError: If a run is so damaged that it cannot be read.
        """
        columns = (RUNS.c.job, RUNS.c.cost, RUNS.c.provenance, RUNS.c.finished)
        for some in portions(keys, KEYS_AT_ONCE):
            listed = select(HEADLINES.c.run_id).where(HEADLINES.c.job_key.in_(some))
            wanted = select(*columns).where(RUNS.c.id.in_(listed), RUNS.c.status == FINISHED)
            with reading(self._engine) as db:
                found = [without_evaluations(dict(row)) for row in db.execute(wanted).mappings()]
            yield from found

    def _placed(self, found: Result | Failure) -> Result | Failure:
        return replace(found, job=replace(found.job, data=self._data)) if self._data else found

    def annotations(self) -> list[Annotation]:
        """Return all annotations: names that the user gave to runs, and marks that hide runs."""
        with reading(self._engine) as db:
            return read_annotations(db)

    def annotate(
        self,
        keys: Collection[str],
        kind: AnnotationKind,
        value: str = "",
        *,
        whole_model: bool = False,
    ) -> None:
        """Rename or hide the leaderboard entries that contain some jobs.

        Args:
            keys: Keys of the jobs.
            kind: "name" to rename the entries, "hidden" to hide them.
            value: New name, if `kind` is "name". If it equals the model name that is stored, the
                entries get back this name instead.
            whole_model: Rename or hide all entries of these jobs' models.
        """
        with writing(self._engine) as db:
            for fields in _fields_of_rows(db, keys, whole_model=whole_model):
                annotation = Annotation(kind, fields, value)
                if kind == "name" and ("model", value) in fields:
                    take_annotations(db, [annotation])
                else:
                    put_annotation(db, annotation)

    def remove_annotation(self, keys: Collection[str], kind: AnnotationKind) -> None:
        """Remove annotations of one kind from the entries that contain some jobs.

        Annotations of the whole models of these jobs are removed too.

        Args:
            keys: Keys of the jobs.
            kind: "name" to remove names, "hidden" to show hidden entries again.
        """
        with writing(self._engine) as db:
            for whole in (False, True):
                fields = _fields_of_rows(db, keys, whole_model=whole)
                take_annotations(db, [Annotation(kind, each, "") for each in fields])

    def delete(self, keys: Collection[str], digests: Set[str] | None = None) -> int:
        """Delete the attempts at these jobs; return the number of jobs with a deleted attempt.

        Other jobs are not deleted, even if they started from the encoder of a deleted job. Many
        jobs are deleted in several transactions, and the store is consistent after each of them.

        Args:
            keys: Keys of the jobs.
            digests: Digests of the attempts to delete; None to delete all attempts at these jobs.
        """
        drop = partial(delete_attempts, digests=digests)
        return in_pieces(self._engine, portions(sorted(keys)), drop, "deleted")

    def stored_runs(self, keys: Collection[str] | None = None) -> Iterator[StoredRun]:
        """Yield every attempt at the jobs with these keys, for transfer to another store.

        Jobs are sorted by their first attempt. Runs are read in several transactions, so that other
        processes can write in between; runs that they add meanwhile are not yielded.

        Args:
            keys: Keys of the jobs; None for all jobs.

        Raises:
            StoreError: If a run is damaged.
        """
        with reading(self._engine) as db:
            ids = run_ids(db, keys)
        for _, run in whole_runs(self._engine, ids):
            if isinstance(run, StoreError):
                raise run
            yield run_to_stored(run)

    def add_stored(self, runs: Iterable[StoredRun], *, are_checked: bool = False) -> int:
        """Store the runs of another store; return the number of added runs.

        The arguments and the errors are the same as for `merge`.
        """
        return self.merge(runs, are_checked=are_checked).added

    def add_results(self, results: Iterable[Result]) -> int:
        """Store many results in few transactions; return the number of added runs.

        Results that are stored already are skipped, as in `merge`.
        """
        return merge_runs(self._engine, map(outcome_to_run, results)).added

    def merge(self, runs: Iterable[StoredRun], *, are_checked: bool = False) -> Merged:
        """Store the runs of another store; skip attempts that are already stored.

        Other processes may write at the same time (see `merging.merge_runs`). If an error occurs,
        the runs of earlier transactions stay stored. To store either all runs or none, check them
        first with `check_runs` or `check_archive`, and then with `check_rows`.

        Args:
            runs: Runs to store.
            are_checked: Skip the check of scores and predictions, because it has been done before.

        Returns:
            Number of added runs, and the keys of the jobs that had attempts in this store before
            and got further ones.

        Raises:
            StoreError: If a run was changed after its store had written it, or if its scores or
                predictions are impossible.
        """
        found = map(stored_to_run, runs)
        return merge_runs(self._engine, found if are_checked else fitting(found))

    def check_rows(self, known: Known, source: str, *, is_own: bool = False) -> list[str]:
        """Check whether runs of another store (external runs) contradict the runs of this store.

        Two runs contradict each other if they claim to have predicted the same split, but predicted
        different examples, or the same examples in another order.

        Args:
            known: External runs that predicted each split (see `numbers.Known`).
            source: Name of the file or store that contains the external runs, for messages.
            is_own: True if the external runs come from this store. No error is raised then.

        Returns:
            Messages about runs that contradict each other.

        Raises:
            StoreError: If an external run contradicts all stored runs on a split. No error is
                raised if one of the external runs on this split is stored here too.
        """
        here: Known = {}
        self._note_rows(known, here, most=1)
        # First compare with one stored run per split. If it differs, compare with all stored runs.
        self._note_rows(differing(known, here), here)
        for place, (theirs, ours) in {} if is_own else differing(known, here).items():
            remove = shlex.join(["bench", "db", "delete", ours.job_key[:12], "--db", self.name])
            raise StoreError(
                f"nothing was imported: the run {theirs} of {source} and the stored run {ours} "
                f"{contradict(place)}. If the stored run is wrong, `{remove}` removes it. "
                f"Otherwise, ask the author of {source} for another export."
            )
        both = {place: {**here.get(place, {}), **theirs} for place, theirs in known.items()}
        return list(contradictions(both))

    def _note_rows(self, places: Iterable[Place], here: Known, most: int | None = None) -> None:
        """Add the digests of the example ids of stored runs on these splits to `here`.

        `most` is the maximum number of runs per split; None means all runs.
        """
        ids = set[int]()
        with reading(self._engine) as db:
            for task, split, fingerprint in places:
                keys = select(HEADLINES.c.job_key).where(_has_one_of(db, HEADLINES.c.task, task))
                runs = select(RUNS.c.id).where(RUNS.c.job_key.in_(keys))
                wanted = select(PREDICTIONS.c.run_id).where(
                    PREDICTIONS.c.run_id.in_(runs),
                    PREDICTIONS.c.task == task,
                    PREDICTIONS.c.split == split,
                    PREDICTIONS.c.fingerprint == fingerprint,
                )
                ids.update(db.scalars(wanted.limit(most)))
        for _, run in whole_runs(self._engine, sorted(ids)):
            if isinstance(run, Run):  # damaged runs are skipped
                note_rows(run, here)

    def faults(self) -> Iterator[str]:
        """Check the complete store and yield a message for each problem found."""
        return faults_in(self._engine)

    def back_up(self, target: Path) -> None:
        """Copy the store to a new file, while other processes may use the store.

        The file is written completely or not at all. A copy of an SQLite store is another SQLite
        store. A copy of a store on a server is an archive, like that of `bench export --all`.

        Raises:
            BenchError: If the file exists already, or if the store is on a server and the name of
                the file does not end with .gz.
            StoreError: If the store is damaged, or if the file cannot be written.
        """
        check_new(target)
        if file_of(self._engine) is not None:
            copy_sqlite(self._engine, target)
        else:
            archive_runs(self.stored_runs(), target)

    def _add(self, run: Run) -> int:
        with writing(self._engine) as db:
            return append_run(db, run)


def _fields_of_rows(
    db: Connection, keys: Collection[str], *, whole_model: bool
) -> Iterator[tuple[tuple[str, str | bool], ...]]:
    """Yield the conditions that select the entries, or whole models, of these jobs."""
    found: dict[tuple[tuple[str, str | bool], ...], None] = {}
    for some in _portions(keys):
        for row in _stored_rows(db, HEADLINES.c.job_key.in_(some)):
            found[fields_of(row, whole_model=whole_model)] = None
    yield from found


def _conditions(
    db: Connection, annotations: Sequence[Annotation], model: Names, suite: Names, task: Names
) -> list[_Condition]:
    """Return the conditions on headlines that select these models, suites and tasks.

    The condition on models uses stored names. So callers must apply `_called` to the rows after the
    annotations have been applied.
    """
    names = ((HEADLINES.c.suite, suite), (HEADLINES.c.task, task))
    found: list[_Condition] = [_has_one_of(db, *each) for each in names if each[1] is not None]
    if model is not None:
        found.append(HEADLINES.c.model.in_(stored_names(_wanted(model), annotations)))
    return found


def _called(rows: list[RunRow], model: Names) -> list[RunRow]:
    return rows if model is None else [row for row in rows if row.model in _wanted(model)]


def _wanted(model: str | Collection[str]) -> set[str]:
    return set(map(storable, [model] if isinstance(model, str) else model))


def _has_one_of(
    db: Connection, column: Column[str], names: str | Collection[str] | None
) -> _Condition:
    """Return the condition that a column contains one of these names, possibly with other names."""
    # For a multi-task run the column is "glue/mrpc\nglue/rte", so comparing it is not enough.
    wanted = {names} if isinstance(names, str) else {*names} if names else set()
    values = db.scalars(select(_values_of(column).c.value))
    return column.in_([value for value in values if wanted.intersection(_names_in(value))])


def _names_in(value: str) -> list[str]:
    return str(value).split(BETWEEN_NAMES)  # in a damaged SQLite file it may be a number


def _begins_with(column: Column[str], prefix: str) -> _Condition:
    """Return the condition that a key has this prefix.

    It is a range of keys, because LIKE would not use the index. The range ends with "g", which
    comes after all hex digits.
    """
    start = storable(prefix.lower())
    return column.between(start, start + "g")


def _find_key(db: Connection, prefix: str) -> str:
    """Return the only job key with this prefix; raise BenchError if there are none or several."""
    # An empty prefix would match every key.
    is_key = re.fullmatch("[0-9a-f]{1,64}", prefix.lower())
    query = select(RUNS.c.job_key).where(_begins_with(RUNS.c.job_key, prefix)).distinct()
    # The message shows three keys; a fourth means that there are more.
    some = query.order_by(RUNS.c.job_key).limit(4)
    found = db.scalars(some).all() if is_key else ()
    if not found:
        raise BenchError(
            f"no run has a key that begins with {prefix!r}. `bench show runs` shows the keys."
        )
    if len(found) > 1:
        shown = ", ".join(key[: len(prefix) + 6] for key in found[:3])
        more = ", ..." if len(found) > 3 else ""
        raise BenchError(
            f"the key {prefix!r} matches more than one run: {shown}{more}. Use more characters of "
            "the key."
        )
    return str(found[0])
