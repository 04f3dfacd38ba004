"""Tests of fault 45: escape sequences in names, errors and logs do not control the terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchharness.driver.display import Display
from benchharness.driver.live import RunState
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.terminal import render
from benchharness.progress import Progress
from tests.helpers.boards import make_rows, one_board
from tests.helpers.fake_worker import make_failure, make_job
from tests.helpers.plans import schedule_of


def on_console(**options) -> Console:
    return Console(file=io.StringIO(), width=120, **options)


def test_45_escape_sequences_in_a_model_name_are_not_displayed():
    console = on_console()
    job = make_job(model="\x1b[2J[red]evil[/red]\n")
    state = RunState.of(schedule_of(job), 0.0)
    with Display(state, console) as shown:
        shown.report(job, Progress(phase="loading"))
        shown.finish(make_failure(job, error="\x1b]0;title\x07"))
    text = console.file.getvalue()
    assert "\x1b" not in text
    assert "[red]evil[/red]" in text
    assert text.count("\n") == 1


def test_45_escape_sequences_in_an_error_are_printed_as_text(bench, monkeypatch):
    def fail(*args, **options):
        raise BenchError("\x1b[2J is no file.")

    monkeypatch.setattr("benchharness.cli.report.open_store", fail)
    assert bench("report").err == "bench: \\x1b[2J is no file.\n"


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\nb", r"a\nb"),
        ("\udc80", r"\udc80"),
    ],
)
def test_45_control_characters_in_names_are_printed_as_text(name: str, seen: str) -> None:
    console = on_console()
    render(one_board([replace(row, model=name) for row in make_rows()]), console)
    text = console.file.getvalue()
    assert seen in text
    assert name not in text


def test_45_log_of_a_failure_is_shown_without_escape_sequences(bench, tmp_path):
    from benchharness.leaderboard.store.store import open_store

    job = make_job(model="\x1b]0;title\x07")
    failure = replace(make_failure(job, error="\x1b[31mred"), details="\x1b[2Jgone\nnext line")
    with open_store(tmp_path / "x.sqlite") as store:
        store.add_failure(failure)
    ended = bench("show", job.key, "--db", "x.sqlite")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "gone" in ended.out
    assert "\x1b" not in bench("show", "runs", "--db", "x.sqlite").out
