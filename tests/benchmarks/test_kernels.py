"""Tests of the count of kernels per training step, on a simulated GPU."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from benchmarks.kernels import Kernels, count


@pytest.mark.parametrize(("family", "most"), [("bert", 128), ("roberta", 130), ("distilbert", 137)])
def test_training_step_launches_few_kernels_and_never_synchronizes(family: str, most: int) -> None:
    """Count the kernels of two layers; `python -m benchmarks.kernels` has the number of twelve."""
    sizes = {"n_layers": 2} if family == "distilbert" else {"num_hidden_layers": 2}
    found, waits = count(family, sizes)
    assert waits == 0
    assert 0.9 * most < found.total() <= most, found


def test_kernel_count_excludes_tensor_views() -> None:
    states = torch.ones(4, 6, requires_grad=True)
    with Kernels() as kernels:
        (states.view(2, 12).T[0] * torch.empty(2)).sum().backward()
    # The forward pass has a product and a sum. The backward pass has its initial ones, a product,
    # and the gradient of the selected row, which is copied into the layout of the states.
    assert kernels.found == {"mul": 2, "sum": 1, "ones_like": 1, "select_backward": 2, "clone": 1}
