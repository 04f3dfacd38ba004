"""Write notes for the user on a detected task: its rows, its labels, and how they are read."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import category, normalize

from benchharness.extensions.custom_data.columns import Table, looks_grouped, to_number
from benchharness.extensions.custom_data.labels import spelling_in, written_tags
from benchharness.extensions.custom_data.leaks import Leak
from benchharness.extensions.custom_data.metrics import EVALUATE
from benchharness.extensions.custom_data.roles import BESIDE, SHAPES, SPLIT, Kind, numbers_in
from benchharness.extensions.custom_data.tags import to_iob
from benchharness.extensions.custom_data.task import (
    NO_ANSWERS,
    OwnData,
    answers_in,
    class_name,
    is_null,
    may_be_no_label,
)
from benchharness.tasks.examples import Example, PairExample
from benchharness.tasks.metrics.entities import are_entity_tags
from benchharness.tasks.task import Task

MOST_NAMED = 3
"""Maximum number of leaked rows that a note lists."""

_METRICS = {
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "mcc": "Matthews correlation",
}


def what_is_found(own: OwnData, task: Task) -> str:
    """Describe a task in one line: kind, columns, range or names of its labels, and metrics.

    An example is "text regression: review -> stars (1 to 5); pearson and spearman".
    """
    columns = {role: "+".join(names) for role, names in own.columns.items()}
    head = SHAPES[own.kind].head
    if "text" in columns:
        head = f"{'pair' if 'text2' in columns else 'text'} {head}"
    targets = {"label", "labels", "number", "tags", "answer", "start"}
    beside = {*BESIDE, "sentence", "keys", SPLIT}
    given = [name for role, name in columns.items() if role not in targets | beside]
    wanted = [name for role, name in columns.items() if role in targets - {"start"}]
    metrics = " and ".join(
        metric.title or _METRICS.get(metric.name, metric.name) for metric in task.metrics
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


_DRAWN: Mapping[Kind, str] = {
    "class": "stratified by label",
    "labels": "stratified by combination of labels",
    "number": "stratified by rounded number",
    "tags": "drawn at random",
    "spans": "drawn at random, whole contexts at once",
    "choice": "stratified by position of the answer",
}
"""How rows of each kind are held out for dev, by `Traits.stratum` and `Traits.passage`."""


def row_notes(
    own: OwnData,
    tables: Mapping[str, Table],
    splits: Mapping[str, Sequence[Example]],
    task: Task,
) -> Iterator[str]:
    """Yield notes on the rows of a task: how many there are, and how they are read.

    Among others, there are notes on unused columns, on the size of each split, on rows that are
    left out, on values with several possible meanings, and on third-party code for scoring.

    Args:
        own: The definition of the task.
        tables: The rows of each split as they were read, keyed by split. A dev split that was split
            off from train is missing.
        splits: The examples of each split, keyed by split.
        task: Task with the rows.
    """
    used = {name for names in own.columns.values() for name in names}
    if rest := [name for name in tables["train"].columns if name not in used]:
        yield f"columns not used: {', '.join(name or 'a column without a name' for name in rest)}"
    left = {name: sum(task.leaves_out(name, e) for e in found) for name, found in splits.items()}
    counts = ", ".join(f"{len(found) - left[name]} {name}" for name, found in splits.items())
    made = f" (column {own.columns[SPLIT][0]!r})" if SPLIT in own.columns else ""
    if own.held_out:
        by = f" (whole groups of {own.columns['group'][0]})" if "group" in own.columns else ""
        dev, train = (len(splits[name]) - left[name] for name in ("dev", "train"))
        share, why = _share(dev, train, own.held_out)
        made += f"; dev is {share} of {tables['train'].name}{why}, {_DRAWN[own.kind]}{by}"
    yield f"rows: {counts}{made}"
    yield from dict.fromkeys(note for table in tables.values() for note in table.notes)
    for split, count in left.items():
        if count:
            yield f"left out of {split}, because a text or a usable label is missing: {count}"
    hidden = sum(example.is_hidden for example in splits.get("test", ()))
    if hidden:
        is_all = hidden == len(splits["test"])
        said = "no row of test has a label" if is_all else f"{hidden} rows of test have no label"
        yield f"{said}: test is predicted but not scored"
    yield from _values_said(own, tables["train"], splits["train"])
    if words := [word for word in own.metrics if word.startswith(EVALUATE)]:
        yield f"scoring runs the code of {', '.join(words)}"


def _share(part: int, rest: int, wanted: float) -> tuple[str, str]:
    """Return the share of dev among all rows, and the reason if it is far from `wanted`."""
    whole = part + rest
    if abs(part - wanted * whole) < 1:  # the wanted number, rounded down or up
        return f"{wanted:.0%}", ""
    is_near = abs(part / whole - wanted) < wanted / 2
    why = f" (instead of {wanted:.0%}: groups stay whole, and train keeps every label)"
    return f"{part / whole:.0%}", "" if is_near else why


def label_notes(
    own: OwnData, table: Table, splits: Mapping[str, Sequence[Example]]
) -> Iterator[str]:
    """Yield notes on the labels, such as similar names and labels that train lacks.

    Other notes are about values that stand for a missing label, equal texts with different labels,
    and the scheme of tags.

    Args:
        own: The definition of the task.
        table: The rows of train.
        splits: The examples of each split without rows that are left out, keyed by split.
    """
    yield from _not_labels(own, table)
    yield from _alike(own.labels)
    if own.kind == "tags":
        yield from _tag_notes(own, table, splits)
    for split, examples in splits.items():
        odd = [e for e in examples if set(e.traits.labels) & {*own.unseen}]
        if odd:
            names = ", ".join(map(repr, own.unseen[:3]))
            has = "1 row of {} has" if len(odd) == 1 else f"{len(odd)} rows of {{}} have"
            counts = "its prediction counts" if len(odd) == 1 else "their predictions count"
            yield f"{has.format(split)} a label that train lacks ({names}): {counts} as wrong"
    # If dev is held out from train, equal texts are all in train or all in dev. So both splits are
    # searched for equal texts with different labels.
    rows = [*splits["train"], *(splits["dev"] if own.held_out else ())]
    yield from _contradictions(own, table, rows)


def _not_labels(own: OwnData, table: Table) -> Iterator[str]:
    """Yield a note on values that are treated as a missing label."""
    (column, *others) = own.columns.get("label") or own.columns.get("labels") or [""]
    values = [] if others else [v for v in table.columns.get(column, ()) if isinstance(v, str)]
    names = Counter(name for name in map(class_name, values) if name not in own.labels)
    is_none = may_be_no_label if own.kind == "class" else is_null
    if found := {name: n for name, n in names.items() if is_none(name)}:
        counts = ", ".join(f"{name!r} ({count})" for name, count in found.items())
        yield f"values that mean a missing label (rename them if they are classes): {counts}"


def _alike(labels: Sequence[str]) -> Iterator[str]:
    """Yield notes on different labels that look alike."""
    said: set[str] = set()
    for look, what in ((str.casefold, "case"), (_look, "case, spaces or look-alike letters")):
        cases: defaultdict[str, list[str]] = defaultdict(list)
        for label in labels:
            cases[look(label)].append(label)
        alike = [label for found in cases.values() if len(found) > 1 for label in found]
        if set(alike) - said:
            shown = map(ascii, alike[:6]) if said or look is _look else alike[:6]
            names = ", ".join(shown)
            more = ", ..." if len(alike) > 6 else ""
            yield (
                f"{len(alike)} labels differ only in {what}, but are treated as different labels: "
                f"{names}{more}"
            )
        said.update(alike)


def _look(label: str) -> str:
    """Normalize a label: remove invisible characters, extra spaces, case and letter variants."""
    seen = "".join(c for c in normalize("NFKC", label) if category(c) != "Cf")
    return " ".join(seen.split()).casefold()


def _tag_notes(
    own: OwnData, table: Table, splits: Mapping[str, Sequence[Example]]
) -> Iterator[str]:
    spelling = spelling_in(own, table)
    if not are_entity_tags(own.labels):
        words = Counter(tag for e in splits["train"] for tag in getattr(e, "tags", None) or ())
        (tag, count), *_ = words.most_common(1)
        if count > words.total() / 2:
            share = count / words.total()
            yield f"{share:.0%} of the words have the tag {tag!r}, so accuracy is not informative"
        return
    if spelling.said:
        yield spelling.said
        return
    begins, repaired, before = 0, 0, "O"
    for _, place, written in written_tags(own, table):
        tag = to_iob(written, spelling.kinds) or "O"
        before = "O" if place == 0 and "sentence" not in own.columns else before
        is_new = tag != "O" and (tag[0] == "B" or before[1:] != tag[1:])
        begins += is_new
        repaired += is_new and tag[0] == "I"
        before = tag
    if repaired:
        yield f"{repaired} of {begins} spans begin with I-: they are read as beginning with B-"


def _contradictions(own: OwnData, table: Table, examples: Sequence[Example]) -> Iterator[str]:
    """Yield a note on equal texts that have different labels."""
    if own.kind not in ("class", "labels", "number"):
        return
    rows: defaultdict[Any, list[Any]] = defaultdict(list)
    for example in examples:
        rows[example.content].append(example)
    odd = [found for found in rows.values() if len({each.label for each in found}) > 1]
    if odd:
        one, other = odd[0][0], next(e for e in odd[0] if e.label != odd[0][0].label)
        texts = "1 text has" if len(odd) == 1 else f"{len(odd)} texts have"
        pairs = (f"{e.label} in {table.unit} {e.id}" for e in (one, other))
        yield f"{texts} several labels, such as {' and '.join(pairs)}"


def _values_said(own: OwnData, table: Table, examples: Sequence[Example]) -> Iterator[str]:
    """Yield notes on how labels and numbers are interpreted where this is ambiguous."""
    none = sum(isinstance(e, PairExample) and e.label == () for e in examples)
    if none:
        yield (
            f"{none} rows of train have no label, which means that no label applies: remove rows "
            "that nobody has labelled"
        )
    if own.kind in ("choice", "spans"):
        yield from _answers_said(own, table)
    values = table.columns[own.columns["number"][0]] if own.kind == "number" else ()
    commas = [value for value in values if isinstance(value, str) and "," in value]
    if odd := next(iter(commas or looks_grouped(values)), ""):
        mark = "comma" if own.decimal == "," else "point"
        number = to_number(odd, own.decimal)
        yield f"{odd} is read as {number:g}, with a decimal {mark}"
    if own.scale != (0.0, 1.0):
        yield f"for training, numbers are scaled: (number - {own.scale[0]:g}) / {own.scale[1]:g}"


def _answers_said(own: OwnData, table: Table) -> Iterator[str]:
    """Yield notes on answers that are neither a plain text nor a number counted from 0."""
    answer = own.columns.get("answer", ("",))[0]
    texts = [v if isinstance(v, list) else [v] for v in table.columns.get(answer, ())]
    for word in NO_ANSWERS if own.kind == "spans" else ():
        if count := sum(word in found for found in texts):
            yield f"{count} questions have the answer {word}, which is read as no answer"
    if answer in own.columns.get("options", ()) and "question" in own.columns:
        yield f"options are sorted by their text, so that their order does not reveal {answer!r}"
    if own.first_option:
        yield f"the answers in {answer!r} count the options from 1"
        if count := sum(len(numbers_in(right)) > 1 for right, _ in answers_in(own, table)):
            yield f"questions with several right options, which are read as unlabelled: {count}"


def leak_note(own: OwnData, split: str, leaks: Sequence[Leak], count: int) -> str:
    """Return a note on the rows of a split that are also in train: their number and the first ids.

    Args:
        own: The definition of the task.
        split: The name of the split.
        leaks: The leaked rows.
        count: The number of rows in the split.
    """
    same = sum(leak.is_same for leak in leaks)
    named = ", ".join(f"{leak.row} (like {leak.train} of train)" for leak in leaks[:MOST_NAMED])
    more = f", and {len(leaks) - MOST_NAMED} more" if len(leaks) > MOST_NAMED else ""
    made = own.held_out and split == "dev"
    split_here = (
        ", although dev was split off from train; most texts are nearly equal" if made else ""
    )
    return (
        f"LEAK: {len(leaks)} of {count} rows of {split} repeat rows of train{split_here} ({same} "
        f"exactly, {len(leaks) - same} nearly), ids: {named}{more}"
    )
