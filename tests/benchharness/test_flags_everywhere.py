"""Tests that every command, call, format, tracker and plot shows the flags of scores.

All of these are read from the product. A new command, function, format, tracker or plot must be
added to one of the tables here, or a test fails.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import MagicMock

import pytest

import benchharness as bh
from benchharness.cli.commands import commands
from benchharness.discovery import places
from benchharness.extensions.calibration.calibrate import (
    NAMES,
    Bin,
    Calibration,
    Covered,
    Measured,
)
from benchharness.extensions.calibration.figures import calibration_figures
from benchharness.extensions.curves.figures import layer_figures, stage_figures
from benchharness.extensions.curves.find import curves_of
from benchharness.extensions.exports.command import PREDICTIONS, Format
from benchharness.extensions.plots.chart import NamedEntry, named_entries
from benchharness.extensions.plots.lines import shot_figures
from benchharness.extensions.plots.rows import categories_of_task, spread_of_task
from benchharness.extensions.plots.section import Plots
from benchharness.extensions.plots.tradeoff import (
    cost_table,
    measured_points,
    tradeoffs,
)
from benchharness.extensions.which.answers import find_answers
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.job import Setting, Stage
from benchharness.leaderboard.report.table import build_table
from benchharness.leaderboard.report.write import template_module
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import open_store
from benchharness.loggers import Listening
from benchharness.progress import ending
from benchharness.tasks.answers.base import CONSTANT
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_task
from tests.helpers.boards import board_of, make_row, one_board, plotted, row_of
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.compared_runs import made
from tests.helpers.extensions import of_extensions
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.made_engine import Told
from tests.helpers.plots import facts_by_key

ROOT = Path(__file__).parents[2]
DB, HUB = "board.sqlite", "hub.sqlite"
RTE = find_task("glue/rte")
DEV = read(RTE, "dev", parse_data("mini")).examples
LABEL = RTE.labels[0]
WRONG = frozenset(n for n, example in enumerate(DEV) if example.label != LABEL)
"""Rows that are wrong if every prediction is the first label."""


def collapsed(model: str, seed: int = 1, **fields: Any) -> Result:
    """Return a run that gives every row the first label, with the same probability."""
    run = made(model, "glue/rte", seed, WRONG, **fields)
    evaluations = [
        replace(each, predictions=tuple({**row, "scores": [0.6, 0.4]} for row in each.predictions))
        for each in run.evaluations
    ]
    return replace(run, evaluations=tuple(evaluations))


def layer(number: int) -> Mapping[str, Setting]:
    return {"features": Setting(value=f"layer-{number}", source="--set")}


def runs() -> Iterator[Result]:
    for seed in (1, 2, 3):
        yield collapsed("stuck", seed)
        yield made("good", "glue/rte", seed, {seed})
        for step in (100, 200):
            stage = Stage(run="pre", step=step, family="bert")
            name = f"pre-{step}"
            yield collapsed(name, seed, stage=stage, checkpoint=name, weights=name)
    for number in (1, 2):
        yield collapsed("layered", settings=layer(number), recipe="features", overridden=True)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database of mini runs, and one of constant runs on official data."""
    folder = tmp_path_factory.mktemp("stored")
    with open_store(folder / DB) as store:
        store.add_results(runs())
    with open_store(folder / HUB) as store:
        store.add_results(collapsed("stuck", seed, data="hub") for seed in (1, 2, 3))
    return folder


@pytest.fixture
def here(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (DB, HUB):
        shutil.copy(stored / name, tmp_path / name)
    lines = [f"{n}\t{LABEL}" for n in range(len(DEV))]
    (tmp_path / "RTE.tsv").write_text("\n".join(("index\tprediction", *lines, "")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def key(model: str, seed: int = 1) -> str:
    return next(run.job.key for run in runs() if (run.job.model, run.job.seed) == (model, seed))


CHECKED: Mapping[str, tuple[str, ...]] = {
    "leaderboard": ("leaderboard", "--details"),
    "report": ("report", "--out", "page.html"),
    "report predictions": (
        "report",
        "predictions",
        "stuck",
        "--task",
        "glue/rte",
        "--out",
        "pages",
    ),
    "compare": ("compare", "stuck", "good"),
    **of_extensions(
        {
            "calibration": {"calibration": ("calibration", "stuck")},
            "groups": {"groups": ("groups", "stuck")},
            "sheet": {"sheet": ("sheet", "stuck")},
        }
    ),
    "plan": ("plan", "stuck", "good"),
    "curve": ("curve", "pre"),
    "ensemble": ("ensemble", "stuck"),
    "show": ("show", key("stuck")),
    "show runs": ("show", "runs"),
    "export": ("export", "--model", "stuck"),
    "score": ("score", "RTE.tsv", "--task", "glue/rte", "--data", "mini"),
    "check --write": ("check", "--write", "--model", "stuck", "--out", "b.json", "--allow-weak"),
    **of_extensions({"explanation": {"explain": ("explain", key("stuck"), "--from", key("good"))}}),
}
"""Commands that show numbers of stored runs, as they are called here."""

ELSEWHERE = {
    "run": "test_collapsed_run_is_flagged_in_every_output_after_real_training",
    "model": "test_collapsed_run_is_flagged_in_every_output_after_real_training",
    "predict": "test_collapsed_run_is_flagged_in_every_output_after_real_training",
    "watch": "test_final_message_of_a_job_has_the_flags_of_its_score",
    "which": "test_bench_which_marks_scores_of_collapsed_runs",
    "check": "test_bench_check_lists_collapsed_seeds_in_all_its_outputs",
}
"""Commands that train or wait, with the tests of this module that call them."""

IN_EXTENSIONS = of_extensions(
    {
        "paper": {"paper": "paper/test_paper_flags.py::test_generated_paper_flags_collapsed_runs"},
        "demo": {"demo": "demo/test_demo.py::test_demo_passes_its_options_to_the_run"},
        "reproduce": {
            "reproduce": "reproduce/test_rounds.py::"
            "test_collapsed_run_is_flagged_in_the_output_of_bench_reproduce"
        },
        "robustness": {
            "robustness": "robustness/test_robustness.py::"
            "test_warnings_about_a_run_are_shown_with_its_robustness"
        },
        "share": dict.fromkeys(
            ("share check", "share build"),
            "share/test_site.py::test_collapsed_run_is_flagged_on_the_site_and_in_the_check",
        ),
    }
)
"""Commands with tests in tests/extensions."""

WITHOUT_NUMBERS = {
    "fetch", "run --write-task", "submit", "show suites", "show tasks", "show models",
    "show published", "doctor", "db", "db check", "db backup", "db merge", "db import",
    "db rename", "db hide", "db delete", "show config",
    *of_extensions({"hub_results": {"show eval-yaml": None}}),
    *of_extensions({"share": dict.fromkeys(("share", "share init", "share add"))}),
}  # fmt: skip
"""Commands that show no score of a stored run."""


def test_every_command_is_covered_by_the_flag_tests_of_this_module() -> None:
    known = [*CHECKED, *ELSEWHERE, *IN_EXTENSIONS, *WITHOUT_NUMBERS]
    assert sorted(known) == sorted(commands())
    assert all(callable(globals()[test]) for test in ELSEWHERE.values())
    for place in IN_EXTENSIONS.values():
        file, _, test = place.partition("::")
        assert f"def {test}" in (ROOT / "tests/extensions" / file).read_text()


@pytest.mark.parametrize("command", CHECKED)
def test_command_output_has_the_flags_of_its_scores(command: str, bench: Any, here: Path):
    before = set(here.rglob("*"))
    said = CONSTANT if command != "check --write" else "seeds collapsed"
    forms = [()]
    if "--json" in bench(*command.split(), "--help-all").out and command != "check --write":
        forms.append(("--json",))
    for form in forms:
        ended = bench(*CHECKED[command], *form, *db(command))
        assert ended.code == 0, ended.err
        written = [path for path in here.rglob("*") if path not in before and path.is_file()]
        texts = [ended.out, ended.err, *(p.read_text(errors="replace") for p in written)]
        assert any(said in text for text in texts), texts


def db(command: str) -> tuple[str, ...]:
    return () if command == "score" else ("--db", DB)


def test_curve_over_layers_shows_flags_of_collapsed_runs(bench: Any, here: Path) -> None:
    for form in ((), ("--json",)):
        ended = bench("curve", "layered", "--db", DB, *form)
        assert (ended.code, CONSTANT in ended.out) == (0, True), ended.err


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets which share of a task's rows later runs predict correctly."""

    def learn(**shares: float) -> None:
        engine = LearnedEngine({f"glue/{task}": share for task, share in shares.items()})
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)

    return learn


MINI = ("--data", "mini", "--limit", "60", "--device", "cpu", "--precision", "fp32")


def test_bench_which_marks_scores_of_collapsed_runs(
    bench: Any, learned: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the mean over tasks is marked too if one task has collapsed."""
    monkeypatch.setattr("benchharness.extensions.which.choose.measure_inference", lambda *_: {})
    learned(rte=0.0, qnli=0.9)
    tasks = ("--task", "glue/rte", "--task", "glue/qnli", "--seeds", "1", "--minutes", "60")
    two = save_checkpoint(here / "two")
    words = ("which", "--among", f"tiny,two={two}", *tasks, *MINI)
    ended = bench(*words)
    assert ended.code == 0, ended.err
    line = next(line for line in ended.out.splitlines() if line.split()[:1] == ["tiny"])
    assert len(re.findall(r"\d!", line)) == 2, line
    said = " ".join(ended.out.split())
    assert re.search(rf"seeds? collapsed \({CONSTANT}\): tiny on RTE", said), said
    answers = json.loads(bench(*words, "--json").out)["answers"]
    assert [CONSTANT in str(answer["candidates"]) for answer in answers] == [True, False, True]
    frame = bh.which(
        among=["tiny", f"two={two}"],
        task=["glue/rte", "glue/qnli"],
        minutes=60,
        seeds=1,
        data="mini",
        limit=60,
        device="cpu",
        precision="fp32",
        progress=False,
    ).frame()
    assert {t for t, f in zip(frame["task"], frame["flags"], strict=True) if CONSTANT in f} == {
        "glue/rte",
        "mean",
    }


def test_bench_check_lists_collapsed_seeds_in_all_its_outputs(
    bench: Any, learned: Any, here: Path
) -> None:
    words = ("--model", "tiny", "--task", "glue/rte", "--seeds", "2")
    learned(rte=0.8)
    assert bench("run", *words, *MINI, "--no-baselines").code == 0
    ended = bench("check", "--write", "--model", "tiny", "--suite", "glue", "--allow-weak")
    assert ended.code == 0, ended.err
    learned(rte=0.0)
    ended = bench("check", *words, "--json", "--junit", "v.xml", "--markdown", "v.md")
    assert ended.code == 3, ended.err
    assert json.loads(ended.out)["collapses"]["seeds"] == {"glue/rte": [1, 2, 3, 4]}
    for name in ("v.xml", "v.md"):
        assert "RTE: seeds 1, 2 collapsed" in Path(name).read_text()


# Score of a suite in which the runs of one task have collapsed.


@pytest.fixture
def averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a score of 65.0, the mean of 50.0 (collapsed) and 80.0."""
    monkeypatch.chdir(tmp_path)
    with open_store(DB) as store:
        for name, value, make in (("v1.1", 0.5, flagged), ("v2.0", 0.8, plotted)):
            scores = {"em": value, "f1": value}
            store.add_results(
                make(model, f"squad/{name}", seed=seed, scores=scores)
                for model, make in (("stuck", make), ("good", plotted))
                for seed in (1, 2)
            )
    return tmp_path


MEANS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "leaderboard": (("leaderboard",), r"65\.0!"),
    "plan": (("plan", "stuck", "good"), r"65\.00!"),
    "page": (("report", "--out", "page.html"), r'65\.0</span>\n*<abbr class="flag"'),
    "csv": (("export", "--format", "csv"), f"stuck,squad,.*{CONSTANT}"),
    "latex": (("export", "--format", "latex"), r"65\.0\}?\\textsuperscript\{!\}"),
    "markdown": (("export", "--format", "markdown"), r"65\.0(\*\*)?\\!"),
    "columns": (("export", "--format", "markdown", "--columns", "score"), "collapsed.*stuck on SQ"),
}
"""Commands that show an overall score, with a pattern of the marked score."""


@pytest.mark.parametrize("form", MEANS)
def test_overall_score_is_marked_if_runs_of_one_of_its_tasks_have_collapsed(
    form: str, bench: Any, averaged: Path
) -> None:
    words, marked = MEANS[form]
    ended = bench(*words, "--db", DB)
    assert ended.code == 0, ended.err
    shown = Path(words[-1]).read_text() if form == "page" else ended.out
    assert len(re.findall(marked, shown)) == 1, shown


@pytest.mark.parametrize("command", ["leaderboard --json", "export --format json"])
def test_overall_score_in_json_has_the_flags_of_its_tasks(
    command: str, bench: Any, averaged: Path
) -> None:
    found = json.loads(bench(*command.split(), "--db", DB).out)
    lines = found if isinstance(found, list) else [found]
    scored = [entry for each in lines for entry in each.get("entries", [each])]
    said = {each["model"]: str(each["flags"]) for each in scored if each["score"] == 0.65}
    assert {model: CONSTANT in flags for model, flags in said.items()} == {
        "stuck": True,
        "good": False,
    }


def test_notebook_table_marks_an_overall_score_that_includes_collapsed_runs(averaged: Path) -> None:
    board = bh.board("squad", db=DB)
    for shown in (repr(board), board._repr_html_()):
        assert len(re.findall(r"65\.0!", shown)) == 1


# Export formats.


@pytest.mark.parametrize("form", Format)
def test_every_export_format_has_the_flags_of_scores(form: Format, bench: Any, here: Path) -> None:
    rows = ("--predictions",) if form in PREDICTIONS else ()
    table = ("--data", "hub", "--db", HUB)
    for words in [(*rows, "--data", "mini", "--db", DB), table][form in CARDS :]:
        if words is table and form in ("jsonl", "parquet"):
            continue
        name = here / f"out-{len(words)}"
        asked = ("export", "--format", form, "--model", "stuck", *words, "--out", name)
        ended = bench(*asked, *(("--collapsed-too",) if form in CARDS else ()))
        assert ended.code == 0, ended.err
        assert CONSTANT.encode() in name.read_bytes(), form


CARDS = ("model-index", "eval-results")


def test_model_card_of_a_collapsed_model_is_refused_without_the_option_collapsed_too(
    bench: Any, here: Path
):
    words = ("--model", "stuck", "--data", "hub", "--db", HUB, "--out", "card.yaml")
    for form in CARDS:
        ended = bench("export", "--format", form, *words)
        assert ended.code == 2
        assert "stuck learned nothing on GLUE RTE (3 of 3 seeds collapsed" in ended.err
        assert not Path("card.yaml").exists()
    ended = bench("export", "--format", CARDS[0], *words[:-2], "--push", "me/model")
    assert (ended.code, "--collapsed-too" in ended.err) == (2, True)


def test_a_model_card_ignores_collapsed_runs_that_it_does_not_list(bench: Any, here: Path):
    """Use collapsed runs on another task, or of models that are not on the card."""
    with open_store(HUB) as store:
        for model in ("stuck", "fine"):
            store.add_results([made(model, "glue/wnli", 1, {1}, data="hub")])
        # A collapsed run on mini data, which the card does not list.
        store.add_results([collapsed("fine")])
    for form in CARDS:
        words = ("export", "--format", form, "--db", HUB)
        for which in (("--model", "stuck", "--task", "glue/wnli"), ("--model", "fine")):
            ended = bench(*words, *which)
            assert ended.code == 0, ended.err
            assert "rte" not in ended.out.lower()
        assert bench(*words, "--model", "stuck").code == 2


# Results in Python.

FRAMES: Mapping[str, Callable[[], Any]] = {
    "runs": lambda: [*bh.runs(DB)["flags"]],
    "board": lambda: [*bh.board("glue", db=DB).frame()["flags"]],
    "boards": lambda: [board._repr_html_() for board in bh.boards("glue", db=DB)],
    "compare": lambda: [*bh.compare("stuck", "good", db=DB)["flags"]],
    "curve": lambda: bh.curve(key("stuck"), db=DB).attrs,
    "predictions": lambda: bh.predictions(key("stuck"), db=DB).attrs,
    "score": lambda: bh.score("glue/rte", [LABEL] * len(DEV), data="mini"),
    "Results": lambda: bh.Results(db=DB, keys=(key("stuck"),), suites=("glue",)).frame()["flags"],
    "BoardTable": lambda: bh.board("glue", db=DB).notes,
    "Choice": lambda: [*choice().frame()["flags"]],
    **of_extensions(
        {
            "calibration": {"calibration": lambda: [*bh.calibration("stuck", db=DB)["flags"]]},
            "explanation": {
                "explain": lambda: bh.explain(key("stuck"), key("good"), db=DB).attrs,
            },
        }
    ),
}
"""Functions and classes of the Python API that return scores of stored runs."""

TRAINED = {"model", "predict", "run"}  # covered by the test with a trained run
LOGGED = {"BenchCallback"}  # covered by the test of its log messages
SAME_AS = {"which": "Choice", **of_extensions({"paper": {"paper": "Results"}})}
PLAIN = {"BenchError", "__version__", "load", "published"}  # have no scores of stored runs
PLAIN |= of_extensions(
    {
        "estimator": {
            "Classifier": "estimator/test_estimator.py::"
            "test_a_training_that_learns_nothing_gives_a_convergence_warning"
        }
    }
).keys()


def choice() -> bh.Choice:
    with open_store(DB) as store:
        found = find_answers(
            store, [run.job for run in runs() if run.job.model == "stuck"], ["glue/rte"]
        )
    return bh.Choice(answers=tuple(found), cost={}, runs=3, of=3, left="")


def test_every_public_python_name_is_covered_by_the_flag_tests_of_this_module() -> None:
    assert sorted([*FRAMES, *TRAINED, *LOGGED, *SAME_AS, *PLAIN]) == dir(bh)


@pytest.mark.parametrize("name", FRAMES)
def test_every_python_result_has_the_flags_of_its_scores(name: str, here: Path) -> None:
    assert CONSTANT in str(FRAMES[name]())


def test_notebook_table_marks_flagged_scores(here: Path) -> None:
    board = bh.board("glue", db=DB)
    for shown in (repr(board), board._repr_html_()):
        assert "50.0!" in shown
        rows = "pre-100 on RTE; pre-200 on RTE"
        assert f"!: 3 of 3 seeds collapsed (constant predictions): {rows}" in shown
    frame = board.frame().set_index("name")
    assert frame.loc["good", "flags"] == ""
    assert frame.loc["stuck", "RTE"] == 0.5
    assert frame.loc["stuck", "flags"] == "RTE: 3 of 3 seeds collapsed (constant predictions)"


def test_bench_which_does_not_choose_a_collapsed_model_as_the_best(here: Path) -> None:
    (answer,) = choice().answers
    assert answer.best == ()
    assert answer.sentence == "RTE: no encoder learned anything (the runs collapsed)."


def test_callback_warns_about_a_collapsed_checkpoint(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = bh.Results(db=DB, keys=(key("stuck"), key("stuck", 2)), suites=("glue",))
    monkeypatch.setattr("benchharness.callback.run", lambda *_, **__: found)
    assert bh.BenchCallback(["glue/rte"]).bench("checkpoint-1") == {"glue/rte": 0.5}
    assert "glue/rte: constant predictions (2 of 2 runs)" in caplog.text


# Trackers, and the final message of a job.


@pytest.mark.parametrize("name", places("loggers"))
def test_every_experiment_tracker_logs_the_flags_of_scores(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tracker's package is replaced by a mock that records all calls."""
    package = MagicMock()
    monkeypatch.setattr(
        "benchharness.extensions.trackers.trackers.import_module", lambda _: package
    )
    watcher = Told()
    with Listening(
        watcher, {name: partial(resolve_name(places("loggers")[name]), tmp_path)}
    ) as listening:
        listening.finish(collapsed("stuck"))
    assert "failed and will log" not in str(watcher.notes)
    assert CONSTANT in str(package.mock_calls)


def test_final_message_of_a_job_has_the_flags_of_its_score() -> None:
    assert ending(collapsed("stuck")) == "accuracy 0.500 (! constant predictions) in 12 s"


# Templates of the report page.

OTHERS = {"anchor", "title", "data", "entries", "first"}


def flagged(model: str, task: str = "glue/rte", seed: int = 0, **fields: Any) -> Result:
    """Return a constant run whose scores are all 50.0, or as given."""
    run = plotted(model, task, seed, 0.5, **fields)
    return replace(run, evaluations=[replace(e, flags=(CONSTANT,)) for e in run.evaluations])


def set_to(name: str, *values: Any) -> tuple[tuple[NamedEntry, ...], Board]:
    """Return a leaderboard whose entries differ in one setting."""
    row = row_of(flagged("tiny"))
    rows = [
        replace(
            row,
            settings={name: Setting(value=value, source="--set")},
            recipe_digest=f"{value:x<64}",
            key=f"{value:x<64}",
        )
        for value in values
    ]
    board = one_board(rows)
    return named_entries(board, "b"), board


def cost_figures() -> object:
    found = [flagged("stuck"), plotted("good", parameters=66_000_000)]
    board = board_of(found)
    points = measured_points(
        named_entries(board, "b"), board.rule, "glue/rte", facts_by_key(found), {}
    )
    (figure, *_) = tradeoffs(points, "RTE")
    kinds = {mark.texts[0].text: [*mark.paths] for mark in figure.marks}
    assert kinds == {"stuck!": ["crosses"], "good": ["shape"]}
    assert "stuck" not in figure.description
    assert "A cross is a model whose runs collapsed" in figure.note
    return [figure, cost_table(points)]


def spread_figure() -> object:
    return spread_of_task(
        named_entries(board_of([flagged("stuck", seed=n) for n in (0, 1)]), "b"), "glue/rte"
    )


def category_figure() -> object:
    run = flagged("stuck", "squad/v2.0", scores={"em": 0.5, "f1": 0.5, "f1_hasans": 0.5})
    (board,) = build_boards([row_of(run)], SUITES["squad"])
    return categories_of_task(named_entries(board, "b"), board.rule, "squad/v2.0")


def stage_figure() -> object:
    stages = [Stage(run="pre", step=step) for step in (100, 200)]
    board = one_board(
        replace(row_of(flagged(f"pre-{stage.step}", seed=seed)), stage=stage)
        for stage in stages
        for seed in (0, 1)
    )
    return stage_figures(curves_of(MagicMock(), board, lambda entry: entry.stage, examples=False))


def calibration_figure() -> object:
    board = board_of([flagged("stuck")])
    ends = Interval(low=0.4, high=0.6)
    found = Calibration(
        task="glue/rte",
        split="dev",
        flags=(CONSTANT,),
        measures=dict.fromkeys(NAMES, Measured(value=0.5)),
        bins=(Bin(confidence=0.6, accuracy=0.5, interval=ends, share=1.0),),
        curve=(Covered(coverage=1.0, accuracy=0.5, interval=ends, confidence=0.6),),
    )
    (named,) = named_entries(board, "b")
    return calibration_figures([named], {named.entry.runs[0].key: {"glue/rte": [found]}})


FIGURES: Mapping[str, Callable[[], object]] = {
    "tradeoffs": cost_figures,
    "spreads": spread_figure,
    "categories": category_figure,
    "stages": stage_figure,
    "calibration": calibration_figure,
    "shots": lambda: shot_figures(*set_to("shots", 8, 32)),
    "layers": lambda: layer_figures(*set_to("features", "layer-1", "layer-2")),
}


def test_every_plot_is_covered_by_the_flag_tests_of_this_module() -> None:
    own = {each.name for each in fields(Plots)} - {"added"}
    assert own | places("plots").keys() == {*FIGURES, *OTHERS}


@pytest.mark.parametrize("name", FIGURES)
def test_plot_lists_flags_in_its_notes_and_marks_flagged_scores(name: str) -> None:
    shown = str(FIGURES[name]())
    assert CONSTANT in shown
    assert "50.0!" in shown


PARTS: Mapping[str, str] = {
    "row.html.j2": f'<abbr class="flag" title="3 of 3 seeds collapsed ({CONSTANT})">!</abbr>',
    "group.html.j2": f'<abbr class="flag" title="{CONSTANT}">!</abbr>',
    "run.html.j2": f'<p class="flag">! {CONSTANT}</p>',
    "figure.html.j2": '<td class="number">50.0!</td>',
    "section.html.j2": "A cross is a run that learned nothing (collapsed)",
    "board.html.j2": '<span class="flag">!</span> marks a score with a warning',
}
"""Output of each report template for a flagged score."""

HELD = {"predictions.html.j2": "report predictions", "prediction.html.j2": "report predictions"}
"""Templates of other pages, with the commands that write them."""

FRAME = {"page.html.j2", "runs.html.j2"}  # contain other templates, but no scores themselves
PUBLISHED = {"reproduction.html.j2"}  # needs official data; tested below


def test_every_part_of_the_report_page_has_the_flags_of_scores(bench: Any, here: Path) -> None:
    folders = (
        ROOT / "leaderboard/report/templates",
        ROOT / "benchharness/extensions/plots/templates",
        ROOT / "benchharness/extensions/prediction_pages/templates",
    )
    found = {
        path.relative_to(folder).as_posix() for folder in folders for path in folder.rglob("*.j2")
    }
    assert found == {*PARTS, *HELD, *FRAME, *PUBLISHED}
    assert set(HELD.values()) <= set(CHECKED)
    assert bench("report", "--out", "page.html", "--db", DB).code == 0
    page = Path("page.html").read_text()
    assert [name for name, part in PARTS.items() if part not in page] == []


def test_collapsed_score_is_marked_in_the_comparison_with_published_ones() -> None:
    flags = {"glue/rte": (CONSTANT,)}
    rows = [
        make_row("bert-base-cased", "glue/rte", seed, 0.5, data="hub", flags=flags)
        for seed in (0, 1)
    ]
    board = one_board(rows)
    compared = [each for each in reproductions(board, board.entries[0]) if each.ours is not None]
    assert compared
    assert {(each.text, each.flags) for each in compared} == {("50.0!", (CONSTANT,))}
    written = template_module("reproduction.html.j2").reproduction_table(build_table(board, 1))
    assert '<td class="number">50.0!</td>' in written


# A run with real training.


def test_collapsed_run_is_flagged_in_every_output_after_real_training(bench: Any) -> None:
    """Check also that its model is exported only on request, with the flag on its card."""
    words = ("--model", "tiny", "--task", "glue/rte", "--data", "mini", "--limit", "16")
    once = ("--set", "epochs=1", "--set", "learning_rate=1e-9", "--seeds", "1", "--no-baselines")
    device = ("--device", "cpu", "--precision", "fp32", "--keep-models")
    ended = bench("run", *words, *once, *device)
    assert ended.code == 0, ended.err
    assert f"(! {CONSTANT}" in ended.err + ended.out
    assert f"!: 1 of 1 seed collapsed ({CONSTANT}" in ended.out
    ended = bench("model", "tiny", "--to", "taken")
    assert ended.code == 2
    assert "learned nothing on RTE (constant predictions" in ended.err
    assert "--to DIR --collapsed-too`" in ended.err
    assert not Path("taken").exists()
    ended = bench("model", "tiny", "--to", "taken", "--collapsed-too", "--json")
    assert ended.code == 0, ended.err
    assert f"!: {CONSTANT}" in ended.err
    assert CONSTANT in json.loads(ended.out)[0]["flags"]
    card = Path("taken/README.md").read_text()
    assert f"**The model has learned nothing: {CONSTANT}" in card
    assert f"accuracy ({CONSTANT})" in card
    run = json.loads(Path("taken/benchharness.json").read_text())["key"]
    db = "results/leaderboard.sqlite"
    with pytest.raises(bh.BenchError, match="collapsed_too=True"):
        bh.model(run, db=db)
    assert len(bh.model(run, db=db, collapsed_too=True)) == 2
    rows = [{"sentence1": "It rains.", "sentence2": "It is wet."}]
    columns = "text=sentence1,text2=sentence2"
    Path("rows.jsonl").write_text(json.dumps(rows[0]) + "\n")
    for kept in (run[:12], "taken"):
        assert CONSTANT in bh.predict(kept, rows, columns=columns, db=db).attrs["flags"]
        ended = bench("predict", kept, "rows.jsonl", "--columns", columns)
        assert (ended.code, f"!: {CONSTANT}" in ended.err) == (0, True), ended.err
