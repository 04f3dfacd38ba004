"""BEIR: queries on a corpus, ranked (Thakur et al., NeurIPS 2021), and folders of one's own.

A set is scored on the split that the paper prints: test, and dev of MS MARCO. CQADupstack is left
out, whose number is the mean of twelve sets.
"""

from typing import Any

from benchharness.tasks.examples import QueryExample
from benchharness.tasks.metrics import mrr_10, ndcg_10, recall_100
from benchharness.tasks.sources.source import Row, Source, Split, text
from benchharness.tasks.task import RankingTask

_CITE = "Thakur et al., BEIR, NeurIPS Datasets and Benchmarks 2021"

# Of each set its folder, what papers call it, and the splits that are trained on and scored.
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
"""The folder of the embedded set, which stands for each of them."""


def _query(row: Row) -> QueryExample:
    found: Any = row
    return QueryExample(
        id=text(row, "id"),
        text=text(row, "text"),
        relevant=found["relevant"],
        documents=found["corpus"].digest,
        corpus=found["corpus"],
    )


def _set(suite: str, folder: str, title: str, splits: str, hub: str) -> RankingTask:
    return RankingTask(
        name=f"{suite}/{folder}",
        title=title,
        source=Source(
            hub=hub,
            config="default",
            revision="main",
            home="beir",
            format="beir",
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
        cite=_CITE,
    )


BEIR_TASKS = tuple(
    _set("beir", folder, title, splits, f"BeIR/{folder}") for folder, title, splits in _SETS
)

OWN_FOLDER = _set("retrieval", "folder", "Retrieval", "train test", "")
"""A folder in BEIR's layout, whatever it is called."""
