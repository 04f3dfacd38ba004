"""Tests that training in several processes equals training in one process."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchharness.machine import STORE
from benchharness.training.compute import ALONE, Compute, Ranks, _buckets
from benchharness.training.predict import OutOfMemoryError, predict
from tests.helpers import ROOT
from tests.helpers.training import RECIPE, begin, fit, having, make_data, make_network, weights_of

# The last batch of an epoch has one row, so all ranks except one have an empty share.
ROWS = 65
GRADUAL = having(RECIPE, epochs=3, unfreeze="gradual", accumulation=2)


def train(ranks, dropout):
    """Return the weights, the losses and the logits of a short training."""
    compute = Compute(device=torch.device("cpu"), precision="fp32", ranks=ranks)
    network, data = make_network(dropout), make_data(ROWS)
    training = begin(network, GRADUAL, data, compute=compute)
    fitted = fit(training, dict)
    logits = predict(network, data[0], compute, lambda _: None)
    return weights_of(network).numpy(), [point.loss for point in fitted.curve], logits


def run_out_on_rank_1(ranks):
    """Return the number of items in the error that every rank raises if one runs out of memory."""
    compute = Compute(device=torch.device("cpu"), precision="fp32", ranks=ranks)
    training = begin(make_network(), RECIPE, compute=compute)
    if ranks.rank == 1:
        loss = lambda logits, goals: (_ for _ in ()).throw(MemoryError)  # noqa: E731
        training.tasks = (replace(training.tasks[0], loss=loss),)
    try:
        training.step()
    except OutOfMemoryError as error:
        return error.items
    return 0


def main():
    """Run one of the processes: `-m` this FILE COUNT."""
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    # Fork the other processes, because importing torch in each would take longer than the test.
    rank = next((rank for rank in range(1, count) if os.fork() == 0), 0)
    os.environ.update(WORLD_SIZE=str(count), RANK=str(rank))
    train_and_save(file)
    if rank == 0:
        assert [os.wait()[1] for _ in range(1, count)] == [0] * (count - 1)


def train_and_save(file):
    ranks = Ranks.join(torch.device("cpu"))
    weights, losses, logits = train(ranks, 0.0)
    dropped, _, _ = train(ranks, 0.1)
    others = ranks.add_up(torch.from_numpy(weights)) / ranks.count
    lost = run_out_on_rank_1(ranks)
    decided = ranks.same(0.25 + ranks.rank), ranks.same(None if ranks.is_first else 0.5)
    np.savez(
        file.with_suffix(f".{ranks.rank}.npz"),
        weights=weights,
        dropped=dropped,
        losses=losses,
        logits=logits,
        apart=np.abs(others.numpy() - weights).max(),
        lost=lost,
        decided=np.array(decided, dtype=float),
    )


def train_together(folder, count):
    """Return the final state of each process."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        STORE: str(folder / "store"),
    }
    command = (
        sys.executable,
        "-m",
        "tests.benchharness.test_ranks",
        str(folder / "rank"),
        str(count),
    )
    subprocess.run(command, cwd=ROOT, env=environment, timeout=120, check=True)
    return [np.load(folder / f"rank.{rank}.npz") for rank in range(count)]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    return train_together(tmp_path_factory.mktemp("ranks"), 2)


@pytest.mark.soak
def test_training_in_two_processes_gives_the_weights_of_one_process(together):
    weights, losses, logits = train(ALONE, 0.0)
    for rank in together:
        np.testing.assert_allclose(rank["weights"], weights, atol=1e-5)
        np.testing.assert_allclose(rank["losses"], losses, atol=1e-5)
        np.testing.assert_allclose(rank["logits"], logits, atol=1e-5)


def test_all_training_processes_end_with_the_same_weights(together):
    assert np.array_equal(together[0]["weights"], together[1]["weights"])
    assert np.array_equal(together[0]["logits"], together[1]["logits"])
    assert together[0]["apart"] < 1e-6


def test_out_of_memory_in_one_process_stops_all_training_processes(together):
    assert int(together[0]["lost"]) == int(together[1]["lost"]) > 0


def test_all_processes_use_the_evaluation_score_of_rank_0(together):
    """Scores may differ in their last bits between two GPUs, but decisions must be equal."""
    for rank in together:
        assert rank["decided"][0] == 0.25
        assert np.isnan(rank["decided"][1]), "None"


def test_processes_have_different_dropout_and_the_same_weights(together):
    assert np.array_equal(together[0]["dropped"], together[1]["dropped"])
    alone, _, _ = train(ALONE, 0.1)
    assert not np.allclose(together[0]["dropped"], alone, atol=1e-5)


def test_dropout_seeds_depend_only_on_run_seed_rank_and_step():
    seeds = {Ranks(rank=rank, count=2).own_seed(7, step) for rank in (0, 1) for step in range(50)}
    assert len(seeds) == 100
    assert Ranks(rank=1, count=2).own_seed(7, 3) == Ranks(rank=1, count=4).own_seed(7, 3)


def test_batch_rows_are_divided_among_processes_with_similar_work():
    lengths = np.random.default_rng(1).integers(3, 500, 64)
    batch = np.random.default_rng(2).permutation(64)[:31]
    shares = [Ranks(rank=rank, count=4).share(batch, lengths) for rank in range(4)]
    assert sorted(np.concatenate(shares)) == sorted(batch)
    work = [lengths[share].sum() for share in shares]
    assert max(work) < 1.5 * min(work)
    assert np.array_equal(ALONE.share(batch, lengths), batch)


def test_training_in_one_process_needs_no_communication():
    values = torch.ones(3)
    assert ALONE.add_up(values) is values
    assert ALONE.greatest(5) == 5
    assert (ALONE.same(0.1), ALONE.same(None)) == (0.1, None)
    ALONE.add_gradients([torch.nn.Parameter(values)])


def test_gradients_are_exchanged_in_buckets_of_limited_size(monkeypatch):
    monkeypatch.setattr("benchharness.training.compute.BUCKET_NUMBERS", 10)
    weights = [torch.nn.Parameter(torch.zeros(size)) for size in (4, 5, 2, 30, 1)]
    assert [[w.numel() for w in bucket] for bucket in _buckets(weights)] == [[4, 5], [2], [30], [1]]
    assert list(_buckets([])) == []


if __name__ == "__main__":
    main()
