"""The demonstration: `bench demo` makes a leaderboard of packaged data with a packaged encoder."""

from benchharness.extension import MEASURE, Command, Extension

EXTENSION = Extension(
    name="demo",
    package=__name__,
    commands={
        "demo": Command(
            "command:demo",
            "Make a leaderboard of packaged data, without a network.",
            "demo",
            MEASURE,
            after="run",
        ),
    },
)
