"""Pickled weights as safetensors, kept in the hub's cache beside the files that they are of.

    models--ORG--NAME/snapshots/COMMIT/      what the hub has
    models--ORG--NAME/benchharness/COMMIT/   model.safetensors, converted.json, links to the rest

`converted.json` has the digests of both. Such a folder appears whole or not at all. It may be
deleted: it is made again. Which weights a job has does not depend on it.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from benchharness.leaderboard.job import Trust
from benchharness.leaderboard.text import flush_to_disk
from benchharness.models.folder import checkpoint_files
from benchharness.models.pickles import DAMAGED, damaged, holds_more, write_safetensors
from benchharness.models.spec import index_of, shown
from benchharness.models.weights import file_digest
from benchharness.tasks.errors import ModelError

_OURS = "benchharness"
_DIGESTS = "converted.json"


@contextmanager
def loadable(folder: Path, trust: Trust) -> Iterator[Path]:
    """The folder from which transformers loads a checkpoint's pickled weights.

    It is the folder itself, unless they are from the hub, or hold more than weights. Raises
    ModelError where they cannot be read.
    """
    pickled = checkpoint_files(folder, trust)["weights"]
    kept = folder.parent.parent / _OURS / folder.name
    if folder.parent.name == "snapshots" and _keep(folder, kept, pickled):
        yield kept
    elif holds_more(pickled):
        with TemporaryDirectory() as draft:
            try:
                _convert(folder, Path(draft), pickled)
            except OSError as error:
                raise ModelError(f"the weights of {shown(folder)} do not fit: {error}.") from error
            yield Path(draft)
    else:
        yield folder


def _keep(folder: Path, kept: Path, pickled: Sequence[Path]) -> bool:
    """Makes the kept folder, once; False where the cache takes no files."""
    try:
        kept.parent.mkdir(exist_ok=True)
        with FileLock(kept.with_name(f"{kept.name}.lock")):
            if not _is_whole(kept):
                _make(folder, kept, pickled)
            _link(folder, kept, pickled)
    except OSError:  # a cache that others keep, or a full disk
        return False
    return True


def _make(folder: Path, kept: Path, pickled: Sequence[Path]) -> None:
    """Whoever calls has the lock, so all drafts are of processes that were killed."""
    for old in (*kept.parent.glob(f"{kept.name}.*.draft"), kept):
        shutil.rmtree(old, ignore_errors=True)
    draft = kept.with_name(f"{kept.name}.{os.getpid()}.draft")
    draft.mkdir()
    try:
        _convert(folder, draft, pickled)
        for path in draft.iterdir():
            flush_to_disk(path)
        draft.rename(kept)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _convert(folder: Path, draft: Path, pickled: Sequence[Path]) -> None:
    """Writes the weights of pickled files, and links to all else that the folder has."""
    places: dict[str, str] = {}
    for path in pickled:
        name = f"{path.stem.replace('pytorch_model', 'model')}.safetensors"
        try:
            places |= dict.fromkeys(write_safetensors(path, draft / name), name)
        except OSError:
            raise
        except DAMAGED as error:
            raise damaged(path, error) from None
    if index := index_of(min(places.values())):
        (draft / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    files = {path.name: file_digest(path) for path in draft.iterdir()}
    digests = {"from": {path.name: file_digest(path) for path in pickled}, "files": files}
    (draft / _DIGESTS).write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    _link(folder, draft, pickled)


def _link(folder: Path, to: Path, pickled: Sequence[Path]) -> None:
    """Links to what a folder has besides its weights: config, code, and what came later."""
    # A path from there, so that the whole cache can be moved.
    start = Path(os.path.relpath(folder.resolve(), to.resolve()))
    for path in folder.iterdir():
        if path not in pickled and not path.name.endswith(".index.json"):
            with suppress(FileExistsError):
                (to / path.name).symlink_to(start / path.name)


def _is_whole(kept: Path) -> bool:
    try:
        digests = json.loads((kept / _DIGESTS).read_text(encoding="utf-8"))["files"]
        return all(file_digest(kept / name) == digest for name, digest in digests.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
