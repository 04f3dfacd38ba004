"""Tests of shell completion, requested with environment variables as a shell does."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from benchharness.models import MODELS
from benchharness.tasks.suites import TASKS
from tests.helpers.fuzz.of_models import tables_as_they_were
from tests.helpers.results import make_job, make_result

RUN = "bench run --model bert "


def asked_by_bash(words: str) -> dict[str, str]:
    """Return the variables that bash sets to complete the last word, which may be empty."""
    return {
        "_BENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }


@pytest.fixture
def proposed(bench, monkeypatch: pytest.MonkeyPatch):
    """Return a function that gives the completions of a command line, computed in this process."""

    def propose(words: str, **environment: str) -> list[str]:
        with tables_as_they_were(), monkeypatch.context() as patched:
            for name, value in (asked_by_bash(words) | environment).items():
                patched.setenv(name, value)
            ended = bench()
        assert ended.err == ""
        return ended.out.split()

    return propose


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    return tmp_path


@pytest.fixture
def key(here: Path) -> str:
    """Return the key of a stored run."""
    job = make_job(model="their-model", task="glue/rte")
    with open_store("results/leaderboard.sqlite") as store:
        store.add_result(make_result(job))
    return job.key


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bench run --model rober", {"roberta-base", "roberta-large"}),
        ("bench run --model roberta-b", {"roberta-base"}),
        ("bench check --model maj", {"majority"}),
        ("bench fetch --task glue/c", {"glue/cola"}),
        (f"{RUN}--task cop", {"copa"}),
        (f"{RUN}--suite superglue --task c", {"cb", "copa"}),
        (f"{RUN}--suite su", {"superglue"}),
        (f"{RUN}--suite se", {"seeds"}),
        (f"{RUN}--recipe f", {"fast", "features", "few-rows", "few-shot"}),
        (
            f"{RUN}--set l",
            {
                *("learning_rate=", "layer_decay=", "lm_weight=", "lora_rank=", "lstm_size="),
                *("lora_alpha=", "lora_dropout=", "lora_targets="),
                *("layers=", "layer_weight=", "layer_epochs=", "layer_learning_rate="),
            },
        ),
        (f"{RUN}--set unf", {"unfreeze=", "unfreeze=all", "unfreeze=gradual"}),
        (f"{RUN}--data m", {"mini"}),
        (f"{RUN}--start-from p", {"paper", "pretrained"}),
        (f"{RUN}--start-from mu", {"multi-task"}),
        ("bench which --start-from t", set()),
        (f"{RUN}--log t", {"tensorboard", "trackio"}),
        (f"{RUN}--precision b", {"bf16"}),
        ("bench show recipe roberta-l", {"roberta-large"}),
        ("bench show recip", {"recipe"}),
        ("bench show publ", {"published"}),
        ("bench pl", {"plan"}),
        ("bench compare pl", set()),
        ("bench run fe", set()),
        ("bench run fetch --task glue/c", {"glue/cola"}),
        ("bench run --write-t", {"--write-task"}),
        ("bench run --wr", {"--write-task", "--write-config"}),
        ("bench db hi", {"hide"}),
        ("bench export --format m", {"markdown", "model-index"}),
        ("bench show runs --task glue/r", {"glue/rte"}),
        ("bench submit --suite s", {"superglue", "squad"}),
        (f"{RUN}--task nothing-like-it", set()),
    ],
)
def test_shell_completes_names_of_models_tasks_and_options(
    proposed, words: str, expected: set[str]
) -> None:
    assert set(proposed(words)) == expected


def test_shell_completes_an_empty_word_with_every_name(proposed, here: Path) -> None:
    assert set(proposed("bench run --model ")) == set(MODELS)
    assert set(proposed(f"{RUN}--task ")) == set(TASKS)
    (here / "mine.toml").touch()
    recipes = {"paper", "fast", "checkpoints", "features", "few-rows", "few-shot"}
    assert set(proposed(f"{RUN}--recipe ")) == recipes | {"mine.toml"}
    assert "learning_rate=2e-05" in proposed(f"{RUN}--set learning")


def test_shell_completes_a_model_alias_if_no_model_name_matches(proposed) -> None:
    aliases = {alias for spec in MODELS.values() for alias in spec.aliases}
    begins = next(a for a in sorted(aliases) if not any(n.startswith(a.lower()) for n in MODELS))
    assert begins in proposed(f"bench run --model {begins}")


@pytest.mark.parametrize(
    "words", ["show {}", "compare {}", "compare tiny {}", "compare --db results/x.sqlite {}"]
)
def test_shell_completes_keys_of_stored_runs(proposed, key: str, words: str) -> None:
    Path("results/x.sqlite").write_bytes(Path("results/leaderboard.sqlite").read_bytes())
    assert proposed(f"bench {words.format(key[:3])}") == [key[:12]]


def test_shell_completes_models_of_stored_runs(
    proposed, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in ("plan ", "compare ", "check --write --model ", "show runs --model "):
        assert proposed(f"bench {command}their") == ["their-model"], command
    Path("results/leaderboard.sqlite").rename("moved.sqlite")
    assert proposed("bench plan their") == []
    monkeypatch.setenv("BENCH_DB", "moved.sqlite")
    assert proposed("bench plan their") == ["their-model"]


def test_shell_completion_with_a_damaged_database_prints_nothing(proposed, key: str) -> None:
    Path("results/leaderboard.sqlite").write_bytes(b"no database")
    assert proposed(f"bench show {key[:3]}") == []
    assert Path("results/leaderboard.sqlite").read_bytes() == b"no database"


def test_shell_completes_names_from_plugins(here: Path, proposed) -> None:
    (here / "mine.py").write_text(
        "from benchharness.models import ModelSpec\n"
        "print('this must not reach the shell')\n"
        "MODELS = [ModelSpec(name='mine-small', checkpoint='/models/mine')]\n"
    )
    words = "bench run --plugin mine.py --model mine"
    assert proposed(words) == ["mine-small"]
    words = "bench run --model mine"
    assert proposed(words, BENCH_PLUGINS="mine.py") == ["mine-small"]
    assert proposed(words) == []
    (here / "mine.py").write_text("1 / 0\n")
    assert proposed("bench run --plugin mine.py --suite sq") == ["squad"]


def test_shell_completion_is_fast_and_imports_no_heavy_modules(here: Path) -> None:
    code = (
        "import os, sys, atexit; from benchharness.cli.app import main; "
        "atexit.register(lambda: print(*sorted({'torch', 'transformers', 'datasets', 'scipy'}"
        " & set(sys.modules)), 'heavy:')); main()"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ended = subprocess.run(
        (sys.executable, "-P", "-c", code),
        env={**os.environ, **asked_by_bash("bench run --task glue/co")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == ["glue/cola", "heavy:"]
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert seconds < 3, "of the processor; 0.6 on a machine of 2026"
