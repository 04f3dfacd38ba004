from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.sources import Data, parse_data
from benchharness.tasks.sources.files import mini_folder


@pytest.mark.parametrize("source", ["hub", "mini"])
def test_hub_and_mini_data_have_no_folder(source: str) -> None:
    assert parse_data(source) == Data(source=source, folder=None)  # type: ignore[arg-type]
    assert str(parse_data(source)) == source


def test_relative_data_folder_becomes_absolute_and_its_text_parses_to_the_same_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "official").mkdir()
    monkeypatch.chdir(tmp_path)
    data = parse_data("official")
    assert data == Data(source="files", folder=tmp_path.resolve() / "official")
    assert parse_data(str(data)) == data


def test_empty_data_folder_name_is_an_error() -> None:
    with pytest.raises(DataError, match="the data folder '' does not exist"):
        parse_data("")


def test_missing_data_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'.*nowhere' does not exist.*--data mini") as caught:
        parse_data(str(tmp_path / "nowhere"))
    assert caught.value.exit_code == 4


def test_data_path_that_is_a_file_is_an_error_when_official_files_are_read(tmp_path: Path) -> None:
    """Parse the path, as it may be a file of rows; reading official files is refused."""
    (tmp_path / "train.tsv").touch()
    data = parse_data(str(tmp_path / "train.tsv"))
    with pytest.raises(DataError, match=r"is a file: pass a folder.*--data-file"):
        data.files  # noqa: B018


def test_folder_named_hub_is_selected_by_an_explicit_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse_data("hub").source == "hub"
    assert parse_data("./hub").source == "files"


def test_bundled_data_are_in_the_tasks_package() -> None:
    assert (mini_folder().parent / "task.py").is_file()
