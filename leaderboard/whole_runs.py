"""Stored runs with everything in them, some at a time: for whatever goes through a whole store."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session, selectinload

from leaderboard.database import name_of, reading
from leaderboard.store.schema import Run
from tasks.errors import StoreError

__all__ = ["portions", "run_ids", "whole_runs"]

AT_ONCE = 100
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
    while portion := list(islice(remaining, AT_ONCE)):
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
