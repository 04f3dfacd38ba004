import subprocess
import sys
from types import ModuleType

import pytest

from benchharness import tasks
from benchharness.tasks.suites import SUITES


def test_every_public_name_is_the_modules_own() -> None:
    assert tasks.SUITES is SUITES
    found = {name: getattr(tasks, name) for name in tasks.__all__}
    assert not any(isinstance(value, ModuleType) for value in found.values())
    assert len(set(tasks.__all__)) == len(tasks.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'benchharness\.tasks' has no attribute 'SUITE'"):
        _ = tasks.SUITE


def test_the_command_line_starts_without_a_suite() -> None:
    program = "import sys, benchharness.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "benchharness.tasks.errors" in loaded
    assert not loaded & {
        "benchharness.tasks.suites",
        "benchharness.tasks.task",
        "numpy",
        "torch",
        "sqlalchemy",
        "rich",
    }
