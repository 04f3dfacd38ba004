"""Draw samples from the rows of official files, for benchharness and the Trainer to read.

Rows are drawn at random with a fixed seed and keep their order. The first rows of an official file
would not be a sample, because many files are sorted by source.
"""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.shapes import made_situations, made_tags
from benchmarks.workloads import Workload

__all__ = ["draw_sample"]

SEED = 17
WITHOUT_HEADER = ("CoLA",)
"""GLUE folders whose files have no header."""


def draw_sample(workload: Workload, data: Path, folder: Path) -> Path:
    """Write the sample's files under `folder` in the benchmark's layout; return `folder`."""
    write = _WRITERS[workload.task.partition("/")[0]]
    for split, rows in (("train", workload.train_rows), ("dev", workload.dev_rows)):
        write(workload.files(data), split, rows, folder)
    return folder


def _draw(rows: Sequence[Any], count: int) -> list[Any]:
    kept = random.Random(SEED).sample(range(len(rows)), min(count, len(rows)))
    return [rows[place] for place in sorted(kept)]


def _glue(source: Path | None, split: str, rows: int, folder: Path) -> None:
    assert source is not None
    text = (source / f"{split}.tsv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line]
    head = [] if source.name in WITHOUT_HEADER else lines[:1]
    kept = [*head, *_draw(lines[len(head) :], rows)]
    _write(folder / source.name / f"{split}.tsv", "\n".join(kept) + "\n")


def _squad(source: Path | None, split: str, rows: int, folder: Path) -> None:
    """Draw questions instead of passages, because a passage is read once per question."""
    assert source is not None
    file = f"{split}-v1.1.json"
    content = json.loads((source / file).read_text(encoding="utf-8"))
    asked = [q["id"] for a in content["data"] for p in a["paragraphs"] for q in p["qas"]]
    kept = set(_draw(asked, rows))
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [q for q in paragraph["qas"] if q["id"] in kept]
        article["paragraphs"] = [p for p in article["paragraphs"] if p["qas"]]
    content["data"] = [article for article in content["data"] if article["paragraphs"]]
    _write(folder / "squad" / file, json.dumps(content))


def _race(source: Path | None, split: str, rows: int, folder: Path) -> None:
    """Draw passages until they have enough questions.

    Surplus questions of the last passage are dropped.
    """
    assert source is not None
    passages = sorted((source / split).glob("*/*.txt"))
    left = rows
    for path in random.Random(SEED).sample(passages, len(passages)):
        passage = json.loads(path.read_text(encoding="utf-8"))
        columns = {name: passage[name][:left] for name in ("answers", "options", "questions")}
        target = folder / "race" / split / path.parent.name / path.name
        _write(target, json.dumps({**passage, **columns}))
        left -= len(columns["questions"])
        if not left:
            return


def _conll(_source: Path | None, split: str, rows: int, folder: Path) -> None:
    name = {"train": "eng.train", "dev": "eng.testa"}[split]
    _write(folder / "conll2003" / name, made_tags(split, rows))


def _swag(_source: Path | None, split: str, rows: int, folder: Path) -> None:
    name = {"train": "train.csv", "dev": "val.csv"}[split]
    _write(folder / "swag" / name, made_situations(split, rows))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8"))


_WRITERS: dict[str, Callable[[Path | None, str, int, Path], None]] = {
    "glue": _glue,
    "squad": _squad,
    "race": _race,
    "conll2003": _conll,
    "swag": _swag,
}
