"""Synthetic samples and verdicts for the tests of the regression check."""

from dataclasses import replace

from benchharness.extensions.gate.judge import judge
from benchharness.extensions.gate.sample import Conditions, Sample

SPLIT = "glue/rte:dev"
IDS = {SPLIT: ["a", "b|<b>c", "d\u202e", "e"], "glue/cola:dev": ["w", "x", "y", "z"]}


def conditions(**fields):
    return replace(
        Conditions(
            weights="revision 1",
            fingerprints={"glue/rte:train": "11", SPLIT: "22"},
            settings={"epochs": 3, "batch_size": 8},
            precision="fp32",
            task_version=1,
            method=2,
            plugins={},
        ),
        **fields,
    )


def sample(scores, right, split=SPLIT, **fields):
    """Return a sample with seeds 1, 2, ...; `right` is one text for all seeds or one per seed."""
    runs = (right,) * len(scores) if isinstance(right, str) else tuple(right)
    return Sample(
        conditions=conditions(**fields),
        seeds=tuple(range(1, len(scores) + 1)),
        scores=tuple(scores),
        right={split: runs},
    )


LARGE = "1" * 100
BEFORE = {
    "glue/rte": sample((0.80, 0.81, 0.79, 0.80, 0.82), "1101" + LARGE),
    "glue/cola": sample((0.50, 0.52, 0.51, 0.49, 0.50), "1111" + LARGE, "glue/cola:dev"),
}
MORE_IDS = {split: [*ids, *map(str, range(100))] for split, ids in IDS.items()}


def verdict(rte=(0.60, 0.62), cola=(0.50, 0.51), **fields):
    """Return a verdict in which RTE falls by 19 points and CoLA does not."""
    now = {
        "glue/rte": sample(rte, "1010" + LARGE),
        "glue/cola": sample(cola, "1111" + LARGE, "glue/cola:dev"),
    }
    return judge("tiny on mini data", BEFORE, now, MORE_IDS, alpha=0.05, **fields)
