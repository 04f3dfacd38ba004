"""Findings of a check as text for a terminal, and as a Markdown comment on a pull request."""

import re
from collections.abc import Iterator, Sequence

from benchharness.extensions.share.checks import Checked
from benchharness.extensions.share.inspect import Finding
from benchharness.leaderboard.text import counted, table_cell, visible

MARK = "<!-- benchharness: shared results -->"
"""First line of a comment, by which the workflow finds it in order to replace it."""

MOST_SHOWN, MOST_NOTES = 50, 20
"""Largest numbers of faults and of notes in a comment. GitHub accepts 65,536 characters."""

_LONGEST = 300  # characters of a sentence, before characters of Markdown are escaped


def markdown(checked: Checked, sentences: Sequence[str]) -> str:
    """Return the comment on a pull request.

    Names and sentences may come from an untrusted archive, so names are shown as code, and in
    sentences the characters of Markdown, links and mentions are escaped.

    Args:
        checked: Result of the check.
        sentences: Sentences about the sample.
    """
    return "\n".join(_lines(checked, sentences)) + "\n"


def _lines(checked: Checked, sentences: Sequence[str]) -> Iterator[str]:
    faults, others = checked.faults, [each for each in checked.findings if not each.is_fault]
    yield MARK
    if faults:
        yield f"### This contribution cannot be accepted yet: {counted(len(faults), 'problem')}"
        yield ""
        yield (
            "Correct these files and push again; this comment is then updated. `bench share check` "
            "prints the same on your machine."
        )
        yield ""
        yield from _table(faults)
    else:
        yield "### No problems found"
        yield ""
        yield "A maintainer can merge this contribution."
    for note in (*checked.notes[:MOST_NOTES], *sentences):
        yield ""
        yield inert_markdown(note)
    if others:
        yield ""
        yield "For information:"
        yield ""
        yield from _table(others, MOST_NOTES)


def _table(findings: Sequence[Finding], most: int = MOST_SHOWN) -> Iterator[str]:
    yield "| file | run | kind | problem, and what to do |"
    yield "|---|---|---|---|"
    for each in findings[:most]:
        place, run = (f"`{table_cell(text).replace('`', '')}`" for text in (each.place, each.run))
        cells = (place, run if each.run else "", each.kind, inert_markdown(each.sentence))
        yield f"| {' | '.join(cells)} |"
    if (more := len(findings) - most) > 0:
        yield f"\nand {more} more."


def inert_markdown(text: str) -> str:
    """Return a text as Markdown without links, mentions, images and markup.

    The text is shortened to 300 characters, and then its characters of Markdown are escaped.
    """
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."
    plain = visible(short.replace("\n", " ")).replace("@", "(at)").replace("://", ": //")
    return re.sub(r"([\\`*_\[\]!#~|])", r"\\\1", plain.replace("<", "&lt;"))


def lines(checked: Checked) -> Iterator[str]:
    """Yield the findings as lines for a terminal, faults first."""
    for each in sorted(checked.findings, key=lambda each: not each.is_fault):
        run = f" run {each.run}" if each.run else ""
        mark = "" if each.is_fault else "note: "
        yield f"{each.place}{run}: {mark}{each.kind}: {each.sentence}"
