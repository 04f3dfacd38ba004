"""Tests of `bh.Classifier`, the scikit-learn estimator."""

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

import benchharness as bh
from benchharness.errors import BenchError, DataError, JobError
from benchharness.extensions.estimator.rows import (
    class_names,
    split_rows,
    task_of,
    texts_of,
    write_rows,
)

TEXTS = [
    f"the {noun} is {word} ."
    for noun in ("film", "plot", "cast", "end")
    for word in ("splendid", "dull")
]
TEXTS = [f"{text} {number}" for number in range(5) for text in TEXTS]
CLASSES = ["good", "bad"] * (len(TEXTS) // 2)
QUICK: dict[str, Any] = {"epochs": 8, "learning_rate": 1e-3, "batch_size": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def fitted() -> Any:
    return bh.Classifier("tiny", **QUICK).fit(TEXTS, CLASSES)


@pytest.mark.soak
def test_importing_benchharness_does_not_import_scikit_learn_or_torch() -> None:
    code = "import sys, benchharness as bh; print('sklearn' in sys.modules); bh.Classifier; "
    code += "print('sklearn' in sys.modules, 'torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True", "False"]


def test_classifier_learns_and_predicts_the_classes_of_texts(fitted: Any) -> None:
    assert fitted.classes_.tolist() == ["bad", "good"]
    assert fitted.predict(TEXTS).tolist() == CLASSES
    assert fitted.score(TEXTS, CLASSES) == 1.0
    assert fitted.predict(["the film is dull .", "the end is splendid ."]).tolist() == [
        "bad",
        "good",
    ]
    found = fitted.predict_proba(pd.Series(TEXTS, index=range(7, 7 + len(TEXTS))))
    assert found.shape == (len(TEXTS), 2)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (fitted.classes_[found.argmax(axis=1)] == CLASSES).all()
    assert fitted.flags_ == ""


def test_bench_predict_reads_the_folder_of_a_fitted_classifier(fitted: Any) -> None:
    table = bh.predict(fitted.model_folder_, [{"text": text} for text in TEXTS[:4]], scores=True)
    assert table["label"].tolist() == CLASSES[:4]
    expected = [[row["bad"], row["good"]] for row in table["scores"]]
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS[:4]), expected)


def test_the_same_seed_gives_the_same_model_and_another_seed_another(fitted: Any) -> None:
    again = clone(fitted).fit(np.array(TEXTS), np.array(CLASSES))
    np.testing.assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the model learns nothing in one epoch
        other = clone(fitted).set_params(seed=2, epochs=1).fit(TEXTS, CLASSES)
    assert not np.array_equal(other.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copied_classifier_predicts_the_same_after_the_original_is_deleted(
    fitted: Any, copied: Any
) -> None:
    once = copied(fitted)
    twice = copied(once)
    folder = once.model_folder_
    assert folder not in (fitted.model_folder_, twice.model_folder_)
    del once
    assert not folder.parent.exists()
    np.testing.assert_array_equal(twice.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


# The interface of scikit-learn.


@pytest.mark.parametrize(
    "name",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_estimators_unfitted",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_mixin_order",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_sparse_tag",
        "check_requires_y_none",
    ],
)
def test_scikit_learns_checks_that_need_no_numeric_input_pass(name: str) -> None:
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip("this version of scikit-learn has no such check")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check("Classifier", bh.Classifier("tiny", device="cpu"))


def test_scikit_learn_knows_that_the_classifier_reads_texts() -> None:
    with pytest.warns(Warning, match="requires input of type|requires input  of type"):
        check_estimator(bh.Classifier("tiny"))


def test_fit_and_predict_change_neither_the_arguments_nor_the_data(fitted: Any) -> None:
    before, texts, classes = fitted.get_params(), list(TEXTS), list(CLASSES)
    attributes = dict(vars(fitted))
    fitted.predict(texts)
    fitted.predict_proba(texts)
    assert vars(fitted) == attributes
    assert fitted.get_params() == before == {**clone(fitted).get_params()}
    assert (texts, classes) == (TEXTS, CLASSES)


@pytest.mark.soak
def test_classifier_works_in_a_grid_search_over_a_pipeline() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    steps = Pipeline([("lower", lower), ("encoder", bh.Classifier("tiny", **QUICK))])
    grid = {"encoder__learning_rate": [1e-5, 1e-3], "encoder__epochs": [8]}
    with warnings.catch_warnings():
        # With the low learning rate, the model learns nothing.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(steps, grid, cv=2).fit([text.upper() for text in TEXTS], CLASSES)
    assert search.best_params_["encoder__learning_rate"] == 1e-3
    assert search.best_score_ > 0.9
    assert search.predict(["THE CAST IS DULL ."]).tolist() == ["bad"]


# Rows and classes in other forms.


def test_pairs_of_texts_are_classified_with_any_kind_of_class() -> None:
    pairs = [(text, "a good film" if n % 2 else "a bad film") for n, text in enumerate(TEXTS)]
    numbers = [3 if label == "good" else 20 for label in CLASSES]
    frame = pd.DataFrame(pairs, columns=["review", "claim"])
    made = bh.Classifier("tiny", **QUICK).fit(frame, numbers)
    assert (made.classes_.tolist(), made.n_texts_) == ([3, 20], 2)
    assert made.predict(pairs[:4]).tolist() == numbers[:4]
    assert made.predict(np.array(pairs[:4])).dtype == made.classes_.dtype
    with pytest.raises(DataError, match=r"row 0 of X has 1 texts, but expected 2: pass a list"):
        made.predict(TEXTS)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (csr_array(np.eye(3)), "X is a sparse matrix of 3 rows, but a Classifier reads texts: "),
        (np.eye(3), "row 0 of X has np.float64(1.0) of type float64, which is not a text: "),
        ([1, 2, 3], "row 0 of X has 1 of type int, which is not a text: "),
        (["a", None], "row 1 of X has None of type NoneType, which is not a text: "),
        (["a", float("nan")], "row 1 of X has nan of type float, which is not a text: "),
        (["a", ("b", "c")], "row 1 of X has 2 texts, but expected 1: "),
        ([("a", "b", "c")], "row 0 of X has 3 texts, but expected 1 or 2: "),
        ([()], "row 0 of X has 0 texts, but expected 1 or 2: "),
        ("one text", "X is a str, but a Classifier reads rows: "),
        ({"text": ["a"]}, "X is a dict, but a Classifier reads rows: "),
        (iter(["a"]), "X is a list_iterator, but a Classifier reads rows: "),
    ],
)
def test_fit_refuses_rows_that_are_not_texts_with_one_sentence(rows: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^X is a|^row") as error:
        bh.Classifier("tiny").fit(rows, ["a", "b", "a"])
    assert isinstance(error.value, BenchError)
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith(
        "pass a list, array or Series of texts, a list of pairs of texts, or a data frame of texts."
    )


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (["a", "a", "a"], "y has only one class, 'a'"),
        (["a", None, "b"], "row 1 of y has no class"),
        (["a", "b"], "inconsistent numbers of samples"),
        ([0.1, 0.2, 0.3], "Unknown label type: continuous"),
        ([[0, 1], [1, 0], [1, 1]], "y should be a 1d array"),
    ],
)
def test_fit_refuses_invalid_classes(classes: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        bh.Classifier("tiny").fit(TEXTS[:3], classes)


def test_predict_before_fit_raises_not_fitted_error() -> None:
    with pytest.raises(NotFittedError):
        bh.Classifier("tiny").predict(TEXTS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"model": "tinny"}, "no model or checkpoint folder is called 'tinny'"),
        ({"model": 5}, "model is a int: expected a name, a folder or a hub id"),
        ({"model": "bag-of-words"}, "which is not an encoder"),
        ({"epochs": -1}, "epochs is '-1'"),
        ({"epochs": [1, 2]}, "the recipe has 2 combinations of values"),
        ({"settings": {"epoch": 1}}, "no hyperparameter is called 'epoch'"),
        ({"epochs": 1, "settings": {"epochs": 2}}, "epochs is set twice"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"recipe": "fst"}, "no recipe is called 'fst'"),
    ],
)
def test_wrong_arguments_are_reported_when_the_classifier_is_fitted(
    arguments: dict[str, Any], sentence: str
) -> None:
    made = bh.Classifier(**{"model": "tiny", **arguments})
    with pytest.raises(BenchError) as error:
        made.fit(TEXTS, CLASSES)
    assert sentence in str(error.value)
    assert "--" not in str(error.value)


def test_a_training_that_learns_nothing_gives_a_convergence_warning() -> None:
    made = bh.Classifier("tiny", **QUICK | {"epochs": 1, "learning_rate": 1e-9})
    with pytest.warns(ConvergenceWarning, match="tiny has learned nothing from these 40 rows"):
        made.fit(TEXTS, CLASSES)
    assert made.flags_


def test_fit_raises_the_error_of_a_failed_training() -> None:
    made = bh.Classifier(
        "tiny", **QUICK | {"learning_rate": 1e30, "settings": {"max_grad_norm": 0}}
    )
    with pytest.raises(JobError, match="classifier"):
        made.fit(TEXTS, CLASSES)


# Rows in files.


def test_classes_are_named_by_their_texts_if_a_file_can_store_them() -> None:
    assert class_names(["not good", "good"]) == ("not good", "good")
    assert class_names([0, 10]) == ("0", "10")
    assert class_names([False, True]) == ("False", "True")
    for odd in (["a", " a"], ["", "b"], ["[1]", "[2]"], ["a", "a\nb"], [1, "1"]):
        assert class_names(odd) == ("class 0", "class 1")


@pytest.mark.parametrize(
    "odd", [" spaces ", "NULL", "", "[1, 2]", "'quoted'", "a\tb\nc", "é", "nan", "\ufeffx", "=1+1"]
)
def test_unusual_texts_are_written_and_read_back_unchanged(odd: str, tmp_path: Path) -> None:
    texts = texts_of([odd, "one text", "another text"])
    own = task_of(("a", "b"), 1)
    split = split_rows([0, 1, 0], 0.0)
    # Raises an error if a row is read back changed.
    write_rows(tmp_path / "rows", own, texts, ["a", "b", "a"], split)


def test_fit_refuses_texts_if_all_would_be_read_back_as_lists(tmp_path: Path) -> None:
    texts = texts_of(["['a', 'b']", "['c', 'd']"])
    with pytest.raises(DataError, match=r"row 0 of X, .*because every text of X has the form"):
        write_rows(tmp_path / "rows", task_of(("a", "b"), 1), texts, "ab", split_rows([0, 1], 0))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_held_out_rows_have_the_classes_in_the_same_proportions(share: float) -> None:
    numbers = [0] * 60 + [1] * 40
    split = split_rows(numbers, share)
    assert sorted([*split.train, *split.dev]) == list(range(100))
    assert np.bincount([numbers[row] for row in split.dev]).tolist() == [60 * share, 40 * share]


def test_held_out_rows_never_contain_the_only_row_of_a_class() -> None:
    split = split_rows([0, 0, 1], 0.1)
    assert (split.train, split.dev) == ([0, 2], [1])


def test_all_rows_are_trained_on_if_nothing_is_held_out() -> None:
    split = split_rows([0, 1] * 500, 0.0)
    assert list(split.train) == list(range(1000))
    assert split.dev == list(range(200))


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        ({}, 0.0),
        ({"evaluations": 4, "best_checkpoint": True}, 0.1),
        ({"evaluations": 4, "early_stopping": 2}, 0.1),
        ({"evaluations": 4, "best_checkpoint": True, "select_on": "train:0.2"}, 0.0),
    ],
)
def test_rows_are_held_out_only_if_the_recipe_chooses_weights(
    settings: dict[str, Any], share: float
) -> None:
    made = bh.Classifier("tiny", settings=settings)
    assert made._held_out("glue/sst2", made._values()) == share
