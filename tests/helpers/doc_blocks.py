"""Code blocks of the documentation."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

HERE_DOCUMENT = re.compile(r"(?ms)^cat > \S+ <<'(\w+)'\n(.*?)^\1\n")
"""Command that writes a file."""


def blocks(page: str) -> list[str]:
    """Return the indented blocks of a page without their indentation.

    A file that a block writes with `cat > FILE <<'END'` is returned as a block of its own, before
    the rest of its block.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text)
    texts = ["\n".join(line[4:] for line in block.splitlines()).strip() + "\n" for block in found]
    return [part for whole in texts for part in _parts(whole) if part.strip()]


def _parts(block: str) -> list[str]:
    files = [found[2] for found in HERE_DOCUMENT.finditer(block)]
    return [*files, HERE_DOCUMENT.sub("", block)]


def block(page: str, *words: str) -> str:
    """Return the only block of a page that contains all these words."""
    (found,) = [each for each in blocks(page) if all(word in each for word in words)]
    return found
