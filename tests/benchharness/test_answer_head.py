"""Tests of ELECTRA's span head against its formulas, computed one window at a time."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchharness.encoder import load_encoder
from benchharness.heads import Limits, head_for
from benchharness.heads.answer import AnswerNetwork
from benchharness.heads.span import SPAN, SpanFeatures
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from benchharness.recipes.recipe import SpanOptions
from benchharness.tasks.suites import find_task
from benchharness.training.batching import pad
from benchharness.training.compute import Compute
from benchharness.training.predict import predict
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job
from tests.helpers.span_features import CONTEXT, question

TASK: Any = find_task("squad/v2.0")
EXAMPLES = [
    question(CONTEXT, "Warsaw", text="Where?"),
    question("A storm.", text="Who?"),
    question("", text="What is it?"),
]
LIMITS = Limits(max_tokens=48, stride=16)

VALUES = [(0.5, 3), (0.5, 0), (0.0, 3), (2.0, 20)]


class Windows:
    """Windows of the examples, a network with random weights, and reference values for both."""

    def __init__(self, weight: float, beam: int) -> None:
        self.weight, self.beam = weight, beam
        self.head = head_for(TASK, SpanOptions(answerable_weight=weight, beam_size=beam))
        encoder = load_encoder("builtin:tiny", None, seed=1)
        torch.manual_seed(5)
        network = self.head.network(encoder, TASK)
        assert isinstance(network, AnswerNetwork)
        # Large random weights, so that no two answers have nearly equal scores.
        with torch.no_grad():
            for layer in (network.last, network.no_answer):
                for values in layer.parameters() if layer else ():
                    values.mul_(8)
            network.classifier.output.weight.mul_(50)
        self.network = network.eval()  # evaluation mode disables dropout
        features = self.head.encode(EXAMPLES, encoder.tokenizer, LIMITS)
        assert isinstance(features, SpanFeatures)
        self.features = features
        self.targets = self.head.targets(features, EXAMPLES, TASK)
        with torch.no_grad():
            self.states = [self._states(row) for row in range(len(features))]

    def _states(self, row: int) -> Tensor:
        inputs = {n: torch.from_numpy(v) for n, v in pad(self.features, np.array([row])).items()}
        del inputs["marks"]
        return self.network.encoder(**inputs)[0][0, : self.features.lengths[row]]

    def is_open(self, row: int) -> Tensor:
        """Return the reference answer_mask: the context and the classification token."""
        part = slice(*self.features.starts[row : row + 2])
        inside = np.flatnonzero(self.features.is_answer[part])
        mask = np.zeros(self.features.lengths[row], dtype=bool)
        if len(inside):
            mask[inside[0] : inside[-1] + 1] = True
        mask[self.features.nulls[row]] = True
        return torch.from_numpy(mask)

    def starts(self, row: int) -> Tensor:
        """Return the reference start_logits."""
        output = self.network.classifier.output
        logits = functional.linear(self.states[row], output.weight[:1], output.bias[:1])[:, 0]
        return logits.masked_fill(~self.is_open(row), -torch.inf)

    def ends(self, row: int, start: int) -> Tensor:
        """Return the reference end_logits, given the state of a start token or of none."""
        states = self.states[row]
        if self.network.last is None:
            output = self.network.classifier.output
            logits = functional.linear(states, output.weight[1:], output.bias[1:])[:, 0]
        else:
            logits = beside(self.network.last, states[start].expand_as(states), states)
        return logits.masked_fill(~self.is_open(row), -torch.inf)

    def no_answer(self, row: int) -> Tensor:
        """Return the reference answerable_logit."""
        states = self.states[row]
        expected = (self.starts(row).softmax(-1)[:, None] * states).sum(0)
        return beside(self.network.no_answer, states[self.features.nulls[row]], expected)

    def loss(self, row: int) -> Tensor:
        first, last, is_impossible = self.targets[row].tolist()
        start_loss = -self.starts(row).log_softmax(-1)[first]
        end_loss = -self.ends(row, first).log_softmax(-1)[last]
        losses = (start_loss + end_loss) / 2
        if self.weight:
            logit, label = self.no_answer(row), torch.tensor(float(is_impossible))
            losses += self.weight * functional.binary_cross_entropy_with_logits(logit, label)
        return losses

    def answers(self, example: int) -> dict[tuple[int, int], float]:
        """Return the scores of all candidate answers, by their characters."""
        found: dict[tuple[int, int], float] = {}
        features = self.features
        for row in range(*features.windows[example : example + 2]):
            begin, starts = features.starts[row], self.starts(row)
            firsts = starts.log_softmax(-1) if self.beam else starts
            beam = min(self.beam or len(starts), len(starts))
            for first in firsts.topk(beam).indices.tolist():
                ends = self.ends(row, first)
                lasts = ends.log_softmax(-1) if self.beam else ends
                for last in lasts.topk(beam).indices.tolist():
                    is_answer = features.is_answer[[begin + first, begin + last]].all()
                    if features.is_best[begin + first] and is_answer and first <= last < first + 30:
                        place = (
                            int(features.char_starts[begin + first]),
                            int(features.char_ends[begin + last]),
                        )
                        found[place] = float(firsts[first] + lasts[last])
        return found

    def null(self, example: int) -> float:
        rows = range(*self.features.windows[example : example + 2])
        if self.weight:
            return min(float(self.no_answer(row)) for row in rows)
        return min(
            float(self.starts(row).log_softmax(-1)[self.features.nulls[row]]) for row in rows
        )


def beside(layer: Any, one: Tensor, other: Tensor) -> Tensor:
    """Apply a dense layer to two concatenated states, and project the result to a logit."""
    weight = torch.cat([layer.one.weight, layer.other.weight], dim=1)
    inner = functional.linear(torch.cat([one, other], dim=-1), weight, layer.other.bias)
    return functional.linear(functional.gelu(inner), layer.output.weight, layer.output.bias)[..., 0]


@pytest.fixture(params=VALUES, ids=str, scope="module")
def windows(request: pytest.FixtureRequest) -> Windows:
    with torch.no_grad():
        return Windows(*request.param)


def test_electra_span_head_losses_match_the_reference_formulas(windows: Windows) -> None:
    assert len(windows.features) > 4  # the first context is cut into several windows
    assert windows.targets[:, 2].tolist() == [0] * (len(windows.features) - 2) + [1, 1]
    inputs = pad(windows.features, np.arange(len(windows.features)))
    targets = torch.from_numpy(windows.targets)
    logits = windows.network(
        targets=targets, **{name: torch.from_numpy(values) for name, values in inputs.items()}
    )
    losses = windows.head.loss(logits, targets)
    expected = torch.stack([windows.loss(row) for row in range(len(windows.features))])
    torch.testing.assert_close(losses, expected, atol=1e-4, rtol=1e-4)
    losses.sum().backward()
    learned = {name for name, w in windows.network.named_parameters() if w.grad is not None}
    assert any(name.startswith("last.") for name in learned) == (windows.beam > 0)
    assert any(name.startswith("no_answer.") for name in learned) == (windows.weight > 0)
    windows.network.zero_grad()


def test_electra_span_head_predictions_match_the_reference_formulas(windows: Windows) -> None:
    compute = Compute(device=torch.device("cpu"), precision="fp32")
    logits = predict(windows.network, windows.features, compute, lambda _: None)
    found = windows.head.decode(logits, windows.features, EXAMPLES, TASK)
    for number, (example, prediction) in enumerate(zip(EXAMPLES, found, strict=True)):
        with torch.no_grad():
            scores, null = windows.answers(number), windows.null(number)
        best = max(scores.values(), default=0.0)
        places = [place for place, score in scores.items() if score > best - 1e-3]
        assert prediction.text in [example.context[slice(*place)] for place in places] or (
            not scores and prediction.text == ""
        )
        margin = null if windows.weight else null - best
        assert prediction.no_answer_score == pytest.approx(margin, abs=1e-3)
    assert found[0].text
    assert found[2].text == ""


def test_plain_span_head_is_used_if_answerable_weight_and_beam_size_are_0() -> None:
    options = SpanOptions(answerable_weight=0, beam_size=0)
    assert head_for(TASK) is head_for(TASK, options) is SPAN


@pytest.mark.parametrize("model", ["electra-small-discriminator", "conv-bert-base"])
def test_electra_and_convbert_recipes_set_answerable_weight_and_beam_size(model: str) -> None:
    def settings(task: str, head: str, **overrides: str) -> dict[str, object]:
        found = resolve_recipe(MODELS[model], task, None, overrides).settings
        return {
            name: found[name].value for name in ("answerable_weight", "beam_size") if name in found
        }

    for task in ("squad/v2.0", "squad/v1.1"):
        assert settings(task, "span") == {"answerable_weight": 0.5, "beam_size": 20}
    assert settings("squad/v2.0", "span", beam_size="0") == {"answerable_weight": 0.5}
    assert settings("glue/rte", "pair") == {}


@pytest.mark.parametrize("features", ["fine-tuned", "last"])
def test_a_job_trains_with_the_electra_head(
    features: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    values = {"answerable_weight": "0.5", "beam_size": "4", "features": features, "epochs": "1"}
    plain, both = (
        run_job(make_job("squad/v2.0", limit=8, batch_size="4", **more))
        for more in ({"features": features, "epochs": "1"}, values)
    )
    margins = [
        [p["no_answer_score"] for p in result.evaluations[0].predictions]
        for result in (plain, both)
    ]
    assert all(one != other for one, other in zip(*margins, strict=True))


def test_electra_span_head_answers_have_at_most_30_tokens_within_one_window() -> None:
    """Use a network whose highest logits are for ends that are too far away."""
    head = head_for(TASK, SpanOptions(beam_size=2))
    encoder = load_encoder("builtin:tiny", None, seed=1)
    features: Any = head.encode(EXAMPLES[:1], encoder.tokenizer, Limits(max_tokens=80))
    logits = np.full((len(features.token_ids), 32), -1e9, dtype=np.float32)
    logits[:, 0], logits[:, 1] = 0.0, -3.0
    inside = np.flatnonzero(features.is_answer & features.is_best)
    for first, size in product(inside[-3:], range(30)):
        # Longer answers score higher, even beyond the end of the window.
        logits[first, 2 + size] = float(size)
    (found,) = head.decode(logits, features, EXAMPLES[:1], TASK)
    assert found.text == CONTEXT[features.char_starts[inside[-3]] : features.char_ends[inside[-1]]]
