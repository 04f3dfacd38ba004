"""Tests of the version of a release, of a commit between two releases, and of a package."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import benchharness
from benchharness import version
from benchharness.version import NEXT, package_version, release_of, source_commit
from tests.helpers import ROOT


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    words = ("git", "-C", str(folder), *identity, *arguments)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, tag: str = "") -> str:
    """Add a commit to the checkout that has the package `folder`; return its first 8 digits."""
    git(folder, "commit", "-qm", "a change", "--allow-empty")
    if tag:
        git(folder, "tag", "-am", "a release", tag)
    return git(folder, "rev-parse", "HEAD")[:8]


def found(folder: Path) -> str:
    package_version.cache_clear()
    return package_version(folder)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Package in a new checkout with one commit and no tag."""
    folder = tmp_path / "checkout" / "package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    shutil.copy(version.__file__, folder)
    (tmp_path / "checkout" / ".gitattributes").write_text("package/version.py export-subst\n")
    git(folder, "init", "-q", "..")
    git(folder, "add", "..")
    commit(folder)
    return folder


def test_commits_before_the_first_tag_are_numbered_from_the_beginning(package: Path) -> None:
    first = found(package)
    assert first == f"{NEXT}.dev1+g{git(package, 'rev-parse', 'HEAD')[:8]}"
    digits = commit(package)
    assert found(package) == f"{NEXT}.dev2+g{digits}"


def test_only_the_unchanged_commit_of_a_tag_is_the_release(package: Path) -> None:
    digits = commit(package, "v1.9.9")
    assert found(package) == "1.9.9"
    (package / "__init__.py").write_text("changed = 1\n")
    assert found(package) == f"1.9.10.dev0+g{digits}.dirty"
    git(package, "checkout", "-q", ".")
    digits = commit(package)
    assert found(package) == f"1.9.10.dev1+g{digits}"


def test_commit_after_a_release_candidate_has_a_version_of_the_next_candidate(
    package: Path,
) -> None:
    commit(package, "v2.0.0rc1")
    assert found(package) == "2.0.0rc1"
    assert found(package) != release_of(f"2.0.0rc2.dev1+g{commit(package)}") == "2.0.0rc2"
    assert found(package).startswith("2.0.0rc2.dev1+g")


def test_tags_that_are_not_releases_do_not_change_the_version(package: Path) -> None:
    before = found(package)
    git(package, "tag", "vendored")
    git(package, "tag", "newest")
    assert found(package) == before


def test_shallow_clone_without_tags_has_a_development_version(
    package: Path, tmp_path: Path
) -> None:
    commit(package, "v3.0.0")
    digits = commit(package)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{package.parent}", str(clone))
    assert found(clone / "package") == f"{NEXT}.dev1+g{digits}"


def test_package_inside_another_git_repository_does_not_have_its_version(package: Path) -> None:
    inside = package / "site-packages" / "benchharness"
    inside.mkdir(parents=True)
    (inside / "__init__.py").write_text("")
    (inside / "VERSION").write_text("7.0.0\n")
    assert found(inside) == "7.0.0"
    # A copy of the source in the repository of another project does not have its version either.
    git(package, "add", "-f", ".")
    commit(package)
    assert found(inside) == "7.0.0"
    assert source_commit(inside) == {"commit": None, "dirty": None}


def test_package_without_git_has_the_version_that_it_was_built_with(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(package))
    assert found(package) == f"{NEXT}.dev0"
    (package / "VERSION").write_text("0.1.0.dev7+g8d437e88\n")
    assert found(package) == "0.1.0.dev7+g8d437e88"
    package_version.cache_clear()


@pytest.mark.parametrize("tag", ["", "v4.0.0", "an older commit"])
def test_source_archive_of_git_has_the_version_of_its_commit(
    package: Path, tmp_path: Path, tag: str
) -> None:
    digits = commit(package, "v4.0.0" if tag else "")
    if tag == "an older commit":
        digits = commit(package)
    with (tmp_path / "archive.tar").open("wb") as file:
        subprocess.run(("git", "-C", package.parent, "archive", "HEAD"), stdout=file, check=True)
    with tarfile.open(tmp_path / "archive.tar") as archive:
        archive.extract("package/version.py", tmp_path)
    print_it = "import version; print(version.package_version())"
    words = (sys.executable, "-c", print_it)
    printed = subprocess.check_output(words, cwd=tmp_path / "package", text=True).strip()
    begins = {"": f"{NEXT}.dev0+g", "v4.0.0": "4.0.0", "an older commit": "4.0.1.dev1+g"}[tag]
    assert printed.startswith(begins)
    assert digits.startswith(printed.removeprefix(begins))


def test_public_version_equals_the_version_of_a_built_wheel() -> None:
    package_version.cache_clear()
    assert benchharness.__version__ == package_version()
    assert WheelBuilder(str(ROOT)).metadata.version == package_version()
    assert (ROOT / ".gitattributes").read_text() == "benchharness/version.py export-subst\n"


def test_release_of_a_development_version_is_the_next_release() -> None:
    assert release_of("0.1.0") == "0.1.0"
    assert release_of("0.1.0.dev12+g8d437e88.dirty") == "0.1.0"
    assert release_of("0.2.0rc1") == "0.2.0rc1"
