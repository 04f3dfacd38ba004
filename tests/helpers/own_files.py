"""Data files as people have them: twenty-two in seven shapes, and what is to be refused or asked.

Each is written from a seed, so that no file of data lies in the repository. The first word of a
text tells its label, which is all that there is to learn.
"""

import csv
import io
import json
import os
import random
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

WORDS = [
    a + b
    for a in ("ba", "ke", "lo", "mi", "nu", "ra", "so", "tu")
    for b in ("den", "fir", "gal", "hop", "jun", "kel", "lim", "mor")
]
ROWS = 60


def sentence(seed: int, first: str = "", length: int = 11) -> str:
    """A text of random words after a first one; two of different seeds share next to nothing."""
    draw = random.Random(f"{seed} {first}")
    return " ".join(filter(None, [first, *(draw.choice(WORDS) for _ in range(length))]))


def labelled(labels: Sequence[object], rows: int = ROWS) -> list[tuple[str, object]]:
    """Texts that begin with their label's name, and the labels, in turn."""
    return [
        (sentence(number, f"like{labels[number % len(labels)]}"), labels[number % len(labels)])
        for number in range(rows)
    ]


def as_csv(rows: Sequence[Sequence[object]], delimiter: str = ",", **options: object) -> str:
    """Rows as a table, quoted where it must be."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator="\n", **options).writerows(rows)  # type: ignore[arg-type]
    return file.getvalue()


def as_jsonl(rows: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def tagged(number: int) -> tuple[list[str], list[str]]:
    """A sentence with a person and sometimes a place."""
    words = sentence(number, length=6).split()
    tags = ["O"] * 6
    words[1:3], tags[1:3] = ["Anna", "Meyer"], ["B-PER", "I-PER"]
    if number % 2:
        words[4], tags[4] = "Berlin", "B-LOC"
    return words, tags


def passage(number: int) -> tuple[str, str, str]:
    """A context, a question and an answer that stands in the context."""
    context = sentence(number, "code", 15)
    answer = " ".join(context.split()[5:7])
    return context, f"what is the code {number}?", answer


def squad(number: int) -> dict[str, object]:
    context, question, answer = passage(number)
    found = {"text": answer, "answer_start": context.index(answer)}
    asked = {"id": f"q{number}", "question": question, "answers": [found]}
    return {"title": f"t{number}", "paragraphs": [{"context": context, "qas": [asked]}]}


def exam(number: int) -> tuple[str, list[str], int]:
    """A question, four options and the place of the right one."""
    gold = number % 4
    options = [sentence(1000 + 4 * number + place, length=4) for place in range(4)]
    options[gold] = f"right {options[gold]}"
    return f"which one is it, {sentence(number, length=5)}?", options, gold


class OwnFile(NamedTuple):
    """What to write, and what must be said of it: the shape, its columns and the labels."""

    write: Callable[[Path], Path]
    kind: str
    columns: Mapping[str, Sequence[str]]
    labels: Sequence[str]


def own_file(write: Callable[[Path], Path], kind: str, columns: str, labels: str = "") -> OwnFile:
    """As `--columns` says them: "text=plot,labels=action+drama"."""
    roles = (each.split("=") for each in columns.split(","))
    return OwnFile(write, kind, {role: names.split("+") for role, names in roles}, labels.split())


def text_file(name: str, content: str | bytes, encoding: str = "utf-8") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def table(
    name: str, columns: str, rows: Iterable[Iterable[object]], encoding: str = "utf-8"
) -> Callable[[Path], Path]:
    """A file of rows with these names above them, in the form that its name's ending says."""
    names, lines = columns.split(), [list(row) for row in rows]
    if name.endswith(".jsonl"):
        return text_file(name, as_jsonl([dict(zip(names, row, strict=True)) for row in lines]))
    if name.endswith(".parquet"):
        file = io.BytesIO()
        pd.DataFrame(lines, columns=names).to_parquet(file)
        return text_file(name, file.getvalue())
    separator = "\t" if name.endswith(".tsv") else ";" if encoding == "cp1252" else ","
    return text_file(name, as_csv([names, *lines], separator), encoding)


def folder_of(name: str, files: Mapping[str, str]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        made = folder / name
        made.mkdir()
        for each, content in files.items():
            (made / each).write_text(content)
        return made

    return write


def counted(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """The rows with their number first."""
    return ((number, *row) for number, row in enumerate(rows))


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
    """None, one or two of three."""
    return [name for place, name in enumerate(GENRES) if number % 4 in (place, place + 1)]


def second(number: int) -> str:
    return sentence(500 + number)


def rated(numbers: range) -> str:
    """Two texts and how alike they are."""
    rows = ([sentence(n), second(n), n % 50 / 10] for n in numbers)
    return as_csv([["sentence1", "sentence2", "similarity"], *rows], "\t")


TAGS = "O B-LOC B-PER I-PER"

GOOD: Mapping[str, OwnFile] = {
    # Single texts.
    "comma": own_file(
        table("reviews.csv", "text label", TWO), "class", "text=text,label=label", "neg pos"
    ),
    "semicolons and cp1252": own_file(
        table(
            "urteile.csv",
            "Kommentar Urteil",
            ((f"{t} größer", x) for t, x in labelled(["gut", "schlecht", "mäßig"])),
            "cp1252",
        ),
        "class",
        "text=Kommentar,label=Urteil",
        "gut mäßig schlecht",
    ),
    "utf-16 and tabs": own_file(
        table("topics.tsv", "id sentence label", counted(labelled([0, 1, 2, 3])), "utf-16"),
        "class",
        "text=sentence,label=label",
        "0 1 2 3",
    ),
    "quoted newlines": own_file(
        table(
            "long.csv",
            "id review sentiment",
            counted((f'{t}\nhe said "so", twice\n', x) for t, x in TWO),
            "utf-8-sig",
        ),
        "class",
        "text=review,label=sentiment",
        "neg pos",
    ),
    "missing values": own_file(
        table(
            "gaps.jsonl",
            "text label",
            ((t, None if n in (3, 9) else x) for n, (t, x) in enumerate(labelled([0, 1]))),
        ),
        "class",
        "text=text,label=label",
        "0 1",
    ),
    "parquet": own_file(
        table("intents.parquet", "utterance intent", labelled(["book", "cancel", "ask"])),
        "class",
        "text=utterance,label=intent",
        "ask book cancel",
    ),
    "a folder": own_file(
        folder_of(
            "folder",
            {
                "train.csv": as_csv([["text", "label"], *TWO[:40]]),
                "validation.csv": as_csv([["text", "label"], *TWO[40:]]),
                "test.csv": as_csv([["text"], *([sentence(n)] for n in range(900, 910))]),
                "README.md": "about",
            },
        ),
        "class",
        "text=text,label=label",
        "neg pos",
    ),
    "groups": own_file(
        table(
            "grouped.csv",
            "text label user_id",
            ((t, x, f"user{n // 3}") for n, (t, x) in enumerate(TWO)),
        ),
        "class",
        "text=text,label=label,group=user_id",
        "neg pos",
    ),
    # Two texts.
    "premise and hypothesis": own_file(
        table(
            "nli.csv",
            "premise hypothesis label",
            ((t, second(n), x) for n, (t, x) in enumerate(THREE)),
        ),
        "class",
        "text=premise,text2=hypothesis,label=label",
        "contradiction entailment neutral",
    ),
    "questions": own_file(
        table(
            "same.jsonl",
            "qid question1 question2 is_duplicate",
            ((n, t, second(n), x) for n, (t, x) in enumerate(labelled([0, 1]))),
        ),
        "class",
        "text=question1,text2=question2,label=is_duplicate",
        "0 1",
    ),
    # Several labels.
    "lists of labels": own_file(
        table(
            "films.jsonl",
            "plot genres",
            ((sentence(n, "-".join(genres(n))), genres(n)) for n in range(ROWS)),
        ),
        "labels",
        "text=plot,labels=genres",
        "comedy crime drama",
    ),
    "a column a label": own_file(
        table(
            "toxic.csv",
            "id comment_text toxic insult threat",
            ((n, sentence(n), n % 2, int(n % 3 == 0), int(n % 5 == 0)) for n in range(ROWS)),
        ),
        "labels",
        "text=comment_text,labels=toxic+insult+threat",
        "toxic insult threat",
    ),
    "labels with bars": own_file(
        table("bars.tsv", "text genres", ((sentence(n), "|".join(genres(n))) for n in range(ROWS))),
        "labels",
        "text=text,labels=genres",
        "comedy crime drama",
    ),
    # Numbers.
    "a number": own_file(
        table("essays.csv", "essay score", ((sentence(n), n % 40 / 8 + 0.1) for n in range(ROWS))),
        "number",
        "text=essay,number=score",
    ),
    "a number for two": own_file(
        folder_of("sts", {"sts-train.tsv": rated(range(40)), "sts-dev.tsv": rated(range(40, 60))}),
        "number",
        "text=sentence1,text2=sentence2,number=similarity",
    ),
    # Tags.
    "conll": own_file(
        text_file(
            "people.conll",
            "\ufeff-DOCSTART- O\n\n"
            + "\n".join(
                "".join(f"{w} {t}\n" for w, t in zip(*each, strict=True)) for each in TAGGED
            ),
        ),
        "tags",
        "words=1,tags=2",
        TAGS,
    ),
    "lists of tags": own_file(
        table("tags.jsonl", "tokens ner_tags", TAGGED), "tags", "words=tokens,tags=ner_tags", TAGS
    ),
    "a row a word": own_file(
        table("words.csv", "sentence_id word tag", WORD_ROWS),
        "tags",
        "sentence=sentence_id,words=word,tags=tag",
        TAGS,
    ),
    # Stretches of a text.
    "squad": own_file(
        text_file(
            "manual.json", json.dumps({"version": "1", "data": [squad(n) for n in range(ROWS)]})
        ),
        "spans",
        "context=context,question=question,answer=answers.text,start=answers.answer_start",
    ),
    "answers without places": own_file(
        table("answers.jsonl", "context question answer", map(passage, range(ROWS))),
        "spans",
        "context=context,question=question,answer=answer",
    ),
    # Options.
    "a list of options": own_file(
        table("exam.jsonl", "question options answer", EXAMS),
        "choice",
        "question=question,options=options,answer=answer",
    ),
    "a column an option": own_file(
        table(
            "wide.csv", "question A B C D answer", ((q, *o, "ABCD"[gold]) for q, o, gold in EXAMS)
        ),
        "choice",
        "question=question,options=A+B+C+D,answer=answer",
    ),
}


def sparse(folder: Path) -> Path:
    """Ten gigabytes of nothing, which take no room."""
    path = folder / "huge.csv"
    path.write_text(TABLE)
    os.truncate(path, 10_000_000_000)
    return path


def binary(name: str, begin: bytes) -> Callable[[Path], Path]:
    return text_file(name, begin + bytes(range(256)) * 8)


HOSTILE: Mapping[str, tuple[Callable[[Path], Path], str]] = {
    "empty": (text_file("empty.csv", ""), "empty.csv is empty"),
    "a header alone": (text_file("head.csv", "text,label\n"), "head.csv has no rows below line 1"),
    "a ragged line": (
        text_file("ragged.csv", TABLE + "one,two,three\n"),
        "ragged.csv line 62 has 3 fields",
    ),
    "an open quote": (
        text_file("open.csv", TABLE + '"never closed,pos\nmore,neg\n'),
        "open.csv line 62 column 1 opens a quote",
    ),
    "a picture": (binary("picture.csv", b"\x89PNG\r\n\x1a\n"), "picture.csv is a PNG picture"),
    "a workbook": (
        binary("book.csv", b"PK\x03\x04"),
        "book.csv is a zip archive or an Excel workbook",
    ),
    "broken JSON": (
        text_file(
            "broken.jsonl", as_jsonl([{"text": "a", "label": 1}] * 2) + '{"text": "b" "label": 0}\n'
        ),
        "broken.jsonl line 3 column 14",
    ),
    "a label that only dev has": (
        folder_of(
            "alone",
            {"train.csv": TABLE, "dev.csv": f"text,label\nsome text here,pos\n{sentence(3)},odd\n"},
        ),
        "dev.csv line 3 has the label 'odd', which no row of train has",
    ),
    "one class": (
        table("one.csv", "text label", ((t, "same") for t, _ in TWO)),
        "one label, 'same'",
    ),
    "a name twice": (
        table("twice.csv", "text label text", ((t, x, t) for t, x in TWO)),
        "line 1 names the column 'text' twice",
    ),
    "a word without a tag": (
        text_file("hole.conll", "Anna B-PER\nsleeps\n\n"),
        "hole.conll line 2 has 1 field",
    ),
    "ten gigabytes": (sparse, "huge.csv has 10.0 GB"),
    "no question": (
        text_file("hole.json", '{"data": [{"title": "t", "paragraphs": [{"context": "c"}]}]}'),
        "paragraph 0 has no 'qas'",
    ),
    "damaged parquet": (binary("rows.parquet", b"PAR1"), "rows.parquet is not whole Parquet"),
    "no label": (
        table("texts.csv", "text", ([t] for t, _ in TWO)),
        "no column of texts.csv can be a label",
    ),
    "an infinite number": (
        table("prices.csv", "text price", ((sentence(n), n / 4 or "inf") for n in range(ROWS))),
        "prices.csv line 2 has 'inf' in the column 'price': expected a number",
    ),
    "a row without its tag": (
        table(
            "words.csv",
            "sentence word tag",
            [*(row for row in WORD_ROWS if row[0] < 30), (30, "Anna", "B-PER"), (30, "sleeps", "")],
        ),
        "words.csv line 182 has no tag for the word 'sleeps'",
    ),
    "a row without its options": (
        table(
            "exam.jsonl",
            "question options answer",
            ((q, o if n else None, gold) for n, (q, o, gold) in enumerate(EXAMS)),
        ),
        "exam.jsonl line 1 has the answer 0, which is none of its 0 options",
    ),
    "no names": (text_file("bare.csv", as_csv(TWO)), "line 1 of bare.csv is a row and no names"),
}

ASKED: Mapping[str, tuple[Callable[[Path], Path], Sequence[str]]] = {
    "stars": (
        table("stars.csv", "review stars", labelled([1, 2, 3, 4, 5])),
        ("text=review,label=stars", "text=review,number=stars"),
    ),
    "two labels": (
        table(
            "both.csv",
            "text sentiment topic",
            ((t, x, "ab"[n % 3 == 0]) for n, (t, x) in enumerate(TWO)),
        ),
        ("text=text,label=sentiment", "text=text,label=topic"),
    ),
    "a row an option": (
        table(
            "rows.csv",
            "question candidate label",
            (
                (q, o, int(place == gold))
                for q, options, gold in EXAMS
                for place, o in enumerate(options)
            ),
        ),
        (
            "question=question,option=candidate,label=label",
            "text=question,text2=candidate,label=label",
        ),
    ),
    "two texts": (
        table(
            "posts.csv",
            "title body label",
            ((sentence(n, length=5), t, x) for n, (t, x) in enumerate(TWO)),
        ),
        ("text=title,label=label", "text=title,text2=body,label=label"),
    ),
    "one of three columns": (
        table(
            "hot.csv",
            "text red green blue",
            ((sentence(n), *(int(n % 3 == k) for k in range(3))) for n in range(ROWS)),
        ),
        ("text=text,label=red+green+blue", "text=text,labels=red+green+blue"),
    ),
}


def plant(texts: Sequence[str], draw: random.Random) -> list[str]:
    """Each text as a leak: as it is, in capitals, with other punctuation, or a word changed."""

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
