"""Discovery of extensions, which are part of benchharness or of other installed packages.

Each package in the folder `benchharness/extensions` defines an `EXTENSION`. Another package names
its `Extension` object as an entry point of the group `benchharness.extensions`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

from benchharness.errors import BenchError
from benchharness.extension import Extension, Table

GROUP = "benchharness.extensions"
"""Group of the entry points by which installed packages name their extensions."""

OURS = Path(__file__).with_name("extensions")

T = TypeVar("T")


@cache
def extensions() -> tuple[Extension, ...]:
    """Return all available extensions, those of benchharness first.

    An extension is available only if all extensions that it needs are available.

    Raises:
        BenchError: The import of an extension fails, an extension is not an Extension object, or
            two extensions have the same name.
    """
    found: dict[str, Extension] = {}
    for name, load in (*_ours(), *_installed()):
        made = loaded(f"the extension {name}", load)
        if not isinstance(made, Extension):
            raise BenchError(
                f"the extension {name} is a {type(made).__name__}: expected an Extension of "
                "benchharness.extension."
            )
        if made.name in found:
            raise BenchError(
                f"two extensions are called {made.name!r}. Uninstall or rename one of them."
            )
        found[made.name] = made
    while lacking := [name for name, each in found.items() if not found.keys() >= {*each.needs}]:
        for name in lacking:
            del found[name]
    return tuple(found.values())


def places(table: Table) -> dict[str, str]:
    """Return the functions or classes that all extensions define in one field of `Extension`.

    Args:
        table: The name of the field, such as "engines".

    Returns:
        A mapping from names, such as the names of engines, to functions or classes in the form
        `package.module:name`.
    """
    return {
        name: f"{each.package}.{place}"
        for each in extensions()
        for name, place in getattr(each, table).items()
    }


def _ours() -> Iterator[tuple[str, Callable[[], Any]]]:
    for folder in sorted(OURS.iterdir()):
        if (folder / "__init__.py").is_file():  # a deleted extension may leave a __pycache__
            yield (
                folder.name,
                partial(resolve_name, f"benchharness.extensions.{folder.name}:EXTENSION"),
            )


def _installed() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name and the load function of each installed extension.

    importlib.metadata is imported only if a file mentions the group of entry points, because its
    import and search would take a third of the time of `bench --help`.
    """
    if any(GROUP.encode() in text for text in _entry_point_files()):
        from importlib.metadata import entry_points  # noqa: PLC0415  (slow, see the docstring)

        for point in entry_points(group=GROUP):
            yield point.name, point.load


def _entry_point_files() -> Iterator[bytes]:
    for folder in sys.path:
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    # Most packages have no file entry_points.txt, which raises an error here. With
                    # pathlib, this would take twice as long.
                    with suppress(OSError), FileIO(f"{entry.path}/entry_points.txt") as file:
                        yield file.readall()


# Importing third-party code.


def member(what: str, place: str) -> Any:
    """Import an object of an extension and return it.

    Args:
        what: A noun phrase for the object in error messages, such as "the engine ray".
        place: The location of the object, in the form `package.module:name`.

    Raises:
        BenchError: The import raises an exception.
    """
    return loaded(what, partial(resolve_name, place))


def loaded(what: str, load: Callable[[], T]) -> T:
    """Import third-party code and return the imported object.

    Args:
        what: A noun phrase for the code in error messages, such as "the plugin my_plugin.py".
        load: The function that imports the code.

    Raises:
        BenchError: The import raises an exception. The message describes that exception. If a
            BenchError is raised in the import, an error of the same class is raised.
    """
    try:
        return load()
    except BenchError as error:
        raise type(error)(f"{what} cannot be added: {error}") from error
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if new := _new_name(missing or ""):
            raise BenchError(
                f"{what} imports {missing}, which is now called {new}. Write "
                f"`from {new} import ...`."
            ) from error
        raise BenchError(f"{what} raises {_described(error)}.") from error


def _new_name(module: str) -> str:
    """Return the new name of a module that was moved into benchharness, or "" for other modules."""
    new = f"benchharness.{module}"
    ours = module.partition(".")[0] in ("tasks", "leaderboard")
    return new if ours and find_spec(new) is not None else ""


def _described(error: BaseException) -> str:
    """Describe an error by its type, the line that raised it, and the first line of its message."""
    trace = error.__traceback__
    # The first frames of the traceback belong to benchharness, which loads the code. The last frame
    # is the one that raised the error.
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    # The message of a SyntaxError contains the line.
    if trace is not None and not isinstance(error, SyntaxError):
        where = f" in line {trace.tb_lineno} of {Path(trace.tb_frame.f_code.co_filename).name}"
    text = next(iter(str(error).splitlines()), "").removesuffix(".")
    return f"{type(error).__name__}{where}{': ' if text else ''}{text}"
