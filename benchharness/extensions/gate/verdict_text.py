"""Format a verdict as text, JSON, Markdown, JUnit XML and GitHub annotations."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree as ET

from benchharness.extensions.gate.guards import COLUMNS as GUARD_COLUMNS
from benchharness.extensions.gate.judge import FAILED_JOB, TaskVerdict, Verdict
from benchharness.extensions.gate.sample import Sample
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import distinct_title

COLUMNS = ("task", "baseline", "now", "drop", "tolerated", "detectable drop", "p", "verdict")

MOST_FLIPS = 10
"""Maximum number of examples that are listed per task. The JSON data has all of them."""


def row_of(task: TaskVerdict) -> tuple[str, ...]:
    """Return the cells of a task's row in the table of a verdict, in the order of COLUMNS."""
    spread = task.before.spread or 0.0
    return (
        distinct_title(task.task),
        f"{task.before.mean * 100:.2f} ± {spread * 100:.2f} ({len(task.before.seeds)} seeds)",
        f"{task.now.mean * 100:.2f} ({len(task.now.seeds)})",
        f"{task.drop * 100:+.2f}",
        f"{task.tolerated * 100:.2f}",
        seen_drop(task.detectable, task.before),
        f"{task.p_value:.3f}",
        _verdict(task),
    )


def seen_drop(drop: float, sample: Sample) -> str:
    """Return the smallest detectable drop, times 100, as text.

    The text is "none" if the drop is at least half of the mean score: a model that only guesses may
    still reach half of the score, so perhaps not even a drop to guessing would be detected.

    Args:
        drop: The smallest detectable drop, in the unit of the score.
        sample: Runs of the baseline.
    """
    return f"{drop * 100:.2f}" if drop < sample.mean / 2 else "none"


def _verdict(task: TaskVerdict) -> str:
    if task.is_worse:
        return "worse"
    return "changed" if task.change else "ok"


def change_line(task: TaskVerdict) -> str:
    """Return a line about the change of a task's training losses; empty if there is none."""
    return (
        f"{distinct_title(task.task)}: training has changed ({task.change})" if task.change else ""
    )


def explanations(verdict: Verdict) -> Iterator[str]:
    """Yield sentences that explain the columns of a verdict's table."""
    yield from (
        "Scores are means over seeds, times 100; p is corrected for the number of tasks.",
        f"If nothing has changed, the chance that any task fails is at most {verdict.alpha:.0%}.",
        "Drops above `tolerated` fail. If the true drop is `detectable drop`, 4 of 5 checks fail.",
    )
    if verdict.collapses.seeds and not verdict.collapses.is_more:
        yield (
            "Collapsed runs are tested separately, and there are not significantly more than "
            f"before: {verdict.collapses}."
        )


def flip_lines(task: TaskVerdict) -> list[str]:
    """Return lines about the examples that most runs newly get wrong or newly get right.

    The first line has the numbers of examples that became wrong and that became correct. The other
    lines list examples that became wrong, the largest changes first.
    """
    lost = [flip for flip in task.flips if flip.is_lost]
    gained = len(task.flips) - len(lost)
    title = distinct_title(task.task)
    heading = (
        f"{title}: of {task.before.examples} examples, {len(lost)} became wrong and {gained} "
        "became correct"
    )
    named = [str(flip) for flip in lost[:MOST_FLIPS]]
    more = [f"and {len(lost) - MOST_FLIPS} more"] if len(lost) > MOST_FLIPS else []
    return [heading, *named, *more]


# A verdict as plain data, for `bench check --json`.


def facts_of(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as data for JSON. Scores have the unit of the metric, mostly 0 to 1."""
    return {
        "title": verdict.title,
        "verdict": verdict.sentence,
        "exit_code": verdict.exit_code,
        "alpha": verdict.alpha,
        "collapses": asdict(verdict.collapses),
        "tasks": {task.task: _task(task) for task in verdict.tasks},
        "guards": [guard.to_json() for guard in verdict.guards],
        "unjudged": [asdict(each) for each in verdict.unjudged],
        "notes": list(verdict.notes),
    }


def _task(task: TaskVerdict) -> dict[str, Any]:
    return {
        "is_worse": task.is_worse,
        "change": None if task.change is None else asdict(task.change),
        "baseline": _sample(task.before),
        "now": _sample(task.now),
        "drop": task.drop,
        "p_value": task.p_value,
        "tolerated_drop": task.tolerated,
        "detectable_drop": task.detectable,
        "examples": task.before.examples,
        "flips": [asdict(flip) for flip in task.flips],
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "mean": sample.mean,
        "spread": sample.spread,
        "scores": dict(zip(sample.seeds, sample.scores, strict=True)),
    }


# A verdict as Markdown, for a pull request or the step summary of a workflow.

SPECIAL = re.compile(r"[\\`*\[\]<>#|&]|(?<![^\W_])_|_(?![^\W_])")
"""Pattern of characters that Markdown or HTML could read as markup. It matches neither underscores
within a word such as `a_b`, nor parentheses, because a link also needs square brackets.
"""


def to_markdown(verdict: Verdict) -> str:
    """Return a verdict as Markdown, in which the special characters of texts are escaped."""
    return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> Iterator[str]:
    yield f"## bench check: {_markdown_text(verdict.title)}"
    yield ""
    yield f"**{_markdown_text(verdict.sentence)}**"
    yield ""
    if verdict.tasks:
        yield _markdown_row(COLUMNS)
        yield _markdown_row(["---"] * len(COLUMNS))
        yield from (
            _markdown_row([_markdown_text(text) for text in row_of(task)]) for task in verdict.tasks
        )
        yield ""
        yield from explanations(verdict)
    if verdict.guards:
        yield ""
        yield _markdown_row(GUARD_COLUMNS)
        yield _markdown_row(["---"] * len(GUARD_COLUMNS))
        yield from (_markdown_row([*map(_markdown_text, each.cells)]) for each in verdict.guards)
    changes = filter(None, map(change_line, verdict.tasks))
    for each in (*changes, *verdict.unjudged, *verdict.notes):
        yield ""
        yield f"* {_markdown_text(str(each))}"
    for task in verdict.worse:
        heading, *lines = flip_lines(task)
        yield ""
        yield _markdown_text(heading)
        yield ""
        yield from (f"* {_markdown_text(line)}" for line in lines)


def _markdown_row(texts: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _markdown_text(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", visible(text))


# A verdict as JUnit XML, which every CI server can show: one test case per task.


def to_junit(verdict: Verdict) -> str:
    """Return a verdict as JUnit XML, with one test case per task.

    Tasks in `Verdict.failed` are failures, and tasks that were not compared are errors. If runs
    have collapsed, a further test case fails if they are significantly more than in the baseline.

    Element and attribute names follow Jenkins' junit-10.xsd.
    """
    collapses = verdict.collapses
    tests = (*verdict.tasks, *verdict.guards, *verdict.unjudged)
    counts = {
        "tests": str(len(tests) + bool(collapses.seeds)),
        "failures": str(len(verdict.failed) + len(verdict.broken) + collapses.is_more),
        "errors": str(len(verdict.unjudged)),
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "bench check", **counts})
    for task in verdict.tasks:
        _add_task(suite, visible(verdict.title), task, has_failed=task in verdict.failed)
    for guard in verdict.guards:
        case = _case(suite, visible(verdict.title), guard.title)
        said = visible(guard.sentence)
        if guard.is_worse:
            ET.SubElement(case, "failure", {"message": said, "type": "regression"})
        else:
            ET.SubElement(case, "system-out").text = said
    if collapses.seeds:
        case = _case(suite, visible(verdict.title), "collapsed runs")
        if collapses.is_more:
            ET.SubElement(case, "failure", {"message": str(collapses), "type": "regression"})
        ET.SubElement(case, "system-out").text = "\n".join(map(visible, collapses.lines))
    for each in verdict.unjudged:
        kind = "failed job" if each.exit_code == FAILED_JOB else "not compared"
        facts = {"message": visible(each.reason), "type": kind}
        ET.SubElement(_case(suite, visible(verdict.title), each.task), "error", facts)
    ET.indent(suites)
    page: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return page.decode() + "\n"


def _add_task(suite: ET.Element, title: str, task: TaskVerdict, *, has_failed: bool) -> None:
    case = _case(suite, title, task.task)
    lines = [f"{name}: {text}" for name, text in zip(COLUMNS, row_of(task), strict=True)]
    facts = "\n".join([*lines, *filter(None, [change_line(task)])])
    if not has_failed:
        ET.SubElement(case, "system-out").text = facts
        return
    drop = f"the score dropped by {task.drop * 100:.2f}; {task.tolerated * 100:.2f} is tolerated"
    message = drop if task.is_worse else f"training has changed ({task.change})"
    failure = ET.SubElement(case, "failure", {"message": message, "type": "regression"})
    failure.text = "\n".join([facts, *(visible(line) for line in flip_lines(task))])


def _case(suite: ET.Element, title: str, task: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": title, "name": visible(task)})


# A verdict as annotations of GitHub Actions, shown next to the changes of a pull request.

ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
"""Escapes for the message of a GitHub annotation. PROPERTY_ESCAPES has the escapes for its
properties, such as the title. Both are as in GitHub's toolkit (actions/toolkit,
packages/core/src/command.ts).
"""

PROPERTY_ESCAPES = {**ESCAPES, ":": "%3A", ",": "%2C"}


def annotations(verdict: Verdict) -> Iterator[str]:
    """Yield GitHub annotations about a verdict.

    There is one per worse, changed or uncompared task, one if significantly more runs collapsed,
    one per note, and one if the check passes.
    """
    yield from _failures(verdict)
    for each in verdict.unjudged:
        yield _command("error", f"{distinct_title(each.task)} was not compared", each.reason)
    for note in verdict.notes:
        yield _command("notice", "bench check", note)
    if verdict.exit_code == 0:
        yield _command("notice", "bench check", verdict.sentence)


def _failures(verdict: Verdict) -> Iterator[str]:
    for task in verdict.worse:
        message = (
            f"{task.drop * 100:.2f} points below the baseline's {task.before.mean * 100:.2f}; "
            f"{task.tolerated * 100:.2f} points are tolerated (p {task.p_value:.3f})"
        )
        yield _command("error", f"{distinct_title(task.task)} is worse", message)
    for task in verdict.tasks:
        if task.change:
            kind = "warning" if verdict.may_change else "error"
            yield _command(
                kind, f"{distinct_title(task.task)}: training has changed", str(task.change)
            )
    for guard in verdict.broken:
        yield _command("error", f"{guard.title} is worse", guard.sentence)
    if verdict.collapses.is_more:
        yield _command("error", "More runs collapse", str(verdict.collapses))


def _command(kind: str, title: str, message: str) -> str:
    # The line looks like "::error title=RTE is worse::1.20 points below the baseline's 66.40".
    escaped = _annotation_text(title, PROPERTY_ESCAPES)
    return f"::{kind} title={escaped}::{_annotation_text(message, ESCAPES)}"


def _annotation_text(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in visible(text))
