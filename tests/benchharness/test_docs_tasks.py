"""The plugins of docs/tasks.md and the recipe of docs/plugins.md, used as a reader would."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.doc_blocks import block
from tests.helpers.hub_files import write_dataset_config
from tests.helpers.hub_server import serve_hub

SENTENCE = "BRCA1\tB-GENE\nbinds\tO\nTP53\tB-GENE\n.\tO\n\nIt\tO\nrains\tO\n\n"
QUESTION = {"text": "It rains.", "question": "What does it do?", "options": ["rain", "snow"]}
CONTEXT = "Press the red button. Then wait."


def genes(folder: Path) -> None:
    for split in ("train", "dev"):
        (folder / f"{split}.conll").write_text(SENTENCE * 8)


def exam(folder: Path) -> None:
    lines = [json.dumps(QUESTION | {"answer": number % 2}) for number in range(8)]
    for split in ("train", "dev"):
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def manual(folder: Path) -> None:
    answers = [{"text": "red", "answer_start": CONTEXT.index("red")}]
    asked = [{"id": str(n), "question": "Which button?", "answers": answers} for n in range(8)]
    paragraph = {"context": CONTEXT, "qas": asked}
    document = {"version": "1", "data": [{"title": "Manual", "paragraphs": [paragraph]}]}
    for split in ("train", "dev"):
        (folder / f"{split}.json").write_text(json.dumps(document))


def run(folder: Path, plugin: str, data: str, *models: str, **environment: str) -> dict[str, Any]:
    """The board of a run in a process of its own, by the model that was asked for."""
    command = (sys.executable, "-P", "-m", "benchharness")
    named = [word for model in models for word in ("--model", model)]
    task = next(line for line in (folder / plugin).read_text().split('"') if "/" in line)
    settings = ("--set", "epochs=1", "--seeds", "1", "--no-baselines", "--data", data)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    for words in (
        ("run", *named, "--task", task, *settings),
        ("leaderboard", "--suite", task.partition("/")[0], "--json"),
    ):
        ended = subprocess.run(
            (*command, *words, "--plugin", plugin),
            cwd=folder,
            env=kept | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    (board,) = json.loads(ended.stdout)
    return {entry["model"]: entry["tasks"][task]["values"] for entry in board["entries"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mark", "write", "majority"),
    [("TagTask(", genes, 0.0), ("ChoiceTask(", exam, 0.5), ("MANUAL = ", manual, 0.0)],
    ids=["tags", "options", "spans"],
)
def test_a_plugin_of_the_documentation_trains_and_scores(
    tmp_path: Path, mark: str, write: Callable[[Path], None], majority: float
) -> None:
    (tmp_path / "plugin.py").write_text(block("tasks.md", mark))
    (tmp_path / "DATA").mkdir()
    write(tmp_path / "DATA")
    found = run(tmp_path, "plugin.py", "DATA", "tiny", "majority")
    assert set(found) == {"tiny", "majority"}
    assert 0 <= found["tiny"][0] <= 1
    assert found["majority"][0] >= majority


@pytest.mark.slow
def test_the_hub_data_set_of_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "reviews.py").write_text(block("tasks.md", "org/reviews", "PairTask("))
    revision = "0123456789abcdef0123456789abcdef01234567"
    rows = [{"text": f"good {n}", "label": 1} for n in range(6)]
    rows += [{"text": f"bad {n}", "label": 0} for n in range(2)]
    write_dataset_config(
        tmp_path / "hub" / "datasets" / "org/reviews" / revision,
        "default",
        {"train": rows, "validation": rows},
        ("negative", "positive"),
    )
    with serve_hub(tmp_path / "hub") as server:
        where = {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(tmp_path / "home")}
        found = run(tmp_path, "reviews.py", "hub", "majority", **where, HF_HUB_DISABLE_XET="1")
    assert found == {"majority": [0.75]}


def test_the_recipe_file_of_the_documentation(bench, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(block("plugins.md", "[head.span]"))
    assert bench("show", "recipe", "mine.toml").code == 0
    points = json.loads(bench("show", "recipe", "roberta", "glue/rte", "mine.toml", "--json").out)
    assert [p["settings"]["learning_rate"]["value"] for p in points] == [2e-5, 3e-5]
    assert {p["settings"]["batch_size"]["value"] for p in points} == {16}
