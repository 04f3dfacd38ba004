"""Check that an exported folder, loaded by transformers alone, computes the same as the run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from benchharness.encoder.packing import is_packed
from benchharness.encoder.padding import SEES_PADDING
from benchharness.errors import JobError
from benchharness.extensions.kept_models.hf_model import Logits, PlainModel, Row
from benchharness.extensions.kept_models.load import TrainedModel
from benchharness.extensions.kept_models.predict import predict
from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.heads.published import UNSCALED
from benchharness.heads.tag import TAG
from benchharness.leaderboard.text import counted
from benchharness.recipes.recipe import DOCUMENT
from benchharness.tasks.answers import NEAR, compare_answers, moves
from benchharness.tasks.examples import Prediction
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import PairTask, Task
from benchharness.training.batching import Features, Indices
from benchharness.training.compute import Layout, Part

SAMPLE = 64
"""Maximum number of examples whose logits are compared between transformers and the run."""

BATCH = 8
"""Number of rows per batch in the comparison. The rows of a batch differ in length, so that most of
them are padded.
"""

FORBIDDEN = -1e5
"""Limit below which logits are not compared. A transformers class computes very low logits for
positions where it allows no answer, such as the question in BigBird.
"""


class Dev(NamedTuple):
    """Split that a run has predicted.

    Attributes:
        name: Name of the split, as "task:split".
        rows: Rows of the split.
        stored: Predictions of the run, which were stored after the training.
    """

    name: str
    rows: SplitRows
    stored: Sequence[Prediction]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Comparison of an exported folder with the network of the run, and with its predictions.

    Attributes:
        sampled: Number of examples for which the logits (or vectors of a retrieval model) of
            transformers were compared with those of the run's network; 0 if no transformers class
            can load the model.
        apart: Largest absolute difference between two compared logits or numbers of a vector.
        rows: Number of examples whose predictions were compared with the stored ones; 0 for a
            retrieval model.
        differ: Number of predictions that differ from the stored ones.
        largest_change: Largest change of a probability, of a predicted number, or of a span's
            no-answer score.
        unexplained: Number of predictions that differ by more than rounding in the run's precision
            explains.
    """

    sampled: int
    apart: float
    rows: int
    differ: int
    largest_change: float
    unexplained: int = 0

    @property
    def sentence(self) -> str:
        """Result of the comparison as a sentence for users."""
        if not self.sampled:
            return (
                f"checked with the run's own network: {self.differ} of {self.rows} predictions "
                f"differ from the stored ones{self._odd}."
            )
        if not self.rows:
            pairs = counted(self.sampled, "pair")
            return f"checked with transformers: vectors of {pairs} differ by {self.apart:.1g}."
        return (
            f"checked with transformers: the logits of {counted(self.sampled, 'row')} differ by at "
            f"most {self.apart:.1g}; {self.differ} of {self.rows} predictions differ from the "
            f"stored ones; the largest change of a probability is {self.largest_change:.1g}"
            f"{self._odd}."
        )

    @property
    def _odd(self) -> str:
        return f"; {self.unexplained} differ by more than rounding" if self.unexplained else ""


def check(model: TrainedModel, folder: Path, auto_class: str, dev: Sequence[Dev]) -> Checked:
    """Compare an exported folder, loaded by transformers, with the run's network in fp32.

    Logits are compared on a sample of the first split. Except for retrieval models, the predictions
    for all rows are compared with the stored ones too.

    Args:
        model: The run's network.
        folder: The exported folder.
        auto_class: Name of the transformers class that loads the folder.
        dev: Splits that the run has predicted.

    Returns:
        The comparison. Predictions may differ from the stored ones: this is no error here (see
        `require_stored_answers`).

    Raises:
        JobError: The folder cannot be loaded, its tokenizer or labels differ from the run's, or the
            logits differ too much. The message contains the likely cause.
    """
    kind = "text" if model.recipe.uses_decoder else model.task.head
    try:
        plain = PlainModel.load(folder, auto_class, kind)
    except (KeyError, RuntimeError, ValueError) as error:
        raise _wrong(model, f"{auto_class} cannot load it ({error})", "the weights") from error
    if fault := name_fault(plain, model.task):
        raise _wrong(model, fault, "the labels")
    tokens, rows = len(plain.tokenizer), plain.network.get_input_embeddings().num_embeddings
    if tokens > rows:
        fault = f"its tokenizer has {tokens} tokens, but its network only has {rows}"
        raise _wrong(model, fault, "a vocabulary that was cut for training and not restored")
    sampled, apart, found = 0, 0.0, list[Checked]()
    for each in dev:
        is_vector = plain.kind == "ranking"
        # For retrieval, a row is a pair of a query and a document.
        rows_read = model.head.learned(each.rows) if is_vector else each.rows
        read = _Read.of(model, plain, rows_read.examples)
        if not sampled:
            sample = _sample(read)
            sampled, apart = len(sample), _compare(model, plain, sample)
        if is_vector:
            continue
        answers = _answers(model, plain, read)
        found.append(_compared(model, read.examples, answers, each.stored))
    return replace(_together(found), sampled=sampled, apart=apart)


def _compared(
    model: TrainedModel,
    examples: Sequence[Any],
    answers: Sequence[Prediction],
    stored: Sequence[Prediction],
) -> Checked:
    """Compare predictions for the examples of a split with the stored predictions."""
    differ, change = compare_answers(model.task, answers, stored)
    unexplained = _unexplained(model, examples, answers, stored)
    return Checked(
        sampled=0,
        apart=0.0,
        rows=len(answers),
        differ=differ,
        largest_change=change,
        unexplained=unexplained,
    )


def _together(splits: Sequence[Checked]) -> Checked:
    return Checked(
        sampled=0,
        apart=0.0,
        rows=sum(each.rows for each in splits),
        differ=sum(each.differ for each in splits),
        largest_change=max((each.largest_change for each in splits), default=0.0),
        unexplained=sum(each.unexplained for each in splits),
    )


# Compare predictions with the stored ones.

EXACT = 1e-3
"""Largest change of a probability, or relative change of a predicted number, that is explained by
rounding in fp32 on another machine.
"""

TIMES = 4
"""Factor by which the effect of rounding in the run's precision may be larger on another machine
than on this one. It applies to the size of changes and to the number of changed rows.
"""

FARTHEST = 0.1
"""Largest change of a probability, or relative change of a predicted number, that is explained by
rounding if it occurs in more than a few rows.
"""


def _unexplained(
    model: TrainedModel,
    examples: Sequence[Any],
    answers: Sequence[Prediction],
    stored: Sequence[Prediction],
) -> int:
    """Return how many fp32 predictions differ from the stored ones by more than rounding explains.

    For a run in a lower precision, the effect of bf16 is measured on this machine, with the same
    network and rows. A change may reach EXACT plus TIMES the 99th percentile of the measured
    changes, but at most FARTHEST. (The maximum is not used, because a single row may change much
    more than all others.) Larger changes are accepted in TIMES as many rows as have such a change
    in this measurement, but at most in a tenth of the rows.

    Some predictions, such as spans, have no numbers that could be compared. Such predictions may
    differ in one row of 1,000, in three more rows whose best two answers are nearly equal (at most
    a tenth of a small split), and in TIMES as many rows as differ in the measurement.
    """
    count, reach, far = len(examples), EXACT, 0
    few = count // 1000 + min(3, count // 10)
    changes, others = moves(model.task, answers, stored)
    if model.job.precision != "fp32" and (others or max(changes, default=0.0) > reach):
        # tf32 rounds less than bf16, but needs a GPU, so bf16 is measured for it too.
        rough = replace(model, compute=replace(model.compute, precision="bf16"))
        rounded, flipped = moves(model.task, predict(rough, examples).predictions, answers)
        reach = min(reach + TIMES * float(np.quantile(rounded, 0.99)), FARTHEST)
        far = min(TIMES * sum(change > reach for change in rounded), count // 10)
        few += TIMES * flipped
    return max(0, sum(change > reach for change in changes) - far) + max(0, others - few)


def check_own(model: TrainedModel, dev: Sequence[Dev]) -> Checked:
    """Compare the predictions of the run's own network in fp32 with the stored ones.

    This check is for models that no transformers class can load. For a retrieval model, nothing is
    compared.

    Args:
        model: The run's network.
        dev: Splits that the run has predicted.

    Returns:
        The comparison, with `sampled` 0.
    """
    found = list[Checked]()
    for each in dev if model.task.kind != "ranking" else ():
        examples = each.rows.examples
        answers = predict(model, examples).predictions
        found.append(_compared(model, examples, answers, each.stored))
    return _together(found)


def require_stored_answers(model: TrainedModel, checked: Checked) -> None:
    """Raise JobError if predictions differ from the stored ones by more than rounding explains.

    Args:
        model: The run's network.
        checked: Comparison of the network's predictions with the stored ones.
    """
    if checked.unexplained:
        key = model.job.key[:12]
        raise _wrong(
            model,
            f"{checked.unexplained} of {checked.rows} predictions differ from the stored ones by "
            f"more than rounding in {model.job.precision}, a probability by up to "
            f"{checked.largest_change:.1g}",
            f"that these are not the final weights of the run: delete {model.folder} and run "
            f"`bench model {key} --retrain`, or pass --retrain-anyway to export this model anyway",
        )


def scale_of(model: TrainedModel) -> tuple[float, float]:
    """Return the offset and the factor that an export builds into the last layer for regression.

    In a run, the network predicts numbers on a normalized scale. In an exported model, the last
    layer applies the offset and the factor, so its outputs are on the scale of the task. If the
    layer has no bias (GPT), the offset is 0. For other tasks, and for text-to-text models, the
    result is UNSCALED (offset 0, factor 1).
    """
    task, network = model.task, model.network
    if model.recipe.uses_decoder or not isinstance(task, PairTask) or not task.is_regression:
        return UNSCALED
    output: Any = network.get_submodule("classifier.output")
    return (task.scale[0] if output.bias is not None else 0.0, task.scale[1])


def task_of_logits(task: Any, in_last_layer: tuple[float, float]) -> Any:
    """Return a copy of a task with which the logits of an exported model can be decoded.

    For a regression task, its scale contains only the part that the last layer does not apply.

    Args:
        task: Task of the model.
        in_last_layer: Offset and factor that the last layer applies: the result of `scale_of`.
    """
    if task.kind != "number":
        return task
    return replace(task, scale=(0.0 if in_last_layer[0] else task.scale[0], 1.0))


def _wrong(model: TrainedModel, what: str, cause: str) -> JobError:
    run = f"run {model.job.key[:12]} of {model.job.model}"
    return JobError(f"{run} was not exported: {what}. The likely cause is {cause}.")


def name_fault(plain: PlainModel, task: Task) -> str:
    """Describe how the labels in a model's config differ from the task's; "" if they do not.

    Only labels of classes and of tags are compared.
    """
    config, names = plain.network.config, getattr(task, "tags", getattr(task, "labels", ()))
    known = [name for _, name in sorted(config.id2label.items())]
    is_wrong = names and plain.kind in ("pair", "tag") and known != [*names]
    return (
        f"its config names the outputs {known}, but the task names them {names}" if is_wrong else ""
    )


# Encode rows with the tokenizer alone, and as the run encodes them.


@dataclass(frozen=True, kw_only=True)
class _Read:
    """Examples, their features, and the rows that a tokenizer alone returns for each example.

    A tokenizer alone cannot make some rows of the run, because the run never truncates a question,
    never leaves an option without context, and reads the document around a sentence. These rows are
    copied from the features, and `by_ids` is True for their examples.
    """

    examples: Sequence[Any]
    features: Features
    rows: Sequence[Sequence[Row]]
    by_ids: NDArray[np.bool_]

    @classmethod
    def of(cls, model: TrainedModel, plain: PlainModel, examples: Sequence[Any]) -> Self:
        """Encode examples with the run's head, and with the tokenizer alone."""
        features: Any = model.head.encode(examples, model.tokenizer, model.limits)
        if plain.kind == "tag" and model.recipe.tag and model.recipe.tag.context == DOCUMENT:
            rows = [own_rows(features, range(len(features)))]  # rows of all examples in one list
            return cls(examples=examples, features=features, rows=rows, by_ids=np.array([True]))
        by_ids = np.zeros(len(examples), dtype=np.bool_)
        if plain.kind == "span":
            by_ids = features.truncated | np.array([example.lead > 0 for example in examples])
        elif plain.kind == "choice":
            by_ids[:] = [not plain.has_room(example) for example in examples]
        return cls(
            examples=examples,
            features=features,
            rows=[
                own_rows(features, range(*starts_of(features)[number : number + 2]))
                if is_own
                else plain.rows(model.task, example, model.limits)
                for number, (example, is_own) in enumerate(zip(examples, by_ids, strict=True))
            ],
            by_ids=by_ids,
        )

    @property
    def all_rows(self) -> list[Row]:
        """Rows of all examples, in the order of the features."""
        return [row for rows in self.rows for row in rows]

    def name(self, row: int) -> str:
        """Return the id of the example to which a row belongs."""
        ends = np.cumsum([len(rows) for rows in self.rows])
        return str(self.examples[min(int(np.searchsorted(ends, row, "right")), len(ends) - 1)].id)


def starts_of(features: Any) -> Any:
    """Return the index of each example's first row, followed by the number of all rows.

    A row is a token sequence. This function must not be used if a row contains several examples
    (sentences of a document).

    Args:
        features: Examples that the run's head has encoded.
    """
    return getattr(features, "windows", features.item_starts)


def own_rows(features: Features, rows: Iterable[int]) -> list[Row]:
    """Return the rows with some indices: each row's token ids and token types.

    Args:
        features: Examples that the run's head has encoded.
        rows: Indices of the rows.
    """
    columns = {"input_ids": features.token_ids, "token_type_ids": features.token_types}
    known = {name: column for name, column in columns.items() if column is not None}
    edges = [slice(*features.starts[row : row + 2]) for row in rows]
    return [{name: column[edge].tolist() for name, column in known.items()} for edge in edges]


def _sample(read: _Read) -> list[Any]:
    """Return up to SAMPLE examples of all lengths, including the longest and the shortest."""
    examples = read.examples
    if len(read.rows) < len(examples):  # a row is a window with several sentences of a document
        lengths = np.array([len(example.words) for example in examples])
        known = np.arange(len(examples))
    else:
        lengths = np.array([max(len(row["input_ids"]) for row in rows) for rows in read.rows])
        known = np.flatnonzero(~read.by_ids) if not read.by_ids.all() else np.arange(len(examples))
    order = known[np.argsort(lengths[known], kind="stable")]
    places = np.linspace(0, len(order) - 1, min(SAMPLE, len(order))).astype(int)
    return [examples[number] for number in order[places]]


# Compare logits.


def _compare(model: TrainedModel, plain: PlainModel, examples: Sequence[Any]) -> float:
    """Return the largest difference of two logits; raise JobError if it is too large."""
    if plain.kind == "tag":
        # The exported model tags single sentences, without the context of their documents. So
        # compare it with the run's weights on single sentences.
        model = replace(model, head=TAG, recipe=replace(model.recipe, tag=None))
    read = _Read.of(model, plain, examples)
    rows, ours = read.all_rows, own_rows(read.features, range(len(read.features)))
    for number in range(max(len(rows), len(ours))):
        one_ids, own_ids = (_ids(each, number) for each in (rows, ours))
        if one_ids != own_ids:
            sizes = [len(one_ids), len(own_ids)]
            what = (
                f"the example {read.name(number)} has {sizes[0]} tokens with the exported "
                f"tokenizer, and {sizes[1]} in the run"
            )
            alike = sizes[0] == sizes[1]
            raise _wrong(model, what, "other tokens" if alike else "the length (model_max_length)")
    batches = _mixed(plain, read.features)
    largest = 0.0
    pairs = zip(plain.logits(rows, batches), _own_logits(model, read, batches), strict=True)
    for number, (one, own) in enumerate(pairs):
        apart = np.where(one > FORBIDDEN, np.abs(one - own), 0.0)  # NaN fails the next check
        if not (apart <= NEAR * np.maximum(1.0, np.abs(own))).all():
            place = np.unravel_index(int(apart.argmax()), apart.shape)[:-1]
            what = (
                f"for the example {read.name(number)}, transformers computes "
                f"{_numbers(one[place])}, but the run's network computes {_numbers(own[place])}"
            )
            same_types = rows[number].keys() == ours[number].keys()
            raise _wrong(model, what, _cause(plain, rows[number], same_types, one, own))
        largest = max(largest, float(apart.max()))
    return largest


def _ids(rows: Sequence[Row], number: int) -> list[int]:
    return rows[number]["input_ids"] if number < len(rows) else []


def _mixed(plain: PlainModel, features: Features) -> list[Indices]:
    """Return batches of rows of different lengths, so that most rows are padded."""
    if plain.network.config.model_type in SEES_PADDING:
        return [np.array([row]) for row in range(len(features))]
    order = np.argsort(-features.lengths, kind="stable")
    count = -(-len(order) // BATCH)
    return [order[start::count] for start in range(count)]


def _own_logits(model: TrainedModel, read: _Read, batches: Iterable[Indices]) -> list[Logits]:
    """Return the logits of each row like `PlainModel.logits`, but with the run's own network."""
    network: Any = model.network
    layout: Layout = "packed" if is_packed(network) else "padded"
    by_rows = replace(read.features, items=None)
    found: dict[int, Logits] = {}
    for batch in batches:
        part = Part.of(by_rows, batch, model.compute.device, layout=layout)
        mask = part.tensors["attention_mask"].bool()
        with torch.inference_mode():
            if model.recipe.uses_decoder:
                start = (
                    mask.new_full((len(mask), 1), 0).long()
                    + network.encoder.config.decoder_start_token_id
                )
                outputs = network.encoder(**part.inputs, decoder_input_ids=start).logits[:, 0]
            else:
                outputs = network(**part.inputs)
        for number, row, is_token in zip(batch.tolist(), outputs.cpu(), mask.cpu(), strict=True):
            each = row[is_token] if outputs.ndim == 3 else row.reshape(-1)
            found[number] = _scaled(model, each.float().numpy())
    return [found[number] for number in range(len(read.features))]


def _scaled(model: TrainedModel, logits: Logits) -> Logits:
    zero, one = scale_of(model)
    return logits if (zero, one) == UNSCALED else logits * one + zero


def _cause(plain: PlainModel, row: Row, same_types: bool, one: Logits, own: Logits) -> str:
    """Return the likely cause of different logits for equal token ids."""
    if not same_types:
        return "the token types (model_input_names)"
    (alone,) = plain.logits([row], [np.array([0])])
    if alone.shape == own.shape and np.allclose(alone, own, atol=NEAR):
        return "the side of the padding"
    if np.allclose(np.sort(one), np.sort(own), atol=NEAR):
        return "the order of the labels"
    if plain.network.config.problem_type == "regression":
        return "the scale of the number"
    return "the vocabulary or other weights"


def _numbers(logits: Logits) -> str:
    return ", ".join(f"{number:.4f}" for number in logits[:4])


def _answers(model: TrainedModel, plain: PlainModel, read: _Read) -> Sequence[Prediction]:
    """Decode transformers' logits, or the texts that it generates, into predictions."""
    rows = read.all_rows
    if plain.kind == "text":
        said = plain.answers(rows, plain.batches(rows))
        cast = cast_of(model.task)
        return [cast.read(answer, e) for answer, e in zip(said, read.examples, strict=True)]
    logits, task = plain.decodable(rows), task_of_logits(model.task, scale_of(model))
    return model.head.decode(logits, read.features, read.examples, task)
