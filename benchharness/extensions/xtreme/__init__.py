"""XTREME without retrieval: seven tasks with training in English and scores in 40 languages."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="xtreme",
    package=__name__,
    suites=("tasks",),
    submissions={"xtreme": "files:SUBMISSION"},
)
