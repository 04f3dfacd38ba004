"""Examples of a task: read a split, convert and check every row, and compute the fingerprint."""

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

# A fixed subset of a split for quick runs, stratified by label: the same rows every time.
#
# The first rows of an official file are no sample: many files are sorted by source or by label.


def subset(examples: Sequence[Example], limit: int) -> list[Example]:
    """Return about `limit` examples in their order, never more unless the first group is larger.

    Examples of one group, which are scored together (`Example.unit`), stay together. Subsets are
    nested: the subset of 100 is part of the subset of 200. The selection depends only on ids,
    groups and strata. Raises BenchError for a limit below 1.
    """
    if limit < 1:
        raise BenchError(f"a limit of {limit} rows leaves nothing to read: give 1 or more.")
    return [examples[index] for index in sample(examples, limit, attrgetter("unit"))]


def sample(
    examples: Sequence[Example],
    limit: int,
    group_of: Callable[[Example], str | None],
    draw: str = "",
) -> list[int]:
    """Return the sorted indices of about `limit` examples.

    Args:
        examples: Examples of a split.
        limit: Number of examples to select.
        group_of: Function that returns an example's group, or None. Groups are selected as a whole.
        draw: Text that seeds the selection; another text selects other examples.
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
    """Return the indices of each unit that is selected as a whole: a group, or a single example."""
    units: dict[str, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        group = group_of(example)
        units[f"row {index}" if group is None else f"group {group}"].append(index)
    return list(units.values())


def _ranked(units: list[list[int]], examples: Sequence[Example], draw: str = "") -> list[list[int]]:
    """Return the units in the order of selection: every prefix is a stratified sample.

    A stratum of n units gets the ranks 0.5/n, 1.5/n, ... The first unit of each stratum precedes
    all others, so that a rare label is present as soon as the limit allows.
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
    """Examples of one split in their order, with their fingerprint.

    Attributes:
        examples: The examples.
        fingerprint: SHA-256 (hex) of the examples' content.
        left_out: Number of rows of the whole split that the benchmark's convention drops.
        cut: Number of rows that a limit removed.
        odd: Number of rows with each oddity of the released data, by the sentence that describes
            it.
    """

    examples: tuple[Example, ...]
    fingerprint: str
    left_out: int = 0
    cut: int = 0
    odd: Mapping[str, int] = field(default_factory=dict)


def odd_sentences(splits: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a sentence per oddity of the data, with its number of rows in each split."""
    found: dict[str, list[str]] = defaultdict(list)
    for split, odd in splits.items():
        for sentence, count in odd.items():
            found[sentence].append(f"{count} in {split}")
    return [f"{sentence}: {', '.join(places)}." for sentence, places in found.items()]


def draw_shots(rows: SplitRows, number: int, seed: int) -> SplitRows:
    """Draw about `number` rows of a split at random by the seed, stratified by label.

    Rows that are scored together stay together. Draws of one seed are nested: the draw of 8 rows is
    part of the draw of 32. Raises DataError if the split has fewer rows.
    """
    if number > len(rows.examples):
        raise DataError(
            f"{number} shots cannot be drawn from {len(rows.examples)} training rows: ask for "
            "fewer, or train on all of them without --shots."
        )
    return _some(rows, sample(rows.examples, number, attrgetter("unit"), f"{seed} "))


def hold_out(rows: SplitRows, share: float) -> tuple[SplitRows, SplitRows]:
    """Divide a split into the rows to train on and a held-out share of at least one example.

    The held-out share is stratified by label. Questions on one passage, and rows that are scored
    together, stay on one side. The division depends on the rows' ids, groups and labels, not on a
    seed. Raises DataError if no row would be left to train on.
    """
    number = max(1, round(share * len(rows.examples)))
    held = sample(rows.examples, number, lambda e: e.traits.passage or e.unit)
    taken = set(held)
    left = [index for index in range(len(rows.examples)) if index not in taken]
    if not left:
        raise DataError(
            f"of {len(rows.examples)} training rows a share of {share:g} cannot be held out: "
            "nothing would be left to train on, so give more rows or a smaller share."
        )
    return _some(rows, left), _some(rows, held)


def _some(rows: SplitRows, indices: Iterable[int]) -> SplitRows:
    return part_of(rows.examples[index] for index in indices)


def part_of(examples: Iterable[Example]) -> SplitRows:
    """Create the SplitRows of examples that are a part of a split or were derived from one."""
    kept = tuple(examples)
    return SplitRows(examples=kept, fingerprint=fingerprint(kept))


def has_split(task: Task, split: str, data: Data) -> bool:
    """Return whether the source has the split, without reading it.

    Used for optional evaluations: MNLI runs from a folder without AX.
    """
    return has_rows(task.source, split, data)


def holds(data: str) -> Callable[[Task], bool]:
    """Return a predicate: whether the data folder has any split of a task (hub and mini have all).

    It resolves a task name that several suites share. `data` is parsed when the predicate is
    called, which raises DataError if there is no such data.
    """

    def fits(task: Task) -> bool:
        source = parse_data(data)
        return any(has_split(task, split, source) for split in task.source.splits)

    return fits


def read(task: Task, split: str, data: Data, limit: int | None = None) -> SplitRows:
    """Read the examples of one split.

    Args:
        task: The task.
        split: Name of the split.
        data: Source of the rows: the hub, the mini data or a folder.
        limit: Size of a fixed stratified subset (see `subset`); None reads all rows.

    Raises:
        DataError: If the split is missing, malformed or empty, an id is repeated, or a row does not
            convert.
    """
    place = f"{task.name} {split} ({data})"
    examples = [
        _convert(task, row, f"{place} row {index}")
        for index, row in enumerate(rows(task.source, split, data))
    ]
    chosen = [example for example in examples if not task.leaves_out(split, example)]
    if not chosen:
        raise DataError(f"{place} is empty: expected at least one row, get the official file.")
    name, times = Counter(example.id for example in chosen).most_common(1)[0]
    if times > 1:
        raise DataError(f"{place} has {times} rows with the id {name!r}: get the official file.")
    kept = tuple(chosen if limit is None else subset(chosen, limit))
    return SplitRows(
        examples=kept,
        fingerprint=fingerprint(kept),
        left_out=len(examples) - len(chosen),
        cut=len(chosen) - len(kept),
        odd=Counter(oddity for example in examples for oddity in example.oddities),
    )


def read_train(task: Task, languages: str, data: Data, limit: int | None = None) -> SplitRows:
    """Read the training rows of several languages ("de+fr", or "all"), language by language.

    Raises DataError if the task has no training rows in one of them, or as `read` does.
    """
    known = {s.partition("_")[2] or "en": s for s in task.source.splits if s.startswith("train")}
    wanted = [*known] if languages == "all" else languages.split("+")
    if unknown := [code for code in wanted if code not in known]:
        raise DataError(
            f"{task.name} has no training rows in {unknown[0]!r}: it has {', '.join(known)}; give "
            "some of them as train_languages."
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
        # The text of a KeyError is the name of the column that the row lacks.
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{place} does not convert: {reason.removesuffix('.')}.") from error
    if fault := find_fault(task, example):
        raise DataError(f"{place} {fault}.")
    odd: Any = row.get(ODDITIES)
    return replace(example, oddities=(*odd, *example.oddities)) if odd else example


def fingerprint(examples: Iterable[Example]) -> str:
    """Return the SHA-256 (hex) of the examples, which does not depend on their source.

    Fields marked as not fingerprinted are left out, e.g. what a pair is about, and a sentence's
    document.
    """
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=vars).encode
    for example in examples:
        kind: Any = type(example)
        left = _left_out(kind)
        # A field is dropped at its default, or always if `left` has "..." for it.
        said = {k: v for k, v in vars(example).items() if k not in left or left[k] not in (v, ...)}
        digest.update(encode([type(example).__name__, said]).encode() + b"\n")
    return digest.hexdigest()


@cache
def _left_out(kind: Any) -> Mapping[str, object]:
    """Return the fields that a fingerprint omits: always (`...`), or only at their default."""
    marked = [each for each in fields(kind) if {"later", "beside"} & set(each.metadata)]
    return {each.name: ... if "beside" in each.metadata else each.default for each in marked}


def document_digest(examples: Iterable[Example]) -> str:
    """Return the SHA-256 (hex) of the documents of sentences, with the sentences' positions.

    Empty if a sentence has no document.
    """
    digest, known = hashlib.sha256(), dict[int, bytes]()
    for example in examples:
        document = example.document if isinstance(example, TagExample) else None
        if document is None:
            return ""
        words = id(document.words)  # all sentences share the tuple of their document
        if words not in known:
            text = json.dumps(document.words, separators=(",", ":"))
            known[words] = hashlib.sha256(text.encode()).digest()
        digest.update(known[words] + f"{document.start}\n".encode())
    return digest.hexdigest()


def counts_of(rows: SplitRows) -> dict[str, Any]:
    """Return the counts of a split that a result records: rows, left-out rows and oddities."""
    counts: dict[str, Any] = {"rows": len(rows.examples), "left_out": rows.left_out}
    return {**counts, "odd": dict(rows.odd)} if rows.odd else counts


def count_repeats(splits: Mapping[str, SplitRows]) -> dict[str, dict[str, int]]:
    """Count the repeated rows of each split: {"glue/qqp:dev": {"repeated": 3, "in_train": 1}}.

    `repeated` counts rows whose texts occurred earlier in the split; `in_train` counts rows of a
    split other than train whose texts occur in a train split. Zeros are left out. Benchmarks have
    such rows (QQP, SST-2, SNLI), so none is dropped, but a reader of a score should know their
    number.
    """
    texts = {name: [example.content for example in rows.examples] for name, rows in splits.items()}
    trained = {text for name, found in texts.items() if name.endswith(":train") for text in found}
    counts = {}
    for name, found in texts.items():
        in_train = 0 if name.endswith(":train") else sum(text in trained for text in found)
        both = {"repeated": len(found) - len(set(found)), "in_train": in_train}
        counts[name] = {word: count for word, count in both.items() if count}
    return counts
