"""`bench score`: scores a prediction file that anyone made, and can put it on the board."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchharness.cli.options import DATABASE, AsJson, Database, with_plugins
from benchharness.cli.output import print_json, tell_notes
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.scoring import NoAnswer, Scored, score_files, to_result
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import split_title

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="PREDICTIONS...",
        help="A prediction file for each split that is scored (MNLI has two).",
    ),
]
TaskName = Annotated[str, typer.Option("--task", metavar="NAME", help="The task: glue/cola.")]
Data = Annotated[
    str,
    typer.Option("--data", metavar="hub|DIR|mini", help="Where the labelled rows come from."),
]
Splits = Annotated[
    list[str] | None,
    typer.Option(
        "--split",
        metavar="NAME",
        help="The split that a file predicts; repeatable. Default: dev, then the other dev split.",
    ),
]
NoAnswerFile = Annotated[
    Path | None,
    typer.Option("--na-prob", metavar="FILE", help="SQuAD 2.0: na_prob.json or null_odds.json."),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--na-prob-threshold",
        metavar="X",
        help="SQuAD 2.0: no answer where --na-prob exceeds X, as in evaluate-v2.0.py.",
    ),
]
Keep = Annotated[
    bool, typer.Option("--store", help='Put the scores on the board as "scored here".')
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="With --store: whose predictions they are."),
]


@with_plugins
def score(  # noqa: PLR0913  (one parameter for each option)
    files: Files,
    *,
    task: TaskName,
    data: Data = "hub",
    split: Splits = None,
    na_prob: NoAnswerFile = None,
    na_prob_threshold: Threshold = 1.0,
    store: Keep = False,
    model: Model = None,
    db: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Score prediction files that anyone made, as the benchmark's official scorer does.

    Nothing is trained, and torch is not needed.
    """
    if store != (model is not None):
        raise BenchError(
            "--store and --model NAME belong together: say whose predictions they are."
        )
    no_answer = NoAnswer(file=na_prob, threshold=na_prob_threshold) if na_prob else None
    scored = score_files(files, task, data, split or (), no_answer)
    key = None if model is None else _keep(scored, model, db)
    if as_json:
        print_json(
            {
                "task": scored.task.name,
                "data": scored.data,
                "splits": {
                    one.evaluation.split: {
                        "predictions": len(one.evaluation.predictions),
                        "scores": dict(one.evaluation.scores),
                        "official": dict(one.official),
                        "flags": list(one.evaluation.flags),
                        "notes": list(one.notes),
                    }
                    for one in scored.splits
                },
                "stored": key,
            }
        )
    else:
        for one in scored.splits:
            for note in one.notes:
                typer.echo(visible(f"bench: {note}"), err=True)
            found = one.evaluation
            count = len(found.predictions)
            title = split_title(found.task, found.split)
            typer.echo(visible(f"{title} ({scored.data}), {count} predictions"))
            _print_scores(found.scores)
            if one.official:
                typer.echo("as the official script prints them, in percent:")
                _print_scores(one.official)
            for flag in found.flags:
                typer.echo(f"  ! {flag}")
        if key is not None:
            typer.echo(f"stored: {key[:12]}, scored here")


def _keep(scored: Scored, model: str, db: str) -> str:
    """Stores the scores as a result; gives its key."""
    result = to_result(scored, model)
    with open_store(db) as store:
        tell_notes(store.taken.sentences(store.name))
        store.add_result(result)
    return result.job.key


def _print_scores(scores: Mapping[str, float]) -> None:
    width = max(map(len, scores))
    for name, value in scores.items():
        typer.echo(f"  {name:<{width}}  {value:.6g}")
