"""Tests that `bench explain` reads every known argument of another training run."""

import json
import os
import pickle
import zipfile
from dataclasses import replace
from typing import Any

import pytest

import benchharness as bh
from benchharness.errors import BenchError, DataError
from benchharness.extensions.explanation import training
from benchharness.extensions.explanation.beside import explain_run
from benchharness.extensions.explanation.foreign import _official_rows
from benchharness.extensions.explanation.training import ALL_DECAY, OWN, Said, of_arguments
from benchharness.leaderboard.boards import published
from benchharness.leaderboard.store.store import open_store
from benchharness.recipes.recipe import SETTINGS
from benchharness.tasks.read import has_split, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.foreign_training import DecayOfAll, train, write_folder
from tests.helpers.plans import plan_job
from tests.helpers.results import make_evaluation, make_result

ROWS = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a checkpoint."""
    folder = tmp_path_factory.mktemp("words")
    save_checkpoint(folder / "small")
    return folder


@pytest.fixture(scope="module")
def explained(place):
    """Return a function that compares a training with one of three runs (MRPC or SQuAD)."""
    runs = {
        name: make_result(
            plan_job(str(place / "small"), task, limit=ROWS, precision="fp32", overrides=values),
            provenance={"data": {f"{task}:{split}": {"rows": ROWS} for split in ("train", "dev")}},
        )
        for name, task, values in (
            ("mrpc", "glue/mrpc", {}),
            ("best", "glue/mrpc", {"best_checkpoint": "true", "evaluations": "3"}),
            ("squad", "squad/v1.1", {}),
        )
    }
    with open_store(place / "board.sqlite") as store:
        yield lambda other, run="mrpc": explain_run(runs[run], str(other), store)


def answer(found):
    """Return all fields of an explanation except the name of the other training."""
    return {n: v for n, v in vars(found).items() if n != "other"}


def named(found):
    return [each.name for each in found.differences]


SCRIPT = {"task_name": "mrpc", "learning_rate": 5e-5, "num_train_epochs": 3}

WORDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "optim": ({}, {"optim": "sgd"}),
    "optim_args": ({"optim": "adamw_torch"}, {"optim_args": "betas=0.5"}),
    "adafactor": ({}, {"adafactor": True}),
    "lr_scheduler_type": ({}, {"lr_scheduler_type": "cosine"}),
    "lr_scheduler_kwargs": (
        {"lr_scheduler_type": "cosine"},
        {"lr_scheduler_kwargs": '{"num_cycles": 2}'},
    ),
    "warmup_steps": ({}, {"warmup_steps": 500}),
    "warmup_ratio": ({}, {"warmup_ratio": 0.5}),
    "num_warmup_steps": ({"warmup_steps": None}, {"num_warmup_steps": 500}),
    "max_steps": ({}, {"max_steps": 7000}),
    "max_train_steps": ({}, {"max_train_steps": 7000}),
    "num_train_epochs": ({}, {"num_train_epochs": 9}),
    "num_epochs": ({"num_train_epochs": None}, {"num_epochs": 9}),
    "total_train_batch_size": ({}, {"total_train_batch_size": 77}),
    "train_batch_size": ({"per_device_train_batch_size": None}, {"train_batch_size": 77}),
    "per_device_train_batch_size": ({}, {"per_device_train_batch_size": 77}),
    "per_gpu_train_batch_size": ({}, {"per_gpu_train_batch_size": 77}),
    "gradient_accumulation_steps": ({}, {"gradient_accumulation_steps": 77}),
    "num_devices": ({}, {"num_devices": 77}),
    "nproc_per_node": ({}, {"nproc_per_node": 77}),
    "max_grad_norm": ({}, {"max_grad_norm": 0.3}),
    "fp16": ({}, {"fp16": True}),
    "bf16": ({}, {"bf16": True}),
    "tf32": ({}, {"tf32": True}),
    "mixed_precision": ({"fp16": None}, {"mixed_precision": "Native AMP"}),
    "seed": ({}, {"seed": 99}),
    "data_seed": ({}, {"data_seed": 99}),
    "label_smoothing_factor": ({}, {"label_smoothing_factor": 0.3}),
    "neftune_noise_alpha": ({}, {"neftune_noise_alpha": 5.0}),
    "group_by_length": ({}, {"group_by_length": True}),
    "train_sampling_strategy": ({}, {"train_sampling_strategy": "sequential"}),
    "load_best_model_at_end": ({}, {"load_best_model_at_end": True}),
    "metric_for_best_model": (
        {"load_best_model_at_end": True},
        {"metric_for_best_model": "loss"},
    ),
    "early_stopping_patience": ({}, {"early_stopping_patience": 2}),
    "eval_strategy": ({"load_best_model_at_end": True}, {"eval_strategy": "epoch"}),
    "evaluation_strategy": ({"load_best_model_at_end": True}, {"evaluation_strategy": "epoch"}),
    "dataloader_drop_last": ({}, {"dataloader_drop_last": True}),
    "pad_to_max_length": (
        {"task_name": None, "dataset_name": "squad"},
        {"pad_to_max_length": True},
    ),
    "task_name": ({}, {"task_name": "cola"}),
    "dataset_name": ({}, {"dataset_name": "squad"}),
    "dataset_config_name": ({"dataset_name": "glue"}, {"dataset_config_name": "cola"}),
    "model_name_or_path": ({}, {"model_name_or_path": "bert-base-uncased"}),
    "do_lower_case": ({}, {"do_lower_case": False}),
    "max_train_samples": ({}, {"max_train_samples": 7}),
    "max_eval_samples": ({}, {"max_eval_samples": 7}),
    "max_val_samples": ({}, {"max_val_samples": 7}),
}
"""Other arguments, and the argument with a value that no run here has, by argument."""

RUNS = dict.fromkeys(("metric_for_best_model", "eval_strategy", "evaluation_strategy"), "best")
RUNS["pad_to_max_length"] = "squad"
"""Run that an argument is compared with, if not MRPC: padding affects SQuAD's softmax."""

OF_FOLDERS = {"eval_steps", "distributed_state"}
"""Arguments that depend on the number of steps, or are an object of accelerate."""


def test_every_known_training_argument_has_a_test_case() -> None:
    assert WORDS.keys() | OF_FOLDERS == {*OWN}


@pytest.mark.parametrize("word", WORDS)
def test_every_known_training_argument_affects_the_explanation(word, explained, tmp_path) -> None:
    found = []
    given, changed = WORDS[word]
    for arguments in (given, given | changed):
        file = tmp_path / "args.json"
        file.write_text(json.dumps(SCRIPT | arguments))
        try:
            found.append(answer(explained(file, RUNS.get(word, "mrpc"))))
        except BenchError as error:  # the changed argument selects another task
            found.append({"error": str(error)})
    assert found[0] != found[1]


def test_arguments_stored_only_in_output_folders_affect_the_explanation(
    explained, place, tmp_path
) -> None:
    strategy = {"evaluation_strategy": "steps", "load_best_model_at_end": True}
    found = [
        of_arguments({n: Said(v, "") for n, v in (strategy | {"eval_steps": steps}).items()}, 60)
        for steps in (10, 20)
    ]
    assert found[0] != found[1]
    state = training.Described("accelerate.PartialState", (), {"num_processes": 4})
    batch = {"per_device_train_batch_size": Said(8, ""), "distributed_state": Said(state, "")}
    assert of_arguments(batch)[0]["batch_size"].value == 32


@pytest.mark.parametrize(
    "word", [*SETTINGS, *(alias for facts in SETTINGS.values() for alias in facts.aliases)]
)
def test_every_hyperparameter_name_is_read_or_listed_as_unknown(word: str) -> None:
    if word in OWN:
        return
    found, unknown = of_arguments({word: Said(0.123, "here")})
    assert found or word in unknown


@pytest.mark.parametrize(
    ("cut", "length", "points"), [(0, 900, None), (3, 900, 13.8), (0, 9, 13.8)]
)
def test_max_length_difference_has_an_effect_only_if_rows_are_truncated(
    cut, length, points, place, tmp_path
) -> None:
    run = make_result(
        plan_job(str(place / "small"), "glue/mrpc", limit=ROWS, precision="fp32"),
        provenance={"data": {"glue/mrpc:train": {"rows": ROWS, "truncated": cut}}},
    )
    file = tmp_path / "args.json"
    file.write_text(json.dumps(SCRIPT | {"max_seq_length": length}))
    with open_store(tmp_path / "board.sqlite") as store:
        found = explain_run(run, str(file), store)
    assert [e.points for e in found.differences if e.name == "max_tokens"] == [points]


# The model and its tokenizer.


@pytest.mark.parametrize(
    ("name", "here"),
    [("bert-base-uncased", False), ("org/other", False), ("small", True), ("/data/Small/", True)],
)
def test_different_checkpoint_is_the_first_reported_difference(
    name, here, explained, tmp_path
) -> None:
    file = tmp_path / "same.sh"
    file.write_text(f"python run_glue.py --model_name_or_path {name} --task_name mrpc")
    found = explained(file)
    assert "model" not in {*found.not_said, *found.unread}
    if here:
        assert "model" not in named(found)
        return
    first = found.differences[0]
    assert (first.name, first.ours, first.theirs) == ("model", "small", name)


def test_checkpoint_name_in_a_config_is_reported_as_a_difference(explained, place, tmp_path):
    changes: Any = {"CONFIG": {"_name_or_path": "org/other"}}
    found = explained(write_folder(tmp_path / "out", place / "small", **changes))
    assert [(e.name, e.theirs) for e in found.differences] == [("model", "org/other")]


LEFT = {"direction": "Left", "strategy": "BatchLongest", "pad_id": 0}
CUT_LEFT = {"direction": "Left", "max_length": 40, "strategy": "LongestFirst", "stride": 0}
BARE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}

TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "padding_side": [{"TOKENIZER": {"padding_side": "left"}}, {"TOKENS": {"padding": LEFT}}],
    "truncation_side": [
        {"TOKENIZER": {"truncation_side": "left"}},
        {"TOKENS": {"truncation": CUT_LEFT}},
    ],
    "special_tokens": [
        {"TOKENS": {"post_processor": None}},
        {"TOKENS": {"post_processor": BARE}},
        {"TOKENS": {"post_processor": {**BARE, "pair": [{}]}}},
    ],
    "lower_case": [{"TOKENIZER": {"do_lower_case": False}}],
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_planted_tokenizer_difference_is_the_only_one_reported(
    name, explained, place, tmp_path
) -> None:
    for number, changes in enumerate(TOKENIZERS[name]):
        folder = write_folder(tmp_path / f"out{number}", place / "small", **changes)
        assert named(explained(folder)) == [name]


# Five planted differences in the output of a Trainer, and values that no file contains.


@pytest.fixture(scope="module")
def planted(place):
    rows = bh.load("glue/mrpc", "train", "mini", limit=ROWS)
    return train(
        place / "planted",
        place / "small",
        list(rows["text_a"]),
        [int(label == "equivalent") for label in rows["label"]],
        kind=DecayOfAll,
        length=20,
        side="left",
        config={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        num_train_epochs=3,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        learning_rate=5e-5,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        seed=1,
        save_strategy="epoch",
    )


def test_five_planted_differences_of_a_trainer_run_are_reported(planted, explained) -> None:
    found = explained(planted)
    dropout = {"dropout", "attention_dropout", "classifier_dropout"}
    expected = {"max_tokens", "padding_side", "decays", "warmup_ratio", *dropout}
    assert {*named(found)} == expected
    decays = next(each for each in found.differences if each.name == "decays")
    assert (decays.theirs, decays.theirs_from) == (ALL_DECAY, "optimizer.pt: param_groups")


def test_values_missing_from_all_training_files_are_listed_as_assumed(
    explained, place, tmp_path
) -> None:
    found = explained(write_folder(tmp_path / "out", place / "small"))
    assert found.assumed.keys() >= {"decays", "order", "padding", "padding_side"}
    assert found.assumed["decays"] == "all but biases and norms, by name"
    assert named(found) == []


class Hostile:
    def __reduce__(self):
        return os.system, ("touch HACKED",)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "damaged"), ({"param_groups": Hostile()}, "would run code")],
)
def test_unreadable_optimizer_file_is_a_one_line_error(
    content, said, explained, place, tmp_path
) -> None:
    folder = write_folder(tmp_path / "out", place / "small")
    with zipfile.ZipFile(folder / "optimizer.pt", "w") as archive:
        pickled = b"\x80\x02}" if content is None else pickle.dumps(content)
        archive.writestr("optimizer/data.pkl", pickled)
    with pytest.raises(DataError, match=said) as caught:
        explained(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "HACKED").exists()


# Published results.


def test_comparison_with_a_human_score_is_an_error(explained) -> None:
    with pytest.raises(BenchError, match="is a score of human performance"):
        explained("glue_leaderboard_2021: GLUE Human Baselines")


def test_published_score_on_test_is_not_compared_and_the_reasons_are_given(explained) -> None:
    """Regression test: the answer was "no metric in common" and "no setting differs"."""
    found = explained("glue_test_bert_miniatures: BERT-Tiny (2/128)")
    assert (found.metric, found.gap) == ("", None)
    _data, split, grid = found.remarks
    assert "the splits differ" in split
    assert ") is on test, the run's score on dev." in split
    assert "the best of several training runs (protocol: best of grid), but the run" in grid


def test_explanation_states_that_a_published_score_is_a_median_of_several_trainings(
    explained,
) -> None:
    row = next(
        row
        for row in published.every_row()
        if (row.split, row.protocol) == ("dev", "median of 5") and row.of("glue/mrpc")
    )
    remarks = explained(f"{row.table}: {row.system}").remarks
    assert (
        "the published score has the protocol 'median of 5', but the run is a single training run."
        in remarks
    )


def test_weights_of_a_folder_named_like_a_published_model_are_reported(place) -> None:
    job = plan_job(f"bert-tiny={place / 'small'}", "glue/mrpc", limit=ROWS, precision="fp32")
    with open_store(place / "board.sqlite") as store:
        found = explain_run(make_result(job), "glue_test_bert_miniatures: BERT-Tiny (2/128)", store)
    assert f"the run started with the weights of {place / 'small'}" in found.remarks[-1]
    assert "the published model with google/bert_uncased_L-2_H-128_A-2." in found.remarks[-1]


def test_explanation_states_that_a_training_has_no_score(explained, tmp_path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("run_glue.py --task_name mrpc --learning_rate 1e-4")
    (remark,) = explained(file).remarks
    assert remark == f"no score of {file} is known, so only the settings are compared."


def test_published_system_without_a_recipe_has_no_compared_settings(explained) -> None:
    """The recipe would be the run's own, which differs in nothing."""
    systems = {s.name for s in published.systems() if not s.model}
    row = next(
        row
        for row in published.every_row()
        if row.system in systems and row.protocol != "human" and row.of("glue/mrpc")
    )
    found = explained(f"{row.table}: {row.system}")
    assert {*named(found)} == {"data", "train_rows", "dev_rows"}, "no settings"
    assert {"learning_rate", "epochs", "model"} <= {*found.not_said}


def test_run_on_mini_data_is_not_compared_with_a_published_score_on_real_data(place) -> None:
    """Regression test: the gap was explained by the model and the number of epochs."""
    job = plan_job(str(place / "small"), "glue/mrpc", precision="fp32")
    found = explained_with_rows(place, job, "albert_paper_glue_dev: BERT-large", 600, 120)
    assert (found.metric, found.gap) == ("", None)
    assert found.remarks[0] == (
        "the data differ, so the scores cannot be compared: the run is on mini data (synthetic), "
        "the published score (accuracy 88.0) is on the official data."
    )
    data = found.differences[0]
    assert (data.name, data.ours, data.theirs) == ("data", "mini data (synthetic)", "official data")
    rows = {e.name: (e.ours, e.theirs) for e in found.differences if e.name.endswith("_rows")}
    assert rows == {"train_rows": (600, 3668), "dev_rows": (120, 408)}


def explained_with_rows(place, job, other, train, dev):
    rows = {"glue/mrpc:train": {"rows": train}, "glue/mrpc:dev": {"rows": dev}}
    scores = [make_evaluation(job, "glue/mrpc", "dev", scores={"accuracy": 0.7, "f1": 0.8})]
    with open_store(place / "board.sqlite") as store:
        run = make_result(job, evaluations=scores, provenance={"data": rows})
        return explain_run(run, other, store)


@pytest.mark.parametrize("train", [3668, 3000])
def test_run_on_files_is_compared_only_if_they_have_the_official_number_of_dev_rows(
    train, place
) -> None:
    mini = plan_job(str(place / "small"), "glue/mrpc", precision="fp32")
    for job, dev in ((replace(mini, data="/sets"), 400), (replace(mini, data="hub"), 40)):
        found = explained_with_rows(place, job, "albert_paper_glue_dev: BERT-large", train, dev)
        assert found.gap is None
        assert f"the run is on {dev} dev rows instead of the official 408" in found.remarks[0]
        assert "dev_rows" in named(found)
        whole = explained_with_rows(place, job, "albert_paper_glue_dev: BERT-large", train, 408)
        assert whole.gap == pytest.approx(0.18)
        assert ("train_rows" in named(whole)) == (train != 3668)
        assert {"data", "dev_rows"}.isdisjoint(named(whole))


def test_runs_on_mini_and_official_data_differ_in_their_data(place) -> None:
    job = plan_job(str(place / "small"), "glue/mrpc", precision="fp32")
    with open_store(place / "other.sqlite") as store:
        other = make_result(replace(job, data="hub"))
        store.add_result(other)
        found = explain_run(make_result(job), other.job.key, store)
    assert named(found) == ["data"]


def test_official_numbers_of_rows_agree_with_the_official_files() -> None:
    folder = os.environ.get("BENCH_TEST_DATA")
    if folder is None:
        pytest.skip("BENCH_TEST_DATA names no folder of official files")
    data, compared = parse_data(folder), 0
    for name, counts in _official_rows().items():
        task = find_task(name)
        for split, count in zip(("train", task.dev_splits[0]), counts, strict=True):
            if count < 12_000 and has_split(task, split, data):
                assert len(read(task, split, data).examples) == count, (name, split)
                compared += 1
    assert compared > 0
