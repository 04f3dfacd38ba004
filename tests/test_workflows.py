"""Tests of GitHub's workflows and of the action: their files, and the commands in them."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchharness.cli.app import load_command
from tests.helpers.doc_blocks import block

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTION: Mapping[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

RECORDER = """#!/bin/bash
printf '%s\\n' "$@" > "$RUNNER_TEMP/$(basename "$0").words"
exit "${FAKE_CODE:-0}"
"""


def steps_of(text: str) -> Iterator[Mapping[str, Any]]:
    document = yaml.safe_load(text)
    assert {"name", "on", "jobs", "permissions"} <= {"on" if k is True else k for k in document}
    for job in document["jobs"].values():
        assert job["timeout-minutes"] <= 30
        yield from job["steps"]


def check_uses(step: Mapping[str, Any]) -> None:
    """Check that a step uses a pinned commit, and only existing inputs of this action."""
    used = step.get("uses", "")
    ours = ("./", "benchharness/benchharness@COMMIT")
    assert used in ours or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used), used
    if used in ours:
        given = step["with"]
        assert given.keys() <= ACTION["inputs"].keys()
        assert {name for name, each in ACTION["inputs"].items() if each.get("required")} <= set(
            given
        )
        parse("check", shlex.split(given["arguments"]))


def parse(name: str, words: list[str]) -> None:
    """Parse the words of a command without running it; raise if it does not accept them."""
    load_command(name).make_context(name, words)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_steps_of_github_workflows_are_valid(path: Path) -> None:
    for step in steps_of(path.read_text(encoding="utf-8")):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            check_uses(step)
            continue
        assert "${{" not in step["run"], "an expression in a script is code that others may write"
        subprocess.run(("bash", "-n", "-c", step["run"]), check=True)
        for command in step["run"].splitlines():
            words = shlex.split(command)
            if words[0] == "make":
                assert re.search(rf"(?m)^{words[1]}:", (ROOT / "Makefile").read_text())
            elif words[0].startswith("."):
                assert (ROOT / words[0]).stat().st_mode & 0o100


def test_an_action_has_one_commit_everywhere_and_names_its_version() -> None:
    """Check the comments too: dependabot updates them, and a reader compares them with the tags."""
    found: dict[str, set[str]] = {}
    for path in (*WORKFLOWS, ROOT / "action.yml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "uses:" in line and "./" not in line:
                used = re.fullmatch(r"\s*(?:- )?uses: (\S+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", line)
                assert used, f"{path.name}: {line}"
                found.setdefault(used[1], set()).add(used[2])
    assert len(found) > 6
    assert {name: len(commits) for name, commits in found.items()} == dict.fromkeys(found, 1)


def test_example_workflow_in_the_documentation_uses_the_action_correctly() -> None:
    (job,) = yaml.safe_load(block("regression.md", "uses: benchharness"))["jobs"].values()
    for step in job["steps"]:
        check_uses(step)


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """Environment of a runner, in which programs only record their arguments."""
    for name in ("python", "benchharness/bin/python", "benchharness/bin/bench"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(RECORDER)
        (tmp_path / name).chmod(0o755)
    return {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "RUNNER_OS": "Linux",
        "RUNNER_ARCH": "X64",
    }


def run_step(name: str, runner: Mapping[str, str], **variables: str) -> int:
    """Run a step of the action with values for its variables; return the exit code."""
    (step,) = (each for each in ACTION["runs"]["steps"] if each.get("name") == name)
    assert set(variables) - {"FAKE_CODE"} == set(step["env"])
    for value in step["env"].values():
        for input_name in re.findall(r"inputs\.([\w-]+)", value):
            assert input_name in ACTION["inputs"]
    assert "${{" not in step["run"]
    script = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
    return subprocess.run(script, env={**runner, **variables}, check=False).returncode


def words_of(runner: Mapping[str, str], program: str) -> list[str]:
    return (Path(runner["RUNNER_TEMP"]) / f"{program}.words").read_text().splitlines()


GH = """#!/bin/bash
printf '%s\\n' "$*" >> "$RUNNER_TEMP/gh.txt"
case "$*" in *--paginate*) cat "$RUNNER_TEMP/old.txt" ;; esac
"""


def test_action_writes_one_comment_and_updates_it(runner: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    given = {"GH_TOKEN": "x", "COMMENTS": "all", "UPDATED": "one"}
    assert run_step("comment", runner, **given) == 0
    assert not (tmp_path / "gh.txt").exists(), "without a verdict there is no comment"
    (tmp_path / "bench-check.md").write_text("fine\n")
    for old in ("", "7\n8\n"):
        (tmp_path / "old.txt").write_text(old)
        assert run_step("comment", runner, **given) == 0
    file = f"--field body=@{tmp_path}/comment.md"
    calls = (tmp_path / "gh.txt").read_text().splitlines()
    assert calls[1::2] == [f"api --silent all {file}", f"api --silent --method PATCH one/7 {file}"]
    assert (tmp_path / "comment.md").read_text() == "<!-- bench check -->\nfine\n"


@pytest.mark.parametrize("version", ["", "1.2.3"])
def test_action_installs_its_own_code_or_the_requested_release(
    runner: dict[str, str], version: str
) -> None:
    index = "https://download.pytorch.org/whl/cpu"
    assert run_step("install", runner, VERSION=version, PIP_EXTRA_INDEX_URL=index) == 0
    words = words_of(runner, "python")
    assert words[:3] == ["-m", "pip", "install"]
    assert words[-2:] == ["torch", f"benchharness=={version}" if version else str(ROOT)]
    assert words[-3] == str(ROOT / "constraints.txt")
    assert Path(words[-3]).is_file()


def test_action_runs_the_check_and_outputs_its_exit_code(runner: dict[str, str]) -> None:
    arguments = '--model "my model=./a folder" --suite glue --task rte --limit 300'
    given = {"ARGUMENTS": arguments, "BASELINE": "base line.json"}
    assert run_step("bench check", runner, **given) == 0
    name, *words = words_of(runner, "bench")
    assert name == "check"
    assert words[:2] == ["--model", "my model=./a folder"]
    assert words[words.index("--baseline") + 1] == "base line.json"
    parse("check", words)
    assert run_step("bench check", runner, **given, FAKE_CODE="3") == 3
    output = Path(runner["GITHUB_OUTPUT"]).read_text()
    assert output.splitlines() == ["exit-code=0", "exit-code=3"]
    step = "${{ steps.check.outputs.exit-code }}"
    assert ACTION["outputs"]["exit-code"]["value"] == step


def test_actions_used_by_the_action_are_pinned_to_a_commit() -> None:
    for step in ACTION["runs"]["steps"]:
        if "uses" in step:
            check_uses(step)


def test_action_without_extra_arguments_adds_none_to_bench_check(runner: dict[str, str]) -> None:
    assert run_step("bench check", runner, ARGUMENTS=" ", BASELINE="b.json") == 0
    assert words_of(runner, "bench")[:2] == ["check", "--baseline"]


def test_action_runs_no_check_with_unbalanced_quotes(runner: dict[str, str]) -> None:
    given = {"ARGUMENTS": "--model tiny --suite glue 'oops", "BASELINE": "b.json"}
    assert run_step("bench check", runner, **given)
    assert not (Path(runner["RUNNER_TEMP"]) / "bench.words").exists()


def test_action_cache_key_depends_on_version_python_and_platform(runner: dict[str, str]) -> None:
    for version in ("", "1.2.3"):
        run_step("what is to be installed", runner, VERSION=version, PYTHON="3.11.9")
    one, other = Path(runner["GITHUB_OUTPUT"]).read_text().splitlines()
    assert re.fullmatch(r"packages=benchharness-Linux-X64-3\.11\.9--[0-9a-f]{16}", one)
    assert other == one.replace("9--", "9-1.2.3-")


# Other ways of installation: containers and pre-commit hooks.


def test_dockerfile_passes_hadolint_and_its_commands_are_valid() -> None:
    file = ROOT / "Dockerfile"
    hadolint = Path(sys.executable).with_name("hadolint")
    ended = subprocess.run((hadolint, file), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")
    typed = re.findall(r"(?m)^#   docker run .* bench run (.*)$", file.read_text(encoding="utf-8"))
    assert len(typed) == len(re.findall("docker run .*--user ", file.read_text())) == 2
    for words in typed:
        parse("run", shlex.split(words))
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert all((ROOT / line[1:]).exists() for line in sent if line.startswith("!"))


def test_pre_commit_hook_is_a_valid_bench_check() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    (hook,) = yaml.safe_load(text)
    (project,) = yaml.safe_load(
        re.sub(r"(?m)^# ?", "", text.partition("\n- id")[0].split("\n", 1)[1])
    )
    (used,) = project["hooks"]
    assert used["id"] == hook["id"]
    assert hook["language"] == "system", "nothing is installed without our constraints"
    command, name = hook["entry"].split()
    assert command == "bench"
    parse(name, used["args"])
