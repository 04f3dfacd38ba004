"""Tests of temperature scaling: the fitted temperature, and the probabilities of written models."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.metrics import log_loss

from benchharness.errors import BenchError, DataError
from benchharness.extensions.calibration.technique import SHARE, judged_rows
from benchharness.extensions.calibration.temperature import fit_temperature
from benchharness.extensions.kept_models.card import card_of, card_text
from benchharness.extensions.kept_models.load import load_trained
from benchharness.extensions.kept_models.predict import predict
from benchharness.tasks.examples import ChoicePrediction, PairPrediction
from benchharness.tasks.read import hold_out, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job


def one_hot(gold, classes):
    return [np.arange(classes) == each for each in gold]


def test_fitted_temperature_minimizes_the_log_loss_of_scikit_learn():
    draw = np.random.default_rng(1)
    logits = draw.normal(0, 3, (300, 4))
    gold = np.array([draw.choice(4, p=p) for p in softmax(logits / 2.5, axis=1)])
    found = fit_temperature(list(softmax(logits, axis=1)), one_hot(gold, 4))

    def loss(temperature):
        return log_loss(gold, softmax(logits / temperature, axis=1), labels=range(4))

    best = minimize(lambda x: loss(np.exp(x[0])), [0.0], method="Nelder-Mead")
    assert found == pytest.approx(np.exp(best.x[0]), rel=1e-3)
    assert found == pytest.approx(2.5, rel=0.25)
    assert loss(found) < loss(1.0)


def test_probabilities_of_several_right_options_are_summed():
    chances = [np.array([0.6, 0.3, 0.1]), np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.3, 0.2])]
    gold = [np.array([False, True, True]), np.array([True, False, False]), np.array([0, 0, 1]) > 0]
    found = fit_temperature(chances, gold)

    def loss(temperature):
        shares = [softmax(np.log(chance) / temperature) for chance in chances]
        return -sum(np.log(s[g].sum()) for s, g in zip(shares, gold, strict=True))

    assert loss(found) <= min(loss(found * 1.02), loss(found / 1.02))


def test_rows_of_one_class_raise_an_error_and_right_answers_give_temperature_1():
    with pytest.raises(DataError, match=r"the 3 rows that were held out of train .* same answer"):
        fit_temperature([np.array([0.9, 0.1])] * 3, one_hot([0, 0, 0], 2))
    assert fit_temperature([np.array([0.9, 0.1]), np.array([0.4, 0.6])], one_hot([0, 1], 2)) == 1


def test_each_label_counts_as_a_row_and_all_options_as_one_row():
    task = find_task("lexglue/ecthr_a")
    (row, *_) = read(task, "dev", parse_data("mini")).examples
    scores = tuple(np.linspace(0.1, 0.9, len(task.labels)))
    guess = PairPrediction(id=row.id, label=(), scores=scores)
    chances, gold = judged_rows(task, [guess], [row])
    assert [each.tolist() for each in chances[:1]] == [[scores[0], 1 - scores[0]]]
    assert [bool(each[0]) for each in gold] == [label in row.label for label in task.labels]
    (asked, *_) = read(find_task("race/all"), "dev", parse_data("mini")).examples
    choice = ChoicePrediction(id=asked.id, option=0, scores=(0.4, 0.3, 0.2, 0.1))
    (chance,), (right,) = judged_rows(find_task("race/all"), [choice], [asked])
    assert chance.tolist() == [0.4, 0.3, 0.2, 0.1]
    assert np.flatnonzero(right).tolist() == list(asked.gold)


def test_written_model_has_the_scaled_probabilities_of_the_run(tmp_path):
    job = make_job("glue/rte", epochs="1")
    scaled = make_job("glue/rte", epochs="1", calibrate="temperature")
    assert scaled.key != job.key
    result = run_job(scaled, keep=tmp_path / "kept")
    facts = result.provenance["calibration"]
    config = json.loads((tmp_path / "kept" / "config.json").read_text(encoding="utf-8"))
    assert config["calibration"] == {**facts, "is_in_weights": True}
    train = read(find_task("glue/rte"), "train", parse_data("mini"), 48)
    assert facts["rows"] == len(hold_out(train, SHARE)[1].examples)
    assert 0.05 <= facts["temperature"] <= 20
    # The kept model predicts the probabilities of the scaled logits, which are stored.
    rows = read(find_task("glue/rte"), "dev", parse_data("mini"), 48).examples
    model = load_trained(tmp_path / "kept")
    stored = [each["scores"] for each in result.evaluation("glue/rte:dev").predictions]
    again = [each.scores for each in predict(model, rows).predictions]
    assert np.array(again) == pytest.approx(np.array(stored), abs=2e-3)
    layer = model.network.classifier.output
    for weight in (layer.weight, layer.bias):
        weight.data.mul_(facts["temperature"])
    plain = np.array([each.scores for each in predict(model, rows).predictions])
    unscaled = softmax(log_softmax(np.log(plain), axis=1) / facts["temperature"], axis=1)
    assert unscaled == pytest.approx(np.array(stored), abs=2e-3)
    assert (plain.argmax(1) == np.array(stored).argmax(1)).all()


def test_calibrate_is_refused_for_tasks_without_classes_labels_or_options():
    with pytest.raises(BenchError, match="needs a single task with classes, labels or options"):
        run_job(make_job("glue/stsb", epochs="1", calibrate="temperature"))


def test_model_card_states_the_temperature(tmp_path):
    job = make_job("glue/rte", epochs="1", calibrate="temperature")
    (tmp_path / "config.json").write_text('{"calibration": {"temperature": 1.25}}')
    told = {
        "job": job.to_json(), "task": "glue/rte", "splits": {}, "versions": {}, "class": "A",
        "lacking": "",
    }  # fmt: skip
    (tmp_path / "benchharness.json").write_text(json.dumps(told))
    card = card_of(tmp_path, "mini")
    assert card.temperature == 1.25
    assert "the logits are divided by the temperature 1.2500" in card_text(card)
    plain = card_text(replace(card, temperature=None))
    assert "temperature 1" not in plain
