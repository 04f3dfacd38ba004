"""Networks that see the padding behind a row, and those of which nobody knows how they read.

A convolution without a mask, a Fourier transform over all places or blocks of fixed sizes mix
padding into the states of real tokens, so a row's answer would depend on the rows that stand in
its batch. Such networks compute the rows of each length on their own, without padding.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchharness.encoder.network import takes_input
from benchharness.tasks.errors import ModelError, first_line

SEES_PADDING = frozenset({"convbert", "funnel"})
"""Known families with such layers; a family that nobody has checked is tried by `try_out`."""


def compute_by_length(network: Any) -> None:
    """Have a network compute the rows of each length on their own.

    Its forward takes padded rows as before, (rows, tokens) with an attention mask, and gives states
    of as many rows, with zeros where a shorter row has none.
    """
    forward, has_mask = network.forward, takes_input(network, "attention_mask")

    def by_length(*args: Any, **inputs: Any) -> Any:
        if args:  # some classes pass the token ids without their name
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
    """Return what a network gives for all rows, from what it gives for some; None where it is."""
    first = parts[0]
    if isinstance(first, Tensor):
        return _spread(parts, places, mask)
    if isinstance(first, Mapping):  # ModelOutput
        names = {name: _merged([part[name] for part in parts], places, mask) for name in first}
        return type(first)(**names)
    if isinstance(first, tuple | list):  # of all layers
        return tuple(_merged(each, places, mask) for each in zip(*parts, strict=True))
    return first


def _spread(parts: Sequence[Tensor], places: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Return tensors of some rows each as one of all rows, (rows, ...).

    A token's state returns to where the token stands. Of anything else, such as the states that
    Funnel has halved, the sizes are the largest ones, with zeros behind the smaller ones.
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


# A family that nobody has checked is tried on some tokens.


class Reading(NamedTuple):
    """How a network reads a row, as a trial has shown."""

    is_causal: bool
    sees_padding: bool


TOKENS, PADDING = 5, 8
"""The lengths of the trial's rows and of the padding behind them."""


def try_out(network: Any, config: Any, checkpoint: str) -> Reading:
    """Return whether a network's states see only what precedes them, and whether padding.

    Rows differ in one token: where it is the last one, the first state of a causal network does not
    differ, and where it is the first one, every network's last state does. Raises ModelError for a
    network that does not read rows of token ids so.
    """
    family = f"{checkpoint} is of the family {config.model_type}, which nobody has checked, and it"
    ids = torch.arange(5, 5 + TOKENS) % max(2, int(getattr(config, "vocab_size", None) or 100))
    rows = torch.stack([ids, torch.cat([ids[:-1], ids[:1]]), torch.cat([ids[-1:], ids[1:]])])
    padding = torch.full((len(rows), PADDING), int(getattr(config, "pad_token_id", None) or 0))
    was_training = network.training
    try:
        with torch.no_grad():
            states = _states(network.eval(), rows)  # (3, tokens, size)
            padded = _states(network, torch.cat([rows, padding], 1))
    except Exception as error:  # whatever a family that nobody has checked runs into
        raise ModelError(
            f"{family} cannot read a text by its tokens alone ({first_line(error)})."
        ) from error
    finally:
        network.train(was_training)
    if states.shape != (*rows.shape, config.hidden_size):
        raise ModelError(
            f"{family} gives {tuple(states.shape)} for {tuple(rows.shape)} tokens: expected a "
            f"state of hidden_size, {config.hidden_size}, for each."
        )
    if not states.isfinite().all():
        raise ModelError(f"{family} gives states that are not finite numbers.")
    near = NEAR * states.abs().mean()
    if (states[0, -1] - states[2, -1]).abs().max() <= near:
        raise ModelError(
            f"{family} gives a token the same state whatever stands before it, as it does where "
            "it lacks a kernel for this machine."
        )
    return Reading(
        is_causal=bool((states[0, 0] - states[1, 0]).abs().max() <= near),
        sees_padding=bool((states - padded).abs().max() > near),
    )


NEAR = 1e-5
"""The share of a state's mean size that rounding may change in fp32."""


def _states(network: Any, rows: Tensor) -> Tensor:
    """Return the states of the first tokens of rows; all behind them are padding."""
    mask = (torch.arange(rows.shape[1]) < TOKENS).long().expand_as(rows)
    inputs = {"input_ids": rows, "attention_mask": mask}
    given = {name: value for name, value in inputs.items() if takes_input(network, name)}
    found: Tensor = network(**given)[0]
    return found[:, :TOKENS]
