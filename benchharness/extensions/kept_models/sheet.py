"""The sheet in a model card, and the section of a sheet about variants of an exported model."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchharness.errors import BenchError
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import table_cell, visible
from benchharness.stored import Within
from benchharness.stored.sheet import Line, Part, Subject, Table, parts_of, subjects_of

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.measure import Check

VARIANTS = "variants.json"
"""File in an exported folder with the comparisons of its ONNX files with the model."""


def write_variants(folder: Path, checks: "Sequence[Check]") -> None:
    """Write the comparisons of an exported model's variants to its folder."""
    text = json.dumps([each.to_json() for each in checks], indent=1)
    (folder / VARIANTS).write_text(text + "\n", encoding="utf-8")


def part(subject: Subject) -> Part | None:
    """Return the section about variants; None if the sheet has no folder with a comparison."""
    if subject.folder is None or not (subject.folder / VARIANTS).is_file():
        return None
    try:
        text = (subject.folder / VARIANTS).read_text(encoding="utf-8")
        found: list[dict[str, Any]] = json.loads(text)
        lines = tuple(map(_line, found))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise BenchError(
            f"{subject.folder / VARIANTS} cannot be read ({error}): export the model again."
        ) from error
    columns = ("file", "model's score", "its score", "differ", "time per row", "size", "ms p50")
    return Part(
        text=" ".join(str(each["sentence"]) for each in found),
        basis="The predictions of each file were compared with the model's when it was "
        "exported. Time and size are shares of the model's.",
        tables=[Table(title="Variants", columns=columns, lines=lines)],
        facts={str(each["variant"]): each for each in found},
    )


def _line(found: dict[str, Any]) -> Line:
    one, other = found["costs"]
    return Line(
        cells=(
            str(found["variant"]),
            *(shown(score) for score in found["scores"]),
            f"{found['differ']:,}",
            f"{found['time']:.2f}",
            f"{other['bytes'] / one['bytes']:.2f}",
            f"{other['p50']:.1f}",
        ),
        evidence=str(found["task"]),
    )


def card_sections(store: Store, key: str, task: str) -> list[str]:
    """Return what extensions know about a run as sections of a model card, in Markdown.

    Args:
        store: Store that contains the run.
        key: Key of the run.
        task: Full name of the task of the model.
    """
    try:
        subjects = list(subjects_of(store, key, Within(tasks=(task,))))
    except BenchError:  # the run is hidden, so no leaderboard contains it
        return []
    return [
        "\n\n".join(_markdown(heading, found))
        for subject in subjects[:1]
        for heading, found in parts_of(subject)
        if found.text or found.tables
    ]


def _markdown(heading: str, found: Part) -> Iterator[str]:
    yield f"### {visible(heading)}"
    yield from (visible(text) for text in (found.text, found.basis) if text)
    for table in found.tables:
        rows = [table.columns, ["---"] * len(table.columns), *(line.cells for line in table.lines)]
        lines = "\n".join(f"| {' | '.join(map(table_cell, row))} |" for row in rows)
        yield f"{visible(table.title)}:\n\n{lines}"
    yield from (f"- Not measured: {visible(said)}" for said in found.missing)
