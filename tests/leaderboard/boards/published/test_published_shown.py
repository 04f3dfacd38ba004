"""Published scores below a leaderboard, in the terminal and in the report."""

import io
import re

import pytest
from rich.console import Console

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.published import published, published_blocks
from benchharness.leaderboard.boards.terminal import render_published
from benchharness.leaderboard.report.rows import source_link
from benchharness.leaderboard.report.write import render_report
from tests.helpers.boards import make_rows, one_board
from tests.helpers.report_page import WHEN


@pytest.fixture(scope="module")
def board() -> Board:
    return one_board(make_rows(values=[0.5, 0.6], data="hub"))


@pytest.fixture(scope="module")
def html(board: Board) -> str:
    return render_report([board], [], WHEN)


def test_published_scores_are_grouped_by_split(board: Board) -> None:
    dev, test = published_blocks(board)
    assert (dev.split, test.split) == ("dev", "test")
    for block in (dev, test):
        assert {row.split for row in block.rows} == {block.split}
        assert all(any(row.of(task) for row in block.rows) for task in block.tasks)
    assert len(dev.rows) + len(test.rows) == len(published("glue"))


def test_published_table_has_columns_for_every_task_of_source_and_leaderboard(board: Board) -> None:
    _, test = published_blocks(board)
    assert test.tasks == (*board.tasks, "glue/ax")
    (human,) = (row for row in test.rows if row.system == "Human")
    assert [cell.printed for cell in human.of("glue/mrpc")] == ["86.3", "80.8"]
    assert [cell.printed for cell in human.of(test.suite)] == ["87.1"]
    assert human.of("glue/ax") == ()


@pytest.mark.parametrize("fields", [{"data": "mini"}, {"data": "hub", "limit": 50}])
def test_published_scores_are_not_shown_for_synthetic_or_limited_data(
    fields: dict[str, object],
) -> None:
    board = one_board(make_rows(**fields))  # type: ignore[arg-type]
    assert published_blocks(board) == ()
    assert 'class="published"' not in render_report([board], [], WHEN)


def test_published_scores_affect_neither_ranks_nor_the_best_score(board: Board, html: str) -> None:
    table = html.partition("<table")[2].partition("</table>")[0]
    measured, *blocks = table.split('class="published"')
    assert len(blocks) == 2
    assert not any('class="number best"' in block for block in blocks)
    assert not any('class="rank" data-value' in block for block in blocks)
    assert "Human" not in measured.partition("<tbody")[2]
    assert [entry.rank for entry in board.entries] == [1]
    assert board.best("glue/cola") == ""


def test_report_shows_the_source_of_each_published_score(board: Board, html: str) -> None:
    first = html.index('<tbody id="board-1-published-test"')
    block = html[first : html.index("</tbody>", first)]
    rows = re.findall(r'<span class="name">(.*?)</span>', block)
    assert rows[0].endswith("Human Baselines")
    assert len(rows) == len(published_blocks(board)[1].rows)
    assert '<span title="f1 86.3, accuracy 80.8">86.3 / 80.8</span>' in block
    origins = re.findall(r'<span class="origin">(.*?)</span>', block, re.DOTALL)
    assert len(origins) == len(rows)
    assert all(", " in origin for origin in origins)  # the source, and the location in it


def test_source_links_send_no_referrer(html: str) -> None:
    links = set(re.findall(r'<a href="(https?:[^"]*)" rel="noopener noreferrer">', html))
    assert "https://arxiv.org/abs/1810.04805" in links
    assert "https://gluebenchmark.com/leaderboard" in links
    assert "https://github.com/microsoft/DeBERTa" in links
    assert len(links) == len(set(re.findall(r'href="(http[^"]*)"', html)))


@pytest.mark.parametrize(
    ("source", "link"),
    [
        ("Lan et al. 2020, arXiv:1909.11942", "https://arxiv.org/abs/1909.11942"),
        ("https://example.org/a?b=1", "https://example.org/a?b=1"),
        ("javascript:alert(1)//arXiv", ""),
        ("https://example.org/ 'onclick='x", ""),
        ("someone/else README.md", ""),
    ],
)
def test_only_http_and_arxiv_sources_of_imported_scores_become_links(
    source: str, link: str
) -> None:
    assert source_link(source, is_ours=False) == link


def test_report_compares_measured_scores_with_published_ones(html: str) -> None:
    lines = re.findall(r'<p class="statistics">Published.*?</p>', html, re.DOTALL)
    texts = [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in lines]
    assert len(texts) == 7
    assert texts[0].startswith("Published mcc 47.5, measured 55.0")
    assert "MiniLM-L6-H384, microsoft/unilm minilm/README.md" in texts[0]
    assert any("not comparable: the source does not state whether" in text for text in texts)


@pytest.mark.parametrize("width", [80, 200])
def test_terminal_shows_every_published_score_at_any_width(board: Board, width: int) -> None:
    for block in published_blocks(board):
        file = io.StringIO()
        render_published(block, Console(file=file, width=width))
        text = file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
        printed = [c.printed for row in block.rows for task in block.tasks for c in row.of(task)]
        shown = re.findall(r"(?<![\w.-])-?\d+(?:\.\d+)?(?![\w.-])", text)
        assert set(printed) <= set(shown)
        assert f"GLUE, published ({block.split})" in text
