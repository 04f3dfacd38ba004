"""Valid submissions of a few rows, for tests that damage them."""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from benchharness.extensions.submission.answer_file import AnswerFile, Labels, Number
from benchharness.extensions.submission.files import SUBMISSIONS, Submission, write_answers
from benchharness.extensions.submission.json_lines import Option

ROWS = 6
PARAGRAPHS, QUESTIONS = 2, 3

Files = dict[str, bytes]
Edit = Callable[[str], str]


def shrink(submission: Submission) -> Submission:
    """Return the submission with six answers per file."""
    files = (
        replace(
            file,
            rows=ROWS,
            paragraphs=PARAGRAPHS if file.paragraphs else None,
            questions=QUESTIONS if file.questions else None,
        )
        for file in submission.files
    )
    return replace(submission, files=tuple(files))


def shrink_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the checker expect small files."""
    small = {name: shrink(submission) for name, submission in SUBMISSIONS.items()}
    monkeypatch.setattr("benchharness.extensions.submission.inspection.SUBMISSIONS", small)


def answers(file: AnswerFile, rows: int) -> list[object]:
    """Return valid answers in the server's format."""
    if file.format == "multirc":
        places = [(0, 0), (0, 0), (0, 1), (1, 2), (1, 2), (1, 2)]
        return [Option(*place, number % 2) for number, place in enumerate(places)]
    match file.answers:
        case Labels(written=written):
            chosen = cycle(written.values())
            return [next(chosen) for _ in range(rows)]
        case Number():
            return [f"{number % 5:.3f}" for number in range(rows)]
    return [f"entity {number}" for number in range(rows)]


def clean(suite: str) -> Files:
    """Return every file of the suite's submission, small and valid."""
    return {f.name: write_answers(f, answers(f, ROWS)) for f in SUBMISSIONS[suite].files}


def zipped(files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> bytes:
    """Return a zip of files by path; pairs may repeat a path."""
    buffer = io.BytesIO()
    pairs = files.items() if isinstance(files, Mapping) else files
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in pairs:
            archive.writestr(path, content)
    return buffer.getvalue()


def members(path: Path) -> Files:
    """Return the files of a zip by path."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def edited(name: str, edit: Edit) -> Callable[[Files], bytes]:
    """Return damage that edits the text of one file in the zip."""

    def damage(files: Files) -> bytes:
        return zipped({**files, name: edit(files[name].decode()).encode()})

    return damage


def lines(edit: Callable[[list[str]], list[str]]) -> Edit:
    """Return an edit of the lines of a text."""
    return lambda text: "\n".join(edit(text.splitlines())) + "\n"


def objects(edit: Callable[[list[dict[str, object]]], Iterable[object]]) -> Edit:
    """Return an edit of the objects of JSON lines."""

    def change(text: str) -> str:
        found = [json.loads(line) for line in text.splitlines()]
        return "".join(json.dumps(each) + "\n" for each in edit(found))

    return change
