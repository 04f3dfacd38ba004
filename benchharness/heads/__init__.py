"""Head types: the functions that lead from the examples of a task to its predictions.

Each module holds all functions of one head type. Jobs import only the one that they need.
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

from benchharness.encoder import Encoder
from benchharness.encoder.packing import Packing
from benchharness.errors import BenchError, ModelError
from benchharness.models.folder import GPT
from benchharness.recipes.recipe import HeadOptions, SpanOptions
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import CorefTask, SpanTask, Task
from benchharness.training.batching import Features


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Length limits of a row: at most `max_tokens`, special tokens included.

    The other fields matter only for contexts that are cut into windows. A window begins every
    `stride` tokens and contains at most `max_question_tokens` of the question. If `is_causal`, a
    state has seen only the tokens before it, so "no answer" is read at the last token of a window.
    """

    max_tokens: int
    stride: int = 128
    max_question_tokens: int = 64
    is_causal: bool = False


@dataclass(frozen=True, kw_only=True)
class Head:
    """Functions of one head type; `task` and the examples are of the type's own classes.

    A head with `whole_batch` has a loss per item that depends on all items of the batch. Its
    batches are never cut into micro-batches; its network computes in `network.parts` pieces
    instead.

    Attributes:
        encode: `(examples, tokenizer, limits)`: makes the features.
        targets: `(features, examples, task)`: returns the training targets, one per item.
        network: `(encoder, task)`: makes the module from padded rows to logits. A module with
            `reads_targets` also gets the targets of its rows in training, as `targets`.
        loss: `(logits, targets)`: returns one loss per item. An item of one row has the logits
            of that row. If items have several rows, the logits of an item's rows are stacked in a
            second dimension, with -inf for each missing row.
        decode: `(logits, features, examples, task)`: returns one prediction per example. The
            logits must come from features of the same head, which alone knows their windows and
            offsets.
        soft_loss: `(logits, teacher, targets, temperature)`: returns one loss per item towards
            the logits of a teacher. None if the network returns losses instead of logits in
            training.
        learned: `(rows)`: returns the rows to train on, made from the rows of a training split.
        whole_batch: Whether an item's loss depends on the whole batch.
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

    Both distributions are softmaxes over `dim` at the temperature, in fp32. The factor makes up for
    the gradients, which shrink with the squared temperature (Hinton et al., arXiv:1503.02531,
    section 2). Classes whose teacher logit is -inf (missing options, padding) do not count.
    """
    mine = (logits.float() / temperature).log_softmax(dim)
    theirs = (teacher.float() / temperature).log_softmax(dim)
    is_none = theirs.isneginf()  # a missing option, or padding
    mine, shares = mine.masked_fill(is_none, 0.0), theirs.exp()
    terms = shares * (theirs.masked_fill(is_none, 0.0) - mine)
    return temperature**2 * terms.sum(dim)


def binary_divergence(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return the binary divergence of each logit from the teacher's, times the squared temperature.

    Each output is a yes/no decision with the sigmoid of its logit as probability. The result has
    the shape of `logits`.
    """
    mine, theirs = logits.float() / temperature, teacher.float() / temperature
    own = functional.binary_cross_entropy_with_logits(mine, theirs.sigmoid(), reduction="none")
    least = functional.binary_cross_entropy_with_logits(theirs, theirs.sigmoid(), reduction="none")
    return temperature**2 * (own - least)


# Overlapping windows of long texts, and the window in which each token has the most context.


def cut_windows(tokens: int, room: int, stride: int) -> list[slice]:
    """Cut a text into windows of at most `room` tokens that begin every `stride` tokens.

    The stride is meant as in run_squad.py of google-research/bert; in transformers' run_qa.py the
    word means the overlap. A stride larger than the room leaves no gaps: windows then follow one
    another. An empty text has one empty window.
    """
    step = min(stride, room)
    beyond = max(0, tokens - room)  # tokens outside of the first window
    starts = range(0, beyond + step, step)  # the last one begins at `beyond` or after it
    return [slice(start, min(start + room, tokens)) for start in starts]


def best_windows(windows: list[slice]) -> NDArray[np.int64]:
    """Return for each token the index of the window with the most context, the first among equals.

    The context is the number of tokens on the shorter side, plus a hundredth of the window's length
    (`_check_is_max_context` in run_squad.py).
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
    best: NDArray[np.int64] = np.argmax(context, axis=0)  # (tokens,), the first of equal ones
    return best


# GPT's auxiliary loss: language modeling on the texts that a head reads. A network with this loss
# has a field `lm_weight` and returns its logits through `with_losses`.

LM_TOKENS = 1024
"""Number of tokens whose vocabulary logits are in memory at once: 160 MB in fp32 for GPT."""


def with_language_model(head: Head, weight: float) -> Head:
    """Return the head with `weight` times the language model's loss added to its own loss.

    As in train.py of openai/finetune-transformer-lm, the added loss of a multiple-choice question
    is the mean over all its options, including the wrong ones. Raises ModelError for other model
    families: their states may have seen later tokens, and their output layer may differ from the
    embedding.
    """
    if not weight:
        return head

    def network(encoder: Encoder, task: Any) -> nn.Module:
        if encoder.config.model_type not in GPT:
            raise ModelError(
                f"lm_weight is for {' and '.join(GPT)}, and this model is "
                f"{encoder.config.model_type}: leave lm_weight out."
            )
        made: Any = head.network(encoder, task)
        made.lm_weight, made.is_recordable = weight, False
        return made  # type: ignore[no-any-return]

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        # (rows, outputs + 1), or for items of several rows (items, rows, 2), -inf if missing.
        own, losses = logits[..., :-1], logits[..., -1]
        if losses.ndim == 1:
            return head.loss(own, targets) + losses
        is_row = ~own[..., 0].isneginf()  # (items, rows)
        means = losses.where(is_row, 0.0).sum(-1) / is_row.sum(-1)
        return head.loss(own[..., 0], targets) + means

    return replace(head, network=network, loss=loss)


def with_losses(network: Any, logits: Tensor, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Append the weighted language model loss to the logits in training with an `lm_weight`.

    Otherwise the logits are returned unchanged. The result is `[rows, outputs]`, or
    `[rows, outputs + 1]` with the loss as last column. `hidden` are the encoder's states of the
    inputs; it may hold all rows several times, one reading after the other, and each row then gets
    its mean loss.
    """
    if not network.training or not network.lm_weight:
        return logits
    losses = language_model_losses(network.encoder, hidden, inputs)
    # The mean over all readings of a row: (times * rows,) -> (rows,)
    losses = losses.unflatten(0, (-1, len(logits))).mean(0)  # type: ignore[no-untyped-call]
    return torch.cat([logits.float(), network.lm_weight * losses[:, None]], dim=-1)


def language_model_losses(encoder: Any, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Return the mean next-token loss `[rows]` over the tokens of each row, in fp32.

    The output layer is the input embedding. The logits of a whole batch would take gigabytes, so
    they are computed in chunks, and once more in the backward pass.
    """
    packing: Any = inputs.get("packing") or Packing.of(inputs["attention_mask"])
    states, ids = (packing.pack(values)[0] for values in (hidden, inputs["input_ids"]))
    is_last = packing.positions.roll(-1) == 0  # (tokens,): the next token begins another row
    weight = encoder.get_input_embeddings().weight  # (vocabulary, size): the output layer too
    parts = zip(torch.split(states, LM_TOKENS), torch.split(ids.roll(-1), LM_TOKENS), strict=True)
    losses = [checkpoint(_lm_losses, *part, weight, use_reentrant=False) for part in parts]
    table: Tensor = packing.table(torch.cat(losses).masked_fill(is_last, 0.0))[: packing.rows]
    return table.sum(-1) / (inputs["attention_mask"].sum(-1) - 1)


def _lm_losses(states: Tensor, goals: Tensor, weight: Tensor) -> Tensor:
    return functional.cross_entropy((states @ weight.T).float(), goals, reduction="none")


HEADS = ("pair", "span", "choice", "tag", "ranking")
"""Head types of Task classes, except for coreference; each is a module of this package."""


def head_for(task: Task, options: HeadOptions | None = None) -> Head:
    """Return the head that trains and predicts a task, with a recipe's options for its type.

    The head that answers in words is not made here but by `text_head` in heads/text.py, because it
    needs a tokenizer.
    """
    if task.head not in HEADS and not isinstance(task, CorefTask):
        known = ", ".join(HEADS)
        raise BenchError(f"{task.name} needs a {task.head} head, and there are only: {known}.")
    answers = isinstance(options, SpanOptions) and (options.answerable_weight or options.beam_size)
    head: Head = _file("answer" if answers else task.head).head(task, options)
    if isinstance(task, SpanTask) and (task.classes or task.facts):
        head = _file("auxiliary").with_auxiliary(head, task)
    return head


def _file(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
