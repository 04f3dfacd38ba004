"""Every causal language model of transformers is scored without training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from benchharness.extensions.cloze.language_model import LanguageModel, load_language_model
from benchharness.extensions.cloze.scoring import Candidate, Scoring, encode
from benchharness.models.families import is_causal
from tests.helpers.every_family import READ, save_tiny
from tests.helpers.soak import in_part
from tests.helpers.training import CPU

TEXTS = ("the storm came in the night", "who built the tower?")

CAUSAL = sorted(
    family
    for family in READ
    if is_causal({"model_type": family}) and family in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
)
IN_CI = {"gemma3_text", "llama", "modernbert-decoder", "olmo2", "qwen3", "smollm3"}


def save_language_model(folder: Path, family: str) -> str:
    save_tiny(folder, family)
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return str(folder)


def by_hand(model: LanguageModel, text: str) -> float:
    """Return the log probability of a text, from one forward pass without padding."""
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"]
    begin = model.tokenizer.bos_token_id
    row = torch.tensor([[*([] if begin is None else [begin]), *ids]])
    with torch.inference_mode():
        logits = model.network(input_ids=row, attention_mask=torch.ones_like(row)).logits
    steps = logits[0, :-1].double().log_softmax(-1).gather(1, row[0, 1:, None])
    return float(steps.sum())


@pytest.mark.parametrize("family", in_part(CAUSAL, IN_CI))
def test_score_of_a_text_is_its_log_probability_whatever_the_family(family: str, tmp_path: Path):
    model = load_language_model(save_language_model(tmp_path, family), None, 1)
    assert model.is_causal
    expected = [by_hand(model, text) for text in TEXTS]
    model.prepare(torch.device("cpu"))
    scoring = Scoring(model)
    for each in encode(
        model,
        [
            Candidate(first=text, second=None, is_in_second=False, start=0, end=len(text))
            for text in TEXTS
        ],
    ):
        scoring.add(each)
    np.testing.assert_allclose(scoring.scores(CPU, lambda: None), expected, rtol=1e-5)
