"""A TREC run file: a document of a ranking on each line, as trec_eval and its kin read it.

Its six columns are the query, "Q0", the document, its rank from 1, its score and the run's name.
"""

from collections.abc import Iterator, Sequence

from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import RankingPrediction
from benchharness.tasks.metrics import ranked

_NAME = "benchharness"


def write_run(predictions: Sequence[RankingPrediction]) -> bytes:
    """The rankings in trec_eval's order, which sorts by the score again: equal ones by id, falling.

    Raises DataError for an id that the columns, which blanks part, cannot hold.
    """
    return "".join(f"{line}\n" for each in predictions for line in _lines(each)).encode()


def _lines(prediction: RankingPrediction) -> Iterator[str]:
    scores = dict(zip(prediction.documents, prediction.scores, strict=True))
    for rank, document in enumerate(ranked(prediction), start=1):
        for name in (prediction.id, document):
            if name.split() != [name]:
                raise DataError(f"a TREC run file cannot hold the id {name!r}: it has blanks.")
        yield f"{prediction.id} Q0 {document} {rank} {scores[document]!r} {_NAME}"
