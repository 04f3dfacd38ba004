"""Custom data files for each kind of task.

Each is generated from a seed, so that the repository has no data files. The first word of a text
determines its label, and nothing else does.
"""

import csv
import io
import json
import random
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

WORDS = [
    a + b
    for a in ("ba", "ke", "lo", "mi", "nu", "ra", "so", "tu")
    for b in ("den", "fir", "gal", "hop", "jun", "kel", "lim", "mor")
]
ROWS = 60


def sentence(seed: int, first: str = "", length: int = 11) -> str:
    """Return a text of random words after `first`; two seeds share almost no words."""
    draw = random.Random(f"{seed} {first}")
    return " ".join(filter(None, [first, *(draw.choice(WORDS) for _ in range(length))]))


def labelled(labels: Sequence[object], rows: int = ROWS) -> list[tuple[str, object]]:
    """Return texts that begin with the name of their label, and the labels, in turn."""
    return [
        (sentence(number, f"like{labels[number % len(labels)]}"), labels[number % len(labels)])
        for number in range(rows)
    ]


def as_csv(rows: Sequence[Sequence[object]], delimiter: str = ",", **options: object) -> str:
    """Return rows as a table, quoted if necessary."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator="\n", **options).writerows(rows)  # type: ignore[arg-type]
    return file.getvalue()


def as_jsonl(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tagged(number: int) -> tuple[list[str], list[str]]:
    """Return a sentence with a person and sometimes a place, and its tags."""
    words = sentence(number, length=6).split()
    tags = ["O"] * 6
    words[1:3], tags[1:3] = ["Anna", "Meyer"], ["B-PER", "I-PER"]
    if number % 2:
        words[4], tags[4] = "Berlin", "B-LOC"
    return words, tags


def passage(number: int) -> tuple[str, str, str]:
    """Return a context, a question and an answer that occurs in the context."""
    context = sentence(number, "code", 15)
    answer = " ".join(context.split()[5:7])
    return context, f"what is the code {number}?", answer


def squad(number: int) -> dict[str, object]:
    context, question, answer = passage(number)
    found = {"text": answer, "answer_start": context.index(answer)}
    asked = {"id": f"q{number}", "question": question, "answers": [found]}
    return {"title": f"t{number}", "paragraphs": [{"context": context, "qas": [asked]}]}


def exam(number: int) -> tuple[str, list[str], int]:
    """Return a question, four options and the index of the right one."""
    gold = number % 4
    options = [sentence(1000 + 4 * number + place, length=4) for place in range(4)]
    options[gold] = f"right {options[gold]}"
    return f"which one is it, {sentence(number, length=5)}?", options, gold


class OwnFile(NamedTuple):
    """File to write, and its kind of task."""

    write: Callable[[Path], Path]
    kind: str


def text_file(name: str, content: str | bytes, encoding: str = "utf-8") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def table(
    name: str, columns: str, rows: Iterable[Iterable[object]], encoding: str = "utf-8"
) -> Callable[[Path], Path]:
    """Return a writer of rows with these column names, in the format of the file's suffix."""
    names, lines = columns.split(), [list(row) for row in rows]
    if name.endswith(".jsonl"):
        return text_file(name, as_jsonl([dict(zip(names, row, strict=True)) for row in lines]))
    separator = ";" if encoding == "cp1252" else ","
    return text_file(name, as_csv([names, *lines], separator), encoding)


def folder_of(name: str, files: Mapping[str, str]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        made = folder / name
        made.mkdir()
        for each, content in files.items():
            (made / each).write_text(content)
        return made

    return write


TWO = labelled(["neg", "pos"])
THREE = labelled(["entailment", "neutral", "contradiction"])
GENRES = ["drama", "comedy", "crime"]
EXAMS = [exam(number) for number in range(ROWS)]
TAGGED = [tagged(number) for number in range(ROWS)]
WORD_ROWS = [
    (n, w, t) for n, (words, tags) in enumerate(TAGGED) for w, t in zip(words, tags, strict=True)
]
TABLE = as_csv([["text", "label"], *TWO])


def genres(number: int) -> list[str]:
    """Return none, one or two of three genres."""
    return [name for place, name in enumerate(GENRES) if number % 4 in (place, place + 1)]


def second(number: int) -> str:
    return sentence(500 + number)


def rated(numbers: range) -> str:
    """Return pairs of texts with a similarity score."""
    rows = ([sentence(n), second(n), n % 50 / 10] for n in numbers)
    return as_csv([["sentence1", "sentence2", "similarity"], *rows], "\t")


GOOD: Mapping[str, OwnFile] = {
    "comma": OwnFile(table("reviews.csv", "text label", TWO), "class"),
    "semicolons and cp1252": OwnFile(
        table(
            "urteile.csv",
            "Kommentar Urteil",
            ((f"{t} größer", x) for t, x in labelled(["gut", "schlecht", "mäßig"])),
            "cp1252",
        ),
        "class",
    ),
    "premise and hypothesis": OwnFile(
        table(
            "nli.csv",
            "premise hypothesis label",
            ((t, second(n), x) for n, (t, x) in enumerate(THREE)),
        ),
        "class",
    ),
    "lists of labels": OwnFile(
        table(
            "films.jsonl",
            "plot genres",
            ((sentence(n, "-".join(genres(n))), genres(n)) for n in range(ROWS)),
        ),
        "labels",
    ),
    "a number for two": OwnFile(
        folder_of("sts", {"sts-train.tsv": rated(range(40)), "sts-dev.tsv": rated(range(40, 60))}),
        "number",
    ),
    "conll": OwnFile(
        text_file(
            "people.conll",
            "\ufeff-DOCSTART- O\n\n"
            + "\n".join(
                "".join(f"{w} {t}\n" for w, t in zip(*each, strict=True)) for each in TAGGED
            ),
        ),
        "tags",
    ),
    "lists of tags": OwnFile(table("tags.jsonl", "tokens ner_tags", TAGGED), "tags"),
    "squad": OwnFile(
        text_file(
            "manual.json", json.dumps({"version": "1", "data": [squad(n) for n in range(ROWS)]})
        ),
        "spans",
    ),
    "a list of options": OwnFile(table("exam.jsonl", "question options answer", EXAMS), "choice"),
}
"""A file of each kind."""


def plant(texts: Sequence[str], draw: random.Random) -> list[str]:
    """Return a leak of each text: equal, in capitals, other punctuation, or one word changed."""

    def changed(number: int, text: str) -> str:
        words = text.split()
        place = draw.randrange(len(words))
        match number % 6:
            case 0:
                return text
            case 1:
                return text.upper()
            case 2:
                return "  " + ", ".join(words) + "!"
            case 3:
                words[place] = "".join(draw.sample(string.ascii_lowercase, 6))
            case 4:
                del words[place]
            case 5:
                words.insert(place, "indeed")
        return " ".join(words)

    return [changed(number, text) for number, text in enumerate(texts)]
