"""SNLI: does a caption entail a sentence (Bowman et al., EMNLP 2015).

Rows without a gold label, on which fewer than three of five annotators agreed, are left out of
every split, as everyone does since the paper; `SplitRows.left_out` counts them.
"""

from benchharness.tasks.examples import PairExample
from benchharness.tasks.glue import pair
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.sources import Source, Split
from benchharness.tasks.task import PairTask

LABELS = ("entailment", "neutral", "contradiction")


def _has_no_gold_label(_split: str, example: PairExample) -> bool:
    return example.label is None


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
        splits={
            name: Split(hub=hub, files=(f"snli_1.0_{name}.jsonl",))
            for name, hub in {"train": "train", "dev": "validation", "test": "test"}.items()
        },
        columns={"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
        label_names=LABELS,
        unlabelled="-",
    ),
    convert=pair("premise", "hypothesis"),
    labels=LABELS,
    metrics=(accuracy,),
    leaves_out=_has_no_gold_label,
    cite="Bowman et al., A Large Annotated Corpus for Learning Natural Language Inference, 2015",
)

SNLI_TASKS: tuple[PairTask, ...] = (SNLI,)
"""One task."""
