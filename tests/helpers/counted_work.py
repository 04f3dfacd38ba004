"""Counts what a computation costs while it runs, from outside and without a clock."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, PreTrainedTokenizerBase

ATEN = torch.ops.aten
BY_WEIGHTS = {ATEN.mm: 0, ATEN.addmm: 1}
"""Products by weights, with the place of their first matrix among the arguments."""

BETWEEN_STATES = {ATEN.bmm: 0, ATEN.baddbmm: 1}
FUSED_ATTENTION = ATEN._scaled_dot_product_flash_attention_for_cpu
OPTIMIZER = ATEN._fused_adamw_


@contextmanager
def counted_work(feed_forward: int) -> Iterator[Counter[str]]:
    """Counts by name until it ends.

    `feed_forward` is the inner size of the encoder's feed-forward layers, by which they are found.
    """
    work: Counter[str] = Counter()
    call = PreTrainedTokenizerBase.__call__

    def tokenize(self: Any, text: Any = None, *args: Any, **options: Any) -> Any:
        work["tokenizer_calls"] += 1
        work["tokenized_texts"] += 1 if isinstance(text, str) else len(text)
        return call(self, text, *args, **options)

    def see(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        work["encoder_calls"] += isinstance(module, PreTrainedModel)
        if isinstance(module, nn.Linear) and module.out_features == feed_forward:
            work["linear_tokens"] += inputs[0].shape[:-1].numel()

    hook = nn.modules.module.register_module_forward_pre_hook(see)
    with pytest.MonkeyPatch.context() as patch, _Operations(work):
        patch.setattr(PreTrainedTokenizerBase, "__call__", tokenize)
        try:
            yield work
        finally:
            hook.remove()


class _Operations(TorchDispatchMode):
    """Sees every operation that torch computes, forward and backward."""

    def __init__(self, work: Counter[str]) -> None:
        super().__init__()
        self._work = work

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._count(func.overloadpacket, args):
            with self:  # what is made of other operations is counted as those
                whole = func.decompose(*args, **kwargs)
            if whole is not NotImplemented:
                return whole
        return func(*args, **kwargs)

    def _count(self, op: Any, args: tuple[Any, ...]) -> bool:
        """Counts an operation; False for one that is of no kind that is counted."""
        if op in BY_WEIGHTS:
            self._work["linear_flops"] += _product(*args[BY_WEIGHTS[op] :][:2])
        elif op in BETWEEN_STATES:
            self._work["attention_flops"] += _product(*args[BETWEEN_STATES[op] :][:2])
        elif op is FUSED_ATTENTION:
            query, key = args[0], args[1]
            self._work["attention_flops"] += 2 * _product(query, key.mT)
        elif op is OPTIMIZER:
            self._work["optimizer_calls"] += 1
            self._work["optimizer_numbers"] += sum(weight.numel() for weight in args[0])
        else:
            return False
        return True


def _product(a: torch.Tensor, b: torch.Tensor) -> int:
    """Operations of a matrix product."""
    return 2 * a.numel() * b.shape[-1]
