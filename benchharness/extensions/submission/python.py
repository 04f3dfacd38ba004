"""`bh.score`: the official scores of predictions that anybody made."""

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
    """Compute the official scores of predictions of a split.

    Args:
        task: The task.
        predictions: A file that `bench score` reads, a mapping or Series by example id, or a
            sequence with one prediction per example, in order. A prediction is a label's name, a
            number, an answer's text ("" for none), an option's index from 0, a sentence's tags, or
            a list of labels.
        data: The data source, as for `--data`.
        split: The split; by default the first dev split, or the first test split if there is none.
        trust_remote_code: Whether to load a metric that is third-party code which the data names,
            but not this call.

    Returns:
        The scores by name. Their attribute `flags` contains warnings, such as constant predictions.
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
    """Scores by name; `flags` contains warnings about them."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation.scores)
        self.flags = evaluation.flags

    def __repr__(self) -> str:
        return " ".join((super().__repr__(), *(f"{MARK} {flag}" for flag in self.flags)))


def _in_order(predictions: Any, examples: Sequence[Example]) -> list[Any]:
    """Return one prediction per example, in the order of the examples."""
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
            f"the split has {len(ids)} examples, and predictions {len(found)}: expected one each."
        )
    return found
