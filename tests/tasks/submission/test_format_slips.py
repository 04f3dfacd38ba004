"""Each slip that other harnesses made in a submission's format, as a test that would catch it."""

import random
import zipfile
from pathlib import Path

import pytest

from benchharness.tasks.answers import AnswerType, answer_type
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.submission import SUBMISSIONS, compose
from benchharness.tasks.submission.answer_file import AnswerFile
from benchharness.tasks.submission.inspection import check, repair, write_zip
from benchharness.tasks.suites import find_task
from tests.helpers.small_submissions import clean, members, shrink_all, zipped

GLUE = {file.name: file for file in SUBMISSIONS["glue"].files}


def kind_of(file: AnswerFile) -> AnswerType:
    return answer_type(find_task(file.task))


def composed(name: str, label: str | float = "entailment") -> list[str]:
    """The lines of a file with one answer throughout."""
    file = GLUE[name]
    predictions = [PairPrediction(id=str(i), label=label) for i in range(file.rows)]
    return compose(file, kind_of(file), predictions).decode().splitlines()


def test_deberta_header_is_prediction_not_predictions() -> None:
    assert composed("RTE.tsv")[0] == "index\tprediction"


def test_deberta_header_is_found_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_all(monkeypatch)
    wrong = {n: c.replace(b"prediction", b"predictions") for n, c in clean("glue").items()}
    path = tmp_path / "deberta.zip"
    path.write_bytes(zipped(wrong))
    assert len(check(path)) == 11
    repair(path, tmp_path / "out.zip")
    assert members(tmp_path / "out.zip") == clean("glue")


def test_jiant_v1_mnli_indices_start_at_0_in_each_file() -> None:
    """Issues 212 and 257: MNLI-mm began at 9796 and AX at 19643."""
    for name in ("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"):
        lines = composed(name)
        assert lines[1] == "0\tentailment"
        assert lines[-1] == f"{GLUE[name].rows - 1}\tentailment"


def test_jiant_v1_mnli_indices_that_run_on_are_found_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_all(monkeypatch)
    files = clean("glue")
    table = files["MNLI-mm.tsv"].decode().splitlines()
    rows = [f"{9796 + i}\t{line.split()[1]}" for i, line in enumerate(table[1:])]
    path = tmp_path / "jiant.zip"
    path.write_bytes(zipped({**files, "MNLI-mm.tsv": "\n".join([table[0], *rows]).encode()}))
    (fault,) = check(path)
    assert "run from 9796 to 9801, expected 0 to 5" in str(fault)
    repair(path, tmp_path / "out.zip")
    assert members(tmp_path / "out.zip") == files


def test_jiant_v1_predictions_are_sorted_by_index() -> None:
    file = GLUE["WNLI.tsv"]
    labels = ["entailment" if i % 3 else "not_entailment" for i in range(file.rows)]
    predictions = [PairPrediction(id=str(i), label=label) for i, label in enumerate(labels)]
    random.Random(0).shuffle(predictions)
    lines = compose(file, kind_of(file), predictions).decode().splitlines()[1:]
    assert lines == [f"{i}\t{int(label == 'entailment')}" for i, label in enumerate(labels)]


def test_hf_run_glue_scores_are_clipped() -> None:
    assert composed("STS-B.tsv", 5.3)[1] == "0\t5.000"
    assert composed("STS-B.tsv", -0.001)[1] == "0\t0.000"


def test_hf_run_glue_files_have_the_servers_names_in_one_flat_zip(tmp_path: Path) -> None:
    write_zip(tmp_path / "glue.zip", clean("glue"))
    with zipfile.ZipFile(tmp_path / "glue.zip") as archive:
        assert archive.namelist() == list(GLUE)


def test_hf_run_glue_file_names_are_found_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_all(monkeypatch)
    hf = {"STS-B.tsv": "stsb", "MNLI-m.tsv": "mnli", "CoLA.tsv": "cola"}
    files = {
        f"predict_results_{hf[name]}.txt" if name in hf else name: content
        for name, content in clean("glue").items()
    }
    path = tmp_path / "hf.zip"
    path.write_bytes(zipped(files))
    assert len(check(path)) == 3
    repair(path, tmp_path / "out.zip")
    assert members(tmp_path / "out.zip") == clean("glue")


@pytest.mark.parametrize("name", ["MNLI-m.tsv", "QNLI.tsv", "RTE.tsv", "AX.tsv"])
def test_label_numbers_differ_between_sources_so_names_are_written(name: str) -> None:
    """0 is entailment on the hub, neutral in jiant v1, contradiction in roberta.large.mnli."""
    task = find_task(GLUE[name].task)
    assert GLUE[name].answers.written == {label: label for label in task.labels}


def test_jiant_v2_writes_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path was joined the wrong way round, which only an absolute one survived."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    write_zip(Path("runs/glue.zip"), clean("glue"))
    assert [str(p) for p in Path().rglob("*.zip")] == ["runs/glue.zip"]
