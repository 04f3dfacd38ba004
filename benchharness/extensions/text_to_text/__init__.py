"""Text to text: an encoder with its decoder generates the answers of a task as text, as T5 does."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="text_to_text",
    package=__name__,
    hyperparameters={"text_to_text": "hyperparameters:TextOptions"},
    techniques={"text_to_text": "technique:TextToText"},
    recipes="recipes",
)
