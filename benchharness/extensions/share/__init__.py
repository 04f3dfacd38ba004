"""Repositories of results: contributors add archives of runs, which are checked and shown."""

from benchharness.extension import KEEP, Command, Extension

EXTENSION = Extension(
    name="share",
    package=__name__,
    needs=("reproduce", "explanation"),
    commands={
        "share": Command(
            "", "Contribute runs to a repository of results, or run one.", "share check", KEEP
        ),
        "share init": Command(
            "command:init", "Create a repository of results.", "share init results-of-us"
        ),
        "share add": Command(
            "command:add", "Add rows to a repository.", "share add minilm --as ada --to board"
        ),
        "share check": Command(
            "command:check", "Check the contributions of a repository.", "share check --data hub"
        ),
        "share build": Command(
            "command:build", "Write the website of a repository.", "share build --out site"
        ),
    },
)
