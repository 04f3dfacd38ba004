"""Every family with a text classifier in transformers reads a whole text, or is an error.

The classified state depends on the last word, whatever the family, and a row's logits depend on
no other row of its batch. A family that transformers adds is tested without a change here.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from benchharness.encoder import Encoder, load_encoder, prepare_checkpoint
from benchharness.encoder.network import takes_input
from benchharness.encoder.padding import compute_by_length, try_out
from benchharness.errors import ModelError
from benchharness.heads import Limits, head_for
from benchharness.heads.classifiers import POOLINGS
from benchharness.heads.published import published_names
from benchharness.models import find_model
from benchharness.models.families import CHECKED, CLASSIFIED, is_causal, is_unchecked
from benchharness.models.folder import check_loadable
from benchharness.recipes import resolve_sweep
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.examples import PairExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.optimizer import can_be_cut, cut_vocabulary
from benchharness.training.predict import predict
from benchharness.worker.task_setup import limits_of
from tests.helpers.every_family import CLASSIFYING, NOT_MADE, READ, REFUSED, save_tiny
from tests.helpers.plans import plan_jobs
from tests.helpers.soak import in_part
from tests.helpers.training import CPU, having
from tests.helpers.training import RECIPE as USUAL

LIMITS = Limits(max_tokens=64)
RECIPE = having(USUAL, max_tokens=64)
RTE = find_task("glue/rte")

SHORT = PairExample(id="short", text_a="the storm came", text_b="it was late", label=None)
OTHER = PairExample(id="other", text_a="the storm came", text_b="it was early", label=None)
LONG = PairExample(
    id="long",
    text_a="the old tower stood until the storm",
    text_b="who built the tower?",
    label=None,
)

USED = {"bert", "gpt2", "modernbert", "t5"}
"""Families that CI tests with a reduced vocabulary and both padding sides; soak tests run all."""


def logits_of(encoder: Encoder, *examples: PairExample) -> np.ndarray:
    """Return the logits of each example, computed in one batch."""
    torch.manual_seed(5)
    head = head_for(RTE)
    network = head.network(encoder, RTE).eval()
    features = head.encode(examples, encoder.tokenizer, LIMITS)
    return predict(network, features, CPU, lambda _: None)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {}


NEAR = 1e-5
"""Largest difference of logits, as a share of the largest logit, that is only rounding."""


SEES_NEXT = {"mobilebert"}
"""Families in which the embedding of a token includes those of its neighbours. So the last token of
a row sees the token id of the padding, which is always that of the padding token."""


def inputs_of(encoder: Encoder, example: PairExample, padding: int, side: str) -> dict[str, Tensor]:
    """Return an example with five padding tokens, which have the id `padding`, on one side."""
    features = head_for(RTE).encode([example], encoder.tokenizer, LIMITS)
    ids = torch.tensor(features.token_ids)[None].long()
    added = torch.full((1, 5), padding)
    parts = (added, ids) if side == "left" else (ids, added)
    mask = torch.cat([torch.full_like(part, part is ids) for part in parts], 1)
    inputs = {"input_ids": torch.cat(parts, 1), "attention_mask": mask}
    if encoder.is_causal and takes_input(encoder.network, "position_ids"):
        inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    return inputs


@pytest.mark.parametrize("family", READ)
def test_logits_of_every_family_depend_on_the_last_word_but_not_on_padding(
    family: str, tmp_path: Path
):
    save_tiny(tmp_path, family)
    encoder = load_encoder(str(tmp_path), None, seed=1)
    torch.manual_seed(5)
    head = head_for(RTE)
    network = head.network(encoder, RTE).eval()
    together, alone = (
        predict(network, head.encode(rows, encoder.tokenizer, LIMITS), CPU, lambda _: None)
        for rows in ([SHORT, OTHER, LONG], [SHORT])
    )
    scale = np.abs(together).max()
    assert np.abs(together[0] - together[1]).max() > 100 * NEAR * scale
    assert np.abs(together[0] - alone[0]).max() < NEAR * scale
    with torch.inference_mode():
        one, other = (
            network(**inputs_of(encoder, SHORT, padding, "right"))
            for padding in (encoder.tokenizer.pad_token_id or 0, 7)
        )
    sees_next = (one - other).abs().max() > NEAR * scale
    assert family in SEES_NEXT or not sees_next


@pytest.mark.parametrize("family", in_part(READ, USED))
def test_logits_do_not_depend_on_the_padding_side(family: str, tmp_path: Path):
    save_tiny(tmp_path, family)
    right = logits_of(load_encoder(str(tmp_path), None, seed=1), SHORT, LONG)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"padding_side": "left"}))
    assert (logits_of(load_encoder(str(tmp_path), None, seed=1), SHORT, LONG) == right).all()


@pytest.mark.parametrize("family", in_part(READ, USED))
def test_removing_unused_vocabulary_rows_does_not_change_logits(family: str, tmp_path: Path):
    """Some families scale their embeddings, or have other tables indexed by the same ids."""
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    head = head_for(RTE)
    network = head.network(encoder, RTE).eval()
    features = head.encode([SHORT, LONG], encoder.tokenizer, LIMITS)
    before = predict(network, features, CPU, lambda _: None)
    if can_be_cut(network.encoder):
        cut, _ = cut_vocabulary(network.encoder, {"dev": features})
        after = predict(network, cut["dev"], CPU, lambda _: None)
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["gemma", "gemma2", "gemma3_text", "biogpt", "canine"])
def test_vocabulary_without_a_plain_embedding_layer_is_not_reduced(family: str, tmp_path: Path):
    assert not can_be_cut(load_encoder(str(save_tiny(tmp_path, family)), None, seed=1).network)


def test_reduced_vocabulary_keeps_every_eos_token_of_the_config(tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "llama", eos_token_id=[1, 5, 9])), None, seed=1)
    features = head_for(RTE).encode([SHORT], encoder.tokenizer, LIMITS)
    _, used = cut_vocabulary(encoder.network, {"train": features})
    assert {1, 5, 9} <= set(used.rows.tolist())


DECODERS = [family for family in READ if is_causal({"model_type": family})]


@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_padded_on_the_left_gives_the_same_logits(family: str, tmp_path: Path):
    """Pad the rows on either side, with the matching position ids."""
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    network = head_for(RTE).network(encoder, RTE).eval()
    padding = encoder.tokenizer.pad_token_id
    with torch.inference_mode():
        left, right = (
            network(**inputs_of(encoder, SHORT, padding, side)) for side in ("left", "right")
        )
    assert (left - right).abs().max() < NEAR * right.abs().max()


@pytest.mark.parametrize("family", DECODERS)
def test_trial_forward_pass_detects_a_causal_decoder(family: str, tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    assert encoder.is_causal
    assert try_out(encoder.network, encoder.config, family).is_causal


IN_CI = {"flaubert", "modernbert-decoder", "rembert", "ultrabert"}
"""Families whose classifier CI compares with transformers' class; soak tests compare all."""


@pytest.mark.parametrize("family", in_part(sorted(CLASSIFIED), IN_CI))
def test_classifier_of_a_family_without_a_known_checkpoint_equals_that_of_transformers(
    family: str, tmp_path: Path
):
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    head = head_for(RTE)
    network = head.network(encoder, RTE).eval()
    found = predict(network, head.encode([LONG], encoder.tokenizer, LIMITS), CPU, lambda _: None)
    encoder.config.num_labels = 2
    if encoder.is_causal:  # transformers' class looks for the last token that is not padding
        encoder.config.pad_token_id = len(encoder.tokenizer) - 1
    theirs = AutoModelForSequenceClassification.from_config(encoder.config).eval()
    state, own = theirs.state_dict(), network.state_dict()
    names = published_names(own, state, theirs.base_model_prefix)
    if family in ("flaubert", "xlm"):  # their output layer is called a summary
        names = {
            n: f"sequence_summary.summary.{o}" if "." not in o else o for n, o in names.items()
        }
    assert set(names.values()) <= state.keys()
    with torch.inference_mode():
        for name, other in names.items():
            state[other].copy_(own[name])
        inputs = encoder.tokenizer(LONG.text_a, LONG.text_b, return_tensors="pt")
        expected = theirs(**inputs).logits.numpy()
    assert np.abs(found - expected).max() < NEAR * np.abs(expected).max()


POOLED = sorted(family for family in CLASSIFIED if POOLINGS[family].dense == "pooler")


@pytest.mark.parametrize("family", POOLED)
def test_the_pretrained_pooler_becomes_a_layer_of_the_classifier(family: str, tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    pooler = encoder.network.pooler
    weight = getattr(pooler, "dense", pooler).weight
    assert head_for(RTE).network(encoder, RTE).classifier.dense.weight is weight


def test_the_head_of_a_decoders_language_model_is_loaded(tmp_path: Path):
    save_tiny(tmp_path, "modernbert-decoder")
    config = AutoConfig.from_pretrained(tmp_path)
    saved = AutoModelForCausalLM.from_config(config)
    saved.save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path), None, seed=1)
    classifier = head_for(RTE).network(encoder, RTE).classifier
    assert torch.equal(classifier.dense.weight, saved.lm_head.dense.weight)
    assert torch.equal(classifier.norm.weight, saved.lm_head.norm.weight)


@pytest.mark.parametrize(("family", "sentence"), REFUSED.items())
def test_loading_a_family_that_cannot_classify_text_is_an_error(
    family: str, sentence: str, tmp_path: Path
):
    heads = {"decoder_attention_heads": 2, "encoder_attention_heads": 2}
    save_tiny(tmp_path, family, **(heads if "an encoder with" in sentence else {}))
    with pytest.raises(ModelError, match=sentence):
        load_encoder(str(tmp_path), None, seed=1)


def test_every_text_classification_family_of_transformers_is_tested():
    assert {*READ, *REFUSED, *NOT_MADE} == set(CLASSIFYING)


# Properties of a network that are found by a trial forward pass.


def test_an_unregistered_decoder_is_detected_as_causal(tmp_path: Path):
    """Use mistral4, which has a text classifier in transformers and no language model."""
    config = {"model_type": "mistral4"}
    assert is_unchecked(config)
    assert not is_causal(config)
    assert load_encoder(str(save_tiny(tmp_path, "mistral4")), None, seed=1).is_causal


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "qwen3"}, True),
        ({"model_type": "bert"}, False),
        ({"model_type": "bart", "is_encoder_decoder": True}, False),
        ({"model_type": "xlnet"}, False),
        ({"model_type": "bert-generation"}, False),
        (
            {"model_type": "own", "auto_map": {"AutoModel": "m.M", "AutoModelForCausalLM": "m.L"}},
            True,
        ),
        (
            {
                "model_type": "own",
                "auto_map": dict.fromkeys(
                    ("AutoModel", "AutoModelForCausalLM", "AutoModelForMaskedLM"), "m.L"
                ),
            },
            False,
        ),
        ({"model_type": "own", "auto_map": {"AutoModel": "m.M"}}, False),
        ({}, False),
    ],
)
def test_decoders_are_recognized_by_their_config(config: dict[str, object], expected: bool):
    assert is_causal(config) is expected


@pytest.mark.parametrize(("family", "is_noted"), [("canine", True), ("rembert", False)])
def test_the_plan_notes_that_no_one_checked_a_family(family: str, is_noted: bool, tmp_path: Path):
    notes = " ".join(plan_jobs(str(save_tiny(tmp_path, family)), "glue/rte").notes)
    assert ("no one checked how this family is read" in notes) is is_noted


def test_only_unknown_model_families_need_a_trial_forward_pass():
    assert set(READ) >= CLASSIFIED
    assert not any(is_unchecked({"model_type": family}) for family in CHECKED)
    assert is_unchecked({"model_type": "rembert"})
    assert not is_unchecked({"model_type": "llama"})


@pytest.mark.parametrize("family", ["fnet", "mistral4", "rembert"])
def test_kept_model_is_causal_and_groups_rows_by_length_as_in_its_training(
    family: str, tmp_path: Path
):
    """Loading a kept model creates its network without weights, so it cannot run a trial pass."""
    save_tiny(tmp_path, family)
    trained, kept = (load_encoder(str(tmp_path), None, seed=seed) for seed in (1, None))
    assert kept.is_causal == trained.is_causal
    names = [each.network.forward.__qualname__ for each in (trained, kept)]
    assert names[0] == names[1]


def test_encoder_with_non_finite_states_is_an_error(tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "rembert")), None, seed=1)
    encoder.network.get_input_embeddings().weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match="not finite"):
        try_out(encoder.network, encoder.config, "rembert")


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_text_embedding_of_a_decoder_is_its_last_state(family: str, tmp_path: Path):
    spec = find_model(str(save_tiny(tmp_path, family)))
    (resolved,) = resolve_sweep(spec, "beir/scifact", None, {})
    assert resolved.settings["pooling"].value == "last"
    (typed,) = resolve_sweep(spec, "beir/scifact", None, {"pooling": "mean"})
    assert typed.settings["pooling"].value == "mean"
    assert zero_shot_recipe("beir/scifact", spec).settings["pooling"].value == "last"


# Rows that are grouped by length and computed without padding.


@pytest.mark.parametrize("family", ["convbert", "fnet", "funnel", "nystromformer", "yoso"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_states_of_rows_grouped_by_length_equal_those_of_single_rows(
    family: str, side: str, tmp_path: Path
):
    network = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1).network.eval()
    rows = [torch.arange(5, 5 + length) for length in (9, 3, 9, 6)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_side=side)
    mask = (ids > 0).long()
    with torch.inference_mode():
        found = network(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        for row, states, is_real in zip(rows, found.last_hidden_state, mask.bool(), strict=True):
            alone = network(input_ids=row[None], attention_mask=torch.ones(1, len(row)))
            torch.testing.assert_close(states[is_real], alone.last_hidden_state[0])
    assert found.last_hidden_state.shape[:2] == ids.shape
    assert not found.last_hidden_state[~mask.bool()].any()


def test_every_row_of_batches_grouped_by_length_gets_gradients(tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "convbert")), None, seed=1)
    ids = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]])
    encoder.network(input_ids=ids, attention_mask=(ids > 0).long())[0].pow(3).sum().backward()
    words = encoder.network.get_input_embeddings().weight.grad
    assert (words[[5, 6, 7, 8, 9, 10]].abs().sum(1) > 0).all()
    assert not words[0].any()


def test_network_whose_forward_takes_no_attention_mask_is_called_without_a_mask():
    class Mean(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor) -> tuple[torch.Tensor]:
            states = input_ids[..., None].float()
            return (states + states.mean(1, keepdim=True),)

    network = Mean()
    compute_by_length(network)
    ids = torch.tensor([[2, 4], [6, 0]])
    (states,) = network(input_ids=ids, attention_mask=(ids > 0).long())
    assert states[..., 0].tolist() == [[5, 7], [12, 0]]


# Inputs of decoders.


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("decoder", ["a", "<|endoftext|>", "a", "<|endoftext|>"]),
        ("llama", ["<s>", "a", "<s>", "a", "</s>"]),
        ("bare", ["a", "_delimiter_", "a", "_delimiter_"]),
        ("wordpiece", ["[CLS]", "a", "[SEP]", "a", "[SEP]"]),
        ("bytes", ["<s>", "a", "</s>", "</s>", "a", "</s>"]),
    ],
)
def test_input_of_a_decoder_has_separator_and_end_tokens(
    kind: str, expected: list[str], tmp_path: Path
):
    save_tiny(tmp_path, "llama", tokenizer=kind)
    encoder = load_encoder(str(tmp_path), None, seed=1)
    tokenizer = encoder.tokenizer
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("a", "a")["input_ids"])
    assert tokens == expected
    single = tokenizer.convert_ids_to_tokens(tokenizer("a")["input_ids"])
    assert single == [*expected[: expected.index("a") + 1], expected[-1]]
    assert encoder.network.get_input_embeddings().num_embeddings == len(tokenizer)


@pytest.mark.parametrize("kind", ["decoder", "llama", "bare", "wordpiece"])
def test_no_answer_position_of_a_decoder_is_the_last_token_of_the_row(kind: str, tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "llama", tokenizer=kind)), None, seed=1)
    limits = limits_of(RECIPE, encoder)
    assert limits.is_causal
    task = find_task("squad/v2.0")
    rows = read(task, "dev", parse_data("mini"), 4).examples
    features = head_for(task).encode(rows, encoder.tokenizer, limits)
    assert (features.nulls == features.lengths - 1).all()
    assert set(features.token_ids[features.starts[1:] - 1]) == {features.token_ids[-1]}


def test_decoder_gets_a_new_embedding_for_an_added_padding_token(tmp_path: Path):
    """Fetch, plan and load a decoder whose tokenizer has an added padding token."""
    tokenizer = AutoTokenizer.from_pretrained(save_tiny(tmp_path, "llama", tokenizer="llama"))
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(tmp_path)
    check_loadable(tmp_path)
    assert prepare_checkpoint(str(tmp_path), "") == tmp_path
    encoder = load_encoder(str(tmp_path), None, seed=1)
    assert encoder.network.get_input_embeddings().num_embeddings == len(tokenizer)


def test_a_decoder_can_encode_an_empty_text(tmp_path: Path):
    encoder = load_encoder(str(save_tiny(tmp_path, "qwen3")), None, seed=1)
    empty = PairExample(id="e", text_a="", text_b="", label=None)
    assert np.isfinite(logits_of(encoder, empty, SHORT)).all()


LOGITS = (
    "qwen3",
    "llama",
    "gemma2",
    "gpt_neox",
    "opt",
    "phi3",
    "olmo2",
    "smollm3",
    "mistral",
    "mpt",
)


@pytest.mark.parametrize("family", LOGITS)
def test_logits_of_a_decoder_equal_those_of_transformers(family: str, tmp_path: Path):
    """The transformers class classifies the last token that is not padding."""
    encoder = load_encoder(str(save_tiny(tmp_path, family)), None, seed=1)
    head = head_for(RTE)
    network = head.network(encoder, RTE).eval()
    features = head.encode([SHORT, LONG], encoder.tokenizer, LIMITS)
    rows = [torch.tensor(row) for row in np.split(features.token_ids, features.starts[1:-1])]
    unused = len(encoder.tokenizer) - 1
    assert not any((row == unused).any() for row in rows)
    encoder.config.pad_token_id, encoder.config.num_labels = unused, 2
    theirs = AutoModelForSequenceClassification.from_config(encoder.config).eval()
    theirs.base_model.load_state_dict(encoder.network.state_dict())
    theirs.score.weight = network.classifier.output.weight
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=unused)
    with torch.inference_mode():
        expected = theirs(input_ids=ids.long(), attention_mask=(ids != unused).long()).logits
    found = predict(network, features, CPU, lambda _: None)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-4, rtol=1e-4)
