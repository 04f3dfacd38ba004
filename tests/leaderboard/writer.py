"""A process that stores results: `python -m tests.leaderboard.writer DB NAME COUNT SIZE`.

It waits for the file DB.go, or the one that WRITER_GO names, opens the store anew for each result,
as so many commands would, and prints each job key once the result is stored. The job of seed 0 is
the same for every NAME.
"""

import os
import random
import sys
import time
from pathlib import Path

from leaderboard.result import Result
from leaderboard.store import open_store
from tests.leaderboard.results import make_job, make_result


def main(database: str, name: str, count: str, size: str) -> None:
    results = [_result(name, seed, int(size)) for seed in range(int(count))]
    go = Path(os.environ.get("WRITER_GO", f"{database}.go"))
    while not go.exists():
        time.sleep(0.002)
    for result in results:
        with open_store(database) as store:
            store.add_result(result)
        sys.stdout.write(result.job.key + "\n")
        sys.stdout.flush()


def _result(name: str, seed: int, size: int) -> Result:
    """A result that does not compress: `size` kilobytes of hexadecimal noise to write."""
    job = make_job(model="shared" if seed == 0 else name, seed=seed)
    noise = random.Random(seed).randbytes(size * 512).hex()
    return make_result(job, provenance={"noise": noise})


if __name__ == "__main__":
    main(*sys.argv[1:])
