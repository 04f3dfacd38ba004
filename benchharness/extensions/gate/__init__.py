"""Guard training code in CI: fail if a model is significantly worse than its baseline."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="gate",
    package=__name__,
    commands={
        "check": Command(
            "command:check",
            "Fail if a model is worse than its baseline.",
            "check --model tiny --suite glue --data mini",
            MEASURE,
        ),
        "check --write": Command(
            "command:write_baseline",
            "Write the baseline from stored runs.",
            "check --write --model tiny --suite glue",
            "What to run",
        ),
    },
    guards={"recall": "guards:recall"},
    pytest_plugins=("pytest_plugin",),
)
