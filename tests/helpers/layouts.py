"""Builders of data files in the layouts of well-known tools and data sets."""

import gzip
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from tests.helpers.own_files import as_csv, as_jsonl, sentence, tagged, text_file

ROWS = range(60)
NLI = ("entailment", "neutral", "contradiction")
ENTITIES = ("O", "B-LOC", "B-PER", "I-PER")
SPAN_TEXTS = {"PER": "Anna Meyer", "LOC": "Berlin"}


class Layout(NamedTuple):
    write: Callable[[Path], Path]
    expected: str
    labels: Sequence[str] = ()
    rows: str = ""
    said: str = ""
    no_header: bool = False


def csv(name: str, head: str, row: Callable[[int], Sequence[object]], delimiter: str = ","):
    header = [head.split(",")] if head else []
    return text_file(name, as_csv([*header, *(row(n) for n in ROWS)], delimiter))


def jsonl(name: str, row: Callable[[int], dict[str, object]]):
    return text_file(name, as_jsonl([row(n) for n in ROWS]))


def conll(name: str, separator: str, *more: str):
    def lines(number: int) -> str:
        words = zip(*tagged(number), strict=True)
        return "".join(separator.join([w, *more, tag]) + "\n" for w, tag in words)

    return text_file(name, "\n".join(map(lines, ROWS)))


def tree(**folders: Sequence[str]):
    """Return a writer of one folder per class, inside one per split if a name has "__"."""

    def write(folder: Path) -> Path:
        for name, texts in folders.items():
            place = folder / "films" / name.replace("__", "/")
            place.mkdir(parents=True)
            for number, text in enumerate(texts):
                (place / f"{number}_7.txt").write_text(text)
        (folder / "films" / "imdb.vocab").write_text("the\n")
        return folder / "films"

    return write


def folder(**files: str):
    def write(place: Path) -> Path:
        for name, content in files.items():
            (place / name.replace("__", ".")).write_text(content)
        return place

    return write


def packed(inner: str, content: str, ending: str):
    def write(place: Path) -> Path:
        path = place / f"packed{ending}"
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(content.encode()))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(inner, content)
                archive.writestr(f"__MACOSX/._{inner}", "x")
        return path

    return write


def workbook(place: Path) -> Path:
    frame = pd.DataFrame({"text": list(map(sentence, ROWS)), "label": [n % 2 for n in ROWS]})
    frame.to_excel(place / "book.xlsx", index=False)
    return place / "book.xlsx"


def marked(number: int, form: Callable[[int, int, str], object]) -> tuple[str, list[object]]:
    """Return a text and its entities as character spans."""
    words, _ = tagged(number)
    text = f"{' '.join(words)}."
    names = [("Anna Meyer", "PER"), *([("Berlin", "LOC")] if number % 2 else [])]
    return text, [form(text.index(w), text.index(w) + len(w), tag) for w, tag in names]


def doccano(number: int) -> dict[str, object]:
    text, found = marked(number, lambda start, end, tag: [start, end, tag])
    return {"id": number, "text": text, "label": found, "Comments": []}


def doccano_relations(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        return {"id": number, "label": tag, "start_offset": start, "end_offset": end}

    text, found = marked(number, form)
    return {"id": number, "text": text, "entities": found, "relations": []}


def label_studio(number: int) -> dict[str, object]:
    value = {"value": {"choices": [["Pos", "Neg"][number % 2]]}, "from_name": "mood"}
    result = {"id": "x", "type": "choices", "to_name": "text", "origin": "manual", **value}
    done = {"id": number, "completed_by": 1, "was_cancelled": False, "lead_time": 3.2}
    return {
        "id": number,
        "annotations": [{**done, "result": [result]}],
        "predictions": [],
        "data": {"text": sentence(number)},
        "created_at": f"2024-01-{1 + number % 28:02}T10:00:00Z",
        "project": 3,
    }


def label_studio_spans(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        value = {"start": start, "end": end, "text": SPAN_TEXTS[tag], "labels": [tag]}
        return {"value": value, "from_name": "label", "to_name": "text", "type": "labels"}

    text, found = marked(number, form)
    whole = label_studio(number)
    whole["annotations"] = [{"id": 1, "was_cancelled": False, "result": found}]
    return whole | {"data": {"text": text}}


def kaggle_ner(name: str, number: Callable[[int, int], object]):
    rows = [
        [number(n, place), word, "NN", tag]
        for n in ROWS
        for place, (word, tag) in enumerate(zip(*tagged(n), strict=True))
    ]
    return text_file(name, as_csv([["Sentence #", "Word", "POS", "Tag"], *rows]), "cp1252")


def prodigy(number: int) -> dict[str, object]:
    def form(start: int, end: int, tag: str) -> dict[str, object]:
        return {"start": start, "end": end, "label": tag, "token_start": 0, "token_end": 1}

    text, found = marked(number, form)
    return {"text": text, "_input_hash": number, "spans": found, "answer": "accept"}


def conllu(number: int) -> str:
    words = tagged(number)[0]
    lines = [
        f"{n}\t{w}\t{w}\t{'NOUN' if n % 2 else 'VERB'}\t_\t_\t0\troot\t_\t_"
        for n, w in enumerate(words, 1)
    ]
    return f"# sent_id = {number}\n# text = {' '.join(words)}\n" + "\n".join(lines) + "\n"


def parquet(name: str, rows: dict[str, object]):
    def write(place: Path) -> Path:
        pd.DataFrame(rows).to_parquet(place / name)
        return place / name

    return write


def zipped(place: Path) -> Path:
    with zipfile.ZipFile(place / "intents.zip", "w") as archive:
        for name, span in {"train": range(40), "test": range(40, 60)}.items():
            rows = [[sentence(n), ["ask", "tell"][n % 2]] for n in span]
            archive.writestr(f"intents/{name}.csv", as_csv([["utterance", "intent"], *rows]))
    return place / "intents.zip"
