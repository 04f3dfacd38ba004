"""The verdict as Markdown, JUnit XML, GitHub annotations and JSON."""

import json
from xml.etree import ElementTree as ET

from benchharness.extensions.gate.judge import NOT_COMPARED, Unjudged
from benchharness.extensions.gate.verdict_text import (
    COLUMNS,
    annotations,
    facts_of,
    to_junit,
    to_markdown,
)
from tests.extensions.gate.samples import verdict

HOSTILE = Unjudged(
    task="mine/<b>|x", reason="50% lost:\n::error::gotcha, \u202e", exit_code=NOT_COMPARED
)
FOUND = verdict(unjudged=[HOSTILE], notes=["The checkpoint is not the baseline's."])


def test_verdict_markdown_has_a_table_and_the_examples_that_became_wrong():
    text = to_markdown(FOUND)
    lines = text.splitlines()
    assert lines[0] == "## bench check: tiny on mini data"
    assert f"| {' | '.join(COLUMNS)} |" in lines
    (rte,) = [line for line in lines if line.startswith("| RTE")]
    assert "80.40 ± 1.14 (5 seeds)" in rte
    assert rte.endswith("| worse |")
    assert "RTE: of 104 examples, 2 became wrong and 1 became correct" in text
    assert "* The checkpoint is not the baseline's." in text


def test_verdict_junit_has_one_case_per_task():
    suites = ET.fromstring(to_junit(FOUND))
    (suite,) = suites
    counts = ("tests", "failures", "errors")
    assert tuple(suite.attrib[name] for name in counts) == ("3", "1", "1")
    cases = {case.attrib["name"]: case for case in suite}
    failure = cases["glue/rte"].find("failure")
    assert failure.attrib["message"].startswith("the score dropped by 19.40; ")
    assert "detectable drop: " in failure.text
    assert cases["glue/cola"].find("failure") is None
    assert cases["mine/<b>|x"].find("error").attrib["type"] == "not compared"


def test_passing_check_is_annotated_by_a_single_notice():
    (line,) = annotations(verdict(rte=(0.8, 0.8)))
    assert line.startswith("::notice title=bench check::None of 2")


def test_verdict_json_has_scores_changed_examples_and_exit_codes():
    facts = json.loads(json.dumps(facts_of(FOUND), allow_nan=False))
    assert facts["exit_code"] == 3
    rte = facts["tasks"]["glue/rte"]
    assert rte["now"]["scores"] == {"1": 0.60, "2": 0.62}
    assert rte["examples"] == 104
    assert {flip["example"] for flip in rte["flips"]} == {"b|<b>c", "d\u202e", "e"}
    assert facts["unjudged"][0]["exit_code"] == 4


def test_verdict_markdown_escapes_links_but_not_parentheses():
    text = to_markdown(verdict(notes=["[x](https://example.org) (4 seeds)!"]))
    assert "* \\[x\\](https://example.org) (4 seeds)!" in text
