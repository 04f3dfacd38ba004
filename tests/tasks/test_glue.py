"""GLUE as it is declared, on the official layouts and, where they are at hand, official files."""

import os
from pathlib import Path

import pytest

from benchharness.tasks.examples import Example, PairExample, PairPrediction
from benchharness.tasks.glue import GLUE_TASKS
from benchharness.tasks.read import has_split, read
from benchharness.tasks.sources import Data
from benchharness.tasks.task import PairTask, score

GLUE = {task.name: task for task in GLUE_TASKS}
MINI = Data(source="mini")
EVERY_SPLIT = [(task.name, split) for task in GLUE_TASKS for split in task.source.splits]


def pair_examples(examples: tuple[Example, ...]) -> list[PairExample]:
    return [example for example in examples if isinstance(example, PairExample)]


def write(folder: Path, name: str, *lines: str) -> Data:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return Data(source="files", folder=folder)


def first(name: str, split: str, data: Data) -> PairExample:
    return pair_examples(read(GLUE[name], split, data).examples)[0]


def test_all_ten_in_the_order_of_the_board() -> None:
    names = [task.name.removeprefix("glue/") for task in GLUE_TASKS]
    assert names == ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli", "ax"]


@pytest.mark.parametrize(("name", "split"), EVERY_SPLIT)
def test_every_split_reads_and_its_labels_are_the_tasks(name: str, split: str) -> None:
    task = GLUE[name]
    examples = pair_examples(read(task, split, MINI).examples)
    assert [e.id for e in examples] == [str(i) for i in range(len(examples))]
    assert all(e.text_a.strip() for e in examples)
    assert all((e.text_b is None) == (len(task.source.columns) == 2) for e in examples)
    labels = {e.label for e in examples}
    if task.source.splits[split].hidden:
        assert labels == {None}
    elif task.is_regression:
        assert all(isinstance(label, float) for label in labels)
    else:
        assert labels == set(task.labels)


def perfect(task: PairTask, example: PairExample) -> PairPrediction:
    assert example.label is not None
    scores = tuple(float(label == example.label) for label in task.labels)
    return PairPrediction(id=example.id, label=example.label, scores=scores)


@pytest.mark.parametrize(
    ("name", "split"), [(n, s) for n, s in EVERY_SPLIT if not GLUE[n].source.splits[s].hidden]
)
def test_a_perfect_prediction_scores_one_by_every_metric(name: str, split: str) -> None:
    task = GLUE[name]
    examples = pair_examples(read(task, split, MINI).examples)
    found = score(task, split, [perfect(task, e) for e in examples], examples)
    assert found == {metric: pytest.approx(1.0) for metric in found}
    assert len(found) == len(task.metrics) + len(task.details)


@pytest.mark.parametrize(
    ("name", "metrics"),
    [
        ("cola", ["mcc"]),
        ("sst2", ["accuracy"]),
        ("mrpc", ["accuracy", "f1"]),
        ("stsb", ["pearson", "spearman"]),
        ("qqp", ["accuracy", "f1"]),
        ("mnli", ["accuracy"]),
        ("qnli", ["accuracy"]),
        ("rte", ["accuracy"]),
        ("wnli", ["accuracy"]),
        ("ax", ["mcc"]),
    ],
)
def test_metrics_are_the_boards(name: str, metrics: list[str]) -> None:
    assert [metric.name for metric in GLUE[f"glue/{name}"].metrics] == metrics


@pytest.mark.parametrize("name", ["glue/mrpc", "glue/qqp"])
def test_f1_is_that_of_the_positive_class(name: str) -> None:
    """Two of three positives found and one false alarm: precision, recall and F1 are 2/3."""
    negative, positive = GLUE[name].labels
    gold = [positive, positive, positive, negative, negative, negative, negative]
    guess = [positive, positive, negative, positive, negative, negative, negative]
    examples = [PairExample(id=str(i), text_a="a", label=g) for i, g in enumerate(gold)]
    predictions = [PairPrediction(id=str(i), label=g) for i, g in enumerate(guess)]
    assert score(GLUE[name], "dev", predictions, examples)["f1"] == pytest.approx(2 / 3)


def test_mnli_has_two_dev_and_two_test_splits() -> None:
    mnli = GLUE["glue/mnli"]
    assert mnli.dev_splits == ("dev", "dev_mm")
    assert mnli.test_splits == ("test", "test_mm")
    examples = [PairExample(id="0", text_a="a", label="neutral")]
    assert list(score(mnli, "dev_mm", [PairPrediction(id="0", label="neutral")], examples)) == [
        "accuracy_mm"
    ]


def test_ax_is_predicted_by_mnlis_model_and_scored_by_category() -> None:
    ax = GLUE["glue/ax"]
    assert ax.trained_on == "glue/mnli"
    assert ax.labels == GLUE["glue/mnli"].labels
    categories = {c for e in pair_examples(read(ax, "test", MINI).examples) for c in e.categories}
    assert categories == {"lex_sem", "pr_ar_str", "logic", "knowledge"}


def test_the_full_diagnostic_file_has_labels_and_categories(tmp_path: Path) -> None:
    data = write(
        tmp_path,
        "diagnostic/diagnostic-full.tsv",
        "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise"
        "\tHypothesis\tLabel",
        "Quantifiers\t\tNegation;Conditionals\t\tNews\tNo cat sat.\tA cat sat.\tcontradiction",
    )
    assert first("glue/ax", "test", data) == PairExample(
        id="0",
        text_a="No cat sat.",
        text_b="A cat sat.",
        label="contradiction",
        categories=("lex_sem", "logic"),
    )


def test_the_plain_diagnostic_file_hides_both(tmp_path: Path) -> None:
    data = write(
        tmp_path,
        "diagnostic/diagnostic.tsv",
        "index\tsentence1\tsentence2",
        "0\tNo cat sat.\tA cat sat.",
    )
    assert first("glue/ax", "test", data) == PairExample(
        id="0", text_a="No cat sat.", text_b="A cat sat."
    )


def test_a_folder_without_ax_does_not_have_it(tmp_path: Path) -> None:
    assert not has_split(GLUE["glue/ax"], "test", Data(source="files", folder=tmp_path))
    assert has_split(GLUE["glue/ax"], "test", MINI)


def test_the_original_mrpc_test_file_reads_like_glues(tmp_path: Path) -> None:
    data = write(
        tmp_path,
        "MRPC/msr_paraphrase_test.txt",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '1\t10\t11\tHe said "no.\tNo, he said.',
    )
    original = read(GLUE["glue/mrpc"], "test", data)
    write(
        tmp_path,
        "MRPC/test.tsv",
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String",
        '0\t10\t11\tHe said "no.\tNo, he said.',
    )
    assert read(GLUE["glue/mrpc"], "test", data) == original
    assert pair_examples(original.examples) == [
        PairExample(id="0", text_a='He said "no.', text_b="No, he said.")
    ]


def test_a_broken_line_of_qqps_first_release_is_named(tmp_path: Path) -> None:
    data = write(
        tmp_path,
        "QQP/train.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "1\t2\t3\tIs it?\tIt is?\t1",
        "Is it not?\tWhy?\t0",
    )
    with pytest.raises(Exception, match=r"QQP.train\.tsv line 3 has 3 fields") as caught:
        read(GLUE["glue/qqp"], "train", data)
    assert getattr(caught.value, "exit_code", None) == 4


ROWS = {
    "glue/cola": {"train": 8551, "dev": 1043, "test": 1063},
    "glue/sst2": {"train": 67349, "dev": 872, "test": 1821},
    "glue/mrpc": {"train": 3668, "dev": 408, "test": 1725},
    "glue/stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "glue/qqp": {"train": 363846, "dev": 40430, "test": 390965},
    "glue/mnli": {"train": 392702, "dev": 9815, "dev_mm": 9832, "test": 9796, "test_mm": 9847},
    "glue/qnli": {"train": 104743, "dev": 5463, "test": 5463},
    "glue/rte": {"train": 2490, "dev": 277, "test": 3000},
    "glue/wnli": {"train": 635, "dev": 71, "test": 146},
    "glue/ax": {"test": 1104},
}


@pytest.mark.parametrize(("name", "split"), EVERY_SPLIT)
def test_official_files_have_the_published_number_of_rows(name: str, split: str) -> None:
    folder = os.environ.get("BENCH_TEST_DATA")
    if folder is None:
        pytest.skip("BENCH_TEST_DATA names no folder of official files")
    data = Data(source="files", folder=Path(folder))
    if not has_split(GLUE[name], split, data):
        pytest.skip(f"{folder} has no {name} {split}")
    assert len(read(GLUE[name], split, data).examples) == ROWS[name][split]
