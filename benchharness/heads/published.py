"""Our networks' weights by the names that transformers' own classes have for them, and back.

The names are read off the classes' weights, so that both ways need no network of theirs.
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


OURS = "classifier.output."
"""The last layer of a network of ours."""

UNSCALED = (0.0, 1.0)
"""The scale of what is learned as it is."""


def published_names(ours: Iterable[str], theirs: Iterable[str], body: str) -> dict[str, str]:
    """The name in transformers' class of each weight of a network of ours.

    `theirs` are the names of the class's weights, `body` is what it calls its encoder
    (`base_model_prefix`), empty where it is the class itself.
    """
    layers = {name.rpartition(".")[0] for name in theirs if name.endswith(".weight")}

    def first(names: Sequence[str]) -> str:
        found = (name.format(body=body) for name in names)
        return next((name for name in found if name in layers), "")

    dense = {"dense": first(DENSE), "norm": "head.norm"}  # ModernBERT's has a norm behind it
    below = dense | {mine: f"qa_classifier.{name}" for mine, name in FEED_FORWARD.items()}
    if "head.norm" in layers:
        below["norm"] = "head.norm"  # which BigBird's block has too
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
    """All weights of a class, like `theirs`, that has those of a network of ours.

    `scale` is that of a number (PairTask), which the class is to give as it is: it goes into the
    last layer. One without a bias (GPT's) cannot take the number that is learned as 0. KeyError for
    a weight that either has alone; a pooler that nothing reads (BigBird's) is zeros.
    """
    state = network.state_dict()
    names = published_names(state, theirs, body)
    unread = {name for name in theirs if name.startswith(f"{body}.pooler.".lstrip("."))}
    # A pooler that our head trains is read, and has to be in both.
    if lost := ({*names.values()} ^ theirs.keys()) - (unread - {*names.values()}):
        raise KeyError(f"in one of the two alone: {sorted(lost)}")
    zero, one = scale
    found = {name: torch.zeros(theirs[name].shape) for name in unread}
    for mine, name in names.items():
        found[name] = state[mine].detach().cpu().clone().contiguous()
        if mine.startswith(OURS) and scale != UNSCALED:
            found[name] = found[name] * one + (zero if mine.endswith("bias") else 0.0)
    return found


def without_types(state: Mapping[str, Tensor], task: Task) -> None:
    """Makes token types that no tokenizer gives tell nothing, in a class's weights, in place."""
    # BigBird's class for spans gives itself types where a tokenizer, as its own, gives none.
    types = next((name for name in state if "token_type_embeddings" in name), None)
    if task.head == "span" and types is not None:
        state[types][:] = state[types][:1]


def published_config(task: Any, auto_class: str, family: str) -> Mapping[str, Any]:
    """What a class's config says of a task's answers; `family` is transformers' model_type."""
    if task.head == "choice":
        return SUMMARY if family == "convbert" else {}
    # In words, or in vectors, there are no labels.
    if auto_class.endswith(("Seq2SeqLM", BODY)):
        return {}
    # A start and an end.
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
    """Gives a network of ours the weights that a class has left, as `published_state` made them.

    KeyError for a weight that it lacks, unless it is tied to one that is there.
    """
    own, (zero, one) = network.state_dict(), scale
    found = {}
    for mine, name in published_names(own, state, body).items():
        if name in state:
            found[mine] = state[name]
            if mine.startswith(OURS) and scale != UNSCALED:
                found[mine] = (state[name] - (zero if mine.endswith("bias") else 0.0)) / one
    # A tied weight stands in the file once, and is filled by either of its names.
    filled = {own[mine].data_ptr() for mine in found}
    if lost := [mine for mine, weight in own.items() if weight.data_ptr() not in filled]:
        raise KeyError(f"the weights lack {lost[0]}")
    firsts: dict[int, str] = {}
    for mine, weight in found.items():
        first = firsts.setdefault(own[mine].data_ptr(), mine)
        if not weight.equal(found[first]):  # T5 1.1's output layer, which its class calls tied
            part, _, name = mine.rpartition(".")
            setattr(network.get_submodule(part), name, nn.Parameter(weight))
    network.load_state_dict(found, strict=False)
