"""Irregular rows of released benchmarks are scored as by the official scripts, and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.reading.tasks import NO_SENTENCE
from benchharness.extensions.xtreme.tasks import NO_LANGUAGE, NOT_TRANSLATED
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.glue import EMPTY
from benchharness.tasks.multiple_choice import OTHER_LETTER
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import hub
from benchharness.tasks.squad import MOVED, NOWHERE
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import score
from tests.helpers.official_files import to_lines, write_file


def read_as(folder: Path, task: str, split: str, files: dict[str, str]) -> SplitRows:
    """Read a split from official files with these texts."""
    for name, text in files.items():
        data = write_file(folder, name, text)
    return read(find_task(task), split, data)


def labels(rows: SplitRows) -> list[Any]:
    return [example.label for example in rows.examples]  # type: ignore[attr-defined]


# GLUE.

QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
QUOTES = '0\t1\t2\tHow do I say "yes?\tHow "so?\t1\n2\t5\t6\t\tWho asked?\t0\n'


def test_qqp_accepts_unpaired_quotes_and_empty_questions(tmp_path: Path) -> None:
    rows = read_as(tmp_path, "glue/qqp", "train", {"glue/QQP/train.tsv": QQP + QUOTES})
    assert dict(rows.odd) == {EMPTY: 1}
    assert [e.content[:2] for e in rows.examples] == [  # type: ignore[index]
        ('How do I say "yes?', 'How "so?'),
        ("", "Who asked?"),
    ]
    assert labels(rows) == ["duplicate", "not_duplicate"]


def test_malformed_qqp_line_is_an_error_that_names_the_line_number(tmp_path: Path) -> None:
    for broken in ("1\t3\t4\tWhat is a line\nbreak?\tWhat?\t0\n", "3\t7\t8\tWhy?\tWhy\tnot?\t0\n"):
        text = QQP + QUOTES + broken
        with pytest.raises(DataError, match=r"line 4 has \d fields, but the first line has 6"):
            read_as(tmp_path, "glue/qqp", "dev", {"glue/QQP/dev.tsv": text})


MNLI = "index\tsentence1\tsentence2\tgold_label\n0\tA man.\tHe.\t-\n1\tB.\tC.\tneutral\n"


@pytest.mark.parametrize("split", ["dev", "dev_mm"])
def test_mnli_rows_without_an_agreed_label_are_skipped(split: str, tmp_path: Path) -> None:
    genres = "mismatched" if split == "dev_mm" else "matched"
    rows = read_as(tmp_path, "glue/mnli", split, {f"glue/MNLI/dev_{genres}.tsv": MNLI})
    assert (labels(rows), rows.left_out) == (["neutral"], 1)


def test_mnli_test_rows_without_labels_are_included(tmp_path: Path) -> None:
    text = "index\tsentence1\tsentence2\n0\tA.\tB.\n1\tC.\tD.\n"
    rows = read_as(tmp_path, "glue/mnli", "test", {"glue/MNLI/test_matched.tsv": text})
    assert (labels(rows), rows.left_out) == ([None, None], 0)


# SuperGLUE.


def multirc(*questions: tuple[int, list[tuple[int, int]]]) -> str:
    found = [
        {
            "question": f"What of {number}?",
            "idx": number,
            "answers": [{"text": f"a{n}", "idx": n, "label": label} for n, label in answers],
        }
        for number, answers in questions
    ]
    return to_lines([{"idx": 7, "version": 1.1, "passage": {"text": "x", "questions": found}}])


def test_multirc_accepts_gaps_in_row_numbers_and_questions_without_right_options(
    tmp_path: Path,
) -> None:
    text = multirc((40, [(210, 0), (215, 0)]), (44, [(230, 1), (231, 0)]))
    rows = read_as(tmp_path, "superglue/multirc", "dev", {"superglue/MultiRC/val.jsonl": text})
    assert [e.id for e in rows.examples] == ["7-40-210", "7-40-215", "7-44-230", "7-44-231"]
    made = [PairPrediction(id=e.id, label=str(e.id == "7-44-230")) for e in rows.examples]
    found = score(find_task("superglue/multirc"), "dev", made, rows.examples)
    assert found == {"f1a": 1.0, "em": 1.0, "f1m": 1.0}
    none = [PairPrediction(id=e.id, label="False") for e in rows.examples]
    # In the authors' script 0/0 is 1, so the precisions are (1, 1), the recalls (1, 0), and F1m is
    # 2/3.
    found = score(find_task("superglue/multirc"), "dev", none, rows.examples)
    assert found == {"f1a": 0.0, "em": 0.5, "f1m": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("task", "name", "row"),
    [
        (
            "wsc",
            "WSC",
            {
                "text": "Bo met Al.",
                "label": True,
                "target": {
                    "span1_index": 9,
                    "span1_text": "Bo",
                    "span2_index": 2,
                    "span2_text": "Al",
                },
            },
        ),
        (
            "copa",
            "COPA",
            {"premise": "x", "choice1": "a", "choice2": "b", "question": "why", "label": 0},
        ),
        ("boolq", "BoolQ", {"passage": 3, "question": "x", "label": True}),
    ],
)
def test_error_for_a_malformed_row_does_not_name_a_python_exception(
    task: str, name: str, row: Any, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="row 0 cannot be converted: ") as caught:
        read_as(
            tmp_path,
            f"superglue/{task}",
            "train",
            {f"superglue/{name}/train.jsonl": to_lines([row])},
        )
    assert "Error" not in str(caught.value)


# RACE.


def test_race_accepts_lower_case_answer_letters_and_empty_options(tmp_path: Path) -> None:
    passage = {"article": "x", "questions": ["Why?", "Why?"], "answers": ["b", "C"]}
    text = json.dumps({**passage, "options": [["a", "", "c", "d"], ["a", "a", "c", "d"]]})
    files = {f"race/dev/{level}/1.txt": text for level in ("middle", "high")}
    rows = read_as(tmp_path, "race/all", "dev", files)
    assert [e.gold for e in rows.examples] == [(1,), (2,)] * 2  # type: ignore[attr-defined]
    assert [e.id for e in rows.examples] == ["middle1/0", "middle1/1", "high1/0", "high1/1"]
    assert dict(rows.odd) == {OTHER_LETTER: 2}


# Questions about texts: SQuAD's layout, and HotpotQA.


def squad(context: str, *answers: tuple[str, int], name: str = "q") -> str:
    found = [{"text": text, "answer_start": start} for text, start in answers]
    qas = [{"id": name, "question": "Where?", "answers": found}]
    paragraphs = [{"context": context, "qas": qas}]
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]})


GANGA = "\u0917\u0902\u0917\u093e"


@pytest.mark.parametrize(
    ("context", "answer", "start", "found"),
    [
        (f"{GANGA} {GANGA} ?", GANGA, 13, 5),  # the given offset counts bytes
        # The given offset counts UTF-16 units, and the emoji has two.
        ("\U0001f600 Bonn Bonn", "Bonn", 8, 7),
        ("\u00e9 B, or B", "B", 3, 2),
        # The given offset counts UTF-16 units, and the emoji has two.
        ("\U0001f600 In Bonn.", "Bonn", 6, 5),
        ("Bonn, or Bonn.", "Bonn", 8, 9),  # the nearer of two occurrences
        ("In  Bonn .", " Bonn ", 4, 3),  # the spaces belong to the answer
    ],
)
def test_squad_answer_with_a_byte_or_utf16_offset_is_relocated_and_counted(
    context: str, answer: str, start: int, found: int, tmp_path: Path
) -> None:
    text = squad(context, (answer, start))
    rows = read_as(tmp_path, "squad/v1.1", "dev", {"squad/dev-v1.1.json": text})
    (example,) = rows.examples
    assert (example.answers, dict(rows.odd)) == (((answer, found),), {MOVED: 1})  # type: ignore[attr-defined]


def test_squad_answer_missing_from_the_context_is_retained_and_counted(tmp_path: Path) -> None:
    text = squad("In Bonn.", ("Berlin", 3), ("Bonn", 3), ("Rome", -1))
    rows = read_as(tmp_path, "xtreme/xquad", "test_de", {"xtreme/xquad/xquad.de.json": text})
    assert dict(rows.odd) == {NOWHERE: 2}
    assert rows.examples[0].answer_texts == ("Bonn", "Berlin", "Rome")  # type: ignore[attr-defined]


def test_duplicate_squad_question_id_is_an_error_that_names_the_id(tmp_path: Path) -> None:
    one = json.loads(squad("In Bonn.", ("Bonn", 3), name="q7"))
    text = json.dumps({**one, "data": one["data"] * 2})
    with pytest.raises(DataError, match=r"has 2 rows with the id 'q7': download the official file"):
        read_as(tmp_path, "squad/v1.1", "dev", {"squad/dev-v1.1.json": text})


def test_supporting_facts_that_name_no_sentence_are_counted(tmp_path: Path) -> None:
    facts = [["A", 0], ["A", 7], ["Nowhere", 0]]
    question = {"_id": "h", "question": "?", "answer": "Bo", "type": "bridge"}
    text = json.dumps([{**question, "supporting_facts": facts, "context": [["A", ["Bo sat."]]]}])
    file = "hotpotqa/hotpot_dev_distractor_v1.json"
    rows = read_as(tmp_path, "hotpotqa/distractor", "dev", {file: text})
    assert dict(rows.odd) == {NO_SENTENCE: 2}
    assert rows.examples[0].facts == (0, 2, 3) or len(rows.examples[0].facts) == 3  # type: ignore[attr-defined]


# XTREME.


def panx(folder: Path, text: str) -> SplitRows:
    return read_as(folder, "xtreme/panx", "test_de", {"xtreme/panx_dataset/de/test": text})


def test_panx_words_without_a_language_prefix_are_dropped(tmp_path: Path) -> None:
    lines = "de:Bonn\tB-LOC\nist\tO\nde:\tO\nde:schoen\tO\n\nalles\tO\n\nde:Ja\tO\n\n"
    rows = panx(tmp_path, lines)
    assert [e.words for e in rows.examples] == [("Bonn", "", "schoen"), ("Ja",)]  # type: ignore[attr-defined]
    assert dict(rows.odd) == {NO_LANGUAGE: 2}


def test_panx_file_without_language_prefixes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no word begins with a language code, as in 'de:Bonn'"):
        panx(tmp_path, "Bonn\tB-LOC\nist\tO\n\n")


def test_untranslated_pawsx_rows_are_included_and_counted(tmp_path: Path) -> None:
    """Test the faults of google-research-datasets/paws issues 4 and 15."""
    text = "id\tsentence1\tsentence2\tlabel\n1\tEin Weg.\tNS\t0\n2\t\t\t0\n3\tNS \tB.\t1\n"
    rows = read_as(tmp_path, "xtreme/pawsx", "test_de", {"xtreme/x-final/de/test_2k.tsv": text})
    assert (labels(rows), rows.left_out) == (["0", "0", "1"], 0)
    assert dict(rows.odd) == {NOT_TRANSLATED: 2, EMPTY: 1}


def test_tydiqa_file_of_all_languages_is_split_by_language(tmp_path: Path) -> None:
    found = [
        json.loads(squad("In Bonn.", ("Bonn", 3), name=f"{n}-1-0")) for n in ("korean", "swahili")
    ]
    text = json.dumps({"version": "1.1", "data": [a for each in found for a in each["data"]]})
    files = {"xtreme/tydiqa/tydiqa-goldp-v1.1-dev.json": text}
    assert [e.id for e in read_as(tmp_path, "xtreme/tydiqa", "test_sw", files).examples] == [
        "swahili-1-0"
    ]


def test_corrected_answer_offset_does_not_change_the_fingerprint_of_a_split(tmp_path: Path) -> None:
    moved = {"squad/dev-v1.1.json": squad("In Bonn.", ("Bonn", 5))}
    right = {"squad/dev-v1.1.json": squad("In Bonn.", ("Bonn", 3))}
    rows = [
        read_as(tmp_path / str(n), "squad/v1.1", "dev", files)
        for n, files in enumerate((moved, right))
    ]
    assert rows[0].fingerprint == rows[1].fingerprint
    assert (dict(rows[0].odd), dict(rows[1].odd)) == ({MOVED: 1}, {})


def test_mnli_hub_rows_without_a_label_are_skipped() -> None:
    source = find_task("glue/mnli").source
    assert hub._label(source, source.split("dev"), -1, "row 0") is None
    assert hub._label(source, source.split("dev"), 2, "row 1") == "contradiction"
