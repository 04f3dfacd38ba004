"""From what a user types after `--model` to a ModelSpec."""

import re
from dataclasses import replace
from pathlib import Path

from benchharness.models.folder import describe_folder
from benchharness.models.spec import ModelSpec
from benchharness.models.table import MODELS
from benchharness.models.trust import NOTHING, Trust
from tasks.errors import ModelError, unknown_name

__all__ = ["find_model"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def find_model(name: str, trust: Trust = NOTHING) -> ModelSpec:
    """The model of that name: a known one, a checkpoint folder, or a name on the hub.

    Known names, aliases and hub ids come first, so that a folder called `roberta-base` in the
    current directory is never taken by accident: write `./roberta-base` for it. NAME=FOLDER says
    what a folder is, whatever it is called: a known model, with its recipe, or a name for the
    board. `trust` is what the user allows a checkpoint to do, of which encoders of ours and floors
    have no need. Raises ModelError for a folder that is no checkpoint, or none of the known model's
    family, and BenchError with a close name for anything else.
    """
    folder = Path(name).expanduser()
    if (known := _known(name)) is not None:
        return replace(known, trust=trust) if known.is_hub or known.is_folder else known
    if name.strip() and _is_folder(folder):
        return describe_folder(folder.resolve(), trust)
    given, _, path = name.partition("=")
    if given.strip() and path.strip() and _is_folder(Path(path).expanduser()):
        return _called(given.strip(), describe_folder(Path(path).expanduser().resolve(), trust))
    if _HUB_ID.fullmatch(name):
        title = f"{name} on the hub"
        return ModelSpec(name=name, checkpoint=name, revision="main", title=title, trust=trust)
    hint = (
        "`bench list models` shows the known ones; a folder or an `org/name` on the hub works too."
    )
    raise unknown_name("model or checkpoint folder", name, _names(), hint)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _called(name: str, found: ModelSpec) -> ModelSpec:
    """The checkpoint of a folder under a name that the user gives it."""
    known = _known(name)
    if known is None:
        return replace(found, name=name)
    if known.family != found.family or not known.is_hub:
        raise ModelError(
            f"{found.checkpoint} holds a {found.family} encoder, and {known.name} is "
            f"{known.title}: give the folder another name."
        )
    return replace(
        known,
        checkpoint=found.checkpoint,
        revision="",
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
