"""SNLI: does a caption entail a sentence (Bowman et al., EMNLP 2015).

Rows without a gold label, on which fewer than three of five annotators agreed, are left out of
every split, as everyone does since the paper; `SplitRows.left_out` counts them.
"""

from benchharness.tasks.glue import pair
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.sources import Source
from benchharness.tasks.sources.source import splits_of
from benchharness.tasks.task import PairTask, has_no_label

LABELS = ("entailment", "neutral", "contradiction")


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
        label_names=LABELS,
        unlabelled="-",
    ),
    convert=pair("premise", "hypothesis"),
    labels=LABELS,
    metrics=(accuracy,),
    leaves_out=has_no_label,
    cite="Bowman et al., A Large Annotated Corpus for Learning Natural Language Inference, 2015",
)
