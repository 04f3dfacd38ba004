"""Tests of fault 34: a local folder is named like a data set or model of the hub."""

from pathlib import Path

import pytest

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.models import MODELS, find_model
from benchharness.tasks.glue import COLA, HUB
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.hub_files import write_embedded
from tests.helpers.hub_server import ask, serve_hub


def test_34_local_folder_named_like_a_data_set_is_not_used(tmp_path: Path) -> None:
    write_embedded(tmp_path / "hub", COLA.source)
    trap = tmp_path / "here" / HUB
    trap.mkdir(parents=True)
    (trap / "train.csv").write_text("sentence,label\nfrom the trap,1\n")
    (trap / "glue.py").write_text("raise SystemExit('the trap ran')\n")
    with serve_hub(tmp_path / "hub") as server:
        names = ("glue/cola:train",)
        answer = ask(server.endpoint, tmp_path / "home", *names, folder=tmp_path / "here")
    assert answer.status == 0, answer.error
    _, found = answer.rows["glue/cola:train"]
    assert len(found) > 100
    assert "from the trap" not in {row["sentence"] for row in found}


def test_34_local_folder_named_like_a_hub_model_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    save_checkpoint(tmp_path / "org" / "name")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchharness.models.weights.go_offline_if_unreachable", lambda: True)
    with pytest.raises(ModelError, match="'org/name' is not in the cache and the hub cannot"):
        load_encoder("org/name", None, seed=1)


def test_34_local_folder_named_like_a_known_model_needs_a_dot_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path / "roberta-base")
    save_checkpoint(tmp_path / "FacebookAI" / "roberta-base")
    monkeypatch.chdir(tmp_path)
    assert find_model("roberta-base") == MODELS["roberta-base"]
    assert find_model("FacebookAI/roberta-base") == MODELS["roberta-base"]
    assert find_model("./roberta-base").is_folder
