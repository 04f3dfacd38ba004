"""Tests of sheets: sections, links to rows, missing results, old archives, and errors."""

import json
import random
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.discovery import places
from benchharness.extensions.kept_models.sheet import card_sections
from benchharness.extensions.sheet.page import is_number
from benchharness.extensions.sheet.parts import ABSENT, ORDER
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

DB = "board.sqlite"
KEPT = Path(__file__).parents[2] / "leaderboard" / "kept"
"""Folder with stores and archives that earlier versions wrote."""


def run(seed, model="minilm", task="glue/rte", **fields):
    """Return a run with random answers, of which about 85 % are right."""
    found = find_task(task)
    prints = {
        f"{task}:{split}": read(found, split, parse_data("mini")).fingerprint
        for split in ("train", "dev")
    }
    job = make_job(
        model=model, task=task, seed=seed, fingerprints=prints, precision="fp32", **fields
    )
    rows, draw, guesses = read_split(job, f"{task}:dev"), random.Random(seed), []
    for row in rows.examples:
        gold = found.labels.index(row.label)
        guess = gold if draw.random() < 0.85 else 1 - gold
        share = draw.uniform(0.6, 0.99)
        scores = tuple(share if n == guess else 1 - share for n in range(2))
        guesses.append(PairPrediction(id=row.id, label=found.labels[guess], scores=scores))
    made = evaluate_split(f"{task}:dev", rows, guesses)
    return replace(make_result(job), evaluations=(made,))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with open_store(str(folder / DB)) as store:
        for seed in (1, 2, 3):
            store.add_result(run(seed))
    return folder


@pytest.fixture
def stored(made, tmp_path, monkeypatch):
    shutil.copy(made / DB, tmp_path / DB)
    monkeypatch.chdir(tmp_path)


def test_sheet_has_every_section_with_its_basis_and_missing_results(bench, stored):
    ended = bench("sheet", "minilm", "--db", DB)
    assert ended.code == 0, ended.err
    page = Path("sheet.html").read_text(encoding="utf-8")
    headings = re.findall(r'<h2 id="part-\d+">([^<]+)</h2>', page)
    assert headings == list(ORDER)
    assert set(ABSENT) <= set(ORDER)
    assert "Robustness, missing: robustness was not measured: `bench robustness SYSTEM" in ended.out
    assert "published scores are not shown, because these runs are on mini data" in page
    assert re.search(r"Score: RTE \d+\.\d \(\d+\.\d to \d+\.\d\)\.", ended.out)
    assert page.count("Not measured: ") >= len(re.findall("missing: ", ended.out))


def test_page_is_one_file_without_scripts_whose_links_lead_to_rows(bench, stored):
    bench("sheet", "minilm", "--db", DB)
    page = Path("sheet.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page)
    ids = set(re.findall(r'\bid="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert set(links) <= ids
    # In sections about rows, every number links to the rows from which it was computed.
    for heading in ("Score", "Calibration", "Groups"):
        number = list(ORDER).index(heading) + 1
        part = page.partition(f'id="part-{number}"')[2].partition('id="part-')[0]
        part = part.partition('<div class="figures">')[0]
        cells = re.findall(r'<td class="number">(.*?)</td>', part)
        assert cells
        assert all(cell.startswith('<a href="#rows-') for cell in cells), heading


def test_json_has_the_row_ids_and_runs_from_which_each_number_was_computed(bench, stored):
    ended = bench("sheet", "minilm", "--db", DB, "--json")
    found = json.loads(ended.out)
    assert not Path("sheet.html").exists()
    rows = found["sections"]["Score"]["rows"]["glue/rte"]
    examples = read(find_task("glue/rte"), "dev", parse_data("mini")).examples
    assert rows["ids"] == [example.id for example in examples]
    assert sorted(rows["runs"]) == sorted(found["runs"])
    # A row is wrong if at least two of the three runs answer it wrongly.
    wrong = []
    runs = [run(seed).evaluations[0].predictions for seed in (1, 2, 3)]
    for place, example in enumerate(examples):
        guesses = [predictions[place]["label"] for predictions in runs]
        if sum(guess != example.label for guess in guesses) >= 2:
            wrong.append(example.id)
    assert rows["wrong"] == wrong
    score = found["sections"]["Score"]["facts"]["glue/rte"]
    assert score["low"] < score["median"] < score["high"]


def test_sheet_of_a_run_key_is_about_this_run_only(bench, stored):
    key = run(2).job.key
    found = json.loads(bench("sheet", key[:12], "--db", DB, "--json").out)
    assert found["runs"] == [key]


def test_sheet_of_a_model_folder_is_about_its_run_and_variants(bench, stored):
    job = run(1).job
    folder = Path("model")
    folder.mkdir()
    (folder / "benchharness.json").write_text(json.dumps({"job": job.to_json()}))
    cost = {"bytes": 100, "p50": 4.0}
    check = {
        "variant": "int8", "task": "glue/rte", "scores": [0.8, 0.79], "differ": 3, "time": 0.5,
        "costs": [cost, {**cost, "bytes": 25}], "sentence": "int8: not worse.",
    }  # fmt: skip
    (folder / "variants.json").write_text(json.dumps([check]))
    ended = bench("sheet", "model", "--db", DB, "--json")
    found = json.loads(ended.out)
    assert found["runs"] == [job.key]
    assert found["sections"]["Variants"]["text"] == "int8: not worse."
    assert bench("sheet", "model", "--db", DB).code == 0
    page = Path("sheet.html").read_text(encoding="utf-8")
    assert '<td class="number"><a href="#rows-1">0.25</a></td>' in page


def test_predictions_are_written_next_to_the_sheet_and_linked(bench, stored):
    assert bench("sheet", "minilm", "--predictions", "--db", DB).code == 0
    page = Path("sheet.html").read_text(encoding="utf-8")
    (link,) = set(re.findall(r'href="(sheet\.predictions/[^"]+)"', page))
    assert "every prediction" in Path(link).read_text(encoding="utf-8")


def test_sheet_reports_unreadable_rows_and_shows_all_other_results(bench, stored):
    with open_store(DB) as store:
        store.add_result(make_result(make_job(model="gone")))
    ended = bench("sheet", "gone", "--db", DB)
    assert ended.code == 0, ended.err
    assert (
        "Data, missing: the rows of RTE cannot be read" in ended.out or "has changed" in ended.out
    )
    assert "its numbers link to no rows" in ended.out
    assert "Score: RTE" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody",), "nobody"),
        (("minilm",), "choose one leaderboard with --suite"),
        (("empty",), "empty has no model of a run"),
        (("broken",), "broken/benchharness.json cannot be read"),
    ],
)
def test_wrong_arguments_are_reported_in_one_sentence(bench, stored, words, said):
    Path("empty").mkdir()
    Path("broken").mkdir()
    Path("broken", "benchharness.json").write_text("{")
    with open_store(DB) as store:
        store.add_result(run(1, task="superglue/boolq"))
    ended = bench("sheet", *words, "--db", DB)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_sheet_can_be_written_from_an_archive_of_version_0_1_0(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert bench("db", "import", str(KEPT / "0.1.0.jsonl.gz"), "--db", DB).code == 0
    with open_store(DB, create=False) as store:
        names = sorted({row.model for row in store.runs(suite="glue") if row.kind == "model"})
    ended = bench("sheet", names[0], "--suite", "glue", "--db", DB)
    assert ended.code == 0, ended.err
    assert "Score: " in ended.out


def test_model_card_has_the_sections_of_extensions(stored):
    with open_store(DB) as store:
        sections = card_sections(store, run(1).job.key, "glue/rte")
    names = [section.partition("\n")[0] for section in sections]
    assert names == ["### Calibration", "### Groups"]
    assert "| coverage | accuracy | 95 % interval | lowest confidence |" in sections[0]
    assert {"Calibration", "Groups", "Variants"} <= places("sheets").keys()


def test_cells_with_numbers_are_distinguished_from_words():
    for text in ("83.1", "1,024", "-4.1*", "72.8 to 93.5", "10 %", "57%", "–", "-9.8 to 11.0"):
        assert is_number(text), text
    for text in ("none", "1: 78.1 2: 83.1", "", "more seeds", "within noise"):
        assert not is_number(text), text


@pytest.mark.soak
def test_db_check_finds_every_changed_bit_of_stored_predictions(made, tmp_path):
    path = tmp_path / DB
    with open_store(str(path)) as store:
        store.add_result(run(1))
    draw, connection = random.Random(1), sqlite3.connect(path)
    ((whole,),) = connection.execute("select rows from predictions").fetchall()
    for _ in range(1_000):
        place, changed = draw.randrange(len(whole)), bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        connection.execute("update predictions set rows = ?", (bytes(changed),))
        connection.commit()
        with open_store(str(path), create=False, upgrade=False) as store:
            assert list(store.faults()), place
    connection.execute("update predictions set rows = ?", (whole,))
    connection.commit()
    with open_store(str(path), create=False, upgrade=False) as store:
        assert not list(store.faults())
