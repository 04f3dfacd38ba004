"""Which door the rows come through: the hub, a folder of official files, or the embedded data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.errors import DataError

__all__ = ["Data", "parse_data"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """A door. `folder` is set for "files" only."""

    door: Literal["hub", "files", "mini"]
    folder: Path | None = None

    def __str__(self) -> str:
        """What `parse_data` turns back into an equal door."""
        return str(self.folder) if self.folder is not None else self.door


def parse_data(text: str) -> Data:
    """The door that `--data` names: "hub", "mini" or a folder, which must exist."""
    match text:
        case "hub":
            return Data(door="hub")
        case "mini":
            return Data(door="mini")
    folder = Path(text).expanduser()
    # Path("") is the current folder, which nobody means by an unset shell variable.
    if not text or not folder.is_dir():
        found = "is a file" if folder.is_file() else "does not exist"
        raise DataError(
            f"the data folder {text!r} {found}: give a folder of official files, "
            "`--data hub` or `--data mini`."
        )
    return Data(door="files", folder=folder.resolve())
