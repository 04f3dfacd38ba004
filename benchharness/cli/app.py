"""`bench`: the commands, and what their errors mean to a shell."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from errno import EPIPE
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from benchharness import __version__
from benchharness.leaderboard.text import visible
from benchharness.tasks.errors import BenchError


class Command(NamedTuple):
    """Where a command is, as `module:name` of this package, and its line in `bench --help`.

    Click cuts a `help` to the room that there is, a `short_help` never.
    """

    place: str
    short_help: str | None = None
    help: str | None = None


COMMANDS = {
    "run": Command("run:run", "Fine-tune, score, store and show."),
    "watch": Command("watch:watch", "Watch a run from another terminal."),
    "show": Command("show:show", "Show a run, a model, a task, a suite."),
    "leaderboard": Command("leaderboard:leaderboard", "Show the leaderboard as a table."),
    "report": Command("report:report", "Write the leaderboard as an HTML page."),
    "model": Command("model:model", "Write a run's model for transformers."),
    "ensemble": Command("ensemble:ensemble", "Average stored predictions into one system."),
    "compare": Command("compare:compare", "Compare two systems task by task."),
    "explain": Command("explain:explain", "Say why a number is another one."),
    "predictions": Command("report:predictions", "Write a page of every prediction."),
    "which": Command("which:which", "Say which encoder is best, within a budget."),
    "curve": Command("curve:curve", "Test where scores still improve."),
    "plan": Command("compare:plan", "Say how many seeds tell two systems apart."),
    "baseline": Command("check:baseline", "Write the scores of stored runs, for `check`."),
    "check": Command("check:check", "Fail where a model is worse than its baseline."),
    "score": Command("score:score", "Score a prediction file that anyone made."),
    "submit": Command("submit:submit", "Write, check or repair a submission."),
    "predict": Command("predict:predict", "Answer rows by a model that a run has kept."),
    "export": Command("export:export", "Export scores, or the whole store."),
    "import": Command("export:import_file", "Import runs, or scores made elsewhere."),
    "rename": Command("rows:rename", "Give a row of the board another name."),
    "hide": Command("rows:hide", "Leave rows out of boards, or show them again."),
    "delete": Command("rows:delete", "Delete stored runs; asks, and keeps a copy."),
    "doctor": Command("doctor:doctor", "Check this machine, its caches, the hub."),
    "task": Command("task:task_app", help="Write the task of your own data as a file."),
    "fetch": Command("fetch:fetch", "Fetch models and data for offline runs."),
    "list": Command("show:list_app", help="List suites, tasks, models, published results, runs."),
    "db": Command("rows:db_app", help="Check, back up or merge the leaderboard's database."),
}
"""Every command's module imports what it needs at its top, and only the module of the command that
was called is imported: `bench --help` and shell completion read this table alone."""

GROUPS = {
    "Measure": ["run", "watch", "which", "check", "baseline", "score", "submit", "predict"],
    "Read": [
        "leaderboard",
        "report",
        "show",
        "list",
        "compare",
        "explain",
        "predictions",
        "ensemble",
        "curve",
        "plan",
    ],
}
"""The groups of `bench --help`; what is in neither is under the last, "Keep"."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 a job failed; 2 a wrong argument, name or setting; 3 a regression was "
    "found; 4 data, a checkpoint or the hub is missing or malformed; 5 the leaderboard's database "
    "is locked, full, damaged or too new; 129 the terminal was closed (SIGHUP); 130 interrupted "
    "(Ctrl-C); 143 terminated (SIGTERM)."
)

OBJECTS_TO_COLLECT = 500_000
"""How many new objects there must be before Python looks for garbage among them. Its own 700 cost a
command that lists ten thousand runs, none of which is garbage, a tenth of its time."""


UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""What the parser raises; it is click's own or typer's copy of it, by typer's version."""


@contextmanager
def _in_our_words(words: Sequence[str]) -> Iterator[None]:
    """Says what is wrong with the words after `bench` as every other error is said."""
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help itself
            raise
        raise import_module("benchharness.cli.usage").usage_error(error, words) from error


def _quick(params: list[Any]) -> list[Any]:
    """The parameters of a command, those with simple types read by us."""
    for param in params:
        if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
            param.process_value = partial(_read_value, param, param.process_value)
    return params


def _read_value(param: Any, typers: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """An option's value as the command gets it; what is not plain is left to typer's reader.

    From 0.29 on that imports pydantic to see that a text is a text, which took a fifth of the
    processor time of `bench run` with nothing to do.
    """
    kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    values = [value]
    if param.multiple:
        kind, values = get_args(kind)[0], list(value or ())
    plain = [None if each is None else _plain_value(each, kind, info) for each in values]
    if (param.required and not value) or plain.count(None) > values.count(None):
        return typers(ctx, value)
    found = plain if param.multiple else plain[0]
    return param.callback(ctx, param, found) if param.callback else found


def _plain_value(value: Any, kind: Any, info: Any) -> Any:
    """A value of a simple type; None where only typer knows what it means."""
    if info.parser or info.exists or info.resolve_path:
        return None
    if get_origin(kind) is Literal:
        return value if value in get_args(kind) else None
    try:
        found = kind(value) if kind in (str, int, float, Path, bool) else None
    except ValueError:
        return None
    low, high = (info.min, info.max)
    fits = found is not None and (low is None or found >= low) and (high is None or found <= high)
    return found if fits and (kind is not bool or isinstance(value, bool)) else None


class LazyGroup(TyperGroup):
    """The commands of the table; the one that is called is loaded when its name is resolved."""

    words: tuple[str, ...] = ()

    def __init__(self, **settings: Any) -> None:
        known = {
            name: TyperCommand(name, help=line.help, short_help=line.short_help)
            for name, line in COMMANDS.items()
        }
        super().__init__(**settings | {"commands": known})

    def make_context(self, info_name: Any, args: list[str], *rest: Any, **options: Any) -> Any:
        """Parses what stands before the command's name."""
        self.words = tuple(args)
        with _in_our_words(self.words):
            return super().make_context(info_name, args, *rest, **options)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before the command's name."""
        return _quick(super().get_params(ctx))

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Writes the commands in three groups."""
        rest = dict(self.commands)
        room = formatter.width - 6 - max(map(len, rest))
        for head, names in (*GROUPS.items(), ("Keep", tuple(rest))):
            with formatter.section(head):
                found = {name: rest.pop(name) for name in names if name in rest}
                formatter.write_dl(
                    [(f"{name:11}", one.get_short_help_str(room)) for name, one in found.items()]
                )

    def invoke(self, ctx: Any) -> Any:
        """Parses what stands behind the command's name, and calls the command."""
        with _in_our_words(self.words):
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words begin with, loaded, and the words behind it."""
        if args[0] == "diff":
            raise BenchError("`bench diff recipe A B` is now `bench show recipe A B`.")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest


FEW_OPTIONS = 15
"""So many need no heads."""


class GroupedCommand(TyperCommand):
    """A command whose help has its options under heads, if there are many.

    Typer does so by rich alone, whose import takes longer than the rest of the help. Options that
    are `rare`, by their names, are in --help-all alone.
    """

    rare: Collection[str] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """The command's options and arguments."""
        params = super().get_params(ctx)
        return _quick([*params, self._help_all(params[-1])] if self.rare else params)

    def _help_all(self, help_option: Any) -> Any:
        """The option that shows all others, made of --help."""
        made = copy(help_option)
        vars(made).pop("process_value", None)  # that of the other one, from an earlier call
        made.name, made.opts = "help_all", ["--help-all"]
        made.help = f"Show {len(self.rare)} more options too."

        def show(ctx: Any, param: Any, value: bool) -> None:
            ctx.command = copy(self)
            ctx.command.rare = ()
            help_option.callback(ctx, param, value)

        made.callback = show
        return made

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options, those that no panel has last."""
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if param.name in self.rare:
                continue
            if (record := param.get_help_record(ctx)) is not None:
                head = getattr(param, "rich_help_panel", None) or "Other options"
                found.setdefault(head, []).append(record)
        if sum(map(len, found.values())) <= FEW_OPTIONS:
            super().format_options(ctx, formatter)
            return
        rest = found.pop("Other options", None)
        for head, records in (*found.items(), *([("Other options", rest)] if rest else [])):
            with formatter.section(head):
                formatter.write_dl(records)


def load_command(name: str) -> Any:
    """A command of the table, or a group of commands, as click calls it."""
    module, _, member = COMMANDS[name].place.partition(":")
    found = getattr(import_module(f"benchharness.cli.{module}"), member)
    # Typer makes click's commands for a whole app only: this one has no others.
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.callback()(lambda: None)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name, cls=GroupedCommand)(found)
    made = vars(typer.main.get_command(alone))["commands"][name]
    if len(made.params) > FEW_OPTIONS:
        made.rare = getattr(found, "rare", ())
    return made


app = typer.Typer(
    name="bench",
    cls=LazyGroup,
    help="Fine-tune text encoders on benchmarks, score them officially, keep a leaderboard.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    # Rich help takes twice as long to appear.
    rich_markup_mode=None,
    # Typer's tracebacks would show the values of variables, tokens among them.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"benchharness {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line; an error that the user can mend is a sentence, not a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets it
        signal.signal(signal.SIGHUP, _terminate)
    gc.set_threshold(OBJECTS_TO_COLLECT)
    atexit.register(gc.freeze)  # the interpreter looks for garbage once more before it ends
    if sys.stdout is None:  # closed: nobody wants to see anything
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (for as long as the process)
    if isinstance(sys.stdout, TextIOWrapper):  # a locale may lack the sign of a spread, or a name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="bench")
        except OSError:
            _finish_output("\n")  # finds no room again where that is what was wrong
            raise
        finally:
            _finish_output()
    except BenchError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"bench: {visible(line)}\n")
        sys.exit(error.exit_code)


def _finish_output(more: str = "") -> None:
    """Raises BenchError where what was printed found no room, whatever has noticed it first."""
    try:
        sys.stdout.write(more)
        sys.stdout.flush()
    except OSError as error:
        # Nor does the interpreter find any at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != EPIPE:  # else who reads it has seen enough
            raise BenchError(
                f"what was to be printed could not be written ({error.strerror}): give stdout "
                "another file."
            ) from error


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Leaves as an exception, so that running jobs are ended on the way out."""
    sys.exit(128 + number)
