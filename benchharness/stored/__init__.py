"""The one way to read back what is stored: predictions and examples, and what stands on them.

The names below are imported when they are first used, as `stored.open_store(...)`: every command
imports this file, and its `--help` needs no SQLAlchemy, which takes longer than all the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchharness.stored.boards import Rows, find_rows, gather_boards, left_out, recent_suites
    from benchharness.stored.contrasts import add_standings, contrasts_of
    from benchharness.stored.predictions import Samples, counted_tasks
    from benchharness.stored.report import is_made, make_report
    from benchharness.stored.submission import Gathered, Wanted, gather
    from leaderboard.store.archive import check_archive, read_archive, write_archive
    from leaderboard.store.record import StoredRun, result_to_stored
    from leaderboard.store.store import Store, open_store

__all__ = [
    "Gathered",
    "Rows",
    "Samples",
    "Store",
    "StoredRun",
    "Wanted",
    "add_standings",
    "check_archive",
    "contrasts_of",
    "counted_tasks",
    "find_rows",
    "gather",
    "gather_boards",
    "is_made",
    "left_out",
    "make_report",
    "open_store",
    "read_archive",
    "recent_suites",
    "result_to_stored",
    "write_archive",
]

_MODULES = (
    "leaderboard.store.store",
    "leaderboard.store.record",
    "leaderboard.store.archive",
    "benchharness.stored.boards",
    "benchharness.stored.predictions",
    "benchharness.stored.submission",
    "benchharness.stored.contrasts",
    "benchharness.stored.report",
)
"""Where the names are, the lightest module first."""


def __getattr__(name: str) -> Any:
    """The public name, from the module that has it (PEP 562)."""
    if name in __all__:
        for module in _MODULES:
            home = import_module(module)
            if name in home.__all__:
                return getattr(home, name)
    raise AttributeError(f"module 'benchharness.stored' has no attribute {name!r}")
