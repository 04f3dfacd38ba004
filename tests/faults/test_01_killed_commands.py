"""Fault 1: commands that run jobs, or answer rows, are killed at any moment and typed again."""

import sys
from pathlib import Path
from random import Random

import pytest

from tests.helpers.killed_commands import COMMANDS, check_kills


@pytest.mark.soak
def test_01_a_prediction_that_was_killed_leaves_no_half_file_and_is_made_again(
    tmp_path: Path,
) -> None:
    check_kills("predict", tmp_path, 1, Random(1))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", COMMANDS)
def test_01_ten_kills_of_a_command_leave_nothing_half_and_it_goes_on(
    tmp_path: Path, name: str
) -> None:
    hit = check_kills(name, tmp_path, 10, Random(name))
    sys.stdout.write(f"\n{name}: 10 tries, {hit} killed\n")
    assert hit >= 3, "most of them end before they are killed"
