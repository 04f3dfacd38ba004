"""SQuAD, RACE, CoNLL-2003, SWAG, SNLI and SST in their official layouts."""

import csv
import io
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.helpers.mini_data.grammar import (
    Pair,
    draw_scene,
    draw_splits,
    flat_parses,
    hypernym,
    to_json,
    write_json_lines,
    write_text,
)
from tests.helpers.mini_data.inference import draw_inference
from tests.helpers.mini_data.lexicon import NAMES, TIMES, TOWNS
from tests.helpers.mini_data.sentences import ASPECTS, NEGATIVE, POSITIVE
from tests.helpers.mini_data.stories import KINDS, Fact, answers_in_kind, draw_story, tell

Json = dict[str, object]
Asked = tuple[Fact, str]
Paragraph = tuple[tuple[Fact, ...], tuple[Asked, ...], tuple[Asked, ...]]
"""A story, answerable questions, and unanswerable questions."""

DETAILS = ("when", "where", "how many")
SQUAD_SIZES = (160, 44, 0)
PARAGRAPHS_PER_ARTICLE = 4


def write_squad(folder: Path) -> None:
    """Write train and dev of both versions; 2.0 adds the unanswerable questions."""
    train, dev, _ = draw_splits("squad", _draw_paragraph, SQUAD_SIZES)
    for split, paragraphs in (("train", train), ("dev", dev)):
        for version in ("1.1", "2.0"):
            path = folder / f"{split}-v{version}.json"
            articles = []
            for start in range(0, len(paragraphs), PARAGRAPHS_PER_ARTICLE):
                chosen = paragraphs[start : start + PARAGRAPHS_PER_ARTICLE]
                body = [_paragraph(path.stem, start + n, p, version) for n, p in enumerate(chosen)]
                articles.append(
                    {"title": f"Stories_{start // PARAGRAPHS_PER_ARTICLE}", "paragraphs": body}
                )
            named = version if version == "1.1" else f"v{version}"
            write_text(path, to_json({"version": named, "data": articles}) + "\n")


def _draw_paragraph(rng: Random) -> Paragraph:
    """Draw two facts; unanswerable questions ask for missing or the other fact's details."""
    *told, untold = rng.sample(DETAILS, 3)
    facts = zip(draw_story(rng, 2), told, strict=True)
    one, two = story = tuple(fact.only(kind) for fact, kind in facts)
    answered = [(one, "who"), (two, "who"), (one, told[0]), (two, told[1])]
    rng.shuffle(answered)
    crosswise = rng.choice([(one, told[1]), (two, told[0])])
    return story, tuple(answered), ((rng.choice(story), untold), crosswise)


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
    """Return a question with its answer, for a place or time also without the preposition."""
    answers = [_located(story, fact, fact.answer(kind))]
    shorter = fact.answer(kind).partition(" ")[2]
    if shorter:
        answers.append(_located(story, fact, shorter))
    return {"question": fact.question(kind), "answers": answers}


def _unanswered(story: tuple[Fact, ...], fact: Fact, kind: str) -> Json:
    """Return an unanswerable question; the plausible answer is the other fact's or a person."""
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


def located(story: tuple[Fact, ...], fact: Fact, kind: str) -> Json:
    """Return the answer to the question of that kind, with its position in the story."""
    return _located(story, fact, fact.answer(kind))


# RACE in the official layout: one JSON file per passage, with four questions of four options.

Question = tuple[str, tuple[str, ...], str]
Passage = tuple[str, tuple[Question, ...]]

RACE_SIZES = (44, 14, 8)
"""Numbers of passages in train, dev and test, for each level."""

FACTS = {"middle": 2, "high": 3}


def write_race(folder: Path) -> None:
    """Write {train,dev,test}/{middle,high}/N.txt."""
    for level in FACTS:
        splits = draw_splits(f"race/{level}", partial(_draw_passage, level=level), RACE_SIZES)
        for name, passages in zip(("train", "dev", "test"), splits, strict=True):
            for number, passage in enumerate(passages, start=1):
                path = folder / name / level / f"{number}.txt"
                write_text(path, to_json(_document(level, number, passage)))


def _draw_passage(rng: Random, level: str) -> Passage:
    """Draw a passage; high school ones are longer, with wrong options from the passage."""
    story = draw_story(rng, FACTS[level])
    asked = rng.sample([(fact, kind) for fact in story for kind in KINDS], 4)
    return tell(story), tuple(_question(rng, story, fact, kind, level) for fact, kind in asked)


def _question(rng: Random, story: tuple[Fact, ...], fact: Fact, kind: str, level: str) -> Question:
    """Return a question with the right option, and wrong ones of the same or another kind."""
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


# CoNLL-2003 in the official four columns: word, part of speech, chunk, entity in IOB1.

CONLL_SIZES = (500, 150, 100)
SENTENCES_PER_DOCUMENT = 10
SEPARATOR = "-DOCSTART- -X- O O\n\n"

FIRST_NAMES = NAMES["female"] + NAMES["male"]
# Surnames that are also names of towns or companies, so that some entity types are ambiguous.
SHARED = ("Berg", "Holm", "Lund", "Stone", "Marsh", "Wells", "Banks", "Field")
SURNAMES = ("Carter", "Novak", "Larsen", "Moreau", "Rossi", "Weber", *SHARED)
PLACES = (*TOWNS, *SHARED)
FIRMS = ("Alcor", "Bitwell", "Corvex", "Dynacom", "Elmira", *SHARED)
PEOPLES = ("Norlandic", "Estish", "Veldian", "Santoran", "Kalmondish")
CUPS = ("World Cup", "Harvest Trophy", "Winter Games")

TEMPLATES = (
    "PER said/VBD so/RB on/IN Monday/NNP ./.",
    "ORG said/VBD so/RB on/IN Monday/NNP ./.",
    "LOC said/VBD so/RB on/IN Monday/NNP ./.",
    "LOC beat/VBD LOC in/IN the/DT MISC final/NN ./.",
    "ORG beat/VBD ORG in/IN the/DT MISC final/NN ./.",
    "PER beat/VBD PER in/IN the/DT MISC final/NN ./.",
    "PER visited/VBD LOC with/IN PER ./.",
    "the/DT MISC player/NN PER lives/VBZ in/IN LOC ./.",
    "ORG opened/VBD an/DT office/NN in/IN LOC ./.",
    "shares/NNS of/IN ORG fell/VBD after/IN PER left/VBD ./.",
    "ORG hired/VBD PER from/IN ORG ./.",
    "LOC LOC 3/CD 1/CD",
    "PER won/VBD a/DT MISC race/NN in/IN LOC ./.",
    "officials/NNS in/IN LOC met/VBD PER and/CC PER ./.",
    "the/DT chairman/NN of/IN ORG ,/, PER ,/, resigned/VBD ./.",
    "prices/NNS rose/VBD again/RB in/IN May/NNP ./.",
)

Row = tuple[str, str, str, str]


def write_conll2003(folder: Path) -> None:
    """Write eng.train, eng.testa (dev) and eng.testb (test)."""
    splits = draw_splits("conll2003", draw_tagged, CONLL_SIZES)
    for name, sentences in zip(("train", "testa", "testb"), splits, strict=True):
        blocks = [
            (SEPARATOR if number % SENTENCES_PER_DOCUMENT == 0 else "")
            + ("".join(f"{' '.join(row)}\n" for row in rows) + "\n")
            for number, rows in enumerate(sentences)
        ]
        write_text(folder / f"eng.{name}", "".join(blocks))


def draw_tagged(rng: Random) -> tuple[Row, ...]:
    """Draw a sentence as the columns of its words."""
    rows: list[Row] = []
    for item in rng.choice(TEMPLATES).split():
        word, _, part = item.partition("/")
        rows += [_plain(word, part)] if word not in ENTITIES else _entity(rng, word, rows)
    return tuple(rows)


def _plain(word: str, part: str) -> Row:
    chunk = {"V": "I-VP", "I": "I-PP", "N": "I-NP", "D": "I-NP", "C": "I-NP"}.get(part[0], "O")
    return word, part, chunk, "O"


def _entity(rng: Random, kind: str, before: list[Row]) -> list[Row]:
    """Return an entity in IOB1: I-, or B- directly after an entity of the same kind."""
    words = ENTITIES[kind](rng).split()
    touches = bool(before) and before[-1][3].endswith(kind)
    tags = [f"{'B' if touches else 'I'}-{kind}", *[f"I-{kind}"] * (len(words) - 1)]
    return [(word, "NNP", "I-NP", tag) for word, tag in zip(words, tags, strict=True)]


def _person(rng: Random) -> str:
    surname = rng.choice(SURNAMES)
    return surname if rng.random() < 0.3 else f"{rng.choice(FIRST_NAMES)} {surname}"


def _town(rng: Random) -> str:
    return rng.choice(("", "", "", "", "New ", "Port ")) + rng.choice(PLACES)


def _firm(rng: Random) -> str:
    return rng.choice(FIRMS) + rng.choice(("", "", " Corp", " United", " Bank"))


def _miscellany(rng: Random) -> str:
    return rng.choice(PEOPLES + CUPS)


ENTITIES = {"PER": _person, "LOC": _town, "ORG": _firm, "MISC": _miscellany}


# SWAG in the official CSV: the right one of four endings mentions the thing in the first sentence.

SWAG_SIZES = (500, 150, 80)

ENDINGS = {
    "vehicle": ("drives it home.", "parks it in front of the house.", "stops it at the corner."),
    "tool": ("works with it all day.", "makes a chair with it.", "puts it back into the toolbox."),
    "fruit": ("eats it slowly.", "cuts it and takes a bite.", "puts it into a cake."),
    "instrument": ("plays a song on it.", "starts to make music.", "tunes it for the concert."),
    "garment": ("puts it on.", "folds it and wears another one.", "hangs it over a chair."),
}

COLUMNS = (
    "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0",
    "ending1", "ending2", "ending3",
)  # fmt: skip


class Situation(NamedTuple):
    """A first sentence, the start of the second one, four endings and the right one's index."""

    first: str
    start: str
    endings: tuple[str, ...]
    label: int


def write_swag(folder: Path) -> None:
    """Write train.csv and val.csv with labels, test.csv without."""
    splits = draw_splits("swag", _draw_situation, SWAG_SIZES)
    for name, situations in zip(("train", "val", "test"), splits, strict=True):
        _write_situations(folder / f"{name}.csv", situations, hidden=name == "test")


def _draw_situation(rng: Random) -> Situation:
    scene = draw_scene(rng)
    gender = rng.choice(tuple(NAMES))
    name, pronoun = rng.choice(NAMES[gender]), "She" if gender == "female" else "He"
    event = rng.choice((f"finds the {scene.thing}", f"takes the {scene.thing}"))
    first = f"{name} {event} {scene.place} {rng.choice(TIMES)}."
    kind = hypernym(scene.thing)
    wrong = rng.sample([k for k in ENDINGS if k != kind], 3)
    endings = [rng.choice(ENDINGS[k]) for k in (kind, *wrong)]
    right = endings[0]
    rng.shuffle(endings)
    return Situation(first, pronoun, tuple(endings), endings.index(right))


def _write_situations(path: Path, situations: list[Situation], *, hidden: bool) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS if hidden else (*COLUMNS, "label"))
    for number, situation in enumerate(situations):
        first, start, endings, label = situation
        row = (number, f"mini_{number}", number, f"{first} {start}", first, start, "gold", *endings)
        table.writerow(row if hidden else (*row, label))
    write_text(path, text.getvalue())


# SNLI in the official JSON lines; the gold label is "-" in rows on which the annotators disagree.

SNLI_SIZES = (700, 160, 80)
NO_MAJORITY = ("entailment", "entailment", "neutral", "neutral", "contradiction")


def write_snli(folder: Path) -> None:
    """Write snli_1.0_{train,dev,test}.jsonl; the test labels are public."""
    splits = draw_splits("snli", _draw_pair, SNLI_SIZES)
    for name, pairs in zip(("train", "dev", "test"), splits, strict=True):
        rows = (_row(f"{name}{number}", pair) for number, pair in enumerate(pairs))
        write_json_lines(folder / f"snli_1.0_{name}.jsonl", rows)


def _draw_pair(rng: Random) -> Pair:
    pair = draw_inference(rng)
    return pair._replace(label="-") if rng.random() < 0.02 else pair


def _row(name: str, pair: Pair) -> dict[str, object]:
    labels = NO_MAJORITY if pair.label == "-" else (pair.label,) * 5
    premise, hypothesis = flat_parses(pair.a), flat_parses(pair.b)
    return {
        "annotator_labels": labels,
        "captionID": f"{name}.jpg#0",
        "gold_label": pair.label,
        "pairID": f"{name}.jpg#0{labels[0][0]}",
        "sentence1": pair.a,
        "sentence1_binary_parse": premise[0],
        "sentence1_parse": premise[1],
        "sentence2": pair.b,
        "sentence2_binary_parse": hypothesis[0],
        "sentence2_parse": hypothesis[1],
    }


# The Stanford Sentiment Treebank: one tree per line, in which each phrase has a grade from 0 to 4.

SST_SIZES = (480, 80, 80)
COPULAS = ("is", "was", "seems")
STRONG = ("truly", "very", "utterly")


def write_sst(folder: Path) -> None:
    """Write trees/{train,dev,test}.txt."""
    for name, trees in zip(
        ("train", "dev", "test"), draw_splits("sst", _draw_tree, SST_SIZES), strict=True
    ):
        write_text(folder / "trees" / f"{name}.txt", "".join(f"{tree}\n" for tree in trees))


def _draw_tree(rng: Random) -> str:
    """Draw `the plot is very warm .`; a degree word or negation changes the adjective's label."""
    grade, verdict = _draw_verdict(rng)
    subject = f"(2 (2 the) (2 {rng.choice(ASPECTS[:9])}))"
    clause = f"({grade} {subject} ({grade} (2 {rng.choice(COPULAS)}) {verdict}))"
    if rng.random() < 0.2:
        clause = f"({grade} {clause} (2 (2 -LRB-) (2 (2 and\\/or) (2 (2 so) (2 -RRB-)))))"
    return f"({grade} {clause} (2 .))"


def _draw_verdict(rng: Random) -> tuple[int, str]:
    praise = rng.random() < 0.5
    word, plain = rng.choice(POSITIVE if praise else NEGATIVE), 3 if praise else 1
    adjective = f"({plain} {word})"
    match rng.randrange(5):
        case 0:
            return plain, adjective
        case 1 | 2:
            strong = 4 if praise else 0
            return strong, f"({strong} (2 {rng.choice(STRONG)}) {adjective})"
        case 3:
            return 4 - plain, f"({4 - plain} (2 {rng.choice(('not', 'never'))}) {adjective})"
    return 2, f"(2 (2 (2 neither) {adjective}) (2 (2 nor) ({4 - plain} {_opposite(rng, praise)})))"


def _opposite(rng: Random, praise: bool) -> str:
    return rng.choice(NEGATIVE if praise else POSITIVE)
