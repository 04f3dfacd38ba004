"""Tests of the plugins in docs/add-task.md and of the recipe in docs/plugins.md."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.doc_blocks import block
from tests.helpers.hub_files import write_dataset_config
from tests.helpers.hub_server import serve_hub
from tests.helpers.plugin_rows import exam, genes, manual


def run(
    folder: Path, plugins: list[str], data: str, *models: str, **environment: str
) -> list[dict[str, Any]]:
    """Run the plugins in a separate process; return the board of each task, by model."""
    command = (sys.executable, "-P", "-m", "benchharness")
    named = [word for model in models for word in ("--model", model)]
    texts = [(folder / plugin).read_text() for plugin in plugins]
    tasks = [next(word for word in text.split('"') if "/" in word) for text in texts]
    asked = [word for task in tasks for word in ("--task", task)]
    loaded = [word for plugin in plugins for word in ("--plugin", plugin)]
    settings = ("--set", "epochs=1", "--seeds", "1", "--no-baselines", "--data", data)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    for words in (("run", *named, *asked, *settings), ("leaderboard", "--json")):
        ended = subprocess.run(
            (*command, *words, *loaded),
            cwd=folder,
            env=kept | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
    boards = {board["suite"]: board["entries"] for board in json.loads(ended.stdout)}
    return [
        {entry["model"]: entry["tasks"][task]["values"] for entry in boards[task.partition("/")[0]]}
        for task in tasks
    ]


@pytest.mark.slow
@pytest.mark.soak
def test_plugins_in_the_documentation_can_be_trained_and_scored(tmp_path: Path) -> None:
    marks = {"tags.py": "TagTask(", "options.py": "ChoiceTask(", "spans.py": "MANUAL = "}
    for name, mark in marks.items():
        (tmp_path / name).write_text(block("add-task.md", mark))
    (tmp_path / "DATA").mkdir()
    for write in (genes, exam, manual):
        write(tmp_path / "DATA")
    tags, options, spans = run(tmp_path, list(marks), "DATA", "tiny", "majority")
    for found, majority in ((tags, 0.0), (options, 0.5), (spans, 0.0)):
        assert set(found) == {"tiny", "majority"}
        assert 0 <= found["tiny"][0] <= 1
        assert found["majority"][0] >= majority


@pytest.mark.slow
@pytest.mark.soak
def test_plugin_for_a_hub_data_set_in_the_documentation_can_be_scored(tmp_path: Path) -> None:
    (tmp_path / "reviews.py").write_text(block("add-task.md", "org/reviews", "PairTask("))
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
        found = run(tmp_path, ["reviews.py"], "hub", "majority", **where, HF_HUB_DISABLE_XET="1")
    assert found == [{"majority": [0.75]}]


def test_recipe_file_in_the_documentation_is_valid(bench, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(block("plugins.md", "[head.span]"))
    assert bench("show", "recipe", "mine.toml").code == 0
    points = json.loads(bench("show", "recipe", "roberta", "glue/rte", "mine.toml", "--json").out)
    assert [p["settings"]["learning_rate"]["value"] for p in points] == [2e-5, 3e-5]
    assert {p["settings"]["batch_size"]["value"] for p in points} == {16}
