"""Read and write CoNLL's columns, with one word per line: tags, semantic roles and clusters.

In files of tags (CoNLL-2003) and clusters (CoNLL-2012), the last column is the prediction. Files of
roles (CoNLL-2012) are for srl-eval.pl: the first column has the predicates, and there is one more
column per predicate of the sentence. Files of clusters are for scorer.pl, which compares them with
the official *_gold_conll file. There is no server for roles and clusters, because their labels are
public.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.answer_file import PredictionFile, Tags, text_of
from benchharness.tasks.examples import (
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
    RoleExample,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.metrics.entities import are_entity_tags, is_iob1, to_iob1, to_iob2
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import (
    DOCUMENT,
    Word,
    chain_mentions,
    role_tags,
    sentences_of,
)
from benchharness.tasks.task import CorefTask, RoleTask, TagTask

OUTSIDE = "O"

# Files of tags have one word per line, with the predicted tag in the last column, and an empty line
# between sentences.


def read_columns(path: Path, task: TagTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted tags of every sentence, and convert entity tags to IOB2.

    If the file contains words, they must equal those of the examples, so that tags cannot be
    assigned to the wrong words. Raises DataError if words or sentences differ, or if a tag is
    unknown.
    """
    text, notes = text_of(path)
    sentences = list(sentences_of(text.split("\n")))
    examples: Sequence[Any] = rows.examples
    own = [sentence for sentence in sentences if sentence[0].columns[0] != DOCUMENT]
    _check_sentences(path, own, "sentences", examples)
    predictions = tuple(
        TagPrediction(id=example.id, tags=_tags(path, task, sentence, example))
        for sentence, example in zip(own, examples, strict=True)
    )
    is_iob = are_entity_tags(task.tags)  # conlleval accepts only entity tags
    columns = tuple(_columns(task, sentences, examples)) if is_iob else ()
    return PredictionFile(predictions=predictions, notes=notes, columns=columns)


def _check_sentences(
    path: Path, found: Sequence[Sequence[Word]], noun: str, examples: Sequence[Any]
) -> None:
    """Raise DataError if the number of sentences, or the length of a sentence, differs."""
    if len(found) != len(examples):
        raise DataError(
            f"{path} has {len(found)} {noun}, expected {len(examples)}: put an empty line after "
            "each, and leave none out."
        )
    for sentence, example in zip(found, examples, strict=True):
        if len(sentence) != len(example.words):
            raise DataError(
                f"{path} line {sentence[0].line} starts a sentence with {len(sentence)} words, "
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
        tags = tuple(columns[-1] for _, columns in sentence)
        return to_iob2(tags) if are_entity_tags(task.tags) else tags
    except BenchError as error:
        raise DataError(f"{path} line {sentence[0].line}: {error}") from error


def _columns(
    task: TagTask, sentences: Sequence[Sequence[Word]], examples: Sequence[TagExample]
) -> Iterator[tuple[Tags, Tags]]:
    """Yield the predicted and the gold tags of each sentence, as conlleval reads them in the file.

    If the second-to-last column has the gold tags, they are taken from it, and lines that begin a
    document are yielded too. Otherwise, gold tags are taken from the examples, and are converted to
    IOB1 if the predictions use IOB1.
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
"""Minimum number of columns in a file with gold tags: the word, its gold tag, its predicted tag."""


def _column(sentence: Sequence[Word], place: int) -> Tags:
    return tuple(word.columns[place] for word in sentence)


def _has_gold(task: TagTask, sentence: Sequence[Word], example: TagExample) -> bool:
    """Return whether the second-to-last column has the gold tags of the example."""
    if any(len(word.columns) < WITH_GOLD for word in sentence):
        return False
    found = _column(sentence, -2)
    return set(found) <= set(task.tags) and to_iob2(found) == to_iob2(example.tags or ())


# Read semantic roles in the format of srl-eval.pl, and clusters in that of scorer.pl.


def read_roles(path: Path, task: RoleTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted arguments of every predicate from the predicate's column.

    As in srl-eval.pl, a predicate that the file lacks has no arguments, and predictions for words
    that are not predicates are ignored. The file may contain or omit sentences without predicates.
    """
    text, notes = text_of(path)
    examples: Sequence[Any] = rows.examples
    asked = [list(group) for _, group in groupby(examples, key=lambda example: example.sentence)]
    # The first column is "-" except for predicates, e.g. "- (ARG0*)", "sees (V*)", "- (ARG1*)".
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


def _role_columns(path: Path, task: RoleTask, sentence: Sequence[Word]) -> Mapping[int, Tags]:
    """Return the tags of each predicate's arguments, keyed by the index of the predicate's word."""
    place = f"{path} line {sentence[0].line}"
    predicates = [n for n, word in enumerate(sentence) if word.columns[0] != "-"]
    for line, columns in sentence:
        if len(columns) != len(predicates) + 1:
            raise DataError(
                f"{path} line {line} has {len(columns)} columns, expected {len(predicates) + 1}: "
                "one with the predicate or '-', and one per predicate in the sentence."
            )
    found = {
        predicate: tuple(role_tags(_column(sentence, number), place))
        for number, predicate in enumerate(predicates, start=1)
    }
    if unknown := {tag for tags in found.values() for tag in tags} - set(task.tags):
        raise DataError(
            f"{place} has the role {min(unknown)[2:]!r}, which does not exist in {task.name}."
        )
    return found


# Matches e.g. "#begin document (bc/cctv/00/cctv_0000); part 000".
BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")


def read_clusters(path: Path, task: CorefTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted clusters of every document from the last column of the file.

    Gold mentions that are repeated are dropped, as in scorer.pl. Raises DataError if documents or
    words differ from those of the examples, or if too many gold mentions are repeated.
    """
    text, notes = text_of(path)
    documents: dict[str, list[Word]] = {}
    words: list[Word] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if begun := BEGIN.match(line):
            # A document's part number may be "0" or "000" in files; in ids it has three digits.
            name = f"{begun[1]}/{int(begun[2]):03}"
            if name in documents:
                raise DataError(f"{path} line {number} repeats the document {name}.")
            words = documents[name] = []
        elif line.strip() and not line.startswith("#"):
            words.append(Word(number, line.split()))
    examples: Sequence[Any] = rows.examples
    known = {example.id for example in examples}
    for kind, odd in (("lacks", known - documents.keys()), ("has", documents.keys() - known)):
        if odd:
            raise DataError(
                f"{path} {kind} the document {min(odd)} ({len(odd)} such documents): expected "
                f"each document of {task.name} once."
            )
    read = [_read_chains(path, e, documents[e.id]) for e in examples]
    once = [_once(chains, e.clusters or ()) for chains, e in zip(read, examples, strict=True)]
    predictions = tuple(
        ClusterPrediction(id=e.id, clusters=found) for e, found in zip(examples, once, strict=True)
    )
    again = sum(map(_mentions_of, read)) - sum(map(_mentions_of, once))
    return PredictionFile(predictions=predictions, notes=(*notes, *_said_of(path, again)))


MOST_AGAIN = 10
"""Maximum number of repeated gold mentions that scorer.pl 8.01 accepts in a file (CorScorer.pm,
IdentifMentions)."""


def _said_of(path: Path, again: int) -> Iterator[str]:
    """Yield a note if the file repeats gold mentions; raise DataError if there are too many."""
    if again > MOST_AGAIN:
        raise DataError(
            f"{path} repeats {again} gold mentions, but scorer.pl accepts at most {MOST_AGAIN} "
            "repetitions: put each mention in only one chain."
        )
    if again:
        yield f"repeated gold mentions are ignored, as in scorer.pl: {again}"


def _mentions_of(chains: Clusters) -> int:
    return sum(map(len, chains))


def _once(chains: Clusters, gold: Clusters) -> Clusters:
    """Return the clusters without repeated gold mentions; other mentions are not changed."""
    right, seen = {mention for chain in gold for mention in chain}, set[Mention]()
    found = list[tuple[Mention, ...]]()
    for chain in chains:
        kept = list[Mention]()
        for mention in chain:
            if mention not in seen:
                kept.append(mention)
            if mention in right:
                seen.add(mention)
        found.append(tuple(kept))
    return tuple(filter(None, found))


def _read_chains(path: Path, example: DocumentExample, lines: Sequence[Word]) -> Clusters:
    if len(lines) != len(example.words):
        raise DataError(
            f"{path} has {len(lines)} words in the document {example.id}, expected "
            f"{len(example.words)}."
        )
    for (line, columns), word in zip(lines, example.words, strict=True):
        # In official files, the fourth column is the word, and some words begin with a slash.
        if len(columns) > WORD_COLUMN + 1 and columns[WORD_COLUMN] not in (word, f"/{word}"):
            raise DataError(
                f"{path} line {line} has the word {columns[WORD_COLUMN]!r}, expected {word!r}."
            )
    chains: dict[int, list[Mention]] = {}
    for chain, first, last in chain_mentions(_column(lines, -1), f"{path} line {lines[0].line}"):
        chains.setdefault(chain, []).append((first, last + 1))
    return tuple(tuple(sorted(cluster)) for cluster in chains.values())


WORD_COLUMN = 3


# Write roles and clusters.


def write_roles(predictions: Sequence[TagPrediction], examples: Sequence[RoleExample]) -> bytes:
    """Return the bytes of a file with semantic roles ("(ARG0*", "*", "*)") for srl-eval.pl.

    The first column has the predicates as they are written in the text, so the gold file must be
    written by this function too.
    """
    pairs = zip(examples, predictions, strict=True)
    lines = (
        line
        for _, group in groupby(pairs, key=lambda pair: pair[0].sentence)
        for line in _role_lines(list(group))
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _role_lines(group: list[tuple[RoleExample, TagPrediction]]) -> Iterator[str]:
    group.sort(key=lambda pair: pair[0].predicate)
    verbs = {example.predicate for example, _ in group}
    columns = [list(_start_end(prediction.tags)) for _, prediction in group]
    for place, word in enumerate(group[0][0].words):
        verb = word if place in verbs else "-"
        yield " ".join([verb, *(column[place] for column in columns)])
    yield ""


def _start_end(tags: Sequence[str]) -> Iterator[str]:
    """Convert IOB2 tags to the cells of a column, e.g. "(ARG0*", "*" and "*)"."""
    for tag, after in zip(tags, [*tags[1:], OUTSIDE], strict=True):
        prefix, _, role = tag.partition("-")
        # An argument ends at a word if the next word does not continue it.
        ends = tag != OUTSIDE and after != f"I-{role}"
        yield f"{'(' + role if prefix == 'B' else ''}*{')' if ends else ''}"


def write_clusters(
    predictions: Sequence[ClusterPrediction], examples: Sequence[DocumentExample]
) -> bytes:
    """Return the bytes of a response file with predicted clusters for scorer.pl."""
    lines = (
        line
        for example, prediction in zip(examples, predictions, strict=True)
        for line in _document_lines(example, prediction.clusters)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _document_lines(example: DocumentExample, clusters: Clusters) -> Iterator[str]:
    name, _, part = example.id.rpartition("/")
    marks: list[list[str]] = [[] for _ in example.words]
    # At each word, the longest mention is opened first, and the shortest mention is closed first.
    numbered = [(a, b, n) for n, cluster in enumerate(clusters) for a, b in cluster]
    for start, end, number in sorted(numbered, key=lambda mention: (mention[0], -mention[1])):
        if end == start + 1:
            marks[start].append(f"({number})")
        else:
            marks[start].append(f"({number}")
    for start, end, number in sorted(numbered, key=lambda mention: -mention[0]):
        if end > start + 1:
            marks[end - 1].append(f"{number})")
    yield f"#begin document ({name}); part {part}"
    place = 0
    for sentence in example.sentences:
        for number, word in enumerate(sentence):
            chain = "|".join(marks[place]) or "-"
            yield "\t".join([name, str(int(part)), str(number), word, chain])
            place += 1
        yield ""
    yield "#end document"
