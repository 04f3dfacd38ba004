"""Code blocks of the documentation."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> list[str]:
    """Return the indented blocks of a page without their indentation."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text)
    return ["\n".join(line[4:] for line in block.splitlines()).strip() + "\n" for block in found]


def block(page: str, *words: str) -> str:
    """Return the only block of a page that contains all these words."""
    (found,) = [each for each in blocks(page) if all(word in each for word in words)]
    return found
