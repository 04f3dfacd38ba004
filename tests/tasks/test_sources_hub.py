"""End-to-end tests of the hub: the `datasets` library against a local stand-in of the hub."""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.glue import GLUE_TASKS, HUB, REVISION
from benchharness.tasks.sources import Data, rows
from benchharness.tasks.sources.hub import hub_is_reachable
from tests.helpers.hub_files import write_dataset_config
from tests.helpers.hub_server import HubServer, ask, serve_hub, silent_hub

GLUE = {task.name: task for task in GLUE_TASKS}
COLA = GLUE["glue/cola"]
COLA_NAMES = ("unacceptable", "acceptable")
COLA_ROWS: list[dict[str, object]] = [
    {"sentence": 'He said "NA" 😀.', "label": 1, "idx": 0},
    {"sentence": "null", "label": 0, "idx": 1},
]


def write_cola(hub: Path, names: Sequence[str] = COLA_NAMES, revision: str = REVISION) -> None:
    hidden = [row | {"label": -1} for row in COLA_ROWS]
    folder, splits = hub / "datasets" / HUB / revision, {"train": COLA_ROWS, "test": hidden}
    write_dataset_config(folder, "cola", splits, names)


def free_endpoint() -> str:
    """Return a loopback address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_data_set_missing_from_the_hub_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    with serve_hub(tmp_path / "hub") as server:
        answer = ask(server.endpoint, tmp_path / "home", "glue/cola:train")
    assert answer.status == 4
    assert "Dataset 'nyu-mll/glue' doesn't exist on the Hub" in answer.error


def test_hub_data_are_read_at_the_pinned_revision(tmp_path: Path) -> None:
    write_cola(tmp_path / "hub")
    write_cola(tmp_path / "hub", names=("newer", "labels"), revision="f" * 40)
    with serve_hub(tmp_path / "hub") as server:
        answer = ask(server.endpoint, tmp_path / "home", "glue/cola:train")
        assert not any("f" * 40 in request for request in server.requests)
    assert answer.status == 0, answer.error


def test_task_without_a_hub_data_set_is_an_error() -> None:
    with pytest.raises(DataError, match="cola is not on the hub: use `--data DIR`"):
        rows(replace(COLA.source, hub=""), "train", Data(source="hub"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with serve_hub(tmp_path) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        yield server


def test_hub_is_reachable_if_it_answers(hub: HubServer) -> None:
    assert hub_is_reachable()
    assert hub.requests == ["HEAD /"]


def test_hub_is_reachable_if_it_answers_with_an_error_page(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", f"{hub.endpoint}/no/such/page")
    assert hub_is_reachable()


@pytest.mark.parametrize(
    "endpoint",
    [free_endpoint(), "nonsense", "http://host.invalid"],
    ids=["closed port", "no address", "no host"],
)
def test_hub_is_unreachable_without_a_server(
    monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert not hub_is_reachable(timeout=1.0)


def test_hub_is_unreachable_if_the_server_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_hub() as silent:
        monkeypatch.setenv("HF_ENDPOINT", silent.endpoint)
        assert not hub_is_reachable(timeout=0.3)
        assert silent.count_connections() == 1
