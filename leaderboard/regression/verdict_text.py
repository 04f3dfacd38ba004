"""A verdict's table: one row a task, times 100, as text and Markdown both show it."""

from leaderboard.regression.judge import TaskVerdict

__all__ = ["COLUMNS", "MOST_FLIPS", "change_line", "explanations", "flip_lines", "row_of"]

COLUMNS = ("task", "baseline", "now", "drop", "tolerated", "would see", "p", "verdict")

MOST_FLIPS = 10
"""How many examples are named of a task; JSON has them all."""


def row_of(task: TaskVerdict) -> tuple[str, ...]:
    """The texts under COLUMNS."""
    spread = task.before.spread or 0.0
    return (
        task.task,
        f"{task.before.mean * 100:.2f} ± {spread * 100:.2f} ({len(task.before.seeds)} seeds)",
        f"{task.now.mean * 100:.2f} ({len(task.now.seeds)})",
        f"{task.drop * 100:+.2f}",
        f"{task.tolerated * 100:.2f}",
        f"{task.detectable * 100:.2f}",
        f"{task.p_value:.3f}",
        _verdict(task),
    )


def _verdict(task: TaskVerdict) -> str:
    if task.is_worse:
        return "worse"
    return "changed" if task.change else "ok"


def change_line(task: TaskVerdict) -> str:
    """What has changed in training; empty where nothing has."""
    return f"{task.task}: training has changed: {task.change}" if task.change else ""


def explanations(alpha: float) -> tuple[str, ...]:
    """What the columns mean, as sentences."""
    return (
        "Scores are times 100, means over seeds on the same examples; p is for all tasks at once.",
        f"Where nothing has changed, any task fails with a chance of at most {alpha:.0%}.",
        "A drop beyond `tolerated` fails; one of `would see` is found in 4 of 5 checks.",
    )


def flip_lines(task: TaskVerdict) -> list[str]:
    """How many examples flipped, and the clearest that are wrong now."""
    lost = [flip for flip in task.flips if flip.is_lost]
    gained = len(task.flips) - len(lost)
    heading = f"{task.task}: {len(lost)} of {task.before.examples} examples lost, {gained} gained"
    named = [str(flip) for flip in lost[:MOST_FLIPS]]
    more = [f"and {len(lost) - MOST_FLIPS} more"] if len(lost) > MOST_FLIPS else []
    return [heading, *named, *more]
