"""SNLI in the official JSON lines, with the "-" of rows on which the annotators split."""

from pathlib import Path
from random import Random

from tasks.mini.drawing import Pair, draw_splits
from tasks.mini.inference import draw_inference
from tasks.mini.parsing import flat_parses
from tasks.mini.writing import write_json_lines

__all__ = ["write_snli"]

SIZES = (700, 160, 80)
NO_MAJORITY = ("entailment", "entailment", "neutral", "neutral", "contradiction")


def write_snli(folder: Path) -> None:
    """Write snli_1.0_{train,dev,test}.jsonl; the test labels are public."""
    splits = draw_splits("snli", _draw, SIZES)
    for name, pairs in zip(("train", "dev", "test"), splits, strict=True):
        rows = (_row(f"{name}{number}", pair) for number, pair in enumerate(pairs))
        write_json_lines(folder / f"snli_1.0_{name}.jsonl", rows)


def _draw(rng: Random) -> Pair:
    pair = draw_inference(rng)
    return pair._replace(label="-") if rng.random() < 0.02 else pair


def _row(name: str, pair: Pair) -> dict[str, object]:
    labels = NO_MAJORITY if pair.label == "-" else (pair.label,) * 5
    premise, hypothesis = flat_parses(pair.a), flat_parses(pair.b)
    return {
        "annotator_labels": labels,
        "captionID": f"{name}.jpg#0",
        "gold_label": pair.label,
        "pairID": f"{name}.jpg#0{labels[0][0]}",
        "sentence1": pair.a,
        "sentence1_binary_parse": premise[0],
        "sentence1_parse": premise[1],
        "sentence2": pair.b,
        "sentence2_binary_parse": hypothesis[0],
        "sentence2_parse": hypothesis[1],
    }
