"""Tests of fault 21: truncated or undecodable files are errors that name the place."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchharness.errors import DataError
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import Files, mini_folder
from benchharness.tasks.sources.hub import hub_rows
from benchharness.tasks.suites import find_task

TASKS = ("glue/sst2", "superglue/boolq", "squad/v2.0", "race/all", "swag/regular", "conll2003/ner")
"""One task per layout: TSV, JSON lines, SQuAD's JSON, a folder, quoted CSV, columns."""

every_layout = pytest.mark.parametrize("name", TASKS)


def read_changed(name: str, folder: Path, content: bytes) -> None:
    """Read the train split after its (first) file got this content."""
    task = find_task(name)
    path = folder / original_file(name).relative_to(mini_folder())
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    read(task, "train", Data(source="files", folder=folder))


def original_file(name: str) -> Path:
    source = find_task(name).source
    found = Files(mini_folder()).find(source, source.splits["train"])
    assert found is not None
    return Path(str(found.files[0]))


def original(name: str) -> bytes:
    return original_file(name).read_bytes()


@every_layout
def test_21_invalid_utf8_byte_is_an_error_that_names_the_line(tmp_path: Path, name: str) -> None:
    content = original(name)
    line = content.count(b"\n") // 2
    before = b"".join(content.splitlines(keepends=True)[:line])
    with pytest.raises(DataError, match=rf" line {line + 1} is not UTF-8 text"):
        read_changed(name, tmp_path, before + b"\xff" + content[len(before) :])


@every_layout
def test_21_truncated_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    """Cut the file inside its last row, or in the middle for SQuAD and RACE."""
    content = original(name).rstrip()
    end = content.rindex(b"\n") + 2 if name == "conll2003/ner" else len(content) - 2
    cut = content[: len(content) // 2] if name in ("squad/v2.0", "race/all") else content[:end]
    cut = cut.rsplit(b"\t", 1)[0] if name == "glue/sst2" else cut
    with pytest.raises(DataError, match=r"train|\.txt"):
        read_changed(name, tmp_path, cut)


def test_21_file_of_another_squad_version_is_detected_by_its_content(tmp_path: Path) -> None:
    for version, other in (("v1.1", "v2.0"), ("v2.0", "v1.1")):
        with pytest.raises(DataError, match=rf"train-{version}\.json contains SQuAD {other[1:]}"):
            read_changed(f"squad/{version}", tmp_path / version, original(f"squad/{other}"))


def test_21_race_file_without_passages_of_a_school_level_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no passage of the level"):
        read_changed("race/all", tmp_path, original("race/all"))


def damages(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[: len(content) // 2]
    yield content[:-1]
    yield b"PAR1" + b"\0" * 100 + b"PAR1"
    yield content[:40] + bytes(200) + content[240:]


@pytest.mark.parametrize("number", range(5))
def test_21_damaged_parquet_file_is_a_data_error(tmp_path: Path, number: int) -> None:
    """Let the real loader read a local file instead of the hub's."""
    import datasets

    path = tmp_path / "train.parquet"
    table = pa.table({"sentence": [f"It rains {n}." for n in range(50)], "label": [0, 1] * 25})
    pq.write_table(table, path)
    path.write_bytes(list(damages(path.read_bytes()))[number])
    real = datasets.load_dataset

    def load(*_: object, **__: object) -> object:
        files = {"train": str(path)}
        return real("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))

    source = replace(find_task("glue/cola").source, revision="main")
    with (
        patch("benchharness.tasks.sources.hub.go_offline_if_unreachable", lambda: False),
        patch("datasets.load_dataset", load),
        pytest.raises(DataError, match=r"nyu-mll/glue \(cola\) could not be loaded"),
    ):
        hub_rows(source, "train")
