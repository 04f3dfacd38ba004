"""Find the models that the argument of `--model` names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path

from benchharness.errors import ModelError, unknown_name
from benchharness.leaderboard.job import Stage, Trust
from benchharness.models.folder import describe_folder, read_object
from benchharness.models.spec import MODELS, NOTHING, ModelSpec, bare

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)\w[\w./+-]*", re.ASCII)
"""Pattern of a branch, a tag or a commit. As in git, two dots in a row are not allowed."""


def find_model(name: str, trust: Trust = NOTHING) -> ModelSpec:
    """Find a model by its name, which is a known model, a checkpoint folder or a hub id.

    Known names, aliases and hub ids take precedence, so a folder called `roberta-base` in the
    current directory is never used by accident; `./roberta-base` is that folder. NAME=FOLDER gives
    a folder another name on the leaderboard. If NAME is a known model, the folder also gets the
    recipe of that model. The name of a hub model may end in `@REVISION`, where REVISION is a
    branch, a tag or a commit.

    Args:
        name: The name as the user typed it.
        trust: Permissions that the user gives the checkpoint. They have no effect on built-in
            encoders and baselines.

    Raises:
        ModelError: The name is a file, or a folder that is not a usable checkpoint; or
            NAME is a built-in encoder, a baseline, or a known model of another family than the
            checkpoint in FOLDER.
        BenchError: The name is unknown; the message suggests a similar name.
    """
    folder = Path(name).expanduser()
    if (known := _known(name)) is not None:
        return replace(known, trust=trust) if known.is_hub or known.is_folder else known
    if name.strip() and _is_folder(folder):
        return describe_folder(folder.resolve(), trust)
    for given, path in _named(name):
        if given and path and _is_folder(Path(path).expanduser()):
            return _called(given, describe_folder(Path(path).expanduser().resolve(), trust))
    on_hub, at, revision = name.partition("@")
    if (spec := _on_hub(on_hub, trust)) is not None:
        if not at:
            return spec
        if _REVISION.fullmatch(revision):
            return _at_revision(spec, revision)
    _refuse_file(folder)
    hint = "`bench show models` lists known models; a folder or an `org/name` on the hub works too."
    raise unknown_name("model or checkpoint folder", name, _names(), hint)


def _refuse_file(path: Path) -> None:
    if path.name and _is_there(str(path)) and not _is_folder(path):
        raise ModelError(f"{path} is a file, but a checkpoint is a folder: {bare([path.name])}")


def _on_hub(name: str, trust: Trust) -> ModelSpec | None:
    """Return the hub model with this name, which may be a known model; None if there is none."""
    known = _known(name)
    if known is not None:
        return replace(known, trust=trust) if known.is_hub else None
    if not _HUB_ID.fullmatch(name):
        return None
    title = f"{name} on the hub"
    return ModelSpec(name=name, checkpoint=name, revision="main", title=title, trust=trust)


def _at_revision(spec: ModelSpec, revision: str) -> ModelSpec:
    """Return the model at a revision, with a pretraining stage if the revision names a step."""
    step, tokens = _numbers_in(revision)
    stage = None
    if step is not None:
        stage = Stage(run=spec.name, step=step, tokens=tokens, family=spec.family)
    return replace(
        spec,
        name=f"{spec.name}@{revision}",
        revision=revision,
        title=f"{spec.checkpoint} at {revision}",
        note="",  # the note is about the pinned commit
        stage=stage,
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # not a valid file name
        return False


def _called(name: str, found: ModelSpec) -> ModelSpec:
    """Return the model in a folder under the name that the user has chosen for it."""
    known = _known(name)
    if known is None:
        return replace(found, name=name)
    if known.family != found.family or not known.is_hub:
        raise ModelError(
            f"{found.checkpoint} contains a {found.family} encoder, but {known.name} is the name "
            f"of {known.title}: choose another name for the folder."
        )
    return replace(
        known,
        checkpoint=found.checkpoint,
        revision="",  # a folder has no revision
        parameters=found.parameters,
        max_tokens=found.max_tokens,
        trust=found.trust,
    )


def _known(name: str) -> ModelSpec | None:
    wanted = name.lower()
    for spec in MODELS.values():
        if wanted in (spec.name, spec.checkpoint.lower(), *spec.aliases):
            return spec
    return None


def _names() -> list[str]:
    return [name for spec in MODELS.values() for name in (spec.name, *spec.aliases)]


# Several checkpoints of one pretraining run: the folders that match a pattern, in order.


def find_models(name: str, trust: Trust = NOTHING) -> tuple[ModelSpec, ...]:
    """Find all models that match a folder pattern, or the single model with this name.

    The folders that match a pattern ('DIR/step-*') are the checkpoints of one pretraining run.

    Args:
        name: The name of a model, as for `find_model`, or a pattern. In the form NAME='DIR/step-*',
            NAME is the name of the pretraining run; by default, this is the name of the folder that
            contains the checkpoints.
        trust: Permissions that the user gives the checkpoints.

    Returns:
        The models; those of a pretraining run are in the order of their steps.

    Raises:
        BenchError: There is no such model, or no folder matches the pattern. It is also raised if
            the training step of a checkpoint is unknown, if two checkpoints have the same step, or
            if the checkpoints belong to different model families.
    """
    if not has_magic(name) or _known(name) is not None or _is_folder(Path(name).expanduser()):
        return (find_model(name, trust),)
    ways = [*_named(name), ("", name)]  # the pattern itself may contain "="
    given, pattern = next((way for way in ways if _is_there(way[1])), ways[0])
    if given and _is_folder(Path(pattern).expanduser()):
        return (find_model(name, trust),)
    found = [describe_folder(path, trust) for path in _matches(pattern)]
    run = given or Path(found[0].checkpoint).parent.name
    return tuple(_in_order(run, found, named=given))


def _named(name: str) -> list[tuple[str, str]]:
    """Return all ways to split NAME=FOLDER, because both parts may contain "=" (`runs/lr=1e-4`)."""
    parts = name.split("=")
    # "bert=runs/lr=1e-4" gives "bert" and "runs/lr=1e-4", then "bert=runs/lr" and "1e-4".
    ways = (("=".join(parts[:n]), "=".join(parts[n:])) for n in range(1, len(parts)))
    return [(given.strip(), folder.strip()) for given, folder in ways]


def _is_there(pattern: str) -> bool:
    whole = Path(pattern).expanduser()
    return _is_folder(whole) or bool(glob(str(whole)))  # noqa: PTH207  (as in _matches)


def _matches(pattern: str) -> list[Path]:
    """Return the absolute folders that match a pattern; raise ModelError if there are none."""
    whole = str(Path(pattern).expanduser())
    matches = map(Path, glob(whole))  # noqa: PTH207  (Path.glob takes no absolute pattern)
    found = sorted(path for path in matches if path.is_dir())
    if not found:
        raise ModelError(f"no folder matches {pattern!r}: {_what_is_there(Path(whole).parent)}.")
    return [path.resolve() for path in found]


_FEW = 5
"""Largest number of names that an error message lists."""


def _what_is_there(folder: Path) -> str:
    if has_magic(str(folder)):
        return "use another pattern"
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"the folders in {folder} are {', '.join(names[:_FEW]) or 'none'}{more}"


def _in_order(run: str, found: Sequence[ModelSpec], named: str) -> Iterator[ModelSpec]:
    """Yield the checkpoints of a run, each with its own name, in the order of their steps."""
    families = {spec.family: spec for spec in found}
    if len(families) > 1:
        kinds = " and ".join(f"{Path(s.checkpoint).name} is {f}" for f, s in families.items())
        raise ModelError(
            f"the checkpoints of {run} belong to different families ({kinds}), so they cannot be "
            "those of one pretraining run: use a separate pattern for each family."
        )
    stages = {spec: _stage_of(run, spec) for spec in found}
    by_step: dict[int, ModelSpec] = {}
    for spec, stage in stages.items():
        other = by_step.setdefault(stage.step, spec)
        if other is not spec:
            raise ModelError(
                f"{other.checkpoint} and {spec.checkpoint} both have step {stage.step}: use a "
                "pattern that matches only one of them."
            )
    for spec in sorted(found, key=lambda spec: stages[spec].step):
        known = _called(named, spec) if named else spec
        yield replace(known, name=f"{run}/{Path(spec.checkpoint).name}", stage=stages[spec])


_STATE, _OWN = "trainer_state.json", "pretraining.json"
"""Files next to a checkpoint that contain its training step. transformers' Trainer writes the
first, and users may write the second."""


def _stage_of(run: str, spec: ModelSpec) -> Stage:
    """Return the pretraining stage of a checkpoint, from files in its folder or from its name."""
    folder = Path(spec.checkpoint)
    step, tokens = _numbers_in(folder.name, bare=True)
    state, own, config = (read_object(folder / n) for n in (_STATE, _OWN, "config.json"))
    steps = (state.get("global_step"), own.get("step"), step)
    seen = (state.get("num_input_tokens_seen"), own.get("tokens"), config.get("tokens_seen"))
    found = next((n for n in steps if _is_count(n)), None)
    if found is None:
        raise ModelError(
            f"{folder} does not show at which training step it was saved: expected a number in its "
            f"name (step-1000), global_step in {_STATE}, or step in {_OWN}."
        )
    # The Trainer writes 0 if it does not count tokens.
    counted = next((n for n in seen if _is_count(n) and (n or found == 0)), tokens)
    return Stage(run=run, step=found, tokens=counted, family=spec.family)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
# Matches "-1000", "_20k" and "=1.5b". A fraction needs a unit: 1.5 alone is probably a version.
_NUMBER = r"[-_=]?(\d+|\d+\.\d+(?=[kmbt]))([kmbt]?)(?![a-z\d.])"


def _numbers_in(name: str, *, bare: bool = False) -> tuple[int | None, int | None]:
    """Return the step and the number of tokens in a name, such as "step1000-tokens4B".

    If `bare` is true, the last number in the name is the step even without the word "step", as in
    "checkpoint-500".
    """
    low = name.lower()
    tokens = re.search(rf"tokens?{_NUMBER}", low)
    if tokens:
        low = low.replace(tokens[0], "")  # "tokens4B" is not a step
    steps = re.findall(rf"steps?{_NUMBER}", low)
    if bare and not steps:
        steps = re.findall(rf"(?<![\d.]){_NUMBER}", low)
    return (_count(*steps[-1]) if steps else None, _count(*tokens.groups()) if tokens else None)


def _count(digits: str, unit: str) -> int:
    return round(float(digits) * _UNITS[unit])  # a float product may be slightly below the integer
