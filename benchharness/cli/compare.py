"""The commands `bench compare` and `bench plan`.

The first tests whether two systems differ, and the second estimates how many seeds a test needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Annotated, Any, Literal

import typer

from benchharness.cli.chosen import Chosen, System, board_facts, print_heading
from benchharness.cli.options import with_options
from benchharness.cli.output import print_json, print_table, tell_marks
from benchharness.driver.options import option
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.cell import marked
from benchharness.leaderboard.boards.naming import full_label, heads
from benchharness.leaderboard.comparing.contrast import ALPHA, Contrast
from benchharness.leaderboard.comparing.power import Comparison, compare_seeds
from benchharness.leaderboard.job import value_text
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.text import counted, grouped, rounded, visible
from benchharness.recipes.recipe import shown_value
from benchharness.stored import Rows
from benchharness.stored.predictions import contrasts_of, known_cells
from benchharness.tasks.suites import title_of

Split = Annotated[
    Literal["dev", "test"],
    typer.Option(
        "--split",
        metavar="dev|test",
        help="Split to use: dev, or test if its labels are public.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Options of `bench compare` that show details for each task."""

    by_category: bool = option(
        False, "Also show the difference for each category of a task's examples."
    )
    examples: int = option(
        0,
        "Also show N examples per task that one system gets right more often than the other.",
        metavar="N",
        least=0,
    )


LONGEST = 300
"""Maximum number of characters that are printed of an example's text."""


@with_options()
def compare(
    one: System, other: System, *, chosen: Chosen, split: Split = "dev", shown: Shown
) -> None:
    """Compare two systems task by task, on the same examples.

    The significance test uses the seeds that both systems have. With several seeds, it is a t-test
    over examples and seeds; with one seed, it is McNemar's test or a paired permutation test.
    P-values are corrected for the number of tasks shown.
    """
    with chosen.open() as store:
        compared = [
            (rows, contrasts_of(store, rows, split, with_slices=shown.by_category))
            for rows in chosen.rows(store, (one, other))
        ]
    if chosen.as_json:
        print_json(
            [
                {
                    **board_facts(rows.board),
                    "split": split,
                    "systems": list(map(full_label, rows.entries)),
                    "tasks": {found.task: _facts(found, shown.examples) for found in contrasts},
                }
                for rows, contrasts in compared
            ]
        )
        return
    for rows, contrasts in compared:
        names = heads(rows.entries)
        columns = ["difference", "95 % interval", "p-value", "corrected", "wins", "examples"]
        counts = {len(found.seeds) for found in contrasts}
        if len(counts) > 1:
            columns.append("seeds")
        lines = (_cells(found)[: 3 + len(columns)] for found in contrasts)
        said = f" ({counted(counts.pop(), 'seed')})" if len(counts) == 1 else ""
        _print_systems(rows, columns, lines, split, said)
        for line in _remarks(rows, contrasts):
            typer.echo(visible(line))
        for each in contrasts:
            _show_slices(each)
            _show_flips(each, shown.examples, names)
        _tell_marks(names, contrasts)
    for line in _legend([each for _, contrasts in compared for each in contrasts]):
        typer.echo(line)


def _print_systems(
    rows: Rows,
    columns: Sequence[str],
    lines: Iterable[Sequence[str]],
    split: str = "",
    said: str = "",
) -> None:
    """Print a heading and a table with a row per task.

    The columns are the task, the two systems, and then `columns`. `said` is the end of the heading.
    """
    print_heading(rows.board, " and ".join(entry.name for entry in rows.entries) + said, split)
    names = ("task", *map(visible, heads(rows.entries)), *columns)
    listed = [dict(zip(names, line, strict=True)) for line in lines]
    print_table(listed, names, "no task has results for both systems.", in_parts=True)


def _legend(contrasts: Sequence[Contrast]) -> Iterator[str]:
    """Yield sentences that explain the columns and marks of the table."""
    yield (
        "wins: examples that the first system gets right more often, and those that the second "
        "does."
    )
    counts = sorted({found.corrected_for for found in contrasts if found.corrected_for})
    if counts:
        tasks = counted(counts[0], "task") + " shown"
        if len(counts) > 1:
            tasks = f"tasks shown per leaderboard ({', '.join(map(str, counts))})"
        yield f"corrected: the p-value after Holm's correction for the {tasks}."
    star = "*: the corrected p-value is below 0.05"
    numbers = {len(found.seeds) for found in contrasts}
    if numbers == {1}:
        yield f"{star}, and the interval, if there is one, excludes 0."
    else:
        only = "with several seeds, tests" if 1 in numbers else "Tests"
        yield f"{star}. {only} and intervals cover examples and seeds."
        yield "scores and tests use means over seeds, whereas leaderboards show medians."
    if 1 in numbers:
        yield ("with one seed, tests and intervals cover the choice of examples, but not of seeds.")


def _remarks(rows: Rows, contrasts: Sequence[Contrast]) -> Iterator[str]:
    """Yield sentences about missing tests, and about trainings with different settings."""
    for found in contrasts:
        if found.reason:
            yield f"{title_of(found.task)}: no test, because {found.reason}"
    one, other = rows.entries
    if one.model == other.model:  # the heading contains the settings that the user changed
        return
    # Tasks on which the settings differ in the same way share a sentence.
    groups = grouped(
        (
            ", ".join(
                f"{name} {' and '.join(value_text(shown_value(name, each)) for each in pair)}"
                for name, pair in found.settings.items()
            ),
            title_of(found.task),
        )
        for found in contrasts
        if found.settings
    )
    for said, tasks in groups.items():
        yield (
            f"{one.model} and {other.model} were trained with different settings on "
            f"{', '.join(tasks)}: {said}."
        )


def _cells(found: Contrast) -> tuple[str, ...]:
    return (
        title_of(found.task),
        *map(marked, (f"{score * 100:.2f}" for score in found.scores), found.flags),
        f"{found.difference * 100:+.2f}{'*' if found.is_shown else ''}",
        _interval(found.interval),
        *map(_chance, (found.p_value, found.corrected)),
        "" if found.flipped is None else ":".join(map(str, found.flipped)),
        str(found.examples or ""),
        str(len(found.seeds)),
    )


def _tell_marks(names: Sequence[str], found: Iterable[Contrast | Comparison]) -> None:
    """Print explanations of the marks that warn about scores of the two systems."""
    tell_marks(
        ((name, title_of(each.task)), flags)
        for each in found
        for name, flags in zip(names, each.flags, strict=True)
    )


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return " to ".join(rounded(end * 100, "+.2f") for end in (interval.low, interval.high))


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return ""
    # A smaller p-value would be printed as 0.0000.
    return rounded(p_value, ".4f", ALPHA) if p_value >= 0.00005 else "<0.0001"


def _show_slices(found: Contrast) -> None:
    if not found.slices:
        return
    typer.echo(
        f"{title_of(found.task)} by category (not tested, because with many categories some differ "
        "by chance)"
    )
    rows = [
        {
            "slice": piece.name,
            "examples": piece.examples,
            "difference": f"{piece.difference * 100:+.2f}",
            "95 % interval": _interval(piece.interval),
        }
        for piece in found.slices
    ]
    print_table(rows, list(rows[0]), "")


def _show_flips(found: Contrast, count: int, names: Sequence[str]) -> None:
    for flip in (found.flips or ())[:count]:
        typer.echo(
            visible(f"{title_of(found.task)} {flip.split} {flip.id}: {_shortened(flip.text)}")
        )
        typer.echo(visible(f"  gold: {_shortened(flip.gold)}"))
        for name, right, counts in zip(
            names, (flip.one, flip.other), flip.answer_counts, strict=True
        ):
            seeds = f"right with {right} of {counted(len(found.seeds), 'seed')}"
            answers = [_shortened(answer) for answer in counts]
            if len(answers) > 1:
                numbers = (counted(number, "seed") for number in counts.values())
                answers = [" with ".join(pair) for pair in zip(answers, numbers, strict=True)]
            typer.echo(visible(f"  {name}: {', '.join(answers)}  ({seeds})"))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _facts(found: Contrast, examples: int) -> dict[str, Any]:
    return {
        "seeds": list(found.seeds),
        "scores": list(found.scores),
        "flags": list(map(list, found.flags)),
        "difference": found.difference,
        "interval": None if found.interval is None else asdict(found.interval),
        "test": found.test,
        "p_value": found.p_value,
        "corrected": found.corrected,
        "corrected_for": found.corrected_for,
        "is_shown": found.is_shown,
        "flipped": found.flipped,
        "examples": found.examples,
        "slices": [asdict(piece) for piece in found.slices],
        "flips": [asdict(flip) for flip in (found.flips or ())[:examples]],
        "reason": found.reason,
        "settings": {
            name: [each and each.value for each in pair] for name, pair in found.settings.items()
        },
    }


# The command `bench plan`.


@with_options()
def plan(
    one: System,
    other: System,
    *,
    chosen: Chosen,
    alpha: float = option(
        0.05, "Significance level: how often the test may find a difference by chance."
    ),
    power: float = option(0.8, "Probability of detecting a difference that exists."),
) -> None:
    """Estimate how many seeds are needed to detect the difference between two systems.

    The estimate uses the stored scores and predictions of both systems. It applies to the test of
    bench compare, which covers examples and seeds.
    """
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0 < value < 1:
            raise BenchError(f"--{name} must be between 0 and 1, but got {value:g}.")
    compared = []
    with chosen.open() as store:
        for rows in chosen.rows(store, (one, other)):
            board, entries, tasks = rows
            known = {task: known_cells(board, entries, task, store) for task in tasks}
            found = compare_seeds(board, entries, known, alpha=alpha, power=power)
            compared.append((rows, found))
    if chosen.as_json:
        print_json(
            [
                {
                    **board_facts(rows.board),
                    "systems": list(map(full_label, rows.entries)),
                    "alpha": alpha,
                    "power": power,
                    "tasks": {each.task: _power_facts(each) for each in found},
                }
                for rows, found in compared
            ]
        )
        return
    for rows, found in compared:
        columns = ("difference", "p-value", "seeds now", "seeds of each")
        _print_systems(rows, columns, map(_power_cells, found))
        for said in _reasons(found):
            typer.echo(visible(said))
        _tell_marks(heads(rows.entries), found)
    typer.echo(
        "seeds of each: the number of seeds per system with which bench compare detects this "
        f"difference with power {power:g} at alpha {alpha:g}, if the spreads of the stored runs "
        "are the true ones."
    )


def _reasons(found: Sequence[Comparison]) -> Iterator[str]:
    """Yield sentences about tasks without a number of seeds or without examples, one per reason."""
    missing = grouped((each.reason, title_of(each.task)) for each in found if each.reason)
    for reason, tasks in missing.items():
        names = "all tasks" if len(tasks) == len(found) > 1 else ", ".join(tasks)
        yield f"no number of seeds for {names}: {reason}."
    unread = grouped((each.unread, title_of(each.task)) for each in found if each.unread)
    for reason, tasks in unread.items():
        yield f"{', '.join(tasks)}: estimated from seeds alone, because {reason}"


def _power_cells(found: Comparison) -> tuple[str, ...]:
    one, other = found.values
    means = []
    spreads = found.spreads or (None, None)
    for values, spread, flags in zip(found.values, spreads, found.flags, strict=True):
        mean = marked(f"{fmean(values) * 100:.2f}", flags)
        means.append(mean if spread is None else f"{mean} ± {spread * 100:.2f}")
    return (
        title_of(found.task),
        *means,
        f"{found.difference * 100:+.2f}",
        "" if found.p_value is None else rounded(found.p_value, ".3f", ALPHA),
        f"{len(one)} and {len(other)}",
        "-" if found.needed is None else str(found.needed),
    )


def _power_facts(found: Comparison) -> dict[str, Any]:
    return {
        "values": [list(values) for values in found.values],
        "flags": list(map(list, found.flags)),
        "difference": found.difference,
        "spreads": list(found.spreads or ()),
        "p_value": found.p_value,
        "seeds_needed": found.needed,
        "reason": found.reason,
        "unread": found.unread,
    }
