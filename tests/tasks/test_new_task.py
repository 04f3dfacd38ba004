"""A GLUE-like task is declared by the eight lines below."""

from pathlib import Path

import pytest

from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.glue import pair_task
from benchharness.tasks.metrics import accuracy
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.task import score

IRONY = pair_task(
    name="mine/irony",
    folder="Irony",
    texts={"remark": "sentence"},
    labels=("plain", "ironic"),
    label_texts="01",
    metrics=(accuracy,),
)

ROWS = "sentence\tlabel\nIt rains.\t0\nWhat lovely rain.\t1\nRain again?\t1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Irony").mkdir()
    (tmp_path / "Irony" / "dev.tsv").write_text(ROWS)
    return tmp_path


def test_rows_of_a_newly_declared_task_can_be_read_and_scored(folder: Path) -> None:
    examples = read(IRONY, "dev", parse_data(str(folder))).examples
    assert examples[1] == PairExample(id="1", text_a="What lovely rain.", label="ironic")
    predictions = [PairPrediction(id=e.id, label="ironic") for e in examples]
    assert score(IRONY, "dev", predictions, examples) == {"accuracy": pytest.approx(2 / 3)}


def test_new_task_can_be_declared_in_eight_lines() -> None:
    source = Path(__file__).read_text()
    declaration = source[source.index("IRONY = ") : source.index("\n)\n") + 2]
    assert len(declaration.splitlines()) == 8
