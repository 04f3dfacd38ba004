"""Small random checkpoints with the files that their repositories have on the hub.

Each has exactly the files that benchmarks/hub.toml names, so that a missing tokenizer.json or
missing safetensors are missing here too.
"""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from benchharness.models import ModelSpec
from benchharness.tiny import folder as tiny_folder
from tests.helpers.families import BERT_SIZES, DECODERS, FAMILIES, ROBERTA_SIZES
from tests.helpers.family_tokenizers import make_family_tokenizer
from tests.helpers.hub_catalogue import MODELS

COMMIT = "c" * 40
"""Commit of models that the table does not pin."""

_LIKE = {"mt5": "t5", "new": "bert", "neobert": "bert", "nomic_bert": "bert", "bart": "roberta"}
"""Family whose tokenizer another family uses."""

_SIZES: Mapping[str, Mapping[str, Any]] = {
    **DECODERS,
    "bart": {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "max_position_embeddings": 72,
        "init_std": 0.3,
    },
    "mt5": FAMILIES["t5"],
    "new": BERT_SIZES,
    "neobert": BERT_SIZES,
    "nomic_bert": BERT_SIZES,
    "xlm-roberta": ROBERTA_SIZES,
}

_OLD = ("albert", "bert", "electra", "longformer", "xlnet")
"""Families uploaded before torch 1.6, whose weight files are not zips."""

VOCABULARY = 2600

CODE = """
from transformers import BertConfig, BertModel

class OwnConfig(BertConfig):
    model_type = "FAMILY"

class OwnModel(BertModel):
    config_class = OwnConfig
"""


def write_model(root: Path, spec: ModelSpec) -> Path:
    """Write the repository of a known model under the hub's `root`, at the requested commit."""
    commit = COMMIT if spec.revision == "main" else spec.revision
    folder, shape = root / "models" / spec.checkpoint / commit, MODELS[spec.checkpoint]
    folder.mkdir(parents=True)
    made = _checkpoint(spec.family, tuple(shape["weights"]), tuple(shape["tokenizer"]))
    shutil.copytree(made, folder, dirs_exist_ok=True)
    if not shape.get("config", True):
        (folder / "config.json").unlink()
    if not shape.get("says_family", True):
        config = json.loads((folder / "config.json").read_text())
        del config["model_type"]
        (folder / "config.json").write_text(json.dumps(config))
    if code := shape.get("code"):
        _write_code(folder, spec.family, code)
    if other := shape.get("code_from"):
        away = root / "models" / other / COMMIT
        away.mkdir(parents=True, exist_ok=True)
        _write_code(folder, spec.family, ("configuration.py", "modeling.py"), away, f"{other}--")
    (folder / "README.md").write_text("a card\n")
    return folder


def _write_code(
    folder: Path, family: str, names: Any, place: Path | None = None, before: str = ""
) -> None:
    for name in names:
        ((place or folder) / name).write_text(CODE.replace("FAMILY", family))
    modules = [name.removesuffix(".py") for name in names]
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {
        "AutoConfig": f"{before}{modules[0]}.OwnConfig",
        "AutoModel": f"{before}{modules[-1]}.OwnModel",
    }
    (folder / "config.json").write_text(json.dumps(config))


_HOME = TemporaryDirectory()


@cache
def _checkpoint(family: str, weights: tuple[str, ...], tokenizer: tuple[str, ...]) -> Path:
    folder = Path(_HOME.name) / str(len(list(Path(_HOME.name).iterdir())))
    folder.mkdir()
    _write_network(folder, family, weights)
    _write_tokenizer(folder, family, tokenizer)
    return folder


def _write_network(folder: Path, family: str, weights: tuple[str, ...]) -> None:
    """Write the encoder with the head of its language model, as pretraining leaves it."""
    torch.manual_seed(7)
    is_own = family in ("new", "neobert")
    kind = "bert" if is_own else family
    tokens = make_family_tokenizer(_LIKE.get(family, family))
    ids = {
        f"{name}_token_id": getattr(tokens, f"{name}_token_id") for name in ("pad", "bos", "eos")
    }
    known = {name: number for name, number in ids.items() if number is not None}
    sizes = {**(_SIZES.get(family) or FAMILIES[family]), **known, "vocab_size": VOCABULARY}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    network = _class_of(kind).from_config(config)
    network.save_pretrained(folder)
    if is_own:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"model_type": family}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    file = folder / "model.safetensors"
    found = load_file(file)
    if family == "bert":  # names of weights as in the checkpoints of 2018
        ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        found = {_renamed(name, ends): tensor for name, tensor in found.items()}
    file.unlink()
    if weights == ("pytorch_model.bin",):
        is_new = family not in _OLD
        torch.save(found, folder / weights[0], _use_new_zipfile_serialization=is_new)
    elif weights:
        save_file(found, folder / weights[0], metadata={"format": "pt"})


def _class_of(family: str) -> Any:
    for table, kind in (
        (MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForSeq2SeqLM),
        (MODEL_FOR_MASKED_LM_MAPPING_NAMES, transformers.AutoModelForMaskedLM),
        (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
    ):
        if family in table:
            return kind
    return transformers.AutoModel


def _renamed(name: str, ends: Mapping[str, str]) -> str:
    end = next((end for end in ends if name.endswith(end)), "")
    return name.removesuffix(end) + ends.get(end, "")


def _write_tokenizer(folder: Path, family: str, names: tuple[str, ...]) -> None:
    """Write a family's tokenizer in only these files."""
    with TemporaryDirectory() as whole:
        make_family_tokenizer(_LIKE.get(family, family)).save_pretrained(whole)
        content = json.loads((Path(whole) / "tokenizer.json").read_text())
        model = content["model"]
        for name in names:
            match name:
                case "tokenizer.json":
                    shutil.copy(Path(whole) / name, folder)
                case "tokenizer_config.json":
                    _write_settings(folder / name, Path(whole) / name, names)
                case "special_tokens_map.json" | "added_tokens.json":
                    (folder / name).write_text("{}")
                case "vocab.txt":
                    words = sorted(model["vocab"], key=model["vocab"].get)
                    (folder / name).write_text("\n".join(words) + "\n")
                case "vocab.json":
                    (folder / name).write_text(json.dumps(model["vocab"]))
                case "merges.txt":
                    pairs = (" ".join(pair) for pair in model["merges"])
                    (folder / name).write_text("#version: 0.2\n" + "\n".join(pairs) + "\n")
                case _:
                    _train_pieces(folder / name, family)


def _write_settings(file: Path, saved: Path, names: tuple[str, ...]) -> None:
    """Write all fields of transformers 5, or those of 2020 if it reads another file."""
    settings = json.loads(saved.read_text())
    if "tokenizer.json" not in names:
        settings = {"do_lower_case": settings.get("do_lower_case", False)}
    file.write_text(json.dumps(settings))


def _train_pieces(file: Path, family: str) -> None:
    """Train a real SentencePiece model, with T5's or the default special pieces."""
    words = (tiny_folder() / "vocab.txt").read_text("utf-8").split()[5:]
    lines = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
    special = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1} if "t5" in family else {}
    with TemporaryDirectory() as place:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(Path(place) / "made"),
            vocab_size=600,
            minloglevel=2,
            hard_vocab_limit=False,
            **special,
        )
        shutil.copy(Path(place) / "made.model", file)
