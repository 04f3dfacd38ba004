"""Tests of common mistakes with checkpoint folders: each gets an error with a solution."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.utils import logging

from benchharness.encoder import load_encoder
from benchharness.errors import ModelError
from benchharness.models import find_model
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.families import save_family
from tests.helpers.plans import plan_jobs


@pytest.fixture(autouse=True)
def no_bars() -> None:
    logging.disable_progress_bar()


def adapter(folder: Path) -> None:
    """Write an adapter as peft does, trained with a head of three classes."""
    said = {"base_model_name_or_path": "some/base", "task_type": "SEQ_CLS", "peft_type": "LORA"}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    head = {"base_model.model.classifier.weight": torch.ones(3, 4)}
    save_file(head, folder / "adapter_model.safetensors")


def trained(folder: Path) -> None:
    for step in (9, 10, 2):
        save_checkpoint(folder / f"checkpoint-{step}")
    (folder / "runs").mkdir()


def trained_adapter(folder: Path) -> None:
    (folder / "checkpoint-10").mkdir()
    adapter(folder / "checkpoint-10")


def old_sentences(folder: Path) -> None:
    save_checkpoint(folder / "0_Transformer")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "modules.json").write_text("[]")


def bare(folder: Path) -> None:
    (folder / "model.pt").write_bytes(b"")


FOLDERS: list[tuple[Callable[[Path], None], list[str]]] = [
    (adapter, ["LoRA adapter for some/base", "AutoPeftModelForSequenceClassification", "=3"]),
    (trained, ["the checkpoints {}/checkpoint-2, {}/checkpoint-9, {}/checkpoint-10;"]),
    (trained_adapter, ["it contains the checkpoints {}/checkpoint-10;"]),
    (old_sentences, ["it contains the checkpoints {}/0_Transformer;"]),
    (bare, ["model.pt contains only weights", "save_pretrained"]),
    (lambda _: None, ["it has no config.json"]),
]


@pytest.mark.parametrize(("make", "words"), FOLDERS, ids=[make.__name__ for make, _ in FOLDERS])
def test_a_folder_without_a_checkpoint_is_an_error_with_a_solution(
    bench, tmp_path: Path, make: Callable[[Path], None], words: list[str]
):
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    ended = bench("run", "--model", f"mine={folder}", "--task", "glue/rte", "--data", "mini")
    assert (ended.code, ended.out) == (4, "")
    assert all(each.replace("{}", str(folder)) in ended.err for each in words), ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_weights_file_instead_of_folder_is_an_error_that_suggests_save_pretrained(tmp_path: Path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(
        ModelError,
        match=r"is a file, but a checkpoint is a folder: pytorch_model.bin contains only weights",
    ):
        find_model(str(tmp_path / "pytorch_model.bin"))


@pytest.mark.parametrize("listed", [False, True])
def test_tokenizer_incompatible_with_its_model_is_an_error_before_workers_start(
    bench, tmp_path: Path, listed: bool
):
    folder = save_checkpoint(tmp_path / "small", vocab_size=100)
    if listed:  # unigram tokenizers store their vocabulary as a list of tokens with probabilities
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text())
        content["model"]["vocab"] = [[word, -1.0] for word in content["model"]["vocab"]]
        file.write_text(json.dumps(content))
    asked = ("--task", "glue/rte", "--data", "mini", "--limit", "8", "--seeds", "1")
    ended = bench("run", "--model", folder, *asked, "--no-baselines")
    assert (ended.code, ended.out) == (4, "")
    assert "its network has only 100 embeddings" in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "results").exists(), "no failed row is left"


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean_tokens"),
        ({"pooling_mode": "lasttoken"}, "lasttoken"),
        ({}, None),
    ],
)
def test_plan_notes_that_the_pooling_config_of_a_checkpoint_is_unused(
    tmp_path: Path, config: object, pooling: str | None
):
    folder = save_checkpoint(tmp_path / "sentences")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    planned = plan_jobs(str(folder), "glue/rte")
    assert [pooling in note for note in planned.notes] == ([True] if pooling else [])


def test_stored_run_has_the_unused_pooling_mode_of_its_checkpoint(bench, tmp_path: Path):
    folder = tmp_path / "sentences"
    encoder = load_encoder("builtin:tiny", None, 1)
    encoder.network.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "lasttoken"}')
    few = ("--limit", "8", "--set", "epochs=1", "--seeds", "1", "--no-baselines")
    words = ("--model", f"m={folder}", "--task", "glue/rte", "--data", "mini", *few)
    assert bench("run", *words, "--db", "b.sqlite").code == 0
    key = json.loads(bench("show", "runs", "--db", "b.sqlite", "--json").out)[0]["key"]
    assert "stated_pooling: lasttoken" in bench("show", key, "--db", "b.sqlite").out


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore")  # warnings of the library peft
def test_error_about_an_adapter_folder_has_a_working_merge_command(tmp_path: Path):
    """Run the command of the error message, if peft is installed."""
    peft = pytest.importorskip("peft")
    base = save_checkpoint(tmp_path / "base")
    network = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    tuned = peft.get_peft_model(network, peft.LoraConfig(task_type="SEQ_CLS", r=2))
    for name, weight in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    tuned.save_pretrained(tmp_path / "lora")
    with pytest.raises(ModelError) as raised:
        find_model(str(tmp_path / "lora"))
    said = str(raised.value)
    command = shlex.split(said[said.index("python -c") : said.index(", and use ")])
    subprocess.run([sys.executable, *command[1:]], check=True)
    spec = find_model(str(tmp_path / "lora-merged"))
    merged = transformers.AutoModel.from_pretrained(spec.checkpoint).eval()
    ids = torch.arange(5, 15)[None]
    with torch.no_grad():
        found = merged(ids).last_hidden_state
        there = tuned.eval().base_model.model.bert(ids).last_hidden_state
    torch.testing.assert_close(found, there, rtol=1e-4, atol=1e-5)


def renamed(folder: Path, change: Callable[[str], str], *, pickled: bool) -> Path:
    """Rename the weights of the folder, as safetensors or pickled."""
    file = folder / "model.safetensors"
    weights = {change(name): tensor for name, tensor in load_file(file).items()}
    if pickled:
        file.unlink()
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, file, metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "pickled"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name: f"module.{name}", "'module.', which DataParallel"),
        (lambda name: f"module.bert.{name}", "'module.', which DataParallel"),
        (lambda name: f"_orig_mod.{name}", "'_orig_mod.', which torch.compile"),
        (lambda name: name.replace("encoder.", "encoder._orig_mod."), "'_orig_mod.'"),
        (lambda name: f"_fsdp_wrapped_module.{name}", "which FSDP has added"),
        (lambda name: f"_forward_module.{name}", "which Lightning Fabric has added"),
    ],
    ids=["module", "module and base", "compiled", "compiled inside", "FSDP", "Fabric"],
)
def test_weights_saved_from_a_wrapped_network_are_an_error_with_the_cause(
    tmp_path: Path, change: Callable[[str], str], words: str, pickled: bool
):
    folder = renamed(save_checkpoint(tmp_path / "wrapped"), change, pickled=pickled)
    with pytest.raises(ModelError, match=words) as caught:
        find_model(str(folder))
    assert "save_pretrained" in str(caught.value)
    with pytest.raises(ModelError, match=words):
        load_encoder(str(folder), None, 1)


def test_encoder_weights_with_a_prefix_are_an_error_that_names_the_prefix(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "larger")
    renamed(folder, lambda name: f"text_tower.{name}", pickled=False)
    with pytest.raises(ModelError, match=r"names in its file begin with 'text_tower\.'"):
        load_encoder(str(folder), None, 1)


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "deberta-v2", "modernbert"])
def test_weights_with_more_layers_than_in_the_config_are_an_error(tmp_path: Path, family: str):
    folder = save_family(tmp_path / "deep", family)
    config = json.loads((folder / "config.json").read_text())
    name = "n_layers" if family == "distilbert" else "num_hidden_layers"
    fewer = {name: 1}
    if "layer_types" in config:
        fewer |= {"layer_types": config["layer_types"][:1]}
    (folder / "config.json").write_text(json.dumps(config | fewer))
    with pytest.raises(ModelError, match=r"weights of more layers .*\.1\..*--set layers=N"):
        load_encoder(str(folder), None, 1)
    (folder / "config.json").write_text(json.dumps(config))
    load_encoder(str(folder), None, 1)


def test_weights_with_fewer_layers_than_in_the_config_are_an_error(tmp_path: Path):
    folder = save_checkpoint(tmp_path / "shallow")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"lacks 16 weights of its encoder \(encoder\.layer\.2\."):
        load_encoder(str(folder), None, 1)
