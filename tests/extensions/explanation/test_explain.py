"""`bench explain`: differences between a run and a training with another tool."""

import io
import json
import os
import pickle
import re
import shutil
import time
import zipfile
from contextlib import nullcontext
from pathlib import Path
from statistics import stdev

import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer, TrainingArguments

import benchharness as bh
from benchharness.errors import DataError
from benchharness.extensions.explanation.beside import explain_run
from benchharness.leaderboard.store.store import open_store
from benchharness.models import find_model
from benchharness.models.weights import config_folder
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.foreign_training import OF_4, train, write_arguments, write_folder
from tests.helpers.learned_engine import CONSTANT, LearnedEngine
from tests.helpers.plans import plan_job
from tests.helpers.results import make_evaluation, make_failure, make_job, make_result

ROWS = 40
WHOLE = len(read(find_task("glue/sst2"), "train", parse_data("mini")).examples)


def store_run(path, task, checkpoint, scores, **plan):
    """Store a synthetic result of a real job with this checkpoint."""
    job = plan_job(str(checkpoint), task, limit=ROWS, precision="fp32", **plan)
    splits = [f"{task}:train", *(f"{name}:{split}" for name, split in job.predicted_splits)]
    found = make_result(
        job,
        evaluations=[make_evaluation(job, *s, scores=scores) for s in job.predicted_splits],
        provenance={"data": {split: {"rows": ROWS} for split in splits}},
    )
    with open_store(path) as store:
        store.add_result(found)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a checkpoint, and a store with a run of this checkpoint on MRPC."""
    folder = tmp_path_factory.mktemp("explain")
    save_checkpoint(folder / "small")
    scores = {"accuracy": 0.7, "f1": 0.75}
    store_run(folder / "board.sqlite", "glue/mrpc", folder / "small", scores)
    return folder


@pytest.fixture(autouse=True)
def nothing_is_unpickled(monkeypatch):
    """Fail the test if a foreign file is read by an unpickler or torch.load."""

    def refuse(*_words, **_options):
        raise AssertionError("a foreign pickle was loaded")

    # Methods of the C unpickler cannot be patched, so replace the functions that create unpicklers.
    for module, name in ((pickle, "Unpickler"), (pickle, "loads"), (pickle, "load")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)


def explained(place, other, key=""):
    with open_store(place / "board.sqlite") as store:
        found = store.result(key) if key else store.result(store.runs(task="glue/mrpc")[0].key)
        return explain_run(found, str(other), store)


def names(found):
    return [each.name for each in found.differences]


# Output of a Trainer.


@pytest.fixture(scope="module")
def trained(place):
    """Return the output folder of the same training with the installed Trainer, six steps."""
    rows = bh.load("glue/mrpc", "train", "mini", limit=ROWS)
    return train(
        place / "trained",
        place / "small",
        list(rows["text_a"]),
        [int(label == "equivalent") for label in rows["label"]],
        num_train_epochs=3,
        per_device_train_batch_size=16,
        gradient_accumulation_steps=2,
        learning_rate=5e-5,
        warmup_steps=0.1,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        seed=1,
    )


def test_explain_reports_no_difference_to_an_equal_trainer_run(place, trained):
    found = explained(place, trained)
    assert names(found) == []
    assert found.unknown == ()
    assert found.metric == "accuracy"
    assert found.gap == pytest.approx(found.theirs - 0.7)
    # transformers 5 writes neither the name of the checkpoint nor the number of rows.
    assert set(found.not_said) <= {"checkpoint", "dev_rows"}
    assert "start_from" not in found.not_said, "the run began with its checkpoint's weights"


def test_explain_reports_exactly_the_changed_values_of_a_trainer_run(place, trained):
    found = explained(place, trained / "training_args.bin")
    assert names(found) == []
    with open_store(place / "other.sqlite") as store:
        job = plan_job(
            str(place / "small"),
            "glue/mrpc",
            limit=ROWS,
            precision="fp32",
            overrides={"learning_rate": "3e-5", "schedule": "cosine", "layer_decay": "0.9"},
        )
        result = make_result(job)
        found = explain_run(result, str(trained), store)
    assert set(names(found)) == {"learning_rate", "schedule", "layer_decay"}
    rate = next(each for each in found.differences if each.name == "learning_rate")
    assert (rate.ours, rate.theirs, rate.ours_from) == (3e-5, 5e-5, "--set")
    assert rate.theirs_from == "training_args.bin: learning_rate"
    assert rate.change == {"learning_rate": "5e-5"}


PLANTED = {
    "learning_rate": {"learning_rate": 3e-5},
    "epochs": {
        "num_train_epochs": 4.0,
        "STATE": {"max_steps": 8},
        "warmup_ratio": 0.1,
        "warmup_steps": 0,
    },
    "batch_size": {"gradient_accumulation_steps": 4, "STATE": {"max_steps": 3}},
    "warmup_steps": {"warmup_steps": 3},
    "adam_epsilon": {"adam_epsilon": 1e-8},
    "max_grad_norm": {"max_grad_norm": 0.0},
    "label_smoothing": {"label_smoothing_factor": 0.1},
    "schedule": {"lr_scheduler_type": "constant_with_warmup"},
    "order": {"group_by_length": True},
    "precision": {"fp16": True},
    "best_checkpoint": {"load_best_model_at_end": True, "metric_for_best_model": "f1"},
    "max_tokens": {"LENGTH": 32},
    "dropout": {"CONFIG": {"hidden_dropout_prob": 0.2, "classifier_dropout": 0.1}},
    "train_rows": {"RESULTS": {"train_samples": 48}},
    "seed": {"seed": 42},
    "weight_decay": {"weight_decay": 0.0},
    "metric": {"RESULTS": {"eval_accuracy": None, "eval_f1": None, "eval_mcc": 0.4}},
    "model": {"CONFIG": {"hidden_size": 32}},
}


def test_explain_reports_no_difference_to_an_equal_transformers_4_run(place, tmp_path):
    found = explained(place, write_folder(tmp_path / "out", place / "small"))
    assert names(found) == []
    assert (found.unknown, found.unread) == ((), ())
    assert found.gap == pytest.approx(0.05)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_setting_difference_is_the_only_one_reported(name, place, tmp_path):
    found = explained(place, write_folder(tmp_path / "out", place / "small", **PLANTED[name]))
    assert names(found) == [name]


def test_reported_differences_are_ordered_by_measured_effect(place, tmp_path):
    planted = list(PLANTED)[:10]
    changes = {k: v for name in planted for k, v in PLANTED[name].items() if k.islower()}
    found = explained(place, write_folder(tmp_path / "out", place / "small", **changes))
    points = [each.points for each in found.differences]
    known = [value for value in points if value is not None]
    assert known == sorted(known, reverse=True)
    assert points[len(known) :] == [None] * (len(points) - len(known))
    assert all(each.source for each in found.differences[: len(known)])
    assert {*planted} - {"warmup_steps"} <= {*names(found)} | {"warmup_ratio"}


def test_unknown_training_arguments_are_listed(place, tmp_path):
    found = explained(place, write_folder(tmp_path / "out", place / "small", warp_factor=9))
    assert (names(found), found.unknown) == ([], ("warp_factor",))


def test_model_card_is_read_if_training_args_are_missing(place, tmp_path):
    folder = write_folder(tmp_path / "out", place / "small")
    (folder / "training_args.bin").unlink()
    (folder / "README.md").write_text(CARD)
    found = explained(place, folder)
    assert set(names(found)) == {"adam_epsilon", "precision"}
    assert {"weight_decay", "max_grad_norm", "order"} <= {*found.not_said}


CARD = """# out
The following hyperparameters were used during training:
- learning_rate: 5e-05
- train_batch_size: 16
- eval_batch_size: 8
- seed: 1
- gradient_accumulation_steps: 2
- total_train_batch_size: 32
- optimizer: Use adamw_torch with betas=(0.9,0.999) and epsilon=1e-08 and optimizer_args=None
- lr_scheduler_type: linear
- lr_scheduler_warmup_ratio: 0.1
- num_epochs: 3.0
- mixed_precision_training: Native AMP

### Framework versions
- Transformers 4.40
"""

COMMAND = """#!/bin/sh
export TASK_NAME=mrpc
python run_glue.py \\
  --model_name_or_path small --task_name $TASK_NAME --do_train --do_eval \\
  --max_seq_length 40 --per_device_train_batch_size=32 --learning_rate 5e-5 \\
  --weight_decay 0.01 --adam_epsilon 1e-6 --warmup_ratio 0.1 --seed 1 --output_dir /tmp/out
"""


def test_missing_command_line_options_take_the_defaults_of_the_script(place, tmp_path):
    file = tmp_path / "run.sh"
    file.write_text(COMMAND)
    assert names(explained(place, file)) == []
    file.write_text(COMMAND.replace(" --warmup_ratio 0.1", " --fp16").replace("--seed 1 ", ""))
    found = explained(place, file)
    assert set(names(found)) == {"warmup_ratio", "precision", "seed"}
    seed = next(each for each in found.differences if each.name == "seed")
    assert (seed.theirs, seed.theirs_from) == (42, "the default of run_glue: seed")


def test_run_qa_training_is_reported_to_differ_in_padding_and_stride(place, tmp_path):
    board = tmp_path / "board.sqlite"
    run = store_run(board, "squad/v1.1", "tiny", {"em": 0.5}, overrides={"epochs": "2"})
    file = tmp_path / "run.sh"
    file.write_text(
        "run_qa.py --dataset_name squad --max_seq_length 128 --doc_stride 128 --learning_rate 1e-3 "
        "--per_device_train_batch_size 8 --num_train_epochs 2 --warmup_ratio 0.1 --seed 1 "
        "--weight_decay 0.01 --adam_epsilon 1e-6"
    )
    found = explained(tmp_path, file, run.job.key)
    assert {each.name: each.theirs for each in found.differences} == {
        "padding": "to the limit",
        "stride": "so that 128 overlap",
    }
    assert not any(each.change for each in found.differences)


def test_legacy_torch_save_format_is_read_like_the_zip_format(place, trained, tmp_path):
    """Before 1.6, torch.save wrote several pickles instead of a zip."""
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[], seed=1)
    torch.save(args, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    torch.save(args, tmp_path / "new.bin")
    old, new = (explained(place, tmp_path / f"{name}.bin") for name in ("old", "new"))
    assert names(old) == names(new) != []
    assert (old.unknown, new.unknown) == ((), ())


class Named:
    """Pickles an enum member as Python before 3.11.4 does: getattr(class, name)."""

    def __init__(self, member):
        self.member = member

    def __reduce__(self):
        return getattr, (type(self.member), self.member.name)


def test_training_arguments_with_enums_pickled_by_value_or_name_are_read(place, trained, tmp_path):
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[])
    torch.save(args, tmp_path / "value.bin")
    args.optim, args.lr_scheduler_type = Named(args.optim), Named(args.lr_scheduler_type)
    torch.save(args, tmp_path / "name.bin")
    value, name = (explained(place, tmp_path / f"{each}.bin") for each in ("value", "name"))
    assert names(name) == names(value) != []
    assert "optimizer" not in names(name)


def test_script_arguments_are_read_from_a_json_file(place, tmp_path):
    file = tmp_path / "args.json"
    given = {"task_name": "mrpc", "max_seq_length": 40, "per_device_train_batch_size": 32}
    given |= {"weight_decay": 0.01, "adam_epsilon": 1e-6, "warmup_ratio": 0.1, "seed": 1}
    file.write_text(json.dumps(given | {"num_train_epochs": 5}))
    assert names(explained(place, file)) == ["epochs"]


def test_run_can_be_compared_with_a_recipe_file(place, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[default]\nlearning_rate = 3e-5\n[glue.mrpc]\nepochs = 5.0\n")
    assert set(names(explained(place, file))) == {"learning_rate", "epochs"}


def test_run_can_be_compared_with_the_recipe_of_a_published_score(place):
    found = explained(place, "bert_paper_ablation: BERT-base")
    assert {"learning_rate", "epochs", "batch_size"}.isdisjoint(names(found))


def test_two_stored_runs_can_be_compared_by_key(place):
    other = store_run(
        place / "board.sqlite",
        "glue/mrpc",
        place / "small",
        {"accuracy": 0.72, "f1": 0.76},
        seeds=(2,),
        overrides={"max_grad_norm": "0", "steps": "6"},
    )
    found = explained(place, other.job.key[:12])
    # Six steps equal the three epochs of the run, so the number of steps does not differ.
    assert names(found) == ["seed", "max_grad_norm"]
    assert found.gap == pytest.approx(0.02)


def test_convbert_weight_decay_groups_are_reported_as_a_difference(tmp_path):
    save_checkpoint(tmp_path / "small", "convbert", embedding_size=16, head_ratio=1)
    result = store_run(
        tmp_path / "board.sqlite", "glue/mrpc", tmp_path / "small", {"accuracy": 0.7}
    )
    file = tmp_path / "training_args.bin"
    write_arguments(file, OF_4 | {"adam_epsilon": 1e-6})
    found = explained(tmp_path, file, result.job.key)
    assert {"decays", "padding"} <= {*names(found)}
    decays = next(each for each in found.differences if each.name == "decays")
    assert (decays.points, decays.source) == (0.6, "40 rows, docs/parity.md")


# Invalid input.


class Hostile:
    def __reduce__(self):
        return os.system, ("touch HACKED",)


def zipped(content):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return whole.getvalue()


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("form", [bytes, zipped])
def test_pickle_with_code_is_refused_without_running_it(
    protocol, form, place, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "training_args.bin"
    file.write_bytes(form(pickle.dumps({"learning_rate": Hostile()}, protocol=protocol)))
    with pytest.raises(DataError, match=r"would run code \(posix.system\)"):
        explained(place, file.parent)
    assert not Path("HACKED").exists()


@pytest.mark.parametrize("keep", [0, 1, 100, 500])
def test_truncated_training_args_are_a_data_error(keep, place, tmp_path):
    folder = write_folder(tmp_path / "out", place / "small")
    file = folder / "training_args.bin"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"is damaged or was not written by torch.save"):
        explained(place, folder)


def test_truncated_or_changed_pickle_is_read_or_a_data_error(tmp_path):
    """A damaged pickle raises nothing but DataError, and never hangs."""
    from benchharness.extensions.explanation.pickled import read_arguments

    file = tmp_path / "training_args.bin"
    write_arguments(file, OF_4)
    with zipfile.ZipFile(file) as archive:
        content = archive.read("archive/data.pkl")
    ended = set()
    for place in range(0, len(content), 7):
        for made in (content[:place], content[:place] + b"R" + content[place + 1 :]):
            file.write_bytes(made)
            try:
                read_arguments(file)
                ended.add("read")
            except DataError:
                ended.add("refused")
    assert ended == {"read", "refused"}


# A pickle of a few hundred bytes whose value has 2 ** 40 numbers, because each list contains the
# previous list several times.
NUMBER = (
    b"\x80\x02ctransformers.training_args\nTrainingArguments\n)\x81}(X\x0d\x00\x00\x00learning_rate"
)
BOMBS = {
    "doubled": NUMBER + b"K\x01" + b"2\x86" * 40 + b"ub.",
    "doubled lists": NUMBER
    + b"]K\x01a"
    + b"".join(b"q%c0]h%cah%ca" % (n, n, n) for n in range(40))
    + b"ub.",
    "deep": NUMBER + b"K\x01" + b"\x85" * 5000 + b"ub.",
    "a doubled name": NUMBER + b"}K\x01" + b"2\x86" * 40 + b"K\x01sub.",
    "long": NUMBER + b"X" + (200_000).to_bytes(4, "little") + b"x" * 200_000 + b"ub.",
    "a number of many digits": NUMBER
    + b"\x8b"
    + (9000).to_bytes(4, "little")
    + b"\x01" * 9000
    + b"ub.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_pickle_bomb_is_refused_within_two_seconds(name, place, tmp_path):
    folder = write_folder(tmp_path / "out", place / "small")
    with zipfile.ZipFile(folder / "training_args.bin", "w") as archive:
        archive.writestr("archive/data.pkl", BOMBS[name])
    began = time.process_time()
    with pytest.raises(DataError, match=r"is damaged or was not written by") as raised:
        explained(place, folder)
    assert time.process_time() - began < 2
    assert re.search("values|tuples nested|letters|stack", str(raised.value))


ODD = {
    "trainer_state.json": {"stateful_callbacks": [], "log_history": [7], "max_steps": "many"},
    "all_results.json": {"eval_accuracy": float("nan"), "train_samples": float("inf")},
    "config.json": {"architectures": 7, "model_type": ["bert"], "hidden_dropout_prob": {}},
    "tokenizer.json": {"model": [], "truncation": "yes"},
}


@pytest.mark.parametrize("name", ODD)
def test_json_file_of_another_layout_is_a_data_error(name, place, tmp_path):
    folder = write_folder(tmp_path / "out", place / "small")
    (folder / name).write_text(json.dumps(ODD[name]))
    with pytest.raises(DataError, match="does not have the format of a Trainer"):
        explained(place, folder)
    (folder / name).write_text("{")
    with pytest.raises(DataError, match=r"is not (valid|readable) JSON"):
        explained(place, folder)


def test_settings_of_a_deleted_checkpoint_count_as_specified_only_by_the_other_run(place, tmp_path):
    save_checkpoint(tmp_path / "small")
    run = store_run(tmp_path / "board.sqlite", "glue/mrpc", tmp_path / "small", {"accuracy": 0.7})
    other = write_folder(tmp_path / "out", tmp_path / "small")
    (tmp_path / "small").rename(tmp_path / "away")
    found = explained(tmp_path, other, run.job.key)
    assert names(found) == []
    assert {"model", "dropout"} <= {*found.unread}


def test_invalid_explain_arguments_are_one_line_errors(bench, place, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("nothing here")
    swag = write_folder(
        tmp_path / "swag", place / "small", CONFIG={"architectures": ["BertForMultipleChoice"]}
    )
    rte = write_folder(tmp_path / "rte", place / "small", CONFIG={"finetuning_task": "rte"})
    three = {"id2label": {"0": "yes", "1": "no", "2": "maybe"}}
    labels = write_folder(tmp_path / "labels", place / "small", CONFIG=three)
    with open_store(place / "board.sqlite") as store:
        key = store.runs(task="glue/mrpc")[0].key
        failed = make_failure(plan_job("tiny", "glue/rte"))
        store.add_failure(failed)
    words = "bench: "
    for asked, other, code, part in (
        (key, tmp_path / "empty", 4, "does not describe a training run"),
        (key, tmp_path / "notes.txt", 4, "does not describe a training run"),
        (key, tmp_path / "nowhere", 2, "is not a folder, file, key or published result"),
        (key, "bert_paper_ablation: BURT", 2, "no published result on glue/mrpc is called"),
        (key, "feedfeed", 2, "feedfeed"),
        ("feedfeed", tmp_path / "empty", 2, "feedfeed"),
        (failed.job.key, tmp_path / "empty", 2, "has no score to explain"),
        (key, swag, 2, "has a head of type 'choice'"),
        (key, rte, 2, "was trained on rte"),
        (key, labels, 2, "has the labels maybe, no, yes"),
    ):
        ended = bench("explain", asked, "--from", other, "--db", place / "board.sqlite")
        assert ended.code == code, (other, ended)
        assert ended.err.startswith(words)
        assert ended.err.count("\n") == 1
        assert part in ended.err


# Output, and repeated runs (--try).


def test_explain_gives_the_same_differences_as_table_json_and_python_object(
    bench, place, tmp_path, monkeypatch
):
    folder = write_folder(tmp_path / "out", place / "small", learning_rate=3e-5, warp_factor=9)
    with open_store(place / "board.sqlite") as store:
        key = store.runs(task="glue/mrpc")[0].key
    words = ("explain", key[:12], "--from", folder, "--db", place / "board.sqlite")
    ended = bench(*words)
    assert ended.code == 0
    assert "accuracy: the run 70.00, the other 75.00, +5.00" in ended.out
    assert "5e-5 (google-research/bert" in " ".join(ended.out.split())
    assert "3e-5 (training_args.bin: learning_rate)" in ended.out
    assert "up to 25.6 (half, tiny, docs/log.md)" in ended.out
    assert "that benchharness does not know: warp_factor." in ended.out
    assert "order of rows (random)" in ended.out
    assert "noise on embeddings (0)" in ended.out
    assert "known for the run but not for the other training: checkpoint" in ended.out
    assert "it is unknown whether both started with the same weights." in ended.out
    told = json.loads(bench(*words, "--json").out)
    frame = bh.explain(key[:12], folder, db=place / "board.sqlite")
    assert isinstance(frame, pd.DataFrame)
    assert (
        [each["name"] for each in told["differences"]] == list(frame["name"]) == ["learning_rate"]
    )
    assert frame.attrs["unknown"] == ("warp_factor",)
    assert told["gap"] == pytest.approx(frame.attrs["gap"]) == pytest.approx(0.05)


class ByEpochs(LearnedEngine):
    """Engine whose scores rise with the epochs, and whose runs fail with small batches."""

    def run(self, jobs, report):
        for job in jobs:
            share = 0.5 + 0.2 * job.values["epochs"] if job.values["batch_size"] == 32 else None
            self._shares = {job.task: share}
            yield from super().run([job], report)


def test_try_option_reruns_each_of_the_likeliest_differences_separately(
    bench, tmp_path, monkeypatch
):
    """Of three differences one changes the score, one fails, and one is not a setting."""
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", ByEpochs({}))
    monkeypatch.setattr("benchharness.driver.session.prepared_workers", lambda *_: nullcontext())
    run = store_run("x.sqlite", "glue/sst2", "tiny", {"accuracy": 0.6}, overrides={"epochs": "1"})
    Path("other.sh").write_text(
        "run_glue.py --task_name sst2 --max_seq_length 128 --per_device_train_batch_size 16 "
        "--learning_rate 1e-3 --num_train_epochs 2 --warmup_ratio 0.1 --weight_decay 0.01 "
        "--adam_epsilon 1e-6 --seed 1 --group_by_length"
    )
    words = ("explain", run.job.key, "--from", "other.sh", "--db", "x.sqlite")
    words += ("--try", "3", "--limit", "24", "--json")
    ended = bench(*words)
    assert ended.code == 1
    assert "the loss became nan" in ended.err
    tried = json.loads(ended.out)["tried"]
    names = ["epochs", "batch_size", "order"]
    assert [each["name"] for each in tried["tries"]] == names
    assert [each["error"] for each in tried["tries"]] == [
        "",
        "the run failed",
        "no option changes it",
    ]
    assert [each["moved"] is None for each in tried["tries"]] == [False, True, True]
    rows = bh.runs(db="x.sqlite").query("limit == 24 and status == 'finished'")
    score = {(run.recipe, run.seed): run.score for run in rows.itertuples()}
    base = [score["1 epoch", seed] for seed in (1, 2, 3)]
    # Three seeds of the unchanged run, and one changed run with the seed of the stored run.
    assert len(score) == 4
    assert tried["seeds"] == [1, 2, 3]
    assert tried["tries"][0]["moved"] == pytest.approx(score["2 epochs", 1] - base[0])
    assert tried["noise"] == pytest.approx(4.303 * stdev(base) * 2**0.5, rel=1e-3)
    # Stored runs are not run again, and the printed table has the same values.
    ended = bench(*words[:-1])
    assert len(bh.runs(db="x.sqlite")) == 6
    moved = (score["2 epochs", 1] - base[0]) * 100
    assert re.search(rf"epochs=2 +\{moved:+.2f}", ended.out)
    assert f"noise: ±{tried['noise'] * 100:.1f}" in ended.out


class ByEpochsOrConstant(LearnedEngine):
    """Engine whose scores rise with the rows; runs of two epochs answer every row alike."""

    def run(self, jobs, report):
        for job in jobs:
            share = 0.7 if job.limit else 0.9
            self._shares = {job.task: CONSTANT if job.values["epochs"] == 2 else share}
            yield from super().run([job], report)


def tried(bench, monkeypatch, other, *words, limit=300, **fields):
    """Return the output of `explain --try 2` for a run on SST-2 with `limit` rows per split."""
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", ByEpochsOrConstant({}))
    monkeypatch.setattr("benchharness.driver.session.prepared_workers", lambda *_: nullcontext())
    fields = {"limit": limit, "precision": "fp32", "overrides": {"epochs": "1"}, **fields}
    job = plan_job("tiny", "glue/sst2", **fields)
    run = make_result(
        job,
        evaluations=[make_evaluation(job, *s, scores={"accuracy": 0.7875}) for s in SST2_DEV],
        provenance={"data": {"glue/sst2:train": {"rows": limit}}},
    )
    with open_store("x.sqlite") as store:
        store.add_result(run)
    Path("other").mkdir(exist_ok=True)
    folder = write_folder(Path("other/out"), Path("small"), **other)
    return bench("explain", job.key, "--from", folder, "--db", "x.sqlite", "--try", "9", *words)


SST2_DEV = (("glue/sst2", "dev"),)


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "small")


def test_collapsed_run_of_try_is_marked_and_explained(bench, small, monkeypatch):
    other = {"num_train_epochs": 2.0, "RESULTS": {"eval_accuracy": 0.5}}
    ended = tried(bench, monkeypatch, other)
    line = next(line for line in ended.out.splitlines() if line.startswith(" epochs=2"))
    assert re.search(r"epochs=2 +-\d+\.\d\d! +\d+%!", line), ended.out
    assert "!: constant predictions: epochs=2." in ended.out
    assert "A collapsed run learned nothing, so its part of the gap does not show" in ended.out


def test_printed_score_difference_equals_the_difference_of_the_printed_scores(
    bench, small, monkeypatch
):
    ended = tried(bench, monkeypatch, {"RESULTS": {"eval_accuracy": 0.5}})
    assert "accuracy: the run 78.75, the other 50.00, -28.75" in ended.out


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ((WHOLE, 300), ""),
        ((2 * WHOLE, 300), f"without --limit, there are {WHOLE:,} rows"),
        ((WHOLE, 24), "without --limit, the dev rows change too"),
        ((WHOLE, 300, "--limit", "24"), "--limit keeps fewer rows in all runs of --try"),
    ],
)
def test_more_training_rows_are_tried_by_leaving_out_the_limit(
    bench, small, monkeypatch, asked, error
):
    theirs, limit, *words = asked
    other = {"RESULTS": {"train_samples": theirs}}
    found = json.loads(tried(bench, monkeypatch, other, *words, "--json", limit=limit).out)
    (rows,) = (each for each in found["tried"]["tries"] if each["name"] == "train_rows")
    assert rows["error"] == error
    assert (rows["moved"] is None) == bool(error)
    assert rows["change"] == {"limit": "none"}


def test_more_training_rows_are_tried_for_a_run_with_a_predicted_test_split(
    bench, small, monkeypatch
):
    other = {"RESULTS": {"train_samples": WHOLE}}
    found = json.loads(tried(bench, monkeypatch, other, "--json", test=True).out)
    (rows,) = (each for each in found["tried"]["tries"] if each["name"] == "train_rows")
    assert rows["error"] == ""


def test_tokenizer_of_the_packaged_encoder_is_compared(bench, tmp_path, monkeypatch):
    """Its folder has a vocabulary but no tokenizer.json, which transformers writes."""
    monkeypatch.chdir(tmp_path)
    run = make_result(plan_job("tiny", "glue/rte"))
    packaged = config_folder(find_model("tiny"))
    saved = AutoTokenizer.from_pretrained(packaged)
    saved.save_pretrained("saved")
    shutil.copy(packaged / "config.json", "saved")
    with open_store("x.sqlite") as store:
        folder = write_folder(tmp_path / "out", tmp_path / "saved")
        found = explain_run(run, str(folder), store)
        changed = write_folder(tmp_path / "bare", tmp_path / "saved", TOKENS=NO_TEMPLATE)
        bare = explain_run(run, str(changed), store)
    names_of_words = {"tokenizer", "special_tokens", "lower_case"}
    assert names_of_words.isdisjoint({*found.unread, *found.not_said, *names(found)})
    assert "checkpoint" in found.not_said, "the weights may be others"
    assert {*names(bare)} - {*names(found)} == {"special_tokens"}


NO_TEMPLATE = {"post_processor": None}


def test_python_api_error_names_the_python_argument(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        result = make_result(make_job())
        store.add_result(result)
    with pytest.raises(bh.BenchError, match=r'^where="nowhere" is not a folder'):
        bh.explain(result.job.key, "nowhere", db="board.sqlite")
