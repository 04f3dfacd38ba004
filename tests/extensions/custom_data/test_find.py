"""Detection of the task, splits and leaks in custom data, and errors."""

import json
import random
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pandas as pd
import pytest

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data import parts
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.leaks import find_leaks
from benchharness.extensions.custom_data.parts import read_parts
from benchharness.extensions.custom_data.tables import hub_table, read_table
from benchharness.tasks.examples import PairExample, SpanExample, TagExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, find_suites, find_task
from benchharness.tasks.task import PairTask
from tests.helpers.own_files import (
    GENRES,
    GOOD,
    TWO,
    as_csv,
    as_jsonl,
    exam,
    labelled,
    passage,
    plant,
    sentence,
    tagged,
)


def table(folder: Path, rows: list[list[object]], name: str = "rows.csv") -> str:
    (folder / name).write_text(as_csv(rows))
    return str(folder / name)


def test_detected_task_split_and_columns_are_reported(tmp_path):
    found = find_own(str(GOOD["premise and hypothesis"].write(tmp_path)))
    assert found.sentences == (
        (
            "pair classification: premise, hypothesis -> label (3 classes: contradiction, "
            "entailment, neutral); macro F1"
        ),
        "rows: 48 train, 12 dev; dev is 20% of nli.csv, stratified by label",
        (
            "the columns are guessed (--columns changes them): "
            "text=premise,text2=hypothesis,label=label"
        ),
    )
    found = find_own(str(GOOD["semicolons and cp1252"].write(tmp_path)))
    assert any(s.startswith("urteile.csv is read as cp1252") for s in found.sentences)
    assert "größer" in read(found.task, "dev", parse_data(found.data)).examples[0].text_a
    asked = find_own(str(GOOD["premise and hypothesis"].write(tmp_path)), encoding="utf-8")
    assert not any("is read as" in sentence for sentence in asked.sentences)


def test_custom_task_name_depends_on_file_name_and_definition(tmp_path):
    path = GOOD["comma"].write(tmp_path)
    first = find_own(str(path))
    (tmp_path / "moved").mkdir()
    moved = find_own(str(shutil.move(path, tmp_path / "moved")))
    assert moved.task.name == first.task.name
    assert find_own(moved.data, metrics=["accuracy"]).task.name != first.task.name
    assert find_task(first.task.name) is first.task
    assert SUITES[first.task.suite].title == "reviews"
    with pytest.raises(BenchError, match="several suites are called 'reviews': use reviews-"):
        find_suites("reviews")
    (tmp_path / "glue.csv").write_text(as_csv([["text", "label"], *TWO]))
    assert find_own(str(tmp_path / "glue.csv")).task.name.endswith("/glue-data")


# Splits that benchharness makes.


def test_held_out_split_is_stratified_by_label(tmp_path):
    rows = [[sentence(n), "rare" if n % 10 == 0 else "often"] for n in range(400)]
    found = find_own(table(tmp_path, [["text", "label"], *rows]))
    dev = read(found.task, "dev", parse_data(found.data)).examples
    assert Counter(example.label for example in dev) == {"often": 72, "rare": 8}


def test_note_on_the_held_out_split_of_a_number_does_not_speak_of_labels(tmp_path):
    """Regression test: every kind of task was said to be stratified by label."""
    rows = [[sentence(n), n % 5 + 0.5] for n in range(100)]
    path = table(tmp_path, [["text", "priority"], *rows])
    found = find_own(path, columns="text=text,number=priority")
    (said,) = [each for each in found.sentences if each.startswith("rows: ")]
    assert said == "rows: 80 train, 20 dev; dev is 20% of rows.csv, stratified by rounded number"


def test_label_with_a_single_row_stays_in_train(tmp_path):
    rows = [*labelled(["a", "b"], 40), (sentence(99), "once")]
    found = find_own(table(tmp_path, [["text", "label"], *rows]))
    train, dev = (read(found.task, s, parse_data(found.data)).examples for s in ("train", "dev"))
    assert "once" in {example.label for example in train}
    assert "once" not in {example.label for example in dev}


def test_groups_and_equal_texts_are_not_split_between_train_and_dev(tmp_path):
    rows = [[sentence(n // 2) + "!" * (n % 2), "ab"[n % 3 == 0], f"g{n // 12}"] for n in range(240)]
    found = find_own(table(tmp_path, [["text", "label", "user_id"], *rows]))
    assert "stratified by label (whole groups of user_id)" in found.sentences[1]
    group = {str(line): row[2] for line, row in enumerate(rows, start=2)}
    train, dev = (read(found.task, s, parse_data(found.data)).examples for s in ("train", "dev"))
    assert {group[e.id] for e in train}.isdisjoint(group[e.id] for e in dev)
    assert 24 <= len(dev) <= 48
    assert found.leaks == {"dev": (0, 0)}


def test_rows_that_share_a_passage_are_not_split_between_train_and_dev(tmp_path):
    rows = []
    for number in range(40):
        context, _, answer = passage(number // 4)
        rows.append({"context": context, "question": f"what {number}", "answer": answer})
    (tmp_path / "qa.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "qa.jsonl"))
    train, dev = (read(found.task, s, parse_data(found.data)).examples for s in ("train", "dev"))
    assert {e.context for e in train}.isdisjoint(e.context for e in dev)


# Leaks.


def test_planted_train_dev_leaks_are_detected(tmp_path):
    """At least 95 % of 600 planted rows are detected, and none of 600 other rows."""
    texts = [sentence(n) for n in range(3000)]
    planted = plant(texts[:600], random.Random(1))
    dev = [*planted, *(sentence(n) for n in range(5000, 5600))]
    folder = tmp_path / "leaky"
    folder.mkdir()
    for name, rows in {"train": texts, "dev": dev}.items():
        table(
            folder,
            [["text", "label"], *([t, "ab"[n % 2]] for n, t in enumerate(rows))],
            f"{name}.csv",
        )
    found = find_own(str(folder))
    same, near = found.leaks["dev"]
    examples = {
        split: read(found.task, split, parse_data(found.data)).examples
        for split in ("train", "dev")
    }
    leaks = find_leaks(examples["train"], examples["dev"])
    rows = {int(leak.row) - 2 for leak in leaks}
    assert same + near == len(leaks)
    assert same >= 300
    assert len(rows & set(range(600))) >= 0.95 * 600
    assert not rows - set(range(600))
    assert all(leak.train == leak.row for leak in leaks)
    said = found.sentences[-1]
    assert said.startswith(f"LEAK: {len(leaks)} of 1200 rows of dev")
    assert "2 (like 2 of train)" in said


def test_short_texts_are_leaks_only_if_they_are_identical():
    def pair(name: str, text: str) -> PairExample:
        return PairExample(id=name, text_a=text, label="a")

    train = [pair("1", "A good film."), pair("2", "one two three four five six seven")]
    dev = [
        pair("3", "a good film"),
        pair("4", "a bad film"),
        pair("5", "one two three x five six seven"),
    ]
    assert [(leak.row, leak.train, leak.is_same) for leak in find_leaks(train, dev)] == [
        ("3", "1", True),
        ("5", "2", False),
    ]


def test_skipped_rows_are_not_counted_as_leaks(tmp_path):
    folder = tmp_path / "gaps"
    folder.mkdir()
    for name, first in {"train": 0, "dev": 100}.items():
        rows = [[sentence(first + n), "ab"[n % 2]] for n in range(40)]
        table(folder, [["text", "label"], ["", "a"], [sentence(99), ""], *rows], f"{name}.csv")
    found = find_own(str(folder))
    assert "rows: 40 train, 40 dev" in found.sentences
    assert "left out of dev, because a text or a usable label is missing: 2" in found.sentences
    assert found.leaks == {"dev": (0, 0)}


# Values.


def test_regression_targets_are_standardised(tmp_path):
    rows = [[sentence(n), 100_000 + 937.5 * n] for n in range(60)]
    found = find_own(table(tmp_path, [["text", "price"], *rows]))
    assert isinstance(found.task, PairTask)
    assert found.own.kind == "number"
    zero, one = found.task.scale
    labels = [e.label for e in read(found.task, "train", parse_data(found.data)).examples]
    learned = [(label - zero) / one for label in labels]
    assert -3 < min(learned) < 0 < max(learned) < 3
    assert f"for training, numbers are scaled: (number - {zero:g}) / {one:g}" in found.sentences


def test_labels_of_a_multi_label_row_are_sorted(tmp_path):
    rows = [{"text": sentence(n), "tags": GENRES[n % 3 :: -1]} for n in range(30)]
    (tmp_path / "sets.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "sets.jsonl"), columns="text=text,labels=tags")
    examples = read(found.task, "train", parse_data(found.data)).examples
    assert {e.label for e in examples} == {
        ("drama",),
        ("comedy", "drama"),
        ("comedy", "crime", "drama"),
    }


def test_iobes_tags_are_converted_to_iob2(tmp_path):
    lines = "".join(
        f"{w} {t}\n"
        for w, t in (("Anna", "B-PER"), ("Meyer", "E-PER"), ("in", "O"), ("Rome", "S-LOC"))
    )
    (tmp_path / "x.conll").write_text("\n".join(f"n{n} O\n{lines}" for n in range(30)))
    found = find_own(str(tmp_path / "x.conll"))
    assert found.own.labels == ("O", "B-LOC", "B-PER", "I-PER")
    example = read(found.task, "dev", parse_data(found.data)).examples[0]
    assert isinstance(example, TagExample)
    assert example.tags == ("O", "B-PER", "I-PER", "O", "B-LOC")


def test_missing_tags_in_a_test_split_are_read_as_hidden(tmp_path):
    for name, first in {"train": 0, "dev": 60, "test": 120}.items():
        rows = [
            [n, word, "" if name == "test" else tag]
            for n in range(first, first + 60)
            for word, tag in zip(*tagged(n), strict=True)
        ]
        table(tmp_path, [["sentence", "word", "tag"], *rows], f"{name}.csv")
    found = find_own(str(tmp_path))
    assert "" not in found.own.labels
    assert all(e.is_hidden for e in read(found.task, "test", parse_data(found.data)).examples)
    assert not any(e.is_hidden for e in read(found.task, "dev", parse_data(found.data)).examples)


def test_missing_multiple_choice_option_is_read_as_an_empty_text(tmp_path):
    rows = [
        {"question": q, "a": o[0], "b": o[1], "c": None if n % 2 else o[2], "answer": "ab"[n % 2]}
        for n in range(40)
        for q, o, _ in [exam(n)]
    ]
    (tmp_path / "exam.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "exam.jsonl"))
    examples = read(found.task, "train", parse_data(found.data)).examples
    assert {e.options[2] for e in examples} >= {""}
    assert "None" not in {option for e in examples for option in e.options}


def test_part_of_speech_tags_are_scored_by_accuracy(tmp_path):
    rows = [
        {"tokens": sentence(n).split(), "pos": ["NOUN", "VERB", "X"] * 3 + ["NOUN"] * 2}
        for n in range(30)
    ]
    (tmp_path / "pos.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "pos.jsonl"))
    assert [metric.name for metric in found.task.metrics] == ["accuracy"]


def test_questions_without_an_answer_are_detected_as_squad_2_style_data(tmp_path):
    rows = []
    for number in range(30):
        context, question, answer = passage(number)
        rows.append(
            {"context": context, "question": question, "answer": "" if number % 3 == 0 else answer}
        )
    (tmp_path / "qa.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "qa.jsonl"))
    assert found.own.no_answer
    examples = read(found.task, "train", parse_data(found.data)).examples
    empty = [e for e in examples if isinstance(e, SpanExample) and e.answers == ()]
    assert len(empty) > 5


def test_sharded_parquet_files_are_read_as_one_split(tmp_path):
    for part in range(2):
        rows = TWO[30 * part : 30 * part + 30]
        frame = pd.DataFrame({"text": [t for t, _ in rows], "label": [x for _, x in rows]})
        frame.to_parquet(tmp_path / f"train-0000{part}-of-00002.parquet")
    found = find_own(str(tmp_path))
    assert found.sentences[1].startswith("rows: 48 train, 12 dev")


def test_list_and_number_columns_are_not_detected_as_texts(tmp_path):
    """Their names are typical of a question and a context."""
    rows = [
        {"document": n, "context": c, "query": ["x", str(n)], "question": q, "answer": a}
        for n in range(40)
        for c, q, a in [passage(n)]
    ]
    (tmp_path / "qa.jsonl").write_text(as_jsonl(rows))
    assert find_own(str(tmp_path / "qa.jsonl")).own.columns == {
        "context": ("context",),
        "question": ("question",),
        "answer": ("answer",),
    }
    judged = [
        {"query": ["x", str(n // 2)], "passage": sentence(n), "label": n % 2} for n in range(80)
    ]
    (tmp_path / "judged.jsonl").write_text(as_jsonl(judged))
    with pytest.raises(DataError, match="fits 2 tasks"):
        find_own(str(tmp_path / "judged.jsonl"))
    with pytest.raises(DataError, match="line 1 has a value of type list"):
        find_own(
            str(tmp_path / "judged.jsonl"), columns="question=query,option=passage,label=label"
        )


def test_tags_of_minus_1_in_a_hub_data_set_are_read_as_hidden():
    rows = {"words": [["a", "b"], ["c"]], "tags": [[0, 0], [-1]]}
    named = SimpleNamespace(feature=SimpleNamespace(names=["O"]))
    flat = MagicMock(column_names=tuple(rows), features={"words": None, "tags": named})
    flat.flatten.return_value = flat
    flat.__getitem__.side_effect = rows.__getitem__
    flat.__len__.return_value = 2
    assert hub_table("there", flat).columns["tags"] == [["O", "O"], None]


def test_task_plugin_for_labels_with_special_characters_can_be_loaded(tmp_path, bench):
    """A label is MySQL's NULL, and the name of the file has a space."""
    table(tmp_path, [["text", "label"], *labelled([r"\N", '"""'], 40)], "my rows.csv")
    words = ("run", "--data-file", "my rows.csv", "--write-task")
    assert "--data 'my rows.csv'" in bench(*words, "--out", "mine.py").out
    (task,) = runpy.run_path("mine.py")["TASKS"]
    assert set(task.labels) == {r"\N", '"""'}


def test_csv_field_of_500000_characters_is_read(tmp_path):
    (text, label), *rest = labelled(["long", "short"], 40)
    rows = [["text", "label"], [text + " word" * 100_000, label], *rest]
    found = find_own(table(tmp_path, rows))
    read_rows = [read(found.task, split, parse_data(found.data)) for split in ("train", "dev")]
    assert max(len(e.text_a) for rows in read_rows for e in rows.examples) > 500_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "text=text,label=nothing"}, "'nothing': its columns are 'text', 'label'"),
        ({"columns": "text=text"}, "label missing: pass --columns label=label,text=text[.]"),
        ({"columns": "label=label"}, "text missing: pass --columns text=text,label=label[.]"),
        ({"columns": "number=label"}, "text missing: pass --columns text=text,number=label[.]"),
        (
            {"columns": "context=text,answer=label"},
            "--columns question=COLUMN,context=text,answer=label; replace COLUMN by the name of",
        ),
        ({"columns": "text"}, "is not a list of role=column"),
        (
            {"metrics": ["pearson"]},
            "'pearson' is not a metric for this kind of task: expected one of f1, accuracy, mcc",
        ),
        ({"metrics": ["accuracy", "accuracy"]}, "has accuracy twice"),
        ({"encoding": "utf-9"}, "--encoding is 'utf-9', which is not a text encoding"),
        ({"encoding": "base64"}, "--encoding is 'base64', which is not a text encoding"),
        ({"encoding": "utf-16"}, "cannot be read as utf-16"),
    ],
)
def test_invalid_custom_data_option_is_an_error(options, said, tmp_path):
    with pytest.raises(BenchError, match=said) as refused:
        find_own(str(GOOD["comma"].write(tmp_path)), **options)
    if "encoding" in options:  # an invalid option exits with 2, and an unsuitable file with 4
        assert refused.value.exit_code == (2 if "which is not" in said else 4)


def test_data_folder_needs_exactly_one_train_file(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        find_own(str(tmp_path / "nowhere"))
    for name in ("one.csv", "two.csv"):
        table(tmp_path, [["text", "label"], *TWO], name)
    with pytest.raises(DataError, match=r"no train file \(it has one.csv, two.csv\)"):
        find_own(str(tmp_path))
    for name in ("train.csv", "train.tsv"):
        table(tmp_path, [["text", "label"], *TWO], name)
    with pytest.raises(DataError, match=r"has train.csv and train.tsv, which are both train files"):
        find_own(str(tmp_path))


def test_near_duplicates_are_not_split_between_train_and_dev(tmp_path):
    texts = [sentence(n) for n in range(100)]
    near = plant(texts, random.Random(2))
    rows = [[t, "ab"[n % 2]] for n, t in enumerate([*texts, *near])]
    found = find_own(table(tmp_path, [["text", "label"], *rows]))
    assert found.leaks == {"dev": (0, 0)}
    dev = read(found.task, "dev", parse_data(found.data)).examples
    assert 30 <= len(dev) <= 40
    numbers = {(int(e.id) - 2) % 100 for e in dev}
    assert len(numbers) <= len(dev) / 2 + 3  # nearly all duplicates are together in dev


def test_data_set_of_only_near_duplicates_is_split_with_a_leak_warning(tmp_path):
    rows = [
        [f"please book a table for {n} people at the place now", "ab"[n % 2]] for n in range(80)
    ]
    found = find_own(table(tmp_path, [["text", "label"], *rows]))
    assert found.leaks["dev"][1] > 10
    assert "although dev was split off from train" in found.sentences[-1]


@pytest.mark.parametrize(
    ("columns", "rows", "said"),
    [
        ("text,label,split", [("x", "train"), ("x", "")], "''"),
        ("text,label,split", [("x", "train"), ("x", "valid"), ("x", "dev")], "at most one each"),
        ("text,label,split", [("x", "1"), ("x", "2")], "remove the column"),
    ],
)
def test_invalid_split_column_is_an_error(columns, rows, said, tmp_path):
    made = [[sentence(n), n % 2, rows[n % len(rows)][1]] for n in range(60)]
    with pytest.raises(DataError, match="in the column 'split'") as caught:
        find_own(table(tmp_path, [columns.split(","), *made]))
    assert said in str(caught.value)


def test_split_column_is_detected_even_if_other_columns_are_given(tmp_path):
    rows = [[sentence(n), n % 2, n % 3, ["train", "test"][n % 4 == 0]] for n in range(80)]
    path = table(tmp_path, [["text", "label", "other", "split"], *rows])
    found = find_own(path, columns="text=text,label=label")
    assert "rows: 48 train, 12 dev, 20 test (column 'split')" in found.sentences[1 + 1]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (lambda n: f"{n:,}", "1,153 is read as 1153, with a decimal point"),
        (lambda n: f"{n:,}".replace(",", "."), "1.153 is read as 1153, with a decimal comma"),
        (
            lambda n: f"{n / 1000:.3f}".replace(".", ","),
            "1,153 is read as 1.153, with a decimal comma",
        ),
        (
            lambda n: f"{n + 1000:,}".replace(",", "."),
            "1.020 is read as 1.02, with a decimal point",
        ),
        (
            lambda n: f"{n + 1e3:,.0f},5".replace(",", ".", 1),
            "1.020,5 is read as 1020.5, with a decimal comma",
        ),
        (
            lambda n: f"{n / 1e4:.3f}".replace(".", ","),
            "0,002 is read as 0.002, with a decimal comma",
        ),
        (lambda n: f"{n / 1000:g}", None),
        (lambda n: f"{n / 1e4:.3f}", None),
    ],
)  # fmt: skip
def test_decimal_and_thousands_separators_are_inferred_from_a_column(shown, said, tmp_path):
    """An ambiguous reading is reported."""
    numbers = [20, *range(1153, 9000, 111), *range(30, 900, 90)]
    if said and said.startswith("1,153"):
        numbers = numbers[1:]
    path = table(tmp_path, [["text", "price"], *([sentence(n), shown(n)] for n in numbers)])
    sentences = [s for s in find_own(path).sentences if ", with a decimal " in s]
    assert sentences == ([said] if said else [])


def test_partly_labelled_test_file_is_reported_as_not_scored(tmp_path):
    rows = [[sentence(n), n % 2] for n in range(80)]
    table(tmp_path, [["text", "label"], *rows], "train.csv")
    for hidden, said in ((0, 0), (3, 1), (20, 0)):
        test = [[text, "" if n < hidden else label] for n, (text, label) in enumerate(rows[:20])]
        table(tmp_path, [["text", "label"], *test], "test.csv")
        sentences = find_own(str(tmp_path)).sentences
        unscored = f"{hidden} rows of test have no label: test is predicted but not scored"
        assert sentences.count(unscored) == said


def test_label_studio_annotation_without_a_choice_is_an_empty_label_set(tmp_path):
    def task(number, *choices, seen=True):
        value = {"from_name": "topic", "type": "choices", "value": {"choices": list(choices)}}
        said = [{"result": [value] if choices else []}] if seen else []
        return {"data": {"text": sentence(number)}, "annotations": said}

    done = [task(n, *[["a"], ["b"], ["a", "b"], []][n % 4]) for n in range(40)]
    (tmp_path / "export.json").write_text(json.dumps([*done, task(40, seen=False)]))
    sentences = find_own(str(tmp_path / "export.json")).sentences
    assert (
        "rows: 32 train, 8 dev; dev is 20% of export.json, stratified by combination of labels"
        in sentences
    )
    assert "left out of train, because a text or a usable label is missing: 1" in sentences
    assert any("have no label, which means that no label applies" in each for each in sentences)


def test_choice_task_without_a_question_has_an_empty_question(tmp_path):
    rows = [[sentence(n), sentence(n + 100)] for n in range(40)]
    path = table(tmp_path, [["good", "bad"], *rows])
    found = find_own(path, columns="options=bad+good,answer=good")
    example = read(found.task, "dev", parse_data(found.data)).examples[0]
    assert (example.question, example.context, example.gold) == ("", "", (1,))
    assert list(reversed(example.options)) in rows


def test_archive_is_read_like_the_folder_that_it_contains(tmp_path):
    folder = tmp_path / "deep" / "films"
    for split, span in {"train": range(40), "test": range(40, 60)}.items():
        for number in span:
            place = folder / split / ("pos" if number % 2 else "neg")
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(sentence(number))
    packed = shutil.make_archive(str(tmp_path / "films"), "gztar", tmp_path / "deep")
    found = find_own(packed)
    assert found.own.title == "films"
    assert "rows: 32 train, 8 dev, 20 test" in found.sentences[1]
    examples = read(found.task, "test", parse_data(found.data)).examples
    assert {e.label for e in examples} == {"neg", "pos"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task: task["annotations"].append({"result": []}), "annotations that differ"),
        (lambda task: task["annotations"][0]["result"][0].pop("value"), "Label Studio"),
    ],
)
def test_label_studio_export_with_conflicting_or_damaged_annotations_is_an_error(
    change, said, tmp_path
):
    value = {"from_name": "mood", "type": "choices", "value": {"choices": ["a"]}}
    tasks = [{"data": {"text": "t"}, "annotations": [{"result": [value]}]} for _ in range(9)]
    copied = json.loads(json.dumps(tasks))
    change(copied[3])
    (tmp_path / "export.json").write_text(json.dumps(copied))
    with pytest.raises(DataError, match=said):
        find_own(str(tmp_path / "export.json"))


@pytest.mark.parametrize(
    ("spans", "said"),
    [([[0, 3, "A"], [2, 9, "B"]], "overlaps"), ([[50, 60, "A"]], "has no word there")],
)
def test_spans_that_overlap_or_contain_no_word_are_an_error(spans, said, tmp_path):
    rows = [{"text": "one two three", "label": [[0, 3, "A"]]}] * 9 + [
        {"text": "one two three", "label": spans}
    ]
    (tmp_path / "spans.jsonl").write_text(as_jsonl(rows))
    with pytest.raises(DataError, match=said):
        find_own(str(tmp_path / "spans.jsonl"))


def test_span_within_a_word_is_extended_to_the_word_and_reported(tmp_path):
    rows = [{"text": sentence(n), "label": [[1, 3, "A"]]} for n in range(40)]
    (tmp_path / "spans.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "spans.jsonl"))
    assert any("within a word" in each for each in found.sentences)
    example = read(found.task, "dev", parse_data(found.data)).examples[0]
    assert example.tags[:2] == ("B-A", "O")


@pytest.mark.parametrize(
    ("text", "answer", "words"),
    [
        ("le cafe\u0301, oui", "cafe\u0301", ["le", "cafe\u0301", ",", "oui"]),
        ("in Lo\u0301dz\u0301.", "Lo\u0301dz\u0301", ["in", "Lo\u0301dz\u0301", "."]),
        ("वह नई दिल्ली में।", "नई दिल्ली", ["वह", "नई", "दिल्ली", "में", "।"]),
        ("הוא אמר שָׁלוֹם!", "שָׁלוֹם", ["הוא", "אמר", "שָׁלוֹם", "!"]),
        ("او می‌خواهم گفت", "می‌خواهم", ["او", "می‌خواهم", "گفت"]),
    ],
)
def test_combining_characters_are_not_separate_words(text, answer, words, tmp_path):
    start = text.index(answer)
    row = {"text": text, "label": [[start, start + len(answer), "A"]]}
    rows = [{**row, "text": f"{text} {n}"} for n in range(40)]
    (tmp_path / "spans.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "spans.jsonl"))
    assert not any("within a word" in each for each in found.sentences)
    example = read(found.task, "dev", parse_data(found.data)).examples[0]
    assert list(example.words[:-1]) == words
    marked = [w for w, t in zip(example.words, example.tags, strict=True) if t != "O"]
    assert " ".join(marked) == answer


def test_no_header_option_is_an_error_for_files_that_are_not_tables(tmp_path):
    path = GOOD["lists of tags"].write(tmp_path)
    with pytest.raises(BenchError, match="--no-header applies to tables"):
        find_own(str(path), no_header=True)
    bare = table(tmp_path, [[sentence(n), n % 2] for n in range(40)], "bare.csv")
    with pytest.raises(DataError, match="--no-header"):
        find_own(bare, columns="text=1,label=2")


def test_comment_lines_above_the_header_are_skipped_in_partial_reads(tmp_path):
    head = "# printed by Kim, page 1\n\n"
    (tmp_path / "rows.csv").write_text(head + as_csv([["text", "n"], *([t, 1] for t, _ in TWO)]))
    (part,) = read_parts(str(tmp_path / "rows.csv"))
    assert [*part.columns] == ["text", "n"]
    assert part.ids == [str(number) for number in range(4, 4 + len(TWO))]
    assert part.ids == read_table([tmp_path / "rows.csv"]).ids


def test_column_count_of_each_row_is_checked_once_in_partial_reads(tmp_path, monkeypatch):
    """This holds for the first part too, whose first row may be a header."""
    measured = []
    check = parts.check_widths
    monkeypatch.setattr(parts, "PART_BYTES", 60)
    monkeypatch.setattr(
        parts, "check_widths", lambda *given: measured.extend(given[1]) or check(*given)
    )
    lines = [f"a text {n},{n}" for n in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,n", *lines, ""]))
    assert sum(len(part.ids) for part in read_parts(str(tmp_path / "rows.csv"))) == 20
    assert len(measured) == 21
    for at in (1, 19):
        odd = [*lines[:at], "a, text,1", *lines[at:]]
        (tmp_path / "odd.csv").write_text("\n".join(["text,n", *odd, ""]))
        with pytest.raises(DataError, match=f"line {at + 2} has 3 fields, but line 1 has 2"):
            list(read_parts(str(tmp_path / "odd.csv")))


def test_missing_openpyxl_and_damaged_archives_are_one_line_errors(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for name, said in {"a.xlsx": "xlsx", "a.csv.gz": "pack it again", "a.zip": "again"}.items():
        (tmp_path / name).write_bytes(b"PK\x03\x04 nothing" * 9)
        with pytest.raises(DataError, match=said) as caught:
            find_own(str(tmp_path / name))
        assert "\n" not in str(caught.value)


def test_tagging_row_without_a_list_of_words_is_an_error(tmp_path):
    rows = [dict(zip(("tokens", "ner_tags"), tagged(n), strict=True)) for n in range(40)]
    rows[7] = {"tokens": None, "ner_tags": None}
    (tmp_path / "tags.jsonl").write_text(as_jsonl(rows))
    with pytest.raises(DataError, match="line 8 has no list of words"):
        find_own(str(tmp_path / "tags.jsonl"))


def test_error_for_a_folder_of_a_benchmark_shows_the_command_that_runs_it(tmp_path: Path) -> None:
    objects = [{"_id": str(n), "title": "", "text": f"text {n}"} for n in range(3)]
    for name in ("corpus", "queries"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(o) + "\n" for o in objects))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n1\t2\t1\n")
    with pytest.raises(DataError, match=f"bench run --task retrieval/folder --data {tmp_path}"):
        find_own(str(tmp_path))


def test_error_for_a_folder_of_the_race_dataset_shows_the_command_that_runs_it(
    tmp_path: Path,
) -> None:
    article = {"article": "a b", "questions": ["c"], "options": [["d", "e"]], "answers": ["A"]}
    for name in ("train/middle", "train/high", "dev/middle", "dev/high"):
        folder = tmp_path / "RACE" / name
        folder.mkdir(parents=True)
        (folder / "1.txt").write_text(json.dumps(article))
    with pytest.raises(DataError, match=r"JSON in its \.txt files.*bench run --task race/all"):
        find_own(str(tmp_path / "RACE"))


@pytest.mark.parametrize("above", ["Report,,,\nof May,,,\n", ""], ids=["titles", "Qualtrics"])
def test_header_detection_is_the_same_for_whole_and_partial_reads(
    above: str, tmp_path: Path
) -> None:
    below = (
        ""
        if above
        else "Where?,Why?,When?,How?\n" + ",".join(['"{""ImportId"":""Q""}"'] * 4) + "\n"
    )
    rows = "".join(f"place {n},a reason {n},{n},by word {n % 2}\n" for n in range(20))
    (tmp_path / "rows.csv").write_text(f"{above}Q1,Q2,Q3,Q4\n{below}{rows}")
    (part,) = read_parts(str(tmp_path / "rows.csv"))
    whole = read_table([tmp_path / "rows.csv"])
    assert (part.columns, part.ids) == (whole.columns, whole.ids)
    assert len(part.ids) == 20


def test_cell_values_in_partial_reads_do_not_depend_on_other_rows(tmp_path: Path) -> None:
    rows = [{"premise": "yes", "hypothesis": "true"}, {"premise": "yes", "hypothesis": "a cat"}]
    for count in (1, 2):
        file = tmp_path / f"{count}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows[:count]))
        (part,) = read_parts(str(file))
        assert part.columns["premise"][0] == "yes"
        assert part.columns["hypothesis"][0] == "true"


def examples_in(path: str) -> list:
    """Return the labelled rows of train and of the held-out dev split."""
    task, data = (found := find_own(path)).task, parse_data(found.data)
    rows = [e for split in ("train", "dev") for e in read(task, split, data).examples]
    return [row for row in rows if not row.is_hidden]


def test_options_are_shuffled_if_the_right_answer_has_a_separate_column(tmp_path: Path) -> None:
    rows = [(exam(n)[0], exam(n)[1], exam(n)[1][n % 4]) for n in range(40)]
    wrong = [[o for o in options if o != right] for _, options, right in rows]
    lines = [[asked, *others, right] for (asked, _, right), others in zip(rows, wrong, strict=True)]
    names = ["question", "distractor1", "distractor2", "distractor3", "correct_answer"]
    found = examples_in(table(tmp_path, [names, *lines]))
    rights = {asked: right for asked, _, right in rows}
    assert all(e.options[e.gold[0]] == rights[e.question] for e in found)
    places = Counter(e.gold[0] for e in found)
    assert sum(places.values()) == 40
    assert max(places.values()) < 40


def test_answer_numbers_of_quiz_files_start_at_1(tmp_path: Path) -> None:
    said = [1 + n % 4 if n % 8 else "1,3" for n in range(40)]
    lines = [[exam(n)[0], *exam(n)[1], right] for n, right in enumerate(said)]
    names = ["Question", *(f"Answer {n} - max 75" for n in range(1, 5)), "Correct answer(s)"]
    found = examples_in(table(tmp_path, [names, *lines]))
    number = {exam(n)[0]: right for n, right in enumerate(said)}
    assert len(found) == 35
    assert all(e.gold == (number[e.question] - 1,) for e in found)


def test_cannotanswer_marks_a_question_as_unanswerable(tmp_path: Path) -> None:
    lines = []
    for n in range(40):
        context, asked, answer = passage(n)
        context, answer = f"{context} CANNOTANSWER", answer if n % 4 else "CANNOTANSWER"
        lines.append([asked, context, answer, context.index(answer)])
    found = examples_in(table(tmp_path, [["question", "review", "said", "at"], *lines]))
    assert sum(e.answers == () for e in found) == 10
    assert all(e.context[at:].startswith(text) for e in found for text, at in e.answers)
    assert {text for e in found for text, _ in e.answers} == {
        passage(n)[2] for n in range(40) if n % 4
    }


def test_sts_scores_are_matched_to_sentence_pairs_by_line(tmp_path: Path) -> None:
    pairs = "".join(f"{sentence(n)}\t{sentence(n + 500)}\n" for n in range(40))
    scores = {n: n % 26 / 5 for n in range(40) if n not in (0, 3, 4, 39)}
    (tmp_path / "STS.input.news.txt").write_text(pairs)
    (tmp_path / "STS.gs.news.txt").write_text("".join(f"{scores.get(n, '')}\n" for n in range(40)))
    found = examples_in(str(tmp_path))
    assert {e.text_a: e.label for e in found} == {sentence(n): s for n, s in scores.items()}
