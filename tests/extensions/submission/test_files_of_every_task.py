"""`bench score` takes prediction files of every task, documented plugins included."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.submission import table
from benchharness.extensions.submission.prediction_files import NoAnswer, read_predictions
from benchharness.extensions.submission.scoring import ScoredSplit, score_files
from benchharness.extensions.submission.write import FORMS
from benchharness.extensions.submission.write import SUBMITTED as SUBMITTED_SUITES
from benchharness.plugins import load_plugins
from benchharness.tasks import suites
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import ChoicePrediction, Example, Prediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import Metric, Script, Task, ending_of, score
from tests.helpers.doc_blocks import block
from tests.helpers.fuzz.of_models import tables_as_they_were
from tests.helpers.official_files import write_file
from tests.helpers.plugin_rows import exam, genes, manual
from tests.helpers.prediction_files import guess, write

READ = [name for name, task in TASKS.items() if task.kind != "timed"]
"""All tasks except those that measure speed and memory, which have no prediction files."""


def right(task: Task, examples: Sequence[Example]) -> list[Prediction]:
    return [answer_type(task).golds(example)[0] for example in examples]


def perfect(name: str, data: str, folder: Path) -> dict[str, float]:
    """Return the scores of a file of right answers."""
    task = TASKS[name]
    split = (task.dev_splits or task.test_splits)[0]
    rows = read(task, split, parse_data(data))
    path = write(task, right(task, rows.examples), rows.examples, folder)
    (scored,) = score_files([path], name, data, [split]).splits
    assert (scored.notes, scored.missing) == ((), 0)
    return dict(scored.evaluation.scores)


@pytest.mark.parametrize("name", READ)
def test_prediction_file_of_gold_answers_has_a_perfect_score(name: str, tmp_path: Path) -> None:
    scores, task = perfect(name, "mini", tmp_path), TASKS[name]
    ending = ending_of(task, (task.dev_splits or task.test_splits)[0])
    assert [scores[metric.name + ending] for metric in task.metrics] == [
        pytest.approx(1.0) for _ in task.metrics
    ]


SUBMITTED = [
    (name, split)
    for name, task in TASKS.items()
    for split in task.source.splits
    if task.suite in FORMS and split.startswith(FORMS[task.suite].split)
    if task.suite != "xtreme" or split in ("test_de", "test_zh")
]


@pytest.mark.parametrize(("name", "split"), SUBMITTED)
def test_submission_files_get_the_same_scores_as_the_predictions_in_them(
    name: str, split: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bench submit` writes random predictions, for SQuAD 2.0 with no-answer scores."""
    task, rows = TASKS[name], read(TASKS[name], split, parse_data("mini"))
    monkeypatch.setattr(table, "QUESTIONS", len(rows.examples))
    draw = Random(name)
    made: list[Any] = [guess(task, example, draw) for example in rows.examples]
    files = FORMS[task.suite].write(task, made, rows.examples, None)
    paths = [tmp_path / (place or "answers.txt").format("de") for place in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content)
    odds = tmp_path / "na_prob.json"
    no_answer = NoAnswer(file=odds) if odds.exists() else None
    found = read_predictions(paths[0], task, rows, no_answer)
    assert (found.notes, found.missing) == ((), 0)
    if not any(example.is_hidden for example in rows.examples):
        scores = [score(task, split, each, rows.examples) for each in (made, found.predictions)]
        assert scores[0] == scores[1]


KEYS = {
    "exact_match": "em",
    "exact": "em",
    "f1": "f1",
    "overall f1": "f1",
    "FB1": "f1",
    **{name: name for name in ("em", "sp_em", "sp_f1", "joint_em", "joint_f1")},
}
"""Metric by the name in the official scripts."""

ODD_ANSWER = " The, "
"""Text that SQuAD's normalisation drops; German and Chinese have other articles."""


@pytest.mark.parametrize("name", READ)
def test_official_script_numbers_equal_the_scores_of_the_task(name: str, tmp_path: Path) -> None:
    """Units are percent or 0 to 1; CoQA's script rounds to one decimal."""
    task = TASKS[name]
    scored, scores = scored_at_random(name, "mini", tmp_path)
    assert bool(scored.official) == bool(task.script)
    if task.script is None:
        return
    metrics, ending = {**task.script.lines}, ending_of(task, scored.evaluation.split)
    unit = {"from 0 to 1": 1, "in percent": 100}[scored.unit]
    for key in scored.official.keys() - task.script.counts.keys():
        score = scores[metrics[key].name + ending]
        assert KEYS.get(key, metrics[key].name) == metrics[key].name
        times = 1 if key.endswith("_thresh") else unit
        apart = 0.051 if task.suite == "coqa" else 1e-9
        assert scored.official[key] == pytest.approx(times * score, abs=apart)
    counted = {key: scored.official[key] for key in task.script.counts}
    assert sum(counted.values()) == 2 * counted.get("total", 0)


def scored_at_random(name: str, data: str, folder: Path) -> tuple[ScoredSplit, Mapping[str, float]]:
    """Score a file of random answers, some with words that one language drops."""
    task, draw = TASKS[name], Random(name)
    split = "test_de" if "test_de" in task.source.splits else (*task.dev_splits, "test")[0]
    rows = read(task, split, parse_data(data))
    made: list[Any] = [guess(task, example, draw) for example in rows.examples]
    if task.head == "span" and getattr(task, "files", "") == "squad":
        made = [
            replace(p, text=ODD_ANSWER + p.text) if draw.random() < 0.7 else p
            for p in right(task, rows.examples)
        ]
    path = write(task, made, rows.examples, folder)
    odds = folder / "na_prob.json"
    if name == "squad/v2.0":
        odds.write_text(json.dumps({e.id: draw.choice((0.1, 0.5)) for e in rows.examples}))
    no_answer = NoAnswer(file=odds) if odds.exists() else None
    (scored,) = score_files([path], name, data, [split], no_answer).splits
    return scored, scored.evaluation.scores


def other(metric: Metric[Any, Any], score: float) -> Metric[Any, Any]:
    """Return a metric of the same name with the value `score`."""
    return replace(metric, compute=lambda *_: score)


@pytest.mark.parametrize("name", [name for name in READ if TASKS[name].script])
def test_score_of_a_replaced_metric_is_not_shown_as_official(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TASKS[name]
    metrics: Any = [other(metric, 0.125) for metric in task.metrics]
    details: Any = [other(metric, 0.25) for metric in task.details]
    monkeypatch.setitem(
        suites._tasks, name, replace(task, metrics=(*metrics,), details=(*details,))
    )
    scored, scores = scored_at_random(name, "mini", tmp_path)
    assert (scored.official, {*scores.values()} - {0.25}) == ({}, {0.125})
    # If only one metric is replaced, only the official number of this metric is left out.
    monkeypatch.setitem(suites._tasks, name, replace(task, metrics=(*metrics,)))
    scored, scores = scored_at_random(name, "mini", tmp_path)
    script = task.script or Script(lines={})
    kept = {key for key, metric in script.lines.items() if metric in task.details}
    assert kept >= scored.official.keys() - script.counts.keys()
    assert 0.125 in scores.values()


def test_mlqa_answers_are_normalised_by_their_language(tmp_path: Path) -> None:
    answers = [{"text": "der Hund", "answer_start": 8}]
    qas = [{"id": "q1", "question": "Wer?", "answers": answers}]
    paragraph = {"context": "Das ist der Hund von Anna.", "qas": qas}
    text = json.dumps({"version": "1.0", "data": [{"title": "t", "paragraphs": [paragraph]}]})
    place = "xtreme/MLQA_V1/test/test-context-de-question-de.json"
    data = write_file(tmp_path, place, text)
    (tmp_path / "p.json").write_text('{"q1": "Hund"}')
    (scored,) = score_files([tmp_path / "p.json"], "xtreme/mlqa", str(data), ["test_de"]).splits
    assert scored.official == {"exact_match": 100.0, "f1": 100.0}


def test_every_suite_supports_submission_or_is_listed_as_unsupported() -> None:
    assert {task.suite for task in TASKS.values()} - {*SUBMITTED_SUITES} == NOT_SUBMITTED


NOT_SUBMITTED = {
    *("conll2003", "snli", "swag", "blimp", "pairs", "sst", "lexglue", "text"),
    *("efficiency", "needle"),
}
"""Suites with public labels and without a submission format."""


def irony(folder: Path) -> None:
    (folder / "Irony").mkdir()
    (folder / "Irony" / "dev.tsv").write_text("sentence\tlabel\nIt rains.\t0\nLovely.\t1\n")


def turns(folder: Path) -> None:
    copytree(mini_folder() / "quac", folder / "quac")


@pytest.mark.parametrize(
    ("name", "page", "words", "write_data"),
    [
        ("mine/irony", "plugins.md", "TASKS = (IRONY,)", irony),
        ("bio/genes", "add-task.md", "TagTask(", genes),
        ("school/exam", "add-task.md", "ChoiceTask(", exam),
        ("help/manual", "add-task.md", "MANUAL = ", manual),
        ("turns/quac4", "tasks.md", "history=4", turns),
    ],
)
def test_predictions_for_the_plugin_tasks_in_the_documentation_are_scored(
    name: str, page: str, words: str, write_data: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "plugin.py").write_text(block(page, words))
    (tmp_path / "data").mkdir()
    write_data(tmp_path / "data")
    with tables_as_they_were():
        load_plugins([tmp_path / "plugin.py"])
        scores = perfect(name, str(tmp_path / "data"), tmp_path)
        assert scores[TASKS[name].metrics[0].name] == 1.0
        (tmp_path / "drawn").mkdir()
        scored, scores = scored_at_random(name, str(tmp_path / "data"), tmp_path / "drawn")
        assert bool(scored.official) == (name in ("turns/quac4", "help/manual"))
        for value in (v for key, v in scored.official.items() if key == "f1"):
            assert value == pytest.approx(100 * scores["f1"])


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("odd", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_infinite_or_nan_prediction_is_a_one_line_error(
    name: str, odd: str, tmp_path: Path
) -> None:
    task = TASKS[name]
    rows = read(task, (task.dev_splits or task.test_splits)[0], parse_data("mini"), limit=6)
    path = write(task, right(task, rows.examples), rows.examples, tmp_path)
    text, refusals = path.read_text(), list[str]()
    for value in re.finditer(r'(?<=: )[-\w."]+(?=[,}])|(?<=, )[-\w."]+(?=\])', text):
        path.write_text(text[: value.start()] + odd + text[value.end() :])
        try:
            read_predictions(path, task, rows)
        except DataError as error:
            refusals.append(str(error))
    assert refusals or path.suffix not in (".json", ".jsonl")
    assert [len(said.splitlines()) for said in refusals] == [1] * len(refusals)


# Ids of rows may be numbers or words.

SWAG = TASKS["swag/regular"]

MAKERS: dict[str, Callable[[int], str]] = {
    "words": lambda n: f"what is {'x' * n}?",
    "paths": lambda n: f"{'ab'[n % 2]}/{n}",
    "doubles": lambda n: f"{'x' * n}-1",
    "mixed": lambda n: "word" if n == 3 else str(5 - n),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
@pytest.mark.parametrize("counts", [True, False])
def test_prediction_rows_are_matched_by_example_id_or_row_number(
    kind: str, suffix: str, counts: bool, tmp_path: Path
) -> None:
    rows, made = words(MAKERS[kind])
    path = tmp_path / f"answers.{suffix}"
    index = [n if counts else p.id for n, p in enumerate(made)]
    if suffix == "tsv":
        lines = [f"{name}\t{p.option}" for name, p in zip(index, made, strict=True)]
        path.write_text("\n".join(["index\tprediction", *lines]))
    else:
        found = [{"idx": n, "label": str(p.option)} for n, p in zip(index, made, strict=True)]
        path.write_text("\n".join(map(json.dumps, found)))
    assert list(read_predictions(path, SWAG, rows).predictions) == made


def words(make: Callable[[int], str]) -> tuple[SplitRows, list[ChoicePrediction]]:
    """Return rows with other ids, and a prediction per row."""
    found = read(SWAG, "dev", parse_data("mini"), limit=6)
    examples = tuple(replace(e, id=make(n)) for n, e in enumerate(found.examples))
    made = [ChoicePrediction(id=e.id, option=n % 4) for n, e in enumerate(examples)]
    return replace(found, examples=examples), made


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a/2", "a/99", "line 4: the index is 'a/99', expected a whole number or an id"),
        ("a/2", "a/0", "is repeated"),
        ("a/2\t2\n", "", "5 answers, expected 6"),
        ("a/2\t2", "a/2\t4", "line 4: the label is '4', expected 0 or 1 or 2 or 3"),
    ],
)
def test_invalid_prediction_row_is_an_error_that_names_the_line(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    rows, made = words(MAKERS["paths"])
    path = tmp_path / "answers.tsv"
    text = "index\tprediction\n" + "".join(f"{p.id}\t{p.option}\n" for p in made)
    path.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=said):
        read_predictions(path, SWAG, rows)


# The id of a BLiMP pair consists of its paradigm and its number in the paradigm.


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_blimp_prediction_files_have_the_columns_of_the_authors(
    suffix: str, tmp_path: Path
) -> None:
    task = TASKS["blimp/blimp"]
    rows = read(task, "dev", parse_data("mini"))
    made: list[Prediction] = [
        ChoicePrediction(id=e.id, option=n % 2) for n, e in enumerate(rows.examples)
    ]
    pairs = [(*p.id.rsplit("/", 1), str(n % 2)) for n, p in enumerate(made)][::-1]
    names = ("UID", "pairID", "prediction")
    path = tmp_path / f"gpt2.{suffix}"
    comma = "\t" if suffix == "tsv" else ","
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in pairs]
    table = [comma.join(row) for row in (names, *pairs)]
    path.write_text("\n".join(lines if suffix == "jsonl" else table) + "\n")
    found = read_predictions(path, task, rows)
    assert list(found.predictions) == made
    assert any("comes after" in note for note in found.notes)
