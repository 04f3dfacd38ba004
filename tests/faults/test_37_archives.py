"""Tests of fault 37: archives with outside paths, links or enormous unpacked sizes."""

import ast
import gzip
import io
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.submission.inspection import check
from benchharness.leaderboard.store.archive import check_archive
from tests.helpers.small_submissions import clean, shrink_all, zipped

PACKAGES = ("tasks", "leaderboard", "benchharness")
ROOT = Path(__file__).parents[2]

OUTSIDE = ("../escaped.tsv", "/tmp/escaped.tsv", "a/../../escaped.tsv", "..\\escaped.tsv", "C:\\x")


def test_37_no_source_file_unpacks_an_archive_to_disk():
    """Zip and tar files must be read in memory, gzip files line by line."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search("extract|unpack_archive", text):
            continue
        tree = ast.parse(text)
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"extract", "extractall", "unpack_archive"}, path


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_all(monkeypatch)


def faults_of(folder: Path, content: bytes) -> list[str]:
    """Return the faults of a submission, and check that no file is left."""
    home = folder / "deep" / "er"
    home.mkdir(parents=True)
    path = home / "submission.zip"
    path.write_bytes(content)
    found = [str(fault) for fault in check(path)]
    assert [each for each in folder.rglob("*") if each.is_file()] == [path]
    return found


@pytest.mark.parametrize("name", OUTSIDE)
def test_37_zip_member_whose_path_points_outside_the_zip_is_reported(tmp_path: Path, name: str):
    assert faults_of(tmp_path, zipped({**clean("glue"), name: b"index\tprediction\n"}))


@pytest.mark.parametrize("place", ["../../", "/x/", "C:\\x\\", "a/../../"])
@pytest.mark.parametrize(("suite", "name"), [("glue", "CoLA.tsv"), ("superglue", "CB.jsonl")])
def test_37_prediction_file_whose_path_points_outside_the_zip_is_reported_once(
    tmp_path: Path, suite: str, name: str, place: str
):
    files = {place + n if n == name else n: content for n, content in clean(suite).items()}
    (fault,) = faults_of(tmp_path, zipped(files))
    assert f"{name} points outside the zip, expected {name}" in fault


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_37_links_and_devices_in_a_zip_are_not_followed(tmp_path: Path, kind: int):
    """A zip stores the target of a link as content, which is not a valid prediction file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in clean("glue").items():
            info = zipfile.ZipInfo(name)
            is_link = name == "CoLA.tsv"
            info.external_attr = (kind | 0o777) << 16 if is_link else 0
            archive.writestr(info, b"/etc/passwd" if is_link else content)
    assert any("CoLA.tsv" in fault for fault in faults_of(tmp_path, buffer.getvalue()))


def test_37_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "submission.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CoLA.tsv", b"0" * 200_000)
    monkeypatch.setattr("benchharness.extensions.submission.inspection.LARGEST", 100_000)
    assert "submission.zip: it unpacks to 200,000 bytes" in str(check(path)[0])


def test_37_nested_zip_bomb_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("CoLA.tsv", b"0" * 200_000)
    path = tmp_path / "submission.zip"
    path.write_bytes(zipped({"in.zip": inner.getvalue()}))
    monkeypatch.setattr("benchharness.extensions.submission.inspection.LARGEST", 100_000)
    assert any("in.zip unpacks to 200,000 bytes" in str(fault) for fault in check(path))


def test_37_zip_that_states_wrong_file_sizes_is_reported(tmp_path: Path):
    content = bytearray(zipped({"CoLA.tsv": b"0" * 5000}))
    # Position of the file size in the zip's central directory.
    place = content.rindex(b"PK\x01\x02") + 24
    content[place : place + 4] = (10).to_bytes(4, "little")
    assert faults_of(tmp_path, bytes(content))


def test_37_gzip_bomb_of_one_line_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchharness.leaderboard.store.archive.LONGEST_LINE", 100_000)
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(b"[" * 50_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"line 1 of .* has more than 0 MiB"):
        check_archive(path)


def test_37_gzip_bomb_of_a_gigabyte_uses_little_memory(tmp_path: Path):
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(gzip.compress(b"[" * 2**24) * 64)  # a single line of a gigabyte
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from benchharness.leaderboard.store.archive import check_archive\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    check_archive(Path(sys.argv[1]))\n"
        "except Exception as error:\n"
        "    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    words = (sys.executable, "-P", "-c", program, str(path))
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "has more than 128 MiB" in said[0]
    assert int(said[1]) < 300 * 2**10, "kilobytes"
