"""Tests of a job with every head type, from packaged rows to stored predictions."""

from typing import Any

import pytest

from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.plans import plan_job

FIELDS = {
    "span": {"id", "text", "no_answer_score"},
    "choice": {"id", "option", "scores"},
    "tag": {"id", "tags"},
    "pair": {"id", "label", "scores"},
    "coref": {"id", "clusters"},
}

CONLL2012 = ("conll2012/coref", "conll2012/srl")


@pytest.mark.parametrize(
    "name",
    [
        "squad/v1.1",
        "squad/v2.0",
        "race/all",
        "superglue/record",
        "superglue/wsc",
        "conll2003/ner",
        *CONLL2012,
    ],
)
def test_job_with_each_type_of_head_predicts_and_scores_dev(name: str):
    task = find_task(name)
    job = plan_job(
        "tiny",
        [task],
        overrides={"epochs": "1", "evaluations": "1", "max_tokens": "64", "stride": "16"},
        limit=12,
        precision="fp32",
    )
    assert ("stride" in job.settings) == (task.head == "span")
    first = run_job(job).evaluations[0]
    examples = read(task, "dev", parse_data("mini"), 12).examples
    assert {metric.name for metric in task.metrics} <= set(first.scores)
    rows: list[Any] = list(first.predictions)
    assert [row["id"] for row in rows] == [example.id for example in examples]
    assert set(rows[0]) == FIELDS[task.head]
    for row, example in zip(rows, examples, strict=True):
        if task.head == "span":
            assert row["text"]
            assert row["text"] in example.context
        elif task.head == "choice":
            assert len(row["scores"]) == len(example.options)
        elif task.head == "tag":
            assert len(row["tags"]) == len(example.words)
        elif task.head == "coref":
            mentions = [tuple(mention) for cluster in row["clusters"] for mention in cluster]
            assert len(set(mentions)) == len(mentions)
            assert all(0 <= a < b <= len(example.words) for a, b in mentions)
