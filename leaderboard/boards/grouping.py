"""Grouping of runs: into boards by evaluation data, into entries by checkpoint and recipe."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from benchharness.leaderboard.job import FEATURES_SETTING, MACHINE, REFERENCE
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import storable

_Names = tuple[object, ...]

_SWEPT = "any values"  # stands for the hyperparameters of a sweep's points


@dataclass(kw_only=True)
class _DataGroup:
    """Runs of one limit, all on mini data or none, whose evaluation fingerprints agree.

    If the runs are timings, all were measured on one `machine` with one reference model.
    """

    limit: int | None
    mini: bool
    machine: str
    sources: set[str] = field(default_factory=set)
    fingerprints: dict[str, str] = field(default_factory=dict)
    runs: list[RunRow] = field(default_factory=list)

    def admits(self, run: RunRow) -> bool:
        """Return whether the run fits: same limit, no conflict, and something in common.

        The run must have a data source or the fingerprint of a split in common with the group, and
        no fingerprint that differs from the group's.
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
        """Return whether the run has the group's limit, or too few rows to be changed by it."""
        if run.limit is None and self.limit is not None:
            return 0 < _largest_split(run) <= self.limit
        return run.limit == self.limit

    def widen(self, run: RunRow) -> None:
        """Make the group admit, from now on, runs that share a source or a split with this run."""
        self.sources.add(run.data)
        self.fingerprints.update(evaluation_fingerprints(run))


def _largest_split(run: RunRow) -> int:
    """Return the number of rows of the run's largest split, 0 if unknown or if the run is few-shot.

    A few-shot run records only the number of rows that it has drawn.
    """
    return 0 if _value(run, "shots") else run.largest_split


def evaluation_fingerprints(run: RunRow) -> Mapping[str, str]:
    """Return the fingerprints of the splits that the run predicted, keyed by "task:split"."""
    return {name: f for name, f in run.fingerprints.items() if not name.endswith(":train")}


def group_by_data(runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Group the runs by evaluation data, so that a group shares the same rows of each task.

    Grouping is greedy in the given order: a run joins the first group that admits it, preferring
    groups of its own data source, or starts a new group. A run on all rows of a small task also
    joins the groups with a limit, because the limit would have removed none of its rows. An
    unlimited group is dropped if all of its runs are in one group with a limit.
    """
    groups: list[_DataGroup] = []
    homes: dict[object, list[_DataGroup]] = {}
    # Limited runs come first, so that unlimited runs of small tasks find groups to join.
    for run in sorted(runs, key=lambda run: run.limit is None):
        # Other seeds and models with the same rows join the groups that the first one has joined.
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
    """Return the groups that the run joins, with a new one if none of the run's limit admits it."""
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
    """Group the runs of one board into the runs of each entry.

    Entries differ in model, weights, number of layers, recipe name, precision or number of shots.
    Within these, the seeds of a task belong together only if all hyperparameters, the training rows
    and the starting point agree; in a sweep the hyperparameters may differ. If a task was run with
    several features of a frozen encoder, each feature has entries of its own. A recipe may have
    other hyperparameters for other tasks, so runs of several tasks are joined by equal
    hyperparameters first, and otherwise in the order in which they were run.
    """
    # Runs of one task that differ only in the seed, or that are points of one sweep.
    groups: dict[tuple[_Names, str, tuple[str, ...]], list[RunRow]] = {}
    for run in runs:
        groups.setdefault((_names(run), run.task, _training(run)), []).append(run)
    # If a task was run with several features, entries with these names are split by feature.
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
            # Prefer an entry with the same hyperparameters on another task to one that only lacks
            # the task.
            free.sort(key=lambda e: all(run.recipe_digest != first.recipe_digest for run in e))
            if not free:
                free.append([])
                rivals.append(free[0])
                entries.append(free[0])
            free[0] += runs_alike
    return entries


def _by_features(runs: Iterable[RunRow]) -> dict[object, list[RunRow]]:
    """Group the runs by the layers of a frozen encoder that they read."""
    found: dict[object, list[RunRow]] = {}
    for run in runs:
        found.setdefault(_value(run, FEATURES_SETTING), []).append(run)
    return found


def _value(run: RunRow, name: str) -> object:
    """Return the value of a run's setting, None if the run has no such setting."""
    setting = run.settings.get(name)
    return None if setting is None else setting.value


def timed_on(run: RunRow) -> str:
    """Return the machine and the reference of a timing run; empty for any other run."""
    machine = _value(run, MACHINE)
    return f"{machine}, reference {_value(run, REFERENCE)}" if machine else ""


def variant_of(run: RunRow) -> str:
    """Return four hex digits that identify the run's weights, hyperparameters and training rows."""
    text = " ".join((run.weights, *_training(run)))
    return hashlib.sha256(storable(text).encode()).hexdigest()[:4]


def _training(run: RunRow) -> tuple[str, ...]:
    values = _SWEPT if run.is_sweep else run.recipe_digest
    start = f"{run.start_task} {run.start_variant}".strip()
    teacher = () if run.teacher is None else (run.teacher.variant,)
    return (values, *trained_on(tuple(run.fingerprints.items())), start, *teacher)


@lru_cache(maxsize=4096)
def trained_on(fingerprints: Iterable[tuple[str, str]]) -> list[str]:
    """Return the digests of the training rows among these fingerprints, sorted."""
    return sorted(digest for name, digest in fingerprints if name.endswith(":train"))


def _names(run: RunRow) -> _Names:
    """Return the properties that all runs of an entry share.

    The weights are one of them, because one model name may have two checkpoints.
    """
    recipe = (run.recipe, run.overridden, run.is_sweep)
    together = run.trained_tasks if len(run.trained_tasks) > 1 else ()
    teacher = run.teacher and run.teacher.model
    layers = None if run.is_sweep else _value(run, "layers")  # a sweep may vary it
    form = (together, teacher, layers, _value(run, "shots"))
    return run.model, run.weights, run.kind, *recipe, run.precision, *form


# Starting points of runs, found among the runs that they started from.

UNKNOWN = "another run"


def with_starts(runs: Iterable[RunRow], known: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs with their starting points: the task, and four digits for how it was trained.

    Each seed of a task may start from a run of the same seed; the result is the same for all of
    them.
    """
    by_key = {run.key: run for run in known}
    return [_with_start(run, by_key) for run in runs]


def _with_start(run: RunRow, by_key: Mapping[str, RunRow]) -> RunRow:
    if run.start_from is None:
        return run
    start = by_key.get(run.start_from)
    if start is None:
        return replace(run, start_task=UNKNOWN)
    # The variant of the start covers its own start, so the digits identify the whole chain.
    variant = variant_of(_with_start(start, by_key))
    name = start.task if len(start.trained_tasks) == 1 else start.title
    return replace(run, start_task=name, start_variant=variant)
