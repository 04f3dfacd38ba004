"""Find official files in the folder or archive that `--data` names.

Users have different folders: one has `glue_data/CoLA`, another has `GLUE/cola`, and a third has the
zip files as they were downloaded. So names are compared without case and punctuation, a folder may
be inside another folder with the same name (which happens when an archive is unpacked), and an
archive is treated like a folder.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from benchharness.errors import DataError
from benchharness.tasks.sources.archives import open_archive
from benchharness.tasks.sources.source import Place, Source, Split


def mini_folder() -> Path:
    """Return the folder of the mini data, which can also be passed as `--data`.

    The mini data are a small data set for each task, and are part of the package. Their sentences
    are synthetic: tests/helpers/mini_data generates them from a fixed seed.
    """
    return Path(__file__).parents[1] / "mini"


ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")
"""File extensions of the archives that can be read."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """Data that the user selected: the hub, official files, or the mini data in the package.

    Attributes:
        source: "hub", "files" for official files, or "mini" for the mini data.
        folder: Path of the folder or archive with the files; for a task with its own reader, it can
            also be a file with rows. None unless `source` is "files".
    """

    source: Literal["hub", "files", "mini"]
    folder: Path | None = None

    def __str__(self) -> str:
        """Return a text from which `parse_data` creates an equal object."""
        return str(self.folder) if self.folder is not None else self.source

    @cached_property
    def files(self) -> "Files | None":
        """Official files in the folder or in the mini data; None for the hub.

        Raises:
            DataError: If `folder` is a file but not an archive, or if the archive is damaged.
        """
        if self.source == "mini":
            return Files(mini_folder())
        if self.folder is None:
            return None
        if self.folder.is_file() and not _archive_name(self.folder.name):
            raise DataError(
                f"the data folder {str(self.folder)!r} is a file: pass a folder of official files "
                f"or an official archive ({', '.join(ARCHIVES)}), use `--data hub` or `--data "
                "mini`, or pass your own rows with --data-file."
            )
        return Files(self.folder)


def parse_data(text: str) -> Data:
    """Parse the value of `--data`.

    Args:
        text: "hub", "mini", or the path of a folder, an archive or a file.

    Raises:
        DataError: If the path does not exist.
    """
    match text:
        case "hub":
            return Data(source="hub")
        case "mini":
            return Data(source="mini")
    folder = Path(text).expanduser()
    # An empty text, e.g. from an unset shell variable, must not mean the current folder.
    if not text or not folder.exists():
        raise DataError(
            f"the data folder {text!r} does not exist: pass a folder of official files or an "
            f"official archive ({', '.join(ARCHIVES)}), or use `--data hub` or `--data mini`."
        )
    return Data(source="files", folder=folder.resolve())


class Found(NamedTuple):
    """Files of a split.

    Attributes:
        files: The files, in the order in which they are read.
        guessed: True if the data folder was assumed to be the folder of the task, although it has
            another name.
    """

    files: tuple[Place, ...]
    guessed: bool = False


Rank = tuple[int, int]
"""Distance between the path of a file and the expected path.

It consists of the number of names that are spelled differently, and the number of folders that are
inside another folder with the same name.
"""


class Files:
    """The data files of benchmarks, as their authors publish them, in a folder or an archive.

    The contents of folders are cached when they are first listed. Archives stay open as long as
    this object exists.

    Args:
        root: Path of the folder or archive.
    """

    def __init__(self, root: Path) -> None:
        self._archives: dict[str, Place] = {}
        self._listed: dict[str, list[tuple[str, Place]]] = {}
        name = _archive_name(root.name)
        is_archive = bool(name) and root.is_file()
        self.root: Place = self._opened(root, name) if is_archive else root

    def find(self, source: Source, split: Split) -> Found | None:
        """Find the files of a split; return None if they do not exist.

        For the file "CoLA/train.tsv" of GLUE, the possible paths in the data folder are
        "glue/CoLA/train.tsv", "CoLA/train.tsv" and "train.tsv", in this order. The last one means
        that the data folder is the folder of the task. This is not assumed if other splits of the
        task are found at one of the other paths, or if a folder named "CoLA" is next to the data
        folder. Folders are preferred to archives, and official names to alternative spellings.

        Raises:
            DataError: If a file exists more than once, or if a folder cannot be read.
        """
        others = [other for other in source.splits.values() if other is not split]
        try:
            found = self._find(source, split)
            if found is None or not found.guessed:
                return found
            placed = (self._find(source, other) for other in others)
            return None if any(other and not other.guessed for other in placed) else found
        except OSError as error:
            raise DataError(f"{self.root} cannot be read: {error.strerror or error}.") from error

    def _find(self, source: Source, split: Split) -> Found | None:
        # Files outside of archives are preferred to files in archives, then files in the suite's
        # folder to files elsewhere in the data folder, then earlier paths in `split.files` to later
        # ones.
        for packed in (False, True):
            for above, skipped, guessed in self._levels(source):
                for pattern in split.files:
                    path = (*above, *pattern.split("/")[skipped:])
                    if ways := list(self._ways(self.root, path, source, packed)):
                        return Found(self._only(ways, pattern), guessed)
        return None

    def _levels(self, source: Source) -> Iterator[tuple[tuple[str, ...], int, bool]]:
        """Yield the locations in the data folder where the files of a split may be.

        A location is a tuple: the folders to put before the path of a file, the number of leading
        folders to remove from the path, and a bool. The bool is true if the location assumes that
        the data folder is the folder of the task, although it has another name.
        """
        # The locations of "CoLA/train.tsv" are glue/CoLA/train.tsv, CoLA/train.tsv and train.tsv.
        if source.home:
            yield (source.home,), 0, False
        yield (), 0, False
        own = _spellings(source, _own_folder(source))
        is_named = name_key(self.root.name) in map(name_key, own)
        # If the folder of the task is a sibling of the data folder, the data folder belongs to
        # another task.
        if is_named or (own[0] and not self._is_beside(own)):
            yield (), 1, not is_named

    def _is_beside(self, names: Sequence[str]) -> bool:
        try:
            return any(True for _ in self._folders(self.root.parent, names, packed=False))
        except DataError:
            return False

    def _ways(
        self, above: Place, path: Sequence[str], source: Source, packed: bool, rank: Rank = (0, 0)
    ) -> Iterator[tuple[Rank, tuple[Place, ...]]]:
        """Yield (rank, files) for every match of a path, in which names may contain "*"."""
        if not path:
            return
        # All parts after the first pattern are patterns too, as in RACE's "train/*/*.txt".
        if "*" in path[0]:
            if files := tuple(sorted(self._fitting(above, path))):
                yield rank, files
        elif len(path) == 1:
            for key, child in self._children(above):
                if key == name_key(path[0]) and child.is_file():
                    yield (rank[0] + (child.name != path[0]), rank[1]), (child,)
        else:
            for folder, differs, depth in self._folders(above, _spellings(source, path[0]), packed):
                inner = rank[0] + differs, rank[1] + depth
                yield from self._ways(folder, path[1:], source, packed, inner)

    def _folders(
        self, above: Place, names: Sequence[str], packed: bool
    ) -> Iterator[tuple[Place, bool, int]]:
        """Yield the folders and archives with these names, and folders of these names inside them.

        Each item is a tuple: the folder, whether its name differs from the first of `names`, and 1
        if it is inside another folder with such a name, else 0.
        """
        keys = set(map(name_key, names))
        for key, child in self._children(above):
            archive = _archive_name(child.name) if packed else ""
            if (name_key(archive) if archive else key) not in keys:
                continue
            if child.is_dir():
                folder = child
            # An archive within an archive is not opened.
            elif archive and isinstance(child, Path):
                folder = self._opened(child, archive)
            else:
                continue
            differs = folder.name != names[0]
            yield folder, differs, 0
            for inner_key, inner in self._children(folder):
                if inner_key in keys and inner.is_dir():
                    yield inner, differs, 1

    def _children(self, place: Place) -> list[tuple[str, Place]]:
        """Return (normalized name, path) of each file and folder in a folder, from the cache."""
        if str(place) not in self._listed:
            self._listed[str(place)] = [(name_key(child.name), child) for child in held(place)]
        return self._listed[str(place)]

    def _fitting(self, folder: Place, path: Sequence[str]) -> Iterator[Place]:
        """Yield the files below a folder whose relative path matches these patterns."""
        part, *rest = path
        for _, child in self._children(folder):
            if fnmatch(child.name.lower(), part.lower()):
                if rest and child.is_dir():
                    yield from self._fitting(child, rest)
                elif not rest and child.is_file():
                    yield child

    def _opened(self, path: Path, name: str) -> Place:
        if str(path) not in self._archives:
            self._archives[str(path)] = open_archive(path, name)
        return self._archives[str(path)]

    def _only(
        self, ways: Sequence[tuple[Rank, tuple[Place, ...]]], pattern: str
    ) -> tuple[Place, ...]:
        """Return the match with the lowest rank; raise DataError if several matches have it."""
        lowest = min(rank for rank, _ in ways)
        # The keys are resolved paths, so that a link to the same file does not count separately.
        best = {files[0].resolve(): files for rank, files in reversed(ways) if rank == lowest}
        if len(best) > 1:
            places = sorted(str(files[0]) for files in best.values())
            raise DataError(
                f"the data folder {self.root} has {pattern} more than once, as "
                f"{' and as '.join(places[:3])}: pass the right folder with --data."
            )
        (found,) = best.values()
        return found

    def wanted(self, split: Split) -> str:
        """Return the expected path of the file of a missing split, for an error message.

        If the file may have several names in the same folder, the first two of its paths are
        returned, e.g. "eng.train or train.txt".
        """
        folder = split.files[0].rpartition("/")[0]
        alike = [path for path in split.files if path.rpartition("/")[0] == folder]
        return " or ".join(alike[:2])

    def __str__(self) -> str:
        return f"the data folder {self.root}"

    @property
    def advice(self) -> str:
        """Second half of an error message: the contents of the folder, and what the user can do."""
        return (
            f"the folder contains {self._contents()}: put the official files there, or use `--data "
            "hub` or `--data mini`"
        )

    def _contents(self) -> str:
        names = sorted(
            f"{child.name}/" if child.is_dir() else child.name
            for _, child in self._children(self.root)
        )
        if not names:
            return "nothing"
        more = len(names) - MOST_NAMES
        return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

    def elsewhere(self, source: Source, split: Split) -> str:
        """Return a hint for the user if a parent folder or a subfolder contains a missing split.

        Returns "" if none of them contains it.
        """
        for files in self._near:
            try:
                found = files.find(source, split)
            except DataError:
                continue
            if found and not found.guessed:
                return f"missing files were found with `--data {quote(str(files.root))}`"
        return ""

    @cached_property
    def _near(self) -> "list[Files]":
        """Official files in the two parent folders of this folder, and in its subfolders."""
        if not isinstance(self.root, Path):
            return []
        below = islice(_folders_below(self.root), MOST_FOLDERS)
        return [Files(each) for each in (*self.root.parents[:2], *below)]


MOST_NAMES, MOST_FOLDERS = 6, 60
"""Maximum number of names that an error message lists, and of subfolders that are searched."""


def _spellings(source: Source, name: str) -> tuple[str, ...]:
    return name, *source.spellings.get(name, ())


def _own_folder(source: Source) -> str:
    """Return the folder that contains all files of a task, e.g. "CoLA"; "" if there is none."""
    folders = {split.files[0].partition("/")[0] for split in source.splits.values() if split.files}
    is_deeper = all("/" in split.files[0] for split in source.splits.values() if split.files)
    return folders.pop() if len(folders) == 1 and is_deeper else ""


def name_key(name: str) -> str:
    """Return a name in lower case, without punctuation and spaces, for comparisons of names."""
    return re.sub(r"[\W_]", "", name).lower()


def _archive_name(name: str) -> str:
    """Return the name of an archive without its extension; "" if this is not an archive's name."""
    ending = next((end for end in ARCHIVES if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)] if ending else ""


def held(place: Place) -> list[Place]:
    """Return the files and folders in a folder, except hidden ones and metadata of macOS.

    Raises:
        DataError: If the folder cannot be read.
    """
    try:
        found: list[Place] = [*place.iterdir()]
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror or error}.") from error
    return [each for each in found if not each.name.startswith((".", "__MACOSX"))]


def _folders_below(folder: Path, depth: int = 2) -> Iterator[Path]:
    """Yield the folders inside a folder, down to the given depth."""
    try:
        inner = [Path(str(each)) for each in sorted(held(folder)) if each.is_dir()]
    except DataError:
        return
    yield from inner
    for each in inner if depth > 1 else ():
        yield from _folders_below(each, depth - 1)
