"""Retrieval: ranking the documents of a corpus for a query, on BEIR or on custom data."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="retrieval",
    package=__name__,
    suites=("tasks",),
    heads={"ranking": "head:head"},
    answers={"ranking": "answers:Rankings"},
    hyperparameters={"ranking": "hyperparameters:RankingOptions"},
    learners={"ranking": "baseline:learn_documents"},
    prediction_files={"ranking": "trec:LAYOUT"},
    submissions={"beir": "trec:SUBMISSION", "retrieval": "trec:SUBMISSION"},
    recipes="recipes",
)
