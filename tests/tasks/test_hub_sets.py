"""Tests of hub data sets with many configs or two repositories.

They are XTREME, BEIR, BLiMP and MultiBLiMP; test_every_task.py asks the hub for the splits of all
other suites. Here the hub is asked for some splits in every run of the tests, and for all by `make
soak`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.extensions.retrieval.files import HEADER
from benchharness.tasks.read import read
from benchharness.tasks.sources import Data, Source, rows
from benchharness.tasks.suites import TASKS
from tests.helpers.hub_catalogue import DATA
from tests.helpers.hub_files import stored_row, write_configs, write_parquet
from tests.helpers.hub_server import Answer, ask, serve_hub

MINI = Data(source="mini")
MAIN = "a" * 40
LANGUAGES = ("train", "dev", "test_en", "test_de")
"""Splits of XTREME: English, and one language that has only test rows."""

SPLITS = [
    (task.name, split)
    for task in TASKS.values()
    for split in task.source.splits
    if task.source.hub
    and (
        task.suite in {"beir", "blimp", "pairs"} or (task.suite == "xtreme" and split in LANGUAGES)
    )
]
SOME = [
    (name, split)
    for name, split in SPLITS
    if name == "beir/scifact"
    or (name.startswith("xtreme/") and split in {"dev", "test_de"} and name != "xtreme/squad-en")
]
REST = [each for each in SPLITS if each not in SOME]


def commit_of(source: Source) -> str:
    return source.revision if source.is_pinned else MAIN


def write_beir(datasets: Path, source: Source) -> None:
    """Write corpus and queries into one repository, and the judgements as tables into another."""
    found = {name: rows(source, name, MINI) for name in source.splits}
    corpus = next(iter(found.values()))[0]["corpus"]
    folder = datasets / source.hub / commit_of(source)
    documents = [
        {"_id": name, "title": "", "text": text}
        for name, text in zip(corpus.ids, corpus.texts, strict=True)
    ]
    texts = {row["id"]: row["text"] for part in found.values() for row in part}
    queries = [{"_id": name, "title": "", "text": text} for name, text in texts.items()]
    for name, part in (("corpus", documents), ("queries", queries)):
        write_parquet(folder / name / f"{name}-00000-of-00001.parquet", part)
    write_configs(folder, {"corpus": ["corpus"], "queries": ["queries"]})
    judged = datasets / f"{source.hub}-qrels" / MAIN
    judged.mkdir(parents=True)
    for name, part in found.items():
        lines = [HEADER, *((r["id"], *each) for r in part for each in r["relevant"])]
        text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
        (judged / f"{name}.tsv").write_text(text)


def write_configs_of(datasets: Path, asked: list[tuple[str, str]]) -> None:
    """Write each config and split that the tasks read, as parquet files with a README."""
    configs: dict[Path, dict[str, list[str]]] = {}
    for name, split in asked:
        source = TASKS[name].source
        assert DATA[source.hub]["branch"] == "main"
        folder = datasets / source.hub / commit_of(source)
        # The hub's WikiANN has no language codes before words, so its rows have the final form
        # already.
        as_stored = replace(source, arrange=None) if source.configs else source
        found = rows(as_stored, split, MINI)
        place = source.split(split)
        for config in source.configs or (place.config or source.config,):
            names = configs.setdefault(folder, {}).setdefault(config, [])
            if place.hub in names:  # TyDi QA has a single split for all languages
                continue
            names.append(place.hub)
            # A row belongs to the config that it names (BLiMP, column UID) or that its file is
            # named after (MultiBLiMP).
            part = [r for r in found if r.get("UID", r.get("file", config)) == config]
            labels = {source.label: source.label_names, **source.classes}
            file = folder / config / f"{place.hub}-00000-of-00001.parquet"
            write_parquet(file, [stored_row(source, row) for row in part], labels=labels)
    for folder, splits in configs.items():
        write_configs(folder, splits)


@contextmanager
def asking(folder: Path, asked: list[tuple[str, str]]) -> Iterator[Answer]:
    sets = {TASKS[name].source.hub: name for name, _ in asked if name.startswith("beir/")}
    for name in sets.values():
        write_beir(folder / "hub" / "datasets", TASKS[name].source)
    others = [each for each in asked if not each[0].startswith("beir/")]
    write_configs_of(folder / "hub" / "datasets", others)
    with serve_hub(folder / "hub", {"main": MAIN}) as server:
        yield ask(server.endpoint, folder / "home", *(f"{n}:{s}" for n, s in asked))


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answer]:
    with asking(tmp_path_factory.mktemp("some"), SOME) as answer:
        yield answer


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answer]:
    with asking(tmp_path_factory.mktemp("rest"), REST) as answer:
        yield answer


def check(answer: Answer, name: str, split: str) -> None:
    assert answer.error == ""
    digest, found = answer.rows[f"{name}:{split}"]
    wanted = [shown(row) for row in rows(TASKS[name].source, split, MINI)]
    assert [shown(row) for row in found] == wanted
    assert digest == read(TASKS[name], split, MINI).fingerprint


def shown(row: Any) -> dict[str, Any]:
    """Return a row as JSON has it, without the fields that only files have."""
    apart = {"language", "document", "file", "corpus", "oddities"}
    listed = {key: value for key, value in row.items() if key not in apart}
    if "relevant" in row:
        listed["relevant"] = [list(each) for each in row["relevant"]]
    return listed


@pytest.mark.parametrize(("name", "split"), SOME)
def test_rows_from_the_hub_equal_those_from_files(name: str, split: str, some: Answer) -> None:
    check(some, name, split)


@pytest.mark.soak
@pytest.mark.parametrize(("name", "split"), REST)
def test_rows_from_the_hub_equal_those_from_files_in_all_other_splits(
    name: str, split: str, rest: Answer
) -> None:
    check(rest, name, split)
