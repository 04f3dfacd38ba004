"""Flags of the numbers in a paper."""

from dataclasses import replace

from benchharness.extensions.exports.table import Choice
from benchharness.extensions.paper.tables import Paper, paper_tables
from benchharness.tasks.answers.base import CONSTANT
from tests.helpers.boards import board_of, plotted


def test_generated_paper_flags_collapsed_runs() -> None:
    run = plotted("stuck", "glue/rte", 0, 0.5)
    stuck = replace(run, evaluations=[replace(e, flags=(CONSTANT,)) for e in run.evaluations])
    board = board_of([stuck, plotted("good")])
    (table,) = paper_tables([(board, Choice(intervals=True))])
    paper = Paper(models=["stuck", "good"], tables=[table], appendix=[], figures={}, missing=[])
    written = {name: content.decode() for name, content in paper.files().items()}
    assert r"50.0\textsuperscript{!}" in written["glue.tex"]
    assert "!: 1 of 1 seed collapsed (constant predictions): stuck on RTE." in written["glue.tex"]
    assert "50.0,1 of 1 seed collapsed (constant predictions)," in written["runs.csv"]
