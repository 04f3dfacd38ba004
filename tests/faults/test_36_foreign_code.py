"""Tests of fault 36: the code of checkpoints is not run, and there is no prompt to trust it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import open_store
from benchharness.models import Trust, find_model, weights_identity
from benchharness.models import weights as download
from benchharness.models.folder import checkpoint_files
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.extensions import of_extensions
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.results import make_result

CODE, PICKLE = Trust(remote_code=True), Trust(pickle=True)

CONFIGURATION = """
from transformers import BertConfig
class MineConfig(BertConfig):
    model_type = "mine"
"""
MODELING = """
from pathlib import Path
from transformers import BertModel
from .configuration_mine import MineConfig
class MineModel(BertModel):
    config_class = MineConfig
"""


@pytest.fixture
def with_code(tmp_path: Path, monkeypatch) -> Path:
    """Return a checkpoint of a model family that only its own code defines."""
    modules = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
    folder = save_checkpoint(tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "mine"
    config["auto_map"] = {
        "AutoConfig": "configuration_mine.MineConfig",
        "AutoModel": "modeling_mine.MineModel",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_mine.py").write_text(CONFIGURATION)
    (folder / "modeling_mine.py").write_text(MODELING)
    return folder


def plan(folder: Path, trust: Trust) -> Job:
    model, task = find_model(str(folder), trust), find_task("glue/wnli")
    values = {"epochs": "1", "batch_size": "8", "evaluations": "1", "max_tokens": "16"}
    return plan_job([model], [task], overrides=values, limit=8, precision="fp32")


# Model code.


def test_36_untrusted_model_code_is_an_error_that_names_the_option(with_code: Path):
    with pytest.raises(
        ModelError, match=r"needs the Python code .* --trust-remote-code\."
    ) as caught:
        load_encoder(str(with_code), None, seed=1)
    assert "\n" not in str(caught.value)


def test_36_untrusted_code_never_prompts_the_user(with_code: Path, monkeypatch):
    """By default, transformers prompts on a terminal and waits 15 seconds for the answer."""
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked"))
    (with_code / "configuration_mine.py").write_text("raise SystemExit('the code ran')\n")
    with pytest.raises(ModelError, match="--trust-remote-code"):
        load_encoder(str(with_code), None, seed=1)


def test_36_trusted_model_code_is_run(with_code: Path):
    encoder = load_encoder(str(with_code), None, 1, CODE)
    assert type(encoder.network).__name__ == "MineModel"
    assert encoder.family == "mine"


def test_36_job_with_trusted_code_runs_and_records_the_trust(with_code: Path):
    job = plan(with_code, CODE)
    assert job.trust == CODE
    result = run_job(job)
    assert result.provenance["model"]["trust_remote_code"] is True
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_36_trusted_model_code_is_part_of_the_weights_identity(with_code: Path):
    spec = find_model(str(with_code), CODE)
    before = weights_identity(spec)
    (with_code / "modeling_mine.py").write_text(MODELING + "x = 1\n")
    assert weights_identity(spec) != before
    untrusted = find_model(str(with_code))
    assert checkpoint_files(with_code, untrusted.trust)["code"] == []


# The job key, and objects to which trust does not apply.


def test_36_trust_remote_code_is_part_of_the_job_key():
    job = plan_job("tiny", "glue/wnli", limit=8)
    keys = {
        job.key,
        replace(job, trust=CODE).key,
        replace(job, trust=PICKLE).key,
        replace(job, trust=Trust(remote_code=True, pickle=True)).key,
    }
    assert len(keys) == 4


def test_36_trust_remote_code_does_not_apply_to_baselines_and_built_in_encoder(with_code: Path):
    assert find_model("tiny", CODE).trust == find_model("majority", PICKLE).trust == Trust()
    planned = plan_jobs([find_model(str(with_code), CODE)], "glue/wnli", limit=8, baselines=True)
    assert [job.trust.remote_code for job in planned.jobs] == [True, False, False]


def test_36_trust_remote_code_of_a_command_applies_to_hub_models():
    assert find_model("roberta", CODE).trust == find_model("org/name", CODE).trust == CODE


def test_36_model_code_files_are_fetched_only_if_trusted():
    names = ["config.json", "model.safetensors", "mine.py", "pytorch_model.bin", "vocab.txt"]
    plain = ["config.json", "model.safetensors", "vocab.txt"]
    assert sorted(download._wanted("org/name", names, Trust())) == plain
    assert sorted(download._wanted("org/name", names, CODE)) == sorted([*plain, "mine.py"])
    names.remove("model.safetensors")
    assert "pytorch_model.bin" in download._wanted("org/name", names, Trust())


# Runs from other users, who trusted their own code.


OF_RUNS = {
    "retrained": ("model", "RUN", "--retrain-anyway"),
    "a teacher": (
        *("run", "--model", "tiny", "--task", "glue/wnli", "--data", "mini"),
        *("--teacher", "RUN"),
    ),
    **of_extensions(
        {"explanation": {"tried": ("explain", "RUN", "--from", "OTHER", "--try", "1")}}
    ),
}


@pytest.mark.parametrize("words", OF_RUNS.values(), ids=OF_RUNS)
def test_36_trust_recorded_in_a_stored_run_does_not_allow_its_code_to_run(
    with_code: Path, bench, words
):
    job = plan(with_code, CODE)
    with open_store("v.sqlite") as store:
        for one in (job, replace(job, seed=2, precision="bf16")):
            store.add_result(make_result(one, provenance=PROVENANCE))
    marker = with_code / "ran"
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n{CONFIGURATION}"
    (with_code / "configuration_mine.py").write_text(code)
    names = {"RUN": job.key[:12], "OTHER": replace(job, seed=2, precision="bf16").key[:12]}
    ended = bench(*(names.get(word, word) for word in words), "--db", "v.sqlite")
    assert "--trust-remote-code" in ended.err, ended
    assert (ended.code, ended.err.count("Traceback")) == (4, 0)
    assert not marker.exists()


PROVENANCE = {
    "code": {"version": "0.1.0", "method": 7},
    "versions": {},
    "machine": {"device": "cpu", "threads": 1, "capability": "", "processes": 1},
    "data": {},
}
