"""What is wrong with a store: its file, its schema, rows without their run, runs that changed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from sqlalchemy import Engine, exists, func, select, text
from sqlalchemy.orm import Session

from benchharness.leaderboard.store.database import reading
from benchharness.leaderboard.store.merging import portions, run_ids, whole_runs
from benchharness.leaderboard.store.record import headline_columns, run_to_stored
from benchharness.leaderboard.store.schema import (
    FINISHED,
    Base,
    Headline,
    Predictions,
    Run,
    Score,
    plain,
)
from benchharness.tasks.errors import StoreError


def faults_in(engine: Engine) -> Iterator[str]:
    """A sentence for each fault; reads every byte of every run."""
    for find in (_file_faults, _schema_faults, _orphans, _lists):
        yield from _said(engine, find)
    yield from _runs(engine)


def _said(engine: Engine, find: Callable[[Session], Iterable[str]]) -> Iterator[str]:
    """What is found, and where the looking itself fails, why."""
    try:
        with reading(engine) as session:
            found = list(find(session))
    except StoreError as error:
        found = [str(error)]
    yield from found


def _file_faults(session: Session) -> Iterator[str]:
    """What SQLite says of its own pages and of references; a server answers for its files."""
    if session.get_bind().dialect.name != "sqlite":
        return
    for (line,) in session.execute(text("PRAGMA integrity_check")):
        if line != "ok":
            yield f"SQLite finds: {' '.join(str(line).split())}"


def _schema_faults(session: Session) -> Iterator[str]:
    from alembic import autogenerate, migration  # noqa: PLC0415  (0.2 s)

    context = migration.MigrationContext.configure(session.connection())
    for change in autogenerate.compare_metadata(context, Base.metadata):
        yield f"the schema is not what it should be; missing: {_named(change)}"


def _named(change: object) -> str:
    """An operation of Alembic's that would mend the schema: ("add_index", Index(...))."""
    operation, *what = change if isinstance(change, tuple) else ("change", change)
    things = [getattr(thing, "name", thing) for thing in what if thing is not None]
    return " ".join([str(operation), *map(str, things)])


def _orphans(session: Session) -> Iterator[str]:
    """Rows whose run is not there."""
    for table in (Score, Predictions, Headline):
        lost = ~exists().where(Run.id == table.run_id)
        for number, count in session.execute(
            select(table.run_id, func.count()).where(lost).group_by(table.run_id)
        ):
            yield f"{table.__tablename__} has {count} rows of run {number}, which is not there"


def _lists(session: Session) -> Iterator[str]:
    """Jobs that lists do not show, or not by their newest result."""
    order = ((Run.status == FINISHED).desc(), Run.attempt.desc())
    place = func.row_number().over(partition_by=Run.job_key, order_by=order).label("place")
    ranked = select(Run.id, Run.job_key, place).subquery()
    newest = select(ranked.c.id, ranked.c.job_key).where(ranked.c.place == 1).subquery()
    listed = exists().where(Headline.run_id == newest.c.id, Headline.job_key == newest.c.job_key)
    for (key,) in session.execute(select(newest.c.job_key).where(~listed)):
        yield f"lists do not show the newest result of job {key[:12]}"


def _runs(engine: Engine) -> Iterator[str]:
    """Runs of which a byte is not what was written, and what lists show of them."""
    try:
        with reading(engine) as session:
            ids = run_ids(session)
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
        yield from _said(engine, partial(_headlines, whole))


def _fault_of(run: Run | StoreError) -> str:
    if isinstance(run, StoreError):
        return str(run)
    try:
        run_to_stored(run)
    except StoreError as error:
        return str(error)
    return ""


def _headlines(runs: Sequence[Run], session: Session) -> Iterator[str]:
    """Where lists do not show what the runs say."""
    columns = (Headline.run_id, Headline.shared, Headline.content)
    query = select(*columns).where(Headline.run_id.in_([run.id for run in runs]))
    shown = {row.run_id: [row.shared, row.content] for row in session.execute(query)}
    for run in runs:
        now = headline_columns(run)
        if run.id in shown and plain(shown[run.id]) != plain([now["shared"], now["content"]]):
            yield f"what lists show of run {run.job_key[:12]} is not what the run says"
