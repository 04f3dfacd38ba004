"""Tests of the files that `bench share init`, `add` and `check` write and refuse."""

import gzip
import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.share import repository as layout
from benchharness.extensions.share.archive import UNPACKED_BYTES
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import check_archive, read_archive
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result
from tests.helpers.shared_rows import (
    archive_of,
    as_data,
    edited,
    made_repository,
    made_run,
    raw_archive,
    store_of,
)

FILES = {
    "README.md",
    "share.toml",
    "contributors/README.md",
    ".github/workflows/check.yml",
    ".github/workflows/site.yml",
}


def files_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Return a repository with an archive of Ada."""
    runs = [made_run("hers", seed) for seed in (1, 2, 3)]
    return made_repository(tmp_path / "board", {"ada": {"hers-glue.jsonl.gz": runs}})


# init


def test_init_writes_the_layout_and_replaces_every_variable(bench, tmp_path):
    ended = bench("share", "init", "new", "--title", 'Rows "of" us')
    assert (ended.code, files_in(tmp_path / "new")) == (0, FILES)
    texts = [(tmp_path / "new" / name).read_text() for name in FILES]
    assert not any("@TITLE@" in text or "@VERSION@" in text for text in texts)
    assert layout.open_repository(tmp_path / "new").title == 'Rows "of" us'


def test_init_uses_the_folder_of_an_empty_clone(bench, tmp_path):
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    assert bench("share", "init", "clone").code == 0
    assert files_in(tmp_path / "clone") == FILES


def test_init_refuses_a_folder_with_files_and_changes_nothing(bench, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    ended = bench("share", "init", "full")
    assert (ended.code, files_in(tmp_path / "full")) == (2, {"mine.txt"})
    assert "full is not empty (mine.txt)" in ended.err


# add


def test_add_writes_a_readable_archive_without_weights_and_paths(bench, board):
    run = made_run("ours", 1, checkpoint="/home/somebody/secret/ours")
    store_of(Path("results/leaderboard.sqlite"), [run, made_run("ours", 2)])
    told = bench("share", "add", "ours", "--as", "bob", "--to", str(board), "--dry-run")
    assert "2 runs, " in told.out
    assert "kB" in told.out
    assert not (board / "contributors" / "bob").exists()
    ended = bench("share", "add", "ours", "--as", "bob", "--to", str(board))
    (path,) = (board / "contributors" / "bob").iterdir()
    assert ended.code == 0
    assert check_archive(path) == 2
    assert b"/home/somebody" not in gzip.decompress(path.read_bytes())
    assert path.stat().st_size < 20_000
    assert bench("share", "check", str(board)).code == 0
    assert bench("db", "import", str(path), "--db", "other.sqlite").code == 0


def test_add_rounds_probabilities_only_as_much_as_the_archive_size_requires(
    bench, board, monkeypatch
):
    store_of(Path("results/leaderboard.sqlite"), [made_run("ours", 1)])
    words = ("share", "add", "ours", "--as", "bob", "--to", str(board))
    assert "rounded" not in bench(*words, "--dry-run").out
    monkeypatch.setattr("benchharness.extensions.share.archive.PACKED_BYTES", 2_200)
    assert "rounded to" in bench(*words).out
    (path,) = (board / "contributors" / "bob").iterdir()
    (run,) = read_archive(path)
    digits = run.data["provenance"]["rounded_digits"]
    scores = [s for row in run.data["evaluations"][0]["predictions"] for s in row["scores"]]
    assert all(round(score, digits) == score for score in scores)
    assert bench("share", "check", str(board)).code == 0
    monkeypatch.setattr("benchharness.extensions.share.archive.PACKED_BYTES", 500)
    ended = bench(*words)
    assert ended.code == DataError.exit_code
    assert "but a row has at most 500 bytes" in ended.err


def test_add_shares_the_chosen_tasks_and_replaces_the_row_when_it_is_added_again(bench, board):
    db = store_of(Path("results/leaderboard.sqlite"), [made_run("ours", 1)])
    words = ("share", "add", "ours", "--as", "bob", "--to", str(board))
    assert bench(*words).code == 0
    (first,) = (board / "contributors" / "bob").iterdir()
    store_of(db, [made_run("ours", 2), made_run("ours", 1, task="glue/wnli")])
    assert bench(*words, "--task", "glue/rte").code == 0
    (second,) = (board / "contributors" / "bob").iterdir()
    assert second == first
    assert {run.data["job"]["task"] for run in read_archive(second)} == {"glue/rte"}
    assert check_archive(second) == 2
    assert bench(*words).code == 0
    assert check_archive(first) == 3
    assert bench("share", "check", str(board)).code == 0


@pytest.mark.parametrize("name", ["../x", "Ada", "a--b", "-a", "a" * 40, "a/b", "a b", "\u202ea"])
def test_add_refuses_a_name_that_is_not_a_github_name(bench, board, name):
    store_of(Path("results/leaderboard.sqlite"), [made_run("ours", 1)])
    ended = bench("share", "add", "ours", f"--as={name}", "--to", str(board))
    assert "cannot be the name of a contributor" in ended.err
    assert len(list((board / "contributors").iterdir())) == 2


# check: bad input


def test_check_reports_another_layout_or_a_later_version_in_one_sentence(bench, board, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "it has no share.toml" in bench("share", "check", "empty").err
    shutil.rmtree(board / "contributors")
    assert "it has no folder contributors" in bench("share", "check", str(board)).err
    (board / "share.toml").write_text('version = 2\ntitle = "x"\n')
    assert "update benchharness" in bench("share", "check", str(board)).err
    (board / "share.toml").write_text("version = [")
    ended = bench("share", "check", str(board))
    assert "damaged share.toml" in ended.err
    assert (ended.code, ended.err.count("\n")) == (2, 1)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def later(path: Path) -> None:
    raw_archive(path, [], {"version": 9, "benchharness": "7.0"})


def of_two_gigabytes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 * 2**30)  # a file with a hole takes no space


def of_many_runs(path: Path) -> None:
    raw_archive(path, ({"key": "0"} for _ in range(100_000)))


def bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(b" " * (UNPACKED_BYTES + 1)))


def bomb_of_rows(path: Path) -> None:
    run = as_data(made_run())
    rows = {"rows": 2**40, "columns": {"id": "numbers", "label": ["entailment"]}}
    run["data"]["evaluations"][0]["predictions"] = rows
    raw_archive(path, [run])


def no_gzip(path: Path) -> None:
    path.write_bytes(b"PK\x03\x04")


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


BAD_FILES = {
    cut: "damaged or truncated",
    later: "update benchharness (benchharness 7.0 wrote it)",
    of_two_gigabytes: "2,147,483,648 bytes, but at most 1,000,000 are allowed",
    of_many_runs: "more than 1,000 runs",
    bomb: "unpacks to more than 32 MiB",
    bomb_of_rows: "more than 1,048,576 rows",
    no_gzip: "is not a gzip file",
    link: "is a link or a device",
}


@pytest.mark.parametrize("spoil", BAD_FILES, ids=lambda spoil: spoil.__name__)
def test_check_refuses_a_bad_file_in_one_sentence_and_build_leaves_it_out(
    bench, board, tmp_path, spoil
):
    path = archive_of(
        board / "contributors" / "eve" / "theirs.jsonl.gz", [made_run("theirs", 1, draw="x")]
    )
    spoil(path)
    ended = bench("share", "check", str(board), "--json")
    (fault,) = json.loads(ended.out)["faults"]
    assert (ended.code, fault["place"]) == (1, "contributors/eve/theirs.jsonl.gz")
    assert BAD_FILES[spoil] in fault["sentence"]
    assert "\n" not in fault["sentence"]
    assert str(tmp_path) not in fault["sentence"]
    built = bench("share", "build", str(board), "--out", "site")
    assert built.code == 0
    page = Path("site/index.html").read_text()
    assert "left out: contributors/eve/theirs.jsonl.gz" in page
    assert "hers (ada)" in page


def test_build_of_an_empty_repository_writes_nothing(bench, tmp_path):
    bench("share", "init", "new")
    ended = bench("share", "build", "new", "--out", "site")
    assert "has no run that can be shown" in ended.err
    assert not Path("site").exists()


def test_check_refuses_files_in_unexpected_places(bench, board):
    for place in ("contributors/eve/deep/x.jsonl.gz", "contributors/Eve/x.jsonl.gz",
                  "contributors/eve/run.py", "contributors/x.jsonl.gz",
                  "contributors/eve/\u202e.jsonl.gz"):  # fmt: skip
        (board / place).parent.mkdir(parents=True, exist_ok=True)
        (board / place).write_text("x")
    found = json.loads(bench("share", "check", str(board), "--json").out)["faults"]
    assert [each["kind"] for each in found] == ["file"] * 5
    assert any("\\u202e" in each["place"] for each in found)


# check: only changed files


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(("git", "-C", str(folder), *names, *words), check=True, capture_output=True)


def test_check_since_a_revision_reads_changed_files_and_refuses_changes_of_others(bench, board):
    git(board, "init", "-q", "-b", "main")
    git(board, "add", ".")
    git(board, "commit", "-qm", "rows of Ada")
    archive_of(board / "contributors" / "bob" / "b.jsonl.gz", [made_run("his", 1)])
    words = ("share", "check", str(board), "--since", "main", "--json")
    fine = json.loads(bench(*words, "--author", "Bob").out)
    assert (fine["files"], fine["faults"]) == (["contributors/bob/b.jsonl.gz"], [])
    (board / "README.md").write_text("changed")
    (board / "contributors" / "ada" / "hers-glue.jsonl.gz").unlink()
    found = json.loads(bench(*words, "--author", "bob").out)["faults"]
    assert {each["kind"] for each in found} == {"folder"}
    assert [each["place"] for each in found] == [
        "README.md",
        "contributors/ada/hers-glue.jsonl.gz",
    ]
    ended = bench("share", "check", str(board), "--since", "nowhere")
    assert "git cannot list what has changed since nowhere" in ended.err
    assert "--output=x" in bench("share", "check", str(board), "--since=--output=x").err


def test_comment_escapes_markdown_and_html_in_names(bench, board):
    name = "@all [click](http://x.y) <img src=x> `code`"
    run = edited(made_run("x", 1), lambda data: data["job"].update(model=name))
    archive_of(board / "contributors" / "eve" / "e.jsonl.gz", [run])
    ended = bench("share", "check", str(board), "--comment", "c.md")
    text = Path("c.md").read_text()
    assert ended.code == 1
    assert text.startswith(
        "<!-- benchharness: shared results -->\n### This contribution cannot be accepted"
    )
    for hostile in ("@all", r"(?<!\\)\]\(", "<img", "(?<!\\\\)`code", "://"):
        assert not re.search(hostile, text.partition("\n")[2]), hostile
    (board / "contributors" / "eve" / "e.jsonl.gz").unlink()
    assert bench("share", "check", str(board), "--comment", "c.md").code == 0
    assert "### No problems found" in Path("c.md").read_text()


ROWS = {
    "cola": 1043, "sst2": 872, "mrpc": 408, "stsb": 1500, "qqp": 40430, "mnli": 9815, "qnli": 5463,
    "rte": 277, "wnli": 71,
}  # fmt: skip
"""Numbers of dev rows of the tasks in GLUE (Wang et al. 2019); MNLI has two splits of this size."""


def of_full_size(task: str, seed: int) -> Result:
    """Return a run of a confident model, with one prediction per row of the real dev split."""
    job = make_job(model="ours", task=f"glue/{task}", seed=seed, data="hub")
    drawing, found = random.Random(f"{task} {seed}"), find_task(f"glue/{task}")
    run = make_result(job)
    evaluations = []
    for one in run.evaluations:
        predictions = []
        for number in range(ROWS[task]):
            weights = [2.718281828459045 ** drawing.gauss(0, 4) for _ in found.labels]
            scores = [weight / sum(weights) for weight in weights]
            label = found.labels[scores.index(max(scores))] if scores else drawing.uniform(0, 5)
            predictions.append({"id": str(number), "label": label, "scores": scores})
        scores = {"mcc": 0.5} if task == "cola" else one.scores
        evaluations.append(replace(one, predictions=tuple(predictions), scores=scores))
    return replace(run, evaluations=tuple(evaluations))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_five_seeds_on_all_of_glue_fit_in_a_megabyte(bench, board):
    runs = (of_full_size(task, seed) for task in ROWS for seed in range(1, 6))
    store_of(Path("results/leaderboard.sqlite"), runs)
    ended = bench("share", "add", "ours", "--as", "bob", "--to", str(board))
    (path,) = (board / "contributors" / "bob").iterdir()
    print(ended.out)  # noqa: T201  (shown with -s)
    assert path.stat().st_size <= 1_000_000
    assert "45 runs" in ended.out
    assert "rounded to 3 decimals" in ended.out
    assert check_archive(path) == 45
