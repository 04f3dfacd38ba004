"""Loading plugins: the entry points of installed packages, and Python files."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from benchharness.models.identity import file_digest
from benchharness.plugins.tables import add_tables, read_tables
from tasks.errors import BenchError

__all__ = ["GROUP", "VARIABLE", "load_plugins", "plugins_of"]

GROUP = "benchharness.plugins"
"""The entry points that name plugin modules of installed packages."""

VARIABLE = "BENCH_PLUGINS"
"""The environment's list of plugin files, written like PATH; workers learn of them by it."""


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    """A loaded plugin: the digest of its file, and the tasks that are made of it."""

    digest: str
    tasks: frozenset[str]


_loaded: dict[str, _Plugin] = {}
"""By path, or by the name of the entry point."""


def load_plugins(files: Iterable[Path] | None = None) -> None:
    """Loads the installed plugins and these files, or those of the environment, each once.

    Raises BenchError for a plugin that is not there, raises, adds nothing, or adds a name that is
    taken.
    """
    if files is None:
        files = map(Path, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    for point in entry_points(group=GROUP):
        _load(point.name, point.load)
    for file in (file.expanduser().absolute() for file in files):
        _load(str(file), partial(_execute, file))
    paths = (name for name in _loaded if Path(name).is_absolute())
    os.environ[VARIABLE] = os.pathsep.join(paths)


def plugins_of(tasks: Iterable[str]) -> dict[str, str]:
    """The digests of the plugins that these tasks are made of, by the plugins' names.

    A folder is no part of a name: the same file elsewhere is the same plugin.
    """
    wanted = set(tasks)
    found = {Path(name).name: p.digest for name, p in _loaded.items() if p.tasks & wanted}
    return dict(sorted(found.items()))


def _load(name: str, load: Callable[[], ModuleType]) -> None:
    if name in _loaded:
        return
    try:
        module = load()
    except BenchError:
        raise
    except (Exception, SystemExit) as error:
        raise BenchError(f"the plugin {name} raises {_described(error)}.") from error
    tables = read_tables(name, module)
    try:
        tasks = add_tables(tables)
    except BenchError as error:
        raise BenchError(f"the plugin {name} cannot be added: {error}") from error
    _loaded[name] = _Plugin(digest=file_digest(Path(str(module.__file__))), tasks=tasks)


def _execute(file: Path) -> ModuleType:
    """The module in a file, under a name that no other module has."""
    name = f"bench_plugin_{sha256(str(file).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise BenchError(f"there is no plugin {file}: give the path of a Python file (.py).")
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look up the module of their class
    spec.loader.exec_module(module)
    return module


def _described(error: BaseException) -> str:
    """An error's kind, the line that raised it, and the first line of what it says."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        where = f" in line {trace.tb_lineno} of {Path(trace.tb_frame.f_code.co_filename).name}"
    text = next(iter(str(error).splitlines()), "").removesuffix(".")
    return f"{type(error).__name__}{where}{': ' if text else ''}{text}"
