"""Tests that a small checkpoint of every family trains and predicts with every head type."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from benchharness.encoder import Encoder, layers_of, load_encoder
from benchharness.errors import ModelError
from benchharness.heads import Limits, head_for
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from tests.helpers.families import FAMILIES, save_family
from tests.helpers.family_tokenizers import make_family_tokenizer
from tests.helpers.parity import make_inputs
from tests.helpers.training import CPU, begin_task, fit, having
from tests.helpers.training import RECIPE as USUAL

TASKS = ("glue/rte", "superglue/wic", "superglue/copa", "squad/v2.0", "conll2003/ner")
RECIPE = having(USUAL, epochs=1.0, batch_size=4, warmup_ratio=0.0, adam_epsilon=1e-8, max_tokens=48)
LIMITS = Limits(max_tokens=48, stride=16, max_question_tokens=16)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the checkpoints of the families; the tests change none of them."""
    return {name: save_family(tmp_path_factory.mktemp(name), name) for name in FAMILIES}


def load(folders: dict[str, Path], family: str) -> Encoder:
    return load_encoder(str(folders[family]), None, seed=1)


ODD = ("bert", "deberta-v2", "gpt2", "t5", "xlnet")
"""Families that differ in positions, token types and special tokens."""


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        if family in ODD or name == "glue/rte"
        else pytest.param(family, name, marks=pytest.mark.soak)
        for family in FAMILIES
        for name in TASKS
    ],
)
def test_every_family_trains_and_predicts_with_every_head_type(
    folders: dict[str, Path], family: str, name: str
):
    task = find_task(name)
    head, encoder = head_for(task), load(folders, family)
    examples = read(task, "train", parse_data("mini"), 8).examples
    features = head.encode(examples, encoder.tokenizer, LIMITS)
    network = head.network(encoder, task)
    before = {n: w.detach().clone() for n, w in encoder.network.named_parameters()}
    fit(begin_task(task, network, features, examples, RECIPE), dict)
    moved = [n for n, w in encoder.network.named_parameters() if not torch.equal(w, before[n])]
    # Some weights of Longformer serve only global attention and do not move.
    assert len(moved) > 0.7 * len(before)
    logits = predict(network, features, CPU, lambda _: None)
    predictions = head.decode(logits, features, examples, task)
    assert [p.id for p in predictions] == [e.id for e in examples]
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_states_of_every_family_are_close_to_fp32(folders: dict[str, Path], family: str):
    network = load(folders, family).network.eval()
    inputs = make_inputs(network.config)
    inputs["input_ids"] %= network.config.vocab_size
    is_real = inputs["attention_mask"].bool()
    with torch.inference_mode():
        exact = network(**inputs)[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = network(**inputs)[0]
    error = (rounded.float() - exact)[is_real].norm() / exact[is_real].norm()
    assert error < 0.1


PRETRAINED = {
    "electra": "ElectraForPreTraining",
    "eurobert": "EuroBertForMaskedLM",
    "funnel": "FunnelForPreTraining",
    "gpt2": "GPT2LMHeadModel",
    "openai-gpt": "OpenAIGPTLMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "xlnet": "XLNetLMHeadModel",
}
"""Pretraining class of each family that is not pretrained as a masked language model."""


@pytest.mark.parametrize("family", FAMILIES)
def test_encoder_weights_saved_by_pretraining_classes_are_loaded(tmp_path: Path, family: str):
    kind = getattr(transformers, PRETRAINED.get(family, "AutoModelForMaskedLM"))
    save_family(tmp_path, family, kind)
    saved = load_file(tmp_path / "model.safetensors")
    network = load_encoder(str(tmp_path), None, seed=1).network
    words = network.get_input_embeddings().weight
    for name, weight in network.named_parameters():
        same = [found for key, found in saved.items() if f".{key}".endswith(f".{name}")]
        loaded = [torch.equal(weight[: len(found)], found) for found in same]
        assert name.startswith("pooler.") or weight is words or any(loaded), name
    assert any(torch.equal(words[: len(found)], found) for found in saved.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpoint_with_a_missing_encoder_weight_is_an_error(
    folders: dict[str, Path], tmp_path: Path, family: str
):
    damaged = shutil.copytree(folders[family], tmp_path / "damaged")
    weights = load_file(damaged / "model.safetensors")
    del weights[max((name for name in weights if not name.startswith("decoder")), key=len)]
    save_file(weights, damaged / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 weight of its encoder"):
        load_encoder(str(damaged), None, seed=1)


def test_modernbert_classifier_uses_the_pretrained_prediction_head_layers(folders: dict[str, Path]):
    saved = load_file(folders["modernbert"] / "model.safetensors")
    encoder, task = load(folders, "modernbert"), find_task("glue/rte")
    assert torch.equal(encoder.network.pooler.dense.weight, saved["head.dense.weight"])
    network = head_for(task).network(encoder, task)
    assert torch.equal(network.classifier.norm.weight, saved["head.norm.weight"])


TYPED = {
    "albert",
    "bert",
    "convbert",
    "electra",
    "ernie",
    "funnel",
    "megatron-bert",
    "mobilebert",
    "xlnet",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_token_types_are_used_only_by_families_that_learned_them(
    folders: dict[str, Path], family: str
):
    encoded = load(folders, family).tokenizer("a film", "it was bad")
    assert ("token_type_ids" in encoded) is (family in TYPED)


@pytest.mark.parametrize(
    ("family", "types"), [("funnel", [2, 0, 0, 1, 1]), ("xlnet", [0, 0, 1, 1, 2])]
)
def test_classification_token_has_its_own_token_type_in_some_families(
    folders: dict[str, Path], family: str, types: list[int]
):
    assert load(folders, family).tokenizer("a", "a")["token_type_ids"] == types


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_gpt_input_texts_are_separated_by_special_tokens(folders: dict[str, Path], family: str):
    encoder, again = load(folders, family), load(folders, family)
    tokenizer, words = encoder.tokenizer, encoder.network.get_input_embeddings()
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("a", "a")["input_ids"])
    assert (tokens[0], tokens[2], tokens[-1]) == ("_start_", "_delimiter_", "_classify_")
    assert len(tokens) == 5
    assert words.num_embeddings == len(tokenizer)
    assert torch.equal(again.network.get_input_embeddings().weight, words.weight)


@pytest.mark.parametrize(
    ("family", "limit"),
    [("bert", 72), ("roberta", 68), ("mpnet", 70), ("xlnet", 10**9), ("t5", 10**9), ("gpt2", 72)],
)
def test_maximum_length_is_detected_for_each_family(
    folders: dict[str, Path], family: str, limit: int
):
    """RoBERTa has no positions up to its padding id, 3 here; MPNet counts as if the id were 1."""
    assert load(folders, family).max_tokens == limit


def test_big_bird_keeps_sparse_attention_after_a_short_batch(folders: dict[str, Path]):
    network = load(folders, "big_bird").network.eval()
    texts = torch.arange(5, 69)[None]
    mask = torch.ones_like(texts)
    with torch.inference_mode():
        before = network(input_ids=texts, attention_mask=mask)[0]
        network(input_ids=texts[:, :8], attention_mask=mask[:, :8])
        after = network(input_ids=texts, attention_mask=mask)[0]
    assert torch.equal(before, after)


def test_encoder_decoder_checkpoint_loaded_as_an_encoder_is_an_error(tmp_path: Path):
    config = transformers.BartConfig(vocab_size=8, d_model=16, encoder_layers=1, decoder_layers=1)
    transformers.BartModel(config).save_pretrained(tmp_path)
    make_family_tokenizer("roberta").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="bart is an encoder with a decoder"):
        load_encoder(str(tmp_path), None, seed=1)


def test_t5_can_be_loaded_without_its_decoder(tmp_path: Path):
    save_family(tmp_path, "t5", transformers.T5EncoderModel)
    assert len(layers_of(load_encoder(str(tmp_path), None, seed=1).network).layers) == 2
