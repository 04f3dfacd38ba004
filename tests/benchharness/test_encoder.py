import json
import os
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from tests.helpers.checkpoints import change_weights, save_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def damaged(checkpoint: Path, tmp_path: Path) -> Path:
    """Return a copy of the checkpoint that a test may damage."""
    return shutil.copytree(checkpoint, tmp_path / "damaged")


def test_checkpoint_folder_is_loaded_with_its_weights(checkpoint: Path):
    encoder = load_encoder(str(checkpoint), None, seed=1)
    saved = load_file(checkpoint / "model.safetensors")
    loaded = encoder.network.state_dict()
    assert all(torch.equal(loaded[name], weight) for name, weight in saved.items())
    assert encoder.family == "bert"
    assert encoder.max_tokens == 40


def test_half_precision_checkpoint_weights_are_loaded_as_fp32(damaged: Path):
    network = transformers.AutoModel.from_pretrained(damaged, dtype=torch.bfloat16)
    network.save_pretrained(damaged)
    encoder = load_encoder(str(damaged), None, seed=1)
    assert {weight.dtype for weight in encoder.network.parameters()} == {torch.float32}


def test_loading_an_encoder_prints_nothing(checkpoint: Path, capfd: pytest.CaptureFixture[str]):
    load_encoder(str(checkpoint), None, seed=1)
    assert capfd.readouterr() == ("", "")


def test_builtin_tiny_encoder_is_initialized_from_the_seed():
    def draw(seed: int) -> torch.Tensor:
        encoder = load_encoder("builtin:tiny", None, seed)
        return torch.cat([weight.flatten() for weight in encoder.network.parameters()])

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_maximum_length_of_roberta_excludes_its_padding_positions(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "roberta", "roberta", max_position_embeddings=34)
    encoder = load_encoder(str(folder), None, seed=1)
    assert encoder.max_tokens == 32
    ids = torch.full((1, 32), 7)
    assert encoder.network(input_ids=ids)[0].shape == (1, 32, 16)


def test_encoder_is_limited_to_the_maximum_length_of_its_tokenizer_if_that_is_shorter(
    damaged: Path,
):
    file = damaged / "tokenizer_config.json"
    settings = json.loads(file.read_text()) | {"model_max_length": 24}
    file.write_text(json.dumps(settings))
    assert load_encoder(str(damaged), None, seed=1).max_tokens == 24


def test_pooler_missing_in_a_checkpoint_is_initialized_from_the_seed(damaged: Path):
    def drop_pooler(weights: dict[str, torch.Tensor]) -> None:
        for name in [name for name in weights if name.startswith("pooler.")]:
            del weights[name]

    change_weights(damaged, drop_pooler)
    first, again, other = (load_encoder(str(damaged), None, seed).network for seed in (1, 1, 2))
    assert torch.equal(first.pooler.dense.weight, again.pooler.dense.weight)
    assert not torch.equal(first.pooler.dense.weight, other.pooler.dense.weight)


def test_truncated_weights_file_of_a_checkpoint_is_an_error(damaged: Path):
    file = damaged / "model.safetensors"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_encoder(str(damaged), None, seed=1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", "{", r"config\.json is not usable"),
        ("config.json", "null", r"config\.json is not usable"),
        ("config.json", "[" * 100_000, r"config\.json is not usable"),
        ("config.json", {"add_cross_attention": [False]}, r"config\.json is not usable"),
        ("tokenizer_config.json", "null", "tokenizer in .* is not usable"),
        ("tokenizer_config.json", {"model_max_length": []}, "tokenizer in .* is not usable"),
        ("tokenizer.json", "null", "tokenizer in .* is not usable"),
        ("tokenizer.json", '{"version": "1.0"}', "is not usable: 'added_tokens' is missing"),
        ("tokenizer.json", {"added_tokens": None}, "tokenizer in .* is not usable"),
    ],
)
def test_any_damaged_file_of_a_checkpoint_is_an_error(
    damaged: Path, name: str, content: object, words: str
):
    file = damaged / name
    if isinstance(content, dict):
        content = json.dumps(json.loads(file.read_text()) | content)
    file.write_text(str(content))
    with pytest.raises(ModelError, match=words):
        load_encoder(str(damaged), None, seed=1)


def test_checkpoint_of_an_unknown_model_family_is_an_error(damaged: Path):
    (damaged / "config.json").write_text('{"model_type": "no-such-family"}')
    with pytest.raises(ModelError, match="no-such-family"):
        load_encoder(str(damaged), None, seed=1)


def test_checkpoint_folder_without_a_config_is_an_error(tmp_path: Path):
    with pytest.raises(ModelError, match="is not a checkpoint: it has no config"):
        load_encoder(str(tmp_path), None, seed=1)


def test_a_tokenizer_with_more_tokens_than_embeddings_is_an_error(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "small", vocab_size=500)
    with pytest.raises(ModelError, match=r"\d+ tokens, but its network has only 500"):
        load_encoder(str(folder), None, seed=1)
