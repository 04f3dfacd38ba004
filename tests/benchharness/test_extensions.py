"""Tests of extensions: each folder can be deleted, and third-party packages can add others."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import benchharness
from benchharness import discovery
from benchharness.cli.app import load_command
from benchharness.cli.commands import commands
from benchharness.discovery import OURS, extensions, places
from benchharness.extension import Extension
from benchharness.plugins import VARIABLE
from benchharness.tasks.suites import SUITES
from tests.helpers import ROOT

OWN = [each for each in extensions() if each.package.startswith("benchharness.")]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")


def without(name: str, folder: Path) -> dict[str, str]:
    """Return the environment of a process whose benchharness lacks the extension's folder."""
    extensions_there = folder / "benchharness" / "extensions"
    extensions_there.mkdir(parents=True)
    for source, target in ((OURS.parent, extensions_there.parent), (OURS, extensions_there)):
        for path in source.iterdir():
            if path not in (OURS, OURS / name):
                (target / path.name).symlink_to(path)
    (extensions_there / name).mkdir()
    return os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def needs(extension: Extension, name: str) -> bool:
    by_name = {each.name: each for each in OWN}
    return name == extension.name or any(needs(by_name[each], name) for each in extension.needs)


def ended(words: tuple[str, ...], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def line_of(extension: Extension) -> str:
    """Return the line of the architecture page about an extension."""
    (line,) = re.findall(rf"(?m)^\| `{extension.name}` \| .*$", PAGE)
    return str(line)


def listed(text: str) -> set[str]:
    return set(re.findall(r"(?m)^  ([a-z]+) +[A-Z].*\.$", text))


def test_each_extension_folder_is_registered_under_its_own_name() -> None:
    folders = {file.parent.name for file in OURS.glob("*/__init__.py")}
    assert {each.package: each.name for each in OWN} == {
        f"benchharness.extensions.{name}": name for name in folders
    }


@pytest.mark.parametrize("extension", OWN, ids=lambda each: each.name)
def test_command_line_and_python_work_without_the_folder_of_any_extension(
    extension: Extension, tmp_path: Path
) -> None:
    """`bench --help` and `import benchharness` have all names except those of the extension."""
    code = (
        "import benchharness as bh; from benchharness.cli.app import app; "
        "app(['--help'], standalone_mode=False); print('NAMES', bh.__file__, *dir(bh))"
    )
    at = {"env": without(extension.name, tmp_path), "cwd": tmp_path}
    shown = ended((sys.executable, "-P", "-c", code), **at)
    assert shown.returncode == 0, shown.stderr
    first = {name for name in commands() if " " not in name}
    gone = [each for each in OWN if needs(each, extension.name)]
    text, _, last = shown.stdout.partition("NAMES ")
    assert listed(text) == first - {name for each in gone for name in each.commands}
    where, *names = last.split()
    assert Path(where).is_relative_to(tmp_path)
    assert set(names) == {*dir(benchharness)} - {name for each in gone for name in each.calls}


@pytest.mark.soak
@pytest.mark.parametrize("extension", OWN, ids=lambda each: each.name)
def test_a_run_is_scored_and_reported_without_the_folder_of_an_extension(
    extension: Extension, tmp_path: Path
) -> None:
    at = {"env": without(extension.name, tmp_path), "cwd": tmp_path}
    run = ("run", "--model", "majority", "--task", "glue/rte", "--data", "mini", "--no-baselines")
    trained = ended((*BENCH, *run), **at)
    assert trained.returncode == 0, trained.stderr
    assert "majority" in trained.stdout
    report = ended((*BENCH, "report", "--suite", "glue"), **at)
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "results" / "leaderboard.html").is_file()


@pytest.mark.parametrize("extension", OWN, ids=lambda each: each.name)
def test_each_extension_has_its_own_code_tests_and_documentation(extension: Extension) -> None:
    """Check its folders of code and tests, and its line on the architecture page."""
    for name in extension.commands:
        # `place` is empty for a group of commands such as `bench db`.
        if place := commands()[name].place:
            assert place.startswith(f"{extension.package}.")
            load_command(name)
    for module in extension.suites:
        for suite in importlib.import_module(f"{extension.package}.{module}").SUITES:
            assert SUITES[suite.name] is suite
            assert f"`{suite.name}`" in line_of(extension)
    for name, place in (places("engines") | places("loggers")).items():
        if name in (*extension.engines, *extension.loggers):
            assert resolve_name(place).__module__.startswith(f"{extension.package}.")
    for name in extension.calls:
        assert getattr(benchharness, name).__module__.startswith(f"{extension.package}.")
    assert [*(ROOT / "tests" / "extensions" / extension.name).glob("test_*.py")]
    line = line_of(extension)
    added = (*extension.commands, *extension.calls, *extension.engines, *extension.loggers)
    assert [name for name in added if name not in line] == []


def test_help_imports_no_module_of_an_extension() -> None:
    """Import only the tables of the extensions."""
    code = (
        "import sys; from benchharness.cli.app import app; "
        "app(['--help'], standalone_mode=False); "
        "print('loaded:', *(n for n in sys.modules if n.startswith('benchharness.extensions.')))"
    )
    loaded = ended((sys.executable, "-P", "-c", code)).stdout.splitlines()[-1].split()
    assert loaded[0] == "loaded:"
    assert {*loaded[1:]} == {each.package for each in OWN}


FEATURES = re.compile(
    "(?i)coref|retriev|needle(?!ss)|beir|blimp|cloze|ontonotes|conll.?2012|(?<!e)xtreme|lexglue|quac|coqa|"
    "hotpot"
)
"""Names of features that are extensions."""

NAMED = {
    "Rudinger et al., Gender Bias in Coreference Resolution, NAACL 2018": "the title of a paper",
    "tasks cannot be scored without training, because the extension cloze is missing: install the "
    "full benchharness package.": "what is missing",
}
"""Reasons for the texts of the core that name a feature."""


def words_of(path: Path) -> set[str]:
    """Return the names and texts in a source file, without docstrings."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    names = {getattr(node, name, None) for node in nodes for name in ("id", "attr", "name", "arg")}
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    texts = {node.value for node in constants if id(node) not in docstrings}
    return {word for word in names | texts if isinstance(word, str)}


def test_core_modules_do_not_mention_features_of_extensions() -> None:
    """Messages, names and constants of the core are free of them, except old migrations."""
    files = [
        path
        for package in ("benchharness", "tasks", "leaderboard")
        for path in (ROOT / package).rglob("*.py")
        if path == path.resolve() and OURS not in path.parents and "migrations" not in path.parts
    ]
    assert len(files) > 150
    found = {
        (path.name, word)
        for path in files
        for word in words_of(path)
        if FEATURES.search(word) and word not in NAMED
    }
    assert found == set()


# A third-party package.

MINE = """
from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="mine",
    package=__name__,
    commands={
        "greet": Command("greeting:greet", "Greet.", "greet Ada", MEASURE, after="watch"),
    },
    calls={"greet": "greeting:words"},
)
"""

GREETING = """
from typing import Annotated

import typer

from benchharness.cli.options import argument, with_options


@with_options()
def greet(name: Annotated[str, argument("NAME", "Who.")]) -> None:
    \"\"\"Greet somebody.\"\"\"
    typer.echo(words(name))


def words(name):
    return f"Hello, {name}!"
"""


def write_package(folder: Path, name: str, **modules: str) -> None:
    """Write an installed package with an extension; `first` is the text of its first module."""
    package, facts = folder / name, folder / f"{name}-1.dist-info"
    package.mkdir(parents=True)
    facts.mkdir()
    for module, text in modules.items():
        (package / f"{'__init__' if module == 'first' else module}.py").write_text(text)
    (facts / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: 1\n")
    point = f"{name.replace('_', '')} = {name}:EXTENSION"
    (facts / "entry_points.txt").write_text(f"[benchharness.extensions]\n{point}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs packages, given the text of each one's first module."""

    def forget():
        discovery.extensions.cache_clear()
        commands.cache_clear()
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.startswith("mine_")]:
            del sys.modules[name]

    def install(*texts):
        for number, text in enumerate(texts):
            write_package(tmp_path, f"mine_{number}", first=text, greeting=GREETING)
        monkeypatch.syspath_prepend(tmp_path)
        forget()

    yield install
    monkeypatch.undo()
    forget()


def test_third_party_package_adds_a_command_and_a_python_function(installed, bench) -> None:
    installed(MINE)
    shown = bench("--help").out
    assert re.search(r"watch .*\n  greet +Greet\.\n  score ", shown)
    assert bench("greet", "Ada").out == "Hello, Ada!\n"
    assert bench("greet", "--help").out.endswith("Example:\n  bench greet Ada\n")
    assert benchharness.greet("Bo") == "Hello, Bo!"
    assert "greet" in dir(benchharness)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["EXTENSION = 3"], "the extension mine0 is a int: expected an Extension"),
        (["EXTENSION = other"], "the extension mine0 raises NameError in line 1 of __init__.py"),
        (["import benchharness.gone"], "the extension mine0 raises ModuleNotFoundError"),
        ([MINE, MINE], "two extensions are called 'mine'"),
        ([MINE.replace('"greet": Command', '"run": Command')], "mine defines a command 'run'"),
        (
            [MINE.replace('"greet": Command', '"greet all": Command')],
            "but no command is called 'greet'",
        ),
        (
            [MINE.replace(" MEASURE, after", " 'Fun', after")],
            "'greet' of the extension mine must name a section of",
        ),
    ],
    ids=["no object", "raises", "needs a package", "twice", "taken", "of none", "no section"],
)
def test_an_invalid_extension_is_reported_in_one_sentence(installed, bench, texts, said) -> None:
    installed(*texts)
    found = bench("--help")
    assert (found.code, found.err.count("Traceback"), found.err.count("\n")) == (2, 0, 1)
    assert said in found.err


WHOLE = """
from benchharness.extension import Extension

EXTENSION = Extension(
    name="mine",
    package=__name__,
    suites=("tasks",),
    engines={"mine": "parts:place"},
    loggers={"mine_whole": "parts:Lines"},
)
"""

TASKS = """
from dataclasses import replace

from benchharness.tasks.glue import GLUE_TASKS
from benchharness.tasks.suite import ScoreRule, suite_of

RTE = next(task for task in GLUE_TASKS if task.name == "glue/rte")
TASK = replace(RTE, name="mine/rte", title="My RTE")
RULE = ScoreRule(name="Mine", cells={"mine/rte": ("accuracy",)}, cite="me")
TASKS = [TASK]
SUITES = [suite_of(TASKS, "Mine", RULE)]
"""

PARTS = """
from dataclasses import replace
from pathlib import Path

from benchharness.engines.local import LOCAL, place as local_place


def place(choice):
    print("the engine of mine")
    return local_place(replace(choice, name=LOCAL))


class Lines:
    place = "lines.txt"

    def __init__(self, folder):
        pass

    def begin(self, run):
        Path(self.place).write_text(run.name)

    def log(self, key, step, values):
        pass

    def end(self, key, facts, *, failed):
        pass

    def close(self):
        pass
"""


def test_third_party_package_adds_a_suite_an_engine_and_a_logger(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_package(site, "mine_whole", first=WHOLE, tasks=TASKS, parts=PARTS)
    # Other tests may have left plugins in this environment variable.
    without_plugins = {name: value for name, value in os.environ.items() if name != VARIABLE}
    at = {"env": without_plugins | {"PYTHONPATH": str(site)}, "cwd": tmp_path}
    words = ("run", "--model", "majority", "--suite", "mine", "--data", "mini", "--no-baselines")
    run = ended((*BENCH, *words, "--engine", "mine", "--log", "mine_whole"), **at)
    assert run.returncode == 0, run.stderr
    assert "the engine of mine" in run.stdout
    assert re.search(r"majority .*\d\d\.\d", run.stdout)
    assert "majority" in (tmp_path / "lines.txt").read_text()
    assert "1 stored already" in ended((*BENCH, *words), **at).stdout
    board = ended((*BENCH, "leaderboard", "--suite", "mine"), **at)
    assert "My RTE" in board.stdout
    # After a change of the package's code, its stored runs no longer count as finished.
    tasks = site / "mine_whole" / "tasks.py"
    tasks.write_text(f"{tasks.read_text()}# changed\n")
    assert "1 stored already" not in ended((*BENCH, *words), **at).stdout
    # Without the package, its suite is unknown, but its stored runs are still listed.
    alone = ended((*BENCH, "show", "runs", "--json"), env=without_plugins, cwd=tmp_path)
    assert "mine/rte" in alone.stdout, alone.stderr


def test_third_party_package_adds_a_subcommand_to_a_core_command(installed, bench) -> None:
    installed(MINE.replace('"greet": Command', '"show greetings": Command'))
    assert re.search(r"(?m)^  greetings +Greet\.$", bench("show", "--help").out)
    assert bench("show", "greetings", "Ada").out == "Hello, Ada!\n"


LOUD = """
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated

import typer

LoudOption = Annotated[bool, typer.Option("--loud", help="Say it aloud.")]


def with_loud(command):
    @wraps(command)
    def called(*, loud, **values):
        command(**values)
        if loud:
            typer.echo("That was loud!")

    last = Parameter("loud", Parameter.KEYWORD_ONLY, default=False, annotation=LoudOption)
    every = [*signature(command).parameters.values(), last]
    called.__signature__ = Signature(every)
    called.__annotations__ = {each.name: each.annotation for each in every}
    return called
"""


def test_third_party_package_adds_an_option_to_a_core_command(installed, bench, tmp_path) -> None:
    options = 'options={"show suites": "loud:with_loud"}'
    installed(MINE.replace("    calls=", f"    {options},\n    calls="))
    (tmp_path / "mine_0" / "loud.py").write_text(LOUD)
    assert "--loud" in bench("show", "suites", "--help").out
    assert "That was loud!" in bench("show", "suites", "--loud").out
    assert "loud" not in bench("show", "suites").out
    assert "--loud" not in bench("show", "tasks", "--help").out


def test_option_of_a_package_with_a_missing_module_is_reported_in_one_sentence(
    installed, bench
) -> None:
    options = 'options={"show suites": "gone:with_loud"}'
    installed(MINE.replace("    calls=", f"    {options},\n    calls="))
    found = bench("show", "suites")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "the option of `bench show suites` in mine raises ModuleNotFoundError" in found.err


def test_a_command_with_a_missing_module_is_reported_in_one_sentence(installed, bench) -> None:
    installed(MINE.replace("greeting:greet", "gone:greet"))
    assert "greet" in bench("--help").out
    found = bench("greet", "Ada")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "the command greet raises ModuleNotFoundError" in found.err
    assert "No module named 'mine_0.gone'" in found.err


def test_unknown_attribute_of_benchharness_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = benchharness.nothing
