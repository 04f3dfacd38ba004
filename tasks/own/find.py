"""From a file, a folder or a data set of the hub to the definition of its task, and what to say.

Everything is read and checked here, before anything starts: the columns, the labels, every row of
every split, the metric, and which texts stand in two splits.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import Example, PairExample
from benchharness.tasks.own.columns import Column, looks_grouped, to_number
from benchharness.tasks.own.leaks import Leak, find_leaks
from benchharness.tasks.own.metrics import (
    EVALUATE,
    check_script,
    known_metrics,
    metric_names,
    metric_of,
)
from benchharness.tasks.own.places import SPLIT_NAMES, split_files, split_of
from benchharness.tasks.own.roles import (
    SHAPES,
    SPLIT,
    find_mapping,
    parse_columns,
    separator_of,
    split_column,
)
from benchharness.tasks.own.tables import Table
from benchharness.tasks.own.task import (
    OwnData,
    add,
    class_name,
    examples_of,
    is_entity_tag,
    label_parts,
    no_column,
    own_task,
    table_of,
    to_examples,
)
from benchharness.tasks.sources.hub import hub_splits
from benchharness.tasks.suites import COLLECTIONS, SUITES
from benchharness.tasks.task import Task, find_fault

HELD_OUT = 0.2
"""The share of train that is made dev where the data have none."""

MOST_NAMED = 3
"""How many leaks are named, each by its two rows."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The task of somebody's data, where its rows are as `--data` says it, and what to say of it.

    `leaks` are counts by split: rows whose text is in train, as it is and nearly so.
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
) -> Found:
    """The task of a file or folder, or of a `hub` data set "org/name[:config][@revision]".

    Raises DataError for rows that cannot be read, do not fit, or fit two tasks; BenchError for
    columns or metrics that make no sense.
    """
    metric_names(metrics)  # refuses what is said twice before anything is read
    if hub and no_header:
        raise BenchError("--no-header is of files, and --hf names none: leave it out.")
    own = _on_hub(place, columns) if hub else _in_files(place, columns, encoding, no_header)
    folder = None if hub else Path(place).expanduser().resolve()
    # A dev that is held out has no rows of its own.
    tables = {
        split: table_of(own, split, folder)
        for split in own.splits
        if split != "dev" or not own.held_out
    }
    own = _with_labels(own, tables)
    splits = {split: examples_of(own, split, folder) for split in own.splits}
    # Before the metrics, of which scripts are run on the rows of dev.
    _check_rows(own, tables, splits)
    own = _with_metrics(own, metrics, splits["dev"])
    task = own_task(own)
    counted = {
        split: [example for example in examples if not task.leaves_out(split, example)]
        for split, examples in splits.items()
    }
    sentences = [_what(own, task), *_rows_said(own, tables, splits, task)]
    if not columns:
        sentences.append(f"guessed, another --columns changes it: {own.mapping.words}")
    leaks: dict[str, tuple[int, int]] = {}
    for split in [split for split in counted if split != "train"]:
        found = find_leaks(counted["train"], counted[split])
        same = sum(leak.is_same for leak in found)
        leaks[split] = same, len(found) - same
        if found:
            sentences.append(_leaks_said(own, split, found, len(counted[split])))
    return Found(
        own=own,
        task=add(task),
        data="hub" if hub else str(folder),
        sentences=tuple(sentences),
        leaks=leaks,
    )


# Where the rows are.


def _in_files(place: str, columns: str, encoding: str, no_header: bool) -> OwnData:
    if not place:
        raise DataError("the data file '' does not exist: give a file or a folder.")
    path = Path(place).expanduser().resolve()
    files = split_files(path)
    splits = {name: "" for name in SPLIT_NAMES if name in files}
    base = replace(
        # "reviews.csv.gz" and "reviews.csv" are titled "reviews".
        _base(path.name if path.is_dir() else re.sub(r"\.\w+(\.gz)?$", "", path.name)),
        splits={"train": "", **splits},
        encoding=encoding,
        no_header=no_header,
    )
    return _read_columns(base, path, columns)


# "stanfordnlp/imdb", "nyu-mll/glue:cola" or "nyu-mll/glue:cola@main".
HUB = re.compile(r"(?P<hub>[\w.-]+/[\w.-]+)(:(?P<config>[\w.-]+))?(@(?P<revision>[\w./-]+))?")


def _on_hub(word: str, columns: str) -> OwnData:
    found = HUB.fullmatch(word)
    if found is None:
        raise BenchError(
            f"--hf {word!r} is no data set's name: expected ORG/NAME, ORG/NAME:CONFIG or "
            "ORG/NAME:CONFIG@REVISION."
        )
    config, revision, there = hub_splits(found["hub"], found["config"], found["revision"])
    splits = {
        ours: next(name for name in there if name in names)
        for ours, names in SPLIT_NAMES.items()
        if names & set(there)
    }
    # A data set of one split is trained on, whatever the split is called.
    if "train" not in splits and len(there) == 1:
        splits = {"train": there[0]}
    if "train" not in splits:
        raise DataError(f"{word} on the hub has no train split: it has {', '.join(there)}.")
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
    """A definition without columns, titled by a name: in lower case, without odd characters."""
    title = re.sub(r"[^\w.-]+", "-", name.lower()).strip("-._") or "data"
    # Own data may be named without their digits, and "glue" is a suite already.
    title = f"{title}-data" if title in (*SUITES, *COLLECTIONS) else title
    return OwnData(title=title, kind="class", columns={"text": (), "label": ()}, metrics=())


def _read_columns(base: OwnData, folder: Path | None, columns: str) -> OwnData:
    """With the columns that were said, or that fit; and with the splits that there are."""
    table = table_of(base, "train", folder)
    mapping = parse_columns(columns) if columns else find_mapping(table)
    own = replace(base, kind=mapping.kind, columns=mapping.columns)
    split = split_column(table)
    if split and set(base.splits) != {"train"}:
        raise DataError(
            f"{table.name} has rows of several splits in the column {split!r}, and is train by its "
            "name: give one file with all rows, or take the column out."
        )
    there = set(base.splits)
    if name := "".join(own.columns.get(SPLIT, (split,))):
        if name not in table.columns:
            raise no_column(table, name)
        own = replace(own, columns={**own.columns, SPLIT: (name,)})
        there = {split_of(str(value)) for value in table.columns[name]}
    # Without a dev, by files, by a column or on the hub, dev is made of train.
    held_out = 0.0 if "dev" in there else HELD_OUT
    splits = {
        name: base.splits.get(name, base.splits["train"])
        for name in SPLIT_NAMES
        if name in there or name == "dev"
    }
    return replace(own, splits=splits, held_out=held_out)


# Labels, and what a number is learned as.


def _with_labels(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    """With the labels of train, or the range of the numbers; DataError where there are none."""
    train = tables["train"]
    for name in (name for names in own.columns.values() for name in names):
        if name not in train.columns:
            raise no_column(train, name)
    match own.kind:
        case "number":
            return _with_range(own, tables)
        case "spans":  # a question may have no answer, as in SQuAD 2.0
            examples: Iterator[Any] = to_examples(own, train)
            return replace(own, no_answer=any(example.answers == () for example in examples))
        case "tags":
            return _with_tags(own, train)
        case "choice":
            return own
    columns = own.columns["label" if own.kind == "class" else "labels"]
    if len(columns) > 1:
        return replace(own, labels=columns)
    return (_with_classes if own.kind == "class" else _with_label_sets)(own, train, columns[0])


def _with_classes(own: OwnData, train: Table, column: str) -> OwnData:
    values = [class_name(v) for v in _flat(train.columns[column]) if v not in (None, "")]
    labels = tuple(sorted(set(values), key=_natural))
    if len(labels) < 2:
        said = f"one label, {labels[0]!r}" if labels else "no label"
        raise DataError(f"{train.name} has {said} in the column {column!r}: expected two or more.")
    # Nearly as many labels as rows: names or texts, of which nothing can be learned.
    if len(labels) > max(2, len(values) // 2):
        raise DataError(
            f"{train.name} has {len(labels)} labels in {len(values)} rows of the column "
            f"{column!r}: expected several rows of each."
        )
    return replace(own, labels=labels)


def _natural(name: str) -> tuple[bool, float, str]:
    """Numbers by their size before names."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _with_label_sets(own: OwnData, train: Table, column: str) -> OwnData:
    values = [value for value in train.columns[column] if value is not None]
    separator = "" if isinstance(next(iter(values), []), list) else separator_of(values) or ","
    found = {part for value in values for part in label_parts(value, separator)}
    if len(found) < 2:
        raise DataError(f"{train.name} has {len(found)} labels in {column!r}: expected several.")
    return replace(own, labels=tuple(sorted(found, key=_natural)), separator=separator)


def _with_tags(own: OwnData, train: Table) -> OwnData:
    written = {class_name(tag) for tag in _flat(train.columns[own.columns["tags"][0]])}
    own = replace(own, labels=tuple(written))  # tells whether these are entities
    found = {tag for example in to_examples(own, train) for tag in example.traits.labels}
    if len(found) < 2:
        raise DataError(f"{train.name} has {len(found)} different tags: expected two or more.")
    # O before the others, which stand by prefix: B-LOC, B-PER, I-LOC, I-PER.
    entities = all(map(is_entity_tag, found))
    key = (lambda tag: (tag != "O", tag)) if entities else (lambda tag: (False, tag))
    return replace(own, labels=tuple(sorted(found, key=key)))


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [] if value in (None, "") else [value]


def _with_range(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    (name,) = own.columns["number"]
    own = replace(own, decimal=Column("", tables["train"].columns[name]).decimal)
    examples: list[Any] = [e for t in tables.values() for e in to_examples(own, t, may_hide=True)]
    found = [e.label for e in examples if isinstance(e.label, float)]
    if len(set(found)) < 2:
        raise DataError(f"{tables['train'].name} has no two different numbers in {name!r}.")
    scale = _scale(fmean(found), pstdev(found))
    return replace(own, value_range=(min(found), max(found)), scale=scale)


def _scale(mean: float, spread: float) -> tuple[float, float]:
    """What a number is learned as: as it is, or where it is large or tiny by round numbers."""
    if 0.1 <= spread <= 10 and abs(mean) <= 10:
        return 0.0, 1.0
    # The spread by its first digit: a mean of 52,300 and a spread of 1,480 give (52000.0, 1000.0).
    one = float(f"{spread:.0e}")
    return float(round(mean / one) * one), one


# Checks, before anything starts.


def _check_rows(
    own: OwnData, tables: Mapping[str, Table], splits: Mapping[str, Sequence[Example]]
) -> None:
    """DataError for a label that train does not have, and for a split without any."""
    known = {label for example in splits["train"] for label in example.traits.labels}
    # Its metrics are not known yet, and no check of a row needs them.
    task = own_task(replace(own, metrics=()))
    for split, examples in splits.items():
        table = tables.get(split, tables["train"])
        for example in examples:
            odd = [label for label in example.traits.labels if label not in known]
            place = f"{table.name} {table.unit} {example.id}"
            if odd and split != "train":
                raise DataError(
                    f"{place} has the label {odd[0]!r}, which no row of train has: no model can "
                    "learn it."
                )
            if fault := find_fault(task, example):
                raise DataError(f"{place} {fault}.")
        if split != "test" and all(task.leaves_out(split, example) for example in examples):
            raise DataError(f"{table.name} has no row with a text and a label.")


# Metrics.


def _with_metrics(own: OwnData, words: Sequence[str], examples: Sequence[Example]) -> OwnData:
    """With the metrics that were said, tried where they are scripts, or those of the kind."""
    known = known_metrics(own.kind, own.labels, no_answer=own.no_answer)
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
    """A script by its whole path, which holds wherever a worker begins."""
    if not word.startswith(EVALUATE):
        return word
    source, comma, options = word.removeprefix(EVALUATE).partition(",")
    place = Path(source).expanduser()
    return f"{EVALUATE}{place.resolve()}{comma}{options}" if place.exists() else word


# What is said.

_METRICS = {
    "f1": "macro F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "mcc": "Matthews correlation",
}


def _what(own: OwnData, task: Task) -> str:
    """The task in a line: "pair classification: premise, hypothesis -> label (3 classes); ..."."""
    columns = {role: "+".join(names) for role, names in own.columns.items()}
    head = SHAPES[own.kind].head
    if "text" in columns:
        head = f"{'pair' if 'text2' in columns else 'text'} {head}"
    targets = {"label", "labels", "number", "tags", "answer", "start"}
    beside = {"group", "sentence", "keys", SPLIT}
    given = [name for role, name in columns.items() if role not in targets | beside]
    wanted = [name for role, name in columns.items() if role in targets - {"start"}]
    metrics = " and ".join(
        _METRICS.get(metric.name, metric.name) if own.kind in ("class", "labels") else metric.name
        for metric in task.metrics
    )
    return f"{head}: {', '.join(given)} -> {', '.join(wanted)}{_labels_said(own)}; {metrics}"


def _labels_said(own: OwnData) -> str:
    if own.value_range is not None:
        return f" ({own.value_range[0]:g} to {own.value_range[1]:g})"
    words = {"class": "classes", "labels": "labels", "tags": "tags"}
    if own.kind not in words:
        return ""
    names = ", ".join(own.labels[:6]) + (", ..." if len(own.labels) > 6 else "")
    return f" ({len(own.labels)} {words[own.kind]}: {names})"


def _rows_said(
    own: OwnData,
    tables: Mapping[str, Table],
    splits: Mapping[str, Sequence[Example]],
    task: Task,
) -> Iterator[str]:
    used = {name for names in own.columns.values() for name in names}
    if rest := [name for name in tables["train"].columns if name not in used]:
        yield f"not used: {', '.join(name or 'a column without a name' for name in rest)}"
    left = {name: sum(task.leaves_out(name, e) for e in found) for name, found in splits.items()}
    counts = ", ".join(f"{len(found) - left[name]} {name}" for name, found in splits.items())
    made = f" (column {own.columns[SPLIT][0]!r})" if SPLIT in own.columns else ""
    if own.held_out:
        by = f", whole groups of {own.columns['group'][0]}" if "group" in own.columns else ""
        made += f"; dev is {own.held_out:.0%} of {tables['train'].name}, by its labels{by}"
    yield f"rows: {counts}{made}"
    yield from dict.fromkeys(note for table in tables.values() for note in table.notes)
    for split, count in left.items():
        if count:
            yield f"left out of {split}, without a text or a label: {count}"
    hidden = sum(example.is_hidden for example in splits.get("test", ()))
    if 0 < hidden < len(splits.get("test", ())):
        yield f"{hidden} rows of test have no label: test is predicted, and not scored"
    yield from _values_said(own, tables["train"], splits["train"])
    if words := [word for word in own.metrics if word.startswith(EVALUATE)]:
        yield f"runs the code of {', '.join(words)}"


def _values_said(own: OwnData, table: Table, examples: Sequence[Example]) -> Iterator[str]:
    """How labels and numbers are read, where they might be meant otherwise."""
    none = sum(isinstance(e, PairExample) and e.label == () for e in examples)
    if none:
        yield f"{none} rows of train have no label: read as none of them; take out unjudged rows"
    values = table.columns[own.columns["number"][0]] if own.kind == "number" else ()
    commas = [value for value in values if isinstance(value, str) and "," in value]
    if odd := next(iter(commas or looks_grouped(values)), ""):
        yield f"numbers such as {odd} are read as {to_number(odd, own.decimal):g}"
    if own.scale != (0.0, 1.0):
        yield f"learned as (number - {own.scale[0]:g}) / {own.scale[1]:g}"


def _leaks_said(own: OwnData, split: str, leaks: Sequence[Leak], count: int) -> str:
    same = sum(leak.is_same for leak in leaks)
    named = ", ".join(f"{leak.row} is like train's {leak.train}" for leak in leaks[:MOST_NAMED])
    more = f", and {len(leaks) - MOST_NAMED} more" if len(leaks) > MOST_NAMED else ""
    made = own.held_out and split == "dev"
    ours = ", which we made both: most texts are nearly one" if made else ""
    return (
        f"LEAK: {len(leaks)} of {count} rows of {split} stand in train too{ours} ({same} the same, "
        f"{len(leaks) - same} nearly): {named}{more}"
    )
