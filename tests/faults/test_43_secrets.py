"""Tests of fault 43: tokens in the environment and passwords in URLs are not printed or written."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(900)

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY")
SECRET = "hf_verysecretvalue0123456789"
PASSWORD = "correct-horse-battery"
BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")
RUN = (
    "run",
    "--model",
    "tiny",
    "--task",
    "cola",
    "--data",
    "mini",
    "--limit",
    "16",
    "--seeds",
    "1",
)
SHORT = ("--set", "epochs=1", "--set", "batch_size=4", "--device", "cpu", "--no-baselines")


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set secrets in the environment of every command."""
    for name in TOKENS:
        monkeypatch.setenv(name, SECRET)


def assert_nothing_tells(folder: Path, secret: str, *printed: str) -> None:
    """Check that no file and no printed text has the secret."""
    for content in [text.encode() for text in printed] + [
        path.read_bytes() for path in folder.rglob("*") if path.is_file()
    ]:
        assert secret.encode() not in content


@pytest.mark.parametrize(
    ("rate", "code"),
    [pytest.param("1e-3", 0, marks=pytest.mark.soak), ("1e30", 1)],
    ids=["passing", "failing"],
)
def test_43_run_prints_and_stores_no_token(
    bench: Any, tmp_path: Path, rate: str, code: int
) -> None:
    """Run a separate process, in which libraries read their tokens."""
    ran = subprocess.run(
        (*BENCH, *RUN, *SHORT, "--set", f"learning_rate={rate}", "--db", "x.sqlite"),
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == code, ran.stderr
    listed = bench("show", "runs", "--db", "x.sqlite", "--json")
    key = listed.out.partition('"key": "')[2][:64]
    shown = bench("show", key, "--db", "x.sqlite", "--json")
    exported = bench("export", "--all", "all.jsonl.gz", "--db", "x.sqlite")
    assert (shown.code, exported.code) == (0, 0)
    assert (tmp_path / "x.sqlite").stat().st_size > 1000
    said = [text for ended in (listed, shown, exported) for text in ended[1:]]
    assert_nothing_tells(tmp_path, SECRET, ran.stdout, ran.stderr, *said)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:9/bench",
        f"mysql://me:{PASSWORD}@127.0.0.1/bench",
        f"nonsense://me:{PASSWORD}@host/bench",
        f"sqlite://me:{PASSWORD}@host/bench",
    ],
)
@pytest.mark.parametrize("command", ["leaderboard", "doctor"])
def test_43_error_for_an_unusable_url_has_no_password(
    bench: Any, tmp_path: Path, url: str, command: str
) -> None:
    ended = bench(command, "--db", url)
    assert ended.code != 0
    assert "Traceback" not in ended.err
    assert_nothing_tells(tmp_path, PASSWORD, ended.out, ended.err)
