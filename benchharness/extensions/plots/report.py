"""Plots in the report: a section per leaderboard, and learning curves in the sections of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from benchharness.discovery import member, places
from benchharness.errors import BenchError
from benchharness.extensions.plots.chart import Figure
from benchharness.extensions.plots.cost import TIMED_SUITE, RunFacts, Timed, facts_of, timed_of
from benchharness.extensions.plots.lines import curve_figures, seed_figures
from benchharness.extensions.plots.section import Drawing, Known, Plot, Plots, build_plots
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report import moved
from benchharness.leaderboard.report.addition import Background, BoardKey, board_key
from benchharness.leaderboard.report.write import template_module
from benchharness.leaderboard.result import CurvePoint, Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.stored.report import in_part

_HERE = Path(__file__).parent


class ReportPlots:
    """Plots of one report, with the methods of `benchharness.leaderboard.report.addition.Addition`.

    Attributes:
        styles: Style sheet of the plots.
        scripts: Script of the plots.
    """

    styles = (_HERE / "plots.css",)
    scripts = (_HERE / "plots.js",)

    def __init__(self) -> None:
        self._facts: dict[str, RunFacts] = {}
        self._timed = Timed()
        self._drawings: dict[BoardKey, Sequence[Drawing]] = {}

    def read(
        self, store: Store, boards: Sequence[Board], detailed: Sequence[Board], *, examples: bool
    ) -> list[str]:
        """Read prediction times and the data of extensions; return notes about missing plots."""
        plots: dict[str, Plot] = {
            kind: member(f"the plots {kind!r} of the report", place)
            for kind, place in places("plots").items()
        }
        notes: list[str] = []
        for board in boards:
            drawings = []
            for kind, (heading, prepare) in plots.items():
                try:
                    drawings.append(Drawing(kind, heading, prepare(store, board, examples)))
                except BenchError as error:
                    plot = f"{heading[:1].lower()}{heading[1:]}"
                    notes.append(f"{board.title} has no plot of {plot}: {error}")
            self._drawings[board_key(board)] = drawings
        self._timed = timed_of(store.runs(suite=TIMED_SUITE))
        notes += in_part(boards, detailed, "the plots against cost show", "the table shows all")
        return notes

    def add_run(self, run: Result | Failure) -> None:
        """Keep the cost of a run."""
        if (found := facts_of(run)) is not None:
            seconds = self._timed.seconds.get(run.job.weights)
            self._facts[run.job.key] = replace(found, predict_seconds=seconds)

    def section(self, board: Board, anchor: str, background: Background) -> Markup:
        """Return the section with the plots of a leaderboard."""
        known = Known(
            facts=self._facts,
            sizes=background.sizes,
            timed=self._timed,
            drawings=self._drawings.get(board_key(board), ()),
        )
        plots = build_plots(board, anchor, known)
        if background.places:
            plots = moved(plots, background.places)
        return _section(plots) if plots else Markup()

    def learning_curves(self, curves: Mapping[str, Sequence[CurvePoint]], split: str) -> Markup:
        """Return charts of the loss and the scores over the training steps."""
        if len(curves) > 1:
            return Markup().join(map(_chart, seed_figures(curves, split)))
        (curve,) = curves.values()
        return Markup().join(map(_chart, curve_figures(curve, split)))


def _section(plots: Plots) -> Markup:
    html: Markup = template_module("section.html.j2", _HERE).board_plots(plots)
    return html


def _chart(figure: Figure) -> Markup:
    html: Markup = template_module("figure.html.j2", _HERE).chart(figure)
    return html


def draw_figures(figures: Sequence[Figure], anchor: str) -> Markup:
    """Return figures with the tables of their numbers as HTML.

    Args:
        figures: Figures to draw.
        anchor: Prefix for the ids of the figures.
    """
    html: Markup = template_module("figure.html.j2", _HERE).charts(figures, anchor)
    return html
