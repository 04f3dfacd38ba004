"""XTREME's seven tasks in their official layouts, with English text in every language.

English, and German for small files, have rows of their own; "mini" represents all other languages.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from benchharness.tasks.metrics.entities import to_iob2
from tests.helpers.mini_data.grammar import (
    DrawnT,
    Scene,
    draw_distinct,
    draw_scene,
    to_json,
    write_text,
)
from tests.helpers.mini_data.inference import draw_inference
from tests.helpers.mini_data.others import DETAILS, draw_tagged, located
from tests.helpers.mini_data.sentences import draw_paraphrase
from tests.helpers.mini_data.stories import Fact, draw_story, tell

ROWS = 44
MINI = "mini"
CONTRADICTORY = {"contradiction": "contradictory"}
"""Label names of XNLI's training files."""

WAYS = (Scene.active, Scene.passive, Scene.negated, Scene.fronted)
CLOSED = {"the": "DET", "was": "AUX", "did": "AUX", "not": "PART", ".": "PUNCT"}


def write_xtreme(folder: Path) -> None:
    """Write every task except SQuAD, which is written elsewhere."""
    _xnli(folder)
    _pawsx(folder)
    _panx(folder)
    _udpos(folder)
    _questions(folder)


def _table(path: Path, rows: Sequence[Sequence[str]]) -> None:
    write_text(path, "".join("\t".join(row) + "\n" for row in rows))


def _xnli(folder: Path) -> None:
    train = draw_distinct("xtreme/xnli", 360, draw_inference)
    rest = draw_distinct("xtreme/xnli rest", 60 + 4 * ROWS, draw_inference)
    for name, pairs in (("", train), (MINI, rest[-ROWS:])):
        rows = [(p.a, p.b, CONTRADICTORY.get(p.label, p.label)) for p in pairs]
        path = folder / name / f"XNLI-MT-1.0/multinli/multinli.train.{name or 'en'}.tsv"
        _table(path, [("premise", "hypo", "label"), *rows])
    header = ("language", "gold_label", "sentence1", "sentence2", "pairID")
    languages = ("en", "de", MINI)
    for split, parts in (
        ("dev", [("en", rest[:60])]),
        ("test", [(code, rest[60 + n * ROWS :][:ROWS]) for n, code in enumerate(languages)]),
    ):
        found = [(code, p.label, p.a, p.b) for code, pairs in parts for p in pairs]
        rows = [(*row, str(number)) for number, row in enumerate(found, start=1)]
        _table(folder / f"XNLI-1.0/xnli.{split}.tsv", [header, *rows])


def _pawsx(folder: Path) -> None:
    pairs = iter(draw_distinct("xtreme/pawsx", 300 + 4 * ROWS, draw_paraphrase))
    for path, number in (
        ("x-final/en/train.tsv", 300),
        ("x-final/en/dev_2k.tsv", ROWS),
        ("mini/x-final/mini/test_2k.tsv", ROWS),
        ("mini/x-final/mini/translated_train.tsv", ROWS),
    ):
        rows = [(str(n), p.a, p.b, p.label) for n, p in _some(pairs, number)]
        _table(folder / path, [("id", "sentence1", "sentence2", "label"), *rows])


def _panx(folder: Path) -> None:
    """Write language and word, the tag in IOB2, and an empty line after each sentence."""
    sentences = iter(draw_distinct("xtreme/panx", 200 + 5 * ROWS, _entities))
    for path, code, number in (
        ("panx_dataset/en/train", "en", 200),
        ("panx_dataset/en/dev", "en", ROWS),
        ("panx_dataset/de/test", "de", ROWS),
        ("mini/panx_dataset/mini/test", MINI, ROWS),
        ("mini/panx_dataset/mini/train", MINI, ROWS),
    ):
        blocks = [
            "".join(f"{code}:{word}\t{tag}\n" for word, tag in sentence) + "\n"
            for _, sentence in _some(sentences, number)
        ]
        write_text(folder / path, "".join(blocks))


def _entities(rng: Random) -> tuple[tuple[str, str], ...]:
    """Draw a CoNLL-2003 sentence without MISC entities, which WikiANN does not have."""
    rows = draw_tagged(rng)
    while any(row[-1].endswith("MISC") for row in rows):
        rows = draw_tagged(rng)
    tags = to_iob2([row[-1] for row in rows])
    return tuple(zip((row[0] for row in rows), tags, strict=True))


def _udpos(folder: Path) -> None:
    """Write ten columns per word."""
    sentences = iter(draw_distinct("xtreme/udpos", 90 + 3 * ROWS, _parts_of_speech))
    for path, number in (
        ("ud-treebanks-v2.5/UD_English-Mini/en_mini-ud-train.conllu", 90),
        ("ud-treebanks-v2.5/UD_English-Mini/en_mini-ud-dev.conllu", ROWS),
        ("mini/ud-treebanks-v2.5/UD_Mini-Mini/mini_mini-ud-test.conllu", ROWS),
        ("mini/ud-treebanks-v2.5/UD_Mini-Mini/mini_mini-ud-train.conllu", ROWS),
    ):
        blocks = [
            "".join(f"{n}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_\n" for n, (word, tag) in words) + "\n"
            for _, sentence in _some(sentences, number)
            for words in [list(enumerate(sentence, start=1))]
        ]
        write_text(folder / path, "".join(blocks))


def _parts_of_speech(rng: Random) -> tuple[tuple[str, str], ...]:
    scene = draw_scene(rng)
    words = f"{rng.choice(WAYS)(scene).removesuffix('.')} .".split()
    verbs = dict.fromkeys((scene.verb.past, scene.verb.participle, scene.verb.base), "VERB")
    nouns = dict.fromkeys((scene.person, scene.thing, scene.place.split()[-1]), "NOUN")
    known = {**CLOSED, **verbs, **nouns}
    return tuple((word, known.get(word.lower(), "ADP")) for word in words)


def _some(drawn: Iterator[DrawnT], number: int) -> Iterator[tuple[int, DrawnT]]:
    """Return the next rows, numbered from 1."""
    return enumerate(islice(drawn, number), start=1)


def _questions(folder: Path) -> None:
    """Write TyDi QA, whose training file has all languages, distinguished by ids."""
    stories = iter(draw_distinct("xtreme/questions", 120, _story))
    for path, languages in (
        ("tydiqa/tydiqa-goldp-v1.1-train.json", {"english": 60, MINI: 10}),
        ("tydiqa/tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-english.json", {"english": 10}),
        ("mini/tydiqa/tydiqa-goldp-v1.1-dev/tydiqa-goldp-dev-mini.json", {MINI: 10}),
        ("mini/xquad/xquad.mini.json", {"": 10}),
        ("mini/MLQA_V1/dev/dev-context-mini-question-mini.json", {"": 10}),
        ("mini/MLQA_V1/test/test-context-mini-question-mini.json", {"": 10}),
    ):
        chosen = [
            _paragraph(story, f"{language or path.rpartition('/')[2]}-{n}")
            for language, number in languages.items()
            for n, story in _some(stories, number)
        ]
        article = {**({} if "tydiqa" in path else {"title": "Stories"}), "paragraphs": chosen}
        write_text(folder / path, to_json({"version": "1.0", "data": [article]}) + "\n")


def _story(rng: Random) -> tuple[Fact, ...]:
    """Return a story in which each fact has a detail of another kind."""
    kinds = rng.sample(DETAILS, 2)
    return tuple(f.only(kind) for f, kind in zip(draw_story(rng, 2), kinds, strict=True))


def _paragraph(story: tuple[Fact, ...], name: str) -> dict[str, object]:
    asked = [(f, kind) for f in story for kind in ("who", *DETAILS) if f.answer(kind)]
    return {
        "context": tell(story),
        "qas": [
            {
                "question": f.question(kind),
                "id": f"{name}-{n}",
                "answers": [located(story, f, kind)],
            }
            for n, (f, kind) in enumerate(asked)
        ],
    }
