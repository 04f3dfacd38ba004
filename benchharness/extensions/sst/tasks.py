r"""The Stanford Sentiment Treebank: five grades of sentiment for sentences and their phrases.

The official files have one tree per line, e.g. `(3 (2 It) (4 (2 's) (4 lovely)))`, where 0 is very
negative and 4 is very positive. Only whole sentences are scored. Models are trained on sentences
only, or also on all their phrases. Escaped brackets and slashes in the trees ("-LRB-", "\/") are
restored, as in GLUE's SST-2.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchharness.tasks.examples import PairExample
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.sources import Row, Source
from benchharness.tasks.sources.source import splits_of, text
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import PairTask, has_no_label

GRADES = ("very negative", "negative", "neutral", "positive", "very positive")
"""Names of the five grades. The index of a name is the number of the grade in the trees."""

POLES = {0: "negative", 1: "negative", 3: "positive", 4: "positive"}
"""Names of the two classes, keyed by the number of the grade. As in the paper, neutral sentences
(grade 2) are left out."""

_PART = re.compile(r"\(([0-4])(?= )|\)|[^\s()]+")
"""Pattern of a tree's tokens: an opening bracket with a grade, a closing bracket, or a word."""


class _Phrase(NamedTuple):
    """Subtree of a sentence: its grade, and its characters [start, end) in the tree's text."""

    grade: int
    start: int
    end: int


def _phrases(tree: str) -> list[_Phrase]:
    """Parse a tree, and return all subtrees; the last one is the whole tree.

    Raises ValueError if the tree is malformed.
    """
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
        raise ValueError(f"{tree[:60]!r} is not a tree such as '(3 (2 A) (3 word))'")
    return found


def _words(tree: str) -> str:
    """Return the words in a tree, separated by spaces."""
    words = [part[0] for part in _PART.finditer(tree) if part[1] is None and part[0] != ")"]
    written = {"-LRB-": "(", "-RRB-": ")"}
    return " ".join(written.get(word, word.replace("\\/", "/")) for word in words)


def _graded(name: Callable[[int], str | None]) -> Callable[[Row], PairExample]:
    """Create a function that converts rows with trees to examples.

    Args:
        name: Function that returns the label for a grade, or None if the grade has no label.
    """

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
    """Return the rows with each sentence followed by its phrases.

    Phrases with the same words and grade as an earlier phrase are dropped.
    """
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
    """Return whether the example is a phrase in a split other than train."""
    return split != "train" and bool(example.categories)


_SOURCE = Source(
    hub="stanfordnlp/sst",
    # The main branch has a loading script, which `datasets` does not run. This branch is the hub's
    # automatic conversion, which has one folder for each of the three configs.
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
"""Task SST-5 with training on all phrases in addition to the sentences."""

BINARY = _task("binary", "SST binary", POLES)
"""Task of classifying whole sentences as negative or positive. It differs from GLUE's SST-2, which
also has phrases in its training data and does not publish its test labels.
"""

SST_TASKS: tuple[PairTask, ...] = (SST5, SST5_PHRASES, BINARY)
"""Tasks of the suite SST, in the order of their columns on the leaderboard."""

_RULE = ScoreRule(
    name="SST-5",
    cells={"sst/sst5": ("accuracy",)},
    cite="Socher et al., EMNLP 2013: the root's five classes, trained on sentences",
)

TASKS = SST_TASKS
SUITES = (suite_of(SST_TASKS, "SST", _RULE, collections=("seeds",)),)
