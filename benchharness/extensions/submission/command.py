"""`bench submit`: write a submission for a benchmark's server, or check or repair one."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from benchharness.cli.options import AsJson, Database, with_options
from benchharness.cli.output import print_json, writing
from benchharness.driver.options import DATABASE, option
from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.answer_file import Fault
from benchharness.extensions.submission.inspection import check, repair, write_zip
from benchharness.extensions.submission.write import FORMS, SUBMITTED, Gathered, Wanted, gather
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import visible, whole_file
from benchharness.models import find_model
from benchharness.tasks.suite import Suite
from benchharness.tasks.suites import find_suite, find_task, title_of


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """Options of `bench submit` for the stored runs to submit, and for their answers."""

    model: str | None = option(
        None, "Submit the stored runs of this model.", metavar="NAME", proposes="stored_models"
    )
    suite: str | None = option(
        None,
        f"Suite to submit: {', '.join(SUBMITTED[:-1])} or {SUBMITTED[-1]}.",
        metavar="NAME",
        proposes=SUBMITTED,
    )
    seed: int | None = option(
        None, "Submit the runs with this seed. Default: the best runs on dev.", metavar="N"
    )
    fill: bool = option(False, "Write a constant answer for tasks that were not run.")
    threshold: float | None = option(
        None,
        "SQuAD 2.0: leave a question unanswered if its no-answer score exceeds X. Default: 0.",
        metavar="X",
    )
    db: Database = DATABASE


SHOWN_OF_A_FILE = 20
"""Maximum number of problems that are printed per file; --json prints all of them."""


@with_options(plugins=False)
def submit(
    *,
    wanted: Submitted,
    out: str | None = option(
        None,
        "Path to write to. Default: a name from the suite and model, or from the repaired file.",
        metavar="FILE",
    ),
    check: str | None = option(
        None, "List all problems in this submission, which may be from any program.", metavar="FILE"
    ),
    repair: str | None = option(
        None,
        "Write a repaired copy of this submission, if each problem has only one possible fix.",
        metavar="FILE",
    ),
    as_json: AsJson = False,
) -> None:
    """Write a suite's official submission from stored predictions, or check or repair a submission.

    The predictions come from `bench run --test`. --check exits with 4 if a problem is found.
    """
    writes = wanted.model is not None and wanted.suite is not None
    if [writes, check is not None, repair is not None].count(True) != 1:
        raise BenchError(
            "pass one of these: --model NAME with --suite NAME to write a submission, "
            "--check FILE, or --repair FILE."
        )
    if check is not None:
        _check(Path(check), as_json=as_json)
    elif repair is not None:
        _repair(Path(repair), out, as_json=as_json)
    elif wanted.model is not None and wanted.suite is not None:
        found = _gather(wanted, wanted.model, find_suite(wanted.suite))
        _write(found, out or _default_name(wanted.suite, wanted.model), as_json=as_json)


def _check(path: Path, *, as_json: bool) -> None:
    """Print all problems in a submission.

    Raises:
        DataError: The submission has a problem.
    """
    faults = check(path)
    if as_json:
        print_json({"file": str(path), "faults": [vars(fault) for fault in faults]})
    else:
        _print_faults(path, faults)
    if faults:
        raise DataError(f"{path} has {_counted(len(faults))}.")


def _counted(faults: int) -> str:
    return f"{faults or 'no'} {'problem' if faults == 1 else 'problems'}"


def _print_faults(path: Path, faults: Sequence[Fault]) -> None:
    shown: Counter[str] = Counter()
    for fault in faults:
        shown[fault.file] += 1
        if shown[fault.file] <= SHOWN_OF_A_FILE:
            typer.echo(visible(str(fault)))
    for name, count in shown.items():
        if count > SHOWN_OF_A_FILE:
            more = f"{_counted(count - SHOWN_OF_A_FILE)} more than shown"
            typer.echo(visible(f"{name} has {more}. Pass --json to list all."))
    mendable = sum(fault.mendable for fault in faults)
    typer.echo(visible(f"{path}: {_counted(len(faults))}"))
    if mendable:
        typer.echo(
            f"`bench submit --repair` can fix {mendable} of them, but it writes a file only if it "
            "can fix all."
        )


def _repair(path: Path, out: str | None, *, as_json: bool) -> None:
    ending = ".json" if path.suffix == ".json" else ".zip"
    target = Path(out) if out else path.with_name(f"{path.stem}-repaired{ending}")
    with writing(f"the submission {target}", "Pass another --out."):
        faults = repair(path, target)
    if as_json:
        print_json({"out": str(target), "mended": [vars(fault) for fault in faults]})
        return
    for fault in faults:
        typer.echo(visible(f"repaired: {fault}"))
    typer.echo(visible(f"written: {target}"))


def _gather(wanted: Submitted, model: str, suite: Suite) -> list[Gathered]:
    with open_store(wanted.db, create=False) as store:
        return gather(
            store,
            # If no run has the given name, the name may be an alias of the model.
            store.runs(model=model, suite=suite.name)
            or store.runs(model=find_model(model).name, suite=suite.name),
            Wanted(suite=suite, seed=wanted.seed, fill=wanted.fill, threshold=wanted.threshold),
        )


def _default_name(suite: str, model: str) -> str:
    """Return the default name of a submission, e.g. glue-roberta-base.zip."""
    ending = FORMS[suite.lower()].ending if suite.lower() in FORMS else ".zip"
    # A file name in Linux has at most 255 bytes, and a character may have four bytes.
    safe = re.sub(r"[^\w.-]+", "-", model).strip("-.")[:50]
    return f"{suite.lower()}-{safe or 'model'}{ending}"


def _write(found: Sequence[Gathered], out: str, *, as_json: bool) -> None:
    """Write the submission, and print which run each of its files was made from."""
    _put(found, Path(out))
    if as_json:
        print_json({"out": out, "files": [_facts(file) for file in found]})
        return
    for file in found:
        origin = (
            f"run {file.run.key[:12]}, {file.run.model}, {file.run.recipe_label}, "
            f"seed {file.run.seed}"
            if file.run
            else f"{_missing(file.task)}, so all answers are the same"
        )
        typer.echo(visible(f"{str(file.path).strip('.') or out}: {origin}"))
    typer.echo(visible(f"written: {out}"))


def _missing(task: str) -> str:
    """Return the reason why the store has no predictions for a task."""
    trained = find_task(task).trained_on
    if trained:  # such as AX, which models that are trained on MNLI predict
        return f"no run of {title_of(trained)} has predicted it"
    return "this task was not run"


def _facts(file: Gathered) -> dict[str, Any]:
    return {
        "file": str(file.path).strip("."),
        "task": file.task,
        "run": file.run.key if file.run else None,
        "seed": file.run.seed if file.run else None,
    }


def _put(found: Sequence[Gathered], out: Path) -> None:
    """Write the files of a submission to `out`.

    The output is a single file if the only file has an empty path, a folder if the path of any file
    has a folder, and otherwise a zip.
    """
    with writing(f"the submission {out}", "Pass another --out."):
        if len(found) == 1 and found[0].path == Path():
            _write_file(out, found[0].content)
        elif any(file.path.parent != Path() for file in found):
            for file in found:
                _write_file(out / file.path, file.content)
        else:
            write_zip(out, {str(file.path): file.content for file in found})


def _write_file(path: Path, content: bytes) -> None:
    """Write a file atomically; its folder is created if it is missing."""
    with whole_file(path) as file:
        file.write(content)
