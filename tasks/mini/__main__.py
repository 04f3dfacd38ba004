"""`python -m tasks.mini [FOLDER]`: write the embedded data (here, or into another folder)."""

import sys
from pathlib import Path

from tasks.mini import folder
from tasks.mini.glue import write_glue

__all__ = ["write"]


def write(target: Path) -> None:
    """Write every suite's folder under `target`."""
    write_glue(target / "glue")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else folder())
