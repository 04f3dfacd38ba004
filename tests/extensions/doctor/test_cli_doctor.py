import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchharness.extensions.doctor.command import _extras, _versions, doctor
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.sources import hub
from tests.helpers.hub_server import serve_hub
from tests.helpers.results import make_result

APP = typer.Typer()
APP.command()(doctor)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set an empty home, no GPU, and a hub that refuses connections."""
    for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "BENCH_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    hub.go_offline_if_unreachable.cache_clear()
    yield
    hub.go_offline_if_unreachable.cache_clear()


def examine(db: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the findings by name."""
    ended = CliRunner().invoke(APP, ["--db", str(db), "--json"], catch_exceptions=False)
    findings = {finding["name"]: finding for finding in json.loads(ended.stdout)}
    return ended.exit_code, findings


def test_doctor_only_warns_about_a_missing_network(tmp_path: Path) -> None:
    code, found = examine(tmp_path / "results" / "board.sqlite")
    assert code == 0
    assert found["hub"]["state"] == "warning"
    assert "127.0.0.1:9 gave no answer" in found["hub"]["found"]
    assert found["gpus"]["found"].startswith("none usable")
    assert "does not exist yet" in found["leaderboard"]["found"]
    assert str(tmp_path / "hf" / "hub") in found["checkpoint cache"]["found"]
    checked = {"python", "torch", "transformers", "optional", "processor", "bf16", "results"}
    assert checked <= set(found)
    assert not (tmp_path / "results").exists()


def test_doctor_reports_the_response_time_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_hub(tmp_path) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        _, found = examine(tmp_path / "board.sqlite")
    assert found["hub"]["state"] == "ok"
    assert "answered in 0." in found["hub"]["found"]


def test_doctor_reports_offline_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    _, found = examine(tmp_path / "board.sqlite")
    assert "HF_HUB_OFFLINE" in found["hub"]["found"]


def test_doctor_reports_the_number_of_stored_runs(tmp_path: Path) -> None:
    db = tmp_path / "board.sqlite"
    with open_store(db) as store:
        store.add_result(make_result())
    code, found = examine(db)
    assert code == 0
    made = "the newest by benchharness 0.1.0 of commit 00000000"
    assert found["leaderboard"]["found"] == f"{db}, runs: 1, {made}"


def test_doctor_reports_a_damaged_database_as_a_problem(tmp_path: Path) -> None:
    db = tmp_path / "board.sqlite"
    db.write_bytes(b"not a database" * 100)
    code, found = examine(db)
    assert code == 1
    assert found["leaderboard"]["state"] == "problem"


def test_doctor_reports_a_cache_path_that_is_a_file_as_a_problem(tmp_path: Path) -> None:
    (tmp_path / "hf").write_text("in the way")
    code, found = examine(tmp_path / "board.sqlite")
    assert code == 1
    assert found["data cache"]["state"] == "problem"
    assert "cannot be written to" in found["data cache"]["found"]


def test_doctor_warns_about_little_free_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchharness.extensions.doctor.command.FULL_BYTES", 2**80)
    code, found = examine(tmp_path / "board.sqlite")
    assert code == 0
    assert found["checkpoint cache"]["state"] == "warning"


def test_doctor_table_has_a_line_for_every_check(tmp_path: Path) -> None:
    db = str(tmp_path / "board.sqlite")
    text = CliRunner().invoke(APP, ["--db", db], catch_exceptions=False).stdout
    assert all(name in text for name in ("benchharness", "hub", "gpus", "leaderboard", "warning"))


def test_doctor_lists_complete_extras_separately_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = [
        "pandas>=2",
        "peft>=0.18; extra == 'lora'",
        "onnx>=1.21; extra == 'onnx'",
        "onnxscript>=0.7; extra == 'onnx'",
        "psycopg[binary]>=3.2; extra == 'postgresql'",
        "pytest; extra == 'dev'",
    ]

    def distributions(name: str) -> list[SimpleNamespace]:
        return [] if name in ("psycopg", "onnxscript") else [SimpleNamespace(requires=needed)]

    monkeypatch.setattr("benchharness.extensions.doctor.command.distributions", distributions)
    (found,) = _extras()
    advice = "(pip install 'benchharness[NAME]')"
    assert found == ("optional", "ok", f"lora; not installed: onnx, postgresql {advice}")
    needed[2:] = []
    (found,) = _extras()
    assert found.found == "lora"
    monkeypatch.undo()
    assert {"onnx", "ray", "xlsx"} <= set(re.findall(r"\w+", next(_extras()).found))


def test_doctor_requires_triton_only_with_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"torch": "2.11", "triton": None}
    command = "benchharness.extensions.doctor.command"
    monkeypatch.setattr(f"{command}.library_versions", lambda: known)
    for gpus, state in (([], "ok"), (["NVIDIA H100"], "warning")):
        monkeypatch.setattr(
            "benchharness.extensions.doctor.command.find_gpus", lambda found=gpus: found
        )
        found = {each.name: each.state for each in _versions()}
        assert (found["torch"], found["triton"]) == ("ok", state)
    known["torch"] = None
    assert {each.name: each.state for each in _versions()}["torch"] == "problem"
