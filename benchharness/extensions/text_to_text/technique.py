"""Text-to-text technique: an encoder with its decoder generates the answers of a task as text."""

from benchharness.encoder import Encoder
from benchharness.extensions.text_to_text.casts import rows_to_learn
from benchharness.extensions.text_to_text.head import text_head
from benchharness.heads import Head
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task
from benchharness.worker.technique import Technique


class TextToText(Technique):
    """Technique that replaces the heads of all tasks with text-to-text heads.

    An answer has at most `max_target_tokens` tokens. Without this setting, an answer has at most as
    many tokens as the encoder can read.
    """

    whole_vocabulary = True  # any token may be predicted

    @property
    def _room(self) -> int | None:
        room: int | None = self.work.recipe.added["text_to_text"].max_target_tokens
        return room

    def head(self, task: Task, encoder: Encoder) -> Head:
        """Return the text-to-text head of a task."""
        return text_head(task, encoder.tokenizer, self._room or encoder.max_tokens)

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Return the rows to train on.

        As for T5, a ReCoRD query is repeated for each of its right answers, and a WSC row is kept
        only if the marked noun is what the pronoun refers to. Rows of other tasks are unchanged.
        Raises DataError if no row is left.
        """
        return rows_to_learn(rows, task)

    def feature_key(self, task: Task) -> str:
        """Return the task's name and the maximum length of an answer, which affect the encoding."""
        return f" {task.name} {self._room}"
