"""SQuAD 1.1 and 2.0 in the official JSON: stories with questions on who, when, where, how many."""

from pathlib import Path
from random import Random

from tasks.mini.drawing import draw_splits
from tasks.mini.stories import Fact, draw_story, tell
from tasks.mini.writing import to_json, write_text

__all__ = ["write_squad"]

Json = dict[str, object]
Asked = tuple[Fact, str]
Paragraph = tuple[tuple[Fact, ...], tuple[Asked, ...], tuple[Asked, ...]]
"""A story, questions that it answers, and questions that it does not."""

DETAILS = ("when", "where", "how many")
SIZES = (160, 44, 0)
PARAGRAPHS_PER_ARTICLE = 4


def write_squad(folder: Path) -> None:
    """Write train and dev of both versions; 2.0 adds the unanswerable questions."""
    train, dev, _ = draw_splits("squad", _draw_paragraph, SIZES)
    for split, paragraphs in (("train", train), ("dev", dev)):
        for version in ("1.1", "2.0"):
            _write(folder / f"{split}-v{version}.json", paragraphs, version)


def _draw_paragraph(rng: Random) -> Paragraph:
    """Each fact has a detail of another kind, and no answer lies in the third kind or crosswise."""
    *told, untold = rng.sample(DETAILS, 3)
    facts = zip(draw_story(rng, 2), told, strict=True)
    one, two = story = tuple(fact.only(kind) for fact, kind in facts)
    answered = [(one, "who"), (two, "who"), (one, told[0]), (two, told[1])]
    rng.shuffle(answered)
    crosswise = rng.choice([(one, told[1]), (two, told[0])])
    return story, tuple(answered), ((rng.choice(story), untold), crosswise)


def _write(path: Path, paragraphs: list[Paragraph], version: str) -> None:
    articles = []
    for start in range(0, len(paragraphs), PARAGRAPHS_PER_ARTICLE):
        chosen = paragraphs[start : start + PARAGRAPHS_PER_ARTICLE]
        body = [_paragraph(path.stem, start + n, p, version) for n, p in enumerate(chosen)]
        articles.append({"title": f"Stories_{start // PARAGRAPHS_PER_ARTICLE}", "paragraphs": body})
    named = version if version == "1.1" else f"v{version}"
    write_text(path, to_json({"version": named, "data": articles}) + "\n")


def _paragraph(name: str, number: int, paragraph: Paragraph, version: str) -> Json:
    story, answered, unanswered = paragraph
    questions = [_answered(story, fact, kind) for fact, kind in answered]
    if version == "2.0":
        questions = [q | {"is_impossible": False} for q in questions]
        questions += [_unanswered(story, fact, kind) for fact, kind in unanswered]
    ids = (f"{name}-{number:03}-{n}" for n in range(len(questions)))
    qas = [
        {"question": q.pop("question"), "id": i, **q} for i, q in zip(ids, questions, strict=True)
    ]
    return {"context": tell(story), "qas": qas}


def _answered(story: tuple[Fact, ...], fact: Fact, kind: str) -> Json:
    """With the answer, and for a place or time also the answer without its preposition."""
    answers = [_located(story, fact, fact.answer(kind))]
    shorter = fact.answer(kind).partition(" ")[2]
    if shorter:
        answers.append(_located(story, fact, shorter))
    return {"question": fact.question(kind), "answers": answers}


def _unanswered(story: tuple[Fact, ...], fact: Fact, kind: str) -> Json:
    """The plausible answer is what is told of the other fact, or else who did it."""
    teller = next((f for f in story if f.answer(kind)), fact)
    plausible = _located(story, teller, teller.answer(kind) or teller.person)
    return {
        "question": fact.question(kind),
        "answers": [],
        "plausible_answers": [plausible],
        "is_impossible": True,
    }


def _located(story: tuple[Fact, ...], fact: Fact, answer: str) -> Json:
    told = tell(story).index(fact.told())
    return {"text": answer, "answer_start": told + fact.told().rindex(answer)}
