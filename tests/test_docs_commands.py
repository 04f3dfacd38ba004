"""Tests that every command in the documentation can be copied and run."""

import shlex

import pytest

from benchharness.cli.app import UsageError, load_command
from benchharness.cli.commands import named
from tests.helpers.doc_blocks import DOCS, blocks
from tests.helpers.extensions import with_all_extensions

PAGES = sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"])
BEHIND = {"|", "<", ">", ">>", "&&", ";", "&", "2>"}


def commands(page):
    """Yield the words of each `bench` command in a page's examples, as a shell reads them."""
    for block in blocks(page):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("bench ") and "..." not in line and "[" not in line:
                words = shlex.split(line, comments=True)
                yield line, words[: next((n for n, w in enumerate(words) if w in BEHIND), None)]


@with_all_extensions
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_documented_commands_are_valid(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The file that an example passes as `--config run.toml`.
    (tmp_path / "run.toml").write_text('model = "tiny"')
    refused = []
    for line, (_, *words) in commands(page):
        if words[:1] in (["--help"], ["--version"]):
            continue
        name, rest = named(words)
        try:
            load_command(name).make_context(name, rest)
        except UsageError as error:
            refused.append(f"{line}: {error.format_message()}")
    assert not refused


def test_more_than_100_documented_commands_are_found():
    found = [line for page in PAGES for line, _ in commands(page)]
    assert len(found) > 100
