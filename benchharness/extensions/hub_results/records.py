"""Store the scores of a repository on the Hub as imported rows, and export them again.

An imported row keeps all fields of its entry, so that the export has the same bytes as the file
from which the entry was read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.exports.cards import RESULTS_FILE, eval_results_text, import_hub
from benchharness.extensions.hub_results.layout import Form
from benchharness.extensions.hub_results.repository import Repository
from benchharness.extensions.hub_results.scores import HubScore, HubScores
from benchharness.leaderboard.boards.imported import ImportedScore, to_result
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import grouped
from benchharness.stored import stored_name


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Entry of a repository from which an imported row was made, as stored in its provenance.

    Attributes:
        repository: Name of the repository.
        commit: Commit of the repository, 40 hex digits.
        path: Path of the file.
        form: Format of the file.
        title: Name of the model in a model-index; empty for eval-results.
        fields: Fields of the Hub's class that are set.
        place: Position of the entry among the `count` imported entries of its format, from 0.
        count: Number of imported entries of this format in the repository.
        others: Number of entries in the repository that are not on tasks of benchharness.
    """

    repository: str
    commit: str
    path: str
    form: Form
    title: str
    fields: Mapping[str, Any]
    place: int
    count: int
    others: int


def to_results(repository: Repository, found: HubScores) -> list[Result]:
    """Convert the scores in a repository to results that can be stored as imported rows.

    The row of an entry is replaced if the repository is imported again at a later commit. Therefore
    the job's key covers the repository and the file, but not the commit, and the time of the commit
    is the time by which the store orders attempts.
    """
    counts, places = Counter(score.form for score in found.scores), Counter[Form]()
    several, results = Counter[tuple[str, ...]](), list[Result]()
    for score in found.scores:
        subject = (score.path, score.task, score.split, score.metric)
        origin = Origin(
            repository=repository.name,
            commit=repository.commit,
            path=score.path,
            form=score.form,
            title=score.title,
            fields=score.fields,
            place=places[score.form],
            count=counts[score.form],
            others=sum(found.others.values()),
        )
        results.append(_to_result(repository, score, origin, several[subject]))
        places[score.form] += 1
        several[subject] += 1
    return results


def _to_result(repository: Repository, score: HubScore, origin: Origin, number: int) -> Result:
    """Convert one score; `number` counts earlier entries of the file on the same score."""
    identity = f"hub:{repository.name}/{score.path}{f' {number + 1}' if number else ''}"
    made = to_result(
        ImportedScore(
            model=repository.name,
            task=score.task,
            metric=score.metric,
            split=score.split,
            score=score.value,
            source=identity,
            date=repository.date,
            flags=score.flag,
        )
    )
    source = repository.address(score.path)
    job = replace(made.job, source=source)
    return replace(made, job=job, provenance={"source": source, "hub": asdict(origin)})


def imported_content(store: Store, model: str, form: Form) -> tuple[str | dict[str, Any], int]:
    """Return the content that was imported from a repository, in one of its formats.

    Args:
        store: Store with the imported rows.
        model: Name of the repository, or the name that the user has given to it.
        form: Format.

    Returns:
        The argument of `cards.upload`, and the number of entries of the repository that are left
        out, because they are not on tasks of benchharness, or their values have no known unit.

    Raises:
        BenchError: Nothing was imported from the repository in this format, or no value has a known
            unit.
        DataError: Some rows of the last import were deleted, or a row was changed.
    """
    origins = [each for each in _origins(store, model) if each.form == form]
    of_commits = grouped(((each.repository, each.commit), each) for each in origins)
    if not of_commits:
        raise BenchError(
            f"no {form} of {model} was imported: use `bench db import hub:{model}` first, and "
            "--format for another format."
        )
    whole = [found for found in of_commits.values() if len(found) == found[0].count]
    if not whole:
        raise DataError(
            f"some imported rows of {model} are missing, so they cannot be exported: use `bench db "
            f"import hub:{model}` again."
        )
    entries = sorted(whole[-1], key=lambda each: each.place)
    # In files of other programs, the unit of a value is unknown.
    chosen = [e for e in entries if form != "eval-results" or e.path == RESULTS_FILE]
    if not chosen:
        raise BenchError(
            f"the eval-results of {model} are from other programs, which do not give the unit of "
            "a value, so they cannot be exported: pass --format model-index if it has a card."
        )
    try:
        return _content(form, chosen), chosen[0].others + len(entries) - len(chosen)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"the imported rows of {model} are damaged ({error}): use `bench db import hub:{model}`"
            " again."
        ) from error


def _origins(store: Store, model: str) -> Iterator[Origin]:
    rows = store.runs(model=stored_name(store, model))
    for result in store.results(row.key for row in rows if row.kind == "imported"):
        said = {} if isinstance(result, Failure) else result.provenance
        found = said.get("hub") if isinstance(said, dict) else None
        if isinstance(found, dict):
            try:
                yield Origin(**found)
            except TypeError as error:
                raise DataError(f"the imported rows of {model} are damaged ({error}).") from error


def _content(form: Form, origins: Sequence[Origin]) -> str | dict[str, Any]:
    hub = import_hub()
    if form == "eval-results":
        return eval_results_text(hub.EvalResultEntry(**each.fields) for each in origins)
    results = [hub.EvalResult(**each.fields) for each in origins]
    return {"model_name": origins[0].title, "eval_results": results}
