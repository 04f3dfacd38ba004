"""Task that measures the speed, memory use and energy of an encoder, with documents and results."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

from benchharness.tasks.examples import Example, PairExample, Prediction
from benchharness.tasks.sources.source import Row
from benchharness.tasks.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class TimedExample(PairExample):
    """Document on which encoders are timed.

    The document consists of `tokens` random tokens. If `tokens` is 0, it consists of the texts
    `text_a` and `text_b`.
    """

    text_a: str = ""
    label: str | float | tuple[str, ...] | None = ""
    tokens: int = 0

    @property
    def content(self) -> Hashable:
        """The texts and marked spans of the example if it has a text, else its id."""
        return super().content if self.text_a else self.id


@dataclass(frozen=True, kw_only=True)
class TimedPrediction(Prediction):
    """Measurements of time, memory and energy for one document.

    Times are in seconds. Times and energy are medians over several passes.

    Attributes:
        tokens: Number of tokens without padding.
        train: Three times for a training pass over all documents: the encoder's wall time, its CPU
            time (0 on a GPU), and the reference model's CPU time (on a GPU, its wall time). The
            last one is computed from the median ratio between the times of the two models in the
            same pass. The values are this document's share of these times, in proportion to its
            number of tokens.
        predict: The same three times for a prediction pass.
        alone: Wall time and CPU time (0 on a GPU) for predicting this document alone. If there are
            more than 100 documents, only 100 of them are measured, and each other document has the
            times of the nearest of these in the order of the documents.
        peaks: Peak memory of the process in bytes, first during prediction, then during training.
            It is measured for the whole split, so all documents have the same values.
        largest: Number of documents in the largest micro-batch with which training fits on the
            GPU; 0 on a CPU, or if not even one document fits. All documents have the same value.
        joules: This document's share of the energy of a prediction pass and of a training pass, in
            joules. It is the energy of the whole GPU, or on a CPU of all processor packages and
            their memory; 0 if it cannot be measured.
    """

    tokens: int
    train: tuple[float, float, float]
    predict: tuple[float, float, float]
    alone: tuple[float, float]
    peaks: tuple[int, int]
    largest: int = 0
    joules: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class TimedTask(Task):
    """Task that measures the speed and memory use of an encoder on documents."""

    convert: Callable[[Row], TimedExample]
    metrics: tuple[Metric[TimedPrediction, TimedExample], ...]
    details: tuple[Metric[TimedPrediction, TimedExample], ...] = ()
    head: ClassVar[str] = "timed"
    example: ClassVar[type[Example]] = TimedExample
    is_measured: ClassVar[bool] = True

    def usual_limit(self, *, is_gpu: bool) -> int:
        """Return the number of documents that are timed if `--limit` is not given.

        With this number, one pass takes a few seconds, and all passes together take minutes.
        """
        return 1024 if is_gpu else 8
