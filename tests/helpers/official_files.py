"""Official files for tests: writing them and reading a task's split from them."""

import json
from collections.abc import Iterable
from pathlib import Path

from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.suites import TASKS


def write_file(folder: Path, name: str, content: str | bytes) -> Data:
    """Write the file `name` into `folder` and return the data source."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Data(source="files", folder=folder)


def to_lines(documents: Iterable[object]) -> str:
    """Return one JSON document per line."""
    return "".join(json.dumps(document) + "\n" for document in documents)


def read_file(task: str, split: str, data: Data) -> SplitRows:
    """Read a split of the task with this full name."""
    return read(TASKS[task], split, data)


def only(rows: SplitRows) -> Example:
    """Return the only example that was read."""
    (example,) = rows.examples
    return example
