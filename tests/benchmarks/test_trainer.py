"""Tests of the Trainer script: it reads and encodes the same rows as benchharness does."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset

from benchharness.encoder.tokenizer import load_tokenizer
from benchharness.heads import Limits, head_for
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchmarks.sample import draw_sample
from benchmarks.shapes import MINI
from benchmarks.trainer import choice, pair, span, tag
from benchmarks.trainer.fine_tune import _predict, fine_tune
from benchmarks.trainer.flags import FLAGS
from benchmarks.trainer.problem import Request
from benchmarks.workloads import WORKLOADS, Values, find_workload
from tests.helpers.checkpoints import make_config, save_checkpoint

pytest.importorskip("accelerate")

HEADS = {"pair": pair, "span": span, "choice": choice, "tag": tag}
TASKS = ("glue/mrpc", "glue/stsb", "squad/v1.1", "race/all", "swag/regular", "conll2003/ner")
MINI_FOLDERS = {"squad/v1.1": "squad", "race/all": "race"}
LIMIT = 200
"""Maximum length, which is more than the overlap of two windows."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save_checkpoint(tmp_path_factory.mktemp("model"), max_position_embeddings=LIMIT)


@pytest.fixture
def sample(tmp_path):
    """Draw a few rows of a task's mini data, as official files."""

    def draw(task):
        workload = replace(find_workload(task), train_rows=20, dev_rows=12)
        folder = MINI_FOLDERS.get(task, workload.folder)
        return draw_sample(replace(workload, folder=folder), MINI, tmp_path)

    return draw


def make_request(task, checkpoint, folder, flags="best"):
    head = find_workload(task).head
    return Request(
        checkpoint=str(checkpoint),
        folder=str(folder),
        task=task,
        max_tokens=LIMIT,
        pads=head in FLAGS[flags].pads_to_limit,
        multiple=FLAGS[flags].multiple,
    )


def our_features(task, folder, checkpoint):
    found = find_task(task)
    rows = {
        split: read(found, split, parse_data(str(folder))).examples for split in ("train", "dev")
    }
    tokenizer = load_tokenizer(Path(checkpoint), make_config("bert"))
    head = head_for(found)
    limits = Limits(max_tokens=LIMIT)
    return found, rows, {name: head.encode(e, tokenizer, limits) for name, e in rows.items()}


@pytest.mark.parametrize("task", TASKS)
def test_trainer_script_and_benchharness_encode_equal_token_counts(task, sample, checkpoint):
    folder = sample(task)
    problem = HEADS[find_workload(task).head].problem(make_request(task, checkpoint, folder))
    _, rows, ours = our_features(task, folder, checkpoint)
    assert len(rows["train"]) == 20
    assert len(rows["dev"]) == 12
    for split in ("train", "dev"):
        lengths = problem.lengths[split]
        # The Trainer's windows begin elsewhere, and it does not cut questions.
        if task == "squad/v1.1":
            lengths = [n for n in lengths if n < LIMIT]
            assert set(lengths) <= set(ours[split].lengths.tolist())
        else:
            assert sorted(lengths) == sorted(ours[split].lengths.tolist())


@pytest.mark.parametrize(
    ("flags", "task"),
    [
        *(("best", task) for task in TASKS),
        ("default", "squad/v1.1"),
        *(pytest.param("default", t, marks=pytest.mark.soak) for t in TASKS if t != "squad/v1.1"),
    ],
)
def test_trainer_script_runs_for_every_head(task, flags, sample, checkpoint):
    request = make_request(task, checkpoint, sample(task), flags)
    head = find_workload(task).head
    values = Values(epochs=1, batch_size=8, max_tokens=LIMIT)
    run = fine_tune(request, head, FLAGS[flags], values, seed=1)
    top = 100 if head == "span" else 1
    assert all(-1 <= score <= top for score in run["scores"].values())
    assert run["train_rows"] >= 20
    assert run["train_tokens"] > 20 * 5
    assert run["train_squares"] > run["train_tokens"]
    assert run["dev_tokens"] > 12 * 5


def test_trainer_script_pads_to_the_maximum_only_with_default_flags(sample, checkpoint):
    folder = sample("glue/mrpc")
    padded = pair.problem(make_request("glue/mrpc", checkpoint, folder, "default"))
    assert set(map(len, padded.train["input_ids"])) == {LIMIT}
    assert max(padded.lengths["train"]) < LIMIT
    batch = pair.problem(make_request("glue/mrpc", checkpoint, folder)).collate(
        [{"input_ids": [1] * 9}, {"input_ids": [1] * 3}]
    )
    assert batch["input_ids"].shape == (2, 16)


def test_trainer_script_returns_length_grouped_logits_in_row_order():
    class Lengths:
        args = SimpleNamespace(train_sampling_strategy="group_by_length")

        def predict(self, rows):
            assert self.args.train_sampling_strategy == "sequential"
            lengths = np.array([len(ids) for ids in rows["input_ids"]])
            assert (np.diff(lengths) <= 0).all()
            return SimpleNamespace(predictions=lengths)

    rows = Dataset.from_dict({"input_ids": [[1], [1, 2, 3], [1, 2]]})
    assert _predict(Lengths(), rows, FLAGS["best"]).tolist() == [1, 3, 2]


def test_trainer_script_scores_gold_answer_logits_with_f1_near_100(sample, checkpoint):
    folder = sample("squad/v1.1")
    request = make_request("squad/v1.1", checkpoint, folder)
    problem = span.problem(request)
    questions = span._read(folder / "squad" / "dev-v1.1.json")
    encoded = span._encode(questions, request, request.tokenizer())
    starts, ends = span._targets(encoded, questions)
    width = max(map(len, encoded["input_ids"]))
    logits = tuple(np.eye(width)[places] for places in (starts, ends))
    assert problem.score(logits)["f1"] > 95


def test_trainer_script_scores_gold_tag_logits_with_f1_1(sample, checkpoint):
    problem = tag.problem(make_request("conll2003/ner", checkpoint, sample("conll2003/ner")))
    width = max(map(len, problem.dev["labels"]))
    numbers = [row + [0] * (width - len(row)) for row in problem.dev["labels"]]
    assert problem.score(np.eye(len(tag.TAGS))[np.maximum(numbers, 0)])["entity_f1"] == 1.0


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.task)
def test_every_benchmark_workload_has_a_task_and_a_trainer_script(workload):
    assert find_task(workload.task).head == workload.head
    assert workload.head in HEADS
