"""Processes that train small networks together, with dropout too: `-m` this FILE COUNT."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchharness.training.compute import Compute, Ranks
from benchharness.training.predict import OutOfMemoryError, predict
from tests.helpers.fitting import fit
from tests.helpers.training import RECIPE, begin, having, make_data, make_network, weights_of

# The last batch of an epoch has one row, so that all ranks but one have nothing to do.
ROWS = 65
GRADUAL = having(RECIPE, epochs=3, unfreeze="gradual", accumulation=2)


def train(ranks, dropout):
    """The weights, the losses and the logits of a short training."""
    compute = Compute(device=torch.device("cpu"), precision="fp32", ranks=ranks)
    network, data = make_network(dropout), make_data(ROWS)
    training = begin(network, GRADUAL, data, compute=compute)
    fitted = fit(training, dict)
    logits = predict(network, data[0], compute, lambda _: None)
    return weights_of(network).numpy(), [point.loss for point in fitted.curve], logits


def run_out_on_rank_1(ranks):
    """What every rank raises where memory runs out on one of them."""
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
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    # Forked, because importing torch takes each of them longer than all that follows.
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


if __name__ == "__main__":
    main()
