"""Tests that every head works on decoders, on rows that are padded on either side."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, head_for
from benchharness.recipes.classes import KINDS
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from tests.helpers.every_family import save_tiny
from tests.helpers.families import DECODERS
from tests.helpers.parity import make_inputs, make_ours, move_right, run_ours
from tests.helpers.training import CPU, RECIPE, begin_task, fit, having

TASKS = (
    "glue/rte",
    "glue/stsb",
    "superglue/wic",
    "superglue/copa",
    "squad/v2.0",
    "conll2003/ner",
    "lexglue/ecthr_b",
    "beir/scifact",
)
"""A task of each kind of answer: classes, numbers, marks, options, spans, tags, labels, ranks."""

LIMITS = Limits(max_tokens=48, stride=16, max_question_tokens=16, is_causal=True)
SHORT = having(RECIPE, epochs=1.0, batch_size=4, warmup_ratio=0.0, max_tokens=48)


def on_side(inputs: dict[str, Tensor], *, left: bool) -> dict[str, Tensor]:
    """Return inputs padded on one side, with the matching position ids."""
    is_real = inputs["attention_mask"].bool()
    moved = {name: move_right(each, is_real) if left else each for name, each in inputs.items()}
    mask = moved["attention_mask"]
    return moved | {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", DECODERS)
def test_logits_of_every_head_do_not_depend_on_the_padding_side(family: str, kind: str):
    network = make_ours(family, kind).eval()
    inputs = make_inputs(network.encoder.config)
    with torch.inference_mode():
        right, left = (
            run_ours(network, kind, on_side(inputs, left=side)) for side in (False, True)
        )
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_every_kind_of_task_is_trained_and_predicted_with_a_decoder(name: str, tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "qwen3")), None, seed=1)
    task = find_task(name)
    head = head_for(task)
    rows = head.learned(read(task, "train", parse_data("mini"), 8))
    features = head.encode(rows.examples, encoder.tokenizer, LIMITS)
    network = head.network(encoder, task)
    before = {n: w.detach().clone() for n, w in encoder.network.named_parameters()}
    fit(begin_task(task, network, features, rows.examples, SHORT), dict)
    moved = [n for n, w in encoder.network.named_parameters() if not torch.equal(w, before[n])]
    assert len(moved) > 0.7 * len(before)
    logits = predict(network, features, CPU, lambda _: None)
    predictions = head.decode(logits, features, rows.examples, task)
    assert [p.id for p in predictions] == [e.id for e in rows.examples]
    assert np.isfinite(logits).all()
