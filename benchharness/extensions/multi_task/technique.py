"""Multi-task technique: the heads of several tasks share one encoder.

As in Liu et al., arXiv:1901.11504, section 3, the encoder with its pooler is shared, and each task
has its own output layers. `mixed_batches` in training/batching.py draws the task of each step.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from benchharness.encoder import Encoder
from benchharness.encoder.network import is_foreign
from benchharness.errors import ModelError
from benchharness.heads import Head
from benchharness.tasks.task import Task
from benchharness.worker.task_setup import TaskSetup
from benchharness.worker.technique import Technique


class MultiTask(Technique):
    """Technique that makes the tasks of a job share its encoder."""

    def shared_network(self, setups: Sequence[TaskSetup], encoder: Encoder) -> nn.Module:
        """Create the networks of all tasks on one encoder, and return a container of them.

        The network of each setup is set to the network of its task.
        """
        shared = share(encoder, [(setup.head, setup.task) for setup in setups])
        for setup, own in zip(setups, shared.networks, strict=True):
            setup.network = own
        return shared


_READS_BY_HEAD = {
    "funnel": "only some head types use its decoder",
    "longformer": "the head type determines which tokens have global attention",
}
"""Families (transformers' model_type) whose encoder depends on the head type, with the reason."""


class SharedEncoder(nn.Module):
    """Container of the networks of several tasks, which use the same encoder.

    The container has no forward pass: each batch is computed by the network of its task.

    Attributes:
        encoder: Encoder that all networks use.
        networks: Network of each task, in the order of the tasks.
        reads_first_token: True if no network reads the state of any token but the first.
    """

    def __init__(self, encoder: Any, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.networks = nn.ModuleList(networks)  # all of them use `self.encoder`
        # The last layer may skip the other tokens only if no head reads them.
        self.reads_first_token = all(getattr(n, "reads_first_token", False) for n in networks)


def share(encoder: Encoder, heads: Sequence[tuple[Head, Task]]) -> SharedEncoder:
    """Create the networks of several tasks on one encoder, and return them in a container.

    Args:
        encoder: Encoder that the networks share.
        heads: Pairs of a head and its task, one per task.

    Raises:
        ModelError: The head types differ, but the encoder of this family depends on the head type.
    """
    types = {task.head for _, task in heads}
    if encoder.family in _READS_BY_HEAD and len(types) > 1:
        raise ModelError(
            f"heads of different types ({', '.join(sorted(types))}) cannot share {encoder.family}, "
            f"because {_READS_BY_HEAD[encoder.family]}: train tasks of one head type together."
        )
    pooler = getattr(encoder.network, "pooler", None)
    networks = []
    for head, task in heads:
        if pooler is not None and not is_foreign(encoder.network):
            encoder.network.pooler = pooler  # the previous head may have removed it
        networks.append(head.network(encoder, task))  # draws the random weights of the head
    return SharedEncoder(encoder.network, networks)
