"""A retrieval model in sentence-transformers' layout: its files and their vectors."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from benchharness.errors import JobError
from benchharness.extensions.kept_models.card import card_of, card_text
from benchharness.extensions.kept_models.check import Dev, check
from benchharness.extensions.kept_models.load import TrainedModel, load_trained
from benchharness.extensions.kept_models.save_pretrained import Taken, take
from benchharness.leaderboard.result import predictions_of
from benchharness.recipes.classes import published_class
from benchharness.splits import read_split
from benchharness.training.predict import predict
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job

POOLINGS = {"mean": "mean_tokens", "first": "cls_token", "last": "lasttoken"}


class Vectors(NamedTuple):
    taken: Taken
    model: TrainedModel
    texts: list[str]
    ours: Any  # (texts, size)
    dev: list[Dev]


@pytest.fixture(scope="module", params=POOLINGS)
def found(request: Any, tmp_path_factory: Any) -> Vectors:
    """A run per pooling, which truncates some texts."""
    folder = tmp_path_factory.mktemp(request.param)
    job = make_job("beir/scifact", limit=12, pooling=request.param, max_tokens="12")
    result = run_job(job, keep=folder / "kept")
    model = load_trained(folder / "kept", precision="fp32")
    dev = [Dev(e.name, read_split(job, e.name), predictions_of(e)) for e in result.evaluations]
    examples: Any = dev[0].rows.examples
    features = model.head.encode(examples, model.tokenizer, model.limits)
    assert features.lengths.max() == 12  # some texts are truncated to this length
    ours = predict(model.network, features, model.compute, lambda _: None)
    texts = [*(e.text for e in examples), *examples[0].corpus.texts]
    return Vectors(take(model, result, folder / request.param, dev), model, texts, ours, dev)


def read_json(found: Vectors, name: str) -> Any:
    return json.loads((found.taken.folder / name).read_text())


def test_exported_retriever_has_the_files_of_sentence_transformers(found: Vectors) -> None:
    """The expected keys and values are from version 5.1 (models/Pooling.py, Transformer.py)."""
    assert read_json(found, "modules.json") == [
        {
            "idx": number,
            "name": str(number),
            "path": path,
            "type": f"sentence_transformers.models.{name}",
        }
        for number, (name, path) in enumerate(
            [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        )
    ]
    assert read_json(found, "sentence_bert_config.json") == {
        "max_seq_length": 12,
        "do_lower_case": False,
    }
    pooling = read_json(found, "1_Pooling/config.json")
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    modes += ("weightedmean_tokens", "lasttoken")
    mine = POOLINGS[found.taken.folder.name]
    assert pooling == {
        "word_embedding_dimension": 128,
        **{f"pooling_mode_{mode}": mode == mine for mode in modes},
        "include_prompt": True,
    }
    told = read_json(found, "config_sentence_transformers.json")
    assert (told["similarity_fn_name"], told["default_prompt_name"]) == ("cosine", None)
    assert (found.taken.folder / "2_Normalize").is_dir()


def test_exported_retriever_has_equal_vectors_in_transformers_alone(found: Vectors) -> None:
    folder = found.taken.folder
    network, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(found.texts, truncation=True, padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = network.eval()(**inputs).last_hidden_state  # (texts, tokens, size)
    mask, mode = inputs["attention_mask"], POOLINGS[folder.name]
    vectors = {
        "cls_token": lambda: states[:, 0],
        "lasttoken": lambda: states[torch.arange(len(mask)), mask.sum(1) - 1],
        "mean_tokens": lambda: (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True),
    }[mode]()
    vectors = torch.nn.functional.normalize(vectors, dim=-1)
    assert np.abs(vectors.numpy() - found.ours).max() < 1e-6
    checked = found.taken.checked
    assert checked.apart < 1e-6
    assert checked.sentence.startswith("checked with transformers: vectors of ")
    assert " pairs differ by " in checked.sentence


def test_exported_retriever_has_equal_vectors_in_sentence_transformers(found: Vectors) -> None:
    theirs = pytest.importorskip("sentence_transformers")
    model = theirs.SentenceTransformer(str(found.taken.folder), device="cpu")
    assert np.abs(model.encode(found.texts, batch_size=5) - found.ours).max() < 1e-6


def damage(found: Vectors, what: str, folder: Path) -> Path:
    """Copy the folder with one fault."""
    folder.mkdir()
    for path in found.taken.folder.rglob("*"):
        if path.is_file():
            copy = folder / path.relative_to(found.taken.folder)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(path.read_bytes())
    if what == "pooling":
        file = folder / "1_Pooling" / "config.json"
        said = json.loads(file.read_text())
        flags = {name: name == "pooling_mode_lasttoken" for name in said if "mode" in name}
        other = {name: name == "pooling_mode_mean_tokens" for name in flags}
        file.write_text(json.dumps(said | (other if said["pooling_mode_lasttoken"] else flags)))
    if what == "weights":
        weights = load_file(folder / "model.safetensors")
        name = "embeddings.word_embeddings.weight"
        weights[name] = weights[name].flip(0).contiguous()
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
    if what == "length":
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 9}))
    return folder


@pytest.mark.parametrize("what", ["pooling", "weights", "length"])
def test_export_check_refuses_files_with_other_vectors(
    found: Vectors, what: str, tmp_path: Path
) -> None:
    folder = damage(found, what, tmp_path / "damaged")
    with pytest.raises(JobError, match="was not exported"):
        check(found.model, folder, "AutoModel", found.dev)


def test_model_card_of_an_exported_retriever_mentions_sentence_transformers(found: Vectors) -> None:
    again = load_trained(found.taken.folder, precision="fp32")
    features = again.head.encode(found.dev[0].rows.examples, again.tokenizer, again.limits)
    vectors = predict(again.network, features, again.compute, lambda _: None)
    assert np.abs(vectors - found.ours).max() < 1e-6
    card = card_text(card_of(found.taken.folder, "mini"))
    assert "library_name: sentence-transformers" in card
    assert "bench predict" not in card
    assert found.taken.published.loader == "SentenceTransformer"


def test_ranking_head_has_no_transformers_class_for_t5(found: Vectors) -> None:
    recipe = found.model.recipe
    assert published_class(found.model.task, recipe, "t5").lacking == "t5 with a ranking head"
    assert published_class(found.model.task, recipe, "roberta").auto_class == "AutoModel"
