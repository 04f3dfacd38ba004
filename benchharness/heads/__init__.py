"""Task heads: functions that turn the examples of a task into features, losses and predictions.

Each module of this package contains all functions of one head type. A job imports only the module
that it needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchharness.discovery import member, places
from benchharness.encoder import Encoder
from benchharness.encoder.packing import Packing
from benchharness.errors import BenchError, ModelError
from benchharness.models.folder import GPT
from benchharness.recipes.recipe import SpanOptions
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import SpanTask, Task
from benchharness.training.batching import Features


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Length limits of the rows (token sequences) of a job, and whether its encoder is causal.

    Attributes:
        max_tokens: Maximum number of tokens of a row, including special tokens.
        stride: Number of tokens from the start of one window of a long context to the start of the
            next, for span tasks.
        max_question_tokens: Maximum number of tokens of the question in each window, for span
            tasks.
        is_causal: Whether the state of a token depends only on the tokens up to it. In span tasks,
            "no answer" is then predicted at the last token of a window instead of the
            classification token.
    """

    max_tokens: int
    stride: int = 128
    max_question_tokens: int = 64
    is_causal: bool = False


@dataclass(frozen=True, kw_only=True)
class Head:
    """Functions of one head type, such as span extraction.

    Each head type has its own classes of tasks and examples. An item is one row, or several rows
    that are trained together, such as the options of a question.

    Attributes:
        encode: Function `(examples, tokenizer, limits)` that returns the encoded rows.
        targets: Function `(features, examples, task)` that returns the training targets, one per
            item; `features` is what `encode` has returned for the examples.
        network: Function `(encoder, task)` that returns the module that maps padded rows to
            logits. If the module has an attribute `reads_targets` that is true, it also gets the
            targets of its rows in training, as the argument `targets`.
        loss: Function `(logits, targets)` that returns one loss per item. If items have several
            rows, the logits of an item's rows are stacked in a second dimension, with -inf for
            each missing row.
        decode: Function `(logits, features, examples, task)` that returns one prediction per
            example. The features must have been encoded by the same head.
        soft_loss: Function `(logits, teacher, targets, temperature)` that returns the
            distillation loss of each item, given the teacher's logits. None if the network returns
            losses instead of logits in training.
        learned: Function `(rows)` that gets the rows of a train split and returns the rows to train
            on. By default, they are returned unchanged.
        whole_batch: Whether the loss of an item depends on all items of its batch. Such a batch is
            not cut into micro-batches. Instead, training sets the network's attribute `parts`, and
            the network itself computes the batch in that number of pieces.
    """

    encode: Callable[[Sequence[Any], Any, Limits], Features]
    targets: Callable[[Any, Sequence[Any], Any], NDArray[Any]]
    network: Callable[[Encoder, Any], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[NDArray[np.float32], Any, Sequence[Any], Any], tuple[Any, ...]]
    soft_loss: Callable[[Tensor, Tensor, Tensor, float], Tensor] | None = None
    learned: Callable[[SplitRows], SplitRows] = lambda rows: rows
    whole_batch: bool = False


# Divergences between a student's probabilities and its teacher's, in fp32.


def divergence(logits: Tensor, teacher: Tensor, temperature: float, dim: int = -1) -> Tensor:
    """Return the Kullback-Leibler divergence KL(teacher || student) times the squared temperature.

    Both distributions are softmaxes over the classes, computed in fp32 from the logits divided by
    the temperature. The factor keeps the gradients at the same scale, because they shrink with the
    squared temperature (Hinton et al., arXiv:1503.02531, section 2). A class (a missing option, or
    padding) is ignored if its logit from the teacher is -inf.

    Args:
        logits: Logits of the student.
        teacher: Logits of the teacher, in the same shape.
        temperature: Number by which all logits are divided.
        dim: Dimension of the classes.

    Returns:
        The divergences, in the shape of `logits` without the dimension `dim`.
    """
    mine = (logits.float() / temperature).log_softmax(dim)
    theirs = (teacher.float() / temperature).log_softmax(dim)
    is_none = theirs.isneginf()  # a missing option, or padding
    mine, shares = mine.masked_fill(is_none, 0.0), theirs.exp()
    terms = shares * (theirs.masked_fill(is_none, 0.0) - mine)
    return temperature**2 * terms.sum(dim)


def binary_divergence(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return KL(teacher || student) of each binary output, times the squared temperature.

    Each output is a yes/no decision. Its probability is the sigmoid of the logit divided by the
    temperature.

    Args:
        logits: Logits of the student.
        teacher: Logits of the teacher, in the same shape.
        temperature: Number by which all logits are divided.

    Returns:
        The divergences, in the shape of `logits`.
    """
    mine, theirs = logits.float() / temperature, teacher.float() / temperature
    own = functional.binary_cross_entropy_with_logits(mine, theirs.sigmoid(), reduction="none")
    least = functional.binary_cross_entropy_with_logits(theirs, theirs.sigmoid(), reduction="none")
    return temperature**2 * (own - least)


# Overlapping windows of long texts, and the window in which each token has the most context.


def cut_windows(tokens: int, room: int, stride: int) -> list[slice]:
    """Cut a text into overlapping windows.

    Args:
        tokens: Number of tokens of the text.
        room: Maximum number of tokens of a window.
        stride: Number of tokens between the starts of two windows, as in run_squad.py of
            google-research/bert; in transformers' run_qa.py the same word means the overlap. If it
            is larger than `room`, the windows are adjacent, so that no token is left out.

    Returns:
        The range of tokens of each window; one empty window for an empty text.
    """
    step = min(stride, room)
    beyond = max(0, tokens - room)  # number of tokens after the first window
    starts = range(0, beyond + step, step)  # the last one begins at `beyond` or after it
    return [slice(start, min(start + room, tokens)) for start in starts]


def best_windows(windows: list[slice]) -> NDArray[np.int64]:
    """Return for each token of a text the index of the window in which it has the most context.

    The `windows` are ranges of tokens, as `cut_windows` returns them. As in run_squad.py
    (`_check_is_max_context`), the context of a token in a window is the number of tokens of the
    window before it or after it, whichever is smaller, plus a hundredth of the window's length. If
    several windows are equally good, the first is chosen.
    """
    places = np.arange(windows[-1].stop)  # (tokens,)
    context = [  # (windows, tokens), -1 outside of a window
        np.where(
            (places >= window.start) & (places < window.stop),
            np.minimum(places - window.start, window.stop - 1 - places)
            + 0.01 * (window.stop - window.start),
            -1.0,
        )
        for window in windows
    ]
    best: NDArray[np.int64] = np.argmax(context, axis=0)  # (tokens,); the first one on ties
    return best


# GPT's auxiliary loss: language modeling on the texts that a head reads. A network that supports
# this loss has a field `lm_weight` and returns its logits through `with_losses`.

LM_TOKENS = 1024
"""Number of tokens whose vocabulary logits are in memory at once: 160 MB in fp32 for GPT."""


def with_language_model(head: Head, weight: float) -> Head:
    """Return a copy of a head that adds the language modeling loss, times `weight`, to its loss.

    As in train.py of openai/finetune-transformer-lm, the added loss of a multiple-choice question
    is the mean over the rows of all its options, including the wrong ones. If the weight is 0,
    `head` itself is returned.

    The function `network` of the new head raises ModelError for model families other than GPT,
    because this loss requires that a state does not depend on later tokens, and that the output
    layer has the weights of the input embedding.
    """
    if not weight:
        return head

    def network(encoder: Encoder, task: Any) -> nn.Module:
        if encoder.config.model_type not in GPT:
            raise ModelError(
                f"lm_weight can be set only for the families {' and '.join(GPT)}, but this model "
                f"belongs to the family {encoder.config.model_type}: remove lm_weight."
            )
        made: Any = head.network(encoder, task)
        made.lm_weight, made.is_recordable = weight, False
        return made  # type: ignore[no-any-return]

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        # Logits are (rows, outputs + 1). For items of several rows, they are (items, rows, 2), with
        # -inf for missing rows.
        own, losses = logits[..., :-1], logits[..., -1]
        if losses.ndim == 1:
            return head.loss(own, targets) + losses
        is_row = ~own[..., 0].isneginf()  # (items, rows)
        means = losses.where(is_row, 0.0).sum(-1) / is_row.sum(-1)
        return head.loss(own[..., 0], targets) + means

    return replace(head, network=network, loss=loss)


def with_losses(network: Any, logits: Tensor, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Append the weighted language modeling loss of each row to the logits in training.

    Outside of training, or if the network's `lm_weight` is 0, the logits are returned unchanged.

    Args:
        network: Network of a head, with the attributes `encoder` and `lm_weight`.
        logits: Logits of the head: `[rows, outputs]`.
        hidden: Hidden states of the encoder for the inputs.
        inputs: Inputs of the encoder. They may contain every row twice: first all rows in one order
            of their two texts, then all rows in the other order. The two losses of a row are then
            averaged.

    Returns:
        The logits, followed in training by a column with the loss times `lm_weight`:
        `[rows, outputs + 1]`.
    """
    if not network.training or not network.lm_weight:
        return logits
    losses = language_model_losses(network.encoder, hidden, inputs)
    # The mean over the text orders of a row: (orders * rows,) -> (rows,)
    losses = losses.unflatten(0, (-1, len(logits))).mean(0)  # type: ignore[no-untyped-call]
    return torch.cat([logits.float(), network.lm_weight * losses[:, None]], dim=-1)


def language_model_losses(encoder: Any, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Return the mean next-token loss `[rows]` over the tokens of each row, in fp32.

    The encoder's input embedding serves as the output layer too. The logits of a whole batch would
    take gigabytes, so they are computed in chunks, and recomputed in the backward pass.

    Args:
        encoder: Network of the GPT family.
        hidden: Hidden states of the encoder for the inputs: `[rows, tokens, size]`.
        inputs: Inputs of the encoder: `input_ids`, `attention_mask`, and `packing` if the encoder
            computes packed rows.
    """
    packing: Any = inputs.get("packing") or Packing.of(inputs["attention_mask"])
    states, ids = (packing.pack(values)[0] for values in (hidden, inputs["input_ids"]))
    is_last = packing.positions.roll(-1) == 0  # (tokens,): the next token begins another row
    weight = encoder.get_input_embeddings().weight  # (vocabulary, size), also the output layer
    parts = zip(torch.split(states, LM_TOKENS), torch.split(ids.roll(-1), LM_TOKENS), strict=True)
    losses = [checkpoint(_lm_losses, *part, weight, use_reentrant=False) for part in parts]
    table: Tensor = packing.table(torch.cat(losses).masked_fill(is_last, 0.0))[: packing.rows]
    return table.sum(-1) / (inputs["attention_mask"].sum(-1) - 1)


def _lm_losses(states: Tensor, goals: Tensor, weight: Tensor) -> Tensor:
    return functional.cross_entropy((states @ weight.T).float(), goals, reduction="none")


HEADS = ("pair", "span", "choice", "tag")
"""Head types of the core; each is also the name of a module in this package."""


def head_for(task: Task, options: Any = None) -> Head:
    """Return the head for a task.

    A technique may replace it with a head of its own (see `Technique.head`).

    Args:
        task: Task that the head answers.
        options: The recipe's options for the head type of the task; None for the defaults.

    Raises:
        BenchError: Neither the core nor an extension has the head type of the task.
    """
    added = places("heads")
    if task.head in added:
        make: Any = member(f"the head type {task.head}", added[task.head])
        return make(task, options)  # type: ignore[no-any-return]
    if task.head not in HEADS:
        known = ", ".join((*HEADS, *added))
        raise BenchError(f"{task.name} needs a {task.head} head; the known types are {known}.")
    answers = isinstance(options, SpanOptions) and (options.answerable_weight or options.beam_size)
    head: Head = _file("answer" if answers else task.head).head(task, options)
    if isinstance(task, SpanTask) and (task.classes or task.facts):
        head = _file("auxiliary").with_auxiliary(head, task)
    return head


def _file(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
