"""SQuAD's predictions.json, with na_prob.json or null_odds.json beside it or without."""

from pathlib import Path
from typing import Any

from tasks.examples import SpanPrediction
from tasks.prediction_files.prediction_file import PredictionFile, content_of, require_clear
from tasks.read import SplitRows
from tasks.submission.squad import read_answers

__all__ = ["read_spans"]


def read_spans(path: Path, rows: SplitRows, no_answer_scores: Path | None) -> PredictionFile:
    """Each question's answer, "" for none, with its no-answer score or 0 where there are none."""
    answers, notes = _read(path, rows)
    scores, more = ({}, ()) if no_answer_scores is None else _read(no_answer_scores, rows)
    predictions = tuple(
        SpanPrediction(
            id=example.id, text=answers[example.id], no_answer_score=scores.get(example.id, 0.0)
        )
        for example in rows.examples
    )
    return PredictionFile(
        predictions=predictions,
        notes=(*notes, *more),
        sweep_order=None if no_answer_scores is None else tuple(scores),
    )


def _read(path: Path, rows: SplitRows) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Values by question id in the order of the file, and the notes."""
    reading = read_answers(path.name, content_of(path), [example.id for example in rows.examples])
    notes = require_clear(path, reading.faults)
    return dict(reading.answers or ()), notes
