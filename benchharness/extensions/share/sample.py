"""Run a random sample of contributed runs again, and compute how likely it finds false scores."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchharness.driver.drive import Watch, unwatched
from benchharness.errors import DataError
from benchharness.extensions.reproduce.rounds import Outcome, Wanted, reproduce, words_of
from benchharness.extensions.reproduce.seeds import ALPHA, POINT, ScoreTest, check_scores, power
from benchharness.extensions.reproduce.verdicts import Verdict
from benchharness.extensions.share.archive import read_runs
from benchharness.extensions.share.inspect import Finding, Inspected
from benchharness.extensions.share.repository import Contribution
from benchharness.leaderboard.job import recipe_digest
from benchharness.leaderboard.statistics import student_t
from benchharness.leaderboard.store.archive import write_archive
from benchharness.leaderboard.store.record import StoredRun
from benchharness.leaderboard.text import counted, grouped, whole_file

_MANY = 1e9  # degrees of freedom of a normal distribution
_ENOUGH = 0.8  # power that a message recommends
_MOST = 10_000  # largest number of runs that a message recommends


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Options for a random sample of runs that are run again.

    Attributes:
        share: Share of the runs to draw, from 0 to 1.
        seed: Seed of the draw. A contributor must not know it in advance.
        minutes: Time limit in minutes, after which no job is expected to run; None for no limit.
        data: Source of the rows, "hub", "mini" or a folder; None for the source of each run.
        checkpoints: Folders of checkpoints, for the runs whose weights have the same digest.
    """

    share: float
    seed: int
    minutes: float | None = None
    data: str | None = None
    checkpoints: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Power:
    """Probabilities that a sample finds stored scores that are too high by one point (0.01).

    Attributes:
        drawn: Number of drawn runs.
        of: Number of runs from which they are drawn.
        every: Probability of a finding if the scores of all runs are too high by a point.
        one: Probability of a finding if the scores of a single run are too high by a point.
        needed: Smallest number of drawn runs for which `every` is at least 80 %; None if it is
            above 10,000 or unknown.
    """

    drawn: int
    of: int
    every: float
    one: float
    needed: int | None

    @property
    def sentence(self) -> str:
        """Description of these probabilities for display."""
        words = (
            f"If all stored scores were 1 point too high, a sample of {self.drawn} of "
            f"{counted(self.of, 'run')} would find this with a probability of {self.every:.0%}; if "
            f"the scores of a single run were, with {self.one:.0%}. These are lower bounds: they "
            "hold for repetitions that differ as much as other seeds, but on the same kind of "
            "machine repetitions differ less."
        )
        if self.every < _ENOUGH and self.needed is not None:
            words += f" A probability of 80 % needs a sample of {counted(self.needed, 'run')}."
        return words


def expected_tests(runs: Sequence[Inspected]) -> list[ScoreTest]:
    """Return the test of each run's first score, as if the repetition of the run had this score.

    The standard deviation over seeds is estimated from the contributor's other seeds of the run, or
    by a rule (see `reproduce.seeds.check_scores`). Runs without scores are left out.
    """
    rows = grouped((_row_of(run), run) for run in runs if run.scores)
    tests = list[ScoreTest]()
    for run in runs:
        if not run.scores:
            continue
        first = run.scores[0]
        others = [
            score.value
            for each in rows[_row_of(run)]
            if each.job.seed != run.job.seed
            for score in each.scores
            if (score.task, score.split, score.name) == (first.task, first.split, first.name)
        ]
        pairs = {first.name: (first.value, first.value)}
        tests += check_scores(
            pairs, {first.name: others}, {first.name: first.rows}, {first.name: first.width}
        )
    return tests


def _row_of(run: Inspected) -> tuple[Any, ...]:
    job = run.job
    prints = tuple(sorted(job.fingerprints.items()))
    return run.who, job.weights, prints, recipe_digest(job), job.precision, job.kind


def power_of(tests: Sequence[ScoreTest], of: int, drawn: int) -> Power:
    """Compute the probabilities that a sample finds scores that are too high.

    Args:
        tests: One test per run that may be drawn. The sample is assumed to have their mean
            variance.
        of: Number of runs from which the sample is drawn.
        drawn: Number of runs in the sample.
    """
    if not tests or not drawn:
        return Power(drawn=drawn, of=of, every=0.0, one=0.0, needed=None)
    variance = sum(2 * test.deviation**2 for test in tests) / len(tests)
    whole = _freedom([(2 * test.deviation**2, test.seeds) for test in tests])
    # The reciprocal of an estimated standard deviation is on average too large; multiply by this
    # factor to correct it.
    certainty = 1.0
    if whole < _MANY:
        half = max(whole, 2.0) / 2
        certainty = math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)

    def every(count: int) -> float:
        freedom = max(1.0, min(_MANY, whole * count / len(tests)))
        critical = student_t(freedom, 1 - ALPHA / 2)
        return power(certainty * POINT * math.sqrt(count / variance), freedom, critical)

    needed, step = 1, _MOST
    while step:  # the power grows with the number of runs
        if needed + step <= _MOST and every(needed + step - 1) < _ENOUGH:
            needed += step
        else:
            step //= 2
    single = sum(test.power for test in tests) / len(tests)
    return Power(
        drawn=drawn,
        of=of,
        every=every(drawn),
        one=drawn / of * single,
        needed=needed if every(needed) >= _ENOUGH else None,
    )


def pooled(tests: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Test whether stored scores differ on average from the scores of the repetitions.

    Args:
        tests: Fields of one `reproduce.seeds.ScoreTest` per run.

    Returns:
        The mean difference (stored score minus new score), and the largest absolute mean difference
        that other seeds explain at a significance level of 5 %. The degrees of freedom are
        computed as in Satterthwaite (1946).
    """
    parts = [(2 * float(test["deviation"]) ** 2, int(test["seeds"])) for test in tests]
    total = sum(variance for variance, _ in parts)
    mean = sum(float(test["stored"]) - float(test["found"]) for test in tests) / len(tests)
    return mean, student_t(_freedom(parts), 1 - ALPHA / 2) * math.sqrt(total) / len(tests)


def _freedom(parts: Sequence[tuple[float, int]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances.

    Args:
        parts: Pairs of a variance and the number of seeds from which it was estimated; the number
            is 0 if the variance is known.
    """
    inverse = sum(variance**2 / (seeds - 1) for variance, seeds in parts if seeds > 1)
    total = sum(variance for variance, _ in parts)
    return min(_MANY, total**2 / inverse) if inverse else _MANY


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Result of running a random sample of contributed jobs again.

    Attributes:
        power: Probabilities that the sample finds scores that are too high, computed before the
            draw.
        findings: Faults of runs that were not reproduced, a fault if the mean of all scores
            differs, and notes on runs that could not be run again.
        verdicts: Verdicts on the runs that were repeated.
        reproduced: Keys of the runs that were reproduced.
        sentence: Summary in one sentence, for display.
    """

    power: Power
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    reproduced: frozenset[str]
    sentence: str


def draw(
    archives: Sequence[Contribution],
    runs: Sequence[Inspected],
    drawing: Drawing,
    watch: Watch = unwatched,
) -> Sampled:
    """Run a random sample of contributed jobs again, and judge the stored runs.

    Args:
        archives: Archives that passed all other checks.
        runs: Runs in the archives.
        drawing: Options for the sample.
        watch: Function that creates the watcher, which shows the progress of the jobs.
    """
    places = {run.job.key: run for run in runs}
    count = math.ceil(drawing.share * len(places))
    found = power_of(expected_tests([*places.values()]), len(places), count)
    with TemporaryDirectory(prefix="bench-share-") as folder:
        path = Path(folder, "drawn.jsonl.gz")
        with path.open("wb") as file:
            write_archive(file, _once(archives), paths=True)
        wanted = Wanted(
            name=str(path),
            db=str(Path(folder, "drawn.sqlite")),
            sample=drawing.share,
            sample_seed=drawing.seed,
            minutes=drawing.minutes,
            data=drawing.data,
            checkpoints=drawing.checkpoints,
        )
        outcomes = reproduce(wanted, watch).outcomes
    findings = [_finding(each, places) for each in outcomes]
    tests = [o.verdict.tests[0] for o in outcomes if o.verdict and o.verdict.tests]
    findings += _pooled_finding(tests, places, outcomes)
    judged = [o.verdict for o in outcomes if o.verdict]
    left = sum(o.state == "left" for o in outcomes)
    ran = f"{len(judged)} of {counted(len(outcomes), 'drawn run')} ran again"
    time = f"; time did not suffice for {left}" if left else ""
    good = sum(verdict.is_good for verdict in judged)
    return Sampled(
        power=found,
        findings=tuple(each for each in findings if each is not None),
        verdicts=tuple(judged),
        reproduced=frozenset(verdict.key for verdict in judged if verdict.is_good),
        sentence=f"{ran}, {good} reproduced{time} (--sample-seed {drawing.seed}).",
    )


def _once(archives: Sequence[Contribution]) -> Iterator[StoredRun]:
    seen = set[str]()
    for each in archives:
        for stored, _ in read_runs(each):
            if stored.key not in seen:
                seen.add(stored.key)
                yield stored


def _finding(outcome: Outcome, places: Mapping[str, Inspected]) -> Finding | None:
    """Return the finding about a run that was not reproduced; None if it was reproduced.

    The finding is a note instead of a fault if the run has no verdict.
    """
    run = places[outcome.row.key]
    if outcome.verdict is not None and outcome.verdict.is_good:
        return None
    is_fault = outcome.verdict is not None
    words = words_of(outcome).rstrip(".")
    advice = "Run the job again with an unchanged program, and share that run" * is_fault
    sentence = ". ".join(filter(None, (words, advice))) + "."
    return run.finding("reproduction", sentence, is_fault=is_fault)


def _pooled_finding(
    tests: Sequence[Mapping[str, Any]],
    places: Mapping[str, Inspected],
    outcomes: Sequence[Outcome],
) -> Iterator[Finding]:
    if len(tests) < 2:
        return
    mean, limit = pooled(tests)
    if abs(mean) > limit:
        yield Finding(
            place=places[outcomes[0].row.key].place,
            kind="reproduction",
            sentence=f"the stored scores of {len(tests)} sampled runs differ on average by "
            f"{100 * mean:+.2f} points from the scores of the repetitions, and other seeds explain "
            f"at most ±{100 * limit:.2f}: run the jobs again with an unchanged program.",
        )


def write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write verdicts to a file in the form that `bench reproduce --list --json` prints.

    Raises:
        DataError: The file cannot be written.
    """
    try:
        with whole_file(path) as file:
            file.write(json.dumps([each.to_json() for each in verdicts], indent=1).encode())
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error
