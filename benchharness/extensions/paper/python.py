"""Python function `bh.paper`, which writes the tables of an encoder paper."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchharness.api import Results, Words, load_files, results_of, run_options, watching
from benchharness.driver.options import in_python, listed, takes_options
from benchharness.driver.session import Session
from benchharness.extensions.paper.paper_run import OF_PAPER, PaperRun, paper_options


@takes_options(OF_PAPER)
def paper(
    model: Words,
    *,
    against: Words,
    to: str | Path = "paper",
    hours: float | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
    **options: Any,
) -> Results:
    """Run the experiments of an encoder paper and write its tables, as `bench paper` does.

    An encoder and its competitors are run on the suites of a paper. Missing results are reported as
    warnings.

    Args:
        model: The encoder of the paper, or several encoders.
        against: The encoders and baselines with which `model` is compared.
        to: The folder to write.
        hours: The time limit in hours. As many seeds as are expected to fit into it are run; None
            for no limit.
        plugins: Plugin files, as in `run`.
        **options: The options of `bench paper`, listed below, with Python values as in `run`.

    Returns:
        The keys of all jobs of the paper, the errors of failed jobs, and access to the stored
        results. With `dry_run=True`, nothing is run or written, and the jobs are only those that
        are expected to fit into the time limit.

    Raises:
        BenchError: The request is impossible, or no job has finished.
    """
    load_files(plugins)
    others = listed(against)
    asked = paper_options(run_options({"model": model, **options}), others, Path(to))
    session = Session.of(asked, watching(None))
    with session.prepared():
        found = PaperRun.of(session, others, hours)
        failed, notes = ([], found.whole.notes) if asked.dry_run else found.run(Path(to))
    for note in notes:
        warnings.warn(in_python(note), stacklevel=4)
    return results_of(session, found.part if asked.dry_run else found.whole, failed)
