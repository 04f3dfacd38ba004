"""Tests that training on packed rows or on batches split by length equals padded training."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchharness.encoder import load_encoder, packing, set_dropout
from benchharness.encoder.packing import PACKABLE, is_packed
from benchharness.heads import Limits
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training import loop as training
from benchharness.training.loop import Training
from benchharness.worker import task_setup as setups
from tests.helpers.families import save_family
from tests.helpers.soak import in_part
from tests.helpers.training import CPU, RECIPE, begin_task, gradients_of, having, weights_of

TASKS = {
    "pair": "glue/mrpc",
    "span": "squad/v1.1",
    "choice": "swag/regular",
    "tag": "conll2003/ner",
}
"""One task per head type."""

ROWS, STEPS = 24, 50
SLOWLY = having(RECIPE, learning_rate=5e-5, batch_size=8, epochs=50)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that begins the training of a task without dropout."""

    def start(family: str, kind: str, *, plain: bool) -> Training:
        folder = tmp_path / family
        if not folder.exists():
            save_family(folder, family)
        task = find_task(TASKS.get(kind, kind))
        encoder = load_encoder(str(folder), None, 1)
        set_dropout(encoder, 0.0, 0.0)
        splits = [f"{task.name}:train", f"{task.name}:dev"]
        setup = setups.TaskSetup.of(task.name, splits, SLOWLY, encoder)
        torch.manual_seed(1)
        with monkeypatch.context() as patch:
            if plain:
                patch.setattr(packing, "use_packed_rows", lambda network, device: None)
                patch.setattr(setups, "use_first_token", lambda network: None)
            network = setups.network_of([setup], encoder, CPU.device)
        for module in network.modules():
            # Rounding can move an input of MobileBERT's ReLU to the other side of 0, where the
            # gradient jumps.
            if isinstance(getattr(module, "intermediate_act_fn", None), torch.nn.ReLU):
                module.intermediate_act_fn = torch.nn.GELU()
        examples = read(task, "train", parse_data("mini"), ROWS).examples
        features = setup.head.encode(examples, encoder.tokenizer, Limits(max_tokens=64))
        return begin_task(task, network, features, examples, SLOWLY)

    return start


EVERY = [
    *((family, kind) for family in [*sorted(PACKABLE), "deberta-v2"] for kind in TASKS),
    *(("gpt2", "pair"), ("mobilebert", "choice"), ("mpnet", "span"), ("t5", "tag")),
]


@pytest.mark.parametrize(
    ("family", "kind"),
    in_part([*EVERY, ("bert", "hotpotqa/distractor"), ("bert", "quac/quac")], EVERY[::3]),
)
def test_losses_and_gradients_of_packed_rows_equal_those_of_padded_rows(
    family: str, kind: str, begin
):
    packed, padded = begin(family, kind, plain=False), begin(family, kind, plain=True)
    assert (is_packed(packed.network), is_packed(padded.network)) == (True, False)
    every = np.arange(packed.meter.items)
    ours, expected = (
        one._gradients(task, one.parts_of(task, every))
        for one in (packed, padded)
        for task in one.tasks
    )
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=1e-5)
    gradients = gradients_of(padded.network)
    size = gradients.abs().max()
    assert size > 1e-4
    # The gradients of MobileBERT are small, so rounding is a larger share of them.
    share = 1e-4 if family == "mobilebert" else 1e-5
    torch.testing.assert_close(
        gradients_of(packed.network) / size, gradients / size, rtol=0.0, atol=share
    )


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("bert", "pair"),
        ("bert", "span"),
        ("modernbert", "tag"),
        pytest.param("bert", "choice", marks=pytest.mark.soak),
        pytest.param("bert", "tag", marks=pytest.mark.soak),
        pytest.param("eurobert", "choice", marks=pytest.mark.soak),
    ],
)
def test_weights_after_50_packed_steps_equal_those_of_padded_steps(family: str, kind: str, begin):
    packed, padded = begin(family, kind, plain=False), begin(family, kind, plain=True)
    assert (is_packed(packed.network), is_packed(padded.network)) == (True, False)
    compare_after_fifty_steps(packed, padded)


@pytest.mark.parametrize(
    "kind",
    ["pair", "span", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("choice", "tag"))],
)
def test_weights_after_50_steps_of_split_batches_equal_those_of_whole_batches(
    kind: str, begin, monkeypatch: pytest.MonkeyPatch
):
    cut, whole = (begin("mpnet", kind, plain=True) for _ in range(2))
    every = np.arange(whole.meter.items)
    cut.recipe = having(SLOWLY, accumulation=3)  # also cuts batches whose rows have equal lengths
    monkeypatch.setitem(training.CUT_OVERHEAD, "cpu", 0)
    assert len(cut.parts_of(cut.tasks[0], every)) > 1
    for _ in range(STEPS):
        cut.step()
    monkeypatch.setitem(training.CUT_OVERHEAD, "cpu", sys.maxsize)
    assert len(whole.parts_of(whole.tasks[0], every)) == 1
    compare_after_fifty_steps(cut, whole)


def compare_after_fifty_steps(ours: Training, expected: Training) -> None:
    """Take the remaining steps and compare the weights."""
    before = weights_of(expected.network)
    for one in (ours, expected):
        while one.meter.step < STEPS:
            one.step()
    after = weights_of(expected.network)
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(weights_of(ours.network), after, rtol=0.0, atol=1e-5)
