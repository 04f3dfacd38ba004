"""Measure how a command's cost grows with the number and length of rows, layers and seeds.

    python -m benchmarks.growth --model CHECKPOINT

The encoder has random weights and the checkpoint's sizes. The rows are in SST-2's format, and all
of them have the same length.
"""

import argparse
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.record import begin, write
from benchmarks.sides import SIDES, machine
from benchmarks.workloads import Values, Workload, find_workload

__all__ = ["SERIES", "Point", "draw_checkpoint", "measure", "write_rows"]

WORDS = ("good", "bad", "film", "story", "time", "great", "long", "house", "music", "night", "love")
"""Words that are each one token of BERT's vocabulary."""

SPECIAL = 2
DEV_ROWS = 32


@dataclass(frozen=True, kw_only=True)
class Point:
    """Size of one command's work: number of rows, tokens per row, layers and seeds."""

    rows: int = 256
    tokens: int = 32
    layers: int = 6
    seeds: int = 1

    @property
    def workload(self) -> Workload:
        values = Values(epochs=1, max_tokens=max(128, self.tokens))
        return replace(find_workload("glue/sst2"), values=values, train_rows=self.rows)


SERIES = {
    "rows": tuple(Point(rows=256 * times) for times in (1, 4, 16)),
    "tokens": tuple(Point(rows=128, tokens=tokens) for tokens in (32, 64, 128, 256, 512)),
    "layers": tuple(Point(tokens=64, layers=layers) for layers in (2, 6, 12, 24)),
    "seeds": tuple(Point(seeds=seeds) for seeds in (1, 2, 4, 8)),
}
"""Points to measure, keyed by the quantity that grows."""


def main() -> None:
    options = _parse()
    record = begin(options.model, options.note) | {"machine": machine(), "points": []}
    with TemporaryDirectory(prefix="benchmark-") as folder:
        for _ in range(options.rounds):
            for name, point in _points(options.series):
                for side in options.side or ("ours",):
                    figures = measure(point, side, Path(options.model), Path(folder))
                    record["points"].append({"series": name, **figures})
                    write(options.out, record)
                    print(f"{name}: {json.dumps(figures)}", flush=True)


def _points(series: list[str] | None) -> Iterator[tuple[str, Point]]:
    return ((name, point) for name in series or SERIES for point in SERIES[name])


def measure(point: Point, side: str, model: Path, folder: Path) -> dict[str, Any]:
    """Run one command (the Trainer needs one per seed), and return the point and its figures."""
    checkpoint = draw_checkpoint(
        model, folder / f"{point.layers}-layers", num_hidden_layers=point.layers
    )
    data = folder / f"{point.rows}-{point.tokens}"
    write_rows(data, point)
    run = SIDES[side](point.workload, str(checkpoint), data, range(1, point.seeds + 1))
    figures = {n: asdict(run)[n] for n in ("side", "seconds", "cpu_seconds", "peak_bytes")}
    return asdict(point) | figures


def draw_checkpoint(model: Path, drawn: Path, **sizes: int) -> Path:
    """Write an encoder with random weights into the folder `drawn` if it does not exist.

    The encoder has the sizes of the checkpoint `model`, except for `sizes`, and its tokenizer.
    Equal sizes give equal weights. Returns the folder.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    if not drawn.exists():
        torch.manual_seed(1)
        config = AutoConfig.from_pretrained(model, **sizes)
        AutoModel.from_config(config).save_pretrained(drawn)
        for file in model.iterdir():
            if file.name.startswith(("tokenizer", "vocab", "special_tokens", "merges")):
                shutil.copy(file, drawn)
    return drawn


def write_rows(folder: Path, point: Point) -> None:
    """Write files in SST-2's format whose rows have exactly `point.tokens` tokens.

    The first word of a row determines its class.
    """
    draw = random.Random("growth")
    (folder / "SST-2").mkdir(parents=True, exist_ok=True)
    for split, rows in (("train", point.rows), ("dev", DEV_ROWS)):
        texts = [draw.choices(WORDS, k=point.tokens - SPECIAL) for _ in range(rows)]
        lines = [f"{' '.join(words)}\t{WORDS.index(words[0]) % 2}" for words in texts]
        text = "\n".join(["sentence\tlabel", *lines]) + "\n"
        (folder / "SST-2" / f"{split}.tsv").write_text(text, encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the encoder's checkpoint")
    parser.add_argument("--series", action="append", choices=list(SERIES))
    parser.add_argument("--side", action="append", choices=list(SIDES), help="default: ours")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", default="growth", help="name of the record in benchmarks/results")
    parser.add_argument("--note", default="", help="a remark to print below the figure")
    return parser.parse_args()


if __name__ == "__main__":
    main()
