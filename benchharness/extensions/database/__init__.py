"""Check, edit, copy and merge the database with the leaderboard, and import into it."""

from benchharness.extension import KEEP, Command, Extension

EXTENSION = Extension(
    name="database",
    package=__name__,
    commands={
        "db": Command(
            "", "Check, edit, copy or add to the leaderboard's database.", "db check", KEEP
        ),
        "db check": Command("command:check", "Check the database for damage.", "db check"),
        "db backup": Command("command:backup", "Copy the database.", "db backup copy.sqlite"),
        "db merge": Command(
            "command:merge", "Add the runs of another database.", "db merge other.sqlite"
        ),
        "db import": Command(
            "import_command:import_file",
            "Import runs, or scores from other programs.",
            "db import results.jsonl.gz",
        ),
        "db rename": Command(
            "command:rename",
            "Rename a model or a leaderboard entry.",
            "db rename minilm:lr=3e-4 minilm-hot",
        ),
        "db hide": Command(
            "command:hide",
            "Hide leaderboard entries, or show them again.",
            "db hide minilm:lr=3e-4",
        ),
        "db delete": Command(
            "command:delete",
            "Delete stored runs, after asking and saving an archive.",
            "db delete --model bert --task glue/rte",
        ),
    },
)
