"""Tests that heads give the logits of the transformers classes with the same weights."""

from typing import Any

import pytest
import torch
import transformers

from benchharness.encoder.padding import SEES_PADDING, compute_by_length
from benchharness.errors import ModelError
from benchharness.recipes.classes import KINDS, LACKING
from tests.helpers.families import FAMILIES, make_config, make_network
from tests.helpers.parity import (
    make_both,
    make_inputs,
    make_ours,
    put_head,
    run_both,
    run_ours,
)

CASES = [(family, kind) for family in FAMILIES for kind in KINDS if (family, kind) not in LACKING]


def test_every_task_class_of_transformers_is_compared_with_a_head():
    have = {
        (family, kind)
        for kind, name in KINDS.items()
        for family in FAMILIES
        if type(make_config(family)) in getattr(transformers, f"AutoModelFor{name}")._model_mapping
    }
    assert have - {("t5", "pair"), ("t5", "span")} == set(CASES)


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_logits_of_every_head_equal_those_of_transformers(family: str, kind: str):
    theirs, ours = make_both(family, kind)
    with torch.inference_mode():
        inputs = make_inputs(theirs.config)
        expected, logits = run_both(theirs.eval(), ours.eval(), kind, inputs)
    assert logits.std() > 0.01
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


OTHER_DROPOUTS = {
    (family, "choice")
    for family in (
        "camembert",
        "convbert",
        "electra",
        "longformer",
        "mpnet",
        "roberta",
        "xlm-roberta",
    )
} | {("gpt2", "pair"), ("openai-gpt", "pair")}
"""Transformers drops states once in some classes for choices, and twice for texts; fairseq's for
RACE is RoBERTa's for texts, which is our way for both. GPT's paper drops, transformers does not."""


@pytest.mark.parametrize(("family", "kind"), sorted({*CASES} - OTHER_DROPOUTS))
def test_training_logits_with_dropout_equal_those_of_transformers(family: str, kind: str):
    """Compare logits in training mode, with the same random numbers."""
    theirs, ours = make_both(family, kind)
    theirs.train()
    getattr(theirs, theirs.base_model_prefix).eval()
    ours.train()
    ours.encoder.eval()
    expected, logits = run_both(theirs, ours, kind, make_inputs(theirs.config))
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["span", "choice", "tag"])
def test_logits_of_every_head_are_fp32_even_if_the_encoder_is_bf16(kind: str):
    ours = make_ours("bert", kind)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = ours(**make_inputs(ours.encoder.config))
    assert logits.dtype == torch.float32
    assert (logits.bfloat16() != logits)[logits.isfinite()].any()


@pytest.mark.parametrize("kind", ["pair", "tag"])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_does_not_change_logits_of_any_family(family: str, kind: str):
    ours = make_ours(family, kind).eval()
    if family in SEES_PADDING:
        compute_by_length(ours.encoder)
    inputs = make_inputs(ours.encoder.config)
    alone = {name: values[1:, :11] for name, values in inputs.items()}
    with torch.inference_mode():
        padded, unpadded = run_ours(ours, kind, inputs), run_ours(ours, kind, alone)
    padded = padded[-len(unpadded) :]
    torch.testing.assert_close(padded, unpadded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_supports_every_head_type(family: str, kind: str):
    ours = make_ours(family, kind)
    logits = ours(**make_inputs(ours.encoder.config))
    shapes = {"pair": (2, 3), "choice": (2,), "span": (2, 16, 2), "tag": (2, 16, 3)}
    assert logits.shape == shapes[kind]
    logits[logits.isfinite()].square().mean().backward()
    top = [weight for weight in ours.classifier.parameters() if weight.ndim > 1]
    assert all(weight.grad.abs().sum() > 0 for weight in top)


@pytest.mark.parametrize("kind", ["span", "tag"])
def test_a_funnel_without_a_decoder_cannot_classify_tokens(kind: str):
    config = make_config("funnel", architectures=["FunnelBaseModel"])
    with pytest.raises(ModelError, match="has no decoder"):
        put_head(make_network(config), config, kind)
    assert put_head(make_network(config), config, "pair").encoder is not None


@pytest.mark.parametrize("reads", ["cls", "mean"])
def test_modernbert_uses_the_pooling_of_its_config(reads: str):
    check_pair("modernbert", classifier_pooling=reads, classifier_bias=True)


@pytest.mark.parametrize("reads", ["bos", "mean", "late"])
def test_eurobert_uses_the_pooling_of_its_config(reads: str):
    check_pair("eurobert", classifier_pooling=reads)


@pytest.mark.parametrize("has_dense", [True, False])
def test_mobilebert_with_and_without_a_pooler_layer_equals_transformers(has_dense: bool):
    """The checkpoint of Google has no layer there."""
    check_pair("mobilebert", classifier_activation=has_dense)


def check_pair(family: str, **changes: Any):
    theirs, ours = make_both(family, "pair", **changes)
    with torch.inference_mode():
        inputs = make_inputs(theirs.config)
        expected, logits = run_both(theirs.eval(), ours.eval(), "pair", inputs)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
