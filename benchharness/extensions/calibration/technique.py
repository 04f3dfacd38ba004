"""Calibrate the probabilities of a trained model with a temperature (`calibrate=temperature`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from benchharness.encoder import Encoder
from benchharness.errors import BenchError
from benchharness.extensions.calibration.hyperparameters import TEMPERATURE
from benchharness.extensions.calibration.measures import Array
from benchharness.extensions.calibration.temperature import Flags, fit_temperature
from benchharness.heads import Head
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.read import SplitRows, hold_out
from benchharness.tasks.task import Task
from benchharness.training.predict import predict
from benchharness.worker.technique import Prepared, Technique

if TYPE_CHECKING:
    from benchharness.worker.task_setup import TaskSetup

SHARE = 0.1
"""Share of train that is held out to fit the temperature."""

SPLIT = "calibration"
"""Name of the split with the held-out rows."""


class Calibrate(Technique):
    """Technique that fits a temperature on a held-out tenth of train.

    While the job predicts, the logits are divided by the temperature. In the written model, the
    weights of the output layer are divided instead, so every program that loads the model gets the
    same probabilities.
    """

    held: SplitRows | None = None
    temperature: float = 1.0

    @property
    def is_on(self) -> bool:
        """True if the job has the setting `calibrate=temperature`."""
        return bool(self.work.recipe.added["calibrate"].calibrate == TEMPERATURE)

    def head(self, task: Task, encoder: Encoder) -> Head | None:
        """Keep the tokenizer, with which `on_network` encodes the held-out rows; return None."""
        self.tokenizer: Any = encoder.tokenizer
        return None

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Raise BenchError if the job has several tasks, or a task without classes or options."""
        kinds = {setup.task.kind for setup in setups}
        if self.is_on and (len(setups) > 1 or not kinds <= {"class", "choice", "labels"}):
            names = ", ".join(setup.task.title for setup in setups)
            raise BenchError(
                f"calibrate=temperature needs a single task with classes, labels or options, but "
                f"this job has {names}: leave it out."
            )

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Hold out a tenth of the rows, and return the rest for training."""
        if not self.is_on:
            return rows
        left, self.held = hold_out(rows, SHARE)
        return left

    def on_network(self, prepared: Prepared) -> None:
        """Encode the held-out rows before the vocabulary is cut, so that it keeps their tokens."""
        if self.held is not None:
            encode = prepared.setups[0].head.encode
            found = encode(self.held.examples, self.tokenizer, prepared.limits)
            prepared.features[self._name(prepared)] = found

    def _name(self, prepared: Prepared) -> str:
        return f"{prepared.setups[0].task.name}:{SPLIT}"

    def on_trained(self, prepared: Prepared) -> bool:
        """Fit the temperature, and divide all further logits of the network by it.

        Returns:
            True if the splits must be predicted again, because a temperature was fitted.

        Raises:
            DataError: All held-out rows have the same answer.
        """
        if self.held is None:
            return False
        (setup,), rows = prepared.setups, self.held.examples
        network: Any = setup.network
        features = prepared.features[self._name(prepared)]
        logits = predict(network, features, self.work.compute, self.work.report)
        predictions = setup.head.decode(logits, features, rows, setup.task)
        self.temperature = fit_temperature(*judged_rows(setup.task, predictions, rows))
        self.layer: Any = network.classifier.output
        self.hook: Any = network.register_forward_hook(
            lambda _module, _inputs, output: output / self.temperature
        )
        facts = {"temperature": self.temperature, "rows": len(rows), "share": SHARE}
        self.provenance = {"calibration": facts}
        self.config = {"calibration": {**facts, "is_in_weights": True}}
        return True

    def before_writing(self, network: Any) -> None:
        """Divide the weights of the output layer by the temperature, and the logits no longer."""
        if self.held is None:
            return
        self.hook.remove()
        for weight in (self.layer.weight, self.layer.bias):
            if weight is not None:
                weight.data.div_(self.temperature)


def judged_rows(
    task: Any, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> tuple[list[Array], list[Flags]]:
    """Return the arguments of `fit_temperature` for the predictions of a split.

    For a task with several labels, each label of each row counts as a row with the possible answers
    "yes" and "no".

    Returns:
        For each row, the probabilities of its possible answers, and booleans that mark right ones.
    """
    chances: list[Array] = []
    gold: list[Flags] = []
    pairs: Any = zip(predictions, examples, strict=True)
    for prediction, example in pairs:
        scores = np.array(prediction.scores, dtype=np.float64)
        if task.kind == "labels":
            has = [label in example.label for label in task.labels]
            chances += [np.array([share, 1 - share]) for share in scores]
            gold += [np.array([each, not each]) for each in has]
        elif task.kind == "choice":
            chances.append(scores)
            gold.append(np.isin(np.arange(len(scores)), example.gold or ()))
        else:
            chances.append(scores)
            gold.append(np.array([label == example.label for label in task.labels]))
    return chances, gold
