"""Which class of transformers a trained network is, up to names; without torch, for plans."""

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
"""What transformers calls the head types."""

BODY = "AutoModel"
"""Its class of an encoder without a head: what sentence-transformers makes vectors by."""

LACKING = {
    ("deberta", "choice"),
    ("eurobert", "choice"),
    ("eurobert", "span"),
    ("gpt2", "choice"),
    ("openai-gpt", "choice"),
    ("openai-gpt", "span"),
    ("openai-gpt", "tag"),
    ("t5", "choice"),
    ("t5", "pair"),
    ("t5", "ranking"),
    ("t5", "span"),
}
"""What transformers has no class for, or (T5) only one that needs the decoder."""

LAYERED = frozenset({"modernbert-decoder"})
"""Decoders whose classes have layers between the last state and the output, which we lack."""

SHARED = {"mt5": "t5", "umt5": "t5"}
"""Families whose classes are another one's."""

COMPARED = CHECKED - SHARED.keys() - {"neobert", "new", "nomic_bert"}
"""Families whose classes were compared with our heads (tests/benchharness/test_heads_parity.py):
all that are checked but those of checkpoints' own code."""


class Published(NamedTuple):
    """The class that loads a network, "AutoModelForTokenClassification", or what none can say."""

    auto_class: str = ""
    lacking: str = ""
    is_compared: bool = True

    @property
    def loader(self) -> str:
        """What loads it: sentence-transformers where a text has a vector, else transformers."""
        is_body = self.auto_class == BODY
        return "SentenceTransformer" if is_body else f"{self.auto_class}.from_pretrained"

    @property
    def sentence(self) -> str:
        """Why there is no class; empty where there is one."""
        why = "has no class" if self.is_compared else "was compared with no class"
        return f"{self.lacking} {why} in transformers" if self.lacking else ""


def published_class(
    task: Task, recipe: Recipe, family: str, *, is_foreign: bool = False
) -> Published:
    """The class of transformers for a task's network by its recipe and its encoder's family.

    `family` is transformers' model_type; `is_foreign` says that the encoder is code of the
    checkpoint's own.
    """
    if lacking := next(_lacking(task, recipe, SHARED.get(family, family), is_foreign), ""):
        return Published(lacking=lacking, is_compared=SHARED.get(family, family) in COMPARED)
    if recipe.ranking:
        return Published(auto_class=BODY)
    kind = "Seq2SeqLM" if recipe.text else KINDS[task.head]
    return Published(auto_class=f"AutoModelFor{kind}")


def _lacking(task: Task, recipe: Recipe, family: str, is_foreign: bool) -> Iterator[str]:
    if is_foreign:
        yield "an encoder with code of its own"
    if recipe.text:
        return
    if own := answer_type(task).unpublished():
        yield own
    yield from _of_recipe(recipe)
    if (family, task.head) in LACKING or not (recipe.ranking or _has_head(family, task.head)):
        yield f"{family} with a {task.head} head"


def _has_head(family: str, head: str) -> bool:
    """Return whether transformers' class of a head type is the network that we train."""
    if family in COMPARED or head not in KINDS:
        return head in KINDS
    is_decoder = is_causal({"model_type": family}) and family not in LAYERED
    return is_decoder and has_class(family, KINDS[head])


def _of_recipe(recipe: Recipe) -> Iterator[str]:
    if recipe.pair and recipe.pair.orders == ADDED_ORDERS:
        yield f"the sum of both orders (orders={ADDED_ORDERS})"
    if recipe.span and (recipe.span.beam_size or recipe.span.answerable_weight):
        yield "ELECTRA's span head (beam_size, answerable_weight)"
    if recipe.tag and recipe.tag.lstm_size:
        yield "a BiLSTM on the encoder (lstm_size)"
    if recipe.encoder.features not in (FINE_TUNED, "last"):
        yield f"a head on other states than the last (features={recipe.encoder.features})"
