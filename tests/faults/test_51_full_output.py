"""Tests of fault 51: stdout has no space, or its reader has closed the pipe."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")


@pytest.mark.parametrize("words", [("show", "suites"), ("show", "models", "--json"), ("--help",)])
def test_51_stdout_on_a_full_disk_is_a_one_sentence_error(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            (*BENCH, *words), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("bench: the output could not be written")
    assert ended.stderr.count("\n") == 1


def test_51_reader_may_close_the_pipe_early_without_an_error() -> None:
    ended = subprocess.run(
        ["bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "-", *BENCH, "show", "models"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1)
    assert ended.stderr == ""


def test_51_closed_stdout_gives_no_traceback() -> None:
    ended = subprocess.run(
        ["bash", "-c", '"$@" >&-', "-", *BENCH, "show", "suites"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
