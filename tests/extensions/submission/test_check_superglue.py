"""Every planted fault of a SuperGLUE submission is found, and repaired if it is unambiguous."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.submission.inspection import check, repair
from tests.helpers.small_submissions import (
    Files,
    clean,
    edited,
    lines,
    members,
    objects,
    shrink_all,
    zipped,
)

Damage = Callable[[Files], bytes]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_all(monkeypatch)


def each(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change every object of one file."""
    return edited(name, objects(lambda found: [change(dict(one)) for one in found]))


def labelled(name: str, labels: dict[object, object]) -> Damage:
    """Replace labels in one file."""
    return each(name, lambda one: {**one, "label": labels.get(one["label"], one["label"])})


def unfolded(paragraphs: list[dict[str, Any]]) -> list[object]:
    """Return MultiRC's answers one by one, as on the hub."""
    return [
        {
            "idx": {"paragraph": p["idx"], "question": q["idx"], "answer": a["idx"]},
            "label": a["label"],
        }
        for p in paragraphs
        for q in p["passage"]["questions"]
        for a in q["answers"]
    ]


def restarted(paragraphs: list[dict[str, Any]]) -> list[object]:
    """Number MultiRC's questions from 0 in every paragraph."""
    for paragraph in paragraphs:
        for number, question in enumerate(paragraph["passage"]["questions"]):
            question["idx"] = number
    return list(paragraphs)


def doubled(text: str) -> str:
    """Give the first object two labels."""
    return text.replace('"label": ', '"label": "neutral", "label": ', 1)


def as_array(text: str) -> str:
    return "[" + ",\n".join(text.splitlines()) + "]\n"


MENDABLE: dict[str, tuple[Damage, str]] = {
    "an array": (edited("RTE.jsonl", as_array), "it is a JSON array"),
    "JSON's booleans": (
        labelled("BoolQ.jsonl", {"true": True, "false": False}),
        "the label is False, expected 'false'",
    ),
    "WSC is capitalised": (
        labelled("WSC.jsonl", {"True": "true", "False": "false"}),
        "the label is 'false', expected 'False'",
    ),
    "BoolQ is not": (
        labelled("BoolQ.jsonl", {"true": "True", "false": "False"}),
        "the label is 'False', expected 'false'",
    ),
    "no and yes as numbers": (
        labelled("WiC.jsonl", {"true": 1, "false": 0}),
        "the label is 0, expected 'false'",
    ),
    "COPA as text": (labelled("COPA.jsonl", {0: "0", 1: "1"}), "the label is '0', expected 0"),
    "COPA by the hub's names": (
        labelled("COPA.jsonl", {0: "choice1", 1: "choice2"}),
        "the label is 'choice1', expected 0",
    ),
    "case": (
        labelled("CB.jsonl", {"neutral": "NEUTRAL"}),
        "line 3: the label is 'NEUTRAL', expected 'neutral'",
    ),
    "idx as text": (
        each("AX-b.jsonl", lambda one: {**one, "idx": str(one["idx"])}),
        "not written as a plain whole number",
    ),
    "label by another name": (
        each("RTE.jsonl", lambda one: {"idx": one["idx"], "prediction": one["label"]}),
        "the object has 'prediction'",
    ),
    "more than was asked for": (
        each("RTE.jsonl", lambda one: {**one, "logits": [0.1, 0.9]}),
        "the object has 'logits'",
    ),
    "order": (
        edited("AX-g.jsonl", lines(lambda found: found[::-1])),
        "line 2: index 4 comes after index 5",
    ),
    "MultiRC answer by answer": (
        edited("MultiRC.jsonl", objects(unfolded)),
        "the object is a single answer, expected a paragraph",
    ),
    "MultiRC as text": (
        edited("MultiRC.jsonl", lambda text: text.replace(": 1}", ': "True"}')),
        "the label is 'True', expected 1",
    ),
    "ReCoRD's index as on the hub": (
        each("ReCoRD.jsonl", lambda one: {**one, "idx": {"passage": 1, "query": one["idx"]}}),
        "the idx is an object, as on the hub, expected only the number of its query (and 5 more)",
    ),
    "byte order mark": (edited("RTE.jsonl", lambda text: "\ufeff" + text), "a byte order mark"),
    "extension": (
        lambda files: zipped((name.replace(".jsonl", ".json"), c) for name, c in files.items()),
        "BoolQ.json has the wrong name",
    ),
}

STUCK: dict[str, tuple[Damage, str]] = {
    "numbers for names": (
        labelled("RTE.jsonl", {"entailment": 0, "not_entailment": 1}),
        "a number is ambiguous",
    ),
    "COPA from 1": (labelled("COPA.jsonl", {0: 1, 1: 2}), "the label is 2, expected 0 or 1"),
    "no JSON": (
        edited("CB.jsonl", lines(lambda found: [*found[:-1], "{'idx': 5}"])),
        "line 6: the line is not JSON",
    ),
    "no object": (
        edited("CB.jsonl", lines(lambda found: [*found[:-1], '"entailment"'])),
        "line 6: the line is JSON, but not an object",
    ),
    "no label": (each("CB.jsonl", lambda one: {"idx": one["idx"]}), "the object has no label"),
    "a list of labels": (each("CB.jsonl", lambda one: {**one, "label": []}), "is a list"),
    "an endless idx": (
        edited("CB.jsonl", lambda text: text.replace('"idx": 5', '"idx": ' + "9" * 5000)),
        "line 6: the line is not JSON",
    ),
    "an object for an idx": (
        each("CB.jsonl", lambda one: {**one, "idx": {"row": one["idx"]}}),
        """the index is "{'row': 0}", expected a whole number (and 5 more)""",
    ),
    "a label twice": (edited("CB.jsonl", doubled), "line 1: an object has the key 'label' twice"),
    "a label twice in an array": (
        edited("CB.jsonl", lambda text: as_array(doubled(text))),
        "an object has the key 'label' twice",
    ),
    "a label of MultiRC twice": (
        edited(
            "MultiRC.jsonl", lambda text: text.replace('"label": 0', '"label": 1, "label": 0', 1)
        ),
        "line 1: an object has the key 'label' twice",
    ),
    "not UTF-8": (
        lambda files: zipped({**files, "CB.jsonl": files["CB.jsonl"].decode().encode("utf-16")}),
        "it is not UTF-8 text but UTF-16",
    ),
    "no idx": (each("CB.jsonl", lambda one: {"label": one["label"]}), "the index is None"),
    "too few": (edited("CB.jsonl", lines(lambda found: found[1:])), "1 index is missing: 0"),
    "an idx twice": (
        edited("CB.jsonl", lines(lambda found: [*found[:-1], found[0]])),
        "line 6: index 0 is repeated (it is in line 1",
    ),
    "no entity": (each("ReCoRD.jsonl", lambda one: {**one, "label": ""}), "the text of an entity"),
    "an option's number": (each("ReCoRD.jsonl", lambda one: {**one, "label": 3}), "the label is 3"),
    "MultiRC numbered anew": (
        edited("MultiRC.jsonl", objects(restarted)),
        "number the questions over the whole file",
    ),
    "MultiRC flat": (
        each("MultiRC.jsonl", lambda one: {"idx": one["idx"], "label": 1}),
        'the object does not have the structure {"idx", "passage"',
    ),
    "MultiRC without an answer": (
        edited("MultiRC.jsonl", lambda text: text.replace('{"idx": 1, "label": 1}', "")),
        "the line is not JSON",
    ),
    "MultiRC paragraph idx": (
        each("MultiRC.jsonl", lambda one: {**one, "idx": None}),
        "the idx of a paragraph is None",
    ),
    "an empty file": (edited("WiC.jsonl", lambda _: "\n"), "it is empty"),
}


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "submission.zip"
    path.write_bytes(content)
    return path


def test_submission_check_accepts_a_valid_submission(tmp_path: Path) -> None:
    path = put(tmp_path, zipped(clean("superglue")))
    assert check(path) == ()
    repair(path, tmp_path / "out.zip")
    assert members(tmp_path / "out.zip") == clean("superglue")


def test_submission_files_in_a_folder_of_the_zip_are_accepted(tmp_path: Path) -> None:
    files = {f"submission/{name}": content for name, content in clean("superglue").items()}
    assert check(put(tmp_path, zipped(files))) == ()


@pytest.mark.parametrize("name", MENDABLE)
def test_unambiguous_submission_error_is_found_and_repaired(name: str, tmp_path: Path) -> None:
    damage, sentence = MENDABLE[name]
    path = put(tmp_path, damage(clean("superglue")))
    found = check(path)
    assert any(sentence in str(fault) for fault in found), found
    assert repair(path, tmp_path / "out.zip") == found
    assert members(tmp_path / "out.zip") == clean("superglue")


@pytest.mark.parametrize("name", STUCK)
def test_ambiguous_submission_error_is_found_but_not_repaired(name: str, tmp_path: Path) -> None:
    damage, sentence = STUCK[name]
    path = put(tmp_path, damage(clean("superglue")))
    found = check(path)
    assert any(sentence in str(fault) and not fault.mendable for fault in found), found
    with pytest.raises(BenchError, match="cannot be repaired"):
        repair(path, tmp_path / "out.zip")


@pytest.mark.parametrize("name", STUCK | MENDABLE)
def test_submission_check_blames_only_the_damaged_file(name: str, tmp_path: Path) -> None:
    damage, _ = (STUCK | MENDABLE)[name]
    blamed = {fault.file for fault in check(put(tmp_path, damage(clean("superglue"))))}
    assert len(blamed - {"submission.zip"}) <= 1


@pytest.mark.parametrize("name", ["not UTF-8", "an empty file", "a label twice"])
def test_submission_error_with_a_single_cause_is_reported_once(name: str, tmp_path: Path) -> None:
    damage, sentence = (STUCK | MENDABLE)[name]
    (fault,) = check(put(tmp_path, damage(clean("superglue"))))
    assert sentence in str(fault)


def test_lone_surrogate_in_a_submission_is_accepted_and_kept(tmp_path: Path) -> None:
    files = clean("superglue")
    files["ReCoRD.jsonl"] = files["ReCoRD.jsonl"].replace(b"entity 0", b"\\ud83d")
    path = put(tmp_path, zipped(files))
    assert check(path) == ()
    repair(path, tmp_path / "out.zip")
    assert members(tmp_path / "out.zip") == files


def test_superglue_labels_are_written_in_the_format_of_the_server() -> None:
    first = {
        name: json.loads(content.splitlines()[0]) for name, content in clean("superglue").items()
    }
    assert first["BoolQ.jsonl"] == {"idx": 0, "label": "false"}
    assert first["WSC.jsonl"] == {"idx": 0, "label": "False"}
    assert first["COPA.jsonl"] == {"idx": 0, "label": 0}
    assert first["MultiRC.jsonl"]["passage"]["questions"][1] == {
        "idx": 1,
        "answers": [{"idx": 2, "label": 0}],
    }
