"""Functions that the core calls to score tasks without training; see `ZeroShotScoring`."""

from benchharness.extensions.cloze.prompts import prompt_recipe as recipe
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.progress import Reporter

__all__ = ["recipe", "run"]


def run(job: Job, report: Reporter) -> Result:
    """Run a zero-shot job with a language model, and return its result.

    torch is imported in this function, so that a job can be planned without it.
    """
    from benchharness.extensions.cloze.worker import run_language_model  # noqa: PLC0415

    return run_language_model(job, report)
