"""What a head leaves of an encoder's network, and which of its tokens see all others."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tasks.errors import ModelError

__all__ = ["attend_globally", "trim"]


def trim(network: Any, per_token: bool = False) -> Any:
    """Takes the pooler off a network, to be used or not, and returns it; None where it has none.

    Funnel shortens a text in its blocks, and has a decoder that makes states of all tokens again.
    It goes too where a head reads one state, as in Dai et al., arXiv:2006.03236. Raises
    ModelError where a head reads all and the checkpoint is one without a decoder.
    """
    if network.config.model_type == "funnel":
        _trim_funnel(network, per_token)
    pooler = getattr(network, "pooler", None)
    if pooler is not None:
        network.pooler = None
    return pooler


def _trim_funnel(network: Any, per_token: bool) -> None:
    has_decoder = hasattr(network, "decoder")
    if per_token and not has_decoder:
        raise ModelError(
            "this Funnel checkpoint has no decoder, so it has no state for every token: use the "
            "one of the same size without -base in its name."
        )
    if not per_token and has_decoder:
        network.decoder = _NoDecoder()


class _NoDecoder(nn.Module):
    """Stands in the place of Funnel's decoder and gives what it is given."""

    def forward(self, final_hidden: Tensor, **_: Any) -> tuple[Tensor]:
        return (final_hidden,)


def attend_globally(network: nn.Module, config: Any, head: str) -> None:
    """Lets some of Longformer's tokens see and be seen by all others, as its head types need.

    Beltagy et al., arXiv:2004.05150, section 3.1: the classification token for a pair, the question
    for a span; and as in transformers' class the second text for a choice. Does nothing for other
    families.
    """
    if config.model_type != "longformer":
        return

    def add_mask(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> tuple[Any, Any]:
        mask = GLOBAL_TOKENS[head](inputs["input_ids"], config.sep_token_id)
        return args, inputs | {"global_attention_mask": mask.long()}

    network.register_forward_pre_hook(add_mask, with_kwargs=True)


def _places(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)


def _first_token(ids: Tensor, separator: int) -> Tensor:  # noqa: ARG001  (as every choice)
    return _places(ids) == 0


def _first_text(ids: Tensor, separator: int) -> Tensor:
    return (ids == separator).cumsum(1) == 0


def _second_text(ids: Tensor, separator: int) -> Tensor:
    """What stands behind the two separators between the texts."""
    first = (ids == separator).int().argmax(1, keepdim=True)
    return _places(ids) > first + 1


GLOBAL_TOKENS: Mapping[str, Callable[[Tensor, int], Tensor]] = {
    "pair": _first_token,
    "span": _first_text,
    "choice": _second_text,
}
"""By head type, from ids (rows, tokens) and the separator's id."""
