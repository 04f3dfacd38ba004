"""Write a sheet as an HTML page, as JSON data, and as text for a terminal."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.leaderboard.report.addition import added_styles
from benchharness.leaderboard.report.write import render_page
from benchharness.leaderboard.text import visible
from benchharness.stored.sheet import Evidence, Part, Subject
from benchharness.tasks.suites import distinct_title

_HERE = Path(__file__).parent
_NUMBER = re.compile(r"[-+–<]?[\d.,:]+(e-\d+)?( ?%| s| MB)?[*!]?( to -?[\d.]+)?|–")

MOST_IDS = 100
"""Largest number of ids of wrong rows that a page lists per set of rows; the JSON data have all."""


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """Sheet of a system.

    Attributes:
        subject: System and its tasks.
        parts: Sections of the sheet, keyed by heading.
        pages: URLs of the pages with all predictions, keyed by task; empty without `--predictions`.
    """

    subject: Subject
    parts: Mapping[str, Part]
    pages: Mapping[str, str]

    @property
    def title(self) -> str:
        """Title of the page: the name of the system and its tasks."""
        tasks = ", ".join(distinct_title(task) for task in self.subject.tasks)
        return f"{self.subject.entry.name} on {tasks}"

    @property
    def results(self) -> list[tuple[int, str, Part]]:
        """Tuples (number on the page, heading, section) of the sections with a result.

        Sections with a problem come first.
        """
        found = [
            (number, heading, part)
            for number, (heading, part) in enumerate(self.parts.items(), 1)
            if part.text
        ]
        return sorted(found, key=lambda each: not each[2].is_bad)


def is_number(text: str) -> bool:
    """Return whether the text of a cell is a number or an interval, and so is aligned right."""
    return bool(_NUMBER.fullmatch(text))


def render_sheet(sheet: Sheet, generated: str, version: str) -> str:
    """Return a sheet as an HTML page without scripts.

    Args:
        sheet: Sheet to render.
        generated: Date and time of the page, as text.
        version: Version of benchharness.
    """
    anchors: dict[tuple[Evidence, str], str] = {}
    links: dict[tuple[str, str], str] = {}
    for heading, part in sheet.parts.items():
        for name, rows in part.evidence.items():
            key = (rows, sheet.pages.get(rows.task, ""))
            links[heading, name] = anchors.setdefault(key, f"rows-{len(anchors) + 1}")
    return render_page(
        "sheet.html.j2",
        ("style.css", *added_styles(), "sheet.css"),
        (),
        assets=_HERE,
        sheet=sheet,
        links=links,
        anchors=anchors,
        most=MOST_IDS,
        is_number=is_number,
        generated=generated,
        version=version,
    )


def to_json(sheet: Sheet) -> dict[str, Any]:
    """Return a sheet as JSON data."""
    subject = sheet.subject
    return {
        "system": subject.entry.name,
        "suite": subject.board.suite,
        "data": list(subject.board.data),
        "limit": subject.board.limit,
        "tasks": list(subject.tasks),
        "runs": [run.key for run in subject.entry.runs],
        "problems": [heading for _, heading, part in sheet.results if part.is_bad],
        "sections": {
            heading: {
                "text": part.text,
                "basis": part.basis,
                "missing": list(part.missing),
                "facts": dict(part.facts),
                "rows": {name: vars(rows) for name, rows in part.evidence.items()},
            }
            for heading, part in sheet.parts.items()
        },
    }


def to_text(sheet: Sheet) -> str:
    """Return a sheet as lines for a terminal: results (problems first), then missing results."""
    lines = [sheet.title]
    lines += [f"  {heading}: {part.text}" for _, heading, part in sheet.results]
    for heading, part in sheet.parts.items():
        lines += [f"  {heading}, missing: {said}" for said in part.missing]
    return "\n".join(map(visible, lines))
