"""Check all contributions to a repository, or only the files that a pull request changes."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

from benchharness.errors import DataError
from benchharness.extensions.reproduce.verdicts import Verdict, read_verdicts
from benchharness.extensions.share.copies import copies
from benchharness.extensions.share.inspect import (
    Finding,
    Inspected,
    Measured,
    PublicRows,
    inspect,
)
from benchharness.extensions.share.repository import (
    Contribution,
    Repository,
    changed_places,
    contribution,
    contributions,
)
from benchharness.leaderboard.boards.published import published
from benchharness.leaderboard.text import counted, digest, grouped


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Result of a check of a repository.

    Attributes:
        files: Files that were checked.
        runs: Runs in the files that were checked.
        others: Runs in all other files of the repository.
        verdicts: Pairs (contributor, verdict of `bench reproduce` on a run), from all files of the
            repository.
        findings: Faults of the checked files, and facts about them that readers should know.
        notes: Sentences that state how much was checked, and how.
    """

    files: tuple[Contribution, ...]
    runs: tuple[Inspected, ...]
    others: tuple[Inspected, ...]
    verdicts: tuple[tuple[str, Verdict], ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Finding]:
        """Findings because of which the contribution cannot be accepted."""
        return [each for each in self.findings if each.is_fault]


def check_repository(
    repository: Repository, rows: PublicRows, since: str = "", author: str = ""
) -> Checked:
    """Check all contributions, or those that have changed.

    Args:
        repository: Repository to check.
        rows: Reader of the rows with public labels.
        since: Revision of git; only files that differ from it are checked. "" for all files.
        author: Contributor who proposes the changes, and may change only their own folder; "" to
            accept changes in any folder.

    Raises:
        BenchError: git is missing, or does not know the revision.
    """
    every = {each.place: each for each in contributions(repository)}
    findings = list[Finding]()
    chosen = list(every.values())
    if since:
        changed = [contribution(repository, each) for each in changed_places(repository, since)]
        findings += _misplaced(changed, author.lower())
        chosen = [each for each in changed if each.place in every]
    places = {each.place for each in chosen}
    runs, others, verdicts = list[Inspected](), list[Inspected](), list[tuple[str, Verdict]]()
    for each in every.values():
        found, said = list[Inspected](), list[Finding]()
        if each.fault:
            said = [Finding(place=each.place, kind="file", sentence=f"{each.fault}.")]
        elif each.is_archive:
            found, said = inspect(each, rows)
        else:
            try:
                verdicts += [(each.who, verdict) for verdict in read_verdicts(each.path)]
            except DataError as error:
                sentence = str(error).replace(str(each.path), "it")
                said = [Finding(place=each.place, kind="file", sentence=sentence)]
        if each.place in places:
            runs += found
            findings += said
        else:
            others += found
    findings += _repeated(runs, others)
    findings += _copied(runs, others)
    known = {
        verdict.run
        for who, verdict in verdicts
        if verdict.is_good and who not in {run.who for run in runs if run.job.key == verdict.key}
    }
    findings += _implausible(runs, others, known)
    notes = [f"checked: {counted(len(chosen), 'file')} with {counted(len(runs), 'run')}."]
    for how, some in grouped((run.how, run) for run in runs).items():
        notes.append(f"{counted(len(some), 'run')}: {how}.")
    return Checked(
        files=tuple(chosen),
        runs=tuple(runs),
        others=tuple(others),
        verdicts=tuple(verdicts),
        findings=tuple(findings),
        notes=tuple(notes),
    )


def with_sample(checked: Checked, found: Iterable[Finding], reproduced: Iterable[str]) -> Checked:
    """Return a check with the findings of a sample; a reproduced score counts as plausible.

    Args:
        checked: Result of the check without the sample.
        found: Findings about the runs that were drawn.
        reproduced: Keys of the drawn runs that were reproduced.
    """
    good = {key[:12] for key in reproduced}
    kept = [f for f in checked.findings if f.kind != "implausible" or f.run not in good]
    return replace(checked, findings=(*kept, *found))


def _misplaced(changed: Sequence[Contribution], author: str) -> Iterator[Finding]:
    for each in changed:
        if author and each.who != author:
            yield Finding(
                place=each.place,
                kind="folder",
                sentence=f"{author} may only change files in contributors/{author}: leave this "
                "file as it is, or ask a maintainer.",
            )


def _repeated(runs: Sequence[Inspected], others: Sequence[Inspected]) -> Iterator[Finding]:
    """Yield runs that the repository already has, and runs whose task is defined in two ways."""
    by_key = grouped((run.job.key, run) for run in (*runs, *others))
    definitions = grouped(
        (run.job.task, digest(run.job.definition)) for run in (*others, *runs) if run.job.definition
    )
    now = {run.place for run in runs}
    for run in runs:
        there = [each for each in by_key[run.job.key] if each is not run]
        same = [each for each in there if each.who == run.who or each.measured == run.measured]
        # If both files are checked now, only the later one is refused.
        first = [each.place for each in same if each.place not in now or each.place < run.place]
        if first:
            yield run.finding("copy", f"it is the same run as in {first[0]}: leave it out.")
        elif there and not same:
            yield run.finding(
                "copy",
                f"{there[0].who} has shared another run of the same job.",
                is_fault=False,
            )
        if len({*definitions.get(run.job.task, ())}) > 1:
            yield run.finding(
                "rows",
                f"the task {run.job.task} has a different definition in another archive: its "
                "labels or columns were changed.",
            )


def _copied(runs: Sequence[Inspected], others: Sequence[Inspected]) -> Iterator[Finding]:
    every = [*runs, *others]
    listed = [(run.who, run.sheets) for run in every]
    for found in copies(listed, range(len(runs))):
        run, source = every[found.place], every[found.source]
        # If both runs are checked now, the later one is the copy.
        both = found.source < len(runs)
        if both and (run.finished, run.place) < (source.finished, source.place):
            continue
        yield run.finding(
            "copy",
            f"{found.sentence} to those of the run {source.run} in {source.place}, "
            "which has another job: share predictions of your own run.",
        )


_ERRORS = 3.0
"""Number of standard errors by which a score may exceed the best published score."""

_POINTS, _SEEDS, _FEW = 0.05, 4.0, 3
"""A score may exceed the best score of at least 3 runs by other contributors with the same weights
by 5 points, or by 4 standard deviations of these scores if that is more."""


def _implausible(
    runs: Sequence[Inspected], others: Sequence[Inspected], reproduced: set[str]
) -> Iterator[Finding]:
    """Yield runs with a score far above published scores or the scores of other contributors.

    Runs in `reproduced` (digests as in `Inspected.identity`) are left out.
    """
    known = grouped(
        ((run.job.weights, s.task, s.split, s.fingerprint, s.name), (run, s.value))
        for run in (*runs, *others)
        for s in run.scores
    )
    for run in runs:
        if run.job.kind != "model" or run.identity in reproduced:
            continue
        for score in run.scores:
            place = (run.job.weights, score.task, score.split, score.fingerprint, score.name)
            peers = [value for other, value in known[place] if other.who != run.who]
            words = "" if run.job.data == "mini" else _beyond_published(score)
            if len(peers) >= _FEW:
                room = max(_POINTS * score.width, _SEEDS * stdev(peers))
                if score.value > max(peers) + room:
                    words = (
                        f"the best of {len(peers)} runs of the same weights by others has "
                        f"{100 * max(peers):.1f}"
                    )
            if words:
                yield run.finding(
                    "implausible",
                    f"{score.task} {score.name} {100 * score.value:.1f} is beyond what is "
                    f"plausible, because {words}: ask somebody to reproduce the run and to add "
                    "the verdict to their folder.",
                )
                break


def _beyond_published(score: Measured) -> str:
    """Return a clause with the best published score if `score` is far above it, else ""."""
    best = max(
        (
            cell.value / 100
            for row in published(score.task.partition("/")[0])
            for cell in row.of(score.task)
            if cell.scores == (score.name,)
        ),
        default=math.inf,
    )
    share = min(max(best, 0.0), 1.0)
    error = math.sqrt(max(share * (1 - share), 0.25 / score.rows) / score.rows)
    is_far = math.isfinite(best) and score.value > best + _ERRORS * error
    return f"the best published score is {100 * best:.1f}" if is_far else ""
