"""GLUE tasks in the file layouts of the GLUE download."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.helpers.mini_data.grammar import (
    Pair,
    draw_distinct,
    draw_splits,
    flat_parses,
    write_text,
)
from tests.helpers.mini_data.inference import (
    AX_CATEGORIES,
    draw_diagnostic,
    draw_entailment,
    draw_inference,
    draw_winograd,
)
from tests.helpers.mini_data.lexicon import HELD_OUT
from tests.helpers.mini_data.sentences import (
    draw_acceptability,
    draw_answering,
    draw_paraphrase,
    draw_polarity,
    draw_questions,
    draw_similarity,
)

SIZES = (600, 160, 80)
"""Numbers of rows in train, dev and test."""

MNLI_HEADER = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
    "sentence1_parse", "sentence2_parse", "sentence1", "sentence2",
)  # fmt: skip
STSB_HEADER = (
    "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1",
    "sentence2",
)  # fmt: skip


def write_glue(folder: Path) -> None:
    """Write every GLUE task's folder under `folder`."""
    for write in (_cola, _sst2, _mrpc, _stsb, _qqp, _mnli, _ax):
        write(folder)
    for name, texts, draw, sizes in INDEXED:
        _write_indexed(folder / name, texts, *draw_splits(f"glue/{name.lower()}", draw, sizes))


def _write(path: Path, rows: Iterable[Sequence[object]], mark: str = "") -> None:
    """Write tab-separated lines without quoting; `mark` comes before the first one."""
    write_text(path, mark + "".join("\t".join(map(str, row)) + "\n" for row in rows))


def _cola(folder: Path) -> None:
    """Write train and dev without a header: source, label, "*" for label 0, sentence."""
    train, dev, test = draw_splits("glue/cola", draw_acceptability, SIZES)
    for split, rows in (("train", train), ("dev", dev)):
        lines = [("mini", label, "" if label == "1" else "*", text) for text, label in rows]
        _write(folder / f"CoLA/{split}.tsv", lines)
    hidden = [(i, text) for i, (text, _) in enumerate(test)]
    _write(folder / "CoLA/test.tsv", [("index", "sentence"), *hidden])


def _sst2(folder: Path) -> None:
    train, dev, test = draw_splits("glue/sst2", draw_polarity, SIZES)
    for split, rows in (("train", train), ("dev", dev)):
        _write(folder / f"SST-2/{split}.tsv", [("sentence", "label"), *rows])
    hidden = [(i, text) for i, (text, _) in enumerate(test)]
    _write(folder / "SST-2/test.tsv", [("index", "sentence"), *hidden])


def _mrpc(folder: Path) -> None:
    """Write MRPC; train and dev start with a byte order mark, as the official ones do."""
    train, dev, test = draw_splits("glue/mrpc", draw_paraphrase, SIZES)
    columns = ("#1 ID", "#2 ID", "#1 String", "#2 String")
    for start, split, rows in ((10000, "train", train), (30000, "dev", dev)):
        ids = range(start, start + 2 * len(rows), 2)
        lines = [(p.label, i, i + 1, p.a, p.b) for i, p in zip(ids, rows, strict=True)]
        _write(folder / f"MRPC/{split}.tsv", [("Quality", *columns), *lines], mark="\ufeff")
    hidden = [(i, 50000 + 2 * i, 50001 + 2 * i, p.a, p.b) for i, p in enumerate(test)]
    _write(folder / "MRPC/test.tsv", [("index", *columns), *hidden])


def _stsb(folder: Path) -> None:
    train, dev, test = draw_splits("glue/stsb", draw_similarity, SIZES)
    for split, rows in (("train", train), ("dev", dev)):
        lines = [(*_stsb_row(i, p), p.label) for i, p in enumerate(rows)]
        _write(folder / f"STS-B/{split}.tsv", [(*STSB_HEADER, "score"), *lines])
    hidden = [_stsb_row(i, p) for i, p in enumerate(test)]
    _write(folder / "STS-B/test.tsv", [STSB_HEADER, *hidden])


def _stsb_row(index: int, pair: Pair) -> tuple[object, ...]:
    return index, "main-captions", "mini", "mini", f"{index:04}", "none", "none", pair.a, pair.b


def _qqp(folder: Path) -> None:
    train, dev, test = draw_splits("glue/qqp", draw_questions, SIZES)
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    for start, split, rows in ((0, "train", train), (len(train), "dev", dev)):
        lines = [(i, 2 * i + 1, 2 * i + 2, *p[:3]) for i, p in enumerate(rows, start)]
        _write(folder / f"QQP/{split}.tsv", [header, *lines])
    hidden = [(i, p.a, p.b) for i, p in enumerate(test)]
    _write(folder / "QQP/test.tsv", [("id", "question1", "question2"), *hidden])


def _mnli(folder: Path) -> None:
    """Write MNLI; dev rows have five equal annotators' labels, and the genre is the domain."""
    train, dev, test = draw_splits("glue/mnli", draw_inference, (800, 180, 80))
    _, mismatched, mismatched_test = draw_splits(
        "glue/mnli-mm", lambda rng: draw_inference(rng, HELD_OUT), (0, 180, 80)
    )
    lines = [(*_mnli_row(i, p, "mini"), p.label, p.label) for i, p in enumerate(train)]
    _write(folder / "MNLI/train.tsv", [(*MNLI_HEADER, "label1", "gold_label"), *lines])
    annotators = [f"label{n}" for n in range(1, 6)]
    for suffix, rows, hidden in (
        ("matched", dev, test),
        ("mismatched", mismatched, mismatched_test),
    ):
        lines = [(*_mnli_row(i, p, suffix), *[p.label] * 6) for i, p in enumerate(rows)]
        header = (*MNLI_HEADER, *annotators, "gold_label")
        _write(folder / f"MNLI/dev_{suffix}.tsv", [header, *lines])
        tests = [_mnli_row(i, p, suffix) for i, p in enumerate(hidden)]
        _write(folder / f"MNLI/test_{suffix}.tsv", [MNLI_HEADER, *tests])


def _mnli_row(index: int, pair: Pair, genre: str) -> tuple[object, ...]:
    binary, full = zip(*map(flat_parses, pair[:2]), strict=True)
    return index, f"{index}", f"{index}{pair.label[0]}", genre, *binary, *full, pair.a, pair.b


INDEXED = (
    ("QNLI", ("question", "sentence"), draw_answering, SIZES),
    ("RTE", ("sentence1", "sentence2"), draw_entailment, SIZES),
    ("WNLI", ("sentence1", "sentence2"), draw_winograd, (500, 150, 80)),
)


def _write_indexed(
    folder: Path,
    texts: tuple[str, str],
    train: Sequence[Pair],
    dev: Sequence[Pair],
    test: Sequence[Pair],
) -> None:
    """Write index, the two texts and the label, which the test file lacks."""
    for split, rows in (("train", train), ("dev", dev)):
        lines = [(i, *p[:3]) for i, p in enumerate(rows)]
        _write(folder / f"{split}.tsv", [("index", *texts, "label"), *lines])
    _write(folder / "test.tsv", [("index", *texts), *((i, p.a, p.b) for i, p in enumerate(test))])


def _ax(folder: Path) -> None:
    """Write the diagnostic set: four category columns with one filled, domain, pair, label."""
    pairs = draw_distinct("glue/ax", 160, draw_diagnostic)
    header = (*AX_CATEGORIES, "Domain", "Premise", "Hypothesis", "Label")
    lines = [
        (*(p.category if p.category == c else "" for c in AX_CATEGORIES), "Artificial", *p[:3])
        for p in pairs
    ]
    _write(folder / "diagnostic/diagnostic-full.tsv", [header, *lines])
