"""Tests of fault 33: downloads that are interrupted, damaged or refused, and changed revisions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.tasks.glue import COLA, HUB, REVISION
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.hub_files import write_embedded
from tests.helpers.hub_server import HubServer, ask, serve_hub
from tests.helpers.soak import in_part

COMMIT, NEXT = "ab" * 20, "cd" * 20
WEIGHTS = "model.safetensors"

FETCH = """
import sys
from benchharness.models.weights import download
from benchharness.errors import BenchError
status = 0
for name in sys.argv[2:]:
    try:
        print(download(name, sys.argv[1]))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        status = error.exit_code
sys.exit(status)
"""


@pytest.fixture
def repositories(tmp_path: Path) -> Path:
    root = tmp_path / "repositories"
    save_checkpoint(root / "models" / "org" / "name" / COMMIT)
    return root


def fetch(
    server: HubServer, home: Path, revision: str = COMMIT, *names: str
) -> subprocess.CompletedProcess[str]:
    """Fetch checkpoints in a separate process, because the library reads HF_* on import."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    hub = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        (sys.executable, "-P", "-c", FETCH, revision, *(names or ["org/name"])),
        env=kept | hub,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_33_interrupted_download_is_resumed(tmp_path: Path, repositories: Path) -> None:
    with serve_hub(repositories) as server:
        server.cut.add(WEIGHTS)
        done = fetch(server, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    source = repositories / "models" / "org" / "name" / COMMIT
    assert (Path(done.stdout.strip()) / WEIGHTS).read_bytes() == (source / WEIGHTS).read_bytes()


def test_33_corrupted_weights_are_an_error_and_are_fetched_again(
    tmp_path: Path, repositories: Path
) -> None:
    with serve_hub(repositories) as server:
        server.flipped.add(WEIGHTS)
        done = fetch(server, tmp_path / "home")
        assert (done.returncode, done.stdout) == (4, "")
        assert "files of the checkpoint org/name" in done.stderr
        server.flipped.clear()
        again = fetch(server, tmp_path / "home")
    assert again.returncode == 0, again.stderr
    source = repositories / "models" / "org" / "name" / COMMIT
    assert (Path(again.stdout.strip()) / WEIGHTS).read_bytes() == (source / WEIGHTS).read_bytes()


@pytest.mark.soak
def test_33_corrupted_data_file_is_an_error_and_is_fetched_again(tmp_path: Path) -> None:
    write_embedded(tmp_path / "hub", COLA.source)
    name = "cola/train-00000-of-00001.parquet"
    path = tmp_path / "hub" / "datasets" / HUB / REVISION / name
    assert path.is_file()
    with serve_hub(tmp_path / "hub") as server:
        server.flipped.add(name)
        answer = ask(server.endpoint, tmp_path / "home", "glue/cola:train")
        assert answer.status == 4
        assert "nyu-mll/glue (cola) could not be loaded" in answer.error
        server.flipped.clear()
        again = ask(server.endpoint, tmp_path / "home", "glue/cola:train")
    assert again.status == 0, again.error


@pytest.mark.soak
def test_33_each_download_that_the_hub_refuses_is_reported_in_one_line(
    tmp_path: Path, repositories: Path
) -> None:
    """Fetch one checkpoint per HTTP status, all in one process."""
    refused = {f"org/refused-{status}": status for status in (401, 403, 404, 429, 500)}
    with serve_hub(repositories) as server:
        server.failing.update(refused)
        done = fetch(server, tmp_path / "home", COMMIT, *refused)
    assert done.returncode == 4
    # Ignore the library's own lines about its retries.
    sentences = [line for line in done.stderr.splitlines() if line.startswith("bench: ")]
    assert len(sentences) == len(refused)
    assert all(name in line for name, line in zip(refused, sentences, strict=True))
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("status", in_part([403, 429, 500], [500]))
def test_33_fetched_checkpoint_is_used_if_the_hub_refuses_later(
    tmp_path: Path, repositories: Path, status: int
) -> None:
    with serve_hub(repositories) as server:
        first = fetch(server, tmp_path / "home")
        server.failing["org/name"] = status
        again = fetch(server, tmp_path / "home")
        other = fetch(server, tmp_path / "empty")
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert other.returncode == 4
    assert other.stderr.splitlines()[-1].startswith("bench: ")


def test_33_pinned_commit_is_fetched_after_the_branch_moved(
    tmp_path: Path, repositories: Path
) -> None:
    folder = repositories / "models" / "org" / "name"
    shutil.copytree(folder / COMMIT, folder / NEXT)
    config = json.loads((folder / NEXT / "config.json").read_text())
    (folder / NEXT / "config.json").write_text(json.dumps(config | {"moved": True}))
    with serve_hub(repositories) as server:
        done = fetch(server, tmp_path / "home", COMMIT)
        assert not any(NEXT in request for request in server.requests)
    assert "moved" not in (Path(done.stdout.strip()) / "config.json").read_text()
