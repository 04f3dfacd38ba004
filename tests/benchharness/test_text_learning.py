"""Tests that a random T5 with two layers learns to generate answers (docs/log.md)."""

from pathlib import Path

import pytest

from benchharness.splits import headline
from benchharness.worker.job import run_job
from tests.helpers.text_models import save_text_model, text_job

WIDE = {"d_model": 128, "d_kv": 32, "d_ff": 256}
QUICK = {"steps": "0", "epochs": "20", "batch_size": "32", "evaluations": "4", "dropout": "0"}
SLOW = {
    "steps": "16000",
    "batch_size": "32",
    "evaluations": "32",
    "max_grad_norm": "1",
    "optimizer": "adamw",
    "adam_beta2": "0.98",
    "learning_rate": "0.001",
    "warmup_steps": "100",
    "dropout": "0.2",
    "weight_decay": "0.5",
}
"""Dev stays at chance for 6,000 steps or more; docs/log.md has a curve."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "least", "sizes", "values"),
    [
        ("glue/sst2", 0.65, WIDE, QUICK),
        ("glue/mnli", 0.6, WIDE, QUICK),
        ("glue/stsb", 0.5, WIDE, QUICK),
        ("squad/v1.1", 0.4, WIDE, QUICK),
        pytest.param("superglue/copa", 0.8, {}, SLOW, marks=pytest.mark.timeout(3600)),
    ],
)
def test_randomly_initialized_t5_learns_each_task(
    name: str, least: float, sizes: dict[str, int], values: dict[str, str], tmp_path: Path
) -> None:
    """Require scores far above those of the majority baseline: 0.49, a third, 0, 0 and a half."""
    folder = save_text_model(tmp_path / "t5", **sizes)
    dev = run_job(text_job(folder, name, None, **values)).evaluations[0]
    found = headline(dev.name, dev.scores)
    assert found is not None
    assert found > least, dev.flags
