"""Tests of `python -m benchharness`, which is the same as `bench`."""

import os
import subprocess
import sys
from pathlib import Path

from benchharness import __version__


def ended(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchharness", *words]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_python_m_benchharness_runs_the_bench_command(tmp_path: Path) -> None:
    found = ended("--version", folder=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (
        0,
        f"benchharness {__version__}\n",
        "",
    )
    assert ended("--help", folder=tmp_path).stdout.startswith("Usage: bench [OPTIONS] COMMAND")


def test_python_m_benchharness_prints_errors_as_sentences(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise SystemExit('a user has this file')\n")
    found = ended("show", "recipe", "roberta", "colla", folder=tmp_path)
    assert found.returncode == 2
    assert found.stderr.startswith("bench: no model, recipe or task is called")


def test_characters_outside_the_output_encoding_are_escaped(tmp_path: Path) -> None:
    found = ended("show", "published", "--suite", "snli", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert (found.returncode, found.stderr) == (0, "")
    assert r"mean \xb1 0.17" in found.stdout
