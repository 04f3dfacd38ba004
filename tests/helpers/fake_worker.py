"""Jobs and a worker without training: a job's recipe defines how its process behaves.

As a program it handles jobs and results as plain data, because importing the package would take
longer than all of its work.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = (sys.executable, "-P", __file__)
FINISHED = "2026-01-01T00:00:00+00:00"
COST = {
    "seconds": 2.0,
    "train_seconds": 1.0,
    "predict_seconds": 0.5,
    "steps": 3,
    "train_examples_per_second": 9.0,
    "train_tokens": 99,
    "parameters": 1000,
    "peak_memory_bytes": 1,
}


def make_job(recipe="ok", task="glue/cola", seed=1, model="tiny"):
    from benchharness.leaderboard.job import Job, Setting

    return Job(
        model=model,
        checkpoint="builtin:tiny" if model == "tiny" else f"example/{model}",
        weights=f"builtin:{model}",
        task=task,
        task_version=1,
        data="mini",
        fingerprints={f"{task}:train": "a", f"{task}:dev": "b"},
        recipe=recipe,
        settings={
            "epochs": Setting(value=1.0, source="test"),
            "how": Setting(value=recipe, source="test"),
        },
        seed=seed,
        precision="fp32",
    )


def make_result(job, provenance=None):
    from benchharness.leaderboard.result import Cost, Evaluation, Result

    return Result(
        job=job,
        evaluations=(Evaluation.from_json(evaluation(job.task)),),
        curve=(),
        cost=Cost(**COST),
        provenance=provenance or {},
        finished=FINISHED,
    )


def make_failure(job, error="it went wrong", exit_code=1, kind="failed"):
    from benchharness.leaderboard.result import Failure

    return Failure(job=job, **failure(error, exit_code, kind))


def evaluation(task):
    facts = {"task": task, "split": "dev", "fingerprint": "b", "scores": {"mcc": 0.5}}
    return {**facts, "predictions": [], "flags": []}


def failure(error, exit_code=1, kind="failed"):
    facts = {"kind": kind, "error": error, "details": "", "exit_code": exit_code}
    return {**facts, "finished": FINISHED}


def main():
    file = Path(sys.argv[1])
    job = json.load(sys.stdin)
    behaviour, _, argument = job["recipe"].partition(":")
    say({"phase": "training", "step": 1, "steps": 3, "loss": 0.5})
    BEHAVIOURS[behaviour](job, file, argument)


def say(progress):
    sys.stdout.write(json.dumps(progress) + "\n")
    sys.stdout.flush()


def succeed(job, file, argument):
    options = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    if job["start_from"] or "--keep" in options:
        keep_encoder(job, options)
    facts = {"environment": dict(os.environ), "group": os.getpgid(0), "options": sys.argv[2:]}
    outcome = {"evaluations": [evaluation(job["task"])], "curve": [], "cost": COST}
    write(file, {**outcome, "job": job, "provenance": facts, "finished": FINISHED})


def keep_encoder(job, options):
    """Check the encoder that the job starts from, and keep its own with --keep."""
    from benchharness.kept_folders import check_checkpoint, new_checkpoint
    from benchharness.leaderboard.job import Job

    if job["start_from"]:
        check_checkpoint(Path(options["--start-from"]), job["start_from"])
    if "--keep" in options:
        with new_checkpoint(Path(options["--keep"]), Job.from_json(job)) as draft:
            (draft / "model.safetensors").write_text(job["task"])


def dawdle(job, file, seconds):
    time.sleep(float(seconds))
    succeed(job, file, "")


def count(job, file, folder):
    """Append a line to the job's file in a folder, and finish after a second."""
    with (Path(folder) / file.stem).open("a") as lines:
        lines.write(f"{os.getpid()}\n")
    time.sleep(1.0)
    succeed(job, file, "")


def wait_for(job, file, path):
    """End when a file exists, or with the driver."""
    driver = os.getppid()
    while not Path(path).exists() and os.getppid() == driver:
        time.sleep(0.02)
    succeed(job, file, "")


def fail(job, file, exit_code):
    failed = failure(f"{job['model']} is no checkpoint.", int(exit_code or 1))
    write(file, {"job": job, **failed})
    sys.exit(int(exit_code or 1))


def diverge(job, file, argument):
    write(file, {"job": job, **failure("the training diverged.", kind="diverged")})
    sys.exit(1)


def fail_once(job, file, path):
    first = not Path(path).exists()
    Path(path).touch()
    (fail if first else succeed)(job, file, "")


def lose(job, file, argument):
    """Exit with 0 without a readable result; only the first time if a path is given."""
    how, _, path = argument.partition(":")
    if path and Path(path).exists():
        succeed(job, file, "")
        return
    if path:
        Path(path).touch()
    if how == "half":
        file.write_text('{"evaluations": [')
    elif how == "no folder":
        file.parent.rmdir()


def lack_memory_once(job, file, path):
    first = not Path(path).exists()
    Path(path).touch()
    if not first:
        succeed(job, file, "")
        return
    write(file, {"job": job, **failure("memory ran out outside of batches.", kind="memory")})
    sys.exit(1)


def vanish(job, file, argument):
    sys.exit("the last words")


def die(job, file, argument):
    os.kill(os.getpid(), signal.SIGKILL)


def babble(job, file, argument):
    sys.stdout.write("a library's banner\n")
    for number in range(20_000):
        sys.stderr.write(f"noise {number} \x1b[31m\xff\n")
    vanish(job, file, "")


def hang(job, file, pid_file):
    """Start a child process that would outlive the worker, ignore SIGTERM, and print nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen((sys.executable, "-c", "import time; time.sleep(600)"))
    Path(pid_file).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


def hang_once(job, file, pid_file):
    (succeed if Path(pid_file).exists() else hang)(job, file, pid_file)


def save(job, file, argument):
    """Wait; at SIGTERM report the phase "saving", save after a second, and exit."""

    def end(number, frame):
        say({"phase": "saving", "step": 1})
        time.sleep(1.0)
        Path(argument).write_text("saved")
        sys.exit(143)

    signal.signal(signal.SIGTERM, end)
    Path(argument).with_suffix(".ready").touch()
    time.sleep(600)


def save_and_stop(job, file, argument):
    """Report the phase "saving", then stop itself with SIGSTOP."""
    say({"phase": "saving", "step": 1})
    Path(argument).touch()
    os.kill(os.getpid(), signal.SIGSTOP)


def keep(file, outcome):
    write(file, outcome.to_json())


def write(file, outcome):
    part = file.with_suffix(".part")
    part.write_text(json.dumps(outcome))
    part.rename(file)


BEHAVIOURS = {
    "ok": succeed,
    "slow": dawdle,
    "count": count,
    "wait-for": wait_for,
    "fail": fail,
    "diverge": diverge,
    "fail-once": fail_once,
    "memory-once": lack_memory_once,
    "lose": lose,
    "vanish": vanish,
    "die": die,
    "babble": babble,
    "hang": hang,
    "hang-once": hang_once,
    "save": save,
    "save-and-stop": save_and_stop,
}

if __name__ == "__main__":
    main()
