"""The form of an extension: one object with all that it adds to the tables of benchharness.

Provisional until 0.2. Names alone stand in it: its modules are imported where they are used.
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
"""The sections of `bench --help`, in order."""


class Command(NamedTuple):
    """A command: its function as `module:name` in its package, and the facts of its help.

    `group` is its section of `bench --help`. For a flag that makes another command of the one
    before it, `group` is the section of that command's options. A name without a function has
    subcommands alone. `old` are its former words, which work until 0.2, and `after` is the command
    behind which it is listed, by default the last of its section.
    """

    place: str
    help: str
    example: str
    group: str = ""
    old: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True)
class Extension:
    """All that a package adds, in tables by name.

    `package` is the package whose modules the places name. `commands` are those of `bench`, by the
    words that call them; `calls` are functions and classes of `import benchharness`, as
    `module:name`. `needs` are the names of extensions whose modules this one imports: without one
    of them this one is not there either. `engines` are functions that make a Placement of an
    EngineChoice, as `module:name`, by the value of `--engine`. `pytest_plugins` are modules that
    pytest loads.
    """

    name: str
    package: str
    needs: tuple[str, ...] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    pytest_plugins: tuple[str, ...] = ()
