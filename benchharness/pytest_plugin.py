"""A pytest plugin: `@pytest.mark.bench(...)` makes a test item of a check against a baseline.

    @pytest.mark.bench(model="tiny", suite="glue", limit=300)
    def test_glue_is_no_worse(): ...

pytest loads it in every environment that has this package, so nothing else is imported before a
marker is met.
"""

from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        "bench(model, suite, task, limit, baseline, alpha, seeds, data, data_file, hf, columns, "
        "metric, encoding, recipe, settings, allow_change): fail where `bench check` with these "
        "options does; `baseline` and `data_file` are relative to the root folder",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Checks what the test's markers name, before its own code runs."""
    for marker in item.iter_markers("bench"):
        _check(item.config.rootpath, **marker.kwargs)


def _check(root: Path, **arguments: Any) -> None:
    from benchharness.driver.gate import run_marked
    from benchharness.leaderboard.regression.verdict_text import to_markdown
    from benchharness.tasks.errors import BenchError

    try:
        verdict = run_marked(root, **arguments)
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)
    if verdict.exit_code:
        pytest.fail(to_markdown(verdict), pytrace=False)
