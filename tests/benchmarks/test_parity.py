"""Parity certificate: training equals transformers, and planted training faults are found."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from benchharness.recipes.classes import BODY, KINDS, LACKING
from benchmarks.certificate import (
    CASES,
    DECODER_CASES,
    LIMIT,
    LORA,
    STILL,
    Certified,
    Difference,
    Start,
    certify,
    compare,
    still,
    train_ours,
    train_theirs,
)
from benchmarks.parity_page import (
    DROPOUT_LIMIT,
    WHY_LACKING,
    Findings,
    measure_pairs,
    page,
    shipped,
)
from benchmarks.planted import DROPOUT_SCALE, PLANTED, planted
from tests.helpers.families import DECODERS, make_config, save_family
from tests.helpers.soak import in_part

IN_PART = {
    ("bert", "pair"): "",
    ("bert", "choice"): "",
    ("bert", "span"): "p",
    ("bert", "tag"): "",
    ("albert", "pair"): "",
    ("big_bird", "span"): "p",
    ("convbert", "choice"): "dw",
    ("deberta-v2", "pair"): "",
    ("distilbert", "choice"): "",
    ("gpt2", "pair"): "",
    ("modernbert", "tag"): "",
    ("roberta", "choice"): "",
    ("t5", "tag"): "d",
    ("xlnet", "span"): "pd",
}
"""Cells tested here, with the letters of deliberate differences; `make parity` tests all."""

IN_CI = {("bert", "pair"), ("bert", "tag"), ("xlnet", "span")}
"""Cells tested in CI; the others are soak tests."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("family", "kind"), in_part(IN_PART, IN_CI))
def test_parity_run_matches_transformers_within_the_limit(tmp_path: Path, family: str, kind: str):
    found = certify(family, kind, tmp_path, bf16=(family, kind) == ("bert", "pair"))
    assert found.holds
    assert found.fp32.largest <= LIMIT
    letters = [letter for letter, (apart, _) in found.meant.items() if apart > LIMIT]
    assert "".join(letters) == IN_PART[family, kind]


OLD_NAME = "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
"""Warning of transformers about a name that PEFT uses."""


@pytest.mark.filterwarnings(OLD_NAME)
@pytest.mark.parametrize(
    ("family", "kind"), in_part(DECODER_CASES, {("modernbert-decoder", "pair"), ("qwen3", "tag")})
)
@pytest.mark.parametrize("settings", [{}, LORA], ids=["full", "lora"])
def test_decoders_match_transformers_and_peft_within_the_limit(
    tmp_path: Path, family: str, kind: str, settings: Mapping[str, str]
):
    found = certify(family, kind, tmp_path, bf16=False, settings=settings)
    assert found.fp32.largest <= LIMIT


@pytest.mark.filterwarnings(OLD_NAME)
def test_another_scale_of_adapters_exceeds_the_parity_limit(tmp_path: Path):
    folder = str(save_family(tmp_path / "qwen3", "qwen3", **still("qwen3")))
    one, other = (
        train_theirs(Start.of(folder, "pair", settings={**STILL, **LORA, "lora_alpha": alpha}))
        for alpha in ("8", "9")
    )
    assert compare(one, other).largest > 100 * LIMIT


def test_every_decoder_with_a_class_in_transformers_is_compared():
    found = {
        (family, kind)
        for kind, name in KINDS.items()
        for family in DECODERS
        if type(make_config(family)) in getattr(transformers, f"AutoModelFor{name}")._model_mapping
    }
    assert found == set(DECODER_CASES)


def test_model_families_without_a_parity_comparison_have_a_reason():
    assert {family for family, _ in LACKING} == set(WHY_LACKING)
    for family, kind in LACKING:
        assert ("ranking" if kind == BODY else kind) in WHY_LACKING[family]
        assert (family, kind) not in CASES


@pytest.fixture(scope="module")
def pairs() -> Mapping[str, Any]:
    """Measurements of the pair head on BERT."""
    return measure_pairs()


@pytest.mark.soak
def test_last_layer_computed_for_first_tokens_only_matches_the_full_layer(pairs: Mapping[str, Any]):
    first, whole, score = pairs["first_token"]
    assert max(first, whole) <= LIMIT
    assert score == 0


def test_dropout_matches_transformers(pairs: Mapping[str, Any]):
    assert pairs["dropout"] < DROPOUT_LIMIT
    assert pairs["masks"] < LIMIT


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_training_fault_exceeds_the_parity_limit(pairs: Mapping[str, Any], fault: str):
    least = DROPOUT_LIMIT if fault == DROPOUT_SCALE else 10 * LIMIT
    assert pairs["faults"][fault] > least


def test_parity_certificate_has_ten_planted_training_faults():
    assert len(PLANTED) == 10


def make_findings(**changes: Any) -> Findings:
    """Make findings of a pair that holds, and of a span in which padding competes."""
    same = Difference(losses=2e-6, weights=1e-6, answers=0.0)
    half = {"bf16": 2e-3, "turned": 1e-3, "rounded": (3e-3, 2e-3)}
    pair = Certified(family="bert", kind="pair", fp32=same, unseen=0.001, meant={}, **half)
    span = replace(pair, kind="span", meant={"p": (0.03, -2.5), "d": (1e-7, 0.0)})
    known = {
        "cases": [pair, span],
        "faults": {"clip": 0.1, DROPOUT_SCALE: 4.0},
        "first_token": (1e-6, 2e-6, 0.0),
        "dropout": 1.1,
        "masks": 1e-6,
        "adapters": [replace(pair, family="llama", kind="tag")],
    }
    return Findings(**known | changes)


FACTS = {"torch": "2", "transformers": "5"}


def test_parity_page_has_every_comparison_and_a_summary():
    findings = make_findings()
    assert findings.red == []
    text = page(Findings.of(asdict(findings)), FACTS)
    assert len(text.split("## ")[0].split()) < 600
    assert "| bert | 2e-6 | - | 2e-6<sup>p</sup> | - |" in text
    assert "| llama | - | - | - | 2e-6 |" in text.split("## Low-rank adapters")[1]
    said = " ".join(text.split())
    assert "differ from transformers' fp32 losses 1.5 times as much as transformers' bf16" in said
    assert "The bf16 losses of benchharness and transformers differ by 2e-3." in said
    assert "transformers' losses change by 1e-3" in said
    assert "In 0 cells benchharness differs less than that." in said
    assert "-2.5 to -2.5" in text
    assert "Yes: every comparison in fp32 passes, and so does every check" in text
    assert "All of it holds" not in text


def test_parity_difference_above_the_limit_is_accepted_if_fp64_shows_rounding_errors():
    pair = make_findings().cases[0]
    over = replace(pair, fp32=replace(pair.fp32, weights=2e-5))
    assert not over.holds
    assert not replace(over, exact=(3e-5, 1e-5)).holds
    assert not replace(over, exact=(float("nan"), float("nan"))).holds
    rounded = replace(over, exact=(1.5e-5, 1e-5))
    assert rounded.holds
    text = page(Findings.of(asdict(make_findings(cases=[rounded]))), FACTS)
    assert "transformers' in parentheses: bert pair 1.5e-05 (1.0e-05)." in text


def test_planted_training_fault_differs_from_fp64_far_more_than_rounding_errors(tmp_path: Path):
    checkpoint = save_family(tmp_path / "bert", "bert", **still("bert"))
    start = Start.of(str(checkpoint), "pair")
    expected, double = train_theirs(start), train_theirs(start, double=True)
    with planted("warm-up off by one"):
        ours = train_ours(start, tmp_path / "ours")
    assert compare(ours, double).largest > 1000 * compare(expected, double).largest


def test_parity_page_names_real_data_scores_that_are_not_equivalent():
    near, far = (0.70, 0.71, 0.72), (0.40, 0.71, 0.90)
    setup = {"rows": 100, "epochs": 2.0}
    runs = [
        {"task": task, "side": side, "seed": seed, "scores": dict.fromkeys(names, scores[seed])}
        | {"setup": setup}
        for task, names in (("STS-B", ("pearson", "spearman")), ("SST-2", ("accuracy",)))
        for side, scores in (("ours", far if task == "STS-B" else near), ("theirs", near))
        for seed in range(3)
    ]
    record = {"runs": runs, "machine": {"processor": "a processor"}}
    text = page(make_findings(), FACTS, record)
    said = "1 of 3 scores are equivalent; STS-B pearson is open, STS-B spearman is open."
    assert said in text
    assert "for STS-B pearson (lowest scores 40.0 and 70.0)" in text


def test_shipped_certificate_lists_parity_per_family_head_and_precision():
    pair, span = make_findings().cases
    cases = [replace(pair, rounded=(1.0, 0.1)), replace(span, bf16=None, rounded=None)]
    found = shipped(make_findings(cases=cases), FACTS)
    heads = {"pair": {"fp32": True, "bf16": False}, "span": {"fp32": True}}
    assert found["families"] == {"bert": heads}
    assert "layer_decay" not in found["settings"]
    assert "learning_rate" in found["settings"]


def test_parity_page_names_the_failed_checks():
    pair, span = make_findings().cases
    findings = make_findings(
        cases=[
            replace(pair, fp32=replace(pair.fp32, weights=2e-5)),
            replace(span, rounded=(1e-2, 1e-3)),
        ],
        adapters=[replace(pair, family="qwen3", kind="tag", fp32=replace(pair.fp32, losses=1.0))],
        faults={"clip": 1e-6, DROPOUT_SCALE: 1.5},
        dropout=3.0,
    )
    assert findings.red == [
        "bert pair",
        "bert span",
        "qwen3 tag (LoRA)",
        "planted and not seen: clip",
        "planted and not seen: dropout scale",
        "dropout",
    ]
    assert "**Failed: bert pair, bert span, qwen3 tag (LoRA)," in page(findings, FACTS)
