"""`bench show published --hub`: list the results that models publish on the Hub."""

from functools import wraps
from inspect import Parameter
from typing import Annotated, Literal

import typer

from benchharness.cli.show import print_published
from benchharness.driver.options import names_in
from benchharness.extensions.hub_results.leaderboards import hub_rows
from benchharness.extensions.hub_results.parameters import Function, add_parameters
from benchharness.plugins import load_plugins
from benchharness.tasks.suites import SUITES, find_suites, select_tasks

Hub = Annotated[
    bool,
    typer.Option(
        "--hub",
        help="List the results of models on the hub instead of the packaged tables: of the models "
        "on the leaderboards of the data sets, or of --model ORG/MODEL.",
    ),
]


def with_hub(command: Function) -> Function:
    """Return a function like `bench show published` with the option --hub."""

    @wraps(command)
    def called(  # noqa: PLR0913  (options of the command)
        *,
        hub: bool,
        suite: list[str] | None,
        task: list[str] | None,
        model: list[str] | None,
        split: Literal["dev", "test"] | None,
        as_json: bool,
    ) -> None:
        if not hub:
            command(suite=suite, task=task, model=model, split=split, as_json=as_json)
            return
        load_plugins()
        suites = [found for name in suite or () for found in find_suites(name)]
        chosen = select_tasks(suites or [*SUITES.values()], task or ())
        rows = hub_rows([each.name for each in chosen], names_in(model or ()), split)
        print_published(rows, as_json=as_json)

    return add_parameters(
        called, command, Parameter("hub", Parameter.KEYWORD_ONLY, default=False, annotation=Hub)
    )
