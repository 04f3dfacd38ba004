"""`bench`: the commands, and what their errors mean to a shell."""

import atexit
import gc
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from benchharness import __version__
from benchharness.cli.baseline import baseline
from benchharness.cli.check import check
from benchharness.cli.compare import compare
from benchharness.cli.db import db_app
from benchharness.cli.doctor import doctor
from benchharness.cli.ensemble import ensemble
from benchharness.cli.export import export, import_file
from benchharness.cli.fetch import fetch
from benchharness.cli.leaderboard import leaderboard
from benchharness.cli.options import with_plugins
from benchharness.cli.plan import plan
from benchharness.cli.report import report
from benchharness.cli.run import run
from benchharness.cli.score import score
from benchharness.cli.show import list_app, show
from benchharness.cli.submit import submit
from leaderboard.text import visible
from tasks.errors import BenchError

__all__ = ["app", "main"]

EXIT_CODES = (
    "Exit codes: 0 done; 1 a job failed; 2 a wrong argument, name or setting; 3 a regression was "
    "found; 4 data, a checkpoint or the hub is missing or malformed; 5 the leaderboard's database "
    "is locked, damaged or too new; 130 interrupted (Ctrl-C); 143 terminated (SIGTERM)."
)

OBJECTS_TO_COLLECT = 500_000
"""How many new objects there must be before Python looks for garbage among them. Its own 700 cost a
command that lists ten thousand runs, none of which is garbage, a tenth of its time."""

app = typer.Typer(
    name="bench",
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


app.command(short_help="Fine-tune, score, store and show.")(with_plugins(run))
app.add_typer(list_app, name="list")
app.command(short_help="Show a run, a model, a task, a suite.")(with_plugins(show))
app.command(short_help="Show the leaderboard as a table.")(with_plugins(leaderboard))
app.command(short_help="Write the leaderboard as an HTML page.")(with_plugins(report))
app.command(short_help="Average stored predictions into one system.")(with_plugins(ensemble))
app.command(short_help="Say on which tasks two systems differ.")(with_plugins(compare))
app.command(short_help="Say how many seeds tell two systems apart.")(with_plugins(plan))
app.command(short_help="Write what stored runs came to, for `check`.")(with_plugins(baseline))
app.command(short_help="Fail where a model is worse than its baseline.")(with_plugins(check))
app.command(short_help="Score a prediction file that anyone made.")(with_plugins(score))
app.command(short_help="Write, check or mend a submission.")(submit)
app.command(short_help="Write scores or the store for others.")(with_plugins(export))
app.command("import", short_help="Bring runs or rows from elsewhere.")(with_plugins(import_file))
app.add_typer(db_app, name="db")
app.command(short_help="Check this machine, its caches, the hub.")(doctor)
app.command(short_help="Fetch models and data for offline runs.")(with_plugins(fetch))


def main() -> None:
    """Runs the command line; an error that the user can mend is a sentence, not a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    gc.set_threshold(OBJECTS_TO_COLLECT)
    atexit.register(gc.freeze)  # the interpreter looks for garbage once more before it ends
    try:
        app()
    except BenchError as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"bench: {visible(line)}\n")
        sys.exit(error.exit_code)


def _terminate(number: int, _frame: FrameType | None) -> None:
    """Leaves as an exception, so that running jobs are ended on the way out."""
    sys.exit(128 + number)
