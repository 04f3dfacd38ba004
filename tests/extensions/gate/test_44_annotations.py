"""Fault 44: names with Markdown or a GitHub workflow command in a step summary."""

from benchharness.extensions.gate.judge import NOT_COMPARED, Unjudged
from benchharness.extensions.gate.verdict_text import annotations, to_markdown
from tests.extensions.gate.samples import verdict

HOSTILE = Unjudged(
    task="mine/<b>|x", reason="50% lost:\n::error::gotcha, \u202e", exit_code=NOT_COMPARED
)
FOUND = verdict(unjudged=[HOSTILE], notes=["The checkpoint is not the baseline's."])


def test_44_check_markdown_escapes_task_names_and_example_ids():
    text = to_markdown(FOUND)
    assert "\\<b\\>\\|x" in text
    assert "\u202e" not in text
    assert "b\\|\\<b\\>c" in text  # a lost example's id


def test_44_check_annotations_cannot_inject_workflow_commands():
    first, second, third = annotations(FOUND)
    assert first.startswith("::error title=RTE is worse::19.40 points below the baseline's")
    assert second.startswith("::error title=<b>|x was not compared::50%25 lost:\\n::error")
    assert third.startswith("::notice ")
    assert "\n" not in first + second + third
