"""`bench check --write` and `bench check`, with an engine that trains nothing."""

import json
import os
import re
import shlex
import shutil
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from filelock import Timeout

from benchharness.errors import ModelError
from benchharness.extensions.custom_data.find import find_own
from tests.helpers import own_files
from tests.helpers.doc_blocks import DOCS, block
from tests.helpers.learned_engine import CONSTANT, LearnedEngine

TWO = ("--suite", "glue", "--task", "rte", "--task", "sst2")
RUN = ("run", "--model", "tiny", *TWO, "--data", "mini", "--precision", "fp32", "--no-baselines")
CHECK = ("check", "--model", "tiny", *TWO)
GOOD = {"glue/rte": 0.8, "glue/sst2": 0.9}


@pytest.fixture(autouse=True)
def outside_github(monkeypatch):
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def learn(monkeypatch):
    """Return a function that sets the accuracies of all later runs."""

    def put(world=0, stop_after=None, **shares):
        named = {f"glue/{task}": share for task, share in shares.items()}
        engine = LearnedEngine({**GOOD, **named}, world, stop_after)
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
        return engine.started

    return put


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder that the first test fills with runs and their baseline."""
    return tmp_path_factory.mktemp("made") / "results"


@pytest.fixture
def checked(bench, learn, made):
    """Return a function that runs `bench check` with a baseline of five seeds at --limit 100."""
    learn()
    if not made.exists():
        assert bench(*RUN, "--limit", "100").code == 0
        assert bench("check", "--write", "--model", "tiny", "--suite", "glue").code == 0
        shutil.copytree("results", made)
    shutil.copytree(made, "results", dirs_exist_ok=True)

    def call(*words):
        return bench(*CHECK, *words)

    return call


@pytest.mark.slow
@pytest.mark.soak
def test_documented_check_commands_exit_with_0(bench):
    """Runs are really trained, and none collapses, which `bench check --write` would refuse."""
    lines = block("regression.md", "bench check --write", "git add").splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("bench ")]
    assert [command[0] for command in commands] == ["run", "check", "check"]
    for command in commands:
        ended = bench(*command)
        assert ended.code == 0, ended.err
    readme = re.search(r"bench (check .*?) +#", (DOCS.parent / "README.md").read_text())
    ended = bench(*shlex.split(readme[1]))
    assert ended.code == 0, ended.err


def baseline():
    return json.loads(Path("results/baseline.json").read_text())


def test_baseline_file_has_scores_outcomes_and_conditions(checked):
    found = baseline()
    assert (found["model"], found["data"], found["limit"]) == ("tiny", "mini", 100)
    assert found["environment"]["versions"] == {"torch": "none"}
    rte = found["tasks"]["glue/rte"]
    assert rte["seeds"] == [1, 2, 3, 4, 5]
    for score, right in zip(rte["scores"], rte["right"]["glue/rte:dev"], strict=True):
        assert score == pytest.approx(right.count("1") / len(right))
    assert rte["conditions"]["precision"] == "fp32"
    assert found["summary"]["glue/rte"]["spread"] > 0


def test_check_passes_for_runs_similar_to_the_baseline(checked, learn):
    learn(world=1)
    ended = checked()
    assert ended.code == 0, ended.err
    assert "None of 2 tasks is significantly worse" in ended.out
    assert "tolerated" in ended.out


def test_check_exits_with_3_at_a_score_drop_and_lists_newly_wrong_examples(checked, learn):
    learn(world=2, rte=0.4)
    ended = checked("--limit", "100")
    assert ended.code == 3
    assert "worse than the baseline: RTE" in ended.out
    assert "became wrong" in ended.out
    assert "SST-2" not in ended.out.rpartition("RTE: ")[2]


def test_check_retrains_jobs_that_are_already_stored(checked, learn):
    """The database of the baseline has runs with the same keys, which the check must not use."""
    learn(rte=0.2)
    assert checked().code == 3
    learn()
    assert checked().code == 0


def test_check_writes_json_junit_markdown_and_annotations(checked, learn, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    learn(world=2, rte=0.4)
    ended = checked("--json", "--junit", "out/check.xml", "--markdown", "check.md")
    facts = json.loads(ended.out)
    assert facts["exit_code"] == ended.code == 3
    assert facts["tasks"]["glue/rte"]["is_worse"]
    assert facts["tasks"]["glue/rte"]["detectable_drop"] > 0
    assert ET.parse("out/check.xml").getroot().attrib["failures"] == "1"
    assert Path("summary.md").read_text() == Path("check.md").read_text()
    assert "::error title=RTE is worse::" in ended.err


def test_check_reports_a_task_without_a_baseline_and_compares_the_others(checked, bench, learn):
    learn(cola=0.9)
    ended = checked("--task", "cola")
    assert ended.code == 4
    assert "CoLA: the baseline does not contain this task" in ended.err
    assert "None of 2 tasks is significantly worse" in ended.out


def test_finished_check_deletes_its_record_of_custom_metric_code(checked, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr("benchharness.leaderboard.store.store.named_code", lambda: {"key"})
    assert checked().code == 0
    assert list((tmp_path / "data" / "benchharness" / "named-code").iterdir()) == []


def test_check_command_accepts_a_custom_data_file(bench, learn, monkeypatch, tmp_path):
    """The check detects the task of the file, which the baseline names."""
    path = str(own_files.GOOD["comma"].write(tmp_path))
    task = find_own(path).task.name
    for share, code in ((0.8, 0), (0.3, 3)):
        engine = LearnedEngine({task: share}, world=code)
        monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
        if not code:
            words = ("--data-file", path, "--precision", "fp32", "--no-baselines")
            assert bench("run", "--model", "tiny", *words).code == 0
            assert bench("check", "--write", "--model", "tiny", "--suite", "reviews").code == 0
        ended = bench("check", "--model", "tiny", "--data-file", path)
        assert ended.code == code, ended.err
    assert "worse than the baseline: reviews (of 1 task)" in ended.out
    other = ("check", "--model", "tiny", "--data-file", path, "--metric", "accuracy")
    ended = bench(*other)
    assert ended.code == 4
    assert "the baseline does not contain this task" in ended.err
    ended = bench("check", "--model", "tiny", "--data-file", path, "--suite", "glue")
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be combined with --suite" in ended.err


def test_check_does_not_compare_runs_with_another_recipe(checked, learn):
    learn(rte=0.1)
    ended = checked("--set", "epochs=1")
    assert ended.code == 4
    assert "RTE: the recipe has changed (epochs is 1" in ended.err
    assert "No task could be compared" in ended.out


def test_check_does_not_compare_scores_on_changed_rows(checked, learn):
    file = Path("results/baseline.json")
    digest = baseline()["tasks"]["glue/rte"]["conditions"]["fingerprints"]["glue/rte:dev"]
    file.write_text(file.read_text().replace(digest, "0" * 64))
    ended = checked()
    assert ended.code == 4
    assert "rows of glue/rte:dev have changed" in ended.err


def rewrite(**fields):
    Path("results/baseline.json").write_text(json.dumps({**baseline(), **fields}))


def test_check_compares_another_checkpoint_and_prints_a_note(checked):
    tasks = baseline()["tasks"]
    for sample in tasks.values():
        sample["conditions"]["weights"] = "sha256:another"
    rewrite(tasks=tasks, model="before")
    ended = checked()
    assert ended.code == 0
    assert "The checkpoint differs from the baseline's" in ended.err


def test_check_of_a_baseline_on_official_files_requires_the_data_option(checked):
    rewrite(data="files")
    ended = checked()
    assert ended.code == 2
    assert "pass the same --data" in ended.err
    assert checked("--data", "mini").code == 0


def test_check_with_a_failed_job_exits_with_1_unless_a_task_is_worse(checked, learn):
    learn(rte=None)
    ended = checked()
    assert ended.code == 1
    assert "RTE: seed 1 failed: the loss became nan." in ended.err
    learn(rte=None, sst2=0.5)
    assert checked().code == 3


def test_baseline_with_one_seed_is_an_error_unless_weak_baselines_are_allowed(bench, learn):
    learn()
    bench(*RUN, "--seeds", "1")
    make = ("check", "--write", "--model", "tiny", "--suite", "glue")
    ended = bench(*make)
    assert (ended.code, ended.out) == (2, "")
    assert "some runs are unfit for it" in ended.err
    assert not Path("results/baseline.json").exists()
    ended = bench(*make, "--allow-weak")
    assert "SST-2 is marked as weak: it has one seed" in ended.out
    ended = bench(*CHECK)
    assert ended.code == 4
    assert "the baseline cannot detect a drop" in ended.err

    bench(*RUN, "--seeds", "2")
    assert "weak: it has 2 seeds. Checks can only detect drops of " in bench(*make).out
    assert "RTE is weak: it has 2 seeds." in bench(*CHECK).err


@pytest.mark.parametrize(
    ("seeds", "said"), [(2, "cannot detect any drop"), (3, "can only detect drops of .* or more")]
)
def test_writing_a_baseline_of_eight_tasks_reports_which_drops_are_detectable(
    bench, learn, seeds, said
):
    tasks = ("cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli")
    learn(**dict.fromkeys(tasks, 0.7))
    named = [word for task in tasks for word in ("--task", f"glue/{task}")]
    words = ("--data", "mini", "--limit", "100", "--precision", "fp32", "--no-baselines")
    bench("run", "--model", "tiny", *named, *words, "--seeds", seeds)
    ended = bench("check", "--write", "--model", "tiny", "--suite", "glue")
    assert re.search(rf"Checks {said}, but could .* with 5 seeds", ended.out), ended.out
    rows = json.loads(bench("check", "--write", "--model", "tiny", "--suite", "glue", "--json").out)
    assert "none" in {row["would see"] for row in rows["tasks"]} or seeds > 2


def test_baseline_of_collapsed_runs_is_an_error_unless_weak_baselines_are_allowed(bench, learn):
    learn(rte=CONSTANT)
    bench(*RUN)
    make = ("check", "--write", "--model", "tiny", "--suite", "glue")
    ended = bench(*make)
    assert ended.code == 2
    collapsed = "5 of 5 seeds collapsed (seed 1, 2, 3, 4, 5)"
    assert f"(RTE: {collapsed}). Run more seeds" in ended.err
    assert "SST-2" not in ended.err
    assert bench(*make, "--task", "sst2").code == 0
    assert bench(*make, "--allow-weak").code == 0
    assert baseline()["tasks"]["glue/rte"]["collapsed"] == [1, 2, 3, 4, 5]
    ended = bench(*CHECK)
    assert ended.code == 0, "all runs are compared where fewer than two of the baseline's learned"
    assert f"RTE is weak: {collapsed}." in ended.err
    assert "SST-2 is weak" not in ended.err


def collapsing(*seeds, share):
    """Return outcomes in which these seeds collapse and others have accuracy `share`."""
    return lambda seed: CONSTANT if seed in seeds else share


def test_collapsed_seed_is_replaced_by_another_and_reported(checked, learn, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    started = learn(world=1, rte=collapsing(2, share=0.8))
    ended = checked("--json", "--junit", "check.xml")
    assert ended.code == 0, ended.err
    assert [job.seed for job in started if job.task == "glue/rte"] == [1, 2, 3, 4]
    facts = json.loads(ended.out)
    assert facts["tasks"]["glue/rte"]["now"]["scores"].keys() == {"1", "3", "4"}
    found = facts["collapses"]
    assert (found["seeds"], found["again"]) == ({"glue/rte": [2]}, {"glue/rte": [4]})
    assert (found["runs"], found["runs_before"], found["is_more"]) == (7, 10, False)
    said = "RTE: seed 2 collapsed; seed 4 ran instead."
    assert said in facts["notes"]
    assert said in Path("summary.md").read_text()
    suite = ET.parse("check.xml").getroot()[0]
    assert said in suite.find("testcase[@name='collapsed runs']/system-out").text
    assert suite.attrib["failures"] == "0"


@pytest.mark.parametrize("share", [0.8, 0.4])
def test_check_fails_if_more_runs_collapse_even_without_a_score_drop(
    checked, learn, monkeypatch, share
):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    learn(world=2, rte=collapsing(1, 2, 4, share=share))
    ended = checked("--junit", "check.xml")
    assert ended.code == 3
    assert "3 of 8 new runs, and 0 of the baseline's 10" in ended.out
    assert "and seed 4 collapsed too" in ended.err
    assert ("Scores are significantly worse" in ended.out) == (share < 0.5)
    assert "::error title=More runs collapse::3 of 8" in ended.err
    failures = ET.parse("check.xml").getroot().attrib["failures"]
    assert failures == str(1 + (share < 0.5))


def test_other_tasks_are_compared_if_all_runs_of_one_task_collapsed(checked, learn):
    learn(world=2, rte=CONSTANT)
    ended = checked()
    assert ended.code == 3
    assert "RTE: all of its new runs collapsed" in ended.err
    assert "6 of 9 new runs" in ended.out
    assert "SST-2 is not significantly worse than the baseline" in ended.out


def test_check_interrupted_at_a_replacement_seed_resumes(checked, learn, monkeypatch):
    monkeypatch.setenv("BENCH_CACHE", str(Path("cache").absolute()))
    rte = collapsing(1, 2, share=0.8)
    learn(world=1, rte=rte, stop_after=7)
    assert checked().code == 130
    started = learn(world=1, rte=rte)
    ended = checked()
    assert (ended.code, [job.seed for job in started]) == (0, [5]), ended.err


def test_comparison_excludes_collapsed_runs_of_the_baseline(bench, learn):
    learn(rte=collapsing(1, share=0.8))
    bench(*RUN)
    assert bench("check", "--write", "--model", "tiny", "--suite", "glue", "--allow-weak").code == 0
    learn(world=2, rte=0.4)
    ended = bench(*CHECK, "--json")
    rte = json.loads(ended.out)["tasks"]["glue/rte"]
    assert (ended.code, rte["is_worse"], len(rte["baseline"]["scores"])) == (3, True, 4)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--limit", "50"), 2, "was made with --limit 100, but this check uses --limit 50"),
        (("--alpha", "5"), 2, "--alpha must be between 0 and 1, but got 5.0"),
        (("--set", "epochs=1,2"), 2, "a check runs one model with one recipe"),
        (("--baseline", "none.json"), 4, "cannot read the baseline none.json"),
    ],
)
def test_invalid_check_option_is_an_error(checked, words, code, sentence):
    ended = checked(*words)
    assert ended.code == code
    assert sentence in ended.err
    assert ended.out == ""


def test_baseline_requires_runs_with_the_same_row_limit(checked, bench):
    bench(*RUN, "--limit", "50", "--seeds", "2")
    ended = bench("check", "--write", "--model", "tiny", "--suite", "glue")
    assert ended.code == 2
    assert "Choose one with --limit or --data" in ended.err
    make = ("check", "--write", "--model", "tiny", "--suite", "glue", "--limit")
    assert bench(*make, "50").code == 0
    assert baseline()["limit"] == 50
    ended = bench(*make, "7")
    assert ended.code == 2
    assert "Run all tasks with --limit 7" in ended.err


def test_missing_checkpoint_is_an_error_before_any_job_starts(checked, bench, learn, monkeypatch):
    def refuse(checkpoint, revision, trust, **_):
        raise ModelError(f"{checkpoint} is not there at {revision}.")

    learn()
    monkeypatch.setattr("benchharness.driver.drive.require_checkpoint", refuse)
    monkeypatch.setattr("benchharness.driver.drive.hub_revision", lambda weights: "abc")
    ended = checked()
    assert ended.code == 4
    assert ended.err == "bench: builtin:tiny is not there at abc.\n"


def test_interrupted_check_resumes_and_leaves_no_files(checked, learn, monkeypatch, tmp_path):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    started = learn(stop_after=2)
    ended = checked()
    assert ended.code == 130
    assert ended.err.endswith("Run the same command again to resume.\n")
    assert len(started) == 2
    assert list((tmp_path / "cache" / "checks").glob("*/check.sqlite"))

    started = learn()
    ended = checked()
    assert ended.code == 0, ended.err
    assert len(started) == 6 - 2
    assert not list((tmp_path / "cache" / "checks").glob("*/check.sqlite"))

    started = learn()
    assert checked().code == 0
    assert len(started) == 6, "a check that has ended is no reason to run less"


@pytest.mark.parametrize("hindrance", ["a file in the way", "the same check running"])
def test_check_runs_in_a_temporary_folder_if_the_cache_is_unusable(
    checked, monkeypatch, tmp_path, hindrance
):
    cache = tmp_path / "cache"
    monkeypatch.setenv("BENCH_CACHE", str(cache))
    if hindrance == "a file in the way":
        cache.write_text("no folder")
    else:
        monkeypatch.setattr("benchharness.extensions.gate.gate.FileLock", TakenLock)
    ended = checked()
    assert ended.code == 0, ended.err
    assert not list(tmp_path.glob("cache/checks/*/check.sqlite"))


class TakenLock:
    def __init__(self, path):
        self._path = path

    def acquire(self, timeout):
        raise Timeout(str(self._path))


def test_check_deletes_only_cache_folders_of_checks_older_than_a_week(
    checked, monkeypatch, tmp_path
):
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    days = {"0" * 32: 8, "1" * 32: 6, "mine": 8}
    for name, age in days.items():
        folder = tmp_path / "checks" / name
        folder.mkdir(parents=True)
        then = time.time() - age * 86400
        os.utime(folder, (then, then))
    assert checked().code == 0
    there = {name for name in days if (tmp_path / "checks" / name).exists()}
    assert there == {"1" * 32, "mine"}


def test_guards_of_a_baseline_are_checked_without_an_option(checked, bench, learn):
    guards = ("--guard", "worst-group=length", "--guard", "recall=entailment>=0.6")
    make = ("check", "--write", "--model", "tiny", "--suite", "glue", "--task", "rte", *guards)
    ended = bench(*make)
    assert ended.code == 0, ended.err
    stored = json.loads(Path("results/baseline.json").read_text(encoding="utf-8"))
    assert list(stored["tasks"]["glue/rte"]["guards"]) == list(guards[1::2])
    learn(world=1)
    same = bench("check", "--model", "tiny", "--task", "rte", "--limit", "100")
    assert same.code == 0, same.err
    assert "worst-group=length of RTE" in same.out
    learn(world=2, rte=0.4)
    ended = bench("check", "--model", "tiny", "--task", "rte", "--limit", "100", "--json")
    found = {each["guard"]: each for each in json.loads(ended.out)["guards"]}
    assert (ended.code, len(found)) == (3, 2)
    assert all(each["is_worse"] for each in found.values())
    assert found["recall=entailment>=0.6"]["p_value"] is None
