"""Names of leaderboard entries: settings, differences, and the form for the command line."""

import shlex
from typing import Any

import pytest

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board, boards_with, select_entry
from benchharness.leaderboard.boards.naming import full_label, heads, short_name
from benchharness.leaderboard.job import Setting, recipe_words, setting_word, value_text
from benchharness.leaderboard.result import RunRow
from tests.helpers.boards import make_row, make_rows, one_board

PAPER = {"learning_rate": 2e-5, "epochs": 10.0, "batch_size": 16}


def settings_of(**chosen: Any) -> dict[str, Setting]:
    paper = {name: Setting(value=value, source="a paper") for name, value in PAPER.items()}
    return paper | {n: Setting(value=value, source="--set") for n, value in chosen.items()}


def rows(model: str = "minilm", level: float = 0.5, **chosen: Any) -> list[RunRow]:
    """Make runs of a model by its paper's recipe, or with these values set."""
    digest = repr(sorted(chosen.items()))
    facts = {"overridden": bool(chosen), "settings": settings_of(**chosen)}
    return make_rows(model, [level], recipe_digest=digest, **facts)


@pytest.fixture(scope="module")
def board() -> Board:
    return one_board(
        [
            *rows(level=0.9),
            *rows(level=0.8, learning_rate=3e-4, epochs=3.0),
            *rows(level=0.7, learning_rate=3e-4),
            *rows("bert", 0.6, best_checkpoint=True, warmup_ratio=0.06),
        ]
    )


def test_entry_name_contains_the_overridden_settings(board: Board) -> None:
    assert [entry.name for entry in board.entries] == [
        "minilm",
        "minilm, lr 3e-4, 3 epochs",
        "minilm, lr 3e-4",
        "bert, best checkpoint, warmup ratio 0.06",
    ]
    assert [entry.beside_name for entry in board.entries] == ["paper", "", "", ""]
    assert not any("~" in entry.name + entry.recipe_label for entry in board.entries)


def test_entry_names_need_no_shell_quoting(board: Board) -> None:
    names = [full_label(entry) for entry in board.entries]
    assert names[1] == "minilm:lr=3e-4,epochs=3:fp32"
    for entry in board.entries:
        for name in (full_label(entry), short_name(entry, board.entries)):
            assert shlex.quote(name) == name
            assert select_entry(board, name) is entry


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("minilm:paper", 0),
        ("minilm:epochs=3", 1),
        ("minilm:lr=0.0003,epochs=3", 1),
        ("minilm:learning_rate=3e-04:epochs=3", 1),
        ("minilm:lr=3e-4", 2),
        ("minilm:lr=3e-4:fp32", 2),
        ("bert", 3),
        ("bert:warmup_ratio=0.06", 3),
        ("bert:paper+set", 3),
        ("bert:paper+set:fp32", 3),
    ],
)
def test_unambiguous_partial_name_selects_an_entry(board: Board, name: str, row: int) -> None:
    assert select_entry(board, name) is board.entries[row]


def test_ambiguous_entry_name_is_an_error_that_lists_the_entries(board: Board) -> None:
    with pytest.raises(BenchError, match=r"use minilm:paper or minilm:epochs=3 or "):
        select_entry(board, "minilm")
    assert select_entry(board, "minilm:lr=5e-5") is None
    assert select_entry(board, "minilm:bf16") is None


def test_unknown_entry_name_is_an_error_that_lists_entries_of_the_model(board: Board) -> None:
    said = r"There are results of minilm:paper, minilm:epochs=3, minilm:lr=3e-4\. "
    with pytest.raises(BenchError, match=said):
        boards_with([board], ["minilm:lr=5e-5", "bert"])


def test_entries_with_equal_recipe_names_are_named_by_the_differing_value() -> None:
    other = {**settings_of(), "learning_rate": Setting(value=5e-5, source="another version")}
    facts = {"recipe_digest": "b" * 12, "settings": other}
    found = one_board([*rows(level=0.9), *make_rows(values=[0.8], **facts)])
    assert [entry.name for entry in found.entries] == ["minilm, lr 2e-5", "minilm, lr 5e-5"]
    assert select_entry(found, "minilm:lr=5e-5") is found.entries[1]


def test_entry_names_are_unique_even_if_shortened_names_collide() -> None:
    older = {**settings_of(), "learning_rate": Setting(value=3e-5, source="another version")}
    longer = settings_of(learning_rate=3e-5) | {"epochs": Setting(value=3.0, source="a paper")}
    found = one_board(
        [
            *rows(level=0.9),
            *make_rows(values=[0.8], recipe_digest="b" * 12, settings=older),
            *make_rows(values=[0.7], recipe_digest="c", overridden=True, settings=longer),
        ]
    )
    names = [entry.name for entry in found.entries]
    assert len(set(names)) == 3, names
    for entry in found.entries:
        assert select_entry(found, full_label(entry)) is entry


def test_entry_name_of_a_sweep_contains_the_swept_setting() -> None:
    points = [
        make_row(
            scores=0.5 + place / 10,
            recipe_digest=str(rate),
            overridden=True,
            is_sweep=True,
            settings=settings_of(learning_rate=rate, epochs=3.0),
        )
        for place, rate in enumerate((2e-5, 3e-5))
    ]
    (entry,) = one_board(points).entries
    assert entry.name == "minilm, sweep of lr, 3 epochs"
    assert entry.recipe_label == "sweep of lr, 3 epochs, best of 2 on dev"
    assert full_label(entry) == "minilm:sweep=lr,epochs=3:fp32"


def test_setting_whose_default_is_in_the_sweep_is_named_as_swept() -> None:
    """The job with the default value lacks the setting."""
    points = [
        make_row(
            scores=0.5 + place / 10,
            recipe_digest=str(place),
            overridden=True,
            is_sweep=True,
            settings=settings_of(epochs=3.0, **settings),
        )
        for place, settings in enumerate(({"lora_rank": 4}, {}))
    ]
    (entry,) = one_board(points).entries
    assert entry.name == "minilm, sweep of lora rank, 3 epochs"


def test_column_heads_of_a_comparison_show_only_settings_that_differ_between_entries(
    board: Board,
) -> None:
    minilm, both, rate, bert = board.entries
    assert heads([minilm, bert]) == ("minilm", "bert")
    assert heads([minilm, both]) == ("paper", "lr 3e-4, 3 epochs")
    assert heads([both, rate]) == ("3 epochs", "minilm")
    precisions = one_board([*rows(), *make_rows(values=[0.4], precision="bf16")])
    assert heads(precisions.entries) == ("fp32", "bf16")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-4, "3e-4"),
        (1.5e-5, "1.5e-5"),
        (0.001, "1e-3"),
        (0.06, "0.06"),
        (3.0, "3"),
        (100_000, "100000"),
        (0, "0"),
        (True, "true"),
        ("train:0.1", "train:0.1"),
    ],
)
def test_hyperparameter_values_are_formatted_as_in_papers(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_hyperparameters_have_readable_and_shell_safe_names() -> None:
    assert setting_word("epochs", [1.0]) == ("1 epoch", "epochs=1")
    assert setting_word("best_checkpoint", [False]) == (
        "no best checkpoint",
        "best_checkpoint=false",
    )
    assert setting_word("learning_rate", [3e-5, 2e-5]) == ("lr 2e-5/3e-5", "lr=2e-5/3e-5")
    assert setting_word("select_on", ["train:0.1"])[1] == "select_on=train_0.1"
    assert recipe_words("paper+set", [make_row()]) == (("paper+set", "paper+set"),)
