"""Tests of GLUE's tasks on the official layouts and, where available, official files."""

from pathlib import Path

import pytest

from benchharness.tasks.examples import Example, PairExample, PairPrediction
from benchharness.tasks.glue import GLUE_TASKS
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data
from benchharness.tasks.task import score

GLUE = {task.name: task for task in GLUE_TASKS}
MINI = Data(source="mini")


def pair_examples(examples: tuple[Example, ...]) -> list[PairExample]:
    return [example for example in examples if isinstance(example, PairExample)]


def write(folder: Path, name: str, *lines: str) -> Data:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return Data(source="files", folder=folder)


def first(name: str, split: str, data: Data) -> PairExample:
    return pair_examples(read(GLUE[name], split, data).examples)[0]


@pytest.mark.parametrize("name", ["glue/mrpc", "glue/qqp"])
def test_f1_of_mrpc_and_qqp_is_the_f1_of_the_positive_class(name: str) -> None:
    """Score two of three positives and one false alarm: precision, recall and F1 are 2/3."""
    negative, positive = GLUE[name].labels
    gold = [positive, positive, positive, negative, negative, negative, negative]
    guess = [positive, positive, negative, positive, negative, negative, negative]
    examples = [PairExample(id=str(i), text_a="a", label=g) for i, g in enumerate(gold)]
    predictions = [PairPrediction(id=str(i), label=g) for i, g in enumerate(guess)]
    assert score(GLUE[name], "dev", predictions, examples)["f1"] == pytest.approx(2 / 3)


def test_mnli_has_matched_and_mismatched_dev_and_test_splits() -> None:
    mnli = GLUE["glue/mnli"]
    assert mnli.dev_splits == ("dev", "dev_mm")
    assert mnli.test_splits == ("test", "test_mm")
    examples = [PairExample(id="0", text_a="a", label="neutral")]
    assert list(score(mnli, "dev_mm", [PairPrediction(id="0", label="neutral")], examples)) == [
        "accuracy_mm"
    ]


def test_glue_diagnostic_set_uses_mnli_models_and_has_four_categories() -> None:
    ax = GLUE["glue/ax"]
    assert ax.trained_on == "glue/mnli"
    assert ax.labels == GLUE["glue/mnli"].labels
    categories = {c for e in pair_examples(read(ax, "test", MINI).examples) for c in e.categories}
    assert categories == {"lex_sem", "pr_ar_str", "logic", "knowledge"}


def test_full_glue_diagnostic_file_is_read_with_labels_and_categories(tmp_path: Path) -> None:
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


def test_plain_glue_diagnostic_file_is_read_without_labels_and_categories(tmp_path: Path) -> None:
    data = write(
        tmp_path,
        "diagnostic/diagnostic.tsv",
        "index\tsentence1\tsentence2",
        "0\tNo cat sat.\tA cat sat.",
    )
    assert first("glue/ax", "test", data) == PairExample(
        id="0", text_a="No cat sat.", text_b="A cat sat."
    )


def test_original_mrpc_test_file_has_the_same_rows_as_the_glue_file(tmp_path: Path) -> None:
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
