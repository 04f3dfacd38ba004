import json
import shutil
import socket
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from safetensors.torch import load_file
from typer.testing import CliRunner

from benchharness.errors import BenchError, DataError, ModelError
from benchharness.extensions.fetch import command as fetch_module
from benchharness.extensions.fetch.command import fetch
from benchharness.models import MODELS
from benchharness.tasks.sources import Data, hub, rows
from benchharness.tasks.suites import SUITES, TASKS
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.hub_files import write_embedded
from tests.helpers.hub_server import HubServer, serve_hub

APP = typer.Typer()
APP.command()(fetch)

MINILM = MODELS["minilm"]
RTE = TASKS["glue/rte"]


def call(*arguments: str) -> Any:
    ended = CliRunner().invoke(APP, [*arguments, "--json"], catch_exceptions=False)
    return json.loads(ended.stdout)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    # The command sets this variable; monkeypatch restores it after the test.
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    hub.go_offline_if_unreachable.cache_clear()
    yield tmp_path / "home"
    hub.go_offline_if_unreachable.cache_clear()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub with GLUE's RTE and a checkpoint, which also has pickled weights and code."""
    folder = tmp_path / "repos" / "models" / MINILM.checkpoint / MINILM.revision
    folder.mkdir(parents=True)
    save_checkpoint(folder)
    for name in ("pytorch_model.bin", "modeling.py", "tf_model.h5"):
        (folder / name).write_text("never fetched")
    write_embedded(tmp_path / "repos", RTE.source)
    with serve_hub(tmp_path / "repos") as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


def test_fetch_downloads_only_the_needed_checkpoint_files_at_its_revision(
    server: HubServer, home: Path
) -> None:
    found = call("--model", "minilm")
    (fetched,) = found["fetched"]
    assert fetched["revision"] == MINILM.revision
    files = {path.name for path in Path(fetched["folder"]).iterdir()}
    checkpoint = {"config.json", "model.safetensors"}
    assert files == checkpoint | {"tokenizer.json", "tokenizer_config.json"}
    assert home in Path(fetched["folder"]).parents
    assert found["offline_command"].startswith("HF_HUB_OFFLINE=1 bench run --model minilm")


@pytest.mark.soak
def test_fetched_data_sets_can_be_read_offline(
    server: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = SUITES["glue"]
    small = type(suite)(**{**vars(suite), "tasks": ("glue/rte",)})
    monkeypatch.setattr("benchharness.tasks.suites.SUITES", {"glue": small})
    (fetched,) = call("--suite", "glue")["fetched"]
    sizes = {name: len(rows(RTE.source, name, Data(source="mini"))) for name in RTE.source.splits}
    assert fetched == {"task": "glue/rte", "rows": sizes}
    shutil.rmtree(tmp_path / "repos")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    again = subprocess.run(
        [sys.executable, "-P", "-m", "benchharness.extensions.fetch.command", "task", "glue/rte"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(again.stdout) == fetched


@pytest.fixture
def repository(tmp_path: Path, server: HubServer) -> Path:
    """A checkpoint with pickled weights that is not registered."""
    folder = save_checkpoint(tmp_path / "repos" / "models" / "org" / "name" / ("ab" * 20))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


@pytest.mark.soak
def test_a_fetched_checkpoint_that_cannot_be_loaded_is_an_error(repository: Path) -> None:
    """Damage only the tokenizer, which is detected when it is loaded."""
    (repository / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ModelError, match="the tokenizer in org/name is not usable"):
        call("--model", "org/name")


def test_pickled_weights_are_converted_when_they_are_fetched(repository: Path, home: Path) -> None:
    (fetched,) = call("--model", "org/name")["fetched"]
    assert fetched["revision"] == repository.name
    (made,) = home.rglob("model.safetensors")
    stored = torch.load(repository / "pytorch_model.bin", weights_only=True)
    assert load_file(made).keys() == stored.keys()


@pytest.mark.soak
def test_a_pickle_with_other_objects_is_fetched_only_with_allow_pickle(repository: Path) -> None:
    file = repository / "pytorch_model.bin"
    torch.save({**torch.load(file, weights_only=True), "args": Namespace(epochs=3)}, file)
    words = r"pytorch_model\.bin of org/name contains more than weights \(argparse\.Namespace\)"
    with pytest.raises(ModelError, match=words):
        call("--model", "org/name")
    assert call("--model", "org/name", "--allow-pickle")["fetched"]


def test_model_that_is_not_on_the_hub_is_reported_in_one_line(server: HubServer) -> None:
    with pytest.raises(ModelError, match="org/nothing") as caught:
        call("--model", "org/nothing")
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_is_an_error_before_a_child_process_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a child was started"))
    with pytest.raises(DataError, match="nothing can be fetched"):
        call("--model", "minilm")


def test_fetch_downloads_nothing_for_the_builtin_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert call("--model", "tiny")["fetched"] == []


def test_fetch_includes_the_task_on_which_a_recipe_trains_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(fetch_module, "go_offline_if_unreachable", lambda: False)
    monkeypatch.setattr(
        fetch_module, "_watch", lambda words, _: fetched.append(" ".join(words[:2]))
    )
    call("--model", "roberta-base", "--task", "superglue/rte")
    assert fetched == ["model FacebookAI/roberta-base", "task superglue/rte", "task glue/mnli"]


def test_fetch_without_models_and_tasks_is_an_error() -> None:
    with pytest.raises(BenchError, match="nothing to fetch"):
        call()


def serve_silence(listener: socket.socket, held: list[socket.socket]) -> None:
    """Answer the probe, and accept every other request without a response."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        if connection.recv(4096).startswith(b"HEAD / "):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            connection.close()
        else:
            held.append(connection)


@pytest.mark.soak
def test_a_hub_that_stops_responding_is_an_error_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_module, "POLL_SECONDS", 0.1)
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_silence, args=(listener, held))
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ModelError, match=r"download of the model .* stalled for 5 s"):
            call("--model", "minilm", "--timeout", "5")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert held
    for connection in held:
        connection.close()
