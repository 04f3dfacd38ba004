"""`bench demo`: `bench run` with the packaged encoder and data, for a first look."""

import shlex
from dataclasses import replace
from inspect import unwrap

import typer

from benchharness.cli.options import Out, in_this_database, with_options
from benchharness.cli.run import run
from benchharness.driver.options import OPTIONS, RunOptions

OF_DEMO = {"db", "seeds", "device", "jobs", "dry_run"}
"""Options of `bench run` that `bench demo` has too."""


@with_options(but=OPTIONS.keys() - OF_DEMO, plugins=False)
def demo(options: RunOptions, *, out: Out = None) -> None:
    """Train a tiny encoder on small synthetic data of GLUE's tasks, and write the report.

    It takes a minute or two on a CPU and needs no network. `--seeds` is 1 here by default.
    """
    seeds = options.seeds or 1
    words = ["bench", "run", "--model", "tiny", "--suite", "glue", "--data", "mini"]
    words += ["--seeds", str(seeds), *in_this_database(options.db)]
    typer.echo(f"The demo is `{shlex.join(words)}`.")
    whole = replace(options, model=("tiny",), suite=("glue",), data="mini", seeds=seeds)
    unwrap(run)(whole, out=out)
