"""CoNLL-2012: coreference and semantic roles in the English part of OntoNotes 5.0.

The official files require a licence (Pradhan et al., CoNLL 2012).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchharness.extensions.conll2012.columns import document_records
from benchharness.extensions.conll2012.metrics import coreference_details, coreference_f1
from benchharness.extensions.conll2012.task import Clusters, CorefTask, DocumentExample, Mention
from benchharness.tasks.examples import RoleExample
from benchharness.tasks.metrics.entities import (
    argument_f1,
    argument_precision,
    argument_recall,
    perfect_propositions,
)
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import ODDITIES, text, texts
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import RoleTask

CITE = (
    "Pradhan et al., CoNLL-2012 Shared Task: Modeling Multilingual Unrestricted Coreference in "
    "OntoNotes, CoNLL 2012"
)

NUMBERED = ("ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARG5", "ARGA")
"""Numbered roles of PropBank, and ARGA, the role of an agent who causes the action."""
MODIFIERS = (
    *("ADJ", "ADV", "CAU", "COM", "DIR", "DIS", "DSP", "EXT", "GOL", "LOC", "LVB", "MNR"),
    *("MOD", "NEG", "PNC", "PRD", "PRP", "PRR", "PRX", "REC", "TMP"),
)
"""Modifier roles of PropBank that occur in OntoNotes."""

ROLES = (*NUMBERED, *(f"ARGM-{name}" for name in MODIFIERS))
KINDS = ("V", "C-V", *(f"{prefix}{role}" for prefix in ("", "C-", "R-") for role in ROLES))
TAGS = ("O", *(f"{prefix}-{kind}" for kind in KINDS for prefix in "BI"))
"""IOB2 tags of all roles, of their continuations ("C-"), and of references to them ("R-"). The data
do not contain all of these tags.
"""

STOPS = {"/.": ".", "/?": "?"}
"""Replacements for punctuation that OntoNotes writes with a slash. They are the same as in
mandarjoshi90/coref (minimize.py).
"""


def _files(name: str, version: str, folder: str) -> tuple[str, ...]:
    """Return the possible paths of a split: a single concatenated file, or the original folders."""
    deep = f"{folder}/data/english/annotations/*/*/*/*"
    return tuple(
        path
        for ending in ("gold_conll", "auto_conll", "gold_skel", "auto_skel")
        for path in (
            f"{name}.english.{version}_{ending}",
            f"{version}/data/{deep}.{version}_{ending}",
            f"data/{deep}.{ending}",
        )
    )


def _source(arrange: Any, *, is_gold: bool) -> Source:
    """Create the source of a CoNLL-2012 task.

    Args:
        arrange: Function that converts documents to the rows of the task.
        is_gold: True to read no "auto" files, in which the roles are predicted instead of gold.
    """
    files = {
        "train": _files("train", "v4", "train"),
        "validation": _files("dev", "v4", "development"),
        "test": (*_files("test", "v9", "test"), *_files("test", "v4", "test")),
    }
    return Source(
        hub="ontonotes/conll2012_ontonotesv5",
        # The main branch has a loading script, which `datasets` does not run. So this revision is
        # used, in which the hub stores the data as Parquet files.
        config="default",
        revision="refs/convert/parquet",
        hub_folder="english_v4",
        home="conll2012",
        spellings={"conll2012": ("conll12", "ontonotes", "conll-formatted-ontonotes-5.0")},
        read_records=document_records,
        splits={
            "dev" if hub == "validation" else hub: Split(
                hub=hub, files=tuple(p for p in paths if not (is_gold and "auto" in p))
            )
            for hub, paths in files.items()
        },
        columns={"document_id": "document_id", "sentences": "sentences"},
        arrange=arrange,
    )


def _words(sentence: Mapping[str, Any]) -> list[str]:
    return [STOPS.get(word, word) for word in sentence["words"]]


def _parts(rows: Sequence[Row]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield the name and the sentences of each document part; a part counts as a document."""
    for row in rows:
        parts: dict[str, list[Mapping[str, Any]]] = {}
        sentences: Any = row["sentences"]
        for sentence in sentences:
            name = f"{text(row, 'document_id')}/{int(sentence['part_id']):03}"
            parts.setdefault(name, []).append(sentence)
        yield from parts.items()


# Semantic roles: one row per proposition. A proposition is a predicate with its arguments.

PREDICATE = "B-V"
"""Tag of the word that is the predicate."""


def _propositions(rows: Sequence[Row]) -> list[Row]:
    """Return one row of the role task per predicate, in the order of the sentences."""
    found: list[Row] = [
        {
            "name": f"{name}/{place}/{count}",
            "words": _words(sentence),
            "tags": list(frame["frames"]),
        }
        for name, sentences in _parts(rows)
        for place, sentence in enumerate(sentences)
        for count, frame in enumerate(sentence["srl_frames"])
    ]
    if rows and not found:
        raise ValueError("no sentence has a predicate with its arguments")
    return found


def _proposition(row: Row) -> RoleExample:
    tags = texts(row, "tags")
    place = tags.index(PREDICATE) if PREDICATE in tags else -1
    return RoleExample(id=text(row, "name"), words=texts(row, "words"), tags=tags, predicate=place)


def _has_no_predicate(_split: str, example: RoleExample) -> bool:
    """Return whether no word is tagged as the predicate to which the arguments belong."""
    return example.predicate < 0


SRL = RoleTask(
    name="conll2012/srl",
    title="SRL",
    source=_source(_propositions, is_gold=True),
    convert=_proposition,
    metrics=(argument_f1,),
    details=(argument_precision, argument_recall, perfect_propositions),
    leaves_out=_has_no_predicate,
    tags=TAGS,
    cite=CITE,
)

# Coreference: one row per document part, because the parts of a document are annotated
# independently.

GENRES = ("bc", "bn", "mz", "nw", "pt", "tc", "wb")
"""Genres of OntoNotes, which are the first parts of document names: broadcast conversations,
broadcast news, magazines, newswire, the New Testament, telephone conversations and web logs.
"""

NOBODY = "-"
"""Speaker of a sentence without a speaker."""


def _documents(rows: Sequence[Row]) -> list[Row]:
    """Return one row of the coreference task per document part."""
    found: list[Row] = [
        {
            "name": name,
            "sentences": [_words(sentence) for sentence in sentences],
            "speakers": [sentence["speaker"] or NOBODY for sentence in sentences],
            "clusters": _clusters(chains),
            "chains": [[*map(list, chain)] for chain in chains if odd],
            ODDITIES: odd,
        }
        for name, sentences in _parts(rows)
        for chains in [_chains(sentences)]
        for odd in [_odd_chains(chains)]
    ]
    if found and not any(row["clusters"] for row in found):
        raise ValueError("no document has a coreference chain")
    return found


SHARED = "gold chains that share a mention are merged for training, but not for scoring (scorer.pl)"
REPEATED = "mentions that a gold chain repeats count once in training, but repeatedly in scorer.pl"


def _chains(sentences: Sequence[Mapping[str, Any]]) -> list[list[Mention]]:
    """Return the coreference chains of a document as annotated; a chain is a list of mentions.

    The chains are in the order of their first mentions. As in scorer.pl, if several mentions begin
    at the same word, one-word mentions come first, and the others are in the order of the file.
    """
    found: list[tuple[Mention, int]] = []
    first = 0
    for sentence in sentences:
        for chain, start, last in sentence["coref_spans"]:
            found.append(((first + int(start), first + int(last) + 1), int(chain)))
        # The spans in the data count words from the beginning of the sentence, and mentions from
        # the beginning of the document.
        first += len(sentence["words"])
    chains: dict[int, list[Mention]] = {}
    for mention, chain in sorted(found, key=_begin):
        chains.setdefault(chain, []).append(mention)
    return [sorted(chain, key=_mark) for chain in chains.values()]


def _begin(found: tuple[Mention, int]) -> tuple[int, bool]:
    (start, end), _ = found
    return start, end > start + 1


def _mark(mention: Mention) -> tuple[int, bool, int]:
    start, end = mention
    return start, end > start + 1, -end


def _clusters(chains: Sequence[Sequence[Mention]]) -> list[list[list[int]]]:
    """Return the chains without repeated mentions, sorted by position in the document.

    Chains that share a mention are merged, as in mandarjoshi90/coref (minimize.py).
    """
    merged: list[set[Mention]] = []
    for chain in map(set, chains):
        shared = [other for other in merged if not chain.isdisjoint(other)]
        merged = [other for other in merged if other not in shared]
        merged.append(chain.union(*shared))
    return sorted([list(mention) for mention in sorted(chain)] for chain in merged)


def _odd_chains(chains: Sequence[Sequence[Mention]]) -> list[str]:
    again = sum(len(chain) - len(set(chain)) for chain in chains)
    return [SHARED] * (len(chains) - len(_clusters(chains))) + [REPEATED] * again


def _document(row: Row) -> DocumentExample:
    sentences: Any = row["sentences"]
    name = text(row, "name")
    return DocumentExample(
        id=name,
        sentences=tuple(map(tuple, sentences)),
        speakers=texts(row, "speakers"),
        genre=name.partition("/")[0],
        clusters=_read(row["clusters"]),
        chains=_read(row["chains"]),
    )


def _read(clusters: Any) -> Clusters:
    return tuple(tuple((start, end) for start, end in cluster) for cluster in clusters)


COREF = CorefTask(
    name="conll2012/coref",
    title="coreference",
    source=_source(_documents, is_gold=False),
    convert=_document,
    metrics=(coreference_f1,),
    details=coreference_details,
    genres=GENRES,
    cite=CITE,
)

TASKS = (COREF, SRL)
"""Tasks of CoNLL-2012 in English; the Chinese and Arabic files are not supported."""

RULE = ScoreRule(
    name="CoNLL-2012",
    cells={COREF.name: ("f1",), SRL.name: ("f1",)},
    cite="benchharness: the mean of both tasks' F1; papers report the tasks separately",
)

RULES = (
    ScoreRule(
        name="CoNLL-2012-coref",
        cells={COREF.name: ("f1",)},
        cite="Pradhan et al., CoNLL-2012 shared task: the mean F1 of MUC, B3 and CEAF-e",
    ),
    ScoreRule(
        name="CoNLL-2012-SRL",
        cells={SRL.name: ("f1",)},
        cite="Carreras and Màrquez, CoNLL-2005 shared task: F1 of the arguments of given "
        "predicates",
    ),
)
"""Rules for the scores of published systems, which cover only one of the two tasks."""

SUITES = (suite_of(TASKS, "CoNLL-2012", RULE, collections=("seeds",)),)
