"""The scikit-learn estimator `bh.Classifier`."""

import warnings
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from benchharness.api import run
from benchharness.driver.options import RunOptions, speaks_python
from benchharness.errors import BenchError, JobError
from benchharness.extensions.custom_data.task import add, own_task
from benchharness.extensions.estimator.kept import KeptModel
from benchharness.extensions.estimator.rows import (
    class_names,
    classes_of,
    split_rows,
    task_of,
    texts_of,
    write_rows,
)
from benchharness.extensions.kept_models.model_folder import model_folder
from benchharness.leaderboard.job import Trust
from benchharness.models import find_model
from benchharness.recipes import resolve_recipe
from benchharness.tasks.examples import PairExample


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Fine-tuned encoder as a scikit-learn classifier of texts, or of pairs of texts.

    X is a list, an array or a Series of texts; pairs of texts are a list of tuples, or an array or
    a data frame of two columns. y has a class per row: a text, a whole number or a boolean. Rows
    without a text are not trained on.

    `fit` trains as `bench run` does, with the values of the model's own recipe, in a temporary
    store. A fitted classifier holds the model in a temporary folder, which is deleted with it; a
    pickle contains the model.

    Args:
        model: Name, folder or hub id of the encoder, as for `bh.run`.
        learning_rate: Highest learning rate; None for that of the recipe.
        epochs: Number of passes over the rows; None for that of the recipe.
        batch_size: Number of rows per step; None for that of the recipe.
        max_tokens: Maximum number of tokens per row; None for that of the recipe.
        settings: Other hyperparameters, keyed by name, as `set` of `bh.run`.
        recipe: Name or path of another recipe, as for `bh.run`.
        validation_fraction: Share of the rows on which the best weights are chosen, if the recipe
            chooses them (`best_checkpoint`, `early_stopping`). These rows are not trained on. Other
            recipes train on all rows.
        seed: Seed of the training. The same seed gives the same model on the same machine.
        device: Device of the training, as for `bh.run`.
        precision: Number format, as for `bh.run`.
        trust_remote_code: Whether to run the code that comes with the checkpoint.
        verbose: Whether to show a progress bar.

    Attributes:
        classes_: The classes, sorted: `[classes]`.
        flags_: Warnings about the training, such as "constant predictions"; "" if there are none.
        kept_: The trained model (see `KeptModel`).
        n_texts_: Number of texts per row, 1 or 2.
    """

    def __init__(  # noqa: PLR0913  (scikit-learn reads hyperparameters from the arguments)
        self,
        model: str | PathLike[str],
        *,
        learning_rate: float | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        settings: Mapping[str, object] | None = None,
        recipe: str | None = None,
        validation_fraction: float = 0.1,
        seed: int = 1,
        device: str = "auto",
        precision: str = "auto",
        trust_remote_code: bool = False,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.settings = settings
        self.recipe = recipe
        self.validation_fraction = validation_fraction
        self.seed = seed
        self.device = device
        self.precision = precision
        self.trust_remote_code = trust_remote_code
        self.verbose = verbose

    @speaks_python
    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune the encoder on texts and their classes.

        Args:
            X: The texts, or pairs of texts.
            y: The class of each row: `[rows]`.

        Raises:
            DataError: X or y cannot be used (also a ValueError).
            BenchError: The model or a hyperparameter is unknown or does not fit.
            JobError: The training failed, for example because its loss was not finite.
        """
        classes, numbers = classes_of(y)
        texts = texts_of(X)
        check_consistent_length(texts, numbers)
        names, width = class_names(classes.tolist()), len(texts[0])
        own = task_of(names, width)
        task = add(own_task(own))
        values = self._values()
        with TemporaryDirectory(prefix="benchharness-") as scratch:
            folder, db = Path(scratch) / "rows", f"{scratch}/store.sqlite"
            split = split_rows(numbers.tolist(), self._held_out(task.name, values))
            write_rows(folder, own, texts, [names[number] for number in numbers], split)
            with warnings.catch_warnings():
                # The notes of `run` would be repeated for every fit of a search.
                warnings.simplefilter("ignore", UserWarning)
                results = run(
                    self.model,
                    task=task.name,
                    data=str(folder),
                    seeds=[self.seed],
                    set=values,
                    recipe=self.recipe,
                    device=self.device,
                    precision=self.precision,
                    trust_remote_code=self.trust_remote_code,
                    baselines=False,
                    keep_models=True,
                    progress=self.verbose,
                    db=db,
                )
            if results.failures:
                raise JobError(results.failures[0])
            self.flags_ = str(results.frame()["flags"].iloc[0])
            self.kept_ = KeptModel(model_folder(results.keys[0], db))
        self.classes_, self.n_texts_ = classes, width
        if self.flags_:
            warnings.warn(
                f"{self.model} has learned nothing from these {len(texts)} rows ({self.flags_}): "
                "use more epochs, or another learning_rate.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    @speaks_python
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for texts.

        Args:
            X: The texts, or pairs of texts, as in `fit`.

        Returns:
            Probabilities, in the order of `classes_`: `[rows, classes]`.

        Raises:
            DataError: X cannot be used (also a ValueError).
        """
        check_is_fitted(self)
        # Imported late, because importing torch takes seconds.
        from benchharness.extensions.kept_models.predict import predict

        examples = [
            PairExample(id=str(number), text_a=row[0], text_b=row[1] if self.n_texts_ > 1 else None)
            for number, row in enumerate(texts_of(X, self.n_texts_))
        ]
        found: Any = predict(self.kept_.model, examples).predictions
        return np.array([prediction.scores for prediction in found])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each text: `[rows]`.

        `X` has texts, or pairs of texts, as in `fit`.
        """
        probabilities = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return found

    @property
    def model_folder_(self) -> Path:
        """Folder of the trained model, for `bh.predict`, `bench predict` and `bench model`.

        Copy it to keep the model: the folder is deleted with the classifier.
        """
        return self.kept_.folder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _values(self) -> dict[str, object]:
        """Return the hyperparameters that replace those of the recipe, keyed by name."""
        names = ("learning_rate", "epochs", "batch_size", "max_tokens")
        own = {name: getattr(self, name) for name in names}
        values = {name: value for name, value in own.items() if value is not None}
        if twice := sorted(values.keys() & (self.settings or {}).keys()):
            raise BenchError(f"{twice[0]} is set twice, also in settings: remove one of them.")
        return values | dict(self.settings or {})

    def _held_out(self, task: str, values: Mapping[str, object]) -> float:
        """Return the share of the rows to hold out; 0 if the recipe does not choose weights."""
        if not 0 <= self.validation_fraction < 1:
            raise BenchError(
                f"validation_fraction is {self.validation_fraction}: expected a number that is at "
                "least 0 and below 1."
            )
        if not isinstance(self.model, str | PathLike):
            raise BenchError(
                f"model is a {type(self.model).__name__}: expected a name, a folder or a hub id."
            )
        trust = Trust(remote_code=self.trust_remote_code)
        words = dict(word.split("=", 1) for word in RunOptions.of(set=values).set)
        spec = find_model(fspath(self.model), trust)
        if spec.is_baseline:
            raise BenchError(
                f"model is {spec.name}, which is not an encoder: use the classifiers of "
                "scikit-learn itself as baselines."
            )
        found = resolve_recipe(spec, task, self.recipe, words).settings
        chooses = bool({"best_checkpoint", "early_stopping"} & found.keys())
        return self.validation_fraction if chooses and "select_on" not in found else 0.0
