"""A task's examples: read a split from a source, convert every row, check it, take its digest."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import Example, TagExample
from benchharness.tasks.sources import Data, Row, has_rows, parse_data, rows
from benchharness.tasks.sources.source import ODDITIES
from benchharness.tasks.task import Task, find_fault

# A fixed part of a split for quick runs: the same rows every time, with the labels' shares kept.
#
# The first rows of an official file are no sample: many are sorted by source or by label.


def subset(examples: Sequence[Example], limit: int) -> list[Example]:
    """About `limit` examples in their order, never more unless a single group is larger.

    Examples that are scored together (`PairExample.group`) stay together. Subsets are nested: that
    of 100 is within that of 200. Which ones are taken depends on the ids alone.
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
    """The indices of about `limit` examples, in their order; each `draw` takes others.

    Those of a group stay together.
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
    """The indices of what is taken or left as a whole: a group, or one example."""
    units: dict[str, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        group = group_of(example)
        units[f"row {index}" if group is None else f"group {group}"].append(index)
    return list(units.values())


def _ranked(units: list[list[int]], examples: Sequence[Example], draw: str = "") -> list[list[int]]:
    """The units in the order of taking: every prefix has each stratum's share, and each at once.

    A stratum of n units gets the ranks 0.5/n, 1.5/n, ...; its first unit goes before all others, so
    that a rare label is there as soon as the limit allows.
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
    """The examples of one split in its order, and the SHA-256 (hex) of what they say.

    `left_out` counts the rows of the whole split that the benchmark's convention leaves out, `cut`
    those that a limit took away, and `odd` what is odd about it as it was released, by sentence.
    """

    examples: tuple[Example, ...]
    fingerprint: str
    left_out: int = 0
    cut: int = 0
    odd: Mapping[str, int] = field(default_factory=dict)


def odd_sentences(splits: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is odd about splits and how it counts, each with how often it is so in which split."""
    found: dict[str, list[str]] = defaultdict(list)
    for split, odd in splits.items():
        for sentence, count in odd.items():
            found[sentence].append(f"{count} in {split}")
    return [f"{sentence}: {', '.join(places)}." for sentence, places in found.items()]


def draw_shots(rows: SplitRows, number: int, seed: int) -> SplitRows:
    """About `number` rows of a split, drawn by the seed, with the labels in their proportions.

    What is scored together stays together. Draws are nested: that of 8 is within that of 32 of the
    same seed. Raises DataError where the split has fewer rows.
    """
    if number > len(rows.examples):
        raise DataError(
            f"{number} shots cannot be drawn from {len(rows.examples)} training rows: ask for "
            "fewer, or train on all of them without --shots."
        )
    return _some(rows, sample(rows.examples, number, attrgetter("unit"), f"{seed} "))


def hold_out(rows: SplitRows, share: float) -> tuple[SplitRows, SplitRows]:
    """A split as two: what is left of it, and about that share of it, at least one example.

    The share has the labels' proportions, as a subset has; questions on one passage, and what is
    scored together, stay on one side. Which rows it has depends on their ids and nothing else.
    Raises DataError where nothing would be left.
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
    """Examples that are a part of a split, or were made of it."""
    kept = tuple(examples)
    return SplitRows(examples=kept, fingerprint=fingerprint(kept))


def has_split(task: Task, split: str, data: Data) -> bool:
    """Whether the source has the split, without reading it.

    Optional evaluations ask first: a folder without AX does not stop MNLI.
    """
    return has_rows(task.source, split, data)


def holds(data: str) -> Callable[[Task], bool]:
    """Whether a folder holds any split of a task; the hub and mini data hold all.

    It tells which task is meant by a name that several suites have. `data` is read when a task is
    asked for; DataError where it is nothing.
    """

    def fits(task: Task) -> bool:
        source = parse_data(data)
        return any(has_split(task, split, source) for split in task.source.splits)

    return fits


def read(task: Task, split: str, data: Data, limit: int | None = None) -> SplitRows:
    """The examples of one split; `limit` takes a fixed stratified subset (see tasks.read).

    Raises DataError where the split is absent, malformed or empty, or where a row does not convert.
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
    """The training rows of some languages ("de+fr", or "all"), one after the other.

    Raises DataError where it has none in one of them, or as `read` does.
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
        # A KeyError is the name of a column that the row lacks.
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{place} does not convert: {reason.removesuffix('.')}.") from error
    if fault := find_fault(task, example):
        raise DataError(f"{place} {fault}.")
    odd: Any = row.get(ODDITIES)
    return replace(example, oddities=(*odd, *example.oddities)) if odd else example


def fingerprint(examples: Iterable[Example]) -> str:
    """The SHA-256 (hex) of the examples: equal examples, equal digest, whatever their source.

    What a pair is about, and the document of a sentence, are left out.
    """
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=vars).encode
    for example in examples:
        kind: Any = type(example)
        left = _left_out(kind)
        # A field for which `left` has "..." is always dropped: that is the second of the pair.
        said = {k: v for k, v in vars(example).items() if k not in left or left[k] not in (v, ...)}
        digest.update(encode([type(example).__name__, said]).encode() + b"\n")
    return digest.hexdigest()


@cache
def _left_out(kind: Any) -> Mapping[str, object]:
    """The fields of a class that no fingerprint has ("..."), or none where they are as here."""
    marked = [each for each in fields(kind) if {"later", "beside"} & set(each.metadata)]
    return {each.name: ... if "beside" in each.metadata else each.default for each in marked}


def document_digest(examples: Iterable[Example]) -> str:
    """The SHA-256 (hex) of the documents that sentences stand in, and of their places in them.

    Empty where one of them has none.
    """
    digest, known = hashlib.sha256(), dict[int, bytes]()
    for example in examples:
        document = example.document if isinstance(example, TagExample) else None
        if document is None:
            return ""
        words = id(document.words)  # sentences share the tuple of their document
        if words not in known:
            text = json.dumps(document.words, separators=(",", ":"))
            known[words] = hashlib.sha256(text.encode()).digest()
        digest.update(known[words] + f"{document.start}\n".encode())
    return digest.hexdigest()


def counts_of(rows: SplitRows) -> dict[str, Any]:
    """What a result says of a split's rows: how many, how many are left out, and what is odd."""
    counts: dict[str, Any] = {"rows": len(rows.examples), "left_out": rows.left_out}
    return {**counts, "odd": dict(rows.odd)} if rows.odd else counts


def count_repeats(splits: Mapping[str, SplitRows]) -> dict[str, dict[str, int]]:
    """How many rows of each split repeat others: {"glue/qqp:dev": {"repeated": 3, "in_train": 1}}.

    `repeated` are those whose texts stand in the split before them, `in_train` those of any other
    split whose texts stand in a train split. What is 0 is left out. The benchmarks have such rows
    (QQP, SST-2, SNLI), so that none is dropped; a reader of a score should know how many there are.
    """
    texts = {name: [example.content for example in rows.examples] for name, rows in splits.items()}
    trained = {text for name, found in texts.items() if name.endswith(":train") for text in found}
    counts = {}
    for name, found in texts.items():
        in_train = 0 if name.endswith(":train") else sum(text in trained for text in found)
        both = {"repeated": len(found) - len(set(found)), "in_train": in_train}
        counts[name] = {word: count for word, count in both.items() if count}
    return counts
