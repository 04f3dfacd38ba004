"""Tests of the auxiliary language model loss, with which GPT is fine-tuned."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from benchharness import heads as head_module
from benchharness.encoder import Encoder, load_encoder
from benchharness.errors import ModelError
from benchharness.heads import Head, Limits, choice, head_for, language_model_losses
from benchharness.heads import pair as pair_head
from benchharness.heads.pair import PAIR
from benchharness.leaderboard.job import Job
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from benchharness.recipes.recipe import PairOptions
from benchharness.tasks.examples import ChoiceExample, PairExample
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task
from benchharness.training.batching import pad
from benchharness.training.compute import Part
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.plans import plan_job

MRPC, STSB, RACE = map(find_task, ("glue/mrpc", "glue/stsb", "race/all"))
IS_ROW = torch.tensor([[True, True, True], [True, True, False]])
PAIRS = [
    PairExample(id="0", text_a="the bird sings", text_b="a bird", label="1"),
    PairExample(id="1", text_a="the " * 9, text_b="no bird sings", label="0"),
]
LIMITS = Limits(max_tokens=40)


@pytest.fixture(params=["gpt2", "openai-gpt"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return save_family(tmp_path / "encoder", request.param, resid_pdrop=0.0, embd_pdrop=0.0)


@pytest.fixture
def encoder(folder: Path) -> Encoder:
    found = load_encoder(str(folder), None, seed=1)
    found.network.eval()  # without dropout, two forward passes give the same result
    return found


def inputs_of(encoder: Encoder, head: Head = PAIR) -> dict[str, Tensor]:
    padded = pad(head.encode(PAIRS, encoder.tokenizer, LIMITS), np.array([0, 1]))
    return {name: torch.from_numpy(values) for name, values in padded.items()}


@pytest.mark.parametrize("places", [3, 1024])
def test_auxiliary_language_model_loss_equals_that_of_transformers(
    encoder: Encoder, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compute the logits for all positions at once or for a few at a time."""
    monkeypatch.setattr(head_module, "LM_TOKENS", places)
    kind = transformers.AutoModelForCausalLM.from_config(encoder.config).eval()
    kind.resize_token_embeddings(len(encoder.network.get_input_embeddings().weight))
    kind.transformer.load_state_dict(encoder.network.state_dict())
    kind.tie_weights()
    inputs = inputs_of(encoder)
    with torch.no_grad():
        losses = language_model_losses(encoder.network, encoder.network(**inputs)[0], inputs)
        goals = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
        expected = [kind(**row_of(inputs, n), labels=goals[n : n + 1]).loss for n in range(2)]
    torch.testing.assert_close(losses, torch.stack(expected), atol=1e-5, rtol=1e-5)


def row_of(inputs: dict[str, Tensor], row: int) -> dict[str, Tensor]:
    return {name: values[row : row + 1] for name, values in inputs.items()}


@pytest.mark.parametrize("orders", ["given", "added"])
@pytest.mark.parametrize(("task", "goals"), [(MRPC, [1, 0]), (STSB, [2.5, 0.5])])
def test_total_loss_is_the_weighted_sum_of_task_and_language_model_loss(
    encoder: Encoder, orders: str, task: object, goals: list[float]
) -> None:
    head, plain = (
        head_for(task, PairOptions(orders=orders, lm_weight=0.5)),
        head_for(task, PairOptions(orders=orders)),
    )  # type: ignore[arg-type]
    network, targets = head.network(encoder, task), torch.tensor(goals)
    network.classifier.eval()
    inputs = inputs_of(encoder, head)
    network.training = False
    logits = network(**inputs)
    # In prediction, no loss column is appended to the logits.
    assert logits.shape == (2, 1 if task is STSB else 2)
    network.training = True
    both = head.loss(network(**inputs), targets)
    read = pair_head._halves(inputs) if orders == "added" else inputs
    beside = language_model_losses(network.encoder, network.encoder(**read)[0], read)
    expected = plain.loss(logits, targets) + 0.5 * beside.reshape(-1, 2).mean(0)
    torch.testing.assert_close(both, expected)
    both.sum().backward()
    # The output layer is the embedding, so tokens that no text contains get a gradient too.
    unused = sorted({*range(encoder.config.vocab_size)} - set(inputs["input_ids"].ravel().tolist()))
    gradient = network.encoder.get_input_embeddings().weight.grad
    assert gradient is not None
    assert gradient[unused].abs().min() > 0


def test_a_bidirectional_model_with_a_language_model_loss_is_an_error() -> None:
    tiny = load_encoder("builtin:tiny", None, seed=1)
    with pytest.raises(
        ModelError, match="gpt2 and openai-gpt, but this model belongs to the family bert"
    ):
        head_for(MRPC, PairOptions(lm_weight=0.5)).network(tiny, MRPC)


def settings(name: str, task: str, head: str = "pair", **overrides: str) -> dict[str, object]:
    resolved = resolve_recipe(MODELS[name], task, None, overrides)
    return {name: setting.value for name, setting in resolved.settings.items()}


CHOICES = [
    ChoiceExample(id="0", context="the bird", question="", options=("sings", "no", "a"), gold=(1,)),
    ChoiceExample(id="1", context="the " * 9, question="it", options=("bird", "sings"), gold=(0,)),
]


def test_auxiliary_language_model_loss_is_the_mean_over_all_options(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Include wrong options, as the released code does, also if rows are computed in parts."""
    head, plain = head_for(RACE, PairOptions(lm_weight=0.5)), head_for(RACE)
    network = head.network(encoder, RACE)
    network.classifier.eval()
    features = head.encode(CHOICES, encoder.tokenizer, LIMITS)
    rows = {n: torch.from_numpy(v) for n, v in pad(features, np.arange(5)).items()}
    network.training = False
    with torch.no_grad():
        logits = network(**rows)
    assert logits.shape == (5,)  # in prediction, no loss column is appended to the logits
    table = torch.full((2, 3), -torch.inf).masked_scatter(IS_ROW, logits)
    losses = language_model_losses(encoder.network, encoder.network(**rows)[0], rows)
    means = torch.stack([losses[:3].mean(), losses[3:].mean()])
    expected = plain.loss(table, torch.tensor([1, 0])) + 0.5 * means
    network.training = True
    part = Part.of(features, np.arange(2), torch.device("cpu"), terms=2, layout="padded")
    for tokens in (10_000, 48):  # all rows in one part, then parts of two rows
        monkeypatch.setattr(choice, "MICRO_BATCH_TOKENS", tokens)
        both = part.side_by_side(network(**rows))
        assert both.shape == (2, 3, 2)
        torch.testing.assert_close(head.loss(both, torch.tensor([1, 0])), expected)
    head.loss(both, torch.tensor([1, 0])).sum().backward()
    assert all(w.grad is None or w.grad.isfinite().all() for w in network.parameters())


def test_gpt_recipes_use_the_language_model_loss() -> None:
    assert settings("openai-gpt", "glue/rte")["lm_weight"] == 0.5
    assert settings("gpt2", "glue/sst2")["lm_weight"] == 0.5
    assert settings("openai-gpt", "race/all", "choice")["lm_weight"] == 0.5
    assert "lm_weight" not in settings("openai-gpt", "squad/v1.1", "span")
    assert "lm_weight" not in settings("openai-gpt", "glue/rte", features="last")
    assert "lm_weight" not in settings("openai-gpt", "glue/rte", lm_weight="0")
    assert "lm_weight" not in settings("bert-base-uncased", "glue/rte")


def make_job(folder: Path, task: Task, **overrides: str) -> Job:
    return plan_job(
        f"own={folder}",
        [task],
        overrides={"epochs": "1", "evaluations": "1", "batch_size": "4", **overrides},
        limit=12,
        precision="fp32",
    )


@pytest.mark.parametrize("task", [MRPC, find_task("superglue/copa")])
def test_a_job_trains_with_the_language_model_loss(folder: Path, task: Task) -> None:
    plain, both = (run_job(make_job(folder, task, lm_weight=weight)) for weight in ("0", "0.5"))
    again = run_job(make_job(folder, task, lm_weight="0.5"))
    assert both.evaluations[0].predictions == again.evaluations[0].predictions
    assert both.evaluations[0].predictions != plain.evaluations[0].predictions
    # The language model loss of random weights is much larger than the loss of two options.
    first, other = (result.curve[-1].loss for result in (plain, both))
    assert other > first + 1
