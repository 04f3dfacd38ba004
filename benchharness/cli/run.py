"""`bench run`: fine-tune, score, store and show."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

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
)
from leaderboard.visible import visible

if TYPE_CHECKING:
    from benchharness.driver.handover import Handover
    from benchharness.driver.request import Request
    from benchharness.driver.schedule import Outlook
    from benchharness.engines.process import Engine, Outcome
    from benchharness.loggers import Loggers
    from benchharness.restart.folder import SnapshotFolder
    from leaderboard.job import Job
    from leaderboard.store.store import Store

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
    from benchharness.cli.conclusion import conclude, import_ahead
    from benchharness.cli.missing_rows import name_missing_rows
    from benchharness.driver.handover import Handover, folder_beside
    from benchharness.driver.request import check_request
    from benchharness.driver.schedule import look_into
    from benchharness.engines.choice import EngineChoice
    from benchharness.loggers import open_loggers
    from benchharness.models import Trust
    from benchharness.restart.folder import SnapshotFolder
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
    from benchharness.worker.imports import modules_of

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

    from benchharness.driver.plan import plan_jobs
    from benchharness.floor_jobs import floor_jobs
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
    from benchharness.models.identity import hub_revision
    from benchharness.models.weights import require_checkpoint

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
