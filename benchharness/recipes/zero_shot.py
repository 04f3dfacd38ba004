"""How a task is asked of a language model that nobody trained for it: patterns and words.

A pattern is a text with fields in braces, one of them for the answer, and the words are what stands
there for each label. Tasks that bring their own options have no words. The fields of an example are
in `heads/cloze.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from benchharness.leaderboard.job import ZERO_SHOT, Setting
from benchharness.models.spec import ModelSpec
from benchharness.recipes.resolve import MAX_TOKENS, ResolvedRecipe, for_own_rows, within_reach
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import ChoiceTask

PATTERN, WORD = "pattern", "word "
"""The names of its settings: the pattern's, and what stands before a label in that of its word."""

_MAX_TOKENS = Setting(value=512, source="arXiv:1810.04805, A.2: what most encoders take")


@dataclass(frozen=True, kw_only=True)
class _Pattern:
    text: str
    source: str
    words: Mapping[str, str] = field(default_factory=dict)


_LM_BFF = "arXiv:2012.15723, table 1"
_PET = "arXiv:2009.07118, section 3.1, and its code's pattern 0"

_YES_MAYBE_NO = {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}
_YES_NO = {"entailment": "Yes", "not_entailment": "No"}
_TRUE_FALSE = {"False": "No", "True": "Yes"}

_INFERENCE = "{a_bare}? {answer}, {b_low}"
_PREMISE_LAST = '"{b_bare}" ?{cut}{answer}, "{a}"'

_OPTION = _Pattern(text="{asked}", source="arXiv:1910.14659: the option's tokens, after its text")
"""Of every task with options but those below."""

_PATTERNS: Mapping[str, _Pattern] = MappingProxyType(
    {
        "glue/cola": _Pattern(
            text="{a} This is {answer}.",
            words={"unacceptable": "incorrect", "acceptable": "correct"},
            source=_LM_BFF,
        ),
        "glue/sst2": _Pattern(
            text="{a} It was {answer}.",
            words={"negative": "terrible", "positive": "great"},
            source=_LM_BFF,
        ),
        "glue/mrpc": _Pattern(
            text="{a} {answer}, {b_low}",
            words={"not_equivalent": "No", "equivalent": "Yes"},
            source=_LM_BFF,
        ),
        "glue/stsb": _Pattern(
            text="{a} {answer}, {b_low}",
            words={"low": "No", "high": "Yes"},
            source=_LM_BFF,
        ),
        "glue/qqp": _Pattern(
            text="{a} {answer}, {b_low}",
            words={"not_duplicate": "No", "duplicate": "Yes"},
            source=_LM_BFF,
        ),
        "glue/mnli": _Pattern(text=_INFERENCE, words=_YES_MAYBE_NO, source=_LM_BFF),
        "snli/snli": _Pattern(text=_INFERENCE, words=_YES_MAYBE_NO, source=_LM_BFF),
        "glue/qnli": _Pattern(text=_INFERENCE, words=_YES_NO, source=_LM_BFF),
        "glue/rte": _Pattern(text=_INFERENCE, words=_YES_NO, source=_LM_BFF),
        "glue/wnli": _Pattern(
            text=_INFERENCE,
            words={"not_entailment": "No", "entailment": "Yes"},
            source=f"ours: as RTE in {_LM_BFF}",
        ),
        "superglue/boolq": _Pattern(
            text="{a}. Question: {b_bare}? Answer: {answer}.", words=_TRUE_FALSE, source=_PET
        ),
        "superglue/cb": _Pattern(text=_PREMISE_LAST, words=_YES_MAYBE_NO, source=_PET),
        "superglue/rte": _Pattern(text=_PREMISE_LAST, words=_YES_NO, source=_PET),
        "superglue/copa": _Pattern(
            text='"{option_1}" or "{option_2}"? {context_bare}{link} {phrase}.', source=_PET
        ),
        "superglue/multirc": _Pattern(
            text="{a}. Question: {b_question} Is it {b_rest}? {answer}.",
            words=_TRUE_FALSE,
            source=_PET,
        ),
        "superglue/wic": _Pattern(
            text='"{a}" / "{b}" Similar sense of "{mark_1}"? {answer}.',
            words=_TRUE_FALSE,
            source=_PET,
        ),
        "superglue/wsc": _Pattern(
            text='{a} In the previous sentence, does the pronoun "{mark_2}" refer to {mark_1}? '
            "{answer}.",
            words=_TRUE_FALSE,
            source="after promptsource, WSC (arXiv:2110.08207): PET's patterns have it written out",
        ),
        "blimp/blimp": _Pattern(text="{answer}", source="arXiv:1910.14659, section 4.3"),
    }
)


def zero_shot_recipe(task: str, spec: ModelSpec) -> ResolvedRecipe:
    """The pattern of a task, the word for each label, and how much a model reads of an example.

    Raises BenchError for a task without candidates that a language model could score.
    """
    found = find_task(task)
    known = _PATTERNS.get(found.name, _OPTION if isinstance(found, ChoiceTask) else None)
    if known is None:
        raise BenchError(
            f"{found.name} has no pattern by which a language model could be asked for its "
            "answers: leave the task out, or train on it, with --shots above 0."
        )
    words = {WORD + label: word for label, word in known.words.items()}
    asked = {PATTERN: known.text, **words}
    settings = {name: Setting(value=value, source=known.source) for name, value in asked.items()}
    settings = {**settings, MAX_TOKENS: for_own_rows(spec) if found.definition else _MAX_TOKENS}
    return ResolvedRecipe(name=ZERO_SHOT, settings=within_reach(settings, spec))
