"""Synthetic rows with the lengths of CoNLL-2003 and SWAG, made of sentences of the packaged data.

Neither dataset may be redistributed, and the length of the rows determines their cost.
"""

import csv
import io
import random

from benchharness.tasks.sources.files import mini_folder

__all__ = ["made_situations", "made_tags"]

MINI = mini_folder()

WORDS = 14.5
"""Mean number of words per sentence in CoNLL-2003's training file: 203,621 words in 14,041
sentences (Tjong Kim Sang and De Meulder 2003, table 1, without the lines that begin a document)."""

CAPTION_WORDS, ENDING_WORDS = 13.0, 9.0
"""Approximate mean number of words of SWAG's captions and endings; no source can be cited."""


def made_tags(split: str, rows: int) -> str:
    """Return the text of a file in CoNLL's format.

    Sentence lengths are assumed to have a gamma distribution of shape 1.5.
    """
    draw = random.Random(f"tags {split}")
    text = (MINI / "conll2003" / "eng.train").read_text(encoding="utf-8")
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    sentences = [lines for lines in blocks if not lines[0].startswith("-DOCSTART-")]
    made = []
    for _ in range(rows):
        words = max(1, round(draw.gammavariate(1.5, WORDS / 1.5)))
        lines: list[str] = []
        while len(lines) < words:
            lines += draw.choice(sentences)
        made.append("\n".join(lines[:words]))
    return "\n\n".join(made) + "\n\n"


def made_situations(split: str, rows: int) -> str:
    """Return the text of a CSV file in SWAG's format.

    Text lengths are assumed to have a gamma distribution of shape 4.
    """
    draw = random.Random(f"situations {split}")
    with (MINI / "swag" / "train.csv").open(encoding="utf-8", newline="") as file:
        situations = list(csv.DictReader(file))
    text = io.StringIO()
    table = csv.DictWriter(text, situations[0].keys(), lineterminator="\n")
    table.writeheader()
    for number in range(rows):
        row = dict(draw.choice(situations), **{"": str(number), "fold-ind": str(number)})
        row["sent1"] = _lengthen(row["sent1"], CAPTION_WORDS, situations, draw)
        for ending in ("ending0", "ending1", "ending2", "ending3"):
            row[ending] = _lengthen(row[ending], ENDING_WORDS, situations, draw)
        table.writerow(row)
    return text.getvalue()


def _lengthen(text: str, mean: float, situations: list[dict[str, str]], draw: random.Random) -> str:
    """Append words of other captions to a text until it has a randomly drawn length."""
    words = text.split()
    wanted = round(draw.gammavariate(4.0, mean / 4.0))
    while len(words) < wanted:
        words += draw.choice(situations)["sent1"].split()
    return " ".join(words[: max(wanted, len(text.split()))])
