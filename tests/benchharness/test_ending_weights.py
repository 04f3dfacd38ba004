"""Tests of the final weights of a training: last, best evaluation or average."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from benchharness.recipes.recipe import Recipe
from benchharness.training.loop import Training
from benchharness.training.snapshots import State, read_state, write_state
from tests.helpers.training import RECIPE, begin, fit, having, make_network, weights_of

SIX = having(RECIPE, epochs=6, batch_size=32, evaluations=6)
"""Recipe of twelve steps with an evaluation after every second step."""
BEST = having(SIX, best_checkpoint=True)

Values = tuple[float | None, ...]


@cache
def passed(recipe: Recipe, values: Values) -> tuple[Training, list[torch.Tensor]]:
    """Return a training with given evaluation values, and the weights after each evaluation."""
    training, seen = begin(make_network(), recipe), []

    def look(number: int) -> float | None:
        seen.append(weights_of(training.network))
        return values[number]

    fit(training, lambda: {"x": 0.5}, value=look)
    return training, seen


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ((0.1, 0.2, 0.9, 0.3, 0.4, 0.5), 2),
        ((0.9, 0.2, 0.3, 0.3, 0.4, 0.5), 0),
        ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 5),
        ((0.1, 0.9, 0.3, 0.9, 0.9, 0.5), 1),
        ((-0.5, -0.2, -0.3, -0.9, -0.4, -0.3), 1),
        ((None, None, 0.0, None, -0.1, None), 2),
    ],
    ids=["middle", "first", "last", "ties", "negative", "undefined"],
)
def test_final_weights_with_best_checkpoint_are_from_the_best_evaluation(values: Values, best: int):
    training, seen = passed(BEST, values)
    assert torch.equal(weights_of(training.network), seen[best])
    assert training.meter.best == best
    assert training.meter.step == 12


def test_last_weights_are_kept_if_no_evaluation_has_a_score():
    training, seen = passed(having(BEST, early_stopping=1), (None,) * 6)
    assert torch.equal(weights_of(training.network), seen[-1])
    assert (len(seen), training.meter.best) == (6, None)


def test_best_checkpoint_selection_does_not_change_the_training_steps():
    values = (0.1, 0.2, 0.9, 0.3, 0.4, 0.5)
    (_, plain), (_, chosen) = passed(SIX, values), passed(BEST, values)
    assert all(torch.equal(one, other) for one, other in zip(plain, chosen, strict=True))


@pytest.mark.parametrize(
    ("patience", "values", "made"),
    [
        (1, (0.1, 0.2, 0.1, 0.9, 0.9, 0.9), 3),
        (2, (0.1, 0.2, 0.1, 0.2, 0.9, 0.9), 4),
        (2, (0.1, 0.2, 0.1, 0.3, 0.1, 0.1), 6),
        (3, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 6),
        (1, (None, None, 0.1, None, 0.2, 0.3), 4),
    ],
)
def test_early_stopping_stops_when_its_patience_is_exhausted(
    patience: int, values: Values, made: int
):
    training, seen = passed(having(SIX, early_stopping=patience), values)
    assert (len(seen), training.meter.step) == (made, 2 * made)
    assert training.is_over
    assert torch.equal(weights_of(training.network), seen[-1]), "stopping alone chooses no weights"
    assert training.meter.curve[-1].step == 2 * made
    chosen, theirs = passed(having(BEST, early_stopping=patience), values)
    assert len(theirs) == made
    best = max(range(made), key=lambda n: -1.0 if values[n] is None else values[n] or 0.0)
    assert torch.equal(weights_of(chosen.network), theirs[best])


@pytest.mark.parametrize("last", [2, 3, 6])
def test_weights_with_average_last_equal_those_of_the_averaged_model_of_torch(last: int):
    """The reference is torch's AveragedModel, up to the rounding of its running mean."""
    network, number = make_network(), 0
    averaged = AveragedModel(network)
    training = begin(network, having(SIX, average_last=last))

    def look(_: int) -> None:
        nonlocal number
        number += 1
        if number > 6 - last:
            averaged.update_parameters(network)

    fit(training, dict, value=look)
    theirs = weights_of(averaged.module)
    torch.testing.assert_close(weights_of(network), theirs, atol=1e-7, rtol=1e-6)
    plain, seen = passed(SIX, (None,) * 6)
    assert not torch.equal(weights_of(network), weights_of(plain.network))
    mean = torch.stack(seen[-last:]).double().mean(0)
    torch.testing.assert_close(weights_of(network).double(), mean, atol=1e-7, rtol=1e-6)


def test_integer_buffers_are_not_averaged_with_the_weights():
    network = make_network()
    network.register_buffer("count", torch.tensor([3]))
    fit(begin(network, having(SIX, average_last=3)), dict)
    assert network.get_buffer("count").tolist() == [3]


def test_weight_average_of_a_short_run_is_over_all_of_its_evaluations():
    network, seen = make_network(), []
    training = begin(network, having(RECIPE, epochs=1, evaluations=9, average_last=5))
    fit(training, dict, value=lambda _: seen.append(weights_of(network)))
    assert len(seen) == 2
    mean = torch.stack(seen).mean(0)
    torch.testing.assert_close(weights_of(network), mean, atol=1e-7, rtol=1e-6)


# Resuming from a saved state.


class StoppedError(Exception):
    """The end of a process, simulated in a test."""


VALUES = (0.1, 0.2, 0.9, 0.3, 0.4, 0.5)
RECIPES = {
    "best": BEST,
    "best and patience": having(BEST, early_stopping=2),
    "patience": having(SIX, early_stopping=2),
    "average": having(SIX, average_last=4),
    "decoupled, cosine": having(
        SIX, schedule="cosine", weight_decay=0.0, decoupled_weight_decay=0.01, layer_decay=0.9
    ),
}


def through_files(state: State, folder: Path) -> State:
    folder.mkdir()
    write_state(folder, state)
    return read_state(folder)


PLACES = {
    "between evaluations": (5, False),
    "in an evaluation": (6, True),
    "after an evaluation": (6, False),
    "after the patience": (10, False),
}
"""Step after which the training is interrupted, and whether before its evaluation."""


@cache
def whole(name: str) -> Training:
    return passed(RECIPES[name], VALUES)[0]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (name, place)
        if name == "best and patience" or place == "in an evaluation"
        else pytest.param(name, place, marks=pytest.mark.soak)
        for name in RECIPES
        for place in PLACES
    ],
)
def test_training_with_checkpoint_selection_resumes_bit_for_bit(
    name: str, place: str, tmp_path: Path
):
    steps, is_before = PLACES[place]
    expected, stopped = whole(name), begin(make_network(), RECIPES[name])

    def stop() -> None:
        if stopped.meter.step == steps:
            raise StoppedError

    def look(number: int) -> float | None:
        if is_before:
            stop()
        return VALUES[number]

    with pytest.raises(StoppedError):
        fit(stopped, lambda: {"x": 0.5}, stop, value=look)
    state = through_files(stopped.state(), tmp_path / "state")
    again = begin(make_network(), RECIPES[name])
    torch.rand(3)  # random numbers that a new process draws before it restores must have no effect
    again.restore(state)
    fit(again, lambda: {"x": 0.5}, value=VALUES.__getitem__)
    assert torch.equal(weights_of(again.network), weights_of(expected.network))
    assert again.meter.values == expected.meter.values
    assert again.meter.curve == expected.meter.curve


@pytest.mark.parametrize("name", RECIPES)
def test_finished_training_with_checkpoint_selection_is_restored_bit_for_bit(
    name: str, tmp_path: Path
):
    state = through_files(whole(name).state(), tmp_path / "state")
    again = begin(make_network(), RECIPES[name])
    again.restore(state)
    assert again.is_over
    fit(again, dict)
    assert torch.equal(weights_of(again.network), weights_of(whole(name).network))


def test_training_state_has_the_best_weights_only_with_best_checkpoint():
    assert "kept" not in passed(SIX, VALUES)[0].state().tensors
    training, seen = passed(BEST, VALUES)
    kept = training.state().tensors["kept"]
    assert kept.keys() == training.state().tensors["weights"].keys()
    assert torch.equal(
        torch.cat([kept[n].flatten() for n, _ in training.network.named_parameters()]), seen[2]
    )
