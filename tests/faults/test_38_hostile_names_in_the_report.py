"""Tests of fault 38: names with HTML or scripts are shown as text, also by a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.result import Failure, Result
from tests.helpers.boards import make_job
from tests.helpers.browser import opened, save
from tests.helpers.hostile import HOSTILE_HTML
from tests.helpers.report_page import Page, count, report
from tests.helpers.results import make_failure, make_result

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.browser
def test_38_names_that_contain_html_are_shown_as_text_in_a_browser(
    browser: "Browser", tmp_path: Path
) -> None:
    names = [*HOSTILE_HTML, "a\u202eb", "a\ud800b"]
    runs: list[Result | Failure] = [make_result(make_job(model=name)) for name in names]
    runs += [make_failure(make_job(model=name, seed=1), error=name) for name in names]
    with opened(browser, save(tmp_path, runs)) as found:
        for box in found.page.locator(".choose input").all():
            box.check()
        spelled = {name.encode("unicode_escape").decode() for name in names[-2:]}
        assert {*HOSTILE_HTML, *spelled} == set(found.names())
        assert {*HOSTILE_HTML, *spelled} == set(
            found.page.locator(".compare .name").all_inner_texts()
        )
        assert found.page.title() == "Leaderboard"
        assert found.page.evaluate("typeof window.PWN") == "undefined"
        assert found.page.locator("img").count() == 0
        assert found.complaints == []
        assert len(found.requests) == 1


@pytest.mark.parametrize("name", HOSTILE_HTML)
def test_38_names_that_contain_html_add_no_elements_to_the_page(name: str) -> None:
    settings = {name: Setting(value=name, source=name)}
    job = replace(make_job(model=name), checkpoint=name, recipe=name, settings=settings)
    failed = make_failure(make_job(model=name, seed=1), error=name, details=name)
    result = make_result(job, provenance={name: {name: [name, None]}})
    plain = Page(report([make_result(make_job()), make_failure(make_job(seed=1))]))
    page = Page(report([result, failed]))
    assert " ".join(name.split()) in page.text
    known = {"script", "style", "img", "b"}
    assert count(page, known - {"b"}) == count(plain, known - {"b"})
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
