"""Tasks of benchharness as tasks of benchmarks on the Hugging Face Hub, and the file eval.yaml."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchharness.errors import BenchError, unknown_name
from benchharness.extensions.exports.cards import HubTask, hub_tasks, import_hub
from benchharness.leaderboard.text import grouped
from benchharness.tasks.suites import SUITES, TASKS, find_suites, full_title, tasks_called, title_of
from benchharness.tasks.task import Task

FRAMEWORK = "benchharness"
"""Value of `evaluation_framework` in eval.yaml. The Hub accepts only names that are listed in
https://github.com/huggingface/huggingface.js/blob/main/packages/tasks/src/eval.ts."""


class KnownTasks(NamedTuple):
    """Tasks of benchharness by their names on the Hub.

    Attributes:
        of_id: Tasks of benchmarks, keyed by data set and id.
        splits: Pairs of a task and a split, keyed by data set and config and then by the Hub's name
            of the split. The first split of each config is a dev split if there is one. A split of
            the Hub is left out if a task has several splits in it, e.g. one per language.
        old_names: Data sets, keyed by the names that they had on the Hub before 2024, e.g. "glue".
    """

    of_id: Mapping[tuple[str, str], HubTask]
    splits: Mapping[tuple[str, str], Mapping[str, tuple[str, str]]]
    old_names: Mapping[str, str]

    def dataset(self, name: str) -> str:
        """Return the present name of a data set; unknown names are returned unchanged."""
        return self.old_names.get(name, name)


def known_tasks() -> KnownTasks:
    """Return the tasks of benchharness that are on the Hub.

    If several tasks have the same rows, the task of the suite that was defined first is used.
    """
    of_id: dict[tuple[str, str], HubTask] = {}
    for each in every_hub_task():
        of_id.setdefault((each.dataset, each.id), each)
    splits: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for task in TASKS.values():
        for (config, name), found in _places(task).items():
            if len(found) == 1:
                names = splits.setdefault((task.source.hub, config), {})
                names.setdefault(name, (task.name, found[0]))
    short = grouped((name.partition("/")[2], name) for name in datasets_of([*TASKS]))
    old_names = {old: names[0] for old, names in short.items() if old and len(names) == 1}
    return KnownTasks(of_id, splits, old_names)


def _places(task: Task) -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the scored splits of a task, keyed by their config and their name on the Hub."""
    found = (*task.dev_splits, *task.test_splits) if task.source.hub else ()
    places = ((task.source.split(split), split) for split in found)
    return grouped(
        ((place.config or task.source.config, place.hub), split) for place, split in places
    )


def every_hub_task() -> Iterator[HubTask]:
    """Yield the tasks on the Hub of all suites, in the order in which the suites are defined."""
    for suite in SUITES.values():
        for name in suite.tasks:
            if TASKS[name].source.hub:
                yield from hub_tasks(TASKS[name], suite.rule)


def datasets_of(tasks: Sequence[str]) -> list[str]:
    """Return the data sets on the Hub of some tasks, without duplicates."""
    return list(dict.fromkeys(TASKS[name].source.hub for name in tasks if TASKS[name].source.hub))


def find_dataset(name: str) -> str:
    """Return a data set on the Hub.

    Args:
        name: Name of the data set, or of a suite or task that is read from it.

    Raises:
        BenchError: The name is unknown, nothing of it is on the Hub, or a suite has several data
            sets.
    """
    known = datasets_of([*TASKS])
    if name in known:
        return name
    if name.lower() in SUITES:
        tasks = [task for suite in find_suites(name) for task in suite.tasks]
    elif not (tasks := [task.name for task in tasks_called(name)]):
        hint = "`bench show suites` and `bench show tasks` list the existing names."
        raise unknown_name("suite, task or data set", name, [*SUITES, *TASKS, *known], hint)
    found = datasets_of(tasks)
    if len(found) == 1:
        return found[0]
    if not found:
        raise BenchError(f"the rows of {name} are not on the hub, so it cannot be a benchmark.")
    raise BenchError(
        f"{name} has {len(found)} data sets on the hub, each with its own eval.yaml: name one of "
        f"{', '.join(found)}."
    )


def to_eval_yaml(dataset: str) -> str:
    """Return the eval.yaml of a data set, as YAML.

    The tasks in it are those of the first suite that reads the data set. Each entry that
    `bench export --format eval-results` writes for the suite refers to one of them.

    Args:
        dataset: Name of the data set on the Hub.
    """
    found = [each for each in known_tasks().of_id.values() if each.dataset == dataset]
    suite = TASKS[found[0].task].suite
    found = [each for each in found if TASKS[each.task].suite == suite]
    names = list(dict.fromkeys(each.task for each in found))
    title = SUITES[suite].title if len(names) > 1 else full_title(names[0])
    values = "; ".join(f"{each.id}: {_in_words(each.metrics)}" for each in found)
    data = {
        "name": title,
        "description": (
            f"Fine-tuned text encoders on {', '.join(map(title_of, names))}. Values are in "
            f"percent, medians over seeds. Metrics: {values}."
        ),
        "evaluation_framework": FRAMEWORK,
        "tasks": [
            {"id": each.id, "config": each.config, "split": each.hub_split} for each in found
        ],
    }
    text: str = import_hub().utils.yaml_dump(data, sort_keys=False)
    return text


def _in_words(metrics: Sequence[str]) -> str:
    return metrics[0] if len(metrics) == 1 else f"mean of {' and '.join(metrics)}"
