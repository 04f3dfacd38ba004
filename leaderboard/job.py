"""A job: one fine-tuning run, described so completely that its digest identifies its result."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from benchharness.leaderboard.text import digest
from benchharness.tasks.foreign_code import Code
from benchharness.tasks.suites import distinct_title

if TYPE_CHECKING:
    from benchharness.tasks.own.task import OwnData

Kind = Literal["model", "scored", "ensemble", "zero-shot", "baseline", "imported"]
"""What makes a run: an encoder that is trained here, a file of predictions that is scored here, the
stored predictions of several runs, a language model that was not trained for a task that others are
trained on, a model without an encoder, or somebody else, who measured a number that was
imported."""

SINGLE: frozenset[Kind] = frozenset({"model", "scored"})
"""The kinds whose predictions are those of one model, wherever it was trained."""

START_FROM = "start_from"
"""The setting that names what a job's encoder was trained on before: a task, or a checkpoint."""

PRETRAINED = "pretrained"
"""The start that is the pretrained checkpoint itself, where a recipe names another one."""

TOGETHER = "together"
"""The start that is the encoder of tasks which a run trains together; a recipe's table for such."""

ZERO_SHOT = "zero-shot"
"""The recipe of a job that trains nothing; also its kind, where others train."""

TIMED = "timed"
"""The same of a job that measures speed and memory."""

MACHINE, REFERENCE = "machine", "reference"
"""The settings that name what a model is timed on, and beside what."""

METHOD = 7
"""Goes up when a change to training or prediction changes results: old ones are not reused."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One resolved hyperparameter and where its value comes from (a paper, a README, `--set`).

    `one_of` are the values of a sweep that it is one of, as they were written.
    """

    value: str | int | float | bool
    source: str
    one_of: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Setting":
        """The setting that `to_json` described. Raises TypeError where value or source is none."""
        for name, kinds in (("value", str | int | float), ("source", str)):
            if not isinstance(data[name], kinds):
                raise TypeError(f"a setting's {name} is {data[name]!r:.40}")
        return cls(**{**data, "one_of": tuple(data.get("one_of", ()))})

    def to_json(self) -> dict[str, Any]:
        """Plain data; `one_of` only of a sweep's points."""
        data = {"value": self.value, "source": self.source}
        return data | {"one_of": list(self.one_of)} if self.one_of else data


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a job's encoder was trained on before, where its recipe or its user says so.

    `kind` says what `name` is of: a task, from whose run it goes on, or a checkpoint, which takes
    the place of that of `model`; "together" that `name` lists several tasks, with commas between,
    which one run has trained together; "pretrained" says that the recipe's own line does not hold.
    """

    kind: Literal["pretrained", "task", "checkpoint", "together"]
    name: str = ""
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Where in a pretraining run a checkpoint was saved.

    `run` is the run's name, `step` the number of its optimizer steps, `tokens` how many it had seen
    (None where nothing says it), and `family` transformers' model_type, empty where unknown.
    """

    run: str
    step: int
    tokens: int | None = None
    family: str = ""


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Whose outputs a job learns from beside its labels.

    `run` is the key of the teacher's job, `model` its model, and `variant` what its rows, values
    and weights are told by: the same for teachers that differ in nothing but their seeds, or the
    beginning of `run` where one teacher is that of all seeds. `alone` is the key of the same job
    without a teacher.
    """

    run: str
    model: str
    variant: str
    alone: str


@dataclass(frozen=True, kw_only=True)
class Trust:
    """What a checkpoint may do besides being read.

    Whether code that comes with it is run, which is whatever its author wrote, and whether weights
    are taken out of pickled files that hold more than weights, of which nothing is run.
    """

    remote_code: bool = False
    pickle: bool = False

    def to_json(self) -> dict[str, bool]:
        """By the names that a stored job has."""
        return {name: getattr(self, own) for name, own in _TRUST.items()}


_TRUST = {"trust_remote_code": "remote_code", "allow_pickle": "pickle"}


class Described:
    """What people read of a job, and of the row of one."""

    recipe: str
    overridden: bool
    is_sweep: bool
    settings: Mapping[str, Setting]
    task: str
    fingerprints: Mapping[str, str]

    @property
    def recipe_label(self) -> str:
        """The recipe as people see it: "paper+set sweep"."""
        return recipe_label(self.recipe, overridden=self.overridden, is_sweep=self.is_sweep)

    @property
    def shown_recipe(self) -> str:
        """What was set, or the recipe's name where nothing was."""
        return ", ".join(word.shown for word in recipe_words(self.recipe_label, [self]))

    @cached_property
    def trained_tasks(self) -> tuple[str, ...]:
        """The tasks that it is trained on, by name: mostly one."""
        return trained_tasks(self.fingerprints) or (self.task,)

    @property
    def title(self) -> str:
        """What people call what it is trained on: "RTE", "5 tasks together"."""
        return training_title(self.trained_tasks)


@dataclass(frozen=True, kw_only=True)
class Job(Described):
    """One model, fine-tuned with one seed on one task, or on several that share its encoder.

    `model` is the name shown on a board, `checkpoint` the folder or hub id it is loaded from, and
    `weights` what identifies its content: a hub revision, or "sha256:..." of a folder's files.
    `data` is the source of its rows ("hub", "mini" or a folder), `limit` the rows kept of each
    split, and `fingerprints` the digest of every split used, by "task:split": the train split, and
    every split that is predicted, so changed data are another job. Of tasks that are trained
    together it has the train split of each, and `task` is the first of them by name. `start_from`
    is the key of the job whose encoder it goes on from, None for the checkpoint's own weights.
    `plugins` are the digests of the plugins that the task is made of, by their names.
    `trust` is what the user allowed the checkpoint to do.

    `recipe` is the name of the recipe ("paper", or the stem of a user's own file, which is
    `own_recipe`); `overridden` says that the user set some of its values otherwise, `is_sweep` that
    this is one point of several. `source` is who measured what was imported, `stage` which of
    several checkpoints of one pretraining run this is, `off` which values of the recipe the user
    switched off, `definition` what its task is made of where that was found in somebody's own data
    (its digest is part of the task's name), `documents` the digests of what sentences stand in, by
    "task:split", where the encoder reads that too; they are part of the key. `teacher` is who
    teaches it, None for nobody.
    """

    model: str
    checkpoint: str
    weights: str
    task: str
    task_version: int
    data: str
    fingerprints: Mapping[str, str]
    recipe: str
    settings: Mapping[str, Setting]
    seed: int
    precision: str
    limit: int | None = None
    start_from: str | None = None
    plugins: Mapping[str, str] = field(default_factory=dict)
    trust: Trust = field(default_factory=Trust)
    method: int = field(default=METHOD)
    kind: Kind = "model"
    own_recipe: bool = False
    overridden: bool = False
    is_sweep: bool = False
    start: Start | None = None
    source: str = ""
    stage: Stage | None = None
    off: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    definition: Mapping[str, Any] | None = None
    documents: Mapping[str, str] = field(default_factory=dict)
    teacher: Teacher | None = None

    @cached_property
    def key(self) -> str:
        """The SHA-256 (hex) of everything that can change the result, and of nothing else.

        Left out: names and paths (`model`, `checkpoint`, `data`), the recipe's name and the sources
        of its values. The same weights, rows and values are the same job wherever they lie. What it
        starts from is told by `weights` and `start_from`, not by the setting of that name.
        """
        # A field that a later version adds enters only where it is set: stored keys stay.
        identity = {
            "weights": self.weights,
            "task": [self.task, self.task_version],
            "fingerprints": dict(self.fingerprints),
            "documents": dict(self.documents),
            "settings": self.values,
            "seed": self.seed,
            "precision": self.precision,
            "start_from": self.start_from,
            "teacher": self.teacher and self.teacher.run,
            "plugins": sorted(self.plugins.values()),
            **self.trust.to_json(),
            "method": self.method,
        }
        return digest(identity)

    @property
    def values(self) -> dict[str, str | int | float | bool]:
        """The hyperparameters: the values of all settings but the one that names the start."""
        return {name: s.value for name, s in self.settings.items() if name != START_FROM}

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the jobs that it waits for: its start's and its teacher's."""
        teacher = None if self.teacher is None else self.teacher.run
        return tuple(key for key in (self.start_from, teacher) if key is not None)

    @property
    def as_text(self) -> bool:
        """Whether the rows are read as one text and answered in words."""
        return "as_text" in self.settings

    @property
    def is_zero_shot(self) -> bool:
        """Whether a model does its task as it is, and nothing is trained."""
        return self.recipe in (ZERO_SHOT, TIMED) and not self.own_recipe

    @property
    def started_from(self) -> str:
        """What it was trained on before: "glue/mnli (run 12 digits)".

        The name of a checkpoint that was given in the place of the model's; empty for none.
        """
        return self._start(self.start.name if self.start else "")

    @property
    def shown_start(self) -> str:
        """The same with the task's title: "MNLI (run 12 digits)"."""
        start = self.start
        if start is not None and start.kind == "together":
            return self._start(training_title(start.name.split(",")))
        if start is None or start.kind != "task":
            return self.started_from
        return self._start(distinct_title(start.name))

    def _start(self, name: str) -> str:
        if self.start_from is None:
            return name
        run = f"run {self.start_from[:12]}"
        return f"{name} ({run})" if name else run

    @property
    def shown_teacher(self) -> str:
        """Who teaches it: "bert-large (run 12 digits)"; empty for nobody."""
        teacher = self.teacher
        return "" if teacher is None else f"{teacher.model} (run {teacher.run[:12]})"

    @property
    def curve_split(self) -> str:
        """What the scores of its learning curve are of: dev, or a part of train, "held-out"."""
        return "held-out" if "select_on" in self.settings else "dev"

    @property
    def predicted_splits(self) -> tuple[tuple[str, str], ...]:
        """The (task, split) pairs that the fine-tuned model predicts."""
        pairs = (name.rsplit(":", 1) for name in self.fingerprints)
        return tuple((task, split) for task, split in pairs if split != "train")

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` turns back into an equal job."""
        # Field by field: `asdict` takes ten times as long, which an import of many rows would pay.
        data = {name: _plain(value) for name, value in vars(self).items() if name in _FIELDS}
        settings = {name: s.to_json() for name, s in self.settings.items()}
        return data | {"settings": settings, **self.trust.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Job":
        """The job that `to_json` described; TypeError where it is of something else."""
        data = dict(data)
        trust = {own: data.pop(name, False) for name, own in _TRUST.items()}
        if not all(isinstance(allowed, bool) for allowed in trust.values()):
            raise TypeError(f"what its checkpoint may do is {trust!r:.80}")
        parts = {name: data.get(name) for name in _PARTS}
        known = {
            name: None if part is None else _PARTS[name](**part) for name, part in parts.items()
        }
        settings = {name: Setting.from_json(setting) for name, setting in data["settings"].items()}
        job = cls(**{**data, **known, "settings": settings, "trust": Trust(**trust)})
        for name, kind in _PLAIN_TYPES.items():
            if not isinstance(value := getattr(job, name), kind):
                raise TypeError(f"its {name} is {value!r:.40}")
        if not isinstance(job.definition, dict | None):
            raise TypeError("the definition of its task is not an object")
        if not all(isinstance(each, dict) for each in (job.fingerprints, job.off, job.documents)):
            raise TypeError("its fingerprints, its documents, or what is off, are not an object")
        texts = (*job.fingerprints.values(), *job.documents.values())
        texts += () if job.teacher is None else tuple(vars(job.teacher).values())
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(
                "one of its fingerprints, or of what it says of its teacher, is no text"
            )
        if job.kind not in get_args(Kind):
            raise TypeError(f"its kind is {job.kind!r}")
        return job


def recipe_digest(job: Job) -> str:
    """Twelve hex digits of the values of a job's settings: two recipes of one name differ here.

    Of tasks that are trained together their names are among the values.
    """
    together = job.trained_tasks if len(job.trained_tasks) > 1 else ()
    return digest([job.values, together] if together else job.values)[:12]


_FIELDS = frozenset(each.name for each in fields(Job)) - {"trust"}  # stored as two of its own
_PARTS = {"start": Start, "stage": Stage, "teacher": Teacher}
"""The fields that are objects of their own, or None."""

_PLAIN_TYPES: Mapping[str, Any] = {
    each.name: each.type
    for each in fields(Job)
    if each.type in (str, int, bool, int | None, str | None)
}


def _plain(value: Any) -> Any:
    if isinstance(value, Start | Stage | Teacher):
        return dict(vars(value))
    return dict(value) if isinstance(value, Mapping) else value


def define_task(definition: Mapping[str, Any] | None) -> None:
    """Puts the task that a job carries into the tables of tasks; nothing where it carries none."""
    if definition:
        from benchharness.tasks.own.task import define  # noqa: PLC0415  (few jobs have one)

        define(definition)


def own_data(definition: Mapping[str, Any] | None) -> "OwnData | None":
    """The definition of a task of own data, which a job carries; a task of ours needs none."""
    if not definition:
        return None
    from benchharness.tasks.own.task import OwnData  # noqa: PLC0415  (few jobs have one)

    return OwnData.from_json(definition)


def code_of(definition: Mapping[str, Any] | None) -> list[Code]:
    """The code that the task which a job carries has for metrics; mostly none."""
    own = own_data(definition)
    return own.code if own else []


def trained_tasks(splits: Iterable[str]) -> tuple[str, ...]:
    """The tasks that have a train split among these "task:split", by name."""
    return tuple(sorted(n.removesuffix(":train") for n in splits if n.endswith(":train")))


def training_title(tasks: Sequence[str]) -> str:
    """What people call a training on these tasks: "RTE", "5 tasks together"."""
    return distinct_title(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks together"


# What was set, in words: a row of a board is called by them.

SET = "--set"
"""The source of a value that the user has set."""

PAPER = "paper"
"""The recipe that a name need not say."""

FEATURES_SETTING = "features"
"""The setting that says which layers of a frozen encoder are read, and our recipe that reads one
after the other."""

_READ = (FEATURES_SETTING, "context")
"""Settings that say what is read: a row is called by them, whoever has set them."""

_SHORT = {"learning_rate": "lr", "batch_size": "batch"}
"""What papers call a setting where they are short of room."""

_UNQUOTED = re.compile(r"[^\w@%+=,./-]", re.ASCII)
"""What a shell would take for something else, and the colon between the parts of a name."""

_COUNTS = ("epochs", "shots")
"""Settings that are named after what they count."""

_SMALL = 0.01
"""Numbers below it are written as powers of ten."""


class Word(NamedTuple):
    """A part of a row's name: as people read it, "lr 3e-4", and as they type it, "lr=3e-4"."""

    shown: str
    typed: str


def recipe_words(label: str, jobs: Iterable[Described]) -> tuple[Word, ...]:
    """What was set in jobs of one recipe; its `label` where nothing was, or nobody knows what.

    Values of which the jobs have several are joined, "lr 2e-5/3e-5"; of a sweep they are what was
    tried.
    """
    known, chosen = list(jobs), set[str]()
    found: dict[str, dict[str | float, None]] = {}
    for job in known:
        for name, setting in job.settings.items():
            found.setdefault(name, {})[setting.value] = None
            if setting.source == SET:
                chosen.add(name)
    swept = [name for name in found if known[0].is_sweep and len(found[name]) > 1]
    values = {name: found[name] for name in found if name in (*chosen, *swept, *_READ)}
    recipe = known[0].recipe
    words = [] if recipe == PAPER else [Word(recipe, unquoted(recipe))]
    if recipe == FEATURES_SETTING:  # which the values say better
        words = [] if FEATURES_SETTING in values else [Word("fine-tuned", "features=fine-tuned")]
    elif not values:
        return (Word(label, unquoted(label)),)
    if swept:
        names = [_SHORT.get(name, name) for name in swept]
        shown = " and ".join(name.replace("_", " ") for name in names)
        words.append(Word(f"sweep of {shown}", f"sweep={'+'.join(names)}"))
    return (*words, *(setting_word(name, values[name]) for name in values if name not in swept))


def setting_word(name: str, values: Iterable[str | float]) -> Word:
    """A setting with its value or values: "lr 3e-4", "3 epochs", "no best checkpoint"."""
    found = list(values)
    short, text = _SHORT.get(name, name), "/".join(map(value_text, sorted(found, key=_order)))
    typed, said = f"{short}={unquoted(text)}", short.replace("_", " ")
    if name in _COUNTS:
        return Word(f"{text} {name}" if text != "1" else f"1 {name[:-1]}", typed)
    if len(found) == 1 and isinstance(found[0], bool):
        return Word(said if found[0] else f"no {said}", typed)
    return Word(f"{said} {text}", typed)


def _order(value: str | float) -> tuple[bool, float, str]:
    return isinstance(value, str), 0.0 if isinstance(value, str) else value, str(value)


def value_text(value: str | float) -> str:
    """A value as papers write it: "3e-4", "0.1", "32", "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if math.isfinite(value) and 0 < abs(value) < _SMALL:
        digits, _, power = f"{value:.9e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:.10g}"


def is_setting(word: str, settings: Mapping[str, Setting]) -> bool:
    """Whether "lr=3e-4" is so; the name may be short or whole, and the value written otherwise."""
    given, _, text = word.partition("=")
    name = next((name for name, short in _SHORT.items() if short == given), given)
    if name not in settings:
        return False
    value = settings[name].value
    try:
        return float(text) == value
    except ValueError:
        return text.lower() in (value_text(value), unquoted(value_text(value)))


def unquoted(name: str) -> str:
    """The name as a shell takes it without quotes: what it would read otherwise is "_"."""
    return _UNQUOTED.sub("_", name)


def recipe_label(recipe: str, *, overridden: bool, is_sweep: bool) -> str:
    """A recipe as people see it: "paper", "paper+set", "paper+set sweep". Nothing reads it back."""
    return recipe + ("+set" if overridden else "") + (" sweep" if is_sweep else "")
