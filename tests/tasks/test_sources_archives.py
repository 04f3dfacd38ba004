"""Archives are read like folders, and refused if they are unsafe or damaged."""

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.sources import archives
from benchharness.tasks.sources.archives import Member, open_archive
from tests.helpers.archives import tar_of, zip_of

FILES = {"A/train.tsv": b"1\n", "A/dev.tsv": b"2\n", "b.txt": b"3\n"}

PACKED = pytest.mark.parametrize(
    ("pack", "name"),
    [(zip_of, "a.zip"), (tar_of, "a.tar"), (tar_of, "a.tar.gz"), (tar_of, "a.tgz")],
)

Pack = Callable[[Path, dict[str, bytes]], Path]


def contents(member: Member) -> dict[str, bytes]:
    """Return the content of every file below by its path, in the archive's order."""
    found: dict[str, bytes] = {}
    for child in sorted(member.iterdir()):
        found |= {str(child): child.read_bytes()} if child.is_file() else contents(child)
    return found


def refused(path: Path, match: str) -> None:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(DataError, match=match):
        contents(open_archive(path, "a"))
    assert sorted(path.parent.rglob("*")) == before, "nothing is written"


@PACKED
def test_files_in_an_archive_are_read_like_files_in_a_folder(
    tmp_path: Path, pack: Pack, name: str
) -> None:
    path = pack(tmp_path / name, FILES)
    root = open_archive(path, "a")
    kept = {place: content for place, content in contents(root).items() if "__MACOSX" not in place}
    assert kept == {f"{path}/{file}": content for file, content in FILES.items()}
    (folder,) = (child for child in root.iterdir() if child.name == "A")
    assert (folder.is_dir(), folder.is_file(), folder.parent, root.parent) == (
        True,
        False,
        root,
        root,
    )


@PACKED
@pytest.mark.parametrize(
    "name_inside", ["../out.tsv", "/out.tsv", "a/../../out.tsv", "..\\out.tsv", "C:\\out", "a//b"]
)
def test_archive_member_path_outside_the_archive_is_an_error(
    tmp_path: Path, pack: Pack, name: str, name_inside: str
) -> None:
    if pack is tar_of:
        path = tmp_path / name
        with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:  # type: ignore[call-overload]
            archive.addfile(tarfile.TarInfo(name_inside), io.BytesIO())
    else:
        path = pack(tmp_path / name, {name_inside: b""})
    refused(path, "contains the invalid path .*: get the official archive")


def test_duplicate_archive_member_name_is_an_error(tmp_path: Path) -> None:
    for number, names in enumerate([("a", "a"), ("a", "a/b"), ("a/b", "a")]):
        path = tmp_path / f"{number}.tar"
        with tarfile.open(path, "w") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        refused(path, f"contains '{names[1]}' more than once")


def test_links_and_devices_in_a_tar_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"train{kind.decode()}.tsv")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    assert contents(open_archive(path, "a")) == {}


def test_symbolic_link_in_a_zip_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("train.tsv")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, b"/etc/passwd")
    assert contents(open_archive(path, "a")) == {f"{path}/train.tsv": b"/etc/passwd"}


@PACKED
def test_archive_above_the_size_limits_is_an_error_before_unpacking(
    tmp_path: Path, pack: Pack, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / name, {"A/train.tsv": b"0" * 50_000, "A/dev.tsv": b"0" * 50_000})
    for bound, value in (("LARGEST_FILE", 40_000), ("LARGEST_ARCHIVE", 90_000), ("MOST_FILES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(archives, bound, value)
            refused(path, "unpacks to more than any benchmark's archive")
    contents(open_archive(path, "a"))


def test_archive_member_larger_than_its_stated_size_is_an_error(tmp_path: Path) -> None:
    """Test a zip whose directory states a smaller size than the member unpacks to."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.tsv", b"0" * 10_000_000)
    content = path.read_bytes()
    path.write_bytes(
        content.replace((10_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    refused(path, r"a\.zip/train\.tsv cannot be unpacked \(BadZipFile: Bad CRC-32")


def test_long_header_in_a_tar_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Test a header that asks for gigabytes: it is refused before they are read."""
    path = tmp_path / "a.tar.gz"
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2 * archives.LARGEST_FILE
    with gzip.open(path, "wb") as file:
        file.write(info.tobuf())
    refused(path, "unpacks to more than")


def test_oversized_entry_in_a_tar_is_an_error(tmp_path: Path) -> None:
    """Test an entry whose stated size is larger than the limit."""
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("a")
    info.type, info.size = tarfile.CONTTYPE, 2 * archives.LARGEST_ARCHIVE
    path.write_bytes(info.tobuf() + b"\0" * 1024)
    refused(path, "unpacks to more than")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
@pytest.mark.parametrize(
    "content",
    [b"", b"P", b"PK", b"PK\3\4", b"PK\5\6", b"\x1f\x8b", b"\x1f\x8b\x08", b"notes" * 999],
)
def test_reading_a_file_that_is_not_an_archive_is_an_error(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, f"{name} cannot be unpacked")


@PACKED
def test_truncated_archive_is_an_error(tmp_path: Path, pack: Pack, name: str) -> None:
    path = pack(tmp_path / name, {f"A/{n}.txt": bytes([n]) * 2000 for n in range(20)})
    content = path.read_bytes()
    for share in (0.1, 0.5):
        path.write_bytes(content[: int(len(content) * share)])
        refused(path, "cannot be unpacked")


def test_encrypted_zip_is_an_error(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", FILES)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    refused(path, r"cannot be unpacked \(RuntimeError: .* encrypted")
