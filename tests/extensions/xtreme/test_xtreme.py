"""XTREME: scorers and averages, official layouts, and errors."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from seqeval.metrics import f1_score, precision_score, recall_score

from benchharness.errors import DataError
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.tasks.examples import (
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.read import read, read_train
from benchharness.tasks.sources import Data, hub, missing_files
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import RULES, SUITES, find_task
from benchharness.tasks.task import PairTask, TagTask, score
from tests.helpers.squad_oracle import evaluate_v1
from tests.helpers.xtreme_oracle import average, evaluate_mlqa

TASKS = {name.partition("/")[2]: find_task(name) for name in SUITES["xtreme"].rule.cells}
SETS_IN_A_PART = 100
PARTS = [0, *(pytest.param(part, marks=pytest.mark.soak) for part in range(1, 10))]
"""Parts with 1,000 sets in total."""

WORDS = (
    *(
        "the",
        "a",
        "La",
        "los",
        "der",
        "Des",
        "của",
        "là",
        "ال",
        "الكتاب",
        "كتابال",
        "سال",
        "，",
        "—",
    ),
    *(
        "東京",
        "京",
        "東京tower",
        "東 京",
        "2,000",
        "«x»",
        "l'an",
        "Paris",
        "paris.",
        "U.S.",
        "-",
        "ß",
    ),
    *("नमस्ते", "।", "das-ende", "¿qué?", "El Niño", "\u200c", "İ", "\u3000", "un", "x_y", "$5"),
)


def answer(draw: Random) -> str:
    return draw.choice((" ", " ", "")).join(draw.choices(WORDS, k=draw.randrange(4)))


def drawn_questions(draw: Random, language: str) -> tuple[list[Any], list[Any]]:
    examples, predictions = [], []
    for number in range(draw.randint(1, 4)):
        golds = [answer(draw) for _ in range(draw.randint(1, 3))]
        answers = tuple((gold, -1) for gold in golds)
        name = f"q{number}"
        examples.append(
            SpanExample(id=name, question="?", context="", answers=answers, language=language)
        )
        guess = draw.choice([*golds, answer(draw)])
        missing = draw.random() < 0.1
        predictions.append(SpanPrediction(id=name, text="" if missing else guess, missing=missing))
    return predictions, examples


def drawn_tags(draw: Random, tags: Sequence[str]) -> tuple[list[Any], list[Any]]:
    # Use few tags at a time, so that equal tags are often adjacent.
    known = draw.sample(tags, k=draw.randint(2, 6))
    examples, predictions = [], []
    for number in range(draw.randint(1, 4)):
        gold = tuple(draw.choices(known, k=draw.randint(1, 8)))
        guess = tuple(tag if draw.random() < 0.7 else draw.choice(known) for tag in gold)
        examples.append(TagExample(id=str(number), words=("w",) * len(gold), tags=gold))
        predictions.append(TagPrediction(id=str(number), tags=guess))
    return predictions, examples


def drawn_pairs(draw: Random, labels: Sequence[str]) -> tuple[list[Any], list[Any]]:
    examples = [
        PairExample(id=str(n), text_a="x", label=draw.choice(labels))
        for n in range(draw.randint(1, 9))
    ]
    return [PairPrediction(id=e.id, label=draw.choice(labels)) for e in examples], examples


def official(name: str, language: str, predictions: list[Any], examples: list[Any]) -> Any:
    """Return the official scores of a language, in percent, by the names used here."""
    task = TASKS[name]
    if task.head == "span":
        answers = {p.id: p.text for p in predictions if not p.missing}
        golds = {e.id: [text for text, _ in e.answers] for e in examples}
        if name == "mlqa":
            found = evaluate_mlqa(golds, answers, language)
        else:
            data = [{"id": key, "answers": texts} for key, texts in golds.items()]
            found = evaluate_v1(data, answers)
        return {"em": found["exact_match"], "f1": found["f1"]}
    if task.head == "tag":
        gold, guess = ([list(each.tags) for each in found] for found in (examples, predictions))
        pairs = [
            (a, b) for x, y in zip(gold, guess, strict=True) for a, b in zip(x, y, strict=True)
        ]
        right = sum(a == b for a, b in pairs)
        return {
            "f1": 100 * f1_score(gold, guess, zero_division=0),
            "precision": 100 * precision_score(gold, guess, zero_division=0),
            "recall": 100 * recall_score(gold, guess, zero_division=0),
            # For entities, accuracy is computed on IOB2 tags and is not a number of XTREME's
            # script.
            **({"accuracy": 100 * right / len(pairs)} if name == "udpos" else {}),
        }
    right = sum(p.label == e.label for p, e in zip(predictions, examples, strict=True))
    return {"accuracy": 100 * right / len(predictions)}


def drawn(name: str, draw: Random, language: str) -> tuple[list[Any], list[Any]]:
    match TASKS[name]:
        case PairTask() as pairs:
            return drawn_pairs(draw, pairs.labels)
        case TagTask() as tagged:
            return drawn_tags(draw, tagged.tags)
    return drawn_questions(draw, language if name == "mlqa" else "")


@pytest.mark.filterwarnings("ignore::UserWarning")  # seqeval warns about tags without B- and I-
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", TASKS)
def test_xtreme_scores_of_random_predictions_equal_the_official_scorers(
    name: str, part: int
) -> None:
    for number in range(SETS_IN_A_PART):
        draw = Random(f"{name} {part} {number}")
        split, language = draw.choice([*TASKS[name].split_titles.items()])
        predictions, examples = drawn(name, draw, language)
        found = score(TASKS[name], split, predictions, examples)
        wanted = official(name, language, predictions, examples)
        assert {key: found[f"{key}_{language}"] for key in wanted} == {
            key: pytest.approx(value / 100, abs=1e-12) for key, value in wanted.items()
        }


def test_xtreme_average_equals_that_of_the_official_script() -> None:
    for seed in range(20):
        draw = Random(seed)
        cells = RULES["XTREME-7"].cells
        scores = {task: {cell: draw.random() for cell in cells[task]} for task in cells}
        theirs = {
            task: {
                metric.name: [scores[task][f"{metric.name}_{code}"] for code in titles.values()]
                for metric in find_task(task).metrics
            }
            for task in cells
            for titles in [find_task(task).split_titles]
        }
        assert RULES["XTREME-7"].score(scores) == pytest.approx(average(theirs), abs=1e-12)


def test_xtreme_average_is_none_if_a_language_is_missing() -> None:
    scores = {task: dict.fromkeys(cells, 0.5) for task, cells in RULES["XTREME-7"].cells.items()}
    assert RULES["XTREME-7"].score(scores) == 0.5
    del scores["xtreme/udpos"]["f1_yo"]
    assert RULES["XTREME-7"].score(scores) is None


# File layouts.


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def files(folder: Path) -> Data:
    return Data(source="files", folder=folder)


TREEBANK = """# text = Er geht zum Haus.
1\tEr\t_\tPRON\t_\t_\t2\t_\t_\t_
2\tgeht\t_\tVERB\t_\t_\t0\t_\t_\t_
3-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_
3\tzu\t_\tADP\t_\t_\t5\t_\t_\t_
4\tdem\t_\tDET\t_\t_\t5\t_\t_\t_
5\tHa us\t_\tNOUN\t_\t_\t2\t_\t2:obl\t_
5.1\t_\t_\tVERB\t_\t_\t_\t_\t2:conj\t_
6\t.\t_\tPUNCT\t_\t_\t2\t_\t_\t_

1-2\tdámelo\t_\t_\t_\t_\t_\t_\t_\t_
1\tda\t_\tVERB\t_\t_\t0\t_\t_\t_
2\tmelo\t_\tPRON\t_\t_\t1\t_\t_\t_

1\t_\t_\tNOUN\t_\t_\t0\t_\t_\t_
2\t_\t_\tNOUN\t_\t_\t1\t_\t_\t_
"""


def test_udpos_reader_keeps_fused_words_and_skips_empty_sentences(
    tmp_path: Path,
) -> None:
    ud = tmp_path / "ud-treebanks-v2.5"
    write(ud / "UD_German-A/de_a-ud-test.conllu", TREEBANK)
    write(ud / "UD_German-B/de_b-ud-test.conllu", "1\tJa\t_\tINTJ\t_\t_\t0\t_\t_\t_\n")
    rows = read(TASKS["udpos"], "test_de", files(tmp_path))
    # "zu" and "dem" have the same distance to the root, so the order of tags decides: ADP before
    # DET.
    assert [(e.words, e.tags) for e in rows.examples] == [  # type: ignore[attr-defined]
        (("Er", "geht", "zum", "Haus", "."), ("PRON", "VERB", "ADP", "NOUN", "PUNCT")),
        (("dámelo",), ("VERB",)),
        (("Ja",), ("INTJ",)),
    ]
    assert rows.left_out == 1


@pytest.mark.parametrize("number", ["-", "1-", "a-b", "1-2-3", "", "\u0661", "9" * 5000])
def test_invalid_word_number_in_a_udpos_treebank_is_an_error(number: str, tmp_path: Path) -> None:
    line = f"{number}\tJa\t_\tINTJ\t_\t_\t0\t_\t_\t_\n"
    write(tmp_path / "ud-treebanks-v2.5" / "UD_German-A" / "de_a-ud-test.conllu", line)
    with pytest.raises(DataError, match=r"line 1 has the word number '.*; expected a number such"):
        read(TASKS["udpos"], "test_de", files(tmp_path))
    huge = f"1\tJa\t_\tINTJ\t_\t_\t{'9' * 5000}\t_\t_\t_\n1-1\tJa\t_\t_\t_\t_\t_\t_\t_\t_\n"
    write(tmp_path / "ud-treebanks-v2.5" / "UD_German-A" / "de_a-ud-test.conllu", huge)
    assert len(read(TASKS["udpos"], "test_de", files(tmp_path)).examples) == 1


def test_xtreme_rows_of_a_language_are_selected_from_a_multilingual_table(tmp_path: Path) -> None:
    header = "language\tgold_label\tsentence1\tsentence2\n"
    lines = "ar\tneutral\ta\tb\nde\tentailment\tc\td\nar\tcontradiction\te\tf\n"
    write(tmp_path / "XNLI-1.0/xnli.test.tsv", header + lines)
    write(
        tmp_path / "XNLI-MT-1.0/multinli/multinli.train.de.tsv",
        "premise\thypo\tlabel\nx\ty\tcontradictory\n",
    )
    read_back = read(TASKS["xnli"], "test_ar", files(tmp_path)).examples
    assert [(e.id, e.label) for e in read_back] == [  # type: ignore[attr-defined]
        ("0", "neutral"),
        ("1", "contradiction"),
    ]
    (german,) = read(TASKS["xnli"], "train_de", files(tmp_path)).examples
    assert german == PairExample(id="0", text_a="x", text_b="y", label="contradiction")


def test_language_prefix_of_panx_words_is_removed(tmp_path: Path) -> None:
    write(tmp_path / "panx_dataset/de/test", "de:Bonn\tB-LOC\nde::\tO\nde:9:30\tO\n\n")
    (example,) = read(TASKS["panx"], "test_de", files(tmp_path / "panx_dataset")).examples
    assert example.words == ("Bonn", ":", "9:30")  # type: ignore[attr-defined]


def test_mlqa_examples_contain_their_language() -> None:
    examples = read(TASKS["mlqa"], "test_vi", Data(source="mini")).examples
    assert {e.language for e in examples} == {"vi"}  # type: ignore[attr-defined]
    others = read(TASKS["xquad"], "test_vi", Data(source="mini")).examples
    assert {e.language for e in others} == {""}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "asked_for",
    [
        "xnli test_de facebook/xnli de test",
        "xnli train_fr facebook/xnli fr train",
        "pawsx dev google-research-datasets/paws-x en validation",
        "panx test_yo google/xtreme PAN-X.yo test",
        "udpos test_de google/xtreme udpos.German test",
        "xquad test_hi google/xtreme XQuAD.hi validation",
        "mlqa dev google/xtreme MLQA.en.en validation",
        "tydiqa test_fi google-research-datasets/tydiqa secondary_task validation",
    ],
)
def test_xtreme_hub_config_and_split_match_the_language(
    asked_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, split, *place = asked_for.split()
    asked: list[list[str]] = []

    def rows_of(source: Any, wanted: str) -> list[Any]:
        asked.append([source.hub, source.config, source.split(wanted).hub])
        ids = ("finnish-1", "korean-1") if name == "tydiqa" else ("1", "2")
        one = {"tokens": ["Bonn"], "ner_tags": ["B-LOC"], "pos_tags": ["PROPN"]}
        texts = ("premise", "hypothesis", "sentence1", "sentence2", "title", "context", "question")
        answers = {"answers.text": ["x"], "answers.answer_start": [0]}
        label = TASKS[name].source.label_names[-1:] or (None,)
        every = {**one, **dict.fromkeys(texts, "x"), **answers, "label": label[0]}
        columns = {key: every[key] for key in source.columns if key in every}
        return [{**columns, "id": key} for key in ids]

    monkeypatch.setattr(hub, "_config_rows", rows_of)
    examples = read(TASKS[name], split, Data(source="hub")).examples
    assert asked == [place]
    assert len(examples) == (1 if name == "tydiqa" else 2)
    if name == "panx":
        assert examples[0].words == ("Bonn",)  # type: ignore[attr-defined]


# Training languages.


def test_xtreme_training_languages_are_concatenated() -> None:
    task, data = TASKS["panx"], Data(source="mini")
    english, german = read(task, "train", data), read_train(task, "de", data)
    assert [e.id for e in german.examples][:2] == ["de-0", "de-1"]
    both = read_train(task, "en+de", data)
    assert len(both.examples) == len(english.examples) + len(german.examples)
    assert len({each.fingerprint for each in (english, german, both)}) == 3
    every = read_train(TASKS["pawsx"], "all", data)
    assert {e.id.partition("-")[0] for e in every.examples} == {
        *TASKS["pawsx"].split_titles.values()
    }
    with pytest.raises(DataError, match=r"xtreme/pawsx has no training rows in 'sw': set .* en, d"):
        read_train(TASKS["pawsx"], "de+sw", data)


# Messages about unsuitable data, each of one sentence.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(mini_folder() / "xtreme", tmp_path / "xtreme"))


def test_missing_xtreme_language_file_is_an_error_that_names_it(folder: Path) -> None:
    shutil.rmtree(folder / "mini")
    said = missing_files(TASKS["panx"].source, ["test_de", "test_yo"], files(folder))
    assert said == "panx_dataset/yo/test (test_yo)"
    with pytest.raises(
        DataError,
        match=r"^[^\n]*has no xquad/xquad.hi.json \(test_hi\); the folder contains[^\n]*$",
    ):
        read(TASKS["xquad"], "test_hi", files(folder))


XNLI = "gold_label\tsentence1\tsentence2\nneutral\ta\tb\n"
TREEBANK_DEV = "ud-treebanks-v2.5/UD_English-Mini/en_mini-ud-dev.conllu"
TYDI = {"id": "klingon-1", "question": "?", "answers": [{"text": "x", "answer_start": 0}]}
KLINGON = json.dumps({"data": [{"paragraphs": [{"context": "x", "qas": [TYDI]}]}]})


@pytest.mark.parametrize(
    ("place", "text", "said"),
    [
        ("xnli test_de XNLI-1.0/xnli.test.tsv", XNLI, "has no column for the language"),
        ("panx test_de panx_dataset/de/test", "de:Bonn\n", "has the word 'de:Bonn' but no tag"),
        ("panx dev panx_dataset/en/dev", "en:x\tMISC\n", "has the tag 'MISC'; expected one of"),
        (f"udpos dev {TREEBANK_DEV}", "1\tx\tNOUN\n", "line 1 has 3 columns; expected CoNLL-U's"),
        (
            f"udpos dev {TREEBANK_DEV}",
            "1\tx\t_\tNN\t_\t_\t0\t_\t_\t_\n",
            "has the tag 'NN'; expected one of ADJ, ADP",
        ),
        (
            "pawsx dev x-final/en/dev_2k.tsv",
            "id\tsentence1\tsentence2\tlabel\n1\ta\tb\n",
            "line 2 has 3 fields, but the first line has 4",
        ),
        (
            "tydiqa train tydiqa/tydiqa-goldp-v1.1-train.json",
            KLINGON,
            "the question id 'klingon-1' does not begin with a language of TyDi QA",
        ),
        (
            "mlqa dev MLQA_V1/dev/dev-context-en-question-en.json",
            "[]",
            "is JSON, but not an object: found list",
        ),
    ],
)
def test_malformed_xtreme_file_is_a_one_line_error(
    folder: Path, place: str, text: str, said: str
) -> None:
    name, split, path = place.split()
    write(folder / path, text)
    with pytest.raises(DataError, match=r"^[^\n]*$") as caught:
        read(TASKS[name], split, files(folder))
    assert said in str(caught.value)


def test_xtreme_prediction_for_an_unknown_question_is_noted(tmp_path: Path) -> None:
    rows = read(TASKS["mlqa"], "test_de", Data(source="mini"))
    answers = {example.id: "x" for example in rows.examples}
    path = tmp_path / "test-de.json"
    path.write_text(json.dumps(answers | {"nobody": "x"}))
    (note,) = read_predictions(path, TASKS["mlqa"], rows).notes
    assert note == "test-de.json: 1 of its answers belong to questions that the split lacks"
    path.write_text(json.dumps(answers))
    assert len(read_predictions(path, TASKS["mlqa"], rows).predictions) == len(answers)


def test_udpos_predictions_are_read_from_a_tag_file(tmp_path: Path) -> None:
    rows = read(TASKS["udpos"], "test_de", Data(source="mini"))
    path = tmp_path / "test-de.tsv"
    lines = ("".join(f"{tag}\n" for tag in e.tags) + "\n" for e in rows.examples)  # type: ignore[attr-defined]
    path.write_text("".join(lines))
    found = read_predictions(path, TASKS["udpos"], rows)
    assert [p.tags for p in found.predictions] == [e.tags for e in rows.examples]  # type: ignore[attr-defined]
