"""A variant of a taken model beside the original: answers, speed, size and memory."""

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
from benchharness.tasks.errors import BenchError, DataError, first_line
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.suites import SUITES, distinct_title
from benchharness.tasks.task import ChoiceTask, score
from benchharness.worker.job import peak_memory

STATUS = Path("/proc/self/status")

WEIGHTS = ("*.safetensors", "*.bin")
TIMED_ROWS, TIMED_BATCHES, LEFT_OUT, AT_ONCE = 120, 4, 5, 32
"""Examples that are timed alone, and batches; examples that are not counted, rows of a batch."""


def load_original(folder: Path) -> TrainedModel:
    """The run's own network of a taken folder; BenchError where no class answers as it does."""
    model, kind = load_trained(folder, precision="fp32"), "text to text has no logits of answers"
    if lacking := class_of(model).sentence or (model.recipe.text and kind):
        raise BenchError(f"{folder} cannot be compared: {lacking}.")
    return model


def dev_rows(model: TrainedModel, data: str = "") -> dict[str, tuple[Example, ...]]:
    """The dev rows that a run was scored on, by split; `data` is where they are now."""
    names = model.task.dev_splits or model.task.test_splits
    job = replace(model.job, data=data) if data else model.job
    if is_label(job.data) and not Path(job.data).exists():
        raise DataError(
            f"the rows are not found: a model's folder does not say where {job.data} lies. Give "
            "them by --rows, as --data-file or --data had them."
        )
    found = {n: read_split(job, f"{model.task.name}:{n}").examples for n in names}
    if any(example.is_hidden for examples in found.values() for example in examples):
        raise BenchError(f"{model.task.name} hides the labels of {' and '.join(names)}.")
    return found


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A network of one of transformers' classes, or an ONNX file of one, with its tokenizer."""

    name: str
    path: Path
    plain: PlainModel

    def answers(
        self, original: TrainedModel, examples: Sequence[Example]
    ) -> tuple[list[list[Row]], tuple[Prediction, ...]]:
        """The rows of each example, and what is answered; BenchError for logits not finite."""
        features = original.head.encode(examples, self.plain.tokenizer, original.limits)
        rows = own_rows(features, range(len(features)))
        logits = self.plain.decodable(rows)
        if not np.isfinite(logits).all():
            raise BenchError(f"{self.path} gives logits that are not finite: it has no answers.")
        task = task_of_logits(original.task, scale_of(original))
        grouped = [rows[start:end] for start, end in pairwise(starts_of(features))]
        return grouped, original.head.decode(logits, features, examples, task)

    @property
    def bytes(self) -> int:
        """Of the weights on the disk."""
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(p.stat().st_size for pattern in WEIGHTS for p in self.path.glob(pattern))


def load_variant(path: Path, model: TrainedModel, name: str = "") -> Variant:
    """A folder that transformers loads, or an ONNX file in one.

    Raises BenchError where it cannot be loaded, or answers another kind of task or other labels.
    """
    folder = next((p for p in (path, *path.parents[:2]) if (p / "config.json").is_file()), None)
    kind = model.task.head
    if folder is None:
        raise BenchError(
            f"{path} has no config.json in it or above it: expected a model of transformers for "
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
        raise BenchError(f"{path} is another model: {fault} (id2label in config.json).")
    return Variant(name=name or _name(path), path=path, plain=plain)


def _name(path: Path) -> str:
    """As people call the files of a taken folder: "onnx", "int8"; else the name it has."""
    if path.suffix == ".onnx":
        return "int8" if "qint8" in path.stem else "onnx" if path.stem == "model" else path.stem
    return path.name


def variants_in(folder: Path) -> list[Path]:
    """The ONNX files of a folder, by name."""
    return sorted({*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")})


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one answer takes of a processor's one thread, and what the model takes of the machine.

    Milliseconds of the processor for a row alone, rows a second in batches of 32 sorted rows; bytes
    on the disk, and of memory above those of the libraries, at most.
    """

    p50: float
    p95: float
    rows_per_second: float
    bytes: int
    memory: int


@dataclass(frozen=True, kw_only=True)
class Check:
    """A variant beside the original.

    `differ` answers are others, `flips` those of them that are wrong now or right now. `change` is
    the largest of a probability or a number, and `loss` how much larger its log loss is, with its
    error; None where there are none. `time` is the median over rows of the ratio of processor
    times. `tokens` are the median and the 95th percentile of the rows' lengths. `flags` are what
    must be known of the original's answers: where all are one, no loss of a variant can be seen.
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
        """The verdict as a sentence, with what it costs and what it saves."""
        verdict, rows = self.verdict, f"95 %, {self.verdict.rows:,} rows"
        if verdict.lost is not None:
            rows += f"; {verdict.lost} wrong now, {verdict.gained} right now, {self.differ} differ"
        than = f"{self.original} on {distinct_title(self.task)}"
        size = self.costs[1].bytes / self.costs[0].bytes
        blind = f" {self.original} gives {CONSTANT}: this check can find nothing."
        return (
            f"{self.variant}: {verdict.sentence(than)} ({rows}), {self.time:.2f} of the time of a "
            f"row, {size:.2f} of the size.{blind if CONSTANT in self.flags else ''}"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "sentence": self.sentence}


def check(
    model: TrainedModel,
    original: Variant,
    other: Variant,
    rows: Mapping[str, tuple[Example, ...]],
    margin: float | None = None,
) -> Check:
    """The variant beside the original on rows of the model's task, by split.

    Raises BenchError where there are none, a logit is not finite, or the score has no parts.
    """
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
    if CONSTANT in flags:  # what learned nothing has nothing to lose
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
    """The ONNX files of a taken folder beside its model, or those and the model of another folder.

    `data` is where the rows are now, as for a run. Raises BenchError where there is nothing to
    compare, or as `check`.
    """
    model = load_original(folder)
    place = folder if other is None else other
    has_weights = any(any(place.glob(pattern)) for pattern in WEIGHTS)
    paths = [*([other] if other and (has_weights or other.is_file()) else ()), *variants_in(place)]
    if not paths:
        raise BenchError(f"{place} has no ONNX file and no other model: there is nothing to check.")
    original = load_variant(folder, model, "fp32")
    rows = dev_rows(model, data)
    return [check(model, original, load_variant(path, model), rows, margin) for path in paths]


def _score(splits: Sequence[PredictedSplit], names: Sequence[str], side: str) -> float:
    """The mean of the scores that count, of all splits."""
    found: dict[str, float] = {}
    for each in splits:
        (predictions,) = getattr(each, side)
        found |= score(each.task, each.split, predictions, each.examples)
    return fmean(found[name] for name in names)


Pairs = Sequence[tuple[Any, Any, Any]]
"""Examples, each with the prediction of the original and that of the variant."""


def _loss(task: Any, pairs: Pairs) -> tuple[float, float] | None:
    """How much larger the log loss of the right answer is, and the reach of its 95 % interval."""
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


# What they take: of one thread, because a machine that others use too has no idle clock.


def _times(
    sides: Sequence[Variant], asked: Sequence[Sequence[Sequence[Row]]]
) -> tuple[list[tuple[float, float, float]], float]:
    """Of each side p50 and p95 of an example alone, in processor seconds, and rows a second.

    The last is the median over examples of how much longer the second took. Both are asked the same
    example one after the other, in an order that turns: whatever slows the machine down meets both.
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
    """Some batches of 32 rows each, of like lengths."""
    rows = sorted((row for rows in asked for row in rows), key=lambda row: len(row["input_ids"]))
    batches = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
    return batches[:: max(1, len(batches) // TIMED_BATCHES)]


def _turns(sides: Sequence[Variant], given: Sequence[Sequence[Sequence[Row]]]) -> Any:
    """The processor seconds of each batch of rows, (batches, 2)."""
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
    """The most that a process of its own takes for it and a batch of 32 of the longest rows."""
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
    """Prints what a model takes, in bytes; argv has its path, head type, tokens and inputs."""
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
    """Since this program began; Linux's getrusage also counts what the one that started it held."""
    if STATUS.is_file():
        found = STATUS.read_text(encoding="utf-8").partition("VmHWM:")[2]
        return 1024 * int(found.split()[0])
    return peak_memory()
