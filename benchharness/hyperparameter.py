"""Declaration of hyperparameters: their types, ranges, defaults, and relations to each other.

The groups of hyperparameters in `benchharness.recipes.recipe`, and those that an extension adds for
its head type, are dataclasses whose fields are created by `hyperparameter`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, NamedTuple

Value = str | int | float | bool


class Rule(NamedTuple):
    """Validation of the values of a hyperparameter.

    Attributes:
        read: Function that parses a value from a recipe file or from `--set` and returns the parsed
            value; it returns None for an invalid value.
        expected: Description of the valid values, for error messages.
        words: Values that shell completion proposes; empty for numbers and flags.
    """

    read: Callable[[object], Value | None]
    expected: str
    words: tuple[str, ...] = ()


def as_number(value: object) -> float | None:
    """Convert a number, or a text such as "3e-5", to a finite float; return None for other values.

    None is also returned for True and False.
    """
    # Without this check, True would be accepted as 1, because bool is a subclass of int.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None  # "nan" and "inf" are invalid


def number(words: str, holds: Callable[[float], bool], *, whole: bool = False) -> Rule:
    """Return the rule that accepts the numbers of a certain range.

    Args:
        words: A description of the range for error messages, such as "above 0".
        holds: A function that returns whether a number is in the range.
        whole: Whether the number must be an integer.
    """

    def read(value: object) -> int | float | None:
        number = as_number(value)
        if number is None or not holds(number) or (whole and not number.is_integer()):
            return None
        return int(number) if whole else number  # 3.0 and 3 give the same job key

    return Rule(read, f"a {'whole ' * whole}number that is {words}")


def count(least: int) -> Rule:
    """Return the rule that accepts integers from `least` upwards."""
    return number(f"at least {least}", lambda value: value >= least, whole=True)


def one_of(*words: str) -> Rule:
    """Return the rule that accepts only these words."""
    expected = f"one of: {', '.join(words)}"
    return Rule(lambda value: str(value) if value in words else None, expected, words)


POSITIVE = number("above 0", lambda value: value > 0)
NOT_NEGATIVE = number("at least 0", lambda value: value >= 0)
SHARE = number("at least 0 and at most 1", lambda value: 0 <= value <= 1)
BELOW_ONE = number("at least 0 and below 1", lambda value: 0 <= value < 1)
FACTOR = number("above 0 and at most 1", lambda value: 0 < value <= 1)
COUNT, COUNT_OR_NONE = count(1), count(0)
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
FLAG = Rule(lambda value: _FLAGS.get(str(value).lower()), "true or false")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Metadata of a hyperparameter in addition to its name and type.

    Attributes:
        rule: Validation of its values.
        default: Default value; MISSING if there is none.
        stated: Whether the description of a job contains the value even if it is the default. If
            not, jobs with the default value have no entry for the hyperparameter.
        aliases: Other names of the hyperparameter in transformers' TrainingArguments and example
            scripts, in peft, and in common usage.
        heads: Head types to which the hyperparameter applies; empty for all.
        unless: Names of other hyperparameters that make this one irrelevant: if one of them is
            enabled, this one is left out of the job.
        needs: The name of a technique or of another hyperparameter that this one requires, or
            NAME=VALUE if it requires a certain value. If the requirement is not met, this
            hyperparameter has no effect and is left out of the job.
        excludes: Phrases for error messages, keyed by the names of the other hyperparameters that
            cannot be combined with this one. A phrase describes the effect of the other
            hyperparameter, such as "freezes the encoder".
        instead_of: The hyperparameter that this one replaces, because both set the same quantity in
            different units: `epochs` for the hyperparameter `steps`. If a recipe sets one of the
            two, and a recipe that overrides this recipe sets the other, only the latter is used.
        recipe: The name of a packaged recipe, whose values override those of the model's own recipe
            if this hyperparameter is true; empty for none.
        check: Function `(tasks, techniques)` that is called if the values of `recipe` are used. It
            raises BenchError if the tasks cannot be trained so.
        counts_layers: Whether the value is a number of layers, which the encoder must have.
    """

    rule: Rule
    default: Any
    stated: bool
    aliases: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    needs: str = ""
    excludes: Mapping[str, str] = field(default_factory=dict)
    instead_of: str = ""
    recipe: str = ""
    check: Callable[..., None] = lambda *_: None
    counts_layers: bool = False


def hyperparameter(
    rule: Rule, default: Any = MISSING, *, aliases: str = "", unless: str = "", **facts: Any
) -> Any:
    """Create the dataclass field of a hyperparameter.

    Args:
        rule: Validation of its values.
        default: Default value. Every job to which the hyperparameter applies must have a value if
            there is no default.
        aliases: Other names of the hyperparameter, separated by spaces.
        unless: Names of hyperparameters that make this one irrelevant, separated by spaces.
        **facts: Other fields of `Facts`.
    """
    facts |= {"aliases": tuple(aliases.split()), "unless": tuple(unless.split())}
    facts.setdefault("stated", default is MISSING)  # without a default, every job states the value
    known = Facts(rule=rule, default=default, **facts)
    return field(default=default, metadata={"facts": known})
