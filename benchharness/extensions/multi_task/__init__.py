"""Multi-task training: several tasks are trained in one job and share their encoder."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="multi_task",
    package=__name__,
    techniques={"together": "technique:MultiTask"},
    plans={"together": "plan:plan_of"},
)
