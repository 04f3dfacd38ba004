"""`bench score`: score prediction files from any program, and optionally store the scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchharness.cli.options import AsJson, Database, TrustCode, argument, with_options
from benchharness.cli.output import print_json, tell_notes
from benchharness.driver.options import DATABASE, option
from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.prediction_files import NoAnswer
from benchharness.extensions.submission.scoring import Scored, score_files, to_result
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import split_title

Files = Annotated[
    list[Path],
    argument("PREDICTIONS...", "Prediction files, one per scored split (MNLI has two dev splits)."),
]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Options of `bench score` that describe the predictions and the labelled rows."""

    task: str = option(
        ..., "Task of the predictions, such as glue/cola.", metavar="NAME", proposes="tasks"
    )
    data: str = option(
        "hub",
        "Source of the labelled rows.",
        metavar="hub|DIR|mini",
        proposes=("hub", "mini"),
    )
    split: tuple[str, ...] = option(
        (),
        "Split of each file, in the order of the files; repeatable. Default: the dev splits.",
        metavar="NAME",
    )
    na_prob: Path | None = option(
        None, "SQuAD 2.0: no-answer scores (a file na_prob.json or null_odds.json).", metavar="FILE"
    )
    trust_remote_code: TrustCode = False
    na_prob_threshold: float | None = option(
        None,
        "SQuAD 2.0: predict no answer if the score in --na-prob exceeds X. Default: 1, as in "
        "evaluate-v2.0.py.",
        metavar="X",
    )


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Options of `bench score` for missing answers, and for storing the scores."""

    strict: bool = option(False, "Refuse a file with missing answers.")
    store: bool = option(False, 'Store the scores. The leaderboard lists them as "scored here".')
    allow_missing: bool = option(False, "With --store: store scores even if answers are missing.")
    model: str | None = option(
        None, "With --store: name of the system that made the predictions.", metavar="NAME"
    )
    db: Database = DATABASE


@with_options()
def score(files: Files, *, predicted: Predicted, kept: Kept, as_json: AsJson = False) -> None:
    """Score prediction files from any program as the benchmark's official scorer does.

    Nothing is trained, and torch is not needed.
    """
    if kept.store != (kept.model is not None):
        raise BenchError(
            "--store and --model NAME belong together: pass both or neither. NAME is the name of "
            "the system that made the predictions."
        )
    if kept.allow_missing and (kept.strict or not kept.store):
        raise BenchError("--allow-missing requires --store, and cannot be used with --strict.")
    no_answer = NoAnswer(file=predicted.na_prob, threshold=predicted.na_prob_threshold)
    scored = score_files(
        files,
        predicted.task,
        predicted.data,
        predicted.split,
        None if no_answer == NoAnswer() else no_answer,
    )
    if not kept.allow_missing:
        _check_missing(scored, strict=kept.strict, store=kept.store)
    key = None if kept.model is None else _keep(scored, kept.model, kept.db)
    if as_json:
        print_json({**_facts(scored), "stored": key})
    else:
        _print(scored)
        if key is not None:
            typer.echo(f"stored: {key[:12]} (recipe: scored here)")


def _check_missing(scored: Scored, *, strict: bool, store: bool) -> None:
    """Raise DataError if answers are missing and `strict` or `store` is True."""
    for one in scored.splits:
        if not one.missing or not (strict or store):
            continue
        found = f"{one.file} lacks {one.missing} of {len(one.evaluation.predictions)} answers"
        if strict:
            raise DataError(f"{found}: without --strict, missing answers count as wrong.")
        raise DataError(f"{found}: pass --allow-missing to store the scores with a flag.")


def _keep(scored: Scored, model: str, db: str) -> str:
    """Store the scores as a result, and return the key of the result."""
    result = to_result(scored, model)
    with open_store(db) as store:
        tell_notes(store.taken.sentences(store.name))
        store.add_result(result)
    return result.job.key


def _facts(scored: Scored) -> dict[str, Any]:
    return {
        "task": scored.task.name,
        "data": scored.data,
        "splits": {
            one.evaluation.split: {
                "predictions": len(one.evaluation.predictions),
                "missing": one.missing,
                "scores": dict(one.evaluation.scores),
                "official": dict(one.official),
                "flags": list(one.evaluation.flags),
                "notes": list(one.notes),
            }
            for one in scored.splits
        },
    }


def _print(scored: Scored) -> None:
    for one in scored.splits:
        tell_notes(one.notes)
        found = one.evaluation
        count = len(found.predictions) - one.missing
        title = split_title(found.task, found.split)
        typer.echo(visible(f"{title} ({scored.data}), {count} predictions"))
        _print_scores(found.scores)
        if one.official:
            typer.echo(f"scores as the official script prints them ({one.unit}):")
            _print_scores(one.official)
        for flag in found.flags:
            typer.echo(f"  ! {flag}")


def _print_scores(scores: Mapping[str, float]) -> None:
    width = max(map(len, scores))
    for name, value in scores.items():
        typer.echo(f"  {name:<{width}}  {value:.6g}")
