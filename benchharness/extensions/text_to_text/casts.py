"""Text-to-text format: convert examples to input and target texts, and outputs to predictions.

GLUE, SuperGLUE and SQuAD are formatted as for T5 (Raffel et al., arXiv:1910.10683, appendix D),
with columns in the alphabetical order of their names. Tasks that T5 lacks are formatted similarly.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
    SpanExample,
    SpanPrediction,
)
from benchharness.tasks.read import SplitRows, fingerprint
from benchharness.tasks.superglue import COPA_QUESTIONS
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, Task


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Conversion of a task's examples to texts, and of a model's output texts to predictions.

    Attributes:
        words: Function that returns the encoder's input text for an example.
        targets: Function that returns all right outputs for an example. The result is empty if the
            answer is hidden, or if the example has no output that a model could learn.
        read: Function `(output, example)` that converts the decoder's output text to a prediction.
        answers: All valid outputs of the task; empty if they depend on the example.
        rows: Function that returns the training examples that replace an example of the train
            split; by default, the example itself.
    """

    words: Callable[[Any], str]
    targets: Callable[[Any], tuple[str, ...]]
    read: Callable[[str, Any], Prediction]
    answers: tuple[str, ...] = ()
    rows: Callable[[Any], tuple[Example, ...]] = lambda example: (example,)


def cast_of(task: Task) -> Cast:
    """Return the text-to-text conversion of a task.

    Raises:
        BenchError: If the answers of the task have no text form (e.g. tags or clusters).
    """
    if make := _CASTS.get(task.kind):
        return make(task)
    raise BenchError(
        f"{task.name} cannot be run as a text-to-text task, because its answers (such as tags, "
        "clusters or sets of labels) have no text form: omit --text-to-text."
    )


def rows_to_learn(rows: SplitRows, task: Task) -> SplitRows:
    """Return the rows that are used for training in the text-to-text format.

    As for T5, an example with several right options (ReCoRD) is repeated with each of them, and a
    row of WSC is dropped if the noun is not the referent of the pronoun. All other rows are
    unchanged.

    Args:
        rows: Rows of the train split.
        task: Task of the rows.

    Raises:
        BenchError: If the answers of the task have no text form.
        DataError: If no row is left.
    """
    cast = cast_of(task)
    examples = [learned for example in rows.examples for learned in cast.rows(example)]
    if not examples:
        raise DataError(
            f"no row of {task.name} train can be used for text-to-text training: add more rows."
        )
    return replace(rows, examples=tuple(examples), fingerprint=fingerprint(examples))


# For pairs of texts, the output is the name of the label, or a number.

_PAIRS: Mapping[str, str] = {
    "glue/cola": "cola sentence: {a}",
    "glue/sst2": "sst2 sentence: {a}",
    "glue/mrpc": "mrpc sentence1: {a} sentence2: {b}",
    "glue/stsb": "stsb sentence1: {a} sentence2: {b}",
    "glue/qqp": "qqp question1: {a} question2: {b}",
    "glue/mnli": "mnli hypothesis: {b} premise: {a}",
    "glue/qnli": "qnli question: {a} sentence: {b}",
    "glue/rte": "rte sentence1: {a} sentence2: {b}",
    "glue/wnli": "wnli sentence1: {a} sentence2: {b}",
    "superglue/boolq": "boolq passage: {a} question: {b}",
    "superglue/cb": "cb hypothesis: {b} premise: {a}",
    "superglue/multirc": "multirc question: {about} answer: {answer} paragraph: {a}",
    "superglue/rte": "rte hypothesis: {b} premise: {a}",
    "superglue/wic": "wic sentence1: {a} sentence2: {b} word: {about}",
    "snli/snli": "snli hypothesis: {b} premise: {a}",
}
"""Input formats, keyed by task.

The diagnostic sets are predicted by models of MNLI (AX) and SuperGLUE RTE (AX-b, AX-g), in the
formats of these tasks. SNLI is not one of T5's tasks and is formatted like MNLI. In the paper's
appendix, the input of WiC also has a part of speech, which SuperGLUE's files lack.
"""

_BREAK, _BOLD = re.compile("<br>"), re.compile("</?b>")
"""HTML markup in MultiRC's paragraphs, which T5's released code removes too."""


def _pair_cast(task: PairTask) -> Cast:
    if task.name == "superglue/wsc":
        return Cast(words=_wsc_words, targets=_wsc_targets, read=_read_referent, rows=_wsc_rows)

    def read(answer: str, example: PairExample) -> PairPrediction:
        if (said := answer.strip()) in task.labels:
            return PairPrediction(id=example.id, label=said)
        return PairPrediction(id=example.id, label="", text=answer)

    return Cast(
        words=_pair_words(task),
        targets=lambda example: () if example.label is None else (str(example.label),),
        read=read,
        answers=task.labels,
    )


def _pair_words(task: PairTask) -> Callable[[PairExample], str]:
    own = _PAIRS.get(task.name)
    name = task.name.rpartition("/")[2]

    def words(example: PairExample) -> str:
        two = f"{name} sentence1: {{a}} sentence2: {{b}}"
        form = own or (two if example.text_b is not None else f"{name} sentence: {{a}}")
        text_b = example.text_b or ""
        joined = form.format(
            a=example.text_a,
            b=text_b,
            about=example.about or _marked(example, 0),
            answer=text_b.removeprefix(example.about).removeprefix(" "),
        )
        return _BOLD.sub("", _BREAK.sub(" ", joined)) if name == "multirc" else joined

    return words


def _marked(example: PairExample, number: int) -> str:
    """Return the text of the marked span at index `number`; empty if the example has no marks."""
    if not example.marks:
        return ""
    mark = example.marks[number]
    text = example.text_a if mark.text == "a" else example.text_b or ""
    return text[mark.start : mark.end]


_STEPS = 25
"""Number of equal steps into which a regression's range is divided; a step of STS-B is 0.2."""


def _number_cast(task: PairTask) -> Cast:
    """Create the conversion of a regression, whose targets are 26 evenly spaced numbers.

    An output that is not a number is converted to a number below the range.
    """
    assert task.value_range is not None, "a regression has a range"
    low, high = task.value_range
    unit = _STEPS / (high - low)
    # Number of decimals that a step needs: one for 0.2 (STS-B), two for 0.04 (a range of 0 to 1).
    digits = max(1, math.ceil(math.log10(unit)))
    nothing = low - (high - low) / 5  # -1 for STS-B, as in T5

    def written(number: float) -> str:
        return f"{round(number * unit) / unit:.{digits}f}"

    def targets(example: PairExample) -> tuple[str, ...]:
        return () if example.label is None else (written(float(str(example.label))),)

    def read(answer: str, example: PairExample) -> PairPrediction:
        try:
            number = float(answer)
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return PairPrediction(id=example.id, label=number)
        return PairPrediction(id=example.id, label=nothing, text=answer)

    return Cast(
        words=_pair_words(task),
        targets=targets,
        read=read,
        answers=tuple(written(low + step / unit) for step in range(_STEPS + 1)),
    )


# For WSC, the output is the referent of the pronoun. If it matches the noun, the prediction is
# "True".

_DETERMINERS = frozenset(
    (
        *("a", "an", "few", "her", "his", "each", "every", "many", "much", "my", "our"),
        *("some", "that", "the", "their", "these", "this", "those", "which", "whose", "your"),
    )
)
"""Words that are ignored in comparisons, as in t5.data.postprocessors.wsc_simple."""


def _wsc_words(example: PairExample) -> str:
    """Return the text of a WSC example with the pronoun between asterisks."""
    mark, text = example.marks[1], example.text_a
    return f"wsc: {text[: mark.start]}*{text[mark.start : mark.end]}*{text[mark.end :]}"


def _wsc_targets(example: PairExample) -> tuple[str, ...]:
    return (_marked(example, 0),) if example.label == "True" else ()


def _wsc_rows(example: PairExample) -> tuple[PairExample, ...]:
    return () if example.label == "False" else (example,)


def _read_referent(answer: str, example: PairExample) -> PairPrediction:
    """Predict "True" if the output's words are a subset of the marked noun's words, or vice versa.

    This is the same as t5.data.postprocessors.wsc_simple, except that an output without words is
    invalid.
    """
    said, noun = _bare(answer), _bare(_marked(example, 0))
    if not said:
        return PairPrediction(id=example.id, label="", text=answer)
    same = ("'" in said) == ("'" in noun)
    one, other = set(said.split(" ")), set(noun.split(" "))
    is_noun = same and (one <= other or other <= one)
    return PairPrediction(id=example.id, label=str(is_noun))


def _bare(words: str) -> str:
    return " ".join(w for w in words.strip().lower().split(" ") if w not in _DETERMINERS)


# For questions about a context, the output is the answer, which need not occur in the context.

NO_ANSWER = "unanswerable"
"""Output for a question without an answer. T5 lacks SQuAD 2.0, so benchharness chose this word."""


_SPACE = re.compile(r"\s+")


def _span_cast(_: SpanTask) -> Cast:
    return Cast(words=_span_words, targets=_span_targets, read=_read_span)


def _span_words(example: SpanExample) -> str:
    return _SPACE.sub(" ", f"question: {example.question} context: {example.context}")


def _span_targets(example: SpanExample) -> tuple[str, ...]:
    if example.answers is None:
        return ()
    return (_SPACE.sub(" ", example.answers[0][0]) if example.answers else NO_ANSWER,)


def _read_span(answer: str, example: SpanExample) -> SpanPrediction:
    said = answer.strip()
    if said == NO_ANSWER:
        return SpanPrediction(id=example.id, text="", no_answer_score=1.0)
    return SpanPrediction(id=example.id, text=said)


# For multiple-choice tasks, the output is the name of the option; for ReCoRD, it is the entity.


def _choice_cast(task: ChoiceTask) -> Cast:
    match task.name:
        case "superglue/record":
            return Cast(
                words=_record_words, targets=_record_targets, read=_read_entity, rows=_each_answer
            )
        case "superglue/copa":
            return _named_cast(_copa_words, "False", "True")
    return _named_cast(_choice_words(task))


def _each_answer(example: ChoiceExample) -> tuple[ChoiceExample, ...]:
    gold = example.gold or ()
    return tuple(replace(example, gold=(one,)) for one in gold) if len(gold) > 1 else (example,)


def _named_cast(words: Callable[[ChoiceExample], str], *names: str) -> Cast:
    """Create a conversion whose outputs are the names of the options.

    By default the names are "choice1", "choice2" and so on.
    """

    def named(example: ChoiceExample) -> tuple[str, ...]:
        return names or tuple(f"choice{number + 1}" for number in range(len(example.options)))

    def targets(example: ChoiceExample) -> tuple[str, ...]:
        return tuple(named(example)[option] for option in example.gold or ())

    def read(answer: str, example: ChoiceExample) -> ChoicePrediction:
        said, known = answer.strip(), named(example)
        if said in known:
            return ChoicePrediction(id=example.id, option=known.index(said))
        return ChoicePrediction(id=example.id, option=-1, text=answer)

    return Cast(words=words, targets=targets, read=read, answers=names, rows=_each_answer)


_ASKED = {question: word for word, question in COPA_QUESTIONS.items()}


def _options(example: ChoiceExample) -> str:
    return " ".join(f"choice{number + 1}: {o}" for number, o in enumerate(example.options))


def _copa_words(example: ChoiceExample) -> str:
    asked = _ASKED[example.question]
    return f"copa {_options(example)} premise: {example.context} question: {asked}"


def _choice_words(task: ChoiceTask) -> Callable[[ChoiceExample], str]:
    """Return a function that formats the input of RACE, SWAG and other tasks that T5 lacks.

    The context comes last, so that truncation removes the end of the context.
    """
    name = task.name.partition("/")[0]

    def words(example: ChoiceExample) -> str:
        question = f"question: {example.question} " if example.question else ""
        return f"{name} {question}{_options(example)} context: {example.context}"

    return words


_HIGHLIGHT, _AFTER_STOP = "\n@highlight\n", re.compile("([.?!\"'])\n@highlight\n")


def _record_words(example: ChoiceExample) -> str:
    """Return the input text of a ReCoRD example: its query, entities and passage.

    The markup of the passage's highlights is replaced by full stops.
    """
    passage = _AFTER_STOP.sub(r"\1 ", example.context).replace(_HIGHLIGHT, ". ")
    entities = ", ".join(example.options)
    return f"record query: {example.question} entities: {entities} passage: {passage}"


def _record_targets(example: ChoiceExample) -> tuple[str, ...]:
    return tuple(example.options[option] for option in example.gold or ())


def _read_entity(answer: str, example: ChoiceExample) -> ChoicePrediction:
    said = answer.strip()
    if said in example.options:
        return ChoicePrediction(id=example.id, option=example.options.index(said))
    return ChoicePrediction(id=example.id, option=-1, text=said)


_CASTS: Mapping[str, Callable[[Any], Cast]] = {
    "class": _pair_cast,
    "number": _number_cast,
    "span": _span_cast,
    "choice": _choice_cast,
}
"""Functions that create the conversion of a task, keyed by `Task.kind`."""
