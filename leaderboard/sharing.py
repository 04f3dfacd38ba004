"""Shortening of this machine's paths in everything that is written or sent.

"/home/me/glue_data" becomes "glue_data#3fa2c1"; the six digits distinguish folders with the same
name. Paths are shortened in reports, exports, archives, model folders, and in what experiment
trackers receive. They are not shortened with `--show-paths`, in tables in the terminal, and in
copies of a store for the same machine.
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

from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.tasks.custom import custom_tasks

# The pattern matches the path in "read /data/glue, then", "file:///data/glue" and "~me/glue". It
# matches nothing in "glue/rte", "and/or" and "https://host/page".
_TAG = r"(?!(?<=<)/\w+>)(?!(?<=\[)/\w+\])"
"""Condition that excludes closing marks in texts, such as "</s>" and "[/INST]"."""

_START, _REST = (
    rf"(?:(?<=://)|(?<=:///)|(?<![\w./~-])){_TAG}",
    r"/(?![/\s])[^\s'\"<>|:;,()\[\]{}`]+",
)
_PATH = rf"{_START}(?:~[\w.-]*)?{_REST}"
"""Pattern for a path that is absolute (also after "file://") or begins with "~". It does not match
in other URLs, where every slash follows a letter or another slash.
"""


def path_label(path: str) -> str:
    """Return the last component of a path, followed by "#" and six hex digits of a digest.

    The digest is computed from the complete path. If the last component is the name of the user, it
    is replaced by "folder".
    """
    digits = hashlib.sha256(path.encode("utf-8", "backslashreplace")).hexdigest()[:6]
    name = PurePath(path).name
    return f"{'folder' if name in ('', *_users()) else name}#{digits}"


def is_label(text: str) -> bool:
    """Return whether a text ends like an output of `path_label`, i.e. with "#" and six hex digits.

    Such a text is a shortened path, which cannot be opened.
    """
    return bool(re.search("#[0-9a-f]{6}$", text))


def without_paths(text: str, known: Iterable[str] = ()) -> str:
    """Return the text with all absolute paths, and paths that begin with "~", shortened.

    A path is replaced by its `path_label`. If only the home folder in a path is recognized, as in
    "-I/home/me", the home folder is replaced by "~".

    Args:
        text: Any text, e.g. an error message.
        known: Paths that may occur in the text. They are found even if they contain spaces.
    """
    if "/" not in text:
        return text
    # Replace the longest paths first, because a path may be a prefix of another.
    for path in sorted(filter(_is_path, known), key=len, reverse=True):
        text = text.replace(path, path_label(path))
    if not _is_path(home := _home()):
        return re.sub(_PATH, _labelled, text, flags=re.ASCII)
    # Paths in the home folder are matched completely, even if the home folder contains a space, so
    # that the digits are computed from the complete path.
    in_home = rf"{_START}{re.escape(home)}(?![.-]?\w)(?:{_REST})?"
    text = re.sub(f"{in_home}|{_PATH}", _labelled, text, flags=re.ASCII)
    return text.replace(home, "~")  # the patterns do not match in e.g. "-I/home/me"


def _labelled(found: re.Match[str]) -> str:
    path = found[0].rstrip(".")  # a final dot ends the sentence
    return path_label(path) + found[0][len(path) :]


@cache
def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError:  # the user has no home folder
        return ""


@cache
def _users() -> tuple[str, ...]:
    """Return the possible names of the user's home folder."""
    with suppress(KeyError, OSError):  # the user's name is unknown
        return (getuser(), PurePath(_home()).name)
    return (PurePath(_home()).name,)


def _is_path(text: str) -> bool:
    return len(text) > 1 and PurePath(text).is_absolute()


def shared_row(run: RunRow) -> RunRow:
    """Shorten the paths in a run's data, error, source and settings; return the changed run."""
    known = (run.data,)
    data, error, source = (without_paths(text, known) for text in (run.data, run.error, run.source))
    settings = _settings(run.settings, known, is_file=run.kind == "scored")
    if (data, error, source, settings) == (run.data, run.error, run.source, run.settings):
        return run
    return replace(run, data=data, error=error, source=source, settings=settings)


def shared_job(job: Job) -> Job:
    """Shorten the paths in a job; the returned job has the same key."""
    known = _places_of(job)
    return replace(
        job,
        definition=_definition(job),
        model=without_paths(job.model, known),
        checkpoint=without_paths(job.checkpoint, known),
        data=without_paths(job.data, known),
        source=without_paths(job.source, known),
        settings=_settings(job.settings, known, is_file=job.kind == "scored"),
        start=job.start and replace(job.start, name=without_paths(job.start.name, known)),
    )


def _definition(job: Job) -> Mapping[str, Any] | None:
    """Return the job's task definition with shortened paths of scripts, and the same name."""
    if not job.definition:
        return job.definition
    return custom_tasks().without_paths(job.definition, without_paths)


def _places_of(job: Job) -> tuple[str, ...]:
    """Return the paths in a job: checkpoint, data, start, and files with predictions."""
    sources = [each.source for each in job.settings.values() if job.kind == "scored"]
    start = job.start.name if job.start else ""
    return tuple(filter(_is_path, (job.checkpoint, job.data, start, *sources)))


def _settings(
    settings: Mapping[str, Setting], known: Iterable[str], *, is_file: bool
) -> Mapping[str, Setting]:
    """Shorten the paths in settings; `is_file` is true if the sources of the settings are files."""
    return {
        name: replace(
            each,
            value=_walked(each.value, known),
            source=path_label(each.source)
            if is_file and "/" in each.source
            else without_paths(each.source, known),
        )
        for name, each in settings.items()
    }


def shared_outcome(outcome: Result | Failure) -> Result | Failure:
    """Shorten the paths in a result or failure; its job keeps its key.

    Scores and predictions do not change.
    """
    job, known = outcome.job, _places_of(outcome.job)
    if isinstance(outcome, Failure):
        return replace(
            outcome,
            job=shared_job(job),
            error=without_paths(outcome.error, known),
            details=without_paths(outcome.details, known),
        )
    provenance = {name: _walked(value, known) for name, value in outcome.provenance.items()}
    return replace(outcome, job=shared_job(job), provenance=provenance)


def _walked(value: Any, known: Iterable[str]) -> Any:
    """Shorten the paths in all strings of nested plain data; return the changed data."""
    match value:
        case str():
            return without_paths(value, known)
        case Mapping():
            return {name: _walked(inner, known) for name, inner in value.items()}
        case list() | tuple():
            return [_walked(inner, known) for inner in value]
    return value
