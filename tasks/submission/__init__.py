"""Submissions: the files that the benchmarks' servers take, written, checked and repaired."""

from benchharness.tasks.submission.answer_file import AnswerFile, Fault, Reading
from benchharness.tasks.submission.inspection import check, repair, write_zip
from benchharness.tasks.submission.questions import (
    write_conversations,
    write_no_answer_scores,
    write_predictions,
)
from benchharness.tasks.submission.suites import (
    SUBMISSIONS,
    Submission,
    compose,
    filled,
    needs_examples,
    read_answer_file,
)
from benchharness.tasks.submission.table import write_race

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
    "write_conversations",
    "write_no_answer_scores",
    "write_predictions",
    "write_race",
    "write_zip",
]
