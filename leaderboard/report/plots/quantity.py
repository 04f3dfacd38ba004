"""What a model costs, as something to hold its score against: how it is written and counted."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["QUANTITIES", "Quantity", "find_quantity"]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A cost. `note` says how it is counted, and after whom; `steps` are values for ticks."""

    name: str
    title: str
    axis: str
    note: str
    text: Callable[[float], str]
    steps: tuple[float, ...]


def _count(value: float) -> str:
    """A number of weights, three digits: "22.7M"."""
    for unit, sign in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * unit:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.3g}"


SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _power(value: float) -> str:
    """A number of operations, mostly two digits: "2.3×10¹⁵"."""
    if value < 1000:
        return f"{value:.3g}"
    digits, _, exponent = f"{value:.1e}".partition("e+")
    factor = digits.removesuffix(".0")
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if factor == "1" else f"{factor}×{power}"


def _time(seconds: float) -> str:
    """A span of time, two or three digits: "9.5 min"."""
    for unit, sign in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {sign}"
    return f"{seconds:.3g} s"


def _decades(first: int, last: int) -> tuple[float, ...]:
    return tuple(
        float(factor * 10**power) for power in range(first, last + 1) for factor in (1, 2, 5)
    )


TIMES = tuple(
    float(factor * unit)
    for unit, factors in (
        (1, (1, 2, 5, 10, 20, 30)),
        (60, (1, 2, 5, 10, 20, 30)),
        (3600, (1, 2, 5, 10)),
        (86400, (1, 2, 5, 10, 20, 50, 100)),
    )
    for factor in factors
)

KAPLAN = "Kaplan et al. 2020, arXiv:2001.08361, section 2.1"

QUANTITIES = (
    Quantity(
        name="parameters",
        title="parameters",
        axis="parameters (log scale)",
        note="Measured: all weights that were loaded, the head's included. Published: as the "
        "source prints them, else as the checkpoint's paper does.",
        text=_count,
        steps=_decades(2, 13),
    ),
    Quantity(
        name="training-flops",
        title="training FLOPs",
        axis="fine-tuning, FLOPs (log scale)",
        note="Estimated as 6·N·T: N weights besides embeddings (all weights where that is not "
        f"known) and T tokens seen in training, without padding ({KAPLAN}). Attention between "
        "tokens, pretraining and the training of an earlier task are not in it. Left out: what "
        "does not train every weight with every token (adapters, frozen encoders, ALBERT's shared "
        "layers, Funnel's pooling), and published rows, which do not say T.",
        text=_power,
        steps=_decades(3, 27),
    ),
    Quantity(
        name="inference-flops",
        title="inference FLOPs",
        axis="inference, FLOPs a token (log scale)",
        note=f"Estimated as 2·N a token: N weights besides embeddings ({KAPLAN}). Left out: models "
        "of which N is not known, and those that use weights several times or not for every token "
        "(ALBERT, Funnel).",
        text=_power,
        steps=_decades(2, 15),
    ),
    Quantity(
        name="training-time",
        title="training time",
        axis="training (log scale)",
        note="Wall time of training alone, the median over seeds, summed over tasks. Only runs on "
        "one kind of machine stand in one plot; other work on it may have slowed them.",
        text=_time,
        steps=TIMES,
    ),
)


def find_quantity(name: str) -> Quantity:
    """The quantity of that name."""
    return next(quantity for quantity in QUANTITIES if quantity.name == name)
