"""Tests of BEIR's folders: their content, and the errors for other folders."""

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.retrieval import files as beir
from benchharness.extensions.retrieval.metrics import ndcg, recall
from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction
from benchharness.tasks.answers import answer_type
from benchharness.tasks.read import odd_sentences, read
from benchharness.tasks.sources import Data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import find_task

MINI = mini_folder() / "beir" / "mini"
TASK = find_task("retrieval/folder")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINI, tmp_path / "ours"))


def read_test(folder: Path, name: str = "retrieval/folder") -> Any:
    return read(find_task(name), "test", Data(source="files", folder=folder))


def test_beir_folder_or_zip_can_have_any_name(folder: Path) -> None:
    rows = read_test(folder)
    assert rows.fingerprint == read(TASK, "test", Data(source="mini")).fingerprint
    shutil.move(folder, folder.parent / "scifact")
    assert read_test(folder.parent, "beir/scifact").fingerprint == rows.fingerprint
    packed = shutil.make_archive(str(folder.parent / "set"), "zip", folder.parent, "scifact")
    assert read_test(Path(packed), "beir/scifact").fingerprint == rows.fingerprint
    first = rows.examples[0]
    assert first.relevant == (("d190", 1), ("d197", 0))
    assert first.corpus.text("d190").startswith("Driver The driver ")


def test_changed_corpus_changes_the_fingerprint_of_the_split(folder: Path) -> None:
    before = read_test(folder).fingerprint
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "new", "title": "", "text": "Another one."}\n')
    assert read_test(folder).fingerprint != before


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("qrels/test.tsv", "test190a\td1", "has 2 fields; expected query-id, corpus-id, score"),
        ("qrels/test.tsv", "test190a\td1\tyes", "has the score 'yes'; expected a whole number"),
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}', "has the id 'd1', but another document"),
        ("corpus.jsonl", '{"_id": "e1"}', "corpus.jsonl line 241 has the text None; expected a t"),
        ("queries.jsonl", '{"_id": 7, "text": "x"}', "has the _id 7; expected a text"),
    ],
)
def test_malformed_beir_line_is_an_error_that_names_it(
    folder: Path, file: str, line: str, said: str
) -> None:
    with (folder / file).open("a") as found:
        found.write(f"{line}\n")
    with pytest.raises(DataError, match=r"^[^\n]*$") as caught:
        read_test(folder)
    assert said in str(caught.value)


def judge(folder: Path, *lines: str) -> dict[str, int]:
    """Return the counts of irregular rows of the test split with more judgements."""
    with (folder / "qrels" / "test.tsv").open("a") as file:
        file.writelines(line + "\n" for line in lines)
    return dict(read_test(folder).odd)


def test_judged_document_outside_the_corpus_counts_as_not_retrieved(folder: Path) -> None:
    """Judge absent documents, as ArguAna does.

    trec_eval has them in the ideal ranking, and no run finds them.
    """
    before = read_test(folder)
    assert judge(folder, "test190a\tabsent\t1", "test190a\tgone\t0") == {beir.NO_DOCUMENT: 2}
    rows = read_test(folder)
    assert (len(rows.examples), rows.left_out) == (len(before.examples), 0)
    first = rows.examples[0]
    assert dict(first.relevant) == {"absent": 1, "d190": 1, "d197": 0, "gone": 0}
    best = RankingPrediction(id=first.id, documents=("d190", "d1"), scores=(2.0, 1.0))
    assert ndcg(best, first) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert recall(best, first) == 0.5
    named = answer_type(TASK).from_python(first, ["absent", "d190"])
    assert ndcg(named, first) == 1.0  # type: ignore[arg-type]


def test_judgements_of_unknown_queries_are_skipped_and_counted(folder: Path) -> None:
    assert judge(folder, "nobody\td1\t1", "nobody\td2\t1") == {beir.NO_QUERY: 2}
    rows = read_test(folder)
    assert (len(rows.examples), rows.left_out) == (50, 1)
    assert rows.fingerprint == read(TASK, "test", Data(source="mini")).fingerprint


def test_last_of_duplicate_judgements_is_used(folder: Path) -> None:
    assert judge(folder, "test190a\td190\t0", "test190a\td190\t2") == {beir.AGAIN: 2}
    assert read_test(folder).examples[0].relevant == (("d190", 2), ("d197", 0))


def test_beir_queries_without_text_are_retained_and_counted(folder: Path) -> None:
    with (folder / "queries.jsonl").open("a") as file:
        file.write('{"_id": "empty", "text": ""}\n{"_id": "blank", "text": " "}\n')
    assert judge(folder, "empty\td1\t1", "blank\td1\t1") == {beir.NO_TEXT: 2}
    assert len(read_test(folder).examples) == 52


def test_duplicate_documents_and_queries_are_dropped_and_counted(folder: Path) -> None:
    before = read_test(folder).fingerprint
    for name in ("corpus.jsonl", "queries.jsonl"):
        path = folder / name
        path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")
    assert dict(read_test(folder).odd) == {beir.SAME_DOCUMENT: 1, beir.SAME_QUERY: 1}
    assert read_test(folder).fingerprint == before


def test_judgement_file_without_a_header_is_read_from_its_first_line(folder: Path) -> None:
    before, path = read_test(folder).fingerprint, folder / "qrels" / "test.tsv"
    path.write_text(path.read_text().partition("\n")[2])
    rows = read_test(folder)
    assert (rows.fingerprint, dict(rows.odd)) == (before, {beir.NO_HEADER: 1})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("test190a\tnothing\t1", "judges the document 'nothing', but the corpus contains none"),
        ("nobody\td1\t1", "judges the query 'nobody', but queries.jsonl contains none of the"),
    ],
)
def test_judgements_of_another_data_set_are_an_error(folder: Path, line: str, said: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{line}\n")
    with pytest.raises(DataError, match=r"^[^\n]*get all files from the same .*\.$") as caught:
        read_test(folder)
    assert said in str(caught.value)


def test_beir_file_without_judgements_is_an_error(folder: Path) -> None:
    for text in ("", "query-id\tcorpus-id\tscore\n"):
        (folder / "qrels" / "test.tsv").write_text(text)
        with pytest.raises(DataError, match="is empty"):
            read_test(folder)


def test_irregular_retrieval_rows_are_reported_per_split() -> None:
    odd = {"beir/arguana:test": {beir.NO_DOCUMENT: 1}, "beir/nq:test": {beir.NO_DOCUMENT: 2}}
    (said,) = odd_sentences(odd)
    assert said.startswith("judged documents that the corpus lacks count as not found, as in trec")
    assert said.endswith(": 1 in beir/arguana:test, 2 in beir/nq:test.")


def test_training_excludes_judged_documents_outside_the_corpus(folder: Path) -> None:
    path = folder / "qrels" / "train.tsv"
    before = path.read_text()
    query = before.splitlines()[1].partition("\t")[0]
    path.write_text(f"{before}{query}\tabsent\t1\n")
    rows = read(TASK, "train", Data(source="files", folder=folder))
    assert dict(rows.odd) == {beir.NO_DOCUMENT: 1}
    kind = answer_type(TASK)
    found = kind.majority(rows.examples)(rows.examples[0])
    assert "absent" not in found.documents  # type: ignore[attr-defined]


def test_empty_or_missing_corpus_is_an_error(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text("")
    with pytest.raises(DataError, match=r"corpus\.jsonl is empty: expected a document on each l"):
        read_test(folder)
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(DataError, match=r"has qrels/ but no corpus\.jsonl: get BEIR's files"):
        read_test(folder)


def test_corpus_larger_than_the_memory_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sysconf", lambda _name: 100)  # 10 kB
    with pytest.raises(DataError, match=r"searching it needs about .* GB of memory"):
        read_test(folder)


def test_beir_rows_from_the_hub_equal_those_from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve the qrels as a separate data set, as the hub does."""

    def of_hub(source: Any, split: str) -> list[dict[str, Any]]:
        if source.hub == "BeIR/scifact-qrels":
            lines = (MINI / "qrels" / f"{source.split(split).hub}.tsv").read_text().splitlines()
            fields = (line.split("\t") for line in lines[1:])
            return [dict(zip(beir.HEADER, (q, d, int(s)), strict=True)) for q, d, s in fields]
        assert (source.hub, source.config) == ("BeIR/scifact", split)
        lines = (MINI / f"{split}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    monkeypatch.setattr(beir, "hub_dataset", of_hub)
    beir._of_hub.cache_clear()
    for split in ("train", "test"):
        found = read(find_task("beir/scifact"), split, Data(source="hub"))
        assert found.fingerprint == read(TASK, split, Data(source="mini")).fingerprint
    beir._of_hub.cache_clear()


def test_rankings_from_python_may_be_document_ids_or_scores() -> None:
    kind, example = answer_type(TASK), read(TASK, "test", Data(source="mini")).examples[0]
    assert isinstance(example, QueryExample)
    given = kind.from_python(example, ["d3", "d190"])
    assert given == RankingPrediction(id=example.id, documents=("d3", "d190"), scores=(1.0, 0.5))
    assert kind.from_python(example, {"d190": 2, "d3": 1}).scores == (2, 1)  # type: ignore[attr-defined]
    assert not kind.is_right(given, example)
    assert kind.near(given, example, right=False) == pytest.approx(0.63093, abs=1e-5)
    with pytest.raises(DataError, match="'d999' is not a document in the corpus"):
        kind.from_python(example, ["d999"])


def test_ensemble_of_rankings_uses_reciprocal_rank_fusion() -> None:
    one = RankingPrediction(id="q", documents=("a", "b"), scores=(9.0, 1.0))
    other = RankingPrediction(id="q", documents=("b", "c"), scores=(0.3, 0.2))
    found = answer_type(TASK).average([one, other])
    assert found.documents[:1] == ("b",)  # type: ignore[attr-defined]
