"""ONNX files of exported models: equal to the transformers class, or not written."""

from pathlib import Path

import pytest
import torch
import transformers

from benchharness.errors import BenchError
from benchharness.extensions.kept_models import onnx_files as exporting
from benchharness.extensions.kept_models.onnx_files import OnnxNetwork, export, processor
from tests.helpers.families import save_family

onnx = pytest.importorskip("onnxruntime", reason="make extras installs onnxruntime")


def taken_folder(folder: Path, family: str, kind: str) -> Path:
    """Save a small random network whose tokenizer has a maximum length."""
    save_family(folder, family, getattr(transformers, f"AutoModelFor{kind}"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.model_max_length = 48
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken_folder(tmp_path_factory.mktemp("models") / "bert", "bert", "MultipleChoice")


@pytest.mark.soak
def test_onnx_logits_equal_those_of_transformers_for_other_input_shapes(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fp32, int8 = export(folder, int8=True)
    assert fp32.path == folder / "onnx/model.onnx"
    assert int8.path == folder / f"onnx/model_qint8_{processor()}.onnx"
    assert sorted(path.name for path in (folder / "onnx").iterdir()) == sorted(
        [fp32.path.name, int8.path.name]
    )
    assert fp32.difference < 1e-4 < int8.difference
    assert int8.path.stat().st_size < 0.7 * fp32.path.stat().st_size
    for file in (fp32, int8):
        assert b".py" not in file.path.read_bytes(), "where this machine has its packages"
    assert "torchvision" not in "".join(capfd.readouterr())
    network = transformers.AutoModelForMultipleChoice.from_pretrained(folder).eval()
    network_of_file = OnnxNetwork(fp32.path, network.config)
    for shape in ((1, 1, 3), (1, 5, 17), (3, 2, 48)):
        ids = torch.randint(5, 900, shape)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        inputs["token_type_ids"] = torch.zeros_like(ids)
        with torch.inference_mode():
            wanted = network(**inputs).logits
        assert torch.allclose(network_of_file(**inputs).logits, wanted, atol=1e-4)


def test_onnx_file_with_different_logits_is_not_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(folder, int8=True)
    before = {path: path.read_bytes() for path in (folder / "onnx").iterdir()}
    int8 = before[folder / f"onnx/model_qint8_{processor()}.onnx"]
    monkeypatch.setattr(exporting, "_trace", lambda network, inputs, path: path.write_bytes(int8))
    with pytest.raises(BenchError, match=r"model.onnx was not written, .* by up to 0\.\d"):
        export(folder)
    assert {path: path.read_bytes() for path in (folder / "onnx").iterdir()} == before


def test_onnx_export_of_an_unsupported_model_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = taken_folder(tmp_path / "longformer", "longformer", "SequenceClassification")
    with pytest.raises(BenchError, match="LongformerForSequenceClassification cannot be exported"):
        export(long)
    assert not (long / "onnx").exists()
    with pytest.raises(BenchError, match="transformers cannot load"):
        export(tmp_path / "nothing")
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    with pytest.raises(
        BenchError, match=r"need onnx and onnxruntime and onnxscript: run pip install"
    ):
        export(long)


def test_invalid_onnx_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(BenchError, match="ONNX Runtime cannot load"):
        OnnxNetwork(tmp_path / "model.onnx", None)


def test_int8_onnx_file_is_named_after_the_processor_as_in_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for flags, name in [
        ({"avx2", "avx512f", "avx512_vnni"}, "avx512_vnni"),
        ({"avx2", "avx512f"}, "avx512"),
        ({"avx2"}, "avx2"),
    ]:
        monkeypatch.setattr(exporting, "cpu_flags", lambda flags=flags: frozenset(flags))
        assert processor() == name
    monkeypatch.setattr(exporting, "cpu_flags", frozenset)
    monkeypatch.setattr(exporting.platform, "machine", lambda: "aarch64")
    assert processor() == "arm64"
