"""Tasks of one or two text columns and a label in tab-separated files, as GLUE's are.

One declaration says everything: which columns are the texts, what the labels are called, and how
the official files write both.
"""

from collections.abc import Callable, Mapping, Sequence

from tasks.columns import label_of, text
from tasks.examples import PairExample, PairPrediction
from tasks.sources import Column, Row, Source, Split
from tasks.task import Metric, PairTask

__all__ = ["pair", "pair_task", "tsv_splits"]

PairMetric = Metric[PairPrediction, PairExample]


def pair_task(  # noqa: PLR0913 - a declaration, one keyword per fact
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
    hub: str = "",
    revision: str = "",
    cite: str = "",
) -> PairTask:
    """A task "suite/config" whose files are in `folder`.

    `texts` maps one or two row columns (text a, then text b) to the files' columns; `label` is the
    files' label column. `labels` are the class names in the order of the hub and of the logits, and
    `label_texts` what the files write for each ("0", "1") where that is not the name. A regression
    has a `value_range` instead. Without `splits` they are train.tsv, dev.tsv and test.tsv.
    """
    suite, _, config = name.partition("/")
    source = Source(
        hub=hub,
        config=config,
        revision=revision,
        home=suite,
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
    )


def tsv_splits(folder: str) -> dict[str, Split]:
    """The splits of a GLUE folder: train.tsv, dev.tsv and test.tsv, whose labels are hidden."""
    return {
        "train": Split(hub="train", files=(f"{folder}/train.tsv",)),
        "dev": Split(hub="validation", files=(f"{folder}/dev.tsv",)),
        "test": Split(hub="test", files=(f"{folder}/test.tsv",), hidden=True),
    }


def pair(text_a: str, text_b: str | None = None) -> Callable[[Row], PairExample]:
    """The converter of rows with these text columns; the example's id is its position."""

    def convert(row: Row) -> PairExample:
        return PairExample(
            id=str(row["idx"]),
            text_a=text(row, text_a),
            text_b=None if text_b is None else text(row, text_b),
            label=label_of(row),
        )

    return convert
