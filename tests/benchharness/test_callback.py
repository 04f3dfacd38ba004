"""Tests of BenchCallback, which benchmarks checkpoints without changing the training."""

import logging
import shutil

import pytest
import torch
import transformers
from datasets import Dataset
from transformers import AutoTokenizer, Trainer, TrainingArguments

import benchharness as bh
from benchharness.leaderboard.store.store import open_store
from benchharness.tiny import folder as tiny_folder
from tests.helpers.checkpoints import make_config
from tests.helpers.doc_blocks import block

pytest.importorskip("accelerate")

QUICK = {"data": "mini", "limit": 8, "seeds": 1, "set": {"epochs": 1}, "jobs": 1, "device": "cpu"}


def train(folder, callbacks, steps=30, **options):
    """Train a small classifier with dropout; return its losses, weights and log."""
    transformers.set_seed(5)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    model = transformers.AutoModelForSequenceClassification.from_config(make_config("bert"))
    rows = bh.load("glue/rte", data="mini", limit=32)
    texts = tokenizer(list(rows["text_a"]), truncation=True, max_length=24, padding="max_length")
    data = Dataset.from_dict({**texts, "labels": rows["label"].eq("entailment").astype(int)})
    arguments = TrainingArguments(
        output_dir=str(folder / "mine"),
        max_steps=steps,
        per_device_train_batch_size=4,
        save_steps=15,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        log_level="error",
        **options,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    trainer.train()
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return losses, model.state_dict(), trainer.state.log_history


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return train(tmp_path_factory.mktemp("alone"), [])


def assert_same(found, expected):
    assert found[0] == expected[0]
    assert len(found[0]) == 30
    assert all(torch.equal(weight, expected[1][name]) for name, weight in found[1].items())


def logged(history):
    return {line["step"]: line["bench/glue/rte"] for line in history if "bench/glue/rte" in line}


@pytest.mark.soak
def test_callback_changes_neither_losses_nor_weights_of_the_training(tmp_path, alone):
    db = str(tmp_path / "x.sqlite")
    bencher = bh.BenchCallback("glue/rte", db=db, **QUICK)
    found = train(tmp_path, [bencher])
    assert_same(found, alone)
    runs = bh.runs(db)
    assert sorted(runs["model"]) == ["mine/checkpoint-15", "mine/checkpoint-30"]
    by_model = runs.set_index("model")["score"]
    assert bencher.frame()["key"].tolist() == list(bencher.results.keys) == runs["key"].tolist()
    assert logged(found[2]) == {
        step: pytest.approx(by_model[f"mine/checkpoint-{step}"]) for step in (15, 30)
    }
    with open_store(db, create=False) as store:
        assert {row.stage.step for row in store.runs()} == {15, 30}


@pytest.mark.soak
def test_scores_are_logged_later_if_the_callback_does_not_wait(tmp_path, alone):
    db = str(tmp_path / "x.sqlite")
    bencher = bh.BenchCallback("glue/rte", db=db, every=2, wait=False, **QUICK)
    found = train(tmp_path, [bencher])
    assert_same(found, alone)
    assert logged(found[2]) == {30: pytest.approx(bh.runs(db)["score"].iloc[0])}


@pytest.mark.soak
def test_scores_of_deleted_checkpoints_are_logged_if_the_callback_does_not_wait(
    tmp_path, alone, monkeypatch
):
    """Use a Trainer that keeps only the last checkpoint, and custom data in memory."""
    rows = [
        {"text": f"film {n} was {'good' if n % 2 else 'bad'}", "label": n % 2} for n in range(20)
    ]
    quick = {**QUICK, "data": "hub", "data_file": rows, "db": tmp_path / "x.sqlite"}
    bencher = bh.BenchCallback((), wait=False, **quick)

    def wait(*_, **__):
        for _, process in bencher._going:
            process.wait()

    monkeypatch.setattr(bencher, "on_step_end", wait)
    found = train(tmp_path, [bencher], save_total_limit=1)
    assert_same(found, alone)
    scores = [line for line in found[2] if any(name.startswith("bench/rows") for name in line)]
    assert [line["step"] for line in scores] == [15, 30]


def test_callback_benchmarks_a_folder_with_special_characters_in_its_path(tmp_path):
    folder = tmp_path / "runs [1]" / "lr=1e-4" / "step-3"
    transformers.AutoModel.from_config(make_config("bert")).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_folder()).save_pretrained(folder)
    bencher = bh.BenchCallback("glue/rte", db=tmp_path / "x.sqlite", **QUICK)
    assert list(bencher.bench(folder)) == ["glue/rte"]
    assert list(bh.runs(tmp_path / "x.sqlite")["model"]) == ["lr=1e-4/step-3"]


@pytest.mark.soak
def test_interrupted_benchmark_of_a_checkpoint_is_completed_by_the_next_call(
    tmp_path, monkeypatch, alone
):
    """Press Ctrl-C during the second benchmark, which ends the training."""
    db = str(tmp_path / "x.sqlite")
    bencher = bh.BenchCallback("glue/rte", db=db, **QUICK)
    whole = bencher.bench

    def cut(folder):
        if folder.name == "checkpoint-30":
            raise KeyboardInterrupt
        return whole(folder)

    monkeypatch.setattr(bencher, "bench", cut)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, [bencher])
    assert list(bh.runs(db)["model"]) == ["mine/checkpoint-15"]
    assert bencher.__class__("glue/rte", db=db, **QUICK).bench(tmp_path / "mine" / "checkpoint-30")
    assert sorted(bh.runs(db)["model"]) == ["mine/checkpoint-15", "mine/checkpoint-30"]


def test_failed_benchmark_of_a_checkpoint_does_not_end_the_training(tmp_path, alone, caplog):
    callback = bh.BenchCallback("glue/rte", db=str(tmp_path / "gone" / "x.sqlite"), **QUICK)
    shutil.rmtree(tmp_path / "gone")
    (tmp_path / "gone").write_text("")
    with caplog.at_level(logging.WARNING, "benchharness"):
        assert_same(train(tmp_path, [callback]), alone)
    assert "checkpoint-15 was not benchmarked: " in caplog.text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"tasks": "rtee"}, "rtee"),
        ({"every": 0}, "every is 0"),
        ({"seeds": 0}, "seeds= must be"),
        ({"recipe": "nope"}, "no recipe"),
        ({"set": {"epohs": 1}}, "no hyperparameter is called 'epohs'"),
        ({"data": "nowhere"}, "nowhere"),
        ({"db": "/proc/x.sqlite"}, "cannot be created"),
        ({"plugins": "nope.py"}, "nope.py"),
        ({"sedes": 1}, "unexpected keyword argument 'sedes'"),
    ],
)
def test_invalid_callback_arguments_are_an_error_at_construction(words, sentence, tmp_path):
    words = {"tasks": "glue/rte", "data": "mini", "db": tmp_path / "x.sqlite"} | words
    with pytest.raises((bh.BenchError, TypeError), match=sentence):
        bh.BenchCallback(**words)


def test_callback_without_a_tokenizer_is_an_error_when_training_begins(tmp_path):
    bencher = bh.BenchCallback("glue/rte", data="mini", db=tmp_path / "x.sqlite")
    with pytest.raises(bh.BenchError, match="processing_class=tokenizer"):
        bencher.on_train_begin(None, None, None, processing_class=None)


@pytest.mark.parametrize(("saves", "warned"), [("no", 1), ("steps", 0)])
def test_callback_warns_if_the_training_saves_no_checkpoints(saves, warned, tmp_path, caplog):
    bencher = bh.BenchCallback("glue/rte", data="mini", db=tmp_path / "x.sqlite")
    arguments = transformers.TrainingArguments(str(tmp_path), save_strategy=saves)
    bencher.on_train_begin(arguments, None, None, processing_class="a tokenizer")
    assert caplog.text.count("saves no checkpoints to benchmark") == warned


@pytest.mark.soak
def test_code_on_the_training_documentation_page_runs(tmp_path, monkeypatch):
    """Run the code with fewer steps, so that it saves one checkpoint."""
    monkeypatch.chdir(tmp_path)
    names = {"tokenizer_folder": tiny_folder()}
    program = block("training.md", "trainer.train()")
    program = program.replace("max_steps=8", "max_steps=4").replace("limit=32", "limit=8")
    program = program.replace("report_to=[]", "report_to=[], use_cpu=True, disable_tqdm=True")
    exec(compile(program, "docs/training.md", "exec"), names)
    frame, logged, runs, board = (
        eval(line, names) for line in block("training.md", "log_history").splitlines()
    )
    assert [line["step"] for line in logged] == [4]
    assert list(frame["model"]) == list(runs["model"]) == ["mine/checkpoint-4"]
    assert "mine/checkpoint-4" in repr(board)
