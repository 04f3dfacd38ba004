"""Tests of low-rank adapters (LoRA), which are trained with the head and can be merged."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.encoder import Encoder
from benchharness.errors import BenchError, ModelError
from benchharness.extensions.adapters.hyperparameters import ALL_LINEAR, AdapterOptions
from benchharness.extensions.adapters.technique import add_adapters, merge_adapters
from benchharness.heads.pair import PairNetwork
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from benchharness.training.optimizer import param_groups
from benchharness.training.predict import predict
from tests.helpers.families import FAMILIES, make_config
from tests.helpers.families import make_network as make_family
from tests.helpers.training import CPU, RECIPE, having, make_data, make_network, train

WITHOUT = {"xlnet"}
"""Families without adapters: queries and values are bare weights instead of linear layers."""


@pytest.fixture
def peft() -> Any:
    return pytest.importorskip("peft")


def adapt(network: Any, rank: int = 2, **options: Any) -> Any:
    add_adapters(network.encoder, AdapterOptions(lora_rank=rank, **options))
    return network


def copies(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in network.named_parameters()}


def predict_all(network: nn.Module) -> np.ndarray:
    return predict(network, make_data()[0], CPU, lambda _: None)


def test_untrained_lora_adapters_do_not_change_predictions(peft: Any):
    plain = make_network()
    before = predict_all(plain)
    np.testing.assert_array_equal(predict_all(adapt(plain)), before)


@pytest.mark.parametrize("changes", [{}, {"layer_decay": 0.8}, {"unfreeze": "gradual"}])
def test_only_adapters_and_head_are_trained(peft: Any, changes: dict[str, Any]):
    network = adapt(make_network())
    before = copies(network)
    train(network, having(RECIPE, lora_rank=2, epochs=4, **changes))
    moved = {n for n, weight in network.named_parameters() if not torch.equal(weight, before[n])}
    head = {name for name in before if name.startswith("classifier.")}
    adapters = {name for name in before if "lora_" in name}
    assert len(adapters) == 2 * 2 * 2, "two layers, queries and values, two matrices"
    assert moved == head | adapters


def test_adapter_weights_have_the_decayed_learning_rate_of_their_layer(peft: Any):
    network = adapt(make_network())
    groups = param_groups(network, having(RECIPE, layer_decay=0.5))
    assert [group["scale"] for group in groups] == [1.0, 1.0, 0.25, 0.125]
    assert {len(group["params"]) for group in groups[2:]} == {4}


def test_merged_adapters_give_the_same_predictions(peft: Any):
    network = make_network()
    weights = network.encoder.state_dict(keep_vars=True)
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    adapt(network)
    train(network, having(RECIPE, learning_rate=1e-2, epochs=4))
    adapted = predict_all(network)
    merge_adapters(network)
    np.testing.assert_allclose(predict_all(network), adapted, atol=1e-5)
    changed = {name for name, weight in weights.items() if not torch.equal(weight, before[name])}
    assert {name.split(".")[-2] for name in changed} == {"query", "value"}
    plain = make_network()
    plain.encoder.load_state_dict({name: weight.detach() for name, weight in weights.items()})
    plain.classifier.load_state_dict(network.classifier.state_dict())
    np.testing.assert_allclose(predict_all(plain), adapted, atol=1e-5)


def test_all_linear_adapts_every_linear_layer_of_the_layers_but_not_the_pooler(peft: Any):
    network = adapt(make_network(), lora_targets=ALL_LINEAR)
    adapted = {n.rpartition(".")[2] for n, m in network.named_modules() if hasattr(m, "lora_A")}
    assert adapted == {"query", "key", "value", "dense"}
    per_layer = [n for n, m in network.named_modules() if hasattr(m, "lora_A")]
    assert len(per_layer) == 2 * 6, "two layers: queries, keys, values and three dense layers"
    assert not any("classifier" in name or "pooler" in name for name in per_layer)


@pytest.mark.parametrize(("alpha", "factor"), [(0, 1.0), (8, 4.0)])
def test_the_output_of_adapters_is_scaled_by_alpha_over_rank(peft: Any, alpha: int, factor: float):
    network = adapt(make_network(), lora_alpha=alpha)
    layer = next(m for m in network.modules() if hasattr(m, "lora_A"))
    nn.init.normal_(layer.lora_B["default"].weight)
    inputs = torch.randn(3, layer.in_features)
    low = layer.lora_B["default"](layer.lora_A["default"](inputs))
    torch.testing.assert_close(layer(inputs), layer.base_layer(inputs) + factor * low)


def test_dropout_of_adapters_is_active_in_training_only(peft: Any):
    network = adapt(make_network(), lora_dropout=0.5)
    layer = next(m for m in network.modules() if hasattr(m, "lora_A"))
    nn.init.normal_(layer.lora_B["default"].weight)
    inputs = torch.randn(3, layer.in_features)
    torch.manual_seed(1)
    dropped, kept = layer.train()(inputs), layer.eval()(inputs)
    assert not torch.allclose(dropped, kept)
    torch.testing.assert_close(layer(inputs), kept)


TASKS = ("glue/rte", "superglue/copa", "squad/v1.1", "conll2003/ner")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("recipe", "values"),
    [
        ("lora", {"lora_rank": 12, "lora_alpha": 32, "lora_dropout": 0.1, "batch_size": 8}),
        ("qlora", {"lora_rank": 64, "lora_alpha": 16, "lora_targets": ALL_LINEAR}),
    ],
)
def test_recipes_of_adapters_set_their_values_on_every_head(
    recipe: str, values: dict[str, Any], task: str
):
    spec = MODELS["smollm2-135m"]
    settings = resolve_recipe(spec, task, recipe, {}).settings
    assert {name: settings[name].value for name in values} == values
    rates = {"lora": 1e-4 if task == "conll2003/ner" else 5e-5, "qlora": 2e-4}
    assert settings["learning_rate"].value == rates[recipe]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in WITHOUT])
def test_every_model_family_except_xlnet_supports_adapters(peft: Any, family: str):
    config = make_config(family)
    encoder = Encoder(
        network=make_family(config), tokenizer=None, config=config, family=family, max_tokens=40
    )
    network = adapt(PairNetwork(encoder, 2))
    trained = {n for n, w in network.named_parameters() if w.requires_grad and "encoder." in n}
    assert trained
    assert all("lora_" in name for name in trained)
    few = make_data(rows=8)[0]
    assert np.isfinite(predict(network, few, CPU, lambda _: None)).all()


def test_adapters_for_xlnet_are_an_error(peft: Any):
    with pytest.raises(ModelError, match="xlnet has no layers for queries and values"):
        add_adapters(make_family(make_config("xlnet")), AdapterOptions(lora_rank=2))


def test_missing_peft_is_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(BenchError, match=r"peft, which is not installed: pip install 'bench"):
        add_adapters(make_network().encoder, AdapterOptions(lora_rank=2))
