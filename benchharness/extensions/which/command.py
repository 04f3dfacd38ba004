"""`bench which`: find the best encoder for some tasks within a number of minutes."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from benchharness.cli.chosen import opened
from benchharness.cli.options import AsJson, in_this_database, with_options
from benchharness.cli.output import complaints, exit_code, print_json, print_table, tell_notes
from benchharness.driver.display import displayed
from benchharness.driver.options import OF_WHICH, OPTIONS, WHAT, RunOptions, option
from benchharness.driver.session import Session
from benchharness.driver.start_checkpoints import kept_model
from benchharness.errors import BenchError
from benchharness.extensions.kept_models.command import take_found, train_kept
from benchharness.extensions.kept_models.export import check_learned, find_seed, take_run
from benchharness.extensions.kept_models.onnx_command import Variants
from benchharness.extensions.search.rounds import Search
from benchharness.extensions.which.answers import Answer, Candidate
from benchharness.extensions.which.choose import Found, Inference, choose, measured, options_among
from benchharness.kept_folders import check_place
from benchharness.leaderboard.boards.cell import marked, note_lines, shown
from benchharness.leaderboard.result import Failure
from benchharness.leaderboard.text import counted, visible
from benchharness.models import BASELINES
from benchharness.progress import job_name, job_names
from benchharness.tasks.suites import distinct_title


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of `bench which` for exporting the trained model of the best encoder."""

    to: Path | None = option(
        None,
        "Export the best encoder's fine-tuned model, as `bench model` does: the seed nearest to "
        "the median (the lower one in a tie), which is trained again unless it was kept "
        "(--keep-models). With several tasks, each gets a folder.",
        metavar="DIR",
        head=WHAT,
    )
    take_seed: int | None = option(
        None, "Export the model of this seed, with --to.", metavar="N", head=WHAT
    )


@with_options(but=OPTIONS.keys() - OF_WHICH)
def which(
    options: RunOptions,
    *,
    among: list[str] = option(
        ...,
        "Encoders to choose from, as for `bench run --model`; repeatable.",
        metavar="NAME,NAME,...",
        proposes="models",
        head=WHAT,
    ),
    minutes: float = option(
        ...,
        "Time budget: a run starts only if it is expected to end in time. Stored runs take no "
        "time. Baselines, and the training for --to, come on top.",
        metavar="N",
        head=WHAT,
    ),
    wanted: Wanted,
    as_json: AsJson = False,
) -> None:
    """Find the best of several encoders for some tasks, within a number of minutes.

    The search is successive halving over encoders, learning rates and seeds. Runs are stored as
    with `bench run`, so the same command resumes an interrupted search.
    """
    if wanted.to is not None:
        check_place(wanted.to)
    session = Session.of(options_among(options, among), displayed)
    request = session.request
    for note in request.notes:
        typer.echo(visible(note), err=as_json)
    found = choose(session, minutes, lambda words: typer.echo(f"{words}.", err=True), tell_notes)
    answers, search = found.answers, found.search
    with Console(stderr=True).status("measuring the encoders"):
        costs = measured(request, search.jobs)
    failures = [each for each in search.outcomes if isinstance(each, Failure)]
    if not as_json:
        _show(found, costs, request.slots[0].device, options.db)
        names = job_names([*search.jobs, *(failure.job for failure in failures)])
        tell_notes(complaints(failures, names))
    taken = _take(answers[-1], wanted, options, as_json=as_json)
    if as_json:
        print_json(_to_json(found, costs, failures) | {"taken": taken})
    raise typer.Exit(exit_code(failures))


def _take(
    answer: Answer, wanted: Wanted, options: RunOptions, *, as_json: bool
) -> list[dict[str, Any]]:
    """Export the best encoder's model for each task; return the facts that `bench model` prints.

    Raises:
        BenchError: No encoder is better than the majority baseline, or a model has learned nothing.
    """
    to, seed, found = wanted.to, wanted.take_seed, list[dict[str, Any]]()
    if to is None:
        return found
    if not answer.best:
        raise BenchError(f"{answer.sentence.removesuffix('.')}, so {to} was not written.")
    keys, runs = {}, answer.candidates[0].runs
    for task, scores in runs.items():  # check all models before one is written
        with opened(options.db) as store:
            chosen = find_seed(store, options.db, scores, seed)
        check_learned(chosen)
        keys[task] = chosen.result.job.key
    again = RunOptions(db=options.db, trust_remote_code=options.trust_remote_code)
    for task, scores in runs.items():
        place = to / task.replace("/", "-") if len(answer.tasks) > 1 else to
        # If the model was not kept, train it again. On the same machine, the result is the same.
        if not (is_kept := kept_model(options.db, keys[task])):
            train_kept(keys[task], again, anyway=True, as_json=as_json)
        with opened(options.db) as store:
            found += take_found(
                run := find_seed(store, options.db, scores, seed),
                take_run(
                    run,
                    place,
                    trust=options.trust_remote_code,
                    anyway=is_kept is None,
                ),
                Variants(),
                as_json=as_json,
            )
    return found


def _show(found: Found, costs: Mapping[str, Inference | str], device: str, db: str) -> None:
    answers, last = found.answers, found.answers[-1]
    rows = [_row(each, answers, costs.get(each.encoder)) for each in last.candidates]
    if not any(row.get("point") for row in rows):
        for row in rows:  # only one setting of the hyperparameters was tried
            row.pop("point", None)
    columns = list(rows[0]) if rows else []
    if rows:
        rows += [
            dict.fromkeys(columns, "")
            | {"encoder": name}
            | {_column(a): shown(a.baselines[name]) for a in answers if name in a.baselines}
            for name in _baselines(answers)
        ]
    print_table(rows, columns, "no encoder has a score on every task.", in_parts=True)
    for answer in answers:
        typer.echo(visible(answer.sentence))
        if answer.missing:
            typer.echo(visible(f"encoders without a score: {', '.join(answer.missing)}."))
    lines = (*_doubts(last, found.warnings), *_legend(answers, found.search, costs, device))
    for line in (*lines, *_closing(found.search, db)):
        typer.echo(visible(line))
    for each in found.advice:
        typer.echo(f"{visible(each.sentence)}\n    {visible(each.command)}")


def _baselines(answers: Sequence[Answer]) -> list[str]:
    """Return the names of the baselines with a score in an answer, the majority baseline last."""
    scored = {name for answer in answers for name in answer.baselines}
    return [spec.name for spec in reversed(BASELINES) if spec.name in scored]


def _doubts(answer: Answer, warnings: Sequence[str]) -> Iterator[str]:
    """Yield reasons why the ranking may be wrong: short training, selection bias, baselines."""
    for warning in warnings:
        yield f"Scores may be too low, because training was short. {warning}"
    if lost := answer.unlearned:
        yield (
            f"{', '.join(lost)} may do better with more epochs (--set epochs=N) or another "
            "learning rate (--set learning_rate=...)."
        )
    if not answer.candidates:
        return
    first = answer.candidates[0]
    if first.gain and shown(first.gain) != "0.0":
        yield (
            f"The score of {first.encoder} is the best of {first.settings} settings, and therefore "
            f"about {shown(first.gain)} points too high: with other {first.gain_scope}, expect "
            f"about {shown(first.score - first.gain)}."
        )
    elif first.gain is None and first.settings > 1:
        yield (
            f"The score of {first.encoder} is the best of {first.settings} settings, so it is "
            "probably too high. It is unknown by how much, because "
            f"{'on some task ' if len(answer.tasks) > 1 else ''}no setting has two seeds."
        )
    high = [name for name, score in answer.baselines.items() if score >= first.score]
    for name in high if answer.best else ():
        yield f"The baseline {name} is at least as good as {first.encoder}."


def _row(
    candidate: Candidate, answers: Sequence[Answer], cost: Inference | str | None
) -> dict[str, str]:
    """Return the table row of an encoder: score, interval, scores on tasks, and cost."""
    scores = {
        _column(answer): _score(answer, candidate.encoder)
        for answer in (answers[-1], *answers[:-1])
    }
    (first, score), *others = scores.items()
    return {
        "encoder": candidate.encoder,
        first: score,
        "95 % interval": _interval(candidate),
        **dict(others),
        **({"point": ", ".join(candidate.points.values())} if len(answers) == 1 else {}),
        "seeds": "-".join(dict.fromkeys(map(str, candidate.seeds))),
        "tokens/s": f"{cost.tokens_per_second:,.0f}" if isinstance(cost, Inference) else "",
        "memory": f"{cost.peak_memory_bytes / 1e6:,.0f} MB" if isinstance(cost, Inference) else "",
    }


def _column(answer: Answer) -> str:
    return distinct_title(answer.tasks[0]) if len(answer.tasks) == 1 else "mean"


def _score(answer: Answer, encoder: str) -> str:
    """Return an encoder's score, with "*" if it is among the best and "!" if it is flagged."""
    for candidate in answer.candidates:
        if candidate.encoder == encoder:
            score = marked(shown(candidate.score), candidate.flags)
            return f"{score}{'*' if encoder in answer.best else ''}"
    return ""


def _interval(candidate: Candidate) -> str:
    if candidate.interval is None:
        return ""
    return f"{shown(candidate.interval.low)} to {shown(candidate.interval.high)}"


_WITHOUT_STAR = (
    " An encoder that has learned nothing, or that is not better than the majority class, has no "
    "star."
)


def _legend(
    answers: Sequence[Answer], search: Search, costs: Mapping[str, Inference | str], device: str
) -> Iterator[str]:
    last = answers[-1]
    scopes = {candidate.scope for candidate in last.candidates} - {""}
    over = f", over {scopes.pop()}" if len(scopes) == 1 else ""
    yield (
        "*: the best score of a column, and scores that do not differ significantly from it "
        f"(95 %{over})."
        f"{_WITHOUT_STAR if any(answer.tied_without_star for answer in answers) else ''}"
    )
    yield from note_lines(
        ((each.encoder, distinct_title(task)), flags)
        for each in last.candidates
        for task, flags in each.flags.items()
    )
    yield "Scores are times 100: medians over seeds, with the best setting that was tried."
    known = [cost for cost in costs.values() if isinstance(cost, Inference)]
    if known:
        where = device if device != "cpu" else f"the CPU ({counted(known[0].threads, 'thread')})"
        first = search.jobs[0]
        yield (
            "tokens/s and memory were measured while predicting dev rows of "
            f"{distinct_title(first.task)} in {first.precision} on {where}, with one encoder per "
            "process."
        )
    yield from (f"{name}: {cost}" for name, cost in costs.items() if isinstance(cost, str))


def _closing(search: Search, db: str) -> Iterator[str]:
    """Yield sentences about the completeness of the search and the commands that show its runs."""
    done, possible = len(search.jobs), len(search.trials)
    runs = "possible runs (encoders x tasks x settings x seeds)"
    if done == possible:
        yield f"All {possible} {runs} have ended."
    elif search.left:
        yield (
            f"The minutes are over: {done} of the {possible} {runs} have ended. To make the answer "
            f"more certain, run the same command again; it continues with {search.left}."
        )
    else:
        yield f"{done} of the {possible} {runs} have ended. The others cannot change the answer."
    board, report = (
        shlex.join(["bench", name, *in_this_database(db)]) for name in ("leaderboard", "report")
    )
    yield f"`{board}` prints the scores of all runs, and `{report}` writes the report."


def _to_json(
    found: Found, costs: Mapping[str, Inference | str], failures: Sequence[Failure]
) -> dict[str, Any]:
    answers, search = found.answers, found.search
    return {
        "exit_code": exit_code(failures),
        "runs": len(search.jobs),
        "of": len(search.trials),
        "left": search.left or None,
        "answers": [_facts(answer) for answer in answers],
        "warnings": list(found.warnings),
        "advice": [{"sentence": a.sentence, "command": a.command} for a in found.advice],
        "inference": {
            name: asdict(cost) if isinstance(cost, Inference) else {"error": cost}
            for name, cost in costs.items()
        },
        "failed": [
            {"key": failure.job.key, "job": job_name(failure.job), "error": failure.error}
            for failure in failures
        ],
    }


def _facts(answer: Answer) -> dict[str, Any]:
    return {
        "tasks": list(answer.tasks),
        "title": answer.title,
        "best": answer.best[0] if answer.best else None,
        "majority": answer.majority,
        "baselines": dict(answer.baselines),
        "not_told_apart": list(answer.tied),
        "without_score": list(answer.missing),
        "sentence": answer.sentence,
        "candidates": [asdict(candidate) for candidate in answer.candidates],
    }
