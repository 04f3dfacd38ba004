"""Our classifiers give the logits of transformers' own classes when the weights are copied."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from benchharness.pooling import DEFAULT, POOLINGS, TextClassifier
from tests.benchharness.checkpoints import make_config

CLASSES = {
    "bert": transformers.BertForSequenceClassification,
    "roberta": transformers.RobertaForSequenceClassification,
    "distilbert": transformers.DistilBertForSequenceClassification,
}
BODIES = {"bert": "bert", "roberta": "roberta", "distilbert": "distilbert"}
LAYERS = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "classifier"),
}


def make_theirs(family: str, outputs: int = 3) -> Any:
    torch.manual_seed(3)
    config = make_config(family, num_labels=outputs)
    theirs = CLASSES[family](config)
    for name, weight in theirs.named_parameters():
        if name.endswith("bias"):  # zero at first, which would hide a lost bias
            nn.init.normal_(weight)
    return theirs.eval()


def copy_classifier(family: str, theirs: Any) -> tuple[Any, TextClassifier]:
    """An encoder of its own with their weights, and our classifier with theirs."""
    body = transformers.AutoModel.from_config(theirs.config)
    missing, _ = body.load_state_dict(getattr(theirs, BODIES[family]).state_dict(), strict=False)
    assert all(name.startswith("pooler.") for name in missing)
    ours = TextClassifier.on(body, theirs.config, theirs.config.num_labels)
    dense, output = (theirs.get_submodule(name) for name in LAYERS[family])
    ours.dense.load_state_dict(dense.state_dict())
    ours.output.load_state_dict(output.state_dict())
    return body.eval(), ours.eval()


def make_inputs(family: str) -> dict[str, Tensor]:
    """Two rows, the second one padded."""
    torch.manual_seed(5)
    inputs = {"input_ids": torch.randint(5, 900, (2, 16)), "attention_mask": torch.ones(2, 16)}
    inputs["attention_mask"][1, 9:] = 0
    inputs["attention_mask"] = inputs["attention_mask"].long()
    inputs["input_ids"][1, 9:] = 1 if family == "roberta" else 0
    if family == "bert":
        inputs["token_type_ids"] = (torch.arange(16) > 5).long().expand(2, 16)
    return inputs


def test_every_family_of_the_table_is_compared():
    assert set(POOLINGS) == set(CLASSES)


@pytest.mark.parametrize("family", CLASSES)
def test_logits_are_those_of_transformers(family: str):
    theirs = make_theirs(family)
    body, ours = copy_classifier(family, theirs)
    inputs = make_inputs(family)
    with torch.inference_mode():
        expected = theirs(**inputs).logits
        logits = ours(body(**inputs)[0])
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", CLASSES)
def test_padding_does_not_change_a_row(family: str):
    body, ours = copy_classifier(family, make_theirs(family))
    inputs = make_inputs(family)
    alone = {name: values[1:, :9] for name, values in inputs.items()}
    with torch.inference_mode():
        padded = ours(body(**inputs)[0])[1:]
        unpadded = ours(body(**alone)[0])
    torch.testing.assert_close(padded, unpadded, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", CLASSES)
def test_dropout_falls_where_transformers_lets_it_fall(family: str):
    """With the same random numbers, training mode gives the same logits too."""
    theirs = make_theirs(family).train()
    body, ours = copy_classifier(family, theirs)
    body.eval()
    getattr(theirs, BODIES[family]).eval()
    inputs = make_inputs(family)
    torch.manual_seed(11)
    expected = theirs(**inputs).logits
    hidden = body(**inputs)[0]
    torch.manual_seed(11)
    torch.testing.assert_close(ours.train()(hidden), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("family", "settings", "rate"),
    [
        ("bert", {"hidden_dropout_prob": 0.2}, 0.2),
        ("bert", {"hidden_dropout_prob": 0.2, "classifier_dropout": 0.3}, 0.3),
        ("roberta", {"classifier_dropout": 0.0}, 0.0),
        ("distilbert", {"seq_classif_dropout": 0.4}, 0.4),
    ],
)
def test_dropout_rate_is_the_configs(family: str, settings: dict[str, float], rate: float):
    config = make_config(family, **settings)
    classifier = TextClassifier.on(transformers.AutoModel.from_config(config), config, 2)
    assert classifier.dropout.p == rate


def test_berts_pretrained_pooler_moves_into_the_classifier():
    config = make_config("bert")
    body = transformers.AutoModel.from_config(config)
    dense = body.pooler.dense
    classifier = TextClassifier.on(body, config, 2)
    assert classifier.dense is dense
    assert body.pooler is None


def test_robertas_unused_pooler_goes_away():
    config = make_config("roberta")
    body = transformers.AutoModel.from_config(config)
    unused = body.pooler.dense
    classifier = TextClassifier.on(body, config, 2)
    assert classifier.dense is not unused
    assert body.pooler is None


def test_an_unknown_family_gets_the_default():
    config = make_config("electra", embedding_size=16)
    classifier = TextClassifier.on(transformers.AutoModel.from_config(config), config, 2)
    assert classifier.pooling is DEFAULT
    assert classifier(torch.randn(4, 6, 16)).shape == (4, 2)


def test_fresh_layers_start_as_in_transformers():
    config = make_config("distilbert", initializer_range=0.05)
    torch.manual_seed(0)
    classifier = TextClassifier.on(transformers.AutoModel.from_config(config), config, 50)
    assert classifier.output.weight.std().item() == pytest.approx(0.05, rel=0.1)
    assert not classifier.output.bias.any()
