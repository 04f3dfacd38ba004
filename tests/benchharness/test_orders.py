"""Tests of symmetric pairs, trained on in both orders or encoded in both with added states."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from benchharness.encoder import Encoder, load_encoder
from benchharness.errors import BenchError, DataError
from benchharness.heads import Limits, head_for
from benchharness.heads.pair import PAIR, PAIR_ADDED, in_orders
from benchharness.leaderboard.job import Job
from benchharness.models import MODELS
from benchharness.recipes import resolve_recipe
from benchharness.recipes.recipe import PairOptions
from benchharness.tasks.examples import Mark, PairExample
from benchharness.tasks.read import SplitRows, fingerprint, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.batching import Features, pad
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.plans import plan_job

MRPC, STSB, COLA, WIC = (
    find_task(name) for name in ("glue/mrpc", "glue/stsb", "glue/cola", "superglue/wic")
)
PAIRS = [
    PairExample(id="0", text_a="the bird sings", text_b="a bird", label="1"),
    PairExample(id="1", text_a="the " * 30, text_b="no bird sings", label="0"),
    PairExample(id="2", text_a="the the the", text_b="bird sings bird", label="0"),
]
LIMITS = Limits(max_tokens=40)
EXCHANGED = [replace(e, text_a=e.text_b or "", text_b=e.text_a) for e in PAIRS]


def rows_of(examples: list[PairExample]) -> SplitRows:
    return SplitRows(examples=tuple(examples), fingerprint=fingerprint(examples))


@pytest.fixture(scope="module", params=["bert", "openai-gpt"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = save_family(tmp_path_factory.mktemp(request.param), request.param)
    return load_encoder(str(folder), None, seed=1)


def encoded(rows: SplitRows) -> Features:
    tokenizer = load_encoder("builtin:tiny", None, seed=1).tokenizer
    return PAIR_ADDED.encode(rows.examples, tokenizer, LIMITS)


def inputs_of(features: Features, rows: list[int]) -> dict[str, Tensor]:
    padded = pad(features, np.array(rows))
    return {name: torch.from_numpy(values) for name, values in padded.items()}


def test_setting_orders_both_trains_on_each_pair_in_both_orders() -> None:
    both = in_orders(rows_of(PAIRS), "both")
    assert both.examples == (*PAIRS, *EXCHANGED)
    assert both.fingerprint == fingerprint(both.examples)
    assert in_orders(rows_of(PAIRS), "added") == in_orders(rows_of(PAIRS), "given")


def test_exchanging_the_texts_of_a_pair_exchanges_their_marked_spans() -> None:
    marks = (Mark(text="a", start=4, end=8), Mark(text="b", start=2, end=6))
    (_, other) = in_orders(rows_of([replace(PAIRS[0], marks=marks)]), "both").examples
    assert isinstance(other, PairExample)
    assert other.marks == (Mark(text="b", start=4, end=8), Mark(text="a", start=2, end=6))


@pytest.mark.parametrize("room", [128, 13, 12])
def test_setting_orders_added_encodes_both_orders_of_a_pair_with_equal_lengths(
    encoder: Encoder, room: int
) -> None:
    limits = Limits(max_tokens=room)
    features = PAIR_ADDED.encode(PAIRS, encoder.tokenizer, limits)
    parts = [PAIR.encode(pairs, encoder.tokenizer, limits) for pairs in (PAIRS, EXCHANGED)]
    for row in range(len(PAIRS)):
        alone = [part.token_ids[part.starts[row] : part.starts[row + 1]] for part in parts]
        assert len(alone[0]) == len(alone[1]) <= room
        found = features.token_ids[features.starts[row] : features.starts[row + 1]]
        assert found.tolist() == np.concatenate(alone).tolist()
    assert (features.token_types is None) == (parts[0].token_types is None)


def test_setting_orders_added_adds_the_states_of_both_orders(encoder: Encoder) -> None:
    """The reference computes each order alone, without padding."""
    limits = Limits(max_tokens=20)
    features = PAIR_ADDED.encode(PAIRS, encoder.tokenizer, limits)
    network = PAIR_ADDED.network(encoder, MRPC).eval()
    with torch.no_grad():
        logits = network(**inputs_of(features, [0, 1, 2]))
        for row in range(len(PAIRS)):
            states = 0
            for pairs in (PAIRS, EXCHANGED):
                alone = inputs_of(PAIR.encode(pairs, encoder.tokenizer, limits), [row])
                hidden = network.encoder(**alone)[0]
                states = states + network.classifier.read(hidden, alone["attention_mask"])
            expected = network.classifier.score(states)[0]
            torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


def test_setting_orders_added_gives_both_orders_of_a_pair_the_same_logits(encoder: Encoder) -> None:
    network = PAIR_ADDED.network(encoder, STSB).eval()
    with torch.no_grad():
        one, other = (
            network(**inputs_of(PAIR_ADDED.encode(pairs, encoder.tokenizer, LIMITS), [0, 1, 2]))
            for pairs in (PAIRS, EXCHANGED)
        )
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("made", [lambda rows: in_orders(rows, "both"), encoded])
def test_setting_orders_is_an_error_for_single_texts(made: object) -> None:
    alone = PairExample(id="cola 7", text_a="the bird", label="1")
    with pytest.raises(
        DataError, match=r"^example cola 7 has only one text, .* remove the setting orders\.$"
    ):
        made(rows_of([alone]))  # type: ignore[operator]


def test_setting_orders_added_is_an_error_for_texts_with_marked_spans() -> None:
    marked = replace(PAIRS[0], marks=(Mark(text="a", start=4, end=8),))
    with pytest.raises(DataError, match="has marked words"):
        encoded(rows_of([marked]))


# Values of `orders` in recipes.


def settings(model: str, task: str, head: str = "pair", **overrides: str) -> dict[str, object]:
    resolved = resolve_recipe(MODELS[model], task, None, overrides)
    return {name: setting.value for name, setting in resolved.settings.items()}


def test_electra_and_gpt_recipes_use_the_pair_orders_of_their_authors() -> None:
    electra, gpt = (
        {
            task: settings(name, f"glue/{task}").get("orders")
            for task in ("mrpc", "stsb", "qqp", "rte")
        }
        for name in ("electra-small-discriminator", "openai-gpt")
    )
    assert electra == {"mrpc": "both", "stsb": "both", "qqp": None, "rte": None}
    assert gpt == {"mrpc": "added", "stsb": "added", "qqp": "added", "rte": None}


def test_setting_orders_applies_only_to_pairs_and_by_default_not_to_frozen_features() -> None:
    assert "orders" not in settings("bert-base-uncased", "glue/mrpc", orders="given")
    assert "orders" not in settings("bert-base-uncased", "squad/v2.0", "span", orders="both")
    assert "orders" not in settings("openai-gpt", "glue/mrpc", features="last")
    assert settings("bert-base-uncased", "glue/mrpc", features="last", orders="both")["orders"]
    with pytest.raises(BenchError, match="expected one of: given, both, added"):
        settings("bert-base-uncased", "glue/mrpc", orders="two")


# Complete jobs.


def make_job(task: str, **overrides: str) -> Job:
    return plan_job(
        "tiny",
        task,
        overrides={"epochs": "2", "batch_size": "4", "evaluations": "1", **overrides},
        limit=12,
        precision="fp32",
    )


def test_epoch_with_both_orders_of_each_pair_has_twice_as_many_steps() -> None:
    given, both = (run_job(make_job("glue/mrpc", orders=orders)) for orders in ("given", "both"))
    steps = [result.curve[-1].step for result in (given, both)]
    rows = len(read(MRPC, "train", parse_data("mini"), 12).examples)
    assert steps == [2 * -(-rows // 4), 2 * -(-2 * rows // 4)]
    ids = [[p["id"] for p in result.evaluations[0].predictions] for result in (given, both)]
    assert ids[0] == ids[1]
    assert given.provenance["data"] == both.provenance["data"]


@pytest.mark.parametrize("task", ["glue/mrpc", "glue/stsb"])
def test_job_that_adds_the_states_of_both_orders_trains_deterministically(task: str) -> None:
    job = make_job(task, orders="added")
    result = run_job(job)
    assert run_job(job).evaluations[0].predictions == result.evaluations[0].predictions
    given = run_job(make_job(task)).evaluations[0].predictions
    found = result.evaluations[0].predictions
    assert [p["id"] for p in found] == [p["id"] for p in given]
    assert found != given


def test_setting_orders_added_selects_the_pair_head_that_adds_states() -> None:
    assert head_for(MRPC) is head_for(MRPC, PairOptions(orders="both")) is PAIR
    assert head_for(MRPC, PairOptions(orders="added")) is PAIR_ADDED
    assert head_for(find_task("race/all"), PairOptions(orders="added")) is head_for(
        find_task("race/all")
    )
