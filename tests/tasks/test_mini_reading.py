"""Tests of the bundled SQuAD and RACE files: official keys, exact offsets, valid answers."""

import json
from collections import Counter
from typing import Any

import pytest

from benchharness.tasks.sources.files import mini_folder
from tests.helpers.mini_data.grammar import seeded
from tests.helpers.mini_data.stories import KINDS, draw_story, tell

SQUAD, RACE = mini_folder() / "squad", mini_folder() / "race"


def paragraphs(name: str) -> list[dict[str, Any]]:
    content = json.loads((SQUAD / f"{name}.json").read_text("utf-8"))
    return [paragraph for article in content["data"] for paragraph in article["paragraphs"]]


def questions(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(p["context"], question) for p in paragraphs(name) for question in p["qas"]]


def passages(split: str, level: str) -> list[dict[str, Any]]:
    folder = RACE / split / level
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.txt"))]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_bundled_squad_files_state_their_version(split: str) -> None:
    for version, named in (("1.1", "1.1"), ("2.0", "v2.0")):
        content = json.loads((SQUAD / f"{split}-v{version}.json").read_text("utf-8"))
        assert content["version"] == named
        assert all(set(article) == {"title", "paragraphs"} for article in content["data"])


@pytest.mark.parametrize("name", ["train-v1.1", "dev-v1.1", "train-v2.0", "dev-v2.0"])
def test_bundled_squad_answers_are_at_their_offsets(name: str) -> None:
    for context, question in questions(name):
        for answer in question["answers"] + question.get("plausible_answers", []):
            start = answer["answer_start"]
            assert context[start : start + len(answer["text"])] == answer["text"]


def test_every_squad_v1_question_has_an_answer() -> None:
    assert all(q["answers"] for _, q in questions("train-v1.1") + questions("dev-v1.1"))
    assert not any("is_impossible" in q for _, q in questions("train-v1.1"))


def test_a_third_of_squad_v2_questions_is_unanswerable() -> None:
    for name in ("train-v2.0", "dev-v2.0"):
        asked = questions(name)
        impossible = [question for _, question in asked if question["is_impossible"]]
        assert 0.3 < len(impossible) / len(asked) < 0.36
        assert all(q["is_impossible"] is not bool(q["answers"]) for _, q in asked)
        assert all(q["plausible_answers"] for q in impossible)


def test_squad_v2_paragraphs_have_two_kinds_of_unanswerable_questions() -> None:
    """Check one question of each kind per paragraph; the question word reveals the first."""

    def kind(question: dict[str, Any]) -> str:
        return next(k for k in KINDS if question["question"].lower().startswith(k))

    for paragraph in paragraphs("train-v2.0"):
        answered = Counter(kind(q) for q in paragraph["qas"] if not q["is_impossible"])
        untold, crosswise = (kind(q) for q in paragraph["qas"] if q["is_impossible"])
        assert (answered["who"], answered[untold], answered[crosswise]) == (2, 0, 1)


def test_bundled_squad_dev_contexts_are_not_in_train() -> None:
    train, dev = ({p["context"] for p in paragraphs(f"{s}-v1.1")} for s in ("train", "dev"))
    assert not train & dev
    assert len(questions("train-v1.1")) == 640
    assert len(questions("dev-v1.1")) == 176


@pytest.mark.parametrize("level", ["middle", "high"])
def test_race_passages_have_four_questions_of_four_options(level: str) -> None:
    for split in ("train", "dev", "test"):
        for passage in passages(split, level):
            assert set(passage) == {"answers", "options", "questions", "article", "id"}
            assert len(passage["questions"]) == len(passage["answers"]) == 4
            assert all(len(set(options)) == 4 for options in passage["options"])


@pytest.mark.parametrize("level", ["middle", "high"])
def test_bundled_race_answers_are_in_the_passage_and_balanced(level: str) -> None:
    letters: Counter[str] = Counter()
    for passage in passages("train", level):
        for answer, options in zip(passage["answers"], passage["options"], strict=True):
            assert options["ABCD".index(answer)] in passage["article"]
            letters[answer] += 1
    assert set(letters) == set("ABCD")
    assert max(letters.values()) / letters.total() < 0.4


def test_only_high_level_race_passages_contain_a_wrong_option() -> None:
    def told(level: str) -> set[int]:
        return {
            sum(option in passage["article"] for option in options)
            for passage in passages("train", level)
            for options in passage["options"]
        }

    assert told("middle") == {1}
    assert told("high") == {2}


def test_bundled_race_ids_are_file_names() -> None:
    for path in RACE.glob("dev/*/*.txt"):
        assert json.loads(path.read_text("utf-8"))["id"] == f"{path.parent.name}{path.name}"


def test_shortened_fact_contains_only_the_selected_answers() -> None:
    (fact,) = draw_story(seeded("fact"), 1)
    for kind in ("when", "where", "how many"):
        short = fact.only(kind)
        told = [k for k in KINDS if short.answer(k)]
        assert told == ["who", kind]
        assert all(short.answer(k) in short.told() for k in told)
        assert "  " not in short.told()
        assert len(short.told()) < len(fact.told())


def test_facts_of_a_generated_story_have_different_answers() -> None:
    story = draw_story(seeded("story"), 3)
    assert tell(story).count(".") == 3
    for kind in KINDS:
        assert len({fact.answer(kind) for fact in story}) == 3
        assert all(fact.answer(kind) not in fact.question(kind) for fact in story)
        assert all(fact.answer(kind) in fact.told() for fact in story)
