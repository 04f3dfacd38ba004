"""Tests that a training that is interrupted after any step resumes bit for bit."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.extensions.adapters.hyperparameters import AdapterOptions
from benchharness.extensions.adapters.technique import add_adapters
from benchharness.progress import SIGNALS, Interrupted
from benchharness.training.loop import Training
from benchharness.training.meter import DivergedError, Meter
from benchharness.training.snapshots import State, read_state, write_state
from tests.helpers.training import RECIPE, begin, fit, having, make_network, weights_of

FOUR_STEPS = having(RECIPE, epochs=2, batch_size=32, evaluations=2)
ACROSS_EPOCHS = having(RECIPE, epochs=3, batch_size=24, accumulation=3, layer_decay=0.9)
GRADUAL = having(RECIPE, epochs=3, batch_size=32, unfreeze="gradual")
RECIPES = {"plain": FOUR_STEPS, "across epochs": ACROSS_EPOCHS, "gradual": GRADUAL}


OURS = ("benchharness.training.loop", "benchharness.training.meter")


class StoppedError(Exception):
    """The end of a process, simulated in a test."""


def stop_after(training: Training, steps: int) -> Callable[[], None]:
    def stop() -> None:
        if training.meter.step == steps:
            raise StoppedError

    return stop


def through_files(state: State, folder: Path) -> State:
    folder.mkdir()
    write_state(folder, state)
    return read_state(folder)


def stop_and_go_on(
    make: Callable[[], Training], steps: int, folder: Path
) -> tuple[Training, Meter]:
    """Interrupt a training after some steps, and resume it in another network."""
    stopped = make()
    with pytest.raises(StoppedError):
        fit(stopped, lambda: {"x": 0.5}, stop_after(stopped, steps))
    state = through_files(stopped.state(), folder)
    again = make()
    # Random numbers that a new process draws before it restores must have no effect.
    np.random.rand(3)
    torch.rand(3)
    again.restore(state)
    return again, fit(again, lambda: {"x": 0.5})


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_restored_training_continues_bit_for_bit(recipe, steps: int, tmp_path: Path):
    whole = begin(make_network(), recipe)
    expected, draws = fit(whole, lambda: {"x": 0.5}), torch.get_rng_state()
    theirs = whole.state().tensors["optimizer"]
    again, fitted = stop_and_go_on(lambda: begin(make_network(), recipe), steps, tmp_path / "state")
    assert torch.equal(torch.get_rng_state(), draws)
    assert torch.equal(weights_of(again.network), weights_of(whole.network))
    assert fitted.curve == expected.curve
    assert (fitted.step, fitted.examples, fitted.tokens) == (
        expected.step,
        expected.examples,
        expected.tokens,
    )
    ours = again.state().tensors["optimizer"]
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def with_adapters() -> nn.Module:
    network = make_network()
    add_adapters(network.encoder, AdapterOptions(lora_rank=2))
    return network


def test_training_state_with_adapters_has_only_trained_weights(tmp_path: Path):
    whole = begin(with_adapters(), FOUR_STEPS)
    fit(whole, dict)
    kept = whole.state().tensors["weights"]
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in kept if "lora" in name}
    assert not any("word_embeddings" in name for name in kept)
    again, _ = stop_and_go_on(lambda: begin(with_adapters(), FOUR_STEPS), 2, tmp_path / "state")
    assert torch.equal(weights_of(again.network), weights_of(whole.network))


def test_interrupted_evaluation_is_repeated_after_restoring():
    def fail() -> dict[str, float]:
        raise StoppedError

    whole = begin(make_network(), FOUR_STEPS)
    expected = fit(whole, lambda: {"x": 0.5})
    stopped = begin(make_network(), FOUR_STEPS)
    with pytest.raises(StoppedError):
        fit(stopped, fail)
    assert (stopped.meter.step, stopped.is_due) == (2, True)
    state = stopped.state()
    again = begin(make_network(), FOUR_STEPS)
    again.restore(state)
    assert fit(again, lambda: {"x": 0.5}).curve == expected.curve
    assert torch.equal(weights_of(again.network), weights_of(whole.network))


def test_finished_training_is_restored_as_finished_with_its_weights(tmp_path: Path):
    whole = begin(make_network(), FOUR_STEPS)
    expected = fit(whole, dict)
    state = through_files(whole.state(), tmp_path / "state")
    again = begin(make_network(seed=5), FOUR_STEPS)
    again.restore(state)
    assert again.is_over
    assert fit(again, dict).curve == expected.curve
    assert torch.equal(weights_of(again.network), weights_of(whole.network))


def test_training_time_excludes_the_time_between_interruption_and_resumption():
    training = begin(make_network(), FOUR_STEPS)
    fit(training, dict)
    numbers = {**training.meter.numbers(), "seconds": 100.0, "evaluating": 10.0}
    training.meter.restore(numbers)
    assert training.meter.seconds == pytest.approx(100, abs=1)
    assert training.meter.evaluating == 10.0


def test_training_interrupted_at_any_call_saves_a_resumable_state(tmp_path: Path):
    """The saved state continues bit for bit, wherever the signal arrives."""
    whole = begin(make_network(), FOUR_STEPS)
    expected = fit(whole, lambda: {"x": 0.5})
    for count in range(1, 400, 37):
        stopped = begin(make_network(), FOUR_STEPS)
        with suppress(Interrupted), signal_at_call(count):
            fit(stopped, lambda: {"x": 0.5})
        state = through_files(stopped.state(), tmp_path / str(count))
        again = begin(make_network(), FOUR_STEPS)
        again.restore(state)
        assert fit(again, lambda: {"x": 0.5}).curve == expected.curve
        assert torch.equal(weights_of(again.network), weights_of(whole.network))


@contextmanager
def signal_at_call(count: int) -> Iterator[None]:
    """Send a signal at the given call of a function of the training loop."""
    calls = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_globals.get("__name__", "") in OURS:
            calls += 1
            if calls == count:
                SIGNALS.take(signal.SIGTERM)

    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_diverged_training_raises_an_error_when_its_state_is_saved(monkeypatch: pytest.MonkeyPatch):
    training = begin(make_network(), having(RECIPE, learning_rate=1e30, warmup_ratio=0.0))
    training.step()
    training.step()
    with pytest.raises(DivergedError, match="at step 2 of 4"):
        training.state()
