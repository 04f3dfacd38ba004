"""Tests that invalid arguments on the command line are an error of one sentence."""

from pathlib import Path

import pytest
import typer

from benchharness.cli import app as module
from benchharness.cli.app import UsageError
from benchharness.cli.commands import commands

RUN = ("run", "--model", "bert")
HELP = "--help`."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*RUN, "--limit"), f"--limit needs a value. See `bench run {HELP}"),
        ((*RUN, "--test=3"), f"--test does not accept a value, but got '3'. See `bench run {HELP}"),
        (("run",), "`bench run` needs --model NAME|DIR|NAME=DIR (see `bench run --help`)."),
        (
            ("plan", "a"),
            "`bench plan` needs SYSTEM SYSTEM (see `bench plan --help`).",
        ),
        (("show",), "`bench show` needs NAME... (see `bench show --help`)."),
        (
            ("run", "--modle", "bert"),
            "no option of `bench run` is called '--modle'. Did you mean '--model'?",
        ),
        (
            ("run", "--model", "tiny", "--learning-rate", "1e-4"),
            "use `--set learning_rate=1e-4` instead of `--learning-rate 1e-4`.",
        ),
        (("run", "--lr=1e-4"), "use `--set learning_rate=1e-4` instead of `--lr=1e-4`."),
        ((*RUN, "--tasks", "cola,rte"), "use `--task cola,rte` instead of `--tasks cola,rte`."),
        ((*RUN, "--tasks", "glue"), "use `--suite glue` instead of `--tasks glue`."),
        (
            ("export", "--tasks=rte"),
            "use `--task rte` instead of `--tasks=rte`.",
        ),
        (
            (*RUN, "--output_path", "my results"),
            "use `--db 'my results/leaderboard.sqlite'` instead of `--output_path 'my results'`.",
        ),
        (
            (*RUN, "--output-path"),
            "use `--db VALUE/leaderboard.sqlite` instead of `--output-path`.",
        ),
        (
            (*RUN, "--batch_size", "16"),
            "use `--set batch_size=16` instead of `--batch_size 16`.",
        ),
        (
            (*RUN, "--batch_size", "auto"),
            (
                "use `--set batch_size=VALUE` instead of `--batch_size auto`: VALUE must be a "
                "whole number that is at least 1, but 'auto' is not."
            ),
        ),
        (
            (*RUN, "--learning_rate", "2e-5", "--seeds", "1"),
            "use `--set learning_rate=2e-5` instead of `--learning_rate 2e-5`.",
        ),
        (
            (*RUN, "--num_train_epochs", "3"),
            "use `--set epochs=3` instead of `--num_train_epochs 3`.",
        ),
        (
            (*RUN, "--max-seq-length", "128"),
            "use `--set max_tokens=128` instead of `--max-seq-length 128`.",
        ),
        (
            (*RUN, "--learning_rate", "--seeds", "1"),
            "use `--set learning_rate=VALUE` instead of `--learning_rate`.",
        ),
        (
            ("report", "--learning_rate", "2e-5"),
            f"no option of `bench report` is called '--learning_rate'. See `bench report {HELP}",
        ),
        (("--foo",), f"no option of `bench` is called '--foo'. See `bench {HELP}"),
        (("rnu",), "no command of `bench` is called 'rnu'. Did you mean 'run'?"),
        (
            (*RUN, "extra"),
            f"`bench run` does not accept 'extra' as an argument. See `bench run {HELP}",
        ),
        (("db", "chekc"), "no command of `bench db` is called 'chekc'. Did you mean 'check'?"),
        (
            ("db", "check", "a b"),
            f"`bench db check` does not accept 'a b' as an argument. See `bench db check {HELP}",
        ),
        (
            ("export", "--all", "--db", "a.db"),
            f"--all needs a value, but got --db. See `bench export {HELP}",
        ),
        (("suites",), "no command of `bench` is called 'suites'. Use `bench show suites`."),
        (("compare", "plan", "a"), "`bench plan` needs SYSTEM SYSTEM (see `bench plan --help`)."),
        (("ensembel",), "no command of `bench` is called 'ensembel'. Did you mean 'ensemble'?"),
        (("--",), f"`bench` needs a command. See `bench {HELP}"),
        (("db", "--"), f"`bench db` needs a command. See `bench db {HELP}"),
        (("list", "runs"), "no command of `bench` is called 'list'. Use `bench show`."),
    ],
    ids=" ".join,
)
def test_command_line_usage_error_is_reported_in_one_sentence_with_a_hint(
    bench, words: tuple[str, ...], sentence: str
) -> None:
    ended = bench(*words)
    assert (ended.code, ended.out, ended.err) == (2, "", f"bench: {sentence}\n")


def test_checkpoint_pattern_expanded_by_the_shell_is_an_error_suggesting_quotes(
    bench, tmp_path
) -> None:
    folders = [str(tmp_path / f"step-{step}") for step in (1, 2, 3)]
    for folder in folders:
        Path(folder).mkdir()
    ended = bench("run", "--model", *folders, "--task", "cola")
    assert "pattern of checkpoints in quotes" in ended.err


def options() -> list[tuple[str, str]]:
    """Return every option of a command that takes numbers or one of a few words."""
    known = commands().items()
    loaded = {name: module.load_command(name) for name, line in known if line.place}
    return [
        (name, param.opts[0])
        for name, command in loaded.items()
        for param in command.params
        # Not a flag, unlike the option of the same name of `bench report`.
        if param.opts[0] in NOT_TEXT and not param.secondary_opts
    ]


NOT_TEXT = {
    *("--seeds", "--seed", "--limit", "--timeout", "--checkpoint-every", "--processes-per-job"),
    *("--alpha", "--power", "--top", "--examples", "--split", "--format", "--precision"),
    *("--na-prob-threshold", "--threshold"),
}


@pytest.mark.parametrize(("command", "option"), options(), ids=" ".join)
def test_an_invalid_option_value_is_reported_in_one_sentence(
    bench, command: str, option: str
) -> None:
    model = ("--model", "bert") if command in ("run", "check", "check --write") else ()
    words = ("a", "b") if command in ("compare", "plan") else ()
    task = ("a.json", "--task", "glue/rte") if command == "score" else ()
    ended = bench(*command.split(), *model, *words, *task, option, "no such value")
    # The parser accepts any name; the task rejects unknown splits later.
    if command == "score" and option == "--split":
        return
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"bench: {option}: ")
    assert ended.err.endswith(HELP + "\n")
    assert ended.err.count("\n") == 1


def test_bad_parameter_of_typer_is_a_usage_error() -> None:
    assert UsageError.__name__ == "UsageError"
    assert issubclass(typer.BadParameter, UsageError)


@pytest.mark.parametrize("words", [(), ("db",)])
def test_command_group_without_a_subcommand_prints_its_help(bench, words: tuple[str, ...]) -> None:
    ended = bench(*words)
    assert ended.code == 2
    assert f"Usage: {' '.join(('bench', *words))} [OPTIONS] COMMAND" in ended.out + ended.err
