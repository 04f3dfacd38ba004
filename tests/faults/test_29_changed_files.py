"""Tests of fault 29: a file that changes but keeps its size and time is read again."""

import os
from pathlib import Path

from benchharness.models import find_model, weights_identity
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.official_files import read_file, write_file
from tests.helpers.plans import plan_job


def change(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes of a file by as many others, and restore its times."""
    before, content = path.stat(), path.read_bytes()
    assert len(old) == len(new)
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_29_changed_rows_change_fingerprint_and_job_key(tmp_path: Path) -> None:
    rows = "sentence\tlabel\nfine\t1\nodd\t0\n"
    write_file(tmp_path, "SST-2/dev.tsv", rows)
    data = write_file(tmp_path, "SST-2/train.tsv", rows)

    def key() -> str:
        job = plan_job("tiny", "glue/sst2", str(data))
        return job.key

    before, first = key(), read_file("glue/sst2", "train", data)
    change(tmp_path / "SST-2" / "train.tsv", b"fine\t1", b"fine\t0")
    second = read_file("glue/sst2", "train", data)
    assert first.fingerprint != second.fingerprint
    assert [example.label for example in second.examples] == ["negative", "negative"]
    assert key() != before


def test_29_changed_weights_change_the_model_identity(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "bert")
    before = weights_identity(find_model(str(folder)))
    file = folder / "model.safetensors"
    change(file, file.read_bytes()[-4:], b"\x00\x00\x00\x3f")
    assert weights_identity(find_model(str(folder))) != before
