"""CoNLL-2012 on OntoNotes 5.0: coreference resolution and semantic role labelling."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="conll2012",
    package=__name__,
    suites=("tasks",),
    heads={"coref": "head:head"},
    answers={"coref": "answers:Coreference"},
    hyperparameters={"coref": "hyperparameters:CorefOptions"},
    learners={"coref": "baseline:learn_mentions"},
    breakdowns={"coref": "resampling:breakdowns"},
    prediction_files={"coref": "files:CLUSTERS", "role": "files:ROLES"},
    submissions={"conll2012": "files:SUBMISSION"},
    recipes="recipes",
)
