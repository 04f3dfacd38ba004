"""What identifies the weights that a job starts from, so that equal weights are equal jobs."""

import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from benchharness.models.commit import resolve_commit
from benchharness.models.folder import checkpoint_files
from benchharness.models.spec import BUILTIN, ModelSpec
from tasks.errors import ModelError

__all__ = ["builtin_folder", "file_digest", "files_digest", "hub_revision", "weights_identity"]


def weights_identity(spec: ModelSpec) -> str:
    """What the job records as its weights.

    "hub:ID@COMMIT" for the hub, "sha256:DIGEST" over the config, weights and tokenizer files of a
    folder, "builtin:NAME@DIGEST" over the data files of a built-in encoder (its code is covered by
    the job's method number), "floor:NAME@VERSION" for a floor. Raises ModelError where a hub name
    cannot be resolved to a commit.
    """
    if spec.is_floor:
        return f"{spec.checkpoint}@{spec.revision}"
    if spec.is_builtin:
        return f"{spec.checkpoint}@{files_digest(_data_files(builtin_folder(spec)))}"
    if spec.is_folder:
        groups = checkpoint_files(Path(spec.checkpoint), spec.trust)
        return "sha256:" + files_digest(path for group in groups.values() for path in group)
    return f"hub:{spec.checkpoint}@{resolve_commit(spec.checkpoint, spec.revision)}"


def hub_revision(weights: str) -> str | None:
    """The commit in "hub:ID@COMMIT", None for weights that are not from the hub."""
    return weights.rpartition("@")[2] if weights.startswith("hub:") else None


def builtin_folder(spec: ModelSpec) -> Path:
    """The folder inside the package that holds a built-in encoder's config and vocabulary."""
    folder = Path(str(files("benchharness"))) / spec.checkpoint.removeprefix(BUILTIN)
    if not folder.is_dir():
        raise ModelError(
            f"the built-in model {spec.name} has no folder {folder}; reinstall benchharness."
        )
    return folder


def files_digest(paths: Iterable[Path]) -> str:
    """The SHA-256 (hex) over names and contents of files, whatever their folder and order."""
    lines = sorted(f"{file_digest(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _data_files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
