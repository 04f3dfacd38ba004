"""Read a task from a user's TOML file, which has its name, its rows, its columns and its metrics.

    name = "mine/reviews"
    data = "reviews.csv"               # a file, folder or archive, relative to this file;
                                       # or hub = "org/name:config@revision"
    columns = { text = "review", label = "stars" }
    labels = ["1", "2", "3"]           # for a class; a number has range = [0, 5]
    metrics = ["accuracy", "f1"]       # as for --metric
    recipe = { epochs = 5, max_tokens = 256 }

Columns have the same roles as in `--columns`. Nothing is guessed, and no row is read before a run.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.find import HELD_OUT, HUB
from benchharness.extensions.custom_data.metrics import EVALUATE, known_metrics, metrics_of
from benchharness.extensions.custom_data.places import split_files
from benchharness.extensions.custom_data.roles import mapping_of
from benchharness.extensions.custom_data.task import OwnData, examples_of, own_task, table_of
from benchharness.tasks.task import Task, find_fault

KEYS: Mapping[str, tuple[type, str]] = {
    "name": (str, '"suite/task"'),
    "data": (str, "the path of a file or folder"),
    "hub": (str, '"org/name", "org/name:config" or "org/name:config@revision"'),
    "splits": (dict, 'the names on the hub, such as { train = "train", dev = "validation" }'),
    "columns": (dict, 'a column for each role, such as { text = "review", label = "stars" }'),
    "labels": (list, 'a list of two or more names, such as ["no", "yes"]'),
    "range": (list, "the lowest and the highest number, such as [0, 5]"),
    "metrics": (list, 'a list such as ["accuracy"]'),
    "encoding": (str, 'an encoding such as "latin-1"'),
    "no_header": (bool, "true or false"),
    "sheet": (str, "the name of a sheet"),
    "recipe": (dict, "a value for each hyperparameter, such as { epochs = 5 }"),
}
"""Keys that a file may have, each with the type of its value and a description of the value for
error messages.
"""


def read_task(file: Path) -> tuple[Task, Mapping[str, Any]]:
    """Read a task from a TOML file.

    Returns the task, and the hyperparameters of its recipe, keyed by name. Raises BenchError with
    one line per mistake in the file.
    """
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BenchError(f"{file} cannot be read as TOML: {error}.") from error
    # Whether values fit together is only checked if they have the right types.
    mistakes = list(_mistakes(said)) or list(_misfits(said))
    if mistakes:
        raise BenchError(*(f"{file.name}: {mistake}." for mistake in mistakes))
    place = None if "hub" in said else (file.parent / Path(said["data"]).expanduser()).resolve()
    own = _definition(said, place)
    known = known_metrics(own.kind, own.labels, no_answer=False)
    metrics_of(own.metrics, known, own.labels, {})  # raises an error if a metric does not fit
    own = replace(own, metrics=own.metrics or tuple(known)[:1])
    task = own_task(own, said["name"])

    def rows(split: str, _: Path | None) -> list[dict[str, Any]]:
        examples = examples_of(own, split, place)
        for example in examples:
            if place and (fault := find_fault(task, example)):
                table = table_of(own, "train" if own.held_out else split, place)
                raise DataError(f"{table.place(table.ids.index(example.id))} {fault}.")
        return [{"example": example} for example in examples]

    source = replace(task.source, reader=rows, file=said.get("data", ""))
    return replace(task, source=source), said.get("recipe", {})


def _mistakes(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the keys and in the types of their values."""
    for key, value in said.items():
        if key not in KEYS:
            yield f"{key!r} is not a known key, expected one of {', '.join(KEYS)}"
        elif not isinstance(value, KEYS[key][0]):
            yield f"{key} is {value!r}, expected {KEYS[key][1]}"
    for key in {"name", "columns"} - set(said):
        yield f"the key {key} is missing, expected {KEYS[key][1]}"
    if ("data" in said) == ("hub" in said):
        yield "either data or hub (and not both) must name the source of the rows"


def _misfits(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in values that have the right types."""
    suite, _, title = said["name"].partition("/")
    if not suite or not title or "/" in title:
        yield f"name is {said['name']!r}, expected {KEYS['name'][1]}"
    if "hub" in said and HUB.fullmatch(said["hub"]) is None:
        yield f"hub is {said['hub']!r}, expected {KEYS['hub'][1]}"
    if any(str(word).startswith(EVALUATE) for word in said.get("metrics", ())):
        yield "metrics of the evaluate library need a plugin in Python (`bench run --write-task`)"
    try:
        kind = mapping_of(_columns(said), said["name"]).kind
    except BenchError as error:
        yield str(error).removesuffix(".")
        return
    if kind not in ("class", "number", "choice"):
        yield (
            f"its columns define a task of the kind {kind}, which needs a plugin in Python "
            "(`bench run --write-task`)"
        )
    if kind == "class" and len(set(map(str, said.get("labels", ())))) < 2:
        yield f"its labels are missing or too few, expected {KEYS['labels'][1]}"
    bounds = said.get("range", ())
    if kind == "number" and not (
        # Types are compared, because `isinstance` accepts booleans as integers.
        len(bounds) == 2 and all(type(end) in (int, float) for end in bounds)
    ):
        yield f"its range is missing or malformed, expected {KEYS['range'][1]}"


def _columns(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    columns = said["columns"].items()
    return {r: tuple(map(str, n)) if isinstance(n, list) else (str(n),) for r, n in columns}


def _definition(said: Mapping[str, Any], place: Path | None) -> OwnData:
    there = {"train", *split_files(place)} - {"all"} if place else {"train", "dev"}
    splits = dict.fromkeys(("train", "dev", *sorted(there - {"train", "dev"})), "")
    hub = HUB.fullmatch(said.get("hub", ""))
    mapping = mapping_of(_columns(said), said["name"])
    own = OwnData(
        title=said["name"].partition("/")[2],
        kind=mapping.kind,
        columns=mapping.columns,
        metrics=tuple(map(str, said.get("metrics", ()))),
        labels=tuple(map(str, said.get("labels", ()))),
        value_range=(float(said["range"][0]), float(said["range"][1])) if "range" in said else None,
        splits=splits,
        held_out=0.0 if "dev" in there else HELD_OUT,
        encoding=said.get("encoding", ""),
        no_header=said.get("no_header", False),
        sheet=said.get("sheet", ""),
    )
    if hub is None:
        return own
    return replace(
        own,
        splits=said.get("splits", {"train": "train", "dev": "validation"}),
        hub=hub["hub"],
        config=hub["config"] or "",
        revision=hub["revision"] or "main",
    )
