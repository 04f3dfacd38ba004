"""Read and write TREC run files, as for trec_eval: a document of a ranking per line.

Its six columns are the query, "Q0", the document, its rank from 1, its score and the run's name.
"""

import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.submission.answer_file import (
    Faults,
    PredictionFile,
    decoded,
    require_clear,
)
from benchharness.tasks.examples import RankingPrediction
from benchharness.tasks.metrics import ranked
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import content_of
from benchharness.tasks.task import RankingTask

_NAME = "benchharness"

_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
"""Pattern of the blanks that separate columns in C, the language of trec_eval: an id may contain
any other blank."""


def write_run(predictions: Sequence[RankingPrediction]) -> bytes:
    """Return a file of rankings in trec_eval's order: falling scores, and falling ids on a tie.

    Raises DataError for an id that is empty or contains a blank, which separates the columns.
    """
    return "".join(f"{line}\n" for each in predictions for line in _lines(each)).encode()


def _lines(prediction: RankingPrediction) -> Iterator[str]:
    scores = dict(zip(prediction.documents, prediction.scores, strict=True))
    for rank, document in enumerate(ranked(prediction), start=1):
        for name in (prediction.id, document):
            if not name or _BLANKS.search(name):
                raise DataError(f"a TREC run file cannot hold the id {name!r}: it has blanks.")
        yield f"{prediction.id} Q0 {document} {rank} {scores[document]!r} {_NAME}"


Ranking = dict[str, tuple[float, str]]
"""Score and rank of each document, as a file has them."""


def read_run(path: Path, _task: RankingTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read the ranking of each query by the scores; the ranks in the file are not used.

    As in trec_eval, unknown queries are left out and, with its option -c, a query without a line
    counts 0. A document that the corpus lacks is like any other, and not relevant unless it was
    judged. Raises DataError if a document is repeated for a query, which trec_eval refuses too.
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
            again = f"the document {document!r:.40} stands here again for the query {query!r:.40}"
            faults.add(again, number, kind="a document stands here again")
        value = _number(score)
        if value is None:
            said = f"the score is {score!r:.40}, expected a number"
            faults.add(said, number, kind="the score is no number")
        ranking[document] = (value or 0.0, rank)
    return found


def _number(score: str) -> float | None:
    """Return the number in a column; None if it is no number, or not finite."""
    try:
        value = float(score) if score.isascii() and "_" not in score else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _compare(found: Mapping[str, Ranking], examples: Sequence[Any], faults: Faults) -> None:
    """Add faults for queries and documents in only one of file and split, and for odd ranks."""
    asked = {example.id for example in examples}
    missing, others = len(asked - found.keys()), len(found.keys() - asked)
    if missing == len(asked):
        faults.add(f"none of its {len(found)} queries is one of the {missing} of the split")
        return
    if missing:
        said = f"{missing} of {len(asked)} queries have no line: each counts 0, as in trec_eval -c"
        faults.add(said, mendable=True)
    if others:
        faults.add(f"{others} of its queries are none of the split's", mendable=True)
    places = examples[0].corpus.places
    kept = [found[name] for name in asked & found.keys()]
    if unknown := sum(document not in places for ranking in kept for document in ranking):
        faults.add(f"the corpus has not {unknown} of its documents", mendable=True)
    if odd := sum(map(_is_out_of_order, kept)):
        said = f"the ranks of {odd} queries are not those of the scores, which alone count"
        faults.add(said, mendable=True)


def _is_out_of_order(ranking: Ranking) -> bool:
    """Return whether the ranks contradict the scores; equal scores may have any ranks."""
    if not all(rank.isascii() and rank.isdecimal() for _, rank in ranking.values()):
        return False
    listed = sorted(ranking.values(), key=lambda each: (len(each[1]), each[1]))
    scores = array("f", [score for score, _ in listed])
    return any(one < other for one, other in pairwise(scores))
