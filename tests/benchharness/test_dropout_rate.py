from typing import Any

import pytest
import torch
import transformers

from benchharness.encoder import Encoder, set_dropout
from benchharness.heads import head_for
from benchharness.tasks.suites import find_task
from tests.helpers import families

SIZES: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 50,
    "pad_token_id": 0,
}
MORE: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 8},
    "electra": {"embedding_size": 8},
    "modernbert": {"cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
    "xlnet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
    "t5": {"d_model": 16, "d_kv": 8, "num_layers": 2, "num_heads": 2, "d_ff": 32},
}
FAMILIES = dict.fromkeys(("bert", "roberta", "deberta", "deberta-v2", *MORE))


def make_encoder(family: str) -> Encoder:
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(family, **SIZES | MORE.get(family, {}))
    network = transformers.AutoModel.from_config(config)
    body = network.encoder if family == "t5" else network
    return Encoder(network=body, tokenizer=None, config=config, family=family, max_tokens=40)


def differ(encoder: Encoder) -> bool:
    """Return whether two passes in training mode give different states."""
    tokens = torch.arange(3, 19).reshape(1, 16)
    encoder.network.train()
    first, second = (encoder.network(input_ids=tokens)[0] for _ in range(2))
    return not torch.equal(first, second)


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_0_disables_all_dropout_of_the_encoder(family: str) -> None:
    encoder = make_encoder(family)
    set_dropout(encoder, 0.5, None)
    assert differ(encoder)
    set_dropout(encoder, 0.0, None)
    assert not differ(encoder)


def test_dropout_none_keeps_the_dropout_rates_of_the_checkpoint() -> None:
    encoder = make_encoder("bert")
    before = encoder.config.to_dict()
    set_dropout(encoder, None, None)
    assert encoder.config.to_dict() == before
    assert differ(encoder)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_dropout_rate_of_the_classifier_does_not_change_the_encoder(family: str) -> None:
    encoder = make_encoder(family)
    set_dropout(encoder, 0.0, 0.25)
    assert not differ(encoder)


TASKS = {
    "pair": "glue/rte",
    "choice": "swag/regular",
    "tag": "conll2003/ner",
    "span": "squad/v1.1",
}
SPAN_RATES = {"distilbert": 0.25, "modernbert": 0.25}
"""Dropout rates before the span logits, by family; other families have no dropout there."""


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("family", families.FAMILIES)
def test_every_head_uses_the_dropout_rate_of_the_classifier(family: str, kind: str) -> None:
    config, task = families.make_config(family), find_task(TASKS[kind])
    network = families.make_network(config)
    encoder = Encoder(network=network, tokenizer=None, config=config, family=family, max_tokens=40)
    set_dropout(encoder, None, 0.25)
    head = head_for(task).network(encoder, task)
    assert head.classifier.dropout.p == (SPAN_RATES.get(family, 0.0) if kind == "span" else 0.25)
