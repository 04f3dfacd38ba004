"""Print the oldest versions that pyproject.toml allows, as constraints for pip.

`make tests CONSTRAINTS=build/oldest.txt` runs the tests with them (see the Makefile).
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def oldest(text: str) -> dict[str, str]:
    """Return the oldest allowed version of each package that the text of a pyproject.toml names.

    A package that several extras name has the newest of their oldest versions.

    Raises:
        ValueError: A requirement has another form than "name>=version".
    """
    project = tomllib.loads(text)["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    found: dict[str, str] = {}
    for line in [*project["dependencies"], *(line for lines in extras.values() for line in lines)]:
        parts = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)(?:;.*)?", line)
        if parts is None:
            raise ValueError(f"{line!r} does not have the form name>=version")
        found[parts[1]] = max(found.get(parts[1], "0"), parts[2], key=_numbers)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def lines(versions: dict[str, str]) -> Iterable[str]:
    """Yield a line of a constraints file for each package."""
    return (f"{name}=={version}\n" for name, version in sorted(versions.items()))


if __name__ == "__main__":
    sys.stdout.writelines(lines(oldest(PROJECT.read_text(encoding="utf-8"))))
