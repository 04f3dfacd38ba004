"""A store of schema 0002 with every kind of run, as the last version with that schema showed it.

stores/kept has two such stores, what that version printed of them, and its archives. Comparisons,
intervals and single runs are kept as they are shown since several seeds have one test and runs
count the rows that lost words. labels.sqlite has runs by recipe files called "lr sweep.toml" and
"scored here.toml", which were taken for points of a sweep and for a file of predictions.
"""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.job import Start
from benchharness.leaderboard.regression import Baseline
from benchharness.leaderboard.store.archive import read_archive
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.tasks.suites import SUITES

KEPT = Path(__file__).parent / "stores" / "kept"

PRINTED = {
    "leaderboard.json": "leaderboard --json",
    "list-runs.json": "list runs --json",
    "export-all-boards.csv": "export",
    "compare-squad-recipes.json": (
        "compare tiny:paper tiny:paper+set --suite squad --by-category --examples 2 --json"
    ),
    "compare-glue-floor.json": (
        "compare tiny:paper:fp32 bag-of-words --suite glue --data mini --json"
    ),
    "compare-glue-scored.json": (
        "compare their%20model bag-of-words --suite glue --data mini --json"
    ),
    "compare-glue-ensemble.json": (
        "compare tiny%20x3 tiny:paper:fp32 --suite glue --data mini --json"
    ),
    "compare-runs.json": "compare 7b248017770c 8e7cc402f251 --json",
    "compare-test.json": "compare 756e207e47d8 4e6ca3ec4551 --split test --json",
    "show-from-checkpoint.json": "show acfda6f3a3bc --json",
    "show-from-scratch.json": "show 8e7cc402f251 --json",
    "show-started.json": "show 7b248017770c --json",
    "show-overridden.json": "show 6b6fa2e74268 --json",
    "show-sweep.json": "show 8031ef651f31 --json",
    "show-ensemble.json": "show cc23990412ed --json",
    "show-scored.json": "show 1089d3709939 --json",
    "show-imported.json": "show 6ca3cf6dffae --json",
    "show-majority.json": "show c51de90caa93 --json",
    "show-diverged.json": "show ba4dee5a561f --json",
}
"""By file the command that printed it; %20 is a space of a name."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store, which the first command upgrades."""
    return _copy("store", tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _copy("labels", tmp_path_factory.mktemp("labels"))


def _copy(name: str, folder: Path) -> Path:
    path = folder / "store.sqlite"
    with gzip.open(KEPT / f"{name}.sqlite.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


def _printed(path: Path, command: str) -> str:
    from benchharness.cli.app import app

    words = [word.replace("%20", " ") for word in command.split()]
    ended = CliRunner().invoke(app, [*words, "--db", str(path)])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def _kept(name: str) -> str:
    return gzip.decompress((KEPT / f"{name}.gz").read_bytes()).decode()


def _data(text: str) -> Any:
    """To 12 digits: numpy adds in another order where a processor has wider registers."""
    try:
        return json.loads(text, parse_float=lambda digits: round(float(digits), 12))
    except ValueError:
        return text.splitlines()


NAMES = {
    '"paper+set sweep, best of 2 on dev"': '"sweep of lr, best of 2 on dev"',
    "paper+set ~1053": '"lr 2e-3, 10 epochs, batch 4"',
    "paper+set ~7a11": '"lr 0.01, features last"',
    ",paper+set,": ',"lr 2e-3, 10 epochs, batch 4",',
    "myrecipe ~caa3:": "myrecipe,from=mnli:",
    "myrecipe ~916c:": "myrecipe,from=pretrained:",
    "myrecipe ~caa3": '"myrecipe, from MNLI"',
    "myrecipe ~916c": '"myrecipe, from pretrained"',
    ":paper+set:": ":lr=2e-3,epochs=10,batch=4:",
    ":scored here:": ":scored_here:",
    ",/tmp/kept/data,": ",data#827ee1,",
}
"""What rows and folders are called since names say what was set, in exports and comparisons."""


@pytest.mark.parametrize(("name", "command"), PRINTED.items())
def test_an_upgraded_store_shows_what_it_showed(path: Path, name: str, command: str) -> None:
    kept = _kept(name)
    if command.startswith(("export", "compare")):
        for old, new in NAMES.items():
            kept = kept.replace(old, new)
    now, then = _data(_printed(path, command)), _data(kept)
    assert _unnamed(now) == then


def _unnamed(now: Any) -> Any:
    """Without the names of a board's rows, which are new."""
    for board in now if isinstance(now, list) else ():
        for entry in board.get("entries", ()) if isinstance(board, dict) else ():
            entry.pop("name", None)
    return now


def test_intervals_are_what_they_were(path: Path) -> None:
    """Of the packaged data: the folder of the other board was on the machine of that time."""
    texts = _printed(path, "leaderboard --intervals --json"), _kept("leaderboard-intervals.json")
    boards = map(_data, texts)
    now, then = ([board for board in found if board["data"] == ["mini"]] for found in boards)
    assert len(then) == 7
    assert _unnamed(now) == then


def test_an_upgraded_store_is_whole(path: Path) -> None:
    with open_store(path) as store:
        assert list(store.faults()) == []


@pytest.mark.parametrize("name", ["path", "labels"])
def test_an_archive_is_byte_for_byte_what_it_was(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kept = "everything.jsonl.gz" if name == "path" else "labels-everything.jsonl.gz"
    _printed(request.getfixturevalue(name), f"export --all {tmp_path / 'all.jsonl.gz'}")
    ours, theirs = (tmp_path / "all.jsonl.gz").read_bytes(), (KEPT / kept).read_bytes()
    assert gzip.decompress(ours) == gzip.decompress(theirs)


def test_an_old_archive_is_the_upgraded_store(path: Path, tmp_path: Path) -> None:
    with open_store(tmp_path / "new.sqlite") as store, open_store(path) as upgraded:
        store.merge(read_archive(KEPT / "everything.jsonl.gz"))
        assert list(store.stored_runs()) == list(upgraded.stored_runs())
        assert sorted(store.runs(), key=str) == sorted(upgraded.runs(), key=str)


def test_an_old_baseline_is_read_and_written_again(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "baseline.json"
    words = (
        "baseline --model tiny:paper:fp32 --suite glue --limit 24 --data mini --allow-weak --out"
    )
    _printed(path, f"{words} {out}")
    kept = Baseline.from_text(_kept("baseline.json"), "baseline.json")
    again = Baseline.from_text(out.read_text(), "baseline.json")
    # What a baseline of that time did not say.
    old = {task: replace(s, right_rule=1, collapsed=()) for task, s in again.tasks.items()}
    assert replace(again, tasks=old) == kept


def test_the_facts_of_old_runs_are_found(path: Path) -> None:
    with open_store(path) as store:
        jobs = {key: store.result(key).job for key in ("acfda6f3a3bc", "7b248017770c")}
        swept, scored = (store.result(key).job for key in ("8031ef651f31", "1089d3709939"))
        kinds = {row.kind for row in store.runs()}
        sources = {row.source for row in store.runs() if row.kind == "imported"}
    assert kinds == {"model", "scored", "ensemble", "floor", "imported"}
    assert sources == {"their blog of 2026-07-01", "a paper"}
    given, started = jobs.values()
    assert given.start == Start(kind="checkpoint", name="second", model="tiny")
    assert started.start == Start(kind="task", name="glue/mnli")
    assert (started.recipe, started.own_recipe) == ("myrecipe", True)
    assert (swept.recipe, swept.overridden, swept.is_sweep) == ("paper", True, True)
    assert (scored.kind, scored.recipe_label) == ("scored", "scored here")


def test_the_labels_that_misled_are_still_shown(labels: Path) -> None:
    listed = _data(_printed(labels, "list runs --json"))
    assert listed == _data(_kept("labels-list-runs.json"))


def test_a_file_called_like_a_label_means_nothing(labels: Path) -> None:
    """Two files called "lr sweep.toml" are two recipes, and what "scored here.toml" trained is
    ranked; a sweep is still one."""
    with open_store(labels) as store:
        entries = _board(store).entries
    assert [e.points for e in entries if e.recipe == "lr sweep"] == [0, 0]
    assert [e.points for e in entries if e.recipe == "paper+set sweep"] == [2]
    scored = [(e.kind, e.competes) for e in entries if e.recipe == "scored here"]
    assert sorted(scored) == [("model", True)]
    before = [e for b in _data(_kept("labels-leaderboard.json")) for e in b["entries"]]
    assert {e["points"] for e in before if e["recipe"] == "lr sweep"} == {2}


def _board(store: Store) -> Board:
    return next(b for b in build_boards(store.runs(), SUITES["glue"]) if b.limit is not None)
