"""Checkpoints with their own network code train unchanged, without unsupported speed-ups."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.models import Trust, find_model
from benchharness.models.folder import check_loadable
from benchharness.tiny import folder as tiny_folder
from benchharness.training.optimizer import can_be_cut
from benchharness.worker import job as job_module
from benchharness.worker.job import run_job
from tests.helpers.plans import plan_jobs

CONFIGURATION = """
from transformers import PretrainedConfig

class OwnConfig(PretrainedConfig):
    model_type = "FAMILY"

    def __init__(self, vocab_size=100, hidden_size=16, **options):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        super().__init__(**options)
"""
MODELING = """
import torch
from torch import nn
from transformers import PreTrainedModel
from .configuration_own import OwnConfig

class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        size = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, size, padding_idx=0)
        self.mix = nn.TransformerEncoderLayer(size, 2, 32, batch_first=True, dropout=0.0)
        self.pooler = nn.Linear(size, size)
        self.post_init()

    def forward(self, input_ids, attention_mask):
        states = self.mix(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        self.pooler(states[:, 0])  # not to be taken away
        return states
"""
GETTER = """
    def get_input_embeddings(self):
        return self.words
"""
SETTER = """
    def set_input_embeddings(self, value):
        self.words = value
"""
ALIAS = """
    def set_input_embeddings(self, value):
        self.also_words = value
"""
COMPUTED = """
class Computed(OwnModel):
    def __init__(self, config):
        super().__init__(config)
        own = self.mix if NESTED else self
        LINES

OwnModel = Computed
"""


def computed(lines: str, *, nested: bool = False) -> str:
    """Return code whose `__init__` also runs these lines, with `own` as the network or layer."""
    body = lines.replace("\n", "\n" + " " * 8)
    return COMPUTED.replace("NESTED", str(nested)).replace("LINES", body)


def save_own(folder: Path, methods: str = "", family: str = "own", **config: object) -> Path:
    """Save a checkpoint whose network class also has `methods`."""
    folder.mkdir(parents=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    tokenizer.save_pretrained(folder)
    (folder / "configuration_own.py").write_text(CONFIGURATION.replace("FAMILY", family))
    (folder / "modeling_own.py").write_text(MODELING + methods)
    content = {
        "model_type": family,
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "type_vocab_size": 2,
        "auto_map": {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.OwnModel",
        },
    }
    (folder / "config.json").write_text(json.dumps(content))
    loaded = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    transformers.set_seed(7)
    network = transformers.AutoModel.from_config(loaded, trust_remote_code=True)
    names = {weight.data_ptr(): name for name, weight in reversed(network.state_dict().items())}
    weights = {n: w.contiguous() for n, w in network.state_dict().items() if n in names.values()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(content | config))
    return folder


CODE = Trust(remote_code=True)
VALUES = {"epochs": "1", "batch_size": "8", "evaluations": "1", "max_tokens": "32"}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give transformers a module cache of this test only, and forget modules of other tests."""
    place = str(tmp_path / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", place)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("/modules")])
    forget()
    yield
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def job_of(folder: Path, task: str = "glue/rte", **values: str) -> Job:
    planned = plan_jobs(
        [find_model(str(folder), CODE)], task, overrides=VALUES | values, limit=16, precision="fp32"
    )
    (job,) = (job for job in planned.jobs if job.task == task)
    return job


def run(folder: Path, task: str = "glue/rte", **values: str) -> Result:
    return run_job(job_of(folder, task, **values))


@pytest.mark.parametrize(
    "task",
    ["glue/rte", "glue/stsb", "squad/v2.0", "swag/regular", "conll2003/ner", "superglue/wic"],
)
def test_custom_network_with_only_a_forward_method_is_trained_with_each_head(
    tmp_path: Path, task: str
):
    assert run(save_own(tmp_path / "own"), task).cost.steps > 0


@pytest.mark.parametrize(
    ("methods", "is_cut"),
    [
        (GETTER, False),
        (GETTER + SETTER, True),
        (GETTER + ALIAS, False),
        (GETTER.replace("self.words", "self.mix"), False),
    ],
    ids=["no setter", "both", "alias", "another kind"],
)
def test_vocabulary_is_reduced_only_with_a_valid_embedding_getter_and_setter(
    tmp_path: Path, methods: str, is_cut: bool, monkeypatch: pytest.MonkeyPatch
):
    answers: list[bool] = []
    monkeypatch.setattr(
        job_module, "can_be_cut", lambda network: answers.append(can_be_cut(network)) or answers[-1]
    )
    run(save_own(tmp_path / "own", methods))
    assert answers == [is_cut]


def test_custom_network_with_the_model_type_bert_can_be_trained(tmp_path: Path):
    assert run(save_own(tmp_path / "own", GETTER + SETTER, "bert")).cost.steps > 0


def test_losses_with_a_reduced_vocabulary_equal_those_with_the_full_one(tmp_path: Path):
    folders = [save_own(tmp_path / "whole"), save_own(tmp_path / "cut", GETTER + SETTER)]
    whole, cut = ([point.loss for point in run(folder).curve] for folder in folders)
    assert cut == pytest.approx(whole, rel=1e-4)


def test_features_option_is_an_error_for_a_network_without_output_hidden_states(tmp_path: Path):
    folder = save_own(tmp_path / "own")
    with pytest.raises(ModelError, match="does not accept output_hi"):
        run(folder, features="last")


def test_custom_network_config_without_hidden_size_is_an_error(tmp_path: Path):
    folder = save_own(tmp_path / "own")
    for file in (*folder.glob("*_own.py"), folder / "config.json"):
        file.write_text(file.read_text().replace("hidden_size", "wide"))
    with pytest.raises(ModelError, match=r"config of .*own has no hidden_size"):
        run(folder)


# Tensors that __init__ computes and the checkpoint lacks: transformers leaves them uninitialized.

TABLE = torch.tensor([1.0, 2.0, 3.0, 4.0])
MADE = "torch.arange(1.0, 5.0)"


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("line", "found"),
    [
        (f'own.register_buffer("table", {MADE}, persistent=False)', "table"),
        (f"own.table = {MADE}", "table"),
        (f"own.table = {MADE}.to(torch.complex64)", "table"),
        (f"own.table = [{{'a': ({MADE},)}}]", "table[0]['a'][0]"),
    ],
    ids=["buffer", "attribute", "complex", "list of dicts"],
)
def test_tensors_computed_in_the_constructor_keep_their_values(
    tmp_path: Path, line: str, found: str, nested: bool
):
    folder = save_own(tmp_path / "own", computed(line, nested=nested))
    network = load_encoder(str(folder), None, 1, CODE).network
    table = eval(f"own.{found}", {"own": network.mix if nested else network})
    assert torch.equal(table.real, TABLE)
    saved = load_file(folder / "model.safetensors")
    assert all(torch.equal(weight, saved[name]) for name, weight in network.state_dict().items())


def test_weights_tied_in_the_constructor_are_tied_after_loading(tmp_path: Path):
    line = "own.again = nn.Embedding(*own.words.weight.shape)\nown.again.weight = own.words.weight"
    folder = save_own(tmp_path / "own", computed(line))
    assert "again.weight" not in load_file(folder / "model.safetensors")
    network = load_encoder(str(folder), None, 1, CODE).network
    assert network.again.weight is network.words.weight
    assert torch.equal(
        network.words.weight, load_file(folder / "model.safetensors")["words.weight"]
    )


def test_missing_pooler_is_initialised_by_the_seed(tmp_path: Path):
    folder = save_own(tmp_path / "own")
    weights = load_file(folder / "model.safetensors")
    left = {name: weight for name, weight in weights.items() if "pooler" not in name}
    save_file(left, folder / "model.safetensors", {"format": "pt"})
    first, same, other = (
        load_encoder(str(folder), None, seed, CODE).network.pooler.weight for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert first.std() > 0


def test_config_with_generation_settings_is_saved_with_the_model(tmp_path: Path):
    folder = save_own(tmp_path / "own")
    file = folder / "configuration_own.py"
    file.write_text(
        file.read_text().replace("        super", "        self.max_length = 64\n        super")
    )
    forget()
    job = job_of(folder)
    run_job(job, keep=tmp_path / "kept" / job.key)
    kept = json.loads((tmp_path / "kept" / job.key / "config.json").read_text())
    assert (kept["model_type"], kept["max_length"]) == ("own", 64)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('own.register_buffer("table", torch.empty(4), persistent=False)', "table no value"),
        ('own.table = [torch.ones(4, device="meta")]', r"table\.0 no value"),
        ('assert own.words.weight.is_meta or not config.strict, "here"', r"in memory \(here\)"),
    ],
    ids=["never written", "meta", "not in memory"],
)
@pytest.mark.parametrize("after_a_job", [False, True])
def test_tensor_left_uninitialised_by_loading_is_an_error(
    tmp_path: Path, line: str, sentence: str, after_a_job: bool, monkeypatch: pytest.MonkeyPatch
):
    # A job disables the filling of uninitialized memory for the rest of its process.
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", not after_a_job)
    line = "config.strict = getattr(config, 'strict', False)\n" + line
    folder = save_own(tmp_path / "own", computed(line), strict=True)
    with pytest.raises(ModelError, match=sentence) as raised:
        load_encoder(str(folder), None, 1, CODE)
    assert "\n" not in str(raised.value)
    assert torch.utils.deterministic.fill_uninitialized_memory is not after_a_job  # type: ignore[attr-defined]


# Errors before a worker starts.


def changed_config(folder: Path, **changes: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def no_code(folder: Path) -> Path:
    (folder / "modeling_own.py").unlink()
    return folder


REFUSED = [
    (lambda f: f, Trust(), "needs the Python code that comes with it"),
    (no_code, CODE, "lacks modeling_own.py, which its config.json names"),
    (
        lambda f: changed_config(
            f,
            auto_map={
                "AutoConfig": "configuration_own.OwnConfig",
                "AutoModelForMaskedLM": "modeling_own.OwnForMaskedLM",
            },
        ),
        CODE,
        "offers AutoConfig, AutoModelForMaskedLM, but not AutoModel",
    ),
    (
        lambda f: changed_config(f, auto_map={}),
        CODE,
        "belongs to the family 'own', which this version of transformers does not know",
    ),
    (
        lambda f: changed_config(f, model_type="bart", auto_map={}, is_encoder_decoder=True),
        Trust(),
        "contains bart, an encoder-decoder model",
    ),
]
NAMES = ["not trusted", "no file", "no encoder", "unknown family", "decoder"]


@pytest.mark.parametrize(("change", "trust", "sentence"), REFUSED, ids=NAMES)
def test_unloadable_checkpoint_is_an_error_before_any_job_is_stored(
    bench, tmp_path: Path, change: Any, trust: Trust, sentence: str
):
    folder = change(save_own(tmp_path / "own"))
    words = ("--trust-remote-code",) if trust.remote_code else ()
    asked = ("--model", folder, "--task", "glue/rte", "--data", "mini", "--limit", "8")
    ended = bench("run", *asked, *words, "--seeds", "1", "--no-baselines")
    assert (ended.code, ended.out) == (4, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "deberta-v2", "xlm-roberta", "openai-gpt", "t5", "modernbert"]
)
def test_checkpoint_of_a_transformers_family_needs_no_custom_code(tmp_path: Path, family: str):
    folder = changed_config(
        save_own(tmp_path / "own"), model_type=family, is_encoder_decoder=family == "t5"
    )
    check_loadable(folder)
    # Code next to a known family is used only if it offers an encoder.
    changed_config(folder, auto_map={"AutoModelForMaskedLM": "modeling_own.X"})
    check_loadable(folder, CODE)


def test_network_code_of_these_tests_defines_no_get_input_embeddings_method():
    assert "get_input_embeddings" not in MODELING
