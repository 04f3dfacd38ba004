"""`bench check`: is a model worse than its baseline, beyond noise? For continuous integration."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchharness.cli.display import Display, interruption_told
from benchharness.cli.options import (
    BASELINE,
    AllowPickle,
    As,
    AsJson,
    ColumnRoles,
    DataFile,
    Device,
    Encoding,
    HubData,
    Jobs,
    Limit,
    NoHeader,
    OwnMetrics,
    RecipeName,
    Seed,
    Settings,
    Suites,
    Tasks,
    Timeout,
    TrustRemoteCode,
    as_settings,
    completed_by,
    one_of,
    with_plugins,
)
from benchharness.cli.output import print_json, print_table, tell_notes
from benchharness.driver.gate import DEFAULT_SEEDS, Gate, read_baseline, run_gate
from benchharness.driver.live import RunState
from benchharness.driver.request import check_request, find_own_data
from benchharness.driver.schedule import Schedule
from benchharness.leaderboard.regression import Verdict
from benchharness.leaderboard.regression.verdict_text import (
    COLUMNS,
    annotations,
    change_line,
    explanations,
    facts_of,
    flip_lines,
    row_of,
    to_junit,
    to_markdown,
)
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import check_place, visible
from benchharness.models import Trust
from benchharness.progress import Watcher
from benchharness.tasks.errors import BenchError

Model = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME|DIR|NAME=DIR",
        help="A known model, a checkpoint's folder, or its name on the hub.",
        autocompletion=completed_by("models"),
    ),
]
BaselineFile = Annotated[
    str, typer.Option("--baseline", metavar="FILE", help="What `bench baseline` wrote.")
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="hub|DIR|mini",
        help="Where the rows come from. Default: as the baseline's.",
        autocompletion=one_of("hub", "mini"),
    ),
]
CheckSeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, metavar="N", help="Run every task with seeds 1 to N. Default: 3."
    ),
]
Alpha = Annotated[float, typer.Option("--alpha", help="The false-alarm rate.")]
Junit = Annotated[
    str | None, typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML.")
]
AllowChange = Annotated[
    bool,
    typer.Option(
        "--allow-change",
        help="Do not fail where training computes something else and no score is worse.",
    ),
]
MarkdownFile = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE", help="Write the verdict as Markdown.")
]


@with_plugins
def check(  # noqa: PLR0913  (one parameter for each option)
    *,
    model: Model,
    suite: Suites = None,
    task: Tasks = None,
    limit: Limit = None,
    baseline: BaselineFile = BASELINE,
    alpha: Alpha = 0.05,
    allow_change: AllowChange = False,
    seeds: CheckSeeds = None,
    seed: Seed = None,
    data: Data = None,
    data_file: DataFile = None,
    hf: HubData = None,
    columns: ColumnRoles = None,
    metric: OwnMetrics = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    recipe: RecipeName = None,
    settings: Settings = None,
    cast: As = None,
    device: Device = "auto",
    jobs: Jobs = "auto",
    timeout: Timeout = 1800,
    junit: Junit = None,
    markdown: MarkdownFile = None,
    trust_remote_code: TrustRemoteCode = False,
    allow_pickle: AllowPickle = False,
    as_json: AsJson = False,
) -> None:
    """Run a small fixed part of a suite and fail where a task is worse than the baseline.

    Exit code 3 is a regression beyond noise or a change of what training computes, 4 a task that
    could not be compared.
    """
    for file in filter(None, (junit, markdown)):
        _check_place(Path(file))
    compared = read_baseline(Path(baseline))
    beside = {"--suite": suite, "--task": task, "--data": data}
    own = find_own_data(
        data_file, hf, columns, metric, encoding, no_header=no_header, beside=beside
    )
    if own is not None:
        task, data = [own.task.name], own.data
    request = check_request(
        models=[model],
        suites=suite or (),
        tasks=task or (),
        seeds=seeds if seeds or seed else DEFAULT_SEEDS,
        seed=seed or (),
        settings=[*(settings or ()), *as_settings(cast)],
        recipe=recipe,
        device=device,
        jobs=jobs,
        trust=Trust(remote_code=trust_remote_code, pickle=allow_pickle),
        fits=lambda found: found.name in compared.tasks,
    )
    gate = Gate(
        request=request,
        baseline=compared,
        limit=limit,
        data=data,
        alpha=alpha,
        timeout=timeout,
        may_change=allow_change,
    )
    verdict = run_gate(gate, _watching)
    _show(verdict, as_json=as_json)
    if junit:
        _put(Path(junit), to_junit(verdict), "w")
    if markdown:
        _put(Path(markdown), to_markdown(verdict), "w")
    _tell_github(verdict)
    raise typer.Exit(verdict.exit_code)


@contextmanager
def _watching(schedule: Schedule, store: Store) -> Iterator[Watcher]:
    with (
        interruption_told(schedule, store, "kept"),
        Display(RunState.of(schedule, time.monotonic()), Console(stderr=True)) as display,
    ):
        yield display


def _show(verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        print_json(facts_of(verdict))
        return
    rows = [dict(zip(COLUMNS, row_of(task), strict=True)) for task in verdict.tasks]
    if rows:
        print_table(rows, COLUMNS, "")
        typer.echo("\n".join(explanations(verdict)))
    for task in verdict.worse:
        heading, *lines = (visible(line) for line in flip_lines(task))
        typer.echo("\n  ".join([heading, *lines]))
    for line in filter(None, map(change_line, verdict.tasks)):
        typer.echo(visible(line))
    tell_notes(map(str, (*verdict.unjudged, *verdict.notes)))
    typer.echo(visible(f"{verdict.title}: {verdict.sentence}"))


def _tell_github(verdict: Verdict) -> None:
    """Annotations and the step summary, inside GitHub Actions; stdout stays the verdict's."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in annotations(verdict):
            typer.echo(line, err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _put(Path(summary), to_markdown(verdict), "a")


def _check_place(path: Path) -> None:
    """Finds out before anything is trained that the verdict could not be written."""
    try:
        if path.exists() and not path.is_dir():
            with path.open("a", encoding="utf-8"):
                return
        check_place(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def _put(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> BenchError:
    reason = error.strerror or error
    return BenchError(f"the verdict could not be written to {path}: {reason}. Give another file.")
