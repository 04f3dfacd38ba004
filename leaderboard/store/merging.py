"""Runs put into a store: a new attempt at a job, and the attempts of another store."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from heapq import merge
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Engine, func, select, update
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
    StoredRun,
    not_as_written,
    place_headline,
    replace_headline,
    stored_to_run,
)
from benchharness.leaderboard.store.schema import FINISHED, Run
from benchharness.tasks.errors import StoreError

_UNFIT = (IntegrityError, InterfaceError, ProgrammingError)
"""What a database says of a row that its schema does not take."""


class Merged(NamedTuple):
    """How many runs were added, and the keys of the jobs that both stores had runs of."""

    added: int
    shared: tuple[str, ...]


def append_run(session: Session, run: Run) -> int:
    """Store one more attempt at the run's job; gives its number."""
    last = select(func.max(Run.attempt)).where(Run.job_key == run.job_key)
    run.attempt = (session.scalar(last) or 0) + 1
    session.add(run)
    session.flush()
    place_headline(session, run)
    return run.attempt


def merge_runs(session: Session, runs: Iterable[StoredRun]) -> Merged:
    """Store runs of another store; an attempt that is here already is left alone.

    Where both stores have tried a job, the attempts of both are numbered anew in the order in which
    they ended, and the newest result counts, as it does after a rerun. Raises StoreError where one
    of the runs is not what its store has written.
    """
    here = Counter[tuple[str, str]]()
    here.update((key, digest) for key, digest in session.execute(select(Run.job_key, Run.digest)))
    before = {key for key, _ in here}
    added, shared = 0, defaultdict[str, set[int]](set)
    for stored in runs:
        run = stored_to_run(stored)
        here[run.job_key, run.digest] -= 1
        if here[run.job_key, run.digest] < 0:
            added += 1
            try:
                append_run(session, run)
            except (StatementError, OverflowError) as error:
                if isinstance(error, DatabaseError) and not isinstance(error, _UNFIT):
                    raise  # locked, full or damaged
                # Its digest fits, but nothing that this schema holds looks so.
                raise not_as_written(stored) from error
            number = run.id
            session.expunge_all()  # an archive may be larger than the memory
            if stored.key in before:
                shared[stored.key].add(number)
    for key, numbers in shared.items():
        _order_attempts(session, key, numbers)
    return Merged(added, tuple(shared))


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


def run_ids(session: Session) -> Sequence[int]:
    """Every attempt at every job: jobs in the order of their first run, attempts in theirs."""
    first = func.min(Run.id).over(partition_by=Run.job_key)
    return session.scalars(select(Run.id).order_by(first, Run.attempt)).all()


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


def portions(ids: Iterable[int]) -> Iterator[Sequence[int]]:
    """As many of them as are read at a time."""
    remaining = iter(ids)
    while portion := list(islice(remaining, _AT_ONCE)):
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
