"""Text-to-text technique: a task is answered in words, by an encoder with its decoder."""

from benchharness.encoder import Encoder
from benchharness.heads import Head
from benchharness.heads.text import text_head
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task
from benchharness.tasks.text_to_text import rows_to_learn
from benchharness.worker.technique import Technique


class TextToText(Technique):
    """Technique that replaces the heads with one that answers in words.

    Answers have at most as many tokens as the recipe allows, or by default as the encoder reads.
    """

    whole_vocabulary = True  # any token may be predicted

    @property
    def _room(self) -> int | None:
        text = self.work.recipe.text
        return text.max_target_tokens if text else None

    def head(self, task: Task, encoder: Encoder) -> Head:
        """Return the head that answers in words."""
        return text_head(task, encoder.tokenizer, self._room or encoder.max_tokens)

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Return a row per answer."""
        return rows_to_learn(rows, task)

    def feature_key(self, task: Task) -> str:
        """Return the task's name and the maximum length of an answer."""
        return f" {task.name} {self._room}"


technique = TextToText
