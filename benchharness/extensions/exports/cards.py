"""Export of scores to model cards on the Hugging Face Hub, as model-index or eval-results."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

from benchharness.errors import BenchError, first_line
from benchharness.extensions.exports.lines import ScoreLine, score_lines, the_model
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import score_names
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.result import Measure, measures_of
from benchharness.leaderboard.text import counted, grouped, visible
from benchharness.tasks.sources.hub import go_offline_if_unreachable
from benchharness.tasks.suite import ScoreRule, complete_mean
from benchharness.tasks.suites import TASKS, full_title
from benchharness.tasks.task import Task, suffix_of

METRICS = {
    "mcc": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "em": "exact_match",
}
"""Names of metrics on the Hugging Face Hub (huggingface.co/evaluate-metric), keyed by their names
in benchharness. Metrics that have the same name in both are left out."""


def official(boards: Iterable[Board]) -> list[Board]:
    """Return the leaderboards whose scores are on complete, official data sets from the Hub.

    Only these scores may be in a model card. Scores on synthetic or incomplete data would be
    misleading, and a model card must name a data set on the Hub.

    Raises:
        BenchError: If there is no such leaderboard.
    """
    whole = [board for board in boards if board.is_whole]
    if found := [board for board in whole if all(TASKS[name].source.hub for name in board.tasks)]:
        return found
    if whole:
        raise BenchError(
            "a model card can only contain scores on data sets from the hub, and "
            f"{whole[0].title} is not on the hub. Use the format csv, json, markdown or latex."
        )
    raise BenchError(
        "a model card can only contain scores on the complete official data, and these are on mini "
        "data or limited by --limit. Use the format csv, json, markdown or latex."
    )


def check_learned(boards: Iterable[Board]) -> None:
    """Raise BenchError if a model card would show the score of a model that has learned nothing.

    A model has learned nothing on a task if the run with the median score has collapsed (see
    `Cell.has_learned`). BenchError is also raised if none of the leaderboards may be in a model
    card (see `official`).
    """
    for shown in official(boards):
        for entry, name in product(shown.entries, shown.tasks):
            cell = entry.cells.get(name)
            if cell is not None and not cell.has_learned:
                raise BenchError(
                    f"{entry.name} learned nothing on {full_title(name)} "
                    f"({'; '.join(cell.notes)}), so its score is misleading on a model card: leave "
                    "it out with --task, or pass --collapsed-too to mark it on the card."
                )


def _counted_lines(board: Board) -> list[ScoreLine]:
    """Return the scores on tasks for their main metrics, without the scores of suites."""
    return [
        line
        for line in score_lines([board])
        if line.task in TASKS and line.metric in {m.name for m in TASKS[line.task].metrics}
    ]


def _hub_revision(task: Task, board: Board) -> str | None:
    """Return the commit of the data set on the Hub; None if the data came from files."""
    return task.source.revision if board.data == ("hub",) and task.source.is_pinned else None


def to_model_index(boards: Iterable[Board]) -> str:
    """Return the scores of a model in the model-index format of model cards.

    The result is YAML, without the "---" lines that surround it in a model card. Scores have the
    unit of their metric, mostly 0 to 1.

    Raises:
        BenchError: If the leaderboards contain several models, or no scores that may be in a model
            card (see `official`).
    """
    return f"{model_card_data(**_scores(boards))}\n"


def _scores(boards: Iterable[Board]) -> dict[str, Any]:
    found = official(boards)
    model = the_model(found)[0].model
    results = [_result(board, line) for board in found for line in _counted_lines(board)]
    return {"model_name": visible(model), "eval_results": results}


def model_card_data(**facts: Any) -> str:
    """Return `ModelCardData(**facts)` of huggingface_hub as YAML, without "---" lines around it."""
    text: str = import_hub().ModelCardData(**facts).to_yaml()
    return text


RESULTS_FILE, COMMIT = ".eval_results/benchharness.yaml", "Scores by benchharness"


def send(boards: Sequence[Board], repository: str, *, as_results: bool) -> str:
    """Upload a model's scores to its repository on the Hub in one commit; return the commit's URL.

    Args:
        boards: Leaderboards that contain only this model.
        repository: Name of the repository, "owner/name".
        as_results: True to upload an eval-results file, False to merge the scores into the
            model-index in README.md.

    Raises:
        BenchError: If the scores may not be in a model card (see `official`), or if the Hub does
            not answer, refuses the request or fails. In the latter cases, the message states that
            nothing was sent, or that it is unknown whether the scores have arrived.
    """
    return upload(to_eval_results(boards) if as_results else _scores(boards), repository)


def upload(content: str | Mapping[str, Any], repository: str) -> str:
    """Upload scores to a model's repository on the Hub in one commit; return the commit's URL.

    Args:
        content: Text of an eval-results file, or arguments of `ModelCardData` of huggingface_hub
            with the scores that are merged into the model-index in README.md.
        repository: Name of the repository, "owner/name".

    Raises:
        BenchError: If the Hub does not answer, refuses the request or fails (see `send`).
    """
    if go_offline_if_unreachable():
        raise BenchError(f"the hub does not answer, so nothing was sent to {repository}.")
    hub = import_hub()
    started, asked = time.monotonic(), list[str]()
    try:
        with watched(hub.utils.get_session(), asked):
            if not isinstance(content, str):
                card = hub.ModelCardData(**content).to_dict()
                facts = {"overwrite": True, "commit_message": COMMIT}
                return str(hub.metadata_update(repository, card, **facts))
            path, file = RESULTS_FILE, content.encode()
            sent = hub.HfApi().upload_file(
                path_or_fileobj=file, path_in_repo=path, repo_id=repository, commit_message=COMMIT
            )
            return str(sent.commit_url)
    except Exception as error:  # any error of the Hub's client and its HTTP library
        reason = f"{first_line(error)}, {time.monotonic() - started:.1f} seconds after the start"
        status = getattr(getattr(error, "response", None), "status_code", 0)
        # Only a request to commit can change the repository, unless the server refused it.
        if "/commit/" in "".join(asked[-1:]) and status not in REFUSED:
            raise BenchError(
                f"it is unknown whether the scores have arrived in {repository} ({reason}): check "
                f"{hub.constants.ENDPOINT}/{repository}/commits/main before you send them again."
            ) from error
        advice = _advice(hub, error, status)
        raise BenchError(f"nothing was sent to {repository}: {reason}{advice}.") from error


ANSWER_SECONDS = 60.0
"""Maximum number of seconds to wait for a response from the Hub, including repeated requests."""

REFUSED = range(400, 500)
"""HTTP status codes that mean that the server has changed nothing (RFC 9110, section 15.5)."""


@contextmanager
def watched(session: Any, asked: list[str]) -> Iterator[None]:
    """Context manager that records the requests of an HTTP session and limits their duration.

    Each requested URL is appended to `asked`. A request fails if there is no response for
    ANSWER_SECONDS; without this, the client would wait forever.
    """
    deadline = time.monotonic() + ANSWER_SECONDS

    def note(request: Any) -> None:
        # The client repeats a failed request five times, so the timeout of one request is too long.
        if time.monotonic() > deadline:
            raise BenchError(f"the hub has not answered for {ANSWER_SECONDS:g} seconds")
        asked.append(str(request.url))

    def go_on(_: Any) -> None:
        nonlocal deadline
        deadline = time.monotonic() + ANSWER_SECONDS

    # Restore these at the end, because the whole process shares the session.
    hooks, timeout = session.event_hooks, session.timeout
    session.timeout = ANSWER_SECONDS
    more = {"request": note, "response": go_on}
    session.event_hooks = {name: [*hooks[name], hook] for name, hook in more.items()}
    try:
        yield
    finally:
        session.event_hooks, session.timeout = hooks, timeout


def _advice(hub: Any, error: Exception, status: int) -> str:
    if status in (401, 403, 404) or isinstance(error, hub.errors.LocalTokenNotFoundError):
        return " (the repository must exist; `hf auth login` stores a token with write access)"
    return "" if status in REFUSED else "; try again later"


def import_hub() -> Any:
    """Import and return huggingface_hub; call `go_offline_if_unreachable` before any request."""
    import huggingface_hub.utils  # noqa: PLC0415  (a third of a second)

    return huggingface_hub


def _result(board: Board, line: ScoreLine) -> Any:
    task, seeds = TASKS[line.task], counted(line.seeds, "seed")
    return eval_result(
        task,
        line.split,
        line.metric,
        line.score,
        name=f"{line.metric} ({_joined(f'median of {seeds}', line.selection, line.flags)})",
        revision=_hub_revision(task, board),
        args={"seeds": line.seeds, **_said(line)},
    )


def _said(line: ScoreLine) -> dict[str, str]:
    """Return the fields "parity" and "flags" of a score as a dict, without empty fields."""
    return {name: said for name in ("parity", "flags") if (said := getattr(line, name))}


def eval_result(  # noqa: PLR0913  (fields of the hub)
    task: Task,
    split: str,
    metric: str,
    value: float,
    *,
    name: str,
    args: dict[str, Any],
    revision: str | None = None,
    is_official: bool = True,
) -> Any:
    """Create an EvalResult of huggingface_hub: one score in the metadata of a model card.

    Args:
        task: Task of the score.
        split: Name of the split in benchharness.
        metric: Name of the metric in benchharness.
        value: Value of the score.
        name: Name under which the model card shows the score.
        args: Additional facts, such as the number of seeds.
        revision: Commit of the data set on the Hub; None if it is unknown.
        is_official: False if the score is not on the official data. The result then does not refer
            to a data set on the Hub.
    """
    known = task.source.splits.get(split) if is_official else None
    return import_hub().EvalResult(
        task_type=task.hub_type,
        dataset_type=task.source.hub if is_official else "other",
        dataset_name=full_title(task.name) + ("" if is_official else " (not the official data)"),
        dataset_config=((known and known.config) or task.source.config) if is_official else None,
        dataset_split=(known and known.hub) or split,
        dataset_revision=revision,
        metric_type=METRICS.get(metric, metric),
        metric_value=value,
        metric_name=name,
        metric_args=args,
    )


@dataclass(frozen=True, kw_only=True)
class HubTask:
    """Task of a benchmark on the Hub: an item of `tasks` in the eval.yaml of a data set.

    The Hub shows a leaderboard per HubTask. A task of benchharness with several dev splits, such as
    MNLI, is several of them.

    Attributes:
        dataset: Name of the data set on the Hub.
        id: Name of the task in the data set's eval.yaml.
        config: Config of the data set.
        hub_split: Name of the split on the Hub.
        task: Name of the task in benchharness.
        split: Name of the split in benchharness.
        scores: Names of the scores of a run whose mean is the value on the leaderboard.
        metrics: Names of the metrics of these scores.
    """

    dataset: str
    id: str
    config: str
    hub_split: str
    task: str
    split: str
    scores: tuple[str, ...]
    metrics: tuple[str, ...]


def hub_tasks(task: Task, rule: ScoreRule) -> list[HubTask]:
    """Return the tasks on the Hub that correspond to a task, one per split that is scored.

    Their ids are the configs of the data set. The id of a further split of the same config has the
    suffix of the split: MNLI's are "mnli" and "mnli_mm".

    Args:
        task: The task, whose source is a data set on the Hub.
        rule: Rule of the suite, which specifies the scores that count.
    """
    known, found = measures_of(task.name), dict[str, HubTask]()
    names = score_names(task.name, rule)
    first = (*task.dev_splits, *task.test_splits)[0]
    measured = ((known.get(name, Measure(first, name)), name) for name in names)
    of_splits = grouped((measure.split, (name, measure.metric)) for measure, name in measured)
    for split, pairs in of_splits.items():
        place = task.source.split(split)
        config = place.config or task.source.config
        called = config + suffix_of(split) if config in found else config
        scores, metrics = zip(*pairs, strict=True)
        found[called] = HubTask(
            dataset=task.source.hub,
            id=called,
            config=config,
            hub_split=place.hub,
            task=task.name,
            split=split,
            scores=scores,
            metrics=metrics,
        )
    return list(found.values())


def to_eval_results(boards: Iterable[Board]) -> str:
    """Return the scores of a model in the eval-results format of the Hub, as YAML.

    There is one value per task of the Hub (see `hub_tasks`), in percent: the median over the seeds.

    Raises:
        BenchError: If the leaderboards contain several models, or no scores that may be in a model
            card (see `official`).
    """
    found = official(boards)
    pairs = zip(found, the_model(found), strict=True)
    return eval_results_text(result for board, entry in pairs for result in _entries(board, entry))


def eval_results_text(entries: Iterable[Any]) -> str:
    """Return EvalResultEntry objects of huggingface_hub as the YAML of an eval-results file."""
    hub = import_hub()
    data = hub.eval_result_entries_to_yaml(list(entries))
    text: str = hub.utils.yaml_dump(data, sort_keys=False)
    return text


def _entries(board: Board, entry: Entry) -> Iterator[Any]:
    for name in board.tasks:
        if (cell := entry.cells.get(name)) is None:
            continue
        task = TASKS[name]
        seeds, parity = counted(len(cell.values), "seed"), board.parity_of(cell.runs)
        for each in hub_tasks(task, board.rule):
            means = (complete_mean([r.scores[name].get(s) for s in each.scores]) for r in cell.runs)
            values = [value for value in means if value is not None]
            yield import_hub().EvalResultEntry(
                dataset_id=each.dataset,
                task_id=each.id,
                dataset_revision=_hub_revision(task, board),
                # Round the value, because e.g. 0.943 times 100 is 94.30000000000001 as a float.
                value=round(100 * median(values), 10),
                date=max(run.finished for run in cell.runs),
                notes=_joined(
                    f"{' and '.join(each.metrics)} on {each.split}, the median of {seeds}",
                    cell.selection,
                    f"recipe {entry.recipe}",
                    parity and f"parity: {parity}",
                    *cell.notes,
                ),
            )


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)
