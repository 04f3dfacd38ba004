import json
import platform
import subprocess
from getpass import getuser
from pathlib import Path

import pytest

from benchharness import __version__
from benchharness import machine as provenance
from benchharness.leaderboard.job import Job, Setting
from benchharness.machine import collect, cpu_model, library_versions, text_digest
from benchharness.version import source_commit


def make_job() -> Job:
    values = {"batch_size": 32, "accumulation": 2, "epochs": 3.0}
    return Job(
        model="minilm",
        checkpoint="/home/someone/secret/minilm",
        weights="hub:org/minilm@" + "ab" * 20,
        task="glue/rte",
        task_version=1,
        data="/home/someone/data",
        fingerprints={"glue/rte:train": "f1", "glue/rte:dev": "f2"},
        recipe="paper",
        settings={name: Setting(value=v, source="a paper") for name, v in values.items()},
        seed=1,
        precision="fp32",
    )


def collected() -> dict[str, object]:
    return collect(
        make_job(),
        splits={
            "glue/rte:train": {"rows": 2490, "left_out": 3},
            "glue/rte:dev": {"rows": 277, "left_out": 0, "in_train": 2},
        },
        tokenizer="t1",
        machine={"device": "cpu", "threads": 2, "processes": 1},
        started="2026-08-01T12:00:00+00:00",
    )


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(
        ("git", "-C", str(folder), *identity, *arguments), check=True, capture_output=True
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return folder


def test_provenance_has_code_model_data_recipe_versions_and_machine() -> None:
    found = json.loads(json.dumps(collected(), allow_nan=False))
    assert found["code"]["version"] == __version__
    assert found["model"] == {
        "name": "minilm",
        "revision": "ab" * 20,
        "weights": "hub:org/minilm@" + "ab" * 20,
        "tokenizer": "t1",
    }
    assert found["data"] == {
        "glue/rte:train": {"rows": 2490, "left_out": 3, "fingerprint": "f1"},
        "glue/rte:dev": {"rows": 277, "left_out": 0, "in_train": 2, "fingerprint": "f2"},
    }
    assert found["recipe"] == {
        "name": "paper",
        "batch_size": 32,
        "accumulation": 2,
        "precision": "fp32",
    }
    assert found["versions"]["python"] == platform.python_version()
    assert found["machine"]["threads"] == 2
    assert found["started"].endswith("+00:00")


def test_provenance_has_no_personal_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    monkeypatch.setattr(platform, "node", lambda: "alices-laptop")
    text = json.dumps(collected())
    for private in ("hf_verysecret", "alices-laptop", "/home/", "secret", f'"{getuser()}"'):
        assert private not in text
    assert text_digest("alices-laptop")[:12] in text


def test_git_checkout_is_dirty_after_a_file_changes(checkout: Path) -> None:
    clean = source_commit(checkout)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (checkout / "__init__.py").write_text("changed")
    assert source_commit(checkout) == {"commit": clean["commit"], "dirty": True}


def test_package_installed_inside_another_git_checkout_has_no_commit(checkout: Path) -> None:
    installed = checkout / "site-packages"
    installed.mkdir()
    (installed / "__init__.py").write_text("")
    assert source_commit(installed) == {"commit": None, "dirty": None}


def test_provenance_has_no_commit_if_git_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert source_commit(tmp_path) == {"commit": None, "dirty": None}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit() == {"commit": None, "dirty": None}


def test_library_versions_are_read_from_metadata_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "LIBRARIES", ("numpy", "no-such-library"))
    versions = library_versions()
    assert versions["numpy"]
    assert versions["no-such-library"] is None


def test_processor_name_is_read_from_cpuinfo(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: again\n")
    assert cpu_model(cpuinfo) == "Some CPU @ 2 GHz"
    assert cpu_model(tmp_path / "none")
