"""Which runs may stand together: on a board by data, in an entry by checkpoint and recipe."""

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
    """Runs of one limit, all mini or none, whose evaluation fingerprints agree.

    Where models were timed it is on one `machine`, beside one reference.
    """

    limit: int | None
    mini: bool
    machine: str
    sources: set[str] = field(default_factory=set)
    fingerprints: dict[str, str] = field(default_factory=dict)
    runs: list[RunRow] = field(default_factory=list)

    def admits(self, run: RunRow) -> bool:
        """Its limit, no conflict, and a reason to belong: the same source, or a split in common."""
        if not (self.limits(run) and self.mini == (run.data == "mini")):
            return False
        if self.machine != timed_on(run):
            return False
        known = evaluation_fingerprints(run)
        shared = known.keys() & self.fingerprints.keys()
        agrees = all(known[split] == self.fingerprints[split] for split in shared)
        return agrees and (run.data in self.sources or bool(shared))

    def limits(self, run: RunRow) -> bool:
        """Whether the run is of the group's limit, or of so few rows that this takes none away."""
        if run.limit is None and self.limit is not None:
            return 0 < _largest_split(run) <= self.limit
        return run.limit == self.limit

    def widen(self, run: RunRow) -> None:
        """Admit from now on what shares a source or a split with the run."""
        self.sources.add(run.data)
        self.fingerprints.update(evaluation_fingerprints(run))


def _largest_split(run: RunRow) -> int:
    """The rows of its largest split, 0 where unknown: a k-shot run says how many it drew."""
    return 0 if _value(run, "shots") else run.largest_split


def evaluation_fingerprints(run: RunRow) -> Mapping[str, str]:
    """The fingerprints of the splits that the run predicted, by "task:split"."""
    return {name: f for name, f in run.fingerprints.items() if not name.endswith(":train")}


def group_by_data(runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """The runs in groups that were evaluated on the same rows, task by task.

    Greedy in the order given: a run joins the first group that admits it, one with its own source
    before others, or begins a new group. A run of all rows of a small task also joins the limited
    groups, because the limit would have left it as it is; a group that has no other runs is
    dropped.
    """
    groups: list[_DataGroup] = []
    homes: dict[object, list[_DataGroup]] = {}
    # Limited runs first, so that there are groups for whole runs of small tasks to join.
    for run in sorted(runs, key=lambda run: run.limit is None):
        # The seeds of a task, and other models on it, join what the first one has joined.
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
    """The groups that such a run joins; where none of its own limit admits it, a new one."""
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
    """The runs of one board in groups that make an entry each.

    Within a model, its weights and layers, recipe name, precision and shots, the seeds of a task
    belong together only where every hyperparameter, the training rows and what they started from
    agree; of a sweep the values may differ. Where a task was run with several features of a frozen
    encoder, each has entries of its own. A recipe may have other values for other tasks, so tasks
    are joined by equal values first, and otherwise in the order they were run in.
    """
    # The seeds of one task that differ in nothing but the seed, or are points of one sweep.
    groups: dict[tuple[_Names, str, tuple[str, ...]], list[RunRow]] = {}
    for run in runs:
        groups.setdefault((_names(run), run.task, _training(run)), []).append(run)
    # Where one task was run with several features, the entries of that name are one for each.
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
            # What has these very values on another task goes before what merely has no such task.
            free.sort(key=lambda e: all(run.recipe_digest != first.recipe_digest for run in e))
            if not free:
                free.append([])
                rivals.append(free[0])
                entries.append(free[0])
            free[0] += runs_alike
    return entries


def _by_features(runs: Iterable[RunRow]) -> dict[object, list[RunRow]]:
    """The runs by the layers of a frozen encoder that they read."""
    found: dict[object, list[RunRow]] = {}
    for run in runs:
        found.setdefault(_value(run, FEATURES_SETTING), []).append(run)
    return found


def _value(run: RunRow, name: str) -> object:
    """A setting of a run, None where it has none: where it is fine-tuned, of features."""
    setting = run.settings.get(name)
    return None if setting is None else setting.value


def timed_on(run: RunRow) -> str:
    """What a model was timed on, and beside which reference; empty where it was not."""
    machine = _value(run, MACHINE)
    return f"{machine} beside {_value(run, REFERENCE)}" if machine else ""


def variant_of(run: RunRow) -> str:
    """Four hex digits that stand for the run's weights, values and training rows."""
    text = " ".join((run.weights, *_training(run)))
    return hashlib.sha256(storable(text).encode()).hexdigest()[:4]


def _training(run: RunRow) -> tuple[str, ...]:
    values = _SWEPT if run.is_sweep else run.recipe_digest
    start = f"{run.start_task} {run.start_variant}".strip()
    teacher = () if run.teacher is None else (run.teacher.variant,)
    return (values, *trained_on(tuple(run.fingerprints.items())), start, *teacher)


@lru_cache(maxsize=4096)
def trained_on(fingerprints: Iterable[tuple[str, str]]) -> list[str]:
    """The digests of the rows that a run with these fingerprints was trained on."""
    return sorted(digest for name, digest in fingerprints if name.endswith(":train"))


def _names(run: RunRow) -> _Names:
    """What an entry has one of; a model's name may stand for two checkpoints."""
    recipe = (run.recipe, run.overridden, run.is_sweep)
    together = run.trained_tasks if len(run.trained_tasks) > 1 else ()
    teacher = run.teacher and run.teacher.model
    layers = None if run.is_sweep else _value(run, "layers")  # which may be what is swept
    form = (together, teacher, layers, _value(run, "shots"))
    return run.model, run.weights, run.kind, *recipe, run.precision, *form


# What runs started from, told by the runs that they started from. Pure.

UNKNOWN = "another run"


def with_starts(runs: Iterable[RunRow], known: Iterable[RunRow]) -> list[RunRow]:
    """The runs, each with what it started from: its task, and four digits for how it was trained.

    Seeds of one task have starts of their own seeds, which say the same here.
    """
    by_key = {run.key: run for run in known}
    return [_with_start(run, by_key) for run in runs]


def _with_start(run: RunRow, by_key: Mapping[str, RunRow]) -> RunRow:
    if run.start_from is None:
        return run
    start = by_key.get(run.start_from)
    if start is None:
        return replace(run, start_task=UNKNOWN)
    # What the start itself started from is in its variant, so the digits tell the whole chain.
    variant = variant_of(_with_start(start, by_key))
    name = start.task if len(start.trained_tasks) == 1 else start.title
    return replace(run, start_task=name, start_variant=variant)
