"""Tests of `bench db rename`, `hide` and `delete`, and of abbreviated names."""

import json
import re
import shlex
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from benchharness.errors import StoreError
from benchharness.extensions.database import command as rows_module
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.results import make_evaluation, make_failure, make_job, make_result

DB = ("--db", "board.sqlite")
RATE = {"learning_rate": 3e-4, "epochs": 3}


def run(model, seed=1, score=0.5, task="glue/rte", chosen=()):
    """Return a run of the paper's recipe, or of changed settings."""
    job = make_job(model=model, seed=seed, task=task, recipe="paper", precision="fp32")
    if chosen:
        settings = {
            name: replace(setting, value=chosen.get(name, setting.value), source="--set")
            if name in chosen
            else setting
            for name, setting in job.settings.items()
        }
        job = replace(job, settings=settings, overridden=True)
    evaluation = make_evaluation(job, task, "dev", scores={"accuracy": score})
    return replace(make_result(job), evaluations=(evaluation,))


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for seed in (1, 2):
            store.add_result(run("minilm", seed, 0.6))
            store.add_result(run("minilm", seed, 0.7, chosen=RATE))
            store.add_result(run("bert-base-uncased", seed, 0.8))


def rows(bench):
    """Return the median score of each leaderboard entry, by name."""
    (board,) = json.loads(bench("leaderboard", *DB, "--json").out)
    return {e["name"]: e["tasks"]["glue/rte"]["median"] for e in board["entries"]}


def test_leaderboard_entries_are_named_by_changed_settings_in_all_outputs(bench, stored):
    assert set(rows(bench)) == {"minilm", "minilm, lr 3e-4, 3 epochs", "bert-base-uncased"}
    assert "minilm, lr 3e-4, 3 epochs" in bench("leaderboard", *DB).out
    for form in ("csv", "markdown", "latex"):
        assert "lr 3e-4, 3 epochs" in bench("export", "--format", form, *DB).out
    assert "lr 3e-4, 3 epochs" in bench("show", "runs", *DB).out
    assert bench("report", "--out", "page.html", *DB).code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "minilm, lr 3e-4, 3 epochs" in page
    assert not re.search(r"~[0-9a-f]{4}\b", page)


def test_compare_columns_are_named_by_the_settings_that_differ(bench, stored):
    ended = bench("compare", "minilm:paper", "minilm:lr=3e-4", *DB)
    assert ended.code == 0, ended.err
    head = next(line for line in ended.out.splitlines() if line.strip().startswith("task"))
    assert "paper" in head
    assert "lr 3e-4, 3 epochs" in head
    assert "one" not in head.split()
    assert "minilm and minilm, lr 3e-4, 3 epochs" in ended.out


@pytest.mark.parametrize("name", ["bert", "bert-base", "BERT-base-unc", "bert-base-uncased:paper"])
def test_commands_accept_an_unambiguous_abbreviated_model_name(bench, stored, name):
    assert bench("compare", name, "minilm:lr=3e-4", "--task", "rte", *DB).code == 0
    assert bench("export", "--model", name, *DB).out.count("bert-base-uncased") == 1
    assert bench("show", "rte", *DB).out.startswith("name: glue/rte\n")


def test_leaderboard_entry_can_be_renamed_and_renamed_back(bench, stored):
    ended = bench("db", "rename", "minilm:lr=3e-4", "hot", *DB)
    assert (ended.code, ended.err) == (0, "")
    assert set(rows(bench)) == {"minilm", "hot", "bert-base-uncased"}
    with open_store("board.sqlite") as store:
        assert list(store.faults()) == []
        # A new seed of the renamed entry, and a run of the model's other entry, are added to the
        # right entries.
        store.add_result(run("minilm", 3, 0.9, chosen=RATE))
        store.add_result(run("minilm", 3, 0.6))
        assert {row.model for row in store.runs(model="hot")} == {"hot"}
        assert len(store.runs(model="hot")) == len(store.runs(model="minilm")) == 3
        assert store.models() == ["bert-base-uncased", "hot", "minilm"]
    assert rows(bench)["hot"] == 0.7
    back = shlex.split(ended.out.partition("To undo it: ")[2])[1:]
    assert bench("db", "rename", "hot", "hotter", *DB).code == 0
    assert set(rows(bench)) == {"minilm", "hotter", "bert-base-uncased"}
    bench("db", "rename", "hotter", "hot", *DB)
    ended = bench(*back)
    assert ended.code == 0
    assert set(rows(bench)) == {"minilm", "minilm, lr 3e-4, 3 epochs", "bert-base-uncased"}
    # This renaming can be undone too, without changing the other entries of the model.
    assert bench(*shlex.split(ended.out.partition("To undo it: ")[2])[1:]).code == 0
    assert set(rows(bench)) == {"minilm", "hot", "bert-base-uncased"}
    bench("db", "rename", "bert", "BERT of ours", *DB)
    assert "BERT of ours" in rows(bench)
    assert bench("compare", "BERT_of_ours", "hot", *DB).code == 0


def test_renaming_an_entry_to_a_misleading_name_is_an_error(bench, stored):
    for name in ("bert-base-uncased", "a:b", " ", "\u202e"):
        ended = bench("db", "rename", "minilm", name, *DB)
        assert (ended.code, ended.out) == (2, ""), name
    assert "already" in bench("db", "rename", "minilm", "bert-base-uncased", *DB).err
    ended = bench("db", "rename", "nobody", "x", *DB)
    assert "no leaderboard entry is called 'nobody'" in ended.err


def test_hidden_entry_is_on_no_leaderboard_and_can_be_restored(bench, stored):
    ended = bench("db", "hide", "minilm:lr=3e-4", *DB)
    assert "bench db hide minilm:lr=3e-4 --undo" in ended.out
    assert set(rows(bench)) == {"minilm", "bert-base-uncased"}
    assert "1 row is hidden" in bench("leaderboard", *DB).out
    assert "3e-4" not in bench("export", *DB).out
    assert bench("show", "runs", *DB).out.count("lr 3e-4") == 2
    told = bench("db", "hide", *DB).out
    assert told.startswith("minilm, lr 3e-4, 3 epochs (GLUE): ")
    bench(*shlex.split(told.partition("): bench ")[2].strip()), *DB)
    assert "minilm, lr 3e-4, 3 epochs" in rows(bench)
    assert bench("db", "hide", *DB).out == "no entry is hidden.\n"


def test_renamed_leaderboard_entry_can_be_hidden(bench, stored):
    bench("db", "rename", "minilm:lr=3e-4", "hot", *DB)
    bench("db", "hide", "hot", *DB)
    assert set(rows(bench)) == {"minilm", "bert-base-uncased"}
    ended = bench("compare", "minilm", "hot", *DB)
    assert ended.err.endswith("`bench db hide` lists hidden rows.\n")
    bench("db", "hide", "hot", "--undo", *DB)
    assert set(rows(bench)) == {"minilm", "hot", "bert-base-uncased"}


def test_deleted_runs_can_be_restored_from_the_archive_of_the_deletion(bench, stored):
    with open_store("board.sqlite") as store:
        before = list(store.stored_runs())
    ended = bench("db", "delete", "--model", "minilm", "--task", "rte", *DB)
    assert ended.code == 2
    assert "delete 4 runs" in ended.err
    assert "use --yes" in ended.err
    with open_store("board.sqlite") as store:
        assert store.count() == 6
    ended = bench("db", "delete", "--model", "minilm", "--task", "rte", "--yes", *DB)
    assert ended.code == 0, ended.err
    assert "minilm, lr 3e-4, 3 epochs, RTE: 2" in ended.err
    with open_store("board.sqlite") as store:
        assert store.count() == 2
        assert list(store.faults()) == []
    assert set(rows(bench)) == {"bert-base-uncased"}
    back = shlex.split(ended.out.partition("To restore them: ")[2])[1:]
    assert bench(*back).code == 0
    with open_store("board.sqlite") as store:
        assert sorted(map(str, store.stored_runs())) == sorted(map(str, before))


def test_db_delete_deletes_one_run_by_its_key_and_requires_a_selection(bench, stored):
    with open_store("board.sqlite") as store:
        key = store.runs(model="bert-base-uncased")[0].key
    assert bench("db", "delete", key[:10], "--yes", *DB).code == 0
    with open_store("board.sqlite") as store:
        assert key not in {row.key for row in store.runs()}
        assert store.count() == 5
    assert "nothing to delete" in bench("db", "delete", "--yes", *DB).err
    assert bench("db", "delete", "--model", "nobody", "--yes", *DB).code == 2


def test_simultaneous_deletions_write_separate_archives(bench, stored, monkeypatch):
    class Standing(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 11, 22, 13, 57, 18, tzinfo=tz)

    monkeypatch.setattr("benchharness.extensions.database.command.datetime", Standing)
    with open_store("board.sqlite") as store:
        keys = [row.key for row in store.runs()]
    for key in keys[:3]:
        ended = bench("db", "delete", key, "--yes", *DB)
        assert ended.code == 0, ended.err
    archives = sorted(path.name for path in Path().glob("*.deleted-*"))
    start = "board.sqlite.deleted-20261122T135718.000000"
    assert archives == [f"{start}{end}.jsonl.gz" for end in ("-2", "-3", "")]
    for name in archives:
        assert bench("db", "import", name, *DB).code == 0
    with open_store("board.sqlite") as store:
        assert store.count() == 6


def test_two_concurrent_deletions_of_the_same_runs_succeed(bench, stored, monkeypatch):
    """The second command archives and deletes while the first one waits for confirmation."""
    set_aside, ended = rows_module._set_aside, []

    def meanwhile(store, keys):
        monkeypatch.setattr(rows_module, "_set_aside", set_aside)
        ended.append(bench("db", "delete", "--model", "minilm", "--yes", *DB))
        return set_aside(store, keys)

    monkeypatch.setattr(rows_module, "_set_aside", meanwhile)
    late = bench("db", "delete", "--suite", "glue", "--yes", *DB)
    assert (ended[0].code, late.code) == (0, 0), late.err
    assert "another command has meanwhile deleted 4 of these runs" in late.err
    assert "deleted: 2 runs" in late.out
    for back in sorted(Path().glob("*.deleted-*")):
        assert bench("db", "import", back.name, *DB).code == 0
    with open_store("board.sqlite") as store:
        assert store.count() == 6
        assert list(store.faults()) == []


def test_db_delete_deletes_only_attempts_that_it_has_archived(bench, stored, monkeypatch):
    """Store a new attempt and a failure between the archive and the deletion."""
    with open_store("board.sqlite") as store:
        again, fails = (store.result(row.key).job for row in store.runs(model="minilm")[:2])
    ends = [replace(run("minilm"), job=again, finished="2026-09-01T12:00:00Z"), make_failure(fails)]
    set_aside = rows_module._set_aside

    def meanwhile(store, keys):
        found = set_aside(store, keys)
        with open_store("board.sqlite") as other:
            other.add_result(ends[0])
            other.add_failure(ends[1])
        return found

    monkeypatch.setattr(rows_module, "_set_aside", meanwhile)
    ended = bench("db", "delete", "--model", "minilm", "--yes", *DB)
    assert "deleted: 4 runs" in ended.out
    assert "2 runs got a new attempt in the meantime, which was not deleted" in ended.err
    with open_store("board.sqlite") as store:
        assert [store.result(job.key) for job in (again, fails)] == ends
        assert store.attempt_count() == 4
        assert list(store.faults()) == []
    assert bench("db", "import", next(Path().glob("*.deleted-*")), *DB).code == 0
    with open_store("board.sqlite") as store:
        assert store.attempt_count() == 8
        assert store.result(again.key) == ends[0]
        assert list(store.faults()) == []


def test_db_delete_leaves_no_empty_archive_if_nothing_remains_to_delete(bench, stored, monkeypatch):
    set_aside = rows_module._set_aside

    def meanwhile(store, keys):
        store.delete(keys)
        return set_aside(store, keys)

    monkeypatch.setattr(rows_module, "_set_aside", meanwhile)
    ended = bench("db", "delete", "--model", "minilm", "--yes", *DB)
    assert (ended.code, list(Path().glob("*.deleted-*"))) == (0, [])
    assert ended.out.startswith("nothing was left to delete: ")


def test_failed_deletion_prints_its_archive_and_the_command_to_restore_it(
    bench, stored, monkeypatch
):
    """Fail after the kept models are deleted and before the runs are; the error reports both."""

    def locked(store, keys, digests):
        raise StoreError("it is locked.")

    monkeypatch.setattr(rows_module, "kept_model", lambda db, key: Path())
    with monkeypatch.context() as patch:
        patch.setattr(Store, "delete", locked)
        ended = bench("db", "delete", "--model", "minilm", "--yes", *DB)
    assert ended.code == 5
    assert ended.err.endswith(
        "it is locked.\nbench: The kept models of these runs were already deleted.\n"
    )
    back = re.findall(r"To restore them: (.*)", ended.err)[0]
    assert bench("db", "delete", "--model", "minilm", "--yes", *DB).code == 0
    assert bench(*shlex.split(back)[1:]).code == 0
    with open_store("board.sqlite") as store:
        assert store.count() == 6


def test_partial_archive_of_a_killed_deletion_is_deleted_by_the_next_one(
    bench, stored, monkeypatch
):
    def killed(file, runs, **facts):
        drafts.extend(path.rename(f"{path}s") for path in Path().glob(".board*.draft"))
        raise KeyboardInterrupt

    drafts = list[Path]()
    with monkeypatch.context() as patch:
        patch.setattr(rows_module, "write_archive", killed)
        bench("db", "delete", "--model", "minilm", "--yes", *DB)
    (left,) = (path.rename(path.with_suffix(".draft")) for path in drafts)
    assert bench("db", "delete", "--model", "minilm", "--yes", *DB).code == 0
    assert not left.exists()


def test_hiding_and_deleting_entries_change_the_version_of_the_store(bench, stored):
    with open_store("board.sqlite") as store:
        first = store.newest()
    bench("db", "hide", "minilm", *DB)
    with open_store("board.sqlite") as store:
        second = store.newest()
    bench("db", "delete", "--model", "minilm", "--yes", *DB)
    with open_store("board.sqlite") as store:
        third = store.newest()
    assert len({first, second, third}) == 3


def test_help_of_bench_run_groups_its_options_under_headings(bench):
    text = bench("run", "--help-all").out
    heads = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert heads == [
        "What to run:",
        "Your own data:",
        "How to train:",
        "Where to compute:",
        "What to trust:",
        "Output:",
        "Other options:",
        "Example:",
    ]
    assert text.index("--model") < text.index("How to train:") < text.index("--recipe")
    assert text.partition("Other options:")[2].partition("Example:")[0].split() == [
        *("-h,", "--help", "Show", "this", "message", "and", "exit.")
    ]


def test_show_models_fits_80_columns_and_prints_one_line_per_model_to_a_pipe(bench, monkeypatch):
    from benchharness.models import MODELS

    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, bench("show", "models").out.splitlines())) <= 80
    monkeypatch.delenv("COLUMNS")
    lines = bench("show", "models").out.splitlines()
    for spec in MODELS.values():
        (line,) = (line for line in lines if line.split()[:1] == [spec.name])
        assert spec.title in line
