"""Tests of the setting `features`: one leaderboard entry per value, and one encoding for all."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import benchharness as bh
from benchharness.errors import BenchError
from benchharness.extensions.curves.figures import layer_figures
from benchharness.extensions.frozen import layer_states
from benchharness.extensions.plots.chart import named_entries
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.boards.reproduction import reproductions
from benchharness.leaderboard.job import Job, Setting
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.store import open_store
from benchharness.models import MODELS
from benchharness.recipes import resolve_sweep
from benchharness.tasks.suites import SUITES
from benchharness.worker.job import run_job
from tests.helpers.boards import make_row
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.plans import plan_jobs

BERT = MODELS["bert-base-cased"]
TABLE = [
    "fine-tuned",
    "embeddings",
    "second-to-last",
    "last",
    "sum-last-4",
    "concat-last-4",
    "sum-all",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model") / "four"
    return str(save_checkpoint(folder, num_hidden_layers=4, max_position_embeddings=72))


def plan(
    model: str, task: str = "glue/cola", *, recipe: str | None = None, **texts: str
) -> list[Job]:
    found = plan_jobs(model, task, recipe=recipe, overrides=texts, limit=12, precision="fp32")
    return [*found.jobs]


def read(job: Job) -> object:
    return job.values.get("features", "fine-tuned")


# Plans.


@pytest.mark.soak
def test_features_each_plans_one_job_per_layer_and_one_for_the_embeddings(model: str):
    jobs = plan(model, features="each")
    assert [*map(read, jobs)] == ["embeddings", "layer-1", "layer-2", "layer-3", "layer-4"]
    assert not any(job.is_sweep for job in jobs)
    assert jobs[2].key == plan(model, features="layer-2")[0].key
    more = plan(model, features="mix,each,layer-2,last")
    assert [*map(read, more)] == ["mix", *map(read, jobs), "last"]


def test_sweep_of_another_setting_is_run_for_each_feature_layer(model: str):
    jobs = plan(model, features="last,mix", learning_rate="1e-3,1e-4")
    assert [(read(job), job.values["learning_rate"]) for job in jobs] == [
        ("last", 1e-3),
        ("last", 1e-4),
        ("mix", 1e-3),
        ("mix", 1e-4),
    ]
    assert all(job.is_sweep for job in jobs)


def test_features_recipe_plans_all_rows_of_the_table_in_the_bert_paper():
    points = resolve_sweep(BERT, "conll2003/ner", "features", {})
    values = [{n: s.value for n, s in point.settings.items()} for point in points]
    assert [v.get("features", "fine-tuned") for v in values] == TABLE
    assert all((v["context"], v["max_tokens"]) == ("document", 512) for v in values)
    tuned, *frozen = values
    assert "lstm_size" not in tuned
    (paper,) = resolve_sweep(BERT, "conll2003/ner", None, {})
    own = {n: s.value for n, s in paper.settings.items()}
    assert {**own, "context": "document", "max_tokens": 512} == tuned
    assert all((v["lstm_size"], v["learning_rate"]) == (768, 1e-3) for v in frozen)
    small = resolve_sweep(BERT, "conll2003/ner", "features", {"lstm_size": "32"})
    assert ["lstm_size" in point.settings for point in small] == [False, *[True] * 6]


def test_toml_table_frozen_of_a_recipe_applies_only_to_frozen_encoders(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text("[default]\nepochs = 2\n[frozen]\nepochs = 9\n")
    points = resolve_sweep(BERT, "glue/rte", str(file), {"features": "fine-tuned,last"})
    assert [point.settings["epochs"].value for point in points] == [2.0, 9.0]
    (plain,) = resolve_sweep(BERT, "glue/rte", str(file), {})
    assert plain.settings["epochs"].value == 2.0


def test_features_from_more_layers_than_the_model_has_are_an_error(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(BenchError, match="needs 3 layers, but tiny has 2"):
        plan("tiny", features="last,layer-3")
    jobs = plan("tiny", recipe="features")
    assert [*map(read, jobs)] == [name for name in TABLE if not name.endswith("last-4")]
    assert "tiny has only 2 layers" in capsys.readouterr().err


def test_features_each_is_an_error_if_the_number_of_layers_is_unknown(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "odd")
    config = folder / "config.json"
    config.write_text(config.read_text().replace("num_hidden_layers", "depth"))
    with pytest.raises(BenchError, match="does not contain the number of layers"):
        plan(str(folder), features="each")


# Computation.


def test_each_split_is_encoded_once_for_all_feature_layers(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Encode train and dev once each, for any choice of layers."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    encoded: list[int] = []
    compute = layer_states._compute

    def counted(source: Any, features: Any, report: Any) -> Iterator[Any]:
        encoded.append(len(features))
        return compute(source, features, report)

    monkeypatch.setattr(layer_states, "_compute", counted)
    texts = {"epochs": "1", "evaluations": "1", "max_tokens": "32"}
    jobs = plan(model, features="each,last", **texts)
    results = {read(job): run_job(job) for job in jobs}
    assert len(jobs) == 6
    assert encoded == [12, 12]
    assert results["layer-4"].evaluations == results["last"].evaluations
    assert results["layer-1"].evaluations != results["last"].evaluations


# Output.


def rows(features: str | None, value: float, task: str = "conll2003/ner") -> Iterator[RunRow]:
    """Yield three stored runs of the recipe `features`, one per seed."""
    read = {} if features is None else {"features": Setting(value=features, source="table 7")}
    for seed in (1, 2, 3):
        scores = dict.fromkeys(("f1", "mcc", "accuracy"), value + 0.001 * seed)
        row = make_row("bert-base-cased", task, seed, scores, data="hub", recipe="features")
        digest, key = f"{task}{features}", f"{task}{features}{seed}"
        settings = {**row.settings, **read}
        yield replace(row, settings=settings, recipe_digest=digest, key=key)


TABLE_ROWS = [*rows(None, 0.963), *rows("last", 0.948), *rows("sum-all", 0.80), *rows("mix", 0.9)]


def test_feature_based_entries_show_their_layers_and_a_comparison_with_published_scores():
    (board,) = build_boards(TABLE_ROWS, SUITES["conll2003"])
    found = {
        entry.name: [(r.theirs.value, r.verdict) for r in reproductions(board, entry)]
        for entry in board.entries
    }
    assert found == {
        "bert-base-cased, fine-tuned": [(96.4, "within noise")],
        "bert-base-cased, features last": [(94.9, "within noise")],
        "bert-base-cased, features sum-all": [(95.5, "below")],
        # The published score is a test score.
        "bert-base-cased, features mix": [(92.4, "not comparable")],
    }


def test_leaderboard_has_a_separate_entry_for_each_feature_layer():
    """Use runs in reverse order, and layers that have no run on one of the tasks."""
    cola = [*rows("layer-1", 0.5, "glue/cola"), *rows("layer-2", 0.6, "glue/cola")]
    rte = [*rows("layer-2", 0.7, "glue/rte"), *rows("layer-3", 0.8, "glue/rte")]
    (board,) = build_boards([*cola, *reversed(rte)], SUITES["glue"])
    found = {entry.name: sorted(entry.cells) for entry in board.entries}
    assert found == {
        "bert-base-cased, features layer-1": ["glue/cola"],
        "bert-base-cased, features layer-2": ["glue/cola", "glue/rte"],
        "bert-base-cased, features layer-3": ["glue/rte"],
    }


def test_curve_of_scores_over_layers_has_one_line_per_model_and_intervals():
    layers = [*rows("layer-2", 0.9), *rows("embeddings", 0.8), *rows("layer-1", 0.7)]
    (board,) = build_boards([*layers, *rows("last", 0.9)], SUITES["conll2003"])
    (figure,) = layer_figures(named_entries(board, "b"), board)
    assert figure.table is not None
    assert [row.cells[0] for row in figure.table.rows] == ["0", "1", "2"]
    assert figure.table.rows[0].cells[1:] == ("3", "80.2", "79.9 to 80.5")
    assert [key.text for key in figure.keys] == ["bert-base-cased, fp32"]
    one, two, three = figure.marks
    assert one.x < two.x < three.x
    assert two.y > one.y > three.y
    assert all("range" in mark.paths for mark in figure.marks)
    (alone,) = build_boards([*rows("layer-1", 0.7), *rows("last", 0.9)], SUITES["conll2003"])
    assert layer_figures(named_entries(alone, "b"), alone) == ()


def test_command_line_and_python_plan_the_same_feature_jobs(bench: Any, tmp_path: Path):
    words = ("--task", "glue/cola", "--data", "mini", "--limit", "12", "--seeds", "1")
    options = (
        "--no-baselines",
        "--dry-run",
        "--json",
        "--precision",
        "fp32",
        "--db",
        "none.sqlite",
    )
    ended = bench("run", "--model", "tiny", *words, "--set", "features=each", *options)
    assert ended.code == 0, ended.err
    keys = [job["key"] for job in json.loads(ended.out)["jobs"]]
    assert keys == [job.key for job in plan("tiny", features="each")]


@pytest.mark.slow
@pytest.mark.soak
def test_command_line_and_python_run_the_same_feature_jobs(
    tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = ("--task", "glue/cola", "--data", "mini", "--limit", "12", "--seeds", "1")
    words = ("--set", "epochs=1", "--set", "evaluations=1", "--set", "features=each")
    options = ("--jobs", "1", "--no-baselines", "--db", "board.sqlite", "--out", "page.html")
    ended = bench("run", "--model", "tiny", *rows, *words, *options)
    assert ended.code == 0, ended.err
    for read in ("embeddings", "layer-1", "layer-2"):
        assert f"features {read}" in ended.out
    assert 'class="layers"' in Path("page.html").read_text(encoding="utf-8")
    again = bh.run(
        "tiny",
        task="cola",
        data="mini",
        limit=12,
        seeds=1,
        set={"epochs": 1, "evaluations": 1, "features": "each"},
        baselines=False,
        db="board.sqlite",
        progress=False,
    )
    with open_store("board.sqlite") as store:
        assert sorted(again.keys) == sorted(row.key for row in store.runs())
    shown = bench("curve", "tiny", "--db", "board.sqlite").out
    assert [line.split()[0] for line in shown.splitlines()[4:7]] == ["0", "1", "2"]
    (curve,) = json.loads(bench("curve", "tiny", "--db", "board.sqlite", "--json").out)
    assert (curve["model"], curve["task"]) == ("tiny", "glue/cola")
    assert [point["layer"] for point in curve["points"]] == [0, 1, 2]
