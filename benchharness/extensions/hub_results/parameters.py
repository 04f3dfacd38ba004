"""Additional options of commands of other extensions and of the core."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

Function = Callable[..., None]
"""Function of a command."""


def set_parameters(function: Function, command: Function, *parameters: Parameter) -> Function:
    """Set the signature of a function that wraps a command, and return the function.

    Args:
        function: The function, which accepts the parameters of the command and some more.
        command: The command. Its parameters keep their places in the help.
        parameters: Parameters that are added, or replace those of the command with their names.
    """
    own = dict(signature(command).parameters) | {each.name: each for each in parameters}
    made: dict[str, Any] = function.__dict__
    made["__signature__"] = signature(command).replace(parameters=list(own.values()))
    function.__annotations__ = {name: each.annotation for name, each in own.items()}
    return function
