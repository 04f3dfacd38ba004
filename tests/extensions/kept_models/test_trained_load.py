"""Kept models are loaded with equal predictions; damaged folders are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchharness.errors import BenchError, ModelError
from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.kept_folders import HEAD, JOB, MANIFEST
from benchharness.leaderboard.result import Result, to_row
from benchharness.models.weights import file_digest
from benchharness.splits import read_split
from benchharness.worker.checkpoint import WEIGHTS
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Kept model of a run, and its result."""
    folder = tmp_path_factory.mktemp("models") / "kept"
    return folder, run_job(make_job("glue/mrpc", limit=16), keep=folder)


def rewrite(folder: Path, name: str, text: str) -> None:
    """Replace a file of a kept folder, and its digest in the manifest."""
    (folder / name).write_text(text)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = file_digest(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_loaded_model_reproduces_the_stored_predictions_exactly(kept: tuple[Path, Result]) -> None:
    folder, result = kept
    model, stored = load_trained(folder), result.evaluations[0]
    found = predict(model, read_split(model.job, stored.name).examples)
    assert [to_row(each) for each in found.predictions] == list(stored.predictions)
    assert found.cut == result.provenance["data"][stored.name]["truncated"]
    assert not model.network.training


def test_loading_a_model_does_not_change_the_random_state(kept: tuple[Path, Result]) -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    load_trained(kept[0])
    assert torch.equal(torch.rand(1), wanted)


def test_predicting_an_empty_list_returns_no_predictions(kept: tuple[Path, Result]) -> None:
    assert predict(load_trained(kept[0]), ()) == ((), 0, (0, 0, 0, 0))


def _without_head(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["files"][HEAD]
    (folder / MANIFEST).write_text(json.dumps(manifest))


def _changed(folder: Path) -> None:
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")


def _newer(folder: Path) -> None:
    rewrite(folder, JOB, json.dumps(json.loads((folder / JOB).read_text()) | {"hue": 3}))


def _trusting(folder: Path) -> None:
    run = json.loads((folder / JOB).read_text())
    run["job"]["trust_remote_code"] = True
    rewrite(folder, JOB, json.dumps(run))


def _other_weights(folder: Path) -> None:
    weights = load_file(folder / HEAD)
    name = min(weights)
    save_file({name + "s" if key == name else key: w for key, w in weights.items()}, folder / HEAD)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][HEAD] = file_digest(folder / HEAD)
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (shutil.rmtree, "is not a folder, so it has no model of a run"),
        (lambda folder: (folder / MANIFEST).unlink(), "has no manifest.json"),
        (lambda folder: (folder / HEAD).unlink(), "is incomplete (head.safetensors is missing)"),
        (_changed, "is damaged (config.json differs from the file that was written)"),
        (_without_head, "is an encoder without a head"),
        (_newer, "from another version of benchharness"),
        (_trusting, "pass --trust-remote-code"),
        (_other_weights, "does not fit this model"),
    ],
)
def test_loading_a_folder_without_a_valid_model_is_a_one_line_error(
    kept: tuple[Path, Result], tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(kept[0], folder)
    change(folder)
    with pytest.raises(BenchError) as caught:
        load_trained(folder)
    assert said in str(caught.value)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_loading_a_model_for_a_task_outside_its_training_is_an_error(
    kept: tuple[Path, Result],
) -> None:
    with pytest.raises(BenchError, match="was not trained on glue/rte, but on glue/mrpc"):
        load_trained(kept[0], "glue/rte")


def _sealed(folder: Path, name: str, content: bytes) -> None:
    """Replace the bytes of a file of a kept folder, and its digest in the manifest."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][name] = file_digest(folder / name)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def _with(folder: Path, name: str = "config.json", **values: object) -> bytes:
    return json.dumps(json.loads((folder / name).read_text()) | values).encode()


DAMAGE: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "weights cut": (WEIGHTS, lambda folder: (folder / WEIGHTS).read_bytes()[:-20]),
    "head cut": (HEAD, lambda folder: (folder / HEAD).read_bytes()[:-20]),
    "head of no format": (HEAD, lambda folder: b"\xff" * 40),
    "dropout of 512": ("config.json", lambda f: _with(f, hidden_dropout_prob=512)),
    "no layers": ("config.json", lambda f: _with(f, num_hidden_layers=None)),
    "flags in a list": (JOB, lambda f: _with(f, JOB, flags=["constant predictions"])),
    "no run": (JOB, lambda folder: b"[]"),
    "limits of nothing": (JOB, lambda f: (f / JOB).read_bytes().replace(b'"limits": {', b'"_": {')),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_model_with_matching_digests_is_a_one_line_error(
    kept: tuple[Path, Result], tmp_path: Path, damage: str
) -> None:
    folder, (name, content) = tmp_path / "copy", DAMAGE[damage]
    shutil.copytree(kept[0], folder)
    _sealed(folder, name, content(folder))
    with pytest.raises(ModelError) as caught:
        load_trained(folder)
    assert str(folder) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_model_manifest_with_a_path_outside_the_folder_is_refused(
    kept: tuple[Path, Result], tmp_path: Path
) -> None:
    """`bench model --to` copies the files that the manifest names."""
    folder = tmp_path / "copy"
    shutil.copytree(kept[0], folder)
    (tmp_path / "elsewhere").write_text("x")
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["../elsewhere"] = file_digest(tmp_path / "elsewhere")
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(
        ModelError, match=r"its manifest names '\.\./elsewhere', which is not a file in this folder"
    ):
        load_trained(folder)
