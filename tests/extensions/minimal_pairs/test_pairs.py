"""Tests of BLiMP-like sets: their files, groups, and accuracies against their own scorers."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from benchharness.errors import DataError
from benchharness.extensions.minimal_pairs.tasks import PAIR_TASKS
from benchharness.tasks.examples import ChoicePrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import score

MINI = parse_data("mini")


def mini(name: str) -> list[str]:
    return (mini_folder() / "pairs" / name).read_text().splitlines()


def official(scores: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Return the accuracies of babylm-eval's compute_results.py and run.py.

    A pair is right if the first of the highest scores belongs to the acceptable sentence
    (torch.max, label 0); the average is the plain mean over UIDs.
    """
    accuracies = {}
    for uid, pairs in scores.items():
        correct = 0
        for pair in pairs:
            correct += 1 if pair.index(max(pair)) == 0 else 0
        accuracies[uid] = correct / len(pairs)
    found = {f"accuracy_{uid}": value for uid, value in accuracies.items()}
    return found | {"accuracy": sum(accuracies.values()) / len(accuracies)}


@pytest.mark.parametrize("name", ["supplement", "ewok", "comps", "multiblimp"])
def test_minimal_pair_accuracies_with_ties_match_babylm_eval(name: str) -> None:
    task, draw = find_task(f"pairs/{name}"), Random(name)
    examples = read(task, "dev", MINI).examples
    for _ in range(25 if name == "multiblimp" else 325):
        scores, predictions = defaultdict(list), []
        for example in examples:
            good, bad = draw.choice([0.0, 1.0, 2.0]), draw.choice([0.0, 1.0, 2.0])
            scores[example.group].append((good, bad))
            (gold,) = example.gold
            options = (good, bad) if gold == 0 else (bad, good)
            # On ties, the cloze extension chooses the first option.
            option = options.index(max(options))
            predictions.append(ChoicePrediction(id=example.id, option=option))
        assert dict(score(task, "dev", predictions, examples)) == pytest.approx(official(scores))


def test_zorro_counts_ties_as_half_right() -> None:
    task = find_task("pairs/zorro")
    examples = read(task, "dev", MINI).examples
    ties = [ChoicePrediction(id=example.id, option=0) for example in examples]
    assert set(dict(score(task, "dev", ties, examples)).values()) == {0.5}


def test_minimal_pairs_have_the_texts_compared_by_the_official_code() -> None:
    def first(name: str) -> tuple[str, str, tuple[str, ...], str | None]:
        found = read(find_task(f"pairs/{name}"), "dev", MINI).examples[0]
        return found.context, found.question, found.options, found.group

    row = json.loads(mini("ewok/agent-properties.jsonl")[0])
    targets = (row["Target1"], row["Target2"])
    assert first("ewok") == (row["Context1"], "", targets, "agent-properties")
    row = json.loads(mini("comps/comps_base.jsonl")[0])
    prefixes = (row["prefix_acceptable"], row["prefix_unacceptable"])
    assert first("comps") == ("", f"_ {row['property_phrase']}", prefixes, "comps_base")
    lines = mini(f"zorro/{first('zorro')[3]}.txt")
    assert first("zorro")[2] == (lines[1], lines[0])  # the second line of each pair is grammatical
    # Pandas quotes this field when it writes a table.
    assert first("multiblimp")[2][0].startswith('"So," ')
    assert first("multiblimp")[3] == "abk"
    assert len(find_task("pairs/multiblimp").details) == 101


@pytest.mark.parametrize(
    ("task", "file", "text", "said"),
    [
        ("supplement", "hypernym.jsonl", '{"good": "a"}\n', "expected 'sentence_good'"),
        ("ewok", "social-relations.jsonl", None, "lacks the group social-relations, .* all 11"),
        ("comps", "comps_odd.jsonl", None, "its group 'comps_odd' is not one of the 4"),
        ("zorro", "binding-principle_a.txt", "a\nb\nc\n", "has 3 lines; expected two"),
        ("multiblimp", "nld/data.tsv", "sen\twrong\na\tb\n", "expected 'wrong_sen'"),
    ],
)
def test_malformed_minimal_pair_files_are_an_error(
    tmp_path: Path, task: str, file: str, text: str | None, said: str
) -> None:
    shutil.copytree(mini_folder() / "pairs" / task, tmp_path / task)
    place = tmp_path / task / file
    if text is not None:
        place.write_text(text)
    elif place.exists():
        place.unlink()
    else:
        shutil.copy(next(place.parent.glob("*.jsonl")), place)
    with pytest.raises(DataError, match=said):
        read(find_task(f"pairs/{task}"), "dev", parse_data(str(tmp_path)))


def test_multiblimp_accepts_a_subset_of_the_known_languages(tmp_path: Path) -> None:
    task = find_task("pairs/multiblimp")
    shutil.copytree(mini_folder() / "pairs/multiblimp/nld", tmp_path / "multiblimp" / "nld")
    assert {e.group for e in read(task, "dev", parse_data(str(tmp_path))).examples} == {"nld"}
    (tmp_path / "multiblimp" / "nld").rename(tmp_path / "multiblimp" / "xxx")
    with pytest.raises(DataError, match="group 'xxx'"):
        read(task, "dev", parse_data(str(tmp_path)))


def test_pseudo_perplexity_without_a_text_file_is_an_error() -> None:
    assert len(PAIR_TASKS) == 5
    with pytest.raises(DataError, match="pass its file with --data FILE"):
        read(find_task("text/pseudo-perplexity"), "dev", parse_data("hub"))
