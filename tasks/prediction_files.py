"""Prediction files that anyone made, read for a split whose labels are known."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from benchharness.tasks.answers import AnswerType, answer_type
from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import (
    ChoicePrediction,
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
    Prediction,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.metrics.entities import (
    is_iob1,
    official_conlleval,
    tag_accuracy,
    to_iob1,
    to_iob2,
)
from benchharness.tasks.metrics.reading import official_coqa, official_hotpotqa, official_quac
from benchharness.tasks.metrics.squad import normalise, official_v1, official_v2, swept_in_order
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import (
    DOCUMENT,
    Word,
    chain_mentions,
    content_of,
    role_tags,
    sentences_of,
)
from benchharness.tasks.submission import SUBMISSIONS, read_answer_file
from benchharness.tasks.submission.answer_file import (
    AnswerFile,
    Answers,
    Fault,
    Faults,
    Labels,
    Number,
    Text,
    decoded,
)
from benchharness.tasks.submission.json_lines import Option
from benchharness.tasks.submission.questions import read_answers, read_conversations
from benchharness.tasks.submission.table import LETTERS, RACE_HEADER
from benchharness.tasks.task import CorefTask, RoleTask, SpanTask, TagTask, Task

SHOWN = 3
"""Faults that an error names."""

Tags = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """One prediction for each example, in order, and what had to be read leniently to get them.

    `left_out` counts missing rows whose predictions do not say so. `sweep_order` are the question
    ids in the order of the no-answer scores, which decides between equal ones where SQuAD's script
    looks for the best threshold. `columns` are CoNLL's last two, gold and predicted tags, by
    sentence.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    left_out: int = 0
    sweep_order: tuple[str, ...] | None = None
    columns: tuple[tuple[Tags, Tags], ...] = ()

    @property
    def missing(self) -> int:
        """How many rows the file leaves out."""
        return self.left_out + sum(bool(getattr(p, "missing", False)) for p in self.predictions)


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """SQuAD 2.0's no-answer scores, and the threshold above which they mean "no answer".

    Without a `file` every score is 0, without a `threshold` it is `THRESHOLD`: so does
    evaluate-v2.0.py.
    """

    file: Path | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise BenchError(
                f"the no-answer threshold is {self.threshold}, expected a finite number: a large "
                "one, such as 1e9, lets every answer stand."
            )


THRESHOLD = 1.0
"""Of evaluate-v2.0.py: a probability never exceeds it."""


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Notes of the faults that leave no doubt; DataError where one does."""
    doubts = [str(fault) for fault in faults if not fault.mendable]
    if doubts:
        rest = len(doubts) - SHOWN
        more = f" (and {rest} more {'fault' if rest == 1 else 'faults'})" if rest > 0 else ""
        raise DataError(f"{path} cannot be scored: {'; '.join(doubts[:SHOWN])}{more}.")
    return tuple(str(fault) for fault in faults)


def _decoded(path: Path) -> tuple[str, tuple[str, ...]]:
    """A file's text, with notes; DataError where it is none."""
    faults = Faults(path.name)
    text = decoded(content_of(path), faults)
    return text or "", require_clear(path, faults.all())


# SQuAD's predictions.json, with na_prob.json or null_odds.json beside it or without.


def read_spans(path: Path, task: SpanTask, rows: SplitRows, no_answer: NoAnswer) -> PredictionFile:
    """Each question's answer, "" for none, with its no-answer score or 0 where there are none.

    Of a task whose questions all have answers some may be missing, as for evaluate-v1.1.py.
    """
    ids = [example.id for example in rows.examples]
    content = content_of(path)
    reading = read_answers(
        path.name, content, ids, kind="texts", missing_are_wrong=not task.no_answer
    )
    notes = require_clear(path, reading.faults)
    answers, listed = dict(reading.answers or ()), reading.no_answer_scores
    if listed is not None and not task.no_answer:
        raise DataError(f"{path} has no-answer probabilities, which {task.name} does not take.")
    if listed is not None and no_answer.file is not None:
        raise DataError(
            f"{path} has no-answer probabilities of its own, and {no_answer.file} has others: "
            "leave one of them out."
        )
    scores = None if listed is None else dict(listed)
    if no_answer.file is not None:
        odds = read_answers(no_answer.file.name, content_of(no_answer.file), ids, kind="scores")
        notes += require_clear(no_answer.file, odds.faults)
        scores = dict(odds.answers or ())
    threshold = no_answer.threshold
    if threshold is None:  # without any score every answer stands, as at the threshold of a model
        threshold = 0.0 if scores is None else THRESHOLD
    predictions = tuple(
        SpanPrediction(
            id=name,
            text=answers.get(name, ""),
            no_answer_score=0.0 if scores is None else scores[name],
            threshold=threshold,
            missing=name not in answers,
        )
        for name in ids
    )
    return PredictionFile(
        predictions=predictions,
        notes=notes,
        sweep_order=None if scores is None else tuple(scores),
    )


# QuAC's lines of dialogs, CoQA's list of turns, HotpotQA's answers and supporting facts.


def read_questions(path: Path, task: SpanTask, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Each question's answer, and what the task asks beside it; missing ones count as wrong."""
    examples: Sequence[Any] = rows.examples
    reading = read_conversations(path.name, content_of(path), task.files, examples)
    notes = require_clear(path, reading.faults)
    answers = dict(reading.answers or ())
    predictions = tuple(
        answers.get(e.id) or SpanPrediction(id=e.id, text="", missing=True) for e in examples
    )
    return PredictionFile(predictions=predictions, notes=notes)


# CoNLL's columns: a word a line, the last column its predicted tag, an empty line in between.


def read_columns(path: Path, task: TagTask, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """The predicted tags of every sentence, in IOB1 or IOB2, as IOB2.

    The words, where there is a column of them, must be those of the examples, so that no tag is
    taken for that of another word.
    """
    text, notes = _decoded(path)
    sentences = list(sentences_of(text.split("\n")))
    examples: Sequence[Any] = rows.examples
    own = [sentence for sentence in sentences if sentence[0].columns[0] != DOCUMENT]
    _check_sentences(path, own, "sentences", examples)
    predictions = tuple(
        TagPrediction(id=example.id, tags=_tags(path, task, sentence, example))
        for sentence, example in zip(own, examples, strict=True)
    )
    columns = tuple(_columns(task, sentences, examples))
    return PredictionFile(predictions=predictions, notes=notes, columns=columns)


def _check_sentences(
    path: Path, found: Sequence[Sequence[Word]], noun: str, examples: Sequence[Any]
) -> None:
    """DataError where there are other sentences than the examples', or of other lengths."""
    if len(found) != len(examples):
        raise DataError(
            f"{path} has {len(found)} {noun}, expected {len(examples)}: an empty line ends each, "
            "and none may be left out."
        )
    for sentence, example in zip(found, examples, strict=True):
        if len(sentence) != len(example.words):
            raise DataError(
                f"{path} line {sentence[0].line} begins a sentence of {len(sentence)} words, "
                f"expected {len(example.words)}: {' '.join(example.words[:8])} ..."
            )


def _tags(path: Path, task: TagTask, sentence: Sequence[Word], example: TagExample) -> Tags:
    for (line, columns), expected in zip(sentence, example.words, strict=True):
        word, tag = columns[0], columns[-1]
        if len(columns) > 1 and word != expected:
            raise DataError(f"{path} line {line} has the word {word!r}, expected {expected!r}.")
        if tag not in task.tags:
            known = ", ".join(task.tags)
            raise DataError(f"{path} line {line} has the tag {tag!r}, expected one of {known}.")
    try:
        return to_iob2([columns[-1] for _, columns in sentence])
    except BenchError as error:
        raise DataError(f"{path} line {sentence[0].line}: {error}") from error


def _columns(
    task: TagTask, sentences: Sequence[Sequence[Word]], examples: Sequence[TagExample]
) -> Iterator[tuple[Tags, Tags]]:
    """The predicted and gold tags that conlleval reads in the file, sentence by sentence.

    Where the column before the last is not the gold one, the examples' tags stand for it, in IOB1
    if the predictions are in it. A document's line counts where the file has the gold column.
    """
    own = [sentence for sentence in sentences if sentence[0].columns[0] != DOCUMENT]
    if all(_has_gold(task, sentence, e) for sentence, e in zip(own, examples, strict=True)):
        for sentence in sentences:
            if len(sentence[0].columns) >= WITH_GOLD:
                yield _column(sentence, -1), _column(sentence, -2)
        return
    guesses = [_column(sentence, -1) for sentence in own]
    convert = to_iob1 if all(map(is_iob1, guesses)) else to_iob2
    for guess, example in zip(guesses, examples, strict=True):
        yield guess, convert(example.tags or ())


WITH_GOLD = 3
"""Columns at least: a word, its gold tag, its predicted one."""


def _column(sentence: Sequence[Word], place: int) -> Tags:
    return tuple(word.columns[place] for word in sentence)


def _has_gold(task: TagTask, sentence: Sequence[Word], example: TagExample) -> bool:
    """Whether the column before the last has the gold tags, in IOB1 or IOB2."""
    if any(len(word.columns) < WITH_GOLD for word in sentence):
        return False
    found = _column(sentence, -2)
    return set(found) <= set(task.tags) and to_iob2(found) == to_iob2(example.tags or ())


# CoNLL-2012's columns: roles as srl-eval.pl takes them, clusters as scorer.pl does.


def read_roles(path: Path, task: RoleTask, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """The predicted arguments of every predicate: of a sentence's predicates, a column each.

    A predicate that the file leaves out has no argument, and one that is none is skipped, as the
    script does both. Sentences without a predicate may stand in the file or not.
    """
    text, notes = _decoded(path)
    examples: Sequence[Any] = rows.examples
    asked = [list(group) for _, group in groupby(examples, key=lambda example: example.sentence)]
    told = [s for s in sentences_of(text.split("\n")) if any(w.columns[0] != "-" for w in s)]
    _check_sentences(path, told, "sentences with predicates", [group[0] for group in asked])
    predictions, missing = list[TagPrediction](), 0
    for sentence, group in zip(told, asked, strict=True):
        columns = _role_columns(path, task, sentence)
        nothing = (OUTSIDE,) * len(sentence)
        missing += sum(example.predicate not in columns for example in group)
        predictions += [
            TagPrediction(id=example.id, tags=columns.get(example.predicate, nothing))
            for example in group
        ]
    return PredictionFile(predictions=tuple(predictions), notes=notes, left_out=missing)


OUTSIDE = "O"


def _role_columns(path: Path, task: RoleTask, sentence: Sequence[Word]) -> Mapping[int, Tags]:
    """The tags of each predicate, by its place."""
    place = f"{path} line {sentence[0].line}"
    predicates = [n for n, word in enumerate(sentence) if word.columns[0] != "-"]
    for line, columns in sentence:
        if len(columns) != len(predicates) + 1:
            raise DataError(
                f"{path} line {line} has {len(columns)} columns, expected {len(predicates) + 1}: "
                "the predicate or '-', and one for each predicate of the sentence."
            )
    found = {
        predicate: tuple(role_tags(_column(sentence, number), place))
        for number, predicate in enumerate(predicates, start=1)
    }
    if unknown := {tag for tags in found.values() for tag in tags} - set(task.tags):
        raise DataError(f"{place} has the role {min(unknown)[2:]!r}, which {task.name} has not.")
    return found


BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")


def read_clusters(path: Path, task: CorefTask, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """The predicted clusters of every document, from the last column of its lines."""
    text, notes = _decoded(path)
    documents: dict[str, list[Word]] = {}
    words: list[Word] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if begun := BEGIN.match(line):
            name = f"{begun[1]}/{int(begun[2]):03}"
            if name in documents:
                raise DataError(f"{path} line {number} begins the document {name} again.")
            words = documents[name] = []
        elif line.strip() and not line.startswith("#"):
            words.append(Word(number, line.split()))
    examples: Sequence[Any] = rows.examples
    known = {example.id for example in examples}
    for kind, odd in (("lacks", known - documents.keys()), ("has", documents.keys() - known)):
        if odd:
            raise DataError(
                f"{path} {kind} the document {min(odd)} ({len(odd)} such): expected those of "
                f"{task.name}, each once."
            )
    predictions = tuple(
        ClusterPrediction(id=e.id, clusters=_read_chains(path, e, documents[e.id]))
        for e in examples
    )
    return PredictionFile(predictions=predictions, notes=notes)


def _read_chains(path: Path, example: DocumentExample, lines: Sequence[Word]) -> Clusters:
    if len(lines) != len(example.words):
        raise DataError(
            f"{path} has {len(lines)} words of the document {example.id}, expected "
            f"{len(example.words)}."
        )
    for (line, columns), word in zip(lines, example.words, strict=True):
        # With the official columns the fourth is the word, and some have a slash there.
        if len(columns) > WORD_COLUMN + 1 and columns[WORD_COLUMN] not in (word, f"/{word}"):
            raise DataError(
                f"{path} line {line} has the word {columns[WORD_COLUMN]!r}, expected {word!r}."
            )
    chains: dict[int, list[Mention]] = {}
    for chain, first, last in chain_mentions(_column(lines, -1), f"{path} line {lines[0].line}"):
        chains.setdefault(chain, []).append((first, last + 1))
    mentions = [mention for cluster in chains.values() for mention in cluster]
    if len(set(mentions)) < len(mentions):
        raise DataError(
            f"{path} has a mention of the document {example.id} twice: expected each in one chain."
        )
    return tuple(tuple(sorted(cluster)) for cluster in chains.values())


WORD_COLUMN = 3


# One answer a row: GLUE's tables, SuperGLUE's JSON lines, tables of SNLI, SWAG and RACE.

OFFICIAL: Mapping[str, AnswerFile] = {
    file.task: file for submission in SUBMISSIONS.values() for file in submission.files
}
"""The server's file by task; of MNLI's two, which are alike, the second."""


def read_labels(path: Path, task: Task, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """The answer to every example, whatever the file calls it and in whatever order.

    Of ReCoRD some may be missing, as for its script.
    """
    content, kind = content_of(path), answer_type(task)
    file = _file_for(path, task, rows)
    files = [file]
    if isinstance(file.answers, Text):
        files.append(replace(file, missing_are_wrong=True))
    tries = [
        (ids, places, read_answer_file(replace(each, names=names), content, ids))
        for each in files
        for ids, places, names in _numberings(rows)
    ]
    ids, places, reading = next((found for found in tries if found[2].answers), tries[0])
    notes = require_clear(path, reading.faults)
    answers = dict(zip(ids, reading.answers or (), strict=True))
    predictions = tuple(
        _prediction(file, kind, example, answers[place])
        for example, place in zip(rows.examples, places, strict=True)
    )
    return PredictionFile(predictions=predictions, notes=notes)


def _file_for(path: Path, task: Task, rows: SplitRows) -> AnswerFile:
    """How the task's answers are written: as its server wants them, or by their names."""
    file = OFFICIAL.get(task.name) or AnswerFile(
        name=path.name, task=task.name, rows=0, answers=_plain(task, rows), fill=""
    )
    if task.suite == "race":
        file = replace(file, header=RACE_HEADER)
    answers = file.answers
    if isinstance(answers, Number):  # only a submission is clipped
        answers = Number(low=-math.inf, high=math.inf)
    if isinstance(answers, Text):  # ReCoRD's script takes any
        answers = Text(may_be_empty=True)
    is_lines = path.suffix in (".jsonl", ".json")
    lines = file.format if file.format != "tsv" else "jsonl"
    return replace(
        file,
        name=path.name,
        answers=answers,
        format=lines if is_lines else "tsv",
        paragraphs=None,
        questions=None,
    )


def _plain(task: Task, rows: SplitRows) -> Answers:
    """Labels by their names, options from 0 or by RACE's letters, or a regression's number."""
    names = answer_type(task).names(rows.examples)
    if task.suite == "race":
        names = LETTERS[: len(names)]
    return Labels(written={n: n for n in names}) if names else Number(low=-math.inf, high=math.inf)


NUMBERED = re.compile(r"(?:.*-)?(\d+)", re.ASCII)
"""An id that ends in a number: "12" and MultiRC's "3-40-212" are the rows 12 and 212."""

Numbering = tuple[Sequence[int], Sequence[int], Mapping[str, int]]


def _numberings(rows: SplitRows) -> Iterator[Numbering]:
    """The indices that a file may have, the likeliest first, with those of the examples.

    They are the ids; or simply count the rows; or, where the benchmark leaves rows out, they are
    the ids in a file that has the others too. Ids that are words stand for the rows' numbers.
    """
    count = range(len(rows.examples))
    found = [NUMBERED.fullmatch(example.id) for example in rows.examples]
    ids = [int(match[1]) for match in found if match]
    if len(set(ids)) < len(count):
        yield count, count, {example.id: place for place, example in enumerate(rows.examples)}
        yield count, count, {}
        return
    yield ids, ids, {}
    if ids != list(count):
        yield count, count, {}
    if rows.left_out:
        yield range(len(count) + rows.left_out), ids, {}


def _prediction(file: AnswerFile, kind: AnswerType, example: Any, answer: Any) -> Prediction:
    if isinstance(file.answers, Number):
        return kind.from_python(example, answer)
    if isinstance(file.answers, Text):
        option = -1 if answer is None else _option(example.options, answer)
        return ChoicePrediction(id=example.id, option=option, text=answer if option < 0 else None)
    written = answer.label if isinstance(answer, Option) else answer
    names = {str(text): name for name, text in file.answers.written.items()}
    return kind.from_name(example, names[str(written)], list(file.answers.written))


def _option(options: Sequence[str], text: str) -> int:
    """The option that a text is, but for what SQuAD's normalisation takes away; -1 for none."""
    if text in options:
        return options.index(text)
    alike = [normalise(option) for option in options]
    return alike.index(normalise(text)) if normalise(text) in alike else -1


def read_none(path: Path, task: Task, _rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Raises DataError, for answers such as sets of labels, which nobody writes in one way."""
    raise DataError(
        f"{path} cannot be scored: there is no common file for answers to {task.name}; bh.score "
        "takes them in Python."
    )


# What the official scripts print.

Numbers = Mapping[str, float]


Script = Callable[[Any, PredictionFile, Sequence[Any]], tuple[Numbers, Numbers]]
"""`official(task, file, examples)` is what the official script prints, and the scores that only the
file can tell: they depend on the order of equal no-answer scores, or on the scheme of the tags."""


def _squad_script(task: SpanTask, found: Any, examples: Any) -> tuple[Numbers, Numbers]:
    if not task.no_answer:
        return official_v1(found.predictions, examples), {}
    order = found.sweep_order
    own = {} if order is None else swept_in_order(found.predictions, examples, order)
    return official_v2(found.predictions, examples, order), own


def _conlleval(_task: Any, found: PredictionFile, _examples: Any) -> tuple[Numbers, Numbers]:
    official = official_conlleval(found.columns)
    return official, {tag_accuracy.name: official["accuracy"] / 100}


def _printed(script: Callable[[Any, Any], Numbers]) -> Script:
    return lambda _task, found, examples: (script(found.predictions, examples), {})


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A form of prediction files.

    The `official` numbers are in `unit`. `takes_scores` says that no-answer scores may stand in a
    second file.
    """

    read: Callable[[Path, Any, SplitRows, NoAnswer], PredictionFile]
    official: Script = lambda *_: ({}, {})
    unit: str = "in percent"
    takes_scores: bool = False


LABELS = Layout(read=read_labels)

LAYOUTS: Mapping[str, Layout] = {
    "class": LABELS,
    "number": LABELS,
    "choice": LABELS,
    "tag": Layout(read=read_columns, official=_conlleval),
    "role": Layout(read=read_roles),
    "coref": Layout(read=read_clusters),
    "squad": Layout(read=read_spans, official=_squad_script, takes_scores=True),
    "quac": Layout(read=read_questions, official=_printed(official_quac)),
    "coqa": Layout(read=read_questions, official=_printed(official_coqa)),
    "hotpotqa": Layout(
        read=read_questions, official=_printed(official_hotpotqa), unit="from 0 to 1"
    ),
}
"""By the layout that a task names, else by its kind of answer."""


def layout_of(task: Task) -> Layout:
    """How prediction files of a task look."""
    return LAYOUTS.get(getattr(task, "files", task.kind), Layout(read=read_none))


def read_predictions(
    path: Path, task: Task, rows: SplitRows, no_answer: NoAnswer | None = None
) -> PredictionFile:
    """One prediction for each of the split's examples, in their order.

    Tables (GLUE, SNLI, SWAG, RACE), JSON lines (SuperGLUE), SQuAD's predictions.json with the file
    of `no_answer` (na_prob.json) beside it, and CoNLL's columns, the last of which is the
    prediction; roles have a column for each predicate. Raises DataError, naming file, line and
    fault, where it is not clear what was predicted for every example.
    """
    layout = layout_of(task)
    takes_scores = layout.takes_scores and getattr(task, "no_answer", False)
    if no_answer is not None and not takes_scores:
        option = "--na-prob-threshold" if no_answer.file is None else "--na-prob"
        raise DataError(
            f"{task.name} takes no scores of questions without an answer: only SQuAD 2.0 takes "
            f"{option}."
        )
    return layout.read(path, task, rows, no_answer or NoAnswer())
