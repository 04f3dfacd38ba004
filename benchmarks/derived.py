"""Write files of SQuAD, SWAG and CoNLL-2003 whose rows are derived from other real files.

Spans and choices are made from SQuAD, and tags from ReCoRD's entities. Whole passages would cost
minutes per run, and SWAG and CoNLL-2003 are not available everywhere. The scores cannot be compared
with the scores of these benchmarks.
"""

import csv
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FILES", "write"]

SEED = 17
OPTIONS = 4

SENTENCE = r"\S.*?(?:[.!?](?=\s)|$)"


class Asked(NamedTuple):
    """A question, the sentence that contains its answer, and the passage's other sentences.

    `start` is the position of the answer in its sentence, in characters.
    """

    id: str
    question: str
    sentence: str
    answer: str
    start: int
    others: list[str]


def _asked(path: Path) -> Iterator[Asked]:
    """Yield the questions whose answer is within one sentence of a long enough passage."""
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for passage in article["paragraphs"]:
            found = list(re.finditer(SENTENCE, passage["context"]))
            for asked in passage["qas"]:
                text, start = asked["answers"][0]["text"], asked["answers"][0]["answer_start"]
                for each in found:
                    if each.start() <= start and start + len(text) <= each.end():
                        others = [other[0] for other in found if other != each]
                        if len(others) < OPTIONS - 1:
                            continue
                        place = start - each.start()
                        yield Asked(
                            asked["id"], asked["question"].strip(), each[0], text, place, others
                        )


def _span(asked: list[Asked]) -> str:
    """Return the questions in SQuAD's JSON format, with one sentence per passage."""
    passages = [
        {
            "context": each.sentence,
            "qas": [
                {
                    "id": each.id,
                    "question": each.question,
                    "answers": [{"text": each.answer, "answer_start": each.start}],
                }
            ],
        }
        for each in asked
    ]
    return json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": passages}]})


def _choice(asked: list[Asked]) -> str:
    """Return a table in SWAG's format that asks which sentence of a passage contains the answer."""
    draw, file = random.Random(SEED), io.StringIO()
    endings = [f"ending{number}" for number in range(OPTIONS)]
    writer = csv.DictWriter(file, ["sent1", "sent2", *endings, "label"])
    writer.writeheader()
    for each in asked:
        options = [each.sentence, *draw.sample(each.others, OPTIONS - 1)]
        right = draw.randrange(OPTIONS)
        options[0], options[right] = options[right], options[0]
        row = {"sent1": each.question, "sent2": "The passage says:", "label": right}
        writer.writerow(row | dict(zip(endings, options, strict=True)))
    return file.getvalue()


def _tags(path: Path) -> str:
    """Return ReCoRD's sentences in CoNLL-2003's format, with the marked entities as MISC."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        passage = json.loads(line)["passage"]
        # ReCoRD's ends are inclusive. Longer spans are sorted before the spans within them.
        marks = sorted((e["start"], -e["end"] - 1) for e in passage["entities"])
        for sentence in re.finditer(SENTENCE, passage["text"]):
            tags: dict[tuple[int, int], str] = {}
            for word in re.finditer(r"\w+|[^\w\s]", sentence[0]):
                tags[sentence.start() + word.start(), sentence.start() + word.end()] = "O"
            for start, end in marks:
                inside = [place for place in tags if start <= place[0] and place[1] <= -end]
                if all(tags[place] == "O" for place in inside):
                    tags |= dict.fromkeys(inside, "I-MISC")
                    tags |= dict.fromkeys(inside[:1], "B-MISC")
            words = (f"{passage['text'][a:b]} X X {tag}" for (a, b), tag in tags.items())
            lines += [*words, ""]
    return "\n".join(lines) + "\n"


FILES = {
    "squad": {"train": "train-v1.1.json", "dev": "dev-v1.1.json"},
    "swag": {"train": "train.csv", "dev": "val.csv"},
    "conll2003": {"train": "eng.train", "dev": "eng.testa"},
}
"""File names of the splits, keyed by benchmark."""


def write(benchmark: str, data: Path, split: str, rows: int, folder: Path) -> None:
    """Write a split as a file of the benchmark: `rows` questions, or all sentences for tags."""
    if benchmark == "conll2003":
        text = _tags(
            data / "superglue" / "ReCoRD" / {"train": "train.jsonl", "dev": "dev32.jsonl"}[split]
        )
    else:
        asked = list(_asked(data / "squad-by-article" / f"{split}-v1.1.json"))
        random.Random(SEED).shuffle(asked)
        text = {"squad": _span, "swag": _choice}[benchmark](asked[:rows])
    path = folder / benchmark / FILES[benchmark][split]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
