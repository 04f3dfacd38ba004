"""Grouping of runs into leaderboards (by evaluation data) and entries (by model and recipe)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from benchharness.leaderboard.job import FEATURES_SETTING, MACHINE, REFERENCE
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import storable

_Names = tuple[object, ...]

_SWEPT = "any values"  # text instead of the hyperparameters' digest, for runs of a sweep


@dataclass(kw_only=True)
class _DataGroup:
    """Runs that can be on one leaderboard, because they were evaluated on the same data.

    They have the same limit, their fingerprints do not contradict each other, and either all or
    none of them used mini data. If they are timings, all have the same `machine`, which includes
    the reference model.
    """

    limit: int | None
    mini: bool
    machine: str
    sources: set[str] = field(default_factory=set)
    fingerprints: dict[str, str] = field(default_factory=dict)
    runs: list[RunRow] = field(default_factory=list)

    def admits(self, run: RunRow) -> bool:
        """Return whether the run can join the group.

        It must have the same limit, kind of data and machine, no fingerprint that differs from the
        group's, and a data source or a split in common with the group.
        """
        if not (self.limits(run) and self.mini == (run.data == "mini")):
            return False
        if self.machine != timed_on(run):
            return False
        known = evaluation_fingerprints(run)
        shared = known.keys() & self.fingerprints.keys()
        agrees = all(known[split] == self.fingerprints[split] for split in shared)
        return agrees and (run.data in self.sources or bool(shared))

    def limits(self, run: RunRow) -> bool:
        """Return whether all splits of the run have at most as many rows as the group's limit.

        The run must have the same limit or, without a limit, no split that is larger.
        """
        if run.limit is None and self.limit is not None:
            return 0 < _largest_split(run) <= self.limit
        return run.limit == self.limit

    def widen(self, run: RunRow) -> None:
        """Add the run's data source and fingerprints, for comparison with later runs."""
        self.sources.add(run.data)
        self.fingerprints.update(evaluation_fingerprints(run))


def _largest_split(run: RunRow) -> int:
    """Return the number of rows in the run's largest split; 0 if it is unknown.

    It is also unknown for a few-shot run, which records only the number of sampled rows.
    """
    return 0 if _value(run, "shots") else run.largest_split


def evaluation_fingerprints(run: RunRow) -> Mapping[str, str]:
    """Return the digests of the splits on which a run was evaluated, keyed by "task:split"."""
    return {name: f for name, f in run.fingerprints.items() if not name.endswith(":train")}


def group_by_data(runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Group the runs so that all runs of a group were evaluated on the same rows of each task.

    A run fits a group if it has a data source or a predicted split in common with the group, and if
    the splits in common have the same examples. Mini data and official data, and timings on
    different machines, are never in one group.

    A run's limit is the maximum number of rows per split. Grouping is greedy: each run joins the
    first group with the same limit that it fits, preferably a group with the run's data source, or
    starts a new group. A run without a limit also joins all fitting groups whose limit is at least
    the size of its largest split. A group without a limit is dropped if a group with a limit
    contains all of its runs.
    """
    groups: list[_DataGroup] = []
    homes: dict[object, list[_DataGroup]] = {}
    # Process runs with a limit first, because runs without a limit may join their groups.
    for run in sorted(runs, key=lambda run: run.limit is None):
        # All runs on the same data join the same groups, so search these only for the first run.
        rows = (run.limit, run.data, _largest_split(run), tuple(run.fingerprints.items()))
        alike = (*rows, timed_on(run))
        if alike not in homes:
            homes[alike] = _homes(run, groups)
        for group in homes[alike]:
            group.runs.append(run)
    limited = [{run.key for run in group.runs} for group in groups if group.limit is not None]
    return [
        group.runs
        for group in groups
        if group.limit is not None
        or not any(keys.issuperset(run.key for run in group.runs) for keys in limited)
    ]


def _homes(run: RunRow, groups: list[_DataGroup]) -> list[_DataGroup]:
    """Return the groups that the run joins; create one if it fits no group with its own limit."""
    open_to_it = [group for group in groups if group.admits(run)]
    open_to_it.sort(key=lambda group: run.data not in group.sources)
    own = [group for group in open_to_it if group.limit == run.limit]
    if not own:
        own = [_DataGroup(limit=run.limit, mini=run.data == "mini", machine=timed_on(run))]
        groups += own
    found = [own[0], *(group for group in open_to_it if group.limit != run.limit)]
    for group in found:
        group.widen(run)
    return found


def group_by_recipe(runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Group the runs of one leaderboard into entries.

    All runs of an entry have the same model, weights, kind, recipe label, precision, teacher model,
    number of shots, tasks that are trained together and, except in a sweep, number of layers. Its
    runs on one task also have the same hyperparameters (except in a sweep), training data, starting
    point and teacher, so that they differ only in the seed. If a task was run with several layers
    of a frozen encoder as features, each choice of layers is an entry. Because a recipe may have
    different hyperparameters for different tasks, runs on different tasks are combined into one
    entry if their hyperparameters are equal, else in the order of the runs.
    """
    # Group the runs on one task that differ only in the seed, or that belong to one sweep.
    groups: dict[tuple[_Names, str, tuple[str, ...]], list[RunRow]] = {}
    for run in runs:
        groups.setdefault((_names(run), run.task, _training(run)), []).append(run)
    # If a task was run with several values of the setting "features", create an entry per value.
    probed: dict[tuple[_Names, str], set[object]] = {}
    for (names, task, _), alike in groups.items():
        probed.setdefault((names, task), set()).update(_by_features(alike))
    several = {names for (names, _), features in probed.items() if len(features) > 1}
    entries: list[list[RunRow]] = []
    named: dict[_Names, list[list[RunRow]]] = {}
    for (names, *_), alike in groups.items():
        parts = _by_features(alike) if names in several else {None: alike}
        for features, runs_alike in parts.items():
            rivals, first = named.setdefault((*names, features), []), runs_alike[0]
            free = [e for e in rivals if all(run.task != first.task for run in e)]
            # Prefer an entry that has the same hyperparameters on another task.
            free.sort(key=lambda e: all(run.recipe_digest != first.recipe_digest for run in e))
            if not free:
                free.append([])
                rivals.append(free[0])
                entries.append(free[0])
            free[0] += runs_alike
    return entries


def _by_features(runs: Iterable[RunRow]) -> dict[object, list[RunRow]]:
    """Group the runs by the layers of a frozen encoder that they use as features."""
    found: dict[object, list[RunRow]] = {}
    for run in runs:
        found.setdefault(_value(run, FEATURES_SETTING), []).append(run)
    return found


def _value(run: RunRow, name: str) -> object:
    """Return the value of a run's setting; None if the run has no such setting."""
    setting = run.settings.get(name)
    return None if setting is None else setting.value


def timed_on(run: RunRow) -> str:
    """Return on which machine the speed of a model was measured; empty for any other run.

    The text also names the model that was timed there for comparison.
    """
    machine = _value(run, MACHINE)
    return f"{machine}, reference {_value(run, REFERENCE)}" if machine else ""


def variant_of(run: RunRow) -> str:
    """Return a digest (4 hex digits) of everything in a run's training except the seed.

    It covers the weights of the checkpoint, the hyperparameters (except for a run of a sweep), the
    training data, the run from which this run started, and the teacher.
    """
    text = " ".join((run.weights, *_training(run)))
    return hashlib.sha256(storable(text).encode()).hexdigest()[:4]


def _training(run: RunRow) -> tuple[str, ...]:
    values = _SWEPT if run.is_sweep else run.recipe_digest
    start = f"{run.start_task} {run.start_variant}".strip()
    teacher = () if run.teacher is None else (run.teacher.variant,)
    return (values, *trained_on(tuple(run.fingerprints.items())), start, *teacher)


@lru_cache(maxsize=4096)
def trained_on(fingerprints: Iterable[tuple[str, str]]) -> list[str]:
    """Return the sorted digests of the train splits.

    Args:
        fingerprints: Pairs of a split ("task:split") and the digest of its examples.
    """
    return sorted(digest for name, digest in fingerprints if name.endswith(":train"))


def _names(run: RunRow) -> _Names:
    """Return the properties that are equal in all runs of a leaderboard entry.

    They include the weights, because two checkpoints may have the same model name.
    """
    recipe = (run.recipe, run.overridden, run.is_sweep)
    together = run.trained_tasks if len(run.trained_tasks) > 1 else ()
    teacher = run.teacher and run.teacher.model
    layers = None if run.is_sweep else _value(run, "layers")  # a sweep may vary the layers
    form = (together, teacher, layers, _value(run, "shots"))
    return run.model, run.weights, run.kind, *recipe, run.precision, *form


# Starting points of runs. `RunRow.start_from` is the key of the run that is the starting point.

UNKNOWN = "another run"


def with_starts(runs: Iterable[RunRow], known: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs with their starting points in `start_task` and `start_variant`.

    A starting point is the run from whose fine-tuned encoder a run started. Runs with different
    seeds get equal starting points, even if each started from the run with its own seed.

    Args:
        runs: Runs whose starting points are set.
        known: Runs from which they may have started. If a starting point is not among them,
            `start_task` is "another run".
    """
    by_key = {run.key: run for run in known}
    return [_with_start(run, by_key) for run in runs]


def _with_start(run: RunRow, by_key: Mapping[str, RunRow]) -> RunRow:
    if run.start_from is None:
        return run
    start = by_key.get(run.start_from)
    if start is None:
        return replace(run, start_task=UNKNOWN)
    # The variant of the earlier run includes its own starting point. So the variant identifies the
    # whole chain of runs.
    variant = variant_of(_with_start(start, by_key))
    name = start.task if len(start.trained_tasks) == 1 else start.title
    return replace(run, start_task=name, start_variant=variant)
