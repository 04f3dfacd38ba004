"""The bytes of a file as lines: UTF-8 without a mark, lines that end in a line feed."""

from tasks.submission.faults import Faults

__all__ = ["Line", "decoded", "lines_of"]

Line = tuple[int, str]
"""A line's number from 1, and its text without its end."""

MARK = "\ufeff"


def decoded(content: bytes, faults: Faults) -> str | None:
    """The text, without a byte order mark; None where it is not UTF-8."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        faults.add("it is not UTF-8 text", line)
        return None
    if text.startswith(MARK):
        faults.add("it begins with a byte order mark", 1, mendable=True)
    return text.removeprefix(MARK)


def lines_of(text: str, faults: Faults) -> list[Line]:
    """The lines that are not empty."""
    if "\r" in text:
        faults.add("its lines end in a carriage return", 1, mendable=True)
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = list(enumerate(text.removesuffix("\n").split("\n"), start=1))
    for number, line in lines:
        if not line.strip():
            faults.add("the line is empty", number, mendable=True)
    return [(number, line) for number, line in lines if line.strip()]
