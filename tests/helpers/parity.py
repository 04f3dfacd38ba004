"""Transformers' network of a family and head type, and benchharness's with its weights."""

from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.heads import choice, pair, span, tag
from benchharness.heads.published import SUMMARY, UNSCALED, load_published
from benchharness.models.families import is_causal
from benchharness.recipes.classes import KINDS
from tests.helpers.families import make_config, make_network

NETWORKS: Any = {"pair": pair, "choice": choice, "span": span, "tag": tag}


def make_both(family: str, kind: str, **changes: Any) -> tuple[Any, Any]:
    """Return transformers' network, and benchharness's with its weights."""
    torch.manual_seed(3)
    outputs = 2 if kind == "span" else 3
    extras = SUMMARY if family == "convbert" else {}
    config = make_config(family, num_labels=outputs, **extras, **changes)
    theirs = getattr(transformers, f"AutoModelFor{KINDS[kind]}").from_config(config)
    for name, weight in theirs.named_parameters():
        # Biases are initialized with zeros, which would hide that one is not copied.
        if name.endswith("bias"):
            nn.init.normal_(weight, std=0.3)
    body = make_network(config)
    if hasattr(theirs, "head"):  # the pretrained head of ModernBERT
        body.pooler = theirs.head
    ours = put_head(body, config, kind)
    load_published(ours, theirs.state_dict(), theirs.base_model_prefix, UNSCALED)
    return theirs, ours


def make_ours(family: str, kind: str, **changes: Any) -> Any:
    """Return benchharness's network of a family and head type, with random weights."""
    torch.manual_seed(3)
    config = make_config(family, **changes)
    return put_head(make_network(config), config, kind)


def put_head(body: Any, config: Any, kind: str) -> Any:
    """Return benchharness's network of a head type on an encoder."""
    family = config.model_type
    encoder = Encoder(
        network=body,
        tokenizer=None,
        config=config,
        family=family,
        max_tokens=72,
        is_causal=is_causal({"model_type": family}),
    )
    labels = ("O", "B-X", "I-X")
    task = SimpleNamespace(tags=labels, labels=labels, is_regression=False, marks=0)
    return NETWORKS[kind].network(encoder, task)


def make_inputs(config: Any) -> dict[str, Tensor]:
    """Return two rows of two texts with two separators between them, the second row padded."""
    torch.manual_seed(5)
    inputs = {"input_ids": torch.randint(5, 900, (2, 16))}
    inputs["attention_mask"] = torch.ones(2, 16).long()
    inputs["input_ids"][:, 5:7] = inputs["input_ids"][0, 15] = inputs["input_ids"][1, 10] = 2
    inputs["attention_mask"][1, 11:] = 0
    pad = getattr(config, "pad_token_id", None) or 0
    inputs["input_ids"] = torch.where(inputs["attention_mask"] == 1, inputs["input_ids"], pad)
    if getattr(config, "type_vocab_size", 0) > 1 or config.model_type == "xlnet":
        inputs["token_type_ids"] = (torch.arange(16) > 6).long().expand(2, 16)
    return inputs


def run_both(theirs: Any, ours: Any, kind: str, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits of both with the same random numbers, where they are meaningful."""
    torch.manual_seed(11)
    expected = run_theirs(theirs, kind, inputs)
    torch.manual_seed(11)
    logits = run_ours(ours, kind, inputs)
    possible = expected > -1e5  # BigBird's class forbids answers in the question
    assert possible.sum() > 0.6 * possible.numel()
    return expected[possible], logits[possible]


def run_theirs(theirs: Any, kind: str, inputs: dict[str, Tensor]) -> Tensor:
    is_real = inputs["attention_mask"].bool()
    # XLNet classifies the last token of a row, so padding must come first.
    if theirs.config.model_type == "xlnet":
        inputs = {name: move_right(values, is_real) for name, values in inputs.items()}
        is_real = inputs["attention_mask"].bool()
    if kind == "choice":
        return theirs(**{name: values[None] for name, values in inputs.items()}).logits[0]
    output = theirs(**inputs)
    if kind == "span":
        return torch.stack([output.start_logits, output.end_logits], dim=-1)[is_real]
    return output.logits[is_real] if kind == "tag" else output.logits


def run_ours(ours: Any, kind: str, inputs: dict[str, Tensor]) -> Tensor:
    logits = ours(**inputs)
    return logits[inputs["attention_mask"].bool()] if kind in ("span", "tag") else logits


def move_right(values: Tensor, is_real: Tensor) -> Tensor:
    """Convert rows padded at the end to rows padded at the beginning."""
    rows = [torch.cat([row[~real], row[real]]) for row, real in zip(values, is_real, strict=True)]
    return torch.stack(rows)
