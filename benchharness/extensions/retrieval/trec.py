"""Read and write TREC run files for trec_eval, which have one ranked document per line.

The six columns are the query, "Q0", the document, its rank from 1, its score, and a name of the
run.
"""

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.retrieval.metrics import ranked
from benchharness.extensions.retrieval.task import RankingPrediction, RankingTask
from benchharness.extensions.submission.answer_file import (
    Faults,
    Form,
    Layout,
    PredictionFile,
    decoded,
    require_clear,
)
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import content_of

_NAME = "benchharness"

_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
"""Pattern of the white space that separates columns. trec_eval is written in C, so only ASCII white
space counts, and an id may contain any other white space."""


def write_run(predictions: Sequence[RankingPrediction]) -> bytes:
    """Return the bytes of a TREC run file with the predicted rankings.

    As in trec_eval, documents are sorted by score and then by id, both in descending order. Raises
    DataError if an id is empty or contains white space, which would separate columns.
    """
    return "".join(f"{line}\n" for each in predictions for line in _lines(each)).encode()


def _lines(prediction: RankingPrediction) -> Iterator[str]:
    scores = dict(zip(prediction.documents, prediction.scores, strict=True))
    for rank, document in enumerate(ranked(prediction), start=1):
        for name in (prediction.id, document):
            if not name or _BLANKS.search(name):
                raise DataError(
                    f"a TREC run file cannot have the id {name!r}: it is empty or has white space."
                )
        yield f"{prediction.id} Q0 {document} {rank} {scores[document]!r} {_NAME}"


Ranking = dict[str, tuple[float, str]]
"""Score and rank of each document for a query, keyed by the id of the document. The rank is the
text in the file.
"""


def read_run(path: Path, _task: RankingTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the rankings in a TREC run file. They are sorted by score, and the ranks are ignored.

    As in trec_eval, unknown queries are ignored. A query that the file lacks scores 0, as with
    trec_eval's option -c. A document that the corpus lacks is kept. It is irrelevant unless it was
    judged.

    Args:
        path: Path of the file.
        _task: Not used.
        rows: The queries of the split.
        _: Not used.

    Raises:
        DataError: The file is malformed, has none of the queries, or repeats a document for a
            query, which is an error in trec_eval too.
    """
    faults = Faults(path.name)
    text = decoded(content_of(path), faults)
    found = {} if text is None else _rankings(text, faults)
    examples: Sequence[Any] = rows.examples
    if text is not None:
        _compare(found, examples, faults)
    notes = require_clear(path, faults.all())
    predictions = tuple(_prediction(each.id, found.get(each.id, {})) for each in examples)
    missing = sum(each.id not in found for each in examples)
    return PredictionFile(predictions=predictions, notes=notes, left_out=missing)


def _prediction(name: str, ranking: Ranking) -> RankingPrediction:
    scores = tuple(score for score, _ in ranking.values())
    return RankingPrediction(id=name, documents=tuple(ranking), scores=scores)


def _rankings(text: str, faults: Faults) -> dict[str, Ranking]:
    found: dict[str, Ranking] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        columns = [column for column in _BLANKS.split(line) if column]
        if not columns:
            continue
        if len(columns) != 6:
            said = f"the line has {len(columns)} columns, expected the query, Q0, a document, "
            kind = "the line has other columns"
            faults.add(f"{said}its rank, its score and the run's name", number, kind=kind)
            continue
        query, _, document, rank, score, _ = columns
        ranking = found.setdefault(query, {})
        if document in ranking:
            again = f"the document {document!r:.40} is repeated for the query {query!r:.40}"
            faults.add(again, number, kind="a document is repeated")
        value = _number(score)
        if value is None:
            said = f"the score is {score!r:.40}, expected a number"
            faults.add(said, number, kind="the score is not a number")
        ranking[document] = (value or 0.0, rank)
    return found


def _number(score: str) -> float | None:
    """Parse a number; return None if the text is not a finite number."""
    try:
        value = float(score) if score.isascii() and "_" not in score else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _compare(found: Mapping[str, Ranking], examples: Sequence[Any], faults: Faults) -> None:
    """Report unknown or missing queries, unknown documents, and ranks that contradict scores."""
    asked = {example.id for example in examples}
    missing, others = len(asked - found.keys()), len(found.keys() - asked)
    if missing == len(asked):
        faults.add(f"none of its {len(found)} queries is one of the {missing} queries of the split")
        return
    if missing:
        said = f"{missing} of {len(asked)} queries have no line: each scores 0, as in trec_eval -c"
        faults.add(said, mendable=True)
    if others:
        faults.add(f"{others} of its queries are not in the split", mendable=True)
    places = examples[0].corpus.places
    kept = [found[name] for name in asked & found.keys()]
    if unknown := sum(document not in places for ranking in kept for document in ranking):
        faults.add(f"{unknown} of its documents are not in the corpus", mendable=True)
    if odd := sum(map(_is_out_of_order, kept)):
        said = f"the ranks of {odd} queries contradict their scores: only the scores are used"
        faults.add(said, mendable=True)


def _is_out_of_order(ranking: Ranking) -> bool:
    """Return whether the ranks contradict the scores; equal scores may have any order."""
    if not all(rank.isascii() and rank.isdecimal() for _, rank in ranking.values()):
        return False
    listed = sorted(ranking.values(), key=lambda each: (len(each[1]), each[1]))
    scores = array("f", [score for score, _ in listed])
    return any(one < other for one, other in pairwise(scores))


LAYOUT = Layout(read=read_run)
"""Reader of prediction files with rankings for `bench score`."""

SUBMISSION = Form(
    split=("test", "dev"),  # MS MARCO has only dev
    write=lambda _, predictions, *__: {"run.trec": write_run(predictions)},
)
"""Form of the TREC run file for trec_eval, for BEIR and for custom data in its layout."""
