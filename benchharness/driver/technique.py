"""Training techniques, such as few-shot training: each is a class of hooks that planning calls.

The hooks check the request, change recipes and add jobs. The part of each technique that runs in
the worker is in worker/technique.py. Extensions have techniques too (`Extension.plans`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchharness.discovery import member, places
from benchharness.driver.request import ALL_ROWS, Request
from benchharness.errors import BenchError, DataError
from benchharness.leaderboard.job import PRETRAINED, Job, Start
from benchharness.models import ModelSpec
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.plan import Parts, Recipes, Resolver


class Technique:
    """Base class of training techniques, with hooks that do nothing by default.

    Planning calls the hooks in the order in which they are defined here.
    """

    needed: str = ""
    """Name of the technique, as in the field `Facts.needs` of hyperparameters that require it.

    It is empty if no hyperparameter requires the technique."""

    def check(self, request: Request) -> None:
        """Raise BenchError if the technique conflicts with other options of the request."""

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """Return the initial weights for tasks that are trained separately.

        Args:
            start_from: The initial weights that the user, or a technique before this one, has
                chosen: "pretrained", a task, TOGETHER (the multi-task encoder) or a `Start`; None
                if the recipe determines them.

        Returns:
            `start_from`, or another value of the same kind.
        """
        return start_from

    def values(self, task: Task) -> Iterable[Mapping[str, str]]:
        """Return mappings from the names of additional hyperparameters to their values.

        The task is trained once with each mapping. By default, there is one empty mapping.
        """
        return ({},)

    def asks_untrained(self, task: Task) -> bool:
        """Return whether the models should also be scored on the task without training."""
        return False

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> Iterable[tuple[ModelSpec, str]]:
        """Resolve the recipes of jobs that the technique adds; return their models and tasks.

        Args:
            resolver: The resolver of recipes.
            recipes: The recipes of all jobs without this technique, keyed by model and task.
        """
        return ()

    def check_rows(self, parts: "Parts") -> None:
        """Raise DataError if a task has too few training examples for the technique.

        `parts` contains the recipes and the sizes of the splits.
        """

    def notes(self, models: Collection[ModelSpec], jobs: Collection[Job]) -> Iterable[str]:
        """Return messages for the user about the encoders and the jobs of the plan."""
        return ()

    def jobs(self, parts: "Parts") -> Iterable[Job]:
        """Return the jobs that the technique adds; they come before all other jobs.

        `parts` is the builder of jobs.
        """
        return ()

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Change the job of a task, and add the jobs that the changed job needs.

        Args:
            parts: The builder of jobs.
            model: The model of the job.
            jobs: The jobs that the job of the task needs, followed by this job.

        Returns:
            The new list, which again ends with the job of the task.
        """
        return jobs


@dataclass(frozen=True, kw_only=True)
class FewShot(Technique):
    """Few-shot training: each seed draws a small number of training examples at random.

    With 0 shots, and on tasks without training examples, a model is scored without training, for
    example by filling in a cloze.

    Attributes:
        shots: The numbers of training examples, as in `Request.shots`; empty without --shots.
    """

    shots: Sequence[int]

    def check(self, request: Request) -> None:
        """Raise BenchError if --shots and --multi-task are both given.

        The training examples of the multi-task training would count as shots too.
        """
        if self.shots and request.multi_task:
            raise BenchError("--shots and --multi-task cannot be combined: remove one of them.")

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """Return "pretrained" if --shots is set, otherwise `start_from` unchanged.

        Raises:
            BenchError: --shots is set, but `start_from` is a model that was fine-tuned before. The
                training examples of that model would count as shots too.
        """
        if not self.shots:
            return start_from
        if start_from not in (None, PRETRAINED):
            raise BenchError(
                f"--shots and --start-from {start_from!r} cannot be combined, because the rows on "
                "which the initial weights were trained would count as shots too."
            )
        return PRETRAINED

    def values(self, task: Task) -> list[Mapping[str, str]]:
        """Return one mapping with the hyperparameter `shots` per number of examples except 0.

        For the whole train split, which is also used if --shots is not set, the mapping is empty.
        For a task without training examples, there are no mappings.

        Raises:
            BenchError: The task has no training examples, and shots were requested without 0.
        """
        if task.is_trained:
            numbers = [number for number in self.shots or (ALL_ROWS,) if number]
            return [{} if number == ALL_ROWS else {"shots": str(number)} for number in numbers]
        if self.shots and 0 not in self.shots:
            raise BenchError(
                f"{task.name} has no training rows: use --shots 0 to score it without training."
            )
        return []

    def asks_untrained(self, task: Task) -> bool:
        """Return whether 0 shots were requested or the task has no training examples."""
        return 0 in self.shots or not task.is_trained

    def check_rows(self, parts: "Parts") -> None:
        """Raise DataError if a task has fewer training examples than shots.

        The error has a line for each such task. `parts` contains the recipes and the sizes of the
        splits.
        """
        lines: dict[str, None] = {}
        for (_, task), points in parts.recipes.items():
            asked = [int(p.settings["shots"].value) for p in points if "shots" in p.settings]
            digest = parts.fingerprints[task].get(f"{task}:train", "")
            if asked and max(asked) > (count := parts.reader.rows[digest].used):
                lines[
                    f"{task} has only {count} training rows here, but --shots has {max(asked)}: "
                    "use a smaller number, or all."
                ] = None
        if lines:
            raise DataError(*lines)


def techniques_of(request: Request) -> tuple[Technique, ...]:
    """Return the techniques of a request, in the order in which planning calls them."""
    makers = (member(f"the plan of {n}", place) for n, place in places("plans").items())
    added = (made for make in makers if (made := make(request)) is not None)
    return (FewShot(shots=request.shots), *added)
