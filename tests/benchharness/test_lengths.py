"""Tests of maximum row lengths, model limits and counts of truncated rows."""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import benchharness as bh
from benchharness.api import Results
from benchharness.driver.plan import Plan
from benchharness.encoder import load_encoder
from benchharness.encoder.packing import first_position
from benchharness.errors import BenchError, ModelError
from benchharness.extensions.cloze.language_model import load_language_model
from benchharness.extensions.cloze.scoring import Asked, predict_untrained
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.text_to_text.head import text_head
from benchharness.heads import Head, Limits, head_for
from benchharness.heads.tokens import encode_once, tokenize_ids
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import truncated_rows
from benchharness.models import MODELS, find_model
from benchharness.models.folder import NO_LIMIT, is_unbounded
from benchharness.models.weights import reach
from benchharness.recipes.recipe import PairOptions, SpanOptions
from benchharness.recipes.resolve import ResolvedRecipe, resolve_recipe
from benchharness.recipes.zero_shot import zero_shot_recipe
from benchharness.tasks.examples import ChoiceExample, Mark, PairExample, SpanExample, TagExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import TASKS
from benchharness.training.predict import predict
from benchharness.worker.job import run_job
from tests.helpers.families import FAMILIES, save_family
from tests.helpers.made_tokenizers import make_tokenizer
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.training import CPU

RTE, SQUAD = TASKS["glue/rte"], TASKS["squad/v1.1"]


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> str:
    """Return a checkpoint with a limit of 68 tokens: 72 positions, as RoBERTa counts them."""
    return str(save_family(tmp_path_factory.mktemp("short") / "short", "roberta"))


def plan_of(*names: str, recipe: str | None = None, **values: str) -> Plan:
    models = [find_model(name) for name in names]
    return plan_jobs(models, [RTE], recipe=recipe, overrides=values)


def read_of(job: Job) -> tuple[object, str]:
    setting = job.settings["max_tokens"]
    return setting.value, setting.source


@pytest.mark.parametrize("family", FAMILIES)
def test_planned_maximum_length_of_every_family_equals_that_of_its_encoder(
    tmp_path: Path, family: str
) -> None:
    folder = save_family(tmp_path / family, family)
    encoder = load_encoder(str(folder), None, seed=1)
    # Compute the limit from the network: RoBERTa and related families number positions from the
    # padding index + 1.
    limits = [min(encoder.tokenizer.model_max_length, NO_LIMIT)]
    positions = getattr(encoder.config, "max_position_embeddings", None) or -1
    if is_unbounded(encoder.family, encoder.config.to_dict()):
        limits = [NO_LIMIT]
    elif positions > 0:
        limits.append(positions - first_position(encoder.network))
    assert (reach(find_model(str(folder))) or NO_LIMIT) == encoder.max_tokens == min(limits)


def test_a_registered_model_with_relative_positions_has_no_maximum_length() -> None:
    found = {name: reach(MODELS[name]) for name in ("t5-base", "xlnet-base-cased", "roberta-base")}
    assert found == {"t5-base": None, "xlnet-base-cased": None, "roberta-base": 512}
    assert reach(MODELS["deberta-v3-base"]) is None


def test_plan_uses_the_maximum_length_in_the_tokenizer_config(tmp_path: Path) -> None:
    folder = save_family(tmp_path / "bert", "bert")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 24}')
    assert reach(find_model(str(folder))) == find_model(str(folder)).max_tokens == 24


def test_max_tokens_above_the_limits_of_several_models_is_reported_in_one_error(short: str) -> None:
    with pytest.raises(BenchError) as caught:
        plan_of("tiny", short, max_tokens="1024")
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "tiny reads at most 512 tokens",
        "short reads at most 68 tokens",
    ]
    for value in ("128,1024", "x8"):
        with pytest.raises(BenchError, match="tiny reads at most 512 tokens"):
            plan_of("tiny", max_tokens=value)


def test_bench_run_and_bench_which_reject_max_tokens_above_the_model_limit(
    bench, tmp_path: Path
) -> None:
    what = ("--task", "glue/rte", "--data", "mini", "--set", "max_tokens=1024")
    for words in (
        ("run", "--model", "tiny", *what),
        ("run", "--model", "tiny", *what, "--dry-run"),
        ("which", "--among", "tiny,bert", "--minutes", "1", *what),
    ):
        code, _, error = bench(*words)
        assert (code, error.count("at most 512 tokens")) == (2, 1 + (words[0] == "which")), error
        assert not list(tmp_path.glob("*.sqlite"))
    with pytest.raises(BenchError, match="tiny reads at most 512 tokens"):
        bh.run(
            "tiny", task="glue/rte", data="mini", set={"max_tokens": 1024}, db=tmp_path / "x.sqlite"
        )


def test_max_tokens_of_a_recipe_file_is_capped_at_the_limit_of_each_model(
    short: str, tmp_path: Path
) -> None:
    file = tmp_path / "long.toml"
    file.write_text('[default]\nmax_tokens = { value = 1024, source = "ours" }\n')
    tiny, own = plan_of("tiny", short, recipe=str(file)).jobs
    assert [read_of(job)[0] for job in (tiny, own)] == [512, 68]
    assert all("1024 by" in read_of(job)[1] for job in (tiny, own))
    (same,) = plan_of("tiny", max_tokens="512").jobs
    assert tiny.key == same.key
    # Two values that the model's limit reduces to the same value are not a sweep.
    file.write_text('[default]\nmax_tokens = { value = [512, 1024], source = "ours" }\n')
    (job,) = plan_of("tiny", recipe=str(file)).jobs
    assert (job.key, job.is_sweep) == (same.key, False)


def test_max_tokens_of_a_built_in_recipe_is_capped_at_the_limit_of_the_model(short: str) -> None:
    (job,) = plan_of(short).jobs
    assert read_of(job)[0] == 68
    assert "512 by fairseq" in read_of(job)[1]
    shots = plan_job(short, [RTE], shots=[0])
    assert read_of(shots)[0] == 68


def test_max_tokens_within_the_model_limit_is_not_changed() -> None:
    most, source = read_of(plan_of("tiny").jobs[0])
    assert most == 128
    assert source.startswith("ours: ")


def test_a_worker_rejects_a_job_with_max_tokens_above_the_limit() -> None:
    (job,) = plan_of("tiny").jobs
    settings = dict(job.settings)
    object.__setattr__(settings["max_tokens"], "value", 1024)
    with pytest.raises(ModelError, match="at most 512 tokens"):
        run_job(job)


# Custom data.


def write_long(folder: Path, rows: int = 40) -> Path:
    """Write texts of 300 words whose class depends on the last 150 only."""
    path = folder / "long.csv"
    kinds = [("good", "bad")[n % 2] for n in range(rows)]
    lines = [f"{n} {'the car ' * 75}{f'{kind} ' * 150},{kind}" for n, kind in enumerate(kinds)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


def plan_own(path: Path, *names: str, recipe: str | None = None, **values: str) -> Plan:
    own = find_own(str(path))
    models = [find_model(name) for name in names]
    return plan_jobs(models, [own.task], own.data, recipe=recipe, overrides=values)


def test_custom_data_are_read_up_to_the_maximum_length_of_the_encoder(
    short: str, tmp_path: Path
) -> None:
    path, file = write_long(tmp_path), tmp_path / "own.toml"
    unbounded = str(save_family(tmp_path / "t5", "t5"))
    file.write_text('[default]\nmax_tokens = { value = 100, source = "ours" }\n')
    for options, expected in (
        ({}, [512, 68, 512]),
        ({"recipe": "fast"}, [512, 68, 512]),
        ({"recipe": str(file)}, [100, 68, 100]),
        ({"max_tokens": "64"}, [64, 64, 64]),
    ):
        jobs = plan_own(path, "tiny", short, unbounded, **options).jobs
        assert [read_of(job)[0] for job in jobs] == expected


@pytest.mark.soak
def test_label_visible_only_at_the_end_of_a_long_text_is_learned(tmp_path: Path) -> None:
    path = write_long(tmp_path)
    options = {"learning_rate": "1e-3", "epochs": "8", "batch_size": "4", "evaluations": "1"}
    scores = [
        run_job(plan_own(path, "tiny", **options, **more).jobs[0]).evaluations[0].scores
        for more in ({}, {"max_tokens": "128"})
    ]
    assert scores[0]["accuracy"] == 1.0
    assert scores[1]["accuracy"] < 1.0


# Truncated rows.

TOKENIZER = make_tokenizer("wordpiece")
LONG, SHORT = "the car " * 40, "the car"


def flags_of(task: str, examples: list, head: Head | None = None, **limits: int) -> list[bool]:
    made = head or head_for(TASKS[task])
    found = made.encode(examples, TOKENIZER, Limits(max_tokens=limits.pop("most", 40), **limits))
    return [False] * len(examples) if found.truncated is None else found.truncated.tolist()


def pair(text: str, other: str | None = None, *marks: Mark) -> PairExample:
    return PairExample(id=text[:9], text_a=text, text_b=other, marks=marks)


def test_every_head_flags_the_rows_that_it_truncates() -> None:
    assert flags_of("glue/rte", [pair(SHORT, SHORT), pair(LONG, SHORT)]) == [False, True]
    mark = Mark(text="a", start=0, end=3)
    marked = [pair(SHORT, SHORT, mark), pair(SHORT, LONG, mark)]
    assert flags_of("superglue/wic", marked) == [False, True]
    added = head_for(TASKS["glue/mrpc"], PairOptions(orders="added"))
    assert flags_of("glue/mrpc", [pair(SHORT, LONG), pair(SHORT, SHORT)], added) == [True, False]
    options = [
        ChoiceExample(id=str(n), context=SHORT, question="", options=(SHORT, end), gold=(0,))
        for n, end in enumerate((LONG, SHORT))
    ]
    assert flags_of("superglue/copa", options) == [True, False]


def test_heads_with_windows_truncate_only_questions() -> None:
    asked = [
        SpanExample(id=text[:9], question=text, context=LONG, answers=()) for text in (LONG, SHORT)
    ]
    assert flags_of("squad/v2.0", asked, max_question_tokens=10) == [True, False]
    both = head_for(TASKS["squad/v2.0"], SpanOptions(answerable_weight=0.5, beam_size=5))
    assert flags_of("squad/v2.0", asked, both, max_question_tokens=10) == [True, False]
    words = tuple(LONG.split())
    assert flags_of("conll2003/ner", [TagExample(id="1", words=words)]) == [False]


def test_rows_of_exactly_the_maximum_length_are_not_truncated() -> None:
    (row,) = tokenize_ids([LONG], TOKENIZER).values()
    room = len(row) + 2  # one special token before the text and one after it
    assert flags_of("glue/sst2", [pair(LONG)], most=room) == [False]
    assert flags_of("glue/sst2", [pair(LONG)], most=room - 1) == [True]


def test_rows_with_truncated_target_texts_are_flagged_as_truncated() -> None:
    examples = [replace(pair(text, SHORT), label="entailment") for text in (LONG, SHORT)]
    for most, answer, expected in ((60, 20, [True, False]), (400, 3, [True, True])):
        head = text_head(TASKS["glue/rte"], TOKENIZER, answer)
        assert flags_of("glue/rte", examples, head, most=most) == expected


def test_cached_features_keep_the_flags_of_truncated_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("benchharness.heads.tokens.KEPT_TOKENS", 1)
    rows = read(RTE, "dev", parse_data("mini"))
    read_rte = partial(
        encode_once, head_for(RTE).encode, rows, TOKENIZER, "t", Limits(max_tokens=24)
    )
    made, kept = read_rte(), read_rte()
    assert list(tmp_path.rglob("*.npz"))
    assert made.truncated.tolist() == kept.truncated.tolist()
    assert made.truncated.any()


@pytest.fixture(scope="module")
def cut(tmp_path_factory) -> tuple[Results, dict[str, tuple[int, int]]]:
    """Return a run on RTE with 24 tokens, and the number of longer rows and rows per split."""
    folder = tmp_path_factory.mktemp("cut")
    values = {"epochs": 1, "max_tokens": 24, "evaluations": 1}
    options = {"data": "mini", "seeds": 1, "set": values, "device": "cpu", "precision": "fp32"}
    found = bh.run("tiny", task="glue/rte", db=folder / "cut.sqlite", **options)
    tokenizer, counts = load_encoder("builtin:tiny", None, 1).tokenizer, {}
    for split in ("train", "dev"):
        examples = read(RTE, split, parse_data("mini")).examples
        longer = [len(tokenizer(e.text_a, e.text_b)["input_ids"]) > 24 for e in examples]
        counts[f"glue/rte:{split}"] = (sum(longer), len(examples))
    return found, counts


def test_every_output_shows_the_number_of_truncated_rows_per_split(
    bench, cut: tuple[Results, dict[str, tuple[int, int]]], tmp_path: Path
) -> None:
    ran, counts = cut
    assert all(0 < lost < rows for lost, rows in counts.values())
    assert ran.truncated[ran.keys[0]] == counts  # baselines truncate nothing, so they add no counts
    lost, rows = counts["glue/rte:dev"]
    said = f"{lost:,} of {rows:,} rows"
    code, out, _ = bench("show", ran.keys[0][:12], "--db", ran.db)
    assert (code, f"dev: {said}\n" in out) == (0, True), out
    shown = json.loads(bench("show", ran.keys[0], "--json", "--db", ran.db)[1])
    assert shown["truncated"]["glue/rte:dev"] == {"rows": lost, "of": rows}
    words = ("export", "--format", "json", "--db", ran.db)
    lines = json.loads(bench(*words)[1])
    assert {
        line["truncated"]
        for line in lines
        if line["kind"] == "model" and line["task"] == "glue/rte"
    } == {lost}
    assert bench("report", "--db", ran.db, "--out", "page.html")[0] == 0
    assert said in (tmp_path / "page.html").read_text()
    again = ("run", "--model", "tiny", "--task", "glue/rte", "--data", "mini", "--seeds", "1")
    values = ("--set", "epochs=1", "--set", "max_tokens=24", "--set", "evaluations=1")
    where = ("--db", ran.db, "--device", "cpu", "--precision", "fp32", "--no-baselines")
    code, _, error = bench(*again, *values, *where)
    assert code == 0
    assert f"dev {lost} of {rows}" in error


def test_runs_stored_without_truncation_counts_report_no_truncated_rows() -> None:
    for provenance in (
        {},
        {"data": {"a:dev": {"rows": 3}}},
        {"data": None},
        None,
        {"data": {"a:dev": 3}},
    ):
        assert truncated_rows(provenance) == {}


def test_truncated_pair_is_counted_once_with_both_orders_and_held_out_rows() -> None:
    values = {"orders": "both", "max_tokens": "20", "evaluations": "2", "epochs": "1"}
    chosen = {"best_checkpoint": "true", "select_on": "train:0.25"}
    mrpc = partial(plan_jobs, [MODELS["tiny"]], [TASKS["glue/mrpc"]], "mini", [1])
    plain, both = (
        run_job(mrpc(overrides=overrides).jobs[0]).provenance["data"]["glue/mrpc:train"]
        for overrides in (values | {"orders": "given"}, values | chosen)
    )
    assert plain["truncated"] == both["truncated"] > 0


def test_truncated_rows_of_a_zero_shot_job_are_counted() -> None:
    example = PairExample(id="7", text_a="the car " * 600, text_b="did he sell it", label="True")
    model = load_language_model("builtin:tiny", None, 1)
    values = {
        n: s.value for n, s in zero_shot_recipe("superglue/boolq", MODELS["tiny"]).settings.items()
    }
    model.prepare(torch.device("cpu"))
    found: list[str] = []
    examples = [example, replace(example, id="8", text_a="a car")]
    asked = Asked(model=model, task=TASKS["superglue/boolq"], values=values, compute=CPU)
    predict_untrained(asked, examples, shortened=found.append)
    assert found == ["7"]


def test_a_plan_of_custom_data_notes_how_many_rows_are_truncated(tmp_path: Path) -> None:
    path = write_long(tmp_path)
    (note,) = plan_own(path, "tiny", max_tokens="128", epochs="3").notes
    assert "at least 40 of 40 rows" in note
    assert not plan_own(path, "tiny", epochs="3").notes


@pytest.mark.skipif("BENCH_TEST_DATA" not in os.environ, reason="BENCH_TEST_DATA is not set")
@pytest.mark.skipif("BENCH_TEST_MODEL" not in os.environ, reason="BENCH_TEST_MODEL is not set")
@pytest.mark.parametrize(
    ("task", "most", "lost", "rows"),
    [("glue/rte", 128, 33, 277), ("superglue/boolq", 256, 179, 3270)],
)
def test_counts_of_truncated_rte_and_boolq_rows_match_known_values(
    task: str, most: int, lost: int, rows: int
) -> None:
    folder = os.environ["BENCH_TEST_DATA"] + "/" + task.partition("/")[0]
    examples = read(TASKS[task], "dev", parse_data(folder)).examples
    tokenizer = load_encoder(os.environ["BENCH_TEST_MODEL"], None, 1).tokenizer
    found = head_for(TASKS[task]).encode(examples, tokenizer, Limits(max_tokens=most))
    assert (int(found.truncated.sum()), len(examples)) == (lost, rows)


# Maximum length of an answer.


def answered(head: Head, example: SpanExample, first: int, last: int) -> int:
    """Return the number of words of the most probable answer; two windows never contain it."""
    features = head.encode([example], TOKENIZER, Limits(max_tokens=120))
    logits = np.full((len(features.token_ids), 2), -5.0, dtype=np.float32)
    inside = np.flatnonzero(features.is_answer)
    logits[inside[first], 0] = logits[inside[last], 1] = 9.0
    (found,) = head.decode(logits, features, [example], SQUAD)
    return len(found.text.split())


def test_max_answer_tokens_limits_the_length_of_predicted_answers() -> None:
    example = SpanExample(id="1", question="who", context="a " * 60, answers=())
    assert answered(head_for(SQUAD), example, 3, 42) < 30
    assert answered(head_for(SQUAD, SpanOptions(max_answer_tokens=64)), example, 3, 42) == 40
    assert head_for(SQUAD, SpanOptions(max_answer_tokens=30)) is head_for(SQUAD)


def test_max_answer_tokens_limits_the_beam_search_of_answer_ends() -> None:
    encoder = load_encoder("builtin:tiny", None, 1)
    examples = [SpanExample(id="1", question="who", context="the car " * 30, answers=(("car", 4),))]
    for most in (30, 64):
        head = head_for(SQUAD, SpanOptions(beam_size=5, max_answer_tokens=most))
        features = head.encode(examples, encoder.tokenizer, Limits(max_tokens=100))
        network = head.network(encoder, SQUAD).eval()
        logits = predict(network, features, CPU, lambda _: None)
        assert logits.shape[-1] == 2 + most
        assert head.decode(logits, features, examples, SQUAD)[0].text


def test_xlnet_and_funnel_recipes_set_their_maximum_answer_length() -> None:
    def said(model: str, **values: str) -> ResolvedRecipe:
        return resolve_recipe(MODELS[model], SQUAD.name, None, values)

    for model in ("xlnet-large-cased", "xlnet-base-cased", "funnel-small"):
        setting = said(model).settings["max_answer_tokens"]
        assert (setting.value, "squad.py" in setting.source) == (64, True)
    assert said("xlnet-base-cased", max_answer_tokens="30").off["max_answer_tokens"] == 30
    # For a model without this setting, the job key does not change.
    for model in ("bert", "electra-small-discriminator", "roberta-base"):
        found = resolve_recipe(find_model(model), SQUAD.name, None, {}).settings
        assert "max_answer_tokens" not in found
    assert (
        "max_answer_tokens"
        not in resolve_recipe(MODELS["xlnet-base-cased"], RTE.name, None, {}).settings
    )
