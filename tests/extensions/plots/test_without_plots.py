"""The report and the sheet without the extension that draws their plots."""

import pytest

from benchharness.extensions.calibration import sheet as calibration_sheet
from benchharness.leaderboard.report import addition
from benchharness.leaderboard.result import CurvePoint
from tests.helpers.boards import make_job, make_runs
from tests.helpers.report_page import Page, report
from tests.helpers.results import make_result

FALLING_NEVER = tuple(
    CurvePoint(step=step, epoch=1.0, loss=0.69, learning_rate=1e-5, scores={})
    for step in range(1, 9)
)


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the extension from the report."""
    known = addition.places
    hidden = {"plots": "benchharness.extensions.plots.report:ReportPlots"}
    assert hidden.items() <= known("additions").items()
    monkeypatch.setattr(
        addition,
        "places",
        lambda table: {n: at for n, at in known(table).items() if (n, at) not in hidden.items()},
    )


def test_report_without_the_extension_has_its_tables_and_runs_but_no_plots(
    without_plots: None,
) -> None:
    html = report(make_runs())
    page = Page(html)
    classes = {name for value in page.values("class") for name in value.split()}
    assert {"board", "run", "group"} <= classes
    assert not classes & {"plots", "plot", "charts", "pickers", "seeds"}
    assert "addSaving" not in html
    assert ".tradeoffs" not in html


def test_report_with_the_extension_has_plots_learning_curves_and_their_script() -> None:
    html = report(make_runs())
    classes = {name for value in Page(html).values("class") for name in value.split()}
    assert {"plots", "plot", "charts", "pickers", "seeds"} <= classes
    assert "addSaving" in html


def test_warning_about_a_learning_curve_is_shown_without_its_chart(without_plots: None) -> None:
    html = report([make_result(make_job(), curve=FALLING_NEVER)])
    assert "! the training loss never fell" in html
    assert "training loss</b>" not in html


def test_calibration_section_of_a_sheet_has_no_figures_without_the_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = calibration_sheet.extensions()
    kept = tuple(each for each in known if each.name != "plots")
    assert len(kept) == len(known) - 1
    entry = object()
    assert calibration_sheet._figures(entry, {}) is not None  # type: ignore[arg-type]
    monkeypatch.setattr(calibration_sheet, "extensions", lambda: kept)
    assert calibration_sheet._figures(entry, {}) is None  # type: ignore[arg-type]
