"""What the labels of a run say of it, where nothing else does.

Up to revision 0002 of the schema a store kept no facts of a run, only its labels, and so does an
archive in which no label misleads. They are read here and nowhere else, when such a store is
upgraded or such an archive is imported. These rules never change: `bench export --all` leaves out
the facts that they find, and old archives are read by them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchharness.leaderboard.job import SCRATCH, START_FROM

_PACKAGED = ("paper", "fast")
"""The recipes that are no user's file."""


def facts_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a job by its labels (`Job.to_labels`), as `Job.facts` gives them."""
    kind, weights = _kind(job), str(job["weights"])
    recipe = _recipe(job) if kind == "model" else _Recipe(str(job["recipe"]))
    return {
        "kind": kind,
        "recipe": recipe.name,
        "own_recipe": kind == "model" and _is_own(job, recipe.name),
        "overridden": recipe.overridden,
        "is_sweep": recipe.is_sweep,
        "start": _start(job),
        "source": weights.removeprefix("imported:") if kind == "imported" else "",
    }


def metric_of(split: str, name: str) -> str:
    """The metric of a score by its name, "accuracy_test_mm" of the split "test_mm".

    A task without dev splits, such as AX, has no ending for its test split, and no metric of ours
    ends as a split does.
    """
    kind, _, suffix = split.partition("_")
    longest = [word for word in ("test" if kind == "test" else "", suffix) if word]
    for words in (longest, longest[1:]):
        ending = "".join(f"_{word}" for word in words)
        if ending and name.endswith(ending):
            return name.removesuffix(ending)
    return name


def _kind(job: Mapping[str, Any]) -> str:
    """By how the weights begin, which no name changes: an encoder's with "hub:" or "sha256:"."""
    weights = str(job["weights"])
    for kind in ("ensemble", "floor", "imported"):
        if weights.partition(":")[0] == kind:
            return kind
    return "scored" if weights == f"predictions of {job['model']}" else "model"


class _Recipe(NamedTuple):
    name: str
    overridden: bool = False
    is_sweep: bool = False


def _recipe(job: Mapping[str, Any]) -> _Recipe:
    """What the label of a recipe is made of.

    "lr sweep" may be a sweep by lr.toml or a plain run by "lr sweep.toml". A value that was swept
    says so in its source, one from the command line too, and a bare value names its file: the first
    reading of the label that agrees with them holds, which takes it at its word where they are
    silent (values that are off in one point of a sweep leave no setting behind).
    """
    swept = any(one_of for _, one_of in _sources(job))
    typed = any(source == "--set" for source, _ in _sources(job))
    files = {source for source, _ in _sources(job)}
    readings = [
        reading
        for reading in _readings(str(job["recipe"]))
        if reading.is_sweep >= swept and reading.overridden >= typed
    ] or [_Recipe(str(job["recipe"]))]
    return next((reading for reading in readings if f"{reading.name}.toml" in files), readings[0])


def _readings(label: str) -> Iterator[_Recipe]:
    """Every recipe with this label, that of the shortest name first."""
    for sweep in (" sweep", ""):
        for override in ("+set", ""):
            name = label.removesuffix(override + sweep)
            if label.endswith(override + sweep) and name:
                yield _Recipe(name, bool(override), bool(sweep))


def _sources(job: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Where each value is from, and whether it is one of several."""
    for name, line in job["settings"].items():
        if name != START_FROM:
            source, one_of, _ = str(line["source"]).partition(", one of ")
            yield source, bool(one_of)


def _is_own(job: Mapping[str, Any], recipe: str) -> bool:
    """A user's file may be called "paper.toml" as well; its bare values name it."""
    return recipe not in _PACKAGED or any(source == f"{recipe}.toml" for source, _ in _sources(job))


def _start(job: Mapping[str, Any]) -> dict[str, str] | None:
    """By the setting that names it: a task where a run is known, else a checkpoint.

    A model that has another checkpoint's weights is called "tiny from second".
    """
    line = job["settings"].get(START_FROM)
    if line is None:
        return None
    name, model = str(line["value"]), str(job["model"])
    if job["start_from"] is not None:
        return {"kind": "task", "name": name, "model": ""}
    if name == SCRATCH:
        return {"kind": "pretrained", "name": "", "model": ""}
    return {"kind": "checkpoint", "name": name, "model": model.removesuffix(f" from {name}")}
