"""Tests of the tutorial's commands with the tiny encoder, from a CSV file to a pipeline."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import own_files

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
WITHOUT_US = "import sys; sys.modules['benchharness'] = None\n"


@pytest.mark.soak
def test_the_tutorial_turns_a_csv_file_into_a_pipeline_in_three_commands(bench, tmp_path):
    section = PAGE.read_text().partition("## Your rows")[2].partition("\n## ")[0]
    *commands, code = (
        textblock.replace("\n    ", "\n").strip()
        for textblock in re.findall(r"(?:^    .+\n)+", section, re.MULTILINE)
    )
    own_files.GOOD["comma"].write(tmp_path).rename(tmp_path / "reviews.csv")
    (tmp_path / "new.csv").write_text("text\nlike0 ba den\nlike1 ke fir\n")
    said = ""
    for line in "\n".join(commands).splitlines():
        program, *words = shlex.split(line.replace("minilm", "tiny"))
        assert program == "bench"
        if words[0] == "run":
            words += ["--device", "cpu", "--no-baselines", "--set", "epochs=1"]
        elif words[0] == "model":  # after one epoch, the model has learned nothing
            words += ["--collapsed-too"]
        ended = bench(*words)
        assert ended.code == 0, ended.err
        said = ended.out
    assert said.count('"label"') == 2
    asked = subprocess.run(
        [sys.executable, "-c", WITHOUT_US + code], check=True, capture_output=True, text=True
    )
    assert "'label': '" in asked.stdout
