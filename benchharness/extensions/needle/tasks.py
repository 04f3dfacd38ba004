"""Needle in a haystack: only one sentence of a long text contains the answer.

The sentence and the question are from Mohtashami and Jaggi (Landmark Attention, NeurIPS 2023),
except that the number is a word. The lengths are from LongEmbed (Zhu et al., EMNLP 2024), and the
depths (positions of the sentence, in percent of the text) from Kamradt. Those works query an
embedding or a language model, whereas here an encoder is fine-tuned. Other numbers occur all over
the text, so a single word does not reveal the answer. Two adjacent words ("is seven") reveal it,
and they are equally easy to recognize at every length. So an encoder that fails only at large
lengths cannot read that far.
"""

from functools import partial
from itertools import product
from pathlib import Path
from random import Random

from benchharness.tasks.examples import PairExample
from benchharness.tasks.metrics import accuracy, by_category
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.sources.source import Row, Source, Split, text
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import PairTask

DEPTHS = range(0, 100, 10)
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")

_WHO = "farmer doctor teacher painter driver student singer nurse baker gardener"
_DID = "cleaned opened closed painted found lost bought sold saw broke"
_WHAT = "apples pears peaches coats hats gloves cars buses drums guitars"

_SHORTER = 8
"""Factor by which the texts of mini data are shorter."""

SENTENCE = 6
"""Number of words and punctuation marks in each sentence of a text, and in the question. The needle
(the sentence with the answer) has this length too."""

_ROWS = {"train": 20, "dev": 5}
"""Number of rows per depth and answer, keyed by split."""


def _haystacks(length: int, split: str, place: Path | None) -> list[Row]:
    """Generate the rows of a needle task for one maximum length.

    A text and its question together have 15/16 * `length` words and punctuation marks. English
    tokenizers have a single token for each of these words. The remaining 1/16 leaves room for
    special tokens and for words that a tokenizer splits. If a text is still too long, its end is
    truncated. This removes the needle only if more than a tenth of the text is lost. Training texts
    have between an eighth of the full length and the full length, because a network without
    pretraining learns from short texts first. In the mini data, all texts are an eighth as long.
    """
    count = length * 15 // (16 * SENTENCE * (_SHORTER if place == mini_folder() else 1)) - 1
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


TASKS = tuple(
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
        categories={f"depth_{depth}": f"depth {depth} %" for depth in DEPTHS},
        cite="benchharness, after Zhu et al., LongEmbed, EMNLP 2024",
    )
    for length in (512, 1024, 2048, 4096, 8192)
)

SUITES = (
    suite_of(
        TASKS,
        "Needle",
        ScoreRule(
            name="Needle",
            cells={task.name: ("accuracy",) for task in TASKS},
            cite="benchharness: the mean over lengths, as in Zhu et al., LongEmbed, EMNLP 2024",
        ),
    ),
)
