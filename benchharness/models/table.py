"""The known checkpoints, read from the files in models/known. Anything else runs unregistered.

A file holds one family: what its checkpoints have in common at the top, then [models.NAME] with
what is each one's own; the names are the fields of ModelSpec. A revision is the commit whose
weights the published numbers are of, "main" where none could be confirmed. Where a comment says
that sizes are counted, it was done on the architecture as transformers builds it, pooler included.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchharness.models.floors import FLOORS
from benchharness.models.spec import ModelSpec
from tasks.errors import BenchError

__all__ = ["MODELS", "add_model"]

UNPINNED = "no commit could be confirmed, so the one that main names is recorded with each run"


def _known(path: Path) -> Iterator[ModelSpec]:
    shared = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, own in shared.pop("models").items():
        yield _spec(name, shared | own)


def _spec(name: str, fields: dict[str, Any]) -> ModelSpec:
    if fields.get("revision") == "main":
        fields.setdefault("note", UNPINNED)
    return ModelSpec(name=name, **fields | {"aliases": tuple(fields.get("aliases", ()))})


def _files() -> list[Path]:
    """One a family, the built-in encoder's first."""
    found = (Path(__file__).parent / "known").glob("*.toml")
    return sorted(found, key=lambda path: (path.stem != "tiny", path.stem))


MODELS: dict[str, ModelSpec] = {
    spec.name: spec for spec in (*(spec for path in _files() for spec in _known(path)), *FLOORS)
}


def add_model(model: ModelSpec) -> None:
    """Puts a model of somebody else's into the table; BenchError where a name of it is taken."""
    taken = {name for spec in MODELS.values() for name in _names(spec)}
    if found := sorted(taken.intersection(_names(model))):
        raise BenchError(f"there is a model {found[0]!r} already: give yours another name.")
    MODELS[model.name] = model


def _names(spec: ModelSpec) -> tuple[str, ...]:
    return (spec.name.lower(), *(alias.lower() for alias in spec.aliases))
