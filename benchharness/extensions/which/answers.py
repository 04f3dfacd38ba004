"""Choose the best encoder for some tasks from the stored runs of a grid.

A grid has runs of several encoders, hyperparameter settings and seeds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.boards.entry import Entry, build_entry
from benchharness.leaderboard.job import Job, recipe_digest, setting_word
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import grouped
from benchharness.models import BASELINES
from benchharness.stored.predictions import add_uncertainty
from benchharness.tasks.suite import ScoreRule, Suite
from benchharness.tasks.suites import distinct_title, find_suite


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Encoder in a ranking, with its score and the runs from which the score is computed.

    Attributes:
        encoder: Name of the encoder.
        score: Median over seeds with the best hyperparameter setting, in the metric's own unit; for
            several tasks, the mean of these medians.
        interval: 95 % interval of the score; None if unknown.
        scope: Sources of variation that the interval covers (such as examples and seeds), in words.
        seeds: Smallest and largest number of seeds on a task, with the best setting.
        points: Best hyperparameter setting, keyed by task.
        runs: Scores of the runs with the best setting, keyed by task and then by run key.
        settings: Number of hyperparameter settings that were tried (for several tasks, the largest
            number on one of them).
        gain: Expected overestimation of the score, because the best of several settings was chosen;
            None if unknown.
        gain_scope: What `gain` assumes to change in another run: "seeds" or "seeds and examples".
        flags: Warnings about the scores, keyed by task, such as "1 of 2 seeds collapsed (constant
            predictions)".
        has_learned: False if the encoder has learned nothing on any of the tasks (see
            `Cell.has_learned`), so that the score is meaningless.
    """

    encoder: str
    score: float
    interval: Interval | None
    scope: str
    seeds: tuple[int, int]
    points: Mapping[str, str]
    runs: Mapping[str, Mapping[str, float]]
    settings: int
    gain: float | None
    gain_scope: str
    flags: Mapping[str, tuple[str, ...]]
    has_learned: bool


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Ranking of encoders on some tasks.

    Attributes:
        tasks: Names of the tasks. If there are several, the ranking is by the mean over them.
        candidates: Encoders that have a score on every task, best first. Encoders that have learned
            nothing on any of the tasks are last.
        tied: Names of the encoders that do not differ significantly from the first one.
        missing: Names of the encoders that lack a score on a task.
        is_tested: True if the first encoder's differences to the others were tested.
        baselines: Scores of the baselines, keyed by name. Baselines that lack a score on a task are
            left out.
    """

    tasks: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    tied: tuple[str, ...]
    missing: tuple[str, ...]
    is_tested: bool
    baselines: Mapping[str, float] = field(default_factory=dict)

    @property
    def majority(self) -> float | None:
        """Score of the majority baseline; None if unknown."""
        return self.baselines.get(BASELINES[0].name)

    @property
    def unlearned(self) -> tuple[str, ...]:
        """Names of the encoders that have learned nothing on any of the tasks."""
        return tuple(each.encoder for each in self.candidates if not each.has_learned)

    @property
    def best(self) -> tuple[str, ...]:
        """Names of the first encoder and of those that do not differ significantly from it.

        Encoders that have learned nothing on any of the tasks, and encoders that do not beat the
        majority baseline, are left out.
        """
        return tuple(
            each.encoder
            for place, each in enumerate(self.candidates)
            if (not place or each.encoder in self.tied)
            and each.has_learned
            and (self.majority is None or each.score > self.majority)
        )

    @property
    def tied_without_star(self) -> tuple[str, ...]:
        """Names of encoders that do not differ significantly from the first one, but not `best`."""
        places = [each.encoder for each in self.candidates[:1]]
        return tuple(name for name in (*places, *self.tied) if name not in self.best)

    @property
    def title(self) -> str:
        """Title of the task or, for several tasks, "mean of" and their titles."""
        names = ", ".join(map(distinct_title, self.tasks))
        return names if len(self.tasks) == 1 else f"mean of {names}"

    @property
    def sentence(self) -> str:
        """Sentence that names the best encoder, and states if it is significantly better."""
        if not self.candidates:
            return f"{self.title}: no encoder has a score."
        first = self.candidates[0]
        if not self.best:
            why = "none beats the majority baseline" if first.has_learned else "the runs collapsed"
            return f"{self.title}: no encoder learned anything ({why})."
        if self.tied:
            found = f"is not significantly different from {', '.join(self.tied)}"
        elif len(self.candidates) == 1:
            found = "is the only encoder with a score"
        elif not self.is_tested:
            found = "has the highest score, but it is unknown whether this is significant"
        else:
            found = "is significantly better than all others"
        lost = f" {', '.join(self.unlearned)} learned nothing." if self.unlearned else ""
        return f"{self.title}: {first.encoder} {found}.{lost}"


def find_answers(
    store: Store, jobs: Iterable[Job], tasks: Sequence[str], baselines: Iterable[str] = ()
) -> list[Answer]:
    """Rank the encoders on each task and, if there are several tasks, by the mean over all tasks.

    Rankings, intervals and tests are computed as in `bench leaderboard --intervals`, with one
    exception: the standard deviation over seeds is estimated from all encoders of a task together,
    because most encoders have too few seeds for a separate estimate.

    Args:
        store: Store that contains the runs.
        jobs: All jobs of the search that were run.
        tasks: Names of the tasks.
        baselines: Keys of the jobs of the baselines.

    Returns:
        One ranking per task. If there are several tasks, the ranking by the mean is the last.
    """
    by_key = {job.key: job for job in jobs}
    rows = [_row(row, by_key[row.key]) for row in store.runs_with(by_key)]
    runs: dict[str, list[RunRow]] = {job.model: [] for job in by_key.values()}
    for row in rows:
        runs[row.model].append(row)
    questions = [(task,) for task in tasks] + ([tuple(tasks)] if len(tasks) > 1 else [])
    floors = grouped((row.model, row) for row in store.runs_with(baselines))
    return [_answer(store, runs, asked, by_key, floors) for asked in questions]


def _row(row: RunRow, job: Job) -> RunRow:
    """Return a stored run with the names and settings of its job in this grid."""
    return replace(
        row,
        model=job.model,
        recipe=job.recipe,
        overridden=job.overridden,
        is_sweep=job.is_sweep,
        settings=job.settings,
    )


def _answer(
    store: Store,
    runs: Mapping[str, Sequence[RunRow]],
    tasks: tuple[str, ...],
    jobs: Mapping[str, Job],
    baselines: Mapping[str, Sequence[RunRow]],
) -> Answer:
    suite = _suite(tasks)
    entries = _entries(runs, suite)
    scored = sorted(
        (entry for entry in entries if entry.score is not None),
        key=lambda entry: (not entry.has_learned, -(entry.score or 0.0)),
    )
    board = Board(
        suite=suite.name,
        title=suite.title,
        rule=suite.rule,
        data=(),
        limit=None,
        tasks=tasks,
        extras=(),
        entries=tuple(replace(entry, rank=place) for place, entry in enumerate(scored, start=1)),
    )
    board = add_uncertainty(board, store, is_pooled=True)
    names = {entry.name: entry.model for entry in board.entries}
    first = board.entries[0].uncertainty if board.entries else None
    return Answer(
        tasks=tasks,
        candidates=tuple(_candidate(entry, jobs) for entry in board.entries),
        tied=tuple(names[name] for name in first.tied) if first else (),
        missing=tuple(name for name in runs if name not in names.values()),
        is_tested=bool(first and first.ranks),
        baselines={
            entry.model: entry.score
            for entry in _entries(baselines, suite)
            if entry.score is not None
        },
    )


def _entries(runs: Mapping[str, Sequence[RunRow]], suite: Suite) -> list[Entry]:
    """Build an entry per model from its runs on the tasks of a suite; `runs` is keyed by model."""
    return [
        build_entry(own, suite)
        for found in runs.values()
        if (own := [row for row in found if row.task in suite.tasks])
    ]


def _suite(tasks: tuple[str, ...]) -> Suite:
    """Create a suite from tasks. Its score is the mean of the tasks' scores on the leaderboard."""
    cells = {task: score_names(task, find_suite(task.partition("/")[0]).rule) for task in tasks}
    rule = ScoreRule(name="mean", cells=cells, cite="benchharness: all tasks have equal weight")
    return Suite(name="which", title="which", tasks=tasks, rule=rule, cite=rule.cite)


def _candidate(entry: Entry, jobs: Mapping[str, Job]) -> Candidate:
    assert entry.score is not None, "only entries with a score are ranked"
    assert entry.uncertainty is not None, "every entry has an uncertainty"
    gains = [cell.gain for cell in entry.cells.values()]
    scopes = dict.fromkeys(cell.gain_scope for cell in entry.cells.values())
    tried = (_peers(jobs, cell.runs[0].key) for cell in entry.cells.values())
    return Candidate(
        encoder=entry.model,
        score=entry.score,
        interval=entry.uncertainty.score.both,
        scope=entry.uncertainty.score.scope,
        seeds=entry.seeds,
        points={task: _point(jobs, cell.runs[0].key) for task, cell in entry.cells.items()},
        runs={
            task: dict(zip((run.key for run in cell.runs), cell.values, strict=True))
            for task, cell in entry.cells.items()
        },
        settings=max(len({recipe_digest(job) for job in own}) for own in tried),
        gain=None if None in gains else sum(filter(None, gains)) / len(gains),
        gain_scope=" or ".join(scopes),
        flags={task: cell.notes for task, cell in entry.cells.items() if cell.notes},
        has_learned=entry.has_learned,
    )


def _point(jobs: Mapping[str, Job], key: str) -> str:
    """Return the settings that vary between jobs of the same encoder and task, e.g. "lr 3e-4"."""
    job, peers = jobs[key], _peers(jobs, key)
    differing = [n for n in job.values if len({peer.values.get(n) for peer in peers}) > 1]
    return ", ".join(setting_word(name, [job.values[name]]).shown for name in differing)


def _peers(jobs: Mapping[str, Job], key: str) -> list[Job]:
    """Return the jobs of the same encoder and task as the job `key`, including that job."""
    job = jobs[key]
    return [other for other in jobs.values() if (other.task, other.model) == (job.task, job.model)]
