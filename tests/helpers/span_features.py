"""Questions on made-up contexts, and helpers for the features of the span head."""

from types import SimpleNamespace

import numpy as np

from benchharness.heads.span import SpanFeatures
from benchharness.tasks.examples import SpanExample
from benchharness.tasks.task import SpanTask
from tests.helpers.made_tokenizers import CORPUS

TASK: SpanTask = SimpleNamespace(name="squad/v2.0")  # type: ignore[assignment]
CONTEXT = " ".join(CORPUS[:5])
NASTY = [
    "",
    " ",
    "\x00",
    "\x00a\x00",
    "\ud800 half a pair",
    "🐦🐦 👩‍👩‍👧 🐦",
    "\u202eשלום עולם",
    "e\u0301lan ﷽ \u200b\ufeff",
    "tower " * 10_000,
    "x" * 5_000,
]


def question(context: str, answer: str | None = None, text: str = "Who built it?") -> SpanExample:
    answers = () if answer is None else ((answer, context.index(answer)),)
    return SpanExample(id="q", question=text, context=context, answers=answers)


def points(features: SpanFeatures, places: np.ndarray) -> np.ndarray:
    """Return logits that are certain of these first and last tokens of every window."""
    logits = np.zeros((len(features.token_ids), 2), dtype=np.float32)
    for column in (0, 1):
        logits[features.starts[:-1] + places[:, column], column] = 10.0
    return logits


def window_texts(features: SpanFeatures, context: str) -> list[str]:
    """Return the part of the context in each window."""
    found = []
    for start, end in zip(features.starts, features.starts[1:], strict=False):
        inside = np.flatnonzero(features.is_answer[start:end]) + start
        found.append(context[features.char_starts[inside[0]] : features.char_ends[inside[-1]]])
    return found
