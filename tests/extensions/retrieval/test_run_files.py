"""TREC run files and files of label sets in the usual spellings."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.retrieval.metrics import ndcg, ranked, recall, reciprocal_rank
from benchharness.extensions.retrieval.trec import write_run
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.extensions.submission.scoring import score_files
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.suites import TASKS
from tests.helpers.prediction_files import guess

MINI = Data(source="mini")
TASK = TASKS["beir/scifact"]
ECTHR = TASKS["lexglue/ecthr_a"]


@pytest.fixture(scope="module")
def rows() -> SplitRows:
    return read(TASK, "test", MINI, limit=4)


def named(rows: SplitRows) -> list[str]:
    return [example.id for example in rows.examples]


def found(rows: SplitRows, text: str, folder: Path) -> Any:
    path = folder / "run.txt"
    path.write_text(text)
    return read_predictions(path, TASK, rows)


def lines(rows: SplitRows, *columns: str) -> str:
    """Return one line per query with these columns."""
    return "".join(f"{name} {' '.join(columns)}\n" for name in named(rows))


def test_trec_run_is_read_with_documents_and_scores(rows: SplitRows, tmp_path: Path) -> None:
    query, others = named(rows)[0], lines(rows, "Q0 d2 1 0.5 x").partition("\n")[2]
    text = f"{query}\tQ0\td1\t2\t3e-1\tx\n{query}   Q0 d9 1 0.9 x \r\n\n{query} Q0 d2 3 .3 x\n"
    run = found(rows, text + others, tmp_path)
    assert (run.notes, run.missing) == ((), 0)
    assert run.predictions[0].documents == ("d1", "d9", "d2")
    assert run.predictions[0].scores == (0.3, 0.9, 0.3)


def test_trec_ranks_that_contradict_the_scores_are_noted(rows: SplitRows, tmp_path: Path) -> None:
    some = lines(rows, "Q0 d1 1 0.5 x") + lines(rows, "Q0 d2 2 0.7 x")
    (note,) = found(rows, some, tmp_path).notes
    assert "the ranks of 4 queries contradict their scores" in note
    assert found(rows, some.replace("0.7", "0.5"), tmp_path).notes == ()


def test_trec_run_scores_missing_queries_as_0_and_ignores_unknown_ones(
    rows: SplitRows, tmp_path: Path
) -> None:
    text = lines(rows, "Q0 d1 1 0.5 x").partition("\n")[2] + "elsewhere Q0 d1 1 1 x\n"
    run = found(rows, text, tmp_path)
    assert (run.missing, run.predictions[0].documents) == (1, ())
    assert [note.partition(": ")[2] for note in run.notes] == [
        "1 of 4 queries have no line: each scores 0, as in trec_eval -c",
        "1 of its queries are not in the split",
    ]


def test_retrieved_judged_document_outside_the_corpus_counts_as_relevant(
    rows: SplitRows, tmp_path: Path
) -> None:
    first: Any = rows.examples[0]
    judged = replace(first, relevant=(*first.relevant, ("absent", 1)))
    odd = replace(rows, examples=(judged, *rows.examples[1:]))
    run = found(odd, lines(rows, "Q0 absent 1 0.5 x"), tmp_path)
    assert "4 of its documents are not in the corpus" in run.notes[0]
    assert reciprocal_rank(run.predictions[0], judged) == 1.0
    assert ndcg(run.predictions[1], rows.examples[1]) == 0.0  # type: ignore[arg-type]
    assert 0 < recall(run.predictions[0], judged) < 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{} Q0 d1 1 0.5", "line 1: the line has 5 columns, expected the query, Q0, a document"),
        ("{} Q0 d1 1 0.5 my run", "line 1: the line has 7 columns"),
        ("{} Q0 d1 1 nan x", "line 1: the score is 'nan', expected a number"),
        ("{} Q0 d1 1 1e999 x", "the score is '1e999', expected a number"),
        ("{} Q0 d1 1 1_0 x", "the score is '1_0', expected a number"),
        ("{} Q0 d1 1 \u0661 x", "expected a number"),
        ("{0} Q0 d1 1 1 x\n{0} Q0 d1 2 0 x", "line 2: the document 'd1' is repeated"),
        ("nobody Q0 d1 1 1 x", "none of its 1 queries is one of the 4"),
        ("", "none of its 0 queries is one of the 4"),
    ],
)
def test_trec_run_file_that_trec_eval_refuses_is_an_error(
    rows: SplitRows, line: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"^[^\n]*run\.txt cannot be scored: [^\n]*$") as caught:
        found(rows, line.format(named(rows)[0]), tmp_path)
    assert said in str(caught.value)


def test_query_id_with_unicode_white_space_is_read_back_equal(
    rows: SplitRows, tmp_path: Path
) -> None:
    odd = "q\u00a0\u2028\x85"
    renamed = replace(rows, examples=(replace(rows.examples[0], id=odd),))
    made: Any = [guess(TASK, renamed.examples[0], Random(1))]
    path = tmp_path / "run.txt"
    path.write_bytes(write_run(made))
    (run,) = read_predictions(path, TASK, renamed).predictions
    assert (run.id, ranked(run)) == (odd, ranked(made[0]))  # type: ignore[arg-type]


# Prediction files with sets of labels.


def scored(path: Path) -> dict[str, float]:
    (split,) = score_files([path], ECTHR.name, "mini", ["dev"]).splits
    return dict(split.evaluation.scores)


@pytest.mark.parametrize("form", ["list", "bars", "commas", "blanks", "objects", "lines"])
def test_label_sets_are_read_as_json_lists_or_separated_names(form: str, tmp_path: Path) -> None:
    rows, draw = read(ECTHR, "dev", MINI), Random("sets")
    made: list[Any] = [guess(ECTHR, example, draw) for example in rows.examples]
    assert {len(each.label) for each in made} >= {0, 1, 2}
    path = tmp_path / ("answers.jsonl" if form == "objects" else "answers.tsv")
    if form == "objects":
        each = [{"idx": int(p.id), "label": [*p.label][::-1]} for p in made]
        path.write_text("\n".join(map(json.dumps, each)))
    elif form == "lines":
        path.write_text("".join(json.dumps(p.label) + "\n" for p in made))
    else:
        mark = {"bars": "|", "commas": ", ", "blanks": " "}.get(form)
        cells = [json.dumps(p.label) if mark is None else mark.join(p.label) for p in made]
        table = [f"{n}\t{cell}" for n, cell in enumerate(cells)]
        path.write_text("\n".join(["index\tprediction", *table]) + "\n")
    assert list(read_predictions(path, ECTHR, rows).predictions) == made
    assert scored(path)["micro_f1"] < 1


@pytest.mark.parametrize("cell", ['["2", "77"]', "2 77", "[2]", '["2"', "none at all"])
def test_unknown_label_in_a_label_set_is_an_error_that_names_the_line(
    cell: str, tmp_path: Path
) -> None:
    rows = read(ECTHR, "dev", MINI, limit=2)
    path = tmp_path / "answers.tsv"
    path.write_text(f"index\tprediction\n{rows.examples[0].id}\t{cell}\n1\t\n")
    with pytest.raises(DataError, match=r"line 2: the labels are .*, expected a list of 2, 3, 5"):
        read_predictions(path, ECTHR, rows)


def test_scoring_a_file_for_a_speed_measurement_task_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "speeds.tsv"
    path.write_text("index\tprediction\n")
    with pytest.raises(DataError, match="measures speed and memory, which only `bench run`"):
        read_predictions(
            path, TASKS["efficiency/fixed-512"], SplitRows(examples=(), fingerprint="")
        )


def rows_of(*examples: Any) -> SplitRows:
    return SplitRows(examples=examples, fingerprint="")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("yes, of course", ("yes, of course",)),
        ("no|yes, of course", ("yes, of course", "no")),
        ("no", ("no",)),
        ("(none)", ()),
    ],
)
def test_label_name_may_contain_the_separator_of_label_sets(
    text: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    task: Any = replace(ECTHR, labels=("yes, of course", "no"))
    example: Any = replace(read(ECTHR, "dev", MINI, limit=1).examples[0], id="0")
    path = tmp_path / "answers.tsv"
    path.write_text(f"index\tprediction\n0\t{text}\n")
    (found,) = read_predictions(path, task, rows_of(example)).predictions
    assert found == PairPrediction(id="0", label=labels)
