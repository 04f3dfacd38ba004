"""CoNLL-2003: English named entities (Tjong Kim Sang and De Meulder, CoNLL 2003).

The shared task's German files are not supported.
"""

from collections.abc import Sequence
from itertools import groupby

from benchharness.tasks.examples import Surroundings, TagExample
from benchharness.tasks.metrics.entities import (
    CONLLEVAL,
    entity_f1,
    entity_precision,
    entity_recall,
    tag_accuracy,
    to_iob2,
)
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import texts
from benchharness.tasks.task import TagTask

ENTITY_TAGS = (
    "O",
    *(f"{prefix}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for prefix in "BI"),
)
"""IOB2 tags in the order in which the hub's data set numbers them."""


def _arrange(rows: Sequence[Row]) -> list[Row]:
    """Convert the tags of the rows to IOB2, and add to each row the document that contains it.

    The official files use IOB1, and the hub's rows use IOB2. The document is None if the source
    does not mark where documents begin.
    """
    documents = _surroundings(rows)
    return [
        {**row, "ner_tags": list(to_iob2(texts(row, "ner_tags"))), "document": document}
        for row, document in zip(rows, documents, strict=True)
    ]


def _surroundings(rows: Sequence[Row]) -> list[Surroundings | None]:
    """Return the document that contains each sentence, one item per row.

    The item is None for rows from the hub and from files without -DOCSTART- lines.
    """
    if not any(row.get("document") for row in rows):
        return [None] * len(rows)
    found: list[Surroundings | None] = []
    for _, group in groupby(rows, key=lambda row: row["document"]):
        sentences = [texts(row, "tokens") for row in group]
        words = tuple(word for sentence in sentences for word in sentence)
        start = 0
        for sentence in sentences:
            found.append(Surroundings(words=words, start=start))
            start += len(sentence)
    return found


def _sentence(row: Row) -> TagExample:
    document = row["document"]
    return TagExample(
        id=str(row["idx"]),
        words=texts(row, "tokens"),
        tags=texts(row, "ner_tags"),
        document=document if isinstance(document, Surroundings) else None,
    )


NER = TagTask(
    name="conll2003/ner",
    title="CoNLL-2003",
    source=Source(
        hub="eriktks/conll2003",
        # The main branch has a loading script, which `datasets` does not run. This branch is the
        # hub's automatic conversion to Parquet. It has no named configs.
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
        label_names=ENTITY_TAGS,
        arrange=_arrange,
    ),
    convert=_sentence,
    metrics=(entity_f1,),
    details=(entity_precision, entity_recall, tag_accuracy),
    script=CONLLEVAL,
    tags=ENTITY_TAGS,
    cite="Tjong Kim Sang and De Meulder, Introduction to the CoNLL-2003 Shared Task, CoNLL 2003",
)
