"""Whatever bytes a submission has, checking it names faults, and a repair has none left."""

import random
from pathlib import Path

import pytest

from benchharness.tasks.errors import DataError
from benchharness.tasks.submission.inspection import check, repair
from tests.helpers.small_submissions import Files, clean, shrink_all, zipped

PIECES = (
    *(b"\t", b"\n", b"\r", b" ", b",", b'"', b"{", b"}", b"[", b"]", b"\\", b"\0", b"\xff"),
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"idx", b"\\ud800", "\u2028".encode()),
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_all(monkeypatch)


def damage(content: bytes, draw: random.Random) -> bytes:
    """A few bytes put in, taken out or changed."""
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 5)):
        place = draw.randrange(len(changed) + 1)
        match draw.randrange(3):
            case 0:
                changed[place:place] = draw.choice(PIECES)
            case 1:
                del changed[place : place + draw.randrange(1, 8)]
            case _:
                changed[place : place + 1] = bytes([draw.randrange(256)])
    return bytes(changed)


def judge(path: Path) -> None:
    """What cannot be mended is refused, and what is mended has no fault."""
    out = path.with_name(f"mended{path.suffix}")
    faults = check(path)
    if all(fault.mendable for fault in faults):
        assert repair(path, out) == faults
        assert check(out) == ()
    else:
        with pytest.raises(DataError):
            repair(path, out)


@pytest.mark.parametrize("suite", ["glue", "superglue"])
def test_damaged_files_in_a_zip(suite: str, tmp_path: Path) -> None:
    draw, path = random.Random(suite), tmp_path / "submission.zip"
    for _ in range(150):
        files: Files = clean(suite)
        name = draw.choice(list(files))
        path.write_bytes(zipped({**files, name: damage(files[name], draw)}))
        judge(path)


def test_damaged_zips(tmp_path: Path) -> None:
    draw, path = random.Random(0), tmp_path / "submission.zip"
    for _ in range(150):
        path.write_bytes(damage(zipped(clean("glue")), draw))
        judge(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("predictions.json", b'{"a": "b", "c": "d"}'),
        ("na_prob.json", b'{"a": 0.5, "c": -1}'),
        ("answers.json", b'[{"id": "a", "prediction_text": "b"}]'),
        ("CoLA.tsv", b"index\tprediction\n0\t1\n"),
    ],
)
def test_damaged_single_files(name: str, content: bytes, tmp_path: Path) -> None:
    draw, path = random.Random(name), tmp_path / name
    for _ in range(150):
        path.write_bytes(damage(content, draw))
        judge(path)
