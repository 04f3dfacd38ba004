"""`bench model --check`: variants compared with the original model, and the exit status."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchharness.extensions.kept_models import measure
from benchharness.extensions.kept_models.measure import (
    check_folder_with,
    dev_rows,
    load_original,
    load_variant,
)
from benchharness.extensions.kept_models.onnx_files import export
from tests.extensions.kept_models.taken import taken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(tmp_path_factory.mktemp("runs"), "glue/sst2")


@pytest.fixture
def alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the model right on every row, and measure no memory."""
    model = load_original(folder)
    rows = dev_rows(model, "mini")
    own = load_variant(folder, model)
    right = {
        split: tuple(
            replace(e, label=p.label)  # type: ignore[call-arg, union-attr]
            for e, p in zip(examples, own.answers(model, examples)[1], strict=True)
        )
        for split, examples in rows.items()
    }
    monkeypatch.setattr(measure, "dev_rows", lambda *_: right)
    monkeypatch.setattr(measure, "_memory", lambda *_: 10**6)


def other(
    folder: Path, to: Path, change: Callable[[torch.Tensor], torch.Tensor] = lambda w: w
) -> Path:
    """Copy the folder with changed weights of its last layer."""
    shutil.copytree(folder, to)
    file = to / "model.safetensors"
    weights = {
        name: change(w).contiguous() if name.startswith("classifier") else w
        for name, w in load_file(file).items()
    }
    save_file(weights, file, metadata={"format": "pt"})
    return to


@pytest.mark.usefixtures("alike")
def test_variant_check_exits_with_3_if_worse_or_with_strict_if_inconclusive(
    bench: Any, folder: Path, tmp_path: Path
) -> None:
    same = other(folder, tmp_path / "same")
    words = ("model", folder, "--check", "--variant", same)
    ended = bench(*words)
    assert ended.code == 0
    assert "same: inconclusive, at most" in ended.out + ended.err
    assert bench(*words, "--strict").code == 3
    # 24 rows are enough for this margin.
    assert bench(*words, "--strict", "--margin", "50").code == 0
    turned = other(folder, tmp_path / "turned", lambda w: w.flip(0))
    ended = bench("model", folder, "--check", "--variant", turned, "--json")
    (found,) = json.loads(ended.out)
    assert ended.code == 3
    assert found["scores"] == [1.0, 0.0]
    assert (found["differ"], found["verdict"]["lost"], found["verdict"]["gained"]) == (24, 24, 0)
    assert found["sentence"].startswith("turned: worse than fp32 on SST-2 by")


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nothing to compare", "has neither an ONNX file nor another model"),
        ("not finite", "computes logits that are not finite"),
        ("other labels", "is not a model for this task: its config names the outputs"),
        ("no folder", "is not a folder: --check needs one that `bench model --to` has written"),
        ("changed", "is damaged (config.json differs from the file that was written)"),
        ("no check", "require --check"),
    ],
)
def test_variant_check_of_incomparable_models_is_an_error(
    bench: Any, folder: Path, tmp_path: Path, fault: str, said: str
) -> None:
    broken = other(folder, tmp_path / "broken", lambda w: w * torch.nan if "not" in fault else w)
    words = [folder, "--check", "--variant", broken]
    match fault:
        case "other labels":
            config = json.loads((broken / "config.json").read_text())
            config["id2label"] = dict(enumerate(reversed(config["id2label"].values())))
            (broken / "config.json").write_text(json.dumps(config))
        case "no folder":
            words[0] = tmp_path / "none"
        case "nothing to compare":
            words = words[:2]
        case "no check":
            words.remove("--check")
        case "changed":
            (broken / "config.json").write_text("{}")
            words[0] = broken
    ended = bench("model", *words)
    assert ended.code == (4 if fault == "changed" else 2)
    assert said in ended.err


@pytest.mark.soak
def test_variant_check_compares_the_onnx_file_of_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="make extras installs onnxruntime")
    export(folder)
    # Each measurement needs a process, so only the memory of the ONNX file is measured.
    memory = measure._memory
    monkeypatch.setattr(
        measure, "_memory", lambda side, tokens: memory(side, tokens) if side.path.is_file() else 0
    )
    (found,) = check_folder_with(folder, data="mini")
    assert (found.variant, found.differ, found.flips, found.verdict.loss) == ("onnx", 0, (), 0)
    assert found.change is not None
    assert 0 <= found.change < 1e-4
    assert found.time > 0
    size = (folder / "onnx/model.onnx").stat().st_size
    assert [cost.bytes for cost in found.costs] == [
        (folder / "model.safetensors").stat().st_size, size
    ]  # fmt: skip
    assert found.costs[1].memory > size


def test_variant_check_warns_that_constant_predictions_make_a_loss_undetectable(
    bench: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "_memory", lambda *_: 10**6)

    def constant(weights: torch.Tensor) -> torch.Tensor:
        if weights.ndim > 1:
            return weights * 0
        return torch.tensor([9.0, -9.0])

    stuck = other(folder, tmp_path / "stuck", constant)
    model = load_original(folder)
    one, two = load_variant(stuck, model, "stuck"), load_variant(stuck, model, "int8")
    found = measure.check(model, one, two, dev_rows(model, "mini"), margin=0.9)
    assert found.flags == ("constant predictions",)
    assert "stuck makes constant predictions: this check cannot detect a loss." in found.sentence
    assert "in 0 % of cases" in found.verdict.power_sentence
