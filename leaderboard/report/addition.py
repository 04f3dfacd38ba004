"""Data for the report that leaderboards do not contain, and content that extensions add to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from markupsafe import Markup

from benchharness.discovery import member, places
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.sizes import Sizes
from benchharness.leaderboard.report.table import Contrasts
from benchharness.leaderboard.result import CurvePoint, Failure, Result
from benchharness.leaderboard.store.store import Store

BoardKey = tuple[str, tuple[str, ...], int | None, str]

Pages = Mapping[tuple[str, str], str]
"""Addresses of pages that show predictions, keyed by (id of the section with the runs, task)."""

Places = Mapping[str, str]
"""Addresses of the files that contain the details of runs, keyed by the ids of their sections."""


class Addition(Protocol):
    """Content that an extension adds to one report: a section per leaderboard, learning curves.

    The classes are in the table `Extension.additions`, and are created without arguments.

    Attributes:
        styles: Style sheets for the page, in this order.
        scripts: Scripts for the page. They can call the functions in the scripts of the report.
    """

    styles: tuple[Path, ...]
    scripts: tuple[Path, ...]

    def read(
        self, store: Store, boards: Sequence[Board], detailed: Sequence[Board], *, examples: bool
    ) -> Iterable[str]:
        """Read data for the sections from the store; return notes for the top of the page.

        It is called before `add_run` and `section`, or never if the report has no single store.

        Args:
            store: Store that contains the runs.
            boards: Leaderboards of the report.
            detailed: The same leaderboards, reduced to the entries whose runs `add_run` gets.
            examples: False if predictions and examples must not be read, because that would take
                too long.
        """

    def add_run(self, run: Result | Failure) -> None:
        """Receive a run of the report with all its details; called once per run."""

    def section(self, board: Board, anchor: str, background: "Background") -> Markup:
        """Return the section below the runs of a leaderboard as HTML; empty if there is none.

        Args:
            board: Leaderboard.
            anchor: Id of the leaderboard's table.
            background: Data of the report. If it has `places`, links to sections of runs must be
                replaced (see `benchharness.leaderboard.report.moved`).
        """

    def learning_curves(self, curves: Mapping[str, Sequence[CurvePoint]], split: str) -> Markup:
        """Return charts of learning curves as HTML; empty if there is nothing to draw.

        Args:
            curves: Points of the curves, keyed by the name of the run, e.g. "seed 0". The name is
                empty if there is only one run.
            split: Data on which the scores were computed ("dev" or "held-out").
        """


def make_additions() -> tuple[Addition, ...]:
    """Create the additions of all extensions, for one report."""
    return tuple(
        member(f"the addition {name!r} to the report", place)()
        for name, place in places("additions").items()
    )


def added_styles() -> list[Path]:
    """Return the style sheets of all additions."""
    return [path for addition in make_additions() for path in addition.styles]


def learning_curves(curves: Mapping[str, Sequence[CurvePoint]], split: str) -> Markup:
    """Return the charts of all additions for learning curves (see `Addition.learning_curves`)."""
    return Markup().join(each.learning_curves(curves, split) for each in make_additions())


def board_key(board: Board) -> BoardKey:
    """Return a key that identifies a leaderboard, even if it was reduced to its best entries."""
    first = next((run.key for entry in board.entries for run in entry.runs), "")
    return board.suite, board.data, board.limit, first


@dataclass(frozen=True, kw_only=True)
class Background:
    """Data for the report that leaderboards do not contain.

    Attributes:
        sizes: Sizes of checkpoints, keyed by lower-case name.
        contrasts: Significance tests of pairs of entries, keyed by leaderboard.
        predictions: Addresses of pages that show predictions (see `Pages`).
        places: Addresses of the files that `write_runs` has written with the details of runs (see
            `Places`); empty if these details are in the page itself.
        sections: Further sections for each leaderboard, as pairs (heading, HTML), keyed by
            leaderboard.
        additions: Content of extensions for this report.
    """

    sizes: Sizes = field(default_factory=dict)
    contrasts: Mapping[BoardKey, Contrasts] = field(default_factory=dict)
    predictions: Pages = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    sections: Mapping[BoardKey, Sequence[tuple[str, str]]] = field(default_factory=dict)
    additions: Sequence[Addition] = field(default_factory=make_additions)
