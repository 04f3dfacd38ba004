import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from runpy import run_path

import pytest

from benchharness import __version__
from benchharness.cli import app as module
from benchharness.cli.commands import commands as all_commands
from benchharness.cli.commands import named, old_words
from benchharness.errors import BenchError, DataError, JobError, ModelError, StoreError
from benchharness.tasks.suites import find_task
from tests.helpers.extensions import with_all_extensions

BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
MADE = run_path(str(DOCS.parent / "site" / "cli_page.py"))
commands = MADE["commands"]
COMMANDS, OLD_WORDS = all_commands(), old_words()
HEAVY = ("torch", "transformers", "datasets", "pandas", "sklearn")
"""Modules that no command may import to show its help."""

NOT_IN_THE_TABLE = ("numpy", "scipy", "sqlalchemy", "rich", "benchharness.cli.run")
"""Modules that a command may import at its top, but the table of commands may not."""


def test_help_of_a_command_group_lists_its_commands(bench):
    for name in COMMANDS:
        first, _, second = name.partition(" ")
        assert not second or re.search(f"(?m)^  {second} +[A-Z]", bench(first, "--help").out), name
        assert named([*name.split(), "more"]) == (name, ["more"])
    assert named(["check", "--model", "m", "--write"]) == ("check --write", ["--model", "m"])


def test_help_and_shell_completion_import_no_module_of_a_command():
    code = (
        "import sys, typer; from benchharness.cli.app import app; "
        "app(['--help'], standalone_mode=False); "
        "context = typer.main.get_command(app).make_context('bench', [], resilient_parsing=True); "
        "assert [item.value for item in context.command.shell_complete(context, 'lea')]"
        " == ['leaderboard']; "
        "assert {name for name in sys.modules if name.startswith('benchharness.cli')}"
        " == {'benchharness.cli', 'benchharness.cli.app', 'benchharness.cli.commands'}"
    )
    command = (sys.executable, "-P", "-c", code)
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("run", "--help"), ("db", "--help")])
def test_help_imports_no_heavy_modules(words):
    heavy = HEAVY if len(words) > 1 else (*HEAVY, *NOT_IN_THE_TABLE)
    code = (
        "import sys; from benchharness.cli.app import app; "
        f"app({list(words)!r}, standalone_mode=False); "
        f"print('heavy:', *sorted(set(sys.modules) & set({heavy!r})))"
    )
    command = (sys.executable, "-P", "-c", code)
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1].strip() == "heavy:"


def test_help_takes_under_0_3_seconds():
    """Take the lowest CPU time of five calls, because other processes use the machine too."""

    def measure():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run((*BENCH, "--help"), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert any(measure() < 0.3 for _ in range(5))


def test_option_version_prints_the_version(bench):
    ended = bench("--version")
    assert (ended.code, ended.out) == (0, f"benchharness {__version__}\n")


def test_run_help_fits_two_screens_and_help_all_shows_all_options(bench):
    few, every = bench("run", "--help").out, bench("run", "--help-all").out
    assert len(few.splitlines()) <= 80
    hidden = set(re.findall(r"(?m)^  (--[a-z-]+)", every)) - set(
        re.findall(r"(?m)^  (--[a-z-]+)", few)
    )
    assert f"Show this help with {len(hidden)} more options." in few
    assert {"--teacher", "--engine-option"} < hidden
    assert bench("run", "--teacher", "bert").err.startswith("bench: `bench run` needs --model")


def test_help_has_every_command_in_one_of_five_groups(bench):
    text = bench("--help").out
    groups = ["Options", "Measure", "Read", "Compare", "Use the model", "Keep"]
    assert re.findall(r"(?m)^([A-Z][a-z ]+):$", text) == groups
    listed = re.findall(r"(?m)^  ([a-z]+) +[A-Z].*\.$", text)
    assert listed == [name for name in COMMANDS if " " not in name]
    assert {"score", "watch", "fetch", "curve", "plan", "ensemble"} < set(listed)
    assert len(text.splitlines()) <= 56


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_ends_with_a_valid_example(bench, name):
    text, example = bench(*name.split(), "--help").out, COMMANDS[name].example
    assert text.endswith(f"\nExample:\n  bench {example}\n")
    called, words = named(shlex.split(example))
    assert called == name or (not COMMANDS[name].place and called.startswith(f"{name} "))
    module.load_command(called).make_context(called, words)


@pytest.mark.parametrize(("old", "new"), OLD_WORDS.items())
def test_former_names_of_a_command_work_and_are_hidden_from_help(bench, old, new):
    first, second = old.split()
    assert bench(first, second, "--help") == bench(new, "--help")
    assert named([first, second, "more"]) == (new, ["more"])
    shown = bench(first, "--help-all" if first == "run" else "--help").out
    assert not re.search(f"(?m)^  {second} ", shown)
    assert new in COMMANDS
    assert old not in COMMANDS


def test_help_of_run_and_check_lists_their_write_options(bench):
    for name, head in (("run --write-task", "Your own data"), ("check --write", "What to run")):
        first, flag = name.split()
        text = bench(first, "--help").out
        (section,) = (part for part in text.split("\n\n") if f"\n  {flag} " in part)
        assert section.startswith(f"{head}:\n")
        assert "\nCommands:\n" not in text


def test_the_changelog_lists_the_former_names_of_commands():
    text = (DOCS.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `bench (.+?)` \| `bench (.+?)` \|$", text)
    assert {old: new for old, new in rows if new in COMMANDS} == OLD_WORDS


def test_the_documentation_uses_no_former_names_of_commands():
    old = re.compile(rf"bench\s+({'|'.join(OLD_WORDS)})\b")
    root = DOCS.parents[1]
    places = [root / "README.md", *DOCS.parent.glob("*.md"), *root.glob("benchharness/**/*.py")]
    places += [*root.glob("tasks/**/*.py"), *root.glob("leaderboard/**/*.[pjh]*")]
    places = [path for path in places if path.is_file() and path.suffix != ".pyc"]
    texts = {path: path.read_text(encoding="utf-8") for path in places}
    allowed = "Former command names (`bench compare explain`) work until 0.2"
    found = {path: old.search(text.replace(allowed, "")) for path, text in texts.items()}
    assert not [(path, match[0]) for path, match in found.items() if match]
    assert allowed in texts[DOCS]


def test_help_of_bench_explains_the_exit_codes(bench):
    text = " ".join(bench("--help").out.split())
    assert module.EXIT_CODES in text


def raise_in_report(monkeypatch, error):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr("benchharness.cli.report.open_store", fail)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(BenchError, 2), (DataError, 4), (ModelError, 4), (JobError, 1), (StoreError, 5)],
)
def test_each_type_of_error_is_printed_and_gives_its_own_exit_code(bench, monkeypatch, kind, code):
    raise_in_report(monkeypatch, kind("this is wrong.", "and\nthis."))
    ended = bench("report")
    assert ended.code == code
    assert (ended.out, ended.err) == ("", "bench: this is wrong.\nbench: and this.\n")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            EOFError("Ran out of input"),
            4,
            "a file ended too early (Ran out of input). It may be incomplete.",
        ),
        (MemoryError(), 1, "memory ran out. Use fewer or smaller files"),
    ],
)
def test_unexpected_file_or_memory_error_is_printed_as_one_sentence(
    bench, monkeypatch, error, code, said
):
    raise_in_report(monkeypatch, error)
    ended = bench("report")
    assert (ended.code, len(ended.err.splitlines())) == (code, 1)
    assert said in ended.err


def test_ctrl_c_exits_with_130(bench, monkeypatch):
    raise_in_report(monkeypatch, KeyboardInterrupt())
    ended = bench("report")
    assert (ended.code, ended.err) == (130, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_exits_with_128_plus_its_number(bench, monkeypatch, number, code):
    def terminate(*args, **options):
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr("benchharness.cli.report.open_store", terminate)
    before = signal.signal(number, signal.SIG_DFL)  # nohup starts a command with SIGHUP ignored
    ended = bench("report")
    signal.signal(number, before)
    assert (ended.code, ended.err) == (code, "")


def test_closed_output_pipe_gives_no_traceback():
    code = f"{BENCH[-1]}"
    with subprocess.Popen(
        (sys.executable, "-P", "-c", f"import sys; sys.argv = ['bench', 'show', 'tasks']; {code}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
    assert errors == b""


@with_all_extensions
def test_command_line_page_of_the_documentation_is_up_to_date():
    text = DOCS.read_text(encoding="utf-8")
    assert text == MADE["page"](text)


def test_all_exit_codes_in_help_are_documented():
    documented = re.findall(r"(?m)^\| (\d+) \|", DOCS.read_text(encoding="utf-8"))
    assert documented == re.findall(r"(?:: |; )(\d+) ", module.EXIT_CODES)


COMMAND = r"""(?:"[^"]*"|'[^']*'|(?!\s+\#|(?<=\S) {2,}(?!--)| [|<>&]).)*"""
"""A command until a remark, a pipe or a redirection that is not in quotes."""


def documented(page):
    """Yield the words of every indented command of a page, without its remark."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"(?m)^ {4,}(?:\$ )?bench (\S.*)$", text):
        command = re.match(COMMAND, line)[0]
        if "..." not in command:
            yield shlex.split(command)


OF_ADD_HEAD = "votes/jokes"
"""Task of the package that the page add-head.md writes."""


@with_all_extensions
def test_documented_commands_are_valid(tmp_path, monkeypatch):
    """Check that the options and tasks of every documented command exist."""
    monkeypatch.chdir(tmp_path)
    # The file that an example passes as `--config run.toml`.
    Path("run.toml").write_text('model = "tiny"')
    pages = [DOCS.parents[1] / "README.md", *sorted(DOCS.parent.glob("*.md"))]
    lines = [words for page in pages for words in documented(page)]
    assert len(lines) > 150
    known = commands()
    for words in lines:
        name, rest = named(words)
        asked = known[name].make_context("bench", rest).params
        if not (asked.get("suite") or asked.get("plugin")):
            tasks = asked.get("task") or ()
            for name in {tasks} if isinstance(tasks, str) else {*tasks} - {OF_ADD_HEAD}:
                find_task(name)
