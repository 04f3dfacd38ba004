"""Leaderboard entries whose runs started from other runs."""

from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.grouping import UNKNOWN, with_starts
from benchharness.leaderboard.result import RunRow
from benchharness.tasks.suites import SUITES
from tests.helpers.boards import GLUE, make_row, one_board


def mnli(seed: int, **fields: object) -> RunRow:
    return make_row(task="glue/mnli", seed=seed, key=f"mnli {seed} {fields}", **fields)


def rte(start: RunRow | None, seed: int = 0, **fields: object) -> RunRow:
    key = f"rte {seed} from {start.key if start else 'scratch'}"
    return make_row(seed=seed, key=key, start_from=start.key if start else None, **fields)


def entries_of(rows: list[RunRow]) -> dict[str, Entry]:
    """Return the entries by the task from which their RTE runs started."""
    return {entry.starts.get("glue/rte", ""): entry for entry in one_board(rows).entries}


def test_runs_started_from_different_seeds_of_a_job_share_an_entry() -> None:
    starts = [mnli(seed) for seed in range(3)]
    rows = [*starts, *(rte(start, start.seed) for start in starts)]
    (entry,) = one_board(rows).entries
    assert entry.seeds == (3, 3)
    assert entry.starts == {"glue/rte": "glue/mnli"}
    assert entry.start_labels == ("RTE from MNLI",)
    assert entry.recipe_label == "paper"


def test_runs_started_from_different_tasks_are_separate_entries() -> None:
    first, second = mnli(0), make_row(task="glue/qnli", key="qnli")
    rows = [first, second, rte(None), rte(first), rte(second)]
    entries = entries_of(rows)
    assert set(entries) == {"", "glue/mnli", "glue/qnli"}
    assert len({entry.recipe_label for entry in entries.values()}) == 3
    assert all(entry.seeds[1] == 1 for entry in entries.values())


def test_runs_started_from_runs_with_other_recipe_values_are_separate_entries() -> None:
    slow, fast = mnli(0), mnli(1, recipe_digest="b" * 12)
    rows = [slow, fast, rte(slow, 0), rte(fast, 1)]
    cells = [entry.cells.get("glue/rte") for entry in one_board(rows).entries]
    assert [len(cell.values) for cell in cells if cell] == [1, 1]


def test_start_task_of_a_run_can_be_in_another_suite() -> None:
    start = mnli(0)
    scores = {"superglue/rte": {"accuracy": 0.7}}
    row = make_row(task="glue/rte", key="r", start_from=start.key)
    row = next(iter(with_starts([row], [start])))
    assert row.start_task == "glue/mnli"
    rows = {"superglue/rte:train": "0", "superglue/rte:dev": "1"}
    fields = {"task": "superglue/rte", "scores": scores, "fingerprints": rows}
    moved = RunRow(**{**vars(rte(start)), **fields})
    ((board,), glue) = (
        build_boards([start, moved], suite) for suite in (SUITES["superglue"], GLUE)
    )
    assert board.entries[0].start_labels == ("RTE from MNLI",)
    assert [entry.starts for entry in glue[0].entries] == [{}]


def test_runs_whose_chains_of_start_runs_begin_differently_are_separate_entries() -> None:
    ones = [make_row(task="snli/snli", seed=0, key=f"snli {d}", recipe_digest=d,
                     scores={"accuracy": 0.5}) for d in "ab"]  # fmt: skip
    middles = [mnli(0, start_from=one.key) for one in ones]
    rows = with_starts([rte(middle) for middle in middles], [*ones, *middles])
    assert [row.start_task for row in rows] == ["glue/mnli"] * 2
    assert rows[0].start_variant != rows[1].start_variant


def test_start_run_missing_from_the_store_is_shown_as_another_run() -> None:
    row = rte(mnli(0))
    (entry,) = one_board([row]).entries
    assert entry.starts == {"glue/rte": UNKNOWN}
    assert entry.start_labels == ("RTE from another run",)
