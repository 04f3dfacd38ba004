"""Tests of frozen layers: `--set frozen_layers=N` trains only the layers above the lowest N."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import get_linear_schedule_with_warmup

from benchharness.encoder import layers_of
from benchharness.errors import BenchError, ModelError
from benchharness.extensions.explanation.differences import explain
from benchharness.extensions.explanation.training import of_run
from benchharness.extensions.frozen_layers.technique import FrozenLayers, freeze_layers
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from benchharness.recipes.recipe import Recipe
from benchharness.training.batching import Features
from benchharness.training.predict import predict
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.families import FAMILIES, make_config
from tests.helpers.families import make_network as make_family
from tests.helpers.parity import make_both
from tests.helpers.plans import plan_job
from tests.helpers.training import (
    CPU,
    RECIPE,
    begin,
    fit,
    having,
    make_data,
    make_network,
    train,
    weights_of,
)

BERT = MODELS["bert-base-uncased"]
TRAINED = ("layer.1.", "pooler", "classifier")
"""Parts of the names of the weights of make_network that are trained with one frozen layer."""


def frozen(network: Any, count: int = 1) -> Any:
    freeze_layers(network.encoder, count)
    return network


def copies(network: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def changed(network: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {n for n, weight in network.named_parameters() if not torch.equal(weight, before[n])}


@pytest.mark.parametrize("family", FAMILIES)
def test_lowest_layer_and_embeddings_of_every_family_are_frozen(family: str) -> None:
    network = make_family(make_config(family))
    freeze_layers(network, 1)
    found = layers_of(network)
    below = {id(w) for part in (*found.embeddings, found.layers[0]) for w in part.parameters()}
    assert below
    assert all(weight.requires_grad == (id(weight) not in below) for weight in network.parameters())


@pytest.mark.parametrize(
    "changes", [{}, {"layer_decay": 0.8}, {"unfreeze": "gradual", "epochs": 4}, {"accumulation": 2}]
)
def test_only_the_top_layer_and_the_head_are_trained(changes: dict[str, Any]) -> None:
    network = frozen(make_network())
    before = copies(network)
    train(network, having(RECIPE, frozen_layers=1, **changes))
    assert changed(network, before) == {
        name for name in before if any(part in name for part in TRAINED)
    }


def test_all_layers_of_an_encoder_may_be_frozen() -> None:
    network = frozen(make_network(), 2)
    before = copies(network)
    train(network, having(RECIPE, frozen_layers=2))
    assert {name.split(".")[-3:][0] for name in changed(network, before)} <= {
        "pooler",
        "classifier",
    }
    assert changed(network, before)


def test_backward_pass_ends_above_the_highest_frozen_layer() -> None:
    network, outputs = frozen(make_network()), list[bool]()
    for part in (network.encoder.embeddings, *network.encoder.encoder.layer):
        part.register_forward_hook(lambda *_: outputs.append(_[2][0].requires_grad))
    train(network, having(RECIPE, epochs=0.5))
    assert set(outputs[::3]) == set(outputs[1::3]) == {False}, "no graph below layer 1"
    assert set(outputs[2::3]) == {True}


# Comparison with a training of transformers.


def padded(features: Features) -> tuple[Tensor, Tensor]:
    """Return the rows as token ids and attention mask, `[rows, tokens]`."""
    lengths = features.lengths
    ids = np.full((len(lengths), max(lengths)), features.pad_id)
    mask = np.arange(max(lengths)) < lengths[:, None]
    ids[mask] = features.token_ids
    return torch.from_numpy(ids).long(), torch.from_numpy(mask).long()


def train_plainly(network: Any, data: tuple[Features, np.ndarray], steps: int) -> None:
    """Train a classifier of transformers with all rows in each step, with values of RECIPE."""
    (ids, mask), labels = padded(data[0]), torch.from_numpy(data[1])
    learned = [weight for weight in network.parameters() if weight.requires_grad]
    groups = [
        {"params": [w for w in learned if w.ndim > 1], "weight_decay": 0.01},
        {"params": [w for w in learned if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-6)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, steps)
    network.train()
    for _ in range(steps):
        logits = network(input_ids=ids, attention_mask=mask).logits
        functional.cross_entropy(logits, labels).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("count", [1, 2])
def test_training_equals_requires_grad_false_in_transformers(count: int) -> None:
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs, ours = make_both("bert", "pair", **off)
    before = {name: w.detach().clone() for name, w in theirs.bert.named_parameters()}
    data = make_data()
    for part in (theirs.bert.embeddings, *theirs.bert.encoder.layer[:count]):
        for weight in part.parameters():
            weight.requires_grad = False
    train_plainly(theirs, data, steps=4)
    values = {"epochs": 4, "batch_size": 64, "warmup_ratio": 0.0, "frozen_layers": count}
    train(frozen(ours, count), having(RECIPE, **values), data=data)
    inside = dict(ours.encoder.named_parameters())
    for name, weight in theirs.bert.named_parameters():
        # The pooler is a part of benchharness's head, which the comparison of logits below covers.
        if name.startswith("pooler"):
            continue
        # A key's bias has no effect, so rounding alone determines the sign of its gradient.
        torch.testing.assert_close(inside[name], weight, atol=5e-5, rtol=0)
        is_frozen = name.startswith(("embeddings", *(f"encoder.layer.{n}." for n in range(count))))
        assert torch.equal(inside[name], before[name]) == is_frozen, name
    ids, mask = padded(data[0])
    with torch.inference_mode():
        expected = theirs.eval()(input_ids=ids, attention_mask=mask).logits
    found = predict(ours.eval(), data[0], CPU, lambda _: None)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


# Whole jobs.


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_checkpoint(tmp_path_factory.mktemp("model") / "two"))


def job_of(model: str, **overrides: str) -> Any:
    quick = {"epochs": "2", "evaluations": "1", "max_tokens": "32", "batch_size": "8"}
    return plan_job(model, "glue/cola", overrides=quick | overrides, limit=16, precision="fp32")


def test_kept_model_has_the_frozen_weights_of_its_checkpoint(model: str, tmp_path: Path) -> None:
    result = run_job(job_of(model, frozen_layers="1"), keep=tmp_path / "kept")
    before = load_file(Path(model) / "model.safetensors")
    after = load_file(tmp_path / "kept" / "model.safetensors")
    same = {
        name
        for name, weight in before.items()
        if name in after and torch.equal(after[name], weight)
    }
    names = {name for name in before if "embeddings." in name or "layer.0." in name}
    assert len(names) == 5 + 16
    assert same == names
    assert result.evaluations[0].scores
    assert result.job.settings["frozen_layers"].value == 1


def test_training_state_has_no_frozen_weights_and_resumes_bit_for_bit() -> None:
    recipe = having(RECIPE, epochs=2, frozen_layers=1)
    whole = begin(frozen(make_network()), recipe)
    fit(whole, dict)
    stopped = begin(frozen(make_network()), recipe)
    stopped.step()
    state = stopped.state()
    kept = state.tensors["weights"].keys() & dict(stopped.network.named_parameters())
    assert kept
    assert not any("embeddings" in name or "layer.0." in name for name in kept)
    again = begin(frozen(make_network()), recipe)
    again.restore(state)
    fit(again, dict)
    assert torch.equal(weights_of(again.network), weights_of(whole.network))


# Settings, plans and comparisons.


def settings(**overrides: str) -> dict[str, object]:
    found = resolve_recipe(BERT, "glue/rte", None, overrides).settings
    return {name: setting.value for name, setting in found.items()}


def test_zero_frozen_layers_do_not_change_the_job_key() -> None:
    assert settings(frozen_layers="0") == settings()
    assert job_of("tiny", frozen_layers="0").key == job_of("tiny").key


def test_frozen_layers_change_the_job_key_and_the_name_of_the_leaderboard_entry() -> None:
    job = job_of("tiny", frozen_layers="1")
    assert job.key != job_of("tiny").key
    assert "frozen layers 1" in job.shown_recipe
    found = resolve_recipe(BERT, "glue/rte", None, {"frozen_layers": "6"}).settings
    assert Recipe.from_settings(found).added["frozen_layers"].frozen_layers == 6


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"frozen_layers": "half"},
            "frozen_layers is 'half' (--set), expected a whole number that is at least 0.",
        ),
        (
            {"frozen_layers": "2.5"},
            "frozen_layers is '2.5' (--set), expected a whole number that is at least 0.",
        ),
        (
            {"frozen_layers": "6", "features": "last"},
            (
                "frozen_layers is 6 (--set), but features is 'last' (--set), which freezes the "
                "whole encoder: use only one of them."
            ),
        ),
        (
            {"frozen_layers": "6", "lora_rank": "8"},
            (
                "frozen_layers is 6 (--set), but lora_rank is 8 (--set), which freezes the whole "
                "encoder: use only one of them."
            ),
        ),
    ],
)
def test_invalid_frozen_layers_are_an_error(overrides: dict[str, str], sentence: str) -> None:
    with pytest.raises(BenchError) as error:
        resolve_recipe(BERT, "glue/rte", None, overrides)
    assert str(error.value) == sentence


def test_more_frozen_layers_than_the_encoder_has_are_refused_before_the_run() -> None:
    with pytest.raises(BenchError) as error:
        job_of("tiny", frozen_layers="3")
    assert str(error.value) == (
        "tiny: frozen_layers is 3, but this encoder has only 2 layers: use frozen_layers=2 or less."
    )


def test_frozen_layers_may_not_exceed_the_layers_that_are_kept() -> None:
    with pytest.raises(BenchError, match="has only 1 layer: use frozen_layers=1 or less"):
        job_of("tiny", frozen_layers="2", layers="1")


def test_layers_that_share_weights_count_as_one_when_freezing() -> None:
    network = make_family(make_config("albert"))
    with pytest.raises(ModelError) as error:
        freeze_layers(network, 2)
    assert str(error.value) == (
        "frozen_layers is 2, but this albert encoder has only 1 layer with weights of its own: use "
        "frozen_layers=1 or less."
    )


def test_freezing_all_layers_is_an_error_if_a_stage_trains_only_layers() -> None:
    recipe = having(RECIPE, frozen_layers=2, layer_epochs=1.0, layer_weight=1.0)
    technique: Any = FrozenLayers(work=SimpleNamespace(recipe=recipe))
    with pytest.raises(ModelError, match=r"which are all layers, but layer_epochs is 1, which"):
        technique.on_network(SimpleNamespace(network=make_network()))


def test_error_for_the_setting_freeze_suggests_frozen_layers() -> None:
    with pytest.raises(BenchError, match="Did you mean 'frozen_layers'"):
        resolve_recipe(BERT, "glue/rte", None, {"freeze": "6"})


def test_explain_compares_the_numbers_of_frozen_layers(model: str) -> None:
    plain, some = (run_job(job_of(model, **each)) for each in ({}, {"frozen_layers": "1"}))
    (found,) = explain(of_run(plain), of_run(some)).differences
    assert (found.name, found.ours, found.theirs) == ("frozen_layers", 0, 1)
    assert found.ours_from == "the default"
    assert found.change == {"frozen_layers": "1"}
