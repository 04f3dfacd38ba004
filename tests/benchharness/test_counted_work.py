"""Counted work must not grow: what a job on a few mini rows computes, without any clock.

The counts of each head's job stand in tests/gold/work-*.txt and are compared exactly, so one that
has fallen fails too, and is renewed on purpose: look at what the failing test left beside the gold,
make sure that the change was meant, and accept it with `make gold` (or, alone,
`BENCH_UPDATE_GOLD=1 pytest tests/benchharness/test_counted_work.py`).
"""

from typing import Any

import pytest
import torch
from torch import nn

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, head_for
from benchharness.leaderboard.job import Job
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.counted_work import counted_work
from tests.helpers.gold import check_gold
from tests.helpers.plans import plan_job

TASKS = ("glue/rte", "squad/v1.1", "swag/regular", "conll2003/ner")
"""One of each head."""

ROWS = 48
SETTINGS = {"epochs": "1", "batch_size": "16", "evaluations": "1", "max_tokens": "128"}


def make_job(task: str) -> Job:
    return plan_job("tiny", task, overrides=SETTINGS, limit=ROWS, precision="fp32")


def real_work(job: Job) -> dict[str, int]:
    """What the job's rows have without padding: tokens, and operations between their states.

    Attention multiplies states twice in a forward pass, and four times more in a backward one.
    What is computed can be less: a last layer at the first token alone.
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
def test_work_has_not_grown(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_products_are_counted_forward_and_backward() -> None:
    states = torch.ones(5, 3, 4, requires_grad=True)
    layer = nn.Linear(4, 7)
    with counted_work(feed_forward=7) as work:
        (layer(states) @ torch.ones(5, 7, 2)).sum().backward()  # type: ignore[no-untyped-call]
    assert work["linear_tokens"] == 15
    assert work["linear_flops"] == 3 * 2 * 15 * 4 * 7
    assert work["attention_flops"] == 2 * 2 * 5 * 3 * 7 * 2, "no gradient of the constant"


def test_attention_of_prediction_is_counted() -> None:
    query, key = torch.ones(1, 2, 6, 8), torch.ones(1, 2, 9, 8)
    with counted_work(feed_forward=0) as work, torch.inference_mode():
        nn.functional.scaled_dot_product_attention(query, key, key)
    assert work["attention_flops"] == 2 * (2 * 2 * 6 * 9 * 8)


def test_the_optimizer_is_counted() -> None:
    layer: Any = nn.Linear(4, 7)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    layer(torch.ones(2, 4)).sum().backward()
    with counted_work(feed_forward=0) as work:
        optimizer.step()
    assert work["optimizer_numbers"] == 4 * 7 + 7


def test_the_tokenizer_is_counted() -> None:
    encoder = load_encoder("builtin:tiny", None, 1)
    with counted_work(feed_forward=0) as work:
        encoder.tokenizer(["a", "b"])
        encoder.tokenizer("a")
        encoder.network(torch.tensor([[1, 2]]))
    assert work["tokenizer_calls"] == 2
    assert work["tokenized_texts"] == 3
    assert work["encoder_calls"] == 1
