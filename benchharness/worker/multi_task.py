"""Many tasks together: one encoder under the heads of several tasks.

As Liu et al., arXiv:1901.11504, section 3, have it: the encoder with its pooler is shared, and each
task has output layers of its own. Which task a step is of, `mixed_batches` in training/batching.py
draws.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from benchharness.encoder import Encoder
from benchharness.encoder.network import is_foreign
from benchharness.heads import Head
from benchharness.tasks.errors import ModelError
from benchharness.tasks.task import Task
from benchharness.worker.task_setup import TaskSetup
from benchharness.worker.technique import Technique


class MultiTask(Technique):
    """The tasks of a job share its encoder."""

    def shared_network(self, setups: Sequence[TaskSetup], encoder: Encoder) -> nn.Module:
        """Each setup's own network, on the one encoder."""
        shared = share(encoder, [(setup.head, setup.task) for setup in setups])
        for setup, own in zip(setups, shared.networks, strict=True):
            setup.network = own
        return shared


technique = MultiTask

_READS_BY_HEAD = {
    "funnel": "its decoder is there for some of them alone",
    "longformer": "which of its tokens see all others depends on it",
}
"""Families (transformers' model_type) that a head type changes, and how."""


class SharedEncoder(nn.Module):
    """The networks of several tasks that have one encoder, in the order of the tasks.

    It is no network of its own: what is computed goes through one of `networks`.
    """

    def __init__(self, encoder: Any, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.networks = nn.ModuleList(networks)  # whose encoder is the one above
        # What the last layer leaves out, no other head may read.
        self.reads_first_token = all(getattr(n, "reads_first_token", False) for n in networks)


def share(encoder: Encoder, heads: Sequence[tuple[Head, Task]]) -> SharedEncoder:
    """The networks of these heads on one encoder.

    Raises ModelError for a family that each head type uses in another way, where there are several.
    """
    types = {task.head for _, task in heads}
    if encoder.family in _READS_BY_HEAD and len(types) > 1:
        raise ModelError(
            f"heads of unlike types ({', '.join(sorted(types))}) cannot share {encoder.family}: "
            f"{_READS_BY_HEAD[encoder.family]}; train tasks of one head type together."
        )
    pooler = getattr(encoder.network, "pooler", None)
    networks = []
    for head, task in heads:
        if pooler is not None and not is_foreign(encoder.network):
            encoder.network.pooler = pooler  # the head before has taken it off
        networks.append(head.network(encoder, task))  # drawn in the order of the tasks
    return SharedEncoder(encoder.network, networks)
