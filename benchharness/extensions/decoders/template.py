"""Technique that puts the texts of an example into a template, such as "{a} {b}"."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any

from benchharness.errors import DataError
from benchharness.extensions.decoders.hyperparameters import fields_of
from benchharness.heads import Limits
from benchharness.tasks.examples import PairExample
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.worker.technique import Technique

if TYPE_CHECKING:
    from benchharness.worker.task_setup import TaskSetup


@dataclass(kw_only=True)
class Template(Technique):
    """Technique that encodes one text per example, which is made by a template."""

    @property
    def _template(self) -> str:
        template: str = self.work.recipe.added["template"].template
        return template

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Make the pair heads of the setups encode the filled template of each example."""
        for setup in setups:
            if setup.task.head == "pair":
                usual = setup.head.encode
                encode = partial(encode_filled, self._template, usual)
                # The name of the function is part of the key of cached features.
                setup.head = replace(setup.head, encode=update_wrapper(encode, usual))

    def feature_key(self, task: Task) -> str:
        """Return the task's name and the template, which affect the encoding."""
        return f" {task.name} {self._template!r}"


def encode_filled(
    template: str,
    encode: Callable[[Sequence[Any], Any, Limits], Features],
    examples: Sequence[PairExample],
    tokenizer: Any,
    limits: Limits,
) -> Features:
    """Encode examples as one text each, with the function `encode` of a head."""
    return encode([filled(template, each) for each in examples], tokenizer, limits)


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
    if ("b" in fields_of(template)) != (example.text_b is not None):
        has, needs = ("one text", "only {a}") if example.text_b is None else ("two texts", "{b}")
        raise DataError(
            f"example {example.id} has {has}, but the template is {template!r}: use a template "
            f"with {needs}."
        )
    text = template.format(a=example.text_a, b=example.text_b)
    return replace(example, text_a=text, text_b=None)
