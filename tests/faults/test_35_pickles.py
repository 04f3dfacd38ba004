"""Fault 35: pickled weights, which run code when they are loaded, are refused unless trusted."""

import pickle
from pathlib import Path
from traceback import format_exception

import pytest
import torch
from safetensors.torch import load_file

from benchharness.encoder import load_encoder
from benchharness.machine import estimate_memory, estimate_seconds
from benchharness.models import Trust, find_model
from benchharness.models.folder import checkpoint_files
from benchharness.tasks.errors import ModelError
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.plans import plan_job

PICKLE = Trust(pickle=True)


class Bomb:
    """What runs a command when it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self):
        return (Path.touch, (self.sentinel,))


@pytest.fixture
def malicious(tmp_path: Path) -> Path:
    """A checkpoint whose pickle makes the file `sentinel` beside it."""
    folder = save_checkpoint(tmp_path / "bomb")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "sentinel")))
    return folder


def test_35_the_bomb_goes_off_where_a_pickle_is_loaded_plainly(malicious: Path, tmp_path: Path):
    with (malicious / "pytorch_model.bin").open("rb") as file:
        pickle.load(file)
    assert (tmp_path / "sentinel").exists()


@pytest.mark.parametrize("trust", [Trust(), PICKLE, Trust(remote_code=True, pickle=True)])
def test_35_a_malicious_pickle_never_runs(malicious: Path, tmp_path: Path, trust: Trust):
    """Even a trusted one is read as weights alone: torch's own guard stays on."""
    words = "hold more than weights" if trust.pickle else "--allow-pickle"
    with pytest.raises(ModelError, match=words) as raised:
        load_encoder(str(malicious), None, 1, trust)
    assert "weights_only" not in "".join(format_exception(raised.value))
    assert not (tmp_path / "sentinel").exists()


def test_35_other_pickles_of_a_folder_are_never_opened(malicious: Path, tmp_path: Path):
    """A trainer leaves training_args.bin and optimizer.pt beside its weights."""
    save_checkpoint(malicious)
    bomb = (malicious / "pytorch_model.bin").read_bytes()
    for name in ("training_args.bin", "optimizer.pt", "rng_state.pth"):
        (malicious / name).write_bytes(bomb)
    load_encoder(str(malicious), None, 1, PICKLE)
    assert not (tmp_path / "sentinel").exists()


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """A checkpoint with pytorch_model.bin and nothing else."""
    folder = save_checkpoint(tmp_path / "old")
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_35_pickled_weights_are_refused_before_anything_is_planned(pickled: Path):
    with pytest.raises(ModelError, match=r"pickled weights .*--allow-pickle"):
        find_model(str(pickled))
    with pytest.raises(ModelError, match="--allow-pickle"):
        load_encoder(str(pickled), None, seed=1)


def test_35_allowed_pickled_weights_are_those_of_the_file(pickled: Path):
    encoder = load_encoder(str(pickled), None, 1, PICKLE)
    stored = torch.load(pickled / "pytorch_model.bin", weights_only=True)
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder.network.state_dict()[name], stored[name])
    spec = find_model(str(pickled), PICKLE)
    assert (spec.parameters, spec.trust) == (None, PICKLE)
    job = plan_job([spec], "glue/wnli", limit=8, precision="fp32")
    assert job.trust.pickle
    assert estimate_seconds(job, [], {}).rough
    assert estimate_memory(job) > 0


def test_35_safetensors_come_first(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "both")
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert [path.name for path in checkpoint_files(folder, PICKLE)["weights"]] == [
        "model.safetensors"
    ]
    load_encoder(str(folder), None, 1, PICKLE)
