"""Model card of an exported model: metadata for the hub, and code snippets for transformers."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from benchharness.cli.output import outline
from benchharness.extensions.kept_models.card import Card, card_of, card_text, snippet, write_card
from benchharness.extensions.kept_models.export import find_seed
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.store.store import Store
from benchharness.tasks.suites import find_task
from tests.extensions.kept_models.taken import taken
from tests.helpers.results import make_job, make_result

HOOK = """\
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "benchharness":
            raise ImportError(name)
sys.meta_path.insert(0, Refused())
"""


SOAK = ("glue/stsb", "superglue/copa", "conll2003/ner")


@pytest.mark.parametrize(
    "tasks", [("glue/sst2", "squad/v2.0"), pytest.param(SOAK, marks=pytest.mark.soak)]
)
def test_model_card_snippets_run_without_benchharness(
    tmp_path: Path, tasks: tuple[str, ...]
) -> None:
    snippets = []
    for task in tasks:
        folder = taken(tmp_path, task)
        card = card_of(folder, "mini")
        write_card(folder, replace(card, seeds={1: 0.5, 2: 0.6}))
        text = (folder / "README.md").read_text()
        snippets.append(snippet(card))
        assert snippets[-1] in text
        assert "not the best of 2 runs that differ only in the seed." in text
        assert "The scores by seed are 1: 50.00, 2: 60.00." in text
        assert text.rstrip().endswith(f"hf upload {folder.name} {folder.name}\n```")
        read = ModelCard(text)
        assert read.data.license is None
        assert read.data.datasets is None  # mini data are synthetic and not on the hub
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([HOOK, *snippets])],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(tasks)


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((0.0, 0.0, 0.0), "as good as the best of 3 seeds"),
        ((0.7, 0.7, 0.5), "as good as the best of 3 seeds"),
        ((0.5, 0.7, 0.7), "not the best of 3 seeds"),
        ((0.7, 0.6, 0.5), " is the best of 3 seeds"),
    ],
)
def test_model_card_calls_tied_seeds_equally_good(
    tmp_path: Path, scores: tuple[float, ...], said: str, store: Store
) -> None:
    """Regression test: a card said both "the best of them" and "not the best of them"."""
    jobs = [make_job(seed=seed) for seed in (1, 2, 3)]
    store.add_results(map(make_result, jobs))
    keys = dict(zip((job.key for job in jobs), scores, strict=True))
    note = find_seed(store, "db", keys, 1).note
    assert said in note
    card = Card(
        name="x",
        job=jobs[0],
        task=find_task("glue/rte"),
        splits={},
        versions={},
        auto_class="",
        seeds=dict(zip((1, 2, 3), scores, strict=True)),
        notes=[note],
    )
    text = card_text(card)
    assert text.count(said.removesuffix(" 3 seeds")) == 2
    others = {"not the best", "as good as the best", " is the best"} - {
        said.removesuffix(" of 3 seeds")
    }
    assert not any(f"{other} of 3 seeds" in text for other in others)


@pytest.mark.parametrize(
    ("scores", "seed", "said"),
    [
        ((1.0, 0.6), 2, "whose score is the lower of the two nearest to the median, 60.00. It is "),
        ((0.6, 1.0), 1, "whose score is the lower of the two nearest to the median, 60.00. It is "),
        ((0.9, 0.2, 0.4), 3, "whose score is the one nearest to the median, 40.00. It is "),
        ((0.5, 0.5), 1, "whose score is the one nearest to the median, 50.00. It is as good as"),
    ],
)
def test_exported_seed_is_the_lower_of_two_that_are_equally_near_to_the_median(
    scores: tuple[float, ...], seed: int, said: str, store: Store
) -> None:
    """Regression test: rounding made 1.0 nearer than 0.6 to their median."""
    jobs = [make_job(seed=number + 1) for number in range(len(scores))]
    store.add_results(map(make_result, jobs))
    keys = dict(zip((job.key for job in jobs), scores, strict=True))
    found = find_seed(store, "db", keys)
    assert found.result.job.seed == seed
    assert said in found.note


def test_model_card_states_which_values_of_a_setting_were_tried() -> None:
    rate = Setting(value=1e-4, source="--set", one_of=("5e-05", "0.0001"))
    job = replace(make_job(), settings={"learning_rate": rate})
    task = find_task("glue/rte")
    card = Card(name="x", job=job, task=task, splits={}, versions={}, auto_class="")
    tried = "one of 5e-05, 0.0001 (--set or `bench which`)"
    assert f"| learning_rate | 0.0001 | {tried} |" in card_text(card)
    assert [*outline({"learning_rate": rate.to_json()})] == [f"learning_rate: 0.0001  ({tried})"]


def test_model_card_has_the_facts_of_extensions_about_its_run() -> None:
    fact = "reproduced 3 times on 2 machines (the same bits)"
    parts = {"splits": {}, "versions": {}, "auto_class": "", "facts": [fact]}
    card = Card(name="x", job=make_job(), task=find_task("glue/rte"), **parts)
    scores = card_text(card).partition("## Scores")[2].partition("## Training")[0]
    assert f"This run was {fact}." in scores


def test_model_card_of_a_collapsed_run_begins_with_a_warning(tmp_path: Path) -> None:
    folder = taken(tmp_path, "glue/sst2")
    told = json.loads((folder / "benchharness.json").read_text())
    told["flags"] = {"glue/sst2": ["constant predictions"]}
    (folder / "benchharness.json").write_text(json.dumps(told))
    text = card_text(card_of(folder, "mini"))
    head, _, body = text.partition("\n---\n")
    assert "accuracy (constant predictions)" in head
    assert ModelCard(text).data.eval_results[0].metric_args["flags"] == ["constant predictions"]
    assert body.split("\n\n")[1] == "**The model has learned nothing: constant predictions.**"
    assert re.search(r"accuracy \| 0\.\d{4}! \|", body)
    assert "!: constant predictions: these scores." in body
