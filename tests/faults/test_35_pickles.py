"""Tests of fault 35: pickled weights are read without unpickling objects, which can run code."""

import pickle
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from pathlib import Path
from random import Random
from traceback import format_exception
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainingArguments

from benchharness.driver.start_checkpoints import model_bytes
from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.machine import estimate_memory, estimate_seconds
from benchharness.models import Trust, find_model, weights_identity
from benchharness.models.folder import checkpoint_files, sizes_in
from benchharness.models.pickles import DAMAGED, write_safetensors
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.fuzz.damage import damaged
from tests.helpers.plans import plan_job

PICKLE = Trust(pickle=True)


class Bomb:
    """Object that runs code when it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self):
        return (Path.touch, (self.sentinel,))


@pytest.fixture
def malicious(tmp_path: Path) -> Path:
    """Checkpoint whose pickle creates the file `sentinel` next to the folder."""
    folder = save_checkpoint(tmp_path / "bomb")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "sentinel")))
    return folder


def test_35_plain_unpickling_of_the_test_file_runs_its_code(malicious: Path, tmp_path: Path):
    with (malicious / "pytorch_model.bin").open("rb") as file:
        pickle.load(file)
    assert (tmp_path / "sentinel").exists()


@pytest.mark.parametrize("trust", [Trust(), PICKLE, Trust(remote_code=True, pickle=True)])
def test_35_code_in_a_malicious_pickle_never_runs(malicious: Path, tmp_path: Path, trust: Trust):
    """Check that a trusted pickle is also read as weights only."""
    words = "no weights at its top level" if trust.pickle else "--allow-pickle"
    with pytest.raises(ModelError, match=words) as raised:
        load_encoder(str(malicious), None, 1, trust)
    assert "weights_only" not in "".join(format_exception(raised.value))
    assert not (tmp_path / "sentinel").exists()


def test_35_other_pickles_in_a_checkpoint_folder_are_never_opened(malicious: Path, tmp_path: Path):
    """The Trainer writes training_args.bin and optimizer.pt next to the weights."""
    save_checkpoint(malicious)
    bomb = (malicious / "pytorch_model.bin").read_bytes()
    for name in ("training_args.bin", "optimizer.pt", "rng_state.pth"):
        (malicious / name).write_bytes(bomb)
    load_encoder(str(malicious), None, 1, PICKLE)
    assert not (tmp_path / "sentinel").exists()


def pickle_weights(folder: Path, *, old: bool = False, **more: Any) -> Path:
    """Replace model.safetensors by pytorch_model.bin with the same weights and `more`."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save(OrderedDict(weights, **more), file, _use_new_zipfile_serialization=not old)
    return file


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """Checkpoint whose only weights are pytorch_model.bin."""
    folder = save_checkpoint(tmp_path / "old")
    pickle_weights(folder)
    return folder


@pytest.mark.parametrize("old", [False, True], ids=["zip", "before torch 1.6"])
def test_35_pickled_weights_are_read_correctly_without_any_option(tmp_path: Path, old: bool):
    folder = save_checkpoint(tmp_path / "old")
    parameters = find_model(str(folder)).parameters
    file = pickle_weights(folder, old=old)
    encoder = load_encoder(str(folder), None, 1)
    stored = torch.load(file, weights_only=True)
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder.network.state_dict()[name], stored[name])
    spec = find_model(str(folder))
    assert (spec.parameters, spec.trust) == (parameters, Trust())
    job = plan_job([spec], "glue/wnli", limit=8, precision="fp32")
    assert not job.trust.pickle
    assert estimate_seconds(job, [], {}).rough
    assert estimate_memory(job) > 0
    sizes, tokenizer = sizes_in(folder)
    assert model_bytes(job) == 4 * sum(sizes.values()) + tokenizer


MORE = [
    {"args": Namespace(rate=0.1)},
    {"training_args": TrainingArguments(output_dir="x", report_to=[])},
    {"kind": Namespace},  # a class is harmful too, because unpickling imports its module
    {"when": datetime(2020, 1, 1)},
]


@pytest.mark.parametrize("more", MORE, ids=[next(iter(each)) for each in MORE])
def test_35_other_objects_in_a_pickle_are_named_or_skipped_if_allowed(
    tmp_path: Path, more: dict[str, Any]
):
    folder = save_checkpoint(tmp_path / "trained")
    pickle_weights(folder, **more)
    found = next(iter(more.values()))
    kind = found if isinstance(found, type) else type(found)
    words = rf"pytorch_model.bin contains more than weights \(.*{kind.__qualname__}.*--allow-pickle"
    for ask in (find_model, lambda path: load_encoder(path, None, 1)):
        with pytest.raises(ModelError, match=words):
            ask(str(folder))
    before = sorted(folder.iterdir())
    encoder = load_encoder(str(folder), None, 1, PICKLE)
    stored = torch.load(folder / "pytorch_model.bin", weights_only=False)
    name = "embeddings.word_embeddings.weight"
    assert torch.equal(encoder.network.state_dict()[name], stored[name])
    assert sorted(folder.iterdir()) == before, "a user's folder takes nothing from us"


def test_35_code_next_to_weights_in_an_allowed_pickle_does_not_run(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "trained")
    pickle_weights(folder, bomb=Bomb(tmp_path / "sentinel"))
    load_encoder(str(folder), None, 1, PICKLE)
    assert not (tmp_path / "sentinel").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda weights: {"state_dict": weights, "epoch": 3}, "they are inside 'state_dict'"),
        (lambda weights: {"epoch": 3}, "it contains none"),
        (lambda weights: torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (lambda weights: list(weights.values()), r"\(list\)"),
    ],
    ids=["nested", "no weights", "a module", "a list"],
)
def test_35_error_for_a_pickle_without_weights_names_its_content(
    pickled: Path, content: Callable[[Any], Any], words: str
):
    file = pickled / "pytorch_model.bin"
    torch.save(content(torch.load(file, weights_only=True)), file)
    with pytest.raises(ModelError, match=words):
        find_model(str(pickled))


KINDS = (torch.float16, torch.bfloat16, torch.float64)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("old", [False, True], ids=["zip", "before torch 1.6"])
def test_35_tensors_of_every_shape_are_converted_to_equal_safetensors(
    tmp_path: Path, kind: torch.dtype, old: bool
):
    whole = torch.randn(6, 5).to(kind)
    weights = OrderedDict(
        whole=whole,
        tied=whole,
        turned=whole.t(),
        part=whole[1:5:2, 1:],
        spread=torch.randn(1, 5).to(kind).expand(4, 5),
        nothing=torch.zeros(0, 3, dtype=kind),
        one=torch.tensor(2.5, dtype=kind),
        parameter=torch.nn.Parameter(whole[2]),
        numbers=torch.arange(40).expand((1, -1)),
        flags=torch.tensor([True, False, True]),
    )
    weights._metadata = {"": {"version": 1}}  # `state_dict()` sets this attribute too
    torch.save(weights, tmp_path / "w.bin", _use_new_zipfile_serialization=not old)
    names = write_safetensors(tmp_path / "w.bin", tmp_path / "w.safetensors")
    found = load_file(tmp_path / "w.safetensors")
    assert sorted(names) == sorted(weights) == sorted(found)
    for name, tensor in weights.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor.detach()), name


@pytest.mark.parametrize("old", [False, True], ids=["zip", "before torch 1.6"])
def test_35_truncated_pickle_is_a_one_line_error(tmp_path: Path, old: bool):
    folder = save_checkpoint(tmp_path / "cut")
    file = pickle_weights(folder, old=old)
    content = file.read_bytes()
    for end in (0, 1, 7, 80, 200, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:end])
        with pytest.raises(
            ModelError, match=r"\.bin (is not a|contains|has no|cannot be read as a) "
        ) as raised:
            find_model(str(folder))
        assert "\n" not in str(raised.value)


def test_35_identity_of_pickled_weights_depends_on_the_file_only(pickled: Path):
    before = weights_identity(find_model(str(pickled)))
    load_encoder(str(pickled), None, 1)
    assert weights_identity(find_model(str(pickled))) == before
    assert weights_identity(find_model(str(pickled), PICKLE)) == before
    file = pickled / "pytorch_model.bin"
    torch.save(torch.load(file, weights_only=True), file, _use_new_zipfile_serialization=False)
    assert weights_identity(find_model(str(pickled))) != before


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("old", [False, True], ids=["zip", "before torch 1.6"])
def test_35_damaged_pickle_is_refused_or_read_as_torch_reads_it(tmp_path: Path, old: bool):
    file = tmp_path / "w.bin"
    whole = torch.arange(12.0).reshape(3, 4)
    weights = OrderedDict(a=whole, tied=whole, part=whole[1:, ::2], b=torch.ones(2).half())
    torch.save(weights, file, _use_new_zipfile_serialization=not old)
    content, both = file.read_bytes(), 0
    for seed in range(400):
        file.write_bytes(damaged(Random(seed), content))
        try:
            write_safetensors(file, tmp_path / "w.safetensors")
            theirs = torch.load(BytesIO(file.read_bytes()), weights_only=True)
        except (*DAMAGED, pickle.UnpicklingError, AssertionError):
            continue
        ours = load_file(tmp_path / "w.safetensors")
        found = theirs if isinstance(theirs, dict) else {}
        tensors = {name: t for name, t in found.items() if isinstance(t, torch.Tensor)}
        assert ours.keys() == tensors.keys()
        assert all(ours[name].equal(t) or t.isnan().any() for name, t in tensors.items())
        both += 1
    assert both > 10


def test_35_tensor_larger_than_its_storage_is_refused(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "lying")
    file = folder / "pytorch_model.bin"
    (folder / "model.safetensors").unlink()
    torch.save({"w": torch.arange(7.0).reshape(1, 7)}, file, _use_new_zipfile_serialization=False)
    content = file.read_bytes()
    at = content.index(b"K\x01K\x07\x86")  # the pickled shape (1, 7)
    file.write_bytes(content[:at] + b"K\x09K\x07\x86" + content[at + 5 :])
    with pytest.raises(ModelError, match="beyond its stored numbers"):
        find_model(str(folder))


def test_35_safetensors_are_preferred_to_a_pickle(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "both")
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert [path.name for path in checkpoint_files(folder, PICKLE)["weights"]] == [
        "model.safetensors"
    ]
    load_encoder(str(folder), None, 1, PICKLE)
