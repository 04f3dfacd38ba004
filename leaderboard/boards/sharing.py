"""What is shared with others (the page, exports, cards) without the paths of this machine.

A path is shown by its last part and six digits that tell it from others of that name:
"glue_data#3fa2c1". Everything that is written for others passes through here before it is made.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from getpass import getuser
from pathlib import Path, PurePath
from typing import Any

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.result import Failure, Result

# Takes the path of "read /data/glue, then", "file:///data/glue" and "~me/glue", and nothing of
# "glue/rte", "and/or" and "https://host/page".
_PATH = re.compile(
    r"(?:(?<=://)|(?<=:///)|(?<![\w./~-]))(?:~[\w.-]*)?/(?![/\s])[^\s'\"<>|:;,()\[\]{}`]+", re.ASCII
)
"""An absolute path, also after "file://", or one that begins in a home folder; in other addresses
every slash stands behind a letter or another slash."""


def path_label(path: str) -> str:
    """A path by its last part, with digits that are the same for the same path."""
    digits = hashlib.sha256(path.encode("utf-8", "backslashreplace")).hexdigest()[:6]
    name = PurePath(path).name
    return f"{'folder' if name in ('', *_users()) else name}#{digits}"


def without_paths(text: str, known: Iterable[str] = ()) -> str:
    """The text with its paths as `path_label` has them.

    `known` are paths that it may hold, which are found also where they have spaces.
    """
    # The longest first, since one may be the beginning of another; the home before the pattern,
    # which takes "~/glue" too.
    for path in sorted(filter(_is_path, known), key=len, reverse=True):
        text = text.replace(path, path_label(path))
    if _is_path(home := _home()):
        text = text.replace(home, "~")

    def labelled(found: re.Match[str]) -> str:
        # The dot behind it ends the sentence.
        path = found[0].rstrip(".")
        return path_label(path) + found[0][len(path) :]

    return _PATH.sub(labelled, text)


@cache
def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # a user without one
        return ""


@cache
def _users() -> tuple[str, ...]:
    """What the user's own folders may be called."""
    with suppress(KeyError, OSError):  # a user without a name
        return (getuser(), PurePath(_home()).name)
    return (PurePath(_home()).name,)


def _is_path(text: str) -> bool:
    return len(text) > 1 and PurePath(text).is_absolute()


def shared_board(board: Board) -> Board:
    """The board as others see it: its folders, and what it says of files that could not be read."""
    entries, known = [], board.data
    for entry in board.entries:
        failures = (replace(run, error=without_paths(run.error, known)) for run in entry.failures)
        sure = entry.uncertainty
        if sure is not None:
            cells = {
                task: replace(each, reason=without_paths(each.reason, known))
                for task, each in sure.cells.items()
            }
            sure = replace(sure, cells=cells)
        entries.append(replace(entry, failures=tuple(failures), uncertainty=sure))
    return replace(
        board,
        data=tuple(path_label(data) if _is_path(data) else data for data in board.data),
        entries=tuple(entries),
        imported=tuple(
            replace(run, source=without_paths(run.source, board.data)) for run in board.imported
        ),
    )


def shared_outcome(outcome: Result | Failure) -> Result | Failure:
    """The run as others see it; its key, its scores and its predictions stay."""
    job, is_file = outcome.job, outcome.job.kind == "scored"
    # The places that a job names: its checkpoint, its data, and the files that it scored.
    sources = [setting.source for setting in job.settings.values() if is_file]
    start = job.start.name if job.start else ""
    known = tuple(filter(_is_path, (job.checkpoint, job.data, start, *sources)))
    settings = {}
    for name, each in job.settings.items():
        is_place = is_file and "/" in each.source
        source = path_label(each.source) if is_place else without_paths(each.source, known)
        settings[name] = replace(each, source=source)
    shared = replace(  # its key does not follow from the places
        job,
        checkpoint=without_paths(job.checkpoint, known),
        data=without_paths(job.data, known),
        source=without_paths(job.source, known),
        settings=settings,
        start=job.start and replace(job.start, name=without_paths(start, known)),
    )
    if isinstance(outcome, Failure):
        return replace(
            outcome,
            job=shared,
            error=without_paths(outcome.error, known),
            details=without_paths(outcome.details, known),
        )
    provenance = {name: _walked(value, known) for name, value in outcome.provenance.items()}
    return replace(outcome, job=shared, provenance=provenance)


def _walked(value: Any, known: Iterable[str]) -> Any:
    """Plain data with every text in it shared."""
    match value:
        case str():
            return without_paths(value, known)
        case Mapping():
            return {name: _walked(inner, known) for name, inner in value.items()}
        case list() | tuple():
            return [_walked(inner, known) for inner in value]
    return value
