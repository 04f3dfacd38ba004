"""Tests of BLiMP: its files, its 67 paradigms, and its accuracies against the official scripts."""

import json
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from benchharness.errors import DataError
from benchharness.extensions.minimal_pairs.tasks import BLIMP, PARADIGMS, PHENOMENA
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import Row, Source, hub, parse_data, rows
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.task import score


def official(probabilities: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Return the accuracies of the authors' process_simplelm.py and mlm-scoring's accuracy.py.

    From each paradigm's (good, bad) scores: a pair is right if the good one is strictly larger; a
    paradigm's accuracy is its share of these; phenomena and the whole are means of paradigms.
    """
    accuracies = {}
    for uid, pairs in probabilities.items():
        count = 0
        for good, bad in pairs:
            if good > bad:
                count += 1
        accuracies[uid] = count / len(pairs)
    terms = defaultdict(list)
    for term, uids in PHENOMENA.items():
        terms[term] += [accuracies[uid] for uid in uids if uid in accuracies]
    found = {f"accuracy_{uid}": value for uid, value in accuracies.items()}
    found |= {f"accuracy_{term}": sum(v) / len(v) for term, v in terms.items() if v}
    return found | {"accuracy": sum(accuracies.values()) / len(accuracies)}


def predicted(example: ChoiceExample, good: float, bad: float) -> ChoicePrediction:
    """Make the prediction of a language model's scores: the first of the highest."""
    scores = (bad, good)
    return ChoicePrediction(id=example.id, option=scores.index(max(scores)), scores=scores)


def test_blimp_accuracies_match_the_official_scripts() -> None:
    draw = Random(1)
    for _ in range(1000):
        uids = draw.sample(PARADIGMS, draw.randint(1, 12))
        examples, predictions, scores = [], [], defaultdict(list)
        for uid in uids:
            for number in range(draw.randint(1, 5)):
                # Few values, so that scores are often equal.
                good, bad = draw.choice([0.0, 1.0, 2.0]), draw.choice([0.0, 1.0, 2.0])
                example = ChoiceExample(
                    id=f"{uid}/{number}",
                    context="",
                    question="",
                    options=("bad", "good"),
                    gold=(1,),
                    group=uid,
                )
                examples.append(example)
                predictions.append(predicted(example, good, bad))
                scores[uid].append((good, bad))
        assert dict(score(BLIMP, "dev", predictions, examples)) == pytest.approx(official(scores))


def test_blimp_has_67_paradigms_in_12_phenomena() -> None:
    assert len(PARADIGMS) == len(set(PARADIGMS)) == 67
    assert len(PHENOMENA) == 12


def test_acceptable_blimp_sentence_is_the_last_option() -> None:
    path = mini_folder() / "blimp" / "data" / "passive_1.jsonl"
    row = json.loads(path.read_text().splitlines()[2])
    by_id = {example.id: example for example in read(BLIMP, "dev", parse_data("mini")).examples}
    assert by_id["passive_1/2"].options == (row["sentence_bad"], row["sentence_good"])


def copied(target: Path) -> Path:
    data = target / "blimp" / "data"
    data.mkdir(parents=True)
    for file in (mini_folder() / "blimp" / "data").iterdir():
        (data / file.name).write_bytes(file.read_bytes())
    return data


def test_blimp_folder_of_official_files_is_read(tmp_path: Path) -> None:
    data, mini = copied(tmp_path), read(BLIMP, "dev", parse_data("mini"))
    for place in (tmp_path, tmp_path / "blimp"):
        assert read(BLIMP, "dev", parse_data(str(place))).fingerprint == mini.fingerprint
    assert read(BLIMP, "dev", parse_data(str(data.parent))).examples == mini.examples


def test_blimp_rows_on_the_hub_are_read_from_one_config_per_paradigm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = rows(BLIMP.source, "dev", parse_data("mini"))
    asked = []

    def of_config(source: Source, split: str) -> list[Row]:
        asked.append((source.config, split))
        return [row for row in found if row["UID"] == source.config][::-1]

    monkeypatch.setattr(hub, "_config_rows", of_config)
    read_there = read(BLIMP, "dev", parse_data("hub"))
    assert asked == [(name, "dev") for name in PARADIGMS]
    assert read_there.fingerprint == read(BLIMP, "dev", parse_data("mini")).fingerprint


def test_missing_or_unknown_blimp_paradigms_are_an_error_that_names_them(tmp_path: Path) -> None:
    data = copied(tmp_path)
    (data / "causative.jsonl").unlink()
    with pytest.raises(DataError, match="lacks the paradigm causative"):
        read(BLIMP, "dev", parse_data(str(tmp_path)))
    row = {"sentence_good": "a", "sentence_bad": "b", "UID": "turn_taking", "pairID": "0"}
    (data / "causative.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match="turn_taking"):
        read(BLIMP, "dev", parse_data(str(tmp_path)))
    (data / "causative.jsonl").write_text('{"UID": "causative", "pairID": "0"}\n')
    with pytest.raises(DataError, match=r"line 1 .* expected 'sentence_good'"):
        read(BLIMP, "dev", parse_data(str(tmp_path)))
