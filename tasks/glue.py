"""GLUE: nine tasks and the diagnostic set (Wang et al., ICLR 2019, https://gluebenchmark.com).

Labels have the names and order of the hub's data set, and files the names of the GLUE download.
QQP's first release has broken training lines, which QQP-clean.zip repairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.errors import BenchError
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import (
    accuracy,
    binary_f1,
    by_category,
    matthews,
    pearson,
    spearman,
)
from benchharness.tasks.sources import Column, Row, Source, Split
from benchharness.tasks.sources.files import name_key
from benchharness.tasks.sources.source import label_of, splits_of, text
from benchharness.tasks.task import Metric, PairTask, has_no_label

# `pair_task` declares a task whose files are tab-separated, with one or two text columns and a
# label, as in GLUE. The call gives the columns and labels of both the hub and the official files.

EMPTY = "rows with an empty text are used like all other rows"

PairMetric = Metric[PairPrediction, PairExample]


def pair_task(  # noqa: PLR0913 - one keyword per property of a task
    *,
    name: str,
    folder: str,
    texts: Mapping[str, Column],
    metrics: tuple[PairMetric, ...],
    label: Column = "label",
    labels: tuple[str, ...] = (),
    label_texts: Sequence[str] = (),
    value_range: tuple[float, float] | None = None,
    splits: Mapping[str, Split] | None = None,
    spellings: Mapping[str, tuple[str, ...]] | None = None,
    hub: str = "",
    revision: str = "",
    cite: str = "",
    title: str = "",
    split_titles: Mapping[str, str] | None = None,
    benchmark: str = "",
) -> PairTask:
    """Create a task with one or two texts per example and tab-separated official files.

    Args:
        name: Full name of the task, "suite/config". "suite" is also the name of the suite's folder,
            and "config" is also the config of the data set on the hub.
        folder: Name of the folder with the task's files, inside the folder of the suite.
        texts: Columns of text a and, if there is one, text b, in this order: a mapping from the
            hub's column names to those of the official files.
        metrics: Metrics that count for the task's score.
        label: Column of the label in the official files.
        labels: Names of the classes in the order of the hub and of the logits; empty for a
            regression.
        label_texts: Text of each label in the official files, e.g. "0" and "1", if it differs from
            the name of the label.
        value_range: Minimum and maximum of a regression's labels; None for classes.
        splits: Splits with their files; by default, the splits are read from train.tsv, dev.tsv and
            test.tsv, and test.tsv has no labels.
        spellings: Alternative names of folders, as in `Source.spellings`.
        hub: Name of the data set on the hub.
        revision: Revision of the data set on the hub.
        cite: Citation of the task's paper.
        title: Name of the task in papers; by default the config.
        split_titles: Suffixes of the title for each split in papers, as in `Task.split_titles`.
        benchmark: Name shared by tasks that are versions of the same benchmark, as in `Task`.

    Raises:
        BenchError: If the number of `label_texts` differs from the number of `labels`.
    """
    suite, _, config = name.partition("/")
    if label_texts and len(label_texts) != len(labels):
        raise BenchError(
            f"the task {name!r} has {len(labels)} labels but {len(label_texts)} label_texts: "
            "expected one text per label."
        )
    source = Source(
        hub=hub,
        config=config,
        revision=revision,
        home=suite,
        spellings=spellings or {},
        splits=tsv_splits(folder) if splits is None else splits,
        columns={**texts, "label": label},
        label_names=labels,
        label_texts=dict(zip(label_texts, labels, strict=True)) if label_texts else {},
    )
    return PairTask(
        name=name,
        source=source,
        convert=pair(*texts),
        metrics=metrics,
        labels=labels,
        value_range=value_range,
        cite=cite,
        title=title,
        split_titles=split_titles or {},
        benchmark=benchmark,
    )


def tsv_splits(folder: str) -> dict[str, Split]:
    """Return the splits of a task with the files train.tsv, dev.tsv and test.tsv (no labels).

    Args:
        folder: Folder of the files, relative to the folder of the suite.
    """
    return splits_of(*(f"{folder}/{name}.tsv" for name in ("train", "dev", "test")), hidden=True)


def pair(text_a: str, text_b: str | None = None) -> Callable[[Row], PairExample]:
    """Create a function that converts a row to an example.

    The id of an example is the index of its row in the split.

    Args:
        text_a: Name of the column with the first text.
        text_b: Name of the column with the second text; None if examples have only one text.
    """

    def convert(row: Row) -> PairExample:
        found = [text(row, name) for name in (text_a, text_b) if name is not None]
        return PairExample(
            id=str(row["idx"]),
            oddities=() if all(map(str.strip, found)) else (EMPTY,),
            text_a=found[0],
            text_b=None if text_b is None else found[1],
            label=label_of(row),
        )

    return convert


HUB = "nyu-mll/glue"
REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"

SPELLINGS = {
    "glue": ("glue_data",),
    "QQP": ("QQP-clean",),
    "QNLI": ("QNLIv2",),
    "diagnostic": ("AX",),
}
"""Alternative names of GLUE's folders, as in the download script and in archives."""


def _glue_task(title: str, **facts: Any) -> PairTask:
    """Create a GLUE task whose folder has the same name as the task."""
    known = {"title": title, "folder": title, "hub": HUB, "revision": REVISION}
    return pair_task(name=f"glue/{name_key(title)}", spellings=SPELLINGS, **{**known, **facts})


COLA = _glue_task(
    "CoLA",
    texts={"sentence": "sentence"},
    labels=("unacceptable", "acceptable"),
    label_texts="01",
    # The training and development files have no header; their columns are source, label, the
    # author's mark, and sentence.
    splits={
        name: replace(split, columns=None if split.hidden else {"sentence": 3, "label": 1})
        for name, split in tsv_splits("CoLA").items()
    },
    metrics=(matthews,),
    cite="Warstadt et al., Neural Network Acceptability Judgments, TACL 2019",
)

SST2 = _glue_task(
    "SST-2",
    texts={"sentence": "sentence"},
    labels=("negative", "positive"),
    label_texts="01",
    metrics=(accuracy,),
    cite="Socher et al., Recursive Deep Models for Semantic Compositionality, EMNLP 2013",
)

MRPC = _glue_task(
    "MRPC",
    texts={"sentence1": "#1 String", "sentence2": "#2 String"},
    label="Quality",
    labels=("not_equivalent", "equivalent"),
    label_texts="01",
    # The original corpus has the same test file, but its training file contains GLUE's train and
    # dev rows in mixed order.
    splits=tsv_splits("MRPC")
    | {
        "test": Split(
            hub="test", files=("MRPC/test.tsv", "MRPC/msr_paraphrase_test.txt"), hidden=True
        )
    },
    metrics=(accuracy, binary_f1("equivalent")),
    cite="Dolan and Brockett, Automatically Constructing a Corpus of Paraphrases, IWP 2005",
)

STSB = _glue_task(
    "STS-B",
    texts={"sentence1": "sentence1", "sentence2": "sentence2"},
    label="score",
    value_range=(0.0, 5.0),
    metrics=(pearson, spearman),
    cite="Cer et al., SemEval-2017 Task 1: Semantic Textual Similarity, SemEval 2017",
)

QQP = _glue_task(
    "QQP",
    texts={"question1": "question1", "question2": "question2"},
    label="is_duplicate",
    labels=("not_duplicate", "duplicate"),
    label_texts="01",
    metrics=(accuracy, binary_f1("duplicate")),
    cite="Iyer et al., First Quora Dataset Release: Question Pairs, 2017",
)


def _mnli(split: str, genres: str) -> tuple[str, ...]:
    """Return the possible paths of a file: genres may be in one folder or in separate folders."""
    apart = f"MNLI_{genres}"
    return f"MNLI/{split}_{genres}.tsv", f"{apart}/{split}_{genres}.tsv", f"{apart}/{split}.tsv"


_MNLI = _glue_task(
    "MNLI",
    split_titles={"dev": "m", "dev_mm": "mm", "test": "m", "test_mm": "mm"},
    texts={"premise": "sentence1", "hypothesis": "sentence2"},
    label="gold_label",
    labels=("entailment", "neutral", "contradiction"),
    splits={
        "train": Split(hub="train", files=("MNLI/train.tsv",)),
        "dev": Split(hub="validation_matched", files=_mnli("dev", "matched")),
        "dev_mm": Split(hub="validation_mismatched", files=_mnli("dev", "mismatched")),
        "test": Split(hub="test_matched", files=_mnli("test", "matched"), hidden=True),
        "test_mm": Split(hub="test_mismatched", files=_mnli("test", "mismatched"), hidden=True),
    },
    metrics=(accuracy,),
    cite="Williams et al., A Broad-Coverage Challenge Corpus (MultiNLI), NAACL 2018",
)


def _nobody_agreed(split: str, example: PairExample) -> bool:
    """Return whether a row of a train or dev split has no gold label.

    Such rows are in MultiNLI's own files, but not in GLUE's.
    """
    return not split.startswith("test") and has_no_label(split, example)


MNLI = replace(_MNLI, source=replace(_MNLI.source, unlabelled="-"), leaves_out=_nobody_agreed)

QNLI = _glue_task(
    "QNLI",
    texts={"question": "question", "sentence": "sentence"},
    labels=("entailment", "not_entailment"),
    metrics=(accuracy,),
    cite="Rajpurkar et al., SQuAD: 100,000+ Questions, EMNLP 2016; recast by Wang et al., 2019",
)

RTE = _glue_task(
    "RTE",
    benchmark="RTE",
    texts={"sentence1": "sentence1", "sentence2": "sentence2"},
    labels=("entailment", "not_entailment"),
    metrics=(accuracy,),
    cite="Dagan et al., The PASCAL Recognising Textual Entailment Challenge, 2006, and RTE2, 3, 5",
)

WNLI = _glue_task(
    "WNLI",
    benchmark="the Winograd schemas",
    texts={"sentence1": "sentence1", "sentence2": "sentence2"},
    labels=("not_entailment", "entailment"),
    label_texts="01",
    metrics=(accuracy,),
    cite="Levesque et al., The Winograd Schema Challenge, KR 2012",
)

AX_CATEGORIES = {
    "lex_sem": "Lexical Semantics",
    "pr_ar_str": "Predicate-Argument Structure",
    "logic": "Logic",
    "knowledge": "Knowledge",
}
"""Columns of the four coarse categories in the official file of the diagnostic set AX.

The keys are the names of these categories in jiant, the official baseline.
"""


def _diagnostic(row: Row) -> PairExample:
    """Convert a row of the diagnostic set, which belongs to each category with a nonempty column.

    The hub's rows lack these columns.
    """
    categories = tuple(name for name in AX_CATEGORIES if row[name])
    return replace(pair("premise", "hypothesis")(row), categories=categories)


AX = PairTask(
    name="glue/ax",
    title="AX",
    source=Source(
        hub=HUB,
        config="ax",
        revision=REVISION,
        home="glue",
        spellings=SPELLINGS,
        # Only the first file has labels and categories; the other files and the hub hide them.
        splits={
            "test": Split(
                hub="test",
                files=(
                    "diagnostic/diagnostic-full.tsv",
                    "diagnostic/diagnostic.tsv",
                    "diagnostic/AX.tsv",
                    "AX.tsv",
                ),
            )
        },
        columns={
            "premise": ("sentence1", "Premise"),
            "hypothesis": ("sentence2", "Hypothesis"),
            "label": "Label",
            **AX_CATEGORIES,
        },
        label_names=MNLI.labels,
        optional=tuple(AX_CATEGORIES),
    ),
    convert=_diagnostic,
    labels=MNLI.labels,
    trained_on=MNLI.name,
    metrics=(matthews,),
    details=tuple(by_category(matthews, category) for category in AX_CATEGORIES),
    categories={name: title.lower() for name, title in AX_CATEGORIES.items()},
    cite="Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform, ICLR 2019",
)

GLUE_TASKS: tuple[PairTask, ...] = (COLA, SST2, MRPC, STSB, QQP, MNLI, QNLI, RTE, WNLI, AX)
"""GLUE's tasks in the order of the columns of the official leaderboard."""


# SNLI is not part of GLUE. It asks: does a caption entail a sentence? (Bowman et al., EMNLP 2015)
#
# As in the paper, a row is dropped from its split if fewer than three of five annotators agreed on
# the label. `SplitRows.left_out` is the number of dropped rows.

NLI_LABELS = ("entailment", "neutral", "contradiction")

SNLI = PairTask(
    name="snli/snli",
    title="SNLI",
    source=Source(
        hub="stanfordnlp/snli",
        config="plain_text",
        revision="cdb5c3d5eed6ead6e5a341c8e56e669bb666725b",
        home="snli",
        spellings={"snli": ("snli_1.0",)},
        format="jsonl",
        splits=splits_of(*(f"snli_1.0_{name}.jsonl" for name in ("train", "dev", "test"))),
        columns={"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
        label_names=NLI_LABELS,
        unlabelled="-",
    ),
    convert=pair("premise", "hypothesis"),
    labels=NLI_LABELS,
    metrics=(accuracy,),
    leaves_out=has_no_label,
    cite="Bowman et al., A Large Annotated Corpus for Learning Natural Language Inference, 2015",
)
