"""`bench run`: fine-tune, score, store and show."""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from benchharness.cli.leaderboard import show_boards
from benchharness.cli.options import (
    CHECKPOINT_MINUTES,
    DATABASE,
    REPORT,
    Address,
    AllowPickle,
    AsJson,
    CheckpointEvery,
    Database,
    Device,
    EngineName,
    EngineOptions,
    Jobs,
    KeepCheckpoints,
    Limit,
    Log,
    Out,
    ProcessesPerJob,
    RecipeName,
    Seed,
    Settings,
    StartFrom,
    Suites,
    Tasks,
    Timeout,
    TrustRemoteCode,
    with_plugins,
)
from benchharness.driver.schedule import Outlook
from benchharness.engines.process import Outcome
from benchharness.progress import job_name
from benchharness.stored.boards import gather_boards, left_out
from benchharness.stored.report import is_made, make_report
from leaderboard.boards.board import TOP, Board, boards_of, top_of
from leaderboard.result import Failure
from leaderboard.store.store import Store
from leaderboard.text import visible
from tasks.errors import JobError, ModelError

if TYPE_CHECKING:
    from benchharness.driver.handover import Handover
    from benchharness.driver.request import Request
    from benchharness.engines.process import Engine
    from benchharness.kept_folders import SnapshotFolder
    from benchharness.loggers import Loggers
    from leaderboard.job import Job

__all__ = ["run"]

Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        metavar="NAME|DIR|NAME=DIR",
        help="A known model, a checkpoint's folder, or its name on the hub; repeatable.",
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="hub|DIR|mini",
        help="Where the rows come from: the hub, a folder of official files, or the packaged data.",
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
Precision = Annotated[
    Literal["auto", "fp32", "bf16"],
    typer.Option(
        "--precision",
        metavar="auto|fp32|bf16",
        help="Number format of matrix products; auto takes the faster.",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Run again what is stored; the newest result counts.")
]
NoFloors = Annotated[
    bool,
    typer.Option(
        "--no-floors",
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
    data: Data = "hub",
    seeds: Seeds = None,
    seed: Seed = None,
    recipe: RecipeName = None,
    settings: Settings = None,
    start_from: StartFrom = "paper",
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
    no_floors: NoFloors = False,
    keep_checkpoints: KeepCheckpoints = False,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune models on tasks, score them, store the results and show the leaderboard.

    What is stored already is not run again, so the same command goes on where it was interrupted.
    """
    from benchharness.driver.handover import Handover, folder_beside
    from benchharness.driver.request import check_request
    from benchharness.driver.schedule import look_into
    from benchharness.engines.choice import EngineChoice
    from benchharness.kept_folders import SnapshotFolder
    from benchharness.loggers import open_loggers
    from benchharness.models import Trust
    from leaderboard.store.store import open_store

    loggers = open_loggers(log or (), folder_beside(db))
    request = check_request(
        models=model,
        suites=suite or (),
        tasks=task or (),
        seeds=seeds,
        seed=seed or (),
        settings=settings or (),
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
        trust=Trust(remote_code=trust_remote_code, pickle=allow_pickle),
    )
    with _imported_meanwhile(request, dry_run=dry_run):
        planned = _plan(request, data, recipe, precision, limit, test=test, floors=not no_floors)
        name_missing_rows(request, planned, test=test)
        handover = Handover.of(planned, db, keep=keep_checkpoints)
        outlook = look_into(db, handover, request.slots, force=force)
        if dry_run:
            _show(outlook, as_json=as_json)
            return
        _require_checkpoints(outlook.todo)
        snapshots = SnapshotFolder.of(folder_beside(db), checkpoint_every * 60)
        crew = request.place.engine(
            timeout=timeout or None,
            checkpoints=handover.folder,
            keep=outlook.starts,
            snapshots=snapshots,
        )
        with open_store(db) as store:
            _announce(outlook, as_json=as_json)
            if outlook.todo:
                import_ahead()
            outcomes = _drive(
                outlook, crew, store, handover, snapshots, loggers=loggers, force=force
            )
            raise typer.Exit(conclude(outlook, outcomes, store, Path(out), as_json=as_json))


def _imported_meanwhile(request: "Request", *, dry_run: bool) -> AbstractContextManager[None]:
    """What the jobs import is imported from now on, while they are planned."""
    from benchharness.worker.fork_server import modules_of

    if dry_run:
        return nullcontext()
    kind = "floor" if all(model.is_floor for model in request.models) else "model"
    return request.place.prepared(modules_of(kind, request.tasks))


def _plan(  # noqa: PLR0913  (options of the command)
    request: "Request",
    data: str,
    recipe: str | None,
    precision: str,
    limit: int | None,
    *,
    test: bool,
    floors: bool,
) -> "list[Job]":
    """The jobs of the request, those of the floors last; reads the data, which takes a moment."""
    from rich.console import Console

    from benchharness.driver.plan import floor_jobs, plan_jobs
    from benchharness.models import FLOORS, find_model

    encoders = [model for model in request.models if not model.is_floor]
    wanted = [floor for floor in FLOORS if floors or floor in request.models]
    with Console(stderr=True).status("reading the data and the checkpoints"):
        planned = plan_jobs(
            encoders or [find_model("tiny")],
            request.tasks,
            data=data,
            seeds=request.seeds,
            recipe=recipe,
            overrides=request.overrides,
            precision=precision,
            limit=limit,
            splits=("dev", "test") if test else ("dev",),
            gpu=request.slots[0].is_gpu,
            start_from=request.start_from,
        )
        return [*(planned if encoders else ()), *floor_jobs(planned, wanted, request.tasks)]


def _announce(outlook: "Outlook", *, as_json: bool) -> None:
    """Says what will run before anything starts."""
    for line in (outlook.sentence(), *outlook.start_sentences()):
        typer.echo(visible(line), err=as_json)


def _show(outlook: "Outlook", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"dry_run": True, "jobs": outlook.to_json()}, indent=2))
    else:
        _announce(outlook, as_json=False)
        for line in outlook.lines():
            typer.echo(visible(line))


def _require_checkpoints(jobs: "Sequence[Job]") -> None:
    """Raises ModelError where a checkpoint can be had from nowhere, before anything starts."""
    from benchharness.models.weights import hub_revision, require_checkpoint

    for job in {job.weights: job for job in jobs}.values():
        if (revision := hub_revision(job.weights)) is not None:
            require_checkpoint(job.checkpoint, revision)


def _drive(  # noqa: PLR0913  (who takes part in it)
    outlook: "Outlook",
    engine: "Engine",
    store: "Store",
    handover: "Handover",
    snapshots: "SnapshotFolder | None",
    *,
    loggers: "Loggers",
    force: bool,
) -> "list[Outcome]":
    """Runs what is missing under a display; says what is kept when it is interrupted."""
    from rich.console import Console

    from benchharness.cli.display import Display
    from benchharness.driver.drive import drive
    from benchharness.loggers import Listening

    try:
        with (
            Display(len(outlook.todo), outlook.weights, Console(stderr=True)) as display,
            Listening(display, loggers, display.say) as ears,
        ):
            return drive(
                outlook.todo, engine, store, ears, handover, force=force, snapshots=snapshots
            )
    except (KeyboardInterrupt, SystemExit):
        kept = len(store.finished_keys(job.key for job in outlook.jobs))
        typer.echo(
            f"bench: interrupted; {kept} of {len(outlook.jobs)} jobs are stored, and the same "
            "command goes on from there.",
            err=True,
        )
        raise


# What a user should know of the rows before a run: some are left out, some are not there.


def name_missing_rows(request: "Request", jobs: "Sequence[Job]", *, test: bool) -> None:
    """Says which splits are shorter than their files, and which tests are not there."""
    _name_left_out(jobs)
    if test:
        _name_untested(request, jobs)


def _name_left_out(jobs: "Sequence[Job]") -> None:
    """Says which splits are shorter than their files."""
    from benchharness.driver.plan import left_out_rows

    if counts := left_out_rows(jobs):
        splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
        typer.echo(visible(f"bench: rows left out as their benchmark does: {splits}."), err=True)


def _name_untested(request: "Request", jobs: "Sequence[Job]") -> None:
    """Says which tasks have no test rows here; their jobs run all the same."""
    predicted = {split for job in jobs for split in job.predicted_splits}
    without = [
        task.name
        for task in request.tasks
        if not any((task.name, split) in predicted for split in task.test_splits)
    ]
    if without:
        names = ", ".join(without)
        typer.echo(visible(f"bench: no test split in {jobs[0].data}: {names}."), err=True)


# How a `bench run` ends: the table, what failed, the report's path and the exit code.

LATER = (
    "benchharness.stored.contrasts",
    "leaderboard.report.write",
    "leaderboard.statistics.interval",
)
"""What the report imports on use, because other commands do without it: half a second."""


def import_ahead() -> None:
    """Imports what a conclusion needs, at a time when only other processes have work to do."""
    for module in LATER:
        import_module(module)


def conclude(
    outlook: Outlook, outcomes: Sequence[Outcome], store: Store, out: Path, *, as_json: bool
) -> int:
    """Shows what came out, writes the report of all that is stored, and gives the exit code.

    The exit code is 0, 4 where jobs failed only because their checkpoint could not be loaded, and
    1 otherwise, also where a job has come to nothing at all.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    finished = store.finished_keys(job.key for job in outlook.jobs)
    boards = gather_boards(store, _suites(outlook))
    if not as_json and finished:
        _show_boards(boards_of(finished, boards), finished)
    if outcomes or not is_made(store, out, boards):
        make_report(store, out, last=boards)
    if as_json:
        typer.echo(json.dumps(_summary(outlook, failures, finished, out), indent=2))
    else:
        typer.echo("\n".join(_closing_lines(outlook, failures, finished)))
        typer.echo(visible(f"report: {out}"))
    for line in _complaints(failures):
        typer.echo(visible(f"bench: {line}"), err=True)
    lost = not failures and len(finished) < len(outlook.jobs)
    return JobError.exit_code if lost else _exit_code(failures)


def _show_boards(whole: Sequence[Board], finished: set[str]) -> None:
    """The boards on which the jobs stand: the best, and what was asked for."""
    boards = [top_of(board, TOP, keep=finished) for board in whole]
    show_boards(boards)
    for line in left_out(whole, boards):
        typer.echo(visible(line))


def _suites(outlook: Outlook) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job.task.partition("/")[0] for job in outlook.jobs))


def _closing_lines(
    outlook: Outlook, failures: Sequence[Failure], finished: set[str]
) -> Iterator[str]:
    jobs, before = len(outlook.jobs), len(outlook.jobs) - len(outlook.todo)
    parts = [f"{len(finished)} of {jobs} jobs are finished"]
    if before:
        parts.append(f"{before} of them before this run")
    if failures:
        parts.append(f"{len(failures)} failed")
    yield f"{', '.join(parts)}."
    if len(finished) < jobs:
        yield "The same command runs what is missing; `bench list runs` shows what failed."
    elif len({job.seed for job in outlook.jobs if job.kind == "model"}) == 1:
        yield "These are scores of one seed; --seeds 5 shows how much another seed moves them."


def _complaints(failures: Sequence[Failure]) -> Iterator[str]:
    """Every reason once, with the jobs it stopped; a model's reason stops all of its jobs."""
    by_reason: dict[str, list[Failure]] = {}
    for failure in failures:
        by_reason.setdefault(failure.error, []).append(failure)
    for reason, stopped in by_reason.items():
        if all(failure.exit_code == ModelError.exit_code for failure in stopped):
            yield reason
        else:
            yield f"{', '.join(job_name(failure.job) for failure in stopped)}: {reason}"


def _exit_code(failures: Sequence[Failure]) -> int:
    if not failures:
        return 0
    only_models = all(failure.exit_code == ModelError.exit_code for failure in failures)
    return ModelError.exit_code if only_models else JobError.exit_code


def _summary(
    outlook: Outlook, failures: Sequence[Failure], finished: set[str], out: Path
) -> dict[str, Any]:
    stored_before = {job.key for job in outlook.jobs} - {job.key for job in outlook.todo}
    return {
        "exit_code": _exit_code(failures),
        "jobs": len(outlook.jobs),
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
        "missing": len(outlook.jobs) - len(finished),
        "report": str(out),
    }
