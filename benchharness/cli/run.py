"""`bench run`: fine-tune, score, store and show."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchharness.cli.display import displayed
from benchharness.cli.leaderboard import show_boards
from benchharness.cli.options import (
    CHECKPOINT_MINUTES,
    DATABASE,
    REPORT,
    Address,
    AllowPickle,
    As,
    AsJson,
    CheckpointEvery,
    ColumnRoles,
    Data,
    Database,
    DataFile,
    Device,
    Encoding,
    EngineName,
    EngineOptions,
    HubData,
    Jobs,
    KeepCheckpoints,
    Limit,
    Log,
    NoHeader,
    Out,
    OwnMetrics,
    Precision,
    ProcessesPerJob,
    RecipeName,
    Seed,
    Settings,
    StartFrom,
    Suites,
    Tasks,
    Teacher,
    Timeout,
    Together,
    TrustRemoteCode,
    as_settings,
    completed_by,
    in_this_database,
    with_plugins,
)
from benchharness.cli.output import complaints, exit_code, tell_notes
from benchharness.driver.drive import Driven, Watch, drive, prepared_workers
from benchharness.driver.halving import Halving, check_halving
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import Request, check_request, find_own_data
from benchharness.driver.schedule import Schedule, schedule_missing
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.engines.choice import EngineChoice
from benchharness.leaderboard.boards.board import TOP, Board, boards_of, top_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, truncated_words
from benchharness.leaderboard.store.database import check_writable, is_there
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, visible
from benchharness.loggers import Listening, Loggers, open_loggers
from benchharness.models import Trust
from benchharness.plugins import plugin_files, plugin_loggers
from benchharness.progress import Watcher
from benchharness.stored.boards import (
    LARGE_STORE,
    gained,
    gather_boards,
    is_reported,
    left_out,
)
from benchharness.tasks.errors import BenchError, JobError
from benchharness.tasks.suites import distinct_title

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="NAME|DIR|NAME=DIR",
        help="A known model, a checkpoint's folder, its name on the hub (with @REVISION), or "
        "'DIR/step-*', the checkpoints of one pretraining run; repeatable.",
        autocompletion=completed_by("models"),
    ),
]
SkipMissing = Annotated[
    bool,
    typer.Option(
        "--skip-missing", help="Leave out the tasks whose files the folder lacks, and say which."
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, metavar="N", help="Run every task with seeds 1 to N. Default: 5."
    ),
]
Test = Annotated[
    bool, typer.Option("--test", help="Predict the test splits too, for `bench submit`.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Run again what is stored; the newest result counts.")
]
Shots = Annotated[
    str | None,
    typer.Option(
        "--shots",
        metavar="N,...",
        help="Train on so many rows, drawn by each seed, as 8,32,128; 0 scores without training, "
        "and all trains on all rows.",
    ),
]
HalvingWanted = Annotated[
    bool,
    typer.Option(
        "--halving",
        help="Of a sweep, run all points with one seed, and the better half with more.",
    ),
]
NoBaselines = Annotated[
    bool,
    typer.Option(
        "--no-baselines",
        help="Leave out the majority and the bag of words that stand below the models.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run, and start nothing.")]


@with_plugins
def run(  # noqa: PLR0913  (one parameter for each option)
    *,
    model: Models,
    suite: Suites = None,
    task: Tasks = None,
    together: Together = None,
    data: Data = "hub",
    data_file: DataFile = None,
    hf: HubData = None,
    columns: ColumnRoles = None,
    metric: OwnMetrics = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    skip_missing: SkipMissing = False,
    seeds: Seeds = None,
    seed: Seed = None,
    recipe: RecipeName = None,
    settings: Settings = None,
    shots: Shots = None,
    cast: As = None,
    start_from: StartFrom = "paper",
    teacher: Teacher = None,
    limit: Limit = None,
    test: Test = False,
    precision: Precision = "auto",
    device: Device = "auto",
    jobs: Jobs = "auto",
    processes_per_job: ProcessesPerJob = 1,
    engine: EngineName = "local",
    address: Address = None,
    engine_options: EngineOptions = None,
    timeout: Timeout = 1800,
    checkpoint_every: CheckpointEvery = CHECKPOINT_MINUTES,
    db: Database = DATABASE,
    out: Out = REPORT,
    log: Log = None,
    force: Force = False,
    halving: HalvingWanted = False,
    no_baselines: NoBaselines = False,
    keep_checkpoints: KeepCheckpoints = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune models on tasks, score them, store the results and show the leaderboard.

    What is stored already is not run again, so the same command resumes where it stopped.
    """
    if halving:
        check_halving(force=force, together=bool(together))
    loggers = open_loggers(log or (), folder_beside(db), plugin_loggers())
    beside = {"--suite": suite, "--task": task, "--together": together, "--data": data != "hub"}
    own = find_own_data(
        data_file, hf, columns, metric, encoding, no_header=no_header, beside=beside
    )
    if own is not None:
        task, data = [own.task.name], own.data
        for sentence in own.sentences:
            typer.echo(visible(sentence), err=as_json)
    request = check_request(
        models=model,
        suites=suite or (),
        tasks=task or (),
        seeds=seeds,
        seed=seed or (),
        settings=[*(settings or ()), *as_settings(cast)],
        shots=shots or "",
        recipe=recipe,
        data=data,
        limit=limit,
        precision=precision,
        splits=("dev", "test") if test else ("dev",),
        baselines=not no_baselines,
        skip_missing=skip_missing,
        device=device,
        jobs=jobs,
        engine=EngineChoice(
            name=engine,
            address=address,
            words=tuple(engine_options or ()),
            processes=processes_per_job,
            folder=folder_beside(db),
        ),
        start_from=start_from,
        together=together or (),
        teacher=teacher,
        db=db,
        trust=Trust(remote_code=trust_remote_code, pickle=allow_pickle),
    )
    if not dry_run and not is_there(db):  # all jobs will run
        _check_places(db, Path(out))
    with nullcontext() if dry_run else prepared_workers(request):
        planned = _plan(request)
        climb = Halving(planned, [task.name for task in request.tasks]) if halving else None
        scheduled = partial(schedule_missing, slots=request.slots, db=db, keep=keep_checkpoints)
        schedule = scheduled(planned, force=force, hold=not (dry_run or halving))
        if dry_run:
            _show_schedule(schedule, climb, _left_out(planned), as_json=as_json)
            return
        if schedule.todo:
            _check_places(db, Path(out))
        driven_by = partial(
            drive,
            placement=request.placement,
            db=db,
            watch=_watching(loggers, as_json=as_json),
            timeout=timeout,
            snapshot_every=checkpoint_every * 60,
            force=force,
        )
        if climb is not None:
            tell_notes(schedule.notes)
            typer.echo(f"{climb.sentence()}.", err=as_json)
        run_of = driven_by(schedule) if climb is None else climb.driven(scheduled, driven_by)
        with run_of as driven:
            code = _conclude(driven, Path(out), db=db, left_out=_left_out(planned), as_json=as_json)
    raise typer.Exit(code)


def _plan(request: Request) -> Plan:
    """The plan of a request; says which rows it lacks, and which values no job has."""
    with Console(stderr=True).status("reading the data and the checkpoints"):
        planned = plan(request)
    _name_missing_rows(request, planned)
    tell_notes(planned.notes)
    return planned


def _left_out(planned: Plan) -> dict[str, dict[str, str]]:
    """What JSON says of tasks that were skipped; nothing where none was."""
    return {"left_out": dict(planned.left_out)} if planned.left_out else {}


def _show_schedule(
    schedule: Schedule,
    climb: Halving | None,
    left_out: Mapping[str, Mapping[str, str]],
    *,
    as_json: bool,
) -> None:
    """What would run; of a halving the whole grid, and how much of it."""
    tell_notes(schedule.notes)
    if as_json:
        facts = {"dry_run": True, "jobs": schedule.to_json(), **left_out}
        typer.echo(json.dumps(facts, indent=2))
        return
    _announce(schedule, as_json=False)
    for line in schedule.lines():
        typer.echo(visible(line))
    if climb is not None:
        typer.echo(f"{climb.sentence()}.")


def _check_places(db: str, out: Path) -> None:
    """Finds out before anything is trained that what comes of it could not be written."""
    check_writable(db)
    try:
        check_place(out)
    except OSError as error:
        raise BenchError(
            f"the report {out} cannot be written: {error.strerror or error}. Give another --out; "
            "nothing was started."
        ) from error


def _name_missing_rows(request: Request, planned: Plan) -> None:
    """Says which tasks and tests are not there, and which splits are shorter than their files."""
    tell_notes(f"{task} is left out: {reason}." for task, reason in planned.left_out.items())
    if counts := planned.left_out_rows():
        splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
        tell_notes([f"rows that their task leaves out: {splits}."])
    if "test" in request.splits:
        _name_untested(request, planned.jobs)


def _name_untested(request: Request, jobs: Sequence[Job]) -> None:
    """Says which tasks have no test rows here; their jobs run all the same."""
    predicted = {split for job in jobs for split in job.predicted_splits}
    without = [
        distinct_title(task.name)
        for task in request.tasks
        if not any((task.name, split) in predicted for split in task.test_splits)
    ]
    if without:
        names = ", ".join(without)
        tell_notes([f"no test split in {jobs[0].data}: {names}."])


def _announce(schedule: Schedule, *, as_json: bool) -> None:
    """Says what will run before anything starts."""
    for line in (schedule.sentence(), *schedule.start_sentences()):
        typer.echo(visible(line), err=as_json)


def _watching(loggers: Loggers, *, as_json: bool) -> Watch:
    """The display of a run, and the trackers beside it."""

    @contextmanager
    def watch(schedule: Schedule, store: Store) -> Iterator[Watcher]:
        _announce(schedule, as_json=as_json)
        if schedule.todo:
            _import_ahead()
        with (
            displayed(schedule, store) as display,
            Listening(display, loggers, display.say) as watcher,
        ):
            yield watcher

    return watch


def _import_ahead() -> None:
    """Imports what writes the report at a time when only other processes have work to do."""
    import_module("benchharness.stored.report")


def _conclude(
    driven: Driven,
    out: Path,
    *,
    db: str,
    left_out: Mapping[str, Mapping[str, str]],
    as_json: bool,
) -> int:
    """Shows what came out, writes the report of all that is stored, and gives the exit code.

    Of a large store only the rows of these models are read, and `bench report` writes the report.
    The exit code is 0, 4 where jobs failed only because their checkpoint could not be loaded, and
    1 otherwise, also where a job has come to nothing at all.
    """
    schedule, store, outcomes = driven
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    finished = store.finished_keys(job.key for job in schedule.jobs)
    is_large = store.count() > LARGE_STORE
    own = [job.key for job in schedule.jobs] if is_large else None
    boards = gained(gather_boards(store, _suites_of(schedule), of=own), store)
    if not as_json and finished:
        _show_boards(boards_of(finished, boards), finished)
    tell_notes(truncated_words(store.runs_with(finished)))
    if not is_large and (outcomes or not is_reported(store, out, boards)):
        from benchharness.stored.report import make_report  # noqa: PLC0415  (numpy, the plots)

        make_report(store, out, last=boards)
    if as_json:
        summary = _summary(schedule, failures, finished, None if is_large else out)
        typer.echo(json.dumps({**summary, **left_out}, indent=2))
    else:
        typer.echo("\n".join(_closing_lines(schedule, failures, finished, db)))
        for tasks in left_out.values():
            typer.echo(visible(f"left out, because their files are missing: {', '.join(tasks)}"))
        typer.echo(visible(_where_to_look(schedule, out, db, is_large=is_large)))
    tell_notes(complaints(failures, schedule.names))
    lost = not failures and len(finished) < len(schedule.jobs)
    return JobError.exit_code if lost else exit_code(failures)


def _show_boards(whole: Sequence[Board], finished: set[str]) -> None:
    """The boards on which the jobs stand: the best, and what was asked for."""
    boards = [top_of(board, TOP, keep=finished) for board in whole]
    show_boards(boards)
    for line in left_out(whole, boards):
        typer.echo(visible(line))


def _closing_lines(
    schedule: Schedule, failures: Sequence[Failure], finished: set[str], db: str
) -> Iterator[str]:
    jobs, before = len(schedule.jobs), len(schedule.jobs) - len(schedule.todo)
    parts = [f"{len(finished)} of {jobs} jobs are finished"]
    if before:
        parts.append(f"{before} of them before this run")
    if failures:
        parts.append(f"{len(failures)} failed")
    yield f"{', '.join(parts)}."
    if len(finished) < jobs:
        runs = shlex.join(["bench", "list", "runs", *in_this_database(db)])
        yield f"The same command runs what is missing; `{runs}` shows what failed."
    elif len({j.seed for j in schedule.jobs if j.kind == "model" and not j.is_zero_shot}) == 1:
        yield "These are scores of one seed; --seeds 5 shows how much another seed moves them."


def _where_to_look(schedule: Schedule, out: Path, db: str, *, is_large: bool) -> str:
    """The page, or what writes it, and the commands that show the same again."""
    words = [word for suite in _suites_of(schedule) for word in ("--suite", suite)]
    there = in_this_database(db)
    files = plugin_files(task for job in schedule.jobs for task in job.trained_tasks)
    plugins = [word for file in files for word in ("--plugin", file)]
    table = shlex.join(["bench", "leaderboard", *words, *there, *plugins])
    one = shlex.join(["bench", "show", schedule.jobs[0].key[:12], *there])
    if is_large:
        report = shlex.join(["bench", "report", *there, "--out", str(out), *plugins])
        return f"the table with ranks: `{table}`; the report: `{report}`; one run: `{one}`"
    return f"report: {out}; the table again: `{table}`; one run: `{one}`"


def _suites_of(schedule: Schedule) -> tuple[str, ...]:
    """The suites of the tasks that the jobs are trained on."""
    tasks = (task for job in schedule.jobs for task in job.trained_tasks)
    return tuple(dict.fromkeys(task.partition("/")[0] for task in tasks))


def _summary(
    schedule: Schedule, failures: Sequence[Failure], finished: set[str], out: Path | None
) -> dict[str, Any]:
    stored_before = {job.key for job in schedule.jobs} - {job.key for job in schedule.todo}
    return {
        "exit_code": exit_code(failures),
        "jobs": len(schedule.jobs),
        "stored_before": len(stored_before),
        "finished": len(finished - stored_before),
        "failed": [
            {
                "key": failure.job.key,
                "model": failure.job.model,
                "task": failure.job.task,
                "seed": failure.job.seed,
                "status": failure.kind,
                "error": failure.error,
            }
            for failure in failures
        ],
        "missing": len(schedule.jobs) - len(finished),
        "report": None if out is None else str(out),
    }
