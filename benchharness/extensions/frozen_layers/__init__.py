"""Fine-tuning of only the top layers of an encoder: `--set frozen_layers=6`."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="frozen_layers",
    package=__name__,
    hyperparameters={"frozen_layers": "hyperparameters:FrozenLayersOptions"},
    techniques={"frozen_layers": "technique:FrozenLayers"},
)
