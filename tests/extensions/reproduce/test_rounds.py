"""Tests of `bench reproduce`: selection of runs, resuming, time limit, archives and output."""

import hashlib
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.reproduce.rounds import Wanted, read_share, reproduce
from benchharness.extensions.reproduce.verdicts import Verdicts
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import write_archive
from benchharness.leaderboard.store.store import open_store
from benchharness.models import Trust
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.plans import plan_jobs
from tests.helpers.results import make_result

DB = "board.sqlite"
SHARES = {"glue/rte": 0.8}
SEEDS = range(1, 6)


def results(shares=SHARES, seeds=SEEDS, world=0) -> list[Result]:
    jobs = plan_jobs("tiny", "glue/rte", seeds=seeds).jobs
    return list(LearnedEngine(shares, world).run(jobs, None))


@pytest.fixture
def db(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store(DB) as store:
        store.add_results(results())
    return DB


@pytest.fixture
def engine(monkeypatch):
    """Return a function that replaces the engine of the repetitions by a simulated one."""

    def use(shares=SHARES, **options):
        made = LearnedEngine(shares, **options)
        monkeypatch.setattr("benchharness.extensions.reproduce.replay.LocalEngine", made)
        return made

    return use


def keys():
    with open_store(DB) as store:
        return [row.key for row in store.runs()]


def kinds(report):
    return [each.verdict and each.verdict.kind for each in report.outcomes]


def left_over():
    return [path for path in Path().glob("reproductions/*") if path.is_dir()]


def test_all_runs_are_run_again_without_changing_the_stored_ones(db, engine):
    made = engine()
    with open_store(DB) as store:
        before, attempts = store.newest(), store.attempt_count()
    report = reproduce(Wanted(db=db))
    assert kinds(report) == ["bits"] * 5
    assert [job.key for job in made.started] == keys()
    with open_store(DB) as store:
        assert (store.newest(), store.attempt_count()) == (before, attempts)
        assert list(store.faults()) == []
    assert report.is_over
    assert left_over() == []


def test_other_answers_with_similar_scores_give_the_verdict_within(db, engine):
    engine(world=1)
    report = reproduce(Wanted(db=db, name=keys()[0]))
    assert kinds(report) == ["within"]
    (test,) = report.outcomes[0].verdict.tests
    assert test["seeds"] == 4, "the other seeds of the row"
    assert 0 < test["power"] < 1


def test_score_far_below_all_seeds_gives_the_verdict_different(db, engine):
    engine({"glue/rte": 0.3}, world=1)
    report = reproduce(Wanted(db=db))
    assert kinds(report) == ["different"] * 5


def test_interrupted_command_continues_without_repeating_finished_jobs(db, engine):
    first = engine(stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        reproduce(Wanted(db=db))
    assert len(first.started) == 2
    assert len(left_over()) == 1
    second = engine()
    report = reproduce(Wanted(db=db))
    assert kinds(report) == ["bits"] * 5
    assert len(second.started) == 3
    assert {job.key for job in (*first.started, *second.started)} == {*keys()}
    assert left_over() == []
    third = engine()
    reproduce(Wanted(db=db))
    assert len(third.started) == 5, "a new round runs all jobs"
    with open_store(DB) as store:
        assert len(Verdicts(store).all()) == 10


def test_interrupted_command_does_not_repeat_runs_that_have_a_verdict(db, engine, monkeypatch):
    """Interrupt the command after three verdicts, and run it again."""
    engine()
    add, count = Verdicts.add, []

    def stop(self, verdict):
        if len(count) == 3:
            raise KeyboardInterrupt
        count.append(verdict)
        add(self, verdict)

    monkeypatch.setattr(Verdicts, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        reproduce(Wanted(db=db))
    monkeypatch.setattr(Verdicts, "add", add)
    second = engine()
    report = reproduce(Wanted(db=db))
    assert second.started == [], "the repetitions were stored already"
    assert kinds(report) == ["bits"] * 5
    with open_store(DB) as store:
        assert len(Verdicts(store).all()) == 5


@pytest.mark.soak
def test_same_command_continues_with_the_runs_left_by_the_time_limit(db, engine, monkeypatch):
    """Repeat runs that take an hour each, with a limit of an hour and a half."""
    with open_store("slow.sqlite") as store:
        for each in results():
            store.add_result(replace(each, cost=replace(each.cost, seconds=3600.0)))
    slow, waited = LearnedEngine(SHARES), []
    made = [replace(r, cost=replace(r.cost, seconds=3600.0)) for r in results()]
    by_key = {each.job.key: each for each in made}

    def work(job, share):
        waited.append(3600.0)
        return by_key[job.key]

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(waited))
    monkeypatch.setattr("benchharness.extensions.reproduce.rounds.time", clock)
    monkeypatch.setattr(slow, "_result", work)
    monkeypatch.setattr("benchharness.extensions.reproduce.replay.LocalEngine", slow)
    wanted = Wanted(db="slow.sqlite", minutes=90)
    report = reproduce(wanted)
    assert len(slow.started) == 1
    assert [each.state for each in report.outcomes] == ["judged", *["left"] * 4]
    assert not report.is_over
    report = reproduce(replace(wanted, minutes=None))
    assert kinds(report) == ["bits"] * 5
    assert len(slow.started) == 5


def test_durations_of_repetitions_correct_the_expected_time(db, engine, monkeypatch):
    """Repeat runs that took an hour each on a machine that needs a second each."""
    with open_store("slow.sqlite") as store:
        for each in results():
            store.add_result(replace(each, cost=replace(each.cost, seconds=3600.0)))
    engine()
    report = reproduce(Wanted(db="slow.sqlite", minutes=61))
    assert kinds(report) == ["bits"] * 5


@pytest.mark.soak
def test_sample_depends_on_its_seed_and_is_unchanged_after_an_interruption(db, engine):
    engine()
    drawn = [
        [each.row.key for each in reproduce(Wanted(db=db, sample=0.4, sample_seed=seed)).outcomes]
        for seed in (0, 0, 1, 2)
    ]
    assert [len(each) for each in drawn] == [2, 2, 2, 2]
    assert drawn[0] == drawn[1]
    assert len({tuple(each) for each in drawn}) > 1
    engine(stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        reproduce(Wanted(db=db, sample=0.4))
    with open_store(DB) as store:
        store.add_results(results(seeds=range(6, 20)))
    engine()
    report = reproduce(Wanted(db=db, sample=0.4))
    assert [each.row.key for each in report.outcomes] == drawn[0]


@pytest.mark.parametrize("text", ["5", "0%", "101%", "-3%", "five", ""])
def test_sample_must_be_a_percentage(text):
    with pytest.raises(BenchError, match=r"--sample is .*: expected a share of the runs"):
        read_share(text)
    assert read_share("5%") == 0.05


def test_same_command_in_a_second_process_is_refused(db, engine, monkeypatch):
    """Run the same command again while the first job runs."""
    said = []

    class Busy(LearnedEngine):
        def run(self, jobs, report):
            with pytest.raises(BenchError) as caught:
                reproduce(Wanted(db=db))
            said.append(str(caught.value))
            yield from super().run(jobs, report)

    monkeypatch.setattr("benchharness.extensions.reproduce.replay.LocalEngine", Busy(SHARES))
    assert kinds(reproduce(Wanted(db=db))) == ["bits"] * 5
    assert said == ["another process is running the same `bench reproduce`: wait for its end."]


# The command line.


def test_command_prints_a_verdict_per_run_and_a_summary(bench, db, engine):
    engine()
    ended = bench("reproduce", "--db", DB)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == f"{keys()[0][:12]}  tiny RTE seed 1: the same bits."
    assert "5 of 5 runs: 5 the same bits." in lines
    assert lines[-1].endswith("board.sqlite.reproduced.")


@pytest.mark.parametrize("name", ["KEY", "tiny"])
def test_runs_are_selected_by_key_or_by_leaderboard_entry(bench, db, engine, name):
    made = engine()
    word = keys()[2][:8] if name == "KEY" else name
    ended = bench("reproduce", word, "--db", DB, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert len(made.started) == len(found["outcomes"]) == (1 if name == "KEY" else 5)
    assert {each["verdict"]["kind"] for each in found["outcomes"]} == {"bits"}
    assert found["is_over"] is True


def test_different_run_exits_with_1_and_shows_the_test_with_its_power(bench, db, engine):
    engine({"glue/rte": 0.3}, world=1)
    ended = bench("reproduce", keys()[0][:12], "--db", DB)
    assert ended.code == 1
    said = " ".join(ended.out.split())
    assert "different (" in said
    assert re.search(r"exceeds ±\d+\.\d\d \(from 4 other seeds\)", said), said
    assert "The test finds a difference of 1 point with a probability of" in said


def test_collapsed_run_is_flagged_in_the_output_of_bench_reproduce(bench, tmp_path, engine):
    with open_store(tmp_path / DB) as store:
        store.add_results(results({"glue/rte": 0.0}))
    engine({"glue/rte": 0.9}, world=1)
    for form in ((), ("--json",)):
        ended = bench("reproduce", "--db", DB, *form)
        assert ended.code == 1
        assert "constant predictions" in ended.out


def test_unknown_run_is_reported_in_one_sentence(bench, db):
    ended = bench("reproduce", "abcdef123456", "--db", DB)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    ended = bench("reproduce", "--task", "glue/cola", "--db", DB)
    assert (ended.code, "no finished run matches" in ended.err) == (2, True)


def test_verdicts_are_shown_in_lists_json_leaderboards_and_the_report_page(bench, db, engine):
    for form in (("show", "runs", "--json"), ("show", keys()[0][:12], "--json")):
        assert "reproduced" not in bench(*form, "--db", DB).out
    before = bench("leaderboard", "--db", DB).out
    assert "no run was reproduced yet" in bench("reproduce", "--list", "--db", DB).out
    engine()
    assert bench("reproduce", keys()[0][:12], "--db", DB).code == 0
    assert bench("reproduce", keys()[0][:12], "--db", DB).code == 0
    text = "reproduced 2 times on 1 machine (the same bits)"
    runs = json.loads(bench("show", "runs", "--json", "--db", DB).out)
    assert [each.get("reproduced", {}).get("text") for each in runs] == [text, *[None] * 4]
    shown = json.loads(bench("show", keys()[0][:12], "--json", "--db", DB).out)
    assert shown["reproduced"]["times"] == 2
    assert text in bench("show", keys()[0][:12], "--db", DB).out
    after = bench("leaderboard", "--db", DB).out
    assert after == f"{before}{text}: tiny RTE.\n"
    assert text in bench("reproduce", "--list", "--db", DB).out
    assert len(json.loads(bench("reproduce", "--list", "--json", "--db", DB).out)) == 2
    assert bench("report", "--out", "page.html", "--db", DB).code == 0
    page = Path("page.html").read_text()
    assert ("Reproductions" in page, text in page) == (True, True)


def test_page_without_verdicts_has_no_section(bench, db):
    assert bench("report", "--out", "page.html", "--db", DB).code == 0
    assert "Reproductions" not in Path("page.html").read_text()


def test_verdicts_from_another_machine_are_merged_only_once(bench, db, engine):
    engine()
    assert bench("reproduce", keys()[0][:12], "--db", DB).code == 0
    (mine,) = json.loads(bench("reproduce", "--list", "--json", "--db", DB).out)
    theirs = mine | {"round": "theirs", "machine": {**mine["machine"], "host": "another"}}
    Path("theirs.json").write_text(json.dumps([theirs]))
    for _ in range(2):
        ended = bench("reproduce", "--merge", "theirs.json", "--db", DB)
        assert ended.code == 0, ended.err
        assert "reproduced 2 times on 2 machines (the same bits)" in ended.out


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"kind": "bits"}]', "[" * 5000])
def test_file_without_verdicts_is_refused_in_one_sentence(bench, db, text):
    Path("theirs.json").write_text(text)
    ended = bench("reproduce", "--merge", "theirs.json", "--db", DB)
    assert ended.code == 4
    assert len(ended.err.splitlines()) == 1
    assert not Path("board.sqlite.reproduced").exists()


# Archives.


def archive_of(found, name="theirs.jsonl.gz") -> str:
    with open_store(f"{name}.sqlite") as store, Path(name).open("wb") as file:
        store.add_results(found)
        write_archive(file, store.stored_runs())
    return name


def test_runs_of_an_archive_are_reproduced_and_not_imported(bench, tmp_path, engine):
    engine()
    file = archive_of(results())
    ended = bench("reproduce", file, "--db", DB)
    assert ended.code == 0, ended.err
    assert "5 of 5 runs: 5 the same bits." in ended.out
    with open_store(DB) as store:
        assert store.attempt_count() == 0
        assert len(Verdicts(store).all()) == 5
        store.add_results(results())
    assert "reproduced once" in bench("leaderboard", "--db", DB).out, "if they are imported later"


def test_hostile_jobs_of_an_archive_are_refused_before_anything_runs(bench, tmp_path, engine):
    """Refuse jobs that need code, a plugin, or local files."""
    made = engine()
    (plain, *others) = results()
    (tmp_path / "secret").mkdir()
    changes = [
        {"trust": Trust(remote_code=True)},
        {"plugins": {"evil.py": "0" * 64}},
        {"data": str(tmp_path / "secret")},
        {"checkpoint": str(tmp_path), "weights": f"sha256:{'0' * 64}"},
    ]
    hostile = [
        replace(each, job=replace(each.job, **change))
        for each, change in zip(others, changes, strict=True)
    ]
    file = archive_of([plain, *hostile])
    ended = bench("reproduce", file, "--db", DB, "--json")
    assert ended.code == 4, ended.err
    found = json.loads(ended.out)["outcomes"]
    assert [each["differs"] for each in found] == ["", "permission", "plugin", "data", "weights"]
    assert [job.key for job in made.started] == [plain.job.key]
    assert "--trust-remote-code" in found[1]["reason"]
    assert "--plugin" in found[2]["reason"]
    assert "--data" in found[3]["reason"]


@pytest.mark.parametrize("damage", ["cut", "edited", "missing", "text"])
def test_damaged_archive_is_reported_in_one_sentence_and_stores_nothing(bench, tmp_path, damage):
    file = Path(archive_of(results(seeds=(1,))))
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes({"cut": content[:-20], "edited": content[:40] + b"x" + content[41:],
                          "text": b"hello"}[damage])  # fmt: skip
    ended = bench("reproduce", file, "--db", DB)
    assert ended.code == 4, ended
    assert len(ended.err.splitlines()) == 1
    assert "Traceback" not in ended.err
    with open_store(DB) as store:
        assert Verdicts(store).all() == []


def test_imported_score_is_reported_as_not_run_again(bench, db, engine):
    engine()
    with open_store(DB) as store:
        result = make_result()
        store.add_result(replace(result, job=replace(result.job, kind="imported")))
    ended = bench("reproduce", "--db", DB)
    assert ended.code == 4
    assert "not run again (kind): it is an imported score" in ended.out
    digest = hashlib.sha256(Path(DB).read_bytes()).hexdigest()
    assert bench("reproduce", "--list", "--db", DB).code == 0
    assert hashlib.sha256(Path(DB).read_bytes()).hexdigest() == digest
