"""Stored predictions are written in the servers' formats and pass the checker."""

import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.submission.answer_file import AnswerFile, Labels, Number
from benchharness.extensions.submission.files import (
    SUBMISSIONS,
    compose,
    filled,
    needs_examples,
    read_answer_file,
)
from benchharness.extensions.submission.inspection import check, write_zip
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairExample,
    PairPrediction,
    Prediction,
)
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tasks.task import PairTask
from tests.helpers.small_submissions import members

FILES = {f"{s.suite} {f.name}": f for s in SUBMISSIONS.values() for f in s.files}
QUICK = [name for name in FILES if "QQP" not in name]
"""QQP's 390,965 rows are written and read once, in the complete submission."""


def kind_of(file: AnswerFile) -> AnswerType:
    return answer_type(find_task(file.task))


PARAGRAPHS, QUESTIONS = 166, 1820
"""Paragraphs and questions of MultiRC's test set."""


def multirc_ids() -> Iterator[str]:
    """Yield ids with the numbers of paragraphs, questions and answers of MultiRC's test set."""
    answers, last = count(), 9693 - 5 * (QUESTIONS - 1)
    for question in range(QUESTIONS):
        paragraph = question * PARAGRAPHS // QUESTIONS
        for _ in range(last if question == QUESTIONS - 1 else 5):
            yield f"{paragraph}-{question}-{next(answers)}"


def examples_of(file: AnswerFile) -> list[Example]:
    """Return as many rows as the file needs, for files that need the examples."""
    if file.format == "multirc":
        return [PairExample(id=name, text_a="a") for name in multirc_ids()]
    options = ("Paris", 'the "Seine"', "Zo\u00eb")
    return [
        ChoiceExample(id=str(number), context="", question="", options=options)
        for number in range(file.rows)
    ]


def predictions_of(file: AnswerFile, seed: int = 0) -> list[Prediction]:
    """Return random predictions of a complete test set."""
    draw = random.Random(seed)
    ids = list(multirc_ids()) if file.format == "multirc" else map(str, range(file.rows))
    match file.answers:
        case Labels(written=written) if file.task != "superglue/copa":
            names = list(written)
            return [PairPrediction(id=name, label=draw.choice(names)) for name in ids]
        case Number():
            return [PairPrediction(id=name, label=draw.uniform(-1, 6)) for name in ids]
    return [ChoicePrediction(id=name, option=draw.randrange(2)) for name in ids]


@pytest.mark.parametrize("suite", ["superglue", pytest.param("glue", marks=pytest.mark.soak)])
def test_every_complete_submission_passes_the_submission_check(suite: str, tmp_path: Path) -> None:
    files = SUBMISSIONS[suite].files
    made = {
        f.name: compose(
            f, kind_of(f), predictions_of(f), examples_of(f) if needs_examples(f) else ()
        )
        for f in files
    }
    write_zip(tmp_path / "submission.zip", made)
    assert check(tmp_path / "submission.zip") == ()
    assert members(tmp_path / "submission.zip") == made


def test_submission_zip_is_reproducible(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        write_zip(tmp_path / name, {"CoLA.tsv": b"index\tprediction\n"})
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize("name", QUICK)
def test_written_submission_files_are_read_back_equal(name: str) -> None:
    file = FILES[name]
    predictions, examples = predictions_of(file, seed=1), examples_of(file)
    reading = read_answer_file(file, compose(file, kind_of(file), predictions, examples))
    assert reading.faults == ()
    assert reading.answers is not None
    for answer, prediction in zip(reading.answers, predictions, strict=True):
        if isinstance(prediction, ChoicePrediction):
            texts = examples[0].options if isinstance(examples[0], ChoiceExample) else ()
            assert answer == (
                texts[prediction.option] if file.name == "ReCoRD.jsonl" else prediction.option
            )
        elif file.format == "multirc":
            assert answer.label == int(prediction.label == "True")
        elif file.answers == Number(low=0.0, high=5.0):
            assert float(answer) == pytest.approx(min(max(prediction.label, 0), 5), abs=6e-4)
        else:
            assert answer == file.answers.write(prediction.label)


@pytest.mark.parametrize("name", QUICK)
def test_submission_file_does_not_depend_on_the_prediction_order(name: str) -> None:
    file, examples = FILES[name], examples_of(FILES[name])
    predictions = predictions_of(file)
    ordered = compose(file, kind_of(file), predictions, examples)
    random.Random(0).shuffle(predictions)
    assert compose(file, kind_of(file), predictions, examples) == ordered


@pytest.mark.parametrize(
    ("suite", "file", "first"),
    [
        ("glue", "CoLA.tsv", "0\t1"),
        ("glue", "MNLI-mm.tsv", "0\tentailment"),
        ("glue", "WNLI.tsv", "0\t1"),
        ("superglue", "BoolQ.jsonl", '{"idx": 0, "label": "true"}'),
        ("superglue", "WSC.jsonl", '{"idx": 0, "label": "True"}'),
        ("superglue", "AX-g.jsonl", '{"idx": 0, "label": "entailment"}'),
    ],
)
def test_submitted_labels_are_written_as_the_server_expects(
    suite: str, file: str, first: str
) -> None:
    spec = FILES[f"{suite} {file}"]
    names = {"CoLA.tsv": "acceptable", "BoolQ.jsonl": "True", "WSC.jsonl": "True"}
    label = names.get(file, "entailment")
    predictions = [PairPrediction(id=str(i), label=label) for i in range(spec.rows)]
    assert first in compose(spec, kind_of(spec), predictions).decode().splitlines()[:2]


@pytest.mark.parametrize(
    ("score", "written"),
    [(-0.2, "0.000"), (5.01, "5.000"), (2.5, "2.500"), (1.23456, "1.235"), (4.9996, "5.000")],
)
def test_submitted_regression_scores_are_clipped_to_three_decimals(
    score: float, written: str
) -> None:
    assert Number(low=0.0, high=5.0).write(score) == written


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].task in TASKS])
def test_submission_files_can_express_every_label_of_their_task(name: str) -> None:
    file = FILES[name]
    task = TASKS[file.task]
    assert file.split in task.test_splits
    if isinstance(task, PairTask) and isinstance(file.answers, Labels):
        assert set(file.answers.written) == set(task.labels)


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].task in TASKS])
def test_submission_label_numbers_equal_those_of_the_official_files(name: str) -> None:
    file = FILES[name]
    for text, label in TASKS[file.task].source.label_texts.items():
        if isinstance(file.answers, Labels) and file.format == "tsv":
            assert file.answers.written[label] == text


def test_submitting_incomplete_test_predictions_is_an_error() -> None:
    file = FILES["glue RTE.tsv"]
    predictions = [PairPrediction(id=str(i), label="entailment") for i in range(10)]
    with pytest.raises(BenchError, match="it has 10 answers, expected 3000"):
        compose(file, kind_of(file), predictions)


@pytest.mark.parametrize("name", QUICK)
def test_file_for_a_task_without_a_run_has_the_same_label_in_every_row(name: str) -> None:
    file = FILES[name]
    examples = examples_of(file) if needs_examples(file, fill=True) else []
    content = compose(file, kind_of(file), filled(file, kind_of(file), examples), examples)
    reading = read_answer_file(file, content)
    assert reading.faults == ()
    labels = {getattr(answer, "label", answer) for answer in reading.answers or ()}
    assert len(labels) == 1


def test_only_multirc_and_record_submissions_need_the_examples() -> None:
    assert [name for name in FILES if needs_examples(FILES[name])] == ["superglue ReCoRD.jsonl"]
    assert [name for name in FILES if needs_examples(FILES[name], fill=True)] == [
        "superglue MultiRC.jsonl",
        "superglue ReCoRD.jsonl",
    ]


def test_multirc_submission_is_nested_with_consecutive_ids() -> None:
    file = FILES["superglue MultiRC.jsonl"]
    found = [
        json.loads(line) for line in compose(file, kind_of(file), predictions_of(file)).splitlines()
    ]
    assert [paragraph["idx"] for paragraph in found] == list(range(PARAGRAPHS))
    questions = [q for paragraph in found for q in paragraph["passage"]["questions"]]
    assert [question["idx"] for question in questions] == list(range(QUESTIONS))
    answers = [answer["idx"] for question in questions for answer in question["answers"]]
    assert answers == list(range(9693))
