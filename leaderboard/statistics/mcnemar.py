"""McNemar's test: do two systems differ in how many of the same examples they get right?"""

__all__ = ["mcnemar_exact"]


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """The two-sided p-value from the examples that only one of two systems has right.

    Without a difference each of them is as likely the one's as the other's: a binomial test at one
    half (McNemar, Note on the sampling error of the difference between correlated proportions,
    Psychometrika 1947). 1 where the systems are right on the same examples.
    """
    from scipy.stats import binomtest

    decided = only_one + only_other
    return float(binomtest(only_one, decided).pvalue) if decided else 1.0
