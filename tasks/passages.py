"""SuperGLUE's nested passages: MultiRC's answer options and ReCoRD's queries, each a row."""

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.columns import label_of, number, text, texts
from tasks.examples import ChoiceExample, PairExample
from tasks.sources import Row

__all__ = ["multirc_example", "multirc_rows", "record_example", "record_rows"]


def multirc_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each answer option of a passage's questions, as the hub has them."""
    passage = document["passage"]
    for question in passage["questions"]:
        for answer in question["answers"]:
            numbers = (document["idx"], question["idx"], answer["idx"])
            yield {
                "paragraph": passage["text"],
                "question": question["question"],
                "answer": answer["text"],
                "idx": dict(zip(("paragraph", "question", "answer"), numbers, strict=True)),
                **({"label": answer["label"]} if "label" in answer else {}),
            }


def multirc_example(row: Row) -> PairExample:
    """The passage against the question followed by one of its answer options."""
    paragraph, question = number(row, "idx.paragraph"), number(row, "idx.question")
    return PairExample(
        id=f"{paragraph}-{question}-{number(row, 'idx.answer')}",
        text_a=text(row, "paragraph"),
        text_b=f"{text(row, 'question')} {text(row, 'answer')}",
        label=label_of(row),
        group=f"{paragraph}-{question}",
    )


def record_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each query of a passage, as the hub has them.

    Entities are character spans that include their last character; their texts are kept once each
    and sorted, so that ties are stable. A test query has no answers.
    """
    passage = document["passage"]
    spans = [(entity["start"], entity["end"] + 1) for entity in passage["entities"]]
    entities = sorted({passage["text"][start:end] for start, end in spans})
    for query in document["qas"]:
        yield {
            "passage": passage["text"],
            "query": query["query"],
            "entities": entities,
            "answers": sorted({answer["text"] for answer in query.get("answers", ())}),
            "idx": {"query": query["idx"]},
        }


def record_example(row: Row) -> ChoiceExample:
    """A query whose "@placeholder" an entity of the passage fills; answers are told by text."""
    entities, answers = texts(row, "entities"), set(texts(row, "answers"))
    gold = tuple(index for index, entity in enumerate(entities) if entity in answers)
    if answers and not gold:
        raise ValueError(f"none of its entities is one of its answers, {sorted(answers)}")
    return ChoiceExample(
        id=str(number(row, "idx.query")),
        context=text(row, "passage"),
        question=text(row, "query"),
        options=entities,
        gold=gold or None,
    )
