"""Low-rank adapters (LoRA), trained instead of the encoder: `--set lora_rank=8`."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="adapters",
    package=__name__,
    hyperparameters={"adapters": "hyperparameters:AdapterOptions"},
    techniques={"adapters": "technique:Adapters"},
    recipes="recipes",
)
