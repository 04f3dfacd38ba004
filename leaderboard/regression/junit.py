"""A verdict as JUnit XML, which every CI server shows: one test case a task."""

from xml.etree import ElementTree as ET

from leaderboard.regression.judge import FAILED_JOB, TaskVerdict, Unjudged, Verdict
from leaderboard.regression.verdict_text import COLUMNS, change_line, flip_lines, row_of
from leaderboard.visible import visible

__all__ = ["to_junit"]


def to_junit(verdict: Verdict) -> str:
    """The document: a regression is a failure; a failed job is an error, as is a task not compared.

    The element and attribute names are those of Jenkins' junit-10.xsd.
    """
    errors = str(len(verdict.unjudged))
    counts = {
        "tests": str(len(verdict.tasks) + len(verdict.unjudged)),
        "failures": str(len(verdict.failed)),
        "errors": errors,
    }
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": "bench check", **counts})
    for task in verdict.tasks:
        _add_task(suite, visible(verdict.title), task, has_failed=task in verdict.failed)
    for each in verdict.unjudged:
        _add_unjudged(suite, visible(verdict.title), each)
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
    drop = f"a drop of {task.drop * 100:.2f}, where {task.tolerated * 100:.2f} is noise"
    message = drop if task.is_worse else f"training has changed: {task.change}"
    failure = ET.SubElement(case, "failure", {"message": message, "type": "regression"})
    failure.text = "\n".join([facts, *(visible(line) for line in flip_lines(task))])


def _add_unjudged(suite: ET.Element, title: str, each: Unjudged) -> None:
    kind = "failed job" if each.exit_code == FAILED_JOB else "not compared"
    facts = {"message": visible(each.reason), "type": kind}
    ET.SubElement(_case(suite, title, each.task), "error", facts)


def _case(suite: ET.Element, title: str, task: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": title, "name": visible(task)})
