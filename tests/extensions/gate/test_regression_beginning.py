"""First losses of a run: equal for equal seeds, unless the training code changed."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from benchharness.extensions.gate.gate import _notes
from benchharness.extensions.gate.judge import judge
from benchharness.extensions.gate.sample import (
    Baseline,
    Beginning,
    beginning_of,
    find_change,
    maker_of,
)
from benchharness.extensions.gate.verdict_text import (
    annotations,
    facts_of,
    to_junit,
    to_markdown,
)
from benchharness.leaderboard.result import CurvePoint
from tests.extensions.gate.samples import BEFORE, LARGE, MORE_IDS, sample
from tests.helpers.results import make_result

MAKER = "cpu, torch 2.13.0, transformers 5.23.0, tokenizers 0.23.3, numpy 2.4.6"
STEPS = (3, 6, 9)
LOSSES = (0.70, 0.69, 0.71)


def begun(losses=LOSSES, steps=STEPS):
    return Beginning(steps=steps, losses=tuple(losses))


def with_beginnings(found, losses, maker=MAKER, **changes):
    """Return the sample with these first losses for its first seed, the baseline's for others."""
    rest = (begun(),) * (len(found.seeds) - 1)
    return replace(found, beginnings=(begun(losses), *rest), maker=maker, **changes)


def kept(tasks):
    return Baseline(
        model="tiny", data="mini", limit=100, recipe="paper", environment={}, tasks=tasks
    )


def check(losses, maker=MAKER, weights="revision 1", **fields):
    """Judge RTE with equal scores and these first losses of its first seed."""
    before = {"glue/rte": with_beginnings(BEFORE["glue/rte"], LOSSES)}
    found = sample((0.80, 0.80), "1101" + LARGE, weights=weights)
    now = {"glue/rte": with_beginnings(found, losses, maker)}
    return judge("tiny on mini data", before, now, MORE_IDS, alpha=0.05, **fields)


def curve(*steps):
    return tuple(
        CurvePoint(step=step, epoch=0.1, loss=1 / step, learning_rate=1e-4, scores={})
        for step in steps
    )


def test_first_losses_within_rounding_error_count_as_unchanged():
    found = check([loss * (1 + 4e-4) for loss in LOSSES])
    assert found.tasks[0].change is None
    assert found.exit_code == 0


def test_changed_first_loss_fails_the_check_without_a_worse_score():
    found = check([0.70, 0.70, 0.90])
    change = found.tasks[0].change
    assert (change.seed, change.step, change.before, change.now) == (1, 6, 0.69, 0.70)
    assert found.exit_code == 3
    assert not found.worse
    assert "Training has changed since the baseline" in found.sentence


def test_check_passes_with_an_allowed_training_change():
    found = check([0.70, 0.70, 0.90], may_change=True)
    assert found.exit_code == 0
    assert found.tasks[0].change is not None
    assert found.failed == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"maker": MAKER.replace("2.13.0", "2.14.0")},
        {"maker": MAKER.replace("cpu", "NVIDIA H200")},
        {"maker": ""},
        {"weights": "revision 2"},
    ],
)
def test_first_losses_are_not_compared_across_libraries_devices_or_weights(fields):
    found = check([0.80, 0.80, 0.80], **fields)
    assert found.tasks[0].change is None
    assert found.exit_code == 0


def test_first_losses_are_compared_only_at_common_seeds_and_steps():
    assert find_change({1: begun()}, {2: begun([9, 9, 9])}) is None
    assert find_change({1: begun()}, {1: begun([9, 9, 9], (4, 8, 12))}) is None
    assert find_change({}, {1: begun()}) is None


@pytest.mark.parametrize(("seeds", "is_said"), [((1, 7), False), ((6, 7), True)])
def test_check_notes_if_only_scores_were_compared_for_lack_of_common_seeds(seeds, is_said):
    baseline = kept({"glue/rte": with_beginnings(BEFORE["glue/rte"], LOSSES)})
    now = with_beginnings(sample((0.80, 0.80), "1101" + LARGE), LOSSES, seeds=seeds)
    said = list(_notes([], {"glue/rte": now}, baseline))
    assert ["were compared" in note for note in said] == [True] * is_said


def test_baseline_records_the_first_ten_losses_or_the_first_curve_point():
    def steps(*points):
        return beginning_of(replace(make_result(), curve=curve(*points))).steps

    assert steps(*range(1, 26)) == tuple(range(1, 11))
    assert steps(6, 11, 17) == (6,)
    assert steps(25, 50) == (25,)
    assert steps(50, 100) == ()
    assert steps() == ()


def test_origin_of_first_losses_is_the_device_and_library_versions():
    versions = {"torch": "2.13.0", "transformers": "5.23.0", "tokenizers": "0.23.3"}
    result = make_result()
    provenance = {"versions": {**versions, "numpy": "2.4.6"}, "machine": {"device": "cpu"}}
    assert maker_of(replace(result, provenance=provenance)) == MAKER
    assert maker_of(replace(result, provenance={})) == ""


def test_baseline_file_round_trips_first_losses():
    baseline = kept({"glue/rte": with_beginnings(BEFORE["glue/rte"], LOSSES), **BEFORE})
    assert Baseline.from_text(baseline.to_text(), "file") == baseline


def test_changed_training_is_reported_in_every_output_format():
    found = check([0.70, 0.70, 0.90])
    said = "with seed 1, the loss at step 6 is 0.7000, but it was 0.6900"
    failure = ET.fromstring(to_junit(found)).find("testsuite/testcase/failure")
    assert said in failure.get("message")
    assert "training has changed" in to_markdown(found).replace("\\", "")
    assert facts_of(found)["tasks"]["glue/rte"]["change"]["step"] == 6
    error = next(line for line in annotations(found) if line.startswith("::error"))
    assert error.endswith("and libraries")
    allowed = check([0.70, 0.70, 0.90], may_change=True)
    assert ET.fromstring(to_junit(allowed)).get("failures") == "0"
    assert any(line.startswith("::warning") for line in annotations(allowed))
