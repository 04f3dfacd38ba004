"""Tests of `--halving`: the sweep points that continue, also in a resumed run."""

import json
import sys
from collections import Counter
from statistics import median

import numpy as np
import pytest

from benchharness.cli.app import main
from benchharness.extensions.search.rounds import Size, in_turn, sizes, sweep_rounds
from benchharness.leaderboard.store.store import open_store
from tests.helpers.learned_engine import LearnedEngine

RATES = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5, 1e-4, 2e-4, 3e-4)
SHARES = dict(zip(RATES, (0.55, 0.6, 0.65, 0.7, 0.9, 0.8, 0.6, None), strict=True))
"""Share of correct predictions on RTE per learning rate; the jobs of the last one fail."""

WORDS = (
    *("bench", "run", "--model", "tiny", "--task", "glue/rte", "--data", "mini", "--limit", "100"),
    *("--device", "cpu", "--no-baselines", "--precision", "fp32"),
)
GRID = ("--set", f"learning_rate={','.join(map(str, RATES))}")
FIVE = ("--seeds", "5")


class RatedEngine(LearnedEngine):
    """An engine whose scores depend on the learning rate; `stop_after` counts jobs."""

    def __init__(self, stop_after=None):
        super().__init__({}, stop_after=stop_after)

    def run(self, jobs, report):
        for job in jobs:
            self._shares = {job.task: SHARES[job.values["learning_rate"]]}
            yield from super().run([job], report)


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command and returns its exit code and output.

    It writes no report, which would take as long as everything else.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    monkeypatch.setattr("benchharness.stored.report.make_report", lambda *_, **__: None)

    def run(engine, *words, how=(*GRID, *FIVE)):
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
        monkeypatch.setattr(sys, "argv", [*WORDS, *how, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def seeds_by_rate(jobs):
    return Counter(job.values["learning_rate"] for job in jobs)


def learned(*jobs):
    """Return the keys of the jobs that did not fail."""
    return sorted(job.key for job in jobs if SHARES[job.values["learning_rate"]] is not None)


def test_halving_of_8_sweep_points_with_5_seeds_runs_half_of_the_grid():
    assert sizes(8, 5) == (Size(8, 1), Size(4, 2), Size(3, 4), Size(2, 5))
    assert sizes(3, 3) == (Size(3, 1), Size(3, 2), Size(2, 3))
    assert sizes(2, 3) == (Size(2, 1), Size(2, 2), Size(2, 3))
    assert sizes(8, 1) == (Size(8, 1),)


@pytest.mark.parametrize("points", [3, 4, 8, 16, 33])
@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_later_halving_rounds_never_have_more_sweep_points_or_fewer_seeds(points, seeds):
    found = sizes(points, seeds)
    assert found == tuple(sorted(found, key=lambda size: (-size.candidates, size.seeds)))
    assert found[-1].seeds == seeds
    assert 2 <= found[-1].candidates <= max(2, (points + 1) // 2)


def test_halving_continues_the_better_half_and_drops_a_failed_sweep_point(bench):
    engine = RatedEngine()
    code, printed = bench(engine, "--halving")
    tried = seeds_by_rate(engine.started)
    assert sorted(tried.values()) == [1, 1, 1, 1, 2, 4, 5, 5]
    assert (tried[5e-5], tried[1e-4], tried[3e-4]) == (5, 5, 1)
    assert "8 x 1, 4 x 2, 3 x 4, 2 x 5" in printed.out
    assert "best of 7 on dev" in printed.out.replace("\n", " ")
    assert "19 of 20 jobs are finished, 1 failed." in printed.out
    ended = [line for line in printed.err.splitlines() if line.startswith("[")]
    assert len(ended) == 20
    assert all("] tiny RTE seed " in line and ", lr " in line for line in ended)
    assert code == 1


@pytest.mark.soak
def test_resumed_halving_selects_the_same_sweep_points(bench):
    """Stored seeds of an interrupted round do not affect which points are in it."""
    whole = RatedEngine()
    bench(whole, "--halving", "--db", "whole.sqlite")
    for after in (3, 8, 11, 17):
        stopped, again = RatedEngine(stop_after=after), RatedEngine()
        assert bench(stopped, "--halving", "--db", f"{after}.sqlite")[0] == 130
        bench(again, "--halving", "--db", f"{after}.sqlite")
        assert learned(*stopped.started, *again.started) == learned(*whole.started), after


def test_halving_reuses_stored_runs_of_the_whole_grid(bench):
    grid, halving = RatedEngine(), RatedEngine()
    bench(grid)
    assert len(grid.started) == 40
    _, printed = bench(halving, "--halving", "--json")
    assert [job.values["learning_rate"] for job in halving.started] == [3e-4]
    assert json.loads(printed.out)["jobs"] == 20


def test_halving_prints_a_note_about_equal_weights_only_once(bench):
    bench(RatedEngine())
    with open_store("results/leaderboard.sqlite", create=False) as store:
        store.annotate([row.key for row in store.runs()], "name", "mine", whole_model=True)
    _, printed = bench(RatedEngine(), "--halving")
    assert printed.err.count("tiny has the same weights as mine") == 1


def test_dry_run_with_halving_starts_no_jobs(bench):
    engine = RatedEngine()
    bench(engine, "--halving", "--dry-run")
    assert engine.started == []


@pytest.mark.parametrize(
    "how", [FIVE, (*GRID, "--seeds", "1"), ("--set", "learning_rate=1e-5,2e-5", *FIVE)]
)
def test_halving_without_enough_sweep_points_or_seeds_is_an_error(bench, how):
    engine = RatedEngine()
    code, printed = bench(engine, "--halving", how=how)
    assert (code, engine.started) == (2, [])
    assert "--halving needs a sweep" in printed.err


def test_halving_and_force_together_are_an_error(bench):
    code, printed = bench(RatedEngine(), "--halving", "--force")
    assert code == 2
    assert "--halving and --force cannot be combined" in printed.err


def chosen(seeds):
    """Return the point that halving of 8 points with 5 seeds selects, and the number of runs."""
    ended = {}
    for trials, _ in in_turn(sweep_rounds, {("task", "model"): Size(8, 5)}, ended):
        ended |= {trial: seeds[trial.point][trial.seed] for trial in trials}
    return max((trial.point for trial in trials), key=lambda p: median(seeds[p])), len(ended)


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_halving_usually_finds_the_best_sweep_point_or_an_equally_good_one(spread):
    """The spread of points is `spread` times the deviation of a seed; 1,000 draws."""
    draw = np.random.default_rng(5)
    same, as_good = 0, 0
    for _ in range(1000):
        seeds = draw.normal(0, spread, 8)[:, None] + draw.normal(0, 1, (8, 5))
        best = max(range(8), key=lambda p: median(seeds[p]))
        found, runs = chosen(seeds.tolist())
        assert runs == 20
        same += found == best
        # Less than one standard error of the difference of two medians over five seeds.
        as_good += median(seeds[best]) - median(seeds[found]) < 0.536 * np.sqrt(2)
    assert as_good >= 950
    assert same >= (940 if spread == 2.0 else 820)
