"""Tests of fault 22: labels that a task does not have, or whose meaning has changed."""

import json
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.glue import HUB, REVISION
from benchharness.tasks.suites import find_task
from tests.helpers.hub_files import write_dataset_config
from tests.helpers.hub_server import ask, serve_hub
from tests.helpers.official_files import read_file, write_file

WRONG = ["7", "-1", "one", "", "nan", "None", "1.0", " 1", "True"]


@pytest.mark.parametrize("label", WRONG)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_22_unknown_label_in_a_tsv_file_is_an_error_with_the_line_number(
    tmp_path: Path, split: str, label: str
):
    content = f"sentence\tlabel\nfine\t1\nodd\t{label}\n"
    data = write_file(tmp_path, f"SST-2/{split}.tsv", content)
    with pytest.raises(DataError, match=rf"{split}\.tsv line 3 has the label"):
        read_file("glue/sst2", split, data)


@pytest.mark.parametrize("label", [7, -1, None, "one", 0.5, [], {}, "yes"])
def test_22_unknown_label_in_json_lines_is_an_error(tmp_path: Path, label: object):
    row = {"premise": "a", "hypothesis": "b", "label": label, "idx": 0}
    data = write_file(tmp_path, "RTE/train.jsonl", json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"rte train|RTE.train"):
        read_file("superglue/rte", "train", data)


@pytest.mark.parametrize("score", ["7", "-1", "nan", "inf", "one", "", "None"])
def test_22_regression_label_outside_the_scale_is_an_error(tmp_path: Path, score: str):
    names = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    content = f"{names}\n0\tg\tf\ty\t0\ts\ts\ta\tb\t{score}\n"
    data = write_file(tmp_path, "STS-B/train.tsv", content)
    with pytest.raises(DataError):
        read_file("glue/stsb", "train", data)


def test_22_test_row_without_a_label_is_read_as_unlabelled(tmp_path: Path):
    data = write_file(tmp_path, "SST-2/test.tsv", "index\tsentence\n0\tfine\n")
    (example,) = read_file("glue/sst2", "test", data).examples
    assert example.label is None


def test_22_changed_labels_or_columns_on_the_hub_are_errors(tmp_path: Path):
    folder = tmp_path / "hub" / "datasets" / HUB / REVISION
    folder.mkdir(parents=True)
    row: dict[str, object] = {"sentence": "a", "label": 1, "idx": 0}
    cola, sst2 = find_task("glue/cola").labels, find_task("glue/sst2").labels
    write_dataset_config(folder, "cola", {"train": [row]}, cola[::-1])
    write_dataset_config(folder, "sst2", {"train": [row, row | {"label": -1}]}, sst2)
    write_dataset_config(folder, "rte", {"train": [row]}, find_task("glue/rte").labels)
    with serve_hub(tmp_path / "hub") as server:
        names = ("glue/cola:train", "glue/sst2:train", "glue/rte:train")
        answer = ask(server.endpoint, tmp_path / "home", *names)
    assert answer.status == 4
    order, hidden, columns = answer.error.splitlines()
    assert "are acceptable, unacceptable; expected" in order
    assert "row 1 has the label -1; expected 0 to 1" in hidden
    assert "has no column sentence1, sentence2" in columns
