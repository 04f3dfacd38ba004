"""Task definitions in TOML: trained end to end, and one error per mistake."""

import json
import os

import pytest

from benchharness import plugins
from benchharness.errors import BenchError
from benchharness.extensions.custom_data.toml import read_task
from benchharness.models import MODELS
from benchharness.recipes.read import HINTS
from benchharness.recipes.resolve import resolve_sweep
from tests.helpers.doc_blocks import blocks
from tests.helpers.fuzz.of_models import tables_as_they_were
from tests.helpers.own_files import as_csv, labelled, sentence

REVIEWS = """
name = "mine/reviews"
data = "reviews.csv"
columns = { text = "review", label = "stars" }
labels = ["1", "2", "3"]
metrics = ["accuracy", "f1"]
recipe = { epochs = 2, max_tokens = 24 }
"""


@pytest.fixture
def file(tmp_path):
    rows = as_csv([("review", "stars", "id"), *((t, s, 0) for t, s in labelled([1, 2, 3], 90))])
    (tmp_path / "reviews.csv").write_text(rows)
    path = tmp_path / "reviews.toml"
    path.write_text(REVIEWS)
    return path


@pytest.fixture
def loads():
    """Restore tasks and hints after the test."""
    hints = dict(HINTS)
    with tables_as_they_were():
        yield
    HINTS.clear()
    HINTS.update(hints)


def test_task_from_a_toml_file_is_trained(loads, file, bench):
    command = ("run", "--plugin", file, "--model", "tiny", "--task", "mine/reviews")
    ended = bench(*command, "--seeds", "1", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["finished"] == 3


def test_f1_of_a_toml_task_is_called_macro_f1_wherever_it_is_shown(loads, file, bench):
    """Regression test: MRPC's F1 covers only one class, and nothing showed this."""
    command = ("run", "--plugin", file, "--model", "majority", "--task", "mine/reviews")
    ended = bench(*command)
    assert ended.code == 0, ended.err
    assert "majority reviews: accuracy 0.333, macro F1 0.167, mcc " in ended.err
    assert "reviews: accuracy and macro F1." in ended.out
    assert "accuracy and macro F1" in (file.parent / "results/leaderboard.html").read_text()
    shown = bench("show", "mine/reviews", "--plugin", file).out
    assert "f1 (macro F1)" in shown
    assert json.loads(bench("show", "mine/reviews", "--plugin", file, "--json").out)["metrics"] == [
        "accuracy",
        "f1",
    ]


def test_f1_of_one_class_is_a_metric_of_a_toml_task(loads, file, bench):
    """Regression test: text called it "f1" or "macro F1"."""
    file.write_text(REVIEWS.replace('["accuracy", "f1"]', '["f1:1"]'))
    command = ("run", "--plugin", file, "--model", "majority", "--task", "mine/reviews")
    ended = bench(*command)
    assert "majority reviews: F1 of 1 0.500, accuracy 0.333, mcc " in ended.err
    assert "reviews: F1 of 1." in ended.out


def test_recipe_in_a_toml_task_overrides_the_model_recipe_but_not_the_command_line(loads, file):
    plugins.load_plugins([file])
    (point,) = resolve_sweep(MODELS["tiny"], "mine/reviews", None, {"epochs": "4"})
    assert [point.settings[n].value for n in ("epochs", "max_tokens")] == [4, 24]
    assert os.environ[plugins.VARIABLE] == str(file)


def test_toml_choice_task_reads_option_columns_and_holds_out_a_dev_split(tmp_path):
    rows = [("q", "a", "b", "right"), *((sentence(n), "yes", "no", n % 2) for n in range(40))]
    (tmp_path / "exam.csv").write_text(as_csv(rows))
    path = tmp_path / "exam.toml"
    path.write_text(
        'name = "mine/exam"\ndata = "exam.csv"\n'
        'columns = { question = "q", options = ["a", "b"], answer = "right" }\n'
    )
    task, values = read_task(path)
    assert task.source.reader is not None
    train, dev = (task.source.reader(split, None) for split in ("train", "dev"))
    assert (len(train), len(dev), task.kind, values) == (32, 8, "choice", {})


def test_task_definitions_in_the_docs_are_valid(tmp_path):
    found = [block for block in blocks("plugins.md") if "columns = {" in block]
    assert found
    for number, text in enumerate(found):
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        (tmp_path / "stars.csv").write_text("review,stars\n")
        assert read_task(path)[0].suite == "mine"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("name =", "title ="), ["'title' is not a known key", "name is missing"]),
        (('"mine/reviews"', '"reviews"'), ["name is 'reviews'"]),
        (('data = "reviews.csv"\n', ""), ["either data or hub"]),
        (('data = "reviews.csv"', 'hub = "reviews"'), ["hub is 'reviews'"]),
        (('data = "reviews.csv"', "data = 1"), ["data is 1"]),
        (('data = "reviews.csv"', 'data = "none.csv"'), ["none.csv"]),
        (('label = "stars"', 'mark = "stars"'), ["do not fit any task"]),
        (('{ text = "review", label = "stars" }', '{ words = "a", tags = "b" }'), ["tags"]),
        (('labels = ["1", "2", "3"]', ""), ["labels are missing"]),
        (('label = "stars"', 'number = "stars"'), ["range is missing"]),
        (('"accuracy"', '"accurate"'), ["'accurate' is not a metric"]),
        (('"accuracy"', '"evaluate:f1"'), ["evaluate library"]),
        (("name =", "name ["), ["cannot be read as TOML"]),
    ],
)
def test_each_mistake_in_a_toml_task_is_reported_on_its_own_line(file, change, said):
    file.write_text(REVIEWS.replace(*change))
    with pytest.raises(BenchError) as caught:
        read_task(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))


def test_plan_and_error_of_a_toml_task_name_its_file(loads, file, bench):
    command = ("run", "--plugin", file, "--model", "tiny", "--task", "mine/reviews", "--dry-run")
    assert "data: reviews.csv)" in bench(*command).out
    table = file.parent / "reviews.csv"
    lines = table.read_text().splitlines(keepends=True)
    lines[40] = '"an odd review",9,0\n'
    table.write_text("".join(lines))
    ended = bench(*command)
    assert ended.code == 4
    assert "reviews.csv line 41 has the label '9'; expected one of 1, 2, 3." in ended.err


def test_plan_of_generated_rows_does_not_name_the_hub(bench):
    ended = bench("run", "--model", "tiny", "--task", "needle/512", "--seeds", "1", "--dry-run")
    assert "data: the task's own data)" in ended.out, ended.err
