"""Tasks from papers on encoders: retrieval (BEIR), efficiency, and a needle in a haystack.

BEIR's data sets are scored on the split that the paper uses, which is dev for MS MARCO and test for
the others. CQADupstack is left out, because its score is the mean over twelve data sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np

from benchharness.tasks.examples import PairExample, QueryExample, TimedExample, TimedPrediction
from benchharness.tasks.glue import GLUE_TASKS
from benchharness.tasks.metrics import accuracy, by_category, mrr_10, ndcg_10, recall_100
from benchharness.tasks.sources.beir import NO_QUERY
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.sources.source import Row, Source, Split, number, text
from benchharness.tasks.task import Metric, PairTask, RankingTask, TimedTask

# Retrieval: BEIR (Thakur et al., NeurIPS 2021), and custom data in BEIR's layout.

_CITE = "Thakur et al., BEIR, NeurIPS Datasets and Benchmarks 2021"

# Data sets of BEIR, each as (folder, title in papers, splits for training and scoring).
_SETS = (
    ("msmarco", "MS MARCO", "train dev"),
    ("trec-covid", "TREC-COVID", "test"),
    ("nfcorpus", "NFCorpus", "train test"),
    ("nq", "NQ", "test"),
    ("hotpotqa", "HotpotQA retrieval", "train test"),
    ("fiqa", "FiQA", "train test"),
    ("arguana", "ArguAna", "test"),
    ("webis-touche2020", "Touche-2020", "test"),
    ("quora", "Quora", "test"),
    ("dbpedia-entity", "DBPedia", "test"),
    ("scidocs", "SCIDOCS", "test"),
    ("fever", "FEVER", "train test"),
    ("climate-fever", "Climate-FEVER", "test"),
    ("scifact", "SciFact", "train test"),
)

_MINI = "mini"
"""Folder of the bundled mini data, which can replace the files of every BEIR data set."""


def _query(row: Row) -> QueryExample:
    found: Any = row
    return QueryExample(
        id=text(row, "id"),
        text=found["text"] or "",
        relevant=found["relevant"],
        documents=found["corpus"].digest,
        corpus=found["corpus"],
    )


def _has_no_query(_split: str, example: QueryExample) -> bool:
    """Return whether the judgements refer to a missing query; trec_eval skips such queries."""
    return NO_QUERY in example.oddities


def _set(suite: str, folder: str, title: str, splits: str, hub: str) -> RankingTask:
    return RankingTask(
        name=f"{suite}/{folder}",
        title=title,
        source=Source(
            hub=hub,
            config="default",
            revision="main",
            home="beir",
            format="beir",
            splits={
                name: Split(
                    hub="validation" if name == "dev" else name,
                    files=tuple(f"{place}/qrels/{name}.tsv" for place in (folder, _MINI)),
                )
                for name in splits.split()
            },
        ),
        convert=_query,
        metrics=(ndcg_10,),
        details=(recall_100, mrr_10),
        leaves_out=_has_no_query,
        cite=_CITE,
    )


BEIR_TASKS = tuple(
    _set("beir", folder, title, splits, f"BeIR/{folder}") for folder, title, splits in _SETS
)

OWN_FOLDER = _set("retrieval", "folder", "Retrieval", "train test", "")
"""Task for custom data in BEIR's layout, in a folder with any name."""


# Efficiency: documents on which encoders are timed. A document consists of random tokens, with the
# lengths in ModernBERT's table (AnswerDotAI/ModernBERT 8c57a0f, efficiency/multiprocess_bench.py),
# or of the texts of another task.

DOCUMENTS = 8192
"""Number of documents in each efficiency task; `--limit` reduces it."""

MINI = 8
"""Number of documents in the mini data, and the factor by which these documents are shorter."""

_SEED, _SHORTEST = 42, 16

TimedMetric = Metric[TimedPrediction, TimedExample]
Phase = Literal["train", "predict"]


def _documents(mean: int, spread: int, longest: int, _: str, place: Path | None) -> list[Row]:
    """Return documents whose lengths are sampled from a normal distribution and then clipped.

    The lengths are clipped as in the script of ModernBERT's paper.
    """
    scale = MINI if place == mini_folder() else 1
    draw = Random(_SEED)  # noqa: S311  (not used for security)
    drawn = (round(draw.gauss(mean, spread) / scale) for _ in range(DOCUMENTS))
    lengths = [min(max(n, _SHORTEST), longest // scale) for n in drawn]
    kept = lengths[:MINI] if scale > 1 else lengths
    return [{"id": f"document {i}", "tokens": n} for i, n in enumerate(kept, start=1)]


def _document(row: Row) -> TimedExample:
    return TimedExample(id=text(row, "id"), tokens=number(row, "tokens"))


def _own(convert: Callable[[Row], PairExample], row: Row) -> TimedExample:
    found = convert(row)
    return TimedExample(id=found.id, text_a=found.text_a, text_b=found.text_b)


# Efficiency metrics. They use CPU time if it was measured, because wall time also depends on other
# processes.


def _speed(phase: Phase) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        clock, processor, reference = map(sum, zip(*_times(predictions, phase), strict=True))
        return reference / (processor or clock)

    return _metric(f"{phase}_speed", compute)


def _times(predictions: Sequence[TimedPrediction], phase: Phase) -> list[tuple[float, ...]]:
    return [p.train if phase == "train" else p.predict for p in predictions]


def _rate(phase: Phase, place: int, unit: str) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float | None:
        seconds = sum(times[place] for times in _times(predictions, phase))
        return sum(p.tokens for p in predictions) / seconds if seconds else None

    return _metric(f"{phase}_tokens_per_{unit}", compute)


def _latency(name: str, share: float) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        return 1000 * float(np.quantile([p.alone[0] for p in predictions], share))

    return _metric(name, compute)


def _peak(phase: Phase, place: int) -> TimedMetric:
    def compute(predictions: Sequence[TimedPrediction], _: object) -> float:
        return max(p.peaks[place] for p in predictions) / 1e6

    return _metric(f"{phase}_peak_mb", compute)


def _largest(predictions: Sequence[TimedPrediction], _: object) -> float | None:
    return float(predictions[0].largest) or None


def _metric(name: str, compute: Any) -> TimedMetric:
    # `is_slow` prevents bootstrap intervals: resampling documents does not show how much repeated
    # measurements vary.
    return Metric(name=name, compute=compute, bounds=(0.0, inf), is_slow=True)


SPEEDS = ("predict_speed", "train_speed")
"""Metrics that count for the score: throughput divided by the reference model's throughput."""

_METRICS = (_speed("predict"), _speed("train"))
_DETAILS = (
    *(_rate("predict", 0, "second"), _rate("train", 0, "second")),
    *(_rate("predict", 1, "cpu_second"), _rate("train", 1, "cpu_second")),
    *(_latency("p50_ms", 0.5), _latency("p95_ms", 0.95)),
    *(_peak("predict", 0), _peak("train", 1)),
    _metric("largest_batch", _largest),
)


def _drawn(name: str, title: str, mean: int, spread: int, longest: int) -> TimedTask:
    return TimedTask(
        name=f"efficiency/{name}",
        title=title,
        source=Source(
            hub="",
            config=name,
            revision="main",
            splits={"dev": Split(hub="", files=())},
            reader=partial(_documents, mean, spread, longest),
        ),
        convert=_document,
        metrics=_METRICS,
        details=_DETAILS,
        longest=longest,
        cite="Warner et al., ModernBERT, 2024, section 4",
    )


_MNLI = next(task for task in GLUE_TASKS if task.name == "glue/mnli")

EFFICIENCY_TASKS = (
    _drawn("fixed-512", "512 tokens", 512, 0, 512),
    _drawn("drawn-256", "N(256, 64) tokens", 256, 64, 512),
    _drawn("fixed-8192", "8192 tokens", 8192, 0, 8192),
    TimedTask(
        name="efficiency/mnli-lengths",
        title="MNLI's lengths",
        source=replace(_MNLI.source, splits={"dev": _MNLI.source.splits["dev"]}),
        convert=partial(_own, _MNLI.convert),
        metrics=_METRICS,
        details=_DETAILS,
        cite=_MNLI.cite,
    ),
)


# Needle in a haystack: only one sentence of a long text contains the answer. The sentence and the
# question are from Mohtashami and Jaggi (Landmark Attention, NeurIPS 2023), except that the number
# is a word. The lengths are from LongEmbed (Zhu et al., EMNLP 2024), and the depths, in percent of
# the text, from Kamradt. Those works query an embedding or a language model, whereas here an
# encoder is fine-tuned. Other numbers occur all over the text, so single words do not reveal the
# answer. Pairs of words do ("is seven") at every length, so an encoder that fails at a length
# cannot read that far.

DEPTHS = range(0, 100, 10)
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")

_WHO = "farmer doctor teacher painter driver student singer nurse baker gardener"
_DID = "cleaned opened closed painted found lost bought sold saw broke"
_WHAT = "apples pears peaches coats hats gloves cars buses drums guitars"

SENTENCE = 6
"""Number of words and punctuation marks in every sentence, in the needle and in the question."""

_ROWS = {"train": 20, "dev": 5}
"""Number of rows per depth and answer, keyed by split."""


def _haystacks(length: int, split: str, place: Path | None) -> list[Row]:
    """Generate the rows of a needle task for one maximum length.

    A text and its question together have 15/16 * `length` words and punctuation marks. English
    tokenizers have a single token for each of these words. The remaining 1/16 leaves room for
    special tokens and split words. If a text is still too long, its end is truncated, which removes
    a needle only if more than a tenth of the text is lost. Training texts have between an eighth
    and all of the full length, because a network without pretraining learns from short texts first.
    Texts of the mini data are an eighth as long.
    """
    count = length * 15 // (16 * SENTENCE * (MINI if place == mini_folder() else 1)) - 1
    numbered = ("the",) * len(NUMBERS) + NUMBERS
    filler = [
        f"The {who} {did} {many} {what}."
        for who, did, many, what in product(_WHO.split(), _DID.split(), numbered, _WHAT.split())
    ]
    draw = Random(f"needle {length} {split}")  # noqa: S311  (not used for security)
    cells = [*product(DEPTHS, NUMBERS)] * _ROWS[split]
    rows: list[Row] = []
    for depth, number_ in sorted(cells, key=lambda _: draw.random()):
        share = min(1, (1 + 9 * draw.random() ** 2) / 8) if split == "train" else 1
        used = round(count * share)
        sentences = draw.choices(filler, k=used)
        sentences[used * depth // 100] = f"The pass key is {number_}."
        found = {"text": " ".join(sentences), "depth": depth, "label": number_}
        rows.append({"id": f"{split} {len(rows) + 1}", **found})
    return rows


def _asked(row: Row) -> PairExample:
    return PairExample(
        id=text(row, "id"),
        text_a=text(row, "text"),
        text_b="What is the pass key?",
        label=text(row, "label"),
        categories=(f"depth_{row['depth']}",),
    )


NEEDLE_TASKS = tuple(
    PairTask(
        name=f"needle/{length}",
        title=f"Needle {length}",
        source=Source(
            hub="",
            config=str(length),
            revision="main",
            splits={name: Split(hub="", files=()) for name in _ROWS},
            reader=partial(_haystacks, length),
        ),
        convert=_asked,
        labels=NUMBERS,
        metrics=(accuracy,),
        details=tuple(by_category(accuracy, f"depth_{depth}") for depth in DEPTHS),
        longest=length,
        cite="benchharness, after Zhu et al., LongEmbed, EMNLP 2024",
    )
    for length in (512, 1024, 2048, 4096, 8192)
)
