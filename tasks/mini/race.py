"""RACE in the official layout: a JSON file per passage, with four questions of four options."""

from functools import partial
from pathlib import Path
from random import Random

from tasks.mini.drawing import draw_splits
from tasks.mini.stories import KINDS, Fact, answers_in_kind, draw_story, tell
from tasks.mini.writing import to_json, write_text

__all__ = ["write_race"]

Question = tuple[str, tuple[str, ...], str]
Passage = tuple[str, tuple[Question, ...]]

SIZES = (44, 14, 8)
"""Passages of train, dev and test, in each of middle and high."""

FACTS = {"middle": 2, "high": 3}


def write_race(folder: Path) -> None:
    """Write {train,dev,test}/{middle,high}/N.txt."""
    for level in FACTS:
        splits = draw_splits(f"race/{level}", partial(_draw, level=level), SIZES)
        for name, passages in zip(("train", "dev", "test"), splits, strict=True):
            for number, passage in enumerate(passages, start=1):
                path = folder / name / level / f"{number}.txt"
                write_text(path, to_json(_document(level, number, passage)))


def _draw(rng: Random, level: str) -> Passage:
    """High school passages are longer, and their wrong options are also in the passage."""
    story = draw_story(rng, FACTS[level])
    asked = rng.sample([(fact, kind) for fact in story for kind in KINDS], 4)
    return tell(story), tuple(_question(rng, story, fact, kind, level) for fact, kind in asked)


def _question(rng: Random, story: tuple[Fact, ...], fact: Fact, kind: str, level: str) -> Question:
    """The right option, and wrong ones: of the kind, in the passage or not, or of another kind."""
    right = fact.answer(kind)
    told = {f.answer(kind) for f in story}
    absent = [option for option in answers_in_kind(kind) if option not in told]
    wrong = [rng.choice(sorted(told - {right})) if level == "high" else rng.choice(absent)]
    for unrelated in rng.sample([k for k in KINDS if k != kind], 2):
        options = [o for o in answers_in_kind(unrelated) if o not in tell(story)]
        wrong.append(rng.choice(options))
    options = [right, *wrong]
    rng.shuffle(options)
    return fact.question(kind), tuple(options), "ABCD"[options.index(right)]


def _document(level: str, number: int, passage: Passage) -> dict[str, object]:
    article, asked = passage
    questions, options, answers = zip(*asked, strict=True)
    return {
        "answers": answers,
        "options": options,
        "questions": questions,
        "article": article,
        "id": f"{level}{number}.txt",
    }
