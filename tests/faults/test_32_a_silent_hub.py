"""Tests of fault 32: no name server, a closed port, a silent hub; cached data are still read."""

from pathlib import Path

import pytest

from benchharness.tasks.glue import COLA, REVISION
from tests.helpers.hub_files import write_embedded
from tests.helpers.hub_server import ask, serve_hub, silent_hub

CLOSED = "http://127.0.0.1:9"
NO_NAME = "http://host.invalid"


@pytest.mark.parametrize("endpoint", [CLOSED, NO_NAME], ids=["refused", "no name"])
def test_32_unreachable_hub_is_an_error(tmp_path: Path, endpoint: str) -> None:
    answer = ask(endpoint, tmp_path / "home", "glue/cola:train")
    assert answer.status == 4
    assert "--data DIR" in answer.error
    assert "--data mini" in answer.error


def test_32_silent_hub_is_an_error_after_one_request(tmp_path: Path) -> None:
    with silent_hub() as silent:
        answer = ask(silent.endpoint, tmp_path / "home", "glue/cola:train")
        assert silent.count_connections() == 1, "the libraries would try again for minutes"
    assert answer.status == 4
    assert "the hub cannot be reached and nothing is cached" in answer.error


@pytest.mark.soak
def test_32_cached_data_are_read_while_the_hub_is_down(tmp_path: Path) -> None:
    write_embedded(tmp_path / "hub", COLA.source)
    names = ("glue/cola:train", "glue/cola:test")
    with serve_hub(tmp_path / "hub") as server:
        online = ask(server.endpoint, tmp_path / "home", *names)
    with silent_hub(server.server_port) as silent:
        offline = ask(server.endpoint, tmp_path / "home", *names)
        assert silent.count_connections() == 1, "the libraries would try again for half a minute"
    assert (offline.status, offline.error) == (0, "")
    assert offline.rows == online.rows != {}

    prepared = tmp_path / "home" / "datasets" / "nyu-mll___glue" / "cola" / "0.0.0"
    (prepared / REVISION).rename(prepared / ("e" * 40))
    another = ask(server.endpoint, tmp_path / "home", *names[:1])
    assert another.status == 4
    assert f"revision {REVISION} could not be downloaded" in another.error
    assert f"only {'e' * 40} is cached" in another.error
