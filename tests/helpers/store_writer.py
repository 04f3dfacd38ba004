"""Process that stores results: `python -m tests.helpers.store_writer DB NAME COUNT SIZE`.

It waits for the file named by WRITER_GO, opens the store again for each result, as separate
commands do, and prints each job key once the result is stored. All writers share the job of seed 0.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import open_store
from tests.helpers import ROOT
from tests.helpers.results import make_job, make_result


def start(database: object, name: str, count: int, size: int, go: Path) -> subprocess.Popen[str]:
    """Start a writer in a separate process, which begins when the file `go` exists."""
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(database), name, str(count), str(size)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "WRITER_GO": str(go)},
    )


def main(database: str, name: str, count: str, size: str) -> None:
    results = [_result(name, seed, int(size)) for seed in range(int(count))]
    while not Path(os.environ["WRITER_GO"]).exists():
        time.sleep(0.002)
    for result in results:
        with open_store(database) as store:
            store.add_result(result)
        sys.stdout.write(result.job.key + "\n")
        sys.stdout.flush()


def _result(name: str, seed: int, size: int) -> Result:
    """Return an incompressible result with `size` kilobytes of hexadecimal noise."""
    job = make_job(model="shared" if seed == 0 else name, seed=seed)
    noise = random.Random(seed).randbytes(size * 512).hex()
    return make_result(job, provenance={"noise": noise})


if __name__ == "__main__":
    main(*sys.argv[1:])
