"""Operations on many stored runs: adding, merging, deleting, iterating, and checking."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from heapq import merge
from itertools import chain
from typing import NamedTuple

from sqlalchemy import Connection, Engine, delete, exists, func, insert, select, text, update
from sqlalchemy.exc import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    StatementError,
)

from benchharness.errors import StoreError
from benchharness.leaderboard.store import (
    FINISHED,
    HEADLINES,
    PREDICTIONS,
    RUNS,
    SCHEMA,
    SCORES,
    DamagedError,
)
from benchharness.leaderboard.store.database import name_of, reading, writing
from benchharness.leaderboard.store.numbers import Known, contradictions, note_rows
from benchharness.leaderboard.store.record import (
    KEYS_AT_ONCE,
    Run,
    Thing,
    headline_columns,
    not_as_written,
    portions,
    read_runs,
    run_to_stored,
    shared_stored,
)
from benchharness.leaderboard.text import plain

_UNFIT = (IntegrityError, InterfaceError, ProgrammingError)
"""Exceptions that databases raise for a row that violates the schema."""


class Merged(NamedTuple):
    """Summary of a merge, which adds the runs of another store.

    Attributes:
        added: Number of added runs. A run is one attempt at a job.
        shared: Keys of the jobs that had attempts in this store before, and got further ones.
    """

    added: int
    shared: tuple[str, ...]


def append_run(db: Connection, run: Run) -> int:
    """Store a run as another attempt at its job; return the number of the attempt."""
    _append(db, [run], _attempts_at(db, [run.job_key]))
    return run.attempt


def append_missing(db: Connection, run: Run, *, force: bool = False) -> bool:
    """Store a run unless it is already stored or its job has a result; return whether it was added.

    Args:
        db: Connection in a write transaction.
        run: Run to store.
        force: Store the run even if its job has a result, unless this run itself is stored already.
    """
    there = _attempts_at(db, [run.job_key])
    tried = there.get(run.job_key, [])
    if any(one.digest == run.digest or (one.status == FINISHED and not force) for one in tried):
        return False
    _append(db, [run], there)
    return True


PIECE_SECONDS, GAP_SECONDS = 2.0, 0.1
"""Approximate duration of each transaction of a bulk operation, and duration of the pause after
each transaction, in seconds. Other processes can write during the pause, because on SQLite a
waiting process tries ten times per second.
"""


def merge_runs(engine: Engine, runs: Iterable[Run]) -> Merged:
    """Store the runs of another store; skip attempts that are already stored.

    If both stores have attempts at a job, all attempts are renumbered by the time at which they
    ended, and lists show the newest result. Many runs are stored in several transactions. The store
    is consistent after each of them, so that an interrupted merge can be repeated.

    Raises:
        StoreError: If a run cannot be stored. The message contains the number of runs that were
            stored before.
    """
    merging = _Merging()
    added = in_pieces(engine, portions(runs), merging.take, "stored")
    return Merged(added, tuple(merging.shared))


def in_pieces(
    engine: Engine,
    left: Iterator[Sequence[Thing]],
    take: Callable[[Connection, Sequence[Thing]], int],
    done: str,
) -> int:
    """Process many items in several transactions, between which other processes may write.

    Args:
        engine: Engine for the database.
        left: Iterator over portions of the items.
        take: Function that processes one portion. It gets the connection of the current transaction
            and the portion, and returns the number of runs that it changed.
        done: Participle for the error message, e.g. "stored" or "deleted".

    Returns:
        Sum of the numbers that `take` returned.

    Raises:
        StoreError: If `take` fails. The message contains the sum for the earlier transactions.
    """
    portion, count = next(left, ()), 0
    while portion:
        try:
            with writing(engine) as db:
                until = time.monotonic() + PIECE_SECONDS
                taken = take(db, portion)
                while (portion := next(left, ())) and time.monotonic() < until:
                    taken += take(db, portion)
        except StoreError as error:
            if not count:
                raise
            rest = f"{count} earlier runs are {done}. Fix the problem and repeat the command."
            raise type(error)(*error.args, rest) from error
        count += taken
        if portion:
            time.sleep(GAP_SECONDS)
    return count


class _Merging:
    """State of a merge, which stores runs portion by portion.

    `shared` contains the keys of jobs with added runs that had attempts before the merge. `_ours`
    contains the ids of the runs that the merge has added. `_met` counts the runs of the other store
    that were already stored, keyed by job key and digest.
    """

    def __init__(self) -> None:
        self.shared = dict[str, None]()
        self._ours, self._met = set[int](), Counter[tuple[str, str]]()

    def take(self, db: Connection, portion: Sequence[Run]) -> int:
        """Store those runs of a portion that are not stored yet; return their number."""
        there = _attempts_at(db, [run.job_key for run in portion])
        # `there` includes runs that earlier portions added, because new attempts get the next
        # numbers. Only runs that were stored before the merge can equal a run of the other store.
        before = {key: [a for a in tried if a.id not in self._ours] for key, tried in there.items()}
        known = Counter((key, one.digest) for key, tried in before.items() for one in tried)
        names = _names(db, portion, known, self._ours)
        new = [
            run
            for run, name in zip(portion, names, strict=True)
            if not _is_known(name, known, self._met)
        ]
        _append_or_name(db, new, there)
        self._ours.update(run.id for run in new)
        for key in dict.fromkeys(run.job_key for run in new if before.get(run.job_key)):
            self.shared[key] = None
            _order_attempts(db, key, self._ours)
        return len(new)


class _Attempt(NamedTuple):
    """Attempt that is already stored."""

    id: int
    number: int
    digest: str
    status: str


def _attempts_at(db: Connection, keys: Iterable[str]) -> dict[str, list[_Attempt]]:
    """Return the stored attempts at these jobs, keyed by job key."""
    columns = (RUNS.c.job_key, RUNS.c.id, RUNS.c.attempt, RUNS.c.digest, RUNS.c.status)
    found = defaultdict[str, list[_Attempt]](list)
    query = select(*columns).where(RUNS.c.job_key.in_(sorted(set(keys))))
    for row in db.execute(query):
        found[row.job_key].append(_Attempt(row.id, row.attempt, row.digest, row.status))
    return found


def _names(
    db: Connection, runs: Sequence[Run], known: Counter[tuple[str, str]], ours: Set[int]
) -> Iterator[tuple[str, str]]:
    """Yield the job key and the digest of each run, for finding it among the stored runs.

    If a run equals a stored run except that its paths were shortened, the digest of the stored run
    is used. `ours` contains the ids of runs that this merge has added, which are not compared.
    """
    here: dict[str, str] = {}
    odd = {run.job_key for run in runs if (run.job_key, run.digest) not in known}
    odd &= {key for key, _ in known}
    if odd:
        found = read_runs(db, RUNS.c.job_key.in_(sorted(odd)))
        for run in (each for each in found if each.id not in ours):
            with suppress(StoreError):  # a damaged run does not equal any other
                here[shared_stored(run_to_stored(run)).digest] = run.digest
    for run in runs:
        alike = shared_stored(run_to_stored(run)).digest if run.job_key in odd else ""
        yield run.job_key, here.get(alike, run.digest)


def _is_known(
    name: tuple[str, str], known: Counter[tuple[str, str]], met: Counter[tuple[str, str]]
) -> bool:
    """Return whether a run is already stored.

    If the other store contains a run twice, it must be stored here twice too. Therefore `met`
    counts how often equal runs of the other store have occurred so far.
    """
    if name not in known:
        return False
    met[name] += 1
    return met[name] <= known[name]


def _append_or_name(
    db: Connection, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]
) -> None:
    """Store the runs of another store; raise StoreError if a run violates the schema."""
    names = [(run.job_key, run.attempt) for run in runs]
    try:
        # Use a savepoint, because after an error PostgreSQL rejects the rest of a transaction.
        with db.begin_nested():
            _append(db, runs, there)
    except (StatementError, OverflowError) as error:
        if isinstance(error, DatabaseError) and not isinstance(error, _UNFIT):
            raise  # the database is locked, full or damaged
        if len(runs) > 1:
            # Store the runs one by one to find the one that violates the schema. First restore the
            # other store's attempt numbers, which `_append` has changed, because the error message
            # contains them.
            for run, (key, attempt) in zip(runs, names, strict=True):
                run.attempt = attempt
                _append_or_name(db, [run], _attempts_at(db, [key]))
            return
        # The digest is correct, but the run violates the schema. So no store has written it.
        raise not_as_written(*names[0]) from error


def _append(db: Connection, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]) -> None:
    """Store runs with the next attempt numbers of their jobs, and update the headlines."""
    if not runs:
        return
    numbers = {key: max(one.number for one in tried) for key, tried in there.items() if tried}
    finished = {key for key, tried in there.items() if any(a.status == FINISHED for a in tried)}
    shown: dict[str, Run] = {}
    for run in runs:
        key = run.job_key
        run.attempt = numbers[key] = numbers.get(key, 0) + 1
        # Lists still show a result if a newer attempt has failed.
        if run.status == FINISHED or key not in finished:
            shown[key] = run
        if run.status == FINISHED:
            finished.add(key)
    _insert(db, runs)
    # Delete the old headlines first, because a job may have only one headline.
    if replaced := [key for key in shown if there.get(key)]:
        db.execute(delete(HEADLINES).where(HEADLINES.c.job_key.in_(replaced)))
    if shown:
        db.execute(insert(HEADLINES), [headline_columns(run) for run in shown.values()])


def _insert(db: Connection, runs: Sequence[Run]) -> None:
    """Insert runs with their scores and predictions, and set their ids."""
    for run, number in zip(runs, _free_numbers(db, len(runs)), strict=True):
        run.id = number
        for row in (*run.scores, *run.predictions):
            row.run_id = number
    # Insert the runs first, because scores and predictions refer to them.
    for table, rows in (
        (RUNS, runs),
        (SCORES, [score for run in runs for score in run.scores]),
        (PREDICTIONS, [split for run in runs for split in run.predictions]),
    ):
        # The database sets the ids of scores and predictions.
        names = [column.name for column in table.c if column.name != "id" or table is RUNS]
        if rows:
            values = [{name: vars(row)[name] for name in names} for row in rows]
            db.execute(insert(table), values)


def _free_numbers(db: Connection, count: int) -> Sequence[int]:
    """Return ids for `count` new runs, as the database would assign them.

    If the database assigned the ids, one statement per run would be needed. The caller must hold
    the write lock.
    """
    if db.dialect.name == "sqlite":
        last = db.scalar(select(func.max(RUNS.c.id))) or 0
        return range(last + 1, last + 1 + count)
    # Take the ids from the table's own sequence, which then continues after them.
    numbers = func.nextval(func.pg_get_serial_sequence("runs", "id"))
    series = func.generate_series(1, count).table_valued("number")
    return db.scalars(select(numbers).select_from(series)).all()


def _order_attempts(db: Connection, key: str, theirs: Set[int]) -> None:
    """Renumber the attempts at a job by the time at which they ended.

    The order of attempts from the same store does not change, even if their times do not increase,
    because a clock may have been set back. `theirs` are the ids of the other store's runs.
    """
    columns = (RUNS.c.id, RUNS.c.attempt, RUNS.c.finished, RUNS.c.status)
    query = select(*columns).where(RUNS.c.job_key == key).order_by(RUNS.c.attempt)
    found = db.execute(query).all()
    sides = ([r for r in found if r.id not in theirs], [r for r in found if r.id in theirs])
    # `merge` compares only the first remaining rows of both lists, so each list keeps its order
    # even if its times do not increase.
    ordered = list(merge(*sides, key=lambda row: row.finished))
    if ordered == found:
        return
    # Assign negative numbers first, because two attempts may never have the same number.
    for sign in (-1, 1):
        for attempt, number in enumerate([row.id for row in ordered], start=1):
            statement = update(RUNS).where(RUNS.c.id == number).values(attempt=sign * attempt)
            db.execute(statement)
    _list_newest(db, key)


def delete_attempts(db: Connection, keys: Sequence[str], digests: Set[str] | None) -> int:
    """Delete attempts at some jobs; return the number of jobs with a deleted attempt.

    Args:
        db: Connection in a write transaction.
        keys: Keys of the jobs.
        digests: Digests of the attempts to delete; None to delete all attempts at these jobs.
    """
    there = _attempts_at(db, keys)
    gone = {
        key: [one.id for one in tried if digests is None or one.digest in digests]
        for key, tried in there.items()
    }
    for ids in portions(chain.from_iterable(gone.values()), KEYS_AT_ONCE):
        db.execute(delete(RUNS).where(RUNS.c.id.in_(ids)))
    for key, ids in gone.items():
        if 0 < len(ids) < len(there[key]):
            _list_newest(db, key)
    return sum(map(bool, gone.values()))


def _list_newest(db: Connection, key: str) -> None:
    """Update a job's headline to its newest result or, without a result, its newest attempt."""
    tried = sorted(_attempts_at(db, [key])[key], key=lambda one: one.number)
    listed = [one.id for one in tried if one.status == FINISHED] or [tried[-1].id]
    if not (shown := read_runs(db, RUNS.c.id == listed[-1])):
        raise DamagedError(f"run {listed[-1]} is in an index but not in its table")
    db.execute(delete(HEADLINES).where(HEADLINES.c.job_key == key))
    db.execute(insert(HEADLINES), headline_columns(shown[0]))


# Iteration over the complete runs of a store, in portions.


def run_ids(db: Connection, keys: Collection[str] | None = None) -> Sequence[int]:
    """Return the ids (in the table `runs`) of all attempts at the jobs with these keys.

    Jobs are sorted by their first attempt, and all attempts at a job are together, oldest first.
    `keys=None` selects all jobs.
    """
    first = func.min(RUNS.c.id).over(partition_by=RUNS.c.job_key)
    query = select(RUNS.c.id, RUNS.c.job_key).order_by(first, RUNS.c.attempt)
    found = db.execute(query).all()
    return [row.id for row in found if keys is None or row.job_key in keys]


def whole_runs(engine: Engine, ids: Iterable[int]) -> Iterator[tuple[int, Run | StoreError]]:
    """Yield pairs of an id and the run with this id.

    If a run cannot be read, the pair contains an error (StoreError) instead of the run.

    Each transaction reads at most a hundred runs, so that other processes can write between two
    transactions. Runs that are deleted during the iteration are skipped.
    """
    for portion in portions(ids):
        found: dict[int, Run | StoreError]
        try:
            found = {**_read(engine, portion)}
        except StoreError:
            # One damaged run makes the query fail for all, so read the runs one by one.
            found = {n: run for number in portion for n, run in _read_alone(engine, number).items()}
        if lost := set(portion) - found.keys():
            with reading(engine) as db:
                found |= dict.fromkeys(lost.intersection(run_ids(db)), _missing(engine))
        yield from ((number, found[number]) for number in portion if number in found)


def _read(engine: Engine, ids: Sequence[int]) -> dict[int, Run]:
    with reading(engine) as db:
        return {run.id: run for run in read_runs(db, RUNS.c.id.in_(ids))}


def _read_alone(engine: Engine, number: int) -> Mapping[int, Run | StoreError]:
    try:
        return _read(engine, [number])
    except StoreError as error:
        return {number: error}


def _missing(engine: Engine) -> StoreError:
    return StoreError(
        f"the leaderboard {name_of(engine)} is damaged (a run is in an index but not in its table)."
    )


# Checks of a store: its file, its schema, rows without a run, and changed runs.


def faults_in(engine: Engine) -> Iterator[str]:
    """Check the complete store and yield a message for each problem found."""
    for find in (_file_faults, _schema_faults, _orphans, _lists):
        yield from _said(engine, find)
    yield from _runs(engine)


def _said(engine: Engine, find: Callable[[Connection], Iterable[str]]) -> Iterator[str]:
    """Yield the messages that `find` yields, or the error message if `find` fails."""
    try:
        with reading(engine) as db:
            found = list(find(db))
    except StoreError as error:
        found = [str(error)]
    yield from found


def _file_faults(db: Connection) -> Iterator[str]:
    """Run SQLite's integrity check and yield a message per problem; do nothing for a server."""
    if db.dialect.name != "sqlite":
        return
    for (line,) in db.execute(text("PRAGMA integrity_check")):
        if line != "ok":
            yield f"SQLite reports: {' '.join(str(line).split())}"


def _schema_faults(db: Connection) -> Iterator[str]:
    from alembic import autogenerate, migration  # noqa: PLC0415  (0.2 s)

    context = migration.MigrationContext.configure(db)
    for change in autogenerate.compare_metadata(context, SCHEMA):
        yield f"the schema is wrong and needs this change: {_named(change)}"


def _named(change: object) -> str:
    """Describe the Alembic operation that would repair the schema."""
    # Alembic describes changes of a column as a list, and all other changes as a tuple.
    operation, *what = change if isinstance(change, tuple) else ("change", change)
    things = [getattr(thing, "name", thing) for thing in what if thing is not None]
    return " ".join([str(operation), *map(str, things)])


def _orphans(db: Connection) -> Iterator[str]:
    """Yield a message for each table with rows of a run that does not exist."""
    for table in (SCORES, PREDICTIONS, HEADLINES):
        owner = table.c.run_id
        lost = select(owner, func.count()).where(~exists().where(RUNS.c.id == owner))
        for number, count in db.execute(lost.group_by(owner)):
            yield f"the table {table.name} has {count} rows for run {number}, which does not exist"


def _lists(db: Connection) -> Iterator[str]:
    """Yield a message for each job whose headline is missing or describes the wrong run."""
    # Sort results before failures, and newer attempts first. The headline is for the first row.
    order = ((RUNS.c.status == FINISHED).desc(), RUNS.c.attempt.desc())
    place = func.row_number().over(partition_by=RUNS.c.job_key, order_by=order).label("place")
    ranked = select(RUNS.c.id, RUNS.c.job_key, place).subquery()
    newest = select(ranked.c.id, ranked.c.job_key).where(ranked.c.place == 1).subquery()
    listed = exists().where(
        HEADLINES.c.run_id == newest.c.id, HEADLINES.c.job_key == newest.c.job_key
    )
    for (key,) in db.execute(select(newest.c.job_key).where(~listed)):
        yield (
            "the table `headlines` has no row for the newest result or, without a result, the "
            f"newest failure of job {key[:12]}"
        )


def _runs(engine: Engine) -> Iterator[str]:
    """Yield a message for each damaged run, wrong headline, and contradiction between runs."""
    known: Known = {}
    try:
        with reading(engine) as db:
            ids = run_ids(db)
    except StoreError as error:
        yield str(error)
        return
    for portion in portions(ids):
        whole = list[Run]()
        for number, run in whole_runs(engine, portion):
            if fault := _fault_of(run):
                yield f"run number {number}: {fault}"
            elif isinstance(run, Run):
                whole.append(run)
                note_rows(run, known)
        yield from _said(engine, partial(_headlines, whole))
    yield from contradictions(known)


def _fault_of(run: Run | StoreError) -> str:
    if isinstance(run, StoreError):
        return str(run)
    try:
        run_to_stored(run)
    except StoreError as error:
        return str(error)
    return ""


def _headlines(runs: Sequence[Run], db: Connection) -> Iterator[str]:
    """Yield a message for each run whose headline does not match the run."""
    columns = (HEADLINES.c.run_id, HEADLINES.c.shared, HEADLINES.c.content)
    query = select(*columns).where(HEADLINES.c.run_id.in_([run.id for run in runs]))
    shown = {row.run_id: [row.shared, row.content] for row in db.execute(query)}
    for run in runs:
        now = headline_columns(run)
        # A run without a headline is an older attempt; else `_lists` reports the missing headline.
        if run.id in shown and plain(shown[run.id]) != plain([now["shared"], now["content"]]):
            yield (
                f"the summary of run {run.job_key[:12]} (in the table `headlines`) differs from "
                "the run"
            )
