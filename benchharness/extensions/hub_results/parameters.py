"""Additional options of commands of other extensions and of the core."""

from collections.abc import Callable
from inspect import Parameter, signature

from benchharness.cli.options import set_parameters

Function = Callable[..., None]
"""Function of a command."""


def add_parameters(function: Function, command: Function, *parameters: Parameter) -> Function:
    """Set the signature of a function that wraps a command, and return the function.

    Args:
        function: The function, which accepts the parameters of the command and some more.
        command: The command. Its parameters keep their places in the help.
        parameters: Parameters that are added, or replace those of the command with their names.
    """
    own = dict(signature(command).parameters) | {each.name: each for each in parameters}
    return set_parameters(function, [*own.values()])
