"""Script that compares the Hugging Face hub with the tables of models and tasks."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.models import MODELS
from benchharness.tasks.suites import TASKS
from benchmarks.hub import CATALOGUE, _compare_files, _parts
from tests.helpers.hub_files import write_embedded, write_parquet
from tests.helpers.hub_models import COMMIT, write_model
from tests.helpers.hub_server import serve_hub

ROOT = Path(__file__).parents[2]
RTE = TASKS["glue/rte"].source
CONLL = TASKS["conll2012/coref"].source


def ask(root: Path, home: Path, *words: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    with serve_hub(root, {CONLL.revision: COMMIT}) as server:
        env = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run(
            (sys.executable, "-m", "benchmarks.hub", *words),
            cwd=ROOT,
            env=kept | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    return done.returncode, done.stdout + done.stderr


def only_rte(root: Path, labels: tuple[str, ...] = RTE.label_names) -> None:
    write_embedded(root, RTE)
    if labels != RTE.label_names:
        card = root / "datasets" / RTE.hub / RTE.revision / "README.md"
        card.write_text(card.read_text().replace(RTE.label_names[0], labels[0]))


def test_hub_check_accepts_a_hub_model_that_matches_its_registration(tmp_path: Path) -> None:
    for name in ("deberta-v3-base", "deberta-v3-small"):
        write_model(tmp_path / "hub", MODELS[name])
    report = tmp_path / "report.md"
    words = ("--only", "deberta-v3-small", "--report", str(report))
    code, said = ask(tmp_path / "hub", tmp_path / "home", *words)
    assert (code, said) == (0, "microsoft/deberta-v3-small: as in the tables\n")
    assert not report.exists()


def to_safetensors(folder: Path) -> None:
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")


def of_another_family(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "deberta"}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (to_safetensors, "its weights: model.safetensors; in hub.toml: pytorch_model.bin (seen)"),
        (lambda f: (f / "spm.model").rename(f / "spiece.model"), "in hub.toml: spm.model"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "its tokenizer: spm.model, tokenizer."),
        (of_another_family, "its family is deberta in its config and deberta-v2 in the table"),
        (lambda f: (f / "config.json").unlink(), "it has no config.json"),
        (lambda f: f.rename(f.with_name("d" * 40)), "revision a36c739020e01763fe789b4b85e2df55d"),
        (lambda f: shutil.rmtree(f.parent), "RepositoryNotFoundError"),
    ],
    ids=["safetensors", "a vocabulary", "a tokenizer", "a family", "no config", "moved", "gone"],
)
def test_hub_check_reports_a_hub_model_that_differs_from_its_registration(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    change(write_model(tmp_path / "hub", MODELS["deberta-v3-small"]))
    report = tmp_path / "report.md"
    words_given = ("--only", "deberta-v3-small", "--report", str(report))
    code, said = ask(tmp_path / "hub", tmp_path / "home", *words_given)
    assert code == 1, said
    assert words in said
    assert words in report.read_text()
    assert "`microsoft/deberta-v3-small`" in report.read_text()


@pytest.mark.soak
def test_hub_check_reports_only_data_sets_that_differ_from_their_tasks(tmp_path: Path) -> None:
    only_rte(tmp_path / "hub")
    code, said = ask(tmp_path / "hub", tmp_path / "home", "--only", "nyu-mll/glue (rte")
    assert code == 0, said
    assert said.count("as in the tables") == len(RTE.splits)
    shutil.rmtree(tmp_path / "hub")
    only_rte(tmp_path / "hub", ("certain", "not_entailment"))
    code, said = ask(tmp_path / "hub", tmp_path / "home2", "--only", "nyu-mll/glue (rte, train")
    assert code == 1
    assert "the labels of label are certain, not_certain; in the task: entailment, not_ent" in said


@pytest.mark.soak
def test_hub_check_compares_converted_data_sets_by_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "datasets" / CONLL.hub / COMMIT
    rows = [{"document_id": "a", "sentences": "none"}]
    for split in ("train", "validation", "test"):
        write_parquet(folder / "english_v4" / split / "0000.parquet", rows)
    code, said = ask(tmp_path / "hub", tmp_path / "home", "--only", "conll2012")
    assert code == 0, said
    for split in ("train", "validation", "test"):
        write_parquet(folder / "english_v4" / split / "0000.parquet", [{"document_id": "a"}])
    code, said = ask(tmp_path / "hub", tmp_path / "home2", "--only", "conll2012")
    assert code == 1
    assert "it lacks the columns sentences; it has document_id" in said


def test_hub_check_exits_with_4_if_the_hub_is_unreachable(tmp_path: Path) -> None:
    env = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    command = (sys.executable, "-m", "benchmarks.hub")
    done = subprocess.run(command, cwd=ROOT, env=os.environ | env, capture_output=True, check=False)
    assert done.returncode == 4


def test_hub_check_covers_every_data_set() -> None:
    hubs = {task.source.hub for task in TASKS.values() if task.source.hub}
    asked = {part.hub.removesuffix("-qrels") for part in _parts()}
    assert asked == hubs == CATALOGUE["data"].keys()
    xnli = {part.config for part in _parts() if part.hub == "facebook/xnli"}
    assert {"en", "sw", "zh"} <= xnli


def test_hub_check_compares_code_files_only_of_models_with_remote_code() -> None:
    shape = CATALOGUE["models"]["chandar-lab/NeoBERT"]
    names = ["config.json", *shape["weights"], *shape["tokenizer"], "other.py"]
    (found,) = _compare_files(shape, names, own_code=True)
    assert found == "its code: other.py; in hub.toml: model.py (assumed)"
    assert not list(_compare_files(shape, names, own_code=False))
