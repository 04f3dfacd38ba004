"""Tests that RACE's rows and their order are the same from folders of passages and from the hub."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.multiple_choice import RACE
from benchharness.tasks.read import subset
from benchharness.tasks.sources import Data
from benchharness.tasks.task import score
from tests.helpers.official_files import read_file, write_file

OPTIONS = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]


def passage(name: str, **changed: Any) -> str:
    document = {
        "answers": ["B", "D"],
        "options": OPTIONS,
        "questions": ["Why?", "It is _ ."],
        "article": f"The text of {name}.",
        "id": f"{name}.txt",
    }
    return json.dumps({**document, **changed})


def write_passages(folder: Path, *names: str, home: str = "race/train") -> Data:
    for name in names:
        level = name.rstrip("0123456789")
        path = f"{home}/{level}/{name.removeprefix(level)}.txt"
        data = write_file(folder, path, passage(name))
    return data


def read_race(data: Data) -> list[ChoiceExample]:
    found = read_file("race/all", "train", data).examples
    return [example for example in found if isinstance(example, ChoiceExample)]


def test_race_passages_are_read_in_numeric_order_within_each_level(tmp_path: Path) -> None:
    data = write_passages(tmp_path, "high10", "high9", "middle2", "middle10")
    ids = [example.id for example in read_race(data)]
    names = ["middle2", "middle10", "high9", "high10"]
    assert ids == [f"{name}/{number}" for name in names for number in (0, 1)]
    assert [example.group for example in read_race(data)] == ["middle"] * 4 + ["high"] * 4


@pytest.mark.parametrize("home", ["train", "RACE/train", "race/RACE/train"])
def test_race_folder_names_of_the_archive_are_accepted(tmp_path: Path, home: str) -> None:
    assert len(read_race(write_passages(tmp_path, "middle1", "high1", home=home))) == 4


@pytest.mark.parametrize(("there", "absent"), [("middle", "high"), ("high", "middle")])
def test_race_folder_with_only_one_level_is_an_error(
    tmp_path: Path, there: str, absent: str
) -> None:
    data = write_passages(tmp_path, f"{there}1", f"{there}2")
    error = rf"split train of .* no passage of the level {absent}, but RACE's score needs both"
    with pytest.raises(DataError, match=error):
        read_race(data)


def test_folder_without_race_data_is_an_error(tmp_path: Path) -> None:
    data = write_file(tmp_path, "train/notes.txt", "{}")
    with pytest.raises(DataError, match=r"has no train/\*/\*\.txt \(train\)"):
        read_race(data)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"answers": ["E", "A"]}, r"row 2 .*answer is 'E', expected A, B, C or D"),
        ({"answers": ["AB", "A"]}, r"its answer is 'AB'"),
        ({"answers": ["", "A"]}, r"its answer is ''"),
        ({"answers": ["A"]}, r"7\.txt has 2 questions, 2 lists of options and 1 answers"),
        ({"options": OPTIONS[:1]}, r"7\.txt has 2 questions, 1 lists of options"),
        ({"options": [[], ["x"]]}, r"row 2 has no options"),
        ({"options": [["x"], ["y"]]}, r"row 2 has the gold options \(1,\); expected one or more"),
        ({"options": ["abcd", "efgh"]}, r"its options is 'abcd', expected texts"),
        ({"options": [[1, 2], ["y"]]}, r"its options is \[1, 2\], expected texts"),
        ({"questions": "Why?"}, r"7\.txt has no list 'questions': found str"),
        ({"article": None}, r"row 2 cannot be converted: its article is None"),
    ],
)  # fmt: skip
def test_malformed_race_passage_is_an_error_that_names_the_passage(
    tmp_path: Path, changed: Any, error: str
) -> None:
    write_passages(tmp_path, "middle1")
    data = write_file(tmp_path, "race/train/high/7.txt", passage("high7", **changed))
    with pytest.raises(DataError, match=error):
        read_race(data)


def test_file_that_is_not_a_race_passage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    data = write_file(tmp_path, "race/train/high/7.txt", "[")
    with pytest.raises(DataError, match=r"high.7\.txt is not JSON"):
        read_race(data)
    data = write_file(tmp_path, "race/train/high/7.txt", passage("high7"))
    write_file(tmp_path, "race/train/primary/1.txt", passage("primary1"))
    with pytest.raises(DataError, match=r"'primary1\.txt' is not named like 'high12\.txt'"):
        read_race(data)


def test_race_score_has_pooled_accuracy_and_accuracy_per_level(tmp_path: Path) -> None:
    examples = read_race(write_passages(tmp_path, "middle1", "high1", "high2"))
    predictions = [ChoicePrediction(id=e.id, option=1) for e in examples]
    assert score(RACE, "dev", predictions, examples) == {
        "accuracy": 0.5,
        "accuracy_middle": 0.5,
        "accuracy_high": 0.5,
    }
    right = [
        ChoicePrediction(id=e.id, option=e.gold[0] if e.group == "middle" and e.gold else 0)
        for e in examples
    ]
    assert score(RACE, "dev", right, examples) == {
        "accuracy": pytest.approx(1 / 3),
        "accuracy_middle": 1.0,
        "accuracy_high": 0.0,
    }


def test_race_subset_is_stratified_by_level() -> None:
    questions = [
        ChoiceExample(
            id=f"{level}{i}/0",
            context="c",
            question="?",
            options=("a", "b"),
            gold=(0,),
            group=level,
        )
        for level, count in (("middle", 300), ("high", 700))
        for i in range(count)
    ]
    taken = [e for e in subset(questions, 100) if isinstance(e, ChoiceExample)]
    assert [e.group for e in taken].count("high") == 70
