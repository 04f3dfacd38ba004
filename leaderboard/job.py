"""Job: one fine-tuning run, described so completely that its digest identifies its result."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from benchharness.leaderboard.text import digest
from benchharness.tasks.suites import distinct_title

Kind = Literal["model", "scored", "ensemble", "zero-shot", "baseline", "imported"]
"""Origin of a run: "model" is an encoder that is trained here, "scored" a file of predictions that
is scored here, "ensemble" combines the stored predictions of several runs, "zero-shot" is a
language model that was not trained on a task on which others are trained, "baseline" is a model
without an encoder, and "imported" a number that was measured elsewhere.
"""

SINGLE: frozenset[Kind] = frozenset({"model", "scored"})
"""Kinds whose predictions come from one model, wherever it was trained."""

START_FROM = "start_from"
"""Setting that names the previous training of a job's encoder: a task, or a checkpoint."""

PRETRAINED = "pretrained"
"""Start that is the pretrained checkpoint itself, if the recipe names another one."""

TOGETHER = "together"
"""Start that is an encoder which one run trains on several tasks; also a recipe's table for such
tasks.
"""

ZERO_SHOT = "zero-shot"
"""Recipe of a job that trains nothing; also the kind of such a job if others train on its task."""

TIMED = "timed"
"""Recipe of a job that trains nothing and measures speed and memory."""

MACHINE, REFERENCE = "machine", "reference"
"""Settings with the machine on which a model is timed, and the reference model that is timed with
it.
"""

METHOD = 7
"""Version of training and prediction; raised when a change alters results, so that old results are
not reused.
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Value of a hyperparameter and its source (a paper, a README, `--set`).

    `one_of` has the values of a sweep, as they were written, of which this is one.
    """

    value: str | int | float | bool
    source: str
    one_of: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Setting":
        """Create a setting from `to_json` data; raise TypeError for a wrong type."""
        for name, kinds in (("value", str | int | float), ("source", str)):
            if not isinstance(data[name], kinds):
                raise TypeError(f"a setting's {name} is {data[name]!r:.40}")
        return cls(**{**data, "one_of": tuple(data.get("one_of", ()))})

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `one_of` is included only for a point of a sweep."""
        data = {"value": self.value, "source": self.source}
        return data | {"one_of": list(self.one_of)} if self.one_of else data


_DEFAULT = "ours:"
"""Prefix of the source of a value that benchharness chose, as recipes and stored runs have it."""


def shown_source(source: str) -> str:
    """Return the source of a setting as tables show it: "benchharness default: why"."""
    reason = source.removeprefix(_DEFAULT)
    return source if reason == source else f"benchharness default:{reason}"


@dataclass(frozen=True, kw_only=True)
class Start:
    """Previous training of a job's encoder, if its recipe or its user names one.

    Attributes:
        kind: "task" continues from the run of the task `name`; "checkpoint" loads the checkpoint
            `name` instead of the one of `model`; "together" continues from one run of several
            tasks; "pretrained" ignores the start in the recipe.
        name: Task, checkpoint, or several tasks separated by commas.
        model: Name of the model that the checkpoint replaces.
    """

    kind: Literal["pretrained", "task", "checkpoint", "together"]
    name: str = ""
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Position of a checkpoint in a pretraining run.

    Attributes:
        run: Name of the pretraining run.
        step: Number of optimizer steps before the checkpoint.
        tokens: Number of tokens seen before it; None if unknown.
        family: transformers' model_type; empty if unknown.
    """

    run: str
    step: int
    tokens: int | None = None
    family: str = ""


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Teacher whose outputs a job learns in addition to its labels (distillation).

    Attributes:
        run: Key of the teacher's job.
        model: Model of that job.
        variant: Digits that are equal for teachers which differ only in their seeds; the beginning
            of `run` if one teacher teaches all seeds.
        alone: Key of the same job without a teacher.
    """

    run: str
    model: str
    variant: str
    alone: str


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Permissions of a checkpoint beyond being read.

    Attributes:
        remote_code: Code that comes with the checkpoint may be run.
        pickle: Weights may be read from pickle files that contain more than weights. Nothing in
            them is executed.
    """

    remote_code: bool = False
    pickle: bool = False

    def to_json(self) -> dict[str, bool]:
        """Return the permissions by their names in a stored job."""
        return {name: getattr(self, own) for name, own in _TRUST.items()}


_TRUST = {"trust_remote_code": "remote_code", "allow_pickle": "pickle"}


class Described:
    """Base of a job and of its row in lists, with the labels that people see."""

    recipe: str
    overridden: bool
    is_sweep: bool
    settings: Mapping[str, Setting]
    task: str
    fingerprints: Mapping[str, str]

    @property
    def recipe_label(self) -> str:
        """Recipe as people see it: "paper+set sweep"."""
        return recipe_label(self.recipe, overridden=self.overridden, is_sweep=self.is_sweep)

    @property
    def shown_recipe(self) -> str:
        """Values that were set, or the name of the recipe if there are none."""
        return ", ".join(word.shown for word in recipe_words(self.recipe_label, [self]))

    @cached_property
    def trained_tasks(self) -> tuple[str, ...]:
        """Names of the tasks that the model is trained on, mostly one."""
        return trained_tasks(self.fingerprints) or (self.task,)

    @property
    def title(self) -> str:
        """Title of the tasks that the model is trained on: "RTE", "5 tasks together"."""
        return training_title(self.trained_tasks)


@dataclass(frozen=True, kw_only=True)
class Job(Described):
    """Fine-tuning of one model with one seed on one task, or on several that share its encoder.

    Attributes:
        model: Name of the model on boards.
        checkpoint: Folder or hub id from which the model is loaded.
        weights: Identity of the checkpoint's content: a hub revision, or "sha256:..." of the files.
        task: Name of the task; for tasks that are trained together the alphabetically first.
        task_version: Version of the task.
        data: Source of the rows: "hub", "mini" or a folder.
        fingerprints: Digest by "task:split" of each split used, so that changed data are another
            job: the train split (of each task that is trained together), and every split that is
            predicted.
        recipe: Name of the recipe: "paper", or the stem of a user's own file.
        settings: Hyperparameters.
        seed: Random seed.
        precision: Precision of the computation.
        limit: Number of rows kept of each split; None keeps all.
        start_from: Key of the job from whose encoder it continues; None for the checkpoint's
            weights.
        plugins: Digests of the plugins that the task consists of, by their names.
        trust: Permissions that the user gave to the checkpoint.
        method: Version of training and prediction (`METHOD`).
        kind: Origin of the run.
        own_recipe: True if the recipe is a user's own file.
        overridden: True if the user changed some values of the recipe.
        is_sweep: True if the job is one point of a sweep.
        start: Previous training of the encoder, as the recipe or the user names it.
        source: Person or publication that measured an imported number.
        stage: Position of the checkpoint in its pretraining run, if several checkpoints are
            evaluated.
        off: Values of the recipe that the user switched off.
        definition: All that a custom task consists of; its digest is part of the task's name.
        documents: Digests, by "task:split", of the documents around sentences, if the encoder reads
            them too. They are part of the key.
        teacher: Teacher of the job, or None.
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
        """SHA-256 (hex) of everything that can change the result, and of nothing else.

        Names and paths (`model`, `checkpoint`, `data`), the recipe's name and the sources of its
        values are left out: the same weights, rows and values are the same job wherever they are
        stored. The start enters by `weights` and `start_from`, not by the setting of that name.
        """
        # A field that a later version adds must enter only if it is set, so that stored keys stay.
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
        """Hyperparameters: the values of all settings except the one that names the start."""
        return {name: s.value for name, s in self.settings.items() if name != START_FROM}

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of the jobs that must finish first: the start's and the teacher's."""
        teacher = None if self.teacher is None else self.teacher.run
        return tuple(key for key in (self.start_from, teacher) if key is not None)

    @property
    def as_text(self) -> bool:
        """True if the task is trained in the text-to-text format."""
        return "as_text" in self.settings

    @property
    def is_zero_shot(self) -> bool:
        """True if the model is used as it is and nothing is trained."""
        return self.recipe in (ZERO_SHOT, TIMED) and not self.own_recipe

    @property
    def started_from(self) -> str:
        """Previous training: "glue/mnli (run 12 digits)", or a checkpoint; empty for none."""
        return self._start(self.start.name if self.start else "")

    @property
    def shown_start(self) -> str:
        """Previous training with the task's title: "MNLI (run 12 digits)"; empty for none."""
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
        """Teacher: "bert-large (run 12 digits)"; empty for none."""
        teacher = self.teacher
        return "" if teacher is None else f"{teacher.model} (run {teacher.run[:12]})"

    @property
    def curve_split(self) -> str:
        """Split of the scores of the learning curve: "dev", or "held-out" for a part of train."""
        return "held-out" if "select_on" in self.settings else "dev"

    @property
    def predicted_splits(self) -> tuple[tuple[str, str], ...]:
        """(task, split) pairs that the fine-tuned model predicts."""
        pairs = (name.rsplit(":", 1) for name in self.fingerprints)
        return tuple((task, split) for task, split in pairs if split != "train")

    def to_json(self) -> dict[str, Any]:
        """Return plain data that `from_json` turns back into an equal job."""
        # Field by field, because `asdict` takes ten times as long, which slows large imports down.
        data = {name: _plain(value) for name, value in vars(self).items() if name in _FIELDS}
        settings = {name: s.to_json() for name, s in self.settings.items()}
        return data | {"settings": settings, **self.trust.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Job":
        """Create the job that `to_json` described; raise TypeError for a wrong type."""
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
    """Return twelve hex digits of a job's values, which distinguish two recipes of one name.

    If several tasks are trained together, their names enter too.
    """
    together = job.trained_tasks if len(job.trained_tasks) > 1 else ()
    return digest([job.values, together] if together else job.values)[:12]


_FIELDS = frozenset(each.name for each in fields(Job)) - {"trust"}  # stored as two fields
_PARTS = {"start": Start, "stage": Stage, "teacher": Teacher}
"""Fields whose value is an object of its own class, or None."""

_PLAIN_TYPES: Mapping[str, Any] = {
    each.name: each.type
    for each in fields(Job)
    if each.type in (str, int, bool, int | None, str | None)
}


def _plain(value: Any) -> Any:
    if isinstance(value, Start | Stage | Teacher):
        return dict(vars(value))
    return dict(value) if isinstance(value, Mapping) else value


def trained_tasks(splits: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of the tasks that have a train split among these "task:split"."""
    return tuple(sorted(n.removesuffix(":train") for n in splits if n.endswith(":train")))


def training_title(tasks: Sequence[str]) -> str:
    """Return the title of a training on these tasks: "RTE", "5 tasks together"."""
    return distinct_title(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks together"


# Names of board rows: the values that were set, in words.

SET = "--set"
"""Source of a value that the user set."""

PAPER = "paper"
"""Recipe that is left out of a row's name."""

FEATURES_SETTING = "features"
"""Setting that selects which layers of a frozen encoder are read; also benchharness's recipe that
reads one layer after the other.
"""

_READ = (FEATURES_SETTING, "context")
"""Settings about the input: a row's name always contains them, whoever set them."""

_SHORT = {"learning_rate": "lr", "batch_size": "batch"}
"""Abbreviations of settings in papers."""

_UNQUOTED = re.compile(r"[^\w@%+=,./-]", re.ASCII)
"""Pattern of characters that a shell interprets, and of the colon, which separates parts of a name.
"""

_COUNTS = ("epochs", "shots")
"""Settings that are named after what they count: "3 epochs"."""

_SMALL = 0.01
"""Number below which values are written with an exponent."""


class Word(NamedTuple):
    """Part of a row's name: as people read it ("lr 3e-4"), and as they type it ("lr=3e-4")."""

    shown: str
    typed: str


def recipe_words(label: str, jobs: Iterable[Described]) -> tuple[Word, ...]:
    """Return the values that were set in jobs of one recipe, or `label` if none are known.

    Several values of a setting are joined ("lr 2e-5/3e-5"); for a sweep only the names of the swept
    settings are given.
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
    if recipe == FEATURES_SETTING:  # the values describe it better
        words = [] if FEATURES_SETTING in values else [Word("fine-tuned", "features=fine-tuned")]
    elif not values:
        return (Word(label, unquoted(label)),)
    if swept:
        names = [_SHORT.get(name, name) for name in swept]
        shown = " and ".join(name.replace("_", " ") for name in names)
        words.append(Word(f"sweep of {shown}", f"sweep={'+'.join(names)}"))
    return (*words, *(setting_word(name, values[name]) for name in values if name not in swept))


def setting_word(name: str, values: Iterable[str | float]) -> Word:
    """Return the name of a setting with its values: "lr 3e-4", "3 epochs", "no best checkpoint"."""
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
    """Return a value as papers write it: "3e-4", "0.1", "32", "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if math.isfinite(value) and 0 < abs(value) < _SMALL:
        digits, _, power = f"{value:.9e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:.10g}"


def is_setting(word: str, settings: Mapping[str, Setting]) -> bool:
    """Return whether "lr=3e-4" is true of the settings.

    The name may be abbreviated, and the value may be written differently.
    """
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
    """Replace with "_" the characters of a name that a shell would interpret."""
    return _UNQUOTED.sub("_", name)


def recipe_label(recipe: str, *, overridden: bool, is_sweep: bool) -> str:
    """Return a recipe as people see it: "paper", "paper+set sweep". It is never parsed."""
    return recipe + ("+set" if overridden else "") + (" sweep" if is_sweep else "")
