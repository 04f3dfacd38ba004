"""Check this machine, its caches, the hub and the database."""

from benchharness.extension import KEEP, Command, Extension

EXTENSION = Extension(
    name="doctor",
    package=__name__,
    commands={
        "doctor": Command(
            "command:doctor", "Check this machine, its caches and the hub.", "doctor", KEEP
        ),
    },
)
