"""Write the submission of XTREME."""

from collections.abc import Mapping
from typing import Any

from benchharness.extensions.submission.answer_file import Form
from benchharness.extensions.submission.questions import write_predictions
from benchharness.tasks.answers import answer_type


def _xtreme(task: Any, predictions: Any, *_: Any) -> Mapping[str, bytes]:
    """Return the file for one language of an XTREME task.

    The file has one label or tag per line, with an empty line after each sentence of tags. If the
    answers are texts, the file is JSON instead.
    """
    kind = answer_type(task)
    if kind.is_words:
        return {"test-{}.json": write_predictions(predictions, None)}
    lines = [str(kind.written(each)).replace(" ", "\n") for each in predictions]
    end = "\n\n" if task.kind == "tag" else "\n"
    return {"test-{}.tsv": "".join(line + end for line in lines).encode()}


SUBMISSION = Form(split="test", write=_xtreme)
"""Form of XTREME's submission, which has a file for each task and language."""
