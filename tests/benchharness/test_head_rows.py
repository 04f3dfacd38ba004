"""Tests of attention states that are grouped by row length and attention head."""

import pytest
import torch

from benchharness.encoder.cpu import HeadRows
from benchharness.encoder.packing import Packing

HEADS, SIZE = 3, 4


def packing_of(*lengths: int) -> Packing:
    return Packing.of((torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long())


@pytest.mark.parametrize("lengths", [(5, 1, 19, 8, 17), (8, 8), (1,)])
def test_gather_and_scatter_of_attention_states_are_inverse(lengths: tuple[int, ...]) -> None:
    packing = packing_of(*lengths)
    rows = HeadRows.of(packing, HEADS)
    states = torch.randn(sum(lengths), HEADS, SIZE)
    found = rows.gather(states)
    assert torch.equal(rows.scatter(found), states)
    assert len(found) == sum(len(g.rows) * HEADS * g.width for g in rows.groups)
    assert rows.places.unique().shape == rows.places.shape
    padding = torch.ones(len(found), dtype=torch.bool).index_fill(0, rows.places, value=False)
    spread = rows.spread(states)
    assert torch.equal(spread[rows.places], found[rows.places])
    assert not spread[padding].any()


def test_attention_group_has_its_sequences_ordered_by_attention_head() -> None:
    packing = packing_of(5, 20, 16)
    rows = HeadRows.of(packing, HEADS)
    states = torch.randn(41, HEADS, SIZE)
    short, long = (part for _, part in rows.by_group(rows.gather(states)))
    assert (short.shape, long.shape) == ((2 * HEADS, 16, SIZE), (HEADS, 32, SIZE))
    assert torch.equal(short[HEADS + 1], states[25:, 1])
    assert torch.equal(short[0, :5], states[:5, 0])
    assert torch.equal(long[2, :20], states[5:25, 2])


def test_layout_of_attention_rows_is_created_once_per_number_of_heads() -> None:
    packing = packing_of(3, 4)
    assert HeadRows.of(packing, HEADS) is HeadRows.of(packing, HEADS)
    assert HeadRows.of(packing, 1) is not HeadRows.of(packing, HEADS)


def test_gradients_of_reordered_states_reach_the_original_positions() -> None:
    rows = HeadRows.of(packing_of(5, 9), HEADS)
    states = torch.randn(14, HEADS, SIZE, requires_grad=True)
    weights = torch.randn(len(rows.order), SIZE)
    (rows.spread(states) * weights).sum().backward()
    assert torch.equal(states.grad, rows.scatter(weights))
