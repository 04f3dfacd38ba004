"""SuperGLUE: eight tasks and two diagnostic sets (Wang et al., NeurIPS 2019).

Labels have the names and order of the hub's data set, which differ from GLUE's: CB's labels are
entailment, contradiction, neutral. The files are the JSON lines of the v2 download. Texts are
ordered, and questions are added to them, as in the official baseline (jiant).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import punctuation
from types import MappingProxyType
from typing import Any

from benchharness.tasks.examples import ChoiceExample, Mark, PairExample
from benchharness.tasks.glue import pair
from benchharness.tasks.metrics import (
    accuracy,
    answer_option_f1,
    choice_accuracy,
    gender_parity,
    macro_f1,
    matthews,
    option_exact_match,
    option_f1,
    question_exact_match,
    question_f1,
)
from benchharness.tasks.sources import Column, Row, Source, Split
from benchharness.tasks.sources.files import name_key
from benchharness.tasks.sources.source import label_of, number, splits_of, text, texts
from benchharness.tasks.task import ChoiceTask, PairTask, Task, cannot_be_learned

# The official files of MultiRC and ReCoRD have one line per passage. The following functions
# convert a passage to one row per answer option (MultiRC) or per query (ReCoRD).


def multirc_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Convert a passage of MultiRC to one row per answer option, with the columns of the hub.

    Args:
        document: A line of the official file: a passage with its questions and answer options.
    """
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
    """Convert a MultiRC row to an example.

    The first text is the paragraph; the second is the question and one of its answer options.
    """
    paragraph, question = number(row, "idx.paragraph"), number(row, "idx.question")
    return PairExample(
        id=f"{paragraph}-{question}-{number(row, 'idx.answer')}",
        text_a=text(row, "paragraph"),
        text_b=f"{text(row, 'question')} {text(row, 'answer')}",
        label=label_of(row),
        group=f"{paragraph}-{question}",
        about=text(row, "question"),
    )


def record_rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Convert a passage of ReCoRD to one row per query, with the columns of the hub.

    The official files give entities as character spans, in which the end is the index of the last
    character. The rows contain the texts of the entities instead, sorted and without repetitions,
    so that the order of the options does not depend on the file. A query of the test split has an
    empty list of answers.

    Args:
        document: A line of the official file: a passage with its entities and queries.
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


NO_ENTITY = "answers that are no entity of the passage count, and nothing can be chosen for them"


def record_example(row: Row) -> ChoiceExample:
    """Convert a ReCoRD row to an example.

    The question is a query that contains "@placeholder" instead of an entity, and the options are
    the entities of the passage. An entity is a right option if its text is one of the answers.
    """
    entities, answers = texts(row, "entities"), set(texts(row, "answers"))
    others = tuple(sorted(answers.difference(entities)))
    gold = tuple(index for index, entity in enumerate(entities) if entity in answers)
    return ChoiceExample(
        id=str(number(row, "idx.query")),
        oddities=(NO_ENTITY,) * len(others),
        context=text(row, "passage"),
        question=text(row, "query"),
        options=entities,
        gold=gold if answers else None,
        answers=others,
    )


# WiC and WSC mark the words of a text that they ask about. A `Mark` is the span of such words.


def character_mark(text: str, which: str, start: int, end: int) -> Mark:
    """Create a mark for the characters [start, end) of a text.

    Args:
        text: Text with the span.
        which: "a" if it is the first text of the example, "b" if it is the second.
        start: First character of the span.
        end: Character after the span.

    Raises:
        ValueError: If the span is empty or outside of the text.
    """
    if not 0 <= start < end <= len(text):
        raise ValueError(f"its marked characters {start} to {end} are not a valid span of {text!r}")
    return Mark(text=which, start=start, end=end)


def word_mark(text: str, index: int, span: str) -> Mark:
    """Create a mark for a span of words in text "a" of an example (WSC).

    In WSC's data, the span often differs from the words at its index: the last word in the text may
    end with a comma or "'s", case, line breaks or a final full stop may differ, or the span may
    occur some words later. So the occurrence that is nearest to the index is marked. If the span
    does not occur in the text at all ("Kamenev and Zinoviev" for two men who are named separately),
    the same number of words is marked, beginning at the index.

    Args:
        text: Text "a" of the example.
        index: Index of the span's first word if the text is split at white space.
        span: The words of the span, as given in the data.

    Raises:
        ValueError: If the index is outside of the text.
    """
    words = list(re.finditer(r"\S+", text))
    if not 0 <= index < len(words):
        raise ValueError(
            f"its word index {index} is out of range: the text has {len(words)} words ({text!r})"
        )
    wanted = span.strip().strip(punctuation).split()
    pattern = r"\s+".join(re.escape(word) for word in wanted)
    start = words[index].start()
    # Only whole words match: "he" does not match inside of "the". Line breaks may separate words.
    found = re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) if wanted else ()
    nearest = min(found, key=lambda match: abs(match.start() - start), default=None)
    if nearest is not None:
        return Mark(text="a", start=nearest.start(), end=nearest.end())
    last = words[min(index + max(len(wanted), 1), len(words)) - 1]
    return Mark(text="a", start=start, end=last.end())


HUB = "aps/super_glue"
REVISION = "3de24cf8022e94f4ee4b9d55a6f539891524d646"

FALSE_OR_TRUE = ("False", "True")


def _source(title: str, columns: Sequence[str] | Mapping[str, Column], **facts: Any) -> Source:
    """Create the source of a SuperGLUE task.

    Args:
        title: Name of the task's folder, which also gives the config of the hub's data set.
        columns: Columns of the rows. A mapping gives the columns of the files if they differ.
        **facts: Other fields of `Source`.
    """
    named = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    known = {
        "hub": HUB,
        "config": name_key(title),
        "revision": REVISION,
        "home": "superglue",
        "spellings": {"superglue": ("superglue_data", "combined")},
        "format": "jsonl",
        "splits": splits_of(
            *(f"{title}/{name}.jsonl" for name in ("train", "val", "test")), hidden=True
        ),
        "columns": {**named, "label": "label"} if "label_names" in facts else named,
    }
    return Source(**{**known, **facts})


def _pair_task(
    title: str,
    columns: Sequence[str] | Mapping[str, Column],
    labels: tuple[str, ...],
    source: Mapping[str, Any] = MappingProxyType({}),
    **facts: Any,
) -> PairTask:
    """Create a SuperGLUE task with pairs of texts.

    Args:
        title: Name of the task in papers.
        columns: Columns of the rows. The first two are the texts, unless `facts` has `convert`.
        labels: Names of the classes in the hub's order.
        source: Other fields of `Source`.
        **facts: Other fields of `PairTask`.
    """
    known = {"convert": pair(*list(columns)[:2]), "metrics": (accuracy,)}
    return PairTask(
        name=f"superglue/{name_key(title)}",
        title=title,
        source=_source(title, columns, label_names=labels, **source),
        labels=labels,
        **{**known, **facts},
    )


def _test_only(title: str) -> dict[str, Any]:
    return {"splits": {"test": Split(hub="test", files=(f"{title}/{title}.jsonl",))}}


BOOLQ = _pair_task(
    *("BoolQ", ("passage", "question"), FALSE_OR_TRUE),
    cite="Clark et al., BoolQ: Exploring the Surprising Difficulty of Yes/No Questions, NAACL 2019",
)

CB_LABELS = ("entailment", "contradiction", "neutral")

CB = _pair_task(
    *("CB", ("premise", "hypothesis"), CB_LABELS),
    metrics=(macro_f1(CB_LABELS), accuracy),
    cite="de Marneffe et al., The CommitmentBank, Sinn und Bedeutung 2019",
)

COPA_CHOICES = ("choice1", "choice2")
COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


def _copa(row: Row) -> ChoiceExample:
    label, asked = label_of(row), text(row, "question")
    if asked not in COPA_QUESTIONS:
        raise ValueError(f"its question is {asked!r}, expected {' or '.join(COPA_QUESTIONS)}")
    return ChoiceExample(
        id=str(row["idx"]),
        context=text(row, "premise"),
        question=COPA_QUESTIONS[asked],
        options=tuple(text(row, choice) for choice in COPA_CHOICES),
        gold=None if label is None else (COPA_CHOICES.index(str(label)),),
    )


COPA = ChoiceTask(
    name="superglue/copa",
    title="COPA",
    source=_source(
        "COPA",
        ("premise", *COPA_CHOICES, "question"),
        label_names=COPA_CHOICES,
        label_texts=dict(zip("01", COPA_CHOICES, strict=True)),
    ),
    convert=_copa,
    metrics=(choice_accuracy,),
    cite="Roemmele et al., Choice of Plausible Alternatives, AAAI Spring Symposium 2011",
)

MULTIRC = _pair_task(
    "MultiRC",
    ("paragraph", "question", "answer", "idx.paragraph", "idx.question", "idx.answer"),
    FALSE_OR_TRUE,
    {"label_texts": {"0": "False", "1": "True"}, "unfold": multirc_rows},
    convert=multirc_example,
    metrics=(answer_option_f1("True"), question_exact_match),
    details=(question_f1("True"),),
    cite="Khashabi et al., Looking Beyond the Surface, NAACL 2018",
)

RECORD = ChoiceTask(
    name="superglue/record",
    title="ReCoRD",
    option="entity",
    source=_source(
        "ReCoRD", ("passage", "query", "entities", "answers", "idx.query"), unfold=record_rows
    ),
    convert=record_example,
    metrics=(option_f1, option_exact_match),
    leaves_out=cannot_be_learned,
    cite="Zhang et al., ReCoRD, 2018",
)

RTE_LABELS = ("entailment", "not_entailment")

RTE = _pair_task(
    *("RTE", ("premise", "hypothesis"), RTE_LABELS),
    benchmark="RTE",
    cite="Dagan et al., The PASCAL Recognising Textual Entailment Challenge, 2006, and RTE2, 3, 5",
)


def _wic(row: Row) -> PairExample:
    """Convert a WiC row, which has two sentences in which the same word is marked."""
    example = pair("sentence1", "sentence2")(row)
    first = character_mark(example.text_a, "a", number(row, "start1"), number(row, "end1"))
    second = character_mark(text(row, "sentence2"), "b", number(row, "start2"), number(row, "end2"))
    word = row["word"]
    return replace(example, marks=(first, second), about="" if word is None else text(row, "word"))


WIC = _pair_task(
    "WiC",
    ("sentence1", "sentence2", "start1", "start2", "end1", "end2", "word"),
    FALSE_OR_TRUE,
    {"optional": ("word",)},
    convert=_wic,
    marks=2,
    cite="Pilehvar and Camacho-Collados, WiC: the Word-in-Context Dataset, NAACL 2019",
)


def _wsc(row: Row) -> PairExample:
    """Convert a WSC row, which has a text in which a noun phrase and a pronoun are marked."""
    example = pair("text")(row)
    marks = tuple(
        word_mark(example.text_a, number(row, f"{span}_index"), text(row, f"{span}_text"))
        for span in ("span1", "span2")
    )
    return replace(example, marks=marks)


WSC_SPANS = ("span1_index", "span2_index", "span1_text", "span2_text")

WSC = _pair_task(
    "WSC",
    {"text": "text", **{name: f"target.{name}" for name in WSC_SPANS}},
    FALSE_OR_TRUE,
    benchmark="the Winograd schemas",
    convert=_wsc,
    marks=2,
    cite="Levesque et al., The Winograd Schema Challenge, KR 2012",
)

AXB = _pair_task(
    *("AX-b", ("sentence1", "sentence2"), RTE_LABELS, _test_only("AX-b")),
    trained_on=RTE.name,
    metrics=(matthews,),
    cite="Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform, ICLR 2019",
)


def _axg(row: Row) -> PairExample:
    """Convert an AX-g row; two successive rows are a minimal pair that differs in a pronoun."""
    return replace(pair("premise", "hypothesis")(row), group=str(number(row, "idx") // 2))


AXG = _pair_task(
    *("AX-g", ("premise", "hypothesis"), RTE_LABELS, _test_only("AX-g")),
    convert=_axg,
    trained_on=RTE.name,
    metrics=(gender_parity,),
    details=(accuracy,),
    cite="Rudinger et al., Gender Bias in Coreference Resolution, NAACL 2018",
)

SUPERGLUE_TASKS: tuple[Task, ...] = (
    *(BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, WSC),
    *(AXB, AXG),
)
"""SuperGLUE's tasks in the order of the official leaderboard; the diagnostic sets come last."""
