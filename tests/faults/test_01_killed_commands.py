"""Tests of fault 1: commands that train or predict are killed at random and started again."""

import sys
from pathlib import Path
from random import Random

import pytest

from tests.helpers.killed_commands import COMMANDS, check_kills


@pytest.mark.soak
def test_01_killed_predict_leaves_no_partial_file_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    check_kills("predict", tmp_path, 1, Random(1))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", COMMANDS)
def test_01_command_killed_ten_times_leaves_no_partial_file_and_resumes(
    tmp_path: Path, name: str
) -> None:
    hit = check_kills(name, tmp_path, 10, Random(name))
    sys.stdout.write(f"\n{name}: 10 tries, {hit} killed\n")
    assert hit >= 3, "most of them end before they are killed"
