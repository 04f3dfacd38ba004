"""Tests of `--model 'DIR/step-*'`, which selects the checkpoints of one pretraining run."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.job import Stage
from benchharness.models import find_model, find_models
from tests.helpers.plans import request_of


def save(folder: Path, family: str = "bert", **files: Any) -> Path:
    """Write a folder that has the file names and the config of a checkpoint."""
    folder.mkdir(parents=True)
    header = json.dumps({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    config = {"model_type": family, **files.pop("config", {})}
    for name, content in {"config": config, **files}.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_matching_checkpoints_are_sorted_by_step_and_named_after_their_run(tmp_path: Path) -> None:
    for step in (1000, 200, 30):
        save(tmp_path / "small" / f"step-{step}")
    (tmp_path / "small" / "step-log.txt").write_text("no folder")
    found = find_models(f"{tmp_path}/small/step-*")
    assert [spec.name for spec in found] == ["small/step-30", "small/step-200", "small/step-1000"]
    assert [spec.stage for spec in found] == [
        Stage(run="small", step=step, family="bert") for step in (30, 200, 1000)
    ]
    assert found[0].checkpoint == str((tmp_path / "small" / "step-30").resolve())


def test_name_before_a_checkpoint_pattern_sets_the_run_name_and_the_recipe(tmp_path: Path) -> None:
    save(tmp_path / "step-1")
    (mine,) = find_models(f"mine={tmp_path}/step-*")
    (tiny,) = find_models(f"bert-tiny={tmp_path}/step-*")
    assert (mine.name, mine.stage and mine.stage.run, mine.recipe) == ("mine/step-1", "mine", "")
    assert (tiny.name, tiny.recipe) == ("bert-tiny/step-1", find_model("bert-tiny").recipe)
    assert tiny.checkpoint == str((tmp_path / "step-1").resolve())


@pytest.mark.parametrize(
    ("folder", "files", "step", "tokens"),
    [
        ("checkpoint-500", {}, 500, None),
        ("step_20k", {}, 20_000, None),
        ("stage1-step1000-tokens4B", {}, 1000, 4 * 10**9),
        ("bert-2l-iter-0040", {}, 40, None),
        ("a-7", {"trainer_state": {"global_step": 900, "num_input_tokens_seen": 5}}, 900, 5),
        ("a-7", {"trainer_state": {"global_step": 9, "num_input_tokens_seen": 0}}, 9, None),
        ("last", {"pretraining": {"step": 12, "tokens": 4000}}, 12, 4000),
        ("step-3", {"config": {"tokens_seen": 77}}, 3, 77),
        ("step-3", {"trainer_state": [1], "pretraining": {"step": "x"}}, 3, None),
    ],
)
def test_pretraining_steps_are_read_from_folder_names_or_trainer_state(
    tmp_path: Path, folder: str, files: Any, step: int, tokens: int | None
) -> None:
    save(tmp_path / folder, **files)
    (spec,) = find_models(f"run={tmp_path}/*")
    assert spec.stage == Stage(run="run", step=step, tokens=tokens, family="bert")


def test_an_existing_folder_with_wildcards_in_its_name_is_not_a_pattern(tmp_path: Path) -> None:
    folder = save(tmp_path / "lr=[1]*")
    assert [spec.checkpoint for spec in find_models(str(folder))] == [str(folder.resolve())]
    assert find_models(str(folder))[0].stage is None
    assert find_models(f"x={folder}")[0].name == "x"


def complaint(name: str) -> str:
    with pytest.raises(BenchError) as caught:
        find_models(name)
    assert isinstance(caught.value, ModelError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_checkpoint_pattern_and_its_name_may_contain_an_equals_sign(tmp_path: Path) -> None:
    folder = save(tmp_path / "runs [1]" / "lr=1e-4" / "step-30")
    assert find_model(f"a=b={folder}").name == "a=b"
    pattern = f"{tmp_path}/runs [[]1]/lr=1e-4/step-*"
    for name, run in ((pattern, "lr=1e-4"), (f"mine={pattern}", "mine"), (f"a=b={pattern}", "a=b")):
        assert [spec.name for spec in find_models(name)] == [f"{run}/step-30"]


def test_checkpoint_pattern_without_matches_is_an_error_that_names_the_folder(
    tmp_path: Path,
) -> None:
    save(tmp_path / "step-1")
    assert f"no folder matches '{tmp_path}/ste-*'" in complaint(f"{tmp_path}/ste-*")
    assert complaint(f"{tmp_path}/none/step-*").endswith("/none does not exist.")


def test_checkpoint_pattern_that_matches_different_families_is_an_error(tmp_path: Path) -> None:
    save(tmp_path / "step-1")
    save(tmp_path / "step-2", "roberta")
    assert "belong to different families" in complaint(f"run={tmp_path}/step-*")


def test_checkpoint_pattern_that_matches_one_step_twice_is_an_error(tmp_path: Path) -> None:
    save(tmp_path / "step-1")
    save(tmp_path / "step-01")
    assert "both have step 1" in complaint(f"{tmp_path}/step-*")


def test_a_checkpoint_without_a_step_is_an_error_that_names_it(tmp_path: Path) -> None:
    save(tmp_path / "final")
    assert complaint(f"{tmp_path}/*").startswith(f"{tmp_path}/final does not show at which")


def test_a_matching_folder_without_a_checkpoint_is_an_error_that_names_it(tmp_path: Path) -> None:
    save(tmp_path / "step-1")
    (tmp_path / "step-2").mkdir()
    assert f"{tmp_path}/step-2 is not a checkpoint" in complaint(f"{tmp_path}/step-*")


def test_option_model_with_a_pattern_selects_all_matching_checkpoints(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path / f"step-{step}")
    request = request_of(model=[f"run={tmp_path}/step-*", "tiny"], task="cola")
    assert [model.name for model in request.models] == ["run/step-1", "run/step-2", "tiny"]
