"""CoNLL-2003: English named entities (Tjong Kim Sang and De Meulder, CoNLL 2003)."""

from collections.abc import Sequence

from benchharness.tasks.examples import TagExample
from benchharness.tasks.metrics import (
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    to_iob2,
)
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import texts
from benchharness.tasks.task import TagTask

TAGS = ("O", *(f"{prefix}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for prefix in "BI"))
"""In the hub's order."""


def _arrange(rows: Sequence[Row]) -> list[Row]:
    """The rows with their tags in IOB2: the official files are in IOB1, the hub's are not."""
    return [{**row, "ner_tags": list(to_iob2(texts(row, "ner_tags")))} for row in rows]


def _sentence(row: Row) -> TagExample:
    return TagExample(id=str(row["idx"]), words=texts(row, "tokens"), tags=texts(row, "ner_tags"))


NER = TagTask(
    name="conll2003/ner",
    title="CoNLL-2003",
    source=Source(
        hub="eriktks/conll2003",
        # The main branch holds a loading script, which `datasets` refuses; this is the hub's own
        # conversion of it, which has no named config and moves only with the data set.
        config="default",
        revision="refs/convert/parquet",
        home="conll2003",
        spellings={"conll2003": ("conll03", "conll2003_ner", "conll2003_en")},
        format="conll",
        splits={
            "train": Split(hub="train", files=("eng.train", "train.txt")),
            "dev": Split(hub="validation", files=("eng.testa", "valid.txt", "dev.txt")),
            "test": Split(hub="test", files=("eng.testb", "test.txt")),
        },
        columns={"tokens": "tokens", "ner_tags": "ner_tags"},
        label="ner_tags",
        label_names=TAGS,
        arrange=_arrange,
    ),
    convert=_sentence,
    metrics=(entity_f1,),
    details=(entity_precision, entity_recall, tag_accuracy),
    tags=TAGS,
    cite="Tjong Kim Sang and De Meulder, Introduction to the CoNLL-2003 Shared Task, CoNLL 2003",
)

CONLL2003_TASKS: tuple[TagTask, ...] = (NER,)
"""One task; the shared task's German files are not among them."""
