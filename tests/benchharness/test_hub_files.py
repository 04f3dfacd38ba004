"""Tests of repositories and folders with missing files: errors name missing and found files."""

from pathlib import Path

import pytest

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.models import find_model
from benchharness.models import weights as weights_module
from benchharness.models.spec import called, find_weights, index_of, shown, sort_files
from benchharness.models.weights import _Listed, require_files

BASE = ("README.md", "config.json", "tokenizer_config.json", "vocab.txt")

ODD = {
    "TensorFlow": ((*BASE, "tf_model.h5"), "tf_model.h5 contains TensorFlow's weights", "from_tf"),
    "TensorFlow's shards": (
        (*BASE, "tf_model-00001-of-00002.h5", "tf_model-00002-of-00002.h5"),
        "TensorFlow's weights",
        "from_tf",
    ),
    "TensorFlow 1": (
        ("bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"),
        "TensorFlow's weights",
        "no config.json",
    ),
    "Flax": ((*BASE, "flax_model.msgpack"), "flax_model.msgpack contains Flax's", "from_flax"),
    "ONNX": ((*BASE, "onnx/model.onnx"), "onnx/model.onnx contains ONNX's", "exported from"),
    "GGUF": (("README.md", "bert.Q4_0.gguf"), "bert.Q4_0.gguf contains GGUF's", "made from"),
    "OpenVINO": ((*BASE, "openvino_model.bin", "openvino_model.xml"), "OpenVINO's", "exported"),
    "rust-bert": ((*BASE, "rust_model.ot"), "rust_model.ot contains rust-bert's", "made from"),
    "a variant": ((*BASE, "model.fp16.safetensors"), "a variant's weights", "variant="),
    "an adapter": (
        ("adapter_config.json", "adapter_model.safetensors", "README.md"),
        "a LoRA adapter",
        "merge",
    ),
    "an adapter and a config": (
        (*BASE, "adapter_config.json", "adapter_model.safetensors"),
        "a LoRA adapter",
        "merge",
    ),
    "only a tokenizer": (("README.md", "vocab.txt"), "no config.json", "save_pretrained"),
    "no weights": (BASE, "it has no weights", "model.safetensors"),
    "no vocabulary": (("config.json", "model.safetensors"), "no vocabulary", "tokenizer.json"),
    "no vocabulary but its settings": (
        ("config.json", "model.safetensors", "tokenizer_config.json", "merges.txt"),
        "no vocabulary",
        "tokenizer.json",
    ),
    "a part is missing": (
        (*BASE, "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"),
        "lacks model-00002-of-00003.safetensors, model.safetensors.index.json",
        "copy",
    ),
    "a pickled part is missing": (
        (*BASE, "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"),
        "lacks pytorch_model-00001-of-00002.bin",
        "copy",
    ),
    "parts without an index": (
        (*BASE, "pytorch_model-00001-of-00001.bin"),
        "lacks pytorch_model.bin.index.json",
        "copy",
    ),
    "weights by another name": (
        ("config.json", "vocab.txt", "consolidated.00.pth"),
        "consolidated.00.pth contains only weights",
        "save_pretrained",
    ),
    "checkpoints in folders": (
        ("README.md", "step-9/model.safetensors", "step-10/pytorch_model.bin"),
        "step-9",
        "step-10",
    ),
    "nothing": ((), "no config.json", "save_pretrained"),
}


@pytest.mark.parametrize(("names", "cause", "way"), ODD.values(), ids=ODD)
def test_repository_with_missing_files_is_an_error_before_download(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], cause: str, way: str
) -> None:
    monkeypatch.setattr(weights_module, "go_offline_if_unreachable", lambda: False)
    monkeypatch.setattr(weights_module, "_ask", lambda *_: _Listed("c" * 40, names))
    with pytest.raises(ModelError) as caught:
        require_files("org/name", "c" * 40)
    sentence = str(caught.value)
    assert sentence.startswith(("org/name is not ", "org/name is incomplete: "))
    assert cause in sentence
    assert way in sentence
    assert "\n" not in sentence
    assert "cache" not in sentence


@pytest.mark.parametrize(("names", "cause", "way"), ODD.values(), ids=ODD)
def test_unusable_checkpoint_folder_is_an_error_with_cause_and_solution(
    tmp_path: Path, names: tuple[str, ...], cause: str, way: str
) -> None:
    folder = tmp_path / "mine"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\2\0\0\0\0\0\0\0{}" if name.endswith("tensors") else b"{}")
    folder.mkdir(exist_ok=True)
    with pytest.raises(ModelError) as caught:
        find_model(str(folder))
    sentence = str(caught.value)
    assert sentence.startswith((f"{folder} is not ", f"{folder} is incomplete: "))
    assert cause in sentence
    assert way in sentence
    assert "\n" not in sentence


WHOLE = [
    (("model.safetensors", "pytorch_model.bin", "tf_model.h5"), ["model.safetensors"]),
    (("pytorch_model.bin", "flax_model.msgpack", "rust_model.ot"), ["pytorch_model.bin"]),
    (("model.safetensors", "model.fp16.safetensors"), ["model.safetensors"]),
    (
        (
            *("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"),
            *("pytorch_model.bin.index.json", "training_args.bin", "pytorch_model_fsdp.bin"),
        ),
        ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"],
    ),
    (
        (
            *("model-00001-of-00001.safetensors", "model.safetensors.index.json"),
            *("pytorch_model.bin", "1_Pooling/config.json"),
        ),
        ["model-00001-of-00001.safetensors"],
    ),
]


@pytest.mark.parametrize(("names", "weights"), WHOLE)
def test_only_one_format_of_weights_is_selected_for_download(
    names: tuple[str, ...], weights: list[str]
) -> None:
    assert find_weights(names) == weights
    files = sort_files((*BASE, *names), "org/name")
    assert files["weights"] == weights
    assert files["tokenizer"] == ["tokenizer_config.json", "vocab.txt"]


def test_only_weight_shards_and_their_index_are_fetched() -> None:
    parts = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    names = (*BASE, *parts, "pytorch_model.bin.index.json", "tf_model.h5", "optimizer.pt", "x.py")
    wanted = weights_module._wanted("org/name", names, Trust())
    kept = {"config.json", "tokenizer_config.json", "vocab.txt", "pytorch_model.bin.index.json"}
    assert set(wanted) == {*kept, *parts}
    assert [index_of(part) for part in parts] == ["pytorch_model.bin.index.json"] * 2
    assert index_of("model.safetensors") == ""


def test_a_hub_model_is_shown_by_its_name_instead_of_its_cache_folder() -> None:
    known, own = Path("/c/models--microsoft--deberta-v3-base"), Path("/c/models--org--na-me")
    name = "deberta-v3-base (microsoft/deberta-v3-base)"
    assert called("microsoft/deberta-v3-base") == name
    assert shown(known / "snapshots" / "abc") == name
    assert shown(known / "snapshots" / "abc" / "config.json") == f"config.json of {name}"
    assert shown(own / "snapshots" / "abc") == called("org/na-me") == "org/na-me"
    assert shown(Path("/c/mine/config.json")) == "/c/mine/config.json"


def test_adapter_files_next_to_full_weights_are_an_error_only_in_a_folder():
    names = (*BASE, "model.safetensors", "adapter_config.json", "adapter_model.safetensors")
    with pytest.raises(ModelError, match="has complete weights and a LoRA adapter"):
        sort_files(names, "mine", folder=Path("/mine"))
    assert sort_files(names, "org/mine")["weights"] == ["model.safetensors"]
