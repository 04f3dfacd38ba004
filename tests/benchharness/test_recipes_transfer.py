"""Tests of the settings of transfer methods, which are off by default."""

import pytest

from benchharness.errors import BenchError
from benchharness.leaderboard.job import Job
from benchharness.models import MODELS
from benchharness.recipes import Recipe, resolve_recipe
from benchharness.recipes.recipe import FEATURES, FINE_TUNED
from tests.helpers.plans import plan_job

BERT = MODELS["bert-base-uncased"]
OFF = {
    "features": "fine-tuned",
    "lora_rank": "0",
    "unfreeze": "all",
    "layer_decay": "1.0",
    "top_layer_depth": "2",
}


def settings(**overrides: str) -> dict[str, object]:
    resolved = resolve_recipe(BERT, "glue/rte", None, overrides).settings
    return {name: setting.value for name, setting in resolved.items()}


def added(**overrides: str) -> dict[str, object]:
    """Return the settings that a job has in addition to those of the plain recipe."""
    plain = settings()
    return {name: value for name, value in settings(**overrides).items() if name not in plain}


def make_job(**overrides: str) -> Job:
    return plan_job("tiny", "glue/rte", overrides=overrides, limit=8)


def test_transfer_settings_with_default_values_do_not_change_the_job_key():
    """Default values are neither in the settings nor in the key, so stored results remain valid."""
    assert not set(settings()) & set(OFF)
    assert added(**OFF) == {}
    assert make_job(**OFF).key == make_job().key


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        *(("features", choice, choice) for choice in FEATURES if choice != FINE_TUNED),
        ("features", "layer-07", "layer-7"),
        ("lora_rank", "8", 8),
        ("unfreeze", "gradual", "gradual"),
        ("layer_decay", "0.8", 0.8),
    ],
)
def test_each_transfer_setting_changes_the_job_key(name: str, text: str, value: object):
    assert added(**{name: text}) == {name: value}
    # Tiny has only two layers.
    if not text.endswith("last-4") and name + text != "featureslayer-07":
        assert make_job(**{name: text}).key != make_job().key
    recipe = Recipe.from_settings(resolve_recipe(BERT, "glue/rte", None, {name: text}).settings)
    group = recipe.added["adapters"] if name == "lora_rank" else recipe.encoder
    assert getattr(group, name) == value
    assert recipe.encoder.is_frozen == (name == "features")


@pytest.mark.parametrize("word", ["layer-0", "layer-", "layer-x", "layer--1", "layer"])
def test_invalid_feature_layer_is_an_error(word: str):
    with pytest.raises(BenchError, match="layer-N with N from 1, or each"):
        added(features=word)


def test_an_lstm_can_only_be_used_for_tags_on_frozen_features():
    def tags(**texts: str) -> Recipe:
        found = resolve_recipe(BERT, "conll2003/ner", None, texts).settings
        return Recipe.from_settings(found)

    assert tags(features="last", lstm_size="768").tag.lstm_size == 768
    assert added(features="last", lstm_size="768") == {"features": "last"}, "RTE has no tags"
    with pytest.raises(BenchError, match="an LSTM needs a frozen encoder"):
        tags(lstm_size="768")


def test_top_layer_depth_applies_only_with_layer_decay():
    assert added(top_layer_depth="1") == {}
    assert added(top_layer_depth="1", layer_decay="0.5") == {
        "layer_decay": 0.5,
        "top_layer_depth": 1,
    }


def test_settings_of_encoder_training_do_not_apply_to_frozen_features():
    frozen = {"features": "last"}
    assert added(**frozen, layer_decay="0.8", dropout="0.2") == frozen
    assert added(**frozen, classifier_dropout="0.2") == {**frozen, "classifier_dropout": 0.2}


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            {"features": "first"},
            (
                "features is 'first' (--set), expected one of: fine-tuned, embeddings, last, "
                "second-to-last, sum-last-4, concat-last-4, sum-all, mix, layer-N with N from 1, "
                "or each for every layer."
            ),
        ),
        ({"unfreeze": "1"}, "unfreeze is '1' (--set), expected one of: all, gradual."),
        (
            {"layer_decay": "1.1"},
            "layer_decay is '1.1' (--set), expected a number that is above 0 and at most 1.",
        ),
        (
            {"features": "mix", "lora_rank": "8"},
            (
                "lora_rank is 8 (--set), but features is 'mix' (--set), which freezes the "
                "encoder: use only one of them."
            ),
        ),
        (
            {"features": "mix", "unfreeze": "gradual"},
            (
                "unfreeze is 'gradual' (--set), but features is 'mix' (--set), which freezes "
                "the encoder: use only one of them."
            ),
        ),
    ],
)
def test_invalid_transfer_settings_are_an_error(overrides: dict[str, str], sentence: str):
    with pytest.raises(BenchError) as error:
        resolve_recipe(BERT, "glue/rte", None, overrides)
    assert str(error.value) == sentence
