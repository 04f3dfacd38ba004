"""From a model, a task and the command line to every hyperparameter's value and its source."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Self

from benchharness.leaderboard.job import (
    FEATURES_SETTING,
    PRETRAINED,
    SET,
    START_FROM,
    TAUGHT,
    TOGETHER,
    ZERO_SHOT,
    Setting,
    Start,
    recipe_label,
)
from benchharness.models.folder import has_decoder, no_decoder
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import config_of, count_layers, reach
from benchharness.recipes.read import (
    FROZEN,
    Protocol,
    check_tables,
    choices_of,
    expand_grid,
    packaged_names,
    read_like,
    read_protocol,
    read_recipe,
    read_starts,
)
from benchharness.recipes.recipe import (
    ADDED_ORDERS,
    EACH,
    FINE_TUNED,
    LAYER,
    Recipe,
    check_setting,
    kept_layers,
    least_layers,
)
from benchharness.tasks.cast import cast_of
from benchharness.tasks.errors import BenchError, ModelError, unknown_name
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import Task

# The values that the baselines are learned with; `--recipe` and `--set` do not change them.

BASELINE = "baseline"
"""The recipe's name where it is stored; digests cover it, so it stays."""

_VECTORS = {
    "ngrams": Setting(value=2, source="ours: words and pairs of words"),
    "max_features": Setting(
        value=100_000, source="ours: the most frequent are enough for a baseline"
    ),
    "max_examples": Setting(value=50_000, source="ours: a minute on the largest train splits"),
}
_CLASSIFIER = {"regularization": Setting(value=1.0, source="scikit-learn's default, C or alpha")}

_BAG_OF_WORDS: Mapping[str, Mapping[str, Setting]] = {
    "pair": {**_VECTORS, **_CLASSIFIER},
    "choice": {**_VECTORS, **_CLASSIFIER},
    "span": _VECTORS,
    "tag": {},
    "coref": {},
}
"""By head type. A tagger counts the tags of each word, which takes no value; nor does it to know
the mentions of train again."""


def baseline_settings(name: str, head: str) -> Mapping[str, Setting]:
    """The settings of a baseline on tasks of a head type; the majority has none."""
    return _BAG_OF_WORDS[head] if name == "bag-of-words" else {}


_PAPER = "paper"
_OVER = ("fast", "checkpoints", "few-shot", "features", "tinybert-student")
"""The recipes of ours that are laid over a model's own."""

AS_TEXT = "as_text"
"""The value that has a task answered in words: `--as text` sets it."""

_TEXT = "text"
"""T5's recipe for that, laid over a model's own, and what a row of it is called."""

_STUDENT = "student"
"""The recipe of DistilBERT's authors for learning from a teacher, laid over a model's own."""

_FALLBACK = "bert"
"""The recipe of a family without a file of its own: most later papers start from BERT's grid."""

_ONLY = {
    "stride": ("span",),
    "max_question_tokens": ("span",),
    "answerable_weight": ("span",),
    "beam_size": ("span",),
    "max_answer_tokens": ("span",),
    "lstm_size": ("tag",),
    "context": ("tag",),
    "orders": ("pair",),
    "lm_weight": ("pair", "choice"),
    "training_segments": ("coref",),
}
"""Hyperparameters of some head types alone; other heads' jobs, and their keys, are without them."""

_TOGETHER_ALONE = ("sampling_power",)
"""Hyperparameters of tasks that are trained together."""

_OFF = {field.name: field.default for field in fields(Recipe) if field.default is not None}
"""What a hyperparameter is when it is off; a job and its key are without it then."""

_IN_PLACE = {
    "warmup_steps": "warmup_ratio",
    "decoupled_weight_decay": "weight_decay",
    "steps": "epochs",
}
"""Hyperparameters that are said in two units: of two layers the later one holds, in its unit. The
other one, which every recipe takes over from BERT's, is 0 then."""

_TRAINS_ENCODER = (
    "dropout",
    "lora_rank",
    "unfreeze",
    "layer_decay",
    "top_layer_depth",
    "lm_weight",
    "head_learning_rate",
)
"""Hyperparameters that mean nothing where the encoder is frozen."""

_CLASSIFIES = (
    "classifier_dropout",
    "orders",
    "lm_weight",
    "stride",
    "max_question_tokens",
    "answerable_weight",
    "beam_size",
    "max_answer_tokens",
)
"""Hyperparameters that mean nothing where the answer is said in words."""

_OF_ADAM = ("adam_beta1", "adam_beta2", "adam_epsilon")

_OURS = "ours:"
"""How the source of a value begins that we chose ourselves: it is no other model's either."""


@dataclass(frozen=True, kw_only=True)
class ResolvedRecipe:
    """The settings of one job and what they go by: "paper", "fast", ... or a user's file's stem.

    `is_own` is true for such a file, `overridden` where the user set values beside it, `is_sweep`
    for one point of several, and `start` is what is trained before. `off` are the values that the
    recipe of that name has and the user switched off, which are no part of the settings.
    """

    name: str
    settings: Mapping[str, Setting]
    is_own: bool = False
    overridden: bool = False
    is_sweep: bool = False
    start: Start | None = None
    off: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    @property
    def is_zero_shot(self) -> bool:
        """Whether nothing is trained by it."""
        return self.name == ZERO_SHOT and not self.is_own

    @property
    def label(self) -> str:
        """The recipe as a board shows it: "paper+set sweep"."""
        return recipe_label(self.name, overridden=self.overridden, is_sweep=self.is_sweep)


_TIMES = re.compile(r"x(\d+(\.\d+)?(e-?\d+)?)")
"""A multiple of the recipe's own value, as it is typed: "x0.5"."""


def _multiplied(name: str, text: str, layers: Sequence[Mapping[str, Setting]]) -> str:
    """The typed values, each multiple of the recipe's in the place of "x0.5"."""
    parts = [part.strip() for part in text.split(",")]
    times = [_TIMES.fullmatch(part) for part in parts]
    if not any(times):
        return text
    own = next((layer[name].value for layer in reversed(layers) if name in layer), None)
    if isinstance(own, bool) or not isinstance(own, int | float):
        found = "leaves it out" if own is None else f"has {own!r}"
        raise BenchError(
            f"--set {name}={text} is a multiple of the recipe's value, and the recipe {found}: "
            "give the value itself."
        )
    return ",".join(
        f"{own * float(found[1]):.10g}" if found else part
        for part, found in zip(parts, times, strict=True)
    )


def resolve_recipe(
    spec: ModelSpec,
    task: str,
    recipe: str | None,
    overrides: Mapping[str, str],
    head: str = "pair",
) -> ResolvedRecipe:
    """Every hyperparameter of a model on a task, where each has one value; see `resolve_sweep`."""
    first, *others = resolve_sweep(spec, task, recipe, overrides, head)
    if others:
        raise BenchError(
            f"the recipe has {1 + len(others)} points for {task}, but one value of each "
            "hyperparameter is needed here: choose one of those with commas between."
        )
    return first


def resolve_sweep(  # noqa: PLR0913  (what is resolved, and the layers of it)
    spec: ModelSpec,
    task: str,
    recipe: str | None,
    overrides: Mapping[str, str],
    head: str = "pair",
    *,
    is_student: bool = False,
) -> tuple[ResolvedRecipe, ...]:
    """Every hyperparameter of a model on a task (its full name, "glue/cola", and its head type).

    Later layers win: the defaults of the recipe that the model's own is like, its values for the
    head type, for the task and for a frozen encoder; the same of the model's own recipe, and of
    `recipe` ("fast", "checkpoints", "few-shot", "features" or the path of a TOML file; None and
    "paper" add nothing); then `overrides` as typed after `--set`, where x2 or x0.5 is so many times
    the recipe's value.
    A value with commas, or a list in a file, is a grid: each of its points is a recipe, and they
    are a sweep. Several `features` are none: each choice of them has a recipe, or a sweep, of its
    own. What is only for another head type (a stride), is off, or means nothing
    beside other values is checked and left out, because it is no part of this job. A student has
    the values of `student.toml` over its model's own. Raises BenchError with one line for each
    value that is unknown, ill-typed or out of range.
    """
    if spec.is_baseline:
        return (ResolvedRecipe(name=BASELINE, settings=baseline_settings(spec.name, head)),)
    tables = ("default", f"head/{head}", task)
    return _resolve(spec, tables, recipe, overrides, [head], is_student=is_student)


def resolve_together(
    spec: ModelSpec, tasks: Iterable[Task], recipe: str | None, overrides: Mapping[str, str]
) -> ResolvedRecipe:
    """Every hyperparameter of a model on tasks that are trained together: one value for all.

    The layers of a file are its defaults, its values for each of the tasks' head types, and its
    table [together]; a task's own values do not count. Raises BenchError as `resolve_sweep` does,
    also for a grid, and for what is no training of one encoder by all tasks.
    """
    heads = sorted({task.head for task in tasks})
    tables = ("default", *(f"head/{head}" for head in heads), TOGETHER)
    first, *others = _resolve(spec, tables, recipe, overrides, heads, together=True)
    if others:
        raise BenchError(
            f"the recipe has {1 + len(others)} points for the tasks that are trained together, but "
            "they are trained by one value of each hyperparameter: choose one of those with commas "
            "between."
        )
    for name, reason in (
        ("features", "leaves the encoder as it is, so that the tasks would share nothing"),
        ("orders", "is for pairs, and not all of them have a second text"),
    ):
        if name in first.settings:
            setting = first.settings[name]
            raise BenchError(
                f"{name} is {setting.value!r} ({setting.source}), which {reason}: leave {name} or "
                "--together out."
            )
    return first


def _resolve(  # noqa: PLR0913  (what is resolved, and the layers of it)
    spec: ModelSpec,
    tables: Sequence[str],
    recipe: str | None,
    overrides: Mapping[str, str],
    heads: Sequence[str],
    *,
    together: bool = False,
    is_student: bool = False,
) -> tuple[ResolvedRecipe, ...]:
    """The points of the layers that these tables of each file are, for each choice of features."""
    how = {"together": together, "is_student": is_student}
    trained = _Layers.of(spec, tables, recipe, overrides, **how)
    frozen = _Layers.of(spec, (*tables, FROZEN), recipe, overrides, **how)
    needless = {*(() if together else _TOGETHER_ALONE), *(() if is_student else TAUGHT)}
    read = trained.settings.get(FEATURES_SETTING)
    choices: Sequence[Setting | None] = [None] if read is None else _feature_choices(read, spec)
    found: list[ResolvedRecipe] = []
    problems: dict[str, None] = {}
    for choice in choices:
        layers = trained if choice is None or choice.value == FINE_TUNED else frozen
        try:
            found += _points_of(layers, choice, heads, needless, alone=len(choices) == 1)
        except BenchError as error:
            problems |= dict.fromkeys(str(error).splitlines())
    if not spec.is_hub:
        problems |= dict.fromkeys(_unfit(spec, found))
    if problems:
        raise BenchError(*problems)
    return tuple(found)


def _unfit(spec: ModelSpec, points: Iterable[ResolvedRecipe]) -> Iterator[str]:
    """What a checkpoint is asked for, by its config, that it has not: a decoder, or layers."""
    for recipe in (Recipe.from_settings(point.settings) for point in points):
        if recipe.as_text and not has_decoder(config := config_of(spec)):
            yield no_decoder(f"{spec.name} is of the family {config['model_type']}, which")
        if recipe.layers and (count := count_layers(spec)):
            try:
                kept_layers(recipe.layers, count)
            except ModelError as error:
                yield f"{spec.name}: {error}"


def _only(choice: Setting | None) -> Mapping[str, Setting]:
    """The layer that has one choice of features, where anything says it."""
    return {} if choice is None else {FEATURES_SETTING: choice}


def _feature_choices(setting: Setting, spec: ModelSpec) -> list[Setting]:
    """What is read of an encoder, each once; "each" stands for its embeddings and every layer.

    Of several in a recipe those are left out for which an encoder has too few layers, as far as
    that is known without the hub. Raises ModelError for one that was asked for.
    """
    words = [str(choice.value) for choice in choices_of(setting)]
    layers = None if spec.is_hub and EACH not in words else count_layers(spec)
    if EACH in words:
        if layers is None:
            raise ModelError(
                f"the config.json of {spec.name} does not say how many layers it has: name them "
                "one by one, as in features=layer-1,layer-2."
            )
        every = ["embeddings", *(f"{LAYER}{number}" for number in range(1, layers + 1))]
        words[(at := words.index(EACH)) : at + 1] = every
    too_deep = [word for word in words if layers is not None and least_layers(word) > layers]
    if too_deep and (setting.source == "--set" or len(too_deep) == len(words)):
        raise ModelError(
            f"features={too_deep[0]} ({setting.source}) reads {least_layers(too_deep[0])} layers, "
            f"and {spec.name} has {layers}: choose embeddings, last, sum-all or mix."
        )
    if too_deep:
        _tell_left_out(spec.name, layers, ", ".join(too_deep))
    kept = dict.fromkeys(word for word in words if word not in too_deep)
    return [replace(setting, value=word) for word in kept]


@cache
def _tell_left_out(model: str, layers: int | None, features: str) -> None:
    """Say it once, however many tasks ask."""
    sys.stderr.write(f"bench: {model} has {layers} layers, too few for features={features}.\n")


@dataclass(frozen=True, kw_only=True)
class _Layers:
    """Where the values of a recipe come from: what is packaged, what lies over it, what is typed.

    `name` is what they go by, and `is_text` whether the user asked for answers in words.
    """

    spec: ModelSpec
    name: str
    is_own: bool
    is_text: bool
    packaged: Sequence[Mapping[str, Setting]]
    over: Sequence[Mapping[str, Setting]]
    typed: Mapping[str, Setting]

    @classmethod
    def of(  # noqa: PLR0913  (what is resolved, and for what kind of job)
        cls,
        spec: ModelSpec,
        tables: Sequence[str],
        recipe: str | None,
        overrides: Mapping[str, str],
        *,
        together: bool,
        is_student: bool,
    ) -> Self:
        """The layers that these tables of each file are."""
        name, packaged = recipe or _PAPER, list(_packaged_layers(spec, tables))
        if is_student:
            packaged += _file_layers(packaged_names()[_STUDENT], tables)
        over = _layers_over(name, tables)
        overrides = dict(overrides)
        asked = _asked_as_text(overrides.pop(AS_TEXT, None))
        is_text = any(layer[AS_TEXT].value is True for layer in over if AS_TEXT in layer)
        if is_text if asked is None else asked:
            if together:
                raise BenchError("tasks together have a head each, so none is answered as text.")
            for table in tables:
                if table in TASKS:
                    cast_of(TASKS[table])  # what cannot be said in words is refused here
            packaged += _file_layers(packaged_names()[_TEXT], tables)
        if asked is False:
            over = [{key: s for key, s in layer.items() if key != AS_TEXT} for layer in over]
        is_own = name not in (_PAPER, *_OVER)
        if _cuts_own_rows(tables, packaged):
            (packaged if is_own else over).append({MAX_TOKENS: for_own_rows(spec)})
        typed = {
            key: Setting(value=_multiplied(key, text, packaged + over), source="--set")
            for key, text in overrides.items()
        }
        return cls(
            spec=spec,
            name=name,
            is_own=is_own,
            is_text=asked is True,
            packaged=packaged,
            over=over,
            typed=typed,
        )

    @property
    def settings(self) -> dict[str, Setting]:
        """The last value of each."""
        merged: dict[str, Setting] = {}
        for layer in (*self.packaged, *self.over, self.typed):
            merged.update(layer)
        return merged


def _cuts_own_rows(tables: Sequence[str], layers: Iterable[Mapping[str, Setting]]) -> bool:
    """Whether rows of the user's own would lose what is longer than a recipe's `max_tokens`.

    Of the others a longer text is read in windows.
    """
    tasks = [TASKS[table] for table in tables if table in TASKS]
    as_text = any(AS_TEXT in layer for layer in layers)
    return any(t.definition and (as_text or t.head in ("pair", "choice")) for t in tasks)


def _layers_over(name: str, tables: Sequence[str]) -> list[Mapping[str, Setting]]:
    """The layers of a recipe that is laid over a model's own; none of "paper"."""
    if name == _PAPER:
        return []
    path = _recipe_path(name)
    if like := read_like(path):
        raise BenchError(
            f"{path.name} is like {like!r}, but your own recipe is applied over the model's: "
            "leave the table [like] out."
        )
    return _file_layers(path, tables)


def _points_of(
    layers: _Layers,
    choice: Setting | None,
    heads: Sequence[str],
    needless: Set[str],
    *,
    alone: bool,
) -> Iterator[ResolvedRecipe]:
    """The points of some layers by one choice of features, the only one where it is `alone`."""
    named = [*layers.packaged, *layers.over]
    typed = dict(layers.typed)
    if choice is not None and choice.value == FINE_TUNED and not alone:
        typed.pop("lstm_size", None)  # of the others, which are frozen
    points = _points([*named, typed, _only(choice)], heads, needless, layers.spec)
    # What a command says that names the recipe, or gives all of its values over the model's own.
    said = layers.packaged if layers.is_own or len(points) > 1 else named
    differs = layers.typed or layers.is_own or not alone
    usual = set[str]()
    if differs:
        usual.update(_points([*said, _only(choice)], heads, needless, layers.spec)[0].settings)
        usual.update({FEATURES_SETTING} if any(FEATURES_SETTING in layer for layer in said) else ())
    name = Path(layers.name).stem if layers.is_own else layers.name
    for point in points:
        yield ResolvedRecipe(
            name=_called(name, is_text=layers.is_text),
            settings=point.settings,
            is_own=layers.is_own,
            overridden=bool(layers.typed),
            is_sweep=len(points) > 1,
            off={name: value for name, value in point.off.items() if name in usual},
        )


def _asked_as_text(word: str | None) -> bool | None:
    """Whether a task is to be answered in words; None where nothing says so."""
    if word is None:
        return None
    return bool(check_setting(AS_TEXT, Setting(value=word, source="--set")).value)


def _called(name: str, *, is_text: bool) -> str:
    """A recipe's name on a board: "text" in the place of "paper", "text-fast"."""
    if not is_text:
        return name
    return _TEXT if name == _PAPER else f"{_TEXT}-{name}"


def packaged_recipe(spec: ModelSpec) -> Path:
    """The recipe file that fits a model: its own, else its family's, else BERT's.

    BenchError where there is no file of the name that the model gives as its own.
    """
    if spec.recipe and spec.recipe not in packaged_names():
        raise unknown_name(f"recipe of {spec.name}", spec.recipe, packaged_names())
    for name in (spec.recipe, spec.family):
        if name in packaged_names():
            return packaged_names()[name]
    return packaged_names()[_FALLBACK]


def _packaged_layers(spec: ModelSpec, tables: Sequence[str]) -> Iterator[Mapping[str, Setting]]:
    """The layers of a model's recipe over those of the recipes that it is like, BERT's first."""
    own = packaged_recipe(spec)
    for path in _ancestors(own):
        for layer in _file_layers(path, tables):
            yield {name: _inherited(setting, path) for name, setting in layer.items()}
    yield from _file_layers(own, tables)


def _ancestors(path: Path) -> list[Path]:
    """The packaged recipes that one is like, the furthest first."""
    if path.stem == _FALLBACK:
        return []
    parent = packaged_names()[read_like(path) or _FALLBACK]
    return [*_ancestors(parent), parent]


def _inherited(setting: Setting, path: Path) -> Setting:
    if setting.source.startswith(_OURS):
        return setting
    return replace(setting, source=f"as {path.stem}: {setting.source}")


def _recipe_path(name: str) -> Path:
    if name in _OVER:
        return packaged_names()[name]
    path = Path(name).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return path
    known = (_PAPER, *_OVER)
    hint = f"Known: {', '.join(known)}, or the path of a TOML file."
    raise unknown_name("recipe", name, known, hint)


def protocol_of(recipe: str | None) -> Protocol:
    """What a recipe runs where its user does not say it.

    Raises BenchError where its file cannot be read or has a table that is of no task.
    """
    if recipe is None or recipe == _PAPER:
        return Protocol()
    path = _recipe_path(recipe)
    check_tables(path)
    return read_protocol(path)


def _file_layers(path: Path, tables: Sequence[str]) -> list[Mapping[str, Setting]]:
    known = read_recipe(path)
    return [known.get(table, {}) for table in tables]


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The settings of one point of a grid, and the values that are off."""

    settings: Mapping[str, Setting]
    off: Mapping[str, str | int | float | bool]


def _points(
    layers: Iterable[Mapping[str, Setting]],
    heads: Sequence[str],
    needless: Set[str],
    spec: ModelSpec,
) -> list[_Point]:
    """Every point of the last values, each once and checked; all that is wrong is said at once."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        _lay_over(merged, layer)
    found: dict[tuple[object, ...], _Point] = {}
    problems: dict[str, None] = {}
    for point in expand_grid(merged):
        try:
            checked = within_reach(_checked(point), spec)
        except BenchError as error:
            problems |= dict.fromkeys(str(error).splitlines())
            continue
        settings = _relevant(checked, heads, needless)
        values = tuple((name, setting.value) for name, setting in settings.items())
        off = {name: s.value for name, s in checked.items() if s.value == _OFF.get(name)}
        found.setdefault(values, _Point(settings=settings, off=off))
    if problems:
        raise BenchError(*problems)
    return list(found.values())


def needless_names(overrides: Mapping[str, str], used: Set[str]) -> list[str]:
    """Which of the values that a user has set are on, and yet `used` by no job.

    As `temperature` without a teacher: the job's key is the same without it.
    """
    return [
        name for name, text in overrides.items() if name not in used and _is_said_on(name, text)
    ]


def names_for_students(recipe: str | None) -> list[str]:
    """The values of a recipe that mean nothing without a teacher."""
    if recipe is None or recipe == _PAPER:
        return []
    tables = read_recipe(_recipe_path(recipe)).values()
    return [name for name in TAUGHT if any(name in table for table in tables)]


def check_override(name: str, text: str) -> None:
    """Raises BenchError where `--set NAME=TEXT` fits no model's recipe."""
    for word in choices_of(Setting(value=text, source=SET)):
        if not _is_of_the_model(word):
            check_setting(name, word)


def _is_said_on(name: str, text: str) -> bool:
    words = choices_of(Setting(value=text, source=SET))
    if any(map(_is_of_the_model, words)):
        return True
    return any(check_setting(name, word).value != _OFF.get(name) for word in words)


def _is_of_the_model(word: Setting) -> bool:
    """Whether a value has to be asked of the model: all of its layers, or times its own value."""
    return word.value == EACH or _TIMES.fullmatch(str(word.value)) is not None


def _lay_over(merged: dict[str, Setting], layer: Mapping[str, Setting]) -> None:
    for name, usual in _IN_PLACE.items():
        if usual in layer and name not in layer:
            merged.pop(name, None)
    merged.update(layer)


def _checked(merged: Mapping[str, Setting]) -> dict[str, Setting]:
    """The values of one point in the types and the order of the recipe's fields."""
    problems: list[str] = []
    checked: dict[str, Setting] = {}
    known = [field.name for field in fields(Recipe)]
    for name, setting in merged.items():
        try:
            checked[name] = check_setting(name, setting)
        except BenchError as error:
            problems.append(str(error))
    problems += [*_too_many_parts(checked), *_trained_yet_frozen(checked), *_not_in_words(checked)]
    problems += [*_cannot_choose(checked), *_cannot_average(checked)]
    if problems:
        raise BenchError(*problems)
    return {name: checked[name] for name in known if name in checked}


def _relevant(
    settings: Mapping[str, Setting], heads: Sequence[str], others: Set[str]
) -> dict[str, Setting]:
    """The settings that the result of a job depends on; `others` are for other kinds of jobs."""
    on = {name: s for name, s in settings.items() if s.value != _OFF.get(name)}
    for name, usual in _IN_PLACE.items():
        if name in on:
            on[usual] = Setting(value=0.0, source=f"{name} is in its place")
    for name in _OF_ADAM if "optimizer" in on else ():
        on[name] = Setting(value=0.0, source="adafactor has no such value")
    needless = {name for name, known in _ONLY.items() if not set(known) & set(heads)} | others
    needless.update(_CLASSIFIES if AS_TEXT in on else ("max_target_tokens",))
    needless |= _needless_beside(on)
    return {name: setting for name, setting in on.items() if name not in needless}


def _needless_beside(on: Mapping[str, Setting]) -> set[str]:
    """The settings that mean nothing beside the others."""
    needless = set[str]()
    if "features" in on:
        needless.update(_TRAINS_ENCODER)
        if "orders" in on and on["orders"].value == ADDED_ORDERS:
            needless.add("orders")  # the states are of the given one
    if "layer_decay" not in on:
        needless.add("top_layer_depth")
    if "schedule" not in on or on["schedule"].value != "polynomial":
        needless.add("schedule_power")
    if "evaluations" in on and on["evaluations"].value == 1:
        needless.add("best_checkpoint")  # the only one is the best
    return needless


def _trained_yet_frozen(settings: Mapping[str, Setting]) -> Iterator[str]:
    for name in ("lora_rank", "unfreeze"):
        if _is_on(settings, "features") and _is_on(settings, name):
            yield _clash(settings, name, "features", "leaves the encoder as it is")
    if _is_on(settings, "lstm_size") and not _is_on(settings, "features"):
        size = settings["lstm_size"]
        yield (
            f"lstm_size is {size.value} ({size.source}), but the encoder is fine-tuned: an LSTM "
            "reads the states of a frozen one, so add features=last or leave it out."
        )


def _not_in_words(settings: Mapping[str, Setting]) -> Iterator[str]:
    for name in ("features", "lora_rank", "unfreeze", "layer_decay"):
        if _is_on(settings, AS_TEXT) and _is_on(settings, name):
            yield _clash(settings, name, AS_TEXT, "trains encoder and decoder whole")


def _cannot_choose(settings: Mapping[str, Setting]) -> Iterator[str]:
    """What is wrong with a patience, and with rows that nothing is chosen on."""
    patience, times = settings.get("early_stopping"), settings.get("evaluations")
    if patience and times and 0 < int(times.value) <= int(patience.value):
        yield (
            f"early_stopping is {patience.value} ({patience.source}), but dev is evaluated only "
            f"{times.value} time{'s' * (times.value != 1)} in a run ({times.source}): a patience "
            "needs more evaluations than it waits for, so raise evaluations or leave "
            "early_stopping out."
        )
    once = times is not None and times.value == 1
    chooses = any(_is_on(settings, name) for name in ("best_checkpoint", "early_stopping"))
    if _is_on(settings, "select_on") and (once or not chooses):
        rows = settings["select_on"]
        yield (
            f"select_on is {rows.value!r} ({rows.source}), but the run chooses among no "
            "evaluations: give best_checkpoint=true or early_stopping, and several evaluations."
        )


def _cannot_average(settings: Mapping[str, Setting]) -> Iterator[str]:
    if not _is_on(settings, "average_last"):
        return
    last, times = settings["average_last"], settings.get("evaluations")
    if times and int(times.value) < int(last.value):
        yield (
            f"average_last is {last.value} ({last.source}), but a run has only {times.value} "
            f"evaluations ({times.source}), after which its weights are taken: raise evaluations."
        )
    for name in ("best_checkpoint", "early_stopping"):
        if _is_on(settings, name):
            yield _clash(settings, "average_last", name, "ends a run otherwise")


def _clash(settings: Mapping[str, Setting], name: str, other: str, effect: str) -> str:
    one, two = settings[name], settings[other]
    return (
        f"{name} is {one.value!r} ({one.source}), but {other} is {two.value!r} ({two.source}), "
        f"which {effect}: give one of them."
    )


def _is_on(settings: Mapping[str, Setting], name: str) -> bool:
    return name in settings and settings[name].value != _OFF[name]


def _too_many_parts(settings: Mapping[str, Setting]) -> Iterator[str]:
    batch, parts = settings.get("batch_size"), settings.get("accumulation")
    if batch and parts and int(parts.value) > int(batch.value):
        yield (
            f"accumulation is {parts.value} ({parts.source}), but a batch of {batch.value} "
            f"examples ({batch.source}) cannot be computed in more parts than it has examples."
        )


# What a job's encoder is trained on before: another task, by a recipe's line or as asked for.
# `[glue.rte]` with `start_from = { value = "glue/mnli", source = "..." }` names the task;
# "pretrained" is the checkpoint as it was pretrained, as everywhere without such a line.

_OPTION = "--start-from"


def with_start(
    resolved: ResolvedRecipe,
    spec: ModelSpec,
    task: Task,
    *,
    recipe: str | None = None,
    start_from: str | Start | None = None,
) -> ResolvedRecipe:
    """The resolved recipe of a model on a task, and beside its values what is trained before.

    `start_from` is None for what the recipe says, "pretrained", the full name of a task, or a start
    as it is; a model that has another checkpoint's weights says so itself. Nothing is added where
    nothing was to be trained before anyway; "pretrained" says that the recipe's own line does not
    hold. A recipe that is like another does not take over its lines: they cost more than the task
    itself. Raises BenchError for a task that is unknown, has nothing to train on, or is the same.
    """
    if spec.start is not None:
        return _started(resolved, spec.start, Setting(value=spec.start.name, source=_OPTION))
    if isinstance(start_from, Start):
        return _started(resolved, start_from, Setting(value=start_from.kind, source=_OPTION))
    lines = [line for file in _files(spec, recipe) for line in _lines(file, task)]
    line = lines[-1] if lines else None
    if start_from is not None:
        value = PRETRAINED if start_from == task.name else start_from
        line = Setting(value=value, source=_OPTION)
    named = any(line.value != PRETRAINED for line in lines)
    if line is None or (line.value == PRETRAINED and not named):
        return resolved
    _check(line, task)
    if line.value == PRETRAINED:
        return _started(resolved, Start(kind="pretrained"), line)
    return _started(resolved, Start(kind="task", name=str(line.value)), line)


def _started(resolved: ResolvedRecipe, start: Start, line: Setting) -> ResolvedRecipe:
    return replace(resolved, start=start, settings={**resolved.settings, START_FROM: line})


def start_task(recipe: ResolvedRecipe) -> str | None:
    """The task that a job starts from by its recipe; None for a checkpoint's own weights."""
    start = recipe.start
    return start.name if start is not None and start.kind == "task" else None


def with_start_tasks(specs: Iterable[ModelSpec], tasks: Iterable[Task]) -> list[Task]:
    """The tasks, and behind them those that the models' own recipes have trained before them."""
    found = {task.name: task for task in tasks}
    nothing = ResolvedRecipe(name="", settings={})
    for spec in specs:
        waiting = list(found.values())
        for task in waiting:
            start = start_task(with_start(nothing, spec, task))
            if start is not None and start not in found:
                found[start] = TASKS[start]
                waiting.append(TASKS[start])
    return list(found.values())


def _files(spec: ModelSpec, recipe: str | None) -> list[Path]:
    own, name = packaged_recipe(spec), recipe or _PAPER
    if name == _PAPER:
        return [own]
    return [own, packaged_names()[name] if name in _OVER else Path(name).expanduser()]


def _lines(file: Path, task: Task) -> list[Setting]:
    starts = read_starts(file)
    return [starts[t] for t in ("default", f"head/{task.head}", task.name) if t in starts]


def _check(line: Setting, task: Task) -> None:
    start = TASKS.get(str(line.value))
    if line.value == PRETRAINED:
        return
    if start is None:
        raise unknown_name("task to start from", str(line.value), [PRETRAINED, *TASKS])
    if not start.has_train or start.name == task.name:
        raise BenchError(
            f"{task.name} cannot start from {start.name} ({line.source}): expected another task "
            "that has rows to train on."
        )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting that two recipes give other values, and the tasks that this is so for.

    A side is None where its recipe leaves the setting to the checkpoint.
    """

    setting: str
    first: Setting | None
    second: Setting | None
    tasks: tuple[str, ...]


def compare_recipes(
    first: ModelSpec, second: ModelSpec, tasks: Iterable[Task], recipe: str | None = None
) -> tuple[Difference, ...]:
    """The settings whose values differ, each with the tasks on which it has these two.

    `recipe` is a file of the user's over the second's values. Of tasks with the same two values the
    first one's sources stand for all.
    """
    groups: dict[tuple[str, object, object], list[tuple[str, Setting | None, Setting | None]]] = {}
    for task in tasks:
        for name, one, other in _pairs(first, second, task, recipe):
            values = (name, one and one.value, other and other.value)
            groups.setdefault(values, []).append((task.name, one, other))
    found = (
        Difference(setting=name, first=one, second=other, tasks=tuple(task for task, *_ in group))
        for (name, *_), group in groups.items()
        for _, one, other in group[:1]
    )
    order = [*(field.name for field in fields(Recipe)), START_FROM]
    return tuple(sorted(found, key=lambda difference: order.index(difference.setting)))


def _pairs(
    first: ModelSpec, second: ModelSpec, task: Task, recipe: str | None
) -> Iterator[tuple[str, Setting | None, Setting | None]]:
    ours, theirs = (
        with_start(
            resolve_recipe(spec, task.name, own, {}, task.head), spec, task, recipe=own
        ).settings
        for spec, own in ((first, None), (second, recipe))
    )
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None or one.value != other.value:
            yield name, one, other


# How long rows are read: as a recipe says, and at most as the encoder reaches.

MAX_TOKENS = "max_tokens"

USUAL = 512
"""How far an encoder without a limit reads rows of one's own: most were pretrained with as much."""


def within_reach(settings: Mapping[str, Setting], spec: ModelSpec) -> Mapping[str, Setting]:
    """The settings as a model runs them: what a recipe has above its reach is its reach.

    Raises BenchError where the user has typed such a value.
    """
    setting, longest = settings.get(MAX_TOKENS), reach(spec)
    if setting is None or longest is None or int(setting.value) <= longest:
        return settings
    if setting.source == SET:
        raise BenchError(
            f"{spec.name} reads at most {longest} tokens: give --set {MAX_TOKENS}={setting.value} "
            "a smaller value, or leave it out."
        )
    source = f"all that {spec.name} reads; {setting.value} by {setting.source}"
    return {**settings, MAX_TOKENS: replace(setting, value=longest, source=source)}


def for_own_rows(spec: ModelSpec) -> Setting:
    """How long rows of the user's own are read: no paper has seen them.

    A row takes as many tokens as it has, so that a bound by the longest one would save nothing.
    """
    longest = reach(spec)
    if longest is None:
        return Setting(value=USUAL, source=f"ours: {spec.name} has no limit of its own")
    return Setting(value=longest, source=f"ours: of rows of your own all that {spec.name} reads")
