"""`--metric`: built-in metrics by name, and local scripts of the evaluate library."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.metrics import balanced_accuracy_score

from benchharness.errors import BenchError, DataError, ForeignCodeError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.metrics import load_script, metric_names
from benchharness.extensions.custom_data.task import OwnData, own_task
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.foreign_code import Code, begin, require_named
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.task import score
from tests.helpers.own_files import GOOD, labelled

SCRIPT = """
import datasets
import evaluate

class Metric(evaluate.Metric):
    def _info(self):
        kind = datasets.Value("{kind}")
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({{"predictions": kind, "references": kind}}),
        )

    def _compute(self, predictions, references, **options):
        {body}
"""

BALANCED = """
        from sklearn.metrics import balanced_accuracy_score
        return {"balanced": 100 * balanced_accuracy_score(references, predictions)}
"""
ERROR = """
        return {"error": sum(a != b for a, b in zip(predictions, references)) / len(references)}
"""
TWO = """
        return {"one": sum(a == b for a, b in zip(predictions, references)), "two": 2.0}
"""


@pytest.fixture
def script(tmp_path, evaluate_copies):
    """Function that writes a metric script."""
    load_script.cache_clear()

    def write(name: str, body: str, kind: str = "int32") -> Path:
        path = tmp_path / f"{name}.py"
        path.write_text(SCRIPT.format(kind=kind, body=body.strip()))
        return path

    yield write
    load_script.cache_clear()


def test_metric_script_is_the_main_metric_and_built_in_metrics_are_computed_too(script, tmp_path):
    path = script("balanced_script", BALANCED)
    found = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{path}"])
    (metric,) = found.task.metrics
    assert metric.name == "balanced_script"
    examples = read(found.task, "dev", parse_data(found.data)).examples
    guesses = [
        PairPrediction(id=e.id, label="neg" if n % 5 else "pos") for n, e in enumerate(examples)
    ]
    scores = score(found.task, "dev", guesses, examples)
    wanted = balanced_accuracy_score([e.label for e in examples], [g.label for g in guesses])
    assert scores["balanced_script"] == pytest.approx(wanted)
    assert {"f1", "accuracy", "mcc"} < set(scores)
    assert f"scoring runs the code of evaluate:{path}" in found.sentences


def test_metric_script_changed_after_planning_is_not_run(script, tmp_path):
    path = script("changing_script", BALANCED)
    found = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{path}"])
    path.write_text(path.read_text() + "\n# another line\n")
    load_script.cache_clear()
    task = own_task(OwnData.from_json(found.task.definition))
    example = PairExample(id="1", text_a="x", label="neg")
    with pytest.raises(DataError, match="has changed since this run was planned"):
        task.metrics[0].compute([PairPrediction(id="1", label="neg")], [example])


HELPED = """
        return {"helped": SCALE * sum(a == b for a, b in zip(predictions, references))}
"""


def test_metric_script_with_a_changed_helper_module_is_not_run(script, tmp_path):
    path, marker = script("helped_script", HELPED), tmp_path / "ran"
    path.write_text("from .scale_of_it import SCALE\n" + path.read_text())
    helper = tmp_path / "scale_of_it.py"
    helper.write_text("SCALE = 2\n")
    own = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{path}"]).own
    helper.write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\nSCALE = 3\n")
    load_script.cache_clear()
    example = PairExample(id="1", text_a="x", label="neg")
    with pytest.raises(DataError, match="has changed since this run was planned"):
        own_task(own).metrics[0].compute([PairPrediction(id="1", label="neg")], [example])
    assert not marker.exists()


def test_digest_of_a_metric_script_without_helpers_equals_the_digest_of_the_file(script, tmp_path):
    """Existing stores have this digest."""
    path = script("single_script", BALANCED)
    own = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{path}"]).own
    (found,) = own.scripts.values()
    assert found.digest == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("has_digest", [True, False], ids=["as --write-task has it", "as in TOML"])
def test_metric_script_named_by_a_plugin_is_run(has_digest, script, tmp_path):
    """A later command in the same process runs it too, although the plugin is loaded already."""
    path = script(f"plugin_script_{has_digest}", BALANCED)
    own = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{path}"]).own
    own = own if has_digest else replace(own, scripts={})
    begin()
    metric = own_task(own).metrics[0]
    examples = [PairExample(id=each, text_a="x", label=each) for each in ("neg", "pos")]
    right = [PairPrediction(id=each.id, label=each.id) for each in examples]
    with pytest.raises(ForeignCodeError):
        metric.compute(right, examples)
    metric = own_task(own, "mine/rows").metrics[0]
    begin()
    assert metric.compute(right, examples) == (1.0 if has_digest else 100.0)


@pytest.mark.parametrize(
    "place", ["~nosuchuser/m.py", f"/{'m' * 300}.py", "loop.py", "locked/m.py"]
)
def test_unreadable_metric_script_is_an_error(place, evaluate_copies, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    Path("loop.py").symlink_to("loop.py")
    stat = Path.stat

    def locked(path: Path, **options):
        if "locked" in path.parts:
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", locked)
    begin()
    with pytest.raises(ForeignCodeError, match="no earlier command has allowed"):
        require_named([Code(place, "0")])
    with pytest.raises(DataError, match="could not be loaded"):
        load_script(place, None, None)


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("lower_script", ERROR, "does not score right answers higher than wrong ones"),
        ("two_script", TWO, "returns one, two: choose one number as the score, such as evaluate:"),
        (
            "raising_script",
            "raise ValueError('odd')",
            "does not fit these predictions: odd",
        ),
    ],
)
def test_script_metric_that_does_not_favour_right_answers_is_an_error(
    name, body, said, script, tmp_path
):
    with pytest.raises(BenchError, match=said):
        find_own(str(GOOD["comma"].write(tmp_path)), metrics=[f"evaluate:{script(name, body)}"])


def test_score_option_selects_one_value_of_a_metric_script(script, tmp_path):
    path = script("chosen_script", TWO)
    word = f"evaluate:{path},score=one"
    found = find_own(str(GOOD["comma"].write(tmp_path)), metrics=[word])
    assert found.own.metrics == (word,)


def test_metric_for_another_kind_of_task_is_an_error(script, tmp_path):
    path = script("classes_script", BALANCED)
    with pytest.raises(BenchError, match="a prediction of the form class per example"):
        find_own(str(GOOD["conll"].write(tmp_path)), metrics=[f"evaluate:{path}"])
    with pytest.raises(BenchError, match="is not evaluate:NAME"):
        find_own(str(GOOD["comma"].write(tmp_path)), metrics=["evaluate:f1,macro"])


def test_missing_metric_script_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="evaluate:nowhere could not be loaded"):
        find_own(str(GOOD["comma"].write(tmp_path)), metrics=["evaluate:nowhere"])


def test_f1_of_a_single_class_can_be_selected_as_the_metric(tmp_path):
    found = find_own(str(GOOD["comma"].write(tmp_path)), metrics=["f1:pos"])
    assert found.sentences[0].endswith("; F1 of pos"), "it was called macro F1"
    examples = [
        PairExample(id=str(n), text_a=t, label=str(x))
        for n, (t, x) in enumerate(labelled(["neg", "pos"], 4))
    ]
    guesses = [PairPrediction(id=e.id, label="pos") for e in examples]
    assert found.task.metrics[0].compute(guesses, examples) == pytest.approx(2 / 3)


def test_metrics_with_the_same_name_get_unique_score_names():
    assert metric_names(["f1", "evaluate:f1,average=weighted"]) == ["f1", "f1_weighted"]
    assert metric_names(["evaluate:f1", "f1:pos", "accuracy"]) == ["f1", "f1_pos", "accuracy"]
    assert metric_names(["accuracy", "evaluate:./accuracy.py"]) == ["accuracy", "evaluate_accuracy"]


@pytest.mark.parametrize("words", [["f1", "f1"], ["f1", "evaluate:f1", "evaluate:x/f1"]])
def test_repeated_metric_option_is_an_error_before_rows_are_read(words):
    with pytest.raises(BenchError, match="twice"):
        find_own("nowhere.csv", metrics=words)


def test_metric_script_with_two_imports_on_a_line_is_an_error(tmp_path):
    script = tmp_path / "two.py"
    script.write_text("import evaluate, datasets\n\nclass Two(evaluate.Metric):\n    pass\n")
    with pytest.raises(DataError, match="one import per line"):
        load_script(str(script), None, None)
