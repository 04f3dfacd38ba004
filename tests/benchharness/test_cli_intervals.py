import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.statistics import median_interval
from benchharness.leaderboard.store.store import open_store
from tests.helpers.compared_runs import made

MODELS = {"good": [{0}, {1}, {2}], "near": [{3}, {4, 5}, {6}], "bad": [set(range(50))] * 3}
"""The rows of RTE that each seed has wrong."""


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Store three models with three seeds each on one task."""
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for model, seeds in MODELS.items():
            for seed, wrong in enumerate(seeds):
                store.add_result(made(model, "glue/rte", seed, wrong))


def entries(bench, *words):
    ended = bench("leaderboard", "--db", "board.sqlite", "--json", *words)
    assert ended.code == 0, ended.err
    (board,) = json.loads(ended.out)
    return {entry["model"]: entry for entry in board["entries"]}


def test_leaderboard_json_has_confidence_intervals_for_every_score(bench, stored):
    for entry in entries(bench, "--intervals").values():
        cell = entry["tasks"]["glue/rte"]
        found = cell["intervals"]
        assert found["examples"]["low"] <= cell["median"] <= found["examples"]["high"]
        seeds = median_interval(cell["values"])
        assert found["seeds"]["low"] == pytest.approx(seeds.low)
        assert found["seeds"]["high"] == pytest.approx(min(1.0, seeds.high))
        assert found["both"]["low"] <= found["examples"]["low"]
        assert found["reason"] == ""
        assert entry["ranks"] is None  # eight tasks of the suite have no results


def test_confidence_intervals_are_deterministic(bench, stored):
    assert entries(bench, "--intervals") == entries(bench, "--intervals")


def test_leaderboard_without_intervals_reads_no_predictions(bench, stored, monkeypatch):
    monkeypatch.setattr("benchharness.leaderboard.store.store.Store.result", None)
    for entry in entries(bench).values():
        assert "ranks" not in entry
        assert "intervals" not in entry["tasks"]["glue/rte"]


def test_leaderboard_table_shows_an_interval_for_every_score(bench, stored):
    ended = bench("leaderboard", "--db", "board.sqlite", "--intervals")
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert sum(line.startswith("95 % from ") for line in lines) == 3


def test_a_note_about_unreadable_examples_is_printed_once(bench, stored):
    with open_store("board.sqlite") as store:
        for seed in range(2):
            run = made("moved", "glue/wnli", seed, {0})
            job = replace(run.job, data="/nowhere")
            store.add_result(replace(run, job=job))
    ended = bench("leaderboard", "--db", "board.sqlite", "--intervals")
    assert ended.code == 0
    assert (
        " ".join(ended.out.split()).count("cover only seeds: the examples could not be read") == 1
    )


def test_report_omits_intervals_if_disabled_or_if_there_are_many_runs(bench, stored, monkeypatch):
    def page(*words):
        assert bench("report", "--db", "board.sqlite", "--out", "page.html", *words).code == 0
        text = Path("page.html").read_text(encoding="utf-8")
        return re.findall(r"95 % interval from [\d.]+ to [\d.]+ over examples and seeds", text)

    assert page()
    assert not page("--no-intervals")
    monkeypatch.setattr("benchharness.stored.report.MANY_RUNS", 8)
    assert not page()
    assert page("--intervals")


def test_selection_gain_includes_example_noise_if_examples_are_read(bench, stored):
    draw = random.Random(5)
    with open_store("board.sqlite") as store:
        for rate in ("1e-5", "2e-5", "3e-5", "4e-5"):
            settings = {"learning_rate": Setting(value=float(rate), source="--set")}
            # Rows that all seeds of a setting predict wrongly.
            own = set(draw.sample(range(160), 40))
            for seed in range(3):
                wrong = own | set(draw.sample(range(160), 2))
                run = made("swept", "glue/rte", seed, wrong, settings=settings, is_sweep=True)
                store.add_result(run)
    quick = entries(bench)["swept"]["tasks"]["glue/rte"]
    read = entries(bench, "--intervals")["swept"]["tasks"]["glue/rte"]
    assert quick["gain_over"] == "seeds"
    assert read["gain_over"] == "seeds and examples"
    assert read["gain_by_choice"] > quick["gain_by_choice"]
