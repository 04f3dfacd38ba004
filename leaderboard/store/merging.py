"""Runs put into a store: a new attempt at a job, and the attempts of another store."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Engine, Table, delete, func, insert, select, update
from sqlalchemy.exc import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
    StatementError,
)
from sqlalchemy.orm import Session, selectinload

from benchharness.leaderboard.store.database import name_of, reading
from benchharness.leaderboard.store.record import (
    headline_columns,
    not_as_written,
    replace_headline,
)
from benchharness.leaderboard.store.schema import (
    FINISHED,
    Base,
    Headline,
    Predictions,
    Run,
    Score,
)
from benchharness.tasks.errors import StoreError

Thing = TypeVar("Thing")

_UNFIT = (IntegrityError, InterfaceError, ProgrammingError)
"""What a database says of a row that its schema does not take."""


class Merged(NamedTuple):
    """How many runs were added, and the keys of the jobs that both stores had runs of."""

    added: int
    shared: tuple[str, ...]


def append_run(session: Session, run: Run) -> int:
    """Store one more attempt at the run's job; gives its number."""
    _append(session, [run], _attempts_at(session, [run.job_key]))
    return run.attempt


def append_missing(session: Session, run: Run, *, force: bool = False) -> bool:
    """Store an attempt unless it is here, or, but for `force`, its job has a result."""
    there = _attempts_at(session, [run.job_key])
    tried = there.get(run.job_key, [])
    if any(one.digest == run.digest or (one.status == FINISHED and not force) for one in tried):
        return False
    _append(session, [run], there)
    return True


def merge_runs(session: Session, runs: Iterable[Run]) -> Merged:
    """Store runs of another store; an attempt that is here already is left alone.

    Where both stores have tried a job, the attempts of both are numbered anew in the order in which
    they ended, and the newest result counts, as it does after a rerun. Raises StoreError where one
    of the runs is nothing that a store can have written.
    """
    last = session.scalar(select(func.max(Run.id))) or 0  # what is above it came with these runs
    added, shared = 0, defaultdict[str, set[int]](set)
    met = Counter[tuple[str, str]]()
    for portion in portions(runs):
        there = _attempts_at(session, [run.job_key for run in portion])
        before = {key: [one for one in tried if one.id <= last] for key, tried in there.items()}
        known = Counter((key, one.digest) for key, tried in before.items() for one in tried)
        new = [run for run in portion if not _is_known(run, known, met)]
        _append_or_name(session, new, there)
        added += len(new)
        for run in new:
            if before.get(run.job_key):
                shared[run.job_key].add(run.id)
    for key, numbers in shared.items():
        _order_attempts(session, key, numbers)
    return Merged(added, tuple(shared))


class _Attempt(NamedTuple):
    """An attempt that is stored already."""

    id: int
    number: int
    digest: str
    status: str


def _attempts_at(session: Session, keys: Iterable[str]) -> dict[str, list[_Attempt]]:
    """What is stored of these jobs, by their keys."""
    columns = (Run.job_key, Run.id, Run.attempt, Run.digest, Run.status)
    found = defaultdict[str, list[_Attempt]](list)
    query = select(*columns).where(Run.job_key.in_(sorted(set(keys))))
    for row in session.execute(query):
        found[row.job_key].append(_Attempt(row.id, row.attempt, row.digest, row.status))
    return found


def _is_known(run: Run, known: Counter[tuple[str, str]], met: Counter[tuple[str, str]]) -> bool:
    """Whether the run is here already; of two that are alike, one that is here stands for one.

    `met` counts those of which one is here, so it is no larger than what both stores have.
    """
    name = (run.job_key, run.digest)
    if name not in known:
        return False
    met[name] += 1
    return met[name] <= known[name]


def _append_or_name(
    session: Session, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]
) -> None:
    """Store runs of another store; StoreError names one that this schema does not hold."""
    names = [(run.job_key, run.attempt) for run in runs]
    try:
        with session.begin_nested():
            _append(session, runs, there)
    except (StatementError, OverflowError) as error:
        if isinstance(error, DatabaseError) and not isinstance(error, _UNFIT):
            raise  # locked, full or damaged
        if len(runs) > 1:
            for run, (key, attempt) in zip(runs, names, strict=True):
                run.attempt = attempt
                _append_or_name(session, [run], _attempts_at(session, [key]))
            return
        # Its digest fits, but nothing that this schema holds looks so.
        raise not_as_written(*names[0]) from error


def _append(session: Session, runs: Sequence[Run], there: Mapping[str, Sequence[_Attempt]]) -> None:
    """Store attempts behind those that are there, in their order, and what lists show of them.

    Rows go past the mapper, whose work on each would be most of what an import costs.
    """
    if not runs:
        return
    numbers = {key: max(one.number for one in tried) for key, tried in there.items() if tried}
    finished = {key for key, tried in there.items() if any(a.status == FINISHED for a in tried)}
    shown: dict[str, Run] = {}
    for run in runs:
        key = run.job_key
        run.attempt = numbers[key] = numbers.get(key, 0) + 1
        # A result stays in its place where a newer attempt has failed.
        if run.status == FINISHED or key not in finished:
            shown[key] = run
        if run.status == FINISHED:
            finished.add(key)
    _insert(session, runs)
    if replaced := [key for key in shown if there.get(key)]:
        session.execute(delete(Headline).where(Headline.job_key.in_(replaced)))
    if shown:
        lines = [headline_columns(run) for run in shown.values()]
        session.execute(insert(_table(Headline)), lines)


def _table(mapped: type[Base]) -> Table:
    """The table itself: what goes into that passes no mapper."""
    table = mapped.__table__
    assert isinstance(table, Table)
    return table


def _insert(session: Session, runs: Sequence[Run]) -> None:
    """Insert runs with their scores and predictions, and give them their numbers."""
    numbers = _free_numbers(session, len(runs))
    for run, number in zip(runs, numbers, strict=True):
        run.id = number
    session.execute(insert(_table(Run)), [_columns(run, id=run.id) for run in runs])
    scores = [_columns(score, run_id=run.id) for run in runs for score in run.scores]
    splits = [_columns(split, run_id=run.id) for run in runs for split in run.predictions]
    for table, rows in ((Score, scores), (Predictions, splits)):
        if rows:
            session.execute(insert(_table(table)), rows)


def _free_numbers(session: Session, count: int) -> Sequence[int]:
    """Numbers for new runs, as the database would give them; nobody else writes meanwhile.

    To be given them, row by row, takes a statement for each row.
    """
    if session.get_bind().dialect.name == "sqlite":
        last = session.scalar(select(func.max(Run.id))) or 0
        return range(last + 1, last + 1 + count)
    numbers = func.nextval(func.pg_get_serial_sequence("runs", "id"))
    series = func.generate_series(1, count).table_valued("number")
    return session.scalars(select(numbers).select_from(series)).all()


def _columns(row: Run | Score | Predictions, **more: int) -> dict[str, Any]:
    """The values of a row that no session knows yet."""
    values = {**vars(row), **more}
    return {name: values[name] for name in (*_NAMES[type(row)], *more)}


_NAMES = {
    table: tuple(c.name for c in table.__table__.columns if c.name not in ("id", "run_id"))
    for table in (Run, Score, Predictions)
}


def _order_attempts(session: Session, key: str, theirs: Set[int]) -> None:
    """Number the attempts at a job by the time they ended, each store's own in their order.

    A clock may have jumped, so no time takes the attempts of one store out of their order.
    """
    columns = (Run.id, Run.attempt, Run.finished, Run.status)
    found = session.execute(select(*columns).where(Run.job_key == key).order_by(Run.attempt)).all()
    sides = ([r for r in found if r.id not in theirs], [r for r in found if r.id in theirs])
    ordered = list(merge(*sides, key=lambda row: row.finished))
    if ordered == found:
        return
    # Give attempts their numbers; on the way no two may have the same one.
    for sign in (-1, 1):
        for attempt, number in enumerate([row.id for row in ordered], start=1):
            statement = update(Run).where(Run.id == number).values(attempt=sign * attempt)
            session.execute(statement, execution_options={"synchronize_session": False})
    listed = [row.id for row in ordered if row.status == FINISHED] or [ordered[-1].id]
    replace_headline(session, session.get_one(Run, listed[-1]))
    session.expunge_all()


# Stored runs with everything in them, some at a time: for whatever goes through a whole store.

_AT_ONCE = 100
"""Runs in memory at a time; their predictions may be megabytes each."""


def run_ids(session: Session, keys: Collection[str] | None = None) -> Sequence[int]:
    """Every attempt at every job: jobs in the order of their first run, attempts in theirs.

    With `keys` those at the jobs with these keys.
    """
    first = func.min(Run.id).over(partition_by=Run.job_key)
    query = select(Run.id, Run.job_key).order_by(first, Run.attempt)
    found = session.execute(query).all()
    return [row.id for row in found if keys is None or row.job_key in keys]


def whole_runs(engine: Engine, ids: Iterable[int]) -> Iterator[tuple[int, Run | StoreError]]:
    """The runs with these numbers, in their order, or why one cannot be read.

    A transaction reads a hundred, so that others may write meanwhile.
    """
    for portion in portions(ids):
        try:
            found = _read(engine, portion)
        except StoreError:
            yield from ((number, _read_alone(engine, number)) for number in portion)
        else:
            yield from ((number, found.get(number) or _missing(engine)) for number in portion)


def portions(things: Iterable[Thing], most: int = _AT_ONCE) -> Iterator[Sequence[Thing]]:
    """As many of them as are read or written at a time."""
    remaining = iter(things)
    while portion := list(islice(remaining, most)):
        yield portion


def _read(engine: Engine, ids: Sequence[int]) -> dict[int, Run]:
    everything = (selectinload(Run.scores), selectinload(Run.predictions))
    with reading(engine) as session:
        runs = session.scalars(select(Run).where(Run.id.in_(ids)).options(*everything))
        return {run.id: run for run in runs}


def _read_alone(engine: Engine, number: int) -> Run | StoreError:
    try:
        return _read(engine, [number]).get(number) or _missing(engine)
    except StoreError as error:
        return error


def _missing(engine: Engine) -> StoreError:
    return StoreError(
        f"the leaderboard {name_of(engine)} is damaged (an index has a run that its table has not)."
    )
