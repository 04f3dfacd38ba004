"""Determine every hyperparameter and its source from a model, a task and the command line.

A layer of values is a set of settings from one source, such as a TOML table of a recipe file. The
values of a later layer override those of an earlier layer.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from benchharness.errors import BenchError, ModelError, unknown_name
from benchharness.hyperparameter import Value, as_number
from benchharness.leaderboard.job import FEATURES_SETTING as FEATURES
from benchharness.leaderboard.job import (
    PRETRAINED,
    SET,
    START_FROM,
    TEACHER,
    TIMED,
    TOGETHER,
    ZERO_SHOT,
    Setting,
    Start,
    different_settings,
    recipe_label,
)
from benchharness.leaderboard.text import counted
from benchharness.models.families import is_causal
from benchharness.models.folder import LAST, has_decoder, no_decoder
from benchharness.models.spec import ModelSpec
from benchharness.models.weights import (
    config_of,
    count_layers,
    family_config,
    hidden_size,
    reach,
)
from benchharness.recipes.read import (
    FROZEN,
    HINTS,
    SMALL,
    Protocol,
    added_names,
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
    EACH,
    FINE_TUNED,
    LAYER,
    OF_DECODERS,
    OF_STUDENTS,
    SETTINGS,
    SWITCHES,
    applying,
    check_setting,
    clashes,
    is_default,
    kept_layers,
    least_layers,
)
from benchharness.tasks.suites import SUITES, TASKS
from benchharness.tasks.task import Task

BASELINE = "baseline"
"""Name of the recipe of all baselines. It must not change, because stored digests contain it."""

_BAG_OF_WORDS = Path(__file__).parent / "fixed" / "bag_of_words.toml"


def baseline_settings(name: str, task: Task) -> Mapping[str, Setting]:
    """Return the hyperparameters of a baseline on a task, which users cannot change.

    The result is empty for the majority baseline, and for the bag of words on tasks where it only
    counts or compares words, such as tagging.

    Args:
        name: Name of the baseline: "majority" or "bag-of-words".
        task: Task of the baseline.
    """
    if name != "bag-of-words" or not task.baseline_has_settings:
        return {}
    tables = read_recipe(_BAG_OF_WORDS)
    return {**tables["default"], **tables.get(f"head/{task.head}", {})}


_PAPER = "paper"
_OVER = ("fast", "checkpoints", "few-rows", "few-shot", "features")
"""Names of packaged recipes that override values of a model's own recipe."""

_STUDENT = "student"
"""Name of DistilBERT's recipe for students, which overrides a model's own recipe."""

_FALLBACK = "bert"
"""Name of the recipe for families without a recipe file. It is BERT's recipe, because most later
papers start from BERT's hyperparameters."""

_DECODER = "decoder"
"""Name of the recipe for families of decoders without a recipe file."""

_OURS = "ours:"
"""Prefix of the source of a value that benchharness chose because no paper states it."""


@dataclass(frozen=True, kw_only=True)
class ResolvedRecipe:
    """Hyperparameters of a job with their sources, and the name of the recipe they come from.

    Attributes:
        name: Name of the recipe, such as "paper" or "fast"; for a user's file, its name without the
            extension.
        settings: Settings, keyed by name.
        is_own: True if the recipe is a user's file.
        overridden: True if the user has set values with `--set` or similar options that differ from
            those of the recipe.
        is_sweep: True if the settings are one of several combinations of a grid.
        start: Starting point of the encoder, e.g. a task on which it is trained first; None if
            neither the recipe nor the user names one.
        off: Values, e.g. 0, of the settings that are on in the recipe but switched off in this job,
            keyed by name. These settings are not in `settings`.
    """

    name: str
    settings: Mapping[str, Setting]
    is_own: bool = False
    overridden: bool = False
    is_sweep: bool = False
    start: Start | None = None
    off: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_zero_shot(self) -> bool:
        """True if the recipe does not train the model."""
        return self.name in (ZERO_SHOT, TIMED) and not self.is_own

    @property
    def label(self) -> str:
        """Label of the recipe on a leaderboard, such as "paper+set sweep".

        It is the recipe's name, with "+set" if the user changed settings, and with "sweep" if
        several values of a setting are tried.
        """
        return recipe_label(self.name, overridden=self.overridden, is_sweep=self.is_sweep)


def resolve_recipe(
    spec: ModelSpec, task: str, recipe: str | None, overrides: Mapping[str, str]
) -> ResolvedRecipe:
    """Determine the hyperparameters of a model on a task, without a grid.

    The arguments are the same as for `resolve_sweep`.

    Raises:
        BenchError: There are several combinations of values, or values are unknown, ill-typed or
            out of range.
    """
    return _only_one(resolve_sweep(spec, task, recipe, overrides), f"for {task}")


def resolve_sweep(
    spec: ModelSpec,
    task: str,
    recipe: str | None,
    overrides: Mapping[str, str],
    *,
    techniques: Sequence[str] = (),
) -> tuple[ResolvedRecipe, ...]:
    """Determine the hyperparameters of a model on a task, for each combination of a grid.

    Values come from several sources, and later ones override earlier ones: the recipe on which the
    model's own recipe is based, the model's own recipe, values that the task's suite, a plugin or
    the task itself defines, `recipe`, and `overrides`. However, a model's own values for a task
    override those of the suite. Each recipe file has defaults, which are overridden by its values
    for the head type, the task and a frozen encoder, in this order. In `recipe`, values for small
    encoders override all of these, unless the encoder is frozen.

    There are two additions. If a flag with a recipe of its own is on (`Facts.recipe`), the values
    of that recipe override those of the model's own recipe. For pairs, multiple choice and
    text-to-text on a user's own data, `max_tokens` is the maximum length of the model, unless
    `overrides` or a user's recipe file sets it.

    A value with commas, or a list in a file, is a grid: there is one result per combination of
    values, and together these results are a sweep. However, different values of `features` do not
    belong to the same sweep. Values that are switched off, or that have no effect for the head type
    or with the other values, are checked and then left out, because the job does not depend on
    them.

    Args:
        spec: Model to train.
        task: Full name of the task.
        recipe: "fast", "checkpoints", "few-rows", "few-shot", "features", a recipe of an extension
            or the path of a TOML file. None and "paper" mean that only the model's own recipe is
            used.
        overrides: Values as typed after `--set`, keyed by hyperparameter. "x2" or "x0.5" multiplies
            the value of the recipe.
        techniques: Training techniques of the job. With TEACHER (distillation), the values of
            `student.toml` override those of the model's own recipe.

    Raises:
        BenchError: The recipe is unknown; or hyperparameters are unknown, or their values are
            ill-typed, out of range or do not fit the model. The message has one line for each.
    """
    head = TASKS[task].head
    if spec.is_baseline:
        settings = baseline_settings(spec.name, TASKS[task])
        return (ResolvedRecipe(name=BASELINE, settings=settings),)
    return _Asked(
        spec=spec,
        tables=("default", f"head/{head}", task),
        name=recipe or _PAPER,
        overrides=overrides,
        heads=(head,),
        techniques=techniques,
    ).resolve()


def resolve_together(
    spec: ModelSpec, tasks: Iterable[Task], recipe: str | None, overrides: Mapping[str, str]
) -> ResolvedRecipe:
    """Determine one set of hyperparameters for a model on tasks that are trained together.

    From each recipe file, the defaults, the values for the head types of the tasks, and the values
    in the TOML table [together] are used; later ones override earlier ones. Values for single tasks
    are ignored.

    Args:
        spec: Model to train.
        tasks: Tasks that are trained together.
        recipe: Name or path of a recipe, as in `resolve_sweep`.
        overrides: Values as typed after `--set`, keyed by hyperparameter.

    Raises:
        BenchError: There are several combinations of values, or values are unknown, ill-typed, out
            of range, or impossible in multi-task training.
    """
    heads = sorted({task.head for task in tasks})
    found = _Asked(
        spec=spec,
        tables=("default", *(f"head/{head}" for head in heads), TOGETHER),
        name=recipe or _PAPER,
        overrides=overrides,
        heads=heads,
        techniques=(TOGETHER,),
    ).resolve()
    first = _only_one(found, "for the tasks that are trained together")
    for name, reason in (
        ("features", "freezes the encoder, so the tasks would not train anything together"),
        ("orders", "needs pairs of texts, but not all of these tasks have a second text"),
    ):
        if name in first.settings:
            setting = first.settings[name]
            raise BenchError(
                f"{name} is {setting.value!r} ({setting.source}), which {reason}: remove {name} or "
                "--multi-task."
            )
    return first


def _only_one(found: Sequence[ResolvedRecipe], where: str) -> ResolvedRecipe:
    first, *others = found
    if others:
        raise BenchError(
            f"the recipe has {len(found)} combinations of values {where}, but only one can be used "
            "here: set each hyperparameter to a single value."
        )
    return first


@dataclass(frozen=True, kw_only=True)
class _Layers:
    """Layers of values from packaged files, from the named recipe, and from `--set`.

    The fields are in ascending order of priority.
    """

    packaged: Sequence[Mapping[str, Setting]]
    over: Sequence[Mapping[str, Setting]]
    typed: Mapping[str, Setting]


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Request for the hyperparameters of a model.

    `tables` are the TOML tables to read from recipe files. `heads` are the head types of the job's
    tasks, and `techniques` are its training techniques. `name` is "paper", the name of another
    packaged recipe, or the path of a file.
    """

    spec: ModelSpec
    tables: Sequence[str]
    name: str
    overrides: Mapping[str, str]
    heads: Sequence[str]
    techniques: Sequence[str]

    @property
    def is_own(self) -> bool:
        """True if the recipe is a user's file."""
        return self.name not in (_PAPER, *_OVER, *added_names())

    def typed_flag(self, name: str) -> bool | None:
        """Return the value of a flag on the command line: True, False, or None if it is not set."""
        word = self.overrides.get(name)
        return None if word is None else check_setting(name, _typed(word)).value is True

    def resolve(self) -> tuple[ResolvedRecipe, ...]:
        """Return the recipes of the whole grid, grouped by the value of `features`."""
        # The setting `features` may be a list with "fine-tuned" and other values. So recipe files
        # are read with and without their table [frozen], which does not apply to "fine-tuned".
        trained, frozen = self._layers(self.tables), self._layers((*self.tables, FROZEN))
        every = (*trained.packaged, *trained.over, trained.typed)  # in ascending priority
        read = next((layer[FEATURES] for layer in reversed(every) if FEATURES in layer), None)
        choices: Sequence[Setting | None] = (
            [None]
            if read is None
            else _feature_choices(read, self.spec, is_typed=FEATURES in trained.typed)
        )
        found: list[ResolvedRecipe] = []
        problems: dict[str, None] = {}
        for choice in choices:
            layers = trained if choice is None or choice.value == FINE_TUNED else frozen
            try:
                found += self._recipes(layers, choice, alone=len(choices) == 1)
            except BenchError as error:
                # Most values of `features` cause the same errors, so equal lines are merged.
                problems |= dict.fromkeys(str(error).splitlines())
        if not self.spec.is_hub:  # models on the hub are checked when jobs start
            problems |= dict.fromkeys(_unfit(self.spec, found))
        if problems:
            raise BenchError(*problems)
        return tuple(found)

    def _layers(self, tables: Sequence[str]) -> _Layers:
        # Later layers override earlier ones, so the model's own values come first.
        packaged = list(_packaged_layers(self.spec, tables))
        if TEACHER in self.techniques:
            packaged += _file_layers(packaged_names()[_STUDENT], tables)
        over = _layers_over(self.name, tables)
        over += _layers_for_small(self.spec, self.name, tables, packaged)
        for name in SWITCHES:
            in_files = any(layer[name].value is True for layer in over if name in layer)
            # The command line has priority: `--set as_text=false` overrides the value of a file.
            if in_files if self.typed_flag(name) is None else self.typed_flag(name):
                SETTINGS[name].check([TASKS[t] for t in tables if t in TASKS], self.techniques)
                packaged += _file_layers(packaged_names()[SETTINGS[name].recipe], tables)
            if self.typed_flag(name) is False:
                over = [{key: s for key, s in layer.items() if key != name} for layer in over]
        # For the user's own data, the model's maximum length overrides the `max_tokens` of a
        # packaged recipe, but a user's recipe file overrides the model's maximum length.
        if _cuts_own_rows(tables, packaged):
            (packaged if self.is_own else over).append({MAX_TOKENS: for_own_rows(self.spec)})
        typed = {
            # "x0.5" is half of the value from all other layers, so it is computed after them.
            name: _typed(_multiplied(name, text, packaged + over))
            for name, text in self.overrides.items()
            if name not in SWITCHES
        }
        return _Layers(packaged=packaged, over=over, typed=typed)

    def _recipes(
        self, layers: _Layers, choice: Setting | None, *, alone: bool
    ) -> Iterator[ResolvedRecipe]:
        """Yield the recipes of the grid for one value of `features`.

        `alone` is true if `features` has no other value.
        """
        named, typed = [*layers.packaged, *layers.over], dict(layers.typed)
        last = {} if choice is None else {FEATURES: choice}
        if choice is not None and choice.value == FINE_TUNED and not alone:
            typed.pop("lstm_size", None)  # an LSTM is used on frozen encoders only
        points = self._points([*named, typed, last], typed)
        # A setting is listed in `off` if the command that repeats the run must switch it off. This
        # command names the recipe. For a user's file or a grid, it instead uses the model's own
        # recipe and sets all values with --set.
        said = layers.packaged if self.is_own or len(points) > 1 else named
        # Names of the settings that this recipe switches on; only these can be listed in `off`.
        usual = set[str]()
        if typed or self.is_own or not alone:
            usual.update(self._points([*said, last])[0][0])
            usual.update({FEATURES} if any(FEATURES in layer for layer in said) else ())
        # If the values on the command line equal those of the recipe, the recipe does not count as
        # overridden. Otherwise the same job would have two names.
        is_overridden = bool(layers.typed)
        if typed and len(points) == 1:
            plain = self._points([*named, last])
            if len(plain) == 1 and _values(plain[0][0]) == _values(points[0][0]):
                points, is_overridden = plain, False
        name = Path(self.name).stem if self.is_own else self.name
        for own in (SETTINGS[flag].recipe for flag in SWITCHES if self.typed_flag(flag)):
            name = own if name == _PAPER else f"{own}-{name}"
        for settings, off in points:
            yield ResolvedRecipe(
                name=name,
                settings=settings,
                is_own=self.is_own,
                overridden=is_overridden,
                is_sweep=len(points) > 1,
                off={name: value for name, value in off.items() if name in usual},
            )

    def _points(
        self, layers: Iterable[Mapping[str, Setting]], typed: Collection[str] = ()
    ) -> list[tuple[dict[str, Setting], dict[str, Value]]]:
        """Merge layers, and return the settings and switched-off values of each grid combination.

        Combinations that give the same job are returned once. `typed` contains the names of the
        settings on the command line. All problems are raised as one error.
        """
        merged: dict[str, Setting] = {}
        for layer in layers:
            for name, facts in SETTINGS.items():
                # `steps` in an earlier layer must not override `epochs` in a later layer.
                if facts.instead_of in layer and name not in layer:
                    merged.pop(name, None)  # the later layer sets the same quantity in another unit
            merged.update(layer)
        found: dict[tuple[object, ...], tuple[dict[str, Setting], dict[str, Value]]] = {}
        problems: dict[str, None] = {}
        for point in expand_grid(merged):
            try:
                checked = within_reach(_checked(point), self.spec, typed)
            except BenchError as error:
                problems |= dict.fromkeys(str(error).splitlines())
                continue
            settings = applying(checked, self.heads, self.techniques)
            # Combinations that differ only in settings without an effect are the same job, so they
            # are merged. An example is the stride of a task whose texts are not split into windows.
            values = _values(settings)
            off = {name: s.value for name, s in checked.items() if is_default(name, s)}
            found.setdefault(values, (settings, off))
        if problems:
            raise BenchError(*problems)
        return list(found.values())


def _values(settings: Mapping[str, Setting]) -> tuple[tuple[str, Value], ...]:
    """Return the names and values of settings, without their sources."""
    return tuple((name, setting.value) for name, setting in settings.items())


def _typed(text: str) -> Setting:
    return Setting(value=text, source=SET)


_TIMES = re.compile(r"x(\d+(\.\d+)?(e-?\d+)?)")
"""Pattern for a multiple of the recipe's value on the command line, such as "x0.5"."""


def _multiplied(name: str, text: str, layers: Sequence[Mapping[str, Setting]]) -> str:
    """Replace each multiple of the recipe's value in typed text, such as "x0.5", by its result."""
    parts = [part.strip() for part in text.split(",")]
    times = [_TIMES.fullmatch(part) for part in parts]
    if not any(times):
        return text
    own = next((layer[name].value for layer in reversed(layers) if name in layer), None)
    # True and False are ints in Python, but cannot be multiplied.
    if isinstance(own, bool) or not isinstance(own, int | float):
        found = "does not set it" if own is None else f"has {own!r}"
        raise BenchError(
            f"--set {name}={text} is a multiple of the recipe's value, but the recipe {found}: "
            "use the value itself."
        )
    return ",".join(
        f"{own * float(found[1]):.10g}" if found else part  # 0.1 * 3 is shown as 0.3
        for part, found in zip(parts, times, strict=True)
    )


def _checked(merged: Mapping[str, Setting]) -> dict[str, Setting]:
    """Check one combination of values; return it with converted values, in SETTINGS' order."""
    problems: list[str] = []
    checked: dict[str, Setting] = {}
    for name, setting in merged.items():
        try:
            checked[name] = check_setting(name, setting)
        except BenchError as error:
            problems.append(str(error))
    problems += clashes(checked)
    if problems:
        raise BenchError(*problems)
    return {name: checked[name] for name in SETTINGS if name in checked}


def _unfit(spec: ModelSpec, points: Iterable[ResolvedRecipe]) -> Iterator[str]:
    """Yield a message for each recipe that needs a decoder or layers that the checkpoint lacks."""
    for point in points:
        if OF_DECODERS & point.settings.keys() and not has_decoder(config := config_of(spec)):
            yield no_decoder(f"{spec.name} belongs to the family {config['model_type']}, which")
        layers = point.settings.get("layers")
        numbers = {n: s.value for n, s in point.settings.items() if n in _OF_LAYERS}
        if (layers or numbers) and (count := count_layers(spec)):
            try:
                count = len(kept_layers(layers.value if layers else 0, count))  # type: ignore[arg-type]
            except ModelError as error:
                yield f"{spec.name}: {error}"
            for name in (name for name, value in numbers.items() if int(value) > count):
                yield (
                    f"{spec.name}: {name} is {numbers[name]}, but this encoder has only "
                    f"{counted(count, 'layer')}: use {name}={count} or less."
                )


_OF_LAYERS = frozenset(name for name, facts in SETTINGS.items() if facts.counts_layers)


def _feature_choices(setting: Setting, spec: ModelSpec, *, is_typed: bool) -> list[Setting]:
    """Return one setting per distinct value of `features`.

    "each" becomes the embeddings and every layer. Values in a recipe that need more layers than the
    encoder has are left out with a message, if the number of layers is known without a request to
    the hub.

    Raises:
        ModelError: A value from the command line, or every value, needs too many layers; or "each"
            is used for a model whose number of layers is unknown.
    """
    words = [str(choice.value) for choice in choices_of(setting)]
    # Only "each" needs the number of layers of a hub model, whose config must be downloaded.
    layers = None if spec.is_hub and EACH not in words else count_layers(spec)
    if EACH in words:
        if layers is None:
            raise ModelError(
                f"the config.json of {spec.name} does not contain the number of layers: name them "
                "one by one, as in features=layer-1,layer-2."
            )
        every = ["embeddings", *(f"{LAYER}{number}" for number in range(1, layers + 1))]
        words[(at := words.index(EACH)) : at + 1] = every
    too_deep = [word for word in words if layers is not None and least_layers(word) > layers]
    if too_deep and (is_typed or len(too_deep) == len(words)):
        raise ModelError(
            f"features={too_deep[0]} ({setting.source}) needs {least_layers(too_deep[0])} layers, "
            f"but {spec.name} has {layers}: choose embeddings, last, sum-all or mix."
        )
    if too_deep:
        _tell_left_out(spec.name, layers, ", ".join(too_deep))
    kept = dict.fromkeys(word for word in words if word not in too_deep)  # removes duplicates
    return [replace(setting, value=word) for word in kept]


@cache
def _tell_left_out(model: str, layers: int | None, features: str) -> None:
    """Print which features are left out, only once for all tasks."""
    sys.stderr.write(f"bench: {model} has only {layers} layers, too few for features={features}.\n")


def _cuts_own_rows(tables: Sequence[str], layers: Iterable[Mapping[str, Setting]]) -> bool:
    """Return whether a recipe's `max_tokens` would truncate rows of the user's own data.

    This is true for pairs, multiple choice and text-to-text. Other tasks split long texts into
    windows.
    """
    tasks = [TASKS[table] for table in tables if table in TASKS]
    is_text = any({*SWITCHES} & layer.keys() for layer in layers)
    return any(t.definition and (is_text or t.head in ("pair", "choice")) for t in tasks)


def _layers_over(name: str, tables: Sequence[str]) -> list[Mapping[str, Setting]]:
    """Return the layers of a recipe that overrides a model's own recipe; none for "paper"."""
    if name == _PAPER:
        return []
    path = _recipe_path(name)
    if like := read_like(path):
        raise BenchError(
            f"{path.name} is based on {like!r}, but your own recipe always overrides the model's "
            "recipe: remove the table [like]."
        )
    return _file_layers(path, tables)


_SMALL_SIZE = 512
"""Hidden size below which an encoder is small. The recipes of most papers are for 768 or more."""


def _layers_for_small(
    spec: ModelSpec,
    name: str,
    tables: Sequence[str],
    packaged: Sequence[Mapping[str, Setting]],
) -> list[Mapping[str, Setting]]:
    """Return the layer of a recipe's values for small encoders; none for other encoders.

    There is none for a frozen encoder either. A learning rate is left out if it is not above that
    of the model's own recipe (`packaged`).
    """
    usable = name != _PAPER and FROZEN not in tables
    values = dict(_layers_over(name, (SMALL,))[0]) if usable else {}
    if not values or (size := hidden_size(spec)) is None or size >= _SMALL_SIZE:
        return []
    own = next((layer[_RATE].value for layer in reversed(packaged) if _RATE in layer), 0.0)
    rate = as_number(values[_RATE].value) if _RATE in values else None  # None for several rates
    if rate is not None and (as_number(own) or 0.0) >= rate:
        del values[_RATE]
    return [values]


_RATE = "learning_rate"


def packaged_recipe(spec: ModelSpec) -> Path:
    """Return the path of a model's own recipe file.

    It is the file that the model's description names. If the description names none, it is the file
    of the model's family. If the family has none, it is the file of decoders or BERT's file.

    Raises:
        BenchError: The model's description names a recipe that does not exist.
    """
    if spec.recipe and spec.recipe not in packaged_names():
        raise unknown_name(f"recipe of {spec.name}", spec.recipe, packaged_names())
    for name in (spec.recipe, spec.family):
        if name in packaged_names():
            return packaged_names()[name]
    # If the family is unknown, it is not looked up on the hub.
    is_known_decoder = is_causal({"model_type": spec.family})
    return packaged_names()[_DECODER if is_known_decoder else _FALLBACK]


def _packaged_layers(spec: ModelSpec, tables: Sequence[str]) -> Iterator[Mapping[str, Setting]]:
    """Yield all packaged layers of values for a model, in ascending priority.

    The layers come from the recipes on which the model's own recipe is based, its own recipe, the
    suite, plugins (for their tasks), and the task itself.
    """
    own = packaged_recipe(spec)
    for path in _ancestors(own):
        for layer in _file_layers(path, tables):
            yield {name: _inherited(setting, path) for name, setting in layer.items()}
    yield from _file_layers(own, tables)
    yield from _of_decoders(spec, tables)
    for table in tables:
        suite = SUITES.get(table.partition("/")[0])
        if suite is None or suite.recipe is None or own.stem == "tiny":
            continue
        yield from _file_layers(suite.recipe, tables)
        for path in (*_ancestors(own), own):  # a model's own values override the suite's
            yield from _file_layers(path, [table])
    yield from (HINTS[table] for table in tables if table in HINTS)
    for task in (TASKS[table] for table in tables if table in TASKS):
        if task.longest:
            yield {MAX_TOKENS: Setting(value=task.longest, source=task.cite)}


def _of_decoders(spec: ModelSpec, tables: Sequence[str]) -> Iterator[Mapping[str, Setting]]:
    """Yield a layer with the values that hold for every decoder, if the model is a decoder."""
    pooled = SETTINGS[POOLING].heads if POOLING in SETTINGS else ()
    if any(f"head/{head}" in tables for head in pooled) and is_decoder(spec):
        yield {POOLING: LAST_OF_DECODER}


POOLING = "pooling"
"""Name of the hyperparameter of heads that pool the token states of a text into a vector."""

LAST_OF_DECODER = Setting(
    value=LAST, source="ours: only the last state of a decoder depends on all tokens"
)
"""Default pooling of a decoder: the vector of a text is the state of its last token."""


def is_decoder(spec: ModelSpec) -> bool:
    """Return whether a model is a decoder, in which tokens attend only to earlier tokens.

    The result is false if this is unknown.
    """
    return is_causal(family_config(spec))


def _ancestors(path: Path) -> list[Path]:
    """Return the packaged recipes on which a recipe is based, the most distant one first."""
    if path.stem == _FALLBACK:
        return []
    parent = packaged_names()[read_like(path) or _FALLBACK]
    return [*_ancestors(parent), parent]


def _inherited(setting: Setting, path: Path) -> Setting:
    if setting.source.startswith(_OURS):
        return setting
    return replace(setting, source=f"as {path.stem}: {setting.source}")


def _recipe_path(name: str) -> Path:
    known = (*_OVER, *added_names())
    if name in known:
        return packaged_names()[name]
    path = Path(name).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return path
    hint = f"Use {', '.join((_PAPER, *known))}, or the path of a TOML file."
    raise unknown_name("recipe", name, (_PAPER, *known), hint)


def protocol_of(recipe: str | None) -> Protocol:
    """Return the defaults that a recipe sets for options which the user leaves out.

    Args:
        recipe: Name or path of a recipe. None and "paper" have no such defaults.

    Raises:
        BenchError: The recipe file cannot be read, has an invalid [protocol], or has a table for an
            unknown task or head type.
    """
    if recipe is None or recipe == _PAPER:
        return Protocol()
    path = _recipe_path(recipe)
    check_tables(path)
    return read_protocol(path)


def _file_layers(path: Path, tables: Sequence[str]) -> list[Mapping[str, Setting]]:
    known = read_recipe(path)
    return [known.get(table, {}) for table in tables]


def unused_settings(
    overrides: Mapping[str, str], recipe: str | None, used: Set[str]
) -> Iterator[str]:
    """Yield a message for each value that the user set although no job uses it.

    An example is `temperature` without a teacher. There is also a message if the recipe sets values
    for distillation, but no job uses any of them.

    Args:
        overrides: Values as typed after `--set`, keyed by hyperparameter.
        recipe: Name or path of the recipe that the user chose; None if there is none.
        used: Names of the settings that jobs use.
    """
    for name, text in overrides.items():
        words = choices_of(_typed(text))
        # A value that switches a setting off (lora_rank=0) is not reported: users expect that no
        # job uses the setting.
        is_on = any(
            _is_of_the_model(word) or not is_default(name, check_setting(name, word))
            for word in words
        )
        if name not in used and is_on:
            yield f"{name} (--set) has no effect on any of these jobs and is ignored."
    tables = read_recipe(_recipe_path(recipe)).values() if recipe not in (None, _PAPER) else ()
    taught = [name for name in OF_STUDENTS if any(name in table for table in tables)]
    if taught and not used & {*taught}:
        yield (
            f"the recipe {recipe} is for distillation, but there is no --teacher: "
            f"{', '.join(taught)} are ignored."
        )


def check_override(name: str, text: str) -> None:
    """Check a value on the command line as far as possible without a model.

    Args:
        name: Name of the hyperparameter.
        text: Value as typed after `--set NAME=`.

    Raises:
        BenchError: The value is invalid for every model.
    """
    for word in choices_of(_typed(text)):
        if not _is_of_the_model(word):
            check_setting(name, word)


def _is_of_the_model(word: Setting) -> bool:
    """Return whether a value's meaning depends on the model: "each", or a multiple such as "x2"."""
    return word.value == EACH or _TIMES.fullmatch(str(word.value)) is not None


# In intermediate training, the encoder of a job is first trained on another task. The command line
# or a recipe names this task, such as `start_from = { value = "glue/mnli", source = "..." }` in
# [glue.rte]. The default, "pretrained", means that the job starts from the checkpoint itself.

_OPTION = "--start-from"


def with_start(
    resolved: ResolvedRecipe,
    spec: ModelSpec,
    task: Task,
    *,
    recipe: str | None = None,
    start_from: str | Start | None = None,
) -> ResolvedRecipe:
    """Add to a resolved recipe the task on which the encoder is trained first, if there is one.

    If neither a recipe nor an option names such a task, the recipe is returned unchanged.
    "pretrained" is recorded only if it overrides the `start_from` of a recipe. A recipe that is
    based on another recipe does not inherit the `start_from` of that recipe, because training on
    the first task costs more than training on the task itself.

    Args:
        resolved: The resolved recipe.
        spec: The model. If it starts from the weights of another checkpoint (`spec.start`), this
            start is used.
        task: Task of the job.
        recipe: Name or path of the recipe that the user chose; None if there is none.
        start_from: "pretrained", the full name of a task, or a Start; None for the `start_from` of
            the recipes.

    Raises:
        BenchError: The first task is unknown, has no train rows, or is the task of the job.
    """
    if spec.start is not None:
        return _started(resolved, spec.start, Setting(value=spec.start.name, source=_OPTION))
    if isinstance(start_from, Start):
        return _started(resolved, start_from, Setting(value=start_from.kind, source=_OPTION))
    files = [packaged_recipe(spec), *([] if recipe in (None, _PAPER) else [_recipe_path(recipe)])]
    tables = ("default", f"head/{task.head}", task.name)
    # The last value is used: the named recipe overrides the model's own recipe, and in each file
    # the table of the task overrides those of the head type and the defaults.
    lines = [starts[t] for starts in map(read_starts, files) for t in tables if t in starts]
    line = lines[-1] if lines else None
    if start_from is not None:
        # With `--start-from mnli` for all of GLUE, MNLI itself starts from the pretrained weights.
        value = PRETRAINED if start_from == task.name else start_from
        line = Setting(value=value, source=_OPTION)
    named = any(line.value != PRETRAINED for line in lines)
    # If no recipe names a task, "pretrained" changes nothing, so nothing is added to the job.
    if line is None or (line.value == PRETRAINED and not named):
        return resolved
    if line.value == PRETRAINED:
        return _started(resolved, Start(kind="pretrained"), line)
    _check(line, task)
    return _started(resolved, Start(kind="task", name=str(line.value)), line)


def _started(resolved: ResolvedRecipe, start: Start, line: Setting) -> ResolvedRecipe:
    return replace(resolved, start=start, settings={**resolved.settings, START_FROM: line})


def start_task(recipe: ResolvedRecipe) -> str | None:
    """Return the full name of the task on which the encoder is trained first.

    The result is None if there is no such task, or if the encoder comes from a multi-task run.
    """
    start = recipe.start
    return start.name if start is not None and start.kind == "task" else None


def with_start_tasks(specs: Iterable[ModelSpec], tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks, and all further tasks on which encoders must be trained first.

    The models' own recipes name such tasks in `start_from`. A task that is added may start from
    another task, which is then added too.

    Args:
        specs: Models to train.
        tasks: The tasks for which the models are trained.
    """
    found = {task.name: task for task in tasks}
    nothing = ResolvedRecipe(name="", settings={})
    for spec in specs:
        waiting = list(found.values())
        for task in waiting:
            start = start_task(with_start(nothing, spec, task))
            if start is not None and start not in found:
                found[start] = TASKS[start]
                waiting.append(TASKS[start])  # this task may itself start from another one
    return list(found.values())


def _check(line: Setting, task: Task) -> None:
    start = TASKS.get(str(line.value))
    if start is None:
        raise unknown_name("task to start from", str(line.value), [PRETRAINED, *TASKS])
    if not start.has_train or start.name == task.name:
        raise BenchError(
            f"{task.name} cannot start from {start.name} ({line.source}): expected another task "
            "that has training rows."
        )


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Setting that has different values in two recipes.

    Attributes:
        setting: Name of the setting.
        first: Value and source in the first recipe; None if the recipe lacks the setting.
        second: Value and source in the second recipe; None if the recipe lacks the setting.
        tasks: Full names of the tasks for which the values differ in this way.
    """

    setting: str
    first: Setting | None
    second: Setting | None
    tasks: tuple[str, ...] = ()


def compare_recipes(
    first: ModelSpec, second: ModelSpec, tasks: Iterable[Task], recipe: str | None = None
) -> tuple[Difference, ...]:
    """Compare the recipes of two models, and return the settings with different values.

    Tasks with the same two values share one Difference, which has the sources of the values for the
    first of these tasks.

    Args:
        first: The first model.
        second: The second model.
        tasks: Tasks for which the recipes are compared.
        recipe: Name or path of a recipe that overrides the second model's own recipe; None if there
            is none.

    Raises:
        BenchError: A recipe has several combinations of values (a grid).
    """
    groups: dict[tuple[str, object, object], Difference] = {}
    for task in tasks:
        ours, theirs = (
            with_start(resolve_recipe(spec, task.name, own, {}), spec, task, recipe=own).settings
            for spec, own in ((first, None), (second, recipe))
        )
        for name, (one, other) in different_settings(ours, theirs).items():
            values = (name, one and one.value, other and other.value)
            known = groups.get(values, Difference(setting=name, first=one, second=other))
            groups[values] = replace(known, tasks=(*known.tasks, task.name))
    order = [*SETTINGS, START_FROM]  # sort in display order
    return tuple(sorted(groups.values(), key=lambda found: order.index(found.setting)))


# The maximum length of inputs is the value of the recipe, but at most the maximum of the encoder.

MAX_TOKENS = "max_tokens"

USUAL = 512
"""Maximum length of the user's own rows for an encoder without a limit, because most encoders are
pretrained with 512 tokens."""


def within_reach(
    settings: Mapping[str, Setting], spec: ModelSpec, typed: Collection[str] = ()
) -> Mapping[str, Setting]:
    """Limit the setting `max_tokens` to the maximum length of the model.

    If the setting is not larger, or if the model has no limit or an unknown limit, the settings are
    returned unchanged.

    Args:
        settings: Settings, keyed by name.
        spec: Model to train.
        typed: Names of the settings that the user set on the command line.

    Raises:
        BenchError: The value is too large, and the user set it on the command line.
    """
    setting, longest = settings.get(MAX_TOKENS), reach(spec)
    if setting is None or longest is None or int(setting.value) <= longest:
        return settings
    if MAX_TOKENS in typed:
        raise BenchError(
            f"{spec.name} reads at most {longest} tokens: use a smaller value than --set "
            f"{MAX_TOKENS}={setting.value}, or remove it."
        )
    source = f"all that {spec.name} reads; {setting.value} by {setting.source}"
    return {**settings, MAX_TOKENS: replace(setting, value=longest, source=source)}


def for_own_rows(spec: ModelSpec) -> Setting:
    """Return the setting `max_tokens` for a user's own data, for which no paper has a value.

    It is the maximum length of the model. A smaller value would not save time for short rows,
    because a batch is only as long as its longest row. If the model has no limit, or if its limit
    is unknown, the value is 512.
    """
    longest = reach(spec)
    if longest is None:
        return Setting(value=USUAL, source=f"ours: {spec.name} has no limit of its own")
    return Setting(value=longest, source=f"ours: all that {spec.name} reads, for your own data")
