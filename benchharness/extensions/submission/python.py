"""`bh.score`: compute the official scores of predictions from any program."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchharness.driver.options import speaks_python
from benchharness.errors import DataError
from benchharness.extensions.submission.scoring import score_files
from benchharness.leaderboard.result import MARK, Evaluation
from benchharness.splits import evaluate_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import Example
from benchharness.tasks.foreign_code import begin
from benchharness.tasks.read import holds, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import check_labels


@speaks_python
def score(
    task: str,
    predictions: str | Path | Mapping[str, Any] | Sequence[Any],
    data: str | Path = "hub",
    *,
    split: str = "",
    trust_remote_code: bool = False,
) -> "Scores":
    """Compute the official scores of predictions for a split.

    Args:
        task: Name of the task.
        predictions: Path of a prediction file as for `bench score`, a mapping or Series keyed by
            example id, or a sequence with one prediction per example, in order. A prediction is the
            name of a label, a number, the text of an answer ("" for no answer), the index of an
            option (from 0), the tags of a sentence, a list of labels, or a list of coreference
            clusters, each a list of (start, end) word spans. For retrieval, it is a list of
            document ids (best first) or a mapping from document ids to scores.
        data: Source of the labelled rows, as for `--data`.
        split: Name of the split; by default the first dev split, or the first test split if there
            is no dev split.
        trust_remote_code: True to load the code of a third-party metric that the data specify.

    Returns:
        Scores keyed by name. The attribute `flags` contains warnings, e.g. about constant
        predictions.

    Raises:
        BenchError: The task or the split is unknown, or the labels are not published.
        DataError: The rows or predictions cannot be read, or an example has no valid prediction.
    """
    begin(trust=trust_remote_code)
    found = find_task(task, holds(str(data)))
    if isinstance(predictions, str | Path):
        scored = score_files([Path(predictions)], found.name, str(data), [split] if split else ())
        return Scores(scored.splits[0].evaluation)
    chosen = split or (found.dev_splits or found.test_splits)[0]
    rows = read(found, chosen, parse_data(str(data)))
    check_labels(found, chosen, rows.examples)
    answers = _in_order(predictions, rows.examples)
    read_answer = answer_type(found).from_python
    made = list(map(read_answer, rows.examples, answers))
    return Scores(evaluate_split(f"{found.name}:{chosen}", rows, made))


class Scores(dict[str, float]):
    """Scores keyed by name; the attribute `flags` contains warnings about the predictions."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation.scores)
        self.flags = evaluation.flags

    def __repr__(self) -> str:
        return " ".join((super().__repr__(), *(f"{MARK} {flag}" for flag in self.flags)))


def _in_order(predictions: Any, examples: Sequence[Example]) -> list[Any]:
    """Return one prediction per example, in the order of the examples.

    Raises DataError if the predictions do not match the examples.
    """
    ids = [example.id for example in examples]
    if hasattr(predictions, "to_dict") and not set(predictions.index).isdisjoint(ids):
        predictions = predictions.to_dict()
    if isinstance(predictions, Mapping):
        missing = [each for each in ids if each not in predictions]
        if missing:
            raise DataError(
                f"{len(missing)} of {len(ids)} examples have no prediction, such as {missing[0]!r}."
            )
        return [predictions[each] for each in ids]
    found = list(predictions)
    if len(found) != len(ids):
        raise DataError(
            f"the split has {len(ids)} examples, but got {len(found)} predictions: pass one "
            "prediction per example."
        )
    return found
