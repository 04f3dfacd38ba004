"""Run jobs on other machines: a Ray cluster, or the queue of Slurm."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="clusters",
    package=__name__,
    engines={"ray": "ray:place", "slurm": "slurm:place"},
)
