"""Tests that every block of the how-to pages runs, in the order of its page, in an empty folder."""

import re

import pytest

from tests.helpers.doc_blocks import DOCS, block
from tests.helpers.pages import (
    Block,
    Session,
    blocks_of,
    difference,
    form_faults,
    line_matches,
    matches,
    run_page,
    script,
)

ROOT = DOCS.parent
QUICK = ("README.md",)
"""Pages that are not only in `make soak`."""

NEEDED = {
    "add-head.md": "hatchling",
    "cluster.md": "submitit",
    "decoders.md": "peft",
    "loggers.md": "tensorboard",
    "serve.md": "onnxruntime",
    "taking.md": "onnxruntime",
    "training.md": "accelerate",
    "transfer.md": "peft",
}
"""Optional package that the blocks of a page need."""


def howto_pages():
    """Return README.md and the pages of the group "How-to" of the site's navigation."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- How-to:")[2]
    group = re.split(r"(?m)^  - ", navigation)[0]
    return [ROOT / "README.md", *(DOCS / name for name in re.findall(r"- (\S+\.md)", group))]


PAGES = howto_pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_howto_pages_have_only_code_blocks_of_known_kinds(page):
    assert form_faults(page) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if page.name in QUICK else pytest.mark.soak)
        for page in PAGES
    ],
)
def test_code_blocks_of_howto_pages_run_and_print_the_shown_output(page, tmp_path):
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name])
    faults = run_page(page, tmp_path)
    assert not faults, "\n\n".join(faults)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_make_demo_prints_the_table_that_the_readme_shows(tmp_path):
    """Run the command of `make demo`, which first installs benchharness."""
    shown = block("../README.md", "MNLI-m/mm")
    (command,) = re.findall(r"\$\(BIN\)/(bench demo)", (ROOT / "Makefile").read_text())
    with Session(tmp_path) as session:
        printed, _ = session.run(Block(line=0, text=f"{command}\n", kind="command"))
    assert matches(f"...\n{shown}...\n", printed), difference(shown, printed)


def test_howto_pages_include_the_readme_but_not_the_tutorial():
    names = {path.name for path in PAGES}
    assert len(PAGES) > 20
    assert {"README.md", "own-data.md", "plugins.md"} <= names
    assert not {"tutorial.md", "cli.md"} & names


def faults_of(tmp_path, text):
    """Return the faults of a page with this text, in its form or else when it runs."""
    page = tmp_path / "page.md"
    page.write_text(text)
    return form_faults(page) or run_page(page, tmp_path)


def test_code_blocks_of_a_page_share_a_shell_and_a_python_interpreter(tmp_path):
    text = """
Make a file:

    echo "3 rows" > rows    # a remark
    NAME=rows

It is read:

    cat $NAME

<!-- output -->

    3 rows

In Python:

    import pathlib
    text = pathlib.Path("rows").read_text()

and then

<!-- python -->

    print(text.upper())

which prints

<!-- output -->

    3 ROWS

<!-- file: rows -->

    3 rows
"""
    assert faults_of(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("    echo a\n\n<!-- output -->\n\n    b\n", "output differs"),
        ("    echo a >&2\n\n<!-- messages -->\n\n    b\n", "messages differs"),
        ("    test -f absent\n", "exit code 1"),
        ("    test -f absent && true    # exit code 2\n", "exit code 1 instead of 2"),
        ("    echo a    # exit code 2\n", "exit code 0 instead of 2"),
        ("    from os import absent\n", "ImportError"),
        ("    --columns text=a\n", "the kind of this block is unknown"),
        ("    $ bench run\n    output\n", "the kind of this block is unknown"),
        ("Nothing runs.\n", "no block of this page runs"),
        ("<!-- not run: network -->\n\n    pip install a\n", "no block of this page runs"),
        ("<!-- not run: a -->\n\n    ls\n\n<!-- output -->\n\n    a\n", "that is not run"),
        ("    ls\n\n<!-- python -->\n\n    a = 1\n", "no Python block is before this one"),
        ("    echo a > f\n\n<!-- file: f -->\n\n    b\n", "f differs"),
    ],
)
def test_wrong_or_unknown_code_block_of_a_page_is_reported(tmp_path, text, fault):
    (found, *_) = faults_of(tmp_path, text)
    assert fault in found


def test_command_with_an_expected_exit_code_does_not_end_the_page(tmp_path):
    text = "    bash -c \\\n        'exit 3'    # exit code 3\n    echo a\n"
    assert faults_of(tmp_path, text + "\n<!-- output -->\n\n    a\n") == []


def test_output_marker_without_a_code_block_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no code block follows <!-- output -->"):
        faults_of(tmp_path, "    ls\n\n<!-- output -->\n\nText.\n")


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        ("run a51621dd0600 took 12 s", "run 0123456789ab took 9.5 s"),
        ("2026-11-22T17:20:49+00:00 torch 2.13.0", "2027-01-02T03:04:05+00:00 torch 2.14.1+cpu"),
        ("1 tiny   80.3", "1 tiny  79.4"),
        ("─────── 447 MB 8,460 tokens/s", "── 1.2 GB 77 tokens/s"),
        ("speed ... of RTE", "speed 12,000 of RTE"),
    ],
)
def test_documented_output_may_differ_in_run_keys_and_times_and_slightly_in_scores(shown, actual):
    assert line_matches(shown, actual)


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        ("1 tiny 80.3", "1 tiny 84.0"),
        ("480 train, 120 dev", "480 train, 121 dev"),
        ("run a51621dd0600", "run of tiny"),
        ("1 tiny 80.3", "1 tiny 80.3!"),
    ],
)
def test_documented_output_with_another_score_count_or_word_does_not_match(shown, actual):
    assert not line_matches(shown, actual)


def test_line_of_three_dots_matches_any_number_of_output_lines():
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert matches("a\n...\nd\n", "a\nd\n")
    assert matches("...\nd\n", "\nd\n\n")
    assert matches("a\n", "   \na  \n   \n")
    assert not matches("a\n...\nd\n", "a\nb\n")
    assert not matches("a\n", "a\nb\n")


def test_shell_loop_in_a_code_block_is_run_unchanged():
    text = "for n in 1 2; do\n    echo $n\ndone\n"
    assert script(text) == text


def test_kind_of_a_code_block_is_found_by_its_marker_or_first_word(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("    KEY=$(ls)\n\n<!-- not run: GPU -->\n\n    bench run\n")
    one, other = blocks_of(page)
    assert one == Block(line=1, text="KEY=$(ls)\n", kind="command")
    assert other == Block(line=5, text="bench run\n", kind="not run", detail="GPU")
