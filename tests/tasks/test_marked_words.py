import pytest

from benchharness.tasks.examples import Mark
from benchharness.tasks.superglue import character_mark, word_mark


def marked(text: str, index: int, span: str) -> str:
    mark = word_mark(text, index, span)
    assert mark.text == "a"
    return text[mark.start : mark.end]


@pytest.mark.parametrize(
    ("text", "index", "span", "expected"),
    [
        ("Mark told Pete lies.", 2, "Pete", "Pete"),
        ('He saw "him," and left.', 2, "him", "him"),
        ("In Mary; and him.", 1, "Mary", "Mary"),
        ("I read Mark's letter.", 2, "Mark", "Mark"),
        ("The lawyer asked.", 0, "the lawyer", "The lawyer"),
        ("Then the lawyer asked.", 1, "The lawyer", "the lawyer"),
        ("At the traffic light we waited.", 1, "The traffic light.", "the traffic light"),
        ("the tall\nHunter wrestles on", 1, "tall Hunter", "tall\nHunter"),
        ("a tall Hunter", 1, "tall\nHunter", "tall Hunter"),
        ("It can use it here.", 2, "it", "it"),
        ("word  with   spaces", 2, "spaces", "spaces"),
        ("Mrs. Everett, who sang", 0, "Mrs. Everett", "Mrs. Everett"),
    ],
)
def test_marked_span_starts_at_its_word_index(
    text: str, index: int, span: str, expected: str
) -> None:
    assert marked(text, index, span) == expected


def test_occurrence_nearest_to_the_word_index_is_marked() -> None:
    text = "it broke and it fell and it hurt"
    assert [word_mark(text, index, "it").start for index in (0, 3, 4, 6)] == [0, 13, 13, 25]


def test_marked_span_never_matches_a_part_of_a_word() -> None:
    assert word_mark("within bits it ends", 0, "it").start == 12


def test_span_missing_from_the_text_is_marked_by_its_number_of_words() -> None:
    text = "Lev Kamenev, Stalin's old partner, and Zinoviev left"
    assert marked(text, 1, "Kamenev and Zinoviev") == "Kamenev, Stalin's old"


def test_span_missing_from_the_text_is_cut_at_the_end_of_the_text() -> None:
    assert marked("only two", 1, "these are many words") == "two"


@pytest.mark.parametrize("index", [-1, 2, 99])
def test_marked_span_with_a_word_index_outside_the_text_is_an_error(index: int) -> None:
    with pytest.raises(
        ValueError, match=f"word index {index} is out of range: the text has 2 words"
    ):
        word_mark("only two", index, "two")


def test_marked_span_has_the_given_character_offsets() -> None:
    assert character_mark("a bat", "b", 2, 5) == Mark(text="b", start=2, end=5)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 3), (2, 6), (5, 4)])
def test_marked_span_with_offsets_outside_the_text_is_an_error(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="are not a valid span of 'a bat'"):
        character_mark("a bat", "a", start, end)
