"""Convert pickled weights to safetensors, in the hub's cache next to the original files.

    models--ORG--NAME/snapshots/COMMIT/      files of the hub
    models--ORG--NAME/benchharness/COMMIT/   model.safetensors, converted.json, links to the rest

`converted.json` holds the digests of the original and the converted files. A converted folder is
created atomically, and is created again if it is missing. It does not affect the identity of a
job's weights.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.leaderboard.text import flush_to_disk
from benchharness.models.folder import checkpoint_files
from benchharness.models.pickles import DAMAGED, damaged, holds_more, write_safetensors
from benchharness.models.spec import index_of, shown
from benchharness.models.weights import file_digest

_OURS = "benchharness"
_DIGESTS = "converted.json"


@contextmanager
def loadable(folder: Path, trust: Trust) -> Iterator[Path]:
    """Context manager that yields a folder from which transformers can load pickled weights.

    If the checkpoint is in a writable hub cache, its weights are converted to safetensors in a
    second folder, which is kept in the cache and is yielded. Otherwise, if a weights file also
    contains other objects, the weights are converted in a temporary folder. In all other cases, the
    folder of the checkpoint itself is yielded.

    Args:
        folder: The folder of the checkpoint.
        trust: Permissions that the user gives the checkpoint.

    Raises:
        ModelError: The weights cannot be read, or cannot be converted.
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
                raise ModelError(
                    f"the weights of {shown(folder)} cannot be converted in a temporary folder: "
                    f"{error}."
                ) from error
            yield Path(draft)
    else:
        yield folder


def _keep(folder: Path, kept: Path, pickled: Sequence[Path]) -> bool:
    """Create the converted folder if it is missing or damaged; return False if that fails."""
    try:
        kept.parent.mkdir(exist_ok=True)
        with FileLock(kept.with_name(f"{kept.name}.lock")):
            if not _is_whole(kept):
                _make(folder, kept, pickled)
            _link(folder, kept, pickled)
    except OSError:  # a read-only cache, or a full disk
        return False
    return True


def _make(folder: Path, kept: Path, pickled: Sequence[Path]) -> None:
    """Convert a checkpoint's weights into the folder `kept`; the caller must hold the lock.

    No other process converts these weights meanwhile, so all existing ".draft" folders are from
    killed processes and are deleted.
    """
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
    """Write the weights of pickled files as safetensors, and link to the folder's other files."""
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
    """Link to all files of a folder except its weights, including files that were added later."""
    # The links are relative, so that the whole cache can be moved.
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
