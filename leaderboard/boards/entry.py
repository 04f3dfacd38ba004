"""Entries of a leaderboard: the runs of one model with one recipe on each task."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from benchharness.leaderboard.boards.cell import (
    Cell,
    Noted,
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

# Uncertainty of leaderboard entries: intervals for their scores and ranks.

LEVEL = 0.95
"""Confidence level of all intervals on leaderboards."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """95 % confidence intervals for a median over seeds, or for the suite's score.

    Attributes:
        both: Interval that covers all known sources of noise; None if no source is known.
        examples: Interval that covers only the choice of examples; None if the examples could not
            be read.
        seeds: Interval that covers only the choice of seeds; None if the variance over seeds is
            unknown, e.g. because there is only one run.
        reason: Reason why `examples` is None, e.g. that they could not be read; may be empty.
    """

    both: Interval | None = None
    examples: Interval | None = None
    seeds: Interval | None = None
    reason: str = ""

    @property
    def scope(self) -> str:
        """Sources of noise that `both` covers, e.g. "examples and seeds"."""
        parts = (("examples", self.examples), ("seeds", self.seeds))
        return " and ".join(name for name, interval in parts if interval is not None)


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """Confidence intervals for the scores of a leaderboard entry and for its rank.

    Attributes:
        cells: Intervals for the scores on tasks, keyed by task.
        score: Intervals for the suite's score.
        ranks: Best and worst possible rank; None if the entry has no rank, or if the noise of a
            task is unknown.
        tied: Names of the ranked entries that do not differ significantly from this entry.
    """

    cells: Mapping[str, Intervals]
    score: Intervals
    ranks: tuple[int, int] | None = None
    tied: tuple[str, ...] = ()

    @property
    def rank_label(self) -> str:
        """Possible ranks as text: "2-4", or "1" if both are equal; empty if they are unknown."""
        if self.ranks is None:
            return ""
        first, last = self.ranks
        return str(first) if first == last else f"{first}-{last}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Gain of a distilled student over the same model trained without a teacher, on one task.

    Attributes:
        difference: Mean score of the student minus that of the model without a teacher, over the
            seeds that both have.
        seeds: Seeds that both have.
        interval: 95 % confidence interval of the difference; None if it was not tested.
        p_value: P-value of a paired test, corrected for the number of tasks (see
            comparing/contrast.py); None if the difference was not tested.
        is_shown: True if the difference is significant. False if it was not tested.
    """

    difference: float
    seeds: tuple[int, ...]
    interval: Interval | None = None
    p_value: float | None = None
    is_shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Leaderboard entry: the runs of one model with one recipe and precision.

    Attributes:
        model: Name of the model.
        recipe: Label of the recipe, e.g. "paper" or "paper+set" (see `job.recipe_label`).
        precision: Numerical precision.
        kind: Origin of the runs (see `job.Kind`).
        cells: Finished runs with their scores, keyed by task.
        failures: Failed runs that no finished run has replaced.
        counted: Tasks that count in the suite's score.
        score: The suite's score, computed from the medians of the tasks in `counted`; None if one
            of them is missing.
        seed_scores: The suite's score for each seed that has all tasks.
        missing: Tasks in `counted` without a score.
        words: Settings that were changed, and words that distinguish the entry from others of its
            model (see naming.py).
        unsaid: Number of words, at the beginning of `words`, that the entry's name leaves out.
        says_precision: True if the name includes the precision to distinguish the entry.
        rank: Rank; entries whose displayed scores are equal have the same rank. None if the entry
            has no score, or if it is not a single model that was fine-tuned here.
        variant: Digest (4 hex digits) of everything in the training except the seed. It is part of
            the row's id in the report, and is not shown. Empty if no other entry of the leaderboard
            has the same model, recipe and precision.
        points: Number of hyperparameter settings in a sweep, of which the entry shows the best one
            per task; 0 if there was no sweep.
        uncertainty: Confidence intervals; None if they were not requested.
        gains: Gains of a distilled student, keyed by task, for the tasks on which the same model
            was also trained without a teacher.
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
        """True if the entry is a single trained model, fine-tuned here or elsewhere."""
        return self.kind in SINGLE

    @property
    def competes(self) -> bool:
        """True if the entry can have a rank: it is a single model that was fine-tuned here."""
        return self.kind == "model"

    @property
    def has_learned(self) -> bool:
        """True if the model has learned at least one task (see `Cell.has_learned`)."""
        return any(cell.has_learned for cell in self.cells.values())

    def notes(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """Return the warnings for these tasks, e.g. "RTE: 1 of 2 seeds collapsed (...)"."""
        cells = (self.cells[task] for task in tasks if task in self.cells)
        return tuple(f"{title_of(cell.task)}: {note}" for cell in cells for note in cell.notes)

    @property
    def score_notes(self) -> tuple[str, ...]:
        """Warnings about the suite's score: the warnings for every task that counts in it."""
        return self.notes(self.counted)

    @property
    def score_text(self) -> str:
        """The suite's score as tables show it, with "!" if there are warnings; empty without it."""
        return "" if self.score is None else marked(shown(self.score), self.score_notes)

    @property
    def noted(self) -> Iterator[Noted]:
        """Names of the scores, as pairs (name of the entry, title of the task), with warnings."""
        for task, cell in self.cells.items():
            yield (self.name, title_of(task)), cell.notes

    @property
    def shown_kind(self) -> str:
        """Kind of the entry in JSON and exports.

        It is "model" if the entry is one trained model (see `is_single`), else `kind`.
        """
        return "model" if self.is_single else self.kind

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the suite's score over seeds; None for fewer than two."""
        return spread_of(self.seed_scores)

    @property
    def seeds(self) -> tuple[int, int]:
        """Smallest and largest number of seeds per task; (0, 0) if there are no results."""
        counts = [len(cell.values) for cell in self.cells.values()] or [0]
        return min(counts), max(counts)

    @property
    def name(self) -> str:
        """Name of the entry in tables, e.g. "minilm" or "minilm, lr 3e-4, 3 epochs"."""
        precision = (self.precision,) if self.says_precision else ()
        words = (word.shown for word in self.words[self.unsaid :])
        return ", ".join((self.model, *words, *precision))

    def name_but_for(self, setting: str) -> str:
        """Return the entry's name with its precision, but without one of its changed settings.

        Args:
            setting: Setting to leave out, as it is typed on the command line, e.g. "lr".
        """
        words = self.words[self.unsaid :]
        shown = (word.shown for word in words if not word.typed.startswith(f"{setting}="))
        return ", ".join((self.model, *shown, self.precision))

    @property
    def beside_name(self) -> str:
        """Text next to the name in tables: the words that the name leaves out, and a sweep's size.

        Examples: "paper", "baseline" and "best of 3 on dev".
        """
        words = [word.shown for word in self.words[: self.unsaid]]
        return ", ".join(filter(None, (*words, self._chosen)))

    @property
    def _chosen(self) -> str:
        return f"best of {self.points} on dev" if self.points else ""

    @property
    def recipe_label(self) -> str:
        """Description of the training: the changed settings or, if there are none, the recipe.

        A sweep's description ends with the number of hyperparameter settings. Examples: "lr 3e-4, 3
        epochs" and "sweep of lr, best of 3 on dev".
        """
        return ", ".join(filter(None, (*(word.shown for word in self.words), self._chosen)))

    @property
    def starts(self) -> dict[str, str]:
        """Starting points of the runs, keyed by task.

        A starting point is the task on which the encoder was fine-tuned before, or "another run" if
        that run is not stored. Tasks whose runs started with the pretrained checkpoint are left
        out.
        """
        found = {task: cell.runs[0].start_task for task, cell in self.cells.items()}
        return {task: start for task, start in found.items() if start}

    @property
    def start_labels(self) -> tuple[str, ...]:
        """Tasks whose encoder was fine-tuned on another task before, e.g. "MRPC, RTE from MNLI"."""
        tasks = grouped((start, title_of(task)) for task, start in sorted(self.starts.items()))
        return tuple(
            f"{', '.join(names)} from {distinct_title(start)}" for start, names in tasks.items()
        )

    @property
    def gain_labels(self) -> tuple[str, ...]:
        """Gains from distillation as text; empty if there are none.

        Example: "RTE +1.2 (p 0.04) over the same model without a teacher".
        """
        found = [
            f"{title_of(task)} {gain.difference * 100:+.1f}"
            + ("" if gain.p_value is None else f" (p {gain.p_value:.2g})")
            for task, gain in self.gains.items()
        ]
        return (f"{', '.join(found)} over the same model without a teacher",) if found else ()

    @property
    def selection_labels(self) -> tuple[str, ...]:
        """How final weights were selected during training, e.g. "best of 10 evaluations on dev"."""
        # Leave out tasks that are predicted by runs on another task (e.g. AX by runs on MNLI),
        # because no weights were selected for them.
        own = [cell for cell in self.cells.values() if cell.task in cell.runs[0].trained_tasks]
        chosen = [cell for cell in own if cell.selections]
        labels = selection_labels(each for cell in chosen for each in cell.selections)
        if len(chosen) == len(own):
            return labels
        names = ", ".join(title_of(cell.task) for cell in chosen)
        return tuple(f"{names}: {label}" for label in labels)

    @property
    def stage(self) -> Stage | None:
        """Position of the checkpoint in its pretraining run; None if it is not known."""
        return next((run.stage for run in self.runs if run.stage is not None), None)

    @cached_property
    def runs(self) -> tuple[RunRow, ...]:
        """Distinct runs of the entry; failed runs come last."""
        finished = {run.key: run for cell in self.cells.values() for run in cell.runs}
        return (*finished.values(), *self.failures)


def build_entry(runs: Sequence[RunRow], suite: Suite) -> Entry:
    """Create a leaderboard entry, without a rank, from its runs.

    Args:
        runs: Finished and failed runs of one model with one recipe and precision.
        suite: Suite of the leaderboard.
    """
    words, first = recipe_words(runs[0].recipe_label, runs), runs[0]
    if first.teacher is not None:
        name = first.teacher.model
        words = (*words, Word(f"student of {name}", f"student={unquoted(name)}"))
    elif len(first.trained_tasks) > 1:  # several tasks share the encoder
        words = (*words, Word(first.title, TOGETHER))
    # The entry's name leaves out all words if the user has named the entry. Otherwise it leaves out
    # only the default recipe; for e.g. a baseline or an ensemble, that is its only recipe.
    is_said = first.kind in ("model", ZERO_SHOT) and first.recipe != TIMED
    usual = PAPER if is_said else first.recipe_label
    unsaid = len(words) if first.is_named else int(words[0].shown == usual)
    points = count_points(runs) if runs[0].is_sweep else 0
    # Below, `runs` are the runs of the best settings, and `tried` all runs of the sweep.
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
    """Return the newest run for each task and seed, so that no seed is counted twice."""
    newest = {(run.task, run.seed): run for run in sorted(runs, key=lambda r: (r.finished, r.key))}
    return [newest[place] for place in sorted(newest)]


def _rule_score(rule: ScoreRule, by_task: Mapping[str, float]) -> float | None:
    """Compute the suite's score from one value per task; return None if a task is missing.

    If a task has several scores, all of them are set to the task's value, which is their mean. So
    the suite's score is computed from the numbers that the leaderboard shows.
    """
    if any(task not in by_task for task in rule.cells):
        return None
    return rule.score(
        {task: dict.fromkeys(names, by_task[task]) for task, names in rule.cells.items()}
    )
