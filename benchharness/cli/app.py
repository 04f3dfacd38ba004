"""Entry point of the command `bench`, with its parser, its help texts and its exit codes."""

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
from pkgutil import resolve_name
from types import FrameType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from benchharness.cli.commands import (
    CORE,
    ELSEWHERE,
    added_options,
    command,
    commands,
    inner,
    named,
)
from benchharness.discovery import member
from benchharness.errors import BenchError, DataError, JobError
from benchharness.extension import GROUPS, Command
from benchharness.version import package_version

EXIT_CODES = (
    "Exit codes: 0 success; 1 a job failed; 2 an argument, name or setting is wrong; 3 a "
    "regression was found; 4 data, a checkpoint or the hub is missing or malformed; 5 the "
    "leaderboard's database is locked, full, damaged or too new; 129 the terminal was "
    "closed (SIGHUP); 130 interrupted (Ctrl-C); 143 terminated (SIGTERM)."
)

OBJECTS_TO_COLLECT = 500_000
"""Number of new objects after which Python's garbage collector runs. With Python's default of 700,
a command that lists ten thousand runs spends a tenth of its time on garbage collection, although
there is no garbage."""


UsageError: type[Any] = typer.BadParameter.__bases__[0]
"""Base class of the argument parser's errors. Depending on the version of typer, this is a class of
click or typer's copy of the class."""


@contextmanager
def _in_our_words(words: Sequence[str]) -> Iterator[None]:
    """Context manager that replaces errors of the argument parser with BenchErrors.

    `words` are the command-line arguments after `bench`.
    """
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the parser shows the help instead
            raise
        raise import_module("benchharness.cli.usage").usage_error(error, words) from error


@contextmanager
def _without_abort() -> Iterator[None]:
    """Context manager that turns an unhandled EOFError or MemoryError into a BenchError."""
    try:
        yield
    except EOFError as error:  # click would take it for Ctrl-D and only print "Aborted!"
        raise DataError(f"a file ended too early ({error}). It may be incomplete.") from error
    except MemoryError as error:
        raise JobError(
            "memory ran out. Use fewer or smaller files, or raise the memory limit (ulimit -v, or "
            "the limit of the container)."
        ) from error


def _quick(params: list[Any]) -> list[Any]:
    """Make parameters of simple types, such as int, bypass typer's conversion of their values.

    The parameters are changed in place and returned.
    """
    for param in params:
        if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
            param.process_value = partial(_read_value, param, param.process_value)
    return params


def _read_value(param: Any, typers: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """Convert an option's value if its type is simple, else call typer's conversion `typers`.

    Since version 0.29, typer's conversion imports pydantic even for a string. The import took a
    fifth of the CPU time of a `bench run` whose jobs were all finished.
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
    """Convert a value to its declared type; return None if the type is not simple.

    None is also returned for a value that does not fit the type, so that typer reports the error.
    """
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


class InnerGroup(TyperGroup):
    """Command that consists only of subcommands, such as `bench db`.

    Args:
        name: The name of the command, such as "db".
    """

    def __init__(self, name: str) -> None:
        words = {
            word: TyperCommand(word, short_help=line.help) for word, line in inner(name).items()
        }
        facts: dict[str, Any] = {"help": _line(name).help, "commands": words}
        super().__init__(name=name, no_args_is_help=True, rich_markup_mode=None, **facts)

    def format_epilog(self, _: Any, formatter: Any) -> None:
        """Write an example of the command at the end of its help.

        `formatter` is click's formatter of the help.
        """
        _write_example(self.name or "", formatter)


def _line(name: str) -> Command:
    found = command(name)
    assert found, name
    return found


def _write_example(name: str, formatter: Any) -> None:
    """Write a command's example to its help, on one line so that it can be copied."""
    with formatter.section("Example"):
        formatter.write(f"{'':{formatter.current_indent}}bench {_line(name).example}\n")


class LazyGroup(TyperGroup):
    """The command `bench`, which imports only the module of the subcommand that is called.

    Its methods replace those of click and have the same arguments.

    Attributes:
        words: The command-line arguments after `bench`.
    """

    words: tuple[str, ...] = ()

    def list_commands(self, _: Any) -> list[str]:
        """Return the names of all commands except subcommands, including those of extensions."""
        self.commands = {
            name: TyperCommand(name, short_help=line.help)
            for name, line in commands().items()
            if " " not in name
        }
        return list(self.commands)

    def make_context(self, info_name: Any, args: list[str], *rest: Any, **options: Any) -> Any:
        """Parse the options of `bench` itself, which come before the name of the subcommand.

        The arguments and the result are the same as for click's method.
        """
        self.words = tuple(args)
        with _in_our_words(self.words):
            return super().make_context(info_name, args, *rest, **options)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options that may come before the name of the subcommand, such as --version.

        `ctx` is click's context.
        """
        return _quick(super().get_params(ctx))

    def format_commands(self, _: Any, formatter: Any) -> None:
        """Write the list of commands to the help, with a heading for each section.

        `formatter` is click's formatter of the help.
        """
        for group in GROUPS:
            with formatter.section(group):
                found = [(name, line) for name, line in commands().items() if line.group == group]
                formatter.write_dl([(f"{name:11}", line.help) for name, line in found])

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments after the name of the subcommand, and call the subcommand.

        `ctx` is click's context, which contains these arguments.
        """
        with _in_our_words(self.words), _without_abort():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called subcommand, the loaded subcommand, and its arguments.

        Args:
            ctx: Click's context.
            args: The command-line arguments after the options of `bench` itself.

        Raises:
            BenchError: The first argument is not a subcommand, but the error can suggest one,
                because the argument is the second word of a subcommand (as in `bench db check`) or
                is listed in ELSEWHERE.
        """
        name, rest = named(args)
        if command(name):
            return name, load_command(name), rest
        seconds = {words.partition(" ")[2]: words for words in commands()} | ELSEWHERE
        if now := seconds.get(name):
            raise BenchError(f"no command of `bench` is called {name!r}. Use `bench {now}`.")
        self.list_commands(ctx)  # sets `self.commands`, from which the error suggests names
        return super().resolve_command(ctx, args)


FEW_OPTIONS = 15
"""Number of options up to which a command's help lists all options without headings."""


class GroupedCommand(TyperCommand):
    """Command with headings in its help if it has more than FEW_OPTIONS options.

    Typer itself can group options only with the library rich, whose import takes longer than the
    rest of the help. The methods replace those of click and have the same arguments.

    Attributes:
        rare: The names of the options that --help-all shows, but --help does not.
    """

    rare: Collection[str] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments of the command.

        If some options are rare, --help-all is one of the options. `ctx` is click's context.
        """
        params = super().get_params(ctx)
        return _quick([*params, self._help_all(params[-1])] if self.rare else params)

    def _help_all(self, help_option: Any) -> Any:
        """Build the option --help-all as a modified copy of --help."""
        made = copy(help_option)
        vars(made).pop("process_value", None)  # set by an earlier call of `_quick` on --help
        made.name, made.opts = "help_all", ["--help-all"]
        made.help = f"Show this help with {len(self.rare)} more options."

        def show(ctx: Any, param: Any, value: bool) -> None:
            ctx.command = copy(self)
            ctx.command.rare = ()
            help_option.callback(ctx, param, value)

        made.callback = show
        return made

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options to the help, under headings if there are more than FEW_OPTIONS.

        Options without a heading come last.

        Args:
            ctx: Click's context.
            formatter: Click's formatter of the help.
        """
        found: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if param.name in self.rare:
                continue
            if (record := param.get_help_record(ctx)) is not None:
                head = getattr(param, "rich_help_panel", None) or "Other options"
                found.setdefault(head, []).append(record)
        for word, line in inner(self.name or "").items():
            if word.startswith("-"):
                found.setdefault(line.group, []).append((word, line.help))
        if sum(map(len, found.values())) <= FEW_OPTIONS:
            super().format_options(ctx, formatter)
            return
        rest = found.pop("Other options", None)
        for head, records in (*found.items(), *([("Other options", rest)] if rest else [])):
            with formatter.section(head):
                formatter.write_dl(records)

    def format_epilog(self, _: Any, formatter: Any) -> None:
        """Write the subcommands and the example of this command at the end of its help.

        `formatter` is click's formatter of the help.
        """
        name = self.name or ""
        if words := [(w, line.help) for w, line in inner(name).items() if not w.startswith("-")]:
            with formatter.section("Commands"):
                formatter.write_dl(words)
        _write_example(name, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the completions of a word: options, values of arguments, and subcommands.

        Args:
            ctx: Click's context.
            incomplete: The beginning of the word, which the user has typed.
        """
        behind = copy(ctx)
        behind.command = InnerGroup(self.name or "")
        words = behind.command.shell_complete(behind, incomplete)
        found = super().shell_complete(ctx, incomplete)
        return [*found, *(each for each in words if each.value in behind.command.commands)]


def load_command(name: str) -> Any:
    """Import the function of a command, and return the command as an object of the parser.

    A command that has only subcommands is returned as an InnerGroup. `name` is the name of the
    command, such as "db check".
    """
    place = _line(name).place
    if not place:
        return InnerGroup(name)
    found = resolve_name(place) if name in CORE else member(f"the command {name}", place)
    for what, function in added_options(name).items():
        found = member(what, function)(found)
    # Typer builds click commands only for a whole app, so this app has a single command.
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.callback()(lambda: None)
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
    # Help that is formatted with rich takes twice as long to appear.
    rich_markup_mode=None,
    # Typer's tracebacks would show the values of variables, which may include access tokens.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"benchharness {package_version()}")
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
    """Run the command line and exit; a BenchError is printed without a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup sets SIG_IGN, which must stay
        signal.signal(signal.SIGHUP, _terminate)
    gc.set_threshold(OBJECTS_TO_COLLECT)
    atexit.register(gc.freeze)  # makes the garbage collection at exit ignore all objects
    _open_what_is_closed()
    # The encoding of stdout may lack some characters, which are then printed as escape sequences.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="bench")
        except OSError:
            _finish_output("\n")  # raises a BenchError if stdout caused the error
            raise
        finally:
            _finish_output()
    except BenchError as error:
        from benchharness.leaderboard.text import visible  # noqa: PLC0415  (--help does not need it)

        for line in str(error).splitlines():
            sys.stderr.write(f"bench: {visible(line)}\n")
        sys.exit(error.exit_code)


def _open_what_is_closed() -> None:
    """Open /dev/null for each standard stream that is closed.

    Such a stdin is empty, writing to stdout fails, and output to stderr is lost. The streams are
    opened in the order of their file descriptors, so that no other file gets descriptor 0, 1 or 2,
    which child processes use as standard streams.
    """
    for name, mode, way in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, way), mode, encoding="utf-8"))


def _finish_output(more: str = "") -> None:
    """Write `more` to stdout and flush it; raise BenchError if any output could not be written."""
    try:
        sys.stdout.write(more)
        sys.stdout.flush()
    except OSError as error:
        # Replace stdout, because flushing it would fail again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != EPIPE:  # EPIPE: the reader, such as `head`, has stopped reading
            raise BenchError(
                f"the output could not be written ({error.strerror}). Redirect stdout to another "
                "file."
            ) from error


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising SystemExit, so that cleanup code ends the running jobs."""
    sys.exit(128 + number)
