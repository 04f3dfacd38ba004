"""What `--data` names, and where the official files are in it.

People's folders differ: one has `glue_data/CoLA`, another `GLUE/cola`, a third the zips as they
were fetched. A name is the same whatever its case and punctuation; a folder may lie in one of its
own name, as unpacking makes it; an archive is a folder. The rows are the same whatever the way.
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

from benchharness.tasks.errors import DataError
from benchharness.tasks.sources.archives import open_archive
from benchharness.tasks.sources.source import Place, Source, Split


def mini_folder() -> Path:
    """The embedded data: the folder that holds glue/ and the others, as `--data DIR` is given it.

    Sentences generated from a fixed seed: tests/helpers/mini_data writes them again, byte for byte.
    """
    return Path(__file__).parents[1] / "mini"


ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where rows come from. `folder` is set for "files" only.

    It may be an archive, or for a task that has its own reader a file of rows.
    """

    source: Literal["hub", "files", "mini"]
    folder: Path | None = None

    def __str__(self) -> str:
        """What `parse_data` turns back into equal data."""
        return str(self.folder) if self.folder is not None else self.source

    @cached_property
    def files(self) -> "Files | None":
        """Its official files; None for the hub, which has none."""
        if self.source == "mini":
            return Files(mini_folder())
        if self.folder is None:
            return None
        if self.folder.is_file() and not _archive_name(self.folder.name):
            raise DataError(
                f"the data folder {str(self.folder)!r} is a file: give a folder of official files, "
                f"an official archive ({', '.join(ARCHIVES)}), `--data hub` or `--data mini`, or "
                "with --data-file rows of your own."
            )
        return Files(self.folder)


def parse_data(text: str) -> Data:
    """What `--data` names: "hub", "mini", or a folder, an archive or a file, which must exist."""
    match text:
        case "hub":
            return Data(source="hub")
        case "mini":
            return Data(source="mini")
    folder = Path(text).expanduser()
    # Path("") is the current folder, which nobody means by an unset shell variable.
    if not text or not folder.exists():
        raise DataError(
            f"the data folder {text!r} does not exist: give a folder of official files, an "
            f"official archive ({', '.join(ARCHIVES)}), `--data hub` or `--data mini`."
        )
    return Data(source="files", folder=folder.resolve())


class Found(NamedTuple):
    """The files of a split, in their order.

    They are `guessed` where the folder is taken for the task's own, which its name does not say.
    """

    files: tuple[Place, ...]
    guessed: bool = False


Rank = tuple[int, int]
"""How far a way to read files is from the one that is meant: at how many names that differ from the
ones looked for, and in how many folders within one of the same name."""


class Files:
    """The official files in a folder or an archive, as it was when it was first looked at.

    Archives stay open as long as this lives.
    """

    def __init__(self, root: Path) -> None:
        self._archives: dict[str, Place] = {}
        self._listed: dict[str, list[tuple[str, Place]]] = {}
        name = _archive_name(root.name)
        is_archive = bool(name) and root.is_file()
        self.root: Place = self._opened(root, name) if is_archive else root

    def find(self, source: Source, split: Split) -> Found | None:
        """The first of the split's files that is there; DataError where one is there twice.

        The suite's folder goes before the data folder itself, that before the task's own, a name
        as it was released before another spelling, and a folder before an archive. A folder that
        holds other splits of the task in their place is not taken for the task's own.
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
        # The outer a loop the more it counts: folders alone before archives too, the suite's
        # folder before the data folder itself, then the names of the file in their order.
        for packed in (False, True):
            for above, skipped, guessed in self._levels(source):
                for pattern in split.files:
                    path = (*above, *pattern.split("/")[skipped:])
                    if ways := list(self._ways(self.root, path, source, packed)):
                        return Found(self._only(ways, pattern), guessed)
        return None

    def _levels(self, source: Source) -> Iterator[tuple[tuple[str, ...], int, bool]]:
        """What stands above a split's path, how many folders it lacks, and if that is a guess."""
        # Of "CoLA/train.tsv": glue/CoLA/train.tsv, then CoLA/train.tsv, then train.tsv.
        if source.home:
            yield (source.home,), 0, False
        yield (), 0, False
        own = _spellings(source, _own_folder(source))
        is_named = name_key(self.root.name) in map(name_key, own)
        # Where the task's own folder stands beside this one, this one is another task's.
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
        """Every way to read a path below a folder; "*" in it stands for all that fit."""
        if not path:
            return
        # From the first pattern on the rest of the path is patterns: RACE's "*/*.txt" in train.
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
        """The folders, or archives, of these names, and those of the same names within them.

        With each whether its name is another than the first, and how deep it is within one.
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
        """What is in a folder, by key, without what operating systems put there."""
        if str(place) not in self._listed:
            self._listed[str(place)] = [(name_key(child.name), child) for child in held(place)]
        return self._listed[str(place)]

    def _fitting(self, folder: Place, path: Sequence[str]) -> Iterator[Place]:
        """The files at a path of patterns below a folder."""
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
        """The files of the lowest rank; DataError where several have it."""
        lowest = min(rank for rank, _ in ways)
        # By where they lead, so that a link to the same file is no second one.
        best = {files[0].resolve(): files for rank, files in reversed(ways) if rank == lowest}
        if len(best) > 1:
            places = sorted(str(files[0]) for files in best.values())
            raise DataError(
                f"the data folder {self.root} has {pattern} more than once, as "
                f"{' and as '.join(places[:3])}: say with --data which folder is meant."
            )
        (found,) = best.values()
        return found

    def wanted(self, split: Split) -> str:
        """How a split that is not there should be called."""
        folder = split.files[0].rpartition("/")[0]
        alike = [path for path in split.files if path.rpartition("/")[0] == folder]
        return " or ".join(alike[:2])

    def __str__(self) -> str:
        return f"the data folder {self.root}"

    @property
    def advice(self) -> str:
        """What is there, and what to do where something is not."""
        return (
            f"it holds {self._contents()}: put the official files there, or use `--data hub` or "
            "`--data mini`"
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
        """The folder above or below this one that has a split, as it would be given."""
        for files in self._near:
            try:
                found = files.find(source, split)
            except DataError:
                continue
            if found and not found.guessed:
                return f"`--data {quote(str(files.root))}` has it"
        return ""

    @cached_property
    def _near(self) -> "list[Files]":
        """The two folders above this one, and those below it."""
        if not isinstance(self.root, Path):
            return []
        below = islice(_folders_below(self.root), MOST_FOLDERS)
        return [Files(each) for each in (*self.root.parents[:2], *below)]


MOST_NAMES, MOST_FOLDERS = 6, 60
"""How much is said of a folder, and looked at for what is said."""


def _spellings(source: Source, name: str) -> tuple[str, ...]:
    return name, *source.spellings.get(name, ())


def _own_folder(source: Source) -> str:
    """The folder that all files of a task are in ("CoLA"), or nothing."""
    folders = {split.files[0].partition("/")[0] for split in source.splits.values() if split.files}
    is_deeper = all("/" in split.files[0] for split in source.splits.values() if split.files)
    return folders.pop() if len(folders) == 1 and is_deeper else ""


def name_key(name: str) -> str:
    """What of a name tells it from others."""
    return re.sub(r"[\W_]", "", name).lower()


def _archive_name(name: str) -> str:
    """An archive's name without its ending; nothing where it is called like none."""
    ending = next((end for end in ARCHIVES if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)] if ending else ""


def held(place: Place) -> list[Place]:
    """What is in a folder, without what operating systems put there; DataError as they say."""
    try:
        found: list[Place] = [*place.iterdir()]
    except OSError as error:
        raise DataError(f"{place} cannot be read: {error.strerror or error}.") from error
    return [each for each in found if not each.name.startswith((".", "__MACOSX"))]


def _folders_below(folder: Path, depth: int = 2) -> Iterator[Path]:
    """The folders in a folder, and those in them."""
    try:
        inner = [Path(str(each)) for each in sorted(held(folder)) if each.is_dir()]
    except DataError:
        return
    yield from inner
    for each in inner if depth > 1 else ():
        yield from _folders_below(each, depth - 1)
