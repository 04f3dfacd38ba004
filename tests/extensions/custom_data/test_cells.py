"""Cells, labels and tags in the usual spellings are parsed, or errors name their line."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.extensions.custom_data.cells import read_cells
from benchharness.extensions.custom_data.columns import Column, Table
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.tags import spelling_of, to_iob
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.sources.formats import fields_of, sentences_of
from tests.helpers.own_files import TWO, as_csv, as_jsonl, labelled, sentence, tagged


def table(folder: Path, rows: list[list[object]], name: str = "rows.csv") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(as_csv(rows))
    return str(folder / name)


def examples(found, split="train"):
    return read(found.task, split, parse_data(found.data)).examples


# Cells.


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["['a']", "['a', 'b']"], [["a"], ["a", "b"]]),
        (['["a"]', '["a", "é"]'], [["a"], ["a", "é"]]),
        (["['a' 'b']", "['c']"], [["a", "b"], ["c"]]),
        (["['a' 'b'\n 'c']", "[]"], [["a", "b", "c"], []]),
        (["[1 2]", "[3]"], [[1, 2], [3]]),
        (["[0.5 -2.]", "[1e-3 4]"], [[0.5, -2.0], [0.001, 4]]),
        (["('a', 'b')", "('c',)"], [["a", "b"], ["c"]]),
        (["{'b', 'a'}", "{'c'}"], [["a", "b"], ["c"]]),
        (["array(['a', 'b'], dtype=object)", "array(['c'], dtype='<U1')"], [["a", "b"], ["c"]]),
        (["[array(['(a)'], dtype=object)]", "[array([], dtype=int64)]"], [[["(a)"]], [[]]]),
        (["[a, b c]", "[d]"], [["a", "b c"], ["d"]]),
        (['["it\'s"]', "[\"it's\", 'so']"], [["it's"], ["it's", "so"]]),
        (["['a']", "", "nan"], [["a"], "", None]),
        (["'pos'", "'neg'"], ["pos", "neg"]),
        # The following cells are texts and not lists.
        (["[POS]", "[NEG]"], ["[POS]", "[NEG]"]),
        (["[deleted] it", "['a']"], ["[deleted] it", "['a']"]),
        (["['a'", "['b']"], ["['a'", "['b']"]),
        (["(a)", "(b)"], ["(a)", "(b)"]),
        (["['a' 'b' ... 'z']", "['a']"], ["['a' 'b' ... 'z']", "['a']"]),
        (["[" * 3000 + "]" * 3000, "['a']"], ["[" * 3000 + "]" * 3000, "['a']"]),
        ([r"['\d']", "['a']"], [["\\d"], ["a"]]),
        (['"so" and "so"', '"a"'], ['"so" and "so"', '"a"']),
    ],
)  # fmt: skip
def test_text_column_is_parsed_only_if_every_cell_is_a_literal(cells, values):
    found = read_cells(Table(name="x", columns={"c": cells}, ids=[*map(str, range(len(cells)))]))
    assert found.columns == {"c": values}


def test_fields_of_objects_in_cells_become_columns():
    cells = ["{'a': 1, 'b': {'c': 'x'}}", '{"a": 2, "b": {"c": "y"}}']
    found = read_cells(Table(name="x", columns={"t": ["s", "t"], "o": cells}, ids=["1", "2"]))
    assert found.columns == {"t": ["s", "t"], "o.a": [1, 2], "o.b.c": ["x", "y"]}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("billing", "rows.csv line 9 has 'billing' in the column 'tags'"),
        ("['billing'", "rows.csv line 9 has \"['billing'\" in the column 'tags'"),
    ],
)
def test_cell_that_is_not_a_list_of_labels_is_an_error_that_names_the_line(odd, said, tmp_path):
    rows = [[sentence(n), odd if n == 7 else str(["bug", "account"][n % 2 :])] for n in range(60)]
    path = table(tmp_path, [["text", "tags"], *rows])
    for columns in ("", "text=text,labels=tags", "text=text,label=tags"):
        with pytest.raises(DataError) as caught:
            find_own(path, columns=columns)
        assert said in str(caught.value) or "only a part of a label" in str(caught.value)


# Numbers and options.


def test_numeric_column_ignores_missing_values_and_reports_other_texts():
    prices = [n + 0.5 for n in range(60)]
    assert Column("price", [*prices, "NA", "n/a", "nan"]).numbers == prices
    assert Column("price", [*prices, "unknown", "unknown"]).odd_number == (60, "unknown")
    # Four different words are too many to be mistakes.
    assert Column("price", [*prices, "a", "b", "c", "d"]).odd_number is None
    # With few numbers, "NA" may be a class.
    assert Column("grade", [0, 1] * 30 + ["NA"]).numbers is None
    assert Column("share", ["1%", "20%", "3.5%"]).numbers == [1, 20, 3.5]
    assert Column("share", ["1%", "0.2"]).numbers is None
    assert Column("id", [10**400, 1, 2]).numbers is None


# Labels.


def test_labels_in_different_unicode_forms_are_merged(tmp_path):
    forms = ["gem\u00fcse", "gemu\u0308se", "obst"]
    rows = [[sentence(n), forms[n % 3]] for n in range(60)]
    for columns in ("text=text,label=label", "text=text,labels=label"):
        found = find_own(table(tmp_path, [["text", "label"], *rows]), columns=columns)
        assert found.own.labels == ("gem\u00fcse", "obst")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            ["Bug", "bug", "other"],
            "2 labels differ only in case, but are treated as different labels: Bug, bug",
        ),
        (
            ["TRUE", "True", "true", "FALSE", "false"],
            "5 labels differ only in case, but are treated as different labels: ",
        ),
        (
            ["pos", "pos\u200b", "neg"],
            "2 labels differ only in case, spaces or look-alike letters",
        ),
        (
            ["very good", "very\u00a0good", "bad"],
            "2 labels differ only in case, spaces or look-alike letters",
        ),
        (["pos", "\uff50os", "neg"], "2 labels differ only in case, spaces or look-alike letters"),
        (["pos", "neg"], None),
    ],
)
def test_similar_label_spellings_are_reported(labels, said, tmp_path):
    rows = [[sentence(n), labels[n % len(labels)]] for n in range(60)]
    found = find_own(table(tmp_path, [["text", "label"], *rows])).sentences
    assert [s for s in found if "labels differ" in s][:1] == [
        s for s in found if said and s.startswith(said)
    ]


def test_custom_task_stored_by_an_older_version_keeps_its_name():
    """The definition lacks verdicts and unseen labels."""
    stored = {
        "title": "reviews",
        "kind": "class",
        "columns": {"text": ["text"], "label": ["label"]},
        "metrics": ["f1"],
        "labels": ["neg", "pos"],
        "held_out": 0.2,
    }
    task = define(stored)
    assert task.name == "reviews-f3beea/reviews"
    assert OwnData.from_json(stored).to_json() == stored


def test_macro_f1_skips_unseen_classes_that_a_split_does_not_contain(tmp_path):
    for name, rows in (
        ("train", TWO[:40]),
        ("dev", TWO[40:60]),
        ("test", [*TWO[:19], (sentence(7), "odd")]),
    ):
        table(tmp_path / "data", [["text", "label"], *rows], f"{name}.csv")
    found = find_own(str(tmp_path / "data"))
    assert (found.own.labels, found.own.unseen) == (("neg", "odd", "pos"), ("odd",))
    f1 = found.task.metrics[0]
    from benchharness.tasks.examples import PairPrediction

    def score(split, wrong=()):
        rows = examples(found, split)
        guesses = [
            PairPrediction(id=e.id, label="neg" if e.label in wrong else e.label) for e in rows
        ]
        return f1.compute(guesses, rows)

    assert score("dev") == 1.0
    assert score("test") == 1.0
    assert 0.6 < score("test", wrong=["odd"]) < 0.67


def test_test_file_may_have_rows_without_a_label(tmp_path):
    for hidden in ("-1", "", "?"):
        folder = tmp_path / f"as {hidden}".replace("?", "mark")
        table(folder, [["text", "label"], *TWO[:40]], "train.csv")
        rows = [[t, hidden if n < 5 else x] for n, (t, x) in enumerate(TWO[40:])]
        table(folder, [["text", "label"], *rows], "test.csv")
        found = find_own(str(folder))
        assert found.own.labels == ("neg", "pos")
        assert [e.label for e in examples(found, "test")][:6] == [None] * 5 + ["pos"]
        assert any(s.startswith("5 rows of test have no label") for s in found.sentences)
    # If -1 is a label in train, it is a label in test too.
    table(tmp_path, [["text", "label"], *labelled([-1, 0, 1])], "train.csv")
    table(tmp_path, [["text", "label"], *labelled([-1, 0, 1], 9)], "test.csv")
    found = find_own(str(tmp_path), columns="text=text,label=label")
    assert not any(e.is_hidden for e in examples(found, "test"))


def test_dev_split_without_any_training_label_is_an_error(tmp_path):
    table(tmp_path, [["text", "label"], *TWO], "train.csv")
    table(tmp_path, [["text", "label"], *([sentence(n), -1] for n in range(9))], "dev.csv")
    with pytest.raises(DataError, match=r"dev\.csv has no label that .* train: its labels are -1"):
        find_own(str(tmp_path))


def test_dev_share_that_deviates_because_groups_stay_whole_is_reported(tmp_path):
    rows = [[sentence(n), "ab"[n % 2], "one" if n < 78 else f"user{n}"] for n in range(80)]
    path = table(tmp_path, [["text", "label", "user"], *rows])
    said = " ".join(find_own(path, columns="text=text,label=label,group=user").sentences)
    assert "rows: 78 train, 2 dev; dev is 2% of rows.csv (instead of 20%: " in said


def test_texts_with_contradicting_labels_are_counted(tmp_path):
    rows = [[sentence(n // 3), "abc"[n % 3]] for n in range(90)]
    found = find_own(table(tmp_path, [["text", "label"], *rows]))
    said = [s for s in found.sentences if "several labels" in s]
    assert said == ["30 texts have several labels, such as a in line 2 and b in line 3"]


# Verdicts.


def test_rows_with_a_rejecting_verdict_are_skipped_and_counted(tmp_path):
    rows = [[sentence(n), "ab"[n % 2], "rejected" if n % 5 == 0 else "ok"] for n in range(60)]
    path = table(tmp_path, [["text", "label", "state"], *rows])
    found = find_own(path, columns="text=text,label=label,verdict=state")
    assert "left out of rows.csv: 12 rejected (column state)" in found.sentences
    ids = {int(e.id) - 2 for split in ("train", "dev") for e in examples(found, split)}
    assert ids == {n for n in range(60) if n % 5}
    assert OwnData.from_json(json.loads(json.dumps(found.task.definition))) == found.own


def test_verdict_column_of_an_annotation_tool_is_detected(tmp_path):
    verdicts = ["accept", "reject", "accept", "ignore"]
    rows = [
        {"text": sentence(n), "label": "abc"[n % 3], "answer": verdicts[n % 4]} for n in range(80)
    ]
    (tmp_path / "r.jsonl").write_text(as_jsonl(rows))
    found = find_own(str(tmp_path / "r.jsonl"), columns="text=text,label=label")
    assert "left out of r.jsonl: 20 rejected, 20 ignored (column answer)" in found.sentences
    # A column that has another role is not a column of verdicts.
    found = find_own(str(tmp_path / "r.jsonl"), columns="text=text,label=answer")
    assert found.own.labels == ("accept", "ignore", "reject")


def test_disagreeing_annotations_of_a_row_are_an_error_that_names_the_line(tmp_path):
    rows = [
        {
            "text": sentence(n),
            "label.responses": ["a", "b" if n == 7 else "a"],
            "label.responses.users": ["u1", "u2"],
            "label.responses.status": ["submitted", "submitted"],
        }
        for n in range(60)
    ]
    (tmp_path / "r.jsonl").write_text(
        as_jsonl([*rows, *({**r, "label.responses": ["b", "b"]} for r in rows)])
    )
    with pytest.raises(DataError, match="line 8 has 2 answers that differ"):
        find_own(str(tmp_path / "r.jsonl"))


# Tags.


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("B-PER I-PER O", "B-PER I-PER O"),
        ("B-PER E-PER S-LOC O", "B-PER I-PER B-LOC O"),
        ("B-PER M-PER E-PER S-LOC O", "B-PER I-PER I-PER B-LOC O"),
        ("B_PER I_PER O", "B-PER I-PER O"),
        ("B:PER I:PER O", "B-PER I-PER O"),
        ("b-per i-per o", "B-per I-per O"),
        ("PER-B PER-I O", "B-PER I-PER O"),
        ("PER/B PER/I 0", "B-PER I-PER O"),
        ("B I O", "B-SPAN I-SPAN O"),
        ("B M E S", "B-SPAN I-SPAN I-SPAN B-SPAN"),
        ("PER PER O O O", "I-PER I-PER O O O"),
        ("person-actor O O O", "I-person-actor O O O"),
        ("B-PER _ _", "B-PER O O"),
        # The following tags do not mark spans.
        ("NOUN VERB X", None),
        ("N-SG V-FIN A-POS", None),
        ("O N V O N V V", None),
        ("0 1 2 0 0 0", None),
        ("B VB NN DT", None),
    ],
)
def test_span_tags_are_recognised_in_all_usual_tagging_schemes(tags, wanted):
    written = tags.split()
    spelling = spelling_of(Counter(written))
    assert not spelling.odd
    if wanted is None:
        assert not spelling.kinds
    else:
        assert [to_iob(tag, spelling.kinds) for tag in written] == wanted.split()


def test_tag_that_is_not_iob_is_an_error_unless_the_metric_is_accuracy(tmp_path):
    lines = [
        "".join(
            f"{w} {'BPER' if t == 'B-PER' and n in (7, 9) else t}\n"
            for w, t in zip(*tagged(n), strict=True)
        )
        for n in range(60)
    ]
    (tmp_path / "x.conll").write_text("\n".join(lines))
    with pytest.raises(
        DataError, match=r"x\.conll line 51 has the tag 'BPER'.*\(spans of LOC, PER"
    ):
        find_own(str(tmp_path / "x.conll"))
    found = find_own(str(tmp_path / "x.conll"), metrics=["accuracy"])
    assert "BPER" in found.own.labels
    assert [metric.name for metric in found.task.metrics] == ["accuracy"]


@pytest.mark.parametrize(
    "spell",
    [lambda t: t, lambda t: t.replace("-", "_"), lambda t: "-".join(reversed(t.split("-")))],
)
def test_span_type_missing_from_train_is_reported_as_unseen(spell, tmp_path):
    def file(first, last, kind):
        rows = (tagged(n) for n in range(first, last))
        return "\n".join(
            "".join(f"{w} {spell(t.replace('LOC', kind))}\n" for w, t in zip(*row, strict=True))
            for row in rows
        )

    (tmp_path / "train.conll").write_text(file(0, 40, "LOC"))
    (tmp_path / "dev.conll").write_text(file(40, 50, "LOC") + "\n" + file(51, 52, "DATE"))
    found = find_own(str(tmp_path))
    assert found.own.unseen == ("B-DATE",)
    assert (
        "1 row of dev has a label that train lacks ('B-DATE'): its prediction counts as wrong"
        in found.sentences
    )


def test_number_of_spans_that_begin_with_an_i_tag_is_reported(tmp_path):
    lines = [
        "".join(
            f"{w} {'I-PER' if t == 'B-PER' and n == 7 else t}\n"
            for w, t in zip(*tagged(n), strict=True)
        )
        for n in range(60)
    ]
    (tmp_path / "x.conll").write_text("\n".join(lines))
    said = find_own(str(tmp_path / "x.conll")).sentences
    assert "1 of 90 spans begin with I-: they are read as beginning with B-" in said


def test_column_of_tag_lists_is_not_detected_as_a_label(tmp_path):
    rows = [{"text": sentence(n), "tags": tagged(n)[1][: 3 + n % 3]} for n in range(60)]
    (tmp_path / "x.jsonl").write_text(as_jsonl(rows))
    with pytest.raises(DataError, match=r"no column of x\.jsonl can be a label"):
        find_own(str(tmp_path / "x.jsonl"))


def test_tag_of_most_words_is_reported_as_making_accuracy_uninformative(tmp_path):
    rows = [{"tokens": sentence(n).split()[:6], "tags": [0, 0, 1, 2, 0, 0]} for n in range(60)]
    (tmp_path / "x.jsonl").write_text(as_jsonl(rows))
    said = find_own(str(tmp_path / "x.jsonl")).sentences
    assert "67% of the words have the tag '0', so accuracy is not informative" in said


# Words.


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("Anna B-PER", ["Anna", "B-PER"]),
        ("Anna   NNP  B-PER \r", ["Anna", "NNP", "B-PER"]),
        ("1\u00a0000 O", ["1\u00a0000", "O"]),
        ("a\u2028b\u3000c O", ["a\u2028b\u3000c", "O"]),
        ("New York\tB-LOC", ["New York", "B-LOC"]),
        ("\u00a0\tO", ["\u00a0", "O"]),
        ("Anna\t", ["Anna", ""]),
        ("\t\t", []),
        ("  ", []),
        ("# O", ["#", "O"]),
    ],
)
def test_conll_columns_are_split_at_tabs_or_at_ascii_spaces(line, fields):
    assert fields_of(line) == fields
    assert [word.columns for found in sentences_of([line]) for word in found] == [fields][
        : len(fields)
    ]


@pytest.mark.parametrize("separator", ["\t", " "])
def test_tagged_hash_sign_is_read_as_a_word_and_not_as_a_comment(separator, tmp_path):
    def lines(n):
        pairs = [("#", "O"), *zip(*tagged(n), strict=True), ("#tag", "O"), ("#", "B-PER")]
        return "".join(f"{w}{separator}{t}\n" for w, t in pairs)

    lone = "".join(
        f"#{separator}NUM\n{sentence(n)[:9].split()[0]}{n}{separator}PROPN\n\n" for n in range(60)
    )
    (tmp_path / "pos.conll").write_text(lone)
    assert find_own(str(tmp_path / "pos.conll"), columns="words=1,tags=2").own.labels == (
        "NUM",
        "PROPN",
    )

    comments = "# id 7 domain=en\n# text = # O\n"
    (tmp_path / "x.conll").write_text("\n".join(comments + lines(n) for n in range(60)))
    found = find_own(str(tmp_path / "x.conll"))
    assert "rows: 48 train, 12 dev; dev is 20% of x.conll, drawn at random" in found.sentences
    assert "lines of x.conll that begin with # are read as comments: 120" in found.sentences
    for example in examples(found):
        assert example.words[0] == "#"
        assert example.words[-2:] == ("#tag", "#")
        assert example.tags[-1] == "B-PER"
