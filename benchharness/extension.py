"""The form of an extension: an object with everything that it adds to the tables of benchharness.

Provisional until 0.2. The object contains only names: the modules are imported when they are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

GROUPS = MEASURE, READ, COMPARE, USE, KEEP = (
    "Measure",
    "Read",
    "Compare",
    "Use the model",
    "Keep",
)
"""Sections of `bench --help`, in order."""


class Command(NamedTuple):
    """A command: its function as `module:name` in the extension's package, and its help.

    Attributes:
        place: The function; empty for a command that has only subcommands.
        help: The text of the help.
        example: An example of the command's arguments.
        group: The section of `bench --help`. For a flag that makes another command of the one
            before it, the section of that command's options.
        old: The former words of the command, which work until 0.2.
        after: The command after which it is listed; by default it is the last of its section.
    """

    place: str
    help: str
    example: str
    group: str = ""
    old: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Everything that a package adds, in tables by name.

    Attributes:
        name: The name of the extension.
        package: The package that contains the modules named in the tables.
        needs: The names of extensions whose modules this one imports; without one of them this
            extension is not available either.
        commands: The commands of `bench`, keyed by the words that call them.
        calls: The functions and classes of `import benchharness`, as `module:name`.
        engines: The functions that make a Placement from an EngineChoice, as `module:name`, keyed
            by the value of `--engine`.
        loggers: The loggers, classes with the methods of `benchharness.loggers.Logger`, as
            `module:name`, keyed by the value of `--log`. The Python package that each needs has the
            same name.
        suites: Sequences of `benchharness.tasks.suite.SuiteTasks`, as `module:name`.
        custom_tasks: The module that makes tasks of users' own data, with the functions of
            `benchharness.tasks.custom.CustomTasks`.
        pytest_plugins: The modules that pytest loads.
    """

    name: str
    package: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    loggers: Mapping[str, str] = field(default_factory=dict)
    suites: tuple[str, ...] = ()
    custom_tasks: str = ""
    pytest_plugins: tuple[str, ...] = ()
