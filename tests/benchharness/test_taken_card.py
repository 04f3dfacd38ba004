"""The card of a taken folder: metadata for the hub, and snippets that transformers alone runs."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from benchharness.trained.card import card_of, snippet, write_card
from tests.helpers.taken import taken

HOOK = """\
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "benchharness":
            raise ImportError(name)
sys.meta_path.insert(0, Refused())
"""


SOAK = ("glue/stsb", "superglue/copa", "conll2003/ner")


@pytest.mark.parametrize(
    "tasks", [("glue/sst2", "squad/v2.0"), pytest.param(SOAK, marks=pytest.mark.soak)]
)
def test_snippets_run_where_benchharness_is_not(tmp_path: Path, tasks: tuple[str, ...]) -> None:
    snippets = []
    for task in tasks:
        folder = taken(tmp_path, task)
        card = card_of(folder, "mini")
        write_card(folder, replace(card, seeds={1: 0.5, 2: 0.6}))
        text = (folder / "README.md").read_text()
        snippets.append(snippet(card))
        assert snippets[-1] in text
        assert "one of 2 seeds of the same run, not the best of them: 1: 50.00, 2: 60.00" in text
        assert text.rstrip().endswith(f"hf upload {folder.name} {folder.name}\n```")
        read = ModelCard(text)
        assert read.data.license is None
        assert read.data.datasets is None  # made-up rows are no data set's
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([HOOK, *snippets])],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= len(tasks)
