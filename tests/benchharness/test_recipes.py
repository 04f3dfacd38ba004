import math
import re
import tomllib
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.recipes import Recipe, resolve_recipe
from benchharness.recipes.read import Protocol, packaged_names, read_recipe
from benchharness.recipes.recipe import OF_STUDENTS, SETTINGS
from benchharness.recipes.resolve import packaged_recipe, protocol_of, start_task, with_start
from benchharness.tasks.suites import TASKS

BERT = MODELS["bert-base-uncased"]
ROBERTA = MODELS["roberta-large"]
NAMES = [*SETTINGS]
WINDOWS = {"stride", "max_question_tokens"}
VECTORS = {"pooling", "similarity_scale"}
TIMES = {"reference", "passes"}
REQUIRED = {name for name, facts in SETTINGS.items() if facts.stated} - WINDOWS - VECTORS - TIMES
OF_HEADS = {"span": WINDOWS, "ranking": VECTORS, "timed": TIMES}
OURS = ("fast", "checkpoints", "features", "few-rows", "few-shot")
OVER = ("lora", "qlora", "text")
"""Recipes of extensions whose values are added to those of a model's own recipe."""
PAPERS = [name for name in packaged_names() if name not in (*OURS, *OVER)]


def value(spec: ModelSpec, task: str, name: str, recipe: str | None = None) -> object:
    return resolve_recipe(spec, task, recipe, {}).settings[name].value


def problems(spec: ModelSpec, recipe: str | None, overrides: dict[str, str]) -> list[str]:
    with pytest.raises(BenchError) as caught:
        resolve_recipe(spec, "glue/cola", recipe, overrides)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


# Packaged files.


@pytest.mark.parametrize("path", packaged_names().values(), ids=packaged_names())
def test_every_value_of_a_packaged_recipe_has_a_source(path: Path) -> None:
    def leaves(table: dict[str, object]) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for content in table.values():
            assert isinstance(content, dict), f"{path.name} has a bare value {content!r}"
            found += [content] if "value" in content else leaves(content)
        return found

    document = tomllib.loads(path.read_text())
    document.pop("unlike", None)
    values = leaves(document)
    assert values
    assert all(str(v["source"]).strip() for v in values)


@pytest.mark.parametrize("name", packaged_names())
def test_every_section_of_a_packaged_recipe_file_applies_to_at_least_one_task(name: str) -> None:
    heads = {f"head/{task.head}" for task in TASKS.values()}
    tables = set(read_recipe(packaged_names()[name]))
    assert tables <= {"default", "like", "protocol", "frozen", "small", "together", *heads, *TASKS}


@pytest.mark.parametrize("name", PAPERS)
def test_every_recipe_has_every_required_setting_for_every_task(name: str) -> None:
    spec = ModelSpec(name="x", checkpoint="org/x", recipe=name)
    for task in TASKS.values():
        resolved = resolve_recipe(spec, task.name, None, {})
        names = list(resolved.settings)
        assert names == [n for n in NAMES if n in names]
        assert set(names) >= REQUIRED | OF_HEADS.get(task.head, set())
        assert all(setting.source.strip() for setting in resolved.settings.values())
        assert resolved.name == "paper"
        Recipe.from_settings(resolved.settings)


@pytest.mark.parametrize(
    ("family", "expected"),
    [("llama", "decoder"), ("phi3", "decoder"), ("gpt2", "gpt2"), ("bert", "bert"), ("", "bert")],
)
def test_decoders_without_a_recipe_of_their_family_share_one(family: str, expected: str) -> None:
    assert packaged_recipe(ModelSpec(name="x", checkpoint="org/x", family=family)).stem == expected


# A value applies to the task that its source names, even if the suite has a value for all tasks.

SCRIPTS = {"panx": "xtreme/panx", "wikiann": "xtreme/panx"}
"""Names of tasks in scripts; run_squad.sh is for two tasks."""

NOT_TASKS = {"all", "512", "coref"}
"""Names of tasks that have another meaning too."""

OF_OTHERS = {
    "gte": "eval_xnli.sh: MNLI's run, as it is",
    "eurobert": "ours: a patience of 1 is of XNLI",
}
"""Sources that mention a task but are about another one."""


def tasks_named(source: str) -> set[str]:
    """Return the tasks that a source names, for example "XNLI" or "run_wikiann.sh"."""
    known = dict(SCRIPTS)
    # In reversed order, so that the first of two tasks with the same title is used.
    for task in reversed(TASKS.values()):
        known |= {word.lower(): task.name for word in (task.title, task.name.partition("/")[2])}
    words = re.findall(r"[a-z0-9-]+", source.replace("_", " ").replace(".sh", " ").lower())
    return {known[word] for word in {*words} & known.keys() - NOT_TASKS}


@pytest.mark.parametrize("name", PAPERS)
def test_recipe_value_whose_source_mentions_a_task_applies_to_that_task(name: str) -> None:
    spec = ModelSpec(name="x", checkpoint="org/x", recipe=name)
    values = [
        (setting, said, task)
        for table in (t for key, t in read_recipe(packaged_names()[name]).items() if key != "like")
        for setting, said in table.items()
        if OF_OTHERS.get(name, "?") not in said.source
        for task in tasks_named(said.source)
    ]
    for setting, said, task in values:
        found = resolve_recipe(spec, task, None, {}).settings.get(setting)
        if found is None:  # switched off, or without effect on this job
            assert not said.value or setting in OF_STUDENTS, (setting, task)
            continue
        assert float(found.value) == pytest.approx(float(said.value)), (setting, task, found)


def test_check_of_recipe_sources_covers_glue_and_xtreme_tasks() -> None:
    named = {
        (name, task)
        for name in PAPERS
        for key, table in read_recipe(packaged_names()[name]).items()
        for said in table.values()
        for task in tasks_named(said.source)
    }
    assert {("eurobert", "xtreme/xnli"), ("eurobert-610m", "xtreme/pawsx")} <= named
    assert {("gte", "xtreme/panx"), ("spanbert", "glue/rte"), ("neobert", "xtreme/panx")} <= named


@pytest.mark.parametrize(
    ("model", "xnli", "pawsx"),
    [
        ("eurobert-210m", 3.6e-5, 3.6e-5),
        ("eurobert-610m", 3.6e-5, 4.6e-5),
        ("eurobert-2.1b", 2.8e-5, 3.6e-5),
    ],
)
def test_eurobert_recipe_has_its_authors_settings_on_xnli_and_paws_x(
    model: str, xnli: float, pawsx: float
) -> None:
    """The reference is issue 3 of Nicolas-BZRD/EuroBERT."""
    for task, rate in (("xtreme/xnli", xnli), ("xtreme/pawsx", pawsx)):
        found = {
            n: s.value for n, s in resolve_recipe(MODELS[model], task, None, {}).settings.items()
        }
        names = ("learning_rate", "warmup_ratio", "weight_decay", "adam_beta2", "adam_epsilon")
        assert [found[name] for name in names] == [rate, 0.1, 0.1, 0.95, 1e-5]
        assert (found["batch_size"], found["early_stopping"]) == (32, 1)
        assert found["evaluations"] == found["epochs"]  # one evaluation per epoch ("at each epoch")


def test_copa_recipes_of_gte_and_mmbert_mention_siqa_in_their_source() -> None:
    for model in ("gte-en-mlm-base", "mmbert-base"):
        found = resolve_recipe(MODELS[model], "superglue/copa", None, {}).settings["epochs"]
        assert "SIQA" in found.source


@pytest.mark.parametrize("spec", [s for s in MODELS.values() if s.family], ids=lambda s: s.name)
def test_every_registered_model_has_a_recipe(spec: ModelSpec) -> None:
    names = set(resolve_recipe(spec, "glue/rte", "fast", {}).settings)
    assert names >= REQUIRED
    assert not names & WINDOWS
    assert not spec.recipe or spec.recipe in packaged_names()


def test_bert_recipe_has_the_weight_decay_and_clipping_of_its_code() -> None:
    recipe = Recipe.from_settings(resolve_recipe(BERT, "glue/mrpc", None, {}).settings)
    assert (recipe.optim.weight_decay, recipe.optim.max_grad_norm) == (0.01, 1.0)
    assert recipe.adam.adam_epsilon == 1e-6


@pytest.mark.parametrize(
    ("task", "rate", "epochs", "batch"), [("v1.1", 5e-5, 3.0, 32), ("v2.0", 5e-5, 2.0, 48)]
)
def test_bert_recipe_has_the_squad_settings_of_its_paper(
    task: str, rate: float, epochs: float, batch: int
):
    resolved = resolve_recipe(BERT, f"squad/{task}", None, {})
    recipe = Recipe.from_settings(resolved.settings)
    assert (recipe.optim.learning_rate, recipe.schedule.epochs, recipe.optim.batch_size) == (
        rate,
        epochs,
        batch,
    )
    assert (recipe.rows.max_tokens, recipe.span.stride, recipe.span.max_question_tokens) == (
        384,
        128,
        64,
    )


@pytest.mark.parametrize("task", ["boolq", "cb", "multirc", "record", "rte"])
def test_bert_recipe_has_a_maximum_length_of_256_on_superglue(task: str) -> None:
    """The official baseline uses this length."""
    assert value(BERT, f"superglue/{task}", "max_tokens") == 256


@pytest.mark.parametrize("name", ["roberta-large", "electra-base", "deberta-v3-base", "modernbert"])
def test_few_shot_recipe_has_the_settings_of_lm_bff(name: str) -> None:
    """See run_experiment.sh and README.md of princeton-nlp/LM-BFF."""
    spec = find_model(name)
    resolved = resolve_recipe(spec, "glue/rte", "few-shot", {"shots": "16"})
    recipe = Recipe.from_settings(resolved.settings)
    assert (resolved.name, recipe.rows.shots, resolved.start) == ("few-shot", 16, None)
    assert (recipe.schedule.steps, recipe.optim.batch_size, recipe.optim.learning_rate) == (
        1000,
        8,
        1e-5,
    )
    assert (
        recipe.schedule.schedule,
        recipe.schedule.warmup_ratio,
        recipe.schedule.warmup_steps,
    ) == ("linear", 0.0, 0)
    assert (
        recipe.optim.weight_decay,
        recipe.optim.decoupled_weight_decay,
        recipe.encoder.layer_decay,
    ) == (0, 0, 1)
    assert (recipe.selection.best_checkpoint, recipe.selection.early_stopping) == (False, 0)
    assert recipe.rows.max_tokens == value(spec, "glue/rte", "max_tokens")


def test_bert_large_has_a_lower_learning_rate_than_base_except_on_squad() -> None:
    large = MODELS["bert-large-uncased"]
    assert value(large, "glue/rte", "learning_rate") == 2e-5
    assert value(large, "glue/rte", "epochs") == value(BERT, "glue/rte", "epochs")
    for task in ("squad/v1.1", "squad/v2.0"):
        assert value(large, task, "learning_rate") == value(BERT, task, "learning_rate")
    assert value(large, "superglue/wic", "epochs") == 10.0
    assert value(large, "superglue/record", "epochs") == 3.0


def test_max_grad_norm_0_disables_gradient_clipping() -> None:
    """The README has --clip-norm 0.0; clipping to a norm of zero would remove every gradient."""
    settings = resolve_recipe(ROBERTA, "glue/rte", None, {}).settings
    assert settings["max_grad_norm"].value == 0.0
    assert Recipe.from_settings(settings).optim.max_grad_norm == math.inf


def test_distilbert_recipe_trains_longer_on_the_smallest_tasks() -> None:
    spec = MODELS["distilbert-base-uncased"]
    epochs = {task: value(spec, f"glue/{task}", "epochs") for task in ("cola", "mrpc", "wnli")}
    assert epochs == {"cola": 3.0, "mrpc": 5.0, "wnli": 5.0}


def test_family_without_a_recipe_uses_the_recipe_of_bert() -> None:
    unknown = ModelSpec(name="x", checkpoint="org/x", family="unknown")
    assert resolve_recipe(unknown, "glue/rte", None, {}) == resolve_recipe(
        BERT, "glue/rte", None, {}
    )


def test_recipe_of_a_model_has_precedence_over_that_of_its_family() -> None:
    assert MODELS["tiny"].family == "bert"
    assert (
        "mini data"
        in resolve_recipe(MODELS["tiny"], "glue/rte", None, {}).settings["learning_rate"].source
    )


def test_source_of_an_inherited_setting_names_the_recipe_it_comes_from() -> None:
    spec = ModelSpec(name="x", checkpoint="org/x", family="xlm-roberta")
    theirs = resolve_recipe(ROBERTA, "glue/rte", None, {}).settings
    ours = resolve_recipe(spec, "glue/rte", None, {}).settings
    values = {name: s.value for name, s in theirs.items() if name != "best_checkpoint"}
    assert {name: s.value for name, s in ours.items()} == values
    assert ours["learning_rate"].source == f"as roberta: {theirs['learning_rate'].source}"
    assert ours["accumulation"].source.startswith("ours: ")


@pytest.mark.parametrize("name", ["xlnet", "bert"])
def test_recipes_of_papers_without_layer_decay_have_none(name: str) -> None:
    spec = ModelSpec(name="x", checkpoint="org/x", recipe=name)
    assert "layer_decay" not in resolve_recipe(spec, "glue/rte", None, {}).settings


def test_recipes_start_from_mnli_only_if_their_papers_do() -> None:
    def started(recipe: str) -> set[str]:
        spec = ModelSpec(name="x", checkpoint="org/x", recipe=recipe)
        recipes = {
            task.name: with_start(resolve_recipe(spec, task.name, None, {}), spec, task)
            for task in TASKS.values()
        }
        return {name for name, found in recipes.items() if start_task(found) == "glue/mnli"}

    assert started("modernbert") == started("modernbert-large")
    assert started("modernbert") == {"glue/rte", "glue/mrpc", "glue/stsb"}
    small = {"glue/rte", "glue/mrpc", "glue/stsb", "superglue/copa", "race/all"}
    for size in ("", "-large", "-xlarge", "-v2-xlarge", "-v2-xxlarge"):
        assert started(f"deberta{size}") == small
    # The published GLUE dev scores of RoBERTa were obtained without intermediate training on MNLI.
    assert started("roberta") == {"superglue/rte"}
    assert started("deberta-v3-large") == set()


def test_recipe_of_a_model_size_overrides_settings_of_its_family() -> None:
    large = ModelSpec(name="x", checkpoint="org/x", family="electra", recipe="electra-large")
    settings = resolve_recipe(large, "glue/rte", None, {}).settings
    assert (settings["learning_rate"].value, settings["epochs"].value) == (5e-5, 10.0)
    assert settings["layer_decay"].value == 0.9
    assert settings["adam_epsilon"].source.startswith("as bert: ")
    v1 = ModelSpec(name="x", checkpoint="org/x", family="albert", recipe="albert-v1")
    v2 = ModelSpec(name="x", checkpoint="org/x", family="albert")
    for name, first, second in (("learning_rate", 2e-5, 1e-5), ("dropout", 0.1, 0.0)):
        assert value(v1, "race/all", name) == first
        assert value(v2, "race/all", name) == second
        assert value(v1, "glue/rte", name) == value(v2, "glue/rte", name)


# Layers of values with different priorities.


def test_fast_recipe_lowers_epochs_and_max_tokens_and_keeps_the_learning_rate() -> None:
    assert value(ROBERTA, "glue/rte", "epochs", "fast") == 1.0
    assert value(ROBERTA, "glue/rte", "max_tokens", "fast") == 128
    assert value(ROBERTA, "glue/rte", "learning_rate", "fast") == 2e-5
    assert resolve_recipe(ROBERTA, "glue/rte", "fast", {}).name == "fast"


def test_a_recipe_file_overrides_the_recipe_of_the_family(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "[default]\nepochs = 7\n[glue.rte]\n"
        'batch_size = { value = 8, source = "my sweep" }\nepochs = 9\n'
    )
    rte = resolve_recipe(BERT, "glue/rte", str(path), {})
    assert (rte.name, rte.settings["epochs"].value) == ("mine", 9.0)
    assert rte.settings["epochs"].source == "mine.toml"
    assert rte.settings["batch_size"].source == "my sweep"
    assert rte.settings["learning_rate"].value == 5e-5
    assert value(BERT, "glue/cola", "epochs", str(path)) == 7.0
    assert value(BERT, "glue/cola", "batch_size", str(path)) == 32


def test_values_given_with_the_set_option_override_every_recipe() -> None:
    resolved = resolve_recipe(ROBERTA, "glue/rte", "fast", {"epochs": "2", "batch_size": "4"})
    assert resolved.label == "fast+set"
    assert (resolved.settings["epochs"].value, resolved.settings["epochs"].source) == (2.0, "--set")
    assert resolved.settings["batch_size"].value == 4


def test_recipe_values_for_a_head_override_defaults_but_not_values_for_a_task(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[default]\nepochs = 7\n[head.tag]\nepochs = 8\n[conll2003.ner]\nepochs = 9\n")
    resolved = [
        resolve_recipe(BERT, task, str(path), {}).settings["epochs"].value
        for task in ("glue/rte", "conll2012/srl", "conll2003/ner")
    ]
    assert resolved == [7.0, 8.0, 9.0]


def test_stride_is_ignored_for_tasks_without_windows() -> None:
    plain = resolve_recipe(BERT, "glue/rte", None, {})
    strided = resolve_recipe(BERT, "glue/rte", None, {"stride": "32"})
    assert strided.settings == plain.settings
    windowed = resolve_recipe(BERT, "squad/v1.1", None, {"stride": "32"})
    assert windowed.settings["stride"].value == 32
    (line,) = problems(BERT, None, {"stride": "0"})
    assert "at least 1" in line


def test_integer_setting_is_read_as_the_float_of_the_same_value(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[default]\nepochs = 3\n")
    values = [
        value(BERT, "glue/cola", "epochs"),
        value(BERT, "glue/cola", "epochs", str(path)),
        resolve_recipe(BERT, "glue/cola", None, {"epochs": "3"}).settings["epochs"].value,
        resolve_recipe(BERT, "glue/cola", None, {"epochs": "3.00"}).settings["epochs"].value,
    ]
    assert {(type(v), v) for v in values} == {(float, 3.0)}


# Invalid recipes and settings.


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("epochs", "0", "a number that is above 0"),
        ("epochs", "three", "a number that is above 0"),
        ("epochs", "nan", "a number that is above 0"),
        ("learning_rate", "inf", "a number that is above 0"),
        ("learning_rate", "-1e-5", "a number that is above 0"),
        ("batch_size", "2.5", "a whole number that is at least 1"),
        ("batch_size", "", "a whole number that is at least 1"),
        ("warmup_ratio", "1.5", "a number that is at least 0 and at most 1"),
        ("adam_beta2", "1", "a number that is at least 0 and below 1"),
        ("max_tokens", "2", "a whole number that is at least 6"),
        ("evaluations", "0", "a whole number that is at least 1"),
        ("best_checkpoint", "2", "true or false"),
        ("early_stopping", "-1", "a whole number that is at least 0"),
        ("average_last", "0", "a whole number that is at least 1"),
        ("schedule_power", "0", "a number that is above 0"),
        ("decoupled_weight_decay", "1", "a number that is at least 0 and below 1"),
        *(
            ("select_on", text, "dev, or train:SHARE with a share between 0 and 1, as in train:0.1")
            for text in ("test", "train", "train:0", "train:1", "train:a", "train:nan", "0.1")
        ),
        (
            "schedule",
            "cosin",
            "one of: linear, cosine, constant, polynomial, slanted-triangular",
        ),
    ],
)
def test_invalid_setting_value_is_an_error_with_the_expected_range(
    name: str, text: str, expected: str
) -> None:
    (line,) = problems(BERT, None, {name: text})
    assert line == f"{name} is {text!r} (--set), expected {expected}."


def test_an_unknown_setting_gets_a_suggestion() -> None:
    (line,) = problems(BERT, None, {"learning_rat": "1e-5"})
    assert "Did you mean 'learning_rate'?" in line


def test_all_invalid_settings_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text("[default]\nmax_tokens = true\naccumulation = 64\n[glue.cola]\nepoch = 1\n")
    lines = problems(BERT, str(path), {"warmup_ratio": "2"})
    assert len(lines) == 4
    for fragment in ("max_tokens", "'epoch'", "warmup_ratio", "accumulation is 64 (r.toml)"):
        assert sum(fragment in line for line in lines) == 1


@pytest.mark.parametrize(
    ("name", "ours"),
    [("lr", "learning_rate"), ("LR", "learning_rate"), ("num_train_epochs", "epochs")],
)
def test_a_setting_name_of_another_library_gets_a_suggestion(name: str, ours: str) -> None:
    assert problems(BERT, None, {name: "1"}) == [
        f"no hyperparameter is called {name!r}. Did you mean {ours!r}?"
    ]


def test_setting_names_of_other_libraries_are_unambiguous() -> None:
    aliases = [alias for facts in SETTINGS.values() for alias in facts.aliases]
    assert len(aliases) == len({*aliases}) > 25
    assert not {*NAMES} & {*aliases}


def test_an_unknown_recipe_gets_a_suggestion() -> None:
    assert problems(BERT, "papr", {}) == ["no recipe is called 'papr'. Did you mean 'paper'?"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"epochs = 3\n", "'epochs' outside of a table"),
        (b"[glue]\nepochs = 3\n", "'epochs' directly in [glue]"),
        (b"[glue]\nepochs = { value = 3, source = 'x' }\n", "'epochs' directly in [glue]"),
        (b"[default]\nepochs = { value = 3 }\n", "default epochs: expected a number, a list of"),
        (b"[default]\nepochs = []\n", "default epochs: expected a number, a list of"),
        (b"[default]\nepochs = [[3]]\n", "default epochs: expected a number, a list of"),
        (b"[default\n", "is not valid TOML"),
        (b"\xff\xfe", "cannot be read"),
        (b"[like]\nrecipe = 'roberta'\n", "remove the table [like]"),
    ],
)
def test_an_invalid_recipe_file_is_an_error(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    (line,) = problems(BERT, str(path), {})
    assert message in line
    assert "bad.toml" in line


def test_a_missing_recipe_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    (line,) = problems(BERT, str(tmp_path / "none.toml"), {})
    assert "none.toml cannot be read" in line


# Limit, seeds and tasks that a recipe sets unless the user does.


def test_recipe_checkpoints_sets_a_limit_seeds_and_existing_tasks() -> None:
    protocol = protocol_of("checkpoints")
    assert protocol.limit
    assert protocol.seeds
    assert protocol.tasks
    assert set(protocol.tasks) <= set(TASKS)
    assert protocol_of(None) == protocol_of("paper") == protocol_of("fast") == Protocol()


def test_recipe_file_can_set_the_limit_seeds_and_tasks_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[protocol]\nlimit = 10\nseeds = 2\ntasks = ["glue/rte", "glue/cola"]\n')
    assert protocol_of(str(path)) == Protocol(limit=10, seeds=2, tasks=("glue/rte", "glue/cola"))
    assert resolve_recipe(BERT, "glue/rte", str(path), {}).name == "mine"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("limit = 0", "mine.toml, [protocol] limit: expected a whole number from 1 up, but got 0."),
        (
            "limit = true",
            "mine.toml, [protocol] limit: expected a whole number from 1 up, but got True.",
        ),
        (
            "seeds = 1.5",
            "mine.toml, [protocol] seeds: expected a whole number from 1 up, but got 1.5.",
        ),
        ("rows = 5", "mine.toml has 'rows' in [protocol]; expected limit, seeds or tasks."),
    ],
)
def test_invalid_limit_seeds_or_tasks_in_a_recipe_file_are_an_error_that_names_them(
    tmp_path: Path, line: str, sentence: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"[protocol]\n{line}\n")
    with pytest.raises(BenchError, match=re.escape(sentence)):
        protocol_of(str(path))


def test_typed_value_that_equals_the_recipe_is_not_an_override() -> None:
    spec = find_model("bert-base")
    plain = resolve_recipe(spec, "glue/rte", None, {})
    epochs = str(plain.settings["epochs"].value)
    assert resolve_recipe(spec, "glue/rte", None, {"epochs": epochs}) == plain
    other = resolve_recipe(spec, "glue/rte", None, {"epochs": "7"})
    assert (other.overridden, other.settings["epochs"].source) == (True, "--set")
