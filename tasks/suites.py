"""All tasks and suites, and the rules that average the scores of a suite's tasks.

A collection is a name for several suites. A collection has no score, because nobody averages GLUE
with CoNLL-2003: each of the suites has its own leaderboard.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any

from benchharness.discovery import extensions
from benchharness.errors import BenchError, unknown_name
from benchharness.tasks.conll import NER
from benchharness.tasks.glue import GLUE_TASKS, SNLI
from benchharness.tasks.multiple_choice import RACE, SWAG
from benchharness.tasks.sources.files import name_key
from benchharness.tasks.squad import SQUAD_TASKS
from benchharness.tasks.suite import ScoreRule, Suite, suite_of
from benchharness.tasks.superglue import SUPERGLUE_TASKS
from benchharness.tasks.task import Metric, Task, ending_of

GLUE_9 = ScoreRule(
    name="GLUE-9",
    cells={
        "glue/cola": ("mcc",),
        "glue/sst2": ("accuracy",),
        "glue/mrpc": ("f1", "accuracy"),
        "glue/stsb": ("pearson", "spearman"),
        "glue/qqp": ("f1", "accuracy"),
        "glue/mnli": ("accuracy", "accuracy_mm"),
        "glue/qnli": ("accuracy",),
        "glue/rte": ("accuracy",),
        "glue/wnli": ("accuracy",),
    },
    cite="Wang et al., GLUE, ICLR 2019: mean over tasks, after averaging the metrics of each task",
)

SUPERGLUE_8 = ScoreRule(
    name="SuperGLUE-8",
    cells={
        "superglue/boolq": ("accuracy",),
        "superglue/cb": ("f1", "accuracy"),
        "superglue/copa": ("accuracy",),
        "superglue/multirc": ("f1a", "em"),
        "superglue/record": ("f1", "em"),
        "superglue/rte": ("accuracy",),
        "superglue/wic": ("accuracy",),
        "superglue/wsc": ("accuracy",),
    },
    cite="Wang et al., SuperGLUE, NeurIPS 2019, section 3.3",
)

GLUE_8 = replace(
    GLUE_9,
    name="GLUE-8",
    cells={task: cells for task, cells in GLUE_9.cells.items() if task != "glue/wnli"},
    cite="Portes et al., MosaicBERT, NeurIPS 2023: GLUE's rule without WNLI",
)

GLUE_8_DEV = replace(
    GLUE_8,
    name="GLUE-dev-8",
    cells={
        **GLUE_8.cells,
        **dict.fromkeys(("glue/mrpc", "glue/qqp", "glue/mnli"), ("accuracy",)),
        "glue/stsb": ("pearson",),
    },
    cite="Liu et al., RoBERTa, 2019, table 8: one metric per task, without WNLI",
)

GLUE_8_DEV_SPEARMAN = replace(
    GLUE_8_DEV,
    name="GLUE-dev-8-spearman",
    cells={**GLUE_8_DEV.cells, "glue/stsb": ("spearman",)},
    cite="Clark et al., ELECTRA, ICLR 2020: one metric per task, Spearman for STS-B, without WNLI",
)

GLUE_9_DEV = replace(
    GLUE_9,
    name="GLUE-dev-9",
    cells={**GLUE_9.cells, "glue/mnli": ("accuracy",)},
    cite="transformers, distillation README: macro score on dev with WNLI and only matched MNLI",
)


# fmt: off
_ONE = (
    ("SQuAD", "f1", ("squad/v1.1", "squad/v2.0"),
     "benchharness: the mean of both versions' F1; papers report the versions separately"),
    ("SQuAD-1.1", "f1", ("squad/v1.1",), "Rajpurkar et al., SQuAD: 100,000+ Questions, EMNLP 2016"),
    ("SQuAD-2.0", "f1", ("squad/v2.0",), "Rajpurkar et al., Know What You Don't Know, ACL 2018"),
    ("RACE", "accuracy", ("race/all",),
     "Lai et al., RACE, EMNLP 2017: accuracy on both levels together"),
    ("CoNLL-2003", "f1", ("conll2003/ner",),
     "Tjong Kim Sang and De Meulder, CoNLL-2003 shared task, 2003: entity F1"),
    ("SWAG", "accuracy", ("swag/regular",), "Zellers et al., SWAG, EMNLP 2018"),
    ("SNLI", "accuracy", ("snli/snli",),
     "Bowman et al., A Large Annotated Corpus (SNLI), EMNLP 2015"),
)
# fmt: on
"""Rules that average one score per task, as (rule name, score name, tasks, citation)."""

_GLUE_RULES = (GLUE_9, GLUE_8, GLUE_8_DEV, GLUE_8_DEV_SPEARMAN, GLUE_9_DEV, SUPERGLUE_8)

SEEDS = ("seeds",)

_tasks: dict[str, Task] = {}
_suites: dict[str, Suite] = {}
_rules = {rule.name: rule for rule in _GLUE_RULES}
_rules |= {n: ScoreRule(name=n, cells=dict.fromkeys(ts, (s,)), cite=c) for n, s, ts, c in _ONE}


def _add(suite: Suite, tasks: Iterable[Task]) -> None:
    _suites[suite.name] = suite
    _tasks.update((task.name, task) for task in tasks)


SUPERGLUE_CITE = "Wang et al., SuperGLUE: A Stickier Benchmark, NeurIPS 2019"
BOTH = ("seeds", "paper")

_OF_CORE: tuple[tuple[Sequence[Task], str, str, str, tuple[str, ...]], ...] = (
    (GLUE_TASKS, "GLUE", "GLUE-9", GLUE_TASKS[-1].cite, BOTH),
    (SUPERGLUE_TASKS, "SuperGLUE", "SuperGLUE-8", SUPERGLUE_CITE, BOTH),
    (SQUAD_TASKS, "SQuAD", "SQuAD", "Rajpurkar et al., 2016 and 2018", BOTH),
    ([RACE], "RACE", "RACE", "", SEEDS),
    ([NER], "CoNLL-2003", "CoNLL-2003", "", SEEDS),
    ([SWAG], "SWAG", "SWAG", "", SEEDS),
    ([SNLI], "SNLI", "SNLI", "", SEEDS),
)
"""Suites of the core, as (tasks, title, name of the rule, citation, collections).

If a citation is empty, the citation of the first task is used.
"""

for _given, _title, _rule, _cite, _collections in _OF_CORE:
    _add(suite_of(_given, _title, _rules[_rule], _cite, _collections), _given)

for _extension in extensions():
    for _module in _extension.suites if _extension.is_packaged else ():
        _tables = import_module(f"{_extension.package}.{_module}")
        for _suite in _tables.SUITES:
            _add(_suite, [task for task in _tables.TASKS if task.name in _suite.tasks])
            _rules[_suite.rule.name] = _suite.rule
        _rules |= {rule.name: rule for rule in getattr(_tables, "RULES", ())}

TASKS: Mapping[str, Task] = MappingProxyType(_tasks)
"""All tasks, keyed by full name, e.g. "glue/cola"."""

SUITES: Mapping[str, Suite] = MappingProxyType(_suites)
"""All suites, keyed by name."""

RULES: Mapping[str, ScoreRule] = MappingProxyType(_rules)
"""All score rules, keyed by name."""

COLLECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: tuple(suite.name for suite in SUITES.values() if name in suite.collections)
        for name in BOTH
    }
)
"""Names of the suites in each collection, keyed by the name of the collection.

"seeds" contains the benchmarks that lectures on pretrained encoders show; an English encoder
without a language-model head can run all of them. "paper" contains the benchmarks for which papers
on encoders have tables (`bench paper`).
"""


def add_suite(suite: Suite, tasks: Sequence[Task]) -> None:
    """Register a third-party suite and its tasks.

    Args:
        suite: Suite to register.
        tasks: All tasks that the suite lists, and any other tasks with the same prefix "suite/".

    Raises:
        BenchError: A name is already in use or malformed, a task has no metric, the suite or its
            rule refers to a task that is not in `tasks`, or the rule uses a score that a task does
            not have. Nothing is registered if this error is raised.
    """
    names = [task.name for task in tasks]
    if suite.name in (*SUITES, *COLLECTIONS):
        raise BenchError(f"a suite {suite.name!r} already exists: choose another name for yours.")
    for name in names:
        if name != f"{suite.name}/{name.partition('/')[2]}".lower() or name.endswith("/"):
            raise BenchError(
                f"the task name {name!r} does not fit the suite {suite.name!r}: expected a "
                f"lower-case name such as {suite.name.lower() + '/irony'!r}."
            )
    if len(set(names)) < len(names):
        raise BenchError(f"the suite {suite.name!r} has two tasks with the same name: rename one.")
    if unknown := sorted({*suite.tasks, *suite.rule.cells} - set(names)):
        raise BenchError(
            f"the suite {suite.name!r} refers to the task {unknown[0]!r}, but does not contain it."
        )
    for task in tasks:
        _check_scores(suite, task)
    _add(suite, tasks)


def forget_suite(name: str) -> None:
    """Unregister a suite that was added with `add_suite`, and the tasks that the suite lists.

    Tasks that were added with the suite, but that it does not list, stay registered.
    """
    for task in _suites.pop(name).tasks:
        del _tasks[task]


def _check_scores(suite: Suite, task: Task) -> None:
    found = [m.name + ending_of(task, s) for s in task.source.splits for m in _metrics(task)]
    if not task.metrics:
        raise BenchError(f"the task {task.name!r} has no metrics: expected one or more.")
    if unknown := sorted({*suite.rule.cells.get(task.name, ())} - {*found}):
        raise BenchError(
            f"the suite {suite.name!r} uses the score {unknown[0]!r}, which {task.name} does not "
            f"have: expected one or more of {', '.join(dict.fromkeys(found))}."
        )


def add_details(task: str, metrics: Sequence[Metric[Any, Any]]) -> None:
    """Add metrics to `Task.details`, which are shown next to the score but do not count for it.

    Args:
        task: Full or short name of the task.
        metrics: Metrics to add.

    Raises:
        BenchError: If the task is unknown, or has a metric with the same name as a new one.
    """
    for metric in metrics:
        found = find_task(task)
        if metric.name in {known.name for known in _metrics(found)}:
            raise BenchError(
                f"{task} already has a metric {metric.name!r}: choose another name for yours."
            )
        _tasks[found.name] = replace(found, details=(*found.details, metric))


def _metrics(task: Task) -> tuple[Metric[Any, Any], ...]:
    return task.metrics + task.details


def find_task(name: str, fits: Callable[[Task], bool] | None = None) -> Task:
    """Return the task with this full name ("glue/cola") or unambiguous short name ("cola").

    Case is ignored. Punctuation is ignored too if no task has exactly this name, so "STS-B" finds
    the task "stsb".

    Args:
        name: Full or short name.
        fits: Predicate that selects among the tasks if several suites have a task with the short
            name, e.g. tasks whose files are in a folder. If no task fits, all of them remain.

    Raises:
        BenchError: If no task has this name, or if several tasks remain.
    """
    found = tasks_called(name)
    if len(found) > 1 and fits is not None:
        found = [task for task in found if fits(task)] or found
    if len(found) > 1:
        full = " or ".join(task.name for task in found)
        raise BenchError(f"several suites have a task {name!r}: use {full}.")
    if not found:
        raise _unknown_task(name)
    return found[0]


def tasks_called(name: str) -> list[Task]:
    """Return all tasks to which a full or short name may refer.

    Case is ignored, and so is punctuation if no task has exactly this name. The list is empty if
    the name is unknown, and has several tasks if a short name is ambiguous.
    """
    wanted = name.lower()
    return [TASKS[wanted]] if wanted in TASKS else _called(wanted) or _like(wanted)


def _called(short: str) -> list[Task]:
    """Return the tasks that have this short name, i.e. the part after the slash."""
    return [task for task in TASKS.values() if task.name.partition("/")[2] == short]


def _like(name: str) -> list[Task]:
    """Return the tasks that have this full or short name if case and punctuation are ignored."""
    wanted, tasks = name_key(name), TASKS.values()
    full = [task for task in tasks if name_key(task.name) == wanted]
    return full or [task for task in tasks if name_key(task.name.partition("/")[2]) == wanted]


def _unknown_task(name: str) -> BenchError:
    """Return the error for an unknown task.

    The message suggests a similar name. If that is the short name of several tasks, it suggests
    their full names.
    """
    known = [*TASKS, *(task.partition("/")[2] for task in TASKS)]
    for close in get_close_matches(name.lower(), known, n=1):
        if len(found := _called(close)) > 1:
            full = " or ".join(repr(task.name) for task in found)
            return BenchError(f"no task is called {name!r}. Did you mean {full}?")
    return unknown_name("task", name, known, "`bench show tasks` shows them.")


def title_of(task: str) -> str:
    """Return the title of a task, which is its name in papers.

    Args:
        task: Full name of the task. For an unknown task, the part after the slash is returned.
    """
    return TASKS[task].title if task in TASKS else task.rpartition("/")[2]


def full_title(task: str) -> str:
    """Return the title of a task, preceded by the title of its suite, e.g. "GLUE CoLA".

    If the title of the task already begins with the title of the suite, e.g. "SNLI", or if the
    suite is unknown, the title of the task is returned alone.
    """
    suite, title = SUITES.get(task.partition("/")[0]), title_of(task)
    return title if suite is None or title.startswith(suite.title) else f"{suite.title} {title}"


def distinct_title(task: str) -> str:
    """Return a title that no other task has.

    If several tasks have the same title, the first of them in `TASKS` keeps it ("RTE" means GLUE's
    task), and the titles of the others include the suite ("SuperGLUE RTE").
    """
    title = title_of(task)
    first = next((name for name, known in TASKS.items() if known.title == title), task)
    return title if first == task else full_title(task)


def split_title(task: str, split: str) -> str:
    """Return the name of a task and its split as in papers, e.g. "CoLA dev" or "MNLI-mm dev"."""
    titles = TASKS[task].split_titles if task in TASKS else {}
    if split not in titles:
        return f"{distinct_title(task)} {split}"
    return f"{distinct_title(task)}-{titles[split]} {split.partition('_')[0]}"


def find_suite(name: str) -> Suite:
    """Return the suite with this name.

    Case is ignored. The digest at the end of the name of a custom suite may be omitted.

    Raises:
        BenchError: If no suite has this name, or if several custom suites have it.
    """
    if _full_name(name.lower()) not in SUITES:
        raise unknown_name("suite", name, SUITES, "`bench show suites` shows them.")
    return SUITES[_full_name(name.lower())]


def _full_name(name: str) -> str:
    """Return the full name of a suite.

    The name of a suite of custom data ends with a hyphen and a digest, which may be omitted. Raises
    BenchError if several suites have this name without the digest. An unknown name is returned
    unchanged.
    """
    own = [suite for suite in SUITES if suite.rpartition("-")[0] == name]
    if name in SUITES or not own:
        return name
    if len(own) > 1:
        raise BenchError(f"several suites are called {name!r}: use {' or '.join(sorted(own))}.")
    return own[0]


def find_suites(name: str) -> tuple[Suite, ...]:
    """Return the suite with this name, or all suites in the collection with this name.

    Case is ignored. The digest at the end of the name of a custom suite may be omitted.

    Raises:
        BenchError: If no suite or collection has this name, or if several custom suites have it.
    """
    members = COLLECTIONS.get(name.lower(), (_full_name(name.lower()),))
    if not set(members) <= set(SUITES):
        known = [*SUITES, *COLLECTIONS]
        raise unknown_name("suite", name, known, "`bench show suites` shows them.")
    return tuple(SUITES[member] for member in members)


def select_tasks(
    suites: Sequence[Suite],
    names: Sequence[str],
    complete: bool = True,
    fits: Callable[[Task], bool] | None = None,
) -> tuple[Task, ...]:
    """Return the named tasks of the suites, or all of their tasks if no names are given.

    Args:
        suites: Suites to select from. If it is empty, names are looked up in all suites.
        names: Full or short names of tasks.
        complete: False if some of the requested suites could not be found. It is then not an error
            to select nothing, and names are not looked up if `suites` is empty.
        fits: Predicate that selects among the tasks if several suites have a task with the same
            short name; see `find_task`. It is used only if `suites` is empty.

    Raises:
        BenchError: If nothing is selected, or if a name is unknown or ambiguous.
    """
    inside = dict.fromkeys(name for suite in suites for name in suite.tasks)
    if not names and not inside and complete:
        raise BenchError(
            "there is nothing to run: pass a suite (--suite glue) or a task (--task glue/cola)."
        )
    if not suites:
        return tuple(find_task(name, fits) for name in names) if complete else ()
    return tuple(TASKS[name] for name in _names_inside(inside, names) or inside)


def _names_inside(inside: Mapping[str, None], names: Sequence[str]) -> list[str]:
    """Return the full names of the tasks in `inside` that are given by full or short names."""
    found: list[str] = []
    for name in names:
        fits = [full for full in inside if name.lower() in (full, full.partition("/")[2])]
        if not fits:
            raise unknown_name(
                "task of the chosen suites",
                name,
                [full.partition("/")[2] for full in inside],
                "`bench show tasks` shows them.",
            )
        found += fits
    return list(dict.fromkeys(found))
