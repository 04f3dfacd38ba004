"""Tests of the GitHub workflows of a repository: their syntax, and their steps, run in order."""

import base64
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import ROOT
from tests.helpers.shared_rows import archive_of, made_run

WORKFLOWS = sorted((ROOT / "benchharness/extensions/share/files").glob("*.yml"))
OWN = [*(ROOT / ".github" / "workflows").glob("*.yml"), ROOT / "action.yml"]
KEYS = {
    "workflow": {"name", "on", "permissions", "concurrency", "jobs"},
    "job": {"runs-on", "timeout-minutes", "permissions", "outputs", "steps", "needs", "if",
            "environment"},
    "step": {"id", "name", "uses", "with", "env", "run"},
    "permissions": {"contents", "pages", "id-token", "pull-requests"},
}  # fmt: skip


def pinned(path: Path) -> set[str]:
    return set(re.findall(r"uses: (\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+)", path.read_text()))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_has_known_keys_pinned_actions_and_valid_scripts(path: Path) -> None:
    document = {"on" if k is True else k: v for k, v in yaml.safe_load(path.read_text()).items()}
    assert document.keys() <= KEYS["workflow"]
    assert {"name", "on", "permissions", "jobs"} <= document.keys()
    for job in document["jobs"].values():
        assert job.keys() <= KEYS["job"]
        assert job["timeout-minutes"] <= 30
        assert job.get("permissions", {}).keys() <= KEYS["permissions"]
        for step in job["steps"]:
            assert step.keys() <= KEYS["step"]
            assert ("uses" in step) != ("run" in step)
            if "run" in step:
                assert "${{" not in step["run"], "an expression is code that others may write"
                subprocess.run(("bash", "-n", "-c", step["run"]), check=True)
    ours = set().union(*map(pinned, OWN))
    assert pinned(path) <= ours
    assert len(pinned(path)) == len(re.findall(r"uses: (?!\./)", path.read_text()))


def test_job_that_reads_a_pull_request_cannot_write() -> None:
    jobs = yaml.safe_load(WORKFLOWS[0].read_text())["jobs"]
    assert jobs["check"]["permissions"] == {"contents": "read"}
    assert jobs["comment"]["permissions"] == {"pull-requests": "write"}
    assert not any("uses" in step for step in jobs["comment"]["steps"])
    checkout = jobs["check"]["steps"][0]["with"]
    assert checkout["persist-credentials"] is False
    assert "GH_TOKEN" not in str(jobs["check"])


GH = """#!/bin/bash
printf '%s\\n' "$*" >> "$RUNNER_TEMP/gh.txt"
case "$*" in *--paginate*) cat "$RUNNER_TEMP/old.txt" 2> /dev/null ;; esac
exit 0
"""


class Runner:
    """Imitation of GitHub's runner: a folder in which the steps of a workflow run in order.

    The program `gh` only records its arguments, and instead of installing a release from the
    package index, the command `bench` of this environment is used.
    """

    def __init__(self, folder: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.temp = folder / "temp"
        (self.temp / "venv/bin").mkdir(parents=True)
        (self.temp / "bin").mkdir()
        bench = Path(sys.executable).with_name("bench")
        (self.temp / "venv/bin/bench").symlink_to(bench)
        self.program("gh", GH)
        self.program("python", '#!/bin/bash\n[ "$1 $2" = "-m venv" ]\n')
        installs = '#!/bin/bash\nprintf "%s\\n" "$*" > "$RUNNER_TEMP/pip.txt"\n'
        (self.temp / "venv/bin/python").write_text(installs)
        (self.temp / "venv/bin/python").chmod(0o755)
        self.output = self.temp / "output.txt"

    def program(self, name: str, text: str) -> None:
        (self.temp / "bin" / name).write_text(text)
        (self.temp / "bin" / name).chmod(0o755)

    def run(self, step: dict, **variables: str) -> int:
        assert {*step.get("env", {})} - {"PIP_EXTRA_INDEX_URL"} == {*variables}
        environment = {
            **os.environ,
            "PATH": f"{self.temp / 'bin'}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.output),
            **variables,
        }
        script = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        ended = subprocess.run(script, env=environment, cwd=self.workspace, check=False)
        return ended.returncode

    def outputs(self) -> dict[str, str]:
        lines = self.output.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(
        ("git", "-C", str(folder), *names, *words), check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def published(bench, tmp_path) -> Path:
    """Return a bare git repository that has the rows of Ada on the branch main."""
    bench("share", "init", "board", "--title", "Ours")
    board = tmp_path / "board"
    archive_of(board / "contributors/ada/a.jsonl.gz", [made_run("hers", 1)])
    git(board, "init", "-q", "-b", "main")
    git(board, "add", ".")
    git(board, "commit", "-qm", "first rows")
    git(tmp_path, "clone", "-q", "--bare", "board", "bare.git")
    return tmp_path / "bare.git"


def propose(bare: Path, folder: Path, run, who: str = "bob") -> str:
    """Push a branch with an archive and check it out like the workflow; return its base commit."""
    git(folder, "clone", "-q", str(bare), "fork")
    base = git(folder / "fork", "rev-parse", "HEAD")
    archive_of(folder / "fork" / "contributors" / who / "b.jsonl.gz", [run])
    git(folder / "fork", "checkout", "-qb", "mine")
    git(folder / "fork", "add", ".")
    git(folder / "fork", "commit", "-qm", "my rows")
    git(folder / "fork", "push", "-q", "origin", "mine")
    git(folder, "clone", "-q", "--branch", "mine", str(bare), "proposed")
    return base


@pytest.mark.parametrize("honest", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_steps_of_the_check_run_in_order_and_answer_with_one_comment(published, tmp_path, honest):
    run = made_run("his", 2)
    if not honest:
        (one,) = run.evaluations
        wrong = type(one)(**{**vars(one), "scores": {"accuracy": 0.99}})
        run = type(run)(**{**vars(run), "evaluations": (wrong,)})
    base = propose(published, tmp_path, run)
    jobs = yaml.safe_load((tmp_path / "proposed/.github/workflows/check.yml").read_text())["jobs"]
    _, _, install, compared, check = jobs["check"]["steps"]
    runner = Runner(tmp_path / "runner", tmp_path)
    assert runner.run(install) == 0
    assert re.search(r"install .*benchharness==\d", (runner.temp / "pip.txt").read_text())
    assert runner.run(compared, BASE=base) == 0
    revision = runner.outputs()["rev"]
    assert revision == base
    # The weights do not exist, so no job can run again.
    assert runner.run(check, AUTHOR="Bob", REV=revision) == (0 if honest else 1)
    comment = runner.outputs()["comment"]
    text = base64.b64decode(comment).decode()
    assert text.startswith("<!-- benchharness: shared results -->\n")
    assert ("No problems found" in text) == honest
    assert ("but the accuracy of the stored predictions is" in text) != honest
    (post,) = jobs["comment"]["steps"]
    facts = {"GH_TOKEN": "x", "COMMENT": comment, "COMMENTS": "all", "UPDATED": "one"}
    assert runner.run(post, **facts) == 0
    (runner.temp / "old.txt").write_text("77\n78\n")
    assert runner.run(post, **facts) == 0
    calls = (runner.temp / "gh.txt").read_text().splitlines()
    assert [("PATCH one/77" in call) for call in calls] == [False, False, False, True]
    assert calls[1].startswith("api --silent all --field body=@")
    assert (runner.temp / "comment.md").read_text() == text


@pytest.mark.soak
def test_comment_reports_that_the_check_could_not_run(published, tmp_path):
    base = propose(published, tmp_path, made_run("his", 2))
    shutil.rmtree(tmp_path / "proposed" / "contributors")
    jobs = yaml.safe_load((tmp_path / "proposed/.github/workflows/check.yml").read_text())["jobs"]
    runner = Runner(tmp_path / "runner", tmp_path)
    assert runner.run(jobs["check"]["steps"][-1], AUTHOR="bob", REV=base) == 2
    text = base64.b64decode(runner.outputs()["comment"]).decode()
    assert "The check could not run" in text
    assert "it has no folder contributors" in text


@pytest.mark.soak
def test_steps_of_the_site_write_it_to_the_folder_that_is_uploaded(published, tmp_path):
    git(tmp_path, "clone", "-q", str(published), "checkout")
    jobs = yaml.safe_load((tmp_path / "checkout/.github/workflows/site.yml").read_text())["jobs"]
    _, _, install, build, upload = jobs["build"]["steps"]
    runner = Runner(tmp_path / "runner", tmp_path / "checkout")
    assert runner.run(install) == 0
    assert runner.run(build) == 0
    folder = upload["with"]["path"].replace("${{ runner.temp }}", str(runner.temp))
    page = (Path(folder) / "index.html").read_text()
    assert "hers (ada)" in page
    assert "by ada, 2026-08-02, recomputed" in page
