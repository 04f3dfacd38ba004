"""Operations on many runs: storing and merging, deleting, iterating, and checking a store."""

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
"""Exceptions of a database for a row that does not fit its schema."""


class Merged(NamedTuple):
    """Result of a merge: number of added runs, and keys of the jobs that both stores had tried."""

    added: int
    shared: tuple[str, ...]


def append_run(db: Connection, run: Run) -> int:
    """Store one more attempt at the run's job; return the number of the attempt."""
    _append(db, [run], _attempts_at(db, [run.job_key]))
    return run.attempt


def append_missing(db: Connection, run: Run, *, force: bool = False) -> bool:
    """Store a run unless it is stored already or its job has a result; return whether it was new.

    With `force` it is stored even if its job has a result.
    """
    there = _attempts_at(db, [run.job_key])
    tried = there.get(run.job_key, [])
    if any(one.digest == run.digest or (one.status == FINISHED and not force) for one in tried):
        return False
    _append(db, [run], there)
    return True


PIECE_SECONDS, GAP_SECONDS = 2.0, 0.1
"""Seconds for which a bulk operation may block other writers, and seconds of the pause after that.
SQLite checks ten times a second whether it may write.
"""


def merge_runs(engine: Engine, runs: Iterable[Run]) -> Merged:
    """Store the runs of another store; skip an attempt that is stored already.

    If both stores have attempts at a job, all attempts are renumbered in the order in which they
    ended, and the newest result counts, as after a rerun. Many runs take several transactions.
    After each of them the store is consistent, and repeating the merge adds the rest. Raises
    StoreError if a run cannot have been written by a store; the message contains the number of runs
    stored before it.
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
    """Process many things in several transactions, between which others may write.

    Args:
        engine: Database.
        left: Portions of things to process.
        take: Function that processes a portion in a transaction and returns a count.
        done: Participle for the error message, e.g. "stored".

    Returns:
        Sum of the counts.

    Raises:
        StoreError: If `take` fails; the message contains the count of earlier transactions.
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
            rest = f"{count} runs before it are {done}: repeat the command once that is mended."
            raise type(error)(*error.args, rest) from error
        count += taken
        if portion:
            time.sleep(GAP_SECONDS)
    return count


class _Merging:
    """State of a merge over its portions of runs.

    `shared` are the keys of the jobs that were stored before; `_ours` are the ids of the added
    runs, and `_met` counts the runs of the other store that are stored already.
    """

    def __init__(self) -> None:
        self.shared = dict[str, None]()
        self._ours, self._met = set[int](), Counter[tuple[str, str]]()

    def take(self, db: Connection, portion: Sequence[Run]) -> int:
        """Store the runs of a portion that are not stored yet; return their number."""
        there = _attempts_at(db, [run.job_key for run in portion])
        # `there` includes runs that earlier portions added, after which new attempts are numbered.
        # Only runs stored before the merge can be the same as a run of the other store.
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
    """Attempt that is stored already."""

    id: int
    number: int
    digest: str
    status: str


def _attempts_at(db: Connection, keys: Iterable[str]) -> dict[str, list[_Attempt]]:
    """Return the stored attempts at these jobs, by the jobs' keys."""
    columns = (RUNS.c.job_key, RUNS.c.id, RUNS.c.attempt, RUNS.c.digest, RUNS.c.status)
    found = defaultdict[str, list[_Attempt]](list)
    query = select(*columns).where(RUNS.c.job_key.in_(sorted(set(keys))))
    for row in db.execute(query):
        found[row.job_key].append(_Attempt(row.id, row.attempt, row.digest, row.status))
    return found


def _names(
    db: Connection, runs: Sequence[Run], known: Counter[tuple[str, str]], ours: Set[int]
) -> Iterator[tuple[str, str]]:
    """Yield the key and digest of each run; if a stored run differs only in paths, its digest.

    `ours` are the ids of runs added by this merge, which are not compared.
    """
    here: dict[str, str] = {}
    odd = {run.job_key for run in runs if (run.job_key, run.digest) not in known}
    odd &= {key for key, _ in known}
    if odd:
        found = read_runs(db, RUNS.c.job_key.in_(sorted(odd)))
        for run in (each for each in found if each.id not in ours):
            with suppress(StoreError):  # a damaged run equals no other
                here[shared_stored(run_to_stored(run)).digest] = run.digest
    for run in runs:
        alike = shared_stored(run_to_stored(run)).digest if run.job_key in odd else ""
        yield run.job_key, here.get(alike, run.digest)


def _is_known(
    name: tuple[str, str], known: Counter[tuple[str, str]], met: Counter[tuple[str, str]]
) -> bool:
    """Return whether a run is stored already; each stored run accounts for one equal run.

    `met` counts the runs that are stored already, so it only grows with runs that both stores have.
    """
    if name not in known:
        return False
    met[name] += 1
    return met[name] <= known[name]


def _append_or_name(
    db: Connection, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]
) -> None:
    """Store the runs of another store; raise a StoreError about the one that the schema rejects."""
    names = [(run.job_key, run.attempt) for run in runs]
    try:
        # A savepoint, because PostgreSQL rejects all statements of a transaction after an error.
        with db.begin_nested():
            _append(db, runs, there)
    except (StatementError, OverflowError) as error:
        if isinstance(error, DatabaseError) and not isinstance(error, _UNFIT):
            raise  # locked, full or damaged
        if len(runs) > 1:
            # Storing the runs one by one finds the one that does not fit. `_append` has changed the
            # numbers of the attempts, but the error should have those of the other store.
            for run, (key, attempt) in zip(runs, names, strict=True):
                run.attempt = attempt
                _append_or_name(db, [run], _attempts_at(db, [key]))
            return
        # The digest is right, but the schema cannot contain such a run.
        raise not_as_written(*names[0]) from error


def _append(db: Connection, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]) -> None:
    """Store attempts after the existing ones of their jobs, and update the headlines."""
    if not runs:
        return
    numbers = {key: max(one.number for one in tried) for key, tried in there.items() if tried}
    finished = {key for key, tried in there.items() if any(a.status == FINISHED for a in tried)}
    shown: dict[str, Run] = {}
    for run in runs:
        key = run.job_key
        run.attempt = numbers[key] = numbers.get(key, 0) + 1
        # A result stays listed if a newer attempt fails.
        if run.status == FINISHED or key not in finished:
            shown[key] = run
        if run.status == FINISHED:
            finished.add(key)
    _insert(db, runs)
    # The old headline is deleted first, because a job has only one.
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
    # Runs first, because the others refer to them.
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
    """Return ids for new runs, as the database would assign them; the caller holds the write lock.

    Letting the database assign them takes a statement per row.
    """
    if db.dialect.name == "sqlite":
        last = db.scalar(select(func.max(RUNS.c.id))) or 0
        return range(last + 1, last + 1 + count)
    # From the table's own sequence, which then continues after them.
    numbers = func.nextval(func.pg_get_serial_sequence("runs", "id"))
    series = func.generate_series(1, count).table_valued("number")
    return db.scalars(select(numbers).select_from(series)).all()


def _order_attempts(db: Connection, key: str, theirs: Set[int]) -> None:
    """Number the attempts at a job by the time at which they ended; each store's order is kept.

    A clock may have jumped, so times never change the order of one store's attempts. `theirs` are
    the ids of the runs of the other store.
    """
    columns = (RUNS.c.id, RUNS.c.attempt, RUNS.c.finished, RUNS.c.status)
    query = select(*columns).where(RUNS.c.job_key == key).order_by(RUNS.c.attempt)
    found = db.execute(query).all()
    sides = ([r for r in found if r.id not in theirs], [r for r in found if r.id in theirs])
    # `merge` compares only the first remaining rows of both sides, so each side keeps its order
    # even if its times do not increase.
    ordered = list(merge(*sides, key=lambda row: row.finished))
    if ordered == found:
        return
    # Two passes, because at no time may two attempts have the same number.
    for sign in (-1, 1):
        for attempt, number in enumerate([row.id for row in ordered], start=1):
            statement = update(RUNS).where(RUNS.c.id == number).values(attempt=sign * attempt)
            db.execute(statement)
    _list_newest(db, key)


def delete_attempts(db: Connection, keys: Sequence[str], digests: Set[str] | None) -> int:
    """Delete the attempts at these jobs that have one of the digests (None: all attempts).

    Returns the number of jobs with a deleted attempt.
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
    """Update a job's headline to its newest result, or to its newest attempt if it has none."""
    tried = sorted(_attempts_at(db, [key])[key], key=lambda one: one.number)
    listed = [one.id for one in tried if one.status == FINISHED] or [tried[-1].id]
    if not (shown := read_runs(db, RUNS.c.id == listed[-1])):
        raise DamagedError(f"an index has run {listed[-1]}, which its table has not")
    db.execute(delete(HEADLINES).where(HEADLINES.c.job_key == key))
    db.execute(insert(HEADLINES), headline_columns(shown[0]))


# Iteration over the complete runs of a store, some at a time.


def run_ids(db: Connection, keys: Collection[str] | None = None) -> Sequence[int]:
    """Return the ids of all attempts: jobs in the order of their first run, then by attempt.

    With `keys`, only the attempts at the jobs with these keys.
    """
    first = func.min(RUNS.c.id).over(partition_by=RUNS.c.job_key)
    query = select(RUNS.c.id, RUNS.c.job_key).order_by(first, RUNS.c.attempt)
    found = db.execute(query).all()
    return [row.id for row in found if keys is None or row.job_key in keys]


def whole_runs(engine: Engine, ids: Iterable[int]) -> Iterator[tuple[int, Run | StoreError]]:
    """Yield the runs with these ids, in their order; an unreadable run is replaced by its error.

    A transaction reads a hundred runs, so that others may write meanwhile; runs that they delete
    are skipped.
    """
    for portion in portions(ids):
        found: dict[int, Run | StoreError]
        try:
            found = {**_read(engine, portion)}
        except StoreError:
            # A damaged run makes the whole portion fail; the others can be read one by one.
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
        f"the leaderboard {name_of(engine)} is damaged (an index has a run that its table has not)."
    )


# Faults of a store: its file, its schema, rows without their run, runs that changed.


def faults_in(engine: Engine) -> Iterator[str]:
    """Yield a sentence for each fault; reads every byte of every run."""
    for find in (_file_faults, _schema_faults, _orphans, _lists):
        yield from _said(engine, find)
    yield from _runs(engine)


def _said(engine: Engine, find: Callable[[Connection], Iterable[str]]) -> Iterator[str]:
    """Yield the faults that `find` finds, or the reason if the search itself fails."""
    try:
        with reading(engine) as db:
            found = list(find(db))
    except StoreError as error:
        found = [str(error)]
    yield from found


def _file_faults(db: Connection) -> Iterator[str]:
    """Yield the faults that SQLite finds in its own pages and references; nothing for a server."""
    if db.dialect.name != "sqlite":
        return
    for (line,) in db.execute(text("PRAGMA integrity_check")):
        if line != "ok":
            yield f"SQLite finds: {' '.join(str(line).split())}"


def _schema_faults(db: Connection) -> Iterator[str]:
    from alembic import autogenerate, migration  # noqa: PLC0415  (0.2 s)

    context = migration.MigrationContext.configure(db)
    for change in autogenerate.compare_metadata(context, SCHEMA):
        yield f"the schema is not as expected; missing: {_named(change)}"


def _named(change: object) -> str:
    """Return the Alembic operation that would repair the schema, as text."""
    # Changes within a column come as a list, all others as a tuple.
    operation, *what = change if isinstance(change, tuple) else ("change", change)
    things = [getattr(thing, "name", thing) for thing in what if thing is not None]
    return " ".join([str(operation), *map(str, things)])


def _orphans(db: Connection) -> Iterator[str]:
    """Yield a sentence for rows whose run does not exist."""
    for table in (SCORES, PREDICTIONS, HEADLINES):
        owner = table.c.run_id
        lost = select(owner, func.count()).where(~exists().where(RUNS.c.id == owner))
        for number, count in db.execute(lost.group_by(owner)):
            yield f"{table.name} has {count} rows of run {number}, which is not there"


def _lists(db: Connection) -> Iterator[str]:
    """Yield a sentence for each job that lists do not show by its newest result."""
    # Results before failures, then the newest attempt: the listed run has place 1.
    order = ((RUNS.c.status == FINISHED).desc(), RUNS.c.attempt.desc())
    place = func.row_number().over(partition_by=RUNS.c.job_key, order_by=order).label("place")
    ranked = select(RUNS.c.id, RUNS.c.job_key, place).subquery()
    newest = select(ranked.c.id, ranked.c.job_key).where(ranked.c.place == 1).subquery()
    listed = exists().where(
        HEADLINES.c.run_id == newest.c.id, HEADLINES.c.job_key == newest.c.job_key
    )
    for (key,) in db.execute(select(newest.c.job_key).where(~listed)):
        yield f"lists do not show the newest result of job {key[:12]}"


def _runs(engine: Engine) -> Iterator[str]:
    """Yield sentences on runs with changed bytes, on wrong headlines, and on contradictory runs."""
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
    """Yield a sentence for each run whose headline differs from the run."""
    columns = (HEADLINES.c.run_id, HEADLINES.c.shared, HEADLINES.c.content)
    query = select(*columns).where(HEADLINES.c.run_id.in_([run.id for run in runs]))
    shown = {row.run_id: [row.shared, row.content] for row in db.execute(query)}
    for run in runs:
        now = headline_columns(run)
        # A run without a headline is an older attempt, or `_lists` reports its job.
        if run.id in shown and plain(shown[run.id]) != plain([now["shared"], now["content"]]):
            yield f"the lists' entry of run {run.job_key[:12]} differs from the run"
