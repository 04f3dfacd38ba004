"""The trained model of a classifier, in a folder that lives as long as the classifier."""

import os
import shutil
import weakref
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchharness.extensions.kept_models.load import TrainedModel


class KeptModel:
    """Trained model in a temporary folder.

    The folder is deleted when the object is. A pickle contains the files of the folder, and
    unpickling writes them to another folder.

    Args:
        folder: Folder of a model that a run has kept; it is moved.

    Attributes:
        folder: Folder of the model, as `bench predict` and `bench model` read it.
    """

    folder: Path

    def __init__(self, folder: Path) -> None:
        self._begin()
        shutil.move(folder, self.folder)

    def _begin(self) -> None:
        place = mkdtemp(prefix="benchharness-")
        weakref.finalize(self, _remove, place, os.getpid())
        self.folder = Path(place) / "model"

    @cached_property
    def model(self) -> "TrainedModel":
        """The model, loaded at its first use."""
        # Imported late, because importing torch takes seconds.
        from benchharness.extensions.kept_models.load import load_trained

        return load_trained(
            self.folder, trust=True
        )  # the user permitted the checkpoint's code in training

    def __getstate__(self) -> dict[str, bytes]:
        files = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}

    def __setstate__(self, files: dict[str, bytes]) -> None:
        self._begin()
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _remove(place: str, process: int) -> None:
    """Delete a folder, unless this is a forked copy of the process that owns it."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)
