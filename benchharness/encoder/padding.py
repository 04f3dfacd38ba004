"""Networks whose results depend on padding, and a trial that detects them in unchecked families.

A convolution without a mask, a Fourier transform over all positions or blocks of fixed sizes mix
padding into the states of real tokens, so the result for a row would depend on the other rows of
its batch. Such networks compute rows of each length separately, without padding.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchharness.encoder.network import takes_input
from benchharness.errors import ModelError, first_line

SEES_PADDING = frozenset({"convbert", "funnel"})
"""Families (transformers' model_type) in which padding is known to change the states of real
tokens. `try_out` tests the networks of families that benchharness does not know."""


def compute_by_length(network: Any) -> None:
    """Make a network compute rows of different lengths separately, without padding.

    As before, the network gets padded rows `[rows, tokens]` with an attention mask, and returns the
    states of all rows. The states at padding are zeros.
    """
    forward, has_mask = network.forward, takes_input(network, "attention_mask")

    def by_length(*args: Any, **inputs: Any) -> Any:
        if args:  # some classes pass the token ids as a positional argument
            inputs["input_ids"] = args[0]
        mask = inputs["attention_mask"].bool()  # (rows, tokens)
        lengths = mask.sum(1)  # (rows,)
        found, places = [], []
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            real = mask[rows]  # (some rows, tokens), `length` real tokens each
            part = {
                name: value[rows][real].view(len(rows), length)
                if isinstance(value, Tensor) and value.shape == mask.shape
                else value
                for name, value in inputs.items()
                if has_mask or name != "attention_mask"
            }
            found.append(forward(**part))
            places.append(rows)
        return _merged(found, places, mask)

    network.forward = by_length


def _merged(parts: Sequence[Any], places: Sequence[Tensor], mask: Tensor) -> Any:
    """Merge a network's outputs for groups of rows into one output for all rows."""
    first = parts[0]
    if isinstance(first, Tensor):
        return _spread(parts, places, mask)
    if isinstance(first, Mapping):  # ModelOutput
        names = {name: _merged([part[name] for part in parts], places, mask) for name in first}
        return type(first)(**names)
    if isinstance(first, tuple | list):  # such as the states of all layers
        return tuple(_merged(each, places, mask) for each in zip(*parts, strict=True))
    return first


def _spread(parts: Sequence[Tensor], places: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Merge tensors that each hold some of the rows into one tensor of all rows, `[rows, ...]`.

    If the tensors hold one state per token, each state is put at its token's position in the batch.
    Other tensors, such as states that Funnel has halved, are padded with zeros to the largest size.
    """
    sizes = [max(each) for each in zip(*(part.shape[1:] for part in parts), strict=True)]
    real = [mask[rows] for rows in places]  # (some rows, tokens) each
    lengths = [int(each[0].sum()) for each in real]
    if [part.shape[1] for part in parts] == lengths and parts[0].ndim == 3:
        whole = parts[0].new_zeros(*mask.shape, *sizes[1:])
        for part, rows, each in zip(parts, places, real, strict=True):
            row, token = each.nonzero(as_tuple=True)
            whole[rows[row], token] = part.flatten(0, 1)
        return whole
    whole = parts[0].new_zeros(len(mask), *sizes)
    for part, rows in zip(parts, places, strict=True):
        index: Any = (rows, *(slice(0, size) for size in part.shape[1:]))
        whole[index] = part
    return whole


# A trial that tests an unchecked family on a few tokens.


class Reading(NamedTuple):
    """Properties of a network that determine how its rows may be padded and which state is read.

    Attributes:
        is_causal: True if a token attends only to itself and to earlier tokens.
        sees_padding: True if padding changes the states of real tokens.
    """

    is_causal: bool
    sees_padding: bool


TOKENS, PADDING = 5, 8
"""Number of tokens in each row of the trial, and number of padding tokens that are added to each
row to test whether they change the states."""


def try_out(network: Any, config: Any, checkpoint: str) -> Reading:
    """Test whether a network is causal, and whether padding changes its states.

    The test computes the states of a few tokens. A network is causal if the state of the first
    token stays the same when the last token is changed. In every working network, the state of the
    last token changes when the first token is changed. Then padding is added to the tokens, to see
    whether this changes their states.

    Args:
        network: Network to test.
        config: Config of the network.
        checkpoint: Name of the checkpoint, for messages.

    Raises:
        ModelError: The network cannot read rows that consist only of token ids and a mask, or its
            states have the wrong shape, are not finite, or do not depend on the text.
    """
    family = f"{checkpoint}, whose family {config.model_type} has not been checked,"
    ids = torch.arange(5, 5 + TOKENS) % max(2, int(getattr(config, "vocab_size", None) or 100))
    rows = torch.stack([ids, torch.cat([ids[:-1], ids[:1]]), torch.cat([ids[-1:], ids[1:]])])
    padding = torch.full((len(rows), PADDING), int(getattr(config, "pad_token_id", None) or 0))
    was_training = network.training
    try:
        with torch.no_grad():
            states = _states(network.eval(), rows)  # (3, tokens, size)
            padded = _states(network, torch.cat([rows, padding], 1))
    except Exception as error:  # an unchecked family may raise anything
        raise ModelError(
            f"{family} cannot read texts that are given only as token ids ({first_line(error)})."
        ) from error
    finally:
        network.train(was_training)
    if states.shape != (*rows.shape, config.hidden_size):
        raise ModelError(
            f"{family} returns states of shape {tuple(states.shape)} for tokens of shape "
            f"{tuple(rows.shape)}: expected one state of hidden_size {config.hidden_size} per "
            "token."
        )
    if not states.isfinite().all():
        raise ModelError(f"{family} returns states that are not finite numbers.")
    near = NEAR * states.abs().mean()
    if (states[0, -1] - states[2, -1]).abs().max() <= near:
        raise ModelError(
            f"{family} returns the same state for a token after different texts: it may lack a "
            "kernel for this machine."
        )
    return Reading(
        is_causal=bool((states[0, 0] - states[1, 0]).abs().max() <= near),
        sees_padding=bool((states - padded).abs().max() > near),
    )


NEAR = 1e-5
"""Largest difference that counts as fp32 rounding, relative to the mean absolute state."""


def _states(network: Any, rows: Tensor) -> Tensor:
    """Mask all but the first TOKENS tokens of each row, and return the states of these tokens."""
    mask = (torch.arange(rows.shape[1]) < TOKENS).long().expand_as(rows)
    inputs = {"input_ids": rows, "attention_mask": mask}
    given = {name: value for name, value in inputs.items() if takes_input(network, name)}
    found: Tensor = network(**given)[0]
    return found[:, :TOKENS]
