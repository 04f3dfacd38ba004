import subprocess
import sys


def test_command_line_starts_without_importing_suites_or_heavy_libraries() -> None:
    program = "import sys, benchharness.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "benchharness.errors" in loaded
    assert not loaded & {
        "benchharness.tasks.suites",
        "benchharness.tasks.task",
        "numpy",
        "torch",
        "sqlalchemy",
        "rich",
    }
