"""The command `bench show eval-yaml`."""

from typing import Annotated

import typer

from benchharness.cli.options import argument, with_options
from benchharness.extensions.hub_results.benchmarks import find_dataset, to_eval_yaml

Name = Annotated[
    str,
    argument("NAME", "A data set on the hub, or a suite or task that is read from one.", "tasks"),
]


@with_options()
def show_eval_yaml(name: Name) -> None:
    """Print the eval.yaml of a data set on the hub, which makes it a benchmark there.

    The owner of the data set adds the file. Nothing is sent.
    """
    typer.echo(to_eval_yaml(find_dataset(name)), nl=False)
