"""Every published system is a known checkpoint, or says why it is none."""

import pytest

from benchharness.leaderboard.boards.published import every_row, find_system, rows_of_model, systems
from benchharness.leaderboard.boards.reproduction import REFERENCES
from benchharness.models import MODELS

LECTURED = ("BERT", "RoBERTa", "ALBERT", "XLNet", "ELECTRA", "T5", "GPT", "ELMo", "CoVe", "ULMFiT")


def test_every_system_of_every_table_is_accounted_for() -> None:
    unknown = {
        (row.table, row.system) for row in every_row() if find_system(row.system, row.table) is None
    }
    assert not unknown


def test_every_system_is_a_known_model_or_has_a_reason() -> None:
    for system in systems():
        assert system.model in MODELS if system.model else system.reason, system


def test_every_system_stands_in_a_table_or_in_a_lecture() -> None:
    assert not [system.name for system in systems() if not (system.rows or system.in_lectures)]


def test_no_system_is_accounted_for_twice() -> None:
    keys = [(system.name, system.table) for system in systems()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", LECTURED)
def test_what_the_lectures_name_is_there(name: str) -> None:
    found = find_system(name, "no table")
    assert found is not None
    assert found.in_lectures


def test_a_table_may_mean_something_else_by_a_name() -> None:
    released = find_system("ELECTRA-Base", "electra_readme")
    papers = find_system("ELECTRA-Base", "electra_paper_squad")
    assert released is not None
    assert papers is not None
    assert (released.model, papers.model) == ("electra-base-discriminator", "")
    assert (papers.status, papers.reason) == (
        "published row only",
        "weights were never released",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ERNIE (Baidu)", "pretrained in Chinese alone"),
        (
            "DeBERTa 1.5B + SiFT",
            "fine-tuned against an adversary (SiFT), which no recipe here does",
        ),
    ],
)
def test_what_runs_here_in_another_way_is_no_model_of_ours(name: str, reason: str) -> None:
    found = find_system(name, "any table")
    assert found is not None
    assert (found.model, found.reason) == ("", reason)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("T5", "--text-to-text"), ("T5*", "--text-to-text"), ("T5-11B", "--text-to-text"),
        ("MT-DNN", "--start-from multi-task"),
        ("BERT-base features, last layer", "--recipe features"),
    ],
)  # fmt: skip
def test_what_runs_in_a_way_of_its_own_says_it(name: str, way: str) -> None:
    found = find_system(name, "any table")
    assert found is not None
    assert (found.status, found.model) == ("runs here", "")
    assert way in found.reason


@pytest.mark.parametrize(
    ("name", "model", "option"),
    [
        ("NeoBERT", "neobert", "--trust-remote-code"),
        ("GTE-en-MLM-base", "gte-en-mlm-base", "--trust-remote-code"),
    ],
)
def test_a_known_model_says_which_option_it_needs(name: str, model: str, option: str) -> None:
    found = find_system(name, "any table")
    assert found is not None
    assert found.model == model
    assert option in MODELS[model].note


def test_t5_says_what_of_it_runs() -> None:
    titles = [spec.title for spec in MODELS.values() if spec.family == "t5"]
    assert titles
    assert all(title.endswith("without --text-to-text its encoder alone") for title in titles)


def test_an_unknown_system_is_none() -> None:
    assert find_system("BERT-base-imaginary", "electra_readme") is None


def test_a_models_rows_are_those_of_all_its_names() -> None:
    found = {(row.table, row.system) for row in rows_of_model("albert-xxlarge-v1")}
    assert ("albert_paper_glue_dev", "ALBERT (1.5M)") in found
    assert ("electra_paper_squad", "ALBERT") in found
    assert ("albert_readme_race", "ALBERT-xxlarge v2") not in found
    assert not rows_of_model("tiny")


def test_a_number_is_no_other_models_because_of_a_like_name() -> None:
    """DeBERTa's table prints the ELECTRA-Base of the paper (83.3 F1), not the released one."""
    printed = find_system("ELECTRA-base", "deberta_paper_squad")
    assert printed is not None
    assert printed.model == ""


def test_a_task_has_one_reference_a_model() -> None:
    for references in REFERENCES.values():
        rows = [r for r in every_row() if (r.table, r.system) in references and r.split == "dev"]
        tasks = [task for row in rows for task in dict.fromkeys(c.task for c in row.cells)]
        assert len(tasks) == len(set(tasks)), references


def test_reproductions_compare_a_model_with_itself() -> None:
    for known, references in REFERENCES.items():
        name, _, features = known.partition(", features=")
        if features:
            assert all("BERT-base features" in system for _, system in references)
            continue
        (model,) = (spec.name for spec in MODELS.values() if name in (spec.name, *spec.aliases))
        for reference in references:
            assert reference in {(row.table, row.system) for row in rows_of_model(model)}
