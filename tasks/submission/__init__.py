"""Submissions: the files that the benchmarks' servers take, written, checked and repaired."""

from tasks.submission.answer_file import AnswerFile, Reading
from tasks.submission.archive import write_zip
from tasks.submission.compose import compose, filled, needs_examples
from tasks.submission.faults import Fault
from tasks.submission.inspection import check, read_answer_file, repair
from tasks.submission.race import write_race
from tasks.submission.squad import write_no_answer_scores, write_predictions
from tasks.submission.submission import SUBMISSIONS, Submission

__all__ = [
    "SUBMISSIONS",
    "AnswerFile",
    "Fault",
    "Reading",
    "Submission",
    "check",
    "compose",
    "filled",
    "needs_examples",
    "read_answer_file",
    "repair",
    "write_no_answer_scores",
    "write_predictions",
    "write_race",
    "write_zip",
]
