"""Tests of multi-task jobs with one encoder: planning, training, resuming, leaderboards."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import load_encoder
from benchharness.errors import BenchError, ModelError
from benchharness.extensions.multi_task.technique import share
from benchharness.heads import head_for
from benchharness.leaderboard.boards.board import build_boards
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.result import Evaluation, Result
from benchharness.leaderboard.store.store import open_store
from benchharness.recipes.recipe import count_steps
from benchharness.stored import gather_boards
from benchharness.tasks.suites import SUITES, find_task
from benchharness.training.batching import (
    Features,
    mixed_batches,
)
from benchharness.training.loop import TaskBatches, Training
from benchharness.training.optimizer import learning_rate
from benchharness.worker.job import run_job
from tests.helpers.mini_jobs import make_job, make_shared_job
from tests.helpers.plans import plan_jobs, request_of
from tests.helpers.results import make_cost
from tests.helpers.stopped_jobs import deterministic, stop
from tests.helpers.training import CPU, RECIPE

TASKS = ("stsb", "cola", "copa", "squad/v2.0", "conll2003/ner")
"""One task per head type, and a regression task next to a classification task."""


def plan(*tasks: str, together: tuple[str, ...], **options: Any) -> list[Job]:
    found = plan_jobs(
        "tiny",
        [find_task(task) for task in tasks],
        "mini",
        options.pop("seeds", (1,)),
        limit=16,
        precision="fp32",
        multi_task=[find_task(task) for task in together],
        **options,
    )
    return list(found.jobs)


# Training.


class Bag(nn.Module):
    """A classifier on the mean of a row's embeddings, which other tasks may share."""

    def __init__(self, encoder: nn.Embedding, outputs: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(8, outputs)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask[..., None].float()
        states = (self.encoder(input_ids) * mask).sum(1) / mask.sum(1)
        logits: Tensor = self.output(states)
        return logits


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.encoder = nn.Embedding(50, 8)
        self.networks = nn.ModuleList([Bag(self.encoder, 2), Bag(self.encoder, 3)])


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits, targets, reduction="none")


def make_rows(rows: int, outputs: int) -> tuple[Features, Tensor]:
    generator = np.random.default_rng(rows)
    ids = generator.integers(1, 50, rows * 5).astype(np.int32)
    starts = np.arange(0, rows * 5 + 1, 5)
    features = Features(token_ids=ids, token_types=None, starts=starts, pad_id=0, max_tokens=8)
    return features, torch.from_numpy(generator.integers(0, outputs, rows))


def test_multi_task_weights_equal_those_of_a_plain_training_loop():
    data = [make_rows(40, 2), make_rows(100, 3)]
    network = Both()
    tasks = [
        TaskBatches(network=own, features=features, targets=targets, loss=loss)
        for own, (features, targets) in zip(network.networks, data, strict=True)
    ]
    training = Training.begin(network, tasks, RECIPE, seed=5, compute=CPU, report=lambda _: None)
    steps = sum(1 for _ in training)

    plain = Both()
    groups = [
        {
            "params": [w for w in plain.parameters() if w.ndim > 1],
            "weight_decay": RECIPE.optim.weight_decay,
        },
        {"params": [w for w in plain.parameters() if w.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(
        groups,
        betas=(RECIPE.adam.adam_beta1, RECIPE.adam.adam_beta2),
        eps=RECIPE.adam.adam_epsilon,
    )
    steps = count_steps([40, 100], RECIPE.optim.batch_size, RECIPE.schedule.epochs)
    drawn = list(mixed_batches([40, 100], RECIPE.optim.batch_size, range(steps), 5))
    assert steps == len(drawn)
    assert {task for task, _ in drawn} == {0, 1}
    for step, (task, items) in enumerate(drawn):
        features, targets = data[task]
        rows = torch.from_numpy(features.token_ids.reshape(-1, 5)[items]).long()
        logits = plain.networks[task](rows, torch.ones_like(rows))
        optimizer.zero_grad()
        functional.cross_entropy(logits, targets[items]).backward()
        nn.utils.clip_grad_norm_(
            [w for w in plain.parameters() if w.grad is not None], RECIPE.optim.max_grad_norm
        )
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, len(drawn), RECIPE)
        optimizer.step()
    for found, expected in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_heads_of_a_multi_task_job_share_only_the_encoder_and_its_pooler():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    pooler = encoder.network.pooler
    tasks = [find_task(name) for name in ("cola", "stsb", "copa", "conll2003/ner")]
    network = share(encoder, [(head_for(task), task) for task in tasks])
    assert all(own.encoder is network.encoder for own in network.networks)
    dense = [own.classifier.dense for own in network.networks[:3]]
    assert all(layer is pooler.dense for layer in dense)
    outputs = [own.classifier.output.weight for own in network.networks]
    assert len({id(weight) for weight in outputs}) == 4
    assert not torch.equal(outputs[1], outputs[2]), "each is drawn anew"
    assert not network.reads_first_token, "tags are read of every token"
    pairs = share(encoder, [(head_for(task), task) for task in tasks[:2]])
    assert pairs.reads_first_token


def test_longformer_and_funnel_cannot_be_shared_by_different_head_types():
    encoder = load_encoder("builtin:tiny", None, seed=1)
    tasks = [find_task(name) for name in ("cola", "squad/v1.1")]
    for family in ("longformer", "funnel"):
        object.__setattr__(encoder, "family", family)
        with pytest.raises(ModelError, match=f"cannot share {family}"):
            share(encoder, [(head_for(task), task) for task in tasks])
        share(encoder, [(head_for(tasks[0]), tasks[0])] * 2)


# Plans.


def test_key_of_a_multi_task_job_does_not_depend_on_the_order_of_tasks():
    (job,) = plan(together=("stsb", "mnli", "cola"))
    (same,) = plan(together=("cola", "stsb", "glue/ax", "mnli"))
    assert job.key == same.key
    assert job.trained_tasks == ("glue/cola", "glue/mnli", "glue/stsb")
    assert job.title == "3 tasks together"
    assert job.start is None
    others = [plan(together=("stsb", "cola"))[0], *plan("cola", "mnli", "stsb", together=())]
    power = plan(together=("stsb", "mnli", "cola"), overrides={"sampling_power": "0.5"})
    assert len({j.key for j in (job, *others, *power)}) == 6
    assert "sampling_power" not in job.settings
    assert Job.from_json(job.to_json()) == job


def test_multi_task_job_with_one_task_equals_the_single_task_job():
    alone, (shared,) = plan("cola", together=()), plan(together=("cola",))
    assert [shared] == alone
    (mnli,) = plan(together=("mnli", "glue/ax"), overrides={"sampling_power": "0.5"})
    assert [mnli.key] == [job.key for job in plan("mnli", together=())]


def test_single_tasks_start_from_the_multi_task_encoder_only_if_requested():
    found = plan("cola", "copa", together=("cola", "stsb"), start_from="together", seeds=(1, 2))
    shared = {job.seed: job for job in found if len(job.trained_tasks) > 1}
    single = [job for job in found if len(job.trained_tasks) == 1]
    assert [job.task for job in single] == ["glue/cola"] * 2 + ["superglue/copa"] * 2
    assert all(job.start_from == shared[job.seed].key for job in single)
    assert single[0].shown_start == f"2 tasks together (run {shared[1].key[:12]})"
    assert "--start-from multi-task --multi-task glue/cola,glue/stsb" in command_of(single[0])
    assert "--multi-task glue/cola,glue/stsb" in command_of(shared[1])
    beside = plan("cola", together=("cola", "stsb"))
    assert [job.start_from for job in beside] == [None, None]


REFUSED = {
    (
        "squad/v1.1",
        "squad/v2.0",
    ): "squad/v1.1 and squad/v2.0 cannot be trained together, because both are versions of SQuAD",
    ("glue/rte", "cola", "superglue/rte"): "glue/rte and superglue/rte .* versions of RTE",
    ("wnli", "wsc"): "versions of the Winograd schemas",
}


@pytest.mark.parametrize(("together", "message"), REFUSED.items())
def test_two_versions_of_a_benchmark_in_one_multi_task_job_are_an_error(
    together: tuple[str, ...], message: str
):
    with pytest.raises(BenchError, match=message) as caught:
        plan(together=together)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("learning_rate", "1e-3,2e-3", "2 combinations of values for the tasks that are"),
        ("features", "last", "features is 'last' .--set., which freezes the encoder"),
        ("orders", "both", "orders is 'both' .--set., which needs pairs of texts"),
        ("sampling_power", "-1", "sampling_power is '-1' .--set., expected a number"),
    ],
)
def test_settings_incompatible_with_a_multi_task_job_are_an_error(
    setting: str, value: str, message: str
):
    with pytest.raises(BenchError, match=message):
        plan(together=("cola", "stsb"), overrides={setting: value})


def request(**options: Any) -> Any:
    return request_of(seeds=1, data="mini", **options)


def test_option_multi_task_accepts_suites_and_tasks():
    found = request(multi_task=["superglue", "cola, stsb", "cola"])
    names = [task.name for task in found.multi_task]
    assert names == [*SUITES["superglue"].tasks, "glue/cola", "glue/stsb"]
    assert found.tasks == ()
    started = request(multi_task=["cola,stsb"], start_from="multi-task")
    assert started.tasks == started.multi_task
    with pytest.raises(BenchError, match="--start-from multi-task needs --multi-task"):
        request(task=["cola"], start_from="multi-task")


# Complete jobs, and resumed ones.


@pytest.fixture(scope="module")
def trained() -> Result:
    return run_job(make_shared_job(*TASKS, limit=16, epochs="2", batch_size="8"))


def test_every_task_of_a_multi_task_job_is_scored_with_its_own_head(trained: Result):
    own = {name: make_job(name, limit=16) for name in TASKS}
    scored = {name: job.fingerprints for name, job in own.items()}
    expected = {
        (split, digest)
        for splits in scored.values()
        for split, digest in splits.items()
        if not split.endswith(":train")
    }
    assert {(each.name, each.fingerprint) for each in trained.evaluations} == expected
    assert {e.task for e in trained.evaluations if e.scores} >= set(trained.job.trained_tasks)
    assert [*trained.curve[-1].scores] == ["CoNLL-2003", "CoLA", "STS-B", "SQuAD 2.0", "COPA"]
    rows = {name: facts["rows"] for name, facts in trained.provenance["data"].items()}
    batches = sum(-(-rows[f"{task}:train"] // 8) for task in trained.job.trained_tasks)
    assert trained.cost.steps == 2 * batches


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"sampling_power": "0.5"}, marks=pytest.mark.soak),
        {"evaluations": "4", "best_checkpoint": "true", "select_on": "train:0.25"},
    ],
    ids=["sampled", "merged, the best"],
)
def test_interrupted_multi_task_job_resumes_bit_for_bit(tmp_path: Path, settings: dict[str, str]):
    job = make_shared_job(*TASKS, limit=16, epochs="2", batch_size="8", **settings)
    expected = run_job(job)
    stop(job, tmp_path / "snapshots", step=9)
    found = run_job(job, snapshots=tmp_path / "snapshots")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"] == {"times": 1, "steps": [9]}


def test_single_task_job_trains_from_the_multi_task_encoder(tmp_path: Path):
    shared, single = plan(
        "cola",
        together=("cola", "stsb"),
        start_from="together",
        overrides={"epochs": "1", "evaluations": "1"},
    )
    run_job(shared, keep=tmp_path / "kept")
    found = run_job(single, start_from=tmp_path / "kept")
    assert found.provenance["started_from"]["run"] == shared.key
    assert found.evaluations[0].task == "glue/cola"


# Leaderboard entries.


def result_of(job: Job, **scores: float) -> Result:
    """Return a result with one evaluation per dev split, and these scores by task."""
    return Result(
        job=job,
        evaluations=tuple(
            Evaluation(
                task=task,
                split=split,
                fingerprint=job.fingerprints[f"{task}:{split}"],
                scores={find_task(task).metrics[0].name: scores[task.partition("/")[2]]},
                predictions=(),
            )
            for task, split in job.predicted_splits
            if split == "dev"
        ),
        curve=(),
        cost=make_cost(),
        provenance={},
        finished="2026-01-01T00:00:00+00:00",
    )


def test_leaderboard_has_a_separate_entry_for_a_multi_task_job(tmp_path: Path):
    shared, cola, stsb, ner = plan(
        "cola", "stsb", "conll2003/ner", together=("cola", "stsb", "conll2003/ner")
    )
    with open_store(str(tmp_path / "board.sqlite")) as store:
        store.add_result(result_of(shared, cola=0.5, stsb=0.6, ner=0.7))
        store.add_result(result_of(cola, cola=0.1))
        store.add_result(result_of(stsb, stsb=0.2))
        store.add_result(result_of(ner, ner=0.3))
        assert set(store.suites()) == {"glue", "conll2003"}
        assert store.count(suite="conll2003") == store.count(task="glue/cola") == 2
        glue, conll = gather_boards(store)
        assert len(store.runs()) == 4
    medians = {entry.name: {t: c.median for t, c in entry.cells.items()} for entry in glue.entries}
    assert medians["tiny, 3 tasks together"]["glue/cola"] == 0.5
    assert medians["tiny"]["glue/cola"] == 0.1
    assert [e.name for e in conll.entries] == ["tiny, 3 tasks together", "tiny"]
    assert [e.cells["conll2003/ner"].median for e in conll.entries] == [0.7, 0.3]


def test_leaderboard_entry_names_the_multi_task_job_that_it_starts_from(tmp_path: Path):
    shared, cola = plan("cola", together=("cola", "stsb"), start_from="together")
    with open_store(str(tmp_path / "board.sqlite")) as store:
        store.add_result(result_of(shared, cola=0.5, stsb=0.6))
        store.add_result(result_of(cola, cola=0.1))
        rows = store.runs()
        (board,) = gather_boards(store)
    assert [row.title for row in rows] == ["2 tasks together", "CoLA"]
    labels = {entry.name: entry.start_labels for entry in board.entries}
    assert labels == {"tiny, 2 tasks together": (), "tiny": ("CoLA from 2 tasks together",)}
    assert build_boards(rows, SUITES["glue"])
