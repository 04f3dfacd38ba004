"""Tests that `bench share check` refuses archives that were tampered with, and says why.

All archives have correct digests, unless the tampering is about digests: whoever edits a score can
also compute a new digest.
"""

import copy
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.extensions.custom_data.find import find_own
from benchharness.leaderboard.result import Result
from tests.helpers.own_files import as_csv, labelled
from tests.helpers.results import make_job, make_result
from tests.helpers.shared_rows import (
    archive_of,
    as_data,
    edited,
    made_repository,
    made_run,
    raw_archive,
    rows_of,
    scored,
)

Data = dict[str, Any]
HERS = made_run("hers", 1, skill=1.2)
LABELS = ("entailment", "not_entailment")


def of_run(edit: Callable[[Data], None], **fields: Any) -> Callable[[Path], None]:
    """Return a function that writes an archive of a run with edited data."""
    return lambda path: archive_of(path, [edited(made_run("mine", 4, **fields), edit)]) and None


def of_line(edit: Callable[[Data], None]) -> Callable[[Path], None]:
    """Return a function that writes an archive with an edited line but the old digest."""

    def write(path: Path) -> None:
        line = as_data(made_run("mine", 4))
        edit(line)
        raw_archive(path, [line])

    return write


def rows(data: Data) -> list[Data]:
    return data["evaluations"][0]["predictions"]


def set_score(value: float) -> Callable[[Data], None]:
    return lambda data: data["evaluations"][0]["scores"].update(accuracy=value)


def shift_score(by: float) -> Callable[[Data], None]:
    def edit(data: Data) -> None:
        data["evaluations"][0]["scores"]["accuracy"] += by

    return edit


def correct(count: int, *, scores: str) -> Callable[[Path], None]:
    """Return a function that corrects `count` wrong answers, and computes the score again.

    `scores` is the way in which the probabilities are edited: "short" or "sum".
    """

    def write(path: Path) -> None:
        run = made_run("mine", 4)
        predictions = copy.deepcopy(list(run.evaluations[0].predictions))
        wrong = [
            row
            for row, example in zip(predictions, rows_of("glue/rte", "dev").examples, strict=True)
            if row["label"] != example.label
        ]
        for row in wrong[:count]:
            row["label"] = LABELS[1 - LABELS.index(row["label"])]
            if scores == "short":
                high = round(max(row["scores"]), 3)
                row["scores"] = [high, 1 - high] if row["label"] == LABELS[0] else [1 - high, high]
            if scores == "sum":
                place = LABELS.index(row["label"])
                row["scores"][place] = max(row["scores"]) + 0.1
        archive_of(path, [scored(run, predictions)])

    return write


def copied(change: Callable[[list[Data]], None], model: str = "mine") -> Callable[[Path], None]:
    """Return a function that writes a run of another job with changed predictions of Ada."""

    def write(path: Path) -> None:
        predictions = [dict(row) for row in HERS.evaluations[0].predictions]
        change(predictions)
        archive_of(path, [scored(made_run(model, 4), predictions)])

    return write


def nothing(_: object) -> None:
    """Leave the data as they are."""


def some_answers(predictions: list[Data]) -> None:
    for row in predictions[::9]:
        row["label"] = LABELS[1 - LABELS.index(row["label"])]
        row["scores"] = row["scores"][::-1]


def round_all(digits: int) -> Callable[[list[Data]], None]:
    def change(predictions: list[Data]) -> None:
        for row in predictions:
            row["scores"] = [round(score, digits) for score in row["scores"]]

    return change


def jitter(predictions: list[Data]) -> None:
    for place, row in enumerate(predictions):
        low = min(row["scores"]) * (1 + (place % 7) / 9_000)
        first = 1 - low if row["label"] == LABELS[0] else low
        row["scores"] = [first, 1 - first]


def exchange(data: Data) -> None:
    for row in rows(data):
        row["label"] = LABELS[1 - LABELS.index(row["label"])]


def field(name: str, value: object) -> Callable[[Data], None]:
    return lambda data: data["job"].update({name: value})


def other_rows(data: Data) -> None:
    data["job"]["fingerprints"]["glue/rte:dev"] = "ab" * 32
    data["evaluations"][0]["fingerprint"] = "ab" * 32


def other_rows_than_the_job(data: Data) -> None:
    data["evaluations"][0]["fingerprint"] = "ab" * 32


def invented_split(data: Data) -> None:
    prints = data["job"]["fingerprints"]
    prints["glue/rte:devx"] = prints.pop("glue/rte:dev")
    data["evaluations"][0]["split"] = "devx"


def own_task(edit: Callable[[Data], None]) -> Callable[[Path], None]:
    """Return a function that writes a run of a custom task whose definition was edited."""

    def write(path: Path) -> None:
        table = path.parents[3] / "rows.csv"
        table.write_text(as_csv([("text", "label"), *labelled(["neg", "pos"], 60)]))
        own = find_own(str(table), metrics=["accuracy"]).own
        definition = json.loads(json.dumps(own.to_json()))
        prints = {f"{own.name}:{split}": "cd" * 32 for split in ("train", "dev")}
        job = make_job(model="mine", task=own.name, data="rows#123abc", fingerprints=prints)
        job = type(job)(**{**vars(job), "definition": definition})
        run = make_result(job)
        one = run.evaluations[0]
        predictions = tuple({"id": str(n), "label": "neg", "scores": [0.6, 0.4]} for n in range(9))
        plain = {**vars(one), "scores": {"accuracy": 0.5}, "predictions": predictions}
        line = as_data(Result(**{**vars(run), "evaluations": (type(one)(**plain),)}))
        edit(line["data"]["job"]["definition"])
        raw_archive(path, [line])

    return write


def another_seed(path: Path) -> None:
    run = made_run("mine", 4)
    predictions = [dict(row) for row in run.evaluations[0].predictions]
    archive_of(path, [run, scored(made_run("mine", 5), predictions)])


def ended_at(time: str) -> Callable[[Path], None]:
    run = replace(made_run("mine", 4), finished=time)
    return lambda path: archive_of(path, [run]) and None


def with_path(path: Path) -> None:
    run = made_run("mine", 4)
    provenance = {**run.provenance, "home": "/home/somebody/data"}
    raw_archive(path, [as_data(replace(run, provenance=provenance))])


def two_models(path: Path) -> None:
    archive_of(path, [made_run("mine", 4), made_run("other", 4)])


def twice(path: Path) -> None:
    raw_archive(path, [as_data(made_run("mine", 4))] * 2)


def changed_byte(path: Path) -> None:
    archive_of(path, [made_run("mine", 4)])
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text.replace(b"2026-08-05", b"2026-08-06")))


def without_end(path: Path) -> None:
    archive_of(path, [made_run("mine", 4)])
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))


def deep(path: Path) -> None:
    text = b'{"format":"benchharness archive","version":2}\n' + b"[" * 100_000 + b"\n"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(text))


def pickled(line: Data) -> None:
    line["data"]["job"]["settings"] = {"x": "gASVHAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"}


EDITED = "but the accuracy of the stored predictions is"

TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    # edited scores
    "score plus a point": (
        of_run(shift_score(0.01)),
        EDITED,
    ),
    "score plus a thousandth": (
        of_run(shift_score(0.001)),
        EDITED,
    ),
    "score of 1": (of_run(set_score(1.0)), EDITED),
    "score above 1": (of_run(set_score(1.2)), "outside of 0 to 1"),
    "score that is no number": (of_line(lambda line: set_score(float("nan"))(line["data"])), ""),
    "score of another metric": (
        of_run(lambda data: data["evaluations"][0]["scores"].update(f1=0.9)),
        "which these rows do not have",
    ),
    "no score": (of_run(lambda data: data["evaluations"][0]["scores"].clear()), "are missing"),
    "score without predictions": (
        of_run(lambda data: rows(data).clear()),
        "which cannot be checked",
    ),
    "score of an import": (of_run(field("kind", "imported")), "which cannot be checked"),
    # edited predictions and probabilities
    "answers exchanged": (of_run(exchange), EDITED),
    "answers made right": (correct(8, scores="kept"), "not the ones with the highest probability"),
    "right, with typed probabilities": (correct(8, scores="short"), "at most 4 decimals"),
    "right, with wrong sums": (correct(8, scores="sum"), "do not add up to 1"),
    "one row left out": (of_run(lambda data: rows(data).pop()), "do not match"),
    "rows in another order": (of_run(lambda data: rows(data).reverse()), "do not match"),
    "id twice": (of_run(lambda data: rows(data)[1].update(id="0")), ""),
    "unknown label": (of_run(lambda data: rows(data)[1].update(label="maybe")), ""),
    "answer of another kind": (of_run(lambda data: rows(data)[1].update(label=7.5)), ""),
    "rounding denied": (
        of_run(lambda data: data["provenance"].update(rounded_digits=2)),
        "more than the 2 decimals",
    ),
    "probability not finite": (
        of_line(lambda line: rows(line["data"])[0].update(scores=[float("inf"), 0.0])),
        "",
    ),
    # copies
    "copy": (copied(nothing), "are equal to those of the run"),
    "copy with another model's name": (copied(nothing, "another"), "are equal to those of"),
    "copy with edited answers": (copied(some_answers), "are equal to those of the run"),
    "copy, rounded": (copied(round_all(5)), "to those of the run"),
    "copy, a little moved": (copied(jitter), "to those of the run"),
    "copy as another seed": (another_seed, "are equal to those of the run"),
    "the same archive": (lambda path: archive_of(path, [HERS]) and None, "is the same run as in"),
    # rows and labels
    "other rows": (of_run(other_rows), "does not have the public rows and labels"),
    "other rows than the job": (
        of_run(other_rows_than_the_job),
        "was predicted on other rows than the run states",
    ),
    "limit below 1": (of_run(field("limit", -1)), "has the limit -1"),
    "invented split": (of_run(invented_split), "has no split 'devx'"),
    "limit that was not used": (of_run(field("limit", 8)), "does not have the public rows"),
    "other split": (of_run(lambda data: data["evaluations"][0].update(split="dev_mm")), ""),
    # digests
    "run digest": (of_line(lambda line: line.update(digest="0" * 64)), "was changed after"),
    "run key": (of_line(lambda line: line.update(key="0" * 64)), "was changed after"),
    "score under an old digest": (
        of_line(lambda line: shift_score(0.01)(line["data"])),
        "was changed after",
    ),
    "status": (of_line(lambda line: line.update(status="failed")), "was changed after"),
    "byte in the archive": (changed_byte, "was changed after"),
    "no last line": (without_end, "its last line is missing"),
    "run twice": (twice, "contains the run"),
    "two models": (two_models, "contains several models"),
    # names
    "markup as model": (of_run(field("model", "<b>x</b>")), "may be markup"),
    "script as model": (of_run(field("model", "<script>alert(1)</script>")), "may be markup"),
    "path as model": (of_run(field("model", "../../etc/passwd")), "may be markup, a path"),
    "turned text as model": (of_run(field("model", "a\u202eb")), "may be markup"),
    "quote as recipe": (of_run(field("recipe", '" onclick="x')), "may be markup"),
    "path of a machine": (with_path, "names paths of a machine"),
    "long model": (of_run(field("model", "a" * 201)), "may be markup"),
    # code
    "metric of a script": (
        own_task(lambda own: own.update(metrics=["evaluate:/tmp/evil.py"])),
        "which needs code",
    ),
    "metric of the hub": (
        own_task(lambda own: own.update(metrics=["evaluate:someone/metric"])),
        "which needs code",
    ),
    "script of a metric": (
        own_task(lambda own: own.update(scripts={"accuracy": ["ab" * 32, 1.0]})),
        "which needs code",
    ),
    "call as metric": (
        own_task(lambda own: own.update(metrics=["__import__('os').system('id')"])),
        "which needs code",
    ),
    "pickle": (of_line(pickled), "was changed after"),
    # form
    "deep nesting": (deep, "is not a JSON object"),
    "time in the future": (ended_at("2999-01-01T00:00:00"), "expected a time in the past"),
    "no time": (ended_at("soon"), "expected a time in the past"),
}

FEW = (
    "score plus a point", "answers made right", "right, with typed probabilities", "copy",
    "copy with edited answers", "copy, a little moved", "other rows", "run digest",
    "markup as model", "metric of a script", "pickle",
)  # fmt: skip


def test_honest_archives_pass_and_at_least_50_kinds_of_tampering_are_tested(bench, tmp_path):
    assert len(TAMPERED) >= 50
    root = made_repository(tmp_path / "board", {"ada": {"a.jsonl.gz": [HERS]}})
    honest = [made_run("mine", seed, digits=digits) for seed, digits in ((4, None), (5, 4), (6, 2))]
    for one in honest:
        archive_of(root / "contributors" / "bob" / f"b{one.job.seed}.jsonl.gz", [one])
    ended = bench("share", "check", str(root), "--json")
    # The rounded runs do not declare their rounding, so only they may have faults.
    faults = json.loads(ended.out)["faults"]
    assert {each["run"] for each in faults}.isdisjoint({honest[0].job.key[:12]}), faults


def test_custom_tasks_and_metrics_of_plugins_are_shown_as_stored(bench, tmp_path):
    root = made_repository(tmp_path / "board", {"ada": {"a.jsonl.gz": [HERS]}})
    own_task(nothing)(root / "contributors" / "bob" / "own.jsonl.gz")
    run = made_run("his", 1, plugins={"evil": "ab" * 32})
    (one,) = run.evaluations
    more = replace(one, scores={**one.scores, "positive_share": 0.5})
    archive_of(
        root / "contributors" / "bob" / "plugin.jsonl.gz", [replace(run, evaluations=(more,))]
    )
    ended = bench("share", "check", str(root), "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["faults"]) == (0, [])
    said = " ".join(found["checked"])
    assert "as stored: a task of the contributor's own data has no public labels" in said
    assert "as stored: the metric positive_share is shown as stored" in said
    assert bench("share", "build", str(root), "--out", "site").code == 0
    page = (tmp_path / "site" / "index.html").read_text()
    assert page.count("by bob, 2026-08-") == 2
    assert page.count(", as stored") == 2


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FEW else pytest.mark.soak) for n in TAMPERED],
)
def test_a_tampered_archive_is_refused_with_the_reason(bench, tmp_path, name):
    root = made_repository(tmp_path / "board", {"ada": {"a.jsonl.gz": [HERS]}})
    write, reason = TAMPERED[name]
    write(root / "contributors" / "eve" / "e.jsonl.gz")
    ended = bench("share", "check", str(root), "--json")
    faults = json.loads(ended.out)["faults"]
    assert ended.code == 1, ended
    assert {each["place"] for each in faults} == {"contributors/eve/e.jsonl.gz"}
    sentences = " ".join(each["sentence"] for each in faults)
    assert reason in sentences
    assert "Traceback" not in ended.err
