"""`bench predict`: kept models give the predictions of their runs, for any rows."""

import csv
import gzip
import json
import math
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pandas as pd
import pytest

import benchharness as bh
from benchharness.errors import DataError
from benchharness.extensions.custom_data import parts
from benchharness.extensions.custom_data.parts import read_parts
from benchharness.extensions.custom_data.tables import read_table
from benchharness.leaderboard.result import Result
from benchharness.splits import read_split
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job, make_shared_job

Kept = tuple[Path, Result]


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Callable[..., Kept]:
    """Function that returns the kept model and result of a task's run, trained once."""
    found: dict[str, Kept] = {}

    def get(task: str, **settings: str) -> Kept:
        if task not in found:
            folder = tmp_path_factory.mktemp("kept") / "model"
            found[task] = folder, run_job(make_job(task, limit=12, **settings), keep=folder)
        return found[task]

    return get


def lines_of(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def row_of(example) -> dict:
    """Return the texts of an example as a user has them."""
    names = ("text_a", "text_b", "context", "question", "options", "words")
    row = {name: getattr(example, name) for name in names if getattr(example, name, None)}
    return {name.replace("text_b", "text2").replace("text_a", "text"): v for name, v in row.items()}


def answers_of(kind: str, row: dict) -> dict:
    """Return a stored prediction in the form of `bench predict`."""
    match kind:
        case "span":
            text = "" if row["no_answer_score"] > 0 else row["text"]
            return {"text": text, "no_answer_score": row["no_answer_score"]}
        case "choice":
            return {"option": row["option"], "scores": row["scores"]}
        case "tag":
            return {"tags": row["tags"]}
    scores = row.get("scores")
    return {"label": row["label"], **({"score": max(scores)} if scores else {})}


@pytest.mark.parametrize(
    "task",
    ["glue/mrpc", "glue/stsb", "squad/v2.0", "race/all", "conll2003/ner"],
)
def test_predict_gives_the_stored_predictions_for_dev_rows(bench, kept, tmp_path, task) -> None:
    folder, result = kept(task)
    stored = result.evaluations[0]
    examples = read_split(result.job, stored.name).examples
    rows = [row_of(e) | {"label": "of nobody"} for e in examples]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ended = bench("predict", str(folder), "rows.jsonl")
    assert (ended.code, len(lines_of(ended.out))) == (0, len(examples))
    kind = task.partition("/")[0].replace("squad", "span").replace("race", "choice")
    kind = {"conll2003": "tag"}.get(kind, kind)
    for line, row, example in zip(lines_of(ended.out), stored.predictions, examples, strict=True):
        wanted = answers_of(kind, dict(row))
        for name, value in wanted.items():
            is_number = isinstance(value, float | list) and name != "tags"
            assert line[name] == (pytest.approx(value, abs=1e-6) if is_number else value)
        if line.get("start") is not None:
            assert example.context[line["start"] : line["end"]] == line["text"]


@pytest.mark.parametrize("task", ["superglue/wic", "superglue/copa", "conll2012/coref"])
def test_predict_accepts_the_original_columns_of_a_benchmark(bench, kept, tmp_path, task) -> None:
    folder, result = kept(task)
    from benchharness.tasks.sources import parse_data, rows
    from benchharness.tasks.suites import find_task

    stored = result.evaluations[0]
    given = list(rows(find_task(task).source, stored.split, parse_data("mini")))
    ids = {e.id for e in read_split(result.job, stored.name).examples}
    chosen = [r for r in given if find_task(task).convert(r).id in ids]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, chosen)))
    found = lines_of(bench("predict", str(folder), "rows.jsonl").out)
    name = {"wic": "label", "copa": "option", "coref": "clusters"}[task.partition("/")[2]]
    assert [line[name] for line in found] == [row[name] for row in stored.predictions]


def test_predict_with_a_multi_task_model_requires_the_task_option(bench, tmp_path) -> None:
    job = make_shared_job("glue/rte", "glue/stsb", limit=12)
    result = run_job(job, keep=tmp_path / "model")
    stored = next(each for each in result.evaluations if each.task == "glue/stsb")
    rows = [row_of(example) for example in read_split(job, stored.name).examples]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ended = bench("predict", "model", "rows.jsonl", "--task", "glue/stsb")
    wanted = [row["label"] for row in stored.predictions]
    assert [line["label"] for line in lines_of(ended.out)] == pytest.approx(wanted, abs=1e-6)
    ended = bench("predict", "model", "rows.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert "was trained on glue/rte, glue/stsb: choose one with --task" in ended.err


def test_predict_keeps_the_row_order_across_partial_reads(
    bench, kept, tmp_path, monkeypatch
) -> None:
    folder, _ = kept("glue/sst2")
    texts = [f"film {'very ' * (n * 7 % 23)}{n}" for n in range(60)]
    rows = [[text, f"a, b\nand {n}"] for n, text in enumerate(texts)]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["sentence", "note"], *rows])
    whole = bench("predict", str(folder), "rows.csv")
    monkeypatch.setattr(parts, "PART_BYTES", 200)
    assert len(list(read_parts("rows.csv"))) > 5
    found = lines_of(bench("predict", str(folder), "rows.csv").out)
    wanted = lines_of(whole.out)
    assert [line["id"] for line in found] == list(read_table([tmp_path / "rows.csv"]).ids)
    assert [line["label"] for line in found] == [line["label"] for line in wanted]
    assert [line["score"] for line in found] == pytest.approx([w["score"] for w in wanted])


def stdin_of(text: str) -> TextIOWrapper:
    return TextIOWrapper(BytesIO(text.encode()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a fine film\nflat\n", ["a fine film", "flat"]),
        ("a fine, warm film\nflat\n", ["a fine, warm film", "flat"]),
        ("one, and only\n", ["one, and only"]),
        ("text\na fine film\n", ["a fine film"]),
        ("sentence\tid\na fine film\t7\n", ["a fine film"]),
        ("sentence,id\na fine film,7\nflat,8\n", ["a fine film", "flat"]),
    ],
)
def test_predict_keeps_every_line_of_a_plain_text_file(
    text: str, expected: list[str], tmp_path: Path
):
    file = tmp_path / "texts.txt"
    file.write_text(text)
    (table,) = read_parts(str(file))
    assert next(iter(table.columns.values())) == expected


def test_predict_reads_stdin_as_texts_or_json_and_writes_scores_to_csv(
    bench, kept, tmp_path, monkeypatch
) -> None:
    folder, _ = kept("glue/sst2")
    monkeypatch.setattr(sys, "stdin", stdin_of("a fine film\nflat\n"))
    texts = lines_of(bench("predict", str(folder), "--scores").out)
    objects = '{"sentence": "a fine film"}\n{"sentence": "flat"}\n'
    monkeypatch.setattr(sys, "stdin", stdin_of(objects))
    assert lines_of(bench("predict", str(folder), "-", "--scores").out) == texts
    monkeypatch.setattr(sys, "stdin", stdin_of("a fine film\nflat\n"))
    assert bench("predict", str(folder), "--scores", "--out", "out.csv").out == ""
    with (tmp_path / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    for row, line in zip(table, texts, strict=True):
        assert row["label"] == line["label"]
        assert {f"score_{k}": v for k, v in line["scores"].items()} == {
            name: float(value) for name, value in row.items() if name.startswith("score_")
        }
        assert sum(line["scores"].values()) == pytest.approx(1)
    frame = bh.predict(folder, ["a fine film", "flat"], scores=True)
    assert frame["scores"].tolist() == [line["scores"] for line in texts]
    named = pd.DataFrame({"review": ["a fine film", "flat"], "stars": [5, 1]})
    assert bh.predict(folder, named, columns="text=review")["score"].tolist() == [
        line["score"] for line in texts
    ]


@pytest.mark.parametrize("task", ["glue/sst2", "squad/v2.0", "race/all"])
def test_min_confidence_marks_the_rows_that_are_left_to_a_person(
    bench, kept, tmp_path, task
) -> None:
    folder, result = kept(task)
    examples = read_split(result.job, result.evaluations[0].name).examples
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row_of(e)) for e in examples))
    plain = lines_of(bench("predict", str(folder), "rows.jsonl").out)
    every = lines_of(bench("predict", str(folder), "rows.jsonl", "--min-confidence", "0").out)
    assert [{**row, "confidence": None, "review": False} for row in plain] == [
        {**row, "confidence": None} for row in every
    ]
    for row in every:
        margin = row.get("no_answer_score")
        sure = row["score"] if margin is None else 1 / (1 + math.exp(-abs(margin)))
        assert row["confidence"] == pytest.approx(sure)
    limit = sorted(row["confidence"] for row in every)[len(every) // 2]
    ended = bench("predict", str(folder), "rows.jsonl", "--min-confidence", str(limit))
    left = [row["confidence"] < limit for row in every]
    assert [row["review"] for row in lines_of(ended.out)] == left
    assert 0 < sum(left) < len(left)
    said = f'bench: {sum(left)} of {len(left)} rows have a confidence below {limit:g} ("review"): '
    assert f"{said}leave them to a person." in ended.err
    frame = bh.predict(folder, tmp_path / "rows.jsonl", min_confidence=limit)
    assert frame["review"].tolist() == left


@pytest.mark.parametrize(
    "fault",
    [
        ("glue/sst2", "1.5", "--min-confidence must be from 0 to 1, but got 1.5."),
        ("glue/stsb", "0.5", "the model gives no probability of its answers to STS-B: "),
        ("conll2003/ner", "0.5", "the model gives no probability of its answers to "),
    ],
)
def test_min_confidence_out_of_range_or_without_probabilities_is_an_error(
    bench, kept, tmp_path, fault
) -> None:
    task, limit, said = fault
    folder, result = kept(task)
    examples = read_split(result.job, result.evaluations[0].name).examples
    (tmp_path / "rows.jsonl").write_text(json.dumps(row_of(examples[0])))
    words = ("rows.jsonl", "--min-confidence", limit, "--out", "out.csv")
    ended = bench("predict", str(folder), *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (tmp_path / "out.csv").exists()


def test_predict_reports_the_number_of_truncated_rows(bench, kept, monkeypatch) -> None:
    folder, _ = kept("glue/sst2")
    monkeypatch.setattr(sys, "stdin", stdin_of("word " * 3000 + "\nflat\n"))
    ended = bench("predict", str(folder))
    assert "1 row of 2 had to be cut to" in ended.err


def test_predict_reports_the_share_of_unknown_tokens(bench, kept, tmp_path) -> None:
    folder, _ = kept("glue/cola")
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in ("ܐܒ ܓܕ", "the bird \u200b", "ܗܘ"))
    )
    ended = bench("predict", str(folder), "rows.jsonl")
    assert ended.code == 0
    assert "unknown tokens: 3 of 7 (43 %)" in ended.err
    assert "words without a token: 1 of 6 (17 %)" in ended.err


FAULTS = [
    ("rows.csv", "a,b\n1,2\n", (), 4, "has no column 'sentence': its columns are 'a', 'b'; name"),
    ("rows.jsonl", '{"sentence": "x"}\n{"sentence": x}\n', (), 4, "rows.jsonl line 2 column 14 is"),
    ("rows.csv", "sentence,b\nx,1\ny\n", (), 4, "rows.csv line 3 has 1 fields, but line 1 has 2"),
    ("rows.jsonl", '{"sentence": ["x"]}\n', (), 4, "rows.jsonl line 1 is not a row of SST-2"),
    ("rows.csv", "sentence\n", (), 2, "rows.csv has no rows"),
    ("rows.csv", "a\nx\n", ("--columns", "words=a"), 2, "--columns has the roles words, but SST"),
    ("rows.csv", "a\nx\n", ("--columns", "text=b"), 4, "has no column 'b': its columns are 'a'"),
    ("rows.csv", "a\nx\n", ("--task", "glue/rte"), 2, "was not trained on glue/rte"),
    ("rows.csv", "a\nx\n", ("--out", "rows.csv"), 2, "rows.csv exists already"),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_predict_with_unreadable_rows_is_a_one_line_error_without_output(
    bench, kept, tmp_path, fault
) -> None:
    folder, _ = kept("glue/sst2")
    name, text, words, code, said = fault
    (tmp_path / name).write_text(text)
    out = () if "--out" in words else ("--out", "out.jsonl")
    ended = bench("predict", str(folder), name, *words, *out)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


ROWS = "".join(f'{{"sentence": "film {number}"}}\n' for number in range(200)).encode()


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.GZ", "rows.csv.gz", "rows.txt.gz"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "checksum"])
def test_predict_reports_a_damaged_gzip_file_by_name(tmp_path, name, damage) -> None:
    rows = ROWS if ".jsonl" in name else b"sentence\n" + b"a fine film\n" * 200
    packed = bytearray(gzip.compress(rows))
    if damage == "cut":
        del packed[-12:]
    else:
        packed[len(packed) // 2 if damage == "flipped" else -6] ^= 0xFF
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(DataError, match=rf"^{name} cannot be unpacked \(.*\): pack it again\.$"):
        list(read_parts(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["rows.jsonl.GZ", "rows.txt.gz", "rows.parquet.gz"])
def test_gzip_file_is_read_with_any_case_and_inner_suffix(tmp_path, name) -> None:
    rows = ROWS if ".jsonl" in name else b"sentence\na fine film\nflat\n"
    if "parquet" in name:
        frame, file = pd.DataFrame({"sentence": ["a fine film", "flat"]}), BytesIO()
        frame.to_parquet(file)
        rows = file.getvalue()
    (tmp_path / name).write_bytes(gzip.compress(rows))
    texts = [
        text for table in read_parts(str(tmp_path / name)) for text in table.columns["sentence"]
    ]
    assert texts[-1] == ("film 199" if ".jsonl" in name else "flat")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.json", '[{"sentence": "a"}, {"sentence": "b"}]'),
        ("rows.json", '{"data": [{"sentence": "a"}, {"sentence": "b"}]}'),
        ("rows.jsonl", '[{"sentence": "a"},\n{"sentence": "b"}]\n'),
        ("rows.jsonl", '{"sentence": "a"}\n{"sentence": "b"}\n{"sentence": "c'),
        ("rows.conll", "a\tO\nb\tO\n\na\tO\nb\tO\n\nc\tO\nd\tO\n"),
    ],
)
def test_predict_and_run_detect_the_same_file_layout(tmp_path, name, text) -> None:
    (tmp_path / name).write_text(text)
    table, *more = read_parts(str(tmp_path / name))
    whole = read_table([tmp_path / name])
    assert (table.columns, table.ids) == (whole.columns, whole.ids)
    assert (*table.notes, *(note for each in more for note in each.notes)) == whole.notes
    assert not any(each.ids for each in more)


def test_predict_accepts_the_encoding_no_header_and_columns_options(bench, kept, tmp_path) -> None:
    folder, _ = kept("glue/sst2")
    (tmp_path / "rows.csv").write_bytes("un café\nплохо\n".encode("utf-16"))
    (tmp_path / "rows.tsv").write_bytes("ein Ärgernis\t7\nschön\t8\n".encode("latin-1"))
    for name, encoding, column in (("rows.csv", "utf-16", "1"), ("rows.tsv", "latin-1", "1")):
        words = ("--encoding", encoding, "--no-header", "--columns", f"text={column}")
        ended = bench("predict", str(folder), name, *words)
        assert ended.code == 0, ended.err
        assert [line["id"] for line in lines_of(ended.out)] == ["1", "2"]
    (table,) = read_parts("rows.tsv", "latin-1", no_header=True)
    assert table.columns == {"1": ["ein Ärgernis", "schön"], "2": ["7", "8"]}
    ended = bench("predict", str(folder), "rows.tsv", "--encoding", "utf-8")
    assert (ended.code, ended.out) == (4, "")
    ended = bench("predict", str(folder), "rows.tsv", "--encoding", "no-such")
    assert (ended.code, ended.out) == (2, "")
    ended = bench("predict", str(folder), "rows.tsv", "--sheet", "A")
    assert (ended.code, ended.out) == (2, "")
    assert "--sheet applies to Excel workbooks only" in ended.err


def test_predict_escapes_formulas_and_control_sequences_in_its_output(
    bench, kept, tmp_path
) -> None:
    folder, _ = kept("glue/sst2")
    names = ["=HYPERLINK(1)", "\x1b[31m-1", "\u202e+2", "\x9b2J"]
    rows = [{"idx": name, "sentence": "a film"} for name in names]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ended = bench("predict", str(folder), "rows.jsonl")
    assert [line["id"] for line in lines_of(ended.out)] == names
    assert not {*ended.out} & {"\x1b", "\u202e", "\x9b"}
    assert bench("predict", str(folder), "rows.jsonl", "--out", "out.csv").code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [row["id"] for row in csv.DictReader(file)]
    assert found == ["'=HYPERLINK(1)", "\\x1b[31m-1", "\\u202e+2", "\\x9b2J"]


STREAMS = """
import sys
from benchharness.cli import app
from benchharness.extensions.kept_models import predict_command
from benchharness.extensions.custom_data.parts import read_parts
app.load_command = lambda name: None
app._open_what_is_closed()
print(len(list(read_parts("-"))))
app._finish_output()
"""


# Columns of the file that are kept.

PAIRS = [
    {"nr": "007", "text": "a b", "text2": "a c", "label": "?", "tags": "['x', 'y']", "sum": "=1+1"},
    {"nr": "008", "text": "d e", "text2": "d f", "label": "", "tags": "['z']", "sum": "2"},
]


def predicted(line: dict) -> dict:
    return {f"predicted_{name}": value for name, value in line.items() if name != "id"}


def test_keep_columns_copies_input_columns_to_csv_and_json_lines_output(
    bench, kept, tmp_path
) -> None:
    folder, _ = kept("glue/mrpc")
    pd.DataFrame(PAIRS).to_csv(tmp_path / "in.csv", index=False)
    plain = lines_of(bench("predict", folder, "in.csv", "--scores").out)
    keep = ("predict", folder, "in.csv", "--scores", "--keep-columns")
    found = lines_of(bench(*keep).out)
    assert found == [row | predicted(line) for row, line in zip(PAIRS, plain, strict=True)]
    assert list(found[0])[: len(PAIRS[0])] == list(PAIRS[0])
    assert bench(*keep, "--out", "out.csv").code == 0
    table = pd.read_csv("out.csv", dtype=str, keep_default_na=False)
    assert list(table.columns) == [
        *PAIRS[0],
        *("predicted_label", "predicted_score"),
        *("predicted_score_not_equivalent", "predicted_score_equivalent"),
    ]
    inert = [row | {"sum": row["sum"].replace("=", "'=")} for row in PAIRS]
    assert table[[*PAIRS[0]]].to_dict("records") == inert
    assert table["predicted_label"].tolist() == [line["label"] for line in plain]


def test_kept_columns_of_json_lines_and_parquet_keep_their_types(bench, kept, tmp_path) -> None:
    folder, _ = kept("glue/mrpc")
    row = {"text": "a b", "text2": "a c", "n": 1, "x": 0.5, "on": True, "no": None, "l": ["a", "b"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row | {"meta": {"source": "web"}}))
    (found,) = lines_of(bench("predict", folder, "in.jsonl", "--keep-columns").out)
    assert {name: value for name, value in found.items() if not name.startswith("predicted")} == {
        **row,
        "meta.source": "web",
    }
    day = pd.Timestamp("2026-01-02")
    pd.DataFrame([row | {"day": day, "x": float("nan")}]).drop(columns="no").to_parquet(
        "in.parquet"
    )
    (found,) = lines_of(bench("predict", folder, "in.parquet", "--keep-columns").out)
    assert (found["day"], found["x"], found["n"]) == ("2026-01-02 00:00:00", None, 1)


def test_kept_columns_are_returned_in_python(kept) -> None:
    folder, _ = kept("glue/mrpc")
    frame = pd.DataFrame(PAIRS).assign(weight=[1.5, float("nan")])
    found = bh.predict(folder, frame, keep_columns=True)
    pd.testing.assert_frame_equal(found[[*frame.columns]], frame, check_dtype=False)
    assert found["predicted_label"].tolist() == bh.predict(folder, frame)["label"].tolist()
    assert "id" not in found


def test_columns_that_cannot_be_kept_are_an_error_without_output(
    bench, kept, tmp_path, monkeypatch
) -> None:
    folder, _ = kept("glue/mrpc")
    row = {"text": "a b", "text2": "a c"}
    (tmp_path / "in.jsonl").write_text(json.dumps(row | {"predicted_label": 1}))
    ended = bench("predict", folder, "in.jsonl", "--keep-columns")
    assert (ended.code, ended.out) == (2, "")
    assert "in.jsonl has a column 'predicted_label', which is the name of a part" in ended.err
    monkeypatch.setattr(parts, "PART_BYTES", 40)
    lines = [row] * 4 + [row | {"late": 1}] * 4
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    ended = bench("predict", folder, "in.jsonl", "--keep-columns", "--out", "out.csv")
    assert (ended.code, (tmp_path / "out.csv").exists()) == (2, False)
    assert "only later rows have the column 'late'" in ended.err
    assert "write JSON lines, as in --out out.jsonl." in ended.err
    ended = bench("predict", folder, "in.jsonl", "--keep-columns", "--out", "out.jsonl")
    assert [line.get("late") for line in lines_of(Path("out.jsonl").read_text())] == [
        *[None] * 4,
        *[1] * 4,
    ]


def test_columns_of_several_rows_per_prediction_are_not_kept(bench, kept, tmp_path) -> None:
    folder, _ = kept("conll2003/ner")
    (tmp_path / "in.csv").write_text("sentence,word\n1,Rome\n1,fell\n2,Anna\n")
    columns = ("--columns", "sentence=sentence,words=word")
    assert bench("predict", folder, "in.csv", *columns).code == 0
    ended = bench("predict", folder, "in.csv", *columns, "--keep-columns")
    assert ended.code == 2
    assert "in.csv has 3 rows for 2 predictions: leave it out." in ended.err


@pytest.mark.parametrize(
    ("closed", "code", "said"),
    [("<&-", 0, "0\n"), ("0>/dev/null", 1, "stdin cannot be read: Bad file descriptor"),
     (">&-", 1, "the output could not be written (Bad file descriptor)")],
)  # fmt: skip
def test_predict_treats_closed_stdin_as_empty_and_closed_stdout_as_an_error(
    closed, code, said
) -> None:
    words = f'"$@" {closed}' if closed != ">&-" else f'"$@" </dev/null {closed}'
    ended = subprocess.run(
        ["bash", "-c", words, "-", sys.executable, "-P", "-c", STREAMS],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == code
    assert said in ended.stdout + ended.stderr
    assert "AttributeError" not in ended.stderr


def test_predict_reports_progress_of_long_predictions(bench, kept, tmp_path, monkeypatch) -> None:
    folder, _ = kept("glue/sst2")
    (tmp_path / "rows.jsonl").write_bytes(ROWS)
    monkeypatch.setattr("benchharness.progress.ALIVE_SECONDS", 0.001)
    ended = bench("predict", str(folder), "rows.jsonl", "--out", "out.jsonl")
    assert "bench: rows predicted so far: 0 (0 s)" in ended.err


def test_predict_with_an_unknown_model_or_an_unsaved_one_is_an_error(bench, tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("sentence\nx\n")
    assert (
        "no-model is not a folder, so it has no model"
        in bench("predict", "no-model", "rows.csv").err
    )
    assert bench("predict", "model", "none.csv").err.startswith("bench: none.csv is not a file")
    ran = bh.run(
        "tiny", task="glue/sst2", data="mini", limit=8, seeds=1, baselines=False, db="x.sqlite",
        set={"epochs": 1}, device="cpu", jobs=1,
    )  # fmt: skip
    ended = bench("predict", ran.keys[0][:12], "rows.csv", "--db", "x.sqlite")
    assert (ended.code, ran.keys[0][:12] in ended.err) == (2, True)
    assert "was not kept: `bench model " in ended.err
    again = bh.run(
        "tiny", task="glue/sst2", data="mini", limit=8, seeds=1, baselines=False, db="x.sqlite",
        set={"epochs": 1}, device="cpu", jobs=1, keep_models=True,
    )  # fmt: skip
    ended = bench("predict", again.keys[0][:12], "rows.csv", "--db", "x.sqlite")
    assert (ended.code, len(ended.out.splitlines())) == (0, 1)


LOADED = """
import sys
from benchharness.cli.app import main
sys.argv = ["bench", "predict", *sys.argv[1:]]
try:
    main()
finally:
    print(*(name for name in sys.modules if "." not in name), file=sys.stderr)
"""


@pytest.mark.soak
def test_predict_from_a_model_folder_imports_no_training_libraries(kept, tmp_path) -> None:
    folder, _ = kept("glue/sst2")
    (tmp_path / "rows.csv").write_text("sentence\nx\n")
    words = (sys.executable, "-P", "-c", LOADED, str(folder), "rows.csv")
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(ended.stdout.splitlines()) == 1
    loaded = set(ended.stderr.split())
    assert {"torch", "transformers"} <= loaded
    assert not loaded & {"datasets", "sqlalchemy", "scipy", "pandas", "pyarrow", "sklearn"}
