"""Read and write the JSON record of a measurement, from which tables and figures are made."""

import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "begin", "load", "write"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"


def begin(checkpoint: str, note: str) -> dict[str, Any]:
    """Return the first fields of every record: time, commit, and facts about the encoder."""
    config = json.loads((Path(checkpoint) / "config.json").read_text(encoding="utf-8"))
    sizes = ("model_type", "num_hidden_layers", "hidden_size", "intermediate_size")
    return {
        "measured": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": _commit(),
        "note": note,
        "model": {name: config[name] for name in sizes},
    }


def _commit() -> str:
    """Return the commit that is measured, with a plus sign if the working tree has changes."""
    command = ("git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # the folder is a copy without git's history
        return "unknown"


def write(name: str, record: Mapping[str, Any], folder: Path = RESULTS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def load(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """Return a record; None if nothing was measured yet."""
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record
