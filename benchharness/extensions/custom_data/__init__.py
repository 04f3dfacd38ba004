"""Fine-tune on users' own data: a task is detected in a file, a folder or a data set of the hub."""

from benchharness.extension import Command, Extension

EXTENSION = Extension(
    name="custom_data",
    package=__name__,
    commands={
        "run --write-task": Command(
            "command:write_task",
            "Write the task of your data to a Python file, without running it.",
            "run --data-file reviews.csv --write-task",
            "Your own data",
        ),
    },
    custom_tasks="tasks",
)
