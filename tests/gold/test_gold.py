from pathlib import Path

import pytest

from tests.helpers.gold import check_gold


def test_gold_file_comparison_ignores_dates(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("made on DATE\n")
    check_gold("page.txt", "made on 2026-08-01 12:00 UTC", tmp_path)
    check_gold("page.txt", "made on 2027-01-31T08:15:00Z", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.txt"]


def test_changed_output_is_written_next_to_the_gold_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCH_UPDATE_GOLD", raising=False)
    (tmp_path / "page.txt").write_text("old\n")
    with pytest.raises(AssertionError, match="make gold"):
        check_gold("page.txt", "new", tmp_path)
    assert (tmp_path / "actual-page.txt").read_text() == "new\n"
    assert (tmp_path / "page.txt").read_text() == "old\n"


def test_make_gold_accepts_new_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_UPDATE_GOLD", "1")
    (tmp_path / "actual-page.txt").write_text("new\n")
    check_gold("page.txt", "new", tmp_path)
    assert (tmp_path / "page.txt").read_text() == "new\n"
    assert not (tmp_path / "actual-page.txt").exists()
