"""Run jobs on other machines: on a Ray cluster, or as batch jobs of Slurm."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="clusters",
    package=__name__,
    engines={"ray": "ray:place", "slurm": "slurm:place"},
)
