import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.errors import BenchError, ModelError
from benchharness.leaderboard.job import Stage
from benchharness.models import MODELS, ModelSpec, find_model, weights_identity
from benchharness.models import weights as commit
from benchharness.models.weights import files_digest, hub_revision
from benchharness.recipes.resolve import is_decoder
from tests.helpers.hub_server import serve_hub, silent_hub

CONFIG = {"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}


def safetensors(shapes: dict[str, list[int]]) -> bytes:
    table = {name: {"dtype": "F32", "shape": shape} for name, shape in shapes.items()}
    header = json.dumps({"__metadata__": {"format": "pt"}, **table}).encode()
    return struct.pack("<Q", len(header)) + header


def write_checkpoint(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "model.safetensors").write_bytes(safetensors({"a": [1000, 400], "b": [100]}))
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    return folder


# The table of registered models.


@pytest.mark.parametrize("spec", MODELS.values(), ids=MODELS)
def test_every_registered_model_is_found_by_each_of_its_names(spec: ModelSpec) -> None:
    for name in (spec.name, spec.name.upper(), spec.checkpoint, *spec.aliases):
        assert find_model(name) == spec


def test_names_and_aliases_of_models_are_unique() -> None:
    names = [n for s in MODELS.values() for n in (s.name, s.checkpoint.lower(), *s.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("spec", [s for s in MODELS.values() if s.is_hub], ids=lambda s: s.name)
def test_hub_model_has_a_pinned_revision_or_a_note_with_the_reason(spec: ModelSpec) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", spec.revision) or (spec.revision == "main" and spec.note)
    assert spec.parameters
    assert spec.cite


FAMILIES = {
    "albert",
    "bert",
    "big_bird",
    "camembert",
    "convbert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "eurobert",
    "funnel",
    "gpt2",
    "longformer",
    "megatron-bert",
    "mobilebert",
    "modernbert",
    "mpnet",
    "openai-gpt",
    "roberta",
    "t5",
    "xlm-roberta",
    "xlnet",
}


def test_every_supported_family_has_a_registered_model() -> None:
    assert {spec.family for spec in MODELS.values()} >= FAMILIES


ENCODERS = [spec for spec in MODELS.values() if spec.is_hub]


@pytest.mark.parametrize("spec", ENCODERS, ids=lambda s: s.name)
def test_registered_encoder_has_sizes_title_tokenizer_and_maximum_length(spec: ModelSpec) -> None:
    assert spec.name == spec.name.lower()
    assert spec.parameters
    assert spec.backbone
    assert spec.backbone < spec.parameters
    assert spec.title
    assert spec.tokenizer.endswith(("cased", "uncased"))
    assert spec.max_tokens
    assert 512 <= spec.max_tokens <= (131072 if is_decoder(spec) else 8192)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize(
    ("size", "layers", "hidden"),
    [("base", 12, 768), ("large", 24, 1024), ("xlarge", 24, 2048), ("xxlarge", 12, 4096)],
)
def test_registered_albert_models_match_the_configurations_in_the_paper(
    size: str, layers: int, hidden: int, version: str
) -> None:
    """In table 1 of the paper, all models share their layers and have embeddings of size 128."""
    found = MODELS[f"albert-{size}-{version}"].configuration
    assert found == f"{layers} layers that share their weights, hidden {hidden}, embedding 128"


def test_registered_pretraining_flops_and_hardware_match_the_papers() -> None:
    assert MODELS["electra-large-discriminator"].flops == 3.1e21
    assert MODELS["albert-xxlarge-v1"].flops == 3.1e22
    assert MODELS["bert-base-uncased"].flops == 6.4e19
    assert MODELS["distilbert-base-uncased"].hardware.startswith("8 V100 for 3.5 days")
    # The paper states the FLOPs of another base model, with fewer training steps than the released
    # one.
    assert MODELS["electra-base-discriminator"].flops is None


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("albert", "albert-base-v2"),
        ("electra", "electra-base-discriminator"),
        ("deberta", "deberta-base"),
        ("deberta-v3", "deberta-v3-base"),
        ("xlnet", "xlnet-base-cased"),
        ("modernbert", "modernbert-base"),
        ("t5", "t5-base"),
        ("bert", "bert-base-uncased"),
        ("bert-large", "bert-large-uncased"),
        ("roberta", "roberta-base"),
        ("distilbert", "distilbert-base-uncased"),
        ("nreimers/MiniLM-L6-H384-uncased", "minilm"),
    ],
)
def test_model_aliases_resolve_to_registered_models(alias: str, name: str) -> None:
    assert find_model(alias).name == name


def test_unknown_model_name_gets_a_suggestion() -> None:
    with pytest.raises(BenchError, match=r"'robertta'\. Did you mean 'roberta'\?") as caught:
        find_model("robertta")
    assert caught.value.exit_code == 2


def test_unknown_model_name_without_a_similar_one_gets_advice_on_valid_names() -> None:
    with pytest.raises(BenchError, match=r"bench show models.*folder.*hub"):
        find_model("xyzzy")


def test_unregistered_hub_model_can_be_used() -> None:
    spec = find_model("prajjwal1/bert-tiny")
    assert (spec.name, spec.checkpoint, spec.revision) == (*["prajjwal1/bert-tiny"] * 2, "main")
    assert spec.is_hub
    assert not spec.family


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "a/b/c", "/nowhere/x", "org/", "-x/y", "a b/c", ""),
        *("org/name@", "org/name@../x", "org/name@a b", "org/name@/a", "tiny@x"),
    ],
)
def test_an_invalid_hub_name_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # a folder that contains no folder with this name
    with pytest.raises(BenchError, match="no model or checkpoint folder is called"):
        find_model(name)


# Folders.


def test_model_in_a_folder_is_named_after_the_folder_and_has_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path / "my-bert")
    monkeypatch.chdir(tmp_path)
    spec = find_model("my-bert")
    assert spec == find_model("./my-bert/") == find_model(str(folder))
    assert (spec.name, spec.checkpoint, spec.family) == ("my-bert", str(folder), "bert")
    assert (spec.parameters, spec.max_tokens) == (0.4, 512)
    assert spec.is_folder
    assert not spec.is_hub


def test_folder_named_like_a_registered_model_has_the_recipe_of_this_model(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "snapshots" / "3276f0")
    spec = find_model(f"MiniLM-L6={folder}")
    known = MODELS["minilm"]
    assert (spec.name, spec.recipe, spec.cite) == (known.name, known.recipe, known.cite)
    assert (spec.checkpoint, spec.revision, spec.parameters) == (str(folder), "", 0.4)
    assert weights_identity(spec) == weights_identity(find_model(str(folder)))


def test_checkpoint_folder_can_be_given_a_model_name(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint-5000")
    spec = find_model(f"my-bert={folder}")
    assert (spec.name, spec.checkpoint) == ("my-bert", str(folder))
    assert find_model(str(folder)).name == "checkpoint-5000"


def test_a_folder_name_may_contain_an_equals_sign(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "lr=3e-5")
    assert find_model(str(folder)).name == "lr=3e-5"
    assert find_model(f"mine={folder}").checkpoint == str(folder)


def test_a_folder_declared_as_a_model_of_another_family_is_an_error(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "r", model_type="roberta")
    with pytest.raises(ModelError, match="contains a roberta encoder, but minilm is the name"):
        find_model(f"minilm={folder}")


@pytest.mark.parametrize("name", ["minilm=", "=folder", "minilm=no/such/folder"])
def test_incomplete_model_argument_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BenchError, match="no model or checkpoint folder is called"):
        find_model(name)


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "camembert", "mpnet"])
def test_roberta_models_count_positions_after_the_padding_index(
    tmp_path: Path, family: str
) -> None:
    folder = write_checkpoint(
        tmp_path / "r", model_type=family, max_position_embeddings=514, pad_token_id=1
    )
    assert find_model(str(folder)).max_tokens == 512


def test_a_model_with_relative_positions_has_no_maximum_length(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "t5", max_position_embeddings=None)
    assert find_model(str(folder)).max_tokens is None


def test_parameter_count_of_a_checkpoint_includes_all_shards(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "sharded")
    (folder / "model.safetensors").unlink()
    for number in (1, 2):
        shard = safetensors({f"layer.{number}": [1000, 1000]})
        (folder / f"model-0000{number}-of-00002.safetensors").write_bytes(shard)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert find_model(str(folder)).parameters == 2.0


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "vocab.txt"])
def test_checkpoint_folder_with_a_missing_file_is_an_error(tmp_path: Path, missing: str) -> None:
    folder = write_checkpoint(tmp_path / "half")
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=r"half is not a checkpoint: it has no") as caught:
        find_model(str(folder))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"{", "config.json is not readable JSON"),
        ("config.json", b"\xff\xfe", "config.json is not readable JSON"),
        ("config.json", b"[]", "config.json has no model_type"),
        ("config.json", b"{}", "config.json has no model_type"),
        ("config.json", b"[" * 100_000, "config.json is not readable JSON"),
        ("model.safetensors", struct.pack("<Q", 9000) + b"[" * 9000, "not a complete safetensors"),
        ("model.safetensors", b"", "not a complete safetensors"),
        ("model.safetensors", b"\xff" * 64, "not a complete safetensors"),
        ("model.safetensors", struct.pack("<Q", 4) + b"[{}]", "not a complete safetensors"),
        ("model.safetensors", struct.pack("<Q", 9) + b'{"a": {}}', "not a complete safetensors"),
    ],
)
def test_damaged_checkpoint_file_is_an_error_that_names_it(
    tmp_path: Path, file: str, content: bytes, message: str
) -> None:
    folder = write_checkpoint(tmp_path / "damaged")
    (folder / file).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        find_model(str(folder))


# Identity of the weights.


def test_weights_identity_of_a_model_with_a_pinned_commit_needs_no_hub(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit, "go_offline_if_unreachable", lambda: pytest.fail("asked"))
    weights = weights_identity(MODELS["roberta-base"])
    assert weights == "hub:FacebookAI/roberta-base@e2da8e2f811d1448a5b465c236feacd80ffbac7b"
    assert hub_revision(weights) == "e2da8e2f811d1448a5b465c236feacd80ffbac7b"


def test_identical_checkpoint_folders_have_the_same_weights_identity(tmp_path: Path) -> None:
    first, second = write_checkpoint(tmp_path / "a"), write_checkpoint(tmp_path / "b")
    (second / "README.md").write_text("not loaded")
    (second / "pytorch_model.bin").write_bytes(b"not loaded either")
    weights = weights_identity(find_model(str(first)))
    assert weights == weights_identity(find_model(str(second)))
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", weights)
    assert hub_revision(weights) is None


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "vocab.txt"])
def test_changed_config_weight_or_vocabulary_changes_the_model_identity(
    tmp_path: Path, file: str
) -> None:
    folder = write_checkpoint(tmp_path / "a")
    spec = find_model(str(folder))
    before = weights_identity(spec)
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")
    assert weights_identity(spec) != before


def test_digest_of_files_includes_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    before = files_digest(tmp_path.iterdir())
    (tmp_path / "b").rename(tmp_path / "c")
    assert files_digest(tmp_path.iterdir()) != before


def test_the_builtin_encoder_is_identified_by_its_files() -> None:
    assert re.fullmatch(r"builtin:tiny@[0-9a-f]{64}", weights_identity(MODELS["tiny"]))


def test_a_builtin_encoder_without_files_is_an_error() -> None:
    with pytest.raises(ModelError, match="reinstall"):
        weights_identity(ModelSpec(name="huge", checkpoint="builtin:huge", builtin="huge"))


# Models without a pinned revision. They are tested in a separate process, because libraries read
# HF_* variables when they are imported.

PROGRAM = """
import sys
from benchharness.models import find_model, weights_identity
from benchharness.errors import BenchError
try:
    print(weights_identity(find_model(sys.argv[1])))
except BenchError as error:
    print(f"{type(error).__name__}: {error}")
"""


def identify(name: str, endpoint: str, home: Path, **variables: str) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, name],
        env=kept | {"HF_ENDPOINT": endpoint, "HF_HOME": str(home)} | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_revision_main_of_a_model_is_resolved_to_a_commit_on_the_hub(tmp_path: Path) -> None:
    (tmp_path / "models" / "org" / "name" / ("cd" * 20)).mkdir(parents=True)
    with serve_hub(tmp_path) as server:
        found = identify("org/name", server.endpoint, tmp_path / "home")
        lost = identify("org/other", server.endpoint, tmp_path / "home")
    assert found == f"hub:org/name@{'cd' * 20}"
    assert lost.startswith("ModelError: the hub has no model 'org/other'")
    assert "\n" not in lost


def test_hub_model_is_an_error_after_one_request_if_the_hub_never_answers(tmp_path: Path) -> None:
    with silent_hub() as silent:
        lost = identify("org/name", silent.endpoint, tmp_path / "home")
        assert silent.count_connections() == 1, "the libraries would try again for minutes"
    assert lost.startswith("ModelError: model 'org/name' is not in the cache")


def test_commit_of_a_model_is_read_from_the_cache_without_the_hub(tmp_path: Path) -> None:
    ref = tmp_path / "hub" / "models--org--name" / "refs" / "main"
    ref.parent.mkdir(parents=True)
    ref.write_text("ab" * 20)
    for switch in ("", "1"):
        found = identify("org/name", "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE=switch)
        assert found == f"hub:org/name@{'ab' * 20}"


# Hub models at a given revision.


COMMITS = {"step1000": "a1" * 20, "step2000": "b2" * 20, "step143000": "c3" * 20}


def revisions(folder: Path) -> None:
    for name in COMMITS.values():
        (folder / "models" / "org" / "name" / name).mkdir(parents=True)


@pytest.mark.parametrize("name", ["step1000", "b2" * 20])
def test_model_revision_is_resolved_to_its_commit(tmp_path: Path, name: str) -> None:
    revisions(tmp_path)
    with serve_hub(tmp_path, COMMITS) as server:
        found = identify(f"org/name@{name}", server.endpoint, tmp_path / "home")
    assert found == f"hub:org/name@{COMMITS.get(name, name)}"


@pytest.mark.parametrize("name", ["step1400", "step14000", "d4" * 20])
def test_unknown_model_revision_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    revisions(tmp_path)
    with serve_hub(tmp_path, COMMITS) as server:
        lost = identify(f"org/name@{name}", server.endpoint, tmp_path / "home")
    assert f"has no revision '{name}': use a branch, a tag or a commit." in lost


def test_commit_of_a_fetched_tag_is_read_from_the_cache_without_the_hub(tmp_path: Path) -> None:
    ref = tmp_path / "hub" / "models--org--name" / "refs" / "step1000"
    ref.parent.mkdir(parents=True)
    ref.write_text("ab" * 20)
    found = identify("org/name@step1000", "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    assert found == f"hub:org/name@{'ab' * 20}"


def test_model_revision_is_part_of_the_model_name_and_keeps_the_recipe() -> None:
    known = find_model("roberta-base")
    spec = find_model("roberta-base@v2")
    assert spec == find_model("FacebookAI/roberta-base@v2")
    assert (spec.name, spec.revision, spec.family) == ("roberta-base@v2", "v2", known.family)
    assert spec.stage is None
    assert find_model("org/name@refs/pr/1").revision == "refs/pr/1"


def test_model_revision_with_a_step_is_a_pretraining_checkpoint() -> None:
    assert find_model("org/name@step1000-tokens4B").stage == Stage(
        run="org/name", step=1000, tokens=4 * 10**9
    )
    assert find_model("org/name@main").stage is None
    assert find_model(f"org/name@{'12' * 20}").stage is None
