"""Readers of rows and of answers to them: data files, prediction files, submissions."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchharness.tasks.errors import DataError
from benchharness.tasks.mini import folder as mini_folder
from benchharness.tasks.prediction_files import read_predictions
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import Files
from benchharness.tasks.submission import SUBMISSIONS, check, repair
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import Task, score
from tests.helpers.archives import tar_of, zip_of
from tests.helpers.fuzz.reader import Case, Reader
from tests.helpers.prediction_files import guess, write
from tests.helpers.small_submissions import clean, shrink, zipped

MINI = Data(source="mini")

SINGLE_FILES = {
    "predictions.json": b'{"a": "b", "c": "d"}',
    "na_prob.json": b'{"a": 0.5, "c": -1}',
    "answers.json": b'[{"id": "a", "prediction_text": "b"}]',
    "race.tsv": b"id\tanswer\nhigh1/0\tA\n",
    "CoLA.tsv": b"index\tprediction\n0\t1\n",
}
"""Submissions that are one file, or should be several."""


def _files(layout: str) -> list[Case]:
    """The first rows of every embedded file of a layout."""
    return [
        Case(content=_shortened(layout, path), read=partial(_read_split, task, split, name))
        for task in TASKS.values()
        if task.source.format == layout
        for split, path in _first_files(task)
        for name in [path.relative_to(mini_folder()).as_posix()]
    ]


def _first_files(task: Task) -> Iterator[tuple[str, Path]]:
    for name, split in task.source.splits.items():
        if found := Files(mini_folder()).find(task.source, split):
            yield name, Path(str(found.files[0]))


def _shortened(layout: str, path: Path) -> bytes:
    if layout == "race":
        return path.read_bytes()
    if layout == "squad":
        document = json.loads(path.read_text())
        paragraph = document["data"][0]["paragraphs"][0]
        some = {**paragraph, "qas": paragraph["qas"][:2]}
        article = {**document["data"][0], "paragraphs": [some]}
        return json.dumps({**document, "data": [article]}).encode()
    return b"".join(path.read_bytes().splitlines(keepends=True)[: 20 if layout == "conll" else 5])


def _read_split(task: Task, split: str, name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if task.source.format == "race":  # whose split has a passage of each level
        found = Files(mini_folder()).find(task.source, task.source.splits[split])
        assert found is not None
        other = next(each for each in found.files if each.parent.name != path.parent.name)
        beside = path.parent.parent / other.parent.name / other.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(other.read_bytes())
    read(task, split, Data(source="files", folder=folder))


def _archives() -> list[Case]:
    """Official archives of a task with few rows, as zips and as tars."""
    files = {
        f"CoLA/{path.name}": _shortened("tsv", path)
        for path in sorted((mini_folder() / "glue" / "CoLA").iterdir())
    }
    with TemporaryDirectory() as folder:
        paths = [zip_of(Path(folder, "a.zip"), files)]
        paths += [tar_of(Path(folder, name), files) for name in ("a.tar", "a.tgz")]
        return [
            Case(content=path.read_bytes(), read=partial(_read_archive, path.name))
            for path in paths
        ]


def _read_archive(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)
    data = Data(source="files", folder=folder / name)
    for split in ("train", "dev"):
        read(TASKS["glue/cola"], split, data)


def _predictions() -> list[Case]:
    """Random answers to six examples of each task's dev split, as its people write them."""
    return [case for task in TASKS.values() for case in _predictions_of(task)]


def _predictions_of(task: Task) -> Iterator[Case]:
    split = (task.dev_splits or task.test_splits)[0]
    rows, draw = read(task, split, MINI, limit=6), random.Random(task.name)
    made = [guess(task, example, draw) for example in rows.examples]
    with TemporaryDirectory() as folder:
        path = write(task, made, rows.examples, Path(folder))
        name, content = path.name, path.read_bytes()

    def answers(changed: bytes, folder: Path) -> None:
        (folder / name).write_bytes(changed)
        found = read_predictions(folder / name, task, rows)
        score(task, split, found.predictions, rows.examples)

    def chances(changed: bytes, folder: Path) -> None:
        (folder / name).write_bytes(content)
        (folder / "na_prob.json").write_bytes(changed)
        found = read_predictions(folder / name, task, rows, folder / "na_prob.json")
        score(task, split, found.predictions, rows.examples)

    yield Case(content=content, read=answers)
    if task.head == "span":
        scores = {example.id: 0.25 for example in rows.examples}
        yield Case(content=json.dumps(scores).encode(), read=chances)


def _submissions() -> list[Case]:
    """Small whole submissions, damaged as zips and inside; and those that are one file."""
    inside = [
        Case(content=content, read=partial(_check_member, suite, name))
        for suite in ("glue", "superglue")
        for name, content in clean(suite).items()
    ]
    zips = [
        Case(content=zipped(clean(suite)), read=partial(_check, "submission.zip"))
        for suite in ("glue", "superglue")
    ]
    single = [
        Case(content=content, read=partial(_check, name)) for name, content in SINGLE_FILES.items()
    ]
    return [*inside, *zips, *zips, *single]


def _check_member(suite: str, name: str, content: bytes, folder: Path) -> None:
    _check("submission.zip", zipped({**clean(suite), name: content}), folder)


def _check(name: str, content: bytes, folder: Path) -> None:
    """What cannot be mended is refused, and what is mended has no fault."""
    path, out = folder / name, folder / f"mended{Path(name).suffix}"
    path.write_bytes(content)
    small = {suite: shrink(submission) for suite, submission in SUBMISSIONS.items()}
    with patch("benchharness.tasks.submission.inspection.SUBMISSIONS", small):
        faults = check(path)
        if not all(fault.mendable for fault in faults):
            _require_refusal(partial(repair, path, out))
            return
        assert repair(path, out) == faults
        assert check(out) == ()


def _require_refusal(mend: Callable[[], object]) -> None:
    try:
        mend()
    except DataError:
        return
    raise AssertionError("a fault that has no one right answer was mended")


def _hub() -> list[Case]:
    """Parquet files of the hub: a table of labels, and one of tags."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [
        {"sentence": f"It rains {n}.", "label": n % 2, "idx": n} for n in range(4)
    ]
    names = list(TASKS["glue/cola"].labels)
    label = {"names": names, "_type": "ClassLabel"}
    features = {
        "sentence": {"dtype": "string", "_type": "Value"},
        "label": label,
        "idx": {"dtype": "int32", "_type": "Value"},
    }
    table = pa.Table.from_pylist(rows)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    file = BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), file)
    return [Case(content=file.getvalue(), read=_read_parquet)]


def _read_parquet(content: bytes, folder: Path) -> None:
    """Through the real loader, which takes a local file in the place of the hub's."""
    import datasets

    from benchharness.tasks.sources.hub import hub_rows

    path = folder / "train.parquet"
    path.write_bytes(content)
    source = replace(TASKS["glue/cola"].source, revision="main")
    load = partial(
        datasets.load_dataset,
        "parquet",
        data_files={"train": str(path)},
        split="train",
        cache_dir=str(folder / "cache"),
        download_mode="force_redownload",
    )
    with (
        patch("benchharness.tasks.sources.hub.go_offline_if_unreachable", lambda: False),
        patch("datasets.load_dataset", lambda *_, **__: load()),
    ):
        hub_rows(source, "train")


ROWS = (
    Reader(name="tsv", cases=partial(_files, "tsv"), share=1.5),
    Reader(name="csv", cases=partial(_files, "csv")),
    Reader(name="jsonl", cases=partial(_files, "jsonl"), share=1.5),
    Reader(name="squad", cases=partial(_files, "squad")),
    Reader(name="race", cases=partial(_files, "race")),
    Reader(name="conll", cases=partial(_files, "conll")),
    Reader(name="data archives", cases=_archives),
    Reader(name="hub parquet", cases=_hub, share=0.02),
    Reader(name="predictions", cases=_predictions, share=1.5),
    Reader(name="submissions", cases=_submissions, share=1.5),
)
