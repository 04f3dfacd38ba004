"""Compare the predictions and the cost of an exported model's variant with the original's."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer

from benchharness.errors import BenchError, DataError, first_line
from benchharness.extensions.kept_models.check import (
    name_fault,
    own_rows,
    scale_of,
    starts_of,
    task_of_logits,
)
from benchharness.extensions.kept_models.equivalence import Verdict, judge
from benchharness.extensions.kept_models.hf_model import OFFLINE, PlainModel, Row
from benchharness.extensions.kept_models.load import TrainedModel, load_trained
from benchharness.extensions.kept_models.onnx_files import OnnxNetwork
from benchharness.extensions.kept_models.save_pretrained import class_of
from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.leaderboard.comparing.contrast import Flip, flips_of
from benchharness.leaderboard.sharing import is_label
from benchharness.machine import cpu_model, library_versions
from benchharness.models.pickles import DAMAGED
from benchharness.recipes.classes import KINDS
from benchharness.splits import read_split
from benchharness.tasks.answers import answer_type, compare_answers
from benchharness.tasks.answers.base import CONSTANT
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.suites import SUITES, distinct_title
from benchharness.tasks.task import ChoiceTask, score
from benchharness.worker.job import peak_memory

STATUS = Path("/proc/self/status")

WEIGHTS = ("*.safetensors", "*.bin")
TIMED_ROWS, TIMED_BATCHES, LEFT_OUT, AT_ONCE = 120, 4, 5, 32
"""Numbers that determine what is timed. In order: the number of examples that are timed one by one,
the number of batches that are timed, the number of examples at the beginning whose times are
ignored (warm-up), and the number of rows per batch.
"""


def load_original(folder: Path) -> TrainedModel:
    """Load the run's own network from an exported folder, in fp32.

    Raises:
        BenchError: The model's variants cannot be compared, because no transformers class computes
            the same, or because the model generates text.
    """
    model, kind = load_trained(folder, precision="fp32"), "text-to-text answers have no logits"
    if lacking := class_of(model).sentence or (model.recipe.uses_decoder and kind):
        raise BenchError(f"{folder} cannot be compared: {lacking}.")
    return model


def dev_rows(model: TrainedModel, data: str = "") -> dict[str, tuple[Example, ...]]:
    """Read the rows on which a run was scored.

    Args:
        model: Model of the run.
        data: Source of the rows, as in `--data`; empty for the source that the run used.

    Returns:
        Examples of the development sets, keyed by split. If the task has no development set, those
        of the test sets.

    Raises:
        DataError: The rows are not found.
        BenchError: The labels of the rows are not published.
    """
    names = model.task.dev_splits or model.task.test_splits
    job = replace(model.job, data=data) if data else model.job
    if is_label(job.data) and not Path(job.data).exists():
        raise DataError(
            f"the rows were not found, because the model's folder contains only a shortened path, "
            f"{job.data}: pass the full path as --rows, in the format of --data-file or --data."
        )
    found = {n: read_split(job, f"{model.task.name}:{n}").examples for n in names}
    if any(example.is_hidden for examples in found.values() for example in examples):
        raise BenchError(f"the labels of {model.task.name} {' and '.join(names)} are hidden.")
    return found


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A transformers model, or an ONNX file that was made from one.

    Attributes:
        name: Name in tables.
        path: Folder of the model, or the ONNX file.
        plain: The loaded model with its tokenizer.
    """

    name: str
    path: Path
    plain: PlainModel

    def answers(
        self, original: TrainedModel, examples: Sequence[Example]
    ) -> tuple[list[list[Row]], tuple[Prediction, ...]]:
        """Predict examples.

        Args:
            original: The run's network, whose head encodes the examples and decodes the logits.
            examples: Examples of the task.

        Returns:
            The rows (token sequences) of each example, and its prediction.

        Raises:
            BenchError: A logit is not a finite number.
        """
        features = original.head.encode(examples, self.plain.tokenizer, original.limits)
        rows = own_rows(features, range(len(features)))
        logits = self.plain.decodable(rows)
        if not np.isfinite(logits).all():
            raise BenchError(f"{self.path} computes logits that are not finite.")
        task = task_of_logits(original.task, scale_of(original))
        grouped = [rows[start:end] for start, end in pairwise(starts_of(features))]
        return grouped, original.head.decode(logits, features, examples, task)

    @property
    def bytes(self) -> int:
        """Size of the weights on disk, in bytes."""
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(p.stat().st_size for pattern in WEIGHTS for p in self.path.glob(pattern))


def load_variant(path: Path, model: TrainedModel, name: str = "") -> Variant:
    """Load a folder in transformers' format, or an ONNX file in such a folder.

    Args:
        path: The folder or the ONNX file.
        model: The run's network with which the loaded model will be compared.
        name: Name in tables. If it is empty, the name is "int8" for an ONNX file with "qint8" in
            its name, "onnx" for model.onnx, the file's name without extension for any other ONNX
            file, and the name of the folder for a folder.

    Raises:
        BenchError: The model cannot be loaded, or is for another type of task or other labels.
    """
    folder = next((p for p in (path, *path.parents[:2]) if (p / "config.json").is_file()), None)
    kind = model.task.head
    if folder is None:
        raise BenchError(
            f"there is no config.json in {path} or above it: expected a transformers model for "
            f"{model.task.name}."
        )
    try:
        if path.is_file():
            config = AutoConfig.from_pretrained(folder, **OFFLINE)
            tokenizer = AutoTokenizer.from_pretrained(folder, **OFFLINE)
            plain = PlainModel(network=OnnxNetwork(path, config), tokenizer=tokenizer, kind=kind)
        else:
            plain = PlainModel.load(path, f"AutoModelFor{KINDS[kind]}", kind)
            plain.network.float().eval()
    except (*DAMAGED, SafetensorError) as error:
        raise BenchError(f"{path} cannot be loaded: {first_line(error)}") from error
    if fault := name_fault(plain, model.task):
        raise BenchError(f"{path} is not a model for this task: {fault} (id2label in config.json).")
    return Variant(name=name or _name(path), path=path, plain=plain)


def _name(path: Path) -> str:
    """Return the name in tables for a path (see `load_variant`)."""
    if path.suffix == ".onnx":
        return "int8" if "qint8" in path.stem else "onnx" if path.stem == "model" else path.stem
    return path.name


def variants_in(folder: Path) -> list[Path]:
    """Return the paths of the ONNX files in a folder and in its subfolder "onnx", sorted."""
    return sorted({*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")})


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of predictions on a single CPU thread, and the size of the model.

    Attributes:
        p50: Median processor time for a single example, in milliseconds.
        p95: 95th percentile of this time.
        rows_per_second: Rows per second of processor time, in batches of 32 rows of similar length.
        bytes: Size of the weights on disk.
        memory: Peak memory in bytes, without the memory of the libraries.
    """

    p50: float
    p95: float
    rows_per_second: float
    bytes: int
    memory: int


@dataclass(frozen=True, kw_only=True)
class Check:
    """Comparison of a variant of a model (e.g. an int8 ONNX file) with the original.

    Attributes:
        variant: Name of the variant.
        original: Name of the original.
        task: Name of the task.
        split: Names of the splits, separated by commas.
        scores: Score of the original, then that of the variant.
        verdict: Verdict on whether the variant is worse.
        differ: Number of examples for which the two predictions differ.
        flips: Examples for which only one of the two predictions is right.
        change: Largest change of a probability, of a predicted number, or of a span's no-answer
            score; None if the predictions have none of these.
        loss: Increase of the log loss of the correct labels, and half the width of its 95 %
            interval; None if the task has no probabilities.
        costs: Cost of the original, then that of the variant.
        time: Median over examples of the variant's processor time divided by the original's.
        tokens: Median and 95th percentile of the lengths of rows, in tokens.
        machine: Processor, number of threads and versions of libraries.
        flags: Warnings about the predictions of the original, such as that all are equal, so that a
            loss of the variant cannot be detected.
    """

    variant: str
    original: str
    task: str
    split: str
    scores: tuple[float, float]
    verdict: Verdict
    differ: int
    flips: tuple[Flip, ...]
    change: float | None
    loss: tuple[float, float] | None
    costs: tuple[Cost, Cost]
    time: float
    tokens: tuple[float, float]
    machine: Mapping[str, Any]
    flags: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Sentence with the verdict, and with the variant's relative time and size."""
        verdict, rows = self.verdict, f"95 %, {self.verdict.rows:,} rows"
        if verdict.lost is not None:
            rows += f"; {verdict.lost} now wrong, {verdict.gained} now right, {self.differ} differ"
        than = f"{self.original} on {distinct_title(self.task)}"
        size = self.costs[1].bytes / self.costs[0].bytes
        blind = f" {self.original} makes {CONSTANT}: this check cannot detect a loss."
        return (
            f"{self.variant}: {verdict.sentence(than)} ({rows}). It needs {self.time:.2f} of the "
            f"original's time per row, and has {size:.2f} of its size."
            f"{blind if CONSTANT in self.flags else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the sentence as JSON data."""
        return {**asdict(self), "sentence": self.sentence}


def check(
    model: TrainedModel,
    original: Variant,
    other: Variant,
    rows: Mapping[str, tuple[Example, ...]],
    margin: float | None = None,
) -> Check:
    """Compare the predictions, scores and costs of a variant with those of the original.

    Args:
        model: The run's network, whose head encodes the examples and decodes the logits.
        original: Original model.
        other: Variant of the model.
        rows: Examples, keyed by split. Times are measured on examples of the first split.
        margin: Loss of score that is accepted, as a fraction (0.01 is one point); None for
            `default_margin`.

    Raises:
        BenchError: There are no rows, a logit is not finite, the score cannot be split by example,
            or the margin is not between 0 and 1.
    """
    if not all(rows.values()) or not rows:
        raise BenchError(f"{model.task.name} has no rows on which predictions can be compared.")
    sides = (original, other)
    found = [
        {split: side.answers(model, examples) for split, examples in rows.items()} for side in sides
    ]
    task = model.task
    splits = [
        PredictedSplit(
            task=task,
            split=split,
            examples=examples,
            one=(found[0][split][1],),
            other=(found[1][split][1],),
        )
        for split, examples in rows.items()
    ]
    names = score_names(task.name, SUITES[task.suite].rule)
    pairs = [
        (e, one, two)
        for split in splits
        for e, one, two in zip(split.examples, *split.one, *split.other, strict=True)
    ]
    asked = [next(iter(each.values()))[0] for each in found]
    _, ones, others = zip(*pairs, strict=True)
    differ, change = compare_answers(task, others, ones)
    verdict, flags = judge(splits, names, margin), answer_type(task).flags(ones)
    if CONSTANT in flags:  # a model that has learned nothing cannot get worse
        verdict = replace(verdict, power=0.0)
    times, ratio = _times(sides, asked)
    lengths = [len(row["input_ids"]) for example in asked[0] for row in example]
    return Check(
        variant=other.name,
        original=original.name,
        task=task.name,
        split=", ".join(rows),
        scores=(_score(splits, names, "one"), _score(splits, names, "other")),
        verdict=verdict,
        differ=differ,
        flips=flips_of(splits) or (),
        change=change if answer_type(task).numbers(ones[0]) else None,
        loss=_loss(task, pairs),
        costs=(_cost(original, times[0], lengths), _cost(other, times[1], lengths)),
        time=ratio,
        tokens=(float(np.median(lengths)), float(np.quantile(lengths, 0.95))),
        machine={"processor": cpu_model(), "threads": 1, **library_versions()},
        flags=flags,
    )


def check_folder_with(
    folder: Path, other: Path | None = None, *, data: str = "", margin: float | None = None
) -> list[Check]:
    """Compare the model of an exported folder with its variants, on the rows of the run.

    Args:
        folder: The exported folder.
        other: ONNX file, or folder with a transformers model or ONNX files, that is compared with
            the model; None for the ONNX files in `folder`.
        data: Source of the rows, as in `--data`; empty for the source that the run used.
        margin: Loss of score that is accepted, as a fraction (0.01 is one point); None for
            `default_margin`.

    Returns:
        One comparison per variant.

    Raises:
        BenchError: There is nothing to compare, or `check` or `dev_rows` raises this error.
        DataError: The rows are not found.
    """
    model = load_original(folder)
    place = folder if other is None else other
    has_weights = any(any(place.glob(pattern)) for pattern in WEIGHTS)
    paths = [*([other] if other and (has_weights or other.is_file()) else ()), *variants_in(place)]
    if not paths:
        raise BenchError(f"{place} has neither an ONNX file nor another model to check.")
    original = load_variant(folder, model, "fp32")
    rows = dev_rows(model, data)
    return [check(model, original, load_variant(path, model), rows, margin) for path in paths]


def _score(splits: Sequence[PredictedSplit], names: Sequence[str], side: str) -> float:
    """Return the mean of the named scores over all splits; `side` is "one" or "other"."""
    found: dict[str, float] = {}
    for each in splits:
        (predictions,) = getattr(each, side)
        found |= score(each.task, each.split, predictions, each.examples)
    return fmean(found[name] for name in names)


Pairs = Sequence[tuple[Any, Any, Any]]
"""Triples of an example, the original's prediction and the variant's prediction."""


def _loss(task: Any, pairs: Pairs) -> tuple[float, float] | None:
    """Return the increase of the log loss, and half the width of its 95 % interval.

    The result is None for tasks that do not predict a probability of the correct label.
    """
    if task.kind == "class":
        places = [task.labels.index(example.label) for example, _, _ in pairs]
    elif isinstance(task, ChoiceTask):
        places = [example.gold[0] for example, _, _ in pairs]
    else:
        return None
    shares = np.array(
        [
            (one.scores[place], other.scores[place])
            for place, (_, one, other) in zip(places, pairs, strict=True)
        ]
    )
    larger = -np.diff(np.log(shares.clip(1e-12)), axis=1)
    reach = 1.96 * larger.std(ddof=1) / len(larger) ** 0.5 if len(larger) > 1 else np.inf
    return float(larger.mean()), float(reach)


# Costs are in processor time on one thread, because other programs may share the machine.


def _times(
    sides: Sequence[Variant], asked: Sequence[Sequence[Sequence[Row]]]
) -> tuple[list[tuple[float, float, float]], float]:
    """Measure the processor times of two models.

    Both models predict the same example one after the other, in alternating order, so that anything
    that slows the machine down affects both.

    Returns:
        For each model, the median and the 95th percentile of the seconds for a single example, and
        the number of rows per second. Then the median over examples of the second model's time
        divided by the first model's.
    """
    chosen = np.linspace(0, len(asked[0]) - 1, min(TIMED_ROWS, len(asked[0]))).astype(int).tolist()
    singly = [[rows[place] for place in chosen] for rows in asked]
    together = [_in_batches(rows) for rows in asked]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = _turns(sides, singly)
        counted = alone[min(LEFT_OUT, len(alone) - 1) :]
        whole = _turns(sides, together).sum(axis=0)
    finally:
        torch.set_num_threads(threads)
    sizes = [sum(map(len, batches)) for batches in together]
    found = [
        (*np.quantile(counted[:, side], [0.5, 0.95]).tolist(), sizes[side] / whole[side])
        for side in (0, 1)
    ]
    return found, float(np.exp(np.median(np.log(counted[:, 1] / counted[:, 0]))))


def _in_batches(asked: Sequence[Sequence[Row]]) -> Sequence[Sequence[Row]]:
    """Return some batches of AT_ONCE rows with similar lengths."""
    rows = sorted((row for rows in asked for row in rows), key=lambda row: len(row["input_ids"]))
    batches = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
    return batches[:: max(1, len(batches) // TIMED_BATCHES)]


def _turns(sides: Sequence[Variant], given: Sequence[Sequence[Sequence[Row]]]) -> Any:
    """Return the processor seconds of each of two models for each batch, `[batches, 2]`."""
    found = np.empty((len(given[0]), 2))
    for place in range(len(found)):
        for side in (0, 1) if place % 2 else (1, 0):
            rows = given[side][place]
            began = time.process_time()
            sides[side].plain.logits(rows, [np.arange(len(rows))])
            found[place, side] = time.process_time() - began
    return found


def _cost(variant: Variant, times: tuple[float, float, float], lengths: Sequence[int]) -> Cost:
    p50, p95, rows_per_second = times
    return Cost(
        p50=1000 * p50,
        p95=1000 * p95,
        rows_per_second=rows_per_second,
        bytes=variant.bytes,
        memory=_memory(variant, max(lengths)),
    )


def _memory(variant: Variant, tokens: int) -> int:
    """Return the peak memory that a separate process needs for 32 rows of `tokens` tokens."""
    names = ("input_ids", "attention_mask", "token_type_ids")
    known = [name for name in names if name in variant.plain.tokenizer.model_input_names]
    kind = variant.plain.kind
    words = [str(variant.path), kind, str(tokens), *known]
    code = f"from {__name__} import tell_memory; tell_memory()"
    told = subprocess.run(  # noqa: S603  (this Python)
        [sys.executable, "-c", code, *words], capture_output=True, check=True, text=True
    )
    return int(told.stdout.split()[-1])


def tell_memory() -> None:
    """Print the peak memory, in bytes, that a model needs for a batch of AT_ONCE (32) rows.

    This is the main function of a separate process. The arguments in `sys.argv` are the path of the
    model, the type of its head, the number of tokens per row, and the names of its inputs.
    """
    path, kind, tokens, *names = sys.argv[1:]
    before = _own_peak()
    if Path(path).is_file():
        network: Any = OnnxNetwork(Path(path), None)
    else:
        auto_class: Any = getattr(transformers, f"AutoModelFor{KINDS[kind]}")
        network = auto_class.from_pretrained(path, **OFFLINE).eval()
    shape = (1, AT_ONCE, int(tokens)) if kind == "choice" else (AT_ONCE, int(tokens))
    with torch.inference_mode():
        network(**{name: torch.full(shape, name != "token_type_ids").long() for name in names})
    sys.stdout.write(f"{_own_peak() - before}\n")


def _own_peak() -> int:
    """Return the peak memory of this process since its start, in bytes.

    Linux's getrusage would also count the memory of the parent process.
    """
    if STATUS.is_file():
        found = STATUS.read_text(encoding="utf-8").partition("VmHWM:")[2]
        return 1024 * int(found.split()[0])
    return peak_memory()
