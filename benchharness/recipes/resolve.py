"""From a model, a task and the command line to every hyperparameter's value and its source."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from benchharness.models.spec import ModelSpec
from benchharness.recipes.check import check_setting
from benchharness.recipes.floor import FLOOR, floor_settings
from benchharness.recipes.grid import expand_grid
from benchharness.recipes.read import packaged_names, read_like, read_recipe
from benchharness.recipes.recipe import FINE_TUNED, Recipe
from leaderboard.job import Setting
from leaderboard.sweep import sweep_name
from tasks.errors import BenchError, unknown_name

__all__ = ["ResolvedRecipe", "resolve_recipe", "resolve_sweep"]

PAPER = "paper"
FAST = "fast"
FALLBACK = "bert"
"""The recipe of a family without a file of its own: most later papers start from BERT's grid."""

ONLY = {"stride": "span", "max_question_tokens": "span"}
"""Hyperparameters of one head type alone; other heads' jobs, and their keys, are without them."""

OFF = {field.name: field.default for field in fields(Recipe) if field.default is not None}
"""What a hyperparameter is when it is off; a job and its key are without it then."""

TRAINS_ENCODER = ("dropout", "lora_rank", "unfreeze", "layer_decay", "top_layer_depth")
"""Hyperparameters that mean nothing where the encoder is frozen."""

OURS = "ours:"
"""How the source of a value begins that we chose ourselves: it is no other model's either."""


@dataclass(frozen=True, kw_only=True)
class ResolvedRecipe:
    """The settings of one job and the name that they go by on a board ("paper", "fast", a file)."""

    name: str
    settings: Mapping[str, Setting]


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


def resolve_sweep(
    spec: ModelSpec,
    task: str,
    recipe: str | None,
    overrides: Mapping[str, str],
    head: str = "pair",
) -> tuple[ResolvedRecipe, ...]:
    """Every hyperparameter of a model on a task (its full name, "glue/cola", and its head type).

    Later layers win: the defaults of the recipe that the model's own is like, its values for the
    head type and for the task; the same three of the model's own recipe, and of `recipe` ("fast" or
    the path of a TOML file; None and "paper" add nothing); then `overrides` as typed after `--set`.
    A value with commas, or a list in a file, is a grid: each of its points is a recipe, and they
    are called a sweep. What is only for another head type (a stride), is off, or means nothing
    beside other values is checked and left out, because it is no part of this job. Raises
    BenchError with one line for each value that is unknown, ill-typed or out of range.
    """
    if spec.is_floor:
        return (ResolvedRecipe(name=FLOOR, settings=floor_settings(spec.name, head)),)
    layers = list(_packaged_layers(spec, task, head))
    name = recipe or PAPER
    if name != PAPER:
        layers += _laid_over(_recipe_path(name), task, head)
    layers.append({key: Setting(value=text, source="--set") for key, text in overrides.items()})
    points = _points(layers, head)
    label = name if name in (PAPER, FAST) else Path(name).stem
    label += "+set" if overrides else ""
    label = sweep_name(label) if len(points) > 1 else label
    return tuple(ResolvedRecipe(name=label, settings=settings) for settings in points)


def packaged_recipe(spec: ModelSpec) -> Path:
    """The recipe file that fits a model: its own, else its family's, else BERT's."""
    for name in (spec.recipe, spec.family):
        if name in packaged_names():
            return packaged_names()[name]
    return packaged_names()[FALLBACK]


def _packaged_layers(spec: ModelSpec, task: str, head: str) -> Iterator[Mapping[str, Setting]]:
    """The layers of a model's recipe over those of the recipes that it is like, BERT's first."""
    own = packaged_recipe(spec)
    for path in _ancestors(own):
        for layer in _file_layers(path, task, head):
            yield {name: _inherited(setting, path) for name, setting in layer.items()}
    yield from _file_layers(own, task, head)


def _ancestors(path: Path) -> list[Path]:
    """The packaged recipes that one is like, the furthest first."""
    if path.stem == FALLBACK:
        return []
    parent = packaged_names()[read_like(path) or FALLBACK]
    return [*_ancestors(parent), parent]


def _inherited(setting: Setting, path: Path) -> Setting:
    if setting.source.startswith(OURS):
        return setting
    return replace(setting, source=f"as {path.stem}: {setting.source}")


def _recipe_path(name: str) -> Path:
    if name == FAST:
        return packaged_names()[FAST]
    path = Path(name).expanduser()
    if path.suffix == ".toml" or path.is_file():
        return path
    raise unknown_name(
        "recipe", name, (PAPER, FAST), "Known: paper, fast, or the path of a TOML file."
    )


def _laid_over(path: Path, task: str, head: str) -> list[Mapping[str, Setting]]:
    """The layers of `--recipe`, which is always like the model's own recipe."""
    if like := read_like(path):
        raise BenchError(
            f"{path.name} is like {like!r}, but a recipe of your own lies over that of the model: "
            "leave the table [like] out."
        )
    return _file_layers(path, task, head)


def _file_layers(path: Path, task: str, head: str) -> list[Mapping[str, Setting]]:
    tables = read_recipe(path)
    return [tables.get(name, {}) for name in ("default", f"head/{head}", task)]


def _points(layers: Iterable[Mapping[str, Setting]], head: str) -> list[dict[str, Setting]]:
    """Every point of the last values, each once and checked; all that is wrong is said at once."""
    merged: dict[str, Setting] = {}
    for layer in layers:
        merged.update(layer)
    found: dict[tuple[object, ...], dict[str, Setting]] = {}
    problems: dict[str, None] = {}
    for point in expand_grid(merged):
        try:
            settings = _relevant(_checked(point), head)
        except BenchError as error:
            problems |= dict.fromkeys(str(error).splitlines())
            continue
        found.setdefault(tuple(setting.value for setting in settings.values()), settings)
    if problems:
        raise BenchError("\n".join(problems))
    return list(found.values())


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
    problems += _conflicts(checked)
    if problems:
        raise BenchError("\n".join(problems))
    return {name: checked[name] for name in known if name in checked}


def _relevant(settings: Mapping[str, Setting], head: str) -> dict[str, Setting]:
    """The settings that the result of a job depends on."""
    on = {name: s for name, s in settings.items() if s.value != OFF.get(name)}
    needless = {name for name, only in ONLY.items() if only != head}
    if "features" in on:
        needless.update(TRAINS_ENCODER)
    if "layer_decay" not in on:
        needless.add("top_layer_depth")
    return {name: setting for name, setting in on.items() if name not in needless}


def _conflicts(settings: Mapping[str, Setting]) -> list[str]:
    return [*_too_many_parts(settings), *_trained_yet_frozen(settings)]


def _trained_yet_frozen(settings: Mapping[str, Setting]) -> Iterator[str]:
    features = settings.get("features")
    if features is None or features.value == FINE_TUNED:
        return
    for name in ("lora_rank", "unfreeze"):
        if name in settings and settings[name].value != OFF[name]:
            yield (
                f"{name} is {settings[name].value!r} ({settings[name].source}), but features is "
                f"{features.value!r} ({features.source}), which leaves the encoder as it is: give "
                "one of them."
            )


def _too_many_parts(settings: Mapping[str, Setting]) -> list[str]:
    batch, parts = settings.get("batch_size"), settings.get("accumulation")
    if batch is None or parts is None or int(parts.value) <= int(batch.value):
        return []
    sentence = (
        f"accumulation is {parts.value} ({parts.source}), but a batch of {batch.value} examples "
        f"({batch.source}) cannot be computed in more parts than it has examples."
    )
    return [sentence]
