import io
import time
from contextlib import redirect_stderr
from dataclasses import replace

import pytest
from rich.console import Console

from benchharness.cli import tables
from benchharness.driver import display
from benchharness.driver.display import Display, bars, describe, headline, sparkline
from benchharness.driver.live import LiveJob, RunState
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.job import Setting, Teacher
from benchharness.progress import Progress, duration, ending, job_name, job_names
from benchharness.tasks.task import suffix_of
from tests.helpers.fake_worker import make_failure, make_job, make_result
from tests.helpers.plans import schedule_of

JOBS = [make_job(seed=seed) for seed in range(4)]


def state(count, seconds=10.0):
    """Return the state of a run with a given number of jobs, one at a time."""
    return RunState(
        LiveJob(
            key=job.key,
            name=job_name(job),
            group="",
            task=job.task,
            kind=job.kind,
            seconds=seconds,
        )
        for job in JOBS[:count]
    )


def plain():
    return Console(file=io.StringIO(), width=200, force_terminal=False)


def terminal(**options):
    return Console(file=io.StringIO(), width=200, force_terminal=True, **options)


def training(step=15, steps=30):
    return Progress(
        phase="training", step=step, steps=steps, epoch=1.5, loss=0.5432, examples_per_second=98.7
    )


def test_running_job_is_displayed_with_epoch_step_loss_and_speed():
    assert describe(training()) == ("training, epoch 1.50, step 15/30, loss 0.5432, 99 examples/s")
    assert describe(Progress(phase="loading")) == "loading"


def test_sparkline_has_at_most_eight_characters():
    assert sparkline([0.7]) == ""
    assert sparkline([0.9, 0.5, 0.1]) == "█▅▁"
    assert sparkline([0.5, 0.5]) == "▁▁"
    assert sparkline([*range(1000)]) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7500, "2 h 5 min")],
)
def test_displayed_durations_are_rounded_and_have_units(seconds, text):
    assert duration(seconds) == text


def test_score_of_a_finished_job_is_rounded_as_on_a_leaderboard():
    found = make_result(JOBS[0])
    dev = [replace(each, scores={"accuracy": 0.7875}) for each in found.evaluations]
    assert ending(replace(found, evaluations=tuple(dev))).startswith("accuracy 0.788 ")
    assert shown(0.7875) == "78.8"


def test_score_of_several_splits_is_the_mean_that_the_leaderboard_shows():
    found = make_result(make_job(task="glue/mnli"))
    (first,) = found.evaluations
    dev = replace(first, scores={"accuracy": 0.425}, task="glue/mnli", split="dev")
    mismatched = replace(dev, scores={"accuracy_mm": 0.325}, split="dev_mm")
    both = replace(found, evaluations=(dev, mismatched))
    assert ending(both).startswith("mean accuracy of 2 splits 0.375 in ")
    assert ending(replace(found, evaluations=(dev,))).startswith("accuracy 0.425 in ")
    languages = [
        replace(dev, task="xtreme/xnli", split=split, scores={f"accuracy{suffix_of(split)}": value})
        for split, value in (("dev", 0.9), ("test_de", 0.4), ("test_en", 0.5))
    ]
    job = make_job(task="xtreme/xnli")
    said = ending(replace(make_result(job), evaluations=tuple(languages)))
    assert said.startswith("mean accuracy of 2 splits 0.450 in "), "without English dev"


def test_a_finished_job_is_one_line_with_its_scores_or_error():
    console = plain()
    with Display(state(4), console) as shown:
        shown.finish(make_result(JOBS[0]))
        shown.finish(make_failure(JOBS[1]))
        shown.finish(make_failure(JOBS[2], kind="killed"))
        shown.finish(make_failure(JOBS[3], "ck lacks layers", exit_code=4))
    assert console.file.getvalue().splitlines() == [
        "[1/4] tiny CoLA seed 0: mcc 0.500 in 2 s",
        "[2/4] tiny CoLA seed 1: it went wrong",
        "[3/4] tiny CoLA seed 2: killed: it went wrong",
        "[4/4] tiny CoLA seed 3: the model cannot be used, so its other jobs are skipped",
    ]


def made(name, value, source="--set", seed=1, **changes):
    setting = {name: Setting(value=value, source=source)}
    job = make_job(seed=seed)
    return replace(job, settings=job.settings | setting, **changes)


@pytest.mark.parametrize(
    ("jobs", "names"),
    [
        (
            [made("learning_rate", rate) for rate in (1e-5, 3e-4)],
            ["tiny CoLA seed 1, lr 1e-5", "tiny CoLA seed 1, lr 3e-4"],
        ),
        (
            [
                made("features", layers, "ours", seed)
                for layers in ("embeddings", "last")
                for seed in (1, 2)
            ],
            [
                "tiny CoLA seed 1, features embeddings",
                "tiny CoLA seed 2, features embeddings",
                "tiny CoLA seed 1, features last",
                "tiny CoLA seed 2, features last",
            ],
        ),
        (
            [made("epochs", 3.0, seed=seed) for seed in (1, 2)],
            ["tiny CoLA seed 1", "tiny CoLA seed 2"],
        ),
        (
            [
                made("epochs", 3.0),
                made("epochs", 3.0, teacher=Teacher(run="b" * 64, model="m", variant="", alone="")),
            ],
            ["tiny CoLA seed 1", "tiny CoLA seed 1, student of m"],
        ),
    ],
)
def test_jobs_of_the_same_name_are_distinguished_by_their_settings(jobs, names):
    assert job_names(jobs) == dict(zip([job.key for job in jobs], names, strict=True))


def test_without_a_terminal_progress_is_printed_every_ten_seconds(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    console = plain()
    with Display(state(4), console) as shown:
        for _ in range(25):
            now[0] += 1
            shown.report(JOBS[0], training())
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("0 of 4 jobs done, about 33 s left; tiny CoLA seed 0: training")


def test_run_that_exceeds_its_estimated_time_is_displayed_as_taking_longer():
    running = state(1)
    running.report(JOBS[0].key, Progress(phase="loading"), 1000.0)
    assert headline(running, 1001.0).startswith("0 of 1 job done, about ")
    assert headline(running, 9000.0) == "0 of 1 job done, taking longer than estimated"


def test_progress_line_counts_jobs_stored_before_the_run_separately():
    running = RunState((), 1, 0.0, 2)
    assert headline(running, 0.0) == "0 of 0 jobs done (2 more are stored)"
    plan = schedule_of(*JOBS)
    running = RunState.of(replace(plan, todo=plan.jobs[1:]), 0.0)
    assert f"0 of {len(JOBS) - 1} jobs done (1 more is stored), about" in headline(running, 0.0)


def progress_text(running: RunState, now: float, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(bars(running, now, console))
    return console.file.getvalue()


def test_job_that_exceeds_its_estimated_time_shows_no_time_left():
    running = state(1)
    running.report(JOBS[0].key, Progress(phase="loading"), 1000.0)
    assert "s left: loading" in progress_text(running, 1001.0, 100)
    late = progress_text(running, 9000.0, 100)
    assert "loading" in late
    assert "left" not in late


def test_long_names_of_jobs_that_differ_at_their_ends_are_not_cut():
    name = "encoder-with-a-long-name CoLA seed 1, lr"
    jobs = [
        LiveJob(key=rate, name=f"{name} {rate}", group="", task="", kind="model", seconds=9.0)
        for rate in ("1e-3", "2e-3")
    ]
    running = RunState(jobs, 2, 0.0)
    for job in jobs:
        running.report(job.key, training(), 1.0)
    text = "".join(progress_text(running, 2.0, 80).split())
    assert "1e-3" in text
    assert "2e-3" in text


def test_note_of_a_job_is_printed_at_once_on_its_own_line():
    console = plain()
    with Display(state(4), console) as shown:
        shown.report(JOBS[0], Progress(phase="loading", note="skips a \x1b[31msnapshot"))
    assert console.file.getvalue() == "tiny CoLA seed 0 skips a \\x1b[31msnapshot.\n"


def test_progress_counts_skipped_jobs_as_done_and_names_their_number():
    console = plain()
    with Display(state(4), console) as shown:
        shown.finish(make_result(JOBS[0]))
        shown.leave_out(JOBS[1])
        shown.leave_out(JOBS[2])
        shown.finish(make_result(JOBS[3]))
    lines = [line.partition("]")[0] for line in console.file.getvalue().splitlines()]
    assert lines == ["[1/4", "[4/4, 2 skipped"]


@pytest.mark.parametrize(
    ("jobs", "finished", "again", "said"),
    [
        (2, 0, False, "0 of 2 jobs are stored. Run the same command again to resume."),
        (1, 0, False, "0 of 1 job is stored. Run the same command again to resume."),
        (2, 2, False, "all jobs are stored. Run the same command again to see the results."),
        (1, 1, True, "all results are stored, but a model is missing. Run the same command"),
    ],
)
def test_interrupted_run_states_what_the_same_command_would_do(jobs, finished, again, said, store):
    store.add_results([make_result(job) for job in JOBS[:finished]])
    keys = frozenset(job.key for job in JOBS[:jobs]) if again else frozenset()
    schedule = replace(schedule_of(*JOBS[:jobs]), again=keys)
    printed = io.StringIO()
    with (
        redirect_stderr(printed),
        pytest.raises(KeyboardInterrupt),
        display.displayed(schedule, store),
    ):
        raise KeyboardInterrupt
    assert printed.getvalue().startswith(f"bench: interrupted; {said}")


def test_a_terminal_shows_progress_bars_and_keeps_lines_of_finished_jobs(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    console = terminal()
    with Display(state(2), console) as shown:
        shown.report(JOBS[0], training())
        time.sleep(0.6)
        shown.finish(make_result(JOBS[0]))
    text = console.file.getvalue()
    assert "0 of 2 jobs done" in text
    assert "━" in text
    assert "45%" in text
    assert "step 15/30, loss 0.5432" in text
    assert "[1/2] tiny CoLA seed 0: mcc 0.500 in 2 s" in text


def test_dumb_terminal_gets_plain_progress_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = terminal()
    with Display(state(1), console) as shown:
        shown.report(JOBS[0], training())
        shown.finish(make_result(JOBS[0]))
    assert "\x1b" not in console.file.getvalue()


def test_progress_is_a_bar_in_a_terminal_and_lines_elsewhere(monkeypatch):
    console, now = plain(), [0.0]
    monkeypatch.setattr(tables, "Console", lambda **_: console)
    monkeypatch.setattr(tables.time, "monotonic", lambda: now.__setitem__(0, now[0] + 4) or now[0])
    with tables.counting("rows", 1000) as counted:
        assert list(counted(range(1000))) == [*range(1000)]
    assert console.file.getvalue().splitlines() == [
        "300 of 1,000 rows",
        "600 of 1,000 rows",
        "900 of 1,000 rows",
    ]
    console = terminal()
    with tables.counting("runs", 5) as counted:
        assert list(counted("abcde")) == [*"abcde"]
    assert "runs" in console.file.getvalue()
    assert "5/5" in console.file.getvalue()
