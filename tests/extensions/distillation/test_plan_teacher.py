"""Tests of `--teacher`: order of teacher and student, invalid teachers, names of entries."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.kept_folders import is_whole
from benchharness.leaderboard.job import Job, Setting, Teacher
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.store.store import open_store
from benchharness.models import ModelSpec, find_model
from benchharness.stored import Within, gather_boards
from benchharness.tasks.suites import TASKS, find_task
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.fake_worker import make_failure, make_job, make_result
from tests.helpers.mini_jobs import QUICK
from tests.helpers.plans import TINY, plan_jobs, request_of

LAYERS = {"layers": "1"}


def plan(*names: str, teacher: object = TINY, **options: object) -> list[Job]:
    tasks = [find_task(name) for name in names]
    seeds = options.pop("seeds", (1,))
    options.setdefault("overrides", LAYERS)
    return list(
        plan_jobs([TINY], tasks, "mini", seeds, limit=16, teacher=teacher, **options).jobs  # type: ignore[arg-type]
    )


def plain(*names: str, **options: object) -> list[Job]:
    return plan(*names, teacher=None, **options)


def refusal(*names: str, **options: object) -> str:
    with pytest.raises(BenchError) as caught:
        plan(*names, **options)
    return str(caught.value)


# Plans.


def test_teacher_job_equals_the_same_job_planned_without_a_student() -> None:
    teacher, student = plan("glue/rte", overrides={**LAYERS, "epochs": "9"}, recipe="fast")
    assert [teacher] == plain("glue/rte", overrides={}), "its own paper's recipe, whatever is set"
    assert student.teacher is not None
    assert student.teacher.run == teacher.key
    assert student.teacher.model == "tiny"
    (alone,) = plain("glue/rte", overrides={**LAYERS, "epochs": "9"}, recipe="fast")
    assert student.teacher.alone == alone.key
    assert student.needs == (teacher.key,)
    added = {name: s.value for name, s in student.settings.items() if name not in alone.settings}
    assert added == {"teacher_weight": 0.5, "temperature": 2.0}
    assert all("distillation" in student.settings[name].source for name in added)


def test_every_seed_of_a_student_has_a_teacher_of_the_same_seed() -> None:
    jobs = plan("glue/rte", seeds=(1, 2))
    students = [job for job in jobs if job.teacher]
    assert [job.seed for job in jobs] == [1, 1, 2, 2]
    teachers = {job.key: job.seed for job in jobs if not job.teacher}
    assert [teachers[job.needs[0]] for job in students] == [1, 2]
    assert len({job.teacher.variant for job in students if job.teacher}) == 1
    other = plan("glue/rte", seeds=(2,), teacher=jobs[:1])
    assert other[0] == jobs[0], "one run may teach every seed"
    assert other[1].teacher.variant == jobs[0].key[:12]  # type: ignore[union-attr]
    again = plan("glue/rte", teacher=jobs[:1])[1]
    assert again.key == students[0].key, "by its key or by its model"
    assert f"--teacher {jobs[0].key[:12]}" in command_of(students[0])


def test_student_starts_from_the_student_of_the_task_that_is_trained_first(tmp_path: Path) -> None:
    chain = tmp_path / "chain.toml"
    chain.write_text('[glue.rte]\nstart_from = "glue/mnli"\n')
    jobs = plan("glue/rte", recipe=str(chain))
    mnli_teacher, mnli, rte_teacher, rte = jobs
    assert [job.task for job in jobs] == ["glue/mnli", "glue/mnli", "glue/rte", "glue/rte"]
    assert rte.needs == (mnli.key, rte_teacher.key)
    assert mnli.needs == (mnli_teacher.key,)
    start, alone = plain("glue/rte", recipe=str(chain))
    assert (mnli.teacher.alone, rte.teacher.alone) == (start.key, alone.key)  # type: ignore[union-attr]
    assert plan("mnli", recipe=str(chain))[1] == mnli, "asked for or not"


def test_several_student_settings_are_a_sweep_with_one_teacher() -> None:
    jobs = plan("glue/rte", overrides={**LAYERS, "temperature": "1,2"})
    assert [job.settings["temperature"].value for job in jobs if job.teacher] == [1.0, 2.0]
    assert len(jobs) == 3, "they share their teacher"


def test_distillation_settings_have_no_effect_without_a_teacher() -> None:
    (job,) = plain("glue/rte", overrides={**LAYERS, "temperature": "3", "layer_weight": "1"})
    assert job.key == plain("glue/rte")[0].key
    student = plan("glue/rte", recipe="tinybert-student")[1]
    values = {name: student.settings[name].value for name in ("temperature", "layer_weight")}
    assert values == {"temperature": 1.0, "layer_weight": 1.0}
    assert student.settings["layer_epochs"].value == 10.0


# Systems that cannot be teachers.


def test_options_incompatible_with_a_teacher_are_an_error() -> None:
    assert "--teacher and --shots cannot be combined" in refusal("glue/rte", shots=(8,))
    shared = [find_task("glue/rte"), find_task("glue/cola")]
    assert "--teacher and --multi-task cannot be" in refusal("glue/rte", multi_task=shared)
    assert "has no training rows to train a student on" in refusal(
        next(name for name, task in TASKS.items() if not task.is_trained)
    )
    assert "is a baseline, so it has no network" in refusal(
        "glue/rte", teacher=find_model("majority")
    )
    assert "cannot be distilled" in refusal(
        next(name for name, task in TASKS.items() if task.head == "coref")
    )
    assert "reads the states of a frozen encoder" in refusal(
        "glue/rte", overrides={"features": "last"}
    )
    assert "adds up the states of both orders of a pair" in refusal(
        "glue/mrpc",
        overrides={"orders": "added", "layer_weight": "1"},
        teacher=plain("glue/mrpc", overrides={"orders": "added"}),
    )


def test_student_incompatible_with_its_teacher_is_an_error() -> None:
    assert "but layer_weight is 0" in (refusal("glue/rte", overrides={"layer_epochs": "2"}))
    begins = {**LAYERS, "from_teacher": "true"}
    assert plan("glue/rte", overrides=begins)[1].settings["from_teacher"].value is True
    (other,) = plain("glue/rte", overrides={})
    foreign = replace(other, weights="sha256:0", model="bert")
    assert "tiny is not bert" in refusal("glue/rte", overrides=begins, teacher=(foreign,))
    assert "the teacher tiny has only some of them" in refusal(
        "glue/rte", overrides=begins, teacher=plain("glue/rte")
    )


def test_student_with_both_start_from_and_from_teacher_is_an_error(tmp_path: Path) -> None:
    chain = tmp_path / "chain.toml"
    chain.write_text('[glue.rte]\nstart_from = "glue/mnli"\n')
    line = refusal("glue/rte", recipe=str(chain), overrides={"from_teacher": "true"})
    assert line.startswith("tiny on RTE starts from MNLI (run ")
    assert line.endswith("or remove from_teacher.")


def test_a_teacher_with_other_labels_is_an_error() -> None:
    line = refusal("glue/rte", teacher=plain("glue/mnli", overrides={}))
    assert line.startswith("the teacher has other labels than the student: tiny on MNLI (run ")
    assert line.endswith("RTE needs entailment, not_entailment.")
    assert "needs a number" in refusal("stsb", teacher=plain("glue/rte"))
    assert "answers of a span task" in refusal("glue/rte", teacher=plain("squad/v1.1"))


def test_a_teacher_with_the_same_labels_may_be_of_another_task() -> None:
    teacher = plain("squad/v1.1", overrides={})
    student = plan("squad/v2.0", teacher=teacher)[-1]
    assert student.needs == (teacher[0].key,)


def test_a_teacher_with_another_head_is_an_error() -> None:
    line = refusal("squad/v2.0", overrides={"beam_size": "5"})
    assert line.startswith("tiny has a head with beam_size")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "scored"}, "is a file of predictions"),
        ({"kind": "ensemble"}, "is an ensemble"),
        ({"kind": "baseline"}, "is a baseline"),
        ({"kind": "imported"}, "is an imported score"),
        ({"fingerprints": {"glue/rte:train": "a", "glue/cola:train": "b"}}, "2 tasks together"),
        ({"settings": {"as_text": Setting(value=True, source="x")}}, "generates answers as text"),
    ],
)
def test_run_of_a_baseline_ensemble_or_multi_task_job_cannot_be_a_teacher(
    change: dict[str, object], reason: str
) -> None:
    (job,) = plain("glue/rte")
    assert reason in refusal("glue/rte", teacher=(replace(job, **change),))  # type: ignore[arg-type]


# Values of --teacher.


def asked(word: str, db: Path) -> object:
    return request_of(suite="glue", task="rte", data="mini", teacher=word, db=db).teacher


def test_a_teacher_is_given_by_model_or_by_a_prefix_of_its_key(tmp_path: Path) -> None:
    db = tmp_path / "x.sqlite"
    start, teacher = plan("glue/rte")
    with open_store(db) as store:
        for job in (start, teacher):
            store.add_result(make_result(job))
    assert asked(teacher.key[:12], db) == (start, teacher), "behind what it needs"
    assert asked("tiny", db) == TINY
    checkpoint = save_checkpoint(tmp_path / "abcdef12")
    found = asked(str(checkpoint), db)
    assert isinstance(found, ModelSpec)
    assert found.checkpoint == str(checkpoint)
    with pytest.raises(BenchError, match="no run has a key that begins with '0123456789'"):
        asked("0123456789", db)
    with pytest.raises(BenchError, match="called '0123456789'"):
        asked("0123456789", tmp_path / "none.sqlite")


# Running teachers and students.

RUN = ("run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--db", "board.sqlite")


def student_of(teacher: Job, how: str = "ok") -> Job:
    job = make_job(how, "glue/rte", 1)
    return replace(job, teacher=Teacher(run=teacher.key, model="large", variant="v", alone="a"))


def test_a_teacher_is_run_first_and_its_failure_fails_its_students(bench, fake_jobs) -> None:  # type: ignore[no-untyped-def]
    teacher = replace(make_job("fail-once:tried", "glue/rte"), model="large")
    student = student_of(teacher)
    fake_jobs([student, teacher])
    ended = bench(*RUN, "--jobs", "2")
    assert ended.code == 1
    assert "large on RTE is trained first" in ended.out
    assert f"(run {teacher.key[:12]}), which failed" in ended.err
    ended = bench(*RUN, "--jobs", "2")
    assert ended.code == 0, ended.err
    assert not any(Path("models").iterdir())


def test_teacher_with_a_missing_model_is_trained_again(bench, fake_jobs) -> None:  # type: ignore[no-untyped-def]
    teacher = replace(make_job("ok", "glue/rte"), model="large")
    fake_jobs([teacher])
    assert bench(*RUN).code == 0
    folder = Path("models") / teacher.key
    fake_jobs([teacher, student_of(teacher, "fail-once:tried")])
    ended = bench(*RUN)
    assert "large on RTE is trained again" in ended.out
    assert is_whole(folder, teacher.key), "its student has failed"
    ended = bench(*RUN)
    assert "large on RTE exists already" in ended.out
    assert ended.code == 0, ended.err


def test_printed_plan_names_the_teacher_of_a_student(bench) -> None:  # type: ignore[no-untyped-def]
    words = ("--task", "rte", "--seeds", "1", "--no-baselines", "--set", "layers=1", "--dry-run")
    shown = bench(*RUN, *words, "--teacher", "tiny")
    teacher, student = json.loads(bench(*RUN, *words, "--teacher", "tiny", "--json").out)["jobs"]
    assert student["teacher"] == teacher["key"]
    assert f"student of tiny (run {teacher['key'][:12]})" in shown.out
    failed = bench(*RUN, *words, "--teacher", "0123456789")
    assert failed.code != 0
    assert "0123456789" in failed.err


# Names of leaderboard entries.


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """Store a teacher, its student and the same student without a teacher, with one seed each."""
    db, short = tmp_path / "board.sqlite", QUICK | LAYERS
    teacher = plain("glue/rte", overrides=QUICK)
    _, student = plan("glue/rte", overrides=short, teacher=teacher)
    folder = tmp_path / teacher[0].key
    results = [run_job(teacher[0], keep=folder), run_job(student, teacher=folder)]
    results.append(run_job(*plain("glue/rte", overrides=short)))
    with open_store(db) as store:
        for result in results:
            store.add_result(result)
    return db


def test_student_is_a_separate_leaderboard_entry_that_names_its_teacher(bench, board: Path) -> None:  # type: ignore[no-untyped-def]
    shown = bench("leaderboard", "--db", str(board), "--json")
    entries = {entry["name"]: entry for entry in json.loads(shown.out)[0]["entries"]}
    assert len(entries) == 3
    (name,) = (name for name in entries if name.endswith("layers 1, student of tiny"))
    student, alone = entries[name], entries[name.removesuffix(", student of tiny")]
    assert student["teacher"] == "tiny"
    assert not any("teacher" in entry for entry in entries.values() if entry != student)
    (gain,) = student["gained"].values()
    medians = [entry["tasks"]["glue/rte"]["median"] for entry in (student, alone)]
    assert gain["difference"] == pytest.approx(medians[0] - medians[1])
    assert 0 <= gain["p_value"] <= 1
    key = student["tasks"]["glue/rte"]["keys"][0]
    run = json.loads(bench("show", key, "--db", str(board), "--json").out)
    assert run["teacher"]["model"] == "tiny"
    said = " ".join(bench("leaderboard", "--db", str(board)).out.split())
    assert f"RTE {100 * gain['difference']:+.1f} (p" in said
    assert bench("report", "--db", str(board), "--out", "x.html").code == 0
    assert "over the same model without a teacher" in Path("x.html").read_text()


def test_students_of_one_teacher_on_several_tasks_are_one_leaderboard_entry(tmp_path: Path) -> None:
    scores = {"glue/rte": {"accuracy": 0.5}, "glue/cola": {"mcc": 0.5}}
    with open_store(tmp_path / "x.sqlite") as store:
        for job in plan("glue/rte", "cola", seeds=(1, 2)):
            result = make_result(job)
            told = replace(result.evaluations[0], task=job.task, scores=scores[job.task])
            store.add_result(replace(result, evaluations=(told,)))
        (board,) = gather_boards(store, Within(suites=["glue"]))
    found = {entry.name.partition(", ")[2]: sorted(entry.cells) for entry in board.entries}
    both = ["glue/cola", "glue/rte"]
    assert found == {"": both, "layers 1, student of tiny": both}


def test_stored_failure_of_a_student_names_its_teacher(tmp_path: Path) -> None:
    student = plan("glue/rte")[1]
    with open_store(tmp_path / "x.sqlite") as store:
        store.add_failure(make_failure(student))
        assert store.result(student.key).job == student
        (row,) = store.runs()
        assert row.teacher == student.teacher
