"""Tests of fault 30: splits with one row, no rows, or one class only."""

from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.worker.job import run_job
from tests.helpers.official_files import read_file, write_file
from tests.helpers.plans import plan_job

HEADER = "sentence\tlabel\n"
VALUES = {"epochs": "1", "batch_size": "4", "evaluations": "1", "max_tokens": "8"}


def scores(folder: Path, train: str, dev: str) -> dict[str, float]:
    """Train and score the tiny encoder on these rows; return the scores."""
    write_file(folder, "SST-2/train.tsv", HEADER + train)
    data = write_file(folder, "SST-2/dev.tsv", HEADER + dev)
    job = plan_job("tiny", "glue/sst2", str(data), overrides=VALUES)
    (evaluation,) = run_job(job).evaluations
    return dict(evaluation.scores)


def test_30_job_with_one_row_per_split_is_trained_and_scored(tmp_path: Path) -> None:
    assert scores(tmp_path, "fine\t1\n", "good\t1\n")["accuracy"] in (0.0, 1.0)


def test_30_split_with_one_class_is_trained_and_scored(tmp_path: Path) -> None:
    rows = "".join(f"fine {n}\t1\n" for n in range(12))
    assert 0.0 <= scores(tmp_path, rows, rows)["accuracy"] <= 1.0


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("content", [HEADER, HEADER + "\n", ""])
def test_30_split_without_rows_is_an_error(tmp_path: Path, split: str, content: str) -> None:
    data = write_file(tmp_path, f"SST-2/{split}.tsv", content)
    with pytest.raises(DataError, match=r"empty|fields"):
        read_file("glue/sst2", split, data)
