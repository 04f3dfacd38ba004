"""Compare a model's own recipe with the one that small custom data get by themselves.

    python -m benchmarks.few_rows sets --make --data DIR    # write twelve small sets into sets/
    python -m benchmarks.few_rows sets/* --model minilm=DIR --model tiny --seeds 2

The first command needs GLUE's official files in DIR. Instead of its sets, the second one takes any
files or folders of `bench run --data-file`; a colon and the value of `--columns` may follow a path.
It runs each set with `--recipe paper` (before) and without `--recipe` (after), and prints a table
with the mean scores and the numbers of collapsed runs. Finished runs are written to a file, so the
same command goes on where it stopped, and `--minutes` limits the time in which runs start.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

import pandas as pd

import benchharness as bh
from benchharness.driver.options import RunOptions
from benchharness.driver.session import Session
from benchharness.leaderboard.result import curve_flags, has_collapsed
from benchharness.tasks.suites import find_suite
from benchharness.worker.job import run_job
from benchmarks.markdown import table

RECIPES = {"before": "paper", "after": None}

REAL = {
    "sst2-100": ("glue/sst2", 100),
    "sst2-1000": ("glue/sst2", 1000),
    "cola-600": ("glue/cola", 600),
    "mrpc-400": ("glue/mrpc", 400),
    "rte-250": ("glue/rte", 250),
    "stsb-200": ("glue/stsb", 200),
}
"""Tasks of GLUE and the numbers of training rows that are drawn from them."""

DEV_ROWS = 200
"""Number of dev rows of each set."""


# Writing the sets.

THINGS = ("film", "phone", "hotel", "meal", "book", "concert", "jacket", "lamp", "course", "train")
TIMES = ("yesterday", "last week", "in May", "on Sunday", "this morning", "a year ago", "for work")
WITH = ("my sister", "two friends", "the children", "a colleague", "nobody", "our neighbours")
FACTS = (
    "It cost about forty euros",
    "The box was blue",
    "We came by bus",
    "There were many people",
    "It took an hour",
    "The weather was mild",
    "I had read about it before",
)
WORDS = {
    "good": ("wonderful", "excellent", "a delight", "great value", "perfect", "simply lovely"),
    "bad": ("terrible", "a waste of money", "awful", "dull", "a great letdown", "simply broken"),
}
TOPICS = {
    "sport": ("won the final", "scored twice", "lost the match", "ran a marathon"),
    "money": ("raised its prices", "cut the interest rate", "sold its shares", "paid the tax"),
    "weather": ("saw heavy rain", "was hit by a storm", "had a dry summer", "woke up to snow"),
    "science": ("measured a particle", "found a fossil", "mapped the genome", "sent a probe"),
}
WHO = ("The town", "A company", "The team", "Our neighbour", "The capital", "A student", "The club")


def scene(draw: Random) -> str:
    thing, when, who = draw.choice(THINGS), draw.choice(TIMES), draw.choice(WITH)
    return f"I tried the {thing} {when} with {who}. {draw.choice(FACTS)}."


def review(number: int, good: float, draw: Random) -> dict[str, object]:
    """Return a clear review; of any 20 in a row, the share `good` is positive."""
    label = "good" if number % 20 < 20 * good else "bad"
    return {"text": f"{scene(draw)} It was {draw.choice(WORDS[label])}.", "label": label}


def topic(number: int, draw: Random) -> dict[str, object]:
    """Return a sentence on one of four topics."""
    label = [*TOPICS][number % len(TOPICS)]
    said = f"{draw.choice(WHO)} {draw.choice(TOPICS[label])} {draw.choice(TIMES)}."
    return {"text": f"{said} {draw.choice(FACTS)}.", "label": label}


def stars(draw: Random) -> dict[str, object]:
    """Return a review with the number of praises among its four words, plus a half."""
    kinds = draw.choices([*WORDS], k=4)
    said = ", ".join(draw.choice(WORDS[kind]) for kind in kinds)
    return {"text": f"{scene(draw)} It was {said}.", "number": kinds.count("good") + 0.5}


MADE: dict[str, tuple[int, Callable[[int, Random], dict[str, object]]]] = {
    "reviews-60": (60, lambda number, draw: review(number, 0.5, draw)),
    "reviews-160": (160, lambda number, draw: review(number, 0.5, draw)),
    "reviews-400": (400, lambda number, draw: review(number, 0.5, draw)),
    "skewed-300": (300, lambda number, draw: review(number, 0.85, draw)),
    "topics-240": (240, topic),
    "stars-200": (200, lambda _, draw: stars(draw)),
}
"""Sets that are made up: their numbers of training rows, and functions that return a row."""


def make(folder: Path, data: str) -> None:
    """Write the twelve sets, which are the same in every call."""
    draw = Random(1)
    for name, (rows, row) in MADE.items():
        for split, size in {"train": rows, "dev": DEV_ROWS}.items():
            write(pd.DataFrame(row(number, draw) for number in range(size)), folder, name, split)
    for name, (task, rows) in REAL.items():
        columns = {"text_a": "text", "text_b": "text2", "label": "label"}
        columns |= {"label": "number"} if task == "glue/stsb" else {}
        for split, size in {"train": rows, "dev": DEV_ROWS}.items():
            whole = bh.load(task, split, data)
            drawn = whole.sample(min(size, len(whole)), random_state=1)
            kept = [each for each in columns if drawn[each].notna().all()]
            write(drawn[kept].rename(columns=columns), folder, name, split)


def write(rows: pd.DataFrame, folder: Path, name: str, split: str) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    rows.to_csv(folder / name / f"{split}.csv", index=False)


# Measuring.


class Run(NamedTuple):
    """A finished run.

    Attributes:
        score: The score on the board, times 100.
        steps: The number of training steps.
        collapsed: Whether the run learned nothing.
        seconds: The processor time of the run.
    """

    score: float
    steps: int
    collapsed: bool
    seconds: float


def run(place: str, model: str, recipe: str | None, seed: int, known: Path) -> Run:
    """Run a model on a set with a seed in this process, unless the file `known` has the run."""
    path, _, columns = place.partition(":")
    if not columns and (train := Path(path) / "train.csv").is_file():  # a set of `make`
        roles = [each for each in pd.read_csv(train, nrows=0) if each in ROLES]
        columns = ",".join(f"{role}={role}" for role in roles)
    options = {"model": model, "data_file": path, "columns": columns or None, "recipe": recipe}
    asked = RunOptions.of(**options, seeds=[seed], baselines=False, device="cpu", jobs="1")
    (job,) = Session.of(asked).plan().jobs
    lines = known.read_text().splitlines() if known.exists() else []
    if line := next((line for line in lines if line.startswith(f'["{job.key}"')), ""):
        return Run(*json.loads(line)[1:])
    began = time.process_time()
    result = run_job(job)
    scores, losses = result.evaluations[0].scores, [point.loss for point in result.curve]
    score = find_suite(job.task.partition("/")[0]).rule.task_score(job.task, scores)
    flags = (*result.evaluations[0].flags, *curve_flags(losses))
    seconds = time.process_time() - began
    found = Run(100 * (score or 0.0), result.cost.steps, has_collapsed(job.kind, flags), seconds)
    with known.open("a") as file:
        print(json.dumps([job.key, *found]), file=file)
    return found


ROLES = ("text", "text2", "label", "number")

HEAD = ("set", "model", "steps", "before (collapsed)", "after (collapsed)", "change", "processor s")


def lines(found: Mapping[tuple[str, str, str], Sequence[Run]]) -> Iterator[list[str]]:
    """Yield a row of the table per set and model, and a last row with the means of all runs."""
    every: dict[str, list[Run]] = {side: [] for side in RECIPES}
    for place, model in dict.fromkeys(key[:2] for key in found):
        before, after = (found.get((place, model, side), ()) for side in RECIPES)
        if before and after:
            name, steps = Path(place.partition(":")[0]).stem, (before[0].steps, after[0].steps)
            yield _line(name, model.partition("=")[0], f"{steps[0]} / {steps[1]}", before, after)
            every["before"] += before
            every["after"] += after
    if every["before"]:
        yield _line("all", "", "", every["before"], every["after"])


def _line(
    name: str, model: str, steps: str, before: Sequence[Run], after: Sequence[Run]
) -> list[str]:
    means = [fmean(each.score for each in side) for side in (before, after)]
    lost = [sum(each.collapsed for each in side) for side in (before, after)]
    return [
        name,
        model,
        steps,
        f"{means[0]:.1f} ({lost[0]} of {len(before)})",
        f"{means[1]:.1f} ({lost[1]} of {len(after)})",
        f"{means[1] - means[0]:+.1f}",
        " / ".join(f"{fmean(each.seconds for each in side):.0f}" for side in (before, after)),
    ]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="+", help="data sets; with --make, the folder for them")
    parser.add_argument("--make", action="store_true", help="only write the data sets")
    parser.add_argument("--data", default="hub", help="folder of GLUE's files, for --make")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--runs", type=Path, default=Path("few-rows.jsonl"))
    asked = parser.parse_args(words)
    if asked.make:
        make(Path(asked.places[0]), asked.data)
        return
    found = defaultdict[tuple[str, str, str], list[Run]](list)
    begun = time.monotonic()
    # All sets run with a seed before the next seed begins, so that an early end has whole seeds.
    for seed, place, model in product(
        range(1, asked.seeds + 1), asked.places, asked.model or ["tiny"]
    ):
        if time.monotonic() - begun > 60 * asked.minutes:
            break
        for side, recipe in RECIPES.items():
            found[place, model, side].append(run(place, model, recipe, seed, asked.runs))
    print("\n".join(table(HEAD, lines(found))))


if __name__ == "__main__":
    main()
