"""Tests of the Python API: the same jobs as the command line, and results as data frames."""

import ast
import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import benchharness as bh
from benchharness.driver.drive import Driven
from benchharness.leaderboard.result import Evaluation
from benchharness.leaderboard.store.store import open_store
from benchharness.splits import evaluate_split
from benchharness.stored.frames import RUN_TYPES, predictions_frame
from benchharness.tasks.examples import ChoiceExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tiny import folder as tiny_folder
from tests.helpers import ROOT
from tests.helpers.checkpoints import make_config
from tests.helpers.doc_blocks import DOCS
from tests.helpers.drawn_predictions import predict
from tests.helpers.pages import blocks_of
from tests.helpers.results import make_job, make_result

WHAT = {"suite": "glue", "data": "mini", "limit": 16, "device": "cpu", "jobs": 1}

EMPTY: Any = SimpleNamespace(runs_with=lambda _: [])
"""A store without runs."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run two seeds of two tasks and return the results."""
    db = tmp_path_factory.mktemp("library") / "x.sqlite"
    changed = {"epochs": 1, "best_checkpoint": False}
    return bh.run("tiny", task=["rte", "stsb"], seeds=2, set=changed, db=db, **WHAT)


def test_every_public_name_of_benchharness_exists():
    assert set(bh.__all__) <= set(dir(bh))
    assert all(getattr(bh, name) is not None for name in dir(bh))
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        bh.runn  # noqa: B018


def test_data_frame_of_runs_has_one_row_per_run_with_the_scores_of_its_task(ran):
    found = ran.frame()
    assert [str(found[name].dtype) for name in RUN_TYPES] == list(RUN_TYPES.values())
    assert set(found["key"]) == set(ran.keys)
    tiny = found[found["model"] == "tiny"]
    assert sorted(zip(tiny["task"], tiny["seed"], strict=True)) == [
        ("glue/rte", 1),
        ("glue/rte", 2),
        ("glue/stsb", 1),
        ("glue/stsb", 2),
    ]
    rte, stsb = found[found["task"] == "glue/rte"], found[found["task"] == "glue/stsb"]
    assert (rte["score"] == rte["accuracy"]).all()
    assert stsb["score"].to_numpy() == pytest.approx((stsb["pearson"] + stsb["spearman"]) / 2)
    assert rte["pearson"].isna().all()
    assert bh.runs(ran.db).equals(bh.runs(ran.db))
    assert set(bh.runs(ran.db)["key"]) == set(ran.keys)


def test_leaderboard_is_a_data_frame_and_is_displayed_in_percent(ran):
    board = bh.board("glue", db=ran.db)
    found = board.frame().set_index("model")
    median = ran.frame().query("model == 'tiny' and task == 'glue/rte'")["score"].median()
    assert found.loc["tiny", "RTE"] == pytest.approx(median)
    assert not found.drop(columns="rank").isna().all().any()
    assert f"{100 * median:.1f}" in repr(board)
    assert list(dict.fromkeys(ran.frame()["key"])) == list(ran.keys)
    assert "<table" in board._repr_html_()
    assert "GLUE on mini data" in repr(board)
    assert board._repr_html_() in ran._repr_html_()


def test_results_in_a_notebook_show_notes_and_failures(ran):
    assert ran.advice, "one of the trainings has learned nothing"
    assert replace(ran, advice=())._repr_html_() in ran._repr_html_()
    ran = replace(ran, advice=())
    assert ran._repr_html_() == "".join(board._repr_html_() for board in ran.boards())
    shown = replace(ran, said=("LEAK: 1 row",), failures=("tiny: <nan>",))._repr_html_()
    assert shown == f"<p>LEAK: 1 row</p><p>tiny: &lt;nan&gt;</p>{ran._repr_html_()}"
    nothing = replace(ran, keys=(), suites=("squad",))
    assert nothing._repr_html_() == f"<p>&lt;0 runs in {ran.db}&gt;</p>"


def test_predictions_and_learning_curves_are_data_frames(ran):
    key = ran.frame().query("model == 'tiny' and task == 'glue/rte'")["key"].iloc[0]
    predicted = bh.predictions(key[:10], db=ran.db)
    gold = bh.load("glue/rte", data="mini", limit=16)
    assert list(predicted["id"]) == list(gold["id"])
    assert list(predicted["gold"]) == list(gold["label"])
    accuracy = (predicted["predicted"] == predicted["gold"]).mean()
    assert ran.frame().set_index("key").loc[key, "accuracy"] == pytest.approx(accuracy)
    curve = bh.curve(key, db=ran.db)
    assert curve.index.name == "step"
    assert curve["loss"].notna().all()


def predictions_of(task, split, db, right=1.0):
    """Return the prediction frame of a run that is right on a given share of a packaged split."""
    rows, name = read(find_task(task), split, parse_data("mini"), 40), f"{task}:{split}"
    job = make_job(task=task, limit=40, fingerprints={name: rows.fingerprint})
    made = evaluate_split(name, rows, predict(find_task(task), rows.examples, right, "x"))
    with open_store(db) as store:
        store.add_result(replace(make_result(job), evaluations=(made,)))
    return bh.predictions(job.key, db=db)


@pytest.mark.parametrize("task", ["glue/mrpc", "race/all", "conll2003/ner"])
def test_gold_answers_have_the_same_type_as_predictions_in_a_data_frame(task, tmp_path):
    frame = predictions_of(task, "dev", tmp_path / "x.sqlite")
    assert len(frame) == 40
    assert list(frame["gold"]) == list(frame["predicted"])
    assert frame.attrs["unread"] == {}


def test_gold_column_of_squad_predictions_lists_all_accepted_answers(tmp_path):
    found = predictions_of("squad/v2.0", "dev", tmp_path / "x.sqlite").set_index("id")
    unanswered = found["no_answer_score"] > 0
    assert list(found["gold"].map(len) == 0) == list(unanswered)
    kept = found[~unanswered]
    assert all(text in gold for text, gold in zip(kept["predicted"], kept["gold"], strict=True))
    found = predictions_of("glue/stsb", "dev", tmp_path / "x.sqlite")
    assert found["gold"].astype(float).corr(found["predicted"].astype(float)) > 0.95


def test_gold_column_has_lists_if_an_example_has_several_right_options():
    job = make_job(task="superglue/record", fingerprints={"superglue/record:dev": "0" * 64})
    rows = tuple({"id": str(number), "option": 0} for number in range(3))
    facts = {"task": "superglue/record", "split": "dev", "fingerprint": "0" * 64}
    made = Evaluation(**facts, scores={}, predictions=rows)
    texts = {"context": "", "question": "", "options": ("a", "b", "c")}
    golds = ((0, 2), (1,), None)
    examples = [ChoiceExample(id=str(n), gold=gold, **texts) for n, gold in enumerate(golds)]
    result = replace(make_result(job), evaluations=(made,))
    frame = predictions_frame(result, {made.name: examples})
    assert list(frame["gold"]) == [[0, 2], [1], None]


def test_gold_column_is_empty_if_test_labels_are_hidden(tmp_path):
    found = predictions_of("glue/rte", "test", tmp_path / "x.sqlite", right=0)
    assert found["gold"].isna().all()


def test_gold_column_is_empty_and_the_reason_is_stated_if_data_cannot_be_read(tmp_path):
    job = make_job(task="glue/rte", data=str(tmp_path / "gone"))
    with open_store(tmp_path / "x.sqlite") as store:
        store.add_result(make_result(job))
    frame = bh.predictions(job.key, db=tmp_path / "x.sqlite")
    assert frame["gold"].isna().all()
    (reason,) = frame.attrs["unread"].values()
    assert "gone" in reason


def test_compare_returns_the_difference_of_two_models(ran):
    found = bh.compare("tiny", "bag-of-words", task="glue/rte", db=ran.db)
    assert list(found["task"]) == ["glue/rte"]
    assert found["difference"].iloc[0] == pytest.approx(found["one"][0] - found["other"][0])


def test_repeated_call_of_run_skips_finished_jobs(ran, monkeypatch):
    todo = []

    @contextmanager
    def look(schedule, *words, **options):
        todo.extend(schedule.todo)
        yield Driven(schedule, EMPTY, ())

    monkeypatch.setattr("benchharness.driver.session.drive", look)
    changed = {"epochs": "1", "best_checkpoint": "false"}
    again = bh.run("tiny", task=["rte", "stsb"], seeds=[1, 2], set=changed, db=ran.db, **WHAT)
    assert todo == []
    assert again.keys == ran.keys


def test_published_scores_data_frame_has_a_source_column():
    found = bh.published("glue")
    row = found.query("system == 'BERT-large' and task == 'glue/cola'")
    assert row["score"].between(0.5, 0.8).all()
    assert found["source"].str.len().min() > 0


LABELS = bh.load("glue/rte", data="mini")


def test_predictions_in_memory_and_in_a_file_get_equal_scores(tmp_path):
    wrong = {"entailment": "not_entailment", "not_entailment": "entailment"}
    half = LABELS["label"].where(LABELS.index % 2 == 0, LABELS["label"].map(wrong))
    by_id = pd.Series(half.to_numpy(), index=LABELS["id"])
    file = tmp_path / "RTE.tsv"
    rows = enumerate(half)
    file.write_text("index\tprediction\n" + "".join(f"{n}\t{label}\n" for n, label in rows))
    scores = bh.score("glue/rte", file, "mini")
    assert scores == {"accuracy": 0.5}
    assert bh.score("glue/rte", list(half), "mini") == scores
    assert bh.score("glue/rte", by_id[::-1], "mini") == scores
    assert bh.score("glue/rte", by_id.to_dict(), "mini") == scores


@pytest.mark.parametrize(
    ("task", "metric", "perfect"),
    [
        ("glue/stsb", "pearson", lambda row: row["label"]),
        ("squad/v2.0", "f1", lambda row: (row["answers"]["text"] or [""])[0]),
        ("race/all", "accuracy", lambda row: row["gold"][0]),
        ("conll2003/ner", "f1", lambda row: row["tags"]),
    ],
)
def test_gold_answers_scored_as_predictions_get_a_perfect_score(task, metric, perfect):
    rows = bh.load(task, data="mini")
    scores = bh.score(task, [perfect(row) for _, row in rows.iterrows()], "mini")
    assert scores[metric] == pytest.approx(1.0)


def test_task_rows_can_be_loaded_as_a_hugging_face_dataset():
    rows = bh.load("squad/v1.1", data="mini", limit=8, form="dataset")
    assert set(rows.features["answers"]) == {"text", "answer_start"}
    assert rows[0]["answers"]["text"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bh.score("glue/rte", ["yes"] * len(LABELS), "mini"), "expected one of entailment"),
        (lambda: bh.score("glue/rte", ["entailment"], "mini"), "but got 1 predictions?: "),
        (lambda: bh.score("glue/rte", {"x": "entailment"}, "mini"), "have no prediction"),
        (lambda: bh.score("glue/stsb", ["much"] * 1000, "mini"), "but got 1000 predictions: "),
        (lambda: bh.run(7, task="glue/rte"), "expected a model, but got int"),
        (lambda: bh.run("tiny", task="glue/rtee", data="mini"), "rtee"),
        (lambda: bh.run("tiny", task="glue/rte", halving=True, force=True), "cannot be combined"),
        (lambda: bh.run(["tiny"], name="x", task="glue/rte"), "only with a single model"),
        (lambda: bh.runs("nowhere.sqlite"), "nowhere.sqlite"),
        (lambda: bh.run("tiny", tokenizer="t", task="glue/rte"), "only with a model in memory"),
        (lambda: bh.run("tiny", task=[None]), "expected a name or a list of names, got None"),
        (lambda: bh.run("tiny", task="glue/rte", device=0), "no device is called '0'"),
        (
            lambda: bh.run("tiny", task="rte", seeds=0, data="mini"),
            "seeds= must be a whole number",
        ),
        (
            lambda: bh.run("tiny", task="rte", seeds=[], data="mini"),
            "seeds= must be a whole number",
        ),
        (lambda: bh.run("tiny", task="rte", seeds="two", data="mini"), "seeds= must .* got 'two'"),
        (lambda: bh.run("tiny", task="rte", seeds=["1"], data="mini"), "seed= must .* got '1'"),
        (lambda: bh.run("tiny", task="rte", seeds=[2**32], data="mini"), "from 0 to 4294967295"),
        (lambda: bh.run("tiny", task="rte", limit=1.5, data="mini"), "limit= must .* got 1.5"),
        (
            lambda: bh.run("tiny", task="rte", processes_per_job=0, data="mini"),
            "processes_per_job=",
        ),
        (lambda: bh.load("pairs/zorro", "dev"), "not on the hub: use `data=DIR` with its files"),
        (lambda: bh.score("squad/v2.0", [None] * 264, "mini"), "expected a text"),
        (lambda: bh.score("conll2003/ner", [None] * 150, "mini"), "expected a list of tags"),
        (
            lambda: bh.run("tiny", data=pd.DataFrame(ROWS)),
            "data is a DataFrame, .* as data_file",
        ),
        (
            lambda: bh.run("tiny", data_file={"text": ["a"], "label": ["b"]}),
            "has the splits text, label: exp",
        ),
        (
            lambda: bh.run("tiny", data_file={"dev": [], "valid": []}),
            "has the splits dev, valid: exp",
        ),
    ],
)
def test_invalid_python_arguments_raise_a_one_sentence_error(call, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bh.BenchError, match=sentence) as raised:
        call()
    assert "--" not in str(raised.value)
    assert len(raised.traceback) <= 3, "the line of the test, that of the case, and what hides ours"
    assert list(tmp_path.iterdir()) == []


# Models in memory.


def in_memory():
    transformers.set_seed(3)
    model = transformers.AutoModel.from_config(make_config("bert"))
    return model, AutoTokenizer.from_pretrained(tiny_folder())


def planned(monkeypatch, model, **words):
    """Return the jobs that a call would run."""
    found = []

    @contextmanager
    def look(schedule, *_, **options):
        found.extend(schedule.jobs)
        yield Driven(schedule, EMPTY, ())

    monkeypatch.setattr("benchharness.driver.session.drive", look)
    monkeypatch.setattr("benchharness.driver.session.prepared_workers", lambda *_: nullcontext())
    bh.run(model, baselines=False, **{**WHAT, "task": "rte", "seeds": 1, **words})
    return found


def test_a_model_in_memory_is_identified_by_its_weights(tmp_path, monkeypatch):
    model, tokenizer = in_memory()
    words = {"tokenizer": tokenizer, "name": "mine", "db": tmp_path / "x.sqlite"}
    (job,) = planned(monkeypatch, model, **words)
    (same,) = planned(monkeypatch, model, **words)
    assert job.model == "mine"
    assert same.key == job.key
    assert len(list((tmp_path / "models").iterdir())) == 1
    model.save_pretrained(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    (folder,) = planned(monkeypatch, tmp_path / "mine", db=tmp_path / "x.sqlite")
    assert folder.key == job.key
    (elsewhere,) = planned(monkeypatch, model, **{**words, "name": "../a=b/c"})
    assert (elsewhere.model, elsewhere.key) == ("../a=b/c", job.key)
    assert len(list((tmp_path / "models").iterdir())) == 2
    model.embeddings.word_embeddings.weight.data[5] += 1
    (other,) = planned(monkeypatch, model, **words)
    assert other.key != job.key


def test_model_in_memory_is_benchmarked_without_changing_it(tmp_path):
    model, tokenizer = in_memory()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    found = bh.run(
        model,
        tokenizer=tokenizer,
        task="rte",
        seeds=1,
        set={"epochs": 1},
        baselines=False,
        db=tmp_path / "x.sqlite",
        **WHAT,
    )
    assert list(found.frame()["status"]) == ["finished"]
    assert all(bool((before[name] == w).all()) for name, w in model.state_dict().items())


def test_a_model_in_memory_without_tokenizer_or_weights_raises_an_error(tmp_path):
    model, tokenizer = in_memory()
    with pytest.raises(bh.BenchError, match="needs its tokenizer"):
        bh.run(model, task="glue/rte", db=tmp_path / "x.sqlite")
    with pytest.raises(bh.BenchError, match="needs its tokenizer"):
        bh.run(model, tokenizer="bert", task="glue/rte", db=tmp_path / "x.sqlite")
    with pytest.raises(bh.BenchError, match="has no weights"):
        bh.run(model.to("meta"), tokenizer=tokenizer, task="glue/rte", db=tmp_path / "x.sqlite")
    assert list(tmp_path.iterdir()) == []


# Data in memory.

ROWS = [{"review": f"film {n} was {'good' if n % 2 else 'bad'}", "is": n % 2} for n in range(40)]


def test_data_frames_and_datasets_in_memory_are_used_like_data_files(tmp_path):
    datasets = pytest.importorskip("datasets")
    whole = pd.DataFrame(ROWS)
    named = datasets.Dataset.from_list(ROWS).cast_column(
        "is", datasets.ClassLabel(names=["-", "+"])
    )
    words = {"db": tmp_path / "x.sqlite", "seeds": 1, "device": "cpu"}
    found = bh.run(
        "majority", data_file=whole[whole.index > 1], columns="text=review,label=is", **words
    )
    assert "dev is 20% of train.parquet" in found.said[1]
    answers = bh.predictions(found.keys[0], db=found.db)
    rows = whole[whole.index > 1].iloc[answers["id"].astype(int) - 1]
    assert rows["is"].astype(str).tolist() == answers["gold"].tolist()
    assert found.boards()[0].board.title == "rows"
    assert (
        bh.run(
            "majority", data_file=ROWS[2:], columns={"text": "review", "label": "is"}, **words
        ).keys
        == found.keys
    )
    split = datasets.DatasetDict(train=named, validation=named.select(range(10)))
    (said, rows, *_) = bh.run("majority", data_file=split, **words).said
    assert said.endswith("(2 classes: +, -); macro F1")
    assert rows == "rows: 40 train, 10 dev"
    assert sorted(path.name for path in tmp_path.glob("data/*/rows/*")) == [
        "dev.parquet",
        "train.parquet",
        "train.parquet",
    ]


@pytest.mark.parametrize("rows", [[], pd.DataFrame({"text": ["a", 1], "label": [{}, "b"]}), 5])
def test_data_in_memory_that_is_not_a_table_is_an_error(rows, tmp_path):
    with pytest.raises(bh.BenchError, match=r"has no rows|cannot be written as Parquet"):
        bh.run("tiny", data_file=rows, db=tmp_path / "x.sqlite")


def test_python_arguments_may_be_pandas_or_numpy_values(tmp_path, monkeypatch):
    model, tokenizer = in_memory()
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    jobs = planned(
        monkeypatch,
        "tiny",
        task=pd.Series(["rte"]),
        set={"learning_rate": np.array([1e-4, 2e-4])},
        seeds=np.arange(1, 3),
        limit=np.int64(16),
        shots="16",
        start_from=tmp_path / "start",
        db=tmp_path / "x.sqlite",
    )
    names = ("learning_rate", "shots")
    found = {(job.seed, *(job.settings[name].value for name in names)) for job in jobs}
    assert found == {(1, 1e-4, 16), (1, 2e-4, 16), (2, 1e-4, 16), (2, 2e-4, 16)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"set": {"temperature": 3}}, r"^temperature \(set=\) has no effect on any"),
        ({"recipe": "tinybert-student"}, "but there is no teacher=: teacher_weight"),
    ],
)
def test_setting_that_no_job_uses_gives_a_python_warning(monkeypatch, tmp_path, asked, said):
    with pytest.warns(UserWarning, match=said) as warned:
        planned(monkeypatch, "tiny", task="rte", db=tmp_path / "x.sqlite", **asked)
    assert len(warned) == 1
    assert warned[0].filename == __file__


# Code of the documentation and of the example notebook.


@pytest.mark.soak
def test_code_on_the_python_documentation_page_runs(tmp_path, monkeypatch):
    """Run its blocks in order on fewer rows."""
    monkeypatch.chdir(tmp_path)
    model, tokenizer = in_memory()
    names = {"model": model, "tokenizer": tokenizer}
    for block in blocks_of(DOCS / "python.md"):
        if block.kind == "python":
            fewer = block.text.replace("seeds=2", "seeds=2, limit=40")
            exec(compile(fewer, "docs/python.md", "exec"), names)
    assert set(names["results"].frame()["task"]) == {"glue/rte", "glue/stsb"}
    assert set(bh.runs()["model"]) >= {"tiny", "mine"}


NOTEBOOK = ROOT / "examples" / "how_good_is_my_encoder.ipynb"


def read_notebook():
    """Return the notebook with its stored outputs, and a copy that runs faster."""
    nbformat = pytest.importorskip("nbformat")
    stored, fresh = (nbformat.read(NOTEBOOK, as_version=4) for _ in range(2))
    (run,) = (cell for cell in fresh.cells if "bh.run(" in cell.source)
    run.source = run.source.replace("seeds=1", "seeds=1, limit=60, set={'epochs': 1}")
    assert "limit=60" in run.source
    return stored, fresh


@pytest.mark.soak
def test_example_notebook_in_a_kernel_gives_the_tables_of_its_stored_outputs(tmp_path):
    """Compare table headers of at most ten cells; numbers and plots may differ."""
    nbclient = pytest.importorskip("nbclient")
    stored, fresh = read_notebook()
    assert len(stored.cells) <= 10
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(fresh, timeout=300, resources=place).execute()
    assert [shown(cell) for cell in fresh.cells] == [shown(cell) for cell in stored.cells]
    assert any("image/png" in shown(cell)[0] for cell in fresh.cells if shown(cell))


@pytest.mark.soak
def test_example_notebook_cells_run_without_a_kernel_give_their_stored_outputs(
    tmp_path, monkeypatch
):
    """Run the cells in this process: a kernel takes longer to start than the cells take to run."""
    formatters = pytest.importorskip("IPython.core.formatters")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    stored, fresh = read_notebook()
    assert len(stored.cells) <= 10
    names, pictures = {}, 0
    for cell, as_stored in zip(fresh.cells, stored.cells, strict=True):
        if cell.cell_type != "code":
            continue
        *before, last = ast.parse(cell.source).body
        exec(compile(ast.Module(before, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        if cell.source.endswith(";"):
            pictures += len(pyplot.get_fignums())
            pyplot.close("all")
            assert "image/png" in shown(as_stored)[0]
        else:
            # The option that a notebook kernel sets.
            with pd.option_context("display.max_columns", 20):
                data, _ = formatters.DisplayFormatter().format(value)
            assert shown({"outputs": [{"data": data}]}) == shown(as_stored)
    assert pictures == 1


def shown(cell):
    """Return the kinds of a cell's outputs, with the header words of text outputs."""
    found = [output.get("data", {}) for output in cell.get("outputs", ())]
    texts = [data.get("text/plain", "") for data in found if "image/png" not in data]
    heads = [text.split("\n")[0].split() for text in texts]
    return [*(sorted(data) for data in found), *heads]


# Equal options in Python and on the command line give equal jobs.

OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "seeds": st.integers(1, 3),
        "task": st.sampled_from(["rte", "cola", "mnli"]),
        "recipe": st.sampled_from(["paper", "checkpoints"]),
        "precision": st.sampled_from(["fp32", "bf16"]),
        "limit": st.integers(4, 40),
        "test": st.booleans(),
        "baselines": st.booleans(),
        "teacher": st.just("tiny"),
        "set": st.fixed_dictionaries(
            {}, optional={"epochs": st.integers(1, 3), "learning_rate": st.just([1e-4, 3e-4])}
        ),
    },
)


def command(words):
    """Return the same options as words of the command line."""
    for name, value in words.items():
        match name, value:
            case "set", dict():
                for key, each in value.items():
                    listed = each if isinstance(each, list) else [each]
                    yield from ("--set", f"{key}={','.join(map(str, listed))}")
            case "baselines", False:
                yield "--no-baselines"
            case ("test", True):
                yield "--test"
            case _, bool():
                pass
            case _:
                yield from (f"--{name}", str(value))


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=OPTIONS)
def test_python_run_plans_the_same_jobs_as_the_command_line(bench, monkeypatch, words):
    found = []

    @contextmanager
    def look(schedule, *_, **options):
        found.extend(job.key for job in schedule.jobs)
        yield Driven(schedule, EMPTY, ())

    monkeypatch.setattr("benchharness.driver.session.drive", look)
    monkeypatch.setattr("benchharness.driver.session.prepared_workers", lambda *_: nullcontext())
    bh.run("tiny", suite="glue", data="mini", db="x.sqlite", **words)
    asked = command({"model": "tiny", "suite": "glue", "data": "mini", **words})
    ended = bench("run", *asked, "--dry-run", "--json")
    assert [job["key"] for job in json.loads(ended.out)["jobs"]] == found
    assert found
