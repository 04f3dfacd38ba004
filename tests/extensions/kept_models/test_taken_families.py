"""Every family and head with a transformers class is exported and read by it alone."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from benchharness.encoder import load_encoder
from benchharness.encoder.padding import SEES_PADDING
from benchharness.extensions.kept_models.check import FORBIDDEN, Dev
from benchharness.extensions.kept_models.load import TrainedModel
from benchharness.extensions.kept_models.save_pretrained import class_of, take
from benchharness.heads import Limits, head_for
from benchharness.heads.choice import filled
from benchharness.leaderboard.job import Job
from benchharness.models.families import has_class
from benchharness.recipes.classes import COMPARED, KINDS, LACKING
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.examples import ChoiceExample, PairExample, SpanExample, TagExample
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.batching import pad
from benchharness.training.predict import predict
from benchharness.worker.kept_network import kept_network
from tests.helpers import plain_transformers
from tests.helpers.families import DECODERS, FAMILIES, make_config, save_family
from tests.helpers.mini_jobs import make_job
from tests.helpers.results import make_result
from tests.helpers.soak import in_part
from tests.helpers.training import CPU

TASKS = {
    "pair": "glue/mrpc",
    "choice": "swag/regular",
    "span": "squad/v1.1",
    "tag": "conll2003/ner",
}
CUT = {"pair": True, "choice": "only_first", "span": "only_second", "tag": True}
LONGER = 0.75
"""Share of the rows that are not truncated; questions and options never are."""

LIMIT, PACKED = 1e-6, 1e-5
"""Relative tolerances of logits: of rows with equal padding, and otherwise."""

CASES = [
    *((family, kind) for family in FAMILIES for kind in KINDS if (family, kind) not in LACKING),
    *((family, kind) for family in DECODERS for kind in KINDS if has_class(family, KINDS[kind])),
]


def _one_of(family: str, place: int) -> tuple[str, str]:
    kinds = [kind for other, kind in CASES if other == family]
    return family, kinds[place % len(kinds)]


IN_CI = {
    *(_one_of(family, place) for place, family in enumerate(FAMILIES) if place % 6 == 0),
    ("modernbert-decoder", "pair"),
}
"""One head of every sixth family, in turn, and a decoder; the others are soak tests."""


@cache
def job_of(kind: str) -> Job:
    return make_job(TASKS[kind], limit=8)


@cache
def rows_of(kind: str) -> SplitRows:
    return read(find_task(TASKS[kind]), "dev", parse_data("mini"), 8)


def make_model(family: str, kind: str, folder: Path) -> TrainedModel:
    """Return a model with random weights and biases."""
    save_family(folder, family)
    encoder = load_encoder(str(folder), None, 1)
    task: Any = find_task(TASKS[kind])
    head = head_for(task)
    network = head.network(encoder, task)
    for name, weight in network.named_parameters():
        # Biases are initialized with zeros, which would hide that one is not exported.
        if name.endswith("bias"):
            nn.init.normal_(weight, std=0.3)
    whole = head.encode(rows_of(kind).examples, encoder.tokenizer, Limits(max_tokens=70))
    most = int(np.quantile(whole.lengths, LONGER))
    job = job_of(kind)
    reads = {"max_tokens": replace(job.settings["max_tokens"], value=most)}
    job = replace(job, settings={**job.settings, **reads})
    return TrainedModel(
        folder=folder,
        job=job,
        recipe=Recipe.from_settings(job.settings),
        task=task,
        head=head,
        network=network.eval().requires_grad_(False),
        tokenizer=encoder.tokenizer,
        limits=Limits(max_tokens=most, stride=4, is_causal=encoder.is_causal),
        compute=CPU,
    )


def texts_of(model: TrainedModel) -> list[list[list[str]]]:
    """Return the texts of the rows per example."""
    found = []
    for e in rows_of(model.task.head).examples:
        match e:
            case PairExample():
                found.append([[e.text_a, e.text_b]])
            case ChoiceExample():
                found.append([[e.context, filled(e.question, option)] for option in e.options])
            case SpanExample():
                found.append([[e.question, e.context]])
            case TagExample():
                found.append([[" ".join(e.words)]])
    return found


def own_logits(model: TrainedModel) -> list[np.ndarray]:
    """Return the logits of each example's first window, with the padding of the script."""
    kind, examples = model.task.head, rows_of(model.task.head).examples
    features = [model.head.encode([e], model.tokenizer, model.limits) for e in examples]
    batches = [(each, np.arange(len(each))) for each in features]
    if kind != "choice":
        every = model.head.encode(examples, model.tokenizer, model.limits)
        firsts = np.cumsum([0, *map(len, features)])[:-1]
        batches = [(every, firsts)]
    found = []
    for each, rows in batches:
        arrays = pad(each, rows, width=int(each.lengths[rows].max()))
        inputs = {name: torch.from_numpy(array) for name, array in arrays.items()}
        logits = model.network(**inputs)
        is_token = inputs["attention_mask"].bool()
        found.append((logits[is_token] if kind in ("span", "tag") else logits).numpy())
    return found


@pytest.fixture(scope="module")
def taken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[tuple[str, str], Any]:
    """Exported models, own logits and those of transformers alone, by (family, head).

    The logits of the written folder, loaded as by `bench predict`, are compared too. Only models
    that this session's tests need are made.
    """
    ours = (item for item in request.session.items if item.path == request.path)
    calls = (getattr(item, "callspec", None) for item in ours)
    chosen = {(c.params.get("family"), c.params.get("kind")) for c in calls if c}
    root, threads = tmp_path_factory.mktemp("taken"), torch.get_num_threads()
    torch.set_num_threads(1)  # such small networks are slower with several threads
    found: dict[tuple[str, str], Any] = {}
    asked = {}
    for family, kind in CASES:
        if (family, kind) not in chosen:
            continue
        model = make_model(family, kind, root / f"{family}-{kind}-own")
        rows = rows_of(kind)
        features = model.head.encode(rows.examples, model.tokenizer, model.limits)
        logits = predict(model.network, features, CPU, lambda _: None)
        stored = model.head.decode(logits, features, rows.examples, model.task)
        to = root / f"{family}-{kind}"
        result = make_result(model.job)
        found[family, kind] = (
            take(model, result, to, [Dev(f"{model.task.name}:dev", rows, stored)]),
            own_logits(model),
        )
        run = kept_network(to, model.job, CPU)
        (setup,) = run.setups
        again = setup.head.encode(rows.examples, run.encoder.tokenizer, model.limits)
        for one, other in zip(
            logits, predict(setup.network, again, CPU, lambda _: None), strict=True
        ):
            apart = np.abs(one - other).max()
            assert apart <= PACKED * max(1.0, np.abs(one).max()), (family, kind)
        asked[str(to)] = (
            class_of(model).auto_class,
            texts_of(model),
            CUT[kind],
            family in SEES_PADDING,
        )
    script, out = Path(plain_transformers.__file__), root / "logits.npz"
    command = [sys.executable, "-I", str(script), str(out)]
    subprocess.run(command, input=json.dumps(asked), text=True, check=True, cwd=root)
    torch.set_num_threads(threads)
    theirs: dict[str, list[np.ndarray]] = {}
    with np.load(out) as arrays:
        for name in arrays.files:
            theirs.setdefault(name.partition("|")[0], []).append(arrays[name])
    return {case: (*each, theirs[str(each[0].folder)]) for case, each in found.items()}


@pytest.mark.parametrize(("family", "kind"), in_part(CASES, IN_CI))
def test_exported_model_has_equal_logits_in_transformers_alone(taken, family: str, kind: str):
    written, ours, theirs = taken[family, kind]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        possible = other > FORBIDDEN  # BigBird's class does not allow answers in the question
        assert possible.sum() > 0.6 * possible.size
        assert np.std(one) > 100 * LIMIT
        apart = np.abs(one - other)[possible].max()
        assert apart <= LIMIT * max(1.0, float(np.abs(other[possible]).max()))
    assert written.checked.sampled == 8
    assert written.checked.apart <= PACKED
    assert written.checked.differ == 0
    assert written.checked.largest_change <= PACKED


def test_export_covers_every_head_class_of_transformers():
    have = {
        (family, kind)
        for kind, name in KINDS.items()
        for family in (*FAMILIES, *DECODERS)
        if type(make_config(family)) in getattr(transformers, f"AutoModelFor{name}")._model_mapping
    }
    # These two classes of T5 use the decoder.
    assert have - {("t5", "pair"), ("t5", "span")} == set(CASES)
    assert set(FAMILIES) == COMPARED


def test_documentation_lists_which_families_have_transformers_classes():
    page = (Path(__file__).parents[3] / "docs" / "taking.md").read_text()
    kinds: dict[tuple[str, ...], list[str]] = {}
    for family in FAMILIES:
        has = tuple("x" if (family, kind) in CASES else "" for kind in KINDS)
        kinds.setdefault(has, []).append(family)
    rows = [("family", *KINDS), ("---",) * 5]
    rows += [(", ".join(names), *has) for has, names in kinds.items()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    assert "\n".join(lines) in page
