"""Several processes train as one does: by our launcher's file, by torchrun's port."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from benchharness.machine import STORE
from benchharness.training.compute import ALONE, Ranks, _buckets
from tests.helpers import ROOT
from tests.helpers.ranked_training import train

MODULE = "tests.helpers.ranked_training"


def train_together(folder, count):
    """What each of the processes has at the end."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        STORE: str(folder / "store"),
    }
    command = (sys.executable, "-m", MODULE, str(folder / "rank"), str(count))
    subprocess.run(command, cwd=ROOT, env=environment, timeout=120, check=True)
    return [np.load(folder / f"rank.{rank}.npz") for rank in range(count)]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    return train_together(tmp_path_factory.mktemp("ranks"), 2)


def test_two_processes_have_the_weights_of_one(together):
    weights, losses, logits = train(ALONE, 0.0)
    for rank in together:
        np.testing.assert_allclose(rank["weights"], weights, atol=1e-5)
        np.testing.assert_allclose(rank["losses"], losses, atol=1e-5)
        np.testing.assert_allclose(rank["logits"], logits, atol=1e-5)


def test_all_of_them_have_the_same_weights(together):
    assert np.array_equal(together[0]["weights"], together[1]["weights"])
    assert np.array_equal(together[0]["logits"], together[1]["logits"])
    assert together[0]["apart"] < 1e-6


def test_where_memory_runs_out_on_one_all_of_them_stop(together):
    assert int(together[0]["lost"]) == int(together[1]["lost"]) > 0


def test_all_of_them_decide_by_the_number_of_the_first(together):
    """An evaluation may differ in its last bits between two GPUs, and a best one or a stop not."""
    for rank in together:
        assert rank["decided"][0] == 0.25
        assert np.isnan(rank["decided"][1]), "None"


def test_with_dropout_they_draw_differently_and_stay_the_same(together):
    assert np.array_equal(together[0]["dropped"], together[1]["dropped"])
    alone, _, _ = train(ALONE, 0.1)
    assert not np.allclose(together[0]["dropped"], alone, atol=1e-5)


def test_draws_follow_from_rank_and_step_alone():
    seeds = {Ranks(rank=rank, count=2).own_seed(7, step) for rank in (0, 1) for step in range(50)}
    assert len(seeds) == 100
    assert Ranks(rank=1, count=2).own_seed(7, 3) == Ranks(rank=1, count=4).own_seed(7, 3)


def test_every_row_is_the_share_of_one_and_shares_are_of_like_work():
    lengths = np.random.default_rng(1).integers(3, 500, 64)
    batch = np.random.default_rng(2).permutation(64)[:31]
    shares = [Ranks(rank=rank, count=4).share(batch, lengths) for rank in range(4)]
    assert sorted(np.concatenate(shares)) == sorted(batch)
    work = [lengths[share].sum() for share in shares]
    assert max(work) < 1.5 * min(work)
    assert np.array_equal(ALONE.share(batch, lengths), batch)


def test_alone_nothing_is_exchanged():
    values = torch.ones(3)
    assert ALONE.add_up(values) is values
    assert ALONE.greatest(5) == 5
    assert (ALONE.same(0.1), ALONE.same(None)) == (0.1, None)
    ALONE.add_gradients([torch.nn.Parameter(values)])


def test_gradients_are_sent_in_buckets(monkeypatch):
    monkeypatch.setattr("benchharness.training.compute.BUCKET_NUMBERS", 10)
    weights = [torch.nn.Parameter(torch.zeros(size)) for size in (4, 5, 2, 30, 1)]
    assert [[w.numel() for w in bucket] for bucket in _buckets(weights)] == [[4, 5], [2], [30], [1]]
    assert list(_buckets([])) == []
