"""Advice after runs that learned nothing: the command that would most likely help."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="mending",
    package=__name__,
    advice={"mending": "mending:advise"},
)
