"""Technique that puts the texts of an example into a template, such as "{a} {b}"."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchharness.encoder import Encoder
from benchharness.errors import DataError
from benchharness.heads import Head, Limits, head_for
from benchharness.tasks.examples import PairExample
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.worker.technique import Technique


@dataclass(kw_only=True)
class Template(Technique):
    """Technique that encodes one text per example, which is made by a template."""

    @property
    def _template(self) -> str:
        template: str = self.work.recipe.added["template"].template
        return template

    def head(self, task: Task, encoder: Encoder) -> Head | None:  # noqa: ARG002
        """Return the usual pair head, whose rows contain the templates; None for other heads."""
        if task.head != "pair":
            return None
        usual, template = head_for(task, self.work.recipe.of_head(task.head)), self._template

        def encode(examples: Sequence[PairExample], tokenizer: Any, limits: Limits) -> Features:
            return usual.encode([filled(template, each) for each in examples], tokenizer, limits)

        return replace(usual, encode=encode)

    def feature_key(self, task: Task) -> str:
        """Return the task's name and the template, which affect the encoding."""
        return f" {task.name} {self._template!r}"


def filled(template: str, example: PairExample) -> PairExample:
    """Return an example with one text: the template with the texts of an example.

    Raises:
        DataError: The example has marked words, whose places would be lost; or the template has
            `{b}` although the example has one text, or the reverse.
    """
    if example.marks:
        raise DataError(
            f"example {example.id} has marked words, whose places in a template are unknown: omit "
            "the setting template."
        )
    if ("{b}" in template) != (example.text_b is not None):
        has, needs = ("one text", "only {a}") if example.text_b is None else ("two texts", "{b}")
        raise DataError(
            f"example {example.id} has {has}, but the template is {template!r}: use a template "
            f"with {needs}."
        )
    text = template.format(a=example.text_a, b=example.text_b)
    return replace(example, text_a=text, text_b=None)
