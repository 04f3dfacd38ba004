"""Our heads give the logits of transformers' own classes when the weights are copied."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from benchharness.encoder import Encoder
from benchharness.heads import choice, span, tag
from tests.benchharness.checkpoints import make_config
from tests.benchharness.test_pooling_parity import make_inputs

FAMILIES = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
HEADS = {
    "QuestionAnswering": (span, {"output": "qa_outputs"}),
    "TokenClassification": (tag, {"output": "classifier"}),
    "MultipleChoice": (choice, {"classifier.output": "classifier"}),
}
DENSE = {"bert": "bert.pooler.dense", "roberta": "roberta.pooler.dense"}
TASK: Any = SimpleNamespace(tags=("O", "B-X", "I-X"))


def make_both(family: str, kind: str) -> tuple[Any, Any]:
    """Transformers' network of a kind, and ours with its weights."""
    torch.manual_seed(3)
    config = make_config(family, num_labels=2 if kind == "QuestionAnswering" else 3)
    theirs = getattr(transformers, f"{FAMILIES[family]}For{kind}")(config)
    for name, weight in theirs.named_parameters():
        if name.endswith("bias"):  # zero at first, which would hide a lost bias
            nn.init.normal_(weight)
    body = transformers.AutoModel.from_config(config)
    body.load_state_dict(getattr(theirs, family).state_dict(), strict=False)
    encoder = Encoder(network=body, tokenizer=None, config=config, family=family, max_tokens=40)
    head, layers = HEADS[kind]
    ours = head.network(encoder, TASK)
    if kind == "MultipleChoice":
        layers = layers | {"classifier.dense": DENSE.get(family, "pre_classifier")}
    for mine, name in layers.items():
        ours.get_submodule(mine).load_state_dict(theirs.get_submodule(name).state_dict())
    return theirs, ours


def run_both(theirs: Any, ours: Any, kind: str, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Both logits where they mean anything: at real tokens, or for each option."""
    is_real = inputs["attention_mask"].bool()
    if kind == "MultipleChoice":
        output = theirs(**{name: values[None] for name, values in inputs.items()})
        return output.logits[0], ours(**inputs)
    output = theirs(**inputs)
    if kind == "QuestionAnswering":
        logits = torch.stack([output.start_logits, output.end_logits], dim=-1)
        return logits[is_real], ours(**inputs)[is_real]
    return output.logits[is_real], ours(**inputs)[is_real]


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str, kind: str):
    theirs, ours = make_both(family, kind)
    with torch.inference_mode():
        expected, logits = run_both(theirs.eval(), ours.eval(), kind, make_inputs(family))
    assert logits.std() > 0.01
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_falls_where_transformers_lets_it_fall(family: str, kind: str):
    """With the same random numbers, training mode gives the same logits too."""
    if (family, kind) == ("roberta", "MultipleChoice"):
        pytest.skip("RoBERTa's classifier, and fairseq's for RACE, drop states before the pooling")
    theirs, ours = make_both(family, kind)
    theirs.train()
    ours.train()
    getattr(theirs, family).eval()
    ours.encoder.eval()
    torch.manual_seed(11)
    expected, _ = run_both(theirs, ours, kind, make_inputs(family))
    theirs.eval()  # draws nothing
    torch.manual_seed(11)
    _, logits = run_both(theirs, ours, kind, make_inputs(family))
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", HEADS)
def test_logits_are_fp32_where_the_encoder_is_not(kind: str):
    _, ours = make_both("bert", kind)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = ours(**make_inputs("bert"))
    assert logits.dtype == torch.float32
    assert (logits.bfloat16() != logits)[logits.isfinite()].any()


@pytest.mark.parametrize("kind", HEADS)
def test_other_families_have_every_head(kind: str):
    config = make_config("electra", embedding_size=16)
    body = transformers.AutoModel.from_config(config)
    encoder = Encoder(network=body, tokenizer=None, config=config, family="electra", max_tokens=40)
    logits = HEADS[kind][0].network(encoder, TASK)(**make_inputs("bert"))
    shapes = {"QuestionAnswering": (2, 16, 2), "TokenClassification": (2, 16, 3)}
    assert logits.shape == shapes.get(kind, (2,))
