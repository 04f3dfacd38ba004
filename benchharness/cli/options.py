"""The options of `bench run`, and those that several commands share."""

import os
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from benchharness.plugins import load_plugins
from benchharness.tasks.errors import shown_place

BASELINE = "results/baseline.json"
DATABASE = "results/leaderboard.sqlite"
REPORT = "results/leaderboard.html"
CHECKPOINT_MINUTES = 5.0


def completed_by(name: str) -> Callable[[typer.Context, str], Any]:
    """What a shell proposes: by one of the functions in cli/completion.py, imported when asked."""

    def complete(ctx: typer.Context, incomplete: str) -> Any:
        return import_module("benchharness.cli.completion").complete(name, ctx, incomplete)

    return complete


def one_of(*words: str) -> Callable[[str], list[str]]:
    """What a shell proposes for an option that takes a few words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


Database = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="BENCH_DB",
        metavar="PATH|URL",
        help="The leaderboard's database: a path or a SQLAlchemy URL.",
    ),
]


def in_this_database(db: str) -> list[str]:
    """The words that a command needs to be about the same database; none where it is anyway.

    An URL has no password in them: what is printed goes into logs, and libpq has other ways.
    """
    return [] if db == (os.environ.get("BENCH_DB") or DATABASE) else ["--db", shown_place(db)]


Out = Annotated[str, typer.Option("--out", metavar="FILE", help="The HTML report to write.")]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="tensorboard|wandb|mlflow|trackio|NAME",
        help="Log every job to this tracker, which needs the extra of the same name, or to a "
        "plugin's; repeatable.",
        autocompletion=completed_by("trackers"),
    ),
]
ShowPaths = Annotated[
    bool,
    typer.Option(
        "--show-paths",
        help="Show whole paths of this machine; else a path is its last part and six digits.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of text.")]
StartFrom = Annotated[
    str,
    typer.Option(
        "--start-from",
        metavar="paper|pretrained|together|TASK|CHECKPOINT",
        autocompletion=completed_by("starts"),
        help="What encoders are trained on before: what the recipe says, nothing, the tasks of "
        "--together, a task, or the task of another checkpoint, which takes the place of the "
        "model's.",
    ),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        "--teacher",
        metavar="KEY|MODEL",
        autocompletion=completed_by("models"),
        help="Whom the models learn from beside the labels: a stored run by its key, or a model, "
        "whose own run of each task and seed comes before.",
    ),
]
Together = Annotated[
    list[str] | None,
    typer.Option(
        "--together",
        metavar="SUITE|TASK,...",
        autocompletion=completed_by("together"),
        help="Train these tasks in one encoder with a head for each; repeatable. With "
        "--start-from together, fine-tune on each task from there.",
    ),
]
CheckpointEvery = Annotated[
    float,
    typer.Option(
        "--checkpoint-every",
        min=0,
        metavar="MINUTES",
        help="How often a job saves its state, from which the same command resumes; 0 saves none.",
    ),
]
KeepCheckpoints = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoints",
        help="Keep what other jobs start or learn from after those have finished.",
    ),
]
Suites = Annotated[
    list[str] | None,
    typer.Option(
        "--suite",
        metavar="NAME",
        help="A suite of tasks, such as glue; repeatable.",
        autocompletion=completed_by("suites"),
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        metavar="NAME",
        help="A task (glue/cola); with --suite, one of its tasks (cola); repeatable.",
        autocompletion=completed_by("tasks"),
    ),
]
Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="hub|DIR|mini",
        help="Where the rows come from: the hub, a folder or an archive of official files, or the "
        "packaged data.",
        autocompletion=one_of("hub", "mini"),
    ),
]
DataFile = Annotated[
    str | None,
    typer.Option(
        "--data-file",
        metavar="FILE|DIR",
        help="Rows of your own, whose task is found: CSV, TSV, JSON lines, Parquet, Excel, CoNLL's "
        "columns, SQuAD's JSON, an annotation tool's export, or a folder or archive of them.",
    ),
]
HubData = Annotated[
    str | None,
    typer.Option(
        "--hf",
        metavar="ORG/NAME[:CONFIG][@REVISION]",
        help="A data set of the hub, whose task is found.",
    ),
]
ColumnRoles = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="ROLE=COLUMN,...",
        help="What the columns of your own rows are, such as text=review,label=stars.",
    ),
]
OwnMetrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME|evaluate:NAME",
        help="What counts on your own rows; repeatable.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="What your own file is written in, if odd."),
]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="Line 1 of your own table is a row: columns are numbered."),
]
DataFilter = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="hub|DIR|mini",
        help="Only boards of rows from this source.",
        autocompletion=one_of("hub", "mini"),
    ),
]
NoTexts = Annotated[
    bool,
    typer.Option(
        "--no-texts",
        help="Write no words of the data, whose licence may not allow passing them on.",
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
Seed = Annotated[
    list[int] | None,
    typer.Option("--seed", min=0, metavar="N", help="One seed to run; repeatable."),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="paper (the default), fast, checkpoints (for many of one pretraining run), few-shot "
        "(for --shots), features (BERT's table of layers), tinybert-student (with --teacher), or a "
        "TOML file of hyperparameters.",
        autocompletion=completed_by("recipes"),
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Override a value of the recipe, by several with commas (a sweep); repeatable.",
        autocompletion=completed_by("settings"),
    ),
]
As = Annotated[
    Literal["text"] | None,
    typer.Option(
        "--as",
        metavar="text",
        help="Have every row read as one text and answered in words, as T5 does; for encoders with "
        "a decoder.",
        autocompletion=one_of("text"),
    ),
]


def as_settings(cast: str | None) -> list[str]:
    """What `--as text` sets."""
    return [] if cast is None else ["as_text=true"]


Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="N", help="Keep at most N rows of each split."),
]
Precision = Annotated[
    Literal["auto", "fp32", "tf32", "bf16"],
    typer.Option(
        "--precision",
        metavar="auto|fp32|tf32|bf16",
        help="Number format of matrix products; auto picks the faster.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda|cuda:N",
        help="Where to compute.",
        autocompletion=one_of("auto", "cpu", "cuda"),
    ),
]
Jobs = Annotated[
    str,
    typer.Option(
        "--jobs",
        metavar="auto|N",
        help="How many jobs run at once; auto is as many as fill each GPU, by its measured load "
        "and free memory, or one per core as far as there are jobs and memory, at most 8.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray|slurm",
        autocompletion=one_of("local", "ray", "slurm"),
        help="What runs the jobs: this machine, a Ray cluster, or Slurm's queue.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="auto|HOST:PORT|local",
        help="With --engine ray: the cluster, auto for the one that this machine belongs to. With "
        "--engine slurm: local, for processes on this machine instead of the queue.",
    ),
]
EngineOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--engine-option",
        metavar="NAME=VALUE",
        help="cpus, memory (GB) and retries of each job on a cluster; minutes, folder and any "
        "option of sbatch (partition=gpu) with --engine slurm; repeatable.",
    ),
]
ProcessesPerJob = Annotated[
    int,
    typer.Option(
        "--processes-per-job",
        min=1,
        metavar="N",
        help="Train each job in N processes, on one GPU each if there are any. The result is the "
        "same, and comes sooner where the model is slow on one.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="End a job that shows no progress for this long; 0 waits forever.",
    ),
]


Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        envvar="BENCH_PLUGINS",
        help="Add a file's models, tasks and metrics; repeatable.",
    ),
]


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option, `--plugin`, for commands that look up models and tasks.

    Installed plugins are loaded too, before the command begins.
    """

    @wraps(command)
    def load_first(*words: Any, plugin: list[Path] | None = None, **options: Any) -> None:
        load_plugins(plugin or ())
        command(*words, **options)

    # Typer reads a command's options from these two.
    parameters = signature(command).parameters.values()
    option = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    load_first.__dict__["__signature__"] = signature(command).replace(
        parameters=[*parameters, option]
    )
    load_first.__annotations__ = {**command.__annotations__, "plugin": Plugins}
    return load_first
