"""Conversion of weights between benchharness's networks and transformers' model classes.

The names are derived from the class's weights, so no instance of the class is needed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.recipes.classes import BODY
from benchharness.tasks.task import Task

DENSE = (
    "head.dense",
    "classifier.dense",
    "classifier.linear_hidden",
    "dense",
    "pooler.dense",
    "pre_classifier",
    "sequence_summary.summary",
    "{body}.pooler.dense",
    "{body}.pooler",
)
"""Names that the dense layer before the output layer may have in transformers' classes. `{body}`
stands for the name of the encoder. The first of these names that a class has is used."""

OUTPUT = (
    "classifier.linear_out",
    "classifier.out_proj",
    "classifier",
    "logits_proj",
    "qa_classifier.qa_outputs",
    "qa_outputs",
    "score",
)
"""Names that the output layer may have in transformers' classes. The first of these names that a
class has is used."""

FEED_FORWARD = {"wide": "intermediate.dense", "narrow": "output.dense", "norm": "output.LayerNorm"}

SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
"""Config values that ConvBERT's MultipleChoice class reads, but that its config may lack."""


OURS = "classifier.output."
"""Prefix of the names of the output layer's weights in a benchharness network."""

UNSCALED = (0.0, 1.0)
"""Zero point and unit of numbers that are not rescaled for training (see `published_state`)."""


def published_names(ours: Iterable[str], theirs: Iterable[str], body: str) -> dict[str, str]:
    """Return the name of each weight in a transformers class, keyed by its name in benchharness.

    Args:
        ours: Names of the weights of a benchharness network.
        theirs: Names of the weights of the transformers class.
        body: Name of the encoder in the transformers class (`base_model_prefix`); empty if the
            class itself is the encoder.
    """
    layers = {name.rpartition(".")[0] for name in theirs if name.endswith(".weight")}

    def first(names: Sequence[str]) -> str:
        found = (name.format(body=body) for name in names)
        return next((name for name in found if name in layers), "")

    dense = {"dense": first(DENSE), "norm": "head.norm"}  # ModernBERT's dense layer has a norm
    below = dense | {mine: f"qa_classifier.{name}" for mine, name in FEED_FORWARD.items()}
    if "head.norm" in layers:
        below["norm"] = "head.norm"  # FEED_FORWARD (BigBird's block) has a norm too
    heads = dense | {f"transform.{mine}": name for mine, name in below.items()}
    parts = {f"classifier.{mine}": name for mine, name in heads.items()}
    parts |= {"classifier.output": first(OUTPUT), "encoder": body}
    found = {}
    for name in ours:
        part = next(part for part in parts if name.startswith(f"{part}."))
        found[name] = f"{parts[part]}{name.removeprefix(part)}".lstrip(".")
    return found


def published_state(
    network: nn.Module, theirs: Mapping[str, Tensor], body: str, scale: tuple[float, float]
) -> dict[str, Tensor]:
    """Return the weights of a benchharness network under the names of a transformers class.

    The class may have a pooler that no layer uses (BigBird). The benchharness network then lacks
    this pooler, and its weights in the result are zeros.

    Args:
        network: The benchharness network.
        theirs: Weights of the transformers class; only their names and shapes are used.
        body: Name of the encoder in the class, as in `published_names`.
        scale: Zero point and unit of a regression task: the number to predict is the network's
            output times the unit, plus the zero point. The transformers class has to return this
            number itself, so the weights of the last layer are rescaled. If the last layer has no
            bias (GPT), the zero point is ignored.

    Raises:
        KeyError: The network has a weight that the class lacks, or the class has a weight, other
            than those of an unused pooler, that the network lacks.
    """
    state = network.state_dict()
    names = published_names(state, theirs, body)
    unread = {name for name in theirs if name.startswith(f"{body}.pooler.".lstrip("."))}
    # Only a pooler that the network lacks may be missing: its head does not use a pooler then.
    if lost := ({*names.values()} ^ theirs.keys()) - (unread - {*names.values()}):
        raise KeyError(f"only the network or only the class has these weights: {sorted(lost)}")
    zero, one = scale
    found = {name: torch.zeros(theirs[name].shape) for name in unread}
    for mine, name in names.items():
        found[name] = state[mine].detach().cpu().clone().contiguous()
        if mine.startswith(OURS) and scale != UNSCALED:
            found[name] = found[name] * one + (zero if mine.endswith("bias") else 0.0)
    return found


def without_types(state: Mapping[str, Tensor], task: Task) -> None:
    """Change a transformers class's weights for a span task, so that token types have no effect.

    All token types get the embedding of the first one. The weights `state` are changed in place. If
    `task` is not a span task, or there are no such embeddings, the weights are left unchanged.
    """
    # BigBird's span class creates token types if it gets none, and its tokenizer returns none.
    types = next((name for name in state if "token_type_embeddings" in name), None)
    if task.head == "span" and types is not None:
        state[types][:] = state[types][:1]


def published_config(task: Any, auto_class: str, family: str) -> Mapping[str, Any]:
    """Return the config values that describe a task's outputs, for a transformers class.

    Args:
        task: Task of the model.
        auto_class: Name of the auto class, such as "AutoModelForQuestionAnswering".
        family: transformers' model_type.

    Returns:
        Values such as `num_labels` or `id2label`, keyed by name. Empty if the class needs none, as
        most classes for multiple choice, text-to-text classes and classes without a head.
    """
    if task.head == "choice":
        return SUMMARY if family == "convbert" else {}
    # Text-to-text models and embedding models have no labels.
    if auto_class.endswith(("Seq2SeqLM", BODY)):
        return {}
    # Each token has a start logit and an end logit.
    if task.head == "span":
        return {"num_labels": 2}
    if task.kind == "number":
        return {"num_labels": 1, "problem_type": "regression"}
    names = task.tags if task.head == "tag" else task.labels
    known: dict[str, Any] = {
        "id2label": dict(enumerate(names)),
        "label2id": {n: i for i, n in enumerate(names)},
    }
    if task.head == "pair":
        several = "multi" if task.kind == "labels" else "single"
        known["problem_type"] = f"{several}_label_classification"
    return known


def load_published(
    network: nn.Module, state: Mapping[str, Tensor], body: str, scale: tuple[float, float]
) -> None:
    """Load the weights `state` of a transformers class into a benchharness network.

    This is the inverse of `published_state`, which explains `body` and `scale`. Raises KeyError if
    `state` lacks a weight of the network, and also lacks all weights that are tied to this weight.
    """
    own, (zero, one) = network.state_dict(), scale
    found = {}
    for mine, name in published_names(own, state, body).items():
        if name in state:
            found[mine] = state[name]
            if mine.startswith(OURS) and scale != UNSCALED:
                found[mine] = (state[name] - (zero if mine.endswith("bias") else 0.0)) / one
    # `state` contains a tied weight only once, under one of its names.
    filled = {own[mine].data_ptr() for mine in found}
    if lost := [mine for mine, weight in own.items() if weight.data_ptr() not in filled]:
        raise KeyError(f"the weight {lost[0]} is missing")
    firsts: dict[int, str] = {}
    for mine, weight in found.items():
        first = firsts.setdefault(own[mine].data_ptr(), mine)
        if not weight.equal(found[first]):  # T5 1.1's output layer is declared as tied but differs
            part, _, name = mine.rpartition(".")
            setattr(network.get_submodule(part), name, nn.Parameter(weight))
    network.load_state_dict(found, strict=False)
