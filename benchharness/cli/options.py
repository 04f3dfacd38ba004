"""Options that several commands share."""

from typing import Annotated

import typer

__all__ = [
    "BASELINE",
    "DATABASE",
    "REPORT",
    "AllowPickle",
    "AsJson",
    "DataFilter",
    "Database",
    "KeepCheckpoints",
    "Out",
    "StartFrom",
    "Suites",
    "Tasks",
    "TrustRemoteCode",
]

BASELINE = "results/baseline.json"
DATABASE = "results/leaderboard.sqlite"
REPORT = "results/leaderboard.html"

Database = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="BENCH_DB",
        metavar="PATH|URL",
        help="The leaderboard's database: a path or a SQLAlchemy URL.",
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="FILE", help="The HTML report to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of text.")]
StartFrom = Annotated[
    str,
    typer.Option(
        "--start-from",
        metavar="paper|scratch|TASK|CHECKPOINT",
        help="What encoders are trained on before: what the recipe says, nothing, a task, or the "
        "task of another checkpoint, which takes the place of the model's.",
    ),
]
KeepCheckpoints = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoints",
        help="Keep the encoders that others start from when all of these are finished.",
    ),
]
Suites = Annotated[
    list[str] | None,
    typer.Option("--suite", metavar="NAME", help="A suite of tasks, such as glue; repeatable."),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="A task (glue/cola); with --suite, one of its tasks (cola); repeatable.",
    ),
]
DataFilter = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="hub|DIR|mini", help="Only boards of rows that came through this door."
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        help="Run the Python code that a checkpoint comes with: read it first.",
    ),
]
AllowPickle = Annotated[
    bool,
    typer.Option(
        "--allow-pickle",
        help="Load pickled weights, which can run code, where a checkpoint has no others.",
    ),
]
