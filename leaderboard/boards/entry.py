"""A line of a board: one model's runs by one recipe, task by task."""

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
from benchharness.tasks.suites import ScoreRule, Suite, distinct_title, title_of

# How sure an entry's numbers are: the intervals of its cells, its score and its rank.

LEVEL = 0.95
"""Of every interval on a board."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """The 95 % intervals of a median over seeds, in the score's own unit.

    `examples` is for these trained models and other examples like these, None where the examples
    could not be read (`reason` says why); `seeds` for other seeds on these examples, None for one
    run; `both` for either, by as much of it as is known, None where nothing is.
    """

    both: Interval | None = None
    examples: Interval | None = None
    seeds: Interval | None = None
    reason: str = ""

    @property
    def scope(self) -> str:
        """What `both` is over: "examples and seeds"."""
        parts = (("examples", self.examples), ("seeds", self.seeds))
        return " and ".join(name for name, interval in parts if interval is not None)


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """The intervals of an entry: of each cell by its task, of the suite's score, of the rank.

    `ranks` are the first and the last place that it may well have, None for an entry without rank
    or where nothing is known of a task. `tied` are the labels of the ranked entries that it is not
    told apart from.
    """

    cells: Mapping[str, Intervals]
    score: Intervals
    ranks: tuple[int, int] | None = None
    tied: tuple[str, ...] = ()

    @property
    def rank_label(self) -> str:
        """The ranks for a reader: "2-4", "1" where there is one; empty where none are known."""
        if self.ranks is None:
            return ""
        first, last = self.ranks
        return str(first) if first == last else f"{first}-{last}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How far a student is above the same model without its teacher on a task.

    `difference` and `interval` are in the score's own unit, over the seeds that both have, and
    `p_value` is that of the paired test, corrected for the tasks; see comparing/contrast.py.
    """

    difference: float
    seeds: tuple[int, ...]
    interval: Interval | None = None
    p_value: float | None = None
    is_shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a board: a model, fine-tuned by one recipe in one precision, over its seeds.

    `score` is the suite's score rule over the medians of the tasks it counts (`counted`), None
    where one of them is missing; `seed_scores` are the rule's scores of the seeds that have every
    task. Equal scores,
    as shown, share a `rank`; an entry without a score has none, nor has one that does not compete:
    an ensemble or a baseline (`kind`), or predictions of others. `words` are what was set and what
    tells the entry from others of its model (see naming.py), of which its name leaves the first
    `unsaid` out: the paper's recipe, or all where the user has named the row; it says the precision
    where another row differs in nothing else. `variant` are four
    digits that told rows apart in earlier versions, and that scripts may still use. Of a sweep the
    best point stands here, task by task; `points` is how many were tried, 0 for any other recipe.
    `uncertainty` has the intervals, where they were asked for. `gains` are those of a student, by
    task, where the same model is there without its teacher.
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
        """True for one model, whoever trained it."""
        return self.kind in SINGLE

    @property
    def competes(self) -> bool:
        """True for what is ranked: a model that was fine-tuned here, alone."""
        return self.kind == "model"

    @property
    def has_learned(self) -> bool:
        """Whether the median of a task has learned something; what has not is nowhere the best."""
        return any(cell.has_learned for cell in self.cells.values())

    def notes(self, tasks: Iterable[str]) -> tuple[str, ...]:
        """What must be known of a number made of these tasks: "RTE: 1 of 2 seeds collapsed ..."."""
        cells = (self.cells[task] for task in tasks if task in self.cells)
        return tuple(f"{title_of(cell.task)}: {note}" for cell in cells for note in cell.notes)

    @property
    def score_notes(self) -> tuple[str, ...]:
        """Give the notes of the score, which are those of its tasks."""
        return self.notes(self.counted)

    @property
    def score_text(self) -> str:
        """The score as every table shows it, with the mark of what must be known of it."""
        return "" if self.score is None else marked(shown(self.score), self.score_notes)

    @property
    def noted(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The notes of each task's value, with what names it: "tiny, 3 epochs RTE"."""
        for task, cell in self.cells.items():
            yield f"{self.name} {title_of(task)}", cell.notes

    @property
    def shown_kind(self) -> str:
        """The kind as JSON and exports have it: they call every single model a "model"."""
        return "model" if self.is_single else self.kind

    @property
    def spread(self) -> float | None:
        """The sample standard deviation of the score over seeds; None for one seed."""
        return spread_of(self.seed_scores)

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most seeds that a task has; (0, 0) without any score."""
        counts = [len(cell.values) for cell in self.cells.values()] or [0]
        return min(counts), max(counts)

    @property
    def name(self) -> str:
        """What the row is called wherever it stands: "minilm", "minilm, lr 3e-4, 3 epochs"."""
        precision = (self.precision,) if self.says_precision else ()
        words = (word.shown for word in self.words[self.unsaid :])
        return ", ".join((self.model, *words, *precision))

    def name_but_for(self, setting: str) -> str:
        """The model, what was set but for one setting, and the precision."""
        words = self.words[self.unsaid :]
        shown = (word.shown for word in words if not word.typed.startswith(f"{setting}="))
        return ", ".join((self.model, *shown, self.precision))

    @property
    def beside_name(self) -> str:
        """What the name leaves unsaid of the recipe: "paper", "baseline", "best of 3 on dev"."""
        words = [word.shown for word in self.words[: self.unsaid]]
        return ", ".join(filter(None, (*words, self._chosen)))

    @property
    def _chosen(self) -> str:
        return f"best of {self.points} on dev" if self.points else ""

    @property
    def recipe_label(self) -> str:
        """What was set, or the recipe's name, with what a reader must know of it.

        "lr 3e-4, 3 epochs"; of a sweep, "sweep of lr, best of 3 on dev".
        """
        return ", ".join(filter(None, (*(word.shown for word in self.words), self._chosen)))

    @property
    def starts(self) -> dict[str, str]:
        """By task, the task that its runs started from, where there was one before them."""
        found = {task: cell.runs[0].start_task for task, cell in self.cells.items()}
        return {task: start for task, start in found.items() if start}

    @property
    def start_labels(self) -> tuple[str, ...]:
        """The same for a reader: "MRPC, RTE from MNLI"."""
        tasks = grouped((start, title_of(task)) for task, start in sorted(self.starts.items()))
        return tuple(
            f"{', '.join(names)} from {distinct_title(start)}" for start, names in tasks.items()
        )

    @property
    def gain_labels(self) -> tuple[str, ...]:
        """What a student gained: "RTE +1.2 (p 0.04) over the same without a teacher"."""
        found = [
            f"{title_of(task)} {gain.difference * 100:+.1f}"
            + ("" if gain.p_value is None else f" (p {gain.p_value:.2g})")
            for task, gain in self.gains.items()
        ]
        return (f"{', '.join(found)} over the same without a teacher",) if found else ()

    @property
    def selection_labels(self) -> tuple[str, ...]:
        """How its runs chose their weights: "best of 10 evaluations on dev", "RTE: best of ..."."""
        # A set that another task's run predicts (AX by MNLI's) has no choice of its own.
        own = [cell for cell in self.cells.values() if cell.task in cell.runs[0].trained_tasks]
        chosen = [cell for cell in own if cell.selections]
        labels = selection_labels(each for cell in chosen for each in cell.selections)
        if len(chosen) == len(own):
            return labels
        names = ", ".join(title_of(cell.task) for cell in chosen)
        return tuple(f"{names}: {label}" for label in labels)

    @property
    def stage(self) -> Stage | None:
        """Where its checkpoint was saved, of one of several of a pretraining run."""
        return next((run.stage for run in self.runs if run.stage is not None), None)

    @cached_property
    def runs(self) -> tuple[RunRow, ...]:
        """Every run of the entry once, failed ones last."""
        finished = {run.key: run for cell in self.cells.values() for run in cell.runs}
        return (*finished.values(), *self.failures)


def build_entry(runs: Sequence[RunRow], suite: Suite) -> Entry:
    """The entry that these runs make, all of one model and recipe; not yet ranked."""
    words, first = recipe_words(runs[0].recipe_label, runs), runs[0]
    if first.teacher is not None:
        name = first.teacher.model
        words = (*words, Word(f"student of {name}", f"student={unquoted(name)}"))
    elif len(first.trained_tasks) > 1:  # the encoder is shared
        words = (*words, Word(first.title, TOGETHER))
    # What a row's name leaves out: all where the user has named it, else the usual recipe.
    is_said = first.kind in ("model", ZERO_SHOT) and first.recipe != TIMED
    usual = PAPER if is_said else first.recipe_label
    unsaid = len(words) if first.is_named else int(words[0].shown == usual)
    points = count_points(runs) if runs[0].is_sweep else 0
    # From here on `runs` are those of the best points, and `tried` all of a sweep.
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
    """The newest run of each task and seed, so that no seed counts twice."""
    newest = {(run.task, run.seed): run for run in sorted(runs, key=lambda r: (r.finished, r.key))}
    return [newest[place] for place in sorted(newest)]


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
