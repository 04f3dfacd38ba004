"""Boards: stored runs of a suite, gathered into ranked entries. Pure: rows in, tables out."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from leaderboard.grouping import group_by_data, group_by_recipe, variant_of
from leaderboard.result import RunRow
from tasks.rules import ScoreRule
from tasks.suites import Suite, find_task

__all__ = ["Board", "Cell", "Entry", "build_boards", "score_names", "shown"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry's runs of one task: one value a seed, in the score's own unit (mostly 0..1).

    The headline is the median, because a fine-tuning run that fails to learn is an outlier that
    would move a mean; papers report it too (RoBERTa: the median of five seeds).
    """

    task: str
    runs: tuple[RunRow, ...]
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value over seeds; of an even number, the mean of the middle two."""
        return median(self.values)

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over seeds (divided by n - 1); None for one seed."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader must know of these scores, each said once."""
        flags = (flag for run in self.runs for flag in run.flags.get(self.task, ()))
        return tuple(dict.fromkeys(flags))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a board: a model, fine-tuned by one recipe in one precision, over its seeds.

    `score` is the suite's score rule over the medians of the tasks, None where a task of the rule
    is missing; `spread` is the sample standard deviation of the rule's score over the seeds that
    have every task. Equal scores, as shown, share a `rank`; an entry without a score has none.
    `variant` tells apart entries that have the same names but other weights, values or training
    rows.
    """

    model: str
    recipe: str
    precision: str
    cells: Mapping[str, Cell]
    failures: tuple[RunRow, ...]
    score: float | None
    spread: float | None
    missing: tuple[str, ...]
    rank: int | None = None
    variant: str = ""

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most seeds that a task has; (0, 0) without any score."""
        counts = [len(cell.values) for cell in self.cells.values()] or [0]
        return min(counts), max(counts)

    @property
    def recipe_label(self) -> str:
        """The recipe's name, with the variant where there is one: "paper ~3fa2"."""
        return f"{self.recipe} ~{self.variant}" if self.variant else self.recipe

    @property
    def runs(self) -> tuple[RunRow, ...]:
        """Every run of the entry once, failed ones last."""
        finished = {run.key: run for cell in self.cells.values() for run in cell.runs}
        return (*finished.values(), *self.failures)


@dataclass(frozen=True, kw_only=True)
class Board:
    """A ranked table. All its runs were evaluated on the same rows, task by task.

    `tasks` are the columns; those in `extras` are shown and never counted. `data` are the doors
    the rows came through ("hub", "mini" or folders), `limit` the rows kept of each split.
    """

    suite: str
    title: str
    rule: ScoreRule
    data: tuple[str, ...]
    limit: int | None
    tasks: tuple[str, ...]
    extras: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def data_label(self) -> str:
        """What the scores were measured on, for a title: "mini data, first 100 rows a split"."""
        doors = {"mini": "mini data", "hub": "hub data"}
        names = " and ".join(doors.get(door, f"files in {door}") for door in self.data)
        return names if self.limit is None else f"{names}, at most {self.limit} rows a split"

    @property
    def is_whole(self) -> bool:
        """True where the rows are a benchmark's own and none of them was left out."""
        return self.limit is None and "mini" not in self.data

    def best(self, task: str) -> str:
        """The best median of a column as shown, empty where there is nothing to compare."""
        medians = [entry.cells[task].median for entry in self.entries if task in entry.cells]
        return shown(max(medians)) if len(medians) > 1 else ""


def shown(value: float) -> str:
    """A score as every board shows it: times 100, one decimal."""
    text = f"{value * 100:.1f}"
    return "0.0" if text == "-0.0" else text


def build_boards(runs: Sequence[RunRow], suite: Suite) -> tuple[Board, ...]:
    """The boards of a suite: one for each set of evaluation data that its runs were scored on.

    Two runs share a board only where the fingerprints of the splits they both predicted agree, so
    data sets never mix in a column. Boards with most runs come first; the same rows give the same
    boards in whatever order they are passed.
    """
    ours = [run for run in runs if run.suite == suite.name]
    ordered = sorted(ours, key=lambda run: (run.finished, run.key))
    boards = [_board(group, suite) for group in group_by_data(ordered)]
    return tuple(sorted(boards, key=lambda b: (-_size(b), b.data_label)))


def _size(board: Board) -> int:
    return sum(len(entry.runs) for entry in board.entries)


def _board(runs: Sequence[RunRow], suite: Suite) -> Board:
    counted = set(suite.rule.cells)
    entries = [_entry(group, suite) for group in group_by_recipe(runs)]
    scored = {task for entry in entries for task in entry.cells}
    tasks = tuple(t for t in _columns(suite) if t in counted or t in scored)
    return Board(
        suite=suite.name,
        title=suite.title,
        rule=suite.rule,
        data=tuple(sorted({run.data for run in runs})),
        limit=next((run.limit for run in runs if run.limit is not None), None),
        tasks=tasks,
        extras=tuple(t for t in tasks if t not in counted),
        entries=tuple(_told_apart(_ranked(entries))),
    )


def _columns(suite: Suite) -> Iterator[str]:
    """The suite's tasks, those that count first."""
    yield from (task for task in suite.tasks if task in suite.rule.cells)
    yield from (task for task in suite.tasks if task not in suite.rule.cells)


def _entry(runs: Sequence[RunRow], suite: Suite) -> Entry:
    finished = _latest(run for run in runs if run.status == "finished")
    done = {(run.task, run.seed) for run in finished}
    failed = _latest(run for run in runs if run.status != "finished")
    cells = {task: cell for task in suite.tasks if (cell := _cell(task, finished, suite.rule))}
    medians = {task: cell.median for task, cell in cells.items()}
    return Entry(
        model=runs[0].model,
        recipe=runs[0].recipe,
        precision=runs[0].precision,
        cells=cells,
        failures=tuple(run for run in failed if (run.task, run.seed) not in done),
        score=_rule_score(suite.rule, medians),
        spread=_score_spread(suite.rule, cells),
        missing=tuple(task for task in suite.rule.cells if task not in cells),
        variant=variant_of(runs[0]),
    )


def _latest(runs: Iterable[RunRow]) -> list[RunRow]:
    """The newest run of each task and seed, so that no seed counts twice."""
    newest = {(run.task, run.seed): run for run in sorted(runs, key=lambda r: (r.finished, r.key))}
    return [newest[place] for place in sorted(newest)]


def _cell(task: str, finished: Sequence[RunRow], rule: ScoreRule) -> Cell | None:
    """The cell of a task, None where no run scored it (a NaN correlation is no score)."""
    pairs = [(run, _value(task, run.scores[task], rule)) for run in finished if task in run.scores]
    valid = [(run, value) for run, value in pairs if value is not None and math.isfinite(value)]
    if not valid:
        return None
    found, values = zip(*valid, strict=True)
    return Cell(task=task, runs=found, values=values)


def _value(task: str, scores: Mapping[str, float], rule: ScoreRule) -> float | None:
    if task in rule.cells:
        return rule.task_score(task, scores)
    return scores.get(*score_names(task, rule))


def score_names(task: str, rule: ScoreRule) -> tuple[str, ...]:
    """What a task's value is the mean of: the rule's cells, or the first metric of an extra."""
    return rule.cells.get(task) or (find_task(task).metrics[0].name,)


def _rule_score(rule: ScoreRule, by_task: Mapping[str, float]) -> float | None:
    """The rule over one value a task, None where a task is missing.

    Each score name of a task's cell stands at the task's value, which a rule averages to that very
    value: so the score follows from the numbers that the board shows.
    """
    if any(task not in by_task for task in rule.cells):
        return None
    return rule.score(
        {task: dict.fromkeys(names, by_task[task]) for task, names in rule.cells.items()}
    )


def _score_spread(rule: ScoreRule, cells: Mapping[str, Cell]) -> float | None:
    by_seed: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for task, cell in cells.items():
        for run, value in zip(cell.runs, cell.values, strict=True):
            by_seed[run.seed][task] = value
    scores = [s for values in by_seed.values() if (s := _rule_score(rule, values)) is not None]
    return stdev(scores) if len(scores) > 1 else None


def _ranked(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Best first; ties share the better rank (1, 2, 2, 4); entries without a score come last."""
    ordered = sorted(entries, key=_standing)
    rank, last = 0, ""
    for place, entry in enumerate(ordered, start=1):
        if entry.score is None:
            yield entry
            continue
        if shown(entry.score) != last:
            rank, last = place, shown(entry.score)
        yield replace(entry, rank=rank)


def _standing(entry: Entry) -> tuple[bool, float, int, str, str, str, str]:
    tie = (entry.model, entry.recipe, entry.precision, entry.variant)
    if entry.score is None:
        return (True, 0.0, len(entry.missing), *tie)
    # Ties as shown stand in the order of their names.
    return (False, -float(shown(entry.score)), 0, *tie)


def _told_apart(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries; only those whose names are taken twice keep their variant."""
    listed = list(entries)
    names = Counter((e.model, e.recipe, e.precision) for e in listed)
    for entry in listed:
        alone = names[entry.model, entry.recipe, entry.precision] == 1
        yield replace(entry, variant="") if alone else entry
