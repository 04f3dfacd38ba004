"""LexGLUE's tasks with long documents (Chalkidis et al., ACL 2022).

The documents are cases of the European Court of Human Rights, and opinions of the US Supreme Court.
The file of a task has the rows of all splits, and one column has the name of the split.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchharness.tasks.examples import PairExample
from benchharness.tasks.metrics import label_f1, occurring_f1
from benchharness.tasks.sources import Row, Source, Split
from benchharness.tasks.sources.source import label_of, text, texts
from benchharness.tasks.suite import ScoreRule, suite_of
from benchharness.tasks.task import PairTask

ARTICLES = ("2", "3", "5", "6", "8", "9", "10", "11", "14", "P1-1")
"""Labels of ECtHR: articles of the European Convention on Human Rights, in the order of the data on
the Hugging Face hub. The files also contain other articles, which are removed from the labels.
"""

AREAS = tuple(map(str, range(1, 14)))
"""Labels of SCOTUS: numbers of the issue areas of the Supreme Court Database, as on the Hugging
Face hub."""

PART = "part"


def _articles(column: str, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the case with `labels`: the articles in `column` that are labels of the task."""
    yield {**row, "labels": [name for name in ARTICLES if name in row[column]]}


def _case(row: Row) -> PairExample:
    """Convert a row to an example whose text has one paragraph per line."""
    facts = "\n".join(texts(row, "text"))
    return PairExample(id=str(row["idx"]), text_a=facts, label=texts(row, "labels"))


def _opinion(row: Row) -> PairExample:
    return PairExample(id=str(row["idx"]), text_a=text(row, "text"), label=label_of(row))


def _part(row: Row) -> str | None:
    part = row.get(PART)
    return None if part is None else str(part)


def _source(config: str, file: str, **facts: Any) -> Source:
    hub = {"train": "train", "dev": "validation", "test": "test"}
    return Source(
        hub="coastalcph/lex_glue",
        config=config,
        revision="c23fdff1a6bf74e0e1a71cb86f1e781d37da888c",
        home="lexglue",
        spellings={"lexglue": ("lex_glue", file.removesuffix(".jsonl"))},
        format="jsonl",
        splits={name: Split(hub=hub[name], files=(file,), language=name) for name in hub},
        optional=(PART,),
        language_of=_part,
        **facts,
    )


_LEXGLUE = "Chalkidis et al., LexGLUE, ACL 2022"


def _ecthr(name: str, title: str, column: str) -> PairTask:
    return PairTask(
        name=f"lexglue/{name}",
        title=title,
        source=_source(
            name,
            "ecthr.jsonl",
            columns={"text": ("facts", "text"), "labels": "labels", PART: "data_type"},
            label="labels",
            label_names=ARTICLES,
            unfold=partial(_articles, column),
        ),
        convert=_case,
        labels=ARTICLES,
        multi_label=True,
        metrics=(label_f1(ARTICLES, "micro", none_is_one=True),),
        details=(label_f1(ARTICLES, "macro", none_is_one=True),),
        benchmark="ECtHR",
        cite=_LEXGLUE,
    )


SCOTUS = PairTask(
    name="lexglue/scotus",
    title="SCOTUS",
    source=_source(
        "scotus",
        "scotus.jsonl",
        columns={"text": "text", "label": "issueArea", PART: "data_type"},
        label_names=AREAS,
    ),
    convert=_opinion,
    labels=AREAS,
    metrics=(occurring_f1("micro"),),
    details=(occurring_f1("macro"),),
    cite=_LEXGLUE,
)

LEXGLUE_TASKS = (
    _ecthr("ecthr_a", "ECtHR A", "violated_articles"),
    _ecthr("ecthr_b", "ECtHR B", "allegedly_violated_articles"),
    SCOTUS,
)
"""Tasks in the order of the paper's table. LexGLUE's other four tasks, which have short texts, are
not included.
"""

_RULE = ScoreRule(
    name="LexGLUE-3",
    cells={task.name: ("micro_f1",) for task in LEXGLUE_TASKS},
    cite="benchharness: the mean micro-F1 of LexGLUE's three tasks with long documents",
)

TASKS = LEXGLUE_TASKS
SUITES = (
    replace(
        suite_of(LEXGLUE_TASKS, "LexGLUE", _RULE), recipe=Path(__file__).with_name("recipe.toml")
    ),
)
