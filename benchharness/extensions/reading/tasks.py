"""QuAC, CoQA and HotpotQA: questions in a conversation, or about several paragraphs at once.

All of these tasks use the span head. In addition to spans, it predicts dialog acts, fixed answers
that are not in the text, such as "yes", and supporting sentences (see `SpanTask` and
`SpanExample`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchharness.extensions.reading.metrics import (
    COQA_DETAILS,
    COQA_DOMAINS,
    COQA_F1,
    COQA_SCRIPT,
    HOTPOTQA,
    HOTPOTQA_DETAILS,
    HOTPOTQA_SCRIPT,
    QUAC_DETAILS,
    QUAC_F1,
    QUAC_SCRIPT,
)
from benchharness.extensions.reading.readers import (
    coqa_records,
    hotpotqa_records,
    quac_records,
)
from benchharness.tasks.examples import SpanExample
from benchharness.tasks.metrics.squad import normalise, token_f1
from benchharness.tasks.sources import Row, Source
from benchharness.tasks.sources.source import number, numbers, splits_of, text, texts
from benchharness.tasks.suite import ScoreRule, Suite, suite_of
from benchharness.tasks.task import SpanTask, cannot_be_learned

# QuAC: a student asks a teacher about a section of Wikipedia (Choi et al., EMNLP 2018).
#
# Many questions can only be understood with the previous ones. Therefore, the last two questions
# are appended to a question, the newest first, so that truncation removes the oldest. The teacher
# also marks whether the answer is yes or no, and whether the student should ask a follow-up
# question. In the official files, every section ends with "CANNOTANSWER", which is converted to "no
# answer".

QUAC_HISTORY = 2
"""Number of previous questions in the input, as in the paper's best baseline (BiDAF++ w/ 2-ctxt).
"""

CANNOT_ANSWER = "CANNOTANSWER"
"""Text at the end of QuAC's contexts, and answer that means "no answer"."""

YES_NO = ("y", "n", "x")
"""Labels of the first dialog act in QuAC: the answer is yes, no, or neither."""
FOLLOW_UP = ("y", "n", "m")
"""Labels of the second dialog act in QuAC: the student should, should not, or may ask a follow-up
question.
"""

TURN = re.compile(r".*_q#(\d+)")
"""Pattern of the id of a question in QuAC, such as "C_69758fcdfc1f46baba0e92c0f3b0919c_1_q#7" for
question 7 of a dialog.
"""

QUAC_COLUMNS = (
    *("dialogue_id", "wikipedia_page_title", "context", "turn_ids", "questions", "followups"),
    *("yesnos", "answers.texts", "answers.answer_starts"),
)
"""Columns of QuAC that are read."""


def with_history(question: str, before: Sequence[str], history: int) -> str:
    """Return a question followed by the previous turns of its conversation, the newest first.

    Args:
        question: Current question.
        before: All previous turns, the oldest first.
        history: Maximum number of turns to append; older ones are left out.
    """
    return " | ".join([question, *reversed(before[max(0, len(before) - history) :])])


def _quac_rows(rows: Sequence[Row]) -> list[Row]:
    """Return one row per question in the dialogs of QuAC, with all previous questions.

    Raises:
        ValueError: If the questions of a dialog are out of order, or its lists differ in length.
        TypeError: If the answers are not lists.
    """
    asked: list[Row] = []
    for row in rows:
        names, questions = texts(row, "turn_ids"), texts(row, "questions")
        yes_nos, follow_ups = texts(row, "yesnos"), texts(row, "followups")
        answers, starts = row["answers.texts"], row["answers.answer_starts"]
        if not isinstance(answers, list) or not isinstance(starts, list):
            raise TypeError(f"the answers of the dialog {row['dialogue_id']} are not lists")
        if len({*map(len, (names, questions, yes_nos, follow_ups, answers, starts))}) > 1:
            raise ValueError(f"the lists of the dialog {row['dialogue_id']} differ in length")
        last = -1
        for place, name in enumerate(names):
            turn = TURN.fullmatch(name)
            if turn is None or int(turn[1]) <= last:
                raise ValueError(
                    f"the questions of the dialog {row['dialogue_id']} are out of order: {name!r} "
                    f"follows q#{last}"
                )
            # The question numbers may have gaps, but must increase.
            last = int(turn[1])
            asked.append(
                {
                    "id": name,
                    "dialog": row["dialogue_id"],
                    "title": row["wikipedia_page_title"],
                    "context": row["context"],
                    "question": questions[place],
                    "before": list(questions[:place]),
                    "classes": [yes_nos[place], follow_ups[place]],
                    "texts": answers[place],
                    "starts": starts[place],
                }
            )
    return asked


def _quac_question(history: int) -> Callable[[Row], SpanExample]:
    """Create a converter of QuAC's rows that appends `history` previous questions to a question."""

    def convert(row: Row) -> SpanExample:
        found = list(zip(texts(row, "texts"), numbers(row, "starts"), strict=True))
        answers = [answer for answer in found if answer[0] != CANNOT_ANSWER]
        # As in the official scorer, a question is unanswerable if at least half of the annotators
        # gave no answer.
        if 2 * len(answers) <= len(found):
            answers = []
        context = text(row, "context").removesuffix(CANNOT_ANSWER).rstrip()
        return SpanExample(
            id=text(row, "id"),
            question=with_history(text(row, "question"), texts(row, "before"), history),
            context=context,
            answers=tuple(_placed(context, *answer) for answer in answers),
            title=text(row, "title"),
            group=text(row, "dialog"),
            classes=texts(row, "classes"),
        )

    return convert


def _placed(context: str, answer: str, start: int) -> tuple[str, int]:
    """Return an answer and its start, which is -1 if the context does not contain it there."""
    return answer, start if start >= 0 and context.startswith(answer, start) else -1


def _is_misplaced(split: str, example: SpanExample) -> bool:
    """Return whether an example is a training question whose answer position is wrong."""
    answers = example.answers or ()
    return split == "train" and bool(answers) and answers[0][1] < 0


QUAC = SpanTask(
    name="quac/quac",
    title="QuAC",
    source=Source(
        hub="allenai/quac",
        # This branch is the hub's automatic conversion of the data set, as for CoNLL-2003.
        config="default",
        revision="refs/convert/parquet",
        hub_folder="plain_text",
        home="quac",
        spellings={"quac": ("QuAC_v0.2",)},
        read_records=quac_records,
        splits=splits_of("train_v0.2.json", "val_v0.2.json"),
        columns={name: name for name in QUAC_COLUMNS},
        classes={"followups": FOLLOW_UP, "yesnos": YES_NO},
        arrange=_quac_rows,
    ),
    convert=_quac_question(QUAC_HISTORY),
    metrics=(QUAC_F1,),
    details=QUAC_DETAILS,
    script=QUAC_SCRIPT,
    no_answer=True,
    classes=(YES_NO, FOLLOW_UP),
    files="quac",
    leaves_out=_is_misplaced,
    cite="Choi et al., QuAC: Question Answering in Context, EMNLP 2018",
)


def quac(history: int, name: str = "quac/quac") -> SpanTask:
    """Return a variant of QuAC with another number of previous questions in the input.

    Args:
        history: Maximum number of previous questions.
        name: Name of the variant.
    """
    return replace(QUAC, name=name, convert=_quac_question(history))


# CoQA: conversations about stories from several domains (Reddy et al., TACL 2019).
#
# Answers are free texts. The model learns a span of the story instead: the part of the annotated
# evidence that has the best F1 against the answer. "yes", "no" and "unknown" are inserted before
# every story, so that they can be predicted as spans too. The last two turns are appended to a
# question, the newest first.

COQA_HISTORY = 2
"""Number of previous turns in the input, each with its question and its answer (n_history in
stanfordnlp/coqa-baselines).
"""

COQA_FIXED = ("yes", "no", "unknown")
"""Answers that are inserted before every story, so that they can be predicted as spans."""
COQA_LEAD = " ".join(COQA_FIXED)

COQA_OTHERS = ("0", "1", "2")
"""Keys of the answers by three additional annotators, which only the dev split has."""

COQA_ANSWER = tuple(
    f"answers.{name}" for name in ("input_text", "span_start", "span_end", "turn_id")
)

COQA_COLUMNS = (
    *("id", "source", "story", "questions.input_text", "questions.turn_id", *COQA_ANSWER),
    *(f"additional_answers.{other}.input_text" for other in COQA_OTHERS),
)
"""Columns of CoQA that are read."""


def _coqa_rows(rows: Sequence[Row]) -> list[Row]:
    """Return one row per question in the conversations of CoQA, with all previous turns.

    Raises:
        ValueError: The turns of a conversation are out of order, or a question lacks an answer.
    """
    asked: list[Row] = []
    for row in rows:
        questions, answers = texts(row, "questions.input_text"), texts(row, "answers.input_text")
        turns, answered = numbers(row, "questions.turn_id"), numbers(row, "answers.turn_id")
        expected = tuple(range(1, len(questions) + 1))
        if turns != expected or answered != expected:
            raise ValueError(
                f"the conversation {row['id']} has the turns {_listed(turns)} and answers to the "
                f"turns {_listed(answered)}; both must be 1 to {len(questions)}, in this order"
            )
        lists = [answers]
        others = [row[f"additional_answers.{other}.input_text"] for other in COQA_OTHERS]
        lists += [texts({"answers": found}, "answers") for found in others if found]
        starts, ends = numbers(row, "answers.span_start"), numbers(row, "answers.span_end")
        if any(len(found) != len(questions) for found in (*lists, starts, ends)):
            raise ValueError(f"the conversation {row['id']} has a question without an answer")
        before = [f"{q} {a}" for q, a in zip(questions, answers, strict=True)]
        for place, question in enumerate(questions):
            asked.append(
                {
                    "id": row["id"],
                    "turn": turns[place],
                    "source": row["source"],
                    "story": row["story"],
                    "question": question,
                    "before": before[:place],
                    "answers": [found[place] for found in lists],
                    "start": starts[place],
                    "end": ends[place],
                }
            )
    return asked


def _listed(turns: Sequence[int]) -> str:
    shown = ", ".join(map(str, turns[:8]))
    return f"{shown}, ..." if len(turns) > 8 else shown


def _coqa_question(history: int) -> Callable[[Row], SpanExample]:
    """Create a converter of CoQA's rows that appends `history` previous turns to a question."""

    def convert(row: Row) -> SpanExample:
        source = text(row, "source")
        if source not in COQA_DOMAINS:
            known = ", ".join(COQA_DOMAINS)
            raise ValueError(f"its source is {source!r}, but expected one of {known}")
        answers = texts(row, "answers")
        context = f"{COQA_LEAD}\n{text(row, 'story')}"
        ahead = len(COQA_LEAD) + 1
        # Positions in the files are relative to the story, but the context begins with the fixed
        # answers. A start of -1 means that no evidence is annotated.
        start, end = number(row, "start") + ahead, number(row, "end") + ahead
        evidence = _within(context, start, end) if start >= ahead else None
        return SpanExample(
            id=f"{text(row, 'id')}/{number(row, 'turn')}",
            question=with_history(text(row, "question"), texts(row, "before"), history),
            context=context,
            answers=tuple((answer, -1) for answer in answers),
            title=text(row, "id"),
            categories=(COQA_DOMAINS[source],),
            span=_learned(context, answers[0], evidence),
            lead=len(COQA_LEAD),
            evidence=() if evidence is None else (evidence,),
        )

    return convert


def _within(context: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the span [start, end) without white space at its ends; None if nothing is left."""
    found = context[start:end]
    start += len(found) - len(found.lstrip())
    return (start, start + len(found.strip())) if found.strip() else None


def _learned(context: str, answer: str, evidence: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the span [start, end) that a model should learn for an answer.

    If the answer is one of the fixed answers, this is its span at the beginning of the context.
    Else it is the best span in the evidence, or None if there is no evidence.
    """
    said = normalise(answer)
    if said in COQA_FIXED:
        start = COQA_LEAD.index(said)
        return start, start + len(said)
    if evidence is None:
        return None
    return best_stretch(context, *evidence, answer)


WORD = re.compile(r"\S+")
LONGEST = 30
"""Maximum number of words in a span that the model learns. The limit keeps the search for this span
fast if the evidence is a whole paragraph. Longer spans rarely match an answer better.
"""


def best_stretch(context: str, start: int, end: int, answer: str) -> tuple[int, int]:
    """Find the span of whole words in a part of a context that has the best F1 against an answer.

    On a tie, the first span is returned, or the shortest one of those that begin at the same word.
    If no word of the part is in the answer, the whole part is returned. Punctuation at the end of
    the span is removed.

    Args:
        context: Context to search.
        start: Index of the first character of the part.
        end: Index after the last character of the part.
        answer: Gold answer, as a text.

    Returns:
        Start and end of the span in the context, in characters.
    """
    words = [match.span() for match in WORD.finditer(context, start, end)]
    best, found = 0.0, (start, end)
    for first, (begin, _) in enumerate(words):
        for _, stop in words[first : first + LONGEST]:
            points = token_f1(context[begin:stop], answer)
            if points > best:
                best, found = points, (begin, stop)
    return _bare(context, *found)


def _bare(context: str, start: int, end: int) -> tuple[int, int]:
    """Return the span [start, end) without punctuation marks at its end."""
    kept = context[start:end].rstrip(".,;:!?\"'")
    return (start, start + len(kept)) if kept else (start, end)


def _has_no_evidence(split: str, example: SpanExample) -> bool:
    """Return whether this is a training question with neither evidence nor a fixed answer."""
    return split == "train" and example.span is None


COQA = SpanTask(
    name="coqa/coqa",
    title="CoQA",
    source=Source(
        # The authors' data set on the hub lacks the additional annotators' answers, which the
        # official score needs. Use this copy, at a revision without a loading script.
        hub="EleutherAI/coqa",
        config="default",
        revision="refs/convert/parquet",
        home="coqa",
        spellings={"coqa": ("CoQA_v1.0",)},
        read_records=coqa_records,
        splits=splits_of("coqa-train-v1.0.json", "coqa-dev-v1.0.json"),
        columns={name: name for name in COQA_COLUMNS},
        optional=tuple(name for name in COQA_COLUMNS if name.startswith("additional")),
        arrange=_coqa_rows,
    ),
    convert=_coqa_question(COQA_HISTORY),
    metrics=(COQA_F1,),
    details=COQA_DETAILS,
    script=COQA_SCRIPT,
    files="coqa",
    leaves_out=_has_no_evidence,
    cite="Reddy et al., CoQA: A Conversational Question Answering Challenge, TACL 2019",
)


def coqa(history: int, name: str = "coqa/coqa") -> SpanTask:
    """Return a variant of CoQA with another number of previous turns in the input.

    Args:
        history: Maximum number of previous turns, each with its question and its answer.
        name: Name of the variant.
    """
    return replace(COQA, name=name, convert=_coqa_question(history))


# HotpotQA in the distractor setting: each question is about two of ten paragraphs (Yang et al.,
# EMNLP 2018).
#
# The context begins with "yes no", so that these answers can be predicted as spans. Each paragraph
# has a line with its title and a line with its sentences. The context exceeds the maximum length of
# most encoders, so it is read in windows, or at once by a long-context encoder. A model also
# predicts which sentences support the answer.

HOTPOT_FIXED = ("yes", "no")
"""Answers that are inserted before every context, so that they can be predicted as spans."""
HOTPOT_LEAD = " ".join(HOTPOT_FIXED)

HOTPOT_COLUMNS = (
    *("id", "question", "answer", "type", "supporting_facts.title", "supporting_facts.sent_id"),
    *("context.title", "context.sentences"),
)
"""Columns of HotpotQA that are read."""


NO_SENTENCE = "supporting facts that name no sentence of the context count as missed"
"""Note on gold supporting facts that refer to a sentence that does not exist."""


def _hotpot_question(row: Row) -> SpanExample:
    titles = texts(row, "context.title")
    paragraphs = row["context.sentences"]
    if not isinstance(paragraphs, list) or len(paragraphs) != len(titles):
        raise TypeError(f"its context has {len(titles)} titles, but not as many paragraphs")
    context, sentences, places = HOTPOT_LEAD, list[tuple[int, int]](), dict[tuple[str, int], int]()
    for title, column in zip(titles, paragraphs, strict=True):
        context += f"\n{_line(title)}\n"
        for order, sentence in enumerate(texts({"sentences": column}, "sentences")):
            written = _line(sentence)
            # The span of a sentence excludes the space at its beginning.
            start = len(context) + len(written) - len(written.lstrip())
            places.setdefault((title, order), len(sentences))
            sentences.append((start, max(start, len(context) + len(written.rstrip()))))
            context += written
    titles, orders = texts(row, "supporting_facts.title"), numbers(row, "supporting_facts.sent_id")
    facts = dict.fromkeys(zip(titles, orders, strict=True))
    # A few facts refer to a sentence that does not exist. They are scored, but cannot be learned.
    count = len(sentences)
    wanted = [places.get(fact, count + place) for place, fact in enumerate(facts)]
    evidence = tuple(sentences[place] for place in sorted(wanted) if place < count)
    absent = tuple(fact for fact in facts if fact not in places)
    answer = text(row, "answer")
    return SpanExample(
        id=text(row, "id"),
        oddities=(NO_SENTENCE,) * len(absent),
        question=text(row, "question"),
        context=context,
        answers=((answer, _hotpot_place(context, answer, evidence)),),
        categories=(text(row, "type"),),
        lead=len(HOTPOT_LEAD),
        evidence=evidence,
        sentences=tuple(sentences),
        facts=tuple(sorted(wanted)),
        absent=absent,
    )


def _line(words: str) -> str:
    """Replace line breaks in a text by spaces, so that its length stays the same."""
    return words.replace("\n", " ").replace("\r", " ")


def _hotpot_place(context: str, answer: str, evidence: Sequence[tuple[int, int]]) -> int:
    """Return the character offset of an answer in a context of HotpotQA, or -1 if it has none.

    For "yes" and "no", this is the position at the beginning of the context. Other answers have the
    offset of their first occurrence in a supporting sentence, else in the whole context.
    """
    if answer in HOTPOT_FIXED:
        return HOTPOT_LEAD.index(answer)
    if not answer:
        return -1
    for start, end in evidence:
        if (place := context.find(answer, start, end)) >= 0:
            return place
    return context.find(answer, len(HOTPOT_LEAD) + 1)


# The setting "fullwiki", in which paragraphs must be retrieved from Wikipedia, is not supported.
HOTPOT = SpanTask(
    name="hotpotqa/distractor",
    title="HotpotQA",
    source=Source(
        hub="hotpotqa/hotpot_qa",
        config="distractor",
        revision="1908d6afbbead072334abe2965f91bd2709910ab",
        home="hotpotqa",
        spellings={"hotpotqa": ("hotpot", "hotpot_qa")},
        read_records=hotpotqa_records,
        splits=splits_of("hotpot_train_v1.1.json", "hotpot_dev_distractor_v1.json"),
        columns={name: name for name in HOTPOT_COLUMNS},
    ),
    convert=_hotpot_question,
    metrics=HOTPOTQA,
    details=HOTPOTQA_DETAILS,
    script=HOTPOTQA_SCRIPT,
    facts=True,
    files="hotpotqa",
    leaves_out=cannot_be_learned,
    cite="Yang et al., HotpotQA: A Dataset for Diverse, Explainable Multi-hop QA, EMNLP 2018",
)


def _suite(title: str, task: SpanTask, score: str, rule: str) -> Suite:
    """Return the suite of one task; `rule` is the citation of the score that counts."""
    cells = {task.name: (score,)}
    return suite_of(
        [task], title, ScoreRule(name=title, cells=cells, cite=rule), collections=("seeds",)
    )


TASKS = (QUAC, COQA, HOTPOT)

_QUAC_RULE = "Choi et al., QuAC, EMNLP 2018: F1 over questions on which people agree"
_COQA_RULE = "Reddy et al., CoQA, TACL 2019: F1 over all turns"
_HOTPOT_RULE = "Yang et al., HotpotQA, EMNLP 2018: joint F1, by which its leaderboard is sorted"

SUITES = (
    _suite("QuAC", QUAC, "f1", _QUAC_RULE),
    _suite("CoQA", COQA, "f1", _COQA_RULE),
    _suite("HotpotQA", HOTPOT, "joint_f1", _HOTPOT_RULE),
)
