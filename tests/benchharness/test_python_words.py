"""Tests that error messages in Python name arguments and functions instead of options."""

import ast
import re
from pathlib import Path

import pytest

import benchharness as bh
from benchharness.cli.commands import commands
from benchharness.driver.options import OPTIONS, in_python

ROOT = Path(__file__).parents[2]
OF_PAGES = {"cli", "fetch", "report", "verdict_text.py"}
"""Folders and files whose messages only commands, pages and verdicts contain, not Python errors."""

EXAMPLES = {line.example for line in commands().values()}
"""Examples in the help, which are typed in a shell."""

COMMAND = re.compile(rf"\bbench ({'|'.join(name for name in commands() if ' ' not in name)})\b")


def _parts(node):
    """Return the text of a string node, with fields replaced by a word (quoted for !r)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            ("'some value'" if part.conversion == ord("r") else "Xvalue")
            if isinstance(part, ast.FormattedValue)
            else str(getattr(part, "value", ""))
            for part in node.values
        )
    return ""


def messages():
    """Yield every string of the modules that Python code can reach, except docstrings."""
    for folder in ("benchharness", "leaderboard", "tasks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if OF_PAGES.intersection(path.parts) or path != path.resolve():
                continue
            source = path.read_text(encoding="utf-8")
            if "--" not in source and "bench " not in source:
                continue
            nodes = list(ast.walk(ast.parse(source)))
            alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            joined = (node for node in nodes if isinstance(node, ast.JoinedStr))
            inner = {id(part) for node in joined for part in node.values}
            for node in nodes:
                text = "" if id(node) in alone | inner else _parts(node)
                if " " in text and ("--" in text or "bench " in text) and text not in EXAMPLES:
                    yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text


def faults(text):
    """Yield the faults of a message in its Python form."""
    said = in_python(text)
    plain = re.sub(r"`[^`]*`", "", said)
    if found := COMMAND.search(plain):
        yield f"a command without its marks: {found[0]}"
    flags = {(each.flag or f"--{name.replace('_', '-')}") for name, each in OPTIONS.items()}
    for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", plain):
        if word in flags:
            yield f"the shell's {word}"
    for name, word in re.findall(r"\b([a-z_]+)= ([^\s.,;:)]+)", plain):
        literal = re.split(r"[|,\[]", OPTIONS[name].metavar or "") if name in OPTIONS else []
        if word in literal or not word.isalpha():
            yield f"a value that stands apart: {name}= {word}"
    for name in re.findall(r"(?<![\w.{\"'])([a-z_]+)=(?=[\s.,;:)]|True\b|False\b)", plain):
        if name not in OPTIONS and f"{name}=" not in text:
            yield f"no argument of Python: {name}="


def test_every_error_message_uses_python_syntax_in_python():
    found, count = [], 0
    for place, text in messages():
        count += 1
        found += [f"{place}: {fault} in {text!r}" for fault in faults(text)]
    assert not found, "\n".join(found)
    assert count > 150


@pytest.mark.parametrize(
    ("said", "python"),
    [
        (
            "give --data mini, --data DIR or --data hub.",
            'give data="mini", data=DIR or data="hub".',
        ),
        ("(--set learning_rate=1e-5,2e-5)", '(set="learning_rate=1e-5,2e-5")'),
        ("run it again (--force), --no-baselines", "run it again (force=True), baselines=False"),
        ("leave --teacher out, or --limit 100.", "leave teacher= out, or limit=100."),
        ("--engine-option cpus=4: no", 'engine_options="cpus=4": no'),
        ("say --no-header where", "say no_header=True where"),
        ("`bench model d91288 --retrain` trains it", "`bench model d91288 --retrain` trains it"),
        ("`bench run` makes it; `bench show runs`", "bh.run makes it; bh.runs"),
        ("as `ray start --address` has it", "as `ray start --address` has it"),
        ("mark them with --allow-weak", "mark them with --allow-weak"),
        ("--columns text=...,label=... says", 'columns="text=...,label=..." says'),
        ("(--model NAME='DIR/step-*')", "(model=\"NAME='DIR/step-*'\")"),
    ],
)
def test_shell_options_in_messages_are_translated_to_python_arguments(said, python):
    assert in_python(said) == python


def test_command_without_a_python_function_is_named_as_a_shell_command(tmp_path, monkeypatch):
    from benchharness.leaderboard.store.store import open_store
    from tests.helpers.results import make_job, make_result

    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        key = make_result(make_job()).job.key
        store.add_result(make_result(make_job()))
    with pytest.raises(bh.BenchError, match=f"`bench model {key[:12]} --retrain` trains it again"):
        bh.predict(key, ["a"], db="board.sqlite")
