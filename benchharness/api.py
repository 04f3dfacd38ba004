"""The Python interface of benchharness. Its functions correspond to commands of `bench`.

    import benchharness as bh

    results = bh.run("tiny", suite="glue", data="mini", seeds=2)
    results.frame().groupby("task")["score"].mean()

Tables are returned as data frames. The functions print nothing, except that `run` shows progress
bars on stderr or in the notebook. An error that the user can fix is raised as a BenchError, and its
message explains the problem and what to do. Ctrl-C in a notebook stops a run, and the same call
resumes the run.
"""

import hashlib
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from os import fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from rich.console import Console

from benchharness.driver.advice import advice_on
from benchharness.driver.display import Display
from benchharness.driver.live import RunState
from benchharness.driver.options import (
    DATABASE,
    RunOptions,
    in_python,
    listed,
    speaks_python,
    takes_options,
)
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import Schedule
from benchharness.driver.session import Session
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.errors import BenchError, ModelError, shown_place
from benchharness.leaderboard.boards import published as tables
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.boards.cell import note_lines
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.database import check_writable, is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.models import Trust, weights_identity
from benchharness.models.folder import describe_folder
from benchharness.plugins import load_plugins
from benchharness.progress import Watcher, job_name, job_names
from benchharness.stored import Within, find_rows, gather_boards
from benchharness.stored.frames import (
    board_frame,
    contrasts_frame,
    curve_frame,
    examples_frame,
    predictions_frame,
    published_frame,
    runs_frame,
)
from benchharness.stored.predictions import StoredPredictions, contrasts_of
from benchharness.tasks.custom import custom_tasks
from benchharness.tasks.examples import Example
from benchharness.tasks.foreign_code import begin
from benchharness.tasks.read import holds, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_suites, find_task, title_of

if TYPE_CHECKING:
    import datasets

Words = str | Sequence[str]


# Running models on tasks.


@dataclass(frozen=True, kw_only=True)
class Results:
    """Outcome of a call of `run`, with access to the stored results of its jobs.

    A job is the training and evaluation of one model on one task with one seed.

    Attributes:
        db: The database that contains the results: a path or a SQLAlchemy URL.
        keys: The keys of all jobs of the call, including those that had finished before.
        suites: The names of the suites to which the tasks belong.
        failures: Error messages, one for each job that failed in this call.
        left_out: Reasons why tasks were skipped, keyed by task. A task is skipped only if
            `skip_missing` is set and files of the task are missing.
        said: Messages about the user's own data: the inferred task, its splits, and texts that
            occur in two splits.
        schedule: In a dry run (`dry_run`), one mapping per job, with its key, model, task and seed,
            `to_run` (whether the job would run), `about_seconds` (its estimated duration), and
            other properties of the job; otherwise empty.
        advice: For runs that have learned nothing, a sentence with the call that would most likely
            mend them.
    """

    db: str
    keys: tuple[str, ...]
    suites: tuple[str, ...]
    failures: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    schedule: tuple[Mapping[str, Any], ...] = ()
    advice: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """Return the stored runs of this call as a data frame, in the order of `keys`.

        Jobs that have not run, for example because the call was interrupted, are left out. The rows
        and columns are described in `benchharness.stored.frames.runs_frame`.
        """
        with open_store(self.db, create=False) as store:
            found = {row.key: row for row in store.runs_with(self.keys)}
        return runs_frame(found[key] for key in self.keys if key in found)

    @property
    def truncated(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Numbers of truncated examples, as `{run key: {"task:split": (truncated, total)}}`.

        An example is truncated if it has more tokens than the hyperparameter `max_tokens` allows.
        Splits without truncated examples are not included.
        """
        with open_store(self.db, create=False) as store:
            found = store.runs_with(self.keys)
            return {row.key: dict(row.truncated) for row in found if row.truncated}

    def boards(self) -> "list[BoardTable]":
        """Return the leaderboards of the suites in `suites`, with all stored runs on them."""
        return boards(self.suites, db=self.db)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<{len(self.keys)} runs in {shown_place(self.db)}{failed}>"

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{escape(line)}</p>" for line in (*self.said, *self.failures))
        boards = "".join(board._repr_html_() for board in self.boards())
        advice = "".join(f"<p>{escape(line)}</p>" for line in self.advice)
        return lines + boards + advice or f"<p>{escape(repr(self))}</p>"


@takes_options()
def run(
    model: Any,
    *,
    tokenizer: Any = None,
    name: str = "",
    plugins: str | Path | Iterable[str | Path] = (),
    progress: bool | None = None,
    **options: Any,
) -> Results:
    """Fine-tune models on tasks, score them and store the results, as `bench run` does.

    Finished jobs are skipped. If a job fails, no exception is raised; its error is in
    `Results.failures`. A hyperparameter that applies to none of the jobs is ignored with a warning.

    A model in memory is saved next to the database. The name of its folder contains a digest of the
    weights, so models with equal weights count as one model. The weights and the device of the
    model are not changed.

    Args:
        model: The value of `--model` (a name, a folder, or a hub id, which may have a revision), a
            list of such values, or a transformers model in memory.
        tokenizer: The tokenizer of a model in memory.
        name: The name of the model on leaderboards; allowed only for a single model.
        plugins: One or several plugin files; by default, those in the environment variable
            BENCH_PLUGINS.
        progress: Whether to show progress bars; by default, only in a terminal or a notebook.
        **options: The options of `bench run`, which are listed below, with Python values. `seeds`
            is a number N (for seeds 1 to N) or a list of seeds. `set` is a mapping, in which a list
            of values makes a sweep. `shots` is a number or a list. `columns` is a mapping such as
            {"text": "review", "label": "stars"}. Several names are given as a list. `data_file` may
            also be a table in memory: a data frame, a `datasets.Dataset`, a list of dicts, or a
            mapping from split names to such tables.

    Returns:
        The keys of all jobs, the errors of failed jobs, and access to the stored results.

    Raises:
        BenchError: The run is not possible as requested. This is raised before any job starts.
    """
    load_files(plugins)
    asked = run_options(options)
    models = _model_words(model, tokenizer, name, folder_beside(asked.db), asked.trust)
    session = Session.of(replace(asked, model=tuple(models)), watching(progress))
    if not asked.dry_run and not is_there(asked.db):
        check_writable(asked.db)
    with session.prepared():
        planned = session.plan()
        for note in planned.notes:
            warnings.warn(in_python(note), stacklevel=4)
        failed, advice = list[Failure](), list[str]()
        if not asked.dry_run:
            with session.run(planned) as driven:
                failed = [each for each in driven.outcomes if isinstance(each, Failure)]
                keys = [job.key for job in driven.schedule.jobs]
                found = advice_on(session.options, driven.store, keys)
                advice = [f"{each.sentence} {each.call}" for each in found]
    return replace(results_of(session, planned, failed), advice=tuple(advice))


def results_of(session: Session, planned: Plan, failed: Sequence[Failure]) -> Results:
    """Build the return value of `run`.

    Args:
        session: The session that has run the jobs (or has only planned them, in a dry run).
        planned: The plan of the session.
        failed: The failures of jobs in this call.
    """
    names, tasks = job_names(planned.jobs), session.request.every_task
    is_dry = session.options.dry_run
    return Results(
        db=session.options.db,
        keys=tuple(job.key for job in planned.jobs),
        suites=tuple(dict.fromkeys(task.suite for task in tasks)),
        failures=tuple(f"{names[each.job.key]}: {each.error}" for each in failed),
        left_out=dict(planned.left_out),
        said=session.request.notes,
        schedule=tuple(session.preview(planned).to_json()) if is_dry else (),
    )


def load_files(plugins: str | Path | Iterable[str | Path]) -> None:
    """Load plugin files.

    `plugins` is the path of one file, or several paths. If it is empty, the files in the
    environment variable BENCH_PLUGINS are loaded.
    """
    load_plugins(map(Path, _values(plugins) or (plugins,)) if plugins else None)


def run_options(values: Mapping[str, Any]) -> RunOptions:
    """Build the options of a run from the keyword arguments of `run`.

    If the argument `data_file` is a table in memory, the table is saved next to the database, and
    the option `data_file` is the path of the folder with the saved files.
    """
    db = fspath(values.get("db", DATABASE))
    rows = saved_rows(values.get("data_file"), db)
    return RunOptions.of(**{**values, "db": db, "data_file": rows})


def watching(progress: bool | None) -> Any:
    """Return a function that shows the progress of a run, for use as `Session.watch`.

    Args:
        progress: Whether to show progress bars. If it is None, they are shown only in a terminal or
            a notebook.

    Returns:
        A function that gets the schedule of the run and the open store, and returns a context
        manager that shows the progress while its block runs.
    """

    @contextmanager
    def watch(schedule: Schedule, _store: Store) -> Iterator[Watcher]:
        console = Console(stderr=True, quiet=progress is False)
        if progress is None and not (console.is_terminal or console.is_jupyter):
            console.quiet = True
        with Display(RunState.of(schedule, time.monotonic()), console) as display:
            yield display

    return watch


def _values(value: Any) -> tuple[Any, ...] | None:
    """Return the values of a list, an array or a range as a tuple; None for a single value.

    A string is a single value.
    """
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    return None if is_one else tuple(value)


def _model_words(model: Any, tokenizer: Any, name: str, folder: Path, trust: Trust) -> list[str]:
    """Return the values of `--model` for the given models.

    A model in memory is first saved in a folder inside `folder`.
    """
    is_one = isinstance(model, str | Path)
    if is_one or isinstance(model, Sequence):
        if tokenizer is not None or (name and not is_one):
            raise BenchError(
                "name= can be used only with a single model, and tokenizer= only with a model in "
                "memory: omit the argument that does not apply."
            )
        return [f"{name}={model}" if name else str(model)] if is_one else list(map(str, model))
    if not hasattr(model, "save_pretrained"):
        raise ModelError(
            f"expected a model, but got {type(model).__name__}. Pass a name, a folder, a hub id, "
            "or a transformers model with its tokenizer."
        )
    if not hasattr(tokenizer, "save_pretrained"):
        raise ModelError(
            "a model in memory needs its tokenizer: run(model, tokenizer=tokenizer, ...)."
        )
    if model.device.type == "meta":
        raise ModelError("the model is on the device meta, so it has no weights. Load them first.")
    given = name or Path(model.config.name_or_path).name or model.config.model_type

    shown = re.sub(r"[^\w .=-]+", "-", str(given))[:100]  # valid in a folder's name

    def save(whole: Path) -> str:
        bars = import_module("transformers.utils.logging")
        shown_before = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        model.save_pretrained(whole)
        if shown_before:
            bars.enable_progress_bar()
        tokenizer.save_pretrained(whole)
        digest = weights_identity(describe_folder(whole, trust)).rpartition(":")[2]
        return f"{shown}-{digest[:12]}"

    return [f"{given}={_saved('model', folder / 'models', save)}"]


def _saved(what: str, folder: Path, save: Callable[[Path], str]) -> Path:
    """Save something in a new folder inside `folder`, and return the path of the new folder.

    The new folder appears only when it is complete. An existing folder with the same name is kept.

    Args:
        what: What is saved, as a noun for error messages.
        folder: The folder in which the new folder is created.
        save: A function that gets a path, writes files to it, and returns the name for the new
            folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The unfinished folder is inside `folder`, because a rename is atomic only within a file
        # system. If the new folder exists already, it has the same content, because its name
        # contains a digest.
        with TemporaryDirectory(dir=folder, prefix=".saving-") as made:
            whole = Path(made).resolve() / what
            place = (folder / save(whole)).resolve()
            if not place.is_dir():
                whole.rename(place)
    except OSError as error:
        raise BenchError(
            f"the {what} could not be saved in {folder}: {error.strerror or error}. Set db to a "
            "path in another folder."
        ) from error
    return place


def saved_rows(rows: Any, db: str) -> str | None:
    """Return the path of the user's data; data in memory are first saved next to the database.

    Args:
        rows: The argument `data_file`: a path, a table in memory (a data frame, a
            `datasets.Dataset`, or a list of dicts), a mapping from split names to tables, or None.
        db: The database: a path or a SQLAlchemy URL.

    Returns:
        The path as text, or None if `rows` is None.
    """
    if rows is None or isinstance(rows, str | Path):
        return None if rows is None else str(rows)

    files = custom_tasks().parquet_files(rows)

    def save(whole: Path) -> str:
        digest = hashlib.sha256()
        (whole / "rows").mkdir(parents=True)
        for name, content in files.items():
            (whole / "rows" / f"{name}.parquet").write_bytes(content)
            digest.update(name.encode() + content)
        return digest.hexdigest()[:12]

    return str(_saved("data", folder_beside(db) / "data", save) / "rows")


# Reading results from the store.


@speaks_python
def runs(db: str | Path = DATABASE) -> pd.DataFrame:
    """Return all runs in a database of results as a data frame, oldest first.

    `db` is the path or the SQLAlchemy URL of the database. If a job ran several times, only its
    newest result is included or, if it has none, its newest failure. The rows and columns are
    described in `benchharness.stored.frames.runs_frame`.
    """
    with open_store(fspath(db), create=False) as store:
        return runs_frame(store.runs())


@dataclass(frozen=True, kw_only=True)
class BoardTable:
    """Leaderboard of a suite, which a notebook displays as a table.

    Attributes:
        board: The data of the leaderboard.
    """

    board: Board

    @property
    def title(self) -> str:
        """Title of the leaderboard, made of the suite and the data of the evaluation."""
        return f"{self.board.title} on {self.board.data_label}"

    def frame(self) -> pd.DataFrame:
        """Return a data frame with one row per leaderboard entry (a model with its recipe).

        The columns are described in `benchharness.stored.frames.board_frame`.
        """
        return board_frame(self.board)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that explain the warning marks next to scores in the table."""
        return tuple(note_lines(noted for entry in self.board.entries for noted in entry.noted))

    def __repr__(self) -> str:
        return "\n".join((self.title, self._shown().to_string(index=False), *self.notes))

    def _repr_html_(self) -> str:
        table = self._shown().to_html(index=False, na_rep="", border=0)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p><b>{escape(self.title)}</b></p>{table}{notes}"

    def _shown(self) -> pd.DataFrame:
        known = self.frame().drop(columns=["model", "recipe", "precision", "flags"])
        scores = known.select_dtypes("float64").mul(100)  # shown in percent
        known = known.assign(**scores).dropna(axis="columns", how="all").round(1)
        known = known.astype(object).where(known.notna(), "")
        for place, entry in enumerate(self.board.entries):
            if "score" in known:
                known.loc[place, "score"] = entry.score_text
            for task, cell in entry.cells.items():
                known.loc[place, title_of(task)] = cell.text
        return known


@speaks_python
def boards(
    suite: Words = (), *, db: str | Path = DATABASE, data: str | None = None
) -> list[BoardTable]:
    """Return the leaderboards of one or several suites; by default, of all suites with runs.

    A suite has separate leaderboards for different data sources and for different limits on the
    number of examples.

    Args:
        suite: The name of a suite, or several names.
        db: The database of results.
        data: The data source ("hub", "mini" or a folder); by default, the leaderboards on all
            sources are returned.
    """
    with open_store(fspath(db), create=False) as store:
        found = gather_boards(store, Within(suites=listed(suite), data=data))
        return [BoardTable(board=each) for each in found]


@speaks_python
def board(suite: str, *, db: str | Path = DATABASE, data: str | None = None) -> BoardTable:
    """Return the leaderboard of a suite.

    A suite has several leaderboards if models were evaluated on different data. This function
    returns only the leaderboard with the most runs, whereas `boards` returns all leaderboards.

    Args:
        suite: The name of the suite.
        db: The database of results.
        data: The data source ("hub", "mini" or a folder); by default, any source.

    Raises:
        BenchError: The database has no runs of the suite.
    """
    found = boards(suite, db=db, data=data)
    if not found:
        raise BenchError(f"{db} has no runs of {suite}. Use bh.run(..., suite={suite!r}) first.")
    return found[0]


@speaks_python
def predictions(key: str, *, db: str | Path = DATABASE) -> pd.DataFrame:
    """Return the predictions of a run as a data frame, with the correct answer of each example.

    The columns are described in `benchharness.stored.frames.predictions_frame`. The database does
    not contain the examples, so they are read again from the data source of the run. If the
    examples cannot be read or have changed, the column `gold` is None, and `frame.attrs["unread"]`
    contains the reason, keyed by "task:split". `frame.attrs["flags"]` contains warnings about the
    run, keyed by task.

    Args:
        key: The key of the run, or its first characters.
        db: The database of results.

    Raises:
        BenchError: No run or several runs have this key, or the run failed.
    """
    with open_store(fspath(db), create=False) as store:
        stored, result = StoredPredictions(store), _finished(store, key)
        examples: dict[str, Sequence[Example]] = {}
        unread: dict[str, str] = {}
        for each in result.evaluations:
            try:
                examples[each.name] = stored.rows(result.job, each.name).examples
            except BenchError as error:
                unread[each.name] = str(error)
    found = predictions_frame(result, examples)
    found.attrs |= {"unread": unread, "flags": result.flags}
    return found


@speaks_python
def curve(key: str, *, db: str | Path = DATABASE) -> pd.DataFrame:
    """Return the learning curve of a run as a data frame, with a row per recorded training step.

    The columns are described in `benchharness.stored.frames.curve_frame`. `frame.attrs["flags"]`
    contains warnings about the run, keyed by task.

    Args:
        key: The key of the run, or its first characters.
        db: The database of results.

    Raises:
        BenchError: No run or several runs have this key, or the run failed.
    """
    with open_store(fspath(db), create=False) as store:
        result = _finished(store, key)
    found = curve_frame(result)
    found.attrs["flags"] = result.flags
    return found


def _finished(store: Store, key: str) -> Result:
    found = store.result(key)
    if isinstance(found, Failure):
        name = job_name(found.job)
        raise BenchError(f"run {key} of {name} has no result ({found.kind}): {found.error}")
    return found


@speaks_python
def published(suite: str) -> pd.DataFrame:
    """Return the scores on a suite that papers and model cards report, with the sources.

    The columns are described in `benchharness.stored.frames.published_frame`. `suite` is the name
    of a suite, or of a collection of several suites.
    """
    rows = [row for each in find_suites(suite) for row in tables.published(each.name)]
    return published_frame(rows)


@speaks_python
def compare(  # noqa: PLR0913  (the options of `bench compare`)
    one: str,
    other: str,
    *,
    suite: Words = (),
    task: Words = (),
    data: str | None = None,
    split: Literal["dev", "test"] = "dev",
    trust_remote_code: bool = False,
    db: str | Path = DATABASE,
) -> pd.DataFrame:
    """Test on which tasks two systems differ significantly in their predictions.

    Args:
        one: The first system: "MODEL", "MODEL:RECIPE", or the first characters of a run's key.
        other: The second system, in the same form.
        suite: The suites on which the systems are compared; by default, all suites.
        task: The tasks on which the systems are compared; by default, all tasks.
        data: The data source of the compared runs ("hub", "mini" or a folder); by default, runs on
            all sources are compared.
        split: The split whose predictions are compared.
        trust_remote_code: Whether to run third-party code of metrics, which imported runs may need.
        db: The database of results.

    Returns:
        A data frame with a row per task. The columns are described in
        `benchharness.stored.frames.contrasts_frame`.

    Raises:
        BenchError: A system is unknown, no task has results for both systems, or the systems cannot
            be compared on a task, for example because they have no seed in common.
    """
    begin(trust=trust_remote_code)
    with open_store(fspath(db), create=False) as store:
        within = Within(suites=listed(suite), tasks=listed(task), data=data)
        found = find_rows(store, (one, other), within, select=select_entry_or_run)
        return contrasts_frame(
            contrast
            for rows in found
            for contrast in contrasts_of(store, rows, split, with_slices=False)
        )


# Reading the data of tasks, without any run.


@speaks_python
def load(
    task: str,
    split: str = "dev",
    data: str | Path = "hub",
    *,
    limit: int | None = None,
    form: Literal["frame", "dataset"] = "frame",
) -> "pd.DataFrame | datasets.Dataset":
    """Return the examples of a split as a data frame or as a data set.

    There is one row per example, and one column per field of the examples, such as text or label.

    Args:
        task: The name of the task, such as "glue/cola".
        split: The name of the split, such as "train" or "dev".
        data: The data source: "hub", "mini" (synthetic data), or a folder of official files.
        limit: The approximate number of examples to return, which are a fixed stratified subset; by
            default, all examples are returned.
        form: "frame" to get a data frame, "dataset" to get a `datasets.Dataset`.

    Raises:
        BenchError: The task is unknown, or the split does not exist or cannot be read.
    """
    found = find_task(task, holds(str(data)))
    frame = examples_frame(read(found, split, parse_data(str(data)), limit).examples)
    if form == "frame":
        return frame
    from datasets import Dataset  # noqa: PLC0415  (takes seconds)

    return Dataset.from_pandas(frame, preserve_index=False)
