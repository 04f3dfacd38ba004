"""Tests of the cache of pickled hub weights that are converted to safetensors."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from benchharness.encoder.network import load_config, load_network
from benchharness.leaderboard.job import Trust
from benchharness.models import converted
from benchharness.models.converted import loadable
from benchharness.models.weights import file_digest
from tests.helpers.checkpoints import save_checkpoint

COMMIT = "ab" * 20


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A revision with pickled weights, laid out as in the hub's cache: links to blobs."""
    repository = tmp_path / "cache" / "models--org--name"
    folder, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    folder.mkdir(parents=True)
    blobs.mkdir()
    made = save_checkpoint(tmp_path / "made")
    torch.save(load_file(made / "model.safetensors"), made / "pytorch_model.bin")
    (made / "model.safetensors").unlink()
    for file in made.iterdir():
        digest = file_digest(file)
        shutil.move(file, blobs / digest)
        (folder / file.name).symlink_to(f"../../blobs/{digest}")
    return folder


def weights_of(folder: Path) -> Mapping[str, Any]:
    return load_network(folder, load_config(folder), "org/name").state_dict()


def kept_of(snapshot: Path) -> Path:
    return snapshot.parent.parent / "benchharness" / COMMIT


def test_converted_weights_equal_the_pickle_and_are_stored_with_both_digests(
    snapshot: Path,
) -> None:
    stored = torch.load(snapshot / "pytorch_model.bin", weights_only=True)
    found = weights_of(snapshot)
    assert all(torch.equal(found[name], stored[name]) for name in found)
    kept = kept_of(snapshot)
    assert json.loads((kept / "converted.json").read_text()) == {
        "from": {"pytorch_model.bin": file_digest(snapshot / "pytorch_model.bin")},
        "files": {"model.safetensors": file_digest(kept / "model.safetensors")},
    }
    assert "pytorch_model.bin" not in {path.name for path in kept.iterdir()}
    assert not [path for path in snapshot.iterdir() if path.suffix == ".safetensors"]


def test_pickled_weights_are_converted_only_once(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = weights_of(snapshot)
    monkeypatch.setattr(converted, "write_safetensors", lambda *_: pytest.fail("once more"))
    second = weights_of(snapshot)
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("damage", ["a byte", "cut", "missing", "no digests", "digests cut"])
def test_damaged_converted_weights_are_converted_again(snapshot: Path, damage: str) -> None:
    weights_of(snapshot)
    kept = kept_of(snapshot)
    file, digests = kept / "model.safetensors", kept / "converted.json"
    content = file.read_bytes()
    match damage:
        case "a byte":
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "cut":
            file.write_bytes(content[:-1])
        case "missing":
            file.unlink()
        case "no digests":
            digests.unlink()
        case _:
            digests.write_text("{")
    stored = torch.load(snapshot / "pytorch_model.bin", weights_only=True)
    found = weights_of(snapshot)
    assert all(torch.equal(found[name], stored[name]) for name in found)
    assert file.read_bytes() == content


def test_sharded_pickled_weights_are_converted_to_sharded_safetensors(snapshot: Path) -> None:
    whole = weights_of(snapshot)
    shutil.rmtree(kept_of(snapshot))
    stored = torch.load(snapshot / "pytorch_model.bin", weights_only=True)
    names, places = sorted(stored), {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: stored[name] for name in part}, snapshot / file)
        places |= dict.fromkeys(part, file)
    (snapshot / "pytorch_model.bin").unlink()
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (snapshot / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    found = weights_of(snapshot)
    assert all(torch.equal(found[name], whole[name]) for name in whole)
    parts = {path.name for path in kept_of(snapshot).iterdir() if "model" in path.name}
    expected = {f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    assert parts == expected | {"model.safetensors.index.json"}


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_pickled_weights_are_loaded_as_fp32(
    snapshot: Path, kind: torch.dtype
) -> None:
    file = snapshot / "pytorch_model.bin"
    stored = {n: t.to(kind) for n, t in torch.load(file, weights_only=True).items()}
    torch.save(stored, file)
    found = weights_of(snapshot)
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}
    assert all(torch.equal(found[name], stored[name].float()) for name in found)


@pytest.mark.parametrize("reason", ["no folder can be made", "no room"])
def test_pickled_weights_are_read_directly_if_the_cache_cannot_be_written(
    snapshot: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = kept_of(snapshot).parent
    if reason == "no room":

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(converted, "write_safetensors", full)
    else:
        ours.write_text("a file of that name")
    stored = torch.load(snapshot / "pytorch_model.bin", weights_only=True)
    found = weights_of(snapshot)
    assert all(torch.equal(found[name], stored[name]) for name in found)
    left = [path.name for path in ours.iterdir()] if ours.is_dir() else []
    assert not [name for name in left if not name.endswith(".lock")], "nothing is left half written"


def test_converted_weights_are_reused_with_new_files_after_the_hub_cache_is_moved(
    snapshot: Path,
) -> None:
    weights_of(snapshot)
    (snapshot / "modeling.py").write_text("code = 1")
    moved = snapshot.parents[2].with_name("elsewhere")
    snapshot.parents[2].rename(moved)
    again = moved / "models--org--name" / "snapshots" / COMMIT
    with loadable(again, Trust()) as folder:
        assert folder == kept_of(again)
        assert (folder / "config.json").read_text() == (again / "config.json").read_text()
        assert (folder / "modeling.py").read_text() == "code = 1"


def test_pickled_weights_in_a_local_folder_are_read_without_changing_it(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "mine")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    before = sorted(tmp_path.rglob("*"))
    with loadable(folder, Trust()) as place:
        assert place == folder
    weights_of(folder)
    assert sorted(tmp_path.rglob("*")) == before


CONVERT = """
import sys
from pathlib import Path
from benchharness.leaderboard.job import Trust
from benchharness.models import converted
own = converted.write_safetensors
def slowly(path, to):
    names = own(path, to)
    to.write_bytes(to.read_bytes()[:100])
    print("half", flush=True)
    import time; time.sleep(60)
if "slowly" in sys.argv:
    converted.write_safetensors = slowly
with converted.loadable(Path(sys.argv[1]), Trust()) as folder:
    print(folder / "model.safetensors", flush=True)
"""


def start(snapshot: Path, *words: str) -> subprocess.Popen[str]:
    command = (sys.executable, "-P", "-c", CONVERT, str(snapshot), *words)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_conversion_leaves_no_partial_files(snapshot: Path) -> None:
    with start(snapshot, "slowly") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        waits = start(snapshot)  # waits for the other process, which is killed below
        time.sleep(1)
        assert not kept_of(snapshot).exists()
        os.kill(process.pid, signal.SIGKILL)
    out, _ = waits.communicate(timeout=60)
    assert out == f"{kept_of(snapshot) / 'model.safetensors'}\n"
    left = {path.name for path in kept_of(snapshot).parent.iterdir()}
    assert left == {COMMIT, f"{COMMIT}.lock"}
    stored = torch.load(snapshot / "pytorch_model.bin", weights_only=True)
    assert load_file(out.strip()).keys() == stored.keys()


def test_concurrent_processes_use_the_same_converted_weights(snapshot: Path) -> None:
    processes = [start(snapshot) for _ in range(3)]
    found = {process.communicate(timeout=60)[0] for process in processes}
    assert found == {f"{kept_of(snapshot) / 'model.safetensors'}\n"}
    assert {p.name for p in kept_of(snapshot).parent.iterdir()} == {COMMIT, f"{COMMIT}.lock"}
