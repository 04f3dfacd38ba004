"""Results that models publish on the Hugging Face Hub, in the form of published results."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from benchharness.cli.output import tell_notes
from benchharness.cli.show import is_called
from benchharness.cli.tables import counting
from benchharness.errors import BenchError, DataError
from benchharness.extensions.hub_results.benchmarks import datasets_of
from benchharness.extensions.hub_results.repository import (
    HubError,
    Repository,
    reach_hub,
    read_repository,
    request_hub,
)
from benchharness.extensions.hub_results.scores import HubScore, read_scores
from benchharness.leaderboard.boards.imported import imported_cell
from benchharness.leaderboard.boards.published import PublishedRow
from benchharness.leaderboard.result import Measure
from benchharness.leaderboard.text import grouped
from benchharness.tasks.suites import SUITES, TASKS

MOST_MODELS = 100
"""Largest number of models whose repositories are read, those with the best ranks."""


def hub_rows(
    tasks: Sequence[str], models: Sequence[str], split: Literal["dev", "test"] | None
) -> list[PublishedRow]:
    """Return the results that models on the Hub publish, in the order of the suites.

    A note is printed for each repository that cannot be read.

    Args:
        tasks: Names of the tasks to select.
        models: Names of repositories, which are read even if no leaderboard lists them, or texts
            and patterns that select the models on the leaderboards of the tasks' data sets. Empty
            for all models on these leaderboards.
        split: Split to select; None for both.

    Raises:
        DataError: The Hub does not answer, none of the data sets has a leaderboard, or none of the
            repositories can be read.
    """
    named = [name for name in models if "/" in name and "*" not in name]
    patterns = [name.lower() for name in models if name not in named]
    listed = _models_on_leaderboards(datasets_of(tasks)) if patterns or not models else []
    found = [name for name in listed if not patterns or is_called([name.lower()], patterns)]
    if len(found) > MOST_MODELS:
        tell_notes([f"only the first {MOST_MODELS} of {len(found)} models are shown."])
    names = list(dict.fromkeys([*named, *found[:MOST_MODELS]]))
    rows, faults = list[PublishedRow](), list[BenchError]()
    with counting("models", len(names)) as watched:
        for name in watched(names):
            try:
                repository = read_repository(name)
                scores = read_scores(repository).scores
            except HubError:
                raise
            except BenchError as error:
                faults.append(error)
                continue
            rows += _rows(repository, [each for each in scores if each.task in tasks])
    if names and len(faults) == len(names):
        raise type(faults[0])(*faults[0].args)
    tell_notes(map(str, faults))
    order = [*SUITES]
    return sorted(
        (row for row in rows if split in (None, row.split)), key=lambda row: order.index(row.suite)
    )


def _models_on_leaderboards(datasets: Sequence[str]) -> list[str]:
    """Return the models on the leaderboards of data sets, in the order of their ranks.

    Raises:
        DataError: The Hub does not answer, or none of the data sets has a leaderboard.
    """
    hub = reach_hub("read from its leaderboards")
    boards = [found for name in datasets if (found := _leaderboard(hub, name)) is not None]
    if not boards:
        raise DataError(
            f"none of these data sets has a leaderboard on the hub: {', '.join(datasets[:10])}. "
            "`--model ORG/MODEL` shows the results of a model without one."
        )
    return list(dict.fromkeys(name for board in boards for name in board))


def _leaderboard(hub: Any, dataset: str) -> list[str] | None:
    """Return the models on the leaderboard of a data set; None if it has no leaderboard."""
    try:
        entries = request_hub(
            hub,
            dataset,
            lambda: hub.HfApi().get_dataset_leaderboard(dataset, base_model_only=False),
        )
    except HubError:
        raise
    except DataError:
        return None
    return [str(each.model_id) for each in entries]


def _rows(repository: Repository, scores: Sequence[HubScore]) -> Iterator[PublishedRow]:
    """Yield a row per file, suite and split."""
    for (path, suite, split), found in grouped((_place(each), each) for each in scores).items():
        yield PublishedRow(
            table="hub",
            suite=suite,
            split=split,
            system=repository.name,
            by="",
            protocol="; ".join(dict.fromkeys(filter(None, (each.flag for each in found)))),
            parameters="",
            date=max(each.date for each in found),
            source=repository.address(path),
            place=path,
            cells=tuple(
                imported_cell(each.task, Measure(each.split, each.metric), each.value)
                for each in found
            ),
        )


def _place(score: HubScore) -> tuple[str, str, str]:
    task = TASKS[score.task]
    return score.path, task.suite, "test" if score.split in task.test_splits else "dev"
