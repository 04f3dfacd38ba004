"""Tests that docstrings, messages and report templates are plain English.

A file is parsed only if its text has a refused word, so the test takes a fraction of a second.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchharness", "leaderboard", "tasks")

WORDS = {
    "beside": "next to, in addition to, compared with",
    "told": "given, known, inferred",
    "so many": "N, the number of",
    r"an? (?:line|row|page|table|column|file|text|task|model|seed|split) an? \w+": "per",
    "in (?:the|its|their) place of": "instead of",
    "those of either": "name them",
}
"""Patterns that are refused, with the plain words to use instead."""

REFUSED = re.compile(rf"(?i)\b(?:{'|'.join(WORDS)})\b")
BEGINNINGS = re.compile(r"(?:What|Whose|Who|Those|Of|Whether)\b")
OPENED = re.compile(rf'"""{BEGINNINGS.pattern}')
"""Pattern of sources that may have a docstring without a verb or a noun at its beginning."""

_KEPT = "benchharness/extensions/kept_models/"
ALLOWED = {
    (f"{_KEPT}equivalence.py", "cannot be told"): "a verdict's value in the JSON of a check",
    (f"{_KEPT}equivalence.py", "told:"): "the field that holds this verdict",
    (f"{_KEPT}onnx_command.py", "cannot be told"): "the same value, compared with",
}
"""Reasons for the exceptions, keyed by file and by the phrase that has the word."""


def sources() -> list[Path]:
    """Return all source files of the packages, without those that links repeat."""
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path == path.resolve()
    ]


def pages() -> list[Path]:
    """Return the templates of the report, and the pages of the documentation."""
    names = ("README.md", "CONTRIBUTING.md", "RELEASING.md")
    docs = (*(ROOT / name for name in names), *sorted((ROOT / "docs").glob("*.md")))
    return [*sorted((ROOT / "leaderboard").rglob("*.j2")), *docs]


def strings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the text of each string, and whether it is a docstring."""
    nodes = list(ast.walk(tree))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = re.sub("`[^`]*`", "", node.value)  # removes names of code
            yield node.lineno, " ".join(text.split()), id(node) in alone


def faults(place: str, line: int, text: str) -> Iterator[str]:
    """Yield each refused word of a text that no exception allows."""
    for found in REFUSED.finditer(text):
        phrases = [phrase for file, phrase in ALLOWED if file == place and phrase in text]
        if not any(found[0] in phrase for phrase in phrases):
            near = text[max(0, found.start() - 40) : found.end() + 40]
            yield f"{place}:{line}: {found[0]!r} in {near!r}"


def source_faults(path: Path) -> Iterator[str]:
    """Yield the faults of the strings of a source file; docstrings have a rule of their own."""
    source = path.read_text(encoding="utf-8")
    if not (REFUSED.search(" ".join(source.split())) or OPENED.search(source)):
        return
    place = str(path.relative_to(ROOT))
    for line, text, is_docstring in strings(ast.parse(source)):
        if " " in text:
            yield from faults(place, line, text)
        if is_docstring and BEGINNINGS.match(text):
            yield f"{place}:{line}: begins with a riddle: {text[:60]!r}"


def page_faults(path: Path) -> Iterator[str]:
    """Yield the faults of a page or template, line by line."""
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        yield from faults(str(path.relative_to(ROOT)), line, text)


def test_docstrings_and_messages_have_no_refused_words():
    found = [fault for path in sources() for fault in source_faults(path)]
    assert not found, "\n".join(found)


def test_templates_and_documentation_have_no_refused_words():
    found = [fault for path in pages() for fault in page_faults(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The scores beside it.", "beside"),
        ("What a job is told.", "told"),
        ("Give so many rows.", "so many"),
        ("The board, a line a model.", "a line a model"),
        ("It ran in the place of the other.", "in the place of"),
        ("Those of either kind.", "Those of either"),
    ],
)
def test_each_refused_word_is_reported(text, word):
    (found,) = faults("a.py", 1, text)
    assert repr(word) in found


def test_words_similar_to_refused_ones_are_accepted():
    for text in ("beside_name", "one row per model", "a model and a task", "retold", "besides"):
        assert not list(faults("a.py", 1, text))


def test_docstring_that_begins_with_a_question_word_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for beginning in ("What", "Whose", "Who", "Those", "Of", "Whether"):
        (tmp_path / "a.py").write_text(f'def f():\n    """{beginning} a job has."""\n')
        assert len(list(source_faults(tmp_path / "a.py"))) == 1
    (tmp_path / "a.py").write_text('def f():\n    """Return a job\'s name."""\n')
    assert not list(source_faults(tmp_path / "a.py"))


def test_every_listed_exception_occurs_in_its_file():
    for (place, phrase), reason in ALLOWED.items():
        text = " ".join((ROOT / place).read_text(encoding="utf-8").split())
        assert REFUSED.search(phrase), reason
        assert phrase in re.sub(r'"\s+f?"', "", text), f"{place} has no {phrase!r} any more"
