"""The version of benchharness: from git in a checkout, from the file VERSION in a package.

Building a package runs this file alone (`tool.hatch.version` in pyproject.toml), so it imports no
other module of benchharness.
"""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

NEXT = "0.1.0"
"""Number of the next release. Commits without a known tag get a development version of it: all
commits before the first release, and those in a shallow clone. RELEASING.md says when to raise it.
"""

_FOLDER = Path(__file__).parent

_BUILT = "VERSION"
"""Name of the file with the version, which building a package writes into the package."""

_ARCHIVED = "$Format:%(describe:tags=true,match=v[0-9]*)|%h$"
"""Newest tag and commit in an archive that git or GitHub made from the repository (see
.gitattributes); elsewhere git leaves this text as it is."""

_DESCRIBED = re.compile(
    r"(?:v(?P<tag>\S+?)(?:-(?P<commits>\d+)-g|$))?(?P<commit>[0-9a-f]*)(?P<dirty>-dirty)?"
)
"""Pattern of the output of `git describe`, such as v0.1.0-3-g8d437e88-dirty or, without a tag,
8d437e88-dirty."""


@cache
def package_version(folder: Path = _FOLDER) -> str:
    """Return the version of the package that is in `folder`.

    A checkout has the version of a release, such as "0.1.0", if its commit has the tag of the
    release (v0.1.0) and no tracked file was changed. Every other checkout has a development
    version, such as "0.1.0.dev12+g8d437e88.dirty": the next release, the number of commits since
    the last tag, the commit, and "dirty" if files were changed. An installed package has the
    version with which it was built, and a copy of the source files without git has "0.1.0.dev0".
    """
    if found := _describe(folder):
        commits = found["commits"] or _git(folder, "rev-list", "--count", "HEAD")
        return _version(found, str(commits))
    if (built := folder / _BUILT).is_file():
        return built.read_text(encoding="utf-8").strip()
    tag, _, commit = _ARCHIVED.partition("|")
    if not tag.startswith("$") and (found := _DESCRIBED.fullmatch(tag or commit)):
        return _version(found, found["commits"] or "0")
    return f"{NEXT}.dev0"


def _version(found: re.Match[str], commits: str) -> str:
    tag, is_dirty = found["tag"], bool(found["dirty"])
    if tag and commits == "0" and not is_dirty:
        return str(tag)
    # After 0.1.0 comes 0.1.1 or more, and after 0.2.0rc1 comes 0.2.0rc2.
    base = re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), tag) if tag else NEXT
    return f"{base}.dev{commits}+g{found['commit'][:8]}{'.dirty' if is_dirty else ''}"


def release_of(version: str) -> str:
    """Return the release that follows a development version, such as "0.1.0", or `version` itself.

    Results of development versions before the same release are distinguished by `METHOD`.
    """
    return re.split(r"\.dev|\+", version)[0]


def source_commit(folder: Path = _FOLDER) -> dict[str, Any]:
    """Return the git commit of benchharness's source code, which is in `folder`.

    Returns:
        The commit ("commit"), and whether source files differ from this commit ("dirty"). Both
        values are None if git is not installed, or if benchharness is an installed package, even
        inside another git repository: that repository does not track the package's `__init__.py`.
    """
    found = _describe(folder)
    if found is None:
        return {"commit": None, "dirty": None}
    return {"commit": found["commit"], "dirty": bool(found["dirty"])}


def _describe(folder: Path) -> re.Match[str] | None:
    """Describe the commit of the checkout that has the package `folder` at its top, else None."""
    tracked = _git(folder, "ls-files", "--full-name", "--error-unmatch", "__init__.py")
    if tracked != f"{folder.resolve().name}/__init__.py":
        return None
    form = ("--tags", "--long", "--always", "--dirty", "--abbrev=40", "--match=v[0-9]*")
    return _DESCRIBED.fullmatch(_git(folder, "describe", *form) or "-")


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or None if it fails or git is not installed."""
    try:
        done = subprocess.run(  # noqa: S603  (our own arguments, no shell)
            ("git", "-C", str(folder), *arguments),  # noqa: S607  (the user's git)
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
