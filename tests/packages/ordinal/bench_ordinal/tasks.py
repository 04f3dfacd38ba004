"""The suite "stars": reviews with one to five stars, in tab-separated files."""

from statistics import fmean

from bench_ordinal.task import OrdinalExample, OrdinalTask
from benchharness.tasks.sources import Source
from benchharness.tasks.sources.source import splits_of, text
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import Metric, mean_metric

LEVELS = ("1", "2", "3", "4", "5")


def _review(row):
    return OrdinalExample(id=str(row["idx"]), text=text(row, "review"), level=row["stars"])


def _closeness(predictions, examples):
    far = [abs(int(p.level) - int(e.level)) for p, e in zip(predictions, examples, strict=True)]
    return 1 - fmean(far) / (len(LEVELS) - 1)


closeness = Metric(name="closeness", compute=_closeness)
"""One minus the mean distance between predicted and gold level, as a share of the largest one."""

accuracy = mean_metric("accuracy", lambda p, e: float(p.level == e.level))

REVIEWS = OrdinalTask(
    name="stars/reviews",
    title="Reviews",
    source=Source(
        hub="",
        config="default",
        revision="main",
        home="stars",
        splits=splits_of("reviews/train.tsv", "reviews/dev.tsv"),
        columns={"review": "review", "stars": "stars"},
        label="stars",
        label_names=LEVELS,
    ),
    convert=_review,
    levels=LEVELS,
    metrics=(closeness,),
    details=(accuracy,),
    cite="made for this package",
)

TASKS = (REVIEWS,)
SUITES = (
    suite_of(
        TASKS,
        "Stars",
        ScoreRule(name="Stars", cells={REVIEWS.name: ("closeness",)}, cite="made here"),
    ),
)
