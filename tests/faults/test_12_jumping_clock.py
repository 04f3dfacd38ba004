"""Tests of fault 12: no duration, order or lock depends on the wall clock, which may jump back."""

import ast
from pathlib import Path

from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_job, make_result

ROOT = Path(__file__).parents[2]


def test_12_newest_attempt_is_the_last_stored_one_regardless_of_its_time(tmp_path: Path) -> None:
    job = make_job()
    first = make_result(job, finished="2026-08-02T00:00:00Z")
    second = make_result(job, finished="2001-01-01T00:00:00Z")
    with open_store(tmp_path / "board.sqlite") as store:
        assert (store.add_result(first), store.add_result(second)) == (1, 2)
        assert store.result(job.key) == second
        assert [row.finished for row in store.attempts(job.key)] == [
            first.finished,
            second.finished,
        ]
        assert not store.add_missing(first), "there is no lease that the jump could have ended"


CLOCKS = {"time.time()", "datetime.now(UTC)"}


def test_12_durations_never_come_from_the_wall_clock() -> None:
    """Check that no source file subtracts two times of day."""
    for package in ("benchharness", "leaderboard", "tasks"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not any(clock in text for clock in CLOCKS):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                    sides = ast.unparse(node.left), ast.unparse(node.right)
                    assert not CLOCKS & {*sides}, path
