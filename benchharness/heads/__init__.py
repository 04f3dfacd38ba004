"""The head types: what each offers to the worker, the road from examples to predictions.

A file holds the whole road of one type, and jobs import the one that they need.
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
from benchharness.models.folder import GPT
from benchharness.recipes.recipe import HeadOptions, SpanOptions
from benchharness.tasks.errors import BenchError, ModelError
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import CorefTask, SpanTask, Task
from benchharness.training.batching import Features


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long a row may be: at most `max_tokens` with the special tokens.

    Only where a context is cut into windows: they begin every `stride` tokens, and at most
    `max_question_tokens` of the question stand in each. `is_causal` says that a state has seen only
    what precedes it, so that a window's last token is where "no answer" is read.
    """

    max_tokens: int
    stride: int = 128
    max_question_tokens: int = 64
    is_causal: bool = False


@dataclass(frozen=True, kw_only=True)
class Head:
    """The functions of one head type; `task` and the examples are of its own classes.

    `encode(examples, tokenizer, limits)` makes the features, `targets(features, examples, task)`
    what is learned from them, one for each item, `network(encoder, task)` the module from padded
    rows to logits, and `decode(logits, features, examples, task)` one prediction per example. A
    module with `reads_targets` is given its rows' targets in training, as `targets`.
    `loss(logits, targets)` gives one loss per item: its logits are a row's, or where an item has
    several rows with one logit each, those side by side, and -inf in place of a missing row.
    Logits return to the head that made the features, which alone can read its windows and offsets.
    `soft_loss(logits, teacher, targets, temperature)` gives one loss per item towards a teacher's
    logits; None where a network gives losses and no logits in training. `learned(rows)` are what is
    learned of a training split. With `whole_batch` an item's loss depends on all items of a batch,
    which is then one part, and its network has `parts`, in as many of which it computes.
    """

    encode: Callable[[Sequence[Any], Any, Limits], Features]
    targets: Callable[[Any, Sequence[Any], Any], NDArray[Any]]
    network: Callable[[Encoder, Any], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[NDArray[np.float32], Any, Sequence[Any], Any], tuple[Any, ...]]
    soft_loss: Callable[[Tensor, Tensor, Tensor, float], Tensor] | None = None
    learned: Callable[[SplitRows], SplitRows] = lambda rows: rows
    whole_batch: bool = False


# How far a student's probabilities are from its teacher's, in fp32.


def divergence(logits: Tensor, teacher: Tensor, temperature: float, dim: int = -1) -> Tensor:
    """Kullback-Leibler's, of the softmax over `dim` at a temperature, times its square.

    Hinton et al., arXiv:1503.02531, section 2: the gradients of soft targets shrink with the
    square, which is made up for. What is -inf for both is no class and counts for nothing.
    """
    mine = (logits.float() / temperature).log_softmax(dim)
    theirs = (teacher.float() / temperature).log_softmax(dim)
    is_none = theirs.isneginf()  # a missing option, or padding
    mine, shares = mine.masked_fill(is_none, 0.0), theirs.exp()
    terms = shares * (theirs.masked_fill(is_none, 0.0) - mine)
    return temperature**2 * terms.sum(dim)


def binary_divergence(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The same of each output's own yes and no, by the sigmoid of its logit; of the same shape."""
    mine, theirs = logits.float() / temperature, teacher.float() / temperature
    own = functional.binary_cross_entropy_with_logits(mine, theirs.sigmoid(), reduction="none")
    least = functional.binary_cross_entropy_with_logits(theirs, theirs.sigmoid(), reduction="none")
    return temperature**2 * (own - least)


# Long texts in overlapping windows, and in which of them each token is best understood.


def cut_windows(tokens: int, room: int, stride: int) -> list[slice]:
    """Windows of at most `room` tokens that begin every `stride` tokens until the text is covered.

    As in google-research/bert's run_squad.py, where transformers' run_qa.py calls the overlap the
    stride. A stride beyond the room leaves no gaps: windows then follow one another. An empty text
    has one empty window.
    """
    step = min(stride, room)
    beyond = max(0, tokens - room)  # what the first window leaves out
    starts = range(0, beyond + step, step)  # the last one begins at `beyond` or after it
    return [slice(start, min(start + room, tokens)) for start in starts]


def best_windows(windows: list[slice]) -> NDArray[np.int64]:
    """The window of every token in which it has the most context, the first of several.

    The context is the smaller of the numbers of tokens on either side, and a hundredth of the
    window's length more (run_squad.py, `_check_is_max_context`).
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


# GPT's second loss: that of the language model on the texts that a head reads. A network with it
# has a field `lm_weight` and gives its logits through `with_losses`.

LM_TOKENS = 1024
"""Places whose logits over the vocabulary are there at once: 160 MB of GPT's, in fp32."""


def with_language_model(head: Head, weight: float) -> Head:
    """The head with the language model's loss, `weight` times, in addition to its own.

    As openai/finetune-transformer-lm, train.py: of a question's options it is the mean over all of
    them, the wrong ones too. Raises ModelError for an encoder of another family: its states may
    have seen what comes after them, and its output layer may be another than its embedding.
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
        # A row (rows, outputs + 1), or an item of several (items, rows, 2), -inf where one is not.
        own, losses = logits[..., :-1], logits[..., -1]
        if losses.ndim == 1:
            return head.loss(own, targets) + losses
        is_row = ~own[..., 0].isneginf()  # (items, rows)
        means = losses.where(is_row, 0.0).sum(-1) / is_row.sum(-1)
        return head.loss(own[..., 0], targets) + means

    return replace(head, network=network, loss=loss)


def with_losses(network: Any, logits: Tensor, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """Logits (rows, outputs), and in a training by both losses a column with the weighted second.

    `hidden` are the encoder's states of the inputs, of all rows or several times of all.
    """
    if not network.training or not network.lm_weight:
        return logits
    losses = language_model_losses(network.encoder, hidden, inputs)
    # Of a row that is read several times, the mean: (times * rows,) -> (rows,)
    losses = losses.unflatten(0, (-1, len(logits))).mean(0)  # type: ignore[no-untyped-call]
    return torch.cat([logits.float(), network.lm_weight * losses[:, None]], dim=-1)


def language_model_losses(encoder: Any, hidden: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """The mean loss (rows,) of the next token at every place of a row, in fp32.

    The output layer is the embedding. Logits are computed a part at a time, and once more for the
    gradients, because those of a batch are gigabytes.
    """
    packing: Any = inputs.get("packing") or Packing.of(inputs["attention_mask"])
    states, ids = (packing.pack(values)[0] for values in (hidden, inputs["input_ids"]))
    is_last = packing.positions.roll(-1) == 0  # (tokens,): the next one begins another row
    weight = encoder.get_input_embeddings().weight  # (vocabulary, size): the output layer too
    parts = zip(torch.split(states, LM_TOKENS), torch.split(ids.roll(-1), LM_TOKENS), strict=True)
    losses = [checkpoint(_lm_losses, *part, weight, use_reentrant=False) for part in parts]
    table: Tensor = packing.table(torch.cat(losses).masked_fill(is_last, 0.0))[: packing.rows]
    return table.sum(-1) / (inputs["attention_mask"].sum(-1) - 1)


def _lm_losses(states: Tensor, goals: Tensor, weight: Tensor) -> Tensor:
    return functional.cross_entropy((states @ weight.T).float(), goals, reduction="none")


HEADS = ("pair", "span", "choice", "tag", "ranking")
"""The names that Task classes give their head types, which are those of the files here."""


def head_for(task: Task, options: HeadOptions | None = None) -> Head:
    """The head that trains and predicts a task, with the options of a recipe for its type.

    The one that answers in words is `text_head` (heads/text.py), which needs a tokenizer.
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
