"""Read and write columns with a word per line: CoNLL-2003's tags, CoNLL-2012's roles and clusters.

The last column of tags and clusters is the prediction. Roles are columns for srl-eval.pl, which
compares two such files: the predicates, and a column for each predicate of a sentence. Clusters are
columns for scorer.pl, whose key is the official *_gold_conll file. No server takes roles or
clusters, because the labels are public.
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

# CoNLL's columns: a word per line, its predicted tag last, and an empty line between sentences.


def read_columns(path: Path, task: TagTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted tags of every sentence, and convert them from IOB1 to IOB2.

    The words, if the file has them, must be the words of the examples, so that no tag is taken for
    the tag of another word. Raises DataError for other words, sentences or tags.
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
    is_iob = are_entity_tags(task.tags)  # conlleval counts nothing else
    columns = tuple(_columns(task, sentences, examples)) if is_iob else ()
    return PredictionFile(predictions=predictions, notes=notes, columns=columns)


def _check_sentences(
    path: Path, found: Sequence[Sequence[Word]], noun: str, examples: Sequence[Any]
) -> None:
    """Raise DataError for another number of sentences, or a sentence of another length."""
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
        tags = tuple(columns[-1] for _, columns in sentence)
        return to_iob2(tags) if are_entity_tags(task.tags) else tags
    except BenchError as error:
        raise DataError(f"{path} line {sentence[0].line}: {error}") from error


def _columns(
    task: TagTask, sentences: Sequence[Sequence[Word]], examples: Sequence[TagExample]
) -> Iterator[tuple[Tags, Tags]]:
    """Yield the predicted and gold tags that conlleval reads in the file, sentence by sentence.

    If the column before the last does not have the gold tags, they are those of the examples, in
    IOB1 if the predictions are. Document lines are included if the file has the gold tags.
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
"""Minimum number of columns of a file with gold tags: a word, its gold tag, its predicted tag."""


def _column(sentence: Sequence[Word], place: int) -> Tags:
    return tuple(word.columns[place] for word in sentence)


def _has_gold(task: TagTask, sentence: Sequence[Word], example: TagExample) -> bool:
    """Return whether the column before the last has the gold tags, in IOB1 or IOB2."""
    if any(len(word.columns) < WITH_GOLD for word in sentence):
        return False
    found = _column(sentence, -2)
    return set(found) <= set(task.tags) and to_iob2(found) == to_iob2(example.tags or ())


# CoNLL-2012's columns: roles as srl-eval.pl takes them, clusters as scorer.pl does.


def read_roles(path: Path, task: RoleTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted arguments of every predicate from its column in the sentence.

    As in the script, a predicate that the file lacks has no arguments, and a word that is not a
    predicate is skipped. Sentences without a predicate may be in the file or not.
    """
    text, notes = text_of(path)
    examples: Sequence[Any] = rows.examples
    asked = [list(group) for _, group in groupby(examples, key=lambda example: example.sentence)]
    # "- (ARG0*)", "sees (V*)", "- (ARG1*)": the first column is "-" except for a predicate.
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
    """Return the tags of each predicate, by the index of its word."""
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


# "#begin document (bc/cctv/00/cctv_0000); part 000".
BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")


def read_clusters(path: Path, task: CorefTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the predicted clusters of every document from the last column of its lines."""
    text, notes = text_of(path)
    documents: dict[str, list[Word]] = {}
    words: list[Word] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if begun := BEGIN.match(line):
            # A part may be written as "0" or as "000"; ids have three digits.
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
    read = [_read_chains(path, e, documents[e.id]) for e in examples]
    once = [_once(chains, e.clusters or ()) for chains, e in zip(read, examples, strict=True)]
    predictions = tuple(
        ClusterPrediction(id=e.id, clusters=found) for e, found in zip(examples, once, strict=True)
    )
    again = sum(map(_mentions_of, read)) - sum(map(_mentions_of, once))
    return PredictionFile(predictions=predictions, notes=(*notes, *_said_of(path, again)))


MOST_AGAIN = 10
"""Maximum number of repeated gold mentions in a file for scorer.pl 8.01 (CorScorer.pm,
IdentifMentions)."""


def _said_of(path: Path, again: int) -> Iterator[str]:
    """Yield a note if gold mentions are repeated; raise DataError if too many are."""
    if again > MOST_AGAIN:
        raise DataError(
            f"{path} has {again} gold mentions again, and scorer.pl takes at most {MOST_AGAIN}: "
            "expected each in one chain."
        )
    if again:
        yield f"gold mentions that stand again are left out, as by scorer.pl: {again}"


def _mentions_of(chains: Clusters) -> int:
    return sum(map(len, chains))


def _once(chains: Clusters, gold: Clusters) -> Clusters:
    """Return the chains with each gold mention only at its first place; other mentions are kept."""
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
    return tuple(tuple(sorted(cluster)) for cluster in chains.values())


WORD_COLUMN = 3


# The same files, written.


def write_roles(predictions: Sequence[TagPrediction], examples: Sequence[RoleExample]) -> bytes:
    """Return a file for srl-eval.pl ("(ARG0*", "*", "*)") with the predictions of these examples.

    The first column has the predicate's word, so the gold file must be written in this way too.
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
    """Yield the cells of a column for IOB2 tags."""
    for tag, after in zip(tags, [*tags[1:], OUTSIDE], strict=True):
        prefix, _, role = tag.partition("-")
        # An argument ends with its word if the next word does not continue it.
        ends = tag != OUTSIDE and after != f"I-{role}"
        yield f"{'(' + role if prefix == 'B' else ''}*{')' if ends else ''}"


def write_clusters(
    predictions: Sequence[ClusterPrediction], examples: Sequence[DocumentExample]
) -> bytes:
    """Return a response for scorer.pl with the predictions of these examples, in their order."""
    lines = (
        line
        for example, prediction in zip(examples, predictions, strict=True)
        for line in _document_lines(example, prediction.clusters)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _document_lines(example: DocumentExample, clusters: Clusters) -> Iterator[str]:
    name, _, part = example.id.rpartition("/")
    marks: list[list[str]] = [[] for _ in example.words]
    # Of several mentions at a word the longest begins first, and the shortest ends first.
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
