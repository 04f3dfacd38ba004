r"""The Stanford Sentiment Treebank: five grades of sentiment for sentences and their phrases.

SST has five sentiment grades for sentences and for their phrases. Its official files are trees, one
per line: `(3 (2 It) (4 (2 's) (4 lovely)))`, where 0 is very negative and 4 very positive. Only
whole sentences are scored; training is on sentences, or on all their phrases too. Escaped brackets
and slashes of the trees ("-LRB-", "\/") are restored, as in GLUE's SST-2.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchharness.tasks.examples import PairExample
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.sources import Row, Source
from benchharness.tasks.sources.source import splits_of, text
from benchharness.tasks.suite import ScoreRule, Suite, SuiteTasks
from benchharness.tasks.task import PairTask, has_no_label

GRADES = ("very negative", "negative", "neutral", "positive", "very positive")
"""Names of the grades by their numbers in the trees."""

POLES = {0: "negative", 1: "negative", 3: "positive", 4: "positive"}
"""Grades of the two classes; neutral sentences are left out, as in the paper."""

_PART = re.compile(r"\(([0-4])(?= )|\)|[^\s()]+")
"""Pattern of an opening bracket with its grade, a closing bracket, or a word."""


class _Phrase(NamedTuple):
    """Subtree with its grade and its characters [start, end) in the tree's text."""

    grade: int
    start: int
    end: int


def _phrases(tree: str) -> list[_Phrase]:
    """Return every subtree, the whole tree last; raise ValueError for a malformed tree."""
    found: list[_Phrase] = []
    opened: list[tuple[int, int]] = []
    for part in _PART.finditer(tree):
        if part[1] is not None:
            opened.append((int(part[1]), part.start()))
        elif part[0] == ")" and opened:
            grade, start = opened.pop()
            found.append(_Phrase(grade, start, part.end()))
        elif part[0] == ")":
            break
    rest = _PART.sub("", tree).strip()
    if opened or rest or not found or (found[-1].start, found[-1].end) != (0, len(tree)):
        raise ValueError(f"{tree[:60]!r} is no tree such as '(3 (2 A) (3 word))'")
    return found


def _words(tree: str) -> str:
    """Return the tree's words, separated by spaces."""
    words = [part[0] for part in _PART.finditer(tree) if part[1] is None and part[0] != ")"]
    written = {"-LRB-": "(", "-RRB-": ")"}
    return " ".join(written.get(word, word.replace("\\/", "/")) for word in words)


def _graded(name: Callable[[int], str | None]) -> Callable[[Row], PairExample]:
    """Create a converter of trees; `name` returns a grade's label, or None if it has no label."""

    def convert(row: Row) -> PairExample:
        tree = text(row, "ptb_tree").strip()
        return PairExample(
            id=str(row.get("number", row["idx"])),
            text_a=_words(tree),
            label=name(_phrases(tree)[-1].grade),
            categories=("phrase",) if row.get("is_phrase") else (),
        )

    return convert


def _unfold(rows: Sequence[Row]) -> list[Row]:
    """Return the trees, each followed by its phrases without repeated (words, grade) pairs."""
    unfolded: list[Row] = []
    seen: set[tuple[str, int]] = set()
    for index, row in enumerate(rows):
        tree = text(row, "ptb_tree").strip()
        *parts, _ = _phrases(tree)
        unfolded.append({"ptb_tree": tree, "number": f"{index}"})
        for place, phrase in enumerate(parts):
            part = tree[phrase.start : phrase.end]
            key = _words(part), phrase.grade
            if key not in seen:
                seen.add(key)
                unfolded.append({"ptb_tree": part, "number": f"{index}-{place}", "is_phrase": True})
    return unfolded


def _is_not_scored(split: str, example: PairExample) -> bool:
    """Return whether the row is a phrase of a split that is scored."""
    return split != "train" and bool(example.categories)


_SOURCE = Source(
    hub="stanfordnlp/sst",
    # The main branch has a loading script, which `datasets` refuses; this is the hub's own
    # conversion, with a folder for each of its three configs.
    config="default",
    hub_folder="ptb",
    revision="refs/convert/parquet",
    home="sst",
    spellings={"sst": ("SST-5", "SST1", "trainDevTestTrees_PTB")},
    splits=splits_of("trees/train.txt", "trees/dev.txt", "trees/test.txt"),
    columns={"ptb_tree": 0},
)

_CITE = "Socher et al., Recursive Deep Models for Semantic Compositionality, EMNLP 2013"


def _task(name: str, title: str, names: Mapping[int, str]) -> PairTask:
    return PairTask(
        name=f"sst/{name}",
        title=title,
        source=_SOURCE,
        convert=_graded(names.get),
        labels=tuple(dict.fromkeys(names.values())),
        metrics=(accuracy,),
        leaves_out=has_no_label,
        cite=_CITE,
    )


SST5 = _task("sst5", "SST-5", dict(enumerate(GRADES)))

SST5_PHRASES = replace(
    SST5,
    name="sst/sst5-phrases",
    title="SST-5 phrases",
    source=replace(_SOURCE, arrange=_unfold),
    leaves_out=_is_not_scored,
)
"""SST-5, trained on every phrase in addition to the sentences."""

BINARY = _task("binary", "SST binary", POLES)
"""Two classes of whole sentences; GLUE's SST-2 trains on phrases too and hides its test labels."""

SST_TASKS: tuple[PairTask, ...] = (SST5, SST5_PHRASES, BINARY)
"""Tasks in the order of their board's columns."""

SUITES = (
    SuiteTasks(
        Suite(
            name="sst",
            title="SST",
            tasks=tuple(task.name for task in SST_TASKS),
            rule=ScoreRule(
                name="SST-5",
                cells={"sst/sst5": ("accuracy",)},
                cite="Socher et al., EMNLP 2013: the root's five classes, trained on sentences",
            ),
            cite=SST_TASKS[0].cite,
            collections=("seeds",),
        ),
        SST_TASKS,
    ),
)
