"""Format tables in Markdown, and numbers in their cells."""

from collections.abc import Iterable, Sequence

DASH = "-"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(head), "|---" * len(head) + "|", *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None, form: str) -> str:
    return DASH if value is None else format(value, form)
