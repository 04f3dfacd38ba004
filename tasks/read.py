"""Read the examples of a task: convert and check every row of a split, and fingerprint them."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.tasks.examples import Example, TagExample
from benchharness.tasks.sources import Data, Row, has_rows, parse_data, rows
from benchharness.tasks.sources.source import ODDITIES
from benchharness.tasks.task import Task, find_fault

# Quick runs use a fixed subset of a split, stratified by label. The first rows of an official file
# would not be a representative sample, because many files are sorted by source or by label.


def subset(examples: Sequence[Example], limit: int) -> list[Example]:
    """Return a fixed stratified subset of about `limit` examples, in their original order.

    Examples that are scored together (`Example.unit`) are selected together, so the subset may be
    smaller than the limit. It is larger only if the first selected group alone exceeds the limit.
    Subsets are nested: the subset of 100 examples is part of the subset of 200. The selection
    depends only on the ids, groups and strata (see `Traits.stratum`) of the examples.

    Raises:
        BenchError: If the limit is below 1.
    """
    if limit < 1:
        raise BenchError(f"the limit is {limit} rows: expected 1 or more.")
    return [examples[index] for index in sample(examples, limit, attrgetter("unit"))]


def sample(
    examples: Sequence[Example],
    limit: int,
    group_of: Callable[[Example], str | None],
    draw: str = "",
) -> list[int]:
    """Draw a stratified sample of about `limit` examples.

    Args:
        examples: Examples of a split.
        limit: Number of examples to select. Fewer are selected if the next group does not fit; more
            are selected only if the first group alone exceeds the limit.
        group_of: Function that returns the name of the group of an example, or None if it is in no
            group. All examples of a group are selected together.
        draw: Seed of the selection; different texts select different examples.

    Returns:
        Indices of the selected examples, in ascending order.
    """
    kept: set[int] = set()
    for unit in _ranked(_units(examples, group_of), examples, draw):
        if kept and len(kept) + len(unit) > limit:
            break
        kept.update(unit)
    return sorted(kept)


def _units(
    examples: Sequence[Example], group_of: Callable[[Example], str | None]
) -> list[list[int]]:
    """Return the indices of the examples in each unit.

    A unit is selected as a whole. It is a group of examples, or a single example without a group.
    """
    units: dict[str, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        group = group_of(example)
        units[f"row {index}" if group is None else f"group {group}"].append(index)
    return list(units.values())


def _ranked(units: list[list[int]], examples: Sequence[Example], draw: str = "") -> list[list[int]]:
    """Return the units in the order of selection, so that every prefix is a stratified sample.

    The units in a stratum of size n get the ranks 0.5/n, 1.5/n, ..., by which all units are sorted.
    The first unit of every stratum precedes all others, so that even small samples have rare
    labels.
    """
    strata: dict[str, list[tuple[str, list[int]]]] = defaultdict(list)
    for unit in units:
        first = examples[unit[0]]
        digest = hashlib.sha256((draw + first.id).encode()).hexdigest()
        strata[first.traits.stratum if len(unit) == 1 else "group"].append((digest, unit))
    ranked = [
        (rank > 0, (rank + 0.5) / len(members), digest, unit)
        for members in strata.values()
        for rank, (digest, unit) in enumerate(sorted(members))
    ]
    return [unit for *_, unit in sorted(ranked)]


@dataclass(frozen=True, kw_only=True)
class SplitRows:
    """Examples of a split, or of a part of it, with their fingerprint.

    Attributes:
        examples: The examples in their original order.
        fingerprint: SHA-256 (hex) of the examples, as the function `fingerprint` returns it.
        left_out: Number of rows of the whole split that were dropped by the benchmark's convention
            (`Task.leaves_out`).
        cut: Number of further rows that are missing because of a limit on the number of rows.
        odd: Number of occurrences of each irregularity in the whole split, keyed by the sentence
            that describes it (`Example.oddities`).
    """

    examples: tuple[Example, ...]
    fingerprint: str
    left_out: int = 0
    cut: int = 0
    odd: Mapping[str, int] = field(default_factory=dict)


def odd_sentences(splits: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Describe the irregularities in the data of a task for users.

    Args:
        splits: `SplitRows.odd` of each split, keyed by the name of the split.

    Returns:
        One sentence per irregularity, with its number of occurrences in each split.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for split, odd in splits.items():
        for sentence, count in odd.items():
            found[sentence].append(f"{count} in {split}")
    return [f"{sentence}: {', '.join(places)}." for sentence, places in found.items()]


def draw_shots(rows: SplitRows, number: int, seed: int) -> SplitRows:
    """Draw a random sample of about `number` rows from a split, stratified by label.

    Rows that are scored together are drawn together. Samples with the same seed are nested: the
    sample of 8 rows is part of the sample of 32.

    Args:
        rows: Rows of the split.
        number: Number of rows to draw. Fewer are drawn if the next group of rows does not fit; more
            are drawn only if the first group alone exceeds the number.
        seed: Seed of the run, which selects the sample.

    Raises:
        DataError: If the split has fewer than `number` rows.
    """
    if number > len(rows.examples):
        raise DataError(
            f"{number} shots cannot be drawn from {len(rows.examples)} training rows: request "
            "fewer shots, or omit --shots to train on all rows."
        )
    return _some(rows, sample(rows.examples, number, attrgetter("unit"), f"{seed} "))


def hold_out(rows: SplitRows, share: float) -> tuple[SplitRows, SplitRows]:
    """Divide a split into rows for training and held-out rows, stratified by label.

    Questions about the same passage, and rows that are scored together, stay in the same part. The
    division depends only on the ids, groups and labels of the rows; there is no seed.

    Args:
        rows: Rows of the split.
        share: Fraction of the rows to hold out; at least one row is held out.

    Returns:
        The rows for training, and the held-out rows.

    Raises:
        DataError: If no row is left for training.
    """
    number = max(1, round(share * len(rows.examples)))
    held = sample(rows.examples, number, lambda e: e.traits.passage or e.unit)
    taken = set(held)
    left = [index for index in range(len(rows.examples)) if index not in taken]
    if not left:
        raise DataError(
            f"a share of {share:g} cannot be held out from {len(rows.examples)} training rows, "
            "because no row would be left for training: add rows, or hold out a smaller share."
        )
    return _some(rows, left), _some(rows, held)


def _some(rows: SplitRows, indices: Iterable[int]) -> SplitRows:
    return part_of(rows.examples[index] for index in indices)


def part_of(examples: Iterable[Example]) -> SplitRows:
    """Create SplitRows from examples that were selected from a split or made from its examples.

    The fingerprint is computed from these examples. `left_out` and `cut` are 0, and `odd` is empty.
    """
    kept = tuple(examples)
    return SplitRows(examples=kept, fingerprint=fingerprint(kept))


def has_split(task: Task, split: str, data: Data) -> bool:
    """Return whether a data source has a split of a task; the rows are not read.

    Optional evaluations are skipped if their data are missing: MNLI, for example, can be run from a
    folder that does not contain the diagnostic set AX.
    """
    return has_rows(task.source, split, data)


def holds(data: str) -> Callable[[Task], bool]:
    """Return a predicate that is true for a task if any of its splits is in a data source.

    `find_task` uses the predicate to select among tasks with the same short name. For the hub, the
    predicate is true for every task.

    Args:
        data: Value of `--data`: "hub", "mini" or a path. The value is parsed only when the
            predicate is called; the predicate raises DataError if the data do not exist.
    """

    def fits(task: Task) -> bool:
        source = parse_data(data)
        return any(has_split(task, split, source) for split in task.source.splits)

    return fits


def read(task: Task, split: str, data: Data, limit: int | None = None) -> SplitRows:
    """Read the examples of one split.

    Args:
        task: Task with the split.
        split: Name of the split.
        data: Source of the rows: the hub, the mini data, or official files.
        limit: Size of a fixed stratified subset to which the rows are reduced (see `subset`); None
            for all rows.

    Raises:
        BenchError: If the limit is below 1.
        DataError: If the split is missing, malformed or empty, if an id is repeated, or if a row
            cannot be converted to a valid example.
    """
    place = f"{task.name} {split} ({task.source.shown(data)})"
    examples = [
        _convert(task, row, f"{place} row {index}")
        for index, row in enumerate(rows(task.source, split, data))
    ]
    chosen = [example for example in examples if not task.leaves_out(split, example)]
    if not chosen:
        raise DataError(
            f"{place} is empty, but needs at least one row: download the official file."
        )
    name, times = Counter(example.id for example in chosen).most_common(1)[0]
    if times > 1:
        raise DataError(
            f"{place} has {times} rows with the id {name!r}: download the official file."
        )
    kept = tuple(chosen if limit is None else subset(chosen, limit))
    return SplitRows(
        examples=kept,
        fingerprint=fingerprint(kept),
        left_out=len(examples) - len(chosen),
        cut=len(chosen) - len(kept),
        odd=Counter(oddity for example in examples for oddity in example.oddities),
    )


def read_train(task: Task, languages: str, data: Data, limit: int | None = None) -> SplitRows:
    """Read the training rows in several languages, one language after the other.

    Args:
        task: Task with the training rows.
        languages: Language codes joined by "+" ("de+fr"), or "all".
        data: Source of the rows: the hub, the mini data, or official files.
        limit: Size of a fixed stratified subset of the rows in each language; None for all rows.

    Raises:
        DataError: If the task has no training rows in one of the languages, or if `read` fails.
    """
    known = {s.partition("_")[2] or "en": s for s in task.source.splits if s.startswith("train")}
    wanted = [*known] if languages == "all" else languages.split("+")
    if unknown := [code for code in wanted if code not in known]:
        raise DataError(
            f"{task.name} has no training rows in {unknown[0]!r}: set train_languages to one or "
            f"more of {', '.join(known)}."
        )
    parts = {code: read(task, known[code], data, limit) for code in wanted}
    examples = (replace(e, id=f"{code}-{e.id}") for code in parts for e in parts[code].examples)
    left_out = sum(part.left_out for part in parts.values())
    odd = sum((Counter(part.odd) for part in parts.values()), Counter[str]())
    return replace(part_of(examples), left_out=left_out, odd=odd)


def _convert(task: Task, row: Row, place: str) -> Example:
    try:
        example = task.convert(row)
    except (BenchError, KeyError, TypeError, ValueError, IndexError) as error:
        # The text of a KeyError is the name of the missing column.
        reason = f"it has no column {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{place} cannot be converted: {reason.removesuffix('.')}.") from error
    if fault := find_fault(task, example):
        raise DataError(f"{place} {fault}.")
    odd: Any = row.get(ODDITIES)
    return replace(example, oddities=(*odd, *example.oddities)) if odd else example


def fingerprint(examples: Iterable[Example]) -> str:
    """Return the SHA-256 (hex) of examples, which does not depend on where they were read from.

    Fields with the metadata `NOT_IN_FINGERPRINT`, e.g. `TagExample.document`, are left out, and so
    are fields that were created with `later` and have their default value.
    """
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=vars).encode
    for example in examples:
        kind: Any = type(example)
        left = _left_out(kind)
        # `left` maps the name of a field to the value at which the field is omitted, or to `...` if
        # the field is always omitted.
        said = {k: v for k, v in vars(example).items() if k not in left or left[k] not in (v, ...)}
        digest.update(encode([type(example).__name__, said]).encode() + b"\n")
    return digest.hexdigest()


@cache
def _left_out(kind: Any) -> Mapping[str, object]:
    """Return the fields of a class that a fingerprint may omit.

    The value of a field is the default at which it is omitted, or `...` if it is always omitted.
    """
    marked = [each for each in fields(kind) if {"later", "beside"} & set(each.metadata)]
    return {each.name: ... if "beside" in each.metadata else each.default for each in marked}


def document_digest(examples: Iterable[Example]) -> str:
    """Return a SHA-256 (hex) of the documents that contain the examples.

    The digest also covers the position of each example in its document. The result is an empty text
    if any example is not a sentence with a document (see `TagExample.document`).
    """
    digest, known = hashlib.sha256(), dict[int, bytes]()
    for example in examples:
        document = example.document if isinstance(example, TagExample) else None
        if document is None:
            return ""
        words = id(document.words)  # all sentences in a document share the same tuple of words
        if words not in known:
            text = json.dumps(document.words, separators=(",", ":"))
            known[words] = hashlib.sha256(text.encode()).digest()
        digest.update(known[words] + f"{document.start}\n".encode())
    return digest.hexdigest()


def counts_of(rows: SplitRows) -> dict[str, Any]:
    """Return the counts of rows that a result records.

    Returns:
        Dict with the number of examples ("rows"), `SplitRows.left_out` ("left_out") and, if there
        are irregularities in the data, `SplitRows.odd` ("odd").
    """
    counts: dict[str, Any] = {"rows": len(rows.examples), "left_out": rows.left_out}
    return {**counts, "odd": dict(rows.odd)} if rows.odd else counts


def count_repeats(splits: Mapping[str, SplitRows]) -> dict[str, dict[str, int]]:
    """Count duplicate rows, e.g. {"glue/qqp:dev": {"repeated": 3, "in_train": 1}}.

    Some benchmarks (QQP, SST-2, SNLI) contain duplicates. They are not dropped, but readers of the
    scores should know their number.

    Args:
        splits: Rows of each split, keyed by "task:split".

    Returns:
        Counts keyed by "task:split"; counts of zero are left out. `repeated` is the number of rows
        with the same content as an earlier row of the split. `in_train` is the number of rows of a
        dev or test split with the same content as a row of any train split.
    """
    texts = {name: [example.content for example in rows.examples] for name, rows in splits.items()}
    trained = {text for name, found in texts.items() if name.endswith(":train") for text in found}
    counts = {}
    for name, found in texts.items():
        in_train = 0 if name.endswith(":train") else sum(text in trained for text in found)
        both = {"repeated": len(found) - len(set(found)), "in_train": in_train}
        counts[name] = {word: count for word, count in both.items() if count}
    return counts
