"""How much of our code a run of one suite loads: a reader of that road needs no more."""

import json
import subprocess
import sys

from tests.helpers.plans import plan_mini

MOST = 150

PROGRAM = """
import atexit, sys
ours = lambda: sorted(name for name in sys.modules if name.split(".")[0] == "benchharness")
atexit.register(lambda: print("LOADED", *ours(), file=sys.stderr))
"""

DRIVER = """
from benchharness.cli.app import main
sys.argv = ["bench", "run", "--model", "tiny", "--suite", "glue", "--task", "rte", "--data", "mini"]
sys.argv += ["--limit", "8", "--seeds", "1", "--set", "epochs=1", "--jobs", "1"]
main()
"""

WORKER = """
import runpy
sys.argv = ["worker", "result.json"]
runpy.run_module("benchharness.worker", run_name="__main__")
"""


def loaded(program, folder, stdin=""):
    ended = subprocess.run(
        (sys.executable, "-P", "-c", PROGRAM + program),
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in ended.stderr.splitlines() if line.startswith("LOADED"))
    return set(line.split()[1:])


def test_a_run_of_glue_loads_less_than_150_of_our_modules(tmp_path):
    """The driver with its report, and a worker, together."""
    (job,) = plan_mini("rte", limit=8, overrides={"epochs": "1"})
    driver = loaded(DRIVER, tmp_path)
    worker = loaded(WORKER, tmp_path, json.dumps(job.to_json()))
    assert {"benchharness.cli.run", "benchharness.leaderboard.report.write"} <= driver
    assert "benchharness.worker.job" in worker
    assert not driver & {"benchharness.worker.job", "benchharness.training.loop"}
    assert len(driver | worker) < MOST, sorted(driver | worker)
