"""Every task kind that is inferred from custom data runs with a model and baselines."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import benchharness as bh
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import TagPrediction
from benchharness.tasks.suites import TASKS
from tests.helpers.own_files import GOOD, ROWS, as_csv, exam, second, sentence, table, text_file
from tests.helpers.public_layouts import PUBLIC
from tests.helpers.soak import in_part

SETTINGS = {"seeds": 1, "set": {"epochs": 1}, "device": "cpu", "jobs": 1, "limit": 30}


class Kind(NamedTuple):
    write: Callable[[Path], Path]
    metric: str
    said: str
    columns: str = ""


FLAGS = table("flags.csv", "text a b", ([sentence(n), n % 2, 1 - n % 2] for n in range(ROWS)))
OPTIONS = text_file(
    "rows.csv",
    as_csv(
        [
            ["question", "candidate", "label"],
            *(
                [exam(n)[0], option, int(place == n % 4)]
                for n in range(ROWS)
                for place, option in enumerate(exam(n)[1])
            ),
        ]
    ),
)
WIDE = table(
    "wide.csv",
    "question A B C D answer",
    ([exam(n)[0], *exam(n)[1], "ABCD"[n % 4]] for n in range(ROWS)),
)
PRICES = table("prices.csv", "text price", ([sentence(n), 900.5 + 37 * n] for n in range(ROWS)))
JOINED = table(
    "tickets.csv",
    "subject body queue",
    ([sentence(n), second(n), "ab"[n % 2]] for n in range(ROWS)),
)

KINDS = {
    "a class": Kind(GOOD["comma"].write, "f1", "text classification"),
    "a class of two texts": Kind(GOOD["premise and hypothesis"].write, "f1", "pair classification"),
    "a class that is a flag": Kind(FLAGS, "f1", "text -> a+b", "text=text,label=a+b"),
    "a class of dev alone": Kind(PUBLIC["a class that only dev has"].write, "f1", "3 classes"),
    "an accepted label": Kind(
        PUBLIC["Prodigy, one label accepted or rejected"].write, "f1", "not SPAM"
    ),
    "texts that are joined": Kind(JOINED, "f1", "subject+body", "text=subject+body,label=queue"),
    "several labels": Kind(GOOD["lists of labels"].write, "micro_f1", "multi-label"),
    "flags": Kind(FLAGS, "micro_f1", "multi-label", "text=text,labels=a+b"),
    "a number": Kind(PRICES, "pearson", "text regression"),
    "a number of two texts": Kind(GOOD["a number for two"].write, "pearson", "pair regression"),
    "tags of entities": Kind(GOOD["conll"].write, "f1", "tags of words"),
    "marked spans": Kind(PUBLIC["UBIAI"].write, "f1", "tags of words: words -> tags"),
    "tags without a prefix": Kind(PUBLIC["tags without their letter"].write, "f1", "tags of words"),
    "parts of speech": Kind(PUBLIC["CoNLL-X"].write, "accuracy", "accuracy"),
    "answers": Kind(GOOD["squad"].write, "f1", "answers in a context"),
    "questions without an answer": Kind(PUBLIC["SQuAD 2 without titles"].write, "f1", "answers"),
    "a list of options": Kind(GOOD["a list of options"].write, "accuracy", "several options"),
    "a column an option": Kind(WIDE, "accuracy", "several options"),
    "a row an option": Kind(
        OPTIONS, "accuracy", "several options", "question=question,option=candidate,label=label"
    ),
}  # fmt: skip


IN_CI = (
    *("a class", "a class of two texts", "several labels", "a number", "tags of entities"),
    *("answers", "a list of options"),
)
"""One kind per type of head; the others are soak tests."""


@pytest.mark.parametrize("name", in_part(KINDS, IN_CI))
def test_each_kind_of_detected_task_is_trained_and_scored_next_to_baselines(name, tmp_path):
    kind = KINDS[name]
    place = kind.write(tmp_path)
    options = {"columns": kind.columns, "db": tmp_path / "own.sqlite", **SETTINGS}
    ran = bh.run("tiny", data_file=place, **options)
    assert kind.said in ran.said[0]
    assert not ran.failures
    frame = ran.frame().set_index("model")
    assert {"tiny", "majority"} <= set(frame.index)
    assert frame[kind.metric].notna().all()
    assert len(bh.predictions(ran.keys[0], db=ran.db)) > 5


def test_varied_part_of_speech_predictions_are_not_flagged_as_constant():
    tags = answer_type(next(task for task in TASKS.values() if task.kind == "tag"))
    found = [TagPrediction(id="1", tags=("N", "V")), TagPrediction(id="2", tags=("V", "N", "N"))]
    none = [TagPrediction(id=str(n), tags=("O",) * n) for n in (1, 2, 3)]
    assert len(set(map(tags.collapsed, found))) == 2
    assert len(set(map(tags.collapsed, none))) == 1


@pytest.mark.parametrize(
    ("write", "columns"),
    [
        (
            table(
                "x.csv",
                "Kommentar Urteil",
                [*zip(map(sentence, range(ROWS)), "ab" * 30, strict=True)],
            ),
            "",
        ),
        (JOINED, "text=subject+body,label=queue"),
        (PUBLIC["UBIAI"].write, ""),
        (PUBLIC["words and tags in a CSV"].write, ""),
    ],
    ids=["another name", "joined texts", "marked spans", "lists of words"],
)
def test_predict_accepts_plain_texts_whatever_the_name_of_the_text_column(
    write, columns, tmp_path, bench, monkeypatch
):
    options = {"columns": columns, "db": tmp_path / "own.sqlite", **SETTINGS}
    ran = bh.run("tiny", data_file=write(tmp_path), keep_models=True, baselines=False, **options)
    (key,) = ran.keys
    found = bh.predict(key, ["Anna Meyer likes it", "flat"], db=ran.db)
    assert found["id"].tolist() == ["0", "1"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Anna Meyer likes it\nflat\n")))
    ended = bench("predict", key, "-", "--db", str(ran.db))
    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    if "tags" in found:
        assert [len(tags) for tags in found["tags"]] == [4, 1]
