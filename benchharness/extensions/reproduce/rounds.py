"""Draw stored runs, run their jobs again, and store a verdict on each run.

A round is the work of one `bench reproduce` command, which may be interrupted and called again:

    results/reproductions/ROUND/round.json       id of the round, and the keys of its runs
    results/reproductions/ROUND/archive.sqlite   the runs of an archive
    results/reproductions/ROUND/runs.sqlite      the repetitions; next to it their snapshots

ROUND is a digest of the options that select runs. If a round is interrupted, the same command
continues it: the drawn runs are the same, finished repetitions are used, and runs that have a
verdict of this round are skipped. The folder is deleted at the end of the round. The database of
the stored runs is only read.
"""

import json
import math
import random
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from benchharness.driver.drive import Watch, drive, unwatched
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule_missing
from benchharness.driver.start_checkpoints import with_needs
from benchharness.engines.process import ended_at_last
from benchharness.errors import BenchError, StoreError
from benchharness.extensions.reproduce.causes import Pair
from benchharness.extensions.reproduce.judge import judge
from benchharness.extensions.reproduce.replay import CannotRunError, Sources, placement_of
from benchharness.extensions.reproduce.rounding import digits_of, with_digits
from benchharness.extensions.reproduce.verdicts import WORDS, Verdict, Verdicts, identity
from benchharness.leaderboard.boards.board import select_entry_or_run
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store.archive import check_archive, read_archive
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import digest, whole_file
from benchharness.models.weights import file_digest
from benchharness.progress import job_name
from benchharness.stored import Within, find_rows, wanted_tasks
from benchharness.tasks.suites import find_suites


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options that select stored runs, and how to run their jobs again.

    Attributes:
        name: Key of a run or its first characters, name of a leaderboard entry, or path of an
            archive (.gz); None for all runs in the database.
        suites: Suites whose runs are selected; empty for all.
        tasks: Tasks whose runs are selected; empty for all.
        db: Path or SQLAlchemy URL of the database.
        sample: Share of the selected runs to draw, from 0 to 1; None for all.
        sample_seed: Seed of the draw.
        minutes: Time limit in minutes, after which no job is expected to run; None for no limit.
        jobs: Number of jobs that run at the same time.
        threads: Number of threads per process; None for the number of each stored run.
        data: Source of the rows, "hub", "mini" or a folder; None for the source of each run.
        checkpoints: Folders of checkpoints, for the runs whose weights have the same digest.
        trust_code: True if code of checkpoints and metrics may run.
    """

    name: str | None = None
    suites: Sequence[str] = ()
    tasks: Sequence[str] = ()
    db: str
    sample: float | None = None
    sample_seed: int = 0
    minutes: float | None = None
    jobs: int = 1
    threads: int | None = None
    data: str | None = None
    checkpoints: Sequence[str] = ()
    trust_code: bool = False

    @property
    def archive(self) -> Path | None:
        """Path of the archive; None if the runs are in the database."""
        is_file = self.name is not None and self.name.endswith(".gz")
        return Path(str(self.name)) if is_file else None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of running the job of one stored run again.

    Attributes:
        row: Stored run.
        name: Name of the run's job, for display.
        verdict: Verdict on the run; None if its job did not run or failed.
        state: "judged", "cannot run", "failed", or "left" if the time did not suffice.
        thing: Keyword for the reason, such as "weights" or "time"; empty if there is a verdict.
        reason: Reason why there is no verdict; empty if there is a verdict.
    """

    row: RunRow
    name: str
    verdict: Verdict | None = None
    state: str = "judged"
    thing: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """Outcomes of a round.

    Attributes:
        outcomes: One outcome per drawn run, in the order of the stored runs.
        of: Number of runs from which the sample was drawn.
        is_over: False if runs are left, with which the same command would continue the round.
        file: Path of the file with the verdicts.
    """

    outcomes: tuple[Outcome, ...]
    of: int
    is_over: bool
    file: Path


def read_share(text: str) -> float:
    """Parse the value of `--sample`, such as "5%"; return the share, above 0 and up to 1.

    Raises:
        BenchError: The text is not a percentage above 0 and up to 100.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", text.strip())
    share = float(found[1]) / 100 if found else 0.0
    if not 0 < share <= 1:
        raise BenchError(f"--sample is {text!r}: expected a share of the runs, such as 5%.")
    return share


def reproduce(
    wanted: Wanted,
    watch: Watch = unwatched,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> Report:
    """Run stored jobs again, and store a verdict on each.

    Args:
        wanted: Options that select the runs, and how to run their jobs again.
        watch: Function that creates the watcher, which shows the progress of the jobs.
        tell: Function that is called with each outcome as soon as it is known.

    Raises:
        BenchError: No finished run matches, or another process is running the same `bench
            reproduce`.
        DataError: The archive is damaged.
        StoreError: The database cannot be read, or the verdicts cannot be written.
    """
    count = 0 if wanted.archive is None else check_archive(wanted.archive)
    with _round_of(wanted) as (folder, here), _source(wanted, folder, here, count) as source:
        rows = _matching(source, wanted)
        facts = _begun(folder / "round.json", rows, wanted)
        keys = [key for key in facts["keys"] if key in {row.key for row in rows}]
        run = _Round(
            wanted=wanted,
            id=facts["id"],
            source=source,
            verdicts=Verdicts(here),
            folder=folder,
            tell=tell,
            rows={row.key: row for row in source.runs_with(keys)},
        )
        run.go(keys, watch)
        is_over = all(each.state != "left" for each in run.outcomes.values())
        report = Report(
            outcomes=tuple(run.outcomes[key] for key in keys),
            of=len(rows),
            is_over=is_over,
            file=run.verdicts.file.path,
        )
        if is_over:
            shutil.rmtree(folder, ignore_errors=True)
    return report


@contextmanager
def _round_of(wanted: Wanted) -> Iterator[tuple[Path, Store]]:
    """Context manager that locks the folder of a round, and yields the folder and the user's store.

    The folder is created if it is missing. The store is the one at `wanted.db`.
    """
    parts: list[Any] = [wanted.name, [*wanted.suites], [*wanted.tasks], wanted.sample]
    parts.append(wanted.sample_seed)
    if wanted.archive is not None:
        parts.append(file_digest(wanted.archive))
    with open_store(wanted.db, create=wanted.archive is not None) as here:
        root = here.kept_folder.parent / "reproductions"
        folder = root / digest([here.place_digest, *parts])[:16]
        lock = FileLock(folder.with_suffix(".lock"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout as error:
            raise BenchError(
                "another process is running the same `bench reproduce`: wait for its end."
            ) from error
        except OSError as error:
            raise StoreError(
                f"{folder} cannot be written: {error.strerror or error}. The repetitions need a "
                "folder next to the database."
            ) from error
        try:
            folder.mkdir(parents=True, exist_ok=True)  # another round may have just deleted it
            yield folder, here
        finally:
            lock.release()


@contextmanager
def _source(wanted: Wanted, folder: Path, here: Store, count: int) -> Iterator[Store]:
    """Context manager that yields the store of the runs that are reproduced.

    The runs of an archive are copied into a store in the folder of the round.

    Args:
        wanted: Options that select the runs.
        folder: Folder of the round.
        here: User's store, which is yielded if the runs are not in an archive.
        count: Number of runs in the archive, whose digests were checked before.
    """
    if wanted.archive is None:
        yield here
        return
    with open_store(folder / "archive.sqlite") as store:
        # After a kill the store may have some of the runs, which are then skipped.
        if store.attempt_count() < count:
            store.add_stored(read_archive(wanted.archive), are_checked=True)
        yield store


def _matching(source: Store, wanted: Wanted) -> list[RunRow]:
    """Return the finished runs that match the options; raise BenchError if there is none."""
    suites = {suite.name for name in wanted.suites for suite in find_suites(name)}
    tasks = set(wanted_tasks(source, wanted.suites, wanted.tasks)) if wanted.tasks else None
    name = wanted.name
    if name is None or wanted.archive is not None:
        rows = source.runs(suite=suites or None, task=tasks)
    elif re.fullmatch("[0-9a-f]{4,64}", name) and (found := source.runs(key=name)):
        rows = found
        if len(found) > 1:
            source.attempts(name)  # raises the error for an ambiguous key
    else:
        within = Within(suites=wanted.suites, tasks=wanted.tasks)
        boards = find_rows(source, [name], within, select=select_entry_or_run, paths=True)
        keys = {
            run.key: None
            for each in boards
            for task in each.tasks
            for run in each.entries[0].cells[task].runs
        }
        rows = source.runs_with(keys)
    finished = [row for row in rows if row.status == "finished"]
    if not finished:
        what = f": {rows[0].error}" if rows else ""
        raise BenchError(f"no finished run matches{what}. `bench show runs` lists the stored runs.")
    return finished


def _begun(file: Path, rows: Sequence[RunRow], wanted: Wanted) -> dict[str, Any]:
    """Return the id of a round and the keys of its runs ("id" and "keys").

    They are read from `file` if an interrupted command wrote it. Otherwise the runs are drawn from
    `rows`, and the file is written.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict) and {"id", "keys"} <= found.keys():
            return found
    except (OSError, ValueError):  # a new round
        pass
    keys = [row.key for row in rows]
    if wanted.sample is not None:
        # Sorting makes the draw independent of the order in which the runs were stored.
        count = math.ceil(wanted.sample * len(keys))
        drawn = random.Random(wanted.sample_seed).sample(sorted(keys), count)  # noqa: S311
        keys = [key for key in keys if key in set(drawn)]
    facts = {"id": uuid.uuid4().hex, "keys": keys}
    with whole_file(file) as written:
        written.write(json.dumps(facts).encode())
    return facts


_OF_ROW = ("weights", "fingerprints", "recipe_digest", "precision", "kind")
"""Fields that are equal in all runs that differ only in the seed."""


@dataclass(kw_only=True)
class _Round:
    """State of a round.

    Attributes:
        wanted: Options of the command.
        id: Id of the round, which is part of its verdicts.
        source: Store with the stored runs.
        verdicts: File to which the verdicts are written.
        folder: Folder of the round.
        tell: Function that is called with each outcome.
        rows: Drawn runs, keyed by the key of the run.
        outcomes: Outcomes so far, keyed by the key of the run.
    """

    wanted: Wanted
    id: str
    source: Store
    verdicts: Verdicts
    folder: Path
    tell: Callable[[Outcome], None]
    rows: Mapping[str, RunRow]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _known: dict[str, Result] = field(default_factory=dict)  # without predictions
    _jobs: dict[str, tuple[Job, ...]] = field(default_factory=dict)
    _of_task: dict[str, list[RunRow]] = field(default_factory=dict)  # finished stored runs
    _seconds: tuple[float, float] = (0.0, 0.0)  # of the stored runs and of their repetitions

    def __post_init__(self) -> None:
        wanted = self.wanted
        self._sources = Sources(
            is_archive=wanted.archive is not None,
            data=wanted.data,
            checkpoints=wanted.checkpoints,
            trust_code=wanted.trust_code,
        )
        self._until = math.inf
        if wanted.minutes is not None:
            self._until = time.monotonic() + 60 * wanted.minutes

    @property
    def db(self) -> str:
        """Path of the database of the repetitions."""
        return str(self.folder / "runs.sqlite")

    def go(self, keys: Sequence[str], watch: Watch) -> None:
        """Run the jobs of stored runs again, and fill `outcomes`.

        Args:
            keys: Keys of the runs.
            watch: Function that creates the watcher, which shows the progress of the jobs.
        """
        for verdict in self.verdicts.all(set(keys)):
            if verdict.round == self.id:
                self._end(verdict.key, verdict=verdict)
        left = [key for key in keys if key not in self.outcomes and self._can_run(key)]
        # Jobs with the same numbers of processes and threads run together.
        places: dict[str, list[str]] = {}
        for key in left:
            places.setdefault(digest(self._machine(key)), []).append(key)
        with ended_at_last():
            for some in places.values():
                self._run(some, watch)
        if Path(self.db).exists():
            # Delete the record of the metric code that the user permitted for this command.
            with open_store(self.db) as store:
                store.forget_named_code()

    def _can_run(self, key: str) -> bool:
        """Prepare the job of a run and the jobs that it needs.

        If one of the jobs cannot run, record the outcome of the run and return False.
        """
        stored = self._stored(key)
        try:
            needed = [self._stored(job.key).job for job in with_needs(self.source, stored.job)]
            jobs = tuple(self._sources.prepared(job) for job in needed)
        except CannotRunError as error:
            self._end(key, state="cannot run", thing=error.thing, reason=str(error))
            return False
        except BenchError as error:
            words = f"a run from which it starts or learns is missing: {error}"
            self._end(key, state="cannot run", thing="start", reason=words)
            return False
        self._jobs[key] = jobs
        return True

    def _stored(self, key: str) -> Result:
        """Return a stored run without its scores, predictions and curve."""
        if key not in self._known:
            found = next(self.source.origins([key]), None)
            if found is None:
                raise BenchError(f"the run {key[:12]} is missing or did not finish.")
            self._known[key] = found
        return self._known[key]

    def _whole(self, key: str) -> Result:
        found = self.source.result(key)
        assert isinstance(found, Result), "only finished runs are drawn"
        return found

    def _machine(self, key: str) -> dict[str, Any]:
        told = self._stored(key).provenance
        machine = told.get("machine") if isinstance(told, dict) else None
        known = machine if isinstance(machine, dict) else {}
        return {name: known.get(name) for name in ("device", "threads", "processes")}

    def _run(self, keys: Sequence[str], watch: Watch) -> None:
        """Run the jobs of runs that need the same device, processes and threads, and judge them.

        With a time limit, the jobs run in portions that are expected to end in time.
        """
        wanted, left = self.wanted, list(keys)
        try:
            placement = placement_of(self._machine(keys[0]), wanted.jobs, wanted.threads)
        except BenchError as error:  # for example too few GPUs
            for key in keys:
                self._end(key, state="cannot run", thing="machine", reason=str(error))
            return
        options = RunOptions(db=self.db, trust_remote_code=wanted.trust_code)
        while left:
            portion = self._portion(left)
            if not portion:
                for key in left:
                    self._end(key, state="left", thing="time", reason="the time did not suffice.")
                return
            jobs = {job.key: job for key in portion for job in self._jobs[key]}
            plan = Plan(jobs=tuple(jobs.values()), rows={})
            todo = schedule_missing(plan, placement.slots, options)
            with drive(todo, placement, options, watch, self._until) as driven:
                failed = {o.job.key: o for o in driven.outcomes if isinstance(o, Failure)}
                for key in portion:
                    self._close(key, driven.store, failed)
            left = left[len(portion) :]

    def _portion(self, left: Sequence[str]) -> list[str]:
        """Return the keys of the next runs whose jobs are expected to end within the time limit.

        The expected duration of a job is the duration of the stored run, times the mean ratio of
        new to stored durations so far. The first portion is a single run, because no ratio has been
        measured yet.
        """
        if self._until == math.inf:
            return list(left)
        then, now = self._seconds
        ratio = now / then if then else 1.0
        room, portion = (self._until - time.monotonic()) * self.wanted.jobs, list[str]()
        done = self._finished([job.key for key in left for job in self._jobs[key]])
        for key in left:
            jobs = self._jobs[key]
            room -= ratio * sum(
                self._stored(job.key).cost.seconds for job in jobs if job.key not in done
            )
            if room < 0:
                break
            portion.append(key)
            if not then:
                break
        return portion

    def _finished(self, keys: Sequence[str]) -> set[str]:
        """Return the keys of jobs that an interrupted command has run again already."""
        if not Path(self.db).exists():
            return set()
        with open_store(self.db) as store:
            return store.finished_keys(keys)

    def _close(self, key: str, repetitions: Store, failed: Mapping[str, Failure]) -> None:
        """Judge the repetition of a run, or record why there is none."""
        job, keys = self._jobs[key][-1], [job.key for job in self._jobs[key]]
        there = sorted(repetitions.finished_keys(keys))
        if key not in there:
            reasons = [failed[each].error for each in keys if each in failed]
            if reasons:
                self._end(key, state="failed", thing="failure", reason=reasons[-1])
            else:
                self._end(key, state="left", thing="time", reason="the time did not suffice.")
            return
        results = (each for each in repetitions.results(there) if isinstance(each, Result))
        found = {each.job.key: each for each in results}
        result, row = found[key], self.rows[key]
        then, now = self._stored(key).cost.seconds, result.cost.seconds
        self._seconds = self._seconds[0] + then, self._seconds[1] + now
        others = self._others(row)
        try:
            stored = replace(self._whole(key), job=job)
            pair = Pair(
                stored=stored,
                found=with_digits(result, digits_of(stored.provenance)),
                rows=self._sources.rows(job),
                siblings=(self._whole(each.key) for each in others),
                upstream=[*self._upstream(job, found)],
            )
            verdict = judge(pair, others, round_id=self.id, run=identity(row))
        except StoreError as error:
            self._end(key, state="cannot run", thing="stored run", reason=str(error))
            return
        self.verdicts.add(verdict)
        self._end(key, verdict=verdict)

    def _others(self, row: RunRow) -> list[RunRow]:
        """Return the finished stored runs that differ from a run only in their seed."""
        if row.task not in self._of_task:
            every = self.source.runs(task=row.task)
            self._of_task[row.task] = [each for each in every if each.status == "finished"]
        known = [getattr(row, name) for name in _OF_ROW]
        return [
            each
            for each in self._of_task[row.task]
            if each.seed != row.seed and [getattr(each, name) for name in _OF_ROW] == known
        ]

    def _upstream(self, job: Job, found: Mapping[str, Result]) -> Iterator[str]:
        for key in job.needs:
            again, stored = found.get(key), self._whole(key)
            if again is None or [e.predictions for e in again.evaluations] == [
                e.predictions for e in stored.evaluations
            ]:
                continue
            words = "from which it starts" if key == job.start_from else "which teaches it"
            yield f"run {key[:12]} ({job_name(stored.job)}), {words}, has other predictions too"

    def _end(
        self,
        key: str,
        *,
        verdict: Verdict | None = None,
        state: str = "judged",
        thing: str = "",
        reason: str = "",
    ) -> None:
        row = self.rows[key]
        name = job_name(self._stored(key).job)
        outcome = Outcome(
            row=row, name=name, verdict=verdict, state=state, thing=thing, reason=reason
        )
        self.outcomes[key] = outcome
        self.tell(outcome)


def words_of(outcome: Outcome) -> str:
    """Return an outcome as a sentence, with the first thing that differs or the reason."""
    verdict = outcome.verdict
    if verdict is None:
        begin = "not run again" if outcome.state == "cannot run" else outcome.state
        return f"{begin} ({outcome.thing}): {outcome.reason}"
    more = f" ({verdict.sentences[0].rstrip('.')})" if verdict.sentences else ""
    return f"{WORDS[verdict.kind]}{more}."
