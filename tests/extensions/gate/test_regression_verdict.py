from dataclasses import replace

import pytest

from benchharness.extensions.gate.judge import (
    FAILED_JOB,
    NOT_COMPARED,
    Unjudged,
    find_flips,
    judge,
)
from benchharness.extensions.gate.sample import differences
from tests.extensions.gate.samples import (
    BEFORE,
    IDS,
    LARGE,
    MORE_IDS,
    SPLIT,
    conditions,
    sample,
    verdict,
)

GONE = Unjudged(task="glue/wnli", reason="it is not in the baseline", exit_code=NOT_COMPARED)
DIED = Unjudged(task="glue/rte", reason="seed 1 failed: killed", exit_code=FAILED_JOB)


def test_only_the_task_with_a_score_drop_is_reported_as_worse():
    found = verdict()
    assert [task.task for task in found.worse] == ["glue/rte"]
    rte, cola = found.tasks
    assert rte.drop == pytest.approx(0.194)
    assert rte.drop > rte.detectable > rte.tolerated > 0
    assert cola.p_value > 0.3
    assert "worse than the baseline: RTE (of 2 tasks)" in found.sentence


def test_exit_code_of_a_verdict_reflects_its_most_severe_outcome():
    assert verdict(unjudged=[GONE, DIED]).exit_code == 3
    fine = {"rte": (0.80, 0.80)}
    assert verdict(**fine, unjudged=[GONE, DIED]).exit_code == 1
    assert verdict(**fine, unjudged=[GONE]).exit_code == 4
    assert verdict(**fine).exit_code == 0
    assert judge("nothing", {}, {}, {}, alpha=0.05).exit_code == 4


def test_tolerated_drop_rises_with_the_number_of_tasks():
    """In Holm's first step each of T tasks is tested at alpha / T."""
    alone = {"glue/rte": sample((0.78,), "1101" + LARGE)}
    both = {**alone, "glue/cola": sample((0.5,), "1111" + LARGE, "glue/cola:dev")}
    one, two = (judge("", BEFORE, now, MORE_IDS, alpha=0.05) for now in (alone, both))
    assert two.tasks[0].tolerated > one.tasks[0].tolerated
    assert two.tasks[0].p_value == pytest.approx(2 * one.tasks[0].p_value)


def test_runs_identical_to_the_baseline_are_not_worse():
    found = judge("", BEFORE, BEFORE, MORE_IDS, alpha=0.05)
    assert not found.worse
    assert not any(task.flips for task in found.tasks)
    assert "None of 2 tasks is significantly worse" in found.sentence


def test_examples_whose_majority_outcome_changed_are_sorted_by_size_of_the_change():
    before = sample((0.8, 0.8, 0.8), ["1101", "1100", "1010"])
    now = sample((0.5, 0.5), ["0011", "0111"])
    lost, gained_e = find_flips(before, now, IDS)[0], find_flips(before, now, IDS)[-1]
    assert (lost.example, lost.before, lost.now) == ("a", 1.0, 0.0)
    assert lost.is_lost
    assert str(lost) == "glue/rte:dev a: correct in 100% of the runs before, in 0% now"
    assert not gained_e.is_lost
    assert {flip.example for flip in find_flips(before, now, IDS)} == {"a", IDS[SPLIT][2], "e"}


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"fingerprints": {"glue/rte:train": "11", SPLIT: "33"}}, f"the rows of {SPLIT} have"),
        (
            {"settings": {"epochs": 4, "batch_size": 8}},
            "the recipe has changed (epochs is 4, no longer 3)",
        ),
        ({"settings": {"epochs": 3}}, "(batch_size is unset, no longer 8)"),
        ({"precision": "bf16"}, "the precision is bf16, no longer fp32"),
        ({"task_version": 2}, "the scoring of the task has changed"),
        ({"method": 3}, "the training code has version 3, no longer 2"),
        ({"plugins": {"theirs": "ff"}}, "the plugin theirs has changed"),
    ],
)
def test_comparison_is_refused_under_a_changed_condition(change, clause):
    (found,) = differences(conditions(), conditions(**change))
    assert clause in found


def test_comparison_is_allowed_with_changed_weights():
    assert list(differences(conditions(), conditions(weights="revision 2"))) == []


def test_verdict_notes_a_baseline_whose_runs_all_collapsed():
    blind = {task: replace(each, collapsed=each.seeds) for task, each in BEFORE.items()}
    found = judge("", blind, BEFORE, MORE_IDS, alpha=0.05)
    assert any("RTE: every run of the baseline collapsed" in note for note in found.notes)
    assert not any(
        "baseline collapsed" in n for n in judge("", BEFORE, BEFORE, MORE_IDS, alpha=0.05).notes
    )
