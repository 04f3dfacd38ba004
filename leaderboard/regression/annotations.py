"""A verdict as annotations of GitHub Actions, which it shows beside a pull request's changes."""

from collections.abc import Iterator

from leaderboard.regression.judge import Verdict
from leaderboard.visible import visible

__all__ = ["annotations"]

ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
"""GitHub's toolkit escapes these in a message, and in a property also the two below
(actions/toolkit, packages/core/src/command.ts)."""

PROPERTY_ESCAPES = {**ESCAPES, ":": "%3A", ",": "%2C"}


def annotations(verdict: Verdict) -> Iterator[str]:
    """An error for each task that is worse, changed or not compared, else one notice."""
    for task in verdict.worse:
        message = (
            f"{task.drop * 100:.2f} points below the baseline's {task.before.mean * 100:.2f}, "
            f"where {task.tolerated * 100:.2f} is noise (p {task.p_value:.3f})"
        )
        yield _command("error", f"{task.task} is worse", message)
    for task in verdict.tasks:
        if task.change:
            kind = "warning" if verdict.may_change else "error"
            yield _command(kind, f"{task.task} trains otherwise", str(task.change))
    for each in verdict.unjudged:
        yield _command("error", f"{each.task} was not compared", each.reason)
    for note in verdict.notes:
        yield _command("notice", "bench check", note)
    if verdict.exit_code == 0:
        yield _command("notice", "bench check", verdict.sentence)


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_escaped(title, PROPERTY_ESCAPES)}::{_escaped(message, ESCAPES)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in visible(text))
