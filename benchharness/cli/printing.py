"""Plain data on stdout: as JSON, as a table, or as an outline of names and values."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from leaderboard.visible import visible

__all__ = ["outline", "print_json", "print_outline", "print_table"]

PIPE_WIDTH = 200
"""Columns of a table that no terminal's width bounds: keys and names stay on one line."""


def print_json(data: object) -> None:
    """Print JSON; NaN is refused because JSON has none."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False))


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], empty: str) -> None:
    """Print the named columns of rows, or the sentence `empty` where there are none.

    Values are shown as text: rich markup in a model's name has no effect.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        typer.echo(empty)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        is_number = all(isinstance(row[column], int | float | None) for row in rows)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(row[column])) for column in columns))
    bounded = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if bounded else PIPE_WIDTH).print(table)


def print_outline(facts: Mapping[str, Any]) -> None:
    """Print nested names and values, one a line."""
    typer.echo("\n".join(outline(facts)))


def outline(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The lines of an outline; what is empty is left out, a sourced value stays on one line."""
    deeper = indent + "  "
    for name, value in facts.items():
        label = f"{indent}{visible(name)}:"
        match value:
            case None | "" | []:
                continue
            case Mapping() if not value:
                continue
            case {"value": inner, "source": source}:
                yield f"{label} {_text(inner)}  ({visible(str(source))})"
            case Mapping():
                yield label
                yield from outline(value, deeper)
            case str() if "\n" in value:
                yield label
                yield from (deeper + visible(line) for line in value.splitlines())
            case _:
                yield f"{label} {_text(value)}"


def _text(value: object) -> str:
    """A value on one line, as a person reads it; empty for nothing."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
        case Mapping():
            return ", ".join(
                f"{visible(str(name))} {_text(inner)}" for name, inner in value.items()
            )
        case list() | tuple():
            return ", ".join(_text(inner) for inner in value)
    return visible(str(value))
