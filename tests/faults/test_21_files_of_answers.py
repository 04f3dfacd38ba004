"""Tests of fault 21: prediction files that are truncated or in another encoding or format."""

import random
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.inspection import check
from benchharness.extensions.submission.prediction_files import NoAnswer, read_predictions
from benchharness.extensions.submission.questions import write_no_answer_scores, write_predictions
from benchharness.tasks.examples import SpanPrediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.prediction_files import guess, write

LAYOUTS = {
    "glue/cola": "CoLA.tsv",
    "superglue/cb": "CB.jsonl",
    "superglue/multirc": "MultiRC.jsonl",
    "superglue/record": "ReCoRD.jsonl",
    "squad/v1.1": "predictions.json",
    "squad/v2.0": "predictions.json",
    "race/all": "predictions.tsv",
    "conll2003/ner": "predictions.tsv",
}
"""One task per layout of predictions, and the name of its file."""


def rows_of(name: str) -> SplitRows:
    return read(find_task(name), "dev", parse_data("mini"))


def written(name: str, folder: Path) -> Path:
    task, rows, draw = find_task(name), rows_of(name), random.Random(name)
    return write(task, [guess(task, e, draw) for e in rows.examples], rows.examples, folder)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_21_predictions_in_another_encoding_are_one_error(
    tmp_path: Path, name: str, encoding: str
) -> None:
    path = written(name, tmp_path)
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(DataError, match=r"is not UTF-8 text") as caught:
        read_predictions(path, find_task(name), rows_of(name))
    assert "more" not in str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_21_predictions_of_another_benchmark_are_refused(
    tmp_path: Path, name: str, other: str
) -> None:
    """The content decides, not the file name: MultiRC's paragraphs are not labels of CB."""
    if name == other or {name, other} == {"squad/v1.1", "squad/v2.0"}:
        return
    content = written(other, tmp_path).read_bytes()
    path = tmp_path / "given" / LAYOUTS[name]
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataError):
        read_predictions(path, find_task(name), rows_of(name))


@pytest.mark.parametrize("called", ["predictions.json", "na_prob.json", "null_odds.json", "x"])
def test_21_files_of_answers_and_of_no_answer_odds_are_distinguished_by_their_values(
    tmp_path: Path, called: str
) -> None:
    rows, task = rows_of("squad/v2.0"), find_task("squad/v2.0")
    spans = [SpanPrediction(id=e.id, text="x", no_answer_score=0.5) for e in rows.examples]
    answers, odds = tmp_path / "answers" / called, tmp_path / "odds" / called
    for path in (answers, odds):
        path.parent.mkdir()
    answers.write_bytes(write_predictions(spans, None))
    odds.write_bytes(write_no_answer_scores(spans))
    assert read_predictions(answers, task, rows, NoAnswer(file=odds)).sweep_order
    for given, beside in ((odds, None), (odds, answers), (answers, answers), (odds, odds)):
        with pytest.raises(DataError, match=r"expected (a text|a number)"):
            read_predictions(given, task, rows, NoAnswer(file=beside))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("superglue/cb", '{"idx": 0, "no\\nlabel": 1}'),
        ("squad/v1.1", '{"a\\nb": "x", "a\\nb": "y"}'),
        ("squad/v2.0", '{"a\\u2028b": "x", "c": 1}'),
    ],
)
def test_21_error_is_one_line_if_a_name_has_a_line_break(
    tmp_path: Path, name: str, content: str
) -> None:
    path = tmp_path / LAYOUTS[name]
    path.write_text(content)
    with pytest.raises(DataError) as caught:
        read_predictions(path, find_task(name), rows_of(name))
    assert len(str(caught.value).splitlines()) == 1
    assert all(len(str(fault).splitlines()) == 1 for fault in check(path))


def test_21_each_sentence_of_an_error_is_one_line() -> None:
    assert str(BenchError("no a\nb", "no c")) == "no a b\nno c"


@pytest.mark.parametrize("called", ["submission.zip", "predictions.json", "CB.jsonl", "x.tsv"])
def test_21_empty_submission_is_an_error(tmp_path: Path, called: str) -> None:
    (tmp_path / called).touch()
    (fault,) = check(tmp_path / called)
    assert "it is empty" in str(fault)
