"""Plan and run `bench paper`: a model and its competitors on the suites of an encoder paper."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from benchharness.driver.options import OF_OWN, OF_WHICH, RunOptions, names_in
from benchharness.driver.plan import Plan
from benchharness.driver.session import Session
from benchharness.errors import BenchError
from benchharness.extensions.paper.folder import check_paper, make_paper
from benchharness.leaderboard.result import Failure
from benchharness.models import BASELINES

OF_PAPER = OF_WHICH - {*OF_OWN, "text_to_text", "start_from", "keep_models"} | {
    *("model", "seed", "skip_missing", "dry_run"),
}
"""Options of `bench run` that `bench paper` has too."""


def paper_options(options: RunOptions, against: Sequence[str], folder: Path) -> RunOptions:
    """Return the options with which all runs of a paper are planned.

    If the user names neither suites nor tasks, the suites of the collection `paper` are used, and
    tasks whose files are missing are skipped. A suite or task that the user names must be complete.

    Args:
        options: Options of the user; `model` contains the paper's own encoders.
        against: Names of the encoders and baselines with which they are compared.
        folder: Folder to write.

    Raises:
        BenchError: `options` names no encoder or names a baseline, `against` is empty or names an
            encoder that is also in `options`, or the folder cannot be written.
    """
    check_paper(folder)
    names = names_in(against)
    floors = {spec.name for spec in BASELINES}
    encoders = [name for name in names if name not in floors]
    if not names or not options.model or floors.intersection(options.model):
        raise BenchError(
            "pass your encoder and the systems to compare it with, such as --model mine=DIR "
            "--against modernbert."
        )
    if same := sorted({*options.model}.intersection(names)):
        raise BenchError(f"{same[0]} cannot be compared with itself: remove it from --against.")
    return replace(
        options,
        model=(*options.model, *encoders),
        suite=options.suite or (() if options.task else ("paper",)),
        skip_missing=options.skip_missing or not (options.suite or options.task),
        baselines=len(encoders) < len(names),
    )


@dataclass(frozen=True, kw_only=True)
class PaperRun:
    """Planned runs of a paper.

    Attributes:
        session: Session in which the runs were planned.
        whole: Plan with all seeds.
        part: Plan with only as many seeds as are expected to fit into the time limit.
        hours: Time limit in hours; infinity if there is none.
    """

    session: Session
    whole: Plan
    part: Plan
    hours: float

    @classmethod
    def of(cls, session: Session, against: Sequence[str], hours: float | None) -> Self:
        """Plan the runs of a paper.

        Args:
            session: Session with the options of `paper_options`.
            against: Names of the encoders and baselines with which the paper's encoders are
                compared. Other baselines are not run.
            hours: Time limit in hours; None for no limit.

        Raises:
            BenchError: The time limit is not positive, or not even one seed of each job is expected
                to fit into it.
        """
        if hours is not None and not 0 < hours < math.inf:
            raise BenchError(f"--hours must be a number above 0, but got {hours:g}.")
        whole, names = session.plan(), names_in(against)
        jobs = [job for job in whole.jobs if job.kind != "baseline" or job.model in names]
        whole = whole.part(job.key for job in jobs)
        limit, part = math.inf if hours is None else hours, whole
        for count in range(len(session.request.seeds), 0, -1):
            left = {*session.request.seeds[count:]}
            part = whole.part(job.key for job in whole.jobs if job.seed not in left)
            needed = session.preview(part).seconds / 3600
            if needed <= limit:
                return cls(session=session, whole=whole, part=part, hours=limit)
        raise BenchError(
            f"one seed of all jobs takes about {needed:.3g} hours here, which is more than --hours "
            f"{limit:g}: increase --hours, or choose fewer models or suites."
        )

    def run(self, folder: Path) -> tuple[list[Failure], list[str]]:
        """Run the jobs of `part` that have not finished yet, and write the files of the paper.

        Returns:
            The failed jobs, and notes for the user.

        Raises:
            BenchError: No job of the paper has finished, or the folder cannot be written.
        """
        until = time.monotonic() + 3600 * self.hours
        left_out = self.whole.left_out
        asked = (task for task in self.session.request.tasks if task.name not in left_out)
        suites = list(dict.fromkeys(task.suite for task in asked))
        with self.session.drive(self.session.schedule(self.part), until) as driven:
            failures = [each for each in driven.outcomes if isinstance(each, Failure)]
            return failures, make_paper(driven.store, self.whole.jobs, suites, left_out, folder)
