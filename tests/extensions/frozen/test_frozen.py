"""Tests of frozen features: states are computed once, cached and read by the head."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.errors import JobError, ModelError
from benchharness.extensions.frozen.technique import FrozenEncoder
from benchharness.heads.pair import PairNetwork
from benchharness.heads.tag import TagNetwork
from benchharness.machine import cache_folder
from benchharness.recipes.recipe import FEATURES, FINE_TUNED
from benchharness.training.batching import Features, pad
from tests.helpers.families import FAMILIES
from tests.helpers.frozen import freeze_on, make_encoder, predict_on
from tests.helpers.training import CPU, RECIPE, having, make_data, train

CHOICES = [*(name for name in FEATURES if name != FINE_TUNED), "layer-2"]
BF16 = replace(CPU, precision="bf16")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "states"


def make_head(kind: str, **options: Any) -> nn.Module:
    encoder = make_encoder(**options)
    return PairNetwork(encoder, 2) if kind == "pair" else TagNetwork(encoder, 2)


def states_of(encoder: Any, features: Features) -> list[list[torch.Tensor]]:
    """Return the states of every layer for each row, computed one row at a time."""
    rows = []
    for row in range(len(features)):
        inputs = {n: torch.from_numpy(a) for n, a in pad(features, np.array([row])).items()}
        with torch.inference_mode():
            output = encoder.eval()(**inputs, output_hidden_states=True)
        rows.append([state[0, : features.lengths[row]] for state in output.hidden_states])
    return rows


COMBINED = {
    "embeddings": lambda states: states[0],
    "layer-2": lambda states: states[2],
    "last": lambda states: states[-1],
    "second-to-last": lambda states: states[-2],
    "sum-last-4": lambda states: sum(states[-4:]),
    "concat-last-4": lambda states: sum(states[-4:]) / 4,  # initially, the layers are averaged
    "sum-all": lambda states: sum(states[1:]),
    "mix": lambda states: sum(states) / len(states),  # initially, all layers have equal weights
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("kind", ["pair", "tag"])
def test_head_on_cached_states_equals_head_on_the_full_network(kind: str, choice: str):
    """Use two splits, whose rows must not be confused."""
    splits = [make_data(rows=8)[0], make_data(rows=5)[0]]
    network = make_head(kind).eval()
    expected = []
    for split in splits:
        with torch.inference_mode():
            states = [
                COMBINED[choice](layers)[None] for layers in states_of(network.encoder, split)
            ]
            masks = [torch.ones(1, state.shape[1]) for state in states]
            inputs = zip(states, masks, strict=True) if kind == "pair" else ((s,) for s in states)
            expected.append(torch.cat([network.classifier(*i).flatten(0, -2) for i in inputs]))
    frozen = freeze_on(network, choice, *splits)
    for split, logits in zip(frozen, expected, strict=True):
        np.testing.assert_allclose(predict_on(network, split), logits, atol=2e-5)


@pytest.mark.parametrize("kind", ["pair", "tag"])
def test_frozen_last_layer_predicts_like_the_full_network(kind: str):
    features, _ = make_data()
    network = make_head(kind)
    before = predict_on(network, features)
    (frozen,) = freeze_on(network, "last", features)
    np.testing.assert_allclose(predict_on(network, frozen), before, atol=2e-5)


def test_nonexistent_feature_layer_is_an_error_that_lists_the_layers():
    features, _ = make_data(rows=3)
    with pytest.raises(ModelError, match="has 4 layers, layer-1 to layer-4"):
        freeze_on(make_head("tag"), "layer-5", features)


def test_lstm_on_frozen_features_ignores_padding():
    splits = [make_data(rows=8)[0], make_data(rows=5)[0]]
    torch.manual_seed(3)
    network = TagNetwork(make_encoder(), 3, lstm_size=6).eval()
    expected = []
    for split in splits:
        with torch.inference_mode():
            states = [layers[-2][None] for layers in states_of(network.encoder, split)]
            rows = [network.classifier.output(network.lstm(each)[0][0]) for each in states]
            expected.append(torch.cat(rows))
    frozen = freeze_on(network, "second-to-last", *splits)
    for split, logits in zip(frozen, expected, strict=True):
        np.testing.assert_allclose(predict_on(network, split), logits, atol=2e-5)


def test_bf16_states_are_cached_in_bf16():
    features, _ = make_data()
    network = make_head("pair")
    before = predict_on(network, features, BF16)
    (frozen,) = freeze_on(network, "last", features, compute=BF16)
    assert network.encoder.tables[0].dtype == torch.bfloat16
    np.testing.assert_allclose(predict_on(network, frozen, BF16), before, atol=0.05)


@pytest.mark.parametrize("choice", CHOICES)
def test_training_on_frozen_features_changes_only_the_head(choice: str):
    features, targets = make_data()
    network = make_head("pair")
    (frozen,) = freeze_on(network, choice, features)
    before = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    trained = train(network, having(RECIPE, features=choice), data=(frozen, targets))
    moved = {n for n, w in network.named_parameters() if not torch.equal(w, before[n])}
    of_encoder = {name for name in before if name.startswith("encoder.encoder.")}
    assert len(of_encoder) > 60
    assert moved == set(before) - of_encoder
    assert trained.tokens == 2 * len(features), "one state of each row, twice"


def test_a_head_learns_from_frozen_features():
    features, targets = make_data()
    network = make_head("pair", initializer_range=0.1)
    (frozen,) = freeze_on(network, "mix", features)
    train(network, having(RECIPE, epochs=40, learning_rate=1e-2), data=(frozen, targets))
    assert (predict_on(network, frozen).argmax(-1) == targets).mean() > 0.75


def calls_of(network: Any) -> list[int]:
    """Record how many rows the encoder computes from now on."""
    rows: list[int] = []
    network.encoder.register_forward_pre_hook(
        lambda _, __, inputs: rows.append(len(inputs["input_ids"])), with_kwargs=True
    )
    return rows


def test_second_feature_layer_is_read_from_the_cache_of_states(cache: Path):
    features, _ = make_data()
    first, second = make_head("pair"), make_head("pair")
    computed, again = calls_of(first), calls_of(second)
    freeze_on(first, "last", features)
    freeze_on(second, "mix", features)
    assert (sum(computed), sum(again)) == (len(features), 0)
    (file,) = cache.glob("*.npy")
    assert np.load(file, mmap_mode="r").shape == (5, len(features), 32)
    assert not list(cache.glob(".*.draft"))


OTHERS: Mapping[str, Mapping[str, Any]] = {
    "weights": {"seed": 1},
    "config": {"hidden_act": "relu"},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_different_networks_have_separate_entries_in_the_cache_of_states(
    cache: Path, changes: Mapping[str, Any]
):
    features, _ = make_data()
    freeze_on(make_head("pair"), "last", features)
    freeze_on(make_head("pair", **changes), "last", features)
    assert len(list(cache.glob("*.npy"))) == 2


def test_cache_of_states_has_separate_entries_per_rows_head_type_and_precision(cache: Path):
    features, _ = make_data()
    freeze_on(make_head("pair"), "last", features)
    freeze_on(make_head("pair"), "last", make_data(rows=63)[0])
    freeze_on(make_head("tag"), "last", features, head="tag")
    freeze_on(make_head("pair"), "last", features, compute=BF16)
    sizes = sorted(np.load(file, mmap_mode="r").nbytes for file in cache.glob("*.npy"))
    row = 5 * 32 * 4
    tokens = int(features.lengths.sum())
    assert sizes == [64 * row // 2, 63 * row, 64 * row, tokens * row]


def test_dropout_does_not_change_the_entry_in_the_cache_of_states(cache: Path):
    features, _ = make_data()
    freeze_on(make_head("pair"), "last", features)
    freeze_on(make_head("pair", classifier_dropout=0.3), "last", features)
    assert len(list(cache.glob("*.npy"))) == 1


def test_damaged_cache_file_of_states_is_computed_again(cache: Path):
    features, _ = make_data()
    freeze_on(make_head("pair"), "last", features)
    (file,) = cache.glob("*.npy")
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    network = make_head("pair")
    computed = calls_of(network)
    freeze_on(network, "last", features)
    assert sum(computed) == len(features)
    assert file.read_bytes() == whole


def test_interrupted_computation_of_states_leaves_no_cache_files(cache: Path):
    network, rows = make_head("pair"), []

    def fail(*_: Any) -> None:
        rows.append(1)
        if len(rows) == 2:
            raise KeyboardInterrupt

    network.encoder.register_forward_pre_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        freeze_on(network, "last", long_data())
    assert not list(cache.glob("*.npy"))
    assert not list(cache.glob(".*.draft"))


def test_states_are_computed_in_smaller_batches_after_out_of_memory(cache: Path):
    network, features = make_head("pair"), long_data()
    freeze_on(network, "last", features)
    whole = network.encoder.tables[0]
    for file in cache.iterdir():
        file.unlink()
    again = make_head("pair")

    def limit(_: nn.Module, _args: Any, inputs: Mapping[str, torch.Tensor]) -> None:
        if len(inputs["input_ids"]) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    again.encoder.register_forward_pre_hook(limit, with_kwargs=True)
    freeze_on(again, "last", features)
    torch.testing.assert_close(again.encoder.tables[0], whole, rtol=0, atol=1e-5)


def long_data() -> Features:
    return make_data(rows=400)[0]


def test_too_little_disk_space_for_cached_states_is_an_error_before_writing(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(
        "benchharness.extensions.frozen.layer_states.shutil.disk_usage",
        lambda _: type("Usage", (), {"free": 1000}),
    )
    with pytest.raises(JobError, match=r"only 0\.0 GB free: .* set BENCH_CACHE"):
        freeze_on(make_head("pair"), "last", make_data()[0])


def test_default_cache_of_states_is_in_the_home_directory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("BENCH_CACHE")
    assert cache_folder("states").parts[-2:] == ("benchharness", "states")


def test_feature_choice_with_more_layers_than_the_encoder_has_is_an_error():
    network = make_head("pair", layers=2)
    with pytest.raises(ModelError, match="last 4 layers"):
        freeze_on(network, "sum-last-4", make_data()[0])


def test_frozen_features_of_a_funnel_model_are_an_error():
    with pytest.raises(ModelError, match="funnel shortens a text"):
        freeze_on(make_head("pair", family="funnel", layers=None), "last", make_data()[0])


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "funnel"])
def test_frozen_features_of_every_family_predict_like_the_full_network(family: str):
    """Include families that pool the last token or the mean, end in a norm, or pad their rows."""
    features, _ = make_data(rows=12)
    network = PairNetwork(make_encoder(family, layers=None), 2)
    before = predict_on(network, features)
    (frozen,) = freeze_on(network, "last", features)
    assert isinstance(network.encoder, FrozenEncoder)
    assert (frozen.lengths == 1).all() == (network.classifier.reads in ("first", "last"))
    np.testing.assert_allclose(predict_on(network, frozen), before, atol=5e-5)
