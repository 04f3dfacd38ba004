"""Tests of zero-shot scoring: pseudo-log-likelihoods, patterns and jobs without training."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    AlbertConfig,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ElectraForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
)
from transformers import AutoModelForMaskedLM as MaskedLM

from benchharness.encoder.tokenizer import load_tokenizer
from benchharness.errors import BenchError, DataError, JobError, ModelError
from benchharness.extensions.cloze.language_model import LanguageModel, Reading, load_language_model
from benchharness.extensions.cloze.scoring import (
    Asked,
    Candidate,
    Scoring,
    candidates,
    encode,
    predict_untrained,
)
from benchharness.extensions.minimal_pairs.tasks import PARADIGMS
from benchharness.leaderboard.store.store import open_store
from benchharness.models import find_model
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.examples import ChoiceExample, Mark, PairExample
from benchharness.tasks.read import draw_shots, read
from benchharness.tasks.sources import parse_data, rows
from benchharness.tasks.suites import TASKS, find_task
from benchharness.tiny import folder
from benchharness.worker.job import run_job
from benchharness.worker.zero_shot import run_zero_shot
from tests.helpers.hub_files import write_configs, write_parquet
from tests.helpers.hub_server import serve_hub
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.training import CPU

TINY = find_model("tiny")
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 70,
}
SENTENCES = ("The baker sold the car.", "Anna slept.", "The old driver sold every car at noon.")


def tokenizer():
    return load_tokenizer(folder(), BertConfig())


def model_of(config, seed: int = 1) -> LanguageModel:
    """Return a language model with the tokenizer of tiny and large random weights."""
    torch.manual_seed(seed)
    config = deepcopy(config)  # a copy, because packing changes the config's attention
    is_causal = config.model_type == "gpt2"
    network = (GPT2LMHeadModel(config) if is_causal else MaskedLM.from_config(config)).eval()
    for weight in network.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    known = tokenizer()
    return LanguageModel(network=network, tokenizer=known, is_causal=is_causal, max_tokens=64)


def words() -> int:
    return len(tokenizer())


def whole(text: str) -> Candidate:
    return Candidate(first=text, second=None, is_in_second=False, start=0, end=len(text))


def one_mask_at_a_time(model: LanguageModel, text: str) -> float:
    """Compute the pseudo-log-likelihood as in its paper: one forward pass per masked token."""
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = model.tokenizer.mask_token_id
        with torch.no_grad():
            logits = model.network(input_ids=masked).logits[0, place].double()
        total += float(logits.log_softmax(-1)[ids[0, place]])
    return total


def scored(model: LanguageModel, texts) -> np.ndarray:
    scoring = Scoring(model)
    for each in encode(model, texts):
        scoring.add(each)
    return scoring.scores(CPU, lambda: None)


CONFIGS = [
    BertConfig(vocab_size=words(), **SMALL),
    RobertaConfig(vocab_size=words(), pad_token_id=0, **SMALL),
    ElectraConfig(vocab_size=words(), embedding_size=16, **SMALL),
    AlbertConfig(vocab_size=words(), embedding_size=16, **SMALL),
    DistilBertConfig(vocab_size=words(), dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    ModernBertConfig(vocab_size=words(), pad_token_id=0, local_attention=8, **SMALL),
    MPNetConfig(vocab_size=words(), pad_token_id=0, **SMALL),
    DebertaV2Config(vocab_size=words(), **SMALL),
]


@pytest.mark.parametrize("config", CONFIGS, ids=[config.model_type for config in CONFIGS])
def test_pseudo_log_likelihood_in_packed_batches_equals_masking_one_token_at_a_time(config) -> None:
    model = model_of(config)
    expected = [one_mask_at_a_time(model, text) for text in SENTENCES]
    model.prepare(torch.device("cpu"))
    found = scored(model, list(map(whole, SENTENCES)))
    assert found == pytest.approx(expected, abs=1e-5, rel=1e-5)
    assert len({round(score, 3) for score in found}) == len(SENTENCES)


def test_causal_model_score_is_the_sum_of_token_log_probabilities() -> None:
    config = GPT2Config(
        vocab_size=words(), n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=2
    )
    model = model_of(config)
    model.tokenizer.bos_token = "[CLS]"
    ids = model.tokenizer(f"[CLS] {SENTENCES[0]}", add_special_tokens=False, return_tensors="pt")
    with torch.no_grad():
        logits = model.network(input_ids=ids.input_ids).logits[0].double().log_softmax(-1)
    steps = [float(logits[n, token]) for n, token in enumerate(ids.input_ids[0, 1:])]
    model.prepare(torch.device("cpu"))
    assert scored(model, [whole(SENTENCES[0])])[0] == pytest.approx(sum(steps), abs=1e-5)
    # If the answer is inside the text, the tokens after it are scored, and those before it are not.
    inside = replace(whole(SENTENCES[0]), start=4, end=9)
    assert scored(model, [inside])[0] == pytest.approx(sum(steps[1:]), abs=1e-5)


def test_identical_masked_inputs_are_computed_only_once() -> None:
    model = model_of(CONFIGS[0])
    model.prepare(torch.device("cpu"))
    # Each of the two words is one token.
    texts = [f"The baker sold the {thing}." for thing in ("car", "house")]
    answers = [replace(whole(text), start=19, end=len(text) - 1) for text in texts]
    scoring, read_rows = Scoring(model), []
    for each in encode(model, answers):
        assert len(each.places) == 1
        scoring.add(each)
    read = LanguageModel.log_probabilities

    def counted(self, readings: list[Reading]):
        read_rows.extend(readings)
        return read(self, readings)

    LanguageModel.log_probabilities = counted
    try:
        scores = scoring.scores(CPU, lambda: None)
    finally:
        LanguageModel.log_probabilities = read
    assert len(read_rows) == 1
    assert len(read_rows[0].asked) == 2
    assert scores[0] != scores[1]


def texts_of(task: str, example) -> list[tuple[str, str | None, str]]:
    values = {name: s.value for name, s in zero_shot_recipe(task, TINY).settings.items()}
    found = candidates(find_task(task), example, values)
    return [
        (
            each.first,
            each.second,
            (each.second or "" if each.is_in_second else each.first)[each.start : each.end],
        )
        for each in found
    ]


PAIR = PairExample(id="1", text_a="He left.", text_b="They stayed?", label=None)


@pytest.mark.parametrize(
    ("task", "example", "first", "answers"),
    [
        ("glue/sst2", PAIR, ("He left. It was terrible.", None), ["terrible", "great"]),
        ("glue/mrpc", PAIR, ("He left. No, they stayed?", None), ["No", "Yes"]),
        ("glue/stsb", PAIR, ("He left. No, they stayed?", None), ["No", "Yes"]),
        ("glue/mnli", PAIR, ("He left? Yes, they stayed?", None), ["Yes", "Maybe", "No"]),
        ("superglue/rte", PAIR, ('"They stayed" ?', 'Yes, "He left."'), ["Yes", "No"]),
        (
            "superglue/multirc",
            replace(PAIR, text_b="Who left? the man"),
            ("He left.. Question: Who left? Is it the man? No.", None),
            ["No", "Yes"],
        ),
        (
            "superglue/wic",
            replace(PAIR, marks=(Mark(text="a", start=3, end=7), Mark(text="b", start=5, end=11))),
            ('"He left." / "They stayed?" Similar sense of "left"? No.', None),
            ["No", "Yes"],
        ),
        (
            "superglue/copa",
            ChoiceExample(
                id="1",
                context="He left.",
                question="What was the cause of this?",
                options=("It rained.", "She sang."),
            ),
            ('"it rained" or "she sang"? He left because it rained.', None),
            ["it rained", "she sang"],
        ),
        (
            "superglue/record",
            ChoiceExample(
                id="1", context="Text.", question="So @placeholder left.", options=("Ann", "Bo")
            ),
            ("Text. So Ann left.", None),
            ["Ann", "Bo"],
        ),
        (
            "swag/regular",
            ChoiceExample(id="1", context="A.", question="She", options=("sits.", "runs.")),
            ("A. She sits.", None),
            ["sits.", "runs."],
        ),
    ],
)
def test_zero_shot_example_is_formatted_by_the_pattern_of_its_task(
    task, example, first, answers
) -> None:
    found = texts_of(task, example)
    assert found[0][:2] == first
    assert [answer for *_, answer in found] == answers


def test_zero_shot_patterns_have_a_text_for_each_label_or_option() -> None:
    for name, task in TASKS.items():
        if (
            task.trained_on
            or task.head in {"span", "tag", "coref", "ranking", "timed"}
            or task.suite in ("sst", "xtreme", "lexglue", "needle")
        ):
            continue
        example = read(task, task.dev_splits[0], parse_data("mini")).examples[0]
        labels = getattr(task, "labels", ()) or getattr(example, "options", ("low", "high"))
        assert len(texts_of(name, example)) == len(labels)


@pytest.mark.parametrize("task", ["squad/v2.0", "conll2003/ner"])
def test_zero_shot_job_on_a_task_without_a_pattern_is_an_error(task: str) -> None:
    with pytest.raises(BenchError, match=f"{task} has no prompt"):
        plan_jobs([TINY], task, shots=[0])


def test_zero_shot_text_is_truncated_so_that_the_candidates_fit() -> None:
    model = model_of(CONFIGS[0])
    model.prepare(torch.device("cpu"))
    task = find_task("boolq")
    values = {n: s.value for n, s in zero_shot_recipe(task.name, TINY).settings.items()}
    values["max_tokens"] = model.max_tokens
    long = PairExample(id="1", text_a="the car " * 300, text_b="did he sell it", label="True")
    asked = Asked(model=model, task=task, values=values, compute=CPU)
    (found,) = predict_untrained(asked, [long])
    assert sum(found.scores) == pytest.approx(1.0)
    with pytest.raises(JobError, match="do not fit into 9"):
        predict_untrained(replace(asked, values={**values, "max_tokens": 9}), [long])


def test_zero_shot_checkpoint_without_a_language_model_head_is_an_error(tmp_path) -> None:
    for name, network in (
        ("encoder", BertModel(CONFIGS[0])),
        ("discriminator", ElectraForPreTraining(CONFIGS[2])),
    ):
        network.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
        with pytest.raises(ModelError, match="saved without its language-model head"):
            load_language_model(str(tmp_path / name), None, 1)
    BertForMaskedLM(CONFIGS[0]).save_pretrained(tmp_path / "whole")
    tokenizer().save_pretrained(tmp_path / "whole")
    assert not load_language_model(str(tmp_path / "whole"), None, 1).is_causal


# Jobs.


def test_zero_shot_job_is_planned_once_per_task_without_training_rows() -> None:
    jobs = plan_jobs([TINY], "sst2", "mini", [1, 2], shots=[0, 8, 32]).jobs
    assert [(job.recipe, job.seed, job.kind) for job in jobs] == [
        ("paper", 1, "model"),
        ("paper", 2, "model"),
        ("paper", 1, "model"),
        ("paper", 2, "model"),
        ("zero-shot", 0, "zero-shot"),
    ]
    assert [job.values.get("shots") for job in jobs] == [8, 8, 32, 32, None]
    assert list(jobs[-1].fingerprints) == ["glue/sst2:dev"]
    plain = plan_jobs([TINY], "sst2").jobs[0]
    assert "shots" not in plain.settings


def test_task_without_training_rows_is_planned_as_a_zero_shot_job() -> None:
    job = plan_job([TINY], "blimp/blimp", "mini", [1, 2])
    assert (job.kind, job.recipe, job.is_zero_shot) == ("model", "zero-shot", True)
    with pytest.raises(BenchError, match="has no training rows: use --shots 0"):
        plan_jobs([TINY], "blimp/blimp", shots=[8])


def test_too_many_shots_or_shots_with_start_from_are_an_error() -> None:
    with pytest.raises(DataError, match="250 training rows here"):
        plan_jobs([TINY], "cb", shots=[251])
    with pytest.raises(BenchError, match="cannot be combined"):
        plan_jobs([TINY], "cb", shots=[8], start_from="glue/mnli")


def test_few_shot_examples_are_sampled_by_seed_with_stratified_labels() -> None:
    rows = read(find_task("sst2"), "train", parse_data("mini"))
    one, again, other = (draw_shots(rows, 32, seed) for seed in (1, 1, 2))
    assert one == again
    assert one.fingerprint != other.fingerprint
    assert len(one.examples) == 32
    assert set(draw_shots(rows, 8, 1).examples) < set(one.examples)
    positive = sum(e.label == "positive" for e in rows.examples) / len(rows.examples)
    assert sum(e.label == "positive" for e in one.examples) / 32 == pytest.approx(
        positive, abs=0.04
    )


def test_a_k_shot_job_trains_on_k_rows() -> None:
    job = plan_job([TINY], "glue/rte", shots=[8], overrides={"epochs": "1"}, limit=40)
    result = run_job(replace(job, precision="fp32"))
    assert result.provenance["data"]["glue/rte:train"]["rows"] == 8
    assert result.cost.steps == 1


def test_a_zero_shot_job_predicts_every_split_deterministically() -> None:
    job = plan_job([TINY], "mnli", shots=[0], limit=12, precision="fp32")
    one, two = run_zero_shot(job), run_zero_shot(job)
    assert [e.name for e in one.evaluations] == [
        "glue/mnli:dev",
        "glue/mnli:dev_mm",
        "glue/ax:test",
    ]
    assert one.evaluations == two.evaluations
    assert one.cost.parameters > 0
    assert json.dumps(one.to_json())


@pytest.mark.soak
def test_blimp_read_from_the_hub_gives_the_scores_of_blimp_read_from_files(tmp_path) -> None:
    """Serve BLiMP's 67 configs at their pinned commit, with the rows of the packaged data."""
    blimp = find_task("blimp/blimp")
    commit = tmp_path / "hub" / "datasets" / "nyu-mll/blimp" / blimp.source.revision
    there = [dict(row) for row in rows(blimp.source, "dev", parse_data("mini"))]
    for name in PARADIGMS:
        made = [
            {**row, "pair_id": int(str(row["pair_id"])), "field": "syntax"}
            for row in there
            if row["UID"] == name
        ]
        write_parquet(commit / name / "train-00000-of-00001.parquet", made)
    write_configs(commit, dict.fromkeys(PARADIGMS, ("train",)))
    run = ("run", "--model", "tiny", "--suite", "blimp", "--precision", "fp32", "--device", "cpu")
    with serve_hub(tmp_path / "hub") as hub:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment = kept | {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")}
        first, again = (
            subprocess.run(
                (sys.executable, "-P", "-m", "benchharness", *run, "--data", data, "--json"),
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env=environment | {"HF_HUB_DISABLE_XET": "1"},
                check=False,
            )
            for data in ("hub", "mini")
        )
    assert first.returncode == 0, first.stderr
    assert again.returncode == 0, again.stderr
    with open_store(tmp_path / "results" / "leaderboard.sqlite", create=False) as store:
        (row,) = [row for row in store.runs() if row.model == "tiny"]
        assert len(store.attempts(row.key)) == 1  # the run on mini data, which was stored before
    assert row.data == "hub"
    assert {f"accuracy_{name}" for name in PARADIGMS} <= row.scores["blimp/blimp"].keys()
    mean = np.mean([row.scores["blimp/blimp"][f"accuracy_{name}"] for name in PARADIGMS])
    assert row.scores["blimp/blimp"]["accuracy"] == pytest.approx(mean)
