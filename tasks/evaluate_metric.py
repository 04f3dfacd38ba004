"""A task's metrics as a metric of the `evaluate` library.

The library is imported on use, because that takes four seconds.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import Form
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task, score

if TYPE_CHECKING:
    import evaluate


def as_evaluate(task_name: str, **options: Any) -> "evaluate.Metric":
    """The task's metrics and details as one `evaluate.Metric`, e.g. for `evaluate.combine`.

    `compute(predictions=..., references=...)` gives the scores of `score`; the metric's
    `inputs_description` says what its head type takes. `compute` also takes the lists `groups`
    (MultiRC's question of each answer, RACE's level) and `categories` (AX), which most tasks do
    without. `options` are those of `evaluate.Metric`, such as cache_dir, which must be writable.
    """
    return _metric_class()(find_task(task_name), **options)


@cache
def _metric_class() -> type[Any]:
    import evaluate  # noqa: PLC0415  (four seconds)

    class TaskMetric(evaluate.Metric):  # type: ignore[misc]
        def __init__(self, task: Task, **options: Any) -> None:
            self.task = task  # before the base class, which asks for the info
            name = task.name.replace("/", "_")
            super().__init__(**{"config_name": name, **options})
            self.info.module_name = name  # combine's prefix, where two metrics have one name

        def _info(self) -> evaluate.MetricInfo:
            return evaluate.MetricInfo(
                description=f"The scores of {self.task.name}.",
                citation=self.task.cite,
                inputs_description=answer_type(self.task).inputs,
                features=_features(self.task),
            )

        def _compute(
            self,
            predictions: Sequence[Any],
            references: Sequence[Any],
            groups: Sequence[str] | None = None,
            categories: Sequence[Sequence[str]] | None = None,
        ) -> dict[str, float]:
            count = len(references)
            for name, values in {"groups": groups, "categories": categories}.items():
                if values is not None and len(values) != count:
                    raise BenchError(
                        f"there are {len(values)} {name}, expected {count}: one per reference."
                    )
            contexts = [
                {
                    "group": None if groups is None else groups[index],
                    "categories": () if categories is None else tuple(categories[index]),
                }
                for index in range(count)
            ]
            rows = zip(predictions, references, contexts, strict=True)
            align = answer_type(self.task).aligned
            aligned = [align(str(i), *row) for i, row in enumerate(rows)]
            return dict(score(self.task, "dev", [p for p, _ in aligned], [e for _, e in aligned]))

    return TaskMetric


def _features(task: Task) -> Any:
    """The types of a metric's columns."""
    from datasets import Features, List, Value  # noqa: PLC0415  (two seconds)

    def feature(form: Form) -> Any:
        if isinstance(form, str):
            return Value(form)
        if isinstance(form, list):
            return List(feature(form[0]))
        return {name: feature(each) for name, each in form.items()}

    prediction, reference = map(feature, answer_type(task).forms)
    return Features({"predictions": prediction, "references": reference})
