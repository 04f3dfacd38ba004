"""Settings and notes for decoders: `--set attention=full`, `--set template="{a} {b}"`."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="decoders",
    package=__name__,
    hyperparameters={
        "attention": "hyperparameters:AttentionOptions",
        "template": "hyperparameters:TemplateOptions",
    },
    techniques={"attention": "attention:FullAttention", "template": "template:Template"},
    plans={"decoders": "plan:plan_of"},
)
