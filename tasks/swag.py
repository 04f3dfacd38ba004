"""SWAG: which of four endings goes on with a video's caption (Zellers et al., EMNLP 2018)."""

from benchharness.tasks.examples import ChoiceExample
from benchharness.tasks.metrics import choice_accuracy
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import label_of, text
from benchharness.tasks.task import ChoiceTask

ENDINGS = ("ending0", "ending1", "ending2", "ending3")
LABELS = ("0", "1", "2", "3")


def _situation(row: Row) -> ChoiceExample:
    """A caption, and the start of the next sentence that the options end."""
    label = label_of(row)
    return ChoiceExample(
        id=str(row["idx"]),
        context=text(row, "sent1"),
        question=text(row, "sent2"),
        options=tuple(text(row, ending) for ending in ENDINGS),
        gold=None if label is None else (LABELS.index(str(label)),),
    )


REGULAR = ChoiceTask(
    name="swag/regular",
    title="SWAG",
    source=Source(
        hub="allenai/swag",
        config="regular",
        revision="main",  # no commit of it could be confirmed
        home="swag",
        spellings={"swag": ("swagaf",)},
        format="csv",
        splits={
            "train": Split(hub="train", files=("train.csv",)),
            "dev": Split(hub="validation", files=("val.csv",)),
            "test": Split(hub="test", files=("test.csv",), hidden=True),
        },
        columns={name: name for name in ("sent1", "sent2", *ENDINGS, "label")},
        label_names=LABELS,
    ),
    convert=_situation,
    metrics=(choice_accuracy,),
    cite="Zellers et al., SWAG: A Large-Scale Adversarial Dataset, EMNLP 2018",
)

SWAG_TASKS: tuple[ChoiceTask, ...] = (REGULAR,)
"""One task."""
