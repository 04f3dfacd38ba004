"""Tests of fault 20: weights that are missing, not finite, or of another size or model family."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.heads import head_for
from benchharness.tasks.suites import find_task
from tests.helpers.checkpoints import change_weights, save_checkpoint


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a checkpoint that a test may damage."""
    return save_checkpoint(tmp_path / "damaged")


def test_20_missing_layer_is_an_error_that_names_it(damaged: Path):
    lost = "encoder.layer.1.output.dense.weight"
    change_weights(damaged, lambda weights: weights.pop(lost))
    with pytest.raises(ModelError, match=f"lacks 1 weight of its encoder .{lost}"):
        load_encoder(str(damaged), None, seed=1)


def test_20_weights_of_another_model_family_are_refused(damaged: Path, tmp_path: Path):
    other = save_checkpoint(tmp_path / "other", "distilbert")
    shutil.copy(other / "model.safetensors", damaged)
    with pytest.raises(ModelError, match=r"and 3[0-9] more"):
        load_encoder(str(damaged), None, seed=1)


def test_20_weights_of_another_size_are_refused(damaged: Path):
    file = damaged / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"intermediate_size": 48}))
    size = "encoder.layer.0.intermediate.dense.bias in .* the size 32, .*config.json specifies 48:"
    with pytest.raises(ModelError, match=size):
        load_encoder(str(damaged), None, seed=1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_20_nan_or_infinite_weights_are_refused(damaged: Path, value: float):
    name = "encoder.layer.0.output.dense.bias"
    change_weights(damaged, lambda weights: weights[name].fill_(value))
    with pytest.raises(ModelError, match=f"NaN or infinite numbers in {name}"):
        load_encoder(str(damaged), None, seed=1)


def test_20_classifier_weights_of_a_checkpoint_are_ignored(damaged: Path):
    """Use a file with a classifier of three classes: the head is always newly initialized."""
    change_weights(
        damaged, lambda weights: weights.update({"classifier.weight": torch.ones(3, 16)})
    )
    encoder = load_encoder(str(damaged), None, seed=1)
    task = find_task("glue/rte")
    network = head_for(task).network(encoder, task)
    shapes = {tuple(weight.shape) for weight in network.parameters()}
    assert (2, 16) in shapes
    assert (3, 16) not in shapes
