"""Every planted fault of a GLUE submission is found, and repaired if it is unambiguous."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.inspection import check, repair
from tests.helpers.small_submissions import (
    Files,
    clean,
    edited,
    lines,
    members,
    shrink_all,
    zipped,
)

Damage = Callable[[Files], bytes]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_all(monkeypatch)


def cola(edit: Callable[[list[str]], list[str]]) -> Damage:
    return edited("CoLA.tsv", lines(edit))


def recoded(name: str, encoding: str) -> Damage:
    return lambda files: zipped({**files, name: files[name].decode().encode(encoding)})


def renamed(name: str, other: str) -> Damage:
    return lambda files: zipped((other if n == name else n, c) for n, c in files.items())


def shifted(first: int) -> Callable[[list[str]], list[str]]:
    """Return an edit that shifts all indices by `first`."""

    def shift(table: list[str]) -> list[str]:
        cells = [line.split("\t") for line in table[1:]]
        return [table[0], *(f"{int(index) + first}\t{rest}" for index, rest in cells)]

    return shift


def said(old: str, new: str, name: str) -> Damage:
    """Replace a text in one file."""
    return edited(name, lambda text: text.replace(old, new))


def with_flag(files: Files) -> bytes:
    """Mark the first file as encrypted."""
    content = bytearray(zipped(files))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    return bytes(content)


def with_flipped_bit(files: Files) -> bytes:
    """Flip a bit of the first file after packing."""
    content = bytearray(zipped(files))
    content[content.index(b"prediction")] ^= 1
    return bytes(content)


def cut(files: Files) -> bytes:
    """Truncate the zip, so that its central directory is incomplete."""
    return zipped(files)[:-30]


def moved(place: str) -> Damage:
    """Move the first file to another folder."""
    return lambda files: zipped(
        (f"{place}{n}" if n == "CoLA.tsv" else n, c) for n, c in files.items()
    )


MENDABLE: dict[str, tuple[Damage, str]] = {
    "above the zip": (moved("../../"), "../../CoLA.tsv points outside the zip, expected CoLA.tsv"),
    "at the root": (moved("/x/"), "/x/CoLA.tsv points outside the zip"),
    "on a disk": (moved("C:\\x\\"), "C:/x/CoLA.tsv points outside the zip"),
    "plural header": (cola(lambda t: ["index\tpredictions", *t[1:]]), "'index\\tpredictions'"),
    "other header": (cola(lambda t: ["id\tlabel", *t[1:]]), "the header is 'id\\tlabel'"),
    "no header": (cola(lambda t: t[1:]), "the header is missing"),
    "commas": (cola(lambda t: [x.replace("\t", ",") for x in t]), "a comma separates"),
    "blanks": (cola(lambda t: [x.replace("\t", " ") for x in t]), "white space separates"),
    "columns swapped": (
        cola(lambda t: ["\t".join(reversed(x.split("\t"))) for x in t]),
        "the header is 'prediction\\tindex'",
    ),
    "a third column": (
        cola(lambda t: [t[0] + "\tscore", *(x + "\t0.5" for x in t[1:])]),
        "the header is 'index\\tprediction\\tscore'",
    ),
    "quotes": (
        cola(lambda t: ['"' + x.replace("\t", '"\t"') + '"' for x in t]),
        "the cells are quoted",
    ),
    "white space": (cola(lambda t: [x + " " for x in t]), "white space around a cell"),
    "an empty line": (cola(lambda t: [*t[:3], "", *t[3:]]), "line 4: the line is empty"),
    "byte order mark": (recoded("CoLA.tsv", "utf-8-sig"), "a byte order mark"),
    "carriage returns": (
        edited("CoLA.tsv", lambda text: text.replace("\n", "\r\n")),
        "a carriage return",
    ),
    "order": (cola(lambda t: [t[0], *reversed(t[1:])]), "line 3: index 4 comes after index 5"),
    "from 1": (cola(shifted(1)), "run from 1 to 6, expected 0 to 5"),
    "indices as decimals": (
        cola(lambda t: [t[0], *(x.replace("\t", ".0\t") for x in t[1:])]),
        "not written as a plain whole number",
    ),
    "case": (said("entailment", "Entailment", "RTE.tsv"), "'Entailment', expected 'entailment'"),
    "hyphen": (said("not_ent", "not-ent", "RTE.tsv"), "expected 'not_entailment'"),
    "names for numbers": (
        said("\t1", "\tacceptable", "CoLA.tsv"),
        "the label is 'acceptable', expected '1'",
    ),
    "decimals": (said("\t1", "\t1.0", "CoLA.tsv"), "the label is '1.0', expected '1'"),
    "folder": (
        lambda files: zipped({f"run/{name}": content for name, content in files.items()}),
        "run/CoLA.tsv is in a folder",
    ),
    "zip in the zip": (lambda files: zipped({"in.zip": zipped(files)}), "a zip inside the zip"),
    "extension": (renamed("CoLA.tsv", "CoLA.txt"), "CoLA.txt has the wrong name"),
    "case of a name": (renamed("CoLA.tsv", "cola.tsv"), "cola.tsv has the wrong name"),
    "old name": (renamed("SST-2.tsv", "SST.tsv"), "SST.tsv has the wrong name"),
    "names of run_glue.py": (
        renamed("STS-B.tsv", "predict_results_stsb.txt"),
        "predict_results_stsb.txt has the wrong name",
    ),
    "a file too many": (
        lambda files: zipped({**files, "notes.txt": b"our best run"}),
        "notes.txt is not a file of the submission",
    ),
    "backslashes": (
        lambda files: zipped({f"run\\{name}": content for name, content in files.items()}),
        "run/CoLA.tsv is in a folder",
    ),
    "a Mac's twin": (
        lambda files: zipped({**files, "__MACOSX/._CoLA.tsv": b"\0"}),
        "__MACOSX/._CoLA.tsv is not a file of the submission",
    ),
}

STUCK: dict[str, tuple[Damage, str]] = {
    "strange header": (cola(lambda t: ["a\tb", *t[1:]]), "the header is 'a\\tb'"),
    "no index": (cola(lambda t: [x.split("\t")[1] for x in t]), "has 1 columns"),
    "a row too few": (cola(lambda t: t[:-1]), "it has 5 answers, expected 6"),
    "which row": (cola(lambda t: t[:-1]), "1 index is missing: 5"),
    "a row too many": (cola(lambda t: [*t, "6\t1"]), "index 6 is not one of the 6 expected"),
    "a row twice": (cola(lambda t: [*t, t[-1]]), "index 5 is repeated (it is in line 7"),
    "a half row": (cola(lambda t: [*t[:-1], "5"]), "line 7: the line has 1 columns"),
    "an endless number": (
        cola(lambda t: [*t[:-1], f"{'9' * 5000}\t1"]),
        "expected a whole number",
    ),
    "digits of another script": (said("\t1.000", "\t\u0661", "STS-B.tsv"), "the score is"),
    "no number": (cola(lambda t: [*t[:-1], "five\t1"]), "the index is 'five'"),
    "other label": (said("\t1", "\t2", "CoLA.tsv"), "the label is '2', expected 0 or 1"),
    "no label": (said("\t1", "\t", "CoLA.tsv"), "the label is ''"),
    "numbers for names": (
        said("\tneutral", "\t1", "MNLI-m.tsv"),
        "a number is ambiguous",
    ),
    "an endless score": (
        said("\t1.000", "\tinf", "STS-B.tsv"),
        "the score is 'inf', which is out of range, expected a number from 0 to 5",
    ),
    "UTF-16 without a mark": (
        recoded("CoLA.tsv", "utf-16-le"),
        "it is not UTF-8 text but UTF-16",
    ),
    "a zip that is cut short": (cut, "it is a truncated zip, whose end is missing"),
    "no score": (said("\t1.000", "\tnan", "STS-B.tsv"), "the score is 'nan'"),
    "not UTF-8": (recoded("CoLA.tsv", "utf-16"), "it is not UTF-8 text"),
    "an empty file": (edited("CoLA.tsv", lambda _: ""), "it is empty"),
    "a missing file": (
        lambda files: zipped({n: c for n, c in files.items() if n != "QQP.tsv"}),
        "QQP.tsv is missing",
    ),
    "a file twice": (
        lambda files: zipped({**files, "old/CoLA.tsv": files["CoLA.tsv"]}),
        "old/CoLA.tsv is a second CoLA.tsv",
    ),
    "a password": (with_flag, "CoLA.tsv needs a password"),
    "a damaged file": (with_flipped_bit, "CoLA.tsv is damaged"),
    "a damaged zip inside": (
        lambda files: zipped({**files, "in.zip": b"PK"}),
        "in.zip is damaged",
    ),
}


def put(tmp_path: Path, content: bytes, name: str = "submission.zip") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_submission_check_accepts_a_valid_submission(tmp_path: Path) -> None:
    path = put(tmp_path, zipped(clean("glue")))
    assert check(path) == ()
    assert repair(path, tmp_path / "out.zip") == ()
    assert members(tmp_path / "out.zip") == clean("glue")


@pytest.mark.parametrize("name", MENDABLE)
def test_unambiguous_submission_error_is_found_and_repaired(name: str, tmp_path: Path) -> None:
    damage, sentence = MENDABLE[name]
    path = put(tmp_path, damage(clean("glue")))
    found = check(path)
    assert any(sentence in str(fault) for fault in found), found
    assert all(fault.mendable for fault in found), found
    assert repair(path, tmp_path / "out.zip") == found
    assert members(tmp_path / "out.zip") == clean("glue")
    assert check(tmp_path / "out.zip") == ()


@pytest.mark.parametrize("name", STUCK)
def test_ambiguous_submission_error_is_found_but_not_repaired(name: str, tmp_path: Path) -> None:
    damage, sentence = STUCK[name]
    path = put(tmp_path, damage(clean("glue")))
    found = check(path)
    assert any(sentence in str(fault) and not fault.mendable for fault in found), found
    with pytest.raises(BenchError, match="cannot be repaired"):
        repair(path, tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.parametrize("name", MENDABLE | STUCK)
def test_submission_check_blames_only_the_damaged_file(name: str, tmp_path: Path) -> None:
    damage, _ = (MENDABLE | STUCK)[name]
    blamed = {fault.file for fault in check(put(tmp_path, damage(clean("glue"))))}
    assert len(blamed - {"submission.zip"}) <= 1


def test_regression_score_outside_the_scale_is_clipped_by_repair(tmp_path: Path) -> None:
    damage = said("\t4.000", "\t5.250", "STS-B.tsv")
    path = put(tmp_path, damage(clean("glue")))
    (fault,) = check(path)
    assert "STS-B.tsv line 6: the score is 5.250" in str(fault)
    repair(path, tmp_path / "out.zip")
    assert b"4\t5.000\n" in members(tmp_path / "out.zip")["STS-B.tsv"]


def test_submission_error_in_many_lines_is_reported_once(tmp_path: Path) -> None:
    damage = said("\t1", "\tyes", "CoLA.tsv")
    (fault,) = check(put(tmp_path, damage(clean("glue"))))
    assert "CoLA.tsv line 3: the label is 'yes'" in str(fault)


ONE = (
    *("not UTF-8", "UTF-16 without a mark", "an empty file", "a zip that is cut short"),
    *("a password", "a damaged file", "a missing file", "a file twice", "an endless score"),
    *("above the zip", "at the root", "on a disk"),
)
"""Faults with one cause, which are reported once."""


@pytest.mark.parametrize("name", ONE)
def test_submission_error_with_a_single_cause_is_reported_once(name: str, tmp_path: Path) -> None:
    damage, sentence = (MENDABLE | STUCK)[name]
    (fault,) = check(put(tmp_path, damage(clean("glue"))))
    assert sentence in str(fault)


def test_surplus_indices_are_reported_as_one_error(tmp_path: Path) -> None:
    damage = cola(lambda t: [*t, *(f"{index}\t1" for index in range(6, 283))])
    count, fault = check(put(tmp_path, damage(clean("glue"))))
    assert count.sentence == "it has 283 answers, expected 6"
    assert "index 6 is not one of the 6" in str(fault)


def test_repeated_indices_are_reported_as_one_error(tmp_path: Path) -> None:
    damage = cola(lambda t: [*t[:-2], *t[1:3]])
    doubled, missing = check(put(tmp_path, damage(clean("glue"))))
    assert "is repeated (it is in line 2" in doubled.sentence
    assert missing.sentence == "2 indices are missing: 4, 5"


def test_damaged_nested_zip_is_reported_as_one_error(tmp_path: Path) -> None:
    (fault,) = check(put(tmp_path, zipped({"in.zip": b"PK"})))
    assert "in.zip is damaged" in str(fault)


def test_submission_check_finds_errors_in_several_files(tmp_path: Path) -> None:
    files = clean("glue")
    files["CoLA.tsv"] = files["CoLA.tsv"].replace(b"prediction", b"predictions")
    files["RTE.tsv"] = files["RTE.tsv"].replace(b"\n", b"\r\n")
    del files["AX.tsv"]
    assert [fault.file for fault in check(put(tmp_path, zipped(files)))] == [
        "submission.zip",
        "CoLA.tsv",
        "RTE.tsv",
    ]


def test_repair_renames_a_zip_with_another_suffix(tmp_path: Path) -> None:
    path = put(tmp_path, zipped(clean("glue")), "submission.dat")
    (fault,) = check(path)
    assert fault.sentence == "it is a zip, but its name does not end in .zip"
    repair(path, tmp_path / "out.zip")
    assert check(tmp_path / "out.zip") == ()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("submission.zip", b"Rar!", "it is not a submission"),
        ("submission.tar.gz", b"\x1f\x8b", "it is not a submission"),
        ("other.zip", zipped({"readme.txt": b"hello"}), "it contains none of the files"),
        ("empty.zip", zipped({}), "it contains none of the files"),
        (
            "CoLA.tsv",
            clean("glue")["CoLA.tsv"],
            "it is a single file, expected a zip with all files",
        ),
    ],
)
def test_checking_a_file_that_is_not_a_submission_is_an_error(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = put(tmp_path, content, name)
    assert sentence in str(check(path)[0])
    with pytest.raises(BenchError, match="cannot be repaired"):
        repair(path, tmp_path / "out.zip")


def test_single_prediction_file_is_checked_without_listing_missing_files(tmp_path: Path) -> None:
    content = clean("glue")["CoLA.tsv"].replace(b"prediction", b"predictions")
    alone, header = check(put(tmp_path, content, "CoLA.tsv"))
    assert alone.sentence == "it is a single file, expected a zip with all files"
    assert header.sentence.startswith("the header is")
    (alone,) = check(put(tmp_path, clean("superglue")["RTE.jsonl"], "RTE.jsonl"))
    assert alone.sentence == "it is a single file, expected a zip with all files"


def test_checking_a_missing_submission_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.zip cannot be read: No such file"):
        check(tmp_path / "nowhere.zip")
