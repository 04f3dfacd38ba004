"""Tests of runs that save their encoder, and of runs that start from it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from benchharness.encoder import load_encoder
from benchharness.errors import JobError
from benchharness.heads import Limits
from benchharness.kept_folders import is_whole, new_checkpoint
from benchharness.leaderboard.job import Job
from benchharness.worker.checkpoint import CheckpointWriter, KeptRun, load_start
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.families import save_family
from tests.helpers.mini_jobs import make_job

WEIGHTS = "model.safetensors"


def write(writer: CheckpointWriter) -> None:
    """Write an encoder without a head."""
    run = KeptRun(job=writer.job, limits=Limits(max_tokens=64), splits={}, versions={})
    writer.write(torch.nn.Identity(), run)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory):
    """Return an MNLI job, its result, and the folder with its saved encoder."""
    job = make_job("mnli", limit=32)
    folder = tmp_path_factory.mktemp("checkpoints") / job.key
    return job, run_job(job, keep=folder), folder


def starting_from(start: Job, task: str = "glue/rte") -> Job:
    return replace(make_job(task, limit=32), start_from=start.key)


def test_a_saved_encoder_is_a_checkpoint_that_can_be_loaded(left):
    job, result, folder = left
    assert is_whole(folder, job.key)
    assert result.evaluations == run_job(job).evaluations, "keeping changes nothing"
    encoder, pretrained = load_encoder(str(folder), None, 5), load_encoder("builtin:tiny", None, 1)
    written = load_file(folder / WEIGHTS)
    loaded = encoder.network.state_dict()
    assert loaded.keys() == written.keys() == pretrained.network.state_dict().keys()
    assert all(torch.equal(loaded[name], written[name]) for name in written)
    text = "The cat, which sat there, did not see the dog."
    assert encoder.tokenizer(text) == pretrained.tokenizer(text)


def test_saved_encoder_has_trained_embeddings_layers_and_pooler(left):
    _, _, folder = left
    before = load_encoder("builtin:tiny", None, 1).network.state_dict()
    written = load_file(folder / WEIGHTS)
    parts = ("embeddings.word", "layer.0.attention", "layer.1.output.dense", "pooler.dense.weight")
    for part in parts:
        (name, *_) = (name for name in written if part in name)
        assert not torch.equal(before[name], written[name]), name


def test_a_run_starts_from_the_saved_weights_with_a_new_head(left):
    start, _, folder = left
    job = starting_from(start)
    result, scratch = run_job(job, start_from=folder), run_job(replace(job, start_from=None))
    assert result.evaluations != scratch.evaluations
    assert result == replace(
        run_job(job, start_from=folder), cost=result.cost, curve=result.curve,
        provenance=result.provenance, finished=result.finished,
    )  # fmt: skip
    started_from = result.provenance["started_from"]
    assert started_from["run"] == start.key
    assert len(started_from["sha256"]) == 64
    assert "started_from" not in scratch.provenance


def test_a_task_with_another_head_can_start_from_the_saved_encoder(left):
    start, _, folder = left
    assert run_job(starting_from(start, "superglue/copa"), start_from=folder).evaluations[0].scores


def test_a_head_without_a_pooler_saves_the_pretrained_pooler(tmp_path: Path):
    job = make_job("squad/v1.1", limit=8)
    run_job(job, keep=tmp_path / job.key)
    written = load_file(tmp_path / job.key / WEIGHTS)
    before = load_encoder("builtin:tiny", None, job.seed).network.state_dict()
    assert torch.equal(written["pooler.dense.weight"], before["pooler.dense.weight"])
    assert not torch.equal(
        written["encoder.layer.1.output.dense.weight"],
        before["encoder.layer.1.output.dense.weight"],
    )


@pytest.mark.parametrize("family", ["gpt2", "openai-gpt"])
def test_a_saved_gpt_encoder_can_be_loaded_with_transformers(tmp_path: Path, family: str):
    encoder = load_encoder(str(save_family(tmp_path / "gpt", family)), None, 1)
    write(CheckpointWriter.of(encoder, tmp_path / "kept", make_job("mnli")))
    theirs = AutoModel.from_pretrained(tmp_path / "kept")
    ours = load_encoder(str(tmp_path / "kept"), None, 2)
    for network in (theirs, ours.network):
        assert torch.equal(
            network.get_input_embeddings().weight, encoder.network.get_input_embeddings().weight
        )
    assert ours.tokenizer("so it", "goes") == encoder.tokenizer("so it", "goes")


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_every_weight_of_the_saved_encoder_is_restored(tmp_path: Path, family: str):
    checkpoint = str(save_checkpoint(tmp_path / "pretrained", family))
    job = make_job("mnli", limit=8, model=checkpoint)
    encoder, folder = load_encoder(checkpoint, None, 1), tmp_path / job.key
    writer = CheckpointWriter.of(encoder, folder, job)
    with torch.no_grad():
        for weight in encoder.network.parameters():
            weight.add_(1)
    write(writer)
    other = load_encoder(checkpoint, None, 2)
    said = load_start(other, folder, replace(job, start_from=job.key))
    assert said["started_from"]["run"] == job.key
    ours, theirs = encoder.network.state_dict(), other.network.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_model_that_cannot_be_written_is_an_error(tmp_path: Path):
    checkpoint = str(save_checkpoint(tmp_path / "pretrained"))
    job = make_job("mnli", limit=8, model=checkpoint)
    writer = CheckpointWriter.of(
        load_encoder(checkpoint, None, 1), tmp_path / "kept" / job.key, job
    )
    (tmp_path / "kept").write_text("a file where the folder should be")
    with pytest.raises(JobError, match="the model of this run cannot be written to"):
        write(writer)


def test_damaged_start_checkpoint_is_an_error(left, tmp_path: Path):
    start, _, folder = left
    copy = tmp_path / start.key
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    whole = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(JobError, match=r"is damaged \(model.safetensors"):
        run_job(starting_from(start), start_from=copy)


def test_start_checkpoint_with_weights_of_another_network_is_an_error(left, tmp_path: Path):
    start, _, _ = left
    with new_checkpoint(tmp_path / start.key, start) as draft:
        save_file({"some.weight": torch.zeros(2)}, draft / WEIGHTS)
    with pytest.raises(JobError, match="does not fit this model"):
        run_job(starting_from(start), start_from=tmp_path / start.key)


def test_missing_start_checkpoint_is_an_error(left):
    start, _, _ = left
    with pytest.raises(JobError, match="no folder with the encoder of run"):
        run_job(starting_from(start))
