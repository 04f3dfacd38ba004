"""A run in a file: `bench run --config run.toml` reads the options of a command from TOML."""

from benchharness.extension import Command, Extension

EXTENSION = Extension(
    name="run_file",
    package=__name__,
    commands={
        "show config": Command(
            "command:show_config",
            "Show the options in a file of --config.",
            "show config run.toml",
        ),
    },
    options=dict.fromkeys(("run", "which", "paper", "check"), "options:with_file"),
)
