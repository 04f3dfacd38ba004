"""Training on custom data with few rows: the recipe that is chosen for it, and warnings.

A recipe of a paper trains for a few epochs, which are only a few steps on a small data set. Many
encoders then learn nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from benchharness.driver.request import Request
from benchharness.leaderboard.job import Job, Setting
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.read import packaged_names, read_recipe
from benchharness.recipes.recipe import count_steps
from benchharness.tasks.task import Task

FEW_ROWS = "few-rows"
"""Name of the recipe for few rows."""

LEAST_STEPS = 100
"""Number of training steps below which a model's own recipe is replaced by FEW_ROWS on custom data.

Three epochs of 1,000 rows are 96 steps with a batch size of 32. Zhang et al. (arXiv:2006.05987, 6)
found this too short for BERT.
"""

FEW_STEPS = 20
"""Number of training steps in which most encoders learn nothing. If the user has chosen a recipe
with fewer steps, there is a warning."""


class RowCounts(NamedTuple):
    """Numbers of examples of one split.

    Attributes:
        used: The number of examples that are used.
        left_out: The number of examples that a rule of the benchmark excludes.
        cut: The number of examples that `--limit` excludes.
        odd: The number of examples with each known irregularity of the released data, keyed by a
            description of the irregularity.
    """

    used: int
    left_out: int
    cut: int
    odd: Mapping[str, int]


def enough_steps() -> int:
    """Return the number of training steps of the recipe FEW_ROWS."""
    return int(read_recipe(packaged_names()[FEW_ROWS])["default"]["steps"].value)


def _steps(settings: Mapping[str, Setting], rows: int) -> int:
    """Return the number of training steps with some settings on a number of rows."""
    if steps := settings.get("steps"):
        return int(steps.value)
    return count_steps([rows], int(settings["batch_size"].value), float(settings["epochs"].value))


@dataclass(frozen=True, kw_only=True)
class FewRows:
    """Choice of the recipe FEW_ROWS for custom data on which a model's own recipe has few steps.

    Attributes:
        count: Function that reads the training examples of a task and returns their numbers.
        found: The models whose recipe was replaced, keyed by the title of the task, the number of
            rows, and the number of steps that the model's own recipe would take.
    """

    count: Callable[[Task], RowCounts]
    found: dict[tuple[str, int, int], dict[str, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, request: Request, count: Callable[[Task], RowCounts]) -> Self | None:
        """Return the choice for a request; None if the user has chosen the recipe or its length."""
        chosen = {"epochs", "steps", "shots"} & request.overrides.keys()
        return None if request.options.recipe or request.shots or chosen else cls(count=count)

    def are_few(self, task: Task, points: Sequence[ResolvedRecipe]) -> bool:
        """Return whether the recipe FEW_ROWS should replace a model's own recipe on a task.

        Only tasks on custom data get another recipe, and not if `--limit` excludes rows, because
        such a run is a short trial of the training on all rows.

        Args:
            task: Task to train.
            points: The model's own recipe, once for each combination of values in a sweep.
        """
        return (
            bool(task.definition)
            and not self.count(task).cut
            and self._most_steps(task, points) < LEAST_STEPS
        )

    def record(self, model: ModelSpec, task: Task, points: Sequence[ResolvedRecipe]) -> None:
        """Record that the recipe of a model (`points`) was replaced on a task, for `notes`."""
        rows, steps = self.count(task).used, self._most_steps(task, points)
        self.found.setdefault((task.title, rows, steps), {})[model.name] = None

    def _most_steps(self, task: Task, points: Sequence[ResolvedRecipe]) -> int:
        rows = self.count(task).used
        return max(_steps(point.settings, rows) for point in points)

    def notes(self) -> Iterator[str]:
        """Yield a sentence per task and number of steps, with the models if there are several."""
        is_one = len({name for names in self.found.values() for name in names}) == 1
        for (title, rows, steps), models in self.found.items():
            yield (
                f"{title}: the recipe {FEW_ROWS} is used{'' if is_one else ' for '}"
                f"{'' if is_one else ', '.join(models)}, because the model's own recipe would take "
                f"only {steps} steps on {rows} rows (fewer than {LEAST_STEPS}). {FEW_ROWS} takes "
                f"{enough_steps()} steps; --recipe paper keeps the model's own recipe."
            )


def few_steps(
    request: Request, jobs: Iterable[Job], rows: Mapping[str, RowCounts]
) -> Iterator[str]:
    """Yield a warning for each task on the user's own data whose training has very few steps.

    If several models are trained, whose recipes may have different numbers of steps, the warning
    names the models. There is no warning if the user has set a limit, epochs or steps.

    Args:
        request: The request of the user.
        jobs: The planned jobs.
        rows: The numbers of examples of each split, as in `Plan.rows`.
    """
    if request.options.limit or {"epochs", "steps"} & request.overrides.keys():
        return
    own = [job for job in jobs if job.definition and job.kind == "model" and not job.is_zero_shot]
    found: dict[tuple[str, str], dict[str, None]] = {}
    for job in own:
        splits = [d for name, d in job.fingerprints.items() if name.endswith(":train")]
        used = sum(rows[d].used for d in splits if d in rows)
        drawn = int(job.values.get("shots", 0)) or used
        if drawn and (steps := _steps(job.settings, drawn)) < FEW_STEPS:
            said = (
                f"on {drawn} rows takes only {steps} steps, which may be too few to learn from; "
                f"the recipe {FEW_ROWS} (--recipe) takes {enough_steps()} steps."
            )
            found.setdefault((job.title, said), {})[job.model] = None
    is_one = len({job.model for job in own}) == 1
    for (title, said), models in found.items():
        yield f"{title}: training {'' if is_one else ', '.join(models) + ' '}{said}"
