"""Detect the task of a file, a folder or a data set of the hub, and describe it.

Everything is read and checked here, before a run starts: the columns, the labels, every row of
every split, the metrics, and the texts that occur in two splits.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.labels import with_labels
from benchharness.extensions.custom_data.leaks import find_leaks
from benchharness.extensions.custom_data.metrics import (
    EVALUATE,
    check_script,
    known_metrics,
    metric_names,
    metric_of,
)
from benchharness.extensions.custom_data.notes import (
    label_notes,
    leak_note,
    row_notes,
    what_is_found,
)
from benchharness.extensions.custom_data.parts import Written
from benchharness.extensions.custom_data.places import SPLIT_NAMES, split_files, split_of
from benchharness.extensions.custom_data.readings import (
    count_readings,
    find_mapping,
    is_headless,
    split_column,
)
from benchharness.extensions.custom_data.roles import SPLIT, parse_columns
from benchharness.extensions.custom_data.task import (
    OwnData,
    add,
    examples_of,
    no_column,
    own_task,
    table_of,
)
from benchharness.extensions.custom_data.verdicts import VERDICT, verdict_column
from benchharness.tasks.examples import Example
from benchharness.tasks.sources import Data, missing_files
from benchharness.tasks.sources.hub import hub_splits
from benchharness.tasks.suites import COLLECTIONS, SUITES, TASKS
from benchharness.tasks.task import Task, find_fault

HELD_OUT = 0.2
"""Share of the rows of train that become dev if the data have no dev split."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A task that was detected in a user's data, with sentences that describe it.

    Attributes:
        own: The definition of the task.
        task: Detected task.
        data: The value of `--data` from which the rows are read: "hub", or a path.
        sentences: Notes for the user about the columns, the rows and the labels.
        leaks: Two numbers of rows for each split except train, keyed by split: rows whose text is
            also in train, and rows whose text is only nearly identical to one in train.
    """

    own: OwnData
    task: Task
    data: str
    sentences: tuple[str, ...]
    leaks: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def find_own(  # noqa: PLR0913  (the options, one by one)
    place: str,
    *,
    hub: bool = False,
    columns: str = "",
    metrics: Sequence[str] = (),
    encoding: str = "",
    no_header: bool = False,
    sheet: str = "",
) -> Found:
    """Detect and register the task of a file, a folder or a data set of the hub.

    Args:
        place: A path or, with `hub`, "org/name[:config][@revision]".
        hub: True if `place` is the name of a data set on the hub.
        columns: The value of `--columns`; "" to detect the columns.
        metrics: The values of `--metric`; empty for the default metrics of this kind of task.
        encoding: The encoding of the files; "" to detect it.
        no_header: True if line 1 of a table is a row and not the names of its columns. The columns
            are then numbered from 1.
        sheet: The sheet of an Excel workbook that has the rows; "" to detect it.

    Raises:
        DataError: The rows cannot be read, do not fit the task, or fit several tasks.
        BenchError: The options do not fit the data or each other.
    """
    metric_names(metrics)  # raises an error for repeated metrics before anything is read
    for option in ("--no-header" if no_header else "", "--sheet" if sheet else ""):
        if hub and option:
            raise BenchError(
                f"{option} applies to files and not to the hub (--hf): remove {option}."
            )
    written = Written(encoding=encoding, no_header=no_header, sheet=sheet)
    own = _on_hub(place, columns) if hub else _in_files(place, columns, written)
    folder = None if hub else Path(place).expanduser().resolve()
    # If dev is held out from train, its rows are in the table of train.
    tables = {
        split: table_of(own, split, folder)
        for split in own.splits
        if split != "dev" or not own.held_out
    }
    as_written = list(metrics) == ["accuracy"]
    own = with_labels(own, tables, as_written=as_written)
    splits = {split: examples_of(own, split, folder) for split in own.splits}
    # Rows are checked before the metrics, because scripts of metrics run on the rows of dev.
    _check_rows(own, tables, splits)
    own = _with_metrics(own, metrics, splits["dev"])
    task = own_task(own)
    counted = {
        split: [example for example in examples if not task.leaves_out(split, example)]
        for split, examples in splits.items()
    }
    sentences = [what_is_found(own, task), *row_notes(own, tables, splits, task)]
    if own.no_header and not no_header:
        sentences.append(
            f"line 1 of {tables['train'].name} is a row instead of column names: it is read as "
            "with --no-header, which numbers the columns from 1"
        )
    sentences += label_notes(own, tables["train"], counted)
    if not columns:
        sentences.append(f"the columns are guessed (--columns changes them): {own.mapping.words}")
    leaks: dict[str, tuple[int, int]] = {}
    for split in [split for split in counted if split != "train"]:
        found = find_leaks(counted["train"], counted[split])
        same = sum(leak.is_same for leak in found)
        leaks[split] = same, len(found) - same
        if found:
            sentences.append(leak_note(own, split, found, len(counted[split])))
    return Found(
        own=own,
        task=add(task),
        data="hub" if hub else str(folder),
        sentences=tuple(sentences),
        leaks=leaks,
    )


def _with_benchmark(error: DataError, folder: Path) -> DataError:
    """Add to an error the command that runs a benchmark, if the folder holds its files."""
    if not folder.is_dir():
        return error
    data = Data(source="files", folder=folder)
    task = next((task for task in TASKS.values() if _is_of(task, data)), None)
    if task is None:
        return error
    return DataError(
        f"{error} This folder contains the files of {task.title}: to run this task, use "
        f"`bench run --task {task.name} --data {folder}`."
    )


def _is_of(task: Task, data: Data) -> bool:
    """Return whether a folder has the official files of a benchmark task for at least one split.

    A split counts only if all its files are in subfolders, because a file such as train.csv may
    belong to any data.
    """
    source = task.source
    if source.reader is not None or task.suite == "xtreme":
        return False
    splits = [name for name, split in source.splits.items() if all("/" in f for f in split.files)]
    # A folder in BEIR's layout is a retrieval task, whatever its name is. The folder of another
    # task must have the right name.
    is_alone = task.suite == "retrieval"
    return any(not missing_files(source, [split], data, alone=is_alone) for split in splits)


# Locating the rows.


def _in_files(place: str, columns: str, written: Written) -> OwnData:
    if not place:
        raise DataError("the data file '' does not exist: use an existing file or folder.")
    path = Path(place).expanduser().resolve()
    try:
        return _of_place(path, columns, written)
    except DataError as error:
        raise _with_benchmark(error, path) from error


def _of_place(path: Path, columns: str, written: Written) -> OwnData:
    files = split_files(path)
    splits = {name: "" for name in SPLIT_NAMES if name in files}
    base = replace(
        # For example, "reviews.csv.gz" and "reviews.csv" have the title "reviews".
        _base(path.name if path.is_dir() else re.sub(r"\.\w+(\.gz)?$", "", path.name)),
        splits={"train": "", **splits},
        encoding=written.encoding,
        no_header=written.no_header,
        sheet=written.sheet,
    )
    return _read_columns(base, path, columns)


# Pattern of a value of `--hf`: "stanfordnlp/imdb", "nyu-mll/glue:cola" or "nyu-mll/glue:cola@main".
HUB = re.compile(r"(?P<hub>[\w.-]+/[\w.-]+)(:(?P<config>[\w.-]+))?(@(?P<revision>[\w./-]+))?")


def _on_hub(word: str, columns: str) -> OwnData:
    found = HUB.fullmatch(word)
    if found is None:
        raise BenchError(
            f"--hf {word!r} is not the name of a data set: expected ORG/NAME, ORG/NAME:CONFIG or "
            "ORG/NAME:CONFIG@REVISION."
        )
    config, revision, there = hub_splits(found["hub"], found["config"], found["revision"])
    splits = {
        ours: next(name for name in there if name in names)
        for ours, names in SPLIT_NAMES.items()
        if names & set(there)
    }
    # The only split of a data set is used for training, whatever its name is.
    if "train" not in splits and len(there) == 1:
        splits = {"train": there[0]}
    if "train" not in splits:
        raise DataError(f"{word} on the hub has no train split: its splits are {', '.join(there)}.")
    name = found["hub"].partition("/")[2]
    base = replace(
        _base(f"{name}-{found['config']}" if found["config"] else name),
        splits=splits,
        hub=found["hub"],
        config=config,
        revision=revision,
    )
    return _read_columns(base, None, columns)


def _base(name: str) -> OwnData:
    """Return a definition without columns, titled with a name in plain lower-case characters."""
    title = re.sub(r"[^\w.-]+", "-", name.lower()).strip("-._") or "data"
    # Users may name a task by its title alone, so the title must not be that of a suite.
    title = f"{title}-data" if title in (*SUITES, *COLLECTIONS) else title
    return OwnData(title=title, kind="class", columns={"text": (), "label": ()}, metrics=())


def _read_columns(base: OwnData, folder: Path | None, columns: str) -> OwnData:
    """Add the columns, given or detected, and the existing splits to a task definition."""
    table = table_of(base, "train", folder)
    if not columns and folder and is_headless(table):
        bare = replace(base, no_header=True)
        rows = table_of(bare, "train", folder)
        base, table = (bare, rows) if count_readings(rows) == 1 else (base, table)
    mapping = parse_columns(columns, table.columns) if columns else find_mapping(table)
    own = replace(base, kind=mapping.kind, columns=mapping.columns)
    # The verdicts that an annotation tool wrote are used even if the user gives other columns.
    verdict, is_sure = verdict_column(table)
    if is_sure and VERDICT not in own.columns and verdict not in mapping.names:
        own = replace(own, columns={**own.columns, VERDICT: (verdict,)})
    split = split_column(table)
    if split and set(base.splits) != {"train"}:
        raise DataError(
            f"{table.name} is the train split, but its column {split!r} names several splits: "
            "use one file with all rows, or remove the column."
        )
    there = set(base.splits)
    if name := "".join(own.columns.get(SPLIT, (split,))):
        if name not in table.columns:
            raise no_column(table, name)
        own = replace(own, columns={**own.columns, SPLIT: (name,)})
        there = {split_of(str(value)) for value in table.columns[name]}
    # If neither files nor a column nor the hub provide dev, it is held out from train.
    held_out = 0.0 if "dev" in there else HELD_OUT
    splits = {
        name: base.splits.get(name, base.splits["train"])
        for name in SPLIT_NAMES
        if name in there or name == "dev"
    }
    return replace(own, splits=splits, held_out=held_out)


# Checks, before anything starts.


def _check_rows(
    own: OwnData, tables: Mapping[str, Table], splits: Mapping[str, Sequence[Example]]
) -> None:
    """Raise DataError if a row does not fit the task, or if a split shares no label with train."""
    # The metrics are not known yet, and the checks of rows do not need them.
    task = own_task(replace(own, metrics=()))
    for split, examples in splits.items():
        table = tables.get(split, tables["train"])
        for example in examples:
            if fault := find_fault(task, example):
                raise DataError(f"{table.name} {table.unit} {example.id} {fault}.")
        if split == "test":
            continue
        complete = [e for e in examples if not task.leaves_out(split, e)]
        if not complete:
            raise DataError(f"{table.name} has no row with a text and a label.")
        if all(e.traits.labels and set(e.traits.labels) <= {*own.unseen} for e in complete):
            raise DataError(
                f"{table.name} has no label that also occurs in train: its labels are "
                f"{', '.join(own.unseen[:6])}."
            )


# Metrics.


def _with_metrics(own: OwnData, words: Sequence[str], examples: Sequence[Example]) -> OwnData:
    """Add the given or the default metrics to a task definition, and try out metric scripts."""
    known = known_metrics(own.kind, own.labels, no_answer=own.no_answer, unseen=own.unseen)
    if not words:
        count = 2 if own.kind == "number" else 1
        return replace(own, metrics=tuple(known)[:count])
    for word in words:
        metric_of(word, known, own.labels, None)
    complete = [e for e in examples if not own_task(own).leaves_out("dev", e)]
    evaluated = [word for word in words if word.startswith(EVALUATE)]
    scripts = {word: check_script(word, own_task(own), own.labels, complete) for word in evaluated}
    absolute = {word: _absolute(word) for word in words}
    return replace(
        own,
        metrics=tuple(absolute.values()),
        scripts={absolute[word]: script for word, script in scripts.items()},
    )


def _absolute(word: str) -> str:
    """Make the script's path in a `--metric` value absolute, since workers run in other folders."""
    if not word.startswith(EVALUATE):
        return word
    source, comma, options = word.removeprefix(EVALUATE).partition(",")
    place = Path(source).expanduser()
    return f"{EVALUATE}{place.resolve()}{comma}{options}" if place.exists() else word
