"""Readers of rows and predictions: data files, prediction files, submissions."""

import csv
import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchharness.cli.app import load_command
from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.parts import read_parts
from benchharness.extensions.submission.files import SUBMISSIONS
from benchharness.extensions.submission.inspection import check, repair
from benchharness.extensions.submission.prediction_files import NoAnswer
from benchharness.extensions.submission.scoring import score_files, to_result
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import Files, mini_folder
from benchharness.tasks.suites import TASKS
from benchharness.tasks.task import Task
from tests.helpers.archives import tar_of, zip_of
from tests.helpers.extensions import of_extensions
from tests.helpers.fuzz.of_models import tables_as_they_were
from tests.helpers.fuzz.reader import Case, Reader
from tests.helpers.messy_layouts import MESSY
from tests.helpers.own_files import GOOD
from tests.helpers.prediction_files import guess, write
from tests.helpers.public_layouts import PUBLIC
from tests.helpers.small_submissions import clean, shrink, zipped
from tests.helpers.tool_layouts import TOOLS

MINI = Data(source="mini")

SINGLE_FILES = {
    "predictions.json": b'{"a": "b", "c": "d"}',
    "na_prob.json": b'{"a": 0.5, "c": -1}',
    "answers.json": b'[{"id": "a", "prediction_text": "b"}]',
    "CoLA.tsv": b"index\tprediction\n0\t1\n",
    "empty.zip": b"",
}
"""Submissions of one file, valid ones and ones that need several files."""

SHARES = {"pair": 1, "span": 1, "choice": 1, "tag": 0.5, "coref": 0.5, "ranking": 0.5}
"""Share of the cases per kind of prediction."""


def _files(layout: str, *, blimp: bool = False) -> list[Case]:
    """Return the first rows of every embedded file of a layout; BLiMP's 67 files are one split."""
    return [
        Case(content=_shortened(layout, path), read=partial(_read_split, task, split, name))
        for task in TASKS.values()
        if layout == (task.suite if task.source.read_records else task.source.format)
        and (task.suite == "blimp") == blimp
        # Leave out suites whose files contain several splits.
        and task.suite not in ("xtreme", "lexglue")
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
    if layout == "conll2012":
        return path.read_bytes().partition(b"#end document")[0] + b"#end document\n"
    if layout == "hotpotqa":
        return json.dumps(json.loads(path.read_text())[:2]).encode()
    if layout in ("quac", "coqa"):
        document = json.loads(path.read_text())
        return json.dumps({**document, "data": document["data"][:1]}).encode()
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
    found = Files(mini_folder()).find(task.source, task.source.splits[split])
    assert found is not None
    if task.suite == "blimp":
        for other in found.files:
            if not (beside := path.parent / other.name).exists():
                beside.write_bytes(other.read_bytes())
    if task.source.format == "race":  # a split needs a passage of each level
        other = next(each for each in found.files if each.parent.name != path.parent.name)
        beside = path.parent.parent / other.parent.name / other.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(other.read_bytes())
    read(task, split, Data(source="files", folder=folder))


RETRIEVAL = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")


def _retrieval() -> list[Case]:
    """Return each file of a retrieval set, with only the first lines of the judgements."""
    home = mini_folder() / "beir" / "mini"
    files = {name: (home / name).read_bytes() for name in RETRIEVAL}
    files[RETRIEVAL[-1]] = b"".join(files[RETRIEVAL[-1]].splitlines(keepends=True)[:8])
    return [
        Case(content=content, read=partial(_read_retrieval, files, name))
        for name, content in files.items()
    ]


def _read_retrieval(files: dict[str, bytes], name: str, content: bytes, folder: Path) -> None:
    home = folder / "mine"
    (home / "qrels").mkdir(parents=True, exist_ok=True)
    for each, whole in {**files, name: content}.items():
        (home / each).write_bytes(whole)
    read(TASKS["retrieval/folder"], "test", Data(source="files", folder=home))


TAGGED = {
    "xtreme/panx": "panx_dataset/de/test",
    "xtreme/udpos": "ud-treebanks-v2.5/UD_German-A/de_a-ud-test.conllu",
}


def _tagged_words() -> list[Case]:
    """Return the first sentences of a WikiANN language and of a treebank."""
    cases = []
    for task, place in ((TASKS[name], place) for name, place in TAGGED.items()):
        found = Files(mini_folder()).find(task.source, task.source.splits["test_de"])
        assert found is not None
        content = b"".join(Path(str(found.files[0])).read_bytes().splitlines(keepends=True)[:40])
        cases.append(Case(content=content, read=partial(_read_words, task, place)))
    return cases


def _read_words(task: Task, place: str, content: bytes, folder: Path) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    read(task, "test_de", Data(source="files", folder=folder))


def _archives() -> list[Case]:
    """Return official archives of a task with few rows, as zips and as tars."""
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


def _predictions(head: str) -> list[Case]:
    """Return random predictions for six dev examples per task, in the official formats."""
    return [_predictions_of(task) for task in TASKS.values() if task.head == head]


def _predictions_of(task: Task) -> Case:
    split = (task.dev_splits or task.test_splits)[0]
    rows, draw = read(task, split, MINI, limit=6), random.Random(task.name)
    made = [guess(task, example, draw) for example in rows.examples]
    with TemporaryDirectory() as folder:
        path = write(task, made, rows.examples, Path(folder))
        name, content = path.name, path.read_bytes()

    def answers(changed: bytes, folder: Path) -> None:
        (folder / name).write_bytes(changed)
        _score(task, split, rows, folder / name)

    return Case(content=content, read=answers)


def _score(
    task: Task, split: str, rows: SplitRows, path: Path, no_answer: NoAnswer | None = None
) -> None:
    """Run all of `bench score`, including output and storing."""
    with patch("benchharness.extensions.submission.scoring.read", lambda *_: rows):
        scored = score_files([path], task.name, "mini", [split], no_answer)
    json.dumps([[one.official, one.evaluation.scores] for one in scored.splits], allow_nan=False)
    with (  # these functions are slow, because they call git and import every library
        patch("benchharness.extensions.submission.scoring.source_commit", dict),
        patch("benchharness.extensions.submission.scoring.library_versions", dict),
    ):
        json.dumps(to_result(scored, "theirs").to_json(), allow_nan=False)


NAMES = ("predictions.json", "na_prob.json", "null_odds.json", "x.json")
THRESHOLDS = (None, None, 1.0, 0.25, -1.0, float("inf"), float("nan"))


def _odds() -> list[Case]:
    """Return SQuAD's answers, its odds, and both in one list; each file is read as each kind."""
    task = TASKS["squad/v2.0"]
    rows, draw = read(task, "dev", MINI, limit=6), random.Random(task.name)
    ids = [example.id for example in rows.examples]
    answers = {name: draw.choice(("", "1984", "Paris")) for name in ids}
    odds = {name: draw.choice((0.5, 1e-17, 2.0, draw.random())) for name in ids}
    listed = [
        {"id": name, "prediction_text": answers[name], "no_answer_probability": odds[name]}
        for name in ids
    ]
    whole = json.dumps(answers).encode()

    def given(changed: bytes, folder: Path, *, as_odds: bool) -> None:
        draw = random.Random(changed)
        name, other = draw.sample(NAMES, 2)
        (folder / name).write_bytes(changed)
        (folder / other).write_bytes(whole)
        for answers, odds in ((name, None), (other, name), (name, other), (name, name)):
            with suppress(BenchError):
                file = None if odds is None else folder / odds
                no_answer = NoAnswer(file=file, threshold=draw.choice(THRESHOLDS))
                _score(task, "dev", rows, folder / answers, no_answer)
        answers, odds = (other, folder / name) if as_odds else (name, None)
        _score(task, "dev", rows, folder / answers, NoAnswer(file=odds))

    return [
        Case(content=json.dumps(odds).encode(), read=partial(given, as_odds=True)),
        Case(content=whole, read=partial(given, as_odds=False)),
        Case(content=json.dumps(listed).encode(), read=partial(given, as_odds=False)),
    ]


def _submissions() -> list[Case]:
    """Return small complete submissions, damaged as zips and inside, and single files."""
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


PLACES = ("", "", "", "run/", "../../", "/x/", "C:\\", "./", "__MACOSX/")
"""Folders of a file in a zip."""


def _check_member(suite: str, name: str, content: bytes, folder: Path) -> None:
    """Check the file in a complete submission, in a random folder if it is damaged."""
    files = clean(suite)
    place = "" if content == files[name] else random.Random(content).choice(PLACES)
    packed = zipped({place + n if n == name else n: c for n, c in {**files, name: content}.items()})
    _check("submission.zip", packed, folder)


def _check(name: str, content: bytes, folder: Path) -> None:
    """Check that unrepairable files are refused and repaired ones have no fault."""
    path, out = folder / name, folder / f"mended{Path(name).suffix}"
    path.write_bytes(content)
    small = {suite: shrink(submission) for suite, submission in SUBMISSIONS.items()}
    with patch("benchharness.extensions.submission.inspection.SUBMISSIONS", small):
        faults = check(path)
        if not all(fault.mendable for fault in faults):
            _require_refusal(partial(repair, path, out))
            return
        assert repair(path, out) == faults
        assert check(out) == ()
        if not faults and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                assert not [n for n in archive.namelist() if ".." in n or n[:1] in "/\\"]


def _require_refusal(mend: Callable[[], object]) -> None:
    try:
        mend()
    except DataError:
        return
    raise AssertionError("a fault that has no one right answer was mended")


def _hub() -> list[Case]:
    """Return Parquet files of the hub: a table of labels, and a table of tags."""
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
    """Read a file through the real loader, which gets a local file instead of the hub's."""
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


SHARES = {"pair": 1, "span": 1, "choice": 1, "tag": 0.5, "coref": 0.5, "ranking": 0.5}
"""Share of the cases per kind of prediction."""


def _own_files() -> Iterator[Path]:
    """Return a custom data file in every single-file layout, each with its folder."""
    for layout in (*GOOD.values(), *PUBLIC.values(), *MESSY.values(), *TOOLS.values()):
        with TemporaryDirectory() as folder:
            path = layout.write(Path(folder))
            is_asked = getattr(layout, "expected", "").startswith(REFUSED)
            if path.is_file() and not is_asked and not getattr(layout, "no_header", False):
                yield path


REFUSED = ("asks", "refuses")


def _both_ways(name: str, content: bytes, read: Callable[[str, bytes, Path], None]) -> list[Case]:
    """Return a case for the file itself and a case for its gzip version."""
    packed = gzip.compress(content, mtime=0)
    return [
        Case(content=content, read=partial(read, name)),
        Case(content=packed, read=partial(read, f"{name}.gz")),
    ]


def _own() -> list[Case]:
    """Return custom data files, which are detected and read in parts."""
    return [c for path in _own_files() for c in _both_ways(path.name, path.read_bytes(), _read_own)]


def _read_own(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.write_bytes(content)
    with suppress(BenchError):
        list(read_parts(str(path)))
    with tables_as_they_were():
        find_own(str(path))


ASKED = ("sst2", "mrpc", "stsb", "squad/v2.0", "race/all", "conll2003/ner")
"""Endings of the names of tasks of every kind that `bench predict` supports."""

_OPTIONS = {word for each in load_command("predict").params for word in each.opts}


def _to_predict() -> list[Case]:
    """Return rows for models of benchmarks and of custom data."""
    cases = []
    for task in (task for name, task in TASKS.items() if name.endswith(ASKED)):
        split = (task.dev_splits or task.test_splits)[0]
        rows = [_plain(example) for example in read(task, split, MINI, limit=5).examples]
        lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
        cases += _both_ways("rows.jsonl", lines, partial(_answer, task, lines))
        if task.head == "pair":
            table = io.StringIO(newline="")
            csv.writer(table).writerows([[*rows[0]], *(row.values() for row in rows)])
            content = table.getvalue().encode()
            cases += _both_ways("rows.csv", content, partial(_answer, task, content))
    for path in _own_files():
        with tables_as_they_were():
            task = find_own(str(path)).task
        content = path.read_bytes()
        cases += _both_ways(path.name, content, partial(_answer, task, content))
    return cases


def _plain(example: Any) -> dict[str, Any]:
    """Return the texts of an example as a user has them."""
    names = ("text_a", "text_b", "context", "question", "options", "words", "sentences")
    given = {"text_a": "text", "text_b": "text2"}
    return {given.get(n, n): value for n in names if (value := getattr(example, n, None))}


def _answer(task: Task, whole: bytes, name: str, content: bytes, folder: Path) -> None:
    """Run `bench predict` without the model; check that its advice is accepted."""
    from benchharness.extensions.kept_models.rows import reader_of

    (folder / name).write_bytes(content)
    draw, encoding = random.Random(content), ""
    no_header = bool((task.definition or {}).get("no_header"))
    if content not in (whole, gzip.compress(whole, mtime=0)):
        encoding, no_header = draw.choice(("", "", "", "latin-1", "utf-16")), draw.random() < 0.1
    said = ""
    try:
        for table in read_parts(str(folder / name), encoding, no_header=no_header):
            if table.ids:
                reader_of(task)(table)
    except BenchError as error:
        said = str(error)
        raise
    finally:
        assert {*re.findall("--[a-z][a-z-]+", said)} <= _OPTIONS, said


ROWS = (
    Reader(name="own data", cases=_own, share=2),
    *of_extensions(
        {"kept_models": {0: Reader(name="rows for predict", cases=_to_predict, share=2)}}
    ).values(),
    Reader(name="tsv", cases=partial(_files, "tsv"), share=1.5),
    Reader(name="csv", cases=partial(_files, "csv")),
    Reader(name="jsonl", cases=partial(_files, "jsonl"), share=1.5),
    Reader(name="squad", cases=partial(_files, "squad")),
    Reader(name="race", cases=partial(_files, "race")),
    Reader(name="conll", cases=partial(_files, "conll")),
    *(
        Reader(name=layout, cases=partial(_files, layout), share=0.5)
        for layout in ("conll2012", "quac", "coqa", "hotpotqa")
    ),
    Reader(name="blimp", cases=partial(_files, "jsonl", blimp=True), share=0.2),
    Reader(name="beir", cases=_retrieval, share=0.5),
    Reader(name="words of languages", cases=_tagged_words, share=0.3),
    Reader(name="data archives", cases=_archives),
    Reader(name="hub parquet", cases=_hub, share=0.02),
    *(
        Reader(name=f"predictions of {head}s", cases=partial(_predictions, head), share=share)
        for head, share in SHARES.items()
    ),
    Reader(name="odds", cases=_odds, share=2),
    Reader(name="submissions", cases=_submissions, share=6),
)
