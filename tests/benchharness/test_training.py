from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchharness.heads.pair import loss
from benchharness.progress import Progress
from benchharness.training import meter
from benchharness.training.batching import Features, pad
from benchharness.training.meter import DivergedError
from benchharness.training.optimizer import learning_rate
from benchharness.training.predict import PREDICTION_TOKENS, predict
from tests.helpers.training import (
    CPU,
    RECIPE,
    backward,
    having,
    make_data,
    make_network,
    train,
    weights_of,
)


def test_a_classifier_learns_its_training_data():
    network = make_network()
    trained = train(network, having(RECIPE, epochs=20, batch_size=16, learning_rate=3e-3))
    features, targets = make_data()
    logits = predict(network, features, CPU, lambda _: None)
    assert (logits.argmax(-1) == targets).mean() == 1.0
    assert trained.curve[0].loss > 0.6
    assert trained.curve[-1].loss < 0.2


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_is_deterministic_with_a_seed(precision: str):
    compute = replace(CPU, precision=precision)
    first, again, other = (make_network(seed=0) for _ in range(3))
    curves = [
        train(n, seed=s, compute=compute).curve for n, s in ((first, 1), (again, 1), (other, 2))
    ]
    assert torch.equal(weights_of(first), weights_of(again))
    assert curves[0] == curves[1]
    assert not torch.equal(weights_of(first), weights_of(other))


def test_evaluations_during_training_do_not_change_the_weights():
    once, often = make_network(), make_network()
    features, _ = make_data()
    train(once)
    train(
        often,
        having(RECIPE, evaluations=4),
        evaluate=lambda: {"x": float(predict(often, features, CPU, lambda _: None).mean())},
    )
    assert torch.equal(weights_of(once), weights_of(often))


@pytest.mark.parametrize("accumulation", [4, 32])
def test_gradient_accumulation_equals_the_large_batch(accumulation: int):
    whole, parts = make_network(dropout=0.0), make_network(dropout=0.0)
    train(whole)
    train(parts, having(RECIPE, accumulation=accumulation))
    torch.testing.assert_close(weights_of(parts), weights_of(whole), atol=1e-6, rtol=0)


def gradients(network: nn.Module, parts: list[np.ndarray]) -> torch.Tensor:
    features, targets = make_data()
    network.zero_grad()
    backward(network, features, torch.from_numpy(targets), loss, parts)
    return torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None])


def test_gradients_of_micro_batches_equal_those_of_the_mean_over_examples():
    network = make_network(dropout=0.0)
    features, targets = make_data()
    rows = np.arange(20)
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, rows).items()}
    nn.functional.cross_entropy(network(**inputs), torch.from_numpy(targets[rows])).backward()
    plain = torch.cat([w.grad.flatten() for w in network.parameters() if w.grad is not None])
    uneven = [rows[:1], rows[1:4], rows[4:]]
    torch.testing.assert_close(gradients(network, uneven), plain, atol=1e-6, rtol=0)
    torch.testing.assert_close(gradients(network, [rows]), plain, atol=1e-6, rtol=0)


def test_one_training_step_equals_torch_adamw_with_gradient_clipping():
    """The reference is torch's AdamW with clipping on the whole batch."""
    recipe = having(RECIPE, epochs=0.5, warmup_ratio=0.0, weight_decay=0.5, batch_size=64)
    ours, plain = make_network(dropout=0.0), make_network(dropout=0.0)
    features, targets = make_data()
    assert train(ours, recipe).step == 1
    decayed = [w for name, w in plain.named_parameters() if not is_bias_or_norm(name)]
    kept = [w for name, w in plain.named_parameters() if is_bias_or_norm(name)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.5}, {"params": kept, "weight_decay": 0.0}],
        lr=1e-3,
        eps=1e-6,
    )
    inputs = {name: torch.from_numpy(a) for name, a in pad(features, np.arange(64)).items()}
    nn.functional.cross_entropy(plain(**inputs), torch.from_numpy(targets)).backward()
    nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    optimizer.step()
    torch.testing.assert_close(weights_of(ours), weights_of(plain), atol=2e-5, rtol=0)


def is_bias_or_norm(name: str) -> bool:
    return name.endswith("bias") or "LayerNorm" in name


def test_learning_rate_rises_during_warmup_and_then_falls():
    rates = [learning_rate(step, 10, having(RECIPE, warmup_ratio=0.2)) for step in range(10)]
    expected = [0.0, 0.5, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    assert rates == pytest.approx([1e-3 * factor for factor in expected])


def test_first_step_without_warmup_has_the_full_learning_rate():
    assert learning_rate(0, 10, having(RECIPE, warmup_ratio=0.0)) == 1e-3


@pytest.mark.parametrize("ratio", [0.06, 0.1, 1.0])
def test_training_of_a_single_step_has_the_full_learning_rate(ratio: float):
    assert learning_rate(0, 1, having(RECIPE, warmup_ratio=ratio)) == 1e-3


def test_learning_curve_has_the_requested_number_of_evaluations():
    turns: list[int] = []

    def evaluate() -> Mapping[str, float]:
        turns.append(len(turns))
        return {"turn": float(len(turns))}

    data = make_data(rows=60)
    trained = train(
        make_network(),
        having(RECIPE, batch_size=3, epochs=5, evaluations=4),
        data=data,
        evaluate=evaluate,
    )
    scored = [(point.step, point.scores["turn"]) for point in trained.curve if point.scores]
    assert scored == [(25, 1.0), (50, 2.0), (75, 3.0), (100, 4.0)]
    assert 40 <= len(trained.curve) <= 44
    assert [trained.curve[-1].step, trained.curve[-1].epoch] == [100, 5.0]
    assert trained.step == 100
    assert trained.examples == 300
    assert trained.tokens == 5 * data[0].lengths.sum()


def test_curve_point_loss_is_the_mean_since_the_previous_point(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(meter, "CURVE_POINTS", 2)
    seen: list[float] = []
    trained = train(
        make_network(),
        having(RECIPE, batch_size=16),
        report=lambda progress: seen.append(progress.loss or 0.0),
    )
    assert [point.step for point in trained.curve] == [4, 8]
    assert trained.curve[0].loss == pytest.approx(sum(seen[:4]) / 4)
    assert trained.curve[1].loss == pytest.approx(sum(seen[4:]) / 4)


def test_training_progress_is_reported_for_each_step():
    lines: list[Progress] = []
    train(make_network(), report=lines.append)
    assert [(line.phase, line.step, line.steps) for line in lines] == [
        ("training", step, 4) for step in (1, 2, 3, 4)
    ]
    assert lines[-1].epoch == 2.0
    assert lines[-1].examples_per_second > 0


def test_losses_are_read_from_the_device_only_every_few_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(meter.STEPS_BETWEEN_READS, "cpu", 3)
    monkeypatch.setattr(meter, "CURVE_POINTS", 1)
    lines: list[Progress] = []
    trained = train(make_network(), having(RECIPE, batch_size=16), report=lines.append)
    assert [line.step for line in lines] == [3, 6, 8]
    assert len(trained.curve) == 1


def test_training_with_a_huge_learning_rate_diverges_at_once():
    lines: list[Progress] = []
    with pytest.raises(DivergedError, match=r"diverged: at step \d of 40") as error:
        train(
            make_network(),
            having(RECIPE, learning_rate=1e30, epochs=20, warmup_ratio=0.0),
            report=lines.append,
        )
    assert (error.value.kind, error.value.exit_code) == ("diverged", 1)
    assert len(lines) < 4


def test_nan_predictions_are_a_divergence_error():
    network = make_network()
    with torch.no_grad():
        network.classifier.output.bias.fill_(torch.nan)
    with pytest.raises(DivergedError, match="predicts NaN"):
        predict(network, make_data()[0], CPU, lambda _: None)


def test_predictions_are_returned_in_the_order_of_the_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PREDICTION_TOKENS, "cpu", 100)
    network, (features, _) = make_network().train(), make_data()
    lines: list[Progress] = []
    logits = predict(network, features, CPU, lines.append)
    with torch.inference_mode():
        alone = [network(**one_row(features, row))[0].tolist() for row in range(len(features))]
    np.testing.assert_allclose(logits, alone, atol=1e-6)
    assert lines[-1].step == lines[-1].steps == len(lines) > 5


def one_row(features: Features, row: int) -> dict[str, Any]:
    return {name: torch.from_numpy(a) for name, a in pad(features, np.array([row])).items()}


def test_a_regression_head_learns_its_training_data():
    features, targets = make_data()
    network = make_network(outputs=1)
    train(
        network,
        having(RECIPE, epochs=20, batch_size=16, learning_rate=3e-3),
        data=(features, targets.astype(np.float32) * 2),
    )
    numbers = predict(network, features, CPU, lambda _: None)[:, 0]
    assert np.corrcoef(numbers, targets)[0, 1] > 0.95
