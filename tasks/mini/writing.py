"""Writing text and JSON lines with the same bytes on every system."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["to_json", "write_json_lines", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with line feeds, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def to_json(content: object) -> str:
    """One line of JSON, keys in the order given."""
    return json.dumps(content, ensure_ascii=False)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one JSON object a line."""
    write_text(path, "".join(f"{to_json(row)}\n" for row in rows))
