"""`bench explain`: explain why two scores differ."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from benchharness.cli.options import AsJson, Database, TrustCode, argument, with_options
from benchharness.cli.output import complaints, exit_code, print_json, print_table, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.options import DATABASE, RunOptions, option
from benchharness.extensions.explanation.beside import explain_run
from benchharness.extensions.explanation.changes import Tries, Try, try_changes
from benchharness.extensions.explanation.differences import Difference, Explanation
from benchharness.extensions.explanation.foreign import trained
from benchharness.leaderboard.boards.cell import marked, note_lines
from benchharness.leaderboard.job import value_text
from benchharness.leaderboard.result import COLLAPSED
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.progress import job_names

Key = Annotated[str, argument("KEY", "The key of a run, or its first characters.", "keys")]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options of `bench explain`: the other training run, and repetitions with changed settings."""

    other: str = option(
        ...,
        "The other training: a Trainer's output folder, a file of arguments (docs/explain.md lists "
        "the formats), another run's key, or a published result, 'TABLE: SYSTEM'.",
        flag="--from",
        metavar="DIR|FILE|KEY|ROW",
    )
    tries: int = option(
        0,
        "Repeat the run with each of the first N differences alone, and show how each one changes "
        "the score.",
        flag="--try",
        metavar="N",
        least=0,
    )
    limit: int | None = option(
        None, "Keep at most N rows per split in runs of --try.", metavar="N", least=1
    )
    db: Database = DATABASE
    trust_remote_code: TrustCode = False


@with_options()
def explain(key: Key, *, asked: Asked, as_json: AsJson = False) -> None:
    """Explain why two scores differ: list every setting that differs, the likeliest cause first.

    Files of the other training run are read without running code from them. Exits with 2 if the
    key, the name or the task is wrong, with 4 if a folder or file contains no training arguments,
    is damaged or would run code, and with 1 if a run of --try failed.
    """
    with open_store(asked.db, create=False) as store:
        run = trained(store, key)
        found = explain_run(run, asked.other, store)
    options = RunOptions(db=asked.db, limit=asked.limit, trust_remote_code=asked.trust_remote_code)
    tried = try_changes(run, found, asked.tries, options, displayed) if asked.tries else None
    failures = tried.failures if tried else ()
    if as_json:
        print_json(_to_json(found, tried))
    else:
        for line in _lines(found):
            typer.echo(visible(line))
        print_table(
            [_row(each) for each in found.differences],
            ("value", "the run", "the other", "effect"),
            "no setting that both trainings specify differs."
            if found.compared
            else "the other training specifies no settings to compare.",
        )
        for line in _legend(found):
            typer.echo(visible(line))
        if tried:
            _show_tries(tried, asked.limit)
    tell_notes(complaints(failures, job_names([each.job for each in failures])))
    raise typer.Exit(exit_code(failures))


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{found.run} and {found.other}"
    if found.gap is not None and found.ours is not None and found.theirs is not None:
        # With one decimal, the difference may not be that of the rounded scores.
        texts = (f"{score * 100:.2f}" for score in (found.ours, found.theirs))
        ours, theirs = map(marked, texts, found.flags)
        yield f"{found.metric}: the run {ours}, the other {theirs}, {found.gap * 100:+.2f}"
        yield from note_lines(zip((found.run, found.other), found.flags, strict=True))
    yield from found.remarks


def _row(each: Difference) -> Mapping[str, Any]:
    return {
        "value": each.name,
        "the run": _words(each.ours, each.ours_from),
        "the other": _words(each.theirs, each.theirs_from),
        "effect": "" if each.points is None else f"up to {each.points:g} ({each.source})",
    }


def _words(value: Any, place: str) -> str:
    return f"{value_text(value)} ({place})"


_ASSUMED = {
    "padding": "length to which rows are padded",
    "padding_side": "side of padding",
    "truncation_side": "side of truncation",
    "noise": "noise on embeddings",
    "order": "order of rows",
    "drop_last": "drop an epoch's last small batch",
    "bias_correction": "Adam's bias correction",
    "decays": "weights that decay",
    "update_scale": "Adafactor's scaling of updates",
}
"""Descriptions of settings that are not recipe settings, whose names alone are not clear."""


def _legend(found: Explanation) -> Iterator[str]:
    if any(each.points is not None for each in found.differences):
        yield (
            "effect: the largest change of a score that benchharness measured, in points. Values "
            "without a measurement follow, ordered by their usual effect."
        )
    for words, names in (
        ("known for the run but not for the other training", found.not_said),
        ("known for the other training but not for the run", found.unread),
        ("arguments of the other training that benchharness does not know", found.unknown),
    ):
        if names:
            yield f"{words}: {', '.join(names)}."
    if "checkpoint" in found.not_said:
        yield (
            "checkpoint: no file of the other training names its checkpoint, so it is unknown "
            "whether both started with the same weights."
        )
    if found.assumed:
        shown = ((_ASSUMED.get(name, name), value) for name, value in found.assumed.items())
        each = (f"{name} ({value_text(value)})" for name, value in shown)
        yield f"defaults that are assumed for the other training: {', '.join(each)}."


def _show_tries(tried: Tries, limit: int | None) -> None:
    rows = [
        {
            "value": _name(each),
            f"{tried.metric} moves": each.error
            if each.moved is None
            else marked(f"{each.moved * 100:+.2f}", each.flags),
            "of the gap": "" if each.share is None else marked(f"{each.share:.0%}", each.flags),
            "beyond noise": ""
            if each.moved is None or tried.noise is None
            else abs(each.moved) > tried.noise,
        }
        for each in tried.tries
    ]
    print_table(rows, tuple(rows[0]) if rows else (), "no differences to try.")
    for line in note_lines((_name(each), each.flags) for each in tried.tries):
        typer.echo(visible(line))
    if any(not COLLAPSED.isdisjoint(each.flags) for each in tried.tries):
        typer.echo(
            "A collapsed run learned nothing, so its part of the gap does not show that this "
            "setting explains the other score."
        )
    noise = "unknown" if tried.noise is None else f"±{tried.noise * 100:.1f}"
    where = f" on at most {limit:,} rows per split; the gap is on all rows" if limit else ""
    typer.echo(
        f"noise: {noise}, estimated from seeds {', '.join(map(str, tried.seeds))}{where}. In 95 % "
        "of cases, two runs with equal settings differ by less."
    )


def _name(each: Try) -> str:
    if "limit" in each.change:
        return f"{each.name} (without --limit)"
    return ", ".join(f"{n}={v}" for n, v in each.change.items()) or each.name


def _to_json(found: Explanation, tried: Tries | None) -> dict[str, Any]:
    facts = asdict(found) | {"gap": found.gap}
    if tried is None:
        return facts
    tries = asdict(tried)
    tries.pop("failures")
    failed = [{"key": f.job.key, "error": f.error} for f in tried.failures]
    return facts | {"tried": tries | {"failures": failed}}
