"""Reproduction of a sample of contributed runs, and its power against planted points."""

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
_ENOUGH = 0.8
_MOST = 10_000  # largest number of runs that a message recommends


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Options for the sample.

    Attributes:
        share: Share of the runs to draw, from 0 to 1.
        seed: Seed of the draw. A contributor must not know it in advance.
        minutes: Number of minutes after which no job is expected to run; None for no limit.
        data: Source of the rows; None for that of each run.
        checkpoints: Folders of checkpoints.
    """

    share: float
    seed: int
    minutes: float | None = None
    data: str | None = None
    checkpoints: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power of a sample against planted points.

    Attributes:
        drawn: Number of drawn runs.
        of: Number of runs from which they are drawn.
        every: Probability that a planted point (0.01) in every run is found.
        one: Probability that a planted point in a single run is found.
        needed: Number of runs with which the first probability is 80 %; None if above 10,000.
    """

    drawn: int
    of: int
    every: float
    one: float
    needed: int | None

    @property
    def sentence(self) -> str:
        """Description of the power for readers."""
        words = (
            f"A sample of {self.drawn} of {counted(self.of, 'run')} finds a planted point in every "
            f"run with a probability of {self.every:.0%}, and one in a single run with "
            f"{self.one:.0%}, if the repetition differs as much as another seed. On the same kind "
            f"of machine it differs less, and the sample finds more."
        )
        if self.every < _ENOUGH and self.needed is not None:
            words += f" For 80 % it needs {counted(self.needed, 'run')}."
        return words


def expected_tests(runs: Sequence[Inspected]) -> list[ScoreTest]:
    """Return the test of the first score of each run, as if its repetition had the same score.

    The standard deviation over seeds comes from the other seeds of the same row, or from a rule
    (see `reproduce.seeds`). Runs without scores are left out.
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
    """Return the power of a sample of `drawn` runs.

    Args:
        tests: Tests of the runs that may be drawn; the sample has their mean variance.
        of: Number of runs from which the sample is drawn.
        drawn: Number of drawn runs.
    """
    if not tests or not drawn:
        return Power(drawn=drawn, of=of, every=0.0, one=0.0, needed=None)
    variance = sum(2 * test.deviation**2 for test in tests) / len(tests)
    whole = _freedom([(2 * test.deviation**2, test.seeds) for test in tests])
    # One divided by an estimated deviation is on average too large by this factor.
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
    """Test whether stored scores are on average other than those of their repetitions.

    Args:
        tests: Data of one test of scores per run (`reproduce.seeds.ScoreTest`).

    Returns:
        The mean of the stored scores minus the new ones, and the largest absolute mean that seeds
        explain at a level of 5 %. The degrees of freedom are Satterthwaite's (1946).
    """
    parts = [(2 * float(test["deviation"]) ** 2, int(test["seeds"])) for test in tests]
    total = sum(variance for variance, _ in parts)
    mean = sum(float(test["stored"]) - float(test["found"]) for test in tests) / len(tests)
    return mean, student_t(_freedom(parts), 1 - ALPHA / 2) * math.sqrt(total) / len(tests)


def _freedom(parts: Sequence[tuple[float, int]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances.

    Args:
        parts: Each variance, and the number of seeds from which it was estimated; 0 if it is known.
    """
    inverse = sum(variance**2 / (seeds - 1) for variance, seeds in parts if seeds > 1)
    total = sum(variance for variance, _ in parts)
    return min(_MANY, total**2 / inverse) if inverse else _MANY


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """Result of a sample.

    Attributes:
        power: Its power, computed before it was drawn.
        findings: What was found.
        verdicts: The verdicts.
        reproduced: Keys of the runs that were reproduced.
        sentence: Summary for readers.
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
    """Run a sample of contributed jobs again, and judge the stored runs.

    Args:
        archives: Archives that were checked before.
        runs: Their runs.
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
    """Return what the repetition of a run found; None if it was reproduced."""
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
            sentence=f"the stored scores of {len(tests)} sampled runs are on average "
            f"{100 * mean:+.2f} points from their repetitions, and seeds explain at most "
            f"±{100 * limit:.2f}: run the jobs again with an unchanged program.",
        )


def write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write verdicts as `bench reproduce --list --json` prints them.

    Raises:
        DataError: The file cannot be written.
    """
    try:
        with whole_file(path) as file:
            file.write(json.dumps([each.to_json() for each in verdicts], indent=1).encode())
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error
