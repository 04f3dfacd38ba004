"""Content of a run's section in the report: its settings, results, cost and command."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.boards.reproduction import parity_of
from benchharness.leaderboard.job import (
    FEATURES_SETTING,
    MACHINE,
    PAPER,
    PRETRAINED,
    START_FROM,
    TIMED,
    TOGETHER,
    Job,
)
from benchharness.leaderboard.report.addition import learning_curves
from benchharness.leaderboard.report.table import run_anchor
from benchharness.leaderboard.result import (
    Cost,
    CurvePoint,
    Evaluation,
    Failure,
    Reading,
    Result,
    Selection,
    curve_flags,
    selection_labels,
    truncated_rows,
)


@dataclass(frozen=True, kw_only=True)
class RunSection:
    """Content of the section for a finished or failed run.

    Attributes:
        job: Job of the run.
        finished: Time at which the run ended.
        summary: Scores, selection of the weights and wall-clock time in one line or, for a failed
            run, the error message.
        scores: Scores of the first split that has any, as text, keyed by name.
        time: Wall-clock time as text; empty for a failed run.
        status: "finished", or the kind of failure.
        error: Error message; empty for a finished run.
        log: Traceback or end of the log; empty for a finished run.
        evaluations: Scores and predictions of each split.
        curve: Points of the learning curve.
        charts: Charts of the learning curve, as HTML; empty if no extension draws them.
        curve_flags: Warnings about the training loss.
        cost: Pairs (kind of cost, value as text), e.g. ("steps", "1,234").
        provenance: Provenance of the result, as JSON data.
        parity: What the parity certificate proves about the run (see `reproduction.parity_of`).
    """

    job: Job
    finished: str
    summary: str
    scores: Mapping[str, str] = field(default_factory=dict)
    time: str = ""
    status: str = "finished"
    error: str = ""
    log: str = ""
    evaluations: tuple[Evaluation, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    charts: Markup = field(default_factory=Markup)
    curve_flags: tuple[str, ...] = ()
    cost: tuple[tuple[str, str], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    parity: str = ""

    @property
    def flags(self) -> Sequence[str]:
        """Warnings about the run's scores and its training loss."""
        return [*(flag for line in self.evaluations for flag in line.flags), *self.curve_flags]

    @property
    def anchor(self) -> str:
        """Id of the section in the page, for links."""
        return run_anchor(self.job.key)

    @property
    def command(self) -> str:
        """Shell command that repeats the run."""
        return command_of(self.job)

    @property
    def truncated(self) -> Mapping[str, tuple[int, int]]:
        """Numbers of truncated rows and of all rows of each split, keyed by "task:split".

        Splits without truncated rows are left out.
        """
        return truncated_rows(self.provenance)

    @property
    def reading(self) -> Reading | None:
        """How the texts were tokenized; None if this was not recorded."""
        return Reading.of(self.provenance)


def build_run(run: Result | Failure) -> RunSection:
    """Create the content of a run's section from its result or failure."""
    if isinstance(run, Failure):
        return RunSection(
            job=run.job,
            finished=run.finished,
            status=run.kind,
            summary=run.error,
            error=run.error,
            log=run.details,
        )
    # Scores above 1, such as perplexities, are not shown times 100.
    scored = next((each.scores for each in run.evaluations if each.scores), {})
    numbers = {n: shown(v) if v <= 1 else f"{v:.4g}" for n, v in scored.items()}
    scores, time = [f"{n} {number}" for n, number in numbers.items()], _duration(run.cost.seconds)
    selection = Selection.from_json(run.provenance.get("selection"))
    chosen = selection_labels([selection] if selection else [])
    return RunSection(
        job=run.job,
        finished=run.finished,
        summary=", ".join([*scores, *chosen, time]),
        scores=numbers,
        time=time,
        evaluations=run.evaluations,
        curve=run.curve,
        charts=learning_curves({"": run.curve}, run.job.curve_split),
        curve_flags=curve_flags([point.loss for point in run.curve]),
        cost=tuple(_cost(run.cost)),
        provenance=run.provenance,
        parity=parity_of(run),
    )


def _cost(cost: Cost) -> Iterator[tuple[str, str]]:
    yield "wall time", _duration(cost.seconds)
    if not cost.steps:  # nothing was trained
        return
    yield "training", _duration(cost.train_seconds)
    yield "predicting", _duration(cost.predict_seconds)
    yield "steps", f"{cost.steps:,}"
    yield "training speed", f"{cost.train_examples_per_second:,.1f} examples/s"
    yield "training tokens", f"{cost.train_tokens:,} (without padding)"
    yield "parameters", f"{cost.parameters:,}"
    yield "peak memory", f"{cost.peak_memory_bytes / 2**30:.2f} GiB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


# Composition of the command that repeats a run, quoted for a POSIX shell.


def command_of(job: Job) -> str:
    """Return the shell command that repeats a job, e.g. "bench run --model ...".

    The arguments are quoted for a POSIX shell.
    """
    trusted = ["--trust-remote-code"] if job.trust.remote_code else []
    trusted += ["--allow-pickle"] if job.trust.pickle else []
    match job.kind:
        case "scored":
            words = [*_scoring(job)]
        case "baseline":
            words = ["run", "--model", job.model, *_task(job), *_splits(job), "--no-baselines"]
        case "ensemble":
            members = dict.fromkeys(setting.source for setting in job.settings.values())
            words = ["ensemble", *members, *_task(job), "--name", job.model]
        case _ if job.recipe == TIMED:
            words = ["run", *_model(job), *_task(job), "--precision", job.precision]
            words += [*_chosen(job), *_splits(job), *trusted]
        case _ if job.is_zero_shot:
            words = ["run", *_model(job), *_task(job), "--shots", "0", "--precision", job.precision]
            words += [*_splits(job), *trusted, "--no-baselines"]
        case "model":
            words = ["run", *_model(job), *_task(job), *_recipe(job), *_splits(job)]
            words += ["--teacher", job.teacher.run[:12]] if job.teacher else []
            words += trusted
    return shlex.join(["bench", *words])


def _model(job: Job) -> Iterator[str]:
    """Yield the options for the model, and for its starting point if the recipe does not set it."""
    start = job.start
    if start is not None and start.kind == "checkpoint":
        yield from ("--model", start.model, "--start-from", job.checkpoint)
        return
    # A folder is named by its path. A model on the Hub that has no name in benchharness is named by
    # its exact commit.
    is_unnamed = job.model.startswith(job.checkpoint)
    named = job.weights.removeprefix("hub:") if is_unnamed else job.model
    yield from ("--model", job.checkpoint if PurePath(job.checkpoint).is_absolute() else named)
    # The option is not needed if a packaged recipe determines the starting point.
    if start is not None and (
        (job.settings[START_FROM].source == "--start-from") or not _is_packaged(job)
    ):
        name = "multi-task" if start.kind == TOGETHER else start.name or PRETRAINED
        yield from ("--start-from", name)
        if start.kind == TOGETHER:
            yield from ("--multi-task", start.name)


def _is_packaged(job: Job) -> bool:
    """Return whether the job's recipe is part of benchharness, and the job is not from a sweep."""
    return not job.own_recipe and not job.is_sweep


def _task(job: Job) -> list[str]:
    if len(job.trained_tasks) > 1:
        return ["--multi-task", ",".join(job.trained_tasks), "--data", job.data]
    suite, _, name = job.task.partition("/")
    return ["--suite", suite, "--task", name, "--data", job.data]


def _splits(job: Job) -> Iterator[str]:
    if job.limit is not None:
        yield from ("--limit", str(job.limit))
    own = job.trained_tasks
    if any(task in own and split.startswith("test") for task, split in job.predicted_splits):
        yield "--test"


def _recipe(job: Job) -> Iterator[str]:
    """Yield the options for the recipe.

    If the recipe came from a file, each setting is given as an option, because the file may have
    changed or may be missing.
    """
    yield from ("--seed", str(job.seed), "--precision", job.precision)
    if _is_packaged(job):
        if job.as_text:
            yield "--text-to-text"
        yield from ("--recipe", job.recipe.removeprefix("text").removeprefix("-") or PAPER)
    yield from _chosen(job)
    for name, value in job.off.items():  # settings that the user has switched off
        yield from ("--set", f"{name}={value}")


def _chosen(job: Job) -> Iterator[str]:
    """Yield options for the settings that the name of the recipe does not determine."""
    for name, setting in job.settings.items():
        # The value 0 of these settings means that they are not used.
        is_replaced = not setting.value and name in ("epochs", "adam_epsilon")
        chosen = setting.source == "--set" or not _is_packaged(job) or name == FEATURES_SETTING
        if name not in (START_FROM, MACHINE) and chosen and not is_replaced:
            yield from ("--set", f"{name}={setting.value}")


def _scoring(job: Job) -> Iterator[str]:
    """Yield the words of the command that scores the prediction files again.

    The names of the files are the sources of the job's settings.
    """
    files = [s.source for name, s in job.settings.items() if name.startswith("predictions")]
    yield from ("score", *files, "--task", job.task, "--data", job.data)
    for _, split in job.predicted_splits:
        yield from ("--split", split)
    if (threshold := job.settings.get("na_prob_threshold")) is not None:
        yield from ("--na-prob", threshold.source) if threshold.source else ()
        yield from ("--na-prob-threshold", str(threshold.value))
    if any(name.startswith("missing_") for name in job.settings):
        yield "--allow-missing"
    yield from ("--store", "--model", job.model)
