"""Prediction files of every task are read, or errors name the file and line."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.submission.prediction_files import NoAnswer, read_predictions
from benchharness.tasks.examples import ChoicePrediction, PairPrediction, Prediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS
from tests.helpers.prediction_files import guess, write

READ = [name for name, task in TASKS.items() if task.kind not in ("ranking", "timed", "labels")]
"""Tasks whose prediction files are tested here."""

MINI = parse_data("mini")


def mini(name: str) -> SplitRows:
    task = TASKS[name]
    return read(task, (task.dev_splits or task.test_splits)[0], MINI)


def guesses(name: str, rows: SplitRows, seed: int = 0) -> list[Prediction]:
    draw = random.Random(seed)
    return [guess(TASKS[name], example, draw) for example in rows.examples]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Function that writes random predictions of a task's dev split."""

    def make(name: str) -> Path:
        rows = mini(name)
        return write(TASKS[name], guesses(name, rows), rows.examples, tmp_path)

    return make


@pytest.mark.parametrize("name", READ)
def test_prediction_file_in_the_official_format_is_read_back_equal(
    name: str, tmp_path: Path
) -> None:
    rows = mini(name)
    for seed in range(3):
        made = guesses(name, rows, seed)
        path = write(TASKS[name], made, rows.examples, tmp_path)
        found = read_predictions(path, TASKS[name], rows)
        assert list(found.predictions) == made
        assert found.notes == ()


@pytest.mark.parametrize("name", ["glue/cola", "glue/stsb", "superglue/cb", "superglue/record"])
def test_unordered_prediction_file_is_read_with_a_note(
    name: str, file: Callable[[str], Path]
) -> None:
    rows, path = mini(name), file(name)
    ordered = read_predictions(path, TASKS[name], rows).predictions
    header, *lines = path.read_text().splitlines()
    if path.suffix == ".jsonl":
        header, lines = "", [header, *lines]
    path.write_text("\n".join([*filter(None, [header]), *reversed(lines)]) + "\n")
    found = read_predictions(path, TASKS[name], rows)
    assert found.predictions == ordered
    assert len(found.notes) == 1
    assert "comes after" in found.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("prediction", "predictions", "the header is"),
        ("\t", ",", "a comma separates"),
        ("index\tprediction\n", "", "the header is missing"),
        ("\n", "\r\n", "carriage return"),
        ("\t1", "\tacceptable", "the label is 'acceptable'"),
    ],
)
def test_prediction_file_with_an_unambiguous_deviation_is_read_with_a_note(
    old: str, new: str, note: str, file: Callable[[str], Path]
) -> None:
    rows, path = mini("glue/cola"), file("glue/cola")
    plain = read_predictions(path, TASKS["glue/cola"], rows).predictions
    path.write_bytes(path.read_text().replace(old, new).encode())
    found = read_predictions(path, TASKS["glue/cola"], rows)
    assert found.predictions == plain
    assert any(note in text for text in found.notes)


def test_predicted_score_outside_the_scale_is_not_clipped(tmp_path: Path) -> None:
    rows = mini("glue/stsb")
    made = [
        PairPrediction(id=e.id, label=-0.5 if i % 2 else 6.25) for i, e in enumerate(rows.examples)
    ]
    path = write(TASKS["glue/stsb"], made, rows.examples, tmp_path)
    assert list(read_predictions(path, TASKS["glue/stsb"], rows).predictions) == made


# SNLI, which skips rows.


def test_snli_predictions_may_include_skipped_rows(tmp_path: Path) -> None:
    task, rows = TASKS["snli/snli"], mini("snli/snli")
    assert rows.left_out > 0
    made = guesses("snli/snli", rows)
    labels = {p.id: p.label for p in made if isinstance(p, PairPrediction)}
    total = len(rows.examples) + rows.left_out
    path = tmp_path / "snli.tsv"
    for table in (
        labels.items(),
        enumerate(labels.values()),
        [(i, labels.get(str(i), "neutral")) for i in range(total)],
    ):
        path.write_text("index\tprediction\n" + "".join(f"{i}\t{label}\n" for i, label in table))
        assert list(read_predictions(path, task, rows).predictions) == made


# ReCoRD, whose answers are texts.


def test_record_entity_is_matched_despite_article_and_punctuation(tmp_path: Path) -> None:
    task, rows = TASKS["superglue/record"], mini("superglue/record")
    made = [ChoicePrediction(id=example.id, option=0) for example in rows.examples]
    path = write(task, made, rows.examples, tmp_path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["label"] = f"The {line['label']}."
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(read_predictions(path, task, rows).predictions) == made


def relabelled(path: Path, labels: list[object]) -> None:
    """Replace the answers to the first queries."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line, label in zip(lines, labels, strict=False):
        line["label"] = label
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_record_answer_outside_the_entities_is_kept_as_text(file: Callable[[str], Path]) -> None:
    path = file("superglue/record")
    relabelled(path, ["Atlantis", ""])
    found = read_predictions(path, TASKS["superglue/record"], mini("superglue/record"))
    assert found.predictions[:2] == (
        ChoicePrediction(id="0", option=-1, text="Atlantis"),
        ChoicePrediction(id="1", option=-1, text=""),
    )
    assert found.missing == 0


def test_missing_record_query_is_counted_as_wrong_with_a_note(file: Callable[[str], Path]) -> None:
    rows, path = mini("superglue/record"), file("superglue/record")
    path.write_text(without_last(path.read_text()))
    found = read_predictions(path, TASKS["superglue/record"], rows)
    assert found.missing == 1
    assert found.predictions[-1] == ChoicePrediction(id=rows.examples[-1].id, option=-1)
    assert "1 index is missing: " in found.notes[0]
    assert "counts as wrong" in found.notes[0]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (3, "line 2: the label is 3, expected the text of an entity"),
        (None, "line 2: the label is None, expected the text"),
        ([], "line 2: the label is a list, expected a single value"),
    ],
)
def test_record_answer_that_is_not_text_is_an_error_that_names_the_line(
    label: object, sentence: str, file: Callable[[str], Path]
) -> None:
    path = file("superglue/record")
    relabelled(path, ["x", label])
    with pytest.raises(DataError) as caught:
        read_predictions(path, TASKS["superglue/record"], mini("superglue/record"))
    assert sentence in str(caught.value)


def test_nested_record_query_index_of_the_hub_is_read(file: Callable[[str], Path]) -> None:
    rows, path = mini("superglue/record"), file("superglue/record")
    plain = read_predictions(path, TASKS["superglue/record"], rows).predictions
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["idx"] = {"passage": 7, "query": line["idx"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_predictions(path, TASKS["superglue/record"], rows)
    assert found.predictions == plain
    assert f"(and {len(lines) - 1} more)" in found.notes[0]


# Errors.


def replaced(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


def without_last(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[0] + "\n"


def without_question(text: str) -> str:
    return json.dumps(dict(list(json.loads(text).items())[1:]))


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("glue/cola", without_last, "answers, expected"),
        ("glue/cola", replaced("\t1", "\t3"), "the label is '3', expected 0 or 1"),
        ("glue/rte", replaced("\tentailment", "\t0"), "a number is ambiguous"),
        ("glue/stsb", replaced("\n0\t", "\n0\tabout "), "the score is 'about"),
        ("glue/mnli", lambda text: "", "it is empty"),
        ("snli/snli", replaced("\tneutral", "\t1"), "a number is ambiguous"),
        ("superglue/boolq", without_last, "1 index is missing"),
        ("superglue/copa", replaced('"label": 1', '"label": 2'), "the label is 2, expected 0 or 1"),
        ("superglue/multirc", without_last, "indices are missing"),
        ("swag/regular", replaced("\t3", "\t4"), "the label is '4', expected 0 or 1 or 2 or 3"),
        (
            "race/all",
            replaced("\tA", "\t0"),
            "the label is the number 0, expected A or B",
        ),
        ("race/all", replaced("middle", "high99"), "expected a whole number or an id"),
        ("race/all", without_last, "answers, expected"),
        ("squad/v2.0", without_question, "1 of 264 questions is missing"),
        ("squad/v1.1", lambda text: "[]", "it is JSON, but not an object"),
        ("conll2003/ner", lambda text: text.replace(" NN O", " NN I-", 1), "has the tag 'I-'"),
        ("conll2003/ner", lambda text: text.rstrip() + " x", "has the tag 'x'"),
        ("conll2003/ner", lambda text: text + "\nmore NN O\n", "sentences, expected"),
        ("conll2003/ner", lambda text: text.replace("the NN", "The NN", 1), "has the word 'The'"),
        (
            "conll2003/ner",
            lambda text: text.replace(" NN", " NN O\nnew NN", 1),
            "starts a sentence",
        ),
    ],
)
def test_ambiguous_prediction_file_is_an_error(
    name: str, damage: Callable[[str], str], sentence: str, file: Callable[[str], Path]
) -> None:
    path = file(name)
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataError) as caught:
        read_predictions(path, TASKS[name], mini(name))
    assert sentence in str(caught.value)
    assert path.name in str(caught.value)


def test_tag_prediction_file_without_words_is_read(file: Callable[[str], Path]) -> None:
    rows, path = mini("conll2003/ner"), file("conll2003/ner")
    plain = read_predictions(path, TASKS["conll2003/ner"], rows).predictions
    tags = [line.split()[-1] if line else "" for line in path.read_text().splitlines()[2:]]
    path.write_text("\n".join(tags))
    assert read_predictions(path, TASKS["conll2003/ner"], rows).predictions == plain


def test_predicted_answers_to_unknown_questions_are_ignored_with_a_note(
    file: Callable[[str], Path],
) -> None:
    rows, path = mini("squad/v2.0"), file("squad/v2.0")
    plain = read_predictions(path, TASKS["squad/v2.0"], rows).predictions
    path.write_text(json.dumps({**json.loads(path.read_text()), "other": "x"}))
    found = read_predictions(path, TASKS["squad/v2.0"], rows)
    assert found.predictions == plain
    (note,) = found.notes
    assert "1 of its answers" in note


def test_no_answer_scores_keep_the_order_of_their_file(tmp_path: Path) -> None:
    task, rows = TASKS["squad/v2.0"], mini("squad/v2.0")
    path = write(task, guesses(task.name, rows), rows.examples, tmp_path)
    ids = [example.id for example in rows.examples][::-1]
    (tmp_path / "na_prob.json").write_text(json.dumps({name: i / 7 for i, name in enumerate(ids)}))
    found = read_predictions(path, task, rows, NoAnswer(file=tmp_path / "na_prob.json"))
    assert found.sweep_order == tuple(ids)
    assert [p.no_answer_score for p in found.predictions] == [
        i / 7 for i in reversed(range(len(ids)))
    ]


def test_no_answer_scores_for_another_task_are_an_error(file: Callable[[str], Path]) -> None:
    path = file("glue/rte")
    with pytest.raises(DataError, match="has no questions without an answer"):
        read_predictions(path, TASKS["glue/rte"], mini("glue/rte"), NoAnswer(file=path))


def test_missing_prediction_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv cannot be read: No such file"):
        read_predictions(tmp_path / "nowhere.tsv", TASKS["glue/rte"], mini("glue/rte"))
