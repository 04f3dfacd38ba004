import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.leaderboard.text import whole_file


def test_atomic_write_creates_folders_and_removes_its_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / ("x" * 240 + ".csv")
    with whole_file(path) as file:
        file.write(b"all of it")
        assert not path.exists()
    assert path.read_bytes() == b"all of it"
    assert list(path.parent.iterdir()) == [path]


def test_failed_write_keeps_the_previous_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"new, but", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_of_written_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with whole_file(tmp_path / "x") as file:
            file.write(b"")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_write_error_names_the_target_and_not_the_temporary_file() -> None:
    with pytest.raises(OSError, match=r"'/proc/page\.html'$"), whole_file(Path("/proc/page.html")):
        pass


KILLED = """
import os, sys
from pathlib import Path
from benchharness.leaderboard.text import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""


def test_temporary_file_of_a_killed_process_is_removed_by_the_next_write(tmp_path: Path) -> None:
    """Check that files of other targets or of a write in progress are kept."""
    path = tmp_path / "answers.jsonl"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    (draft,) = tmp_path.iterdir()
    others = [tmp_path / ".answers.jsonl.backups", tmp_path / ".other.abcdefgh.draft"]
    for other in others:
        other.touch()
    with whole_file(path):
        assert not draft.exists()
        (held,) = {*tmp_path.iterdir()} - {*others}
        with whole_file(path):
            assert held.exists()
    assert {*tmp_path.iterdir()} == {path, *others}


def test_write_to_a_named_pipe_does_not_replace_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as file:
        file.write(b"rows")
    assert os.read(reader, 9) == b"rows"
    os.close(reader)
    assert pipe.is_fifo()
    assert [*tmp_path.iterdir()] == [pipe]
