"""From a file, a folder or a data set of the hub to the definition of its task, and what to say.

Everything is read and checked here, before anything starts: the columns, the labels, every row of
every split, the metric, and which texts stand in two splits.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import Example, PairExample
from benchharness.tasks.metrics.entities import are_entity_tags
from benchharness.tasks.own.cells import value_of
from benchharness.tasks.own.columns import Column, Table, looks_grouped, to_number
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
    BESIDE,
    SHAPES,
    SPLIT,
    find_mapping,
    parse_columns,
    separator_of,
    split_column,
)
from benchharness.tasks.own.tags import Spelling, spelling_of, to_iob
from benchharness.tasks.own.task import (
    NO_LABELS,
    OwnData,
    add,
    class_name,
    examples_of,
    label_parts,
    no_column,
    own_task,
    table_of,
    to_examples,
)
from benchharness.tasks.sources.formats import fields_of
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
    as_written = list(metrics) == ["accuracy"]
    own = _with_labels(own, tables, as_written=as_written)
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
    sentences += _labels_told(own, tables["train"], counted)
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


def _with_labels(own: OwnData, tables: Mapping[str, Table], *, as_written: bool) -> OwnData:
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
            return _with_unseen(_with_tags(own, train, as_written=as_written), tables)
        case "choice":
            return own
    columns = own.columns["label" if own.kind == "class" else "labels"]
    if len(columns) > 1:
        return replace(own, labels=columns)
    _check_values(train, columns[0])
    find = _with_classes if own.kind == "class" else _with_label_sets
    return _with_unseen(find(own, train, columns[0]), tables)


def _check_values(train: Table, column: str) -> None:
    """DataError for labels of which some are lists or objects that were written as text."""
    values = train.columns[column]
    written = {row for row, value in enumerate(values) if _is_written(value)}
    pieces = [row for row, v in enumerate(values) if row not in written and _is_piece(v)]
    if not written and not pieces:
        return
    rest = [row for row, v in enumerate(values) if row not in written and v not in (None, "")]
    # What is broken is the mistake, or else those that are fewer.
    row = (pieces or (rest if len(rest) < len(written) else []) or [min(written)])[0]
    raise DataError(
        f"{train.place(row)} has {str(values[row])[:60]!r} in the column {column!r}, where some "
        "rows have a list or an object that was written as text and others have none: write all "
        "of them alike."
    )


def _is_written(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(part, list | dict) or _is_written(part) for part in value)
    try:
        return not isinstance(value_of(value), str) if isinstance(value, str) else False
    except ValueError:
        return False


def _is_piece(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(p, str) and bool(re.match(r"""[\[({]\s*['"]""", p)) for p in parts)


def _with_unseen(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    """With the labels that dev or test has and train lacks, in their order among the others."""
    found: set[str] = set()
    for split, table in tables.items():
        if split != "train":
            for example in to_examples(own, table, may_hide=split.startswith("test")):
                found.update(example.traits.labels)
    unseen = found - set(own.labels)
    if not unseen:
        return own
    key = _tag_order([*own.labels, *unseen]) if own.kind == "tags" else _natural
    labels = tuple(sorted({*own.labels, *unseen}, key=key))
    return replace(own, labels=labels, unseen=tuple(sorted(unseen)))


def _with_classes(own: OwnData, train: Table, column: str) -> OwnData:
    values = [class_name(v) for v in _flat(train.columns[column]) if v not in (None, "")]
    none = _no_label({*values})
    values = [value for value in values if value != none]
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


def _no_label(names: Collection[str]) -> str:
    """The name that says of a row that it has no label, beside names of another form."""
    words = {name for name in names if name not in NO_LABELS}
    if len(words) > 1 and all(re.search(r"[^\W\d_]", word) for word in words):
        return "-"  # which is a class among signs
    return "nan" if len(words) > 1 and not any(_natural(word)[0] for word in words) else ""


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
    for open_, close in ("[]", "{}", "()"):
        if odd := [part for part in found if part.count(open_) != part.count(close)]:
            raise DataError(
                f"{train.name} has the label {odd[0]!r} in the column {column!r}, which is a piece "
                "of something: write labels as lists, or with a sign between that is in none."
            )
    if len(found) < 2:
        raise DataError(f"{train.name} has {len(found)} labels in {column!r}: expected several.")
    return replace(own, labels=tuple(sorted(found, key=_natural)), separator=separator)


def _with_tags(own: OwnData, train: Table, *, as_written: bool) -> OwnData:
    spelling = Spelling(frozenset()) if as_written else _spelling(own, train)
    if spelling.odd:
        raise _odd_tag(own, train, spelling)
    kinds = sorted(spelling.kinds)
    every = ("O", *(f"{letter}-{kind}" for letter in "BI" for kind in kinds))
    own = replace(own, labels=every if kinds else ())  # tells whether these are entities
    found = {tag for example in to_examples(own, train) for tag in example.traits.labels}
    if len(found) < 2:
        raise DataError(f"{train.name} has {len(found)} different tags: expected two or more.")
    return replace(own, labels=tuple(sorted(found, key=_tag_order(found))))


def _tag_order(tags: Collection[str]) -> Callable[[str], tuple[bool, str]]:
    """O before the others, which stand by prefix: B-LOC, B-PER, I-LOC, I-PER."""
    if are_entity_tags(tags):
        return lambda tag: (tag != "O", tag)
    return lambda tag: (False, tag)


def _written_tags(own: OwnData, train: Table) -> Iterator[tuple[int, int, str]]:
    """The tags as they are written, each with its row and its place in it."""
    for row, value in enumerate(train.columns[own.columns["tags"][0]]):
        each = (
            fields_of(value) if isinstance(value, str) and "sentence" not in own.columns else value
        )
        for place, tag in enumerate(each if isinstance(each, list) else [each]):
            if tag not in (None, ""):
                yield row, place, class_name(tag)


def _spelling(own: OwnData, train: Table) -> Spelling:
    return spelling_of(Counter(tag for _, _, tag in _written_tags(own, train)))


def _odd_tag(own: OwnData, train: Table, spelling: Spelling) -> DataError:
    """What to say of a tag of no scheme among those of one."""
    row, place, tag = next(found for found in _written_tags(own, train) if found[2] in spelling.odd)
    where = train.place(row) if "sentence" in own.columns else train.place_of_word(row, place)
    return DataError(
        f"{where} has the tag {tag!r} among spans of {', '.join(sorted(spelling.kinds)[:6])}: mend "
        "it, or say --metric accuracy where tags are to be counted word by word, as written."
    )


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield from value if isinstance(value, list) else [] if value in (None, "") else [value]


def _with_range(own: OwnData, tables: Mapping[str, Table]) -> OwnData:
    (name,) = own.columns["number"]
    own = replace(own, decimal=Column("", tables["train"].columns[name]).decimal)
    numbers = {split: _numbers(own, table) for split, table in tables.items()}
    # Of a test split that hides its labels as -1 nothing is known.
    if set(numbers.get("test", ())) == {-1.0} and min(numbers["train"], default=-1.0) >= 0:
        del numbers["test"]
    found = [number for each in numbers.values() for number in each]
    if len(set(found)) < 2:
        raise DataError(f"{tables['train'].name} has no two different numbers in {name!r}.")
    scale = _scale(fmean(found), pstdev(found))
    return replace(own, value_range=(min(found), max(found)), scale=scale)


def _numbers(own: OwnData, table: Table) -> list[float]:
    examples: list[Any] = [*to_examples(own, table, may_hide=True)]
    return [e.label for e in examples if isinstance(e.label, float)]


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
    """DataError for a row that is none of the task, and for a split without any label of train."""
    # Its metrics are not known yet, and no check of a row needs them.
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
                f"no label of {table.name} is one of train's: it has {', '.join(own.unseen[:6])}."
            )


# Metrics.


def _with_metrics(own: OwnData, words: Sequence[str], examples: Sequence[Example]) -> OwnData:
    """With the metrics that were said, tried where they are scripts, or those of the kind."""
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
    beside = {*BESIDE, "sentence", "keys", SPLIT}
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
        share = _share(len(splits["dev"]) - left["dev"], len(splits["train"]) - left["train"])
        made += f"; dev is {share} of {tables['train'].name}, by its labels{by}"
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


def _share(part: int, rest: int) -> str:
    """What a made dev is of all rows, and why where it is far from what it should be."""
    share = part / (part + rest)
    if abs(share - HELD_OUT) < HELD_OUT / 2:
        return f"{share:.0%}"
    return f"{share:.0%} (not {HELD_OUT:.0%}, which whole groups and labels that train needs leave)"


def _labels_told(
    own: OwnData, table: Table, splits: Mapping[str, Sequence[Example]]
) -> Iterator[str]:
    """What is odd about labels: of one spelling, of one text, of dev or test alone."""
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for label in own.labels:
        cases[label.casefold()].append(label)
    if alike := [label for found in cases.values() if len(found) > 1 for label in found]:
        names = ", ".join(alike[:6]) + (", ..." if len(alike) > 6 else "")
        yield f"{len(alike)} labels differ only in case, and are several: {names}"
    if own.kind == "tags":
        yield from _tags_told(own, table, splits)
    for split, examples in splits.items():
        odd = [e for e in examples if set(e.traits.labels) & {*own.unseen}]
        if odd:
            names = ", ".join(map(repr, own.unseen[:3]))
            has = "1 row of {} has" if len(odd) == 1 else f"{len(odd)} rows of {{}} have"
            counts = "it counts" if len(odd) == 1 else "they count"
            yield f"{has.format(split)} a label that train lacks ({names}): {counts} as wrong"
    # Equal texts stay on one side of a split that is made.
    yield from _contradictions(own, [*splits["train"], *(splits["dev"] if own.held_out else ())])


def _tags_told(
    own: OwnData, table: Table, splits: Mapping[str, Sequence[Example]]
) -> Iterator[str]:
    spelling = _spelling(own, table)
    if not are_entity_tags(own.labels):
        words = Counter(tag for e in splits["train"] for tag in getattr(e, "tags", None) or ())
        (tag, count), *_ = words.most_common(1)
        if count > words.total() / 2:
            share = count / words.total()
            yield f"{share:.0%} of the words have the tag {tag!r}, so that accuracy says little"
        return
    if spelling.said:
        yield spelling.said
        return
    begins, repaired, before = 0, 0, "O"
    for _, place, written in _written_tags(own, table):
        tag = to_iob(written, spelling.kinds) or "O"
        before = "O" if place == 0 and "sentence" not in own.columns else before
        is_new = tag != "O" and (tag[0] == "B" or before[1:] != tag[1:])
        begins += is_new
        repaired += is_new and tag[0] == "I"
        before = tag
    if repaired:
        yield f"{repaired} of {begins} spans begin with I-: they are read as beginning with B-"


def _contradictions(own: OwnData, examples: Sequence[Example]) -> Iterator[str]:
    """Texts of train that stand there with different labels."""
    if own.kind not in ("class", "labels", "number"):
        return
    rows: defaultdict[Any, list[Any]] = defaultdict(list)
    for example in examples:
        rows[example.content].append(example)
    odd = [found for found in rows.values() if len({each.label for each in found}) > 1]
    if odd:
        one, other = odd[0][0], next(e for e in odd[0] if e.label != odd[0][0].label)
        are = "1 text stands" if len(odd) == 1 else f"{len(odd)} texts stand"
        yield (
            f"{are} there with different labels, such as {one.label} in {one.id} and "
            f"{other.label} in {other.id}"
        )


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
