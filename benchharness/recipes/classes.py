"""Find the transformers class that can load a trained network.

Importing this module does not import torch, so code that plans jobs can use it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from benchharness.models.families import CHECKED, has_class, is_causal
from benchharness.recipes.recipe import ADDED_ORDERS, FINE_TUNED, Recipe
from benchharness.tasks.answers import answer_type
from benchharness.tasks.task import Task

KINDS = {
    "pair": "SequenceClassification",
    "choice": "MultipleChoice",
    "span": "QuestionAnswering",
    "tag": "TokenClassification",
}
"""Suffixes of the names of transformers classes with a head, keyed by head type."""

BODY = "AutoModel"
"""Transformers class for an encoder without a head, which sentence-transformers uses."""

LACKING = {
    ("deberta", "choice"),
    ("eurobert", "choice"),
    ("eurobert", "span"),
    ("gpt2", "choice"),
    ("openai-gpt", "choice"),
    ("openai-gpt", "span"),
    ("openai-gpt", "tag"),
    ("t5", BODY),
    ("t5", "choice"),
    ("t5", "pair"),
    ("t5", "span"),
}
"""Pairs of a model family and a head type for which transformers has no usable class.

BODY stands for all heads without weights. T5 has classes for some of these head types, but they
need the decoder.
"""

SHARED = {"mt5": "t5", "umt5": "t5"}
"""Mapping from families without transformers classes of their own to the families whose classes
they use."""

COMPARED = CHECKED - SHARED.keys() - {"neobert", "new", "nomic_bert"}
"""Families whose transformers classes were compared with benchharness's heads.

The comparison is in test_heads_parity.py. These are the families in CHECKED, except those in SHARED
and those whose code comes with their checkpoints.
"""


class Published(NamedTuple):
    """Transformers class that can load a trained network, or the reason why there is none.

    Attributes:
        auto_class: Name of the class, such as "AutoModelForTokenClassification"; empty if no class
            can load the network.
        lacking: Part of the network that no class implements; empty if a class can load the
            network.
        is_compared: True if the classes of the encoder's family were compared with benchharness's
            heads (see COMPARED). The value has a meaning only if no class can load the network.
    """

    auto_class: str = ""
    lacking: str = ""
    is_compared: bool = True

    @property
    def loader(self) -> str:
        """Name of the function of transformers or sentence-transformers that loads the network."""
        is_body = self.auto_class == BODY
        return "SentenceTransformer" if is_body else f"{self.auto_class}.from_pretrained"

    @property
    def sentence(self) -> str:
        """Reason why no class can load the network, as a clause for a message; empty if one can."""
        no_class = "transformers has no class for"
        if not self.is_compared:
            no_class = "no class of transformers was compared with"
        return f"{no_class} {self.lacking}" if self.lacking else ""


def published_class(
    task: Task, recipe: Recipe, family: str, *, is_foreign: bool = False
) -> Published:
    """Find the transformers class that can load a network.

    Args:
        task: Task of the network, which determines its head.
        recipe: Recipe with which the network was trained.
        family: `model_type` of the encoder in transformers.
        is_foreign: True if the encoder's code comes with its checkpoint.
    """
    if lacking := next(_lacking(task, recipe, SHARED.get(family, family), is_foreign), ""):
        return Published(lacking=lacking, is_compared=SHARED.get(family, family) in COMPARED)
    if not (recipe.uses_decoder or task.has_weights):
        return Published(auto_class=BODY)
    kind = "Seq2SeqLM" if recipe.uses_decoder else KINDS[task.head]
    return Published(auto_class=f"AutoModelFor{kind}")


def _lacking(task: Task, recipe: Recipe, family: str, is_foreign: bool) -> Iterator[str]:
    if is_foreign:
        yield "an encoder with code of its own"
    if recipe.uses_decoder:
        return
    if own := answer_type(task).unpublished():
        yield own
    yield from _of_recipe(recipe)
    head = task.head if task.has_weights else BODY
    if (family, head) in LACKING or not (head == BODY or _has_head(family, head)):
        yield f"{family} with a {task.head} head"


def _has_head(family: str, head: str) -> bool:
    """Return whether transformers' class for a head type is the same as benchharness's head."""
    if family in COMPARED or head not in KINDS:
        return head in KINDS
    return is_causal({"model_type": family}) and has_class(family, KINDS[head])


def _of_recipe(recipe: Recipe) -> Iterator[str]:
    if recipe.pair and recipe.pair.orders == ADDED_ORDERS:
        yield f"the sum of both orders (orders={ADDED_ORDERS})"
    if recipe.span and (recipe.span.beam_size or recipe.span.answerable_weight):
        yield "ELECTRA's span head (beam_size, answerable_weight)"
    yield from (g.unpublished for g in recipe.added.values() if hasattr(g, "unpublished"))
    if recipe.tag and recipe.tag.lstm_size:
        yield "a BiLSTM on the encoder (lstm_size)"
    if recipe.encoder.features not in (FINE_TUNED, "last"):
        yield f"a head on states other than the last layer's (features={recipe.encoder.features})"
