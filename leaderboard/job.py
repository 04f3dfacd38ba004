"""Complete description of one run, e.g. of fine-tuning; its digest identifies the result."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from benchharness.leaderboard.text import digest
from benchharness.tasks.suites import distinct_title

Kind = Literal["model", "scored", "ensemble", "zero-shot", "baseline", "imported"]
"""Origin of a run: "model" is an encoder that was fine-tuned here, "scored" is a prediction file
that was scored here, "ensemble" combines the stored predictions of several runs, "zero-shot" is a
language model that was evaluated without training on a task for which other models are fine-tuned,
"baseline" is a model without an encoder, and "imported" is a score that was measured elsewhere.
"""

SINGLE: frozenset[Kind] = frozenset({"model", "scored"})
"""Kinds of runs whose predictions come from a single model that was trained, here or elsewhere."""

START_FROM = "start_from"
"""Name of the setting that selects the weights with which an encoder starts: those of a checkpoint,
or those of the encoder that was fine-tuned on another task.
"""

PRETRAINED = "pretrained"
"""Value of the setting `start_from`: start with the pretrained checkpoint, even if the recipe
specifies another start.
"""

TOGETHER = "together"
"""Value of the setting `start_from`: start with the encoder of a multi-task run. It is also the
name of the TOML table that configures multi-task training in a recipe.
"""

TEACHER = "teacher"
"""Word for distillation in `Facts.needs`, in lists of a job's techniques, and in `Extension`."""

ZERO_SHOT = "zero-shot"
"""Name of the recipe of a job that evaluates a model without training. It is also the kind of such
a job, unless its task is never trained.
"""

TIMED = "timed"
"""Name of the recipe of a job that measures speed and memory without training."""

MACHINE, REFERENCE = "machine", "reference"
"""Names of two settings of a job that measures speed: the machine, and the model that is timed for
comparison."""

METHOD = 7
"""Version of the code for training and prediction. It is increased when a change alters results, so
that old results are not reused.
"""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Value of a hyperparameter with its source.

    Attributes:
        value: Value of the hyperparameter.
        source: Where the value comes from, e.g. a paper, a README or the option `--set`.
        one_of: All values that a sweep tries, as the user wrote them; empty if no sweep varies the
            hyperparameter.
    """

    value: str | int | float | bool
    source: str
    one_of: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Setting":
        """Create a setting from the output of `to_json`.

        Raises TypeError if the value or the source has a wrong type.
        """
        for name, kinds in (("value", str | int | float), ("source", str)):
            if not isinstance(data[name], kinds):
                raise TypeError(f"a setting's {name} has the wrong type: {data[name]!r:.40}")
        return cls(**{**data, "one_of": tuple(data.get("one_of", ()))})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dict of JSON data; `one_of` is left out if it is empty."""
        data = {"value": self.value, "source": self.source}
        return data | {"one_of": list(self.one_of)} if self.one_of else data


_DEFAULT = "ours:"
"""Prefix that marks benchharness's own defaults in the source of a setting."""


def shown_source(source: str, one_of: Iterable[str] = ()) -> str:
    """Return the text that tables show for the source of a setting.

    The prefix "ours:", which marks benchharness's own defaults, becomes "benchharness default:".

    Args:
        source: Source of the setting.
        one_of: All values that a sweep tries; empty if no sweep varies the hyperparameter.
    """
    reason = source.removeprefix(_DEFAULT)
    shown = source if reason == source else f"benchharness default:{reason}"
    if tried := ", ".join(map(str, one_of)):
        # `bench which` tries several learning rates as if the user had set them.
        return f"one of {tried} ({f'{SET} or `bench which`' if source == SET else shown})"
    return shown


@dataclass(frozen=True, kw_only=True)
class Start:
    """Starting point of a job's encoder, if the recipe or the user specifies one.

    Attributes:
        kind: "task": start with the encoder of the run on the task `name`. "checkpoint": load the
            checkpoint `name` instead of the checkpoint of `model`. "together": start with the
            encoder of a multi-task run. "pretrained": ignore the start that the recipe specifies.
        name: Name of the task or checkpoint; for "together", the names of the tasks separated by
            commas; empty for "pretrained".
        model: If `kind` is "checkpoint", name of the model whose checkpoint is replaced.
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
        tokens: Number of training tokens before the checkpoint; None if unknown.
        family: Family of the model, i.e. `model_type` in transformers; empty if unknown.
    """

    run: str
    step: int
    tokens: int | None = None
    family: str = ""


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Teacher model, whose outputs a job learns in addition to the labels (distillation).

    Attributes:
        run: Key of the teacher's job.
        model: Name of the teacher's model.
        variant: Hex digits that identify the teacher for leaderboards. If each seed of the student
            has its own teacher, the digits are equal for teachers that differ only in their seed.
            If all seeds have the same teacher, the digits are the first ones of `run`.
        alone: Key of the job that trains the same student without a teacher.
    """

    run: str
    model: str
    variant: str
    alone: str


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Permissions that the user grants to a checkpoint.

    Attributes:
        remote_code: True if code that comes with the checkpoint may be run.
        pickle: True if weights may be read from pickle files that contain other objects too.
            Nothing in these files is executed.
    """

    remote_code: bool = False
    pickle: bool = False

    def to_json(self) -> dict[str, bool]:
        """Return the permissions as JSON data, keyed by their names in the JSON data of a job."""
        return {name: getattr(self, own) for name, own in _TRUST.items()}


_TRUST = {"trust_remote_code": "remote_code", "allow_pickle": "pickle"}


class Described:
    """Base class of Job and RunRow, with labels of the recipe and the task for users."""

    recipe: str
    overridden: bool
    is_sweep: bool
    settings: Mapping[str, Setting]
    task: str
    fingerprints: Mapping[str, str]

    @property
    def recipe_label(self) -> str:
        """Label of the recipe for users, e.g. "paper+set sweep".

        "+set" means that the user changed settings, and "sweep" that several values were tried.
        """
        return recipe_label(self.recipe, overridden=self.overridden, is_sweep=self.is_sweep)

    @property
    def shown_recipe(self) -> str:
        """Description of the recipe as in the name of a leaderboard entry, e.g. "lr 3e-4".

        It consists of the texts that `recipe_words` returns, joined by ", ".
        """
        return ", ".join(word.shown for word in recipe_words(self.recipe_label, [self]))

    @cached_property
    def trained_tasks(self) -> tuple[str, ...]:
        """Names of the tasks on which the model is trained; usually one.

        Without training, this is the task of the run.
        """
        return trained_tasks(self.fingerprints) or (self.task,)

    @property
    def title(self) -> str:
        """Title of the tasks on which the model is trained, e.g. "RTE" or "5 tasks together"."""
        return training_title(self.trained_tasks)


@dataclass(frozen=True, kw_only=True)
class Job(Described):
    """Description of one run: one model, with one seed, on one task or several tasks.

    Most jobs fine-tune a model; `kind` names the other kinds of runs.

    Attributes:
        model: Name of the model on leaderboards.
        checkpoint: Folder or Hub id from which the model is loaded.
        weights: Identity of the model's weights: "hub:ID@COMMIT", "sha256:DIGEST" for a folder, or
            "builtin:NAME@DIGEST" for a built-in encoder. For a run without weights, another text
            that identifies the model, e.g. "baseline:NAME@VERSION" or "imported:SOURCE".
        task: Name of the task; in multi-task training, the alphabetically first task.
        task_version: Version of the task (see `Task.version`).
        data: Source of the data: "hub", "mini" or a folder; "imported" for an imported score.
        fingerprints: Digest of each split that is used, keyed by "task:split": the train split of
            each task, and every split that is predicted. If the data change, so does the job's key.
        recipe: Name of the recipe: a recipe of benchharness such as "paper", or the file name of a
            user's own recipe without its suffix.
        settings: Hyperparameters, keyed by name. For a run without training, its inputs, e.g. the
            members of an ensemble or the scored prediction files.
        seed: Random seed; 0 for ensembles, scored prediction files and imported scores.
        precision: Numerical precision of the computation, e.g. "fp32" or "bf16"; "unknown
            precision" for predictions and scores whose precision is not known.
        limit: Maximum number of rows to use per split; None for all rows.
        start_from: Key of the job whose fine-tuned encoder this job starts with; None to start with
            the weights of the checkpoint.
        plugins: Digests of the plugins that the job uses, e.g. for its task or its settings, keyed
            by the plugins' names.
        trust: Permissions that the user grants to the checkpoint.
        method: Version of training and prediction (`METHOD`).
        kind: Origin of the run (see `Kind`).
        own_recipe: True if the recipe is a user's own file.
        overridden: True if the user changed some values of the recipe.
        is_sweep: True if the job is one hyperparameter setting of a sweep.
        start: Where the encoder starts, as the recipe or the user specifies it.
        source: Person or publication that measured an imported score.
        stage: Position of the checkpoint in its pretraining run, if several checkpoints are
            evaluated.
        off: Values with which the user switched off settings of the recipe, keyed by setting. These
            settings are not in `settings`.
        definition: Complete definition of a custom task; its digest is part of the task's name.
        documents: Digests of the documents that surround the sentences, keyed by "task:split", if
            the encoder reads these documents too. They are part of the key.
        teacher: Teacher for distillation, or None.
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
        """Key of the job: SHA-256 (hex) of everything that can change the result.

        Names and paths (`model`, `checkpoint`, `data`), the recipe's name and the sources of its
        values are left out, so that the same weights, rows and values always give the same key. The
        starting point is included as `weights` and `start_from`, not as the setting "start_from".
        """
        # A field that a later version adds must be included only if it is set. Otherwise the keys
        # of stored jobs would change.
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
        """Values of the hyperparameters, keyed by name; without the setting "start_from"."""
        return {name: s.value for name, s in self.settings.items() if name != START_FROM}

    @property
    def needs(self) -> tuple[str, ...]:
        """Keys of the jobs that must finish before this one: `start_from` and the teacher's job."""
        teacher = None if self.teacher is None else self.teacher.run
        return tuple(key for key in (self.start_from, teacher) if key is not None)

    @property
    def as_text(self) -> bool:
        """True if the task is trained in the text-to-text format."""
        return "as_text" in self.settings

    @property
    def is_zero_shot(self) -> bool:
        """True if the model is evaluated or timed without training."""
        return self.recipe in (ZERO_SHOT, TIMED) and not self.own_recipe

    @property
    def started_from(self) -> str:
        """Starting point of the encoder, e.g. "glue/mnli (run 0123456789ab)" or a checkpoint.

        Empty if the encoder starts with the model's own checkpoint.
        """
        return self._start(self.start.name if self.start else "")

    @property
    def shown_start(self) -> str:
        """Description of the weights that the encoder starts with, e.g. "MNLI (run 0123456789ab)".

        It is `started_from` with the titles of tasks in place of their names. It is empty if the
        encoder starts with the model's own checkpoint.
        """
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
        """Label of the teacher, e.g. "bert-large (run 0123456789ab)"; empty if there is none."""
        teacher = self.teacher
        return "" if teacher is None else f"{teacher.model} (run {teacher.run[:12]})"

    @property
    def curve_split(self) -> str:
        """Data for the scores of the learning curve: "dev", or "held-out" (a part of train)."""
        return "held-out" if "select_on" in self.settings else "dev"

    @property
    def predicted_splits(self) -> tuple[tuple[str, str], ...]:
        """Pairs (task, split) for which the job makes predictions."""
        pairs = (name.rsplit(":", 1) for name in self.fingerprints)
        return tuple((task, split) for task, split in pairs if split != "train")

    def to_json(self) -> dict[str, Any]:
        """Return JSON data from which `from_json` creates an equal job."""
        # `asdict` would take ten times as long, and slow down large imports.
        data = {name: _plain(value) for name, value in vars(self).items() if name in _FIELDS}
        settings = {name: s.to_json() for name, s in self.settings.items()}
        return data | {"settings": settings, **self.trust.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Job":
        """Create a job from the output of `to_json`; raise TypeError for a wrongly typed field."""
        data = dict(data)
        trust = {own: data.pop(name, False) for name, own in _TRUST.items()}
        if not all(isinstance(allowed, bool) for allowed in trust.values()):
            raise TypeError(f"the permissions of a checkpoint must be booleans: {trust!r:.80}")
        parts = {name: data.get(name) for name in _PARTS}
        known = {
            name: None if part is None else _PARTS[name](**part) for name, part in parts.items()
        }
        settings = {name: Setting.from_json(setting) for name, setting in data["settings"].items()}
        job = cls(**{**data, **known, "settings": settings, "trust": Trust(**trust)})
        for name, kind in _PLAIN_TYPES.items():
            if not isinstance(value := getattr(job, name), kind):
                raise TypeError(f"a job's {name} has the wrong type: {value!r:.40}")
        if not isinstance(job.definition, dict | None):
            raise TypeError("the definition of a job's task is not an object")
        if not all(isinstance(each, dict) for each in (job.fingerprints, job.off, job.documents)):
            raise TypeError("a job's fingerprints, documents or `off` values are not an object")
        texts = (*job.fingerprints.values(), *job.documents.values())
        texts += () if job.teacher is None else tuple(vars(job.teacher).values())
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(
                "one of a job's fingerprints or documents, or a field of its teacher, is not a "
                "string"
            )
        if job.kind not in get_args(Kind):
            raise TypeError(f"a job's kind is unknown: {job.kind!r}")
        return job


def recipe_digest(job: Job) -> str:
    """Return a digest (12 hex digits) of a job's hyperparameter values.

    It distinguishes recipes that have the same name but different values. In multi-task training,
    the digest also covers the names of the tasks.
    """
    together = job.trained_tasks if len(job.trained_tasks) > 1 else ()
    return digest([job.values, together] if together else job.values)[:12]


_FIELDS = frozenset(each.name for each in fields(Job)) - {"trust"}  # see Trust.to_json
_PARTS = {"start": Start, "stage": Stage, "teacher": Teacher}
"""Classes of the fields of Job that contain another object or None, keyed by field."""

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
    """Return the sorted names of the tasks with a train split among these "task:split" names."""
    return tuple(sorted(n.removesuffix(":train") for n in splits if n.endswith(":train")))


def training_title(tasks: Sequence[str]) -> str:
    """Return the title for training on these tasks, e.g. "RTE" or "5 tasks together"."""
    return distinct_title(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks together"


# Words for the settings that the user has changed, for the names of leaderboard entries.

SET = "--set"
"""Value of `Setting.source` for a setting that the user has changed."""

PAPER = "paper"
"""Name of the default recipe, which is left out of the names of leaderboard entries."""

FEATURES_SETTING = "features"
"""Name of the setting that selects the layers of a frozen encoder that are used as features. The
recipe of benchharness that evaluates one layer after the other has this name too.
"""

_READ = (FEATURES_SETTING, "context")
"""Names of settings that are always part of a leaderboard entry's name, even if the user has not
changed them. They determine the features of the head and the encoder's input.
"""

_SHORT = {"learning_rate": "lr", "batch_size": "batch"}
"""Abbreviations of settings as used in papers, keyed by the name of the setting."""

_UNQUOTED = re.compile(r"[^\w@%+=,./-]", re.ASCII)
"""Pattern of the characters that `unquoted` replaces: those that a shell may interpret, those that
are not ASCII, and the colon, which separates the parts of an entry's name.
"""

_COUNTS = ("epochs", "shots")
"""Settings that are counts, which labels contain as "3 epochs" instead of "epochs 3"."""

_SMALL = 0.01
"""Numbers below this limit are written with an exponent, e.g. as 3e-4."""


class Word(NamedTuple):
    """Part of a leaderboard entry's name, in two spellings.

    Attributes:
        shown: Spelling in tables, e.g. "lr 3e-4".
        typed: Spelling on the command line, e.g. "lr=3e-4".
    """

    shown: str
    typed: str


def _varies(name: str, jobs: Sequence[Described]) -> bool:
    """Return whether a sweep varies a setting; a job with its default value may lack the setting.

    A setting that the user has not chosen may be missing for another reason.
    """
    found = [job.settings[name] for job in jobs if name in job.settings]
    if len({setting.value for setting in found}) > 1:
        return True
    if all(setting.source != SET for setting in found):
        return False
    tasks = {job.task for job in jobs if name in job.settings}
    return any(job.task in tasks and name not in job.settings for job in jobs)


def recipe_words(label: str, jobs: Iterable[Described]) -> tuple[Word, ...]:
    """Return the words that describe the settings of one leaderboard entry, for its name.

    These are the recipe's name unless it is "paper", the settings that the user changed, and the
    settings "features" and "context". Several values of a setting are joined, e.g. "lr 2e-5/3e-5".
    The settings that a sweep varies are named without their values. The name of the recipe
    "features" is replaced by the value of the setting "features", or by "fine-tuned" without it.

    Args:
        label: Label of the recipe, which is the only word if there is no setting to name.
        jobs: Jobs or stored runs of the entry, which have the same recipe.
    """
    known, chosen = list(jobs), set[str]()
    found: dict[str, dict[str | float, None]] = {}
    for job in known:
        for name, setting in job.settings.items():
            found.setdefault(name, {})[setting.value] = None
            if setting.source == SET:
                chosen.add(name)
    swept = [name for name in found if known[0].is_sweep and _varies(name, known)]
    values = {name: found[name] for name in found if name in (*chosen, *swept, *_READ)}
    recipe = known[0].recipe
    words = [] if recipe == PAPER else [Word(recipe, unquoted(recipe))]
    if recipe == FEATURES_SETTING:  # the value of the setting is a better description
        words = [] if FEATURES_SETTING in values else [Word("fine-tuned", "features=fine-tuned")]
    elif not values:
        return (Word(label, unquoted(label)),)
    if swept:
        names = [_SHORT.get(name, name) for name in swept]
        shown = " and ".join(name.replace("_", " ") for name in names)
        words.append(Word(f"sweep of {shown}", f"sweep={'+'.join(names)}"))
    return (*words, *(setting_word(name, values[name]) for name in values if name not in swept))


def setting_word(name: str, values: Iterable[str | float]) -> Word:
    """Return the word for a setting and its values in the name of a leaderboard entry.

    Examples of the spelling in tables are "lr 3e-4", "3 epochs" and "no best checkpoint".

    Args:
        name: Name of the setting, e.g. "learning_rate".
        values: Values of the setting in the runs of the entry.
    """
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
    """Return a value as papers write it, e.g. "3e-4", "0.1", "32" or "true"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if math.isfinite(value) and 0 < abs(value) < _SMALL:
        digits, _, power = f"{value:.9e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:.10g}"


def different_settings(
    one: Mapping[str, Setting], other: Mapping[str, Setting]
) -> dict[str, tuple[Setting | None, Setting | None]]:
    """Return the settings with different values, keyed by name; None stands for a missing one."""
    pairs = {name: (one.get(name), other.get(name)) for name in (*one, *other)}
    return {
        name: (first, second)
        for name, (first, second) in pairs.items()
        if first is None or second is None or first.value != second.value
    }


def is_setting(word: str, settings: Mapping[str, Setting]) -> bool:
    """Return whether a word from the command line, e.g. "lr=3e-4", fits one of the settings.

    It fits if `settings` has the named setting with the same value. The name may be abbreviated
    ("lr" for "learning_rate"), and a number may be written differently ("0.0003" for 3e-4).
    """
    given, _, text = word.partition("=")
    name = next((name for name, short in _SHORT.items() if short == given), given)
    if name not in settings:
        return False
    value = settings[name].value
    try:
        return float(text) == value
    except ValueError:
        shown = value_text(value).lower()
        return text.lower() in (shown, unquoted(shown))


def unquoted(name: str) -> str:
    """Return the name in a form that needs no quoting in a shell.

    All characters except ASCII letters, digits and "_@%+=,./-" are replaced with "_".
    """
    return _UNQUOTED.sub("_", name)


def recipe_label(recipe: str, *, overridden: bool, is_sweep: bool) -> str:
    """Return the label of a recipe for display, e.g. "paper" or "paper+set sweep".

    Args:
        recipe: Name of the recipe.
        overridden: True if the user changed settings; adds "+set".
        is_sweep: True if the jobs belong to a sweep; adds "sweep".
    """
    return recipe + ("+set" if overridden else "") + (" sweep" if is_sweep else "")
