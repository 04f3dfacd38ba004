"""Tests of log-probabilities of minimal pairs and texts against babylm-eval's formula."""

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig

from benchharness.extensions.cloze.language_model import load_language_model
from benchharness.extensions.cloze.scoring import Asked, Scoring
from benchharness.models import find_model
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tiny import folder
from benchharness.worker.zero_shot import run_zero_shot
from tests.helpers import ROOT
from tests.helpers.plans import plan_job
from tests.helpers.training import CPU


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model with random weights and tiny's tokenizer."""
    place = tmp_path_factory.mktemp("model")
    tokenizer = AutoTokenizer.from_pretrained(folder())
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=70,
        initializer_range=0.2,
    )
    AutoModelForMaskedLM.from_config(config).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def theirs(model, tokenizer, sentence: str, completion: str) -> list[float]:
    """Return the log-probabilities of one sentence, as computed by babylm-eval.

    Its process_mlm_sentences and compute_mlm_results mask every token that ends after the first
    character of the completion, one at a time.
    """
    found = tokenizer(sentence, return_offsets_mapping=True)
    start, losses = len(sentence) - len(completion), []
    for place, (_, end) in enumerate(found["offset_mapping"]):
        if end > start:
            tokens = torch.tensor([found["input_ids"]])
            tokens[0, place] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = model(input_ids=tokens).logits[0, place].double()
            losses.append(float(logits.log_softmax(-1)[found["input_ids"][place]]))
    return losses


def sentences(task: str, row: dict) -> list[tuple[str, str]]:
    """Return the sentences and completions that babylm-eval's read_files.py makes of a row."""
    if task == "supplement":
        return [(row[name], row[name]) for name in ("sentence_good", "sentence_bad")]
    if task == "ewok":
        both = (row["Target1"], row["Target2"])
        return [(f"{row['Context1']} {target}", f" {target}") for target in both]
    prefixes = (row["prefix_acceptable"], row["prefix_unacceptable"])
    return [(f"{each} {row['property_phrase']}", row["property_phrase"]) for each in prefixes]


@pytest.mark.parametrize("task", ["supplement", "ewok", "comps"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
def test_minimal_pair_log_probabilities_equal_those_of_babylm_eval(
    saved: Path, task: str, dtype: torch.dtype
) -> None:
    """Tolerate fp32 rounding in the fifth digit of a sum of a hundred."""
    model = AutoModelForMaskedLM.from_pretrained(saved, dtype=dtype).eval()
    tokenizer = AutoTokenizer.from_pretrained(saved)
    found = find_task(f"pairs/{task}")
    file = min((ROOT / "tasks/mini/pairs" / task).iterdir())
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    examples = read(found, "dev", parse_data("mini")).examples[: len(rows)]
    expected = [
        sum(theirs(model, tokenizer, *each)) for row in rows for each in sentences(task, row)
    ]
    recipe = zero_shot_recipe(found.name, find_model("tiny"))
    values = {name: setting.value for name, setting in recipe.settings.items()}
    ours = load_language_model(str(saved), None, 1)
    ours.prepare(CPU.device)
    ours.network.to(dtype)
    asked, scoring = Asked(model=ours, task=found, values=values, compute=CPU), Scoring(ours)
    for texts in asked.encoded(examples, lambda _: None):
        for text in texts:
            scoring.add(text)
    near = {"abs": 1e-5, "rel": 1e-7} if dtype is torch.float32 else {"abs": 1e-9, "rel": 0}
    assert scoring.scores(CPU, lambda: None) == pytest.approx(expected, **near)


def test_pseudo_perplexity_is_exp_of_the_mean_loss_of_all_tokens(
    saved: Path, tmp_path: Path
) -> None:
    text = tmp_path / "corpus.txt"
    lines = ["The baker sold the car.", "", "Anna slept at noon in the old house."]
    text.write_text("\n".join(lines))
    model = AutoModelForMaskedLM.from_pretrained(saved).eval()
    tokenizer = AutoTokenizer.from_pretrained(saved)
    losses = [-loss for line in lines if line for loss in theirs(model, tokenizer, line, line)]
    mean = sum(losses) / len(losses)
    job = plan_job(
        [find_model(f"mine={saved}")], "text/pseudo-perplexity", str(text), precision="fp32"
    )
    scores = run_zero_shot(job).evaluations[0].scores
    assert scores["pseudo_perplexity"] == pytest.approx(math.exp(mean), rel=1e-5)
    assert scores["token_likelihood"] == pytest.approx(math.exp(-mean), rel=1e-5)
