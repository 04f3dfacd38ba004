"""Transformers' own network of a family and head type, and ours with its weights."""

from types import SimpleNamespace
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.heads import choice, pair, span, tag
from tests.helpers.families import make_config, make_network

KINDS = {
    "pair": "SequenceClassification",
    "choice": "MultipleChoice",
    "span": "QuestionAnswering",
    "tag": "TokenClassification",
}
NETWORKS: Any = {"pair": pair, "choice": choice, "span": span, "tag": tag}

LACKING = {
    ("deberta", "choice"),
    ("eurobert", "choice"),
    ("eurobert", "span"),
    ("gpt2", "choice"),
    ("openai-gpt", "choice"),
    ("openai-gpt", "span"),
    ("openai-gpt", "tag"),
    ("t5", "choice"),
    ("t5", "pair"),
    ("t5", "span"),
}
"""What transformers has no class for, or (T5) only one that needs the decoder."""

DENSE = (
    "classifier.dense",
    "classifier.linear_hidden",
    "dense",
    "pooler.dense",
    "pre_classifier",
    "sequence_summary.summary",
    "{body}.pooler.dense",
)
OUTPUT = (
    "classifier.linear_out",
    "classifier.out_proj",
    "classifier",
    "logits_proj",
    "qa_classifier.qa_outputs",
    "qa_outputs",
    "score",
)
"""Where transformers' classes have the layers that we call so: the first one that is there."""

FEED_FORWARD = {"wide": "intermediate.dense", "narrow": "output.dense", "norm": "output.LayerNorm"}

SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
"""What ConvBERT's MultipleChoice reads from a config without having defaults for it."""


def make_both(family: str, kind: str, **changes: Any) -> tuple[Any, Any]:
    """Transformers' network, and ours with its weights."""
    torch.manual_seed(3)
    outputs = 2 if kind == "span" else 3
    extras = SUMMARY if family == "convbert" else {}
    config = make_config(family, num_labels=outputs, **extras, **changes)
    theirs = getattr(transformers, f"AutoModelFor{KINDS[kind]}").from_config(config)
    for name, weight in theirs.named_parameters():
        if name.endswith("bias"):  # zero at first, which would hide a lost bias
            nn.init.normal_(weight, std=0.3)
    ours = put_head(copy_body(theirs), config, kind)
    copy_layers(theirs, ours, kind)
    return theirs, ours


def make_ours(family: str, kind: str, **changes: Any) -> Any:
    """Our network of any family and head type, with random weights."""
    torch.manual_seed(3)
    config = make_config(family, **changes)
    return put_head(make_network(config), config, kind)


def put_head(body: Any, config: Any, kind: str) -> Any:
    """Our network of a head type on an encoder."""
    family = config.model_type
    encoder = Encoder(network=body, tokenizer=None, config=config, family=family, max_tokens=72)
    labels = ("O", "B-X", "I-X")
    task = SimpleNamespace(tags=labels, labels=labels, is_regression=False, marks=0)
    return NETWORKS[kind].network(encoder, task)


def copy_body(theirs: Any) -> Any:
    """An encoder of its own with their weights."""
    body = make_network(theirs.config)
    inner = getattr(theirs, theirs.base_model_prefix)
    missing, unexpected = body.load_state_dict(inner.state_dict(), strict=False)
    assert not unexpected
    assert {name.split(".")[0] for name in missing} <= {"pooler", "decoder"}
    if hasattr(theirs, "head"):
        body.pooler = theirs.head
    return body


def copy_layers(theirs: Any, ours: Any, kind: str) -> None:
    classifier, their_layers = ours.classifier, dict(theirs.named_modules())
    copy_first(classifier.output, OUTPUT, theirs)
    if kind in ("pair", "choice") and not isinstance(classifier.dense, nn.Identity):
        copy_first(classifier.dense, DENSE, theirs)
    elif "qa_classifier" in their_layers:
        for mine, name in FEED_FORWARD.items():
            weights = their_layers[f"qa_classifier.{name}"].state_dict()
            classifier.transform.get_submodule(mine).load_state_dict(weights)


def copy_first(mine: nn.Module, names: tuple[str, ...], theirs: Any) -> None:
    layers = dict(theirs.named_modules())
    found = [layers.get(name.format(body=theirs.base_model_prefix)) for name in names]
    found = [layer for layer in found if isinstance(layer, nn.Linear)]
    if found:
        mine.load_state_dict(found[0].state_dict())


def make_inputs(config: Any) -> dict[str, Tensor]:
    """Two rows, each of two texts with two separators between them, the second one padded."""
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
    """Both logits, with the same random numbers, where they mean anything."""
    torch.manual_seed(11)
    expected = run_theirs(theirs, kind, inputs)
    torch.manual_seed(11)
    logits = run_ours(ours, kind, inputs)
    possible = expected > -1e5  # BigBird's class forbids answers in the question
    assert possible.sum() > 0.6 * possible.numel()
    return expected[possible], logits[possible]


def run_theirs(theirs: Any, kind: str, inputs: dict[str, Tensor]) -> Tensor:
    is_real = inputs["attention_mask"].bool()
    if theirs.config.model_type == "xlnet":  # which reads the last token of a row
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
    """Rows padded at their ends as rows padded at their beginnings."""
    rows = [torch.cat([row[~real], row[real]]) for row, real in zip(values, is_real, strict=True)]
    return torch.stack(rows)
