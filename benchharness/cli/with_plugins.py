"""Commands that look up models and tasks take --plugin, and load plugins before they begin."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["with_plugins"]

Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        envvar="BENCH_PLUGINS",
        help="Add a file's models, tasks and metrics; repeatable.",
    ),
]


def with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """The command with one more option, `--plugin`; installed plugins are loaded too."""

    @wraps(command)
    def load_first(*words: Any, plugin: list[Path] | None = None, **options: Any) -> None:
        from benchharness.plugins import load_plugins

        load_plugins(plugin or ())
        command(*words, **options)

    # Typer reads a command's options from these two.
    parameters = signature(command).parameters.values()
    option = Parameter("plugin", Parameter.KEYWORD_ONLY, default=None, annotation=Plugins)
    load_first.__dict__["__signature__"] = signature(command).replace(
        parameters=[*parameters, option]
    )
    load_first.__annotations__ = {**command.__annotations__, "plugin": Plugins}
    return load_first
