"""The folders and files of a repository of results.

share.toml                                  version of the layout, and the title
README.md, .github/workflows                instructions, and what GitHub runs
contributors/NAME/MODEL-SUITE-DIGEST.jsonl.gz   one archive per row
contributors/NAME/MACHINE.json              verdicts of `bench reproduce --list --json`
"""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from tempfile import mkdtemp

from benchharness.errors import BenchError, DataError
from benchharness.leaderboard.text import to_text, visible, whole_file
from benchharness.version import package_version

LAYOUT = 1
"""Version of the layout. It is increased if an older benchharness would misread a repository."""

CONTRIBUTORS, SETTINGS = "contributors", "share.toml"

PACKED_BYTES = 1_000_000
"""Largest size of an archive, which contains one row."""

VERDICT_BYTES = 1_000_000
"""Largest size of a file with verdicts."""

_PLACES: Mapping[str, str] = {
    "README.md": "README.md",
    "check.yml": ".github/workflows/check.yml",
    "site.yml": ".github/workflows/site.yml",
    "contributors.md": f"{CONTRIBUTORS}/README.md",
}
"""Places of the packaged files in a new repository."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository of results.

    Attributes:
        root: Folder of the repository, which has the file `share.toml`.
        title: Title of the website.
    """

    root: Path
    title: str


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """A file in a repository that a contributor added or changed.

    Attributes:
        path: Path of the file.
        place: Path relative to the repository's folder, with invisible characters escaped.
        who: Name of the contributor, which is the name of the file's folder; empty if the file is
            not below `contributors`.
        fault: Reason why the file is refused without being opened; empty if there is none.
    """

    path: Path
    place: str
    who: str
    fault: str = ""

    @property
    def is_archive(self) -> bool:
        """True for an archive of runs, False for a file with verdicts."""
        return self.path.name.endswith(".jsonl.gz")


def check_contributor(name: str) -> str:
    """Return a contributor's name if it is valid; raise BenchError otherwise.

    The rule is GitHub's rule for user names, but with lower-case letters only, so that no two
    folders differ only in case.
    """
    if not _is_contributor(name):
        raise BenchError(
            f"{visible(name)!r} cannot be the name of a contributor: expected at most 39 "
            "lower-case letters, digits and single hyphens, such as the user name on GitHub."
        )
    return name


def _is_contributor(name: str) -> bool:
    return bool(re.fullmatch(r"(?=.{1,39}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", name))


def create(folder: Path, title: str) -> Repository:
    """Create a repository in a new or empty folder, completely or not at all.

    Args:
        folder: Folder of the repository. It may contain a folder `.git`, so a clone of an empty
            repository can be used.
        title: Title of the website.

    Raises:
        BenchError: The folder has other files, or cannot be written.
    """
    try:
        there = sorted(each.name for each in folder.iterdir()) if folder.exists() else []
        if [name for name in there if name != ".git"]:
            raise BenchError(
                f"{folder} is not empty ({visible(there[-1])}): choose a new folder for the "
                "repository."
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise BenchError(f"{folder} cannot be written: {error.strerror or error}.") from error
    try:
        # A version from git is not on the package index.
        version = re.match(r"\d+(\.\d+)*", package_version())
        values = {"TITLE": visible(title), "VERSION": version[0] if version else ""}
        for name, place in _PLACES.items():
            text = (files(__package__) / "files" / name).read_text(encoding="utf-8")
            target = draft / place
            target.parent.mkdir(parents=True, exist_ok=True)
            for word, value in values.items():
                text = text.replace(f"@{word}@", value)
            target.write_text(text, encoding="utf-8")
        quoted = to_text(visible(title))  # this JSON string is valid in TOML too
        (draft / SETTINGS).write_text(f"version = {LAYOUT}\ntitle = {quoted}\n", encoding="utf-8")
        draft.chmod(0o755)
        if folder.exists():
            # The settings come last, because without them the folder is not a repository.
            for each in sorted(draft.iterdir(), key=lambda path: path.name == SETTINGS):
                each.rename(folder / each.name)
        else:
            draft.rename(folder)
    except OSError as error:
        raise BenchError(f"{folder} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Repository(root=folder, title=title)


def open_repository(folder: Path) -> Repository:
    """Read the settings of a repository.

    Raises:
        BenchError: The folder is not a repository, or has the layout of a later version.
    """
    file = folder / SETTINGS
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = "it has no" if not file.is_file() else "it has a damaged"
        raise BenchError(
            f"{folder} is not a repository of results, because {why} {SETTINGS}: `bench share "
            "init DIR` creates one."
        ) from error
    version, title = found.get("version"), found.get("title")
    if version != LAYOUT or not isinstance(title, str):
        later = isinstance(version, int) and version > LAYOUT
        advice = "update benchharness" if later else "compare it with that of `bench share init`"
        raise BenchError(
            f"{file} has version {version!r:.40} and title {title!r:.80}, but benchharness "
            f"{package_version()} reads version {LAYOUT} with a text as title: {advice}."
        )
    if not (folder / CONTRIBUTORS).is_dir():
        raise BenchError(
            f"{folder} is not a complete repository of results, because it has no folder "
            f"{CONTRIBUTORS}: restore this folder, or create a repository with `bench share init "
            "DIR`."
        )
    return Repository(root=folder, title=title[:200])


def contributions(repository: Repository) -> Iterator[Contribution]:
    """Yield all files below `contributors` except its README.md, sorted by path.

    Links are not followed, but yielded as contributions with a fault.
    """
    top = repository.root / CONTRIBUTORS
    for folder, names, found in os.walk(top):
        names.sort()
        here = Path(folder)
        links = [name for name in names if (here / name).is_symlink()]
        for name in sorted([*found, *links]):
            path = here / name
            if path == top / "README.md":
                continue
            yield contribution(repository, path.relative_to(repository.root).as_posix())


def contribution(repository: Repository, place: str) -> Contribution:
    """Return a file of a repository as a contribution, with the reason if it is refused.

    The file's place, name, type and size are checked, but the file is not opened.

    Args:
        repository: Repository of the file.
        place: Path of the file relative to the repository's folder.
    """
    parts, path = PurePosixPath(place).parts, repository.root / place
    who = parts[1] if len(parts) > 1 and parts[0] == CONTRIBUTORS else ""
    fault = ""
    if len(parts) != 3 or parts[0] != CONTRIBUTORS:
        fault = f"it is not in a folder {CONTRIBUTORS}/NAME, and no other files may be changed"
    elif not _is_contributor(who):
        fault = "the name of its folder is not the name of a GitHub user in lower-case letters"
    elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}\.(?:jsonl\.gz|json)", parts[2]):
        fault = (
            "it is neither an archive of `bench share add` (.jsonl.gz) nor a list of verdicts "
            "(.json), with letters, digits, dots and hyphens in its name"
        )
    else:
        fault = _fault_of_file(path)
    return Contribution(path=path, place=visible(place), who=visible(who), fault=fault)


def _fault_of_file(path: Path) -> str:
    try:
        found = path.lstat()
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    if not S_ISREG(found.st_mode):
        return "it is a link or a device, not a file"
    most = PACKED_BYTES if path.name.endswith(".jsonl.gz") else VERDICT_BYTES
    if found.st_size > most:
        return (
            f"it has {found.st_size:,} bytes, but at most {most:,} are allowed: `bench share add` "
            "writes one archive per row, and rounds probabilities until the archive is small enough"
        )
    return ""


def changed_places(repository: Repository, revision: str) -> list[str]:
    """Return the relative paths of the files that differ from a revision of git, sorted.

    Deleted files and files that git does not track are included.

    Raises:
        BenchError: git is missing, does not know the revision, or needs more than 60 seconds.
    """
    root = str(repository.root)
    if revision.startswith("-"):
        raise BenchError(f"--since is {revision!r}: expected a revision of git, such as main.")
    found = set[str]()
    for words in (
        ("diff", "--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z", revision),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    ):
        try:
            ended = subprocess.run(  # noqa: S603  (no shell, and no option from a stranger)
                ("git", "-C", root, *words),  # noqa: S607  (the user's git)
                capture_output=True,
                check=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error).encode()
            first = said.decode(errors="replace").strip().splitlines()[:1]
            raise BenchError(
                f"git cannot list what has changed since {revision} in {root} "
                f"({' '.join(first)}): fetch this revision, or leave out --since."
            ) from error
        found.update(os.fsdecode(name) for name in ended.stdout.split(b"\0") if name)
    return sorted(found)


def write_archive_file(folder: Path, name: str, content: bytes) -> Path:
    """Write an archive to a contributor's folder, completely or not at all; return its path.

    Raises:
        DataError: The folder cannot be written.
    """
    path = folder / name
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path
