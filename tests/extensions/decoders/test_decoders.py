"""Tests of full attention and templates, and of the notes about decoders in a plan."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchharness.encoder import Encoder, load_encoder
from benchharness.encoder.packing import use_packed_rows
from benchharness.encoder.padding import try_out
from benchharness.errors import BenchError, DataError, ModelError
from benchharness.extensions.decoders import plan
from benchharness.extensions.decoders.attention import FullAttention, let_see_all
from benchharness.extensions.decoders.hyperparameters import read_template
from benchharness.extensions.decoders.template import filled
from benchharness.heads import Limits, head_for
from benchharness.models import find_model
from benchharness.models.folder import check_loadable
from benchharness.recipes import resolve_sweep
from benchharness.recipes.classes import published_class
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.examples import Mark, PairExample
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from benchharness.worker.job import run_job
from benchharness.worker.task_setup import load_run
from benchharness.worker.technique import Work
from tests.helpers.every_family import save_tiny
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.training import CPU

RTE = find_task("glue/rte")
PAIR = PairExample(id="1", text_a="the storm came", text_b="it was late", label=None)

SEEN = ("qwen3", "llama", "gemma2", "gemma3_text", "olmo2", "smollm3", "modernbert-decoder", "gpt2")
"""Families whose causal mask can be removed."""


def unmasked(folder: Path, family: str) -> Encoder:
    encoder = load_encoder(str(save_tiny(folder, family)), None, seed=1)
    FullAttention(work=SimpleNamespace(trains=True)).on_encoder(encoder)
    return encoder


# Full attention.


@pytest.mark.parametrize("family", SEEN)
def test_with_full_attention_the_first_state_depends_on_the_last_token(family: str, tmp_path: Path):
    encoder = unmasked(tmp_path, family)
    assert not try_out(encoder.network, encoder.config, family).is_causal


@pytest.mark.parametrize("family", ["qwen3", "gemma3_text", "modernbert-decoder"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_with_full_attention_padding_does_not_change_the_states_of_tokens(
    family: str, side: str, tmp_path: Path
):
    network = unmasked(tmp_path, family).network.eval()
    row = torch.arange(5, 12)
    rows = torch.nn.utils.rnn.pad_sequence(
        [row, torch.arange(5, 17)], batch_first=True, padding_side=side
    )
    mask = (rows > 0).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.inference_mode():
        alone = network(input_ids=row[None], attention_mask=torch.ones(1, len(row)))[0][0]
        padded = network(input_ids=rows, attention_mask=mask, position_ids=positions)[0]
    scale = alone.abs().mean()
    assert (padded[0][mask[0].bool()] - alone).abs().max() < 1e-4 * scale


def test_full_attention_of_a_decoder_equals_an_explicit_mask_of_ones(tmp_path: Path):
    """Compare Llama with a mask that lets all tokens attend to all tokens."""
    folder = str(save_tiny(tmp_path, "llama"))
    full, usual = (load_encoder(folder, None, seed=1).network.eval() for _ in range(2))
    let_see_all(full)
    ids = torch.arange(5, 12)[None]
    size = ids.shape[1]
    with torch.inference_mode():
        found = full(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
        expected = usual(input_ids=ids, attention_mask=torch.zeros(1, 1, size, size))[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_full_attention_of_packed_rows_equals_that_of_padded_rows(tmp_path: Path):
    """GPT-2 computes packed rows in its layers."""
    padded, packed = (unmasked(tmp_path / name, "gpt2").network.eval() for name in "ab")
    packed.load_state_dict(padded.state_dict())
    use_packed_rows(packed, "cpu")
    rows = [torch.arange(5, 12), torch.arange(5, 17)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = (ids > 0).long()
    with torch.inference_mode():
        one, other = (
            network(input_ids=ids, attention_mask=mask)[0][mask.bool()]
            for network in (padded, packed)
        )
    torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_full_attention_of_an_encoder_is_an_error(tmp_path: Path):
    with pytest.raises(ModelError, match="attention=full is for decoders, but in bert all"):
        unmasked(tmp_path, "bert")


def test_full_attention_of_a_network_with_a_fixed_mask_is_an_error(tmp_path: Path):
    with pytest.raises(ModelError, match="attention=full does not work for openai-gpt"):
        unmasked(tmp_path, "openai-gpt")


def test_a_tagger_with_full_attention_is_trained_and_reads_later_words(tmp_path: Path):
    folder = str(save_tiny(tmp_path, "llama"))
    settings = {"attention": "full", "epochs": "1", "max_tokens": "48", "evaluations": "1"}
    job = plan_job(folder, "conll2003/ner", overrides=settings, limit=8, precision="fp32")
    usual = settings | {"attention": "causal"}
    causal = plan_job(folder, "conll2003/ner", overrides=usual, limit=8, precision="fp32")
    assert job.settings["attention"].value == "full"
    assert "attention" not in causal.settings
    assert job.key != causal.key
    assert run_job(job).evaluations[0].scores["f1"] >= 0.0


def test_language_model_loss_with_full_attention_is_an_error(tmp_path: Path):
    spec = find_model(str(save_tiny(tmp_path, "gpt2")))
    with pytest.raises(BenchError, match=r"attention is 'full'.*lm_weight is 0\.5"):
        resolve_sweep(spec, "glue/rte", None, {"attention": "full", "lm_weight": "0.5"})


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({"attention": "full"}, "a decoder in which all tokens attend to each other"),
        ({"template": "{a} {b}"}, "texts in a template"),
    ],
)
def test_no_class_of_transformers_loads_a_model_with_these_settings(
    settings: dict[str, str], lacking: str, tmp_path: Path
):
    spec = find_model(str(save_tiny(tmp_path, "llama")))
    (resolved,) = resolve_sweep(spec, "glue/rte", None, settings)
    recipe = Recipe.from_settings(resolved.settings)
    assert published_class(RTE, recipe, "llama").lacking.startswith(lacking)


# Templates.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{a} {b}", "{a} {b}"),
        (r"Premise: {a}\nHypothesis: {b}", "Premise: {a}\nHypothesis: {b}"),
        ("Review: {a} {{1}}", "Review: {a} {{1}}"),
        ("{b}", None),
        ("{a} {c}", None),
        ("{a", None),
        ("{a!r}", None),
        ("{a:>9}", None),
        ("", None),
    ],
)
def test_a_template_needs_the_first_text_and_knows_only_two(value: str, expected: str | None):
    assert read_template(value) == expected


def test_texts_in_a_template_are_encoded_as_one_text(tmp_path: Path):
    folder = str(save_tiny(tmp_path, "llama"))
    job = plan_job(folder, "glue/rte", overrides={"template": r"{a}\nSo: {b}"}, limit=4)
    assert job.settings["template"].value == "{a}\nSo: {b}"
    run = load_run(Work.to_predict(job, CPU))
    (setup,) = run.setups
    found = setup.head.encode([PAIR], run.encoder.tokenizer, Limits(max_tokens=48))
    text = "the storm came\nSo: it was late"
    assert found.token_ids.tolist() == run.encoder.tokenizer(text)["input_ids"]
    other = replace(job, settings=job.settings | {"template": job.settings["epochs"]})
    assert other.key != job.key


def test_a_model_with_a_template_is_trained(tmp_path: Path):
    folder = str(save_tiny(tmp_path, "qwen3"))
    settings = {"template": "{a} {b}", "epochs": "1", "max_tokens": "48", "evaluations": "1"}
    job = plan_job(folder, "glue/rte", overrides=settings, limit=8, precision="fp32")
    assert run_job(job).evaluations[0].predictions


@pytest.mark.parametrize(
    ("changes", "template", "sentence"),
    [
        ({"text_b": None}, "{a} {b}", "has one text.*use a template with only {a}"),
        ({}, "{a}", "has two texts.*use a template with {b}"),
        ({}, "{a} {{b}}", "has two texts.*use a template with {b}"),
        ({"marks": (Mark(text="a", start=0, end=3),)}, "{a} {b}", "has marked words"),
    ],
)
def test_an_example_that_does_not_fit_the_template_is_an_error(
    changes: dict[str, Any], template: str, sentence: str
):
    with pytest.raises(DataError, match=sentence):
        filled(template, replace(PAIR, **changes))


# Notes in the plan.


def test_the_plan_notes_that_a_decoder_tags_words_without_later_words(tmp_path: Path):
    folder = str(save_tiny(tmp_path, "llama"))
    notes = " ".join(plan_jobs(folder, "conll2003/ner").notes)
    assert "the state of a word does not depend on the words after it" in notes
    full = plan_jobs(folder, "conll2003/ner", overrides={"attention": "full"})
    assert "does not depend on the words after it" not in " ".join(full.notes)
    assert "does not depend" not in " ".join(plan_jobs("tiny", "conll2003/ner").notes)


@pytest.mark.parametrize("place", ["tokenizer_config.json", "chat_template.jinja"])
def test_the_plan_notes_that_a_chat_template_is_not_used(place: str, tmp_path: Path):
    folder = save_tiny(tmp_path, "qwen3")
    assert "chat template" not in " ".join(plan_jobs(str(folder), "glue/rte").notes)
    if place == "tokenizer_config.json":
        settings = json.loads((folder / place).read_text())
        (folder / place).write_text(json.dumps(settings | {"chat_template": "{{ messages }}"}))
    else:
        (folder / place).write_text("{{ messages }}")
    assert "has a chat template, which is not used" in " ".join(
        plan_jobs(str(folder), "glue/rte").notes
    )


def test_the_plan_names_lora_rank_if_full_training_needs_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = str(save_tiny(tmp_path, "llama"))
    monkeypatch.setattr(plan, "find_gpus", tuple)
    monkeypatch.setattr(plan, "main_memory", lambda: 2 * 10**9)
    notes = " ".join(plan_jobs(folder, "glue/rte").notes)
    assert "needs about 4 GB of memory, but this machine has 2 GB: pass --set lora_rank=8" in notes
    adapted = plan_jobs(folder, "glue/rte", overrides={"lora_rank": "8"})
    assert "machine has" not in " ".join(adapted.notes)
    assert "machine has" not in " ".join(plan_jobs("majority", "glue/rte").notes)
    monkeypatch.setattr(plan, "main_memory", lambda: 10**12)
    assert "lora_rank" not in " ".join(plan_jobs(folder, "glue/rte").notes)


# Checkpoints that cannot be fine-tuned.


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes"])
def test_a_quantized_checkpoint_is_an_error_with_the_way_out(method: str, tmp_path: Path):
    folder = save_tiny(tmp_path, "llama")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=rf"are quantized \({method}\).*lora_rank=8.*dequantize"):
        check_loadable(folder)


def test_logits_of_a_template_are_those_of_the_text(tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "llama")), None, seed=1)
    head = head_for(RTE)
    torch.manual_seed(5)
    network = head.network(encoder, RTE).eval()
    text = PairExample(id="1", text_a="the storm came so it was late", text_b=None, label=None)
    rows = [filled("{a} so {b}", PAIR), text]
    features = head.encode(rows, encoder.tokenizer, Limits(max_tokens=48))
    one, other = predict(network, features, CPU, lambda _: None)
    np.testing.assert_allclose(one, other, rtol=1e-5)
