"""Official files as text: UTF-8, lines that end at a line feed, no byte order mark."""

from pathlib import Path

from tasks.errors import DataError

__all__ = ["read_lines", "read_text"]


def read_text(path: Path) -> str:
    """The file's text without a byte order mark; DataError names the line that is not UTF-8."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} line {line} is not UTF-8 text: get the official file.") from error


def read_lines(path: Path) -> list[str]:
    """The file's lines without a carriage return at their end.

    A line ends at a line feed only: a sentence may hold any other Unicode line break.
    """
    text = read_text(path)
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]
