import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.heads import best_windows, cut_windows


def edges(windows: list[slice]) -> list[tuple[int, int]]:
    return [(window.start, window.stop) for window in windows]


@pytest.mark.parametrize(
    ("tokens", "room", "stride", "expected"),
    [
        (10, 10, 4, [(0, 10)]),
        (11, 10, 4, [(0, 10), (4, 11)]),
        (20, 10, 4, [(0, 10), (4, 14), (8, 18), (12, 20)]),
        (20, 10, 99, [(0, 10), (10, 20)]),
        (0, 10, 4, [(0, 0)]),
        (3, 1, 1, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_windows_have_the_expected_starts_and_ends(
    tokens: int, room: int, stride: int, expected: list[tuple[int, int]]
):
    assert edges(cut_windows(tokens, room, stride)) == expected


@given(st.integers(0, 300), st.integers(1, 50), st.integers(1, 80))
def test_windows_cover_every_token_of_a_text(tokens: int, room: int, stride: int):
    windows = cut_windows(tokens, room, stride)
    assert {place for window in windows for place in range(tokens)[window]} == set(range(tokens))
    assert all(window.stop - window.start <= room for window in windows)
    assert windows[-1].stop == tokens


def oracle(windows: list[slice], place: int) -> int:
    """Return the first window with the highest score, by the rule of run_squad.py."""
    scores = []
    for window in windows:
        if not window.start <= place < window.stop:
            scores.append(float("-inf"))
            continue
        around = min(place - window.start, window.stop - 1 - place)
        scores.append(around + 0.01 * (window.stop - window.start))
    return scores.index(max(scores))


@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 50))
def test_best_window_of_a_token_has_the_most_context_around_it(tokens: int, room: int, stride: int):
    windows = cut_windows(tokens, room, stride)
    assert best_windows(windows).tolist() == [oracle(windows, place) for place in range(tokens)]


def test_text_without_tokens_has_no_best_windows():
    assert best_windows(cut_windows(0, 5, 2)).tolist() == []
