"""SQuAD 1.1 and 2.0: questions about Wikipedia paragraphs, answered by a span of the paragraph.

Only train and dev are public. Training needs the positions of the answers; scoring needs only their
texts.
"""

from benchharness.tasks.examples import SpanExample
from benchharness.tasks.metrics.squad import (
    EVALUATE_V1,
    EVALUATE_V2,
    SQUAD_V1,
    SQUAD_V2,
    SQUAD_V2_DETAILS,
)
from benchharness.tasks.sources import Row, Source
from benchharness.tasks.sources.source import numbers, splits_of, text, texts
from benchharness.tasks.task import SpanTask, cannot_be_learned

COLUMNS = ("id", "title", "context", "question", "answers.text", "answers.answer_start")


def _source(hub: str, config: str, revision: str, version: str) -> Source:
    return Source(
        hub=hub,
        config=config,
        revision=revision,
        home="squad",
        spellings={"squad": _folders(version)},
        format="squad",
        splits=splits_of(f"train-v{version}.json", f"dev-v{version}.json"),
        columns={name: name for name in COLUMNS},
        no_answer=version == "2.0",
    )


def _folders(version: str) -> tuple[str, ...]:
    """Return the possible names of a version's folder, e.g. "squad2", "squadv2.0" and "v2.0".

    Case and punctuation of folder names are ignored.
    """
    short = version.partition(".")[0]
    names = [f"{v}{number}" for v in ("", "v") for number in (short, version)]
    return (*(f"squad{name}" for name in names), f"v{version}")


MOVED = "answers that are not at the given position are learned at their nearest occurrence"
NOWHERE = "answers that do not occur in their context are scored, but cannot be learned"


def question(row: Row) -> SpanExample:
    """Convert a row with the columns of SQuAD (see `COLUMNS`) to an example."""
    context = text(row, "context")
    answers = zip(texts(row, "answers.text"), numbers(row, "answers.answer_start"), strict=True)
    found = [(answer, start, find_answer(context, answer, start)) for answer, start in answers]
    placed = [(answer, place) for answer, _, place in found]
    odd = [NOWHERE if place < 0 else MOVED for _, start, place in found if place != start]
    return SpanExample(
        id=text(row, "id"),
        oddities=tuple(odd + [NOWHERE for _, start, place in found if start == place < 0]),
        question=text(row, "question"),
        context=context,
        answers=tuple(sorted(placed, key=lambda answer: answer[1] < 0)),
        title=text(row, "title"),
    )


def find_answer(context: str, answer: str, start: int) -> int:
    """Return the character offset at which an answer starts in its context.

    Args:
        context: Text of the context.
        answer: Text of the answer.
        start: Offset that the data set gives for the answer.

    Returns:
        `start` if the answer is there. If it is not, `start` may count UTF-8 bytes, as in TyDi QA's
        own files, or UTF-16 code units, as in Java programs; it is then converted to characters.
        If this fails too, the result is the offset of the occurrence nearest to `start`, or -1 if
        the answer does not occur in the context.
    """
    if start >= 0 and context.startswith(answer, start):
        return start
    for encoding, unit in (("utf-8", 1), ("utf-16-le", 2)) if answer and start >= 0 else ():
        whole = context.encode(encoding, "surrogatepass")
        if whole.startswith(answer.encode(encoding, "surrogatepass"), unit * start):
            return len(whole[: unit * start].decode(encoding, "surrogatepass"))
    at = context.find(answer) if answer else -1
    nearest = at
    while at >= 0:
        nearest = min(nearest, at, key=lambda place: abs(place - start))
        at = context.find(answer, at + 1)
    return nearest


SQUAD_1 = SpanTask(
    name="squad/v1.1",
    title="SQuAD 1.1",
    benchmark="SQuAD",
    source=_source(
        "rajpurkar/squad", "plain_text", "7b6d24c440a36b6815f21b70d25016731768db1f", "1.1"
    ),
    convert=question,
    metrics=SQUAD_V1,
    script=EVALUATE_V1,
    leaves_out=cannot_be_learned,
    cite="Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension, EMNLP 2016",
)

SQUAD_2 = SpanTask(
    name="squad/v2.0",
    title="SQuAD 2.0",
    benchmark="SQuAD",
    source=_source(
        "rajpurkar/squad_v2", "squad_v2", "3ffb306f725f7d2ce8394bc1873b24868140c412", "2.0"
    ),
    convert=question,
    metrics=SQUAD_V2,
    details=SQUAD_V2_DETAILS,
    categories={"hasans": "questions with an answer", "noans": "questions without one"},
    script=EVALUATE_V2,
    no_answer=True,
    leaves_out=cannot_be_learned,
    cite="Rajpurkar et al., Know What You Don't Know: Unanswerable Questions for SQuAD, ACL 2018",
)

SQUAD_TASKS: tuple[SpanTask, ...] = (SQUAD_1, SQUAD_2)
"""Tasks for both versions of SQuAD."""
