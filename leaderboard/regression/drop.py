"""How large a drop of a score is noise: Student's t on the spread that the baseline's seeds show.

Both sides are scored on the same examples, so which examples these are moves both alike, and what
is left of a difference without a cause is the noise of the seeds. All scores and drops are in the
score's own unit (mostly 0..1).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["POWER", "detectable_drop", "drop_p_values", "spread_of_means", "tolerated_drop"]

POWER = 0.8
"""The chance with which a "detectable" drop is found: four fifths, the custom of power analyses
(Cohen, Statistical Power Analysis, 1988, section 2.4)."""


def spread_of_means(before: Any, after_count: int, resolution: Any) -> "Array":
    """The standard error of the difference of both means, from the baseline's seeds alone.

    `before` has the baseline's scores along its last axis, at least two. The spread of a run is
    never taken for smaller than `resolution`, what one example is worth: a few equal scores show no
    more than that. The new runs' own spread is left out, or one collapsed run among them would
    raise the tolerance that it should be caught by.
    """
    import numpy as np

    scores = np.asarray(before, dtype=np.float64)
    spread = np.maximum(scores.std(axis=-1, ddof=1), resolution)
    error: Array = spread * np.sqrt(1 / scores.shape[-1] + 1 / after_count)
    return error


def drop_p_values(before: Any, after: Any, resolution: Any) -> "Array":
    """The chance of such a drop of the mean, or a larger one, where nothing has changed.

    `before` and `after` have a score for each seed along their last axes; all others are tasks,
    simulated suites and the like. One-sided, with as many degrees of freedom as the baseline has
    seeds, less one.
    """
    import numpy as np
    from scipy.special import stdtr

    old, new = (np.asarray(scores, dtype=np.float64) for scores in (before, after))
    drops = old.mean(axis=-1) - new.mean(axis=-1)
    found: Array = stdtr(
        old.shape[-1] - 1, -drops / spread_of_means(old, new.shape[-1], resolution)
    )
    return found


def tolerated_drop(before: Any, after_count: int, resolution: float, alpha: float) -> float:
    """The largest drop whose p-value is not below `alpha`."""
    from scipy.special import stdtrit

    critical = float(stdtrit(len(before) - 1, 1 - alpha))
    return critical * float(spread_of_means(before, after_count, resolution))


def detectable_drop(before: Any, after_count: int, resolution: float, alpha: float) -> float:
    """The true drop that is found with the chance POWER, if the baseline's spread is the true one.

    With a true drop the statistic has a noncentral t distribution.
    """
    from scipy.special import nctdtrinc, stdtrit

    freedom = len(before) - 1
    shift = float(nctdtrinc(freedom, 1 - POWER, float(stdtrit(freedom, 1 - alpha))))
    return shift * float(spread_of_means(before, after_count, resolution))
