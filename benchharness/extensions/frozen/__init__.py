"""Frozen features: only the head is trained, on stored states of the encoder (`features=last`)."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="frozen", package=__name__, techniques={"features": "technique:FrozenFeatures"}
)
