"""Tests that every registered hub model is planned, fetched and loaded from its repository layout.

The repositories are copies of those in benchmarks/hub.toml with small random networks. Everything
runs in a separate process, because the hub's library reads its address on import.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchharness.models import MODELS, ModelSpec
from tests.helpers import hub_catalogue
from tests.helpers.hub_models import COMMIT, write_model
from tests.helpers.hub_server import HubServer, serve_hub

KNOWN = [spec for spec in MODELS.values() if spec.is_hub]
NONE = [spec for spec in KNOWN if not hub_catalogue.MODELS[spec.checkpoint]["weights"]]
LOADED = [spec for spec in KNOWN if spec not in NONE]


def shape_of(spec: ModelSpec) -> str:
    """Return the file names of a repository."""
    shape = hub_catalogue.MODELS[spec.checkpoint]
    return json.dumps([shape.get(name) for name in ("weights", "tokenizer", "code")])


SHAPES = [*{shape_of(spec): spec for spec in reversed(LOADED)}.values()]
"""One model per set of files, for every run of the tests; soak tests load all models."""
REST = [spec for spec in LOADED if spec not in SHAPES]
TRUSTED = [spec for spec in KNOWN if "--trust-remote-code" in spec.note]

PROGRAM = """
import json, sys
from benchharness.encoder import load_encoder, prepare_checkpoint
from benchharness.models import MODELS, Trust, find_model
from benchharness.models.weights import download, hub_revision
from benchharness.errors import BenchError
from tests.helpers.plans import plan_jobs

answers = {}
for name in sys.argv[1:]:
    trust = Trust(remote_code="--trust-remote-code" in MODELS[name].note)
    spec = find_model(name, trust)
    try:
        job = plan_jobs([spec], "glue/rte", overrides={"max_tokens": "48"}, limit=8).jobs[0]
        commit = hub_revision(job.weights)
        download(spec.checkpoint, spec.revision, trust)
        folder = prepare_checkpoint(spec.checkpoint, commit, trust)
        whole = spec.family == "bart"
        encoder = load_encoder(spec.checkpoint, commit, 1, trust, whole=whole)
        tokens = encoder.tokenizer("The cat sat on the mat.")["input_ids"]
        answers[name] = {
            "files": sorted(path.name for path in folder.iterdir()),
            "unknown": tokens.count(encoder.tokenizer.unk_token_id) / len(tokens),
        }
    except BenchError as error:
        answers[name] = str(error)
json.dump(answers, sys.stdout)
"""


def environment(server: HubServer, home: Path) -> Mapping[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and k != "BENCH_DB"}
    hub = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    return kept | hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServer]:
    root = tmp_path_factory.mktemp("hub")
    for spec in KNOWN:
        write_model(root, spec)
    with serve_hub(root) as server:
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def answers(hub: HubServer, home: Path) -> Mapping[str, object]:
    return ask(environment(hub, home), *(spec.name for spec in (*SHAPES, *NONE)))


@pytest.fixture(scope="module")
def rest(hub: HubServer, home: Path) -> Mapping[str, object]:
    return ask(environment(hub, home), *(spec.name for spec in REST))


def ask(env: Mapping[str, str], *names: str) -> Mapping[str, object]:
    """Return the outcome for each model, or its error message."""
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM, *names),
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_catalogue_of_the_fake_hub_has_all_registered_models_and_their_sources() -> None:
    assert hub_catalogue.MODELS.keys() == {spec.checkpoint for spec in KNOWN}
    for name, shape in hub_catalogue.MODELS.items():
        assert {"weights", "tokenizer"} <= shape.keys(), name
        assert shape.get("sources") or {"weights", "tokenizer"} <= {*shape["assumed"]}, name


def test_fake_hub_has_models_with_pickled_weights_and_without_a_tokenizer_json() -> None:
    """Check that the test repositories cover the cases that need special treatment."""
    shapes = hub_catalogue.MODELS.values()
    assert sum(shape["weights"] == ["pytorch_model.bin"] for shape in shapes) > 30
    assert sum("tokenizer.json" not in shape["tokenizer"] for shape in shapes) > 20


@pytest.mark.parametrize("spec", SHAPES, ids=lambda spec: spec.name)
def test_one_model_per_repository_layout_is_loaded_from_its_files(
    spec: ModelSpec, answers: Mapping[str, object]
) -> None:
    check(spec, answers[spec.name])


@pytest.mark.soak
@pytest.mark.parametrize("spec", REST, ids=lambda spec: spec.name)
def test_every_registered_model_is_loaded_from_the_files_of_its_repository(
    spec: ModelSpec, rest: Mapping[str, object]
) -> None:
    check(spec, rest[spec.name])


def check(spec: ModelSpec, answer: object) -> None:
    """Assert that the model was loaded from the catalogued files only."""
    assert isinstance(answer, dict), answer
    shape = hub_catalogue.MODELS[spec.checkpoint]
    wanted = {"config.json", *shape["weights"], *shape["tokenizer"], *shape.get("code", ())}
    lent = {"tokenizer.json", "vocab.txt"} if spec.lender else set()
    assert set(answer["files"]) == wanted | lent, "nothing else is fetched"
    assert answer["unknown"] < 0.5, "its own vocabulary was read"


@pytest.mark.soak
def test_fetched_model_is_loaded_while_the_hub_is_unreachable(
    answers: Mapping[str, object], rest: Mapping[str, object], hub: HubServer, home: Path
) -> None:
    first = {spec.family: spec.name for spec in reversed(LOADED)}
    names = tuple(first[name] for name in ("deberta-v2", "albert", "nomic_bert", "new", "t5"))
    gone = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "1"}
    again = ask(environment(hub, home) | gone, *names)
    online = {**answers, **rest}
    assert {name: online[name] for name in names} == again


@pytest.mark.parametrize("spec", NONE, ids=lambda spec: spec.name)
def test_the_error_of_an_unavailable_model_has_the_note_of_its_registration(
    spec: ModelSpec, answers: Mapping[str, object], hub: HubServer
) -> None:
    answer = str(answers[spec.name])
    assert answer.startswith(
        f"{spec.name} ({spec.checkpoint}) is not a checkpoint: it has no config"
    )
    assert answer.endswith(f"Note on this model: {spec.note}.")
    assert not [line for line in hub.requests if f"{spec.checkpoint}/resolve" in line]


def test_notes_of_registered_models_do_not_mention_pickles() -> None:
    assert not [spec.name for spec in KNOWN if "pickle" in spec.note]


@pytest.mark.parametrize(
    ("at", "options"),
    [
        pytest.param("", [(), ("--trust-remote-code",)], id="known", marks=pytest.mark.soak),
        pytest.param(
            f"@{COMMIT}", [("--trust-remote-code",)], id="at a commit", marks=pytest.mark.soak
        ),
    ],
)
def test_model_code_in_another_hub_repository_is_fetched_only_if_trusted(
    hub: HubServer, tmp_path: Path, at: str, options: list[tuple[str, ...]]
) -> None:
    spec = MODELS["gte-en-mlm-base"]
    asked = ("fetch", "--model", f"{spec.checkpoint}{at}")
    cached = tmp_path / "home" / "hub" / "models--Alibaba-NLP--new-impl"
    for option in options:
        code = 0 if option else 4
        done = subprocess.run(
            (sys.executable, "-P", "-m", "benchharness", *asked, *option),
            env=environment(hub, tmp_path / "home"),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stderr
        assert code == 0 or f"{spec.name} ({spec.checkpoint}) needs the Python code" in done.stderr
        assert code == 0 or "--trust-remote-code" in done.stderr
        assert cached.is_dir() == (code == 0)


@pytest.mark.soak
@pytest.mark.parametrize("spec", LOADED, ids=lambda spec: spec.name)
def test_registered_hub_model_is_run_by_its_name(
    spec: ModelSpec, hub: HubServer, tmp_path: Path
) -> None:
    options = ["--trust-remote-code"] if spec in TRUSTED else []
    options += ["--text-to-text"] if spec.family == "bart" else []
    words = f"--model {spec.name} --task glue/rte --data mini --limit 8 --seeds 1 --no-baselines"
    words += " --set max_tokens=48 --set epochs=1 --set batch_size=4 --set learning_rate=1e-4"
    words += " --device cpu"
    done = subprocess.run(
        (
            sys.executable,
            "-P",
            "-m",
            "benchharness",
            "run",
            *words.split(),
            *options,
        ),
        cwd=tmp_path,
        env=environment(hub, tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(\d+) of \1 jobs? (are|is) finished\.", done.stdout, re.MULTILINE)
