"""Models exported in the format of transformers: the check of an export, and refused exports."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import pipeline

import benchharness as bh
from benchharness.errors import BenchError, JobError
from benchharness.extensions.kept_models import check as checking
from benchharness.extensions.kept_models import save_pretrained as taking
from benchharness.extensions.kept_models.check import Dev, check
from benchharness.extensions.kept_models.export import Found
from benchharness.extensions.kept_models.load import TrainedModel, load_trained
from benchharness.extensions.kept_models.onnx_command import Variants, finish
from benchharness.extensions.kept_models.predict import predict
from benchharness.extensions.kept_models.save_pretrained import class_of, take, write_published
from benchharness.heads.published import UNSCALED
from benchharness.kept_folders import check_folder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.store import open_store
from benchharness.recipes.classes import published_class
from benchharness.recipes.recipe import Recipe
from benchharness.splits import read_split
from benchharness.tasks.answers import compare_answers, moves
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.mini_jobs import make_job
from tests.helpers.soak import in_part
from tests.helpers.text_models import save_text_model, text_job
from tests.helpers.training import RECIPE, having

CLASS = "AutoModelForSequenceClassification"


class Kept(NamedTuple):
    model: TrainedModel
    result: Result
    dev: list[Dev]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Kept]:
    """A classification run, and a regression run with a scale; long rows are truncated."""
    found = {}
    for name, most in (("mrpc", "40"), ("stsb", "20")):
        folder = tmp_path_factory.mktemp("models") / name
        result = run_job(make_job(f"glue/{name}", limit=32, max_tokens=most), keep=folder)
        model = load_trained(folder, precision="fp32")
        (each,) = (e for e in result.evaluations if e.split == "dev")
        stored: Any = predictions_of(each)
        if name == "stsb":  # scale the numbers as for custom data
            model = replace(model, task=replace(model.task, scale=(1.5, 2.0)))
            stored = [replace(p, label=p.label * 2.0 + 1.5) for p in stored]
        found[name] = Kept(
            model, result, [Dev(each.name, read_split(model.job, each.name), stored)]
        )
    return found


@pytest.fixture(scope="module")
def written(
    runs: Mapping[str, Kept], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Path]:
    """Both runs exported as a transformers class."""
    root = tmp_path_factory.mktemp("written")
    for name, kept in runs.items():
        (root / name).mkdir()
        write_published(kept.model, root / name, CLASS)
        check(kept.model, root / name, CLASS, kept.dev)
    return {name: root / name for name in runs}


def tell(file: str, **values: Any) -> Callable[[Path], None]:
    """Return a function that changes values in a JSON file of the folder."""

    def change(folder: Path) -> None:
        data = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(data | values))

    return change


def reweigh(part: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], None]:
    """Return a function that changes the weights whose names contain `part`."""

    def do(folder: Path) -> None:
        file = folder / "model.safetensors"
        weights = {
            name: change(w).contiguous() if part in name else w
            for name, w in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})

    return do


def cut_vocabulary(folder: Path) -> None:
    reweigh("word_embeddings", lambda weights: weights[:500])(folder)
    tell("config.json", vocab_size=500)(folder)


NAMES = ["not_equivalent", "equivalent"]
TOKENIZER = "tokenizer_config.json"
FAULTS: Mapping[str, tuple[str, Callable[[Path], None], str]] = {
    "token types dropped": (
        "mrpc", tell(TOKENIZER, model_input_names=["input_ids", "attention_mask"]), "token types"
    ),
    "padding side turned": ("mrpc", tell(TOKENIZER, padding_side="left"), "side of the padding"),
    "labels exchanged": (
        "mrpc", tell("config.json", id2label={0: NAMES[1], 1: NAMES[0]}), "labels"
    ),
    "outputs exchanged": ("mrpc", reweigh("classifier", lambda w: w.flip(0)), "order of the lab"),
    "length lost": ("stsb", tell(TOKENIZER, model_max_length=10**30), "length"),
    "scale left out": ("stsb", reweigh("classifier", lambda w: w / 2), "scale"),
    "vocabulary not restored": ("mrpc", cut_vocabulary, "vocabulary"),
    "vocabulary in another order": (
        "mrpc", reweigh("word_embeddings", lambda w: w.roll(7, 0)), "vocabulary"
    ),
    "a weight missing": ("mrpc", reweigh("pooler.dense.weight", lambda w: w[:3]), "weights"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_export_check_detects_a_planted_fault_and_names_its_cause(
    fault: str, runs: Mapping[str, Kept], written: Mapping[str, Path], tmp_path: Path
):
    name, plant, cause = FAULTS[fault]
    folder = shutil.copytree(written[name], tmp_path / "planted")
    plant(folder)
    kept = runs[name]
    with pytest.raises(JobError, match=f"likely cause is .*{cause}"):
        check(kept.model, folder, CLASS, kept.dev)


def test_failed_model_export_leaves_no_folder(
    runs: Mapping[str, Kept], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = runs["stsb"]
    # A wrong scale is written to the exported model.
    monkeypatch.setattr(taking, "scale_of", lambda _: UNSCALED)
    with pytest.raises(
        JobError, match=r"transformers computes -?\d.* network computes -?\d.* scale"
    ):
        take(kept.model, kept.result, tmp_path / "to", kept.dev)
    assert not list(tmp_path.iterdir())


def moved(kept: Kept, by: float) -> list[Dev]:
    """Return the dev rows with shifted stored probabilities and the resulting labels."""
    names: Any = kept.model.task
    stored = []
    for each in kept.dev[0].stored:
        prediction: Any = each
        first = min(max(prediction.scores[0] + by, 0.0), 1.0)
        label = names.labels[0] if first >= 0.5 else names.labels[1]
        stored.append(replace(prediction, scores=(first, 1 - first), label=label))
    return [kept.dev[0]._replace(stored=stored)]


def test_model_that_does_not_reproduce_its_run_is_not_exported(
    runs: Mapping[str, Kept], tmp_path: Path
) -> None:
    """The weights of another run can give probabilities that are close to the stored ones."""
    kept = runs["mrpc"]
    count = len(kept.dev[0].stored)
    take(kept.model, kept.result, tmp_path / "near", moved(kept, 0.0005))
    for by in (0.04, -0.04, 1.0):
        with pytest.raises(
            JobError, match=rf"{count} of {count} predictions differ from the stored "
        ):
            take(kept.model, kept.result, tmp_path / "far", moved(kept, by))
    assert [path.name for path in tmp_path.iterdir()] == ["near"]
    taken = take(kept.model, kept.result, tmp_path / "far", moved(kept, 1.0), anyway=True)
    assert f"{count} differ by more than rounding" in taken.checked.sentence


def unexplained(kept: Kept, precision: str, *found: Any) -> int:
    """Return the number of unexplained changes, given the exact and the rough ones."""
    model = replace(kept.model, job=replace(kept.model.job, precision=precision))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking, "predict", lambda *_: SimpleNamespace(predictions=()))
        patch.setattr(checking, "moves", lambda *_: found[0] if _[2] == "stored" else found[1])
        examples: Any = range(len(found[0][0]))
        return checking._unexplained(model, examples, (), "stored")  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("rows", "most"), [(5, 0), (10, 1), (200, 3), (2000, 5)])
def test_few_changed_labels_are_tolerated_as_near_ties(
    runs: Mapping[str, Kept], precision: str, rows: int, most: int
) -> None:
    """Spans, tags and words can have two best candidates that are nearly equal."""
    still = ([0.0] * rows, 0)
    for others in range(most + 3):
        left = unexplained(runs["mrpc"], precision, ([0.0] * rows, others), still)
        assert left == max(0, others - most)
    bf16 = unexplained(runs["mrpc"], "bf16", ([0.0] * rows, most + 9), ([0.0] * rows, 2))
    assert bf16 == 1


@pytest.mark.parametrize(
    ("stored", "rough", "left"),
    [
        # The large difference of one row is explained by the rounding of this row.
        ([0.002] * 999 + [0.5], [0.002] * 999 + [0.9], 0),
        # But it does not explain differences of other rows.
        ([0.04] * 1000, [0.002] * 999 + [0.9], 996),
        # Large differences of all rows are not explained, although rounding is rough.
        ([0.2] * 1000, [0.08] * 1000, 1000),
        ([0.09] * 1000, [0.08] * 1000, 0),
    ],
)
def test_large_rounding_error_in_one_row_does_not_raise_the_tolerance_for_other_rows(
    runs: Mapping[str, Kept], stored: list[float], rough: list[float], left: int
) -> None:
    assert unexplained(runs["mrpc"], "bf16", (stored, 0), (rough, 0)) == left


@pytest.mark.parametrize("task", ["glue/mrpc", "glue/stsb", "squad/v1.1"])
def test_export_tolerates_bf16_rounding_but_not_the_weights_of_another_seed(
    task: str, tmp_path: Path
) -> None:
    results = []
    for seed in (1, 2):
        job = replace(make_job(task, limit=24), seed=seed, precision="bf16")
        results.append(run_job(job, keep=tmp_path / str(seed)))
    model = load_trained(tmp_path / "1", precision="fp32")
    for result in results:
        each = next(e for e in result.evaluations if e.split == "dev")
        dev = [Dev(each.name, read_split(model.job, each.name), predictions_of(each))]
        to = tmp_path / f"to-{result.job.seed}"
        if result is results[0]:
            checked = take(model, results[0], to, dev).checked
            assert checked.largest_change > 0
            continue
        with pytest.raises(JobError, match="by more than rounding in bf16"):
            take(model, results[0], to, dev)
        assert not to.exists()


def test_exported_folder_is_complete_and_runs_in_a_pipeline(
    runs: Mapping[str, Kept], tmp_path: Path
):
    kept, to = runs["stsb"], tmp_path / "to"
    taken = take(kept.model, kept.result, to, kept.dev)
    assert taken.checked.rows == len(kept.dev[0].stored)
    assert taken.checked.differ == 0
    assert taken.checked.largest_change < 1e-4
    assert check_folder(to)["run"] == kept.result.job.key
    assert {path.stat().st_mode & 0o777 for path in to.iterdir()} == {0o644}
    assert not [path for path in to.iterdir() if path.suffix in (".bin", ".pt", ".pkl")]
    texts = "".join(path.read_text() for path in to.glob("*.json"))
    assert str(kept.model.folder.parent) not in texts
    assert json.loads((to / "benchharness.json").read_text())["splits"]["glue/stsb:dev"]["scores"]
    ask = pipeline("text-classification", model=str(to), device="cpu")
    examples: Any = kept.dev[0].rows.examples
    for example, stored in zip(examples, kept.dev[0].stored, strict=True):
        said = ask({"text": example.text_a, "text_pair": example.text_b}, truncation=True)
        assert said["score"] == pytest.approx(stored.label, abs=1e-4)
    take(kept.model, kept.result, to, kept.dev)  # exporting again to the same folder is accepted


def test_export_never_overwrites_a_foreign_folder(runs: Mapping[str, Kept], tmp_path: Path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("dear")
    kept, other = runs["stsb"], runs["mrpc"]
    with pytest.raises(BenchError, match="is not overwritten"):
        take(kept.model, kept.result, mine, kept.dev)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    take(kept.model, kept.result, tmp_path / "to", kept.dev)
    with pytest.raises(BenchError, match="is not overwritten"):
        take(other.model, other.result, tmp_path / "to", other.dev)


def predicts_what_is_stored(folder: Path, result: Result) -> None:
    model, each = load_trained(folder, precision="fp32"), result.evaluations[0]
    assert model.job.key == result.job.key
    found = predict(model, read_split(result.job, each.name).examples).predictions
    differ, change = compare_answers(model.task, found, predictions_of(each))
    assert (len(found), differ) == (len(each.predictions), 0)
    assert change < 1e-4


def test_exported_model_reproduces_stored_predictions(runs: Mapping[str, Kept], tmp_path: Path):
    for name, kept in runs.items():
        take(kept.model, kept.result, tmp_path / name, kept.dev)
        predicts_what_is_stored(tmp_path / name, kept.result)
    # The weights of the last layer contain another scale than that of the task.
    again = load_trained(tmp_path / "stsb", precision="fp32")
    state = runs["stsb"].model.network.state_dict()
    for name, weight in again.network.state_dict().items():
        assert torch.allclose(weight, state[name], atol=1e-6)
    code = (
        "import sys, pathlib; from benchharness.extensions.kept_models.load import load_trained;"
        "import benchharness.extensions.kept_models.predict;"
        "load_trained(pathlib.Path(sys.argv[1]));"
        "sys.exit(' '.join({'datasets', 'sqlalchemy', 'scipy'} & {*sys.modules}) or 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "mrpc"], check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with pytest.raises(BenchError, match="was not trained on glue/rte, but on glue/mrpc"):
        load_trained(tmp_path / "mrpc", "glue/rte")
    reweigh("pooler.dense.weight", lambda w: w[:3])(tmp_path / "mrpc")
    with pytest.raises(BenchError, match=r"is damaged \(model.safetensors differs from the file"):
        load_trained(tmp_path / "mrpc")


@pytest.mark.parametrize(
    ("task", "settings", "family"),
    [
        ("swag/regular", {}, "bert"),
        ("conll2003/ner", {}, "bert"),
        ("glue/rte", {}, "gpt2"),
        ("glue/rte", {"features": "last"}, "bert"),
        ("glue/rte", {"features": "mix"}, ""),  # no transformers class
    ],
)
def test_exported_models_with_other_heads_families_or_features_reproduce_predictions(
    task: str, settings: Mapping[str, str], family: str, tmp_path: Path
):
    named = {"model": str(save_family(tmp_path / family, family))} if family else {}
    check_taken(make_job(task, limit=8, **settings, **named), tmp_path, is_class=bool(family))


@pytest.mark.parametrize("kind", in_part(["t5", "t5.1.1", "mt5"], ["t5.1.1"]))
def test_exported_text_to_text_model_reproduces_stored_predictions(kind: str, tmp_path: Path):
    """T5 1.1 and mT5 have a separate output layer."""
    check_taken(text_job(save_text_model(tmp_path / kind, kind)), tmp_path, is_class=True)


def check_taken(job: Job, folder: Path, *, is_class: bool) -> None:
    result = run_job(job, keep=folder / "kept")
    model = load_trained(folder / "kept", precision="fp32")
    each = next(e for e in result.evaluations if e.split == "dev")
    dev = Dev(each.name, read_split(result.job, each.name), predictions_of(each))
    taken = take(model, result, folder / "to", [dev])
    assert bool(taken.checked.sampled) is is_class
    assert (taken.checked.rows, taken.checked.differ) == (len(dev.stored), 0)
    predicts_what_is_stored(folder / "to", result)


def test_model_without_a_transformers_class_is_exported_for_bench_predict(tmp_path: Path):
    checkpoint = str(save_family(tmp_path / "bert", "bert"))
    job = make_job("superglue/wic", limit=16, model=checkpoint)
    result = run_job(job, keep=tmp_path / "kept")
    model = load_trained(tmp_path / "kept", precision="fp32")
    each = next(e for e in result.evaluations if e.split == "dev")
    right: Any = predictions_of(each)
    other = [replace(p, scores=(p.scores[1], p.scores[0])) for p in right]
    rows = read_split(job, each.name)
    with pytest.raises(JobError, match=r"predictions differ from the stored ones"):
        take(model, result, tmp_path / "to", [Dev(each.name, rows, other)])
    assert not (tmp_path / "to").exists()
    odd = take(model, result, tmp_path / "odd", [Dev(each.name, rows, other)], anyway=True)
    with open_store(tmp_path / "empty.sqlite") as store:
        finish(odd, Found(store=store, db="", result=result), Variants())
    count = f"{len(other)} predictions on dev rows differ from the stored ones. The scores belong "
    assert f"{count}to the stored" in (tmp_path / "odd" / "README.md").read_text()
    assert f"{len(other)} differ by more than rounding." in odd.checked.sentence
    taken = take(model, result, tmp_path / "to", [Dev(each.name, rows, right)])
    assert (taken.checked.sampled, taken.checked.unexplained) == (0, 0)
    assert (
        "no class for a classifier that reads the marked words of WiC" in taken.published.sentence
    )
    with pytest.raises(BenchError, match="only `bench predict` can load it"):
        taken.load()
    texts = {path.name: path.read_text() for path in (tmp_path / "to").glob("*.json")}
    assert texts.keys() >= {"job.json", "benchharness.json"}
    assert str(tmp_path) not in "".join(texts.values())
    again = load_trained(tmp_path / "to", precision="fp32")
    state = again.network.state_dict()
    assert all(torch.equal(w, state[name]) for name, w in model.network.state_dict().items())
    assert class_of(again).lacking


@pytest.mark.parametrize(
    ("task", "values", "family", "lacking"),
    [
        ("glue/rte", {"orders": "added"}, "gpt2", "orders=added"),
        ("squad/v2.0", {"beam_size": 20}, "electra", "ELECTRA"),
        ("conll2003/ner", {"lstm_size": 8}, "bert", "BiLSTM"),
        ("conll2012/coref", {}, "bert", "coreference"),
        ("conll2012/srl", {}, "bert", "semantic roles"),
        ("hotpotqa/distractor", {}, "bert", "auxiliary outputs"),
        ("glue/rte", {"features": "layer-3"}, "bert", "layer-3"),
        ("glue/rte", {}, "t5", "t5 with a pair head"),
        ("glue/rte", {}, "roformer", "roformer"),
        ("glue/rte", {"features": "last"}, "bert", ""),
        ("glue/rte", {"as_text": True}, "t5", ""),
    ],
)
def test_task_and_recipe_determine_the_transformers_class_or_why_there_is_none(
    task: str, values: Mapping[str, Any], family: str, lacking: str
):
    recipe: Recipe = having(RECIPE, **values)
    found = published_class(find_task(task), recipe, family)
    assert lacking in found.sentence
    assert bool(found.auto_class) is not bool(lacking)


def test_model_command_accepts_a_model_name_or_a_run_key(bench):
    run = ("--model", "tiny", "--task", "glue/rte", "--data", "mini", "--limit", "16")
    once = ("--set", "epochs=1", "--device", "cpu", "--no-baselines", "--seeds", "2")
    assert bench("run", *run, *once, "--precision", "fp32", "--keep-models").code == 0
    too = "--collapsed-too"  # after two steps, the model has learned nothing
    ended = bench("model", "tiny", "--to", "to dir", too)
    assert ended.code == 0
    assert "is as good as the best of 2 seeds" in ended.err
    assert "0 of 16 predictions differ from the stored ones" in ended.out
    assert ended.out.endswith("hf upload ORG/NAME 'to dir'\n")
    key = json.loads(Path("to dir", "benchharness.json").read_text())["key"]
    network, tokenizer = bh.model(key[:8], collapsed_too=True, db="results/leaderboard.sqlite")
    assert type(network).__name__ == "BertForSequenceClassification"
    assert tokenizer.model_max_length == 128
    assert bench("model", key[:8]).code == 2
    rows, columns = [{"a": "It rains.", "b": "It is wet."}], "text=a,text2=b"
    found = [bh.predict(each, rows, columns=columns) for each in (key, "to dir")]
    assert found[0]["label"].equals(found[1]["label"])
    assert found[0]["score"].tolist() == pytest.approx(found[1]["score"].tolist(), abs=1e-4)
    shutil.rmtree(Path("results/models") / key)
    ended = bench("model", key[:8], "--to", "other", too)
    assert ended.code == 2
    assert f"bench model {key[:12]} --retrain" in ended.err
    assert not Path("other").exists()
    ended = bench("model", key[:8], "--retrain")
    assert ended.code == 0
    assert "the predictions are bit-identical to the stored ones.\nThe model is in " in ended.out
    assert check_folder(Path("results/models") / key)["run"] == key
    assert "the model was kept already." in bench("model", key[:8], "--retrain").out


def test_dry_run_lists_models_without_a_transformers_class(bench):
    run = ("run", "--model", "tiny", "--task", "superglue/wic", "--data", "mini", "--dry-run")
    said = (
        "transformers has no class for a classifier that reads the marked words of WiC, so these "
        "models can be used only with `bench predict` (WiC)."
    )
    assert said in bench(*run, "--keep-models").out
    assert said not in bench(*run).out


def test_label_change_despite_equal_probabilities_counts_as_the_probability_margin():
    """The stored probabilities are equal, but the stored label does not follow from them."""
    task = find_task("glue/mrpc")
    scores = (0.9, 0.1)
    found = [PairPrediction(id="1", label=task.labels[0], scores=scores)] * 2
    stored = [found[0], PairPrediction(id="1", label=task.labels[1], scores=scores)]
    assert moves(task, found, stored) == ([0.0, pytest.approx(0.8)], 0)
