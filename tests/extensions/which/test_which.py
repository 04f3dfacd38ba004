"""`bench which`: the order of runs, the time limit, and the choice of the best encoder."""

import json
import math
import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

import benchharness as bh
from benchharness.baselines import run_baseline
from benchharness.cli.app import main
from benchharness.engines.local import LocalEngine
from benchharness.engines.slots import Slot
from benchharness.errors import JobError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.search.rounds import Size, Trial, in_turn
from benchharness.extensions.which import inference
from benchharness.extensions.which.answers import Answer, Candidate
from benchharness.extensions.which.choose import Inference, check_tasks, measure_inference, measured
from benchharness.extensions.which.command import _legend
from benchharness.extensions.which.inference import measure_prediction
from benchharness.extensions.which.rounds import encoder_rounds
from benchharness.leaderboard.job import ZERO_SHOT
from benchharness.leaderboard.result import Failure
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks import suites
from benchharness.tasks.suites import find_task
from tests.helpers import own_files
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.learned_engine import CONSTANT, LearnedEngine
from tests.helpers.mini_jobs import make_job

# Rankings.

ENCODERS = ("a", "b", "c", "d", "e", "f")


def grid_of(tasks=("t",), encoders=ENCODERS, points=3, seeds=5):
    return {(task, encoder): Size(points, seeds) for task in tasks for encoder in encoders}


def whole(grid):
    """Return every trial of a grid."""
    return [
        Trial(*pair, point, seed)
        for pair, size in grid.items()
        for point in range(size.candidates)
        for seed in range(size.seeds)
    ]


def missing(grid, ended):
    """Yield the trials per round that have not ended."""
    for trials, _ in in_turn(encoder_rounds, grid, ended):
        yield [trial for trial in trials if trial not in ended]


def searched(grid, score, budget=math.inf, before=()):
    """Return the ended trials after `budget` trials, or when none is left."""
    ended = dict(before)
    for trials in missing(grid, ended):
        for trial in trials:
            if len(ended) >= budget:
                return ended
            ended[trial] = score(trial)
    return ended


def best(grid, ended):
    def score(encoder):
        points = {}
        for trial, value in ended.items():
            if trial.encoder == encoder:
                points.setdefault(trial.point, []).append(value)
        most = max(map(len, points.values()), default=0)
        return max((median(own) for own in points.values() if len(own) == most), default=-math.inf)

    return max(ENCODERS, key=score)


def test_search_runs_each_encoder_once_per_task_in_the_first_round():
    grid = grid_of(("t", "u"))
    assert sorted(next(missing(grid, {}))) == sorted(
        Trial(task, encoder, 0, 0) for task in ("t", "u") for encoder in ENCODERS
    )


def test_search_stops_early_if_one_encoder_is_far_better():
    noise = np.random.default_rng(1)
    grid = grid_of()
    ended = searched(grid, lambda t: 10 * (t.encoder == "d") + noise.normal(0, 0.1))
    assert best(grid, ended) == "d"
    assert len(ended) < 0.4 * len(whole(grid))


def test_search_over_equal_encoders_runs_the_complete_grid():
    noise = np.random.default_rng(2)
    grid = grid_of(encoders=("a", "b", "c"), points=2, seeds=3)
    assert len(searched(grid, lambda _: noise.normal())) == len(whole(grid))


def test_search_tries_a_failing_encoder_once_per_hyperparameter_setting():
    noise = np.random.default_rng(3)
    ended = searched(grid_of(), lambda t: None if t.encoder == "b" else noise.normal())
    assert sum(trial.encoder == "b" for trial in ended) == 3


def test_search_stops_if_all_trials_fail():
    assert set(searched(grid_of(), lambda _: None).values()) == {None}


def test_resumed_search_runs_the_same_trials_and_uses_stored_ones():
    noise = np.random.default_rng(4)
    grid = grid_of(("t", "u"), points=2, seeds=4)
    scores = {t: ENCODERS.index(t.encoder) / 3 + noise.normal() for t in whole(grid)}
    tried = list(searched(grid, scores.__getitem__))
    for kept in (3, 14, 29, 37):
        before = {trial: scores[trial] for trial in tried[:kept]}
        again = searched(grid, scores.__getitem__, before=before)
        assert set(again) == set(tried)
    assert not any(missing(grid, scores))
    extra = {trial: scores[trial] for trial in scores if trial.seed == 3}
    assert set(searched(grid, scores.__getitem__, before=extra)) == {*tried, *extra}


@pytest.mark.parametrize(("tasks", "least"), [(("t",), 90), (("t", "u", "v"), 90)])
def test_search_of_half_the_grid_finds_an_encoder_as_good_as_the_best(tasks, least):
    """Encoders differ by about the deviation of seeds; as good is within 0.1 of it per task."""
    draw = np.random.default_rng(5)
    grid, as_good = grid_of(tasks, points=2, seeds=4), 0
    for _ in range(100 // len(tasks)):
        centre = draw.normal(0, 2, (len(tasks), 6, 1, 1)) - abs(draw.normal(0, 1, (1, 6, 2, 1)))
        values = centre + draw.normal(0, 1, (len(tasks), 6, 2, 4))

        def score(trial, values=values):
            place = tasks.index(trial.task), ENCODERS.index(trial.encoder)
            return float(values[*place, trial.point, trial.seed])

        ended = searched(grid, score, len(whole(grid)) // 2)
        full = np.median(values, axis=-1).max(axis=-1)
        for number, task in enumerate(tasks):
            own = {trial: value for trial, value in ended.items() if trial.task == task}
            found = ENCODERS.index(best(grid, own))
            as_good += full[number].max() - full[number, found] <= 0.1
    assert as_good >= least


# The command.

SHARES = {"tiny": 0.6, "good": 0.9, "poor": 0.5}
COST = Inference(tokens_per_second=1000.0, peak_memory_bytes=10**8, parameters=5, threads=1)


class ByModel(LearnedEngine):
    """Engine whose accuracy depends on the encoder; baselines are really computed."""

    def __init__(self, stop_after=None, shares=SHARES, late=(None, 0)):
        super().__init__({}, stop_after=stop_after)
        self._by_model = shares
        self.baselines = []
        self._clock, self._last = late

    def run(self, jobs, report):
        for job in jobs:
            if job.kind == "baseline":
                self.baselines.append(job.model)
                yield run_baseline(job)
                continue
            if len(self.started) + 1 == self._last:
                self._clock.now += 1e6
            self._shares = {job.task: self._by_model[job.model]}
            yield from super().run([job], report)


class Clock:
    """Replacement of the module `time`."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two encoders in addition to `tiny`."""
    place = tmp_path_factory.mktemp("encoders")
    save_checkpoint(place / "good")
    save_checkpoint(place / "poor", hidden_size=8)
    return place


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys, folders):
    """Run the command with an engine; returns exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    monkeypatch.setattr("benchharness.extensions.which.choose.measure_inference", lambda *_: COST)
    encoders = ("--among", f"tiny,good={folders / 'good'}", "--among", f"poor={folders / 'poor'}")

    mini = ("--data", "mini")

    def run(
        engine,
        *words,
        among=encoders,
        minutes="60",
        tasks=("glue/rte",),
        data=mini,
        limit=("--limit", "100"),
    ):
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
        asked = [word for task in tasks for word in ("--task", task)]
        where = (*data, *limit, "--device", "cpu", "--precision", "fp32")
        argv = ["bench", "which", *among, *asked, *where, "--minutes", minutes, *words]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def test_search_result_has_the_best_encoder_with_interval_and_cost(bench):
    code, printed = bench(ByModel(), "--seeds", "3", "--json", tasks=("glue/rte", "glue/qnli"))
    found = json.loads(printed.out)
    assert code == 0
    assert [answer["best"] for answer in found["answers"]] == ["good"] * 3
    assert found["answers"][-1]["tasks"] == ["glue/rte", "glue/qnli"]
    assert "good is significantly better than all others" in found["answers"][-1]["sentence"]
    first = found["answers"][0]["candidates"][0]
    assert first["interval"]["low"] < first["score"] < first["interval"]["high"]
    assert first["scope"] == "examples and seeds"
    assert first["points"]["glue/rte"].startswith("lr ")
    assert found["inference"]["good"]["tokens_per_second"] == 1000
    assert found["runs"] < found["of"] == 3 * 3 * 3 * 2
    assert found["left"] is None


def test_search_result_states_if_encoders_do_not_differ_significantly(bench):
    shares = {"tiny": 0.8, "good": 0.8, "poor": 0.4}
    _, printed = bench(ByModel(shares=shares), "--seeds", "2")
    assert "is not significantly different from" in printed.out
    assert "*: the best score of a column" in printed.out
    assert "1,000" in printed.out
    sentence = next(line for line in printed.out.splitlines() if line.startswith("RTE:"))
    assert "poor" not in sentence


@pytest.mark.parametrize("learned", [None, "good"])
def test_search_flags_collapsed_encoders_and_never_selects_them(bench, learned):
    shares = {name: 0.9 if name == learned else CONSTANT for name in SHARES}
    _, printed = bench(ByModel(shares=shares), "--seeds", "2", tasks=("glue/rte", "glue/qnli"))
    # Reversed, because the first lines of advice also begin with the name of an encoder.
    table = reversed(printed.out.splitlines())
    lines = {line.split()[0]: line for line in table if line.split()}
    assert lines["tiny"].count("!") == 3, "of two tasks and their mean"
    assert "*" not in lines["tiny"] + lines["poor"]
    assert (
        lines["majority"].split()[1:]
        == lines["tiny"].replace("!", "").split()[1:2] + (lines["majority"].split()[2:])
    )
    assert re.search(r"!: . of . seeds? collapsed", printed.out)
    assert ("no encoder learned anything" in printed.out) == (learned is None)
    found = json.loads(bench(ByModel(shares=shares), "--seeds", "2", "--json")[1].out)
    assert found["answers"][0]["best"] == learned
    assert found["answers"][0]["majority"] == found["answers"][0]["candidates"][-1]["score"]


def test_search_accepts_custom_data_from_command_line_and_python(bench, tmp_path, folders):
    path = str(own_files.GOOD["comma"].write(tmp_path))
    words = ("--columns", "text=text,label=label", "--metric", "accuracy", "--seeds", "2")
    engine = ByModel()
    code, printed = bench(engine, "--data-file", path, *words, tasks=(), data=())
    assert code == 0, printed.err
    assert {job.task for job in engine.started} == {find_own(path, metrics=["accuracy"]).task.name}
    assert ": good " in printed.out
    among = ["tiny", *(f"{name}={folders / name}" for name in ("good", "poor"))]
    with pytest.warns(UserWarning, match="the recipe few-rows is used"):
        found = bh.which(
            data_file=path,
            columns={"text": "text", "label": "label"},
            metric="accuracy",
            among=among,
            minutes=1,
            limit=100,
            seeds=2,
            device="cpu",
            precision="fp32",
            progress=False,
        )
    assert (found.best, found.runs) == ("good", len(engine.started))
    code, printed = bench(ByModel(), "--data-file", path)
    assert code == 2
    assert "cannot be combined with --task and --data" in printed.err


def test_search_on_a_small_data_file_warns_that_training_is_too_short(bench, tmp_path, folders):
    lines = (f"a {word} film number {n},{word}" for n in range(100) for word in ("good", "bad"))
    (tmp_path / "films.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    words = ("--data-file", "films.csv", "--seeds", "1", "--recipe", "paper")
    where = {"tasks": (), "data": ()}
    code, printed = bench(ByModel(), *words, **where, limit=())
    assert code == 0, printed.err
    warning = (
        "films: training good, poor on 160 rows takes only 15 steps, which may be too few to learn "
        "from; the recipe few-rows (--recipe) takes 200 steps."
    )
    before, _, _ = printed.err.partition("3 encoders, one seed: 3 jobs.")
    assert f"bench: {warning}\n" in before
    assert f"Scores may be too low, because training was short. {warning}\n" in printed.out
    found = json.loads(bench(ByModel(), *words, "--json", **where, limit=())[1].out)
    assert found["warnings"] == [warning]
    _, enough = bench(ByModel(), *words, "--set", "epochs=16", "--db", "b", **where, limit=())
    assert "steps" not in enough.err + enough.out
    among = ["tiny", *(f"{name}={folders / name}" for name in ("good", "poor"))]
    options = {"seeds": 1, "device": "cpu", "precision": "fp32", "progress": False}
    options["recipe"] = "paper"
    with pytest.warns(UserWarning, match="takes only 15 steps") as warned:
        again = bh.which(data_file="films.csv", among=among, minutes=9, **options)
    assert {Path(each.filename).name for each in warned} == {Path(__file__).name}
    assert "only 15 steps" in again.warnings[0]
    assert again.warnings[0] in repr(again)


def test_search_on_a_small_data_file_trains_with_the_recipe_for_few_rows(bench, tmp_path):
    lines = (f"a {word} film number {n},{word}" for n in range(100) for word in ("good", "bad"))
    (tmp_path / "films.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    engine, words = ByModel(), ("--data-file", "films.csv", "--seeds", "1")
    code, printed = bench(engine, *words, tasks=(), data=(), limit=())
    assert code == 0, printed.err
    assert "films: the recipe few-rows is used for good, poor, because" in printed.err
    assert "training was short" not in printed.out
    assert {job.recipe for job in engine.started if job.kind == "model"} == {"few-rows"}


def test_search_states_that_a_collapsed_encoder_may_be_better_than_its_score(bench):
    _, printed = bench(ByModel(shares={**SHARES, "poor": CONSTANT}), "--seeds", "2")
    (sentence,) = (line for line in printed.out.splitlines() if line.startswith("RTE: good"))
    assert sentence.endswith(" poor learned nothing.")
    assert "\npoor may do better with more epochs" in printed.out
    sentence, command = printed.out.splitlines()[-2:]
    assert sentence.startswith("poor on RTE learned nothing (")
    assert re.match("    bench run --model poor=.* --task glue/rte .*--recipe few-rows", command)


@pytest.mark.parametrize(("tied", "score"), [("collapsed", 0.3), ("at the majority", 0.5)])
def test_search_result_explains_why_a_tied_encoder_has_no_star(tied, score):
    def candidate(name, score):
        return Candidate(
            encoder=name,
            score=score,
            interval=None,
            scope="",
            seeds=(2, 2),
            points={},
            runs={},
            settings=1,
            gain=None,
            gain_scope="seeds",
            flags={},
            has_learned=name != "collapsed",
        )

    answer = Answer(
        tasks=("glue/rte",),
        candidates=(candidate("good", 0.9), candidate(tied, score)),
        tied=(tied,),
        missing=(),
        is_tested=True,
        baselines={"majority": 0.5},
    )
    assert answer.best == ("good",)
    assert answer.sentence.startswith(f"RTE: good is not significantly different from {tied}.")
    explained = "or that is not better than the majority class, has no star."
    assert next(_legend([answer], None, {}, "cpu")).endswith(explained)
    better = replace(answer, baselines={"majority": 0.2}, tied=())
    assert explained not in next(_legend([better], None, {}, "cpu"))


def test_search_estimates_the_selection_bias_or_states_that_it_is_unknown(bench):
    shares = {"tiny": 0.6, "good": 0.9, "poor": 0.5}
    _, printed = bench(ByModel(shares=shares), "--seeds", "1")
    assert (
        "The score of good is the best of 3 settings, so it is probably too high. It is unknown by "
        "how much, because no setting has two seeds." in printed.out
    )
    _, printed = bench(ByModel(shares=shares), "--seeds", "3")
    found = json.loads(bench(ByModel(shares=shares), "--seeds", "3", "--json")[1].out)
    first = found["answers"][0]["candidates"][0]
    assert (first["encoder"], first["settings"]) == ("good", 3)
    gain, score = 100 * first["gain"], 100 * first["score"]
    assert (
        f"is the best of 3 settings, and therefore about {gain:.1f} points too high: with other "
        f"seeds and examples, expect about {score - gain:.1f}." in printed.out
    )
    one = ("--set", "learning_rate=1e-3", "--seeds", "1")
    assert "the best of" not in bench(ByModel(), *one)[1].out


@pytest.mark.parametrize("share", [0.99, 0.4])
def test_search_shows_baselines_and_states_if_one_is_as_good_as_the_best_encoder(
    bench, tmp_path, share
):
    path = str(own_files.GOOD["comma"].write(tmp_path))
    words = ("--data-file", path, "--seeds", "1")
    where = {"tasks": (), "data": ()}
    _, printed = bench(ByModel(shares={**SHARES, "good": share}), *words, "--json", **where)
    (answer,) = json.loads(printed.out)["answers"]
    _, printed = bench(ByModel(shares={**SHARES, "good": share}), *words, **where)
    lines = [line.split() for line in printed.out.splitlines() if line.split()]
    shown = {line[0]: line[1] for line in lines if line[0] in ("majority", "bag-of-words")}
    assert shown == {n: f"{100 * score:.1f}" for n, score in answer["baselines"].items()}
    assert answer["baselines"]["majority"] == answer["majority"]
    best = answer["candidates"][0]["score"]
    is_better = answer["baselines"]["bag-of-words"] >= best
    assert ("The baseline bag-of-words is at least as good as" in printed.out) == is_better


def test_search_runs_no_baseline_that_takes_long(bench, monkeypatch):
    monkeypatch.setattr("benchharness.extensions.which.choose.CHEAP_SECONDS", 0.0)
    engine = ByModel()
    _, printed = bench(engine, "--seeds", "1")
    assert engine.baselines == ["majority"]
    assert "bag-of-words" not in printed.out


def test_search_grid_contains_every_value_of_the_features_setting(bench):
    class ByFeatures(ByModel):
        def run(self, jobs, report):
            for job in jobs:
                share = 0.9 if job.values.get("features") == "last" else 0.5
                self._by_model = dict.fromkeys(SHARES, share)
                yield from super().run([job], report)

    features = ("--set", "features=sum-all,last,mix", "--set", "learning_rate=1e-3,2e-3")
    engine = ByFeatures()
    found = json.loads(bench(engine, "--seeds", "1", "--json", *features)[1].out)
    assert found["runs"] == found["of"] == len(engine.started) == 3 * 6
    points = [each["points"]["glue/rte"] for each in found["answers"][0]["candidates"]]
    assert len(points) == 3
    assert all("features last" in point for point in points)


def test_repeated_search_runs_nothing_and_gives_the_same_result(bench):
    engine, idle = ByModel(), ByModel()
    _, first = bench(engine, "--seeds", "3", "--json")
    _, again = bench(idle, "--seeds", "3", "--json")
    assert engine.baselines == ["majority", "bag-of-words"]
    assert idle.started == idle.baselines == []
    assert again.out == first.out


@pytest.mark.parametrize("after", [5, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 10))])
def test_interrupted_search_resumes_with_the_same_jobs(bench, after):
    stopped, again, whole = ByModel(stop_after=after), ByModel(), ByModel()
    assert bench(stopped, "--seeds", "3")[0] == 130
    bench(again, "--seeds", "3")
    bench(whole, "--seeds", "3", "--db", "whole.sqlite")
    assert sorted(job.key for job in (*stopped.started, *again.started)) == sorted(
        job.key for job in whole.started
    )


def test_runs_of_a_search_are_on_the_leaderboard(bench):
    bench(ByModel(), "--seeds", "2")
    board = bh.board("glue", db="results/leaderboard.sqlite")
    assert board.frame()["name"].str.contains("good").any()


def test_search_reports_a_failing_encoder_without_a_score(bench):
    code, printed = bench(ByModel(shares={**SHARES, "poor": None}), "--seeds", "2")
    assert code == 1
    assert "encoders without a score: poor." in printed.out
    said = printed.err.splitlines()[-1]
    assert said.startswith("bench: poor RTE seed 1, lr 5e-5, ")
    assert said.endswith(": the loss became nan.")


def test_search_with_an_unloadable_checkpoint_exits_with_4(bench):
    class Unloadable(ByModel):
        def run(self, jobs, report):
            for outcome in super().run(jobs, report):
                bad = isinstance(outcome, Failure)
                yield replace(outcome, error="cannot be loaded.", exit_code=4) if bad else outcome

    code, printed = bench(Unloadable(shares={**SHARES, "poor": None}), "--seeds", "2")
    assert code == 4
    assert printed.err.endswith("bench: cannot be loaded.\n")
    assert printed.err.count("cannot be loaded.") == 1


def test_search_starts_no_run_that_would_exceed_the_time_limit(bench):
    """The first round is stored; its runs took a second each, and 0.6 seconds are left."""
    bench(ByModel(stop_after=3), "--seeds", "3")
    engine = ByModel()
    code, printed = bench(engine, "--seeds", "3", minutes="0.01")
    assert (code, engine.started) == (0, [])
    said = "The minutes are over: 3 of the 27 possible runs (encoders x tasks x settings x seeds)"
    assert f"{said} have ended." in printed.out
    assert "it continues with 3 encoders, one seed with each of 3 settings." in printed.out
    assert "`bench report` writes the report" in printed.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"minutes": "0.001"}, "is too short for one run of each encoder on each task"),
        ({"minutes": "0"}, "--minutes must be a number above 0"),
        ({"minutes": "nan"}, "--minutes must be a number above 0"),
        ({"among": ("--among", "tiny")}, "name two or more encoders"),
        ({"among": ("--among", "tiny,tiny")}, "name two or more"),
        ({"among": ("--among", "tiny,majority")}, "majority is a baseline"),
        ({"among": ("--among", "tiny,bert-bsae")}, "no model or checkpoint folder is called"),
        ({"tasks": ("glue/rte", "squad/v1.1")}, "have different heads"),
        ({"tasks": ("glue/ax",)}, "none of the requested tasks has training data"),
        ({"tasks": ("glue/rtee",)}, "rtee"),
    ],
)
def test_invalid_search_options_are_a_one_line_error(bench, tmp_path, options, sentence):
    engine = ByModel()
    code, printed = bench(engine, **options)
    assert (code, engine.started) == (2, [])
    assert sentence in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert not (tmp_path / "results" / "leaderboard.sqlite").exists()


@pytest.mark.soak
def test_search_can_export_the_model_of_the_best_encoder(bench, tmp_path, monkeypatch):
    # Train with the real engine instead of the fake one.
    monkeypatch.setattr("benchharness.driver.retrain.LocalEngine", LocalEngine)
    words = ("--seeds", "3", "--set", "learning_rate=1e-3", "--set", "epochs=1", "--to", "taken")
    code, printed = bench(ByModel(), *words)
    assert code == 0, printed.err
    assert "trained again: " in printed.out  # the runs of a search do not keep their models
    assert re.search(
        r"this is the model of seed \d, .* nearest to the median, .* 2 seeds", printed.err
    )
    assert "AutoModelForSequenceClassification" in printed.out
    told = json.loads((tmp_path / "taken" / "benchharness.json").read_text())
    scores = {run.key: run.model for run in open_store("results/leaderboard.sqlite").runs()}
    assert scores[told["key"]] == "good"
    code, printed = bench(ByModel(), *words, "--take-seed", "9")
    assert (code, "no run has seed 9: choose one of 1, 2, or" in printed.err) == (2, True)
    shares = dict.fromkeys(SHARES, CONSTANT)
    code, printed = bench(ByModel(shares=shares), "--db", "other", "--seeds", "1", "--to", "none")
    assert (code, "no encoder learned anything" in printed.err) == (2, True)
    engine = ByModel()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, printed = bench(engine, "--db", "third", "--to", "full")
    assert (code, engine.started) == (2, [])
    assert "full exists already" in printed.err


def test_search_that_starts_from_a_multi_task_model_is_an_error(bench):
    engine = ByModel()
    code, printed = bench(engine, "--start-from", "multi-task")
    assert (code, engine.started) == (2, [])
    assert printed.err.startswith("bench: --start-from multi-task can only be used with ")
    with pytest.raises(bh.BenchError, match=r"with bh\.run"):
        bh.which(
            "glue/rte", among=["tiny", "bert"], minutes=1, data="mini", start_from="multi-task"
        )


def test_search_tasks_of_one_suite_may_need_different_heads():
    check_tasks([find_task("superglue/rte"), find_task("superglue/copa")])
    with pytest.raises(bh.BenchError, match="have different heads"):
        check_tasks([find_task("glue/rte"), find_task("superglue/copa")])


def test_search_over_zero_shot_and_trained_tasks_together_is_an_error():
    check_tasks([find_task("blimp/blimp")])
    with pytest.raises(bh.BenchError, match="blimp/blimp is scored without training"):
        check_tasks([find_task("superglue/copa"), find_task("blimp/blimp")])


def test_search_drops_queued_runs_when_the_time_limit_is_reached(bench, monkeypatch):
    """Runs take longer than expected: the clock stands still until the fifth."""
    clock = Clock()
    for module in ("driver.drive", "extensions.search.rounds"):
        monkeypatch.setattr(f"benchharness.{module}.time", clock)
    engine = ByModel(late=(clock, 5))
    code, printed = bench(engine, "--seeds", "3", "--json")
    found = json.loads(printed.out)
    assert (code, len(engine.started), found["runs"]) == (0, 5, 5)
    assert found["left"] == "3 encoders, one seed with each of 3 settings"


def test_search_from_python_gives_the_same_result_as_the_command(
    bench, folders, tmp_path, monkeypatch
):
    _, printed = bench(ByModel(), "--seeds", "2", "--json")
    among = ["tiny", *(f"{name}={folders / name}" for name in ("good", "poor"))]
    found = bh.which(
        "glue/rte",
        among=among,
        minutes=1,
        data="mini",
        limit=100,
        seeds=2,
        device="cpu",
        precision="fp32",
        progress=False,
    )
    assert found.best == "good"
    assert found.runs == json.loads(printed.out)["runs"]
    frame = found.frame().set_index("encoder")
    assert frame.loc["good", "is_tied"]
    assert frame.loc["good", "low"] < frame.loc["good", "score"]
    assert frame.loc["tiny", "tokens_per_second"] == 1000
    assert "good is significantly better" in repr(found)


# Cost of inference.


def test_inference_cost_is_not_measured_for_zero_shot_tasks():
    here = SimpleNamespace(placement=SimpleNamespace(forks=2), slots=())
    job = replace(make_job("blimp/blimp"), recipe=ZERO_SHOT)
    assert measured(here, [job])[job.model].startswith("speed was not measured")


def check_cost(found: Inference) -> None:
    assert found.tokens_per_second > 10
    assert 10**8 < found.peak_memory_bytes < 10**10
    assert found.parameters > 600_000


def test_inference_cost_includes_speed_memory_and_parameters():
    check_cost(Inference(**measure_prediction(make_job("glue/rte"), seconds=0.1)))


def test_inference_cost_counts_the_weights_of_a_mix_of_layers():
    mixed, plain = (
        measure_prediction(make_job("glue/rte", limit=16, features=features), seconds=0.01)
        for features in ("mix", "last")
    )
    weights = 3 + 1  # the weights of two layers and of the embeddings, and the scale of the mean
    assert mixed["parameters"] == plain["parameters"] + weights


@pytest.mark.soak
def test_inference_cost_is_measured_in_a_separate_process():
    check_cost(measure_inference(make_job("glue/rte"), Slot(device="cpu", environment={}), 120))


def test_inference_cost_is_measured_for_custom_data(bench, tmp_path, monkeypatch, capsys):
    path = str(own_files.GOOD["comma"].write(tmp_path))
    engine = ByModel()
    bench(engine, "--data-file", path, "--seeds", "1", tasks=(), data=())
    job = next(job for job in engine.started if job.model == "tiny")
    for table, name in ((suites._tasks, job.task), (suites._suites, job.task.partition("/")[0])):
        monkeypatch.delitem(table, name)
    monkeypatch.setattr("sys.stdin", StringIO(json.dumps(job.to_json())))
    inference.main()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found.get("tokens_per_second", 0) > 10, found


def test_last_output_line_of_the_measuring_process_is_the_inference_cost(monkeypatch):
    """Libraries print other lines; an error is one sentence."""
    cost = {"tokens_per_second": 1.0, "peak_memory_bytes": 2, "parameters": 3, "threads": 4}
    program = (
        "import json, sys; task = json.load(sys.stdin)['task']\n"
        f"cost = {cost!r} if task == 'glue/rte' else {{'error': task + ' is no use.'}}\n"
        "print('a library'); print(json.dumps(cost))"
    )
    monkeypatch.setattr(
        "benchharness.extensions.which.choose.MEASURE", (sys.executable, "-c", program)
    )
    slot = Slot(device="cpu", environment={})
    assert measure_inference(make_job("glue/rte"), slot, 120) == Inference(**cost)
    with pytest.raises(JobError, match="cola is no use"):
        measure_inference(make_job("glue/cola"), slot, 120)


def test_perfect_score_without_an_interval_is_tested_against_other_encoders(bench):
    shares = {"tiny": 0.5, "good": 1.0, "poor": 0.5}
    _, printed = bench(ByModel(shares=shares), "--seeds", "1", "--json", tasks=("glue/cola",))
    (answer,) = json.loads(printed.out)["answers"]
    assert answer["candidates"][0]["score"] == 1.0
    assert answer["candidates"][0]["interval"] is None
    assert answer["sentence"].endswith("good is significantly better than all others.")
