"""Tests that the work of a job on a few packaged rows does not grow, counted in operations.

The counts of each head's job are in tests/gold/work-*.txt and are compared exactly, so a lower
count fails too. If the change is intended, look at the output that the failing test left next to
the gold file, and accept it with `make gold` (or, for this module only,
`BENCH_UPDATE_GOLD=1 pytest tests/benchharness/test_counted_work.py`).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, head_for
from benchharness.leaderboard.job import Job
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.gold import check_gold
from tests.helpers.plans import plan_job

ATEN = torch.ops.aten
BY_WEIGHTS = {ATEN.mm: 0, ATEN.addmm: 1}
"""Products by weights, with the place of their first matrix among the arguments."""

BETWEEN_STATES = {ATEN.bmm: 0, ATEN.baddbmm: 1}
FUSED_ATTENTION = ATEN._scaled_dot_product_flash_attention_for_cpu
OPTIMIZER = ATEN._fused_adamw_


@contextmanager
def counted_work(feed_forward: int) -> Iterator[Counter[str]]:
    """Count operations by name until the block ends.

    `feed_forward` is the inner size of the encoder's feed-forward layers, which identifies them.
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
    """A mode that sees every operation of torch, forward and backward."""

    def __init__(self, work: Counter[str]) -> None:
        super().__init__()
        self._work = work

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._count(func.overloadpacket, args):
            with self:  # for a composite operation, count the operations that it consists of
                whole = func.decompose(*args, **kwargs)
            if whole is not NotImplemented:
                return whole
        return func(*args, **kwargs)

    def _count(self, op: Any, args: tuple[Any, ...]) -> bool:
        """Count an operation; return False if it is of no counted kind."""
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
    """Return the number of operations of a matrix product."""
    return 2 * a.numel() * b.shape[-1]


TASKS = ("glue/rte", "squad/v1.1", "swag/regular", "conll2003/ner")
"""One task per head type."""

ROWS = 48
SETTINGS = {"epochs": "1", "batch_size": "16", "evaluations": "1", "max_tokens": "128"}


def make_job(task: str) -> Job:
    return plan_job("tiny", task, overrides=SETTINGS, limit=ROWS, precision="fp32")


def real_work(job: Job) -> dict[str, int]:
    """Return the tokens and attention operations of the job's rows without padding.

    Attention has two matrix products in a forward pass and four more in a backward pass.
    A job may compute less: a last layer at the first token only.
    """
    encoder = load_encoder(job.checkpoint, None, job.seed)
    config, task = encoder.config, find_task(job.task)
    tokens = operations = 0
    for split, products in (("train", 6), ("dev", 2)):
        examples = read(task, split, parse_data("mini"), ROWS).examples
        features = head_for(task).encode(examples, encoder.tokenizer, Limits(max_tokens=128))
        tokens += int(features.lengths.sum())
        operations += products * 2 * config.hidden_size * int((features.lengths**2).sum())
    return {
        "real_tokens": tokens * config.num_hidden_layers,
        "real_attention_flops": operations * config.num_hidden_layers,
    }


@pytest.mark.gold
@pytest.mark.parametrize("task", TASKS)
def test_computed_work_of_each_head_equals_its_gold_file(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    job = make_job(task)
    config = load_encoder(job.checkpoint, None, job.seed).config
    with counted_work(config.intermediate_size) as work:
        run_job(job)
    counts = real_work(job) | dict(work)
    shares = {
        "tokens": counts["real_tokens"] / counts["linear_tokens"],
        "attention_flops": counts["real_attention_flops"] / counts["attention_flops"],
    }
    lines = [f"{name} {count}" for name, count in sorted(counts.items())]
    lines += [f"real {name} over computed ones {share:.3f}" for name, share in shares.items()]
    check_gold(f"work-{task.replace('/', '-')}.txt", "\n".join(lines))


def test_work_count_includes_forward_and_backward_matrix_products() -> None:
    states = torch.ones(5, 3, 4, requires_grad=True)
    layer = nn.Linear(4, 7)
    with counted_work(feed_forward=7) as work:
        (layer(states) @ torch.ones(5, 7, 2)).sum().backward()  # type: ignore[no-untyped-call]
    assert work["linear_tokens"] == 15
    assert work["linear_flops"] == 3 * 2 * 15 * 4 * 7
    assert work["attention_flops"] == 2 * 2 * 5 * 3 * 7 * 2, "no gradient of the constant"


def test_work_count_includes_attention_in_prediction() -> None:
    query, key = torch.ones(1, 2, 6, 8), torch.ones(1, 2, 9, 8)
    with counted_work(feed_forward=0) as work, torch.inference_mode():
        nn.functional.scaled_dot_product_attention(query, key, key)
    assert work["attention_flops"] == 2 * (2 * 2 * 6 * 9 * 8)


def test_work_count_includes_optimizer_updates() -> None:
    layer: Any = nn.Linear(4, 7)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    layer(torch.ones(2, 4)).sum().backward()
    with counted_work(feed_forward=0) as work:
        optimizer.step()
    assert work["optimizer_numbers"] == 4 * 7 + 7


def test_work_count_includes_tokenizer_calls() -> None:
    encoder = load_encoder("builtin:tiny", None, 1)
    with counted_work(feed_forward=0) as work:
        encoder.tokenizer(["a", "b"])
        encoder.tokenizer("a")
        encoder.network(torch.tensor([[1, 2]]))
    assert work["tokenizer_calls"] == 2
    assert work["tokenized_texts"] == 3
    assert work["encoder_calls"] == 1
