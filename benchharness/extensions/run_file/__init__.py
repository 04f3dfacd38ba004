"""Read the options of a command from a TOML file: `bench run --config run.toml`."""

from benchharness.extension import Command, Extension

EXTENSION = Extension(
    name="run_file",
    package=__name__,
    commands={
        "show config": Command(
            "command:show_config",
            "Show the options in a file for --config.",
            "show config run.toml",
        ),
    },
    options=dict.fromkeys(("run", "which", "paper", "check"), "options:with_file"),
)
