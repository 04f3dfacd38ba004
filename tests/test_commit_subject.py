"""Tests of the hook in .pre-commit-config.yaml that checks the subject of a commit message."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import ROOT

HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))


def checked(message: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook's own command on a file with the message, as git does."""
    (hook,) = (each for each in HOOKS["repos"][0]["hooks"] if each["id"] == "commit-subject")
    assert hook["stages"] == ["commit-msg"]
    assert "commit-msg" in HOOKS["default_install_hook_types"]
    _, script = hook["entry"].split()
    file = folder / "COMMIT_EDITMSG"
    file.write_text(message, encoding="utf-8")
    words = (sys.executable, ROOT / script, file)
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    [
        "Add a test\n",
        f"{'Add a test':x<71}\n\nThe body has lines of any length: {'x' * 100}\n",
        "\n# a comment\nAddress a fault\n# another one\n\nWhy.\n",
        "Embed the figures\n# ------------------------ >8 ------------------------\n+Added.\n",
        "Merge branch 'a name that is longer than any subject that a person may write'\n",
        "fixup! fixed it.\n",
    ],
)
def test_valid_commit_subject_is_accepted(message: str, tmp_path: Path) -> None:
    ended = checked(message, tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "is empty"),
        ((ROOT / ".gitmessage").read_text(encoding="utf-8"), "is empty"),
        (f"{'Add a test':x<72}\n", "has 72 characters"),
        ("add a test\n", "capital letter"),
        ("Add a test.\n", "full stop"),
        ("Added a test\n", "imperative"),
        ("Fixes a fault\n", "imperative"),
        ("Add a test\nand another\n", "empty line"),
    ],
)
def test_invalid_commit_subject_is_refused_with_the_reason(
    message: str, said: str, tmp_path: Path
) -> None:
    ended = checked(message, tmp_path)
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert said in ended.stderr
