"""`bench reproduce`: run stored jobs again, and compare the results with the stored ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchharness.cli.chosen import opened
from benchharness.cli.options import (
    AsJson,
    Database,
    TrustCode,
    completed_by,
    declared,
    with_options,
)
from benchharness.cli.output import print_json, print_table, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.options import DATABASE, WHERE, option
from benchharness.errors import BenchError
from benchharness.extensions.reproduce.rounds import (
    Outcome,
    Report,
    Wanted,
    read_share,
    words_of,
)
from benchharness.extensions.reproduce.rounds import (
    reproduce as run_again,
)
from benchharness.extensions.reproduce.verdicts import (
    WORDS,
    Verdicts,
    by_run,
    read_verdicts,
    summary,
)
from benchharness.leaderboard.boards.cell import note_lines
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import counted, grouped, visible
from benchharness.progress import duration
from benchharness.stored import wanted_tasks
from benchharness.tasks.suites import distinct_title, find_suites

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="KEY|ROW|ARCHIVE",
        autocompletion=completed_by("stored_systems"),
        help="The first characters of a run's key, the name of a leaderboard entry, or an archive "
        "of `bench export --all` (.jsonl.gz). By default, all runs of the database.",
    ),
]

SOME_DIFFER, NOT_RUN = 1, 4
"""Exit codes if a run is different or its job failed, and if a run could not run again."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `bench reproduce`."""

    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: Annotated[tuple[str, ...], declared("task")] = ()
    db: Database = DATABASE
    sample: str | None = option(None, "Draw this share of the runs, such as 5%.", metavar="SHARE")
    sample_seed: int = option(0, "Seed of the draw.", metavar="N", least=0)
    minutes: float | None = option(
        None,
        "Time limit in minutes. A job that is expected to exceed it, by the time that earlier jobs "
        "took, is not started.",
        metavar="N",
        least=0,
    )
    jobs: int = option(1, "Number of jobs that run at once.", metavar="N", least=1, head=WHERE)
    threads: int | None = option(
        None,
        "Number of threads per process. By default, as many as the stored run had.",
        metavar="N",
        least=1,
        head=WHERE,
    )
    data: str | None = option(
        None,
        "Source of the rows, as in `bench run`; by default, the source of each stored run.",
        metavar="hub|DIR|mini",
        proposes=("hub", "mini"),
    )
    checkpoint: tuple[str, ...] = option(
        (),
        "Folder of a checkpoint, for the runs whose weights have its digest (repeatable).",
        metavar="DIR",
    )
    listed: bool = option(False, "List the stored verdicts, and run nothing.", flag="--list")
    merge: Path | None = option(
        None,
        "Add the verdicts in a file that `bench reproduce --list --json` wrote on another machine, "
        "and run nothing.",
        metavar="FILE",
    )
    trust_remote_code: TrustCode = False


@with_options()
def reproduce(name: Name = None, *, asked: Asked, as_json: AsJson = False) -> None:
    """Run stored jobs again with their stored settings, and compare predictions and scores.

    Each run gets a verdict: the same bits, the same answers, other answers but scores that differ
    no more than those of other seeds, or different, with the first thing that differs. Stored runs
    do not change. An interrupted command continues when it is called again. Nothing in an archive
    is executed: a run that needs a plugin or other code is skipped, unless you pass --plugin or
    --trust-remote-code.

    Exits with 1 if a run is different or its job fails, else with 4 if a run cannot run again.
    """
    if asked.listed or asked.merge:
        with opened(asked.db) as store:
            for verdict in read_verdicts(asked.merge) if asked.merge else ():
                Verdicts(store).add(verdict)
            _list(store, name, asked, as_json=as_json)
        return
    wanted = Wanted(
        name=name,
        suites=asked.suite,
        tasks=asked.task,
        db=asked.db,
        sample=None if asked.sample is None else read_share(asked.sample),
        sample_seed=asked.sample_seed,
        minutes=asked.minutes,
        jobs=asked.jobs,
        threads=asked.threads,
        data=asked.data,
        checkpoints=asked.checkpoint,
        trust_code=asked.trust_remote_code,
    )
    report = run_again(wanted, displayed, lambda each: None if as_json else _tell(each))
    if as_json:
        print_json(_to_json(report, wanted))
    else:
        for line in _sentences(report, wanted):
            typer.echo(visible(line))
    raise typer.Exit(_exit_code(report.outcomes))


def _tell(outcome: Outcome) -> None:
    typer.echo(visible(f"{outcome.row.key[:12]}  {outcome.name}: {words_of(outcome)}"))
    if outcome.verdict is None:
        return
    for sentence in outcome.verdict.sentences[1:]:
        typer.echo(visible(f"    also {sentence}"))
    for test in outcome.verdict.tests:
        typer.echo(visible(f"    {test['sentence']}"))
    flags = dict.fromkeys(flag for found in outcome.row.flags.values() for flag in found)
    for line in note_lines([(f"the stored run {outcome.row.key[:12]}", flags)]):
        typer.echo(visible(f"    {line}"))


def _sentences(report: Report, wanted: Wanted) -> Iterator[str]:
    """Yield sentences that summarize a round: its runs, the counts of verdicts, the next step."""
    outcomes = report.outcomes
    drawn = f"of {counted(report.of, 'run')}"
    if wanted.sample is not None:
        drawn += f", drawn with --sample-seed {wanted.sample_seed}"
    verdicts = grouped((WORDS[o.verdict.kind], o) for o in outcomes if o.verdict)
    others = grouped((_STATES[o.state], o) for o in outcomes if not o.verdict)
    shown = [f"{len(found)} {words}" for words, found in (*verdicts.items(), *others.items())]
    yield f"{len(outcomes)} {drawn}: {', '.join(shown)}."
    if left := [o for o in outcomes if o.state == "left"]:
        needs = duration(sum(o.row.seconds for o in left))
        yield (
            f"The same command continues with the {counted(len(left), 'run')} left, which took "
            f"{needs} when they were stored."
        )
    if verdicts:
        yield f"The verdicts are in {report.file}."


_STATES = {"cannot run": "could not run again", "failed": "failed", "left": "left"}


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    if any(o.state == "failed" or (o.verdict and not o.verdict.is_good) for o in outcomes):
        return SOME_DIFFER
    return NOT_RUN if any(o.state == "cannot run" for o in outcomes) else 0


def _to_json(report: Report, wanted: Wanted) -> dict[str, Any]:
    return {
        "runs": report.of,
        "sample": wanted.sample,
        "sample_seed": wanted.sample_seed,
        "is_over": report.is_over,
        "file": str(report.file),
        "outcomes": [
            {
                "key": each.row.key,
                "name": each.name,
                "state": each.state,
                "differs": each.verdict.differs if each.verdict else each.thing,
                "reason": each.reason,
                "flags": {task: list(found) for task, found in each.row.flags.items()},
                "verdict": each.verdict and each.verdict.to_json(),
            }
            for each in report.outcomes
        ],
    }


def _list(store: Store, name: str | None, asked: Asked, *, as_json: bool) -> None:
    """Print the stored verdicts on the selected runs, one line per run, and count the others."""
    suites = {suite.name for each in asked.suite for suite in find_suites(each)}
    tasks = set(wanted_tasks(store, asked.suite, asked.task)) if asked.task else None
    rows = store.runs(suite=suites or None, task=tasks, key=name)
    if name is not None and not rows:
        raise BenchError(f"no stored run has a key that begins with {name!r}.")
    every = Verdicts(store).all()
    known = by_run(every, rows)
    by_key = {row.key: row for row in rows}
    if as_json:
        print_json([each.to_json() for found in known.values() for each in found])
        return
    lines = [
        {
            "key": key[:12],
            "model": by_key[key].model,
            "task": distinct_title(by_key[key].task),
            "seed": by_key[key].seed,
            "verdict": summary(found),
        }
        for key, found in known.items()
    ]
    print_table(lines, ("key", "model", "task", "seed", "verdict"), "no run was reproduced yet.")
    if others := len(every) - sum(map(len, known.values())):
        tell_notes([f"{counted(others, 'more verdict')} on runs that are not listed here."])
