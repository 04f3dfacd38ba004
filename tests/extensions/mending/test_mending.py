"""Tests of the advice after runs that learned nothing."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchharness as bh
from benchharness.driver.few_rows import FEW_ROWS, LEAST_STEPS
from benchharness.driver.options import RunOptions
from benchharness.extensions.mending.mending import advise, remedy
from benchharness.extensions.mending.words import python_call, shell_command
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import NEVER_FELL, Cost, Result
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from tests.helpers.compared_runs import made
from tests.helpers.plans import plan_mini

TINY, BERT = MODELS["tiny"], MODELS["bert-base-uncased"]
ASKED = RunOptions(model=("tiny",), task=("glue/rte",), data="mini", seeds=2)


def job(recipe: str | None = None, model: Any = TINY, **values: str) -> Job:
    (planned,) = plan_mini("rte")
    found = resolve_recipe(model, "glue/rte", recipe, values)
    named = {"recipe": found.name, "settings": found.settings, "overridden": found.overridden}
    return replace(planned, model=model.name, checkpoint=model.checkpoint, **named)


def advised(options: RunOptions, found: Job, steps: int, model: Any = TINY) -> RunOptions:
    return remedy(options, found, model, steps)[1]


# Causes, and the suggested options.


def test_advice_after_a_short_training_is_the_recipe_for_few_rows_without_set_rates() -> None:
    asked = replace(ASKED, set=("learning_rate=1e-5", "epochs=1", "dropout=0.2"), force=True)
    reason, changed = remedy(asked, job(learning_rate="1e-5", epochs="1"), TINY, 12)
    assert reason == "it was trained for only 12 steps"
    assert changed == replace(ASKED, recipe=FEW_ROWS, set=("dropout=0.2",))


def test_advice_removes_a_chosen_learning_rate_above_the_recipes_rate() -> None:
    asked = replace(ASKED, set=("learning_rate=5e-2",))
    reason, changed = remedy(asked, job(learning_rate="5e-2"), TINY, LEAST_STEPS)
    assert reason == "its learning rate 0.05 is above its recipe's 1e-3"
    assert changed == ASKED


def test_low_learning_rate_of_a_small_encoder_is_raised(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 384}')
    small = replace(BERT, name="small", checkpoint=str(tmp_path))
    rate = resolve_recipe(small, "glue/rte", FEW_ROWS, {}).settings["learning_rate"].value
    changed = advised(ASKED, job(model=small), 150, small)
    assert changed == replace(ASKED, set=(f"learning_rate={rate:.0e}".replace("e-0", "e-"),))


def test_long_training_is_repeated_with_half_the_rate_and_twice_the_steps() -> None:
    assert advised(replace(ASKED, set=("epochs=9",)), job(epochs="9"), 400) == replace(
        ASKED, set=("learning_rate=5e-4", "steps=800")
    )
    assert advised(ASKED, job(), 9000) == replace(ASKED, set=("learning_rate=5e-4",))


def test_advised_command_names_a_recipe_for_few_rows_that_was_chosen_automatically() -> None:
    changed = advised(ASKED, job(FEW_ROWS), 200)
    assert changed == replace(ASKED, recipe=FEW_ROWS, set=("learning_rate=5e-4", "steps=400"))


def test_head_on_a_frozen_encoder_is_trained_for_longer() -> None:
    asked = replace(ASKED, set=("features=last",))
    changed = advised(asked, job(features="last", learning_rate="1e-5"), 24)
    assert changed.recipe is None
    assert changed.set == ("features=last", "steps=200", "learning_rate=1e-3")


# Suggested commands.


def test_advised_command_has_every_chosen_option_and_can_be_parsed(tmp_path: Path) -> None:
    options = replace(
        ASKED, seeds=None, seed=(1, 2), set=("epochs=3",), baselines=False, data="a b", timeout=9.5
    )
    words = shlex.split(shell_command(options))
    assert words == [
        *("bench", "run", "--model", "tiny", "--task", "glue/rte", "--data", "a b"),
        *("--seed", "1", "--seed", "2", "--set", "epochs=3", "--no-baselines", "--timeout", "9.5"),
    ]
    assert python_call(options) == (
        'bh.run("tiny", task="glue/rte", data="a b", seeds=[1, 2], set={"epochs": "3"}, '
        "baselines=False, timeout=9.5)"
    )


def test_command_hides_the_password_of_a_database() -> None:
    options = replace(ASKED, db="postgresql://me:secret@host/db")
    assert "secret" not in shell_command(options) + python_call(options)
    assert "postgresql://me@host/db" in shell_command(options)


# Runs that a command covers.


def collapsed(model: str = "tiny", seed: int = 1, **fields: Any) -> Result:
    found = job()
    flags = {"settings": found.settings, "checkpoint": found.checkpoint, **fields}
    whole = made(model, "glue/rte", seed, (), **flags)
    lost = tuple(replace(each, flags=(NEVER_FELL,)) for each in whole.evaluations)
    return replace(whole, evaluations=lost, cost=replace(Cost.without_network(1.0), steps=12))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "x.sqlite") as opened:
        yield opened


def test_advice_for_several_collapsed_seeds_of_one_training_is_one_command(store: Store) -> None:
    store.add_results([collapsed(seed=1), collapsed(seed=2), made("tiny", "glue/cola", 1, ())])
    (found,) = advise(ASKED, store, store.runs())
    assert found.sentence == (
        "tiny on RTE learned nothing (2 of 2 seeds): it was trained for only 12 steps. Most likely "
        "to help:"
    )
    assert found.command == (
        "bench run --model tiny --task glue/rte --data mini --seeds 2 --recipe few-rows"
    )


def test_sweep_gets_advice_only_if_none_of_its_settings_has_learned(store: Store) -> None:
    lost = collapsed(is_sweep=True)
    store.add_results([lost])
    (found,) = advise(ASKED, store, store.runs())
    assert "(1 of 1 run)" in found.sentence
    other = job(learning_rate="3e-4")
    learned = made("tiny", "glue/rte", 1, (), is_sweep=True, settings=other.settings)
    store.add_results([learned])
    assert len(store.runs()) == 2
    assert list(advise(ASKED, store, store.runs())) == []


@pytest.mark.soak
def test_command_advised_after_a_collapsed_run_on_custom_data_learns(
    bench: Any, tmp_path: Path
) -> None:
    """The advised command is run as it was printed, and its run learns."""
    lines = (f"a {word} film number {n},{word}" for n in range(40) for word in ("good", "bad"))
    (tmp_path / "reviews.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    words = ("run", "--model", "tiny", "--data-file", "reviews.csv", "--seeds", "1")
    more = ("--no-baselines", "--device", "cpu", "--recipe", "paper", "--set", "learning_rate=1e-6")
    ended = bench(*words, *more)
    assert ended.code == 0, ended.err
    *_, sentence, command = ended.out.splitlines()
    assert sentence.startswith("tiny on reviews learned nothing (1 of 1 seed): it was trained for")
    assert command == (
        "    bench run --model tiny --seeds 1 --data-file reviews.csv --recipe few-rows "
        "--no-baselines --device cpu"
    )
    mended_run = bench(*shlex.split(command)[1:], "--json")
    assert mended_run.code == 0, mended_run.err
    assert json.loads(mended_run.out)["advice"] == []
    before, after = bh.runs(db="results/leaderboard.sqlite")["score"]
    assert after > before
    again = json.loads(bench(*words, *more, "--json").out)
    assert again["advice"] == [{"sentence": sentence, "command": command.strip()}]
    options = {"seeds": 1, "baselines": False, "device": "cpu", "recipe": "paper"}
    with pytest.warns(UserWarning, match="too few to learn from"):
        ran = bh.run("tiny", data_file="reviews.csv", set={"learning_rate": 1e-6}, **options)
    assert ran.advice == (
        (
            f'{sentence} bh.run("tiny", seeds=1, data_file="reviews.csv", recipe="few-rows", '
            'baselines=False, device="cpu")'
        ),
    )
    assert "few-rows" in ran._repr_html_()
