"""Entries of a board: one model's runs with one recipe, task by task."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchharness.leaderboard.boards.cell import (
    Cell,
    beside_others,
    best_points,
    build_cell,
    count_points,
    marked,
    shown,
    spread_of,
)
from benchharness.leaderboard.boards.grouping import variant_of
from benchharness.leaderboard.job import (
    PAPER,
    SINGLE,
    TIMED,
    TOGETHER,
    ZERO_SHOT,
    Kind,
    Stage,
    Word,
    recipe_words,
    unquoted,
)
from benchharness.leaderboard.result import RunRow, selection_labels
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.text import grouped
from benchharness.tasks.suite import ScoreRule, Suite
from benchharness.tasks.suites import distinct_title, title_of

# Uncertainty of an entry: the intervals of its cells, its score and its rank.

LEVEL = 0.95
"""Confidence level of every interval on a board."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """95 % confidence intervals of a median over seeds, in the unit of the score.

    `examples` is the interval for these trained models on other examples of the same kind, None if
    the examples could not be read (`reason` explains why). `seeds` is the interval for other seeds
    on these examples, None for one run. `both` covers every source of noise that is known, and is
    None if none is.
    """

    both: Interval | None = None
    examples: Interval | None = None
    seeds: Interval | None = None
    reason: str = ""

    @property
    def scope(self) -> str:
        """Sources of noise that `both` covers: "examples and seeds"."""
        parts = (("examples", self.examples), ("seeds", self.seeds))
        return " and ".join(name for name, interval in parts if interval is not None)


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """Confidence intervals of an entry's cells (keyed by task), of its score and of its rank.

    `ranks` are the best and the worst rank that the entry may have, None for an entry without a
    rank or if the noise of a task is unknown. `tied` are the names of the ranked entries that do
    not differ significantly from this one.
    """

    cells: Mapping[str, Intervals]
    score: Intervals
    ranks: tuple[int, int] | None = None
    tied: tuple[str, ...] = ()

    @property
    def rank_label(self) -> str:
        """Ranks as text: "2-4", "1" if both are equal, empty if they are unknown."""
        if self.ranks is None:
            return ""
        first, last = self.ranks
        return str(first) if first == last else f"{first}-{last}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Gain of a distilled student over the same model trained without its teacher, on one task.

    `difference` and `interval` are in the unit of the score, over the seeds that both have.
    `p_value` is the p-value of the paired test, corrected for the number of tasks; see
    comparing/contrast.py. `is_shown` is true if the difference is significant.
    """

    difference: float
    seeds: tuple[int, ...]
    interval: Interval | None = None
    p_value: float | None = None
    is_shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Row of a board: a model, fine-tuned with one recipe in one precision, over its seeds.

    `score` is the suite's score, computed from the medians of the tasks that count in it
    (`counted`), and None if one of them is missing. `seed_scores` are the suite's scores of single
    seeds, for the seeds that have every task. Entries whose scores look equal share a `rank`. An
    entry has no rank if it has no score or does not compete: an ensemble, a baseline (`kind`) or
    imported predictions.

    `words` are the settings and whatever else distinguishes the entry from others of its model (see
    naming.py). The entry's name leaves out the first `unsaid` of them: the paper's recipe, or all
    words if the user has named the row. `says_precision` is true if the name includes the
    precision, because another row differs in nothing else. `variant` is four hex digits that
    distinguished rows in earlier versions and that scripts may still use.

    `points` is the number of points of a sweep, of which this entry has the best one for each task;
    it is 0 if there was no sweep. `uncertainty` has the confidence intervals, if they were asked
    for. `gains` are the gains of a distilled student, keyed by task, for the tasks that the same
    model was trained on without its teacher.
    """

    model: str
    recipe: str
    precision: str
    kind: Kind
    cells: Mapping[str, Cell]
    failures: tuple[RunRow, ...]
    counted: tuple[str, ...]
    score: float | None
    seed_scores: tuple[float, ...]
    missing: tuple[str, ...]
    words: tuple[Word, ...]
    unsaid: int = 0
    says_precision: bool = False
    rank: int | None = None
    variant: str = ""
    points: int = 0
    uncertainty: Uncertainty | None = None
    gains: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """True if the entry is a single model, whoever trained it."""
        return self.kind in SINGLE

    @property
    def competes(self) -> bool:
        """True if the entry is ranked: only single models that were fine-tuned here are."""
        return self.kind == "model"

    @property
    def has_learned(self) -> bool:
        """True if the median of at least one task comes from runs that have learned."""
        return any(cell.has_learned for cell in self.cells.values())

    def notes(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Return the warnings about these tasks' values: "RTE: 1 of 2 seeds collapsed ..."."""
        cells = (self.cells[task] for task in tasks if task in self.cells)
        return tuple(f"{title_of(cell.task)}: {note}" for cell in cells for note in cell.notes)

    @property
    def score_notes(self) -> tuple[str, ...]:
        """Warnings about the score: the warnings about every task that counts in it."""
        return self.notes(self.counted)

    @property
    def score_text(self) -> str:
        """Score as every table shows it, marked if there are notes on it; empty without a score."""
        return "" if self.score is None else marked(shown(self.score), self.score_notes)

    @property
    def noted(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Name of each task's value, "tiny, 3 epochs RTE", with the value's notes."""
        for task, cell in self.cells.items():
            yield f"{self.name} {title_of(task)}", cell.notes

    @property
    def shown_kind(self) -> str:
        """Kind as JSON and exports contain it: every single model is a "model" there."""
        return "model" if self.is_single else self.kind

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the score over seeds, None for fewer than two."""
        return spread_of(self.seed_scores)

    @property
    def seeds(self) -> tuple[int, int]:
        """Smallest and largest number of seeds of a task; (0, 0) without any result."""
        counts = [len(cell.values) for cell in self.cells.values()] or [0]
        return min(counts), max(counts)

    @property
    def name(self) -> str:
        """Name of the row in every table: "minilm", "minilm, lr 3e-4, 3 epochs"."""
        precision = (self.precision,) if self.says_precision else ()
        words = (word.shown for word in self.words[self.unsaid :])
        return ", ".join((self.model, *words, *precision))

    def name_but_for(self, setting: str) -> str:
        """Return the model, its settings except this one, and the precision."""
        words = self.words[self.unsaid :]
        shown = (word.shown for word in words if not word.typed.startswith(f"{setting}="))
        return ", ".join((self.model, *shown, self.precision))

    @property
    def beside_name(self) -> str:
        """Words of the recipe that the name leaves out: "paper", "baseline", "best of 3 on dev"."""
        words = [word.shown for word in self.words[: self.unsaid]]
        return ", ".join(filter(None, (*words, self._chosen)))

    @property
    def _chosen(self) -> str:
        return f"best of {self.points} on dev" if self.points else ""

    @property
    def recipe_label(self) -> str:
        """Settings, or the recipe's name, with the number of points of a sweep.

        Examples: "lr 3e-4, 3 epochs" and "sweep of lr, best of 3 on dev".
        """
        return ", ".join(filter(None, (*(word.shown for word in self.words), self._chosen)))

    @property
    def starts(self) -> dict[str, str]:
        """Task that each task's runs started from, keyed by task; only tasks with such a start."""
        found = {task: cell.runs[0].start_task for task, cell in self.cells.items()}
        return {task: start for task, start in found.items() if start}

    @property
    def start_labels(self) -> tuple[str, ...]:
        """Starting points as text: "MRPC, RTE from MNLI"."""
        tasks = grouped((start, title_of(task)) for task, start in sorted(self.starts.items()))
        return tuple(
            f"{', '.join(names)} from {distinct_title(start)}" for start, names in tasks.items()
        )

    @property
    def gain_labels(self) -> tuple[str, ...]:
        """Gains of a student as text: "RTE +1.2 (p 0.04) over the same model without a teacher"."""
        found = [
            f"{title_of(task)} {gain.difference * 100:+.1f}"
            + ("" if gain.p_value is None else f" (p {gain.p_value:.2g})")
            for task, gain in self.gains.items()
        ]
        return (f"{', '.join(found)} over the same model without a teacher",) if found else ()

    @property
    def selection_labels(self) -> tuple[str, ...]:
        """Checkpoint selections as text: "best of 10 evaluations on dev", "RTE: best of ..."."""
        # A task that another task's run predicts (AX, predicted by MNLI's) has no selection of its
        # own.
        own = [cell for cell in self.cells.values() if cell.task in cell.runs[0].trained_tasks]
        chosen = [cell for cell in own if cell.selections]
        labels = selection_labels(each for cell in chosen for each in cell.selections)
        if len(chosen) == len(own):
            return labels
        names = ", ".join(title_of(cell.task) for cell in chosen)
        return tuple(f"{names}: {label}" for label in labels)

    @property
    def stage(self) -> Stage | None:
        """Stage of a pretraining run at which the checkpoint was saved, None if there is none."""
        return next((run.stage for run in self.runs if run.stage is not None), None)

    @cached_property
    def runs(self) -> tuple[RunRow, ...]:
        """Runs of the entry, each once, failed ones last."""
        finished = {run.key: run for cell in self.cells.values() for run in cell.runs}
        return (*finished.values(), *self.failures)


def build_entry(runs: Sequence[RunRow], suite: Suite) -> Entry:
    """Return the unranked entry of these runs, which are all of one model and recipe."""
    words, first = recipe_words(runs[0].recipe_label, runs), runs[0]
    if first.teacher is not None:
        name = first.teacher.model
        words = (*words, Word(f"student of {name}", f"student={unquoted(name)}"))
    elif len(first.trained_tasks) > 1:  # the encoder is shared
        words = (*words, Word(first.title, TOGETHER))
    # The row's name leaves out all words if the user has named the row, else the usual recipe.
    is_said = first.kind in ("model", ZERO_SHOT) and first.recipe != TIMED
    usual = PAPER if is_said else first.recipe_label
    unsaid = len(words) if first.is_named else int(words[0].shown == usual)
    points = count_points(runs) if runs[0].is_sweep else 0
    # From here on `runs` are the runs of the best points, and `tried` are all runs of the sweep.
    tried, runs = runs, best_points(runs, suite.rule)
    finished = _latest(run for run in runs if run.status == "finished")
    done = {(run.task, run.seed) for run in finished}
    failed = _latest(run for run in runs if run.status != "finished")
    cells = {
        task: beside_others(cell, tried, suite.rule)
        for task in suite.tasks
        if (cell := build_cell(task, finished, suite.rule))
    }
    medians = {task: cell.median for task, cell in cells.items()}
    by_seed: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for task, cell in cells.items():
        for run, value in zip(cell.runs, cell.values, strict=True):
            by_seed[run.seed][task] = value
    of_seeds = [_rule_score(suite.rule, values) for values in by_seed.values()]
    return Entry(
        model=runs[0].model,
        recipe=runs[0].recipe_label,
        precision=runs[0].precision,
        kind=runs[0].kind,
        cells=cells,
        failures=tuple(run for run in failed if (run.task, run.seed) not in done),
        counted=tuple(suite.rule.cells),
        score=_rule_score(suite.rule, medians),
        seed_scores=tuple(score for score in of_seeds if score is not None),
        missing=tuple(task for task in suite.rule.cells if task not in cells),
        words=words,
        unsaid=unsaid,
        variant=variant_of(runs[0]),
        points=points,
    )


def _latest(runs: Iterable[RunRow]) -> list[RunRow]:
    """Return the newest run of each task and seed, so that no seed counts twice."""
    newest = {(run.task, run.seed): run for run in sorted(runs, key=lambda r: (r.finished, r.key))}
    return [newest[place] for place in sorted(newest)]


def _rule_score(rule: ScoreRule, by_task: Mapping[str, float]) -> float | None:
    """Apply the score rule to one value per task; return None if a task is missing.

    Every score name of a task is given the task's value, and the rule's average of these is that
    value again. So the score can be computed from the numbers that the board shows.
    """
    if any(task not in by_task for task in rule.cells):
        return None
    return rule.score(
        {task: dict.fromkeys(names, by_task[task]) for task, names in rule.cells.items()}
    )
