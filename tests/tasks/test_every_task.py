"""Every task of every suite: bundled rows, metrics, and rows from a local hub server."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from benchharness.extensions.conll2012.task import CorefTask, DocumentExample
from benchharness.extensions.retrieval.task import QueryExample, RankingTask
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import (
    ChoiceExample,
    Example,
    PairExample,
    Prediction,
    SpanExample,
    TagExample,
)
from benchharness.tasks.read import has_split, read
from benchharness.tasks.sources import Data, Source, rows
from benchharness.tasks.suites import SUITES, TASKS
from benchharness.tasks.task import ChoiceTask, PairTask, RoleTask, TagTask, Task, score
from tests.helpers.hub_catalogue import CONVERTED, DATA
from tests.helpers.hub_files import stored_row, write_configs, write_parquet
from tests.helpers.hub_server import Answer, ask, serve_hub

METRICS = {
    "glue": "cola mcc, sst2 accuracy, mrpc accuracy f1, stsb pearson spearman, qqp accuracy f1, "
    "mnli accuracy, qnli accuracy, rte accuracy, wnli accuracy, ax mcc",
    "superglue": "boolq accuracy, cb f1 accuracy, copa accuracy, multirc f1a em, record f1 em, "
    "rte accuracy, wic accuracy, wsc accuracy, axb mcc, axg parity",
}
"""Tasks of the two official boards in order, with their metrics."""

MINI = Data(source="mini")
PUBLIC_TESTS = ("race", "conll", "snli", "sst", "beir", "retrieval", "xtreme", "lexglue")
"""Suites whose test rows have their labels."""

LANGUAGES = ("train", "dev", "test_en", "test_de")
"""Splits of XTREME: languages with rows of their own, and one of the others."""

EVERY_SPLIT = [
    (task.name, split)
    for task in TASKS.values()
    for split in task.source.splits
    if task.head != "timed" and (task.suite != "xtreme" or split in LANGUAGES)
]
every_split = pytest.mark.parametrize(("name", "split"), EVERY_SPLIT)


@cache
def read_mini(name: str, split: str) -> tuple[Example, ...]:
    return read(TASKS[name], split, MINI).examples


@pytest.mark.parametrize("suite", METRICS)
def test_tasks_and_metrics_match_the_official_leaderboards(suite: str) -> None:
    found = {
        name.partition("/")[2]: [metric.name for metric in TASKS[name].metrics]
        for name in SUITES[suite].tasks
    }
    assert METRICS[suite] == ", ".join(" ".join([name, *of]) for name, of in found.items())
    cells = SUITES[suite].rule.cells
    assert list(cells) == [name for name in SUITES[suite].tasks if name in cells]


@every_split
def test_every_bundled_split_has_unique_ids(name: str, split: str) -> None:
    examples = read_mini(name, split)
    assert len({example.id for example in examples}) == len(examples) >= 40
    assert len({type(example) for example in examples}) == 1


@every_split
def test_labels_are_hidden_only_in_test_splits_scored_by_a_server(name: str, split: str) -> None:
    hidden = {example.is_hidden for example in read_mini(name, split)}
    by_server = split.startswith("test") and not name.startswith(PUBLIC_TESTS)
    assert hidden == {by_server and TASKS[name].trained_on is None}


@every_split
def test_every_bundled_example_passes_the_data_check(name: str, split: str) -> None:
    task = TASKS[name]
    for example in read_mini(name, split):
        check(task, example)


def check(task: Task, example: Example) -> None:  # noqa: C901  (one case for each type)
    match task, example:
        case PairTask(), PairExample():
            assert example.text_a.strip()
            several = example.label if task.multi_label else (example.label,)
            assert task.is_regression or {*several} <= {*task.labels, None}  # type: ignore[misc]
            for mark in example.marks:
                text = example.text_a if mark.text == "a" else example.text_b
                assert text is not None
                marked = text[mark.start : mark.end]
                assert marked
                assert marked == marked.strip()
        case _, SpanExample():
            assert example.question.strip()
            for answer, start in example.answers or ():
                if start < 0:
                    continue
                assert example.context[start : start + len(answer)] == answer
        case _, ChoiceExample():
            least = 1 if isinstance(task, ChoiceTask) and task.weighs_tokens else 2
            assert len(set(example.options)) == len(example.options) >= least
            assert example.gold is None or set(example.gold) <= set(range(len(example.options)))
        case TagTask(), TagExample():
            assert set(example.tags or ()) <= set(task.tags)
            assert example.tags is None or len(example.tags) == len(example.words)
        case CorefTask(), DocumentExample():
            words = example.words
            assert len(example.speakers) == len(example.sentences)
            assert all(0 <= a < b <= len(words) for c in example.clusters or () for a, b in c)
        case RankingTask(), QueryExample():
            assert {document for document, _ in example.relevant or ()} <= {*example.corpus.ids}
            assert any(grade > 0 for _, grade in example.relevant or ())
        case _:
            pytest.fail(f"{task.name} has a {type(example).__name__}")


@every_split
def test_every_bundled_split_has_every_class(name: str, split: str) -> None:
    task, examples = TASKS[name], read_mini(name, split)
    if isinstance(task, PairTask) and task.labels and not any(e.is_hidden for e in examples):
        found = [e.label for e in examples if isinstance(e, PairExample)]
        own: Any = chain.from_iterable(found) if task.multi_label else found  # type: ignore[arg-type]
        assert set(own) == set(task.labels)
    if isinstance(task, RoleTask):
        tags = {tag for e in examples if isinstance(e, TagExample) for tag in e.tags or ()}
        kinds = {tag.partition("-")[2] for tag in tags}
        assert kinds >= {"V", "ARG0", "ARG1", "ARG2", "C-ARG1", "R-ARG0", "ARGM-TMP"}
    elif isinstance(task, TagTask):
        tags = {tag for e in examples if isinstance(e, TagExample) for tag in e.tags or ()}
        wanted = {"", *(tag.partition("-")[2] for tag in task.tags)}
        assert {tag.partition("-")[2] for tag in tags} == wanted


def perfect(task: Task, examples: Sequence[Example]) -> list[Prediction]:
    """Return the first right answer of each example."""
    return [answer_type(task).golds(example)[0] for example in examples]


@every_split
def test_gold_predictions_score_1_in_every_metric(name: str, split: str) -> None:
    task, examples = TASKS[name], read_mini(name, split)
    if any(e.is_hidden for e in examples):
        pytest.skip("the labels are hidden")
    found = dict(score(task, split, perfect(task, examples), examples))
    assert len(found) == len(task.metrics) + len(task.details)
    thresholds = {found.pop(metric) for metric in list(found) if metric.endswith("threshold")}
    assert thresholds <= {0.0}
    assert found == {metric: pytest.approx(1.0) for metric in found}


@every_split
def test_metrics_declare_the_library_that_they_import(
    name: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, examples = TASKS[name], read_mini(name, split)
    if any(e.is_hidden for e in examples):
        pytest.skip("the labels are hidden")
    for library in ("sklearn.metrics", "scipy.stats", "scipy.optimize"):
        # Otherwise `from scipy import stats` would find this attribute.
        monkeypatch.delattr(library)
        # Now an import of the library raises ImportError.
        monkeypatch.setitem(sys.modules, library, None)
    for metric in (*task.metrics, *task.details):
        with pytest.raises(ImportError) if metric.library else nullcontext():
            metric.compute(perfect(task, examples), examples)


@every_split
def test_rows_read_with_a_limit_are_reproducible_and_keep_groups_whole(
    name: str, split: str
) -> None:
    task, whole = TASKS[name], read_mini(name, split)
    part = read(task, split, MINI, limit=20)
    assert 1 <= len(part.examples) <= 20
    assert part == read(task, split, MINI, limit=20)
    assert set(part.examples) < set(whole)
    sizes = Counter(e.group for e in whole if isinstance(e, PairExample))
    kept = Counter(e.group for e in part.examples if isinstance(e, PairExample))
    assert all(kept[group] == sizes[group] for group in kept if group is not None)


APART = ("blimp/", "beir/", "retrieval/", "pairs/", "text/", "xtreme/", "needle/")
"""Suites that test_hub_sets.py tests over the hub, or that exist as files only."""

ORG = {task.source.hub: task.source.revision for task in TASKS.values()}
COMMITS = {"main": "a" * 40, CONVERTED: "b" * 40}


def stored_rows(task: Task, split: str) -> list[dict[str, Any]]:
    """Return the bundled rows as the hub stores them; RACE's in the order of an archive."""
    found = rows(replace(task.source, arrange=None), split, MINI)
    if task.suite == "race":
        found = sorted(found, key=lambda row: str(row["example_id"])[::-1])
    if task.name == "glue/stsb":
        found = [{**row, "label": -1.0} if row["label"] is None else row for row in found]
    return [stored_row(task.source, row) for row in found]


def write_hub(hub: Path) -> None:
    configs: dict[Path, dict[str, list[str]]] = {}
    apart = {"beir", "pairs", "text", "xtreme"}
    tasks = (t for t in TASKS.values() if t.source.hub and not {t.source.format, t.suite} & apart)
    for task in tasks:
        source = task.source
        folder = hub / "datasets" / source.hub / COMMITS.get(source.revision, source.revision)
        schema = None
        # Write dev first, because its rows show the type of every column.
        for name, split in sorted(source.splits.items(), key=lambda item: item[0] != "dev"):
            found = stored_rows(task, name)
            labels = {source.label: source.label_names, **source.classes}
            for config in source.configs or (source.config,):
                names = configs.setdefault(folder, {}).setdefault(config, [])
                if split.hub not in names:  # two tasks may use the same data set
                    names.append(split.hub)
                part = [row for row in found if not source.configs or row["UID"] == config]
                path = folder / path_in(folder, source, config, split.hub)
                schema = write_parquet(path, part, schema, labels)
    for folder, splits in configs.items():
        if folder.name != COMMITS[CONVERTED]:
            write_configs(folder, splits)


def path_in(folder: Path, source: Source, config: str, split: str) -> str:
    """Return the path of a split's file in the branch that the catalogue names for the data set.

    If the hub has converted it, only folders name a config: there is no README. All configs but the
    one of the task get one row that must not be read.
    """
    known = DATA[source.hub]
    assert (known["branch"] == "convert") == (source.revision == CONVERTED)
    if known["branch"] == "main":
        return f"{config}/{split}-00000-of-00001.parquet"
    wanted = source.hub_folder or known["folders"][0]
    assert wanted in known["folders"]
    for other in {*known["folders"]} - {wanted}:
        if not (decoy := folder / other / split / "0000.parquet").exists():
            write_parquet(decoy, [{"of": "another config"}])
    return f"{wanted}/{split}/0000.parquet"


@pytest.fixture(scope="module")
def over_the_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answer]:
    folder = tmp_path_factory.mktemp("hub")
    write_hub(folder / "hub")
    others = [f"{n}:{s}" for n, s in EVERY_SPLIT if not n.startswith(APART)]
    with serve_hub(folder / "hub", COMMITS) as server:
        yield ask(server.endpoint, folder / "home", *others)


@pytest.mark.parametrize(
    ("name", "split"), [(n, s) for n, s in EVERY_SPLIT if not n.startswith(APART)]
)
def test_rows_from_the_hub_equal_those_from_files(
    name: str, split: str, over_the_hub: Answer
) -> None:
    assert over_the_hub.error == ""
    digest, found = over_the_hub.rows[f"{name}:{split}"]
    # Only the files of CoNLL-2003 contain document boundaries, which are not part of fingerprints.
    alone = {"document": None} if name == "conll2003/ner" else {}
    assert found == [{**row, **alone} for row in rows(TASKS[name].source, split, MINI)]
    assert digest == read(TASKS[name], split, MINI).fingerprint


ROWS = {
    "glue/cola": {"train": 8551, "dev": 1043, "test": 1063},
    "glue/sst2": {"train": 67349, "dev": 872, "test": 1821},
    "glue/mrpc": {"train": 3668, "dev": 408, "test": 1725},
    "glue/stsb": {"train": 5749, "dev": 1500, "test": 1379},
    "glue/qqp": {"train": 363846, "dev": 40430, "test": 390965},
    "glue/mnli": {"train": 392702, "dev": 9815, "dev_mm": 9832, "test": 9796, "test_mm": 9847},
    "glue/qnli": {"train": 104743, "dev": 5463, "test": 5463},
    "glue/rte": {"train": 2490, "dev": 277, "test": 3000},
    "glue/wnli": {"train": 635, "dev": 71, "test": 146},
    "glue/ax": {"test": 1104},
    "superglue/boolq": {"train": 9427, "dev": 3270, "test": 3245},
    "superglue/cb": {"train": 250, "dev": 56, "test": 250},
    "superglue/copa": {"train": 400, "dev": 100, "test": 500},
    "superglue/multirc": {"train": 27243, "dev": 4848, "test": 9693},
    "superglue/rte": {"train": 2490, "dev": 277, "test": 3000},
    "superglue/wic": {"train": 5428, "dev": 638, "test": 1400},
    "superglue/wsc": {"train": 554, "dev": 104, "test": 146},
    "superglue/axb": {"test": 1104},
    "superglue/axg": {"test": 356},
    "squad/v1.1": {"train": 87599, "dev": 10570},
    "squad/v2.0": {"train": 130319, "dev": 11873},
    "race/all": {"train": 87866, "dev": 4887, "test": 4934},
    "conll2003/ner": {"train": 14041, "dev": 3250, "test": 3453},
    "conll2012/coref": {"train": 2802, "dev": 343, "test": 348},
    "swag/regular": {"train": 73546, "dev": 20006, "test": 20005},
    "snli/snli": {"train": 549367, "dev": 9842, "test": 9824},
    "quac/quac": {"train": 83568, "dev": 7354},
    "coqa/coqa": {"train": 108647, "dev": 7983},
    "hotpotqa/distractor": {"train": 90447, "dev": 7405},
    "sst/sst5": {"train": 8544, "dev": 1101, "test": 2210},
    "sst/binary": {"train": 6920, "dev": 872, "test": 1821},
}


@pytest.mark.parametrize(("name", "split"), [(n, s) for n in ROWS for s in ROWS[n]])
def test_official_files_have_the_published_number_of_rows(name: str, split: str) -> None:
    folder = os.environ.get("BENCH_TEST_DATA")
    if folder is None:
        pytest.skip("BENCH_TEST_DATA names no folder of official files")
    data = Data(source="files", folder=Path(folder))
    if not has_split(TASKS[name], split, data):
        pytest.skip(f"{folder} has no {name} {split}")
    examples = read(TASKS[name], split, data).examples
    assert len(examples) == ROWS[name][split]
    for example in examples:
        check(TASKS[name], example)
