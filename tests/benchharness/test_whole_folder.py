"""Tests of folders with a manifest: the order in which their parts are written to disk."""

import os
import shutil
from pathlib import Path

import pytest

from benchharness.kept_folders import MANIFEST, DamagedError, check_folder, new_folder


def write(folder: Path, content: str = "content") -> None:
    with new_folder(folder, {"run": "a"}) as draft:
        (draft / "file").write_text(content)


def test_folder_files_are_flushed_before_the_manifest_and_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note_fsync(descriptor: int) -> None:
        order.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def note_rename(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        order.append("rename")
        return moved

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    write(tmp_path / "folder")
    draft = f"folder.{os.getpid()}.draft"
    assert order == ["file", MANIFEST, draft, "rename", tmp_path.name]


def test_folder_is_reported_as_incomplete_after_a_kill_between_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path / "folder", "old")
    rename = Path.rename

    def die_after_the_first(path: Path, target: Path) -> Path:
        if path.suffix == ".draft":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", die_after_the_first)
    # Simulates a process that is killed before it deletes the old folder.
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **options: None)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "folder", "new")
    with pytest.raises(DamagedError, match="is incomplete"):
        check_folder(tmp_path / "folder")
