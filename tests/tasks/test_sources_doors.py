"""Official files give the same rows in every common folder layout."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.tasks.read import has_split, holds, read
from benchharness.tasks.sources import Data, missing_files, parse_data
from benchharness.tasks.sources.files import mini_folder
from benchharness.tasks.suites import SUITES, TASKS, find_task
from tests.helpers.archives import files_in, tar_of, zip_of

MINI = Data(source="mini")

PEOPLES_NAMES = {
    "glue": ("glue", "GLUE", "glue_data", "GLUE-data", "Glue"),
    "superglue": ("superglue", "SuperGLUE", "super_glue", "superglue_data"),
    "squad": ("squad", "SQuAD", "squad_v2", "SQuAD2.0", "squad-1.1"),
    "conll2003": ("conll2003", "CoNLL-2003", "conll_2003", "conll03", "CoNLL2003"),
    "conll2012": ("conll2012", "CoNLL-2012", "conll-2012", "conll12"),
    "race": ("race", "RACE"),
    "swag": ("swag", "SWAG", "swagaf"),
    "snli": ("snli", "SNLI", "snli_1.0"),
    "blimp": ("blimp", "BLiMP", "blimp-master"),
    "quac": ("quac", "QuAC", "quac_v0.2"),
    "coqa": ("coqa", "CoQA", "coqa-v1.0"),
    "hotpotqa": ("hotpotqa", "HotpotQA", "hotpot", "hotpot-qa"),
    "beir": ("beir", "BEIR"),
    "pairs": ("pairs", "Pairs"),
    "text": ("text",),
    "xtreme": ("xtreme", "XTREME"),
    "lexglue": ("lexglue", "LexGLUE", "lex_glue"),
    "sst": ("sst", "SST", "SST-5", "trainDevTestTrees_PTB"),
}


TIMED = (t for t in TASKS if TASKS[t].head == "timed" and TASKS[t].source.reader)
MADE = ("text/", "needle/", *TIMED)
"""Tasks whose rows are generated, or in a file of any name."""


def fingerprints(data: Data, *tasks: str) -> dict[str, str]:
    """Return the fingerprint of every split that the data hold, by "task:split"."""
    return {
        f"{name}:{split}": read(TASKS[name], split, data).fingerprint
        for name in tasks
        for split in TASKS[name].source.splits
        if has_split(TASKS[name], split, data)
    }


@cache
def of_mini(*tasks: str) -> dict[str, str]:
    """Return the fingerprints of the bundled rows."""
    return fingerprints(MINI, *tasks)


def renamed(folder: Path, name: Callable[[str], str]) -> Path:
    """Rename the folders in a folder, and return the folder."""
    for child in sorted(folder.iterdir()):
        if child.is_dir():
            child.rename(folder / name(child.name))
    return folder


@pytest.mark.parametrize(
    ("suite", "name"), [(suite, name) for suite, names in PEOPLES_NAMES.items() for name in names]
)
def test_data_folder_may_be_the_parent_of_a_suite_folder(
    tmp_path: Path, suite: str, name: str
) -> None:
    shutil.copytree(mini_folder() / suite, tmp_path / name)
    versions = {"squad_v2": ["squad/v2.0"], "SQuAD2.0": ["squad/v2.0"], "squad-1.1": ["squad/v1.1"]}
    # The task xtreme/squad-en reads the files of SQuAD, so it has none in this folder.
    own = [task for task in SUITES[suite].tasks if task != "xtreme/squad-en"]
    tasks = versions.get(name, own)
    assert fingerprints(parse_data(str(tmp_path)), *tasks) == of_mini(*tasks)


def test_data_folder_may_contain_all_suites(tmp_path: Path) -> None:
    for suite in PEOPLES_NAMES:
        shutil.copytree(mini_folder() / suite, tmp_path / PEOPLES_NAMES[suite][:2][-1])
    assert {*PEOPLES_NAMES, "retrieval", "efficiency", "needle"} == {*SUITES}
    of_files = [name for name in TASKS if not name.startswith(("efficiency/", "needle/"))]
    assert fingerprints(parse_data(str(tmp_path)), *of_files) == of_mini(*of_files)


def test_squad_versions_may_be_in_separate_folders(tmp_path: Path) -> None:
    for version, name in (("1.1", "squad"), ("2.0", "squad2")):
        for split in ("train", "dev"):
            (tmp_path / name).mkdir(exist_ok=True)
            file = f"{split}-v{version}.json"
            shutil.copy(mini_folder() / "squad" / file, tmp_path / name / file)
    tasks = SUITES["squad"].tasks
    assert fingerprints(parse_data(str(tmp_path)), *tasks) == of_mini(*tasks)


@pytest.mark.parametrize(
    "name",
    [str.lower, str.upper, lambda name: name.replace("-", ""), lambda name: name.replace("-", "_")],
)
@pytest.mark.parametrize("suite", ["glue", "superglue"])
def test_task_folder_names_match_in_any_case_and_punctuation(
    tmp_path: Path, suite: str, name: Callable[[str], str]
) -> None:
    folder = renamed(Path(shutil.copytree(mini_folder() / suite, tmp_path / suite)), name)
    tasks = SUITES[suite].tasks
    assert fingerprints(parse_data(str(folder)), *tasks) == of_mini(*tasks)


def test_matched_and_mismatched_mnli_may_be_in_separate_folders(tmp_path: Path) -> None:
    for which in ("matched", "mismatched"):
        (tmp_path / f"mnli_{which}").mkdir()
        for split in ("dev", "test"):
            source = mini_folder() / "glue" / "MNLI" / f"{split}_{which}.tsv"
            shutil.copy(source, tmp_path / f"mnli_{which}" / f"{split}.tsv")
    (tmp_path / "mnli").mkdir()
    shutil.copy(mini_folder() / "glue" / "MNLI" / "train.tsv", tmp_path / "mnli")
    found = fingerprints(parse_data(str(tmp_path)), "glue/mnli")
    assert found == of_mini("glue/mnli")


@pytest.mark.parametrize("name", ["CoLA", "cola", "my-grammar"])
def test_data_folder_may_be_the_folder_of_a_single_task(tmp_path: Path, name: str) -> None:
    shutil.copytree(mini_folder() / "glue" / "CoLA", tmp_path / name)
    data = parse_data(str(tmp_path / name))
    assert fingerprints(data, "glue/cola") == of_mini("glue/cola")
    assert holds(str(tmp_path / name))(TASKS["glue/cola"])


def test_data_folder_nested_in_one_of_the_same_name_is_read(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "CoLA", tmp_path / "CoLA" / "CoLA")
    shutil.copytree(mini_folder() / "race", tmp_path / "race" / "RACE")
    data = parse_data(str(tmp_path))
    assert fingerprints(data, "glue/cola", "race/all") == of_mini("glue/cola", "race/all")


def test_sibling_of_the_data_folder_is_not_read(tmp_path: Path) -> None:
    for name in ("RTE", "WNLI"):
        shutil.copytree(mini_folder() / "glue" / name, tmp_path / name)
    data = parse_data(str(tmp_path / "RTE"))
    with pytest.raises(DataError, match=r"no WNLI/train\.tsv "):
        read(TASKS["glue/wnli"], "train", data)


def test_file_outside_the_task_folder_is_not_read_as_a_split(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "RTE")
    (tmp_path / "RTE" / "test.tsv").rename(tmp_path / "test.tsv")
    assert not has_split(TASKS["glue/rte"], "test", parse_data(str(tmp_path)))


# Downloaded archives.

RELEASED: Mapping[str, Mapping[str, str]] = {
    "glue": {
        "CoLA.zip": "CoLA",
        "QQP-clean.zip": "QQP",
        "QNLIv2.zip": "QNLI",
        "MNLI.zip": "MNLI",
        "SST-2.zip": "SST-2",
    },
    "superglue": {"BoolQ.zip": "BoolQ", "AX-b.zip": "AX-b", "WSC.zip": "WSC"},
}
"""Archives of one task, by suite, each with a folder of the task's name in it."""


@pytest.mark.parametrize(
    ("suite", "name", "folder"),
    [(s, name, folder) for s, names in RELEASED.items() for name, folder in names.items()],
)
def test_archive_of_a_single_task_is_read_without_unpacking(
    tmp_path: Path, suite: str, name: str, folder: str
) -> None:
    files = files_in(mini_folder() / suite / folder, folder)
    archive = zip_of(tmp_path / name, files)
    (task,) = (
        task.name
        for task in TASKS.values()
        if task.suite == suite
        and any(split.files[0].startswith(f"{folder}/") for split in task.source.splits.values())
    )
    wanted = of_mini(task)
    assert fingerprints(parse_data(str(archive)), task) == wanted
    assert fingerprints(parse_data(str(tmp_path)), task) == wanted
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is unpacked"


@pytest.mark.parametrize(
    ("suite", "name", "above"),
    [
        ("superglue", "combined.zip", ""),
        ("superglue", "SuperGLUE.zip", "SuperGLUE"),
        ("glue", "glue_data.zip", "glue_data"),
        ("glue", "glue.tar", "glue"),
        ("race", "RACE.tar.gz", "RACE"),
        ("race", "race.tgz", "RACE"),
        ("race", "RACE.zip", "RACE"),
        ("snli", "snli_1.0.zip", "snli_1.0"),
        ("conll2003", "conll2003.zip", ""),
    ],
)
def test_archive_of_a_suite_is_read_without_unpacking(
    tmp_path: Path, suite: str, name: str, above: str
) -> None:
    pack = zip_of if name.endswith(".zip") else tar_of
    archive = pack(tmp_path / name, files_in(mini_folder() / suite, above))
    tasks = SUITES[suite].tasks
    wanted = of_mini(*tasks)
    assert fingerprints(parse_data(str(archive)), *tasks) == wanted
    assert fingerprints(parse_data(str(tmp_path)), *tasks) == wanted
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing is unpacked"


def test_folder_takes_precedence_over_its_archive(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "RTE")
    (tmp_path / "RTE.zip").write_bytes(b"PK, and nothing more")
    data = parse_data(str(tmp_path))
    assert fingerprints(data, "glue/rte") == of_mini("glue/rte")
    shutil.rmtree(tmp_path / "RTE")
    with pytest.raises(DataError, match=r"RTE\.zip cannot be unpacked"):
        has_split(TASKS["glue/rte"], "train", parse_data(str(tmp_path)))


def test_data_path_may_be_an_archive(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "CoLA.zip", files_in(mini_folder() / "glue" / "CoLA", "CoLA"))
    data = parse_data(str(archive))
    assert str(data) == str(archive.resolve())
    assert parse_data(str(data)) == data


@pytest.mark.parametrize("name", ["CoLA", "SST-2", "MRPC", "STS-B", "RTE", "WNLI"])
def test_official_files_give_the_same_rows_in_every_folder_layout(
    tmp_path: Path, name: str
) -> None:
    folder = Path(os.environ.get("BENCH_TEST_DATA", "nowhere")) / "glue" / name
    if not folder.is_dir():
        pytest.skip("BENCH_TEST_DATA names no folder of official files")
    task = find_task(f"glue/{name.lower().replace('-', '')}").name
    wanted = fingerprints(parse_data(str(folder.parent.parent)), task)
    assert len(wanted) >= 2
    (tmp_path / "GLUE").mkdir()
    (tmp_path / "GLUE" / name.lower()).symlink_to(folder)
    archive = zip_of(tmp_path / f"{name}.zip", files_in(folder, name))
    for data in (tmp_path, tmp_path / "GLUE", folder, archive):
        assert fingerprints(parse_data(str(data)), task) == wanted


# Data folders that are ambiguous or lack files.


def test_ambiguous_data_folder_is_an_error(tmp_path: Path) -> None:
    for name in ("GLUE", "glue_data"):
        shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / name / "RTE")
    error = r"has RTE/train\.tsv more than once, as .*GLUE.* and as .*glue_data.*: pass the right"
    with pytest.raises(DataError, match=error):
        read(TASKS["glue/rte"], "train", parse_data(str(tmp_path)))
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "glue" / "RTE")
    read(TASKS["glue/rte"], "train", parse_data(str(tmp_path)))  # the official layout is accepted


def test_symbolic_link_does_not_make_a_data_folder_ambiguous(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "GLUE" / "RTE")
    (tmp_path / "glue_data").symlink_to(tmp_path / "GLUE")
    data = parse_data(str(tmp_path))
    assert fingerprints(data, "glue/rte") == of_mini("glue/rte")


def lacking(folder: Path, task: str) -> str:
    """Return the message for a task with missing files; check that the folders it proposes work."""
    found = TASKS[task].source
    words = missing_files(found, ["train", "dev"], parse_data(str(folder)))
    for proposed in (part for part in words.split("`") if part.startswith("--data ")):
        data = parse_data(proposed.removeprefix("--data "))
        assert not missing_files(found, ["train", "dev"], data)
    return words


def test_missing_file_error_suggests_a_nearby_folder_with_the_files(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "sets" / "old" / "RTE")
    (tmp_path / "sets" / "old" / "SST-2").mkdir()
    files = "RTE/train.tsv (train), RTE/dev.tsv (dev)"
    below = f"{files}; missing files were found with `--data {tmp_path}/sets/old`"
    assert lacking(tmp_path, "glue/rte") == below
    assert lacking(tmp_path / "sets" / "old" / "SST-2", "glue/rte") == below


def test_missing_file_is_an_error_that_lists_the_folder(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d", "e", "f", "g", "h", ".hidden", "__MACOSX"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").write_text("notes")
    error = r"has no RTE/train\.tsv \(train\); .* contains a/, b/, c/, d/, e/, f/ and 3 more: put"
    with pytest.raises(DataError, match=error):
        read(TASKS["glue/rte"], "train", parse_data(str(tmp_path)))


@pytest.mark.parametrize("task", [name for name in TASKS if not name.startswith(MADE)])
def test_errors_for_local_data_files_do_not_mention_the_hub(tmp_path: Path, task: str) -> None:
    """Try missing files and files with other content."""
    source = TASKS[task].source
    split = next(iter(source.splits))
    for content in (None, "", "{}\n", "[]\n", "x\n", '{"data": 3}', "a\tb\n"):
        if content is not None:
            path = tmp_path / source.splits[split].files[0].replace("*", "middle", 1)
            path = path.with_name(path.name.replace("*", "1"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        with pytest.raises(BenchError) as caught:
            read(TASKS[task], split, parse_data(str(tmp_path)))
        words = str(caught.value).replace(str(tmp_path), "")
        assert not source.hub or source.hub not in words
        assert not {source.config} & set(words.replace("(", " ").replace(")", " ").split()), words


def test_short_task_name_is_resolved_by_the_content_of_the_folder(tmp_path: Path) -> None:
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "RTE")
    assert find_task("rte", holds(str(tmp_path / "RTE"))).name == "glue/rte"
    assert find_task("RTE", holds(str(tmp_path))).name == "glue/rte"
    shutil.copytree(mini_folder() / "superglue" / "RTE", tmp_path / "superglue" / "RTE")
    for data in (str(tmp_path), "mini", "hub"):
        with pytest.raises(
            BenchError, match=r"several suites have a task 'rte': use glue/rte or superglue/rte"
        ):
            find_task("rte", holds(data))


def test_large_unrelated_folder_is_refused_within_seconds(tmp_path: Path) -> None:
    for name in (f"{a}/{b}/{c}" for a in range(8) for b in range(8) for c in range(8)):
        (tmp_path / name).mkdir(parents=True)
        for number in range(8):
            (tmp_path / name / f"train{number}.tsv").touch()
    start, data = time.process_time(), parse_data(str(tmp_path))
    assert all(missing_files(TASKS[task].source, ["train"], data) for task in SUITES["squad"].tasks)
    assert time.process_time() - start < 5
