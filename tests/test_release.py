"""Tests of what makes a release: .ci/release.py, .ci/oldest.py, .ci/image and constraints.txt."""

import re
import runpy
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.helpers import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
KEPT = Path("tests") / "leaderboard" / "kept"


# Pinned versions.


@pytest.fixture(scope="module")
def pinned() -> dict[str, Version]:
    """Versions in constraints.txt by normalized name."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    pairs = [line.split("==") for line in lines if line]
    found = {canonicalize_name(name): Version(version) for name, version in pairs}
    assert len(found) == len(pairs), "a package stands there twice"
    return found


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_packages_of_every_extra_are_pinned_to_an_allowed_version(
    extra: str, pinned: dict[str, Version]
) -> None:
    """Check the packages that pyproject.toml names, and all that the installed ones need."""
    checked = set()
    ahead = [Requirement(line) for line in EXTRAS.get(extra, PROJECT["project"]["dependencies"])]
    assert ahead
    while ahead:
        needed = ahead.pop()
        name = canonicalize_name(needed.name)
        assert name in pinned, f"{name} is missing in constraints.txt"
        assert pinned[name] in needed.specifier, f"{name}: {pinned[name]} is not {needed.specifier}"
        if (name, *sorted(needed.extras)) not in checked:
            checked.add((name, *sorted(needed.extras)))
            ahead += _needs(needed)


def _needs(package: Requirement) -> Iterator[Requirement]:
    """Yield what an installed package needs; nothing if it is not installed."""
    try:
        lines = requires(package.name) or []
    except PackageNotFoundError:
        return
    for needed in map(Requirement, lines):
        chosen = [{"extra": extra} for extra in ("", *package.extras)]
        is_needed = needed.marker is None or any(map(needed.marker.evaluate, chosen))
        # NVIDIA's packages come from torch's own index, and torch's CUDA build pins them itself.
        if is_needed and not needed.name.startswith(("nvidia-", "cuda-")):
            yield needed


def test_build_requirements_are_pinned(pinned: dict[str, Version]) -> None:
    for line in PROJECT["build-system"]["requires"]:
        needed = Requirement(line)
        assert pinned[canonicalize_name(needed.name)] in needed.specifier


# Oldest allowed versions.


def oldest() -> Callable[[str], dict[str, str]]:
    return runpy.run_path(str(ROOT / ".ci" / "oldest.py"))["oldest"]  # type: ignore[no-any-return]


def test_oldest_versions_are_the_lower_bounds_of_every_requirement() -> None:
    found = oldest()((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = [
        *PROJECT["project"]["dependencies"],
        *(line for each in EXTRAS.values() for line in each),
    ]
    assert found.keys() == {Requirement(line).name for line in lines}
    for line in lines:
        assert found[Requirement(line).name] in Requirement(line).specifier


def test_oldest_version_satisfies_all_extras_that_name_the_package() -> None:
    text = '[project]\ndependencies = ["a>=1"]\n[project.optional-dependencies]\n'
    text += """x = ["a>=1.10", "c[d]>=2; platform_system == 'Linux'"]\ny = ["a>=1.9"]\n"""
    assert oldest()(text) == {"a": "1.10", "c": "2"}
    with pytest.raises(ValueError, match="'b<3' does not have the form"):
        oldest()('[project]\ndependencies = ["b<3"]\n[project.optional-dependencies]\n')


def test_makefile_writes_the_constraints_that_the_workflow_tests() -> None:
    text = (ROOT / ".github" / "workflows" / "versions.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    files = re.findall(r"CONSTRAINTS=(\S+)", text)
    assert files == ["build/oldest.txt", "build/newest.txt"]
    assert all(re.search(rf"(?m)^{file}:", makefile) for file in files)


# Checks before an upload.


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Files of a release that has everything, and its packages in `dist`."""
    (tmp_path / "dist").mkdir()
    for name in ("benchharness-0.1.0.tar.gz", "benchharness-0.1.0-py3-none-any.whl"):
        (tmp_path / "dist" / name).touch()
    (tmp_path / KEPT).mkdir(parents=True)
    for ending in ("sqlite.gz", "json.gz", "jsonl.gz"):
        (tmp_path / KEPT / f"0.1.0.{ending}").touch()
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.2.0 (unreleased)\n\nLater.\n\n## 0.1.0 (2026-12-01)\n\n"
        "The [first](docs/index.md), see [it](https://a.b/c).\n\n### More\n\n* One.\n\n"
        "## 0.0.1 (2026-01-01)\n\nOld.\n"
    )
    return tmp_path


def faults(root: Path, tag: str = "v0.1.0") -> list[str]:
    found = runpy.run_path(str(ROOT / ".ci" / "release.py"))["faults"]
    return list(found(tag, root / "dist", root))


def test_complete_release_passes_and_its_changelog_section_becomes_the_notes(
    repository: Path,
) -> None:
    assert faults(repository) == []
    notes = runpy.run_path(str(ROOT / ".ci" / "release.py"))["notes"]("v0.1.0", repository)
    files = "https://github.com/benchharness/benchharness/blob/v0.1.0/docs/index.md"
    first = f"The [first]({files}), see [it](https://a.b/c)."
    assert notes == f"{first}\n\n### More\n\n* One.\n"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda root: (root / "dist" / "benchharness-0.1.0.tar.gz").unlink(), "dist has benchharn"),
        (lambda root: (root / "dist" / "benchharness-0.1.0.dev3.tar.gz").touch(), "unchanged tag"),
        (lambda root: shutil.rmtree(root / KEPT), "0.1.0.sqlite.gz is missing: `python -m tests"),
        (lambda root: (root / KEPT / "0.1.0.jsonl.gz").unlink(), "0.1.0.jsonl.gz is missing"),
        (lambda root: (root / "CHANGELOG.md").write_text("# Changelog\n"), "no section for 0.1.0"),
        (
            lambda root: (root / "CHANGELOG.md").write_text("## 0.1.0 (unreleased)\n"),
            "the section '## 0.1.0 (unreleased)' of CHANGELOG.md has no date",
        ),
    ],
)
def test_error_for_an_incomplete_release_names_what_is_missing(
    repository: Path, change: Callable[[Path], object], sentence: str
) -> None:
    change(repository)
    assert sentence in faults(repository)[0]


@pytest.mark.parametrize("tag", ["0.1.0", "v0.1", "v0.1.0.dev3", "version-1"])
def test_invalid_release_tag_is_refused(repository: Path, tag: str) -> None:
    assert faults(repository, tag) == [
        f"{tag!r} is not the tag of a release: expected a tag such as v0.1.0 or v0.1.0rc1."
    ]


def test_release_candidate_needs_no_date_and_no_stored_leaderboard(repository: Path) -> None:
    shutil.rmtree(repository / KEPT)
    for path in (repository / "dist").iterdir():
        path.rename(path.with_name(path.name.replace("0.1.0", "0.2.0rc1")))
    assert faults(repository, "v0.2.0rc1") == []


def test_refused_release_ends_with_1_and_prints_no_notes(tmp_path: Path) -> None:
    words = ("python3", str(ROOT / ".ci" / "release.py"), "v9.9.9", str(tmp_path))
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"{tmp_path} has no files: expected benchharness-9.9.9-py3-none-any.whl" in ended.stderr


def test_changelog_has_a_section_of_the_next_release() -> None:
    from benchharness.version import package_version, release_of

    heading = runpy.run_path(str(ROOT / ".ci" / "release.py"))["_heading"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"(?m)^## (\S+) \((?:unreleased|\d{4}-\d{2}-\d{2})\)$", text)
    assert first is not None
    assert heading(first[1], ROOT)
    assert Version(first[1]) >= Version(release_of(package_version()))


# The container image.


DOCKER = """#!/bin/bash
echo "$@" >> "$RECORD"
case "$1 $2" in
    "image inspect") echo "${DIGEST-python@sha256:0a1b}" ;;
    "run --rm") case "$*" in
        *--entrypoint*) echo "${IMAGE_USER:-1000}" ;;
        *--version) echo "benchharness ${FOUND:-0.1.0}" ;;
    esac ;;
esac
"""


@pytest.fixture
def image(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Run .ci/image with a program `docker` that only records its arguments."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    record = tmp_path / "record"

    def run(*words: str, **variables: str) -> tuple[int, list[str]]:
        record.write_text("")
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RECORD": str(record), **variables}
        ended = subprocess.run((ROOT / ".ci" / "image", *words), env=env, check=False)
        return ended.returncode, record.read_text().splitlines()

    return run


Image = Callable[..., tuple[int, list[str]]]


def test_docker_image_has_a_pinned_base_and_is_run_before_it_is_pushed(image: Image) -> None:
    code, calls = image("0.1.0", "cuda", "ghcr.io/us/bench")
    assert code == 0
    (build,) = (call for call in calls if call.startswith("build "))
    arguments = dict(re.findall(r"--build-arg (\w+)=(\S+)", build))
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert arguments.keys() == set(re.findall(r"(?m)^ARG (\w+)=", dockerfile))
    assert arguments["BASE"] == "python@sha256:0a1b"
    assert arguments["VERSION"] == "0.1.0"
    assert set(arguments["EXTRAS"].split(",")) <= EXTRAS.keys()
    assert re.fullmatch(r"https://download\.pytorch\.org/whl/cu\d+", arguments["TORCH_INDEX"])
    assert "--label org.opencontainers.image.base.name=python@sha256:0a1b" in build
    trained, pushed = (
        next(number for number, call in enumerate(calls) if start in call)
        for start in ("--model tiny", "push ")
    )
    assert trained < pushed
    assert [call for call in calls if call.startswith("push")] == [
        "push ghcr.io/us/bench:0.1.0-cuda",
        "push ghcr.io/us/bench:latest-cuda",
    ]


def test_image_of_a_release_candidate_is_not_the_latest(image: Image) -> None:
    code, calls = image("0.2.0rc1", "cpu", "ghcr.io/us/bench", FOUND="0.2.0rc1")
    assert code == 0
    assert [call for call in calls if call.startswith("push")] == ["push ghcr.io/us/bench:0.2.0rc1"]


def test_image_without_a_repository_is_built_and_not_pushed(image: Image) -> None:
    code, calls = image("0.1.0", "cpu")
    assert code == 0
    assert any(call.startswith("build ") for call in calls)
    assert not any(call.startswith(("push", "tag")) for call in calls)


@pytest.mark.parametrize(
    "variables",
    [{"DIGEST": ""}, {"DIGEST": "python:3.11-slim"}, {"FOUND": "0.1.0.dev0"}, {"IMAGE_USER": "0"}],
)
def test_docker_image_with_a_wrong_base_version_or_user_is_not_pushed(
    image: Image, variables: dict[str, str]
) -> None:
    code, calls = image("0.1.0", "cpu", "ghcr.io/us/bench", **variables)
    assert code != 0
    assert not any(call.startswith("push") for call in calls)


def test_dockerfile_has_an_argument_for_its_base_and_does_not_run_as_root() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line and line[0] not in "# "]
    assert commands[:2] == ["ARG BASE=python:3.11-slim", "FROM ${BASE}"]
    (user,) = (line.split()[1] for line in commands if line.startswith("USER "))
    assert user.split(":")[0] not in ("0", "root")


# The release workflow.


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)["jobs"]
    return found


def test_release_workflow_builds_checks_and_tests_packages_before_it_publishes(
    jobs: dict[str, Any],
) -> None:
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "build": None,
        "try": "build",
        "publish": "try",
        "page": "publish",
        "image": "publish",
    }
    built = "\n".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert built.index("-m build") < built.index("twine check --strict") < built.index("release.py")


def test_only_the_upload_job_has_the_token_for_trusted_publishing(
    jobs: dict[str, Any],
) -> None:
    trusted = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert trusted == ["publish"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    # This job must not run code of the repository: it only downloads the built files and uploads
    # them.
    assert [step["uses"].split("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
