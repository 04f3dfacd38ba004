"""What `--data` names, and where the official files are in it.

People's folders differ: one has `glue_data/CoLA`, another `GLUE/cola`, a third the zips as they
were fetched. A name is the same whatever its case and punctuation; a folder may lie in one of its
own name, as unpacking makes it; an archive is a folder. The rows are the same whatever the way.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from benchharness.tasks.errors import DataError
from benchharness.tasks.mini import folder as mini_folder
from benchharness.tasks.sources.source import Place, Source, Split

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


class _Reading(NamedTuple):
    """One way to read what is looked for; the lowest rank is the way that is meant.

    Files in `home`, at names that differ from the ones looked for `rank[0]` times, in `rank[1]`
    folders within one of the same name.
    """

    rank: tuple[int, int]
    home: Place
    files: tuple[Place, ...] = ()

    def inside(self, folder: Place, differs: bool, depth: int = 0) -> "_Reading":
        return _Reading((self.rank[0] + differs, self.rank[1] + depth), folder)


class _Level(NamedTuple):
    """Where a suite's folders are looked for; `skipped` folders of a path lie above."""

    homes: list[_Reading]
    skipped: int = 0
    guessed: bool = False


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
        for packed in (False, True):
            for level in self._levels(source, packed):
                for pattern in split.files:
                    path = pattern.split("/")[level.skipped :]
                    if readings := self._readings(level.homes, path, source, packed):
                        return Found(self._only(readings, pattern), level.guessed)
        return None

    def _levels(self, source: Source, packed: bool) -> Iterator[_Level]:
        here = _Reading((0, 0), self.root)
        if source.home:
            yield _Level(list(self._folders(here, _spellings(source, source.home), packed)))
        yield _Level([here])
        own = _spellings(source, _own_folder(source))
        is_named = name_key(self.root.name) in map(name_key, own)
        # Where the task's own folder stands beside this one, this one is another task's.
        if is_named or (own[0] and not self._is_beside(own)):
            yield _Level([here], skipped=1, guessed=not is_named)

    def _is_beside(self, names: Sequence[str]) -> bool:
        above = _Reading((0, 0), self.root.parent)
        try:
            return any(True for _ in self._folders(above, names, packed=False))
        except DataError:
            return False

    def _readings(
        self, homes: Iterable[_Reading], path: Sequence[str], source: Source, packed: bool
    ) -> list[_Reading]:
        """Every way to read a path below the homes; "*" in it stands for all that fit."""
        if not path:
            return []
        stars = [index for index, part in enumerate(path) if "*" in part]
        tail = stars[0] if stars else len(path) - 1
        places = list(homes)
        for part in path[:tail]:
            names = _spellings(source, part)
            places = [found for place in places for found in self._folders(place, names, packed)]
        if not stars:
            return [found for place in places for found in self._named_files(place, path[-1])]
        matched = [
            (place, tuple(sorted(self._fitting(place.home, path[tail:])))) for place in places
        ]
        return [place._replace(files=files) for place, files in matched if files]

    def _folders(self, above: _Reading, names: Sequence[str], packed: bool) -> Iterator[_Reading]:
        """The folders, or archives, of these names, and those of the same names within them."""
        keys = set(map(name_key, names))
        for key, child in self._children(above.home):
            archive = _archive_name(child.name) if packed else ""
            if (name_key(archive) if archive else key) not in keys:
                continue
            folder = self._folder(child, archive)
            if folder is None:
                continue
            differs = folder.name != names[0]
            yield above.inside(folder, differs)
            for inner_key, inner in self._children(folder):
                if inner_key in keys and inner.is_dir():
                    yield above.inside(inner, differs, 1)

    def _children(self, place: Place) -> list[tuple[str, Place]]:
        """What is in a folder, by key, without what operating systems put there."""
        if str(place) not in self._listed:
            self._listed[str(place)] = [(name_key(child.name), child) for child in held(place)]
        return self._listed[str(place)]

    def _named_files(self, folder: _Reading, name: str) -> Iterator[_Reading]:
        wanted = name_key(name)
        for key, child in self._children(folder.home):
            if key == wanted and child.is_file():
                differs = child.name != name
                yield folder.inside(folder.home, differs)._replace(files=(child,))

    def _fitting(self, folder: Place, path: Sequence[str]) -> Iterator[Place]:
        """The files at a path of patterns below a folder."""
        part, *rest = path
        for _, child in self._children(folder):
            if fnmatch(child.name.lower(), part.lower()):
                if rest and child.is_dir():
                    yield from self._fitting(child, rest)
                elif not rest and child.is_file():
                    yield child

    def _folder(self, child: Place, archive: str) -> Place | None:
        if child.is_dir():
            return child
        return self._opened(child, archive) if archive and isinstance(child, Path) else None

    def _opened(self, path: Path, name: str) -> Place:
        from benchharness.tasks.sources.archives import open_archive  # noqa: PLC0415  (tarfile)

        if str(path) not in self._archives:
            self._archives[str(path)] = open_archive(path, name)
        return self._archives[str(path)]

    def _only(self, readings: Sequence[_Reading], pattern: str) -> tuple[Place, ...]:
        """The files of the lowest rank; DataError where several have it."""
        lowest = min(reading.rank for reading in readings)
        best = {r.files[0].resolve(): r for r in reversed(readings) if r.rank == lowest}
        if len(best) > 1:
            places = sorted(str(reading.files[0]) for reading in best.values())
            raise DataError(
                f"the data folder {self.root} has {pattern} more than once, as "
                f"{' and as '.join(places[:3])}: say with --data which folder is meant."
            )
        (reading,) = best.values()
        return reading.files

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
                return f"`--data {files.root}` has it"
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
