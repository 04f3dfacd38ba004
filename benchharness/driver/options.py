"""Options of a run. Each option is declared once, as a field of `RunOptions`.

Three interfaces are generated from these fields: the options of `bench run`, `which` and `check`
with their help (cli/options.py), the arguments of `run` and `which` in Python (`takes_options`),
and the arguments of the pytest marker. To add an option, add a field, the code that uses it and a
test.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from glob import glob
from inspect import Parameter, Signature, signature
from os import PathLike
from re import Match
from types import MappingProxyType
from typing import Any, Literal, ParamSpec, Self, TypeVar

from benchharness.discovery import places
from benchharness.errors import BenchError
from benchharness.leaderboard.job import Trust
from benchharness.tasks.foreign_code import begin

DATABASE = "results/leaderboard.sqlite"

WHAT = "What to run"
OWN = "Your own data"
HOW = "How to train"
WHERE = "Where to compute"
TRUST = "What to trust"
OUTPUT = "Output"


@dataclass(frozen=True, kw_only=True)
class Option:
    """Declaration of an option, with its help text and its form on the command line.

    Attributes:
        help: The help text.
        head: The heading in a command's help under which the option is listed.
        flag: The flags on the command line, separated by spaces. If it is empty, the only flag is
            `--` and the name of the field, with hyphens.
        metavar: The placeholder for the value in the help.
        least: The smallest allowed value; None if there is no limit.
        proposes: The values that shell completion proposes, or the name of a function in
            cli/completion.py that returns them. Empty if it proposes none.
        variable: The environment variable that sets the option; None if there is none.
        separated: Whether one value of a repeatable option may contain several names, separated by
            commas (see `names_in`).
    """

    help: str
    head: str = ""
    flag: str = ""
    metavar: str | None = None
    least: int | None = None
    proposes: str | tuple[str, ...] = ()
    variable: str | None = None
    separated: bool = False


def option(default: Any, text: str, **facts: Any) -> Any:
    """Declare an option as a dataclass field.

    Args:
        default: The default value; `...` if the option is required.
        text: The help text.
        **facts: Other fields of `Option`.
    """
    metadata = {"option": Option(help=text, **facts)}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


def _option(head: str, default: Any, text: str, **facts: Any) -> Any:
    return option(default, text, head=head, **facts)


Names = tuple[str, ...]
Precision = Literal["auto", "fp32", "tf32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a run as the user set them, before they are checked."""

    model: Names = _option(
        WHAT,
        (),
        "Model: a known name, a checkpoint folder, a hub name (with @REVISION), or 'DIR/step-*' "
        "for the checkpoints of one pretraining run (repeatable).",
        metavar="NAME|DIR|NAME=DIR",
        proposes="models",
        separated=True,
    )
    suite: Names = _option(
        WHAT,
        (),
        "Suite of tasks, such as glue (repeatable).",
        metavar="NAME,...",
        proposes="suites",
        separated=True,
    )
    task: Names = _option(
        WHAT,
        (),
        "Task, such as glue/cola; with --suite, one of its tasks (repeatable).",
        metavar="NAME,...",
        proposes="tasks",
        separated=True,
    )
    data: str | None = _option(
        WHAT,
        None,
        "Source of the data: the hub (default, except in `bench check`, which uses the baseline's "
        "source), a folder or archive of official files, or synthetic data (mini).",
        metavar="hub|DIR|mini",
        proposes=("hub", "mini"),
    )
    skip_missing: bool = _option(
        WHAT, False, "Skip and list tasks whose files are missing from the data folder."
    )
    limit: int | None = _option(
        WHAT, None, "Use at most N examples per split.", metavar="N", least=1
    )
    test: bool = _option(WHAT, False, "Also predict the test splits, for `bench submit`.")
    seeds: int | None = _option(
        WHAT,
        None,
        "Run every task with seeds 1 to N (default 5; 3 in `bench check`; fewer in `bench which`).",
        metavar="N",
        least=1,
    )
    seed: tuple[int, ...] = _option(
        WHAT, (), "Run every task with this seed (repeatable).", metavar="N", least=0
    )
    data_file: str | None = _option(
        OWN,
        None,
        "A file, folder or archive with your own data, whose task type is inferred: CSV, TSV, JSON "
        "lines, Parquet, Excel, CoNLL, SQuAD, or the export of an annotation tool.",
        metavar="FILE|DIR",
    )
    hf: str | None = _option(
        OWN,
        None,
        "Data set on the Hugging Face hub.",
        metavar="ORG/NAME[:CONFIG][@REVISION]",
    )
    columns: str | None = _option(
        OWN,
        None,
        "Assign columns of your data to roles, such as text=review,label=stars.",
        metavar="ROLE=COLUMN,...",
    )
    metric: Names = _option(
        OWN, (), "Metric for your own data (repeatable).", metavar="NAME|evaluate:NAME"
    )
    encoding: str | None = _option(
        OWN, None, "Character encoding of your file, if it is not UTF-8.", metavar="NAME"
    )
    no_header: bool = _option(
        OWN, False, "Treat line 1 of your table as data, not as a header; number the columns."
    )
    sheet: str | None = _option(OWN, None, "Excel sheet that has your rows.", metavar="NAME")
    recipe: str | None = _option(
        HOW,
        None,
        "Recipe of hyperparameters: paper (default), fast, checkpoints (of one pretraining run), "
        "few-rows, few-shot (for --shots), features (frozen encoder), lora, qlora, "
        "tinybert-student (for --teacher), or a TOML file.",
        metavar="paper|NAME|FILE",
        proposes="recipes",
    )
    set: Names = _option(
        HOW,
        (),
        "Override a hyperparameter; comma-separated values make a sweep (repeatable).",
        metavar="NAME=VALUE",
        proposes="settings",
    )
    shots: str = _option(
        HOW,
        "",
        "Train on N examples, different ones for each seed. Several numbers are separate runs, 0 "
        "does not train, and all uses all examples.",
        metavar="N,...",
    )
    text_to_text: bool = _option(
        HOW,
        False,
        "Turn every example into one input text and generate the answer as text, as T5 does. The "
        "model must have a decoder.",
    )
    multi_task: Names = _option(
        HOW,
        (),
        "Train one encoder on these tasks together, with one head per task (repeatable). With "
        "--start-from multi-task, this encoder is then fine-tuned on each task.",
        metavar="SUITE|TASK,...",
        proposes="multi_task",
    )
    start_from: str = _option(
        HOW,
        "paper",
        "Initial weights: paper (as the recipe specifies), pretrained, multi-task (the model of "
        "--multi-task), a task on which the model is trained first, or another checkpoint.",
        metavar="paper|pretrained|multi-task|TASK|CHECKPOINT",
        proposes="starts",
    )
    teacher: str | None = _option(
        HOW,
        None,
        "Teacher for distillation: the key of a stored run, or a model that is first trained on "
        "each task with each seed.",
        metavar="KEY|MODEL",
        proposes="models",
    )
    precision: Precision = _option(
        HOW,
        "auto",
        "Number format of matrix products. With auto, bf16 if the device supports it, else fp32.",
        metavar="auto|fp32|tf32|bf16",
    )
    halving: bool = _option(
        HOW,
        False,
        "Run the sweep by successive halving: every hyperparameter setting with one seed, then "
        "repeatedly the better half with more seeds.",
    )
    baselines: bool = _option(
        HOW,
        True,
        "Do not run the majority and bag-of-words baselines.",
        flag="--no-baselines",
    )
    device: str = _option(
        WHERE,
        "auto",
        "Device on which jobs run.",
        metavar="auto|cpu|cuda|cuda:N",
        proposes=("auto", "cpu", "cuda"),
    )
    jobs: str = _option(
        WHERE,
        "auto",
        "Number of jobs that run at once. With auto, as many as fit into memory, but at most one "
        "per CPU core, and at most 8 on the CPU or on each GPU.",
        metavar="auto|N",
    )
    processes_per_job: int = _option(
        WHERE,
        1,
        "Train each job in N processes, each on its own GPU if there are GPUs. The results are the "
        "same, and large models train faster.",
        metavar="N",
        least=1,
    )
    engine: str = _option(
        WHERE,
        "local",
        "Where jobs run: on this machine (local), on a Ray cluster, or in the queue of Slurm.",
        metavar="local|ray|slurm",
        proposes=("local", "ray", "slurm"),
    )
    address: str | None = _option(
        WHERE,
        None,
        "For --engine ray, the address of the cluster; auto finds a cluster on this machine. For "
        "--engine slurm, local runs jobs as processes on this machine instead of in the queue.",
        metavar="auto|HOST:PORT|local",
    )
    engine_options: Names = _option(
        WHERE,
        (),
        "Option of the engine: cpus, memory (in GB) or retries per job. With --engine slurm, also "
        "minutes, folder or any option of sbatch, such as partition=gpu (repeatable).",
        metavar="NAME=VALUE",
        flag="--engine-option",
    )
    timeout: float = _option(
        WHERE,
        1800,
        "Stop a job that makes no progress for this many seconds; with 0, wait forever.",
        metavar="SECONDS",
        least=0,
    )
    checkpoint_every: float = _option(
        WHERE,
        5.0,
        "Save the training state of each job at this interval, so that the same command can resume "
        "the job; 0 disables this.",
        metavar="MINUTES",
        least=0,
    )
    keep_models: bool = _option(
        WHERE, False, "Keep the trained model of every job, in models/ next to the database."
    )
    trust_remote_code: bool = _option(
        TRUST, False, "Run the Python code that comes with a checkpoint. Read this code first."
    )
    allow_pickle: bool = _option(
        TRUST,
        False,
        "Load weights from pickle files that also contain other objects. No code in these files is "
        "run.",
    )
    db: str = _option(
        OUTPUT,
        DATABASE,
        "Database of the leaderboard: a path or a SQLAlchemy URL.",
        metavar="PATH|URL",
        variable="BENCH_DB",
    )
    log: Names = _option(
        OUTPUT,
        (),
        "Log every job to this experiment tracker, which must be installed, or to a logger that a "
        "plugin defines (repeatable).",
        metavar="tensorboard|wandb|mlflow|trackio|NAME",
        proposes="trackers",
    )
    force: bool = _option(OUTPUT, False, "Run finished jobs again; the newest result counts.")
    dry_run: bool = _option(OUTPUT, False, "Show the jobs that would run, without starting them.")

    @property
    def trust(self) -> Trust:
        """Permissions that the options give to checkpoints: to run code and to load pickles."""
        return Trust(remote_code=self.trust_remote_code, pickle=self.allow_pickle)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Create options from Python values, keyed by the name of the option.

        The values may have convenient types: one name instead of a tuple of names, a path instead
        of text, a mapping instead of NAME=VALUE texts, and a list of seeds instead of their number.

        Raises:
            BenchError: A value cannot be converted to its option's type.
        """
        several = values.get("seeds")
        if isinstance(several, Iterable) and not isinstance(several, str):  # a list of seeds
            values |= {"seeds": None, "seed": tuple(several)}
            if not values["seed"]:
                values["seeds"] = 0  # raises an error later, because a run needs a seed
        types = {each.name: each.type for each in fields(cls)}
        return cls(**{name: _plain(name, types[name], each) for name, each in values.items()})


OPTIONS: Mapping[str, Option] = {each.name: each.metadata["option"] for each in fields(RunOptions)}
"""Declarations of all options of a run, keyed by field name."""

OF_WHICH = frozenset(OPTIONS) - {
    *("model", "seed", "shots", "multi_task", "teacher", "test", "skip_missing", "force"),
    *("halving", "baselines", "dry_run"),
}
OF_OWN = {name for name, each in OPTIONS.items() if each.head == OWN}
OF_CHECK = frozenset(OPTIONS) - {
    *("skip_missing", "test", "shots", "multi_task", "start_from", "teacher", "precision"),
    *("halving", "baselines", "keep_models", "db", "log", "force", "dry_run"),
}
"""Names of the options of `bench check`. OF_WHICH contains the names of the options of
`bench which`, and OF_OWN those of the options for the user's own data. `bench run` has all options.
"""

RARE = frozenset(
    {
        *("skip_missing", "seed", "metric", "encoding", "no_header", "sheet", "text_to_text"),
        *("multi_task", "start_from", "teacher", "halving", "baselines", "processes_per_job"),
        *("engine", "address", "engine_options", "timeout", "checkpoint_every"),
        *("trust_remote_code", "allow_pickle", "log"),
    }
)
"""Names of options that are shown by `--help-all` but not by `--help`."""

OF_OWN_DATA = [n for n, o in OPTIONS.items() if o.head == OWN and n not in ("data_file", "hf")]
"""Names of options that describe the user's own data, but do not name the file or data set."""


def chosen_fields(names: Collection[str] | None) -> list["Field[Any]"]:
    """Return the fields of RunOptions with these names, or all fields if `names` is None."""
    return [each for each in fields(RunOptions) if names is None or each.name in names]


def names_in(words: Iterable[str]) -> list[str]:
    """Split words at commas; return the names in order, without duplicates and empty names.

    A word that is an existing path or a pattern of existing paths, perhaps after "NAME=", is one
    name.
    """
    parts = (word.split(",") if not _is_path(word) else [word] for word in words)
    names = (name.strip() for some in parts for name in some)
    return list(dict.fromkeys(filter(None, names)))


def _is_path(word: str) -> bool:
    """Return whether PATH exists or matches files in a word of the form PATH or NAME=PATH.

    NAME has no comma: "bert,mine=DIR" is two names, although DIR exists.
    """
    before, _, _ = word.partition(",")
    starts = [0, *(at + 1 for at, letter in enumerate(before) if letter == "=")]
    paths = [os.path.expanduser(word[start:]) for start in starts]  # noqa: PTH111  (a pattern)
    return any(os.path.lexists(path) or glob(path) for path in paths)  # noqa: PTH207


# Use the options as arguments of Python functions.

Given = ParamSpec("Given")
Made = TypeVar("Made")


_SHELL = {
    "run": "bh.run",
    "which": "bh.which",
    "predict": "bh.predict",
    "compare": "bh.compare",
    "score": "bh.score",
    "leaderboard": "bh.boards",
    "show runs": "bh.runs",
    "show published": "bh.published",
}
"""Python functions that replace commands in messages to Python users, keyed by command.

Functions of extensions have the same names as their commands and are not listed here."""

_WORDS = r"(?:'[^']*'|[^\s`;)]+)"
_FOUND = re.compile(
    rf"`bench ([^`]*)`|`(?!--)[^`]*`|(?<![\w-])(\()?--([a-z][a-z\d-]*)(?: ({_WORDS}))?"
)
"""Pattern that matches a bench command in backticks, other text in backticks, or an option with the
word after it."""


def _is_value(word: str, known: Option) -> bool:
    """Return whether the word after an option in a sentence is a value of that option."""
    literal = re.split(r"[|,\[]", known.metavar or "")
    return not re.fullmatch(r"[a-z]+(-[a-z]+)*", word) or word in literal


def in_python(text: str, own: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Replace shell options and commands in a text with their form in Python.

    For example, `--suite glue` becomes `suite="glue"`. Options that are not arguments in Python,
    such as options of other commands, stay unchanged.

    Args:
        text: The text, such as an error message.
        own: The arguments of the function that was called, with their default values.
    """
    names = {name.replace("_", "-"): (name, default) for name, default in own.items()}
    names |= {"from": ("where", "")} if "where" in own else {}
    for each in fields(RunOptions):
        flag = OPTIONS[each.name].flag.removeprefix("--") or each.name.replace("_", "-")
        names.setdefault(flag, (each.name, each.default))

    def said(found: Match[str]) -> str:
        command, bracket, flag, word = found.groups()
        if command is not None:
            return (_SHELL | {name: f"bh.{name}" for name in places("calls")}).get(
                command, found[0]
            )
        if flag not in names:
            return found[0]
        name, default = names[flag]
        left, rest = f"{bracket or ''}{name}=", f" {word}" if word else ""
        if isinstance(default, bool):
            return f"{left}{not default}{rest}"
        end = re.search(r"(?<!\.)[.,:]$", word or "")
        value = (word or "")[: end.start()] if end else word or ""
        if not value or not _is_value(value, OPTIONS.get(name, Option(help=""))):
            return f"{left}{rest}"
        value = value[1:-1] if value[0] == "'" else value
        # Write placeholders such as DIR and N, and numbers, without quotes.
        plain = re.fullmatch(r"[A-Z][A-Z/|]*|\d+(\.\d+)?", value)
        shown = value if plain else json.dumps(value, ensure_ascii=False)
        return f"{left}{shown}{end[0] if end else ''}"

    return _FOUND.sub(said, text)


def speaks_python(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """Decorate a public function so that its errors name Python arguments, not shell options.

    The traceback of a BenchError ends at the line that called the function. If the user has
    permitted third-party code in an earlier call, this permission does not apply to later calls.
    """
    own = {each.name: each.default for each in signature(function).parameters.values()}

    @wraps(function)
    def called(*words: Given.args, **values: Given.kwargs) -> Made:
        __tracebackhide__ = True  # read by IPython and pytest
        begin()
        try:
            return function(*words, **values)
        except BenchError as error:
            error.args = tuple(in_python(str(sentence), own) for sentence in error.args)
            raise error.with_traceback(None) from None

    return called


def takes_options(
    names: Collection[str] | None = None,
) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Return a decorator for functions that accept options of a run as `**options`.

    The decorated function shows these options in its signature and docstring, and raises TypeError
    for an unknown argument. Its errors name Python arguments, as with `speaks_python`.

    Args:
        names: The names of the options that the function accepts; None for all options of
            `RunOptions`.
    """

    def decorate(function: Callable[..., Made]) -> Callable[..., Made]:
        whole = signature(function)
        own = [each for each in whole.parameters.values() if each.kind != Parameter.VAR_KEYWORD]
        chosen = [each for each in chosen_fields(names) if each.name not in whole.parameters]
        options = [
            Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=f.type)
            for f in chosen
        ]
        shown = Signature([*own, *options], return_annotation=whole.return_annotation)

        @wraps(function)
        def checked(*words: Any, **values: Any) -> Made:
            shown.bind(*words, **values)  # raises TypeError for an unknown argument
            return function(*words, **values)

        checked.__dict__["__signature__"] = shown
        lines = (f"{f.name}: {in_python(OPTIONS[f.name].help)}" for f in chosen)
        checked.__doc__ = "\n    ".join((f"{function.__doc__}\n    Options:", *lines))
        return speaks_python(checked)

    return decorate


def listed(words: str | Iterable[str] | None) -> Names:
    """Convert one name, several names, or None to a tuple of names.

    Raises:
        BenchError: A name is not a string.
    """
    if isinstance(words, str) or not isinstance(words, Iterable):
        words = () if words is None else (words,)
    names = tuple(words)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise BenchError(f"expected a name or a list of names, got {odd[0]!r:.80}.")
    return names


def _plain(name: str, kind: Any, value: Any) -> Any:
    """Convert the value of a Python argument to the form that the command line would give."""
    if name == "columns" and isinstance(value, Mapping):
        # {"text": ["title", "body"], "label": "stars"} becomes "text=title+body,label=stars".
        return ",".join(f"{role}={'+'.join(listed(columns))}" for role, columns in value.items())
    if name == "data" and not isinstance(value, str | PathLike | None):
        raise BenchError(
            f"data is a {type(value).__name__}, but must be the source of a benchmark's data: hub, "
            "mini or a folder. Pass your own data as data_file."
        )
    if name == "timeout":
        # In Python, None means that there is no timeout; on the command line, 0 does.
        return value or 0.0
    if kind == Names:
        if isinstance(value, Mapping):
            return tuple(f"{key}={_word(each)}" for key, each in value.items())
        return listed(value)
    if kind is str or (kind == str | None and value is not None):
        return _word(() if value is None else value)
    return value


def _word(value: object) -> str:
    """Convert a value to text; several values are joined by commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ",".join(map(_word, value))
