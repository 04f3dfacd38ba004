"""The commands of `bench share`."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchharness.cli.chosen import Chosen
from benchharness.cli.options import AsJson, argument, with_options
from benchharness.cli.output import print_json, tell_notes, writing
from benchharness.driver.display import displayed
from benchharness.driver.options import OUTPUT, WHAT, WHERE, option
from benchharness.errors import BenchError
from benchharness.extensions.reproduce.rounds import read_share
from benchharness.extensions.share.archive import Packed, pack
from benchharness.extensions.share.checks import Checked, check_repository, with_sample
from benchharness.extensions.share.comment import lines, markdown
from benchharness.extensions.share.inspect import PublicRows
from benchharness.extensions.share.repository import (
    CONTRIBUTORS,
    Repository,
    check_contributor,
    create,
    open_repository,
    write_archive_file,
)
from benchharness.extensions.share.sample import Drawing, Sampled, draw, write_verdicts
from benchharness.extensions.share.site import build_site
from benchharness.leaderboard.boards.board import select_entry
from benchharness.leaderboard.text import counted, visible, whole_file
from benchharness.stored import find_rows

Folder = Annotated[Path, argument("DIR", "Folder of the repository.")]
NewFolder = Annotated[Path, argument("DIR", "A new or empty folder.")]
Rows = Annotated[
    list[str],
    argument("ROW...", "Models, or leaderboard entries such as MODEL:lr=3e-4.", "stored_models"),
]

PROBLEMS = 1
"""Exit code of `bench share check` if a contribution has a fault and cannot be accepted."""


@with_options(plugins=False)
def init(
    folder: NewFolder,
    *,
    title: str = option("Leaderboard", "Title of the website.", metavar="TEXT", head=OUTPUT),
) -> None:
    """Create a repository of results, with instructions and the workflows that GitHub runs.

    The workflows check each pull request, and publish the website after each merge.
    """
    create(folder, title)
    typer.echo(
        visible(
            f"{folder} is a repository of results. Push it to GitHub, and choose GitHub Actions as "
            "the source of its Pages. Contributors then use `bench share add`."
        )
    )


@with_options(but=["as_json"])
def add(
    rows: Rows,
    *,
    chosen: Chosen,
    who: str = option(
        ...,
        "Your name in the repository, such as your user name on GitHub.",
        flag="--as",
        metavar="NAME",
        head=WHAT,
    ),
    to: Path = option(..., "Folder of the repository.", metavar="DIR", head=WHAT),
    dry_run: bool = option(False, "Only print the sizes; write nothing.", head=OUTPUT),
) -> None:
    """Add rows of a leaderboard to a repository, one archive per row.

    An archive has the predictions and scores of all seeds, but no weights and no local paths. Its
    size is at most a megabyte: if necessary, probabilities are rounded to 6, 4, 3 or 2 decimals.
    The sizes are printed before anything is written.
    """
    repository = open_repository(to)
    folder = repository.root / CONTRIBUTORS / check_contributor(who)
    packed = list[Packed]()
    with chosen.open() as store:
        for name in rows:
            for each in find_rows(store, [name], chosen.within, select=select_entry):
                packed.append(pack(store, each.entries[0], each.board.suite, each.tasks))
                typer.echo(visible(f"{name}, {each.board.title}: {_size(packed[-1])}"))
    if dry_run:
        return
    for one in packed:
        typer.echo(visible(str(write_archive_file(folder, one.name, one.content))))
    typer.echo("Commit these files and open a pull request.")


def _size(packed: Packed) -> str:
    rounded = f", probabilities rounded to {packed.digits} decimals" if packed.digits else ""
    return f"{counted(packed.runs, 'run')}, {len(packed.content) / 1000:,.0f} kB{rounded}"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `bench share check`."""

    since: str = option(
        "", "Check only the files that differ from this revision of git.", metavar="REV", head=WHAT
    )
    author: str = option(
        "",
        "Contributor who proposes the changes, and may change only their own folder; needs "
        "--since.",
        metavar="NAME",
        head=WHAT,
    )
    data: str | None = option(
        None,
        "Source of the public labels: 'hub', or a folder of official files. The packaged mini data "
        "are always used as well.",
        metavar="hub|DIR",
        head=WHAT,
        proposes=("hub",),
    )
    reproduce: str | None = option(
        None, "Run this share of the checked jobs again, such as 5%.", metavar="SHARE", head=WHERE
    )
    sample_seed: int | None = option(
        None,
        "Seed with which the sample of --reproduce is drawn; random by default, so that nobody "
        "can predict the sample.",
        metavar="N",
        least=0,
        head=WHERE,
    )
    minutes: float | None = option(
        None,
        "With --reproduce: time limit of the sample in minutes. A job that is expected to exceed "
        "it is not started.",
        metavar="N",
        least=0,
        head=WHERE,
    )
    checkpoint: tuple[str, ...] = option(
        (),
        "With --reproduce: folder of a checkpoint, for the runs whose weights have its digest "
        "(repeatable).",
        metavar="DIR",
        head=WHERE,
    )
    comment: Path | None = option(
        None,
        "Write the findings as Markdown, for a comment on the pull request.",
        metavar="FILE",
        head=OUTPUT,
    )
    verdicts: Path | None = option(
        None,
        "With --reproduce: write the verdicts on the sample as JSON, for the folder of a "
        "contributor.",
        metavar="FILE",
        head=OUTPUT,
    )


@with_options()
def check(folder: Folder = Path(), *, asked: Asked, as_json: AsJson = False) -> None:
    """Check the contributions of a repository.

    Each archive must have the form and the digests that `bench share add` writes, and harmless
    names and paths. Each score is computed again from the predictions and the public labels. Edited
    probabilities, copied predictions and implausible scores are reported. With --reproduce, a
    random sample of the runs is run again. Nothing in an archive is executed, imported or
    downloaded.

    Exits with 1 if a contribution cannot be accepted.
    """
    if asked.author and not asked.since:
        raise BenchError("--author needs --since REV: without it, every folder is checked.")
    share = None if asked.reproduce is None else read_share(asked.reproduce)
    repository = open_repository(folder)
    data = asked.data if asked.data in (None, "hub") else str(Path(str(asked.data)).absolute())
    checked = check_repository(repository, PublicRows(data=data), asked.since, asked.author)
    sampled = _sampled(checked, asked, share, data) if share is not None else None
    said: list[str] = []
    if sampled is not None:
        checked = with_sample(checked, sampled.findings, sampled.reproduced)
        said = [sampled.sentence, sampled.power.sentence]
        if asked.verdicts is not None:
            write_verdicts(asked.verdicts, sampled.verdicts)
    elif share is not None:
        said = ["no run can be run again: every checked archive has a problem."]
    if asked.comment is not None:
        with writing(asked.comment), whole_file(asked.comment) as file:
            file.write(markdown(checked, said).encode())
    if as_json:
        print_json(_to_json(checked, sampled))
    else:
        for line in (*lines(checked), *checked.notes, *said):
            typer.echo(visible(line))
    raise typer.Exit(PROBLEMS if checked.faults else 0)


def _sampled(checked: Checked, asked: Asked, share: float, data: str | None) -> Sampled | None:
    """Run a sample of the runs again whose archives have at most implausible scores as faults.

    Returns None if there are no such runs.
    """
    bad = {each.place for each in checked.faults if each.kind != "implausible"}
    archives = [each for each in checked.files if each.is_archive and each.place not in bad]
    runs = [run for run in checked.runs if run.place not in bad]
    if not runs:
        return None
    drawing = Drawing(
        share=share,
        seed=secrets.randbelow(10**9) if asked.sample_seed is None else asked.sample_seed,
        minutes=asked.minutes,
        data=data if all(run.job.data != "mini" for run in runs) else None,
        checkpoints=asked.checkpoint,
    )
    return draw(archives, runs, drawing, displayed)


def _to_json(checked: Checked, sampled: Sampled | None) -> dict[str, Any]:
    return {
        "files": [each.place for each in checked.files],
        "runs": len(checked.runs),
        "faults": [vars(each) for each in checked.findings if each.is_fault],
        "notes": [vars(each) for each in checked.findings if not each.is_fault],
        "checked": list(checked.notes),
        "sample": sampled
        and {
            "sentence": sampled.sentence,
            "power": vars(sampled.power),
            "reproduced": sorted(sampled.reproduced),
        },
    }


@with_options()
def build(
    folder: Folder = Path(),
    *,
    out: Path = option(..., "Folder of the website.", metavar="DIR", head=OUTPUT),
    data: str | None = option(
        None,
        "Source of the public labels, as in `bench share check --data`.",
        metavar="hub|DIR",
        head=WHAT,
        proposes=("hub",),
    ),
) -> None:
    """Write the website of a repository: the rows of all contributors on the same leaderboards.

    Each row says who shared it, when it ended, how its scores were checked, and who reproduced it.
    Archives that `bench share check` refuses are left out, and the page names them.
    """
    place = data if data in (None, "hub") else str(Path(str(data)).absolute())
    repository: Repository = open_repository(folder)
    built = build_site(repository, out, PublicRows(data=place))
    tell_notes([f"left out: {where}: {why}" for where, why in built.left_out.items()])
    count = sum(len(board.entries) for board in built.boards)
    typer.echo(
        visible(f"{built.page}: {counted(count, 'row')} on {counted(len(built.boards), 'board')}.")
    )
