"""Tests of distillation losses between student and teacher logits against formulas."""

import numpy as np
import pytest
import torch
from torch import Tensor

from benchharness.heads import binary_divergence, divergence, head_for
from benchharness.heads.tag import IGNORED
from benchharness.recipes.recipe import SpanOptions
from benchharness.tasks.suites import find_task


def drawn(*shape: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return a student's logits, which need a gradient, and its teacher's."""
    generator = torch.Generator().manual_seed(seed)
    mine, theirs = torch.randn(2, *shape, generator=generator).unbind(0)
    return mine.requires_grad_(), theirs


def kl(mine: Tensor, theirs: Tensor, temperature: float) -> float:
    """Return the divergence of one row, over its finite classes, in fp64."""
    rows = [row.detach().double().numpy() / temperature for row in (mine, theirs)]
    p, q = (np.exp(row) / np.exp(row).sum() for row in reversed(rows))
    there = p > 0
    return float(temperature**2 * (p[there] * np.log(p[there] / q[there])).sum())


def soft(task: str, *tensors: Tensor, temperature: float = 2.0, **values: float) -> Tensor:
    options = SpanOptions(**values) if values else None  # type: ignore[arg-type]
    head = head_for(find_task(task), options)
    assert head.soft_loss is not None
    losses = head.soft_loss(*tensors, temperature)
    assert losses.shape == (len(tensors[0]),)
    return losses


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_classification_distillation_loss_is_the_kl_divergence_at_temperature(
    temperature: float,
) -> None:
    mine, theirs = drawn(4, 3)
    losses = soft("glue/mnli", mine, theirs, torch.zeros(4).long(), temperature=temperature)
    expected = [kl(a, b, temperature) for a, b in zip(mine, theirs, strict=True)]
    assert losses.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_distillation_gradient_equals_that_of_soft_targets() -> None:
    mine, theirs = drawn(4, 3)
    divergence(mine, theirs, 2.0).sum().backward()
    shares = [(logits / 2.0).softmax(-1) for logits in (mine, theirs)]
    assert mine.grad is not None
    assert torch.allclose(mine.grad, 2.0 * (shares[0] - shares[1]).detach(), atol=1e-6)


def test_regression_distillation_loss_is_the_squared_difference() -> None:
    mine, theirs = drawn(4, 1)
    losses = soft("glue/stsb", mine, theirs, torch.zeros(4))
    assert losses.tolist() == pytest.approx(((mine - theirs) ** 2)[:, 0].tolist())


def test_multi_label_distillation_loss_is_a_binary_divergence_per_label() -> None:
    mine, theirs = drawn(4, 3)
    pairs = [torch.stack([x, torch.zeros_like(x)], -1) for x in (mine, theirs)]
    expected = [
        [kl(a, b, 2.0) for a, b in zip(row, other, strict=True)]
        for row, other in zip(*pairs, strict=True)
    ]
    found = binary_divergence(mine, theirs, 2.0)
    assert np.allclose(found.detach().numpy(), expected, rtol=1e-4, atol=1e-6)


def test_missing_answer_options_do_not_contribute_to_the_distillation_loss() -> None:
    mine, theirs = drawn(2, 4)
    gone = torch.tensor([[False] * 4, [False, False, True, True]])
    padded = [logits.masked_fill(gone, -torch.inf) for logits in (mine, theirs)]
    losses = soft("race/all", *padded, torch.zeros(2).long())
    assert losses[1].item() == pytest.approx(kl(mine[1, :2], theirs[1, :2], 2.0), rel=1e-5)
    losses.sum().backward()
    assert mine.grad is not None
    assert mine.grad.isfinite().all()
    assert not mine.grad[gone].any()


def test_span_distillation_loss_is_the_mean_over_start_and_end() -> None:
    mine, theirs = drawn(2, 5, 2)
    gone = torch.zeros(2, 5, 1, dtype=torch.bool)
    gone[1, 3:] = True
    padded = [logits.masked_fill(gone, -torch.inf) for logits in (mine, theirs)]
    losses = soft("squad/v1.1", *padded, torch.zeros(2, 2).long())
    ends = [kl(mine[1, :3, end], theirs[1, :3, end], 2.0) for end in (0, 1)]
    assert losses[1].item() == pytest.approx(np.mean(ends), rel=1e-5)
    losses.sum().backward()
    assert mine.grad is not None
    assert mine.grad.isfinite().all()


def test_span_distillation_loss_includes_the_answerable_classifier() -> None:
    mine, theirs = drawn(2, 5, 3)
    targets = torch.zeros(2, 3).long()
    losses = soft("squad/v2.0", mine, theirs, targets, answerable_weight=0.5, beam_size=2)
    ends = [kl(mine[0, :, end], theirs[0, :, end], 2.0) for end in (1, 2)]
    yes = [torch.stack([logits[0, 0, 0], torch.zeros(())]) for logits in (mine, theirs)]
    assert losses[0].item() == pytest.approx(np.mean(ends) + 0.5 * kl(*yes, 2.0), rel=1e-4)


def test_tagging_distillation_loss_is_the_sum_over_words() -> None:
    mine, theirs = drawn(2, 4, 9)
    targets = torch.tensor([[1, IGNORED, 2, IGNORED], [0, 0, 0, 0]])
    losses = soft("conll2003/ner", mine, theirs, targets)
    expected = sum(kl(mine[0, place], theirs[0, place], 2.0) for place in (0, 2))
    assert losses[0].item() == pytest.approx(expected, rel=1e-5)


def test_span_distillation_loss_includes_evidence_sentences() -> None:
    task = find_task("hotpotqa/distractor")
    mine, theirs = drawn(1, 6, 3)
    # Columns: start and end of the answer, position of the classification token, positions of two
    # sentences, and whether each sentence supports the answer.
    targets = torch.tensor([[1, 2, 0, 2, -1, 1, 0]])
    losses = soft(task.name, mine, theirs, targets)
    ends = [kl(mine[0, :, end], theirs[0, :, end], 2.0) for end in (0, 1)]
    fact = [torch.stack([logits[0, 2, 2], torch.zeros(())]) for logits in (mine, theirs)]
    assert losses[0].item() == pytest.approx(np.mean(ends) + kl(*fact, 2.0), rel=1e-4)


def test_distillation_loss_of_dialog_acts_uses_the_classification_token() -> None:
    groups = [len(names) for names in find_task("quac/quac").classes]  # type: ignore[attr-defined]
    mine, theirs = drawn(1, 4, 2 + sum(groups))
    targets = torch.tensor([[1, 2, 3, *[0] * len(groups)]])
    losses = soft("quac/quac", mine, theirs, targets)
    expected = np.mean([kl(mine[0, :, end], theirs[0, :, end], 2.0) for end in (0, 1)])
    starts = np.cumsum([2, *groups])
    for start, size in zip(starts, groups, strict=False):
        part = slice(start, start + size)
        expected += kl(mine[0, 3, part], theirs[0, 3, part], 2.0)
    assert losses[0].item() == pytest.approx(expected, rel=1e-4)


def test_distillation_loss_of_equal_logits_is_zero() -> None:
    logits, _ = drawn(4, 3)
    assert divergence(logits, logits.detach(), 2.0).abs().max() < 1e-6
    assert binary_divergence(logits, logits.detach(), 2.0).abs().max() < 1e-6
