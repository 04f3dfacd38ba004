"""Every published system is a built-in model, or has a reason why it is not."""

import pytest

from benchharness.leaderboard.boards.published import every_row, find_system, rows_of_model, systems
from benchharness.leaderboard.boards.reproduction import REFERENCES
from benchharness.models import MODELS

LECTURED = ("BERT", "RoBERTa", "ALBERT", "XLNet", "ELECTRA", "T5", "GPT", "ELMo", "CoVe", "ULMFiT")


def test_every_system_in_the_published_tables_is_listed() -> None:
    unknown = {
        (row.table, row.system) for row in every_row() if find_system(row.system, row.table) is None
    }
    assert not unknown


def test_every_published_system_has_a_built_in_model_or_a_reason() -> None:
    for system in systems():
        assert system.model in MODELS if system.model else system.reason, system


def test_every_listed_system_is_in_a_published_table_or_a_lecture() -> None:
    assert not [system.name for system in systems() if not (system.rows or system.in_lectures)]


def test_no_published_system_is_listed_twice_for_one_table() -> None:
    keys = [(system.name, system.table) for system in systems()]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", LECTURED)
def test_systems_named_in_lectures_are_listed(name: str) -> None:
    found = find_system(name, "no table")
    assert found is not None
    assert found.in_lectures


def test_system_lookup_distinguishes_equal_names_in_different_tables() -> None:
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
        ("ERNIE (Baidu)", "pretrained only on Chinese"),
        (
            "DeBERTa 1.5B + SiFT",
            "fine-tuned with adversarial training (SiFT), which no recipe supports",
        ),
    ],
)
def test_published_systems_without_a_built_in_model_have_a_reason(name: str, reason: str) -> None:
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
def test_published_system_without_a_model_name_has_instructions_how_to_run_it(
    name: str, way: str
) -> None:
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
def test_notes_of_models_with_remote_code_mention_the_trust_option(
    name: str, model: str, option: str
) -> None:
    found = find_system(name, "any table")
    assert found is not None
    assert found.model == model
    assert option in MODELS[model].note


def test_t5_model_titles_state_that_only_the_encoder_runs_by_default() -> None:
    titles = [spec.title for spec in MODELS.values() if spec.family == "t5"]
    assert titles
    assert all(title.endswith("without --text-to-text its encoder alone") for title in titles)


def test_lookup_of_an_unknown_system_returns_none() -> None:
    assert find_system("BERT-base-imaginary", "electra_readme") is None


def test_published_rows_of_a_model_include_its_aliases() -> None:
    found = {(row.table, row.system) for row in rows_of_model("albert-xxlarge-v1")}
    assert ("albert_paper_glue_dev", "ALBERT (1.5M)") in found
    assert ("electra_paper_squad", "ALBERT") in found
    assert ("albert_readme_race", "ALBERT-xxlarge v2") not in found
    assert not rows_of_model("tiny")


def test_system_lookup_does_not_match_similar_model_names() -> None:
    """Look up the ELECTRA-Base of DeBERTa's table.

    This is the model of the paper (83.3 F1), not the released one.
    """
    printed = find_system("ELECTRA-base", "deberta_paper_squad")
    assert printed is not None
    assert printed.model == ""


def test_each_model_has_at_most_one_published_reference_per_task() -> None:
    for references in REFERENCES.values():
        rows = [r for r in every_row() if (r.table, r.system) in references and r.split == "dev"]
        tasks = [task for row in rows for task in dict.fromkeys(c.task for c in row.cells)]
        assert len(tasks) == len(set(tasks)), references


def test_published_reference_scores_of_a_model_belong_to_its_checkpoint() -> None:
    for known, references in REFERENCES.items():
        name, _, features = known.partition(", features=")
        if features:
            assert all("BERT-base features" in system for _, system in references)
            continue
        (model,) = (spec.name for spec in MODELS.values() if name in (spec.name, *spec.aliases))
        for reference in references:
            assert reference in {(row.table, row.system) for row in rows_of_model(model)}
