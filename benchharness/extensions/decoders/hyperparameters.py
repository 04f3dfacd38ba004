"""Hyperparameters of decoders: their attention, and the text that is made of an example."""

from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import ClassVar

from benchharness.hyperparameter import Rule, hyperparameter, one_of

CAUSAL, FULL = "causal", "full"


@dataclass(frozen=True, kw_only=True)
class AttentionOptions:
    """Options for the attention of a decoder.

    Attributes:
        attention: "causal" if each token attends only to itself and to earlier tokens, as in
            pretraining; "full" if all tokens attend to each other (BehnamGhader et al.,
            arXiv:2404.05961, the first step of LLM2Vec).
    """

    unpublished: ClassVar = "a decoder in which all tokens attend to each other (attention=full)"
    attention: str = hyperparameter(
        one_of(CAUSAL, FULL),
        CAUSAL,
        excludes={
            "as_text": "is for networks with an encoder, which already attend to all tokens",
            "lm_weight": "predicts each token from earlier tokens, which would then see it",
        },
        aliases="attention_mode",
    )


@cache
def fields_of(template: str) -> frozenset[str]:
    """Return the names in braces in a template, without doubled braces, which stand for a brace.

    Raises:
        ValueError: There is a single brace.
    """
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name is not None)


def read_template(value: object) -> str | None:
    """Parse a template; return None if it is invalid.

    A template contains `{a}` for the first text, and may contain `{b}` for the second text. In a
    shell, a line break is written as a backslash and an n.
    """
    text = str(value).replace("\\n", "\n")
    try:
        fields, parts = fields_of(text), Formatter().parse(text)
    except ValueError:  # a single brace
        return None
    is_plain = all(not spec and not conversion for _, _, spec, conversion in parts)
    return text if {"a"} <= fields <= {"a", "b"} and is_plain else None


@dataclass(frozen=True, kw_only=True)
class TemplateOptions:
    """Options for the text that is made of the one or two texts of an example.

    Attributes:
        template: Text with `{a}` for the first text and `{b}` for the second text. The encoder
            then reads one text per example, without a separator token. Empty to encode the texts
            as they are.
    """

    heads: ClassVar = ("pair",)
    unless: ClassVar = ("as_text",)
    unpublished: ClassVar = "texts in a template (template)"
    template: str = hyperparameter(
        Rule(read_template, "a text with {a} and, for pairs, {b}, and without commas"),
        "",
        excludes={"orders": "exchanges the two texts, which are at fixed places of a template"},
        aliases="prompt",
    )
