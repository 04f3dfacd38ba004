"""Read and write files with the semantic roles and the clusters of CoNLL-2012.

Files of roles are for srl-eval.pl: the first column has the predicates, and there is one more
column per predicate of the sentence. Files of clusters are for scorer.pl, which compares their last
column with that of the official *_gold_conll file. There is no evaluation server, because the
labels are public.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.conll2012.columns import chain_mentions, role_tags
from benchharness.extensions.conll2012.task import (
    ClusterPrediction,
    Clusters,
    CorefTask,
    DocumentExample,
    Mention,
)
from benchharness.extensions.submission.answer_file import (
    Form,
    Layout,
    PredictionFile,
    Tags,
    text_of,
)
from benchharness.extensions.submission.columns import check_sentences, column_of
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import RoleExample, TagPrediction
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import Word, sentences_of
from benchharness.tasks.task import RoleTask

OUTSIDE = "O"

# Read semantic roles in the format of srl-eval.pl, and clusters in that of scorer.pl.


def read_roles(path: Path, task: RoleTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read a prediction file of semantic roles, in the format of srl-eval.pl.

    As in srl-eval.pl, a predicate that the file lacks has no arguments, and predictions for words
    that are not predicates are ignored. Sentences without predicates are optional.

    Args:
        path: Path of the file.
        task: The task, which determines the known roles.
        rows: The examples of the split; an example is a predicate in a sentence.
        _: Not used.

    Raises:
        DataError: The file is malformed, or its sentences differ from those of the examples.
    """
    text, notes = text_of(path)
    examples: Sequence[Any] = rows.examples
    asked = [list(group) for _, group in groupby(examples, key=lambda example: example.sentence)]
    # The first column is "-" except for predicates, e.g. "- (ARG0*)", "sees (V*)", "- (ARG1*)".
    told = [s for s in sentences_of(text.split("\n")) if any(w.columns[0] != "-" for w in s)]
    check_sentences(path, told, "sentences with predicates", [group[0] for group in asked])
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
        predicate: tuple(role_tags(column_of(sentence, number), place))
        for number, predicate in enumerate(predicates, start=1)
    }
    if unknown := {tag for tags in found.values() for tag in tags} - set(task.tags):
        raise DataError(
            f"{place} has the role {min(unknown)[2:]!r}, which does not exist in {task.name}."
        )
    return found


BEGIN = re.compile(r"#begin document \((.*)\); part (\d+)")
"""Pattern of a line with which a document begins: "#begin document (bc/cctv/00/cctv_0000); part
000".
"""


def read_clusters(path: Path, task: CorefTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read a prediction file of coreference, whose last column has the predicted clusters.

    If the file repeats a gold mention, only the first occurrence is kept, as in scorer.pl.

    Args:
        path: Path of the file.
        task: Coreference task.
        rows: The documents of the split.
        _: Not used.

    Raises:
        DataError: The file is malformed, its documents or words differ from those of the examples,
            or it repeats too many gold mentions.
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
    for fault, odd in (
        ("lacks documents", known - documents.keys()),
        ("has unknown documents", documents.keys() - known),
    ):
        if odd:
            raise DataError(
                f"{path} {fault}, such as {min(odd)} ({len(odd)} in all): expected each document "
                f"of {task.name} once."
            )
    read = [_read_chains(path, e, documents[e.id]) for e in examples]
    once = [_once(chains, e.clusters or ()) for chains, e in zip(read, examples, strict=True)]
    predictions = tuple(
        ClusterPrediction(id=e.id, clusters=found) for e, found in zip(examples, once, strict=True)
    )
    again = sum(map(_mentions_of, read)) - sum(map(_mentions_of, once))
    return PredictionFile(predictions=predictions, notes=(*notes, *_said_of(path, again)))


MOST_AGAIN = 10
"""Maximum number of repeated gold mentions in a file that scorer.pl 8.01 accepts (function
IdentifMentions of CorScorer.pm).
"""


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
    for chain, first, last in chain_mentions(column_of(lines, -1), f"{path} line {lines[0].line}"):
        chains.setdefault(chain, []).append((first, last + 1))
    return tuple(tuple(sorted(cluster)) for cluster in chains.values())


WORD_COLUMN = 3
"""Index of the column with the words in official files."""


# Write roles and clusters.


def write_roles(predictions: Sequence[TagPrediction], examples: Sequence[RoleExample]) -> bytes:
    """Return the bytes of a prediction file of semantic roles for srl-eval.pl.

    The first column has the predicates as they are written in the text. The gold file needs the
    same first column, so it must be written by this function too.

    Args:
        predictions: The predicted or gold tags of each example.
        examples: The examples; an example is a predicate in a sentence.
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
    """Return the bytes of a response file for scorer.pl.

    Args:
        predictions: The predicted clusters of each document.
        examples: Documents with the gold clusters.
    """
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


ROLES = Layout(read=read_roles)
"""Reader of prediction files with semantic roles for `bench score`."""

CLUSTERS = Layout(read=read_clusters)
"""Reader of prediction files with coreference clusters for `bench score`."""


def _conll2012(task: Any, predictions: Any, examples: Any, _: Any) -> Mapping[str, bytes]:
    if task.kind == "coref":
        return {"response.conll": write_clusters(predictions, examples)}
    gold = [each for example in examples for each in answer_type(task).golds(example)]
    return {
        "predicted.props": write_roles(predictions, examples),
        "gold.props": write_roles(gold, examples),
    }


SUBMISSION = Form(split="test", write=_conll2012, needs_rows=True)
"""Form of the prediction files that the official scripts of both tasks read."""
