"""Write the website of a repository: leaderboards with the rows of all contributors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchharness.errors import BenchError
from benchharness.extensions.reproduce.verdicts import Verdict, by_run, summary
from benchharness.extensions.share.archive import read_runs
from benchharness.extensions.share.checks import Checked, check_repository
from benchharness.extensions.share.inspect import PublicRows
from benchharness.extensions.share.repository import Repository
from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.report.addition import Background
from benchharness.leaderboard.report.sizes import ModelSize, known_size
from benchharness.leaderboard.report.write import About, render_report, write_page, write_runs
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import counted, digest, grouped, visible
from benchharness.stored import read_outcomes
from benchharness.stored.report import known_sizes
from benchharness.tasks.suites import SUITES
from benchharness.version import package_version


@dataclass(frozen=True, kw_only=True)
class Built:
    """A website that was written.

    Attributes:
        page: Path of `index.html`.
        boards: Leaderboards on the website.
        left_out: First reason why a file was left out, keyed by the path of the file in the
            repository.
    """

    page: Path
    boards: Sequence[Board]
    left_out: Mapping[str, str]


def build_site(repository: Repository, out: Path, rows: PublicRows) -> Built:
    """Write the website to a folder: `index.html`, and one page per row with the details of runs.

    Files with faults are left out and named on the page.

    Args:
        repository: Repository with the contributions.
        out: Folder to which the website is written.
        rows: Reader of the rows with public labels.

    Raises:
        BenchError: No run can be shown, or the folder cannot be written.
    """
    checked = check_repository(repository, rows)
    faults = grouped((each.place, each.sentence) for each in checked.faults)
    left_out = {place: sentences[0] for place, sentences in faults.items()}
    with TemporaryDirectory(prefix="bench-share-") as folder, ExitStack() as opened:
        site = _Site(checked)
        for store_path, who in _stores(Path(folder), checked, left_out):
            site.add(opened.enter_context(open_store(store_path)), who)
        boards = site.boards()
        if not boards:
            raise BenchError(
                f"{repository.root} has no run that can be shown: `bench share add` adds some."
            )
        try:
            notes = list(_notes(left_out))
            page = _write(repository, out, site, boards, notes)
        except OSError as error:
            raise BenchError(f"{out} cannot be written: {error.strerror or error}.") from error
    return Built(page=page, boards=boards, left_out=left_out)


def _stores(
    folder: Path, checked: Checked, left_out: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    """Write one store per contributor; yield its path and the contributor's name.

    With separate stores, the runs of a contributor do not replace equal jobs of others.
    """
    archives = [each for each in checked.files if each.is_archive and each.place not in left_out]
    for who, some in sorted(grouped((each.who, each) for each in archives).items()):
        path = folder / f"{who}.sqlite"
        with open_store(path) as store:
            for each in some:
                store.add_stored((stored for stored, _ in read_runs(each)), are_checked=True)
        yield path, who


_MOST_NOTES = 20


def _notes(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield a note per file that was left out, for at most 20 files."""
    for place, reason in list(left_out.items())[:_MOST_NOTES]:
        yield f"left out: {place}, because {reason}"
    if (more := len(left_out) - _MOST_NOTES) > 0:
        yield f"left out: {counted(more, 'more file')}."


class _Site:
    """Runs of all contributors, and the facts that the website shows about them.

    Args:
        checked: Result of the check of the repository.

    Attributes:
        rows: Runs of all contributors. Their keys are unique, and the name of the contributor is
            appended to the names of their models.
        remarks: Text about the origin of each run, keyed by the run's key in `rows`.
        sizes: Sizes of the models, keyed by their names on the website in lower case.
    """

    def __init__(self, checked: Checked) -> None:
        self.rows: list[RunRow] = []
        self.remarks: dict[str, str] = {}
        self.sizes: dict[str, ModelSize] = dict(known_sizes())
        self._how = {(run.who, run.job.key): run.how for run in checked.runs}
        self._verdicts = [verdict for _, verdict in checked.verdicts]
        self._by_whom = {id(verdict): who for who, verdict in checked.verdicts}
        self._sources: dict[str, tuple[Store, str]] = {}

    def add(self, store: Store, who: str) -> None:
        """Add the finished runs of a contributor.

        Args:
            store: Open store with the contributor's runs.
            who: Name of the contributor.
        """
        rows = [row for row in store.runs() if row.status == "finished"]
        verdicts = by_run(self._verdicts, rows)
        for row in rows:
            key = row.key if row.key not in self._sources else digest([who, row.key])
            short = row.model.rpartition("/")[2]
            if known := known_size(row.model, self.sizes):
                self.sizes[f"{short} ({who})".lower()] = known
            self._sources[key] = store, row.key
            self.rows.append(replace(row, key=key, model=f"{row.model} ({who})"))
            self.remarks[key] = self._remark(row, who, verdicts.get(row.key, ()))

    def _remark(self, row: RunRow, who: str, verdicts: Sequence[Verdict]) -> str:
        """Return a text about a run: contributor, date, kind of check, and reproductions."""
        how = self._how.get((who, row.key), "").partition(":")[0]
        parts = [f"by {who}", row.finished[:10], how]
        if verdicts:
            names = dict.fromkeys(self._by_whom[id(each)] for each in verdicts)
            parts.append(f"{summary(verdicts)} by {' and '.join(names)}")
        return visible(", ".join(filter(None, parts)))

    def boards(self) -> list[Board]:
        """Return the leaderboards of all suites with runs."""
        names = {name for row in self.rows for name in row.suites}
        return [
            replace(board, remarks=self.remarks)
            for suite in SUITES.values()
            if suite.name in names
            for board in build_boards(self.rows, suite)
        ]

    def read(self, keys: Iterable[str]) -> Iterator[Result | Failure]:
        """Yield the stored runs with the given keys (as in `rows`), in order."""
        for key in keys:
            store, stored = self._sources[key]
            yield from read_outcomes(store, [stored])


def _write(
    repository: Repository, out: Path, site: _Site, boards: Sequence[Board], notes: Sequence[str]
) -> Path:
    """Write the pages with the details of runs, and `index.html`; return the path of the latter."""
    page = out / "index.html"
    about = About(
        title=repository.title,
        description="Rows of all contributors. Each row says who shared it, when it ended, how its "
        "scores were checked, and who has reproduced it.",
        version=package_version(),
        notes=notes,
    )
    places = write_runs(page, boards, site.read, about)
    background = Background(sizes=site.sizes, places=places)
    generated = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    write_page(page, render_report(boards, (), generated, background, about))
    return page
