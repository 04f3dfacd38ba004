"""Tests that `bench reproduce` names each difference that was planted in a stored run."""

import json
from dataclasses import replace

import pytest

from benchharness.extensions.reproduce.causes import Pair
from benchharness.extensions.reproduce.judge import judge
from benchharness.extensions.reproduce.replay import CannotRunError, Sources
from benchharness.leaderboard.result import Result
from benchharness.models import find_model
from benchharness.splits import read_split
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.mini_jobs import make_job
from tests.helpers.plans import plan_job, write_rte

TASK, DEV = "glue/rte", "glue/rte:dev"
VALUES = {"learning_rate": "1e-3", "max_tokens": "64"}


@pytest.fixture(scope="module")
def job():
    return make_job(TASK, **VALUES)


@pytest.fixture(scope="module")
def found(job) -> Result:
    """Return a run of the job, which is used as its repetition or edited."""
    return run_job(job)


@pytest.fixture(scope="module")
def rows(job):
    names = (f"{task}:{split}" for task, split in job.predicted_splits)
    return {name: read_split(job, name) for name in names}


def judged(stored, found, rows, siblings=()):
    pair = Pair(stored=stored, found=found, rows=rows, siblings=siblings)
    return judge(pair, [], round_id="r", run="x")


def claimed(job, **values):
    """Return the result of a job with other values, which claims to be the result of `job`."""
    seed = values.pop("seed", job.seed)
    other = replace(make_job(TASK, **VALUES | values), seed=seed)
    return replace(run_job(other), job=job)


def with_dev(result, **changes):
    """Return a copy of a result with other fields in its evaluation on dev."""
    evaluations = [
        replace(each, **changes) if each.name == DEV else each for each in result.evaluations
    ]
    return replace(result, evaluations=tuple(evaluations))


def dev(result):
    return result.evaluation(DEV)


def test_honest_run_has_the_same_bits_and_no_differences(job, found, rows):
    verdict = judged(run_job(job), found, rows)
    assert (verdict.kind, verdict.differs, verdict.sentences) == ("bits", "", ())
    assert verdict.rows == sum(len(each.predictions) for each in found.evaluations)
    assert verdict.machine["host"] == found.provenance["machine"]["host"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"learning_rate": "2e-3"}, "recipe: learning_rate"),
        ({"epochs": "2"}, "recipe: epochs or batch_size"),
        ({"max_tokens": "12"}, "truncated length: "),
        ({"weight_decay": "0.3"}, "curve: the training loss at step"),
        ({"seed": 2}, "curve: the training loss at step"),
    ],
    ids=str,
)
def test_changed_hyperparameter_is_named(job, found, rows, values, words):
    verdict = judged(claimed(job, **values), found, rows)
    assert verdict.sentences[0].startswith(words), verdict.sentences
    assert verdict.differs == words.partition(":")[0]
    assert ("another seed" in verdict.sentences[0]) == ("seed" in values)
    if "weight_decay" not in values:  # so small a change stays within what seeds move
        assert verdict.kind == "different"


def test_seed_is_named_if_another_stored_seed_has_the_same_training_losses(job, found, rows):
    other = replace(make_job(TASK, **VALUES), seed=2)
    sibling = run_job(other)
    verdict = judged(replace(sibling, job=job), found, rows, [sibling])
    assert (verdict.kind, verdict.differs) == ("different", "seed")
    assert "the losses of seed 2" in verdict.sentences[0]


def test_package_is_named_if_only_the_last_digits_differ(found, rows):
    moved = [
        {**row, "scores": [row["scores"][0] + 1e-6, row["scores"][1] - 1e-6]}
        for row in dev(found).predictions
    ]
    old = {**found.provenance["versions"], "torch": "1.0"}
    stored = replace(
        with_dev(found, predictions=tuple(moved)), provenance={**found.provenance, "versions": old}
    )
    verdict = judged(stored, found, rows)
    assert (verdict.kind, verdict.differs) == ("answers", "package"), verdict.sentences
    assert verdict.sentences[0].startswith("package: torch was 1.0, and is ")
    assert verdict.moved == pytest.approx(1e-6, rel=0.1)


def test_other_package_without_effect_gives_the_verdict_same_bits(found, rows):
    old = {**found.provenance["versions"], "torch": "1.0"}
    stored = replace(found, provenance={**found.provenance, "versions": old})
    assert judged(stored, found, rows).kind == "bits"


def test_exchanged_labels_are_named(found, rows):
    first, second = find_task(TASK).labels
    swap = {first: second, second: first}
    changed = {}
    for each in found.evaluations:
        predictions = [
            {**row, "label": swap[row["label"]], "scores": row["scores"][::-1]}
            for row in each.predictions
        ]
        changed[each.name] = tuple(predictions)
    evaluations = tuple(replace(e, predictions=changed[e.name]) for e in found.evaluations)
    verdict = judged(replace(found, evaluations=evaluations), found, rows)
    assert (verdict.kind, verdict.differs) == ("different", "label order"), verdict.sentences
    said = verdict.sentences[0]
    assert "of the repetition, exchanged" in said or "in the order 2, 1" in said


def test_score_by_a_wrong_metric_is_named(found, rows):
    """Replace the stored accuracy by the F1 of one class."""
    pairs = zip(dev(found).predictions, rows[DEV].examples, strict=True)
    pairs = [(row["label"], example.label) for row, example in pairs]
    label = pairs[0][0]
    right = sum(a == b == label for a, b in pairs)
    named = sum(a == label for a, _ in pairs) + sum(b == label for _, b in pairs)
    verdict = judged(with_dev(found, scores={"accuracy": 2 * right / named}), found, rows)
    assert (verdict.kind, verdict.differs) == ("different", "metric"), verdict.sentences
    assert f"is the F1 of {label}" in verdict.sentences[0]


def test_edited_score_is_named(found, rows):
    score = dev(found).scores["accuracy"]
    verdict = judged(with_dev(found, scores={"accuracy": score + 0.0101}), found, rows)
    assert (verdict.kind, verdict.differs) == ("different", "score")
    assert f"{score + 0.0101:.4f}" in verdict.sentences[0]
    assert "which the repetition has too" in verdict.sentences[0]


def edited(found, number=3):
    """Return the predictions for dev with one edited answer, and the id of its row."""
    predictions = [dict(row) for row in dev(found).predictions]
    row, labels = predictions[number], find_task(TASK).labels
    row["label"] = next(label for label in labels if label != row["label"])
    row["scores"] = row["scores"][::-1]
    return tuple(predictions), row["id"]


def test_edited_prediction_is_named_even_if_its_score_was_computed_again(found, rows):
    from benchharness.leaderboard.result import predictions_of
    from benchharness.splits import evaluate_split

    predictions, changed = edited(found)
    new = replace(dev(found), predictions=predictions)
    scores = evaluate_split(DEV, rows[DEV], predictions_of(new)).scores
    verdict = judged(with_dev(found, predictions=predictions, scores=scores), found, rows)
    assert (verdict.kind, verdict.differs) == ("different", "prediction"), verdict.sentences
    assert f"1 row ({changed})" in verdict.sentences[0]


def test_edited_label_that_contradicts_its_probabilities_is_named(found, rows):
    predictions, changed = edited(found)
    predictions[3]["scores"] = dev(found).predictions[3]["scores"]
    verdict = judged(with_dev(found, predictions=predictions), found, rows)
    assert verdict.kind == "different"
    said = " ".join(verdict.sentences)
    assert f"1 row ({changed})" in said
    assert "highest stored probability" in said


def test_evaluation_on_other_rows_is_named(found, rows):
    verdict = judged(with_dev(found, fingerprint="0" * 64), found, rows)
    assert (verdict.kind, verdict.differs) == ("different", "data")


# Problems that are found before a job runs.


def test_changed_row_is_named_with_its_split_before_anything_runs(tmp_path):
    job = plan_job("tiny", TASK, str(write_rte(tmp_path / "data", rows=8)))
    assert Sources().prepared(job) == job
    file = tmp_path / "data" / "RTE" / "train.tsv"
    file.write_text(file.read_text().replace("train a 3", "train a three"))
    with pytest.raises(CannotRunError, match="its data differ: glue/rte train") as caught:
        Sources().prepared(job)
    assert caught.value.thing == "data"


def test_missing_data_are_named(tmp_path):
    job = plan_job("tiny", TASK, str(write_rte(tmp_path / "data", rows=8)))
    (tmp_path / "data").rename(tmp_path / "moved")
    with pytest.raises(CannotRunError, match="its data cannot be read") as caught:
        Sources().prepared(job)
    assert caught.value.thing == "data"
    found = Sources(data=str(tmp_path / "moved")).prepared(job)
    assert (found.key, found.data) == (job.key, str(tmp_path / "moved"))


def test_changed_weight_is_named_and_another_folder_with_the_weights_is_found(tmp_path):
    folder = save_checkpoint(tmp_path / "mine")
    job = plan_job([find_model(str(folder))], TASK)
    copy = save_checkpoint(tmp_path / "copy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"initializer_range": 0.4}))
    with pytest.raises(CannotRunError, match=r"no folder has its weights .*mine has sha256:") as e:
        Sources().prepared(job)
    assert e.value.thing == "weights"
    found = Sources(checkpoints=[str(copy)]).prepared(job)
    assert (found.key, found.checkpoint) == (job.key, str(copy))


def test_weights_without_a_commit_or_a_digest_are_refused():
    job = replace(make_job(TASK), weights="revision of somebody")
    with pytest.raises(CannotRunError, match="does not name the commit") as caught:
        Sources().prepared(job)
    assert caught.value.thing == "weights"


@pytest.mark.parametrize(("kind", "words"), [("imported", "imported"), ("scored", "predictions")])
def test_runs_that_are_not_results_of_jobs_are_refused(kind, words):
    with pytest.raises(CannotRunError, match=words) as caught:
        Sources().prepared(replace(make_job(TASK), kind=kind))
    assert caught.value.thing == "kind"
