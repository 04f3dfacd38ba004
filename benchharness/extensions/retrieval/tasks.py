"""The data sets of BEIR (Thakur et al., NeurIPS 2021), and custom data in BEIR's layout.

The data sets are scored on the split that the paper uses, which is dev for MS MARCO and test for
the others. CQADupstack is left out, because its score is the mean over twelve data sets.
"""

from typing import Any

from benchharness.extensions.retrieval.files import NO_QUERY, hub_queries, query_records
from benchharness.extensions.retrieval.metrics import mrr_10, ndcg_10, recall_100
from benchharness.extensions.retrieval.task import QueryExample, RankingTask
from benchharness.tasks.sources.source import Row, Source, Split, text
from benchharness.tasks.suite import ScoreRule, suite_of

_CITE = "Thakur et al., BEIR, NeurIPS Datasets and Benchmarks 2021"

# Data sets of BEIR, each as (folder, title in papers, splits for training and scoring).
_SETS = (
    ("msmarco", "MS MARCO", "train dev"),
    ("trec-covid", "TREC-COVID", "test"),
    ("nfcorpus", "NFCorpus", "train test"),
    ("nq", "NQ", "test"),
    ("hotpotqa", "HotpotQA retrieval", "train test"),
    ("fiqa", "FiQA", "train test"),
    ("arguana", "ArguAna", "test"),
    ("webis-touche2020", "Touche-2020", "test"),
    ("quora", "Quora", "test"),
    ("dbpedia-entity", "DBPedia", "test"),
    ("scidocs", "SCIDOCS", "test"),
    ("fever", "FEVER", "train test"),
    ("climate-fever", "Climate-FEVER", "test"),
    ("scifact", "SciFact", "train test"),
)

_MINI = "mini"
"""Folder of the bundled mini data, which can replace the files of every BEIR data set."""


def _query(row: Row) -> QueryExample:
    found: Any = row
    return QueryExample(
        id=text(row, "id"),
        text=found["text"] or "",
        relevant=found["relevant"],
        documents=found["corpus"].digest,
        corpus=found["corpus"],
    )


def _has_no_query(_split: str, example: QueryExample) -> bool:
    """Return whether the judgements refer to a missing query; trec_eval skips such queries."""
    return NO_QUERY in example.oddities


def _set(suite: str, folder: str, title: str, splits: str, hub: str) -> RankingTask:
    return RankingTask(
        name=f"{suite}/{folder}",
        title=title,
        source=Source(
            hub=hub,
            config="default",
            revision="main",
            home="beir",
            read_records=query_records,
            read_hub=hub_queries,
            splits={
                name: Split(
                    hub="validation" if name == "dev" else name,
                    files=tuple(f"{place}/qrels/{name}.tsv" for place in (folder, _MINI)),
                )
                for name in splits.split()
            },
        ),
        convert=_query,
        metrics=(ndcg_10,),
        details=(recall_100, mrr_10),
        leaves_out=_has_no_query,
        cite=_CITE,
    )


BEIR_TASKS = tuple(
    _set("beir", folder, title, splits, f"BeIR/{folder}") for folder, title, splits in _SETS
)

OWN_FOLDER = _set("retrieval", "folder", "Retrieval", "train test", "")
"""Task for custom data in BEIR's layout, in a folder with any name."""

TASKS = (*BEIR_TASKS, OWN_FOLDER)

SUITES = (
    suite_of(
        BEIR_TASKS,
        "BEIR",
        ScoreRule(
            name="BEIR-14",
            cells={task.name: ("ndcg_10",) for task in BEIR_TASKS},
            cite="benchharness: the mean of Thakur et al., NeurIPS 2021, without CQADupstack",
        ),
        collections=("paper",),
    ),
    suite_of(
        [OWN_FOLDER],
        "Retrieval",
        ScoreRule(
            name="Retrieval",
            cells={OWN_FOLDER.name: ("ndcg_10",)},
            cite="benchharness: a folder in BEIR's layout",
        ),
    ),
)
