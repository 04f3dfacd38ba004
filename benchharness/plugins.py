"""Plugins, which add models, tasks, suites, metrics and loggers to benchharness.

A plugin is a Python file, a module of an installed package, or a TOML file that defines a task.
"""

import ast
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import formatannotation
from itertools import accumulate
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from benchharness.discovery import extensions, loaded, member
from benchharness.errors import BenchError
from benchharness.extension import Extension
from benchharness.leaderboard.job import Job
from benchharness.models import ModelSpec, add_model
from benchharness.recipes.read import add_hints
from benchharness.tasks.custom import custom_tasks, define_task
from benchharness.tasks.foreign_code import modules_digest, modules_in
from benchharness.tasks.suite import ScoreRule, Suite
from benchharness.tasks.suites import TASKS, add_details, add_suite, find_task
from benchharness.tasks.task import Metric, Task

# Checking the types of fields in the objects that a plugin defines.

PLAIN: dict[Any, type | tuple[type, ...]] = {
    str: str,
    int: int,
    float: (int, float),
    NoneType: NoneType,
}
"""Plain types of dataclass fields, each with the types of values that are accepted for it; for
example, a field of type float may also have an int."""


def mistyped_field(item: Any) -> str:
    """Describe the first field of a dataclass object that has a value of a wrong type.

    The value of a field for a function only has to be callable, and mappings are not checked.

    Args:
        item: The dataclass object, such as a task that a plugin defines.

    Returns:
        A clause such as "seed is 'a', expected int", or "" if all types are right.
    """
    hints = _hints(cast("Hashable", type(item)))
    for name, value in ((field.name, getattr(item, field.name)) for field in fields(item)):
        if not _fits(value, hints[name]):
            return f"{name} is {value!r}, expected {_in_words(hints[name])}"
        for metric in value if isinstance(value, tuple) else ():
            if isinstance(metric, Metric) and (fault := mistyped_field(metric)):
                return f"{name} has a Metric whose {fault}"
    return ""


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, declared: Any) -> bool:
    kind, parts = _of_type(declared)
    if kind is UnionType:
        return any(_fits(value, part) for part in parts)
    # A list of names is accepted for a declared tuple of names.
    if kind is tuple and isinstance(value, list) and declared == tuple[str, ...]:
        return _fits(tuple(value), declared)
    if kind is tuple and isinstance(value, tuple):
        # tuple[str, ...] declares one type for all values, and tuple[float, float] one per value.
        each = parts[:1] * len(value) if parts[-1] is ... else parts
        return len(value) == len(each) and all(map(_fits, value, each))
    if kind is Callable:
        return callable(value)
    return isinstance(value, kind if kind in (tuple, Metric) else PLAIN.get(declared, object))


@cache
def _of_type(declared: Hashable) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(declared), get_args(declared)


def _in_words(declared: Any) -> str:
    """Format a type declaration as in source code, without module names."""
    # "collections.abc.Callable[[~E], float]" is shown as "Callable[[E], float]".
    return re.sub(r"\w+\.|~", "", formatannotation(declared))


# Names that a plugin module may define, with their values:
#
#     MODELS    a sequence of ModelSpec
#     TASKS     a sequence of tasks; tasks of a suite that is not in SUITES make a new suite
#     SUITES    a sequence of Suite
#     METRICS   a mapping from task names to sequences of Metric, shown next to the task's score
#     LOGGERS   a mapping from names for --log to Logger classes, each called with a folder

NAMES = ("MODELS", "TASKS", "SUITES", "METRICS", "LOGGERS")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Models, tasks, suites and metrics that a plugin defines; each field may be empty.

    Attributes:
        models: Models of the plugin.
        tasks: Tasks of the plugin.
        suites: Suites of the plugin.
        metrics: Additional metrics for existing tasks, keyed by the name of the task.
    """

    models: Sequence[ModelSpec]
    tasks: Sequence[Task]
    suites: Sequence[Suite]
    metrics: Mapping[str, Sequence[Metric[Any, Any]]]


def _items(name: str, table: str, items: object, kind: type[T]) -> tuple[T, ...]:
    listed = items if isinstance(items, list | tuple) else [items]
    for item in listed:
        if not isinstance(item, kind):
            raise BenchError(
                f"{table} of the plugin {name} contains a {type(item).__name__}: expected a list "
                f"of {kind.__name__}."
            )
        if fault := mistyped_field(item):
            raise BenchError(f"{table} of the plugin {name} has a {kind.__name__} whose {fault}.")
    return tuple(listed)


def add_tables(tables: Tables) -> frozenset[str]:
    """Register the suites, tasks, metrics and models that a plugin defines.

    Returns:
        The names of the tasks that the plugin defines, and of those to which it adds metrics.

    Raises:
        BenchError: A name that the plugin defines is already in use or malformed, a suite does not
            fit its tasks (see `add_suite`), or a metric is for an unknown task.
    """
    by_suite = defaultdict[str, list[Task]](list)
    for task in tables.tasks:
        by_suite[task.suite].append(task)
    declared = {suite.name for suite in tables.suites}
    missing = [_mean_of(name, by_suite[name]) for name in by_suite if name not in declared]
    for suite in (*tables.suites, *missing):
        add_suite(suite, by_suite.get(suite.name, ()))
    for name, metrics in tables.metrics.items():
        add_details(name, metrics)
    for model in tables.models:
        add_model(model)
    changed = (find_task(task).name for task in tables.metrics)
    return frozenset((*(task.name for task in tables.tasks), *changed))


def _mean_of(name: str, tasks: Sequence[Task]) -> Suite:
    """Create a suite for tasks whose suite the plugin does not define.

    The score of the suite is the mean over its tasks.
    """
    cells = {t.name: tuple(m.name for m in t.metrics) for t in tasks if not t.trained_on}
    return Suite(
        name=name,
        title=name,
        tasks=tuple(task.name for task in tasks),
        rule=ScoreRule(name=f"mean of {name}", cells=cells, cite="the mean over its tasks"),
        cite="",
    )


GROUP = "benchharness.plugins"
"""Group of the entry points by which installed packages name their plugin modules."""

VARIABLE = "BENCH_PLUGINS"
"""Environment variable with the paths of plugin files, separated as in PATH."""


@dataclass(frozen=True, kw_only=True)
class _Plugin:
    """A loaded plugin.

    Attributes:
        digest: The digest of its code.
        tasks: The names of the tasks that it defines, or to which it adds metrics.
        makes: The names of the tasks that it defines.
        loggers: Its logger classes, keyed by name.
        settings: The names of the hyperparameters of its techniques.
    """

    digest: str
    tasks: frozenset[str]
    makes: frozenset[str]
    loggers: Mapping[str, Callable[[Path], Any]]
    settings: frozenset[str] = frozenset()


_loaded: dict[str, _Plugin] = {}
"""Loaded plugins, keyed by the path of the file or the name of the entry point."""


def load_plugins(files: Iterable[Path] | None = None) -> None:
    """Load installed plugins and plugin files, unless they are already loaded.

    Args:
        files: The plugin files; by default, those in the environment variable BENCH_PLUGINS.

    Raises:
        BenchError: A plugin is missing, raises an exception, defines none of the names in NAMES,
            defines an object of a wrong type, or cannot be registered (see `add_tables`).
    """
    if files is None:
        files = map(Path, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))
    for point in entry_points(group=GROUP):
        _load(point.name, point.load)
    for extension in extensions():
        for module in () if extension.is_packaged else extension.suites:
            name = f"{extension.package}.{module}"
            _load(name, partial(import_module, name), _modules_of_jobs(extension))
        if extension.techniques and not extension.is_packaged:
            _load_techniques(extension)
    for file in (file.expanduser().absolute() for file in files):
        _load(str(file), partial(_read_toml if file.suffix == ".toml" else _execute, file))
    # Worker processes get the plugin files through this environment variable. They find installed
    # plugins by themselves.
    paths = (name for name in _loaded if Path(name).is_absolute())
    os.environ[VARIABLE] = os.pathsep.join(paths)


def plugins_for(job: Job, *, kept: bool = False) -> None:
    """Load the plugins that define the tasks of a job, and check that they have not changed.

    The digests of the plugins' code are compared with the digests in the job.

    Args:
        job: Job that needs the plugins.
        kept: Whether the trained model of the job is loaded only to predict. In this case, plugins
            that only add metrics are not checked.

    Raises:
        BenchError: A plugin has changed or is missing.
    """
    define_task(job.definition)  # defines the task if it is on the user's own data
    if not job.plugins:
        return
    load_plugins()
    names, planned = {name.rpartition(":")[0] for name in job.fingerprints}, {*job.plugins.values()}
    shown = f"{job.task} ({', '.join(job.plugins)})"
    if kept and not names <= TASKS.keys():
        raise BenchError(
            f"the plugin of {shown} is not loaded. Pass its file with --plugin, or install its "
            "package."
        )
    found = {
        each.digest
        for _, each in _made_of(names, job.settings)
        if not kept or names & each.makes or each.settings
    }
    if not (found <= planned if kept else found == planned):
        since = "model was trained" if kept else "run was planned"
        advice = "use the original file, or train again" if kept else "start the run again"
        raise BenchError(f"the plugins of {shown} have changed since this {since}: {advice}.")


def plugins_of(tasks: Iterable[str], settings: Iterable[str] = ()) -> dict[str, str]:
    """Return the digests of the plugins that affect a job, keyed by the name of the plugin.

    The name of a plugin file does not contain its folder, so the file may be moved.

    Args:
        tasks: The tasks of the job. Plugins that define one of these tasks or add metrics to it are
            included.
        settings: The names of the job's hyperparameters. Plugins whose training techniques have one
            of these hyperparameters are included.
    """
    return dict(sorted((Path(name).name, p.digest) for name, p in _made_of(tasks, settings)))


def plugin_files(tasks: Iterable[str]) -> list[str]:
    """Return the paths of the plugin files that define one of these tasks or add metrics to it.

    Installed plugins are not included, because users need not name them with `--plugin`.
    """
    return [name for name, _ in _made_of(tasks) if Path(name).is_absolute()]


def _made_of(tasks: Iterable[str], settings: Iterable[str] = ()) -> Iterator[tuple[str, _Plugin]]:
    wanted, used = set(tasks), set(settings)
    return (
        (name, plugin)
        for name, plugin in _loaded.items()
        if plugin.tasks & wanted or plugin.settings & used
    )


def plugin_loggers() -> dict[str, Callable[[Path], Any]]:
    """Return the logger classes of all loaded plugins, keyed by the name that `--log` accepts."""
    return {name: make for plugin in _loaded.values() for name, make in plugin.loggers.items()}


def _modules_of_jobs(extension: Extension) -> list[str]:
    """Return the names of an extension's modules that only workers import, such as its heads."""
    tables = (
        extension.heads,
        extension.answers,
        extension.hyperparameters,
        extension.learners,
        extension.techniques,
    )
    places = {place.partition(":")[0] for table in tables for place in table.values()}
    return [f"{extension.package}.{module}" for module in sorted(places)]


def _load_techniques(extension: Extension) -> None:
    """Record the code of an extension's techniques, which affects jobs that use a technique."""
    if extension.package in _loaded:
        return
    package = import_module(extension.package)
    groups = [
        member(f"the hyperparameters of {name}", f"{extension.package}.{place}")
        for name, place in extension.hyperparameters.items()
        if name in extension.techniques
    ]
    _loaded[extension.package] = _Plugin(
        digest=modules_digest(_own_modules(package, _modules_of_jobs(extension))),
        tasks=frozenset(),
        makes=frozenset(),
        loggers={},
        settings=frozenset(field.name for group in groups for field in fields(group)),
    )


def _load(name: str, load: Callable[[], ModuleType], used: Iterable[str] = ()) -> None:
    """Load a plugin, and register what it defines.

    Args:
        name: Path of the plugin's file, or the name of its entry point or module. If a plugin with
            this name has been loaded already, nothing is done.
        load: Function that imports the plugin's main module.
        used: Names of modules that belong to the plugin in addition to those that it imports.
    """
    if name in _loaded:
        return
    module = loaded(f"the plugin {name}", load)
    if not any(hasattr(module, table) for table in NAMES):
        raise BenchError(
            f"the plugin {name} adds nothing: expected it to define {' or '.join(NAMES)}."
        )
    metrics = _mapping(
        name,
        module,
        "METRICS",
        'lists of metrics, keyed by task, such as {"glue/rte": [my_metric]}',
    )
    loggers = _loggers(name, module)
    tables = Tables(
        models=_items(name, "MODELS", getattr(module, "MODELS", ()), ModelSpec),
        tasks=_items(name, "TASKS", getattr(module, "TASKS", ()), Task),
        suites=_items(name, "SUITES", getattr(module, "SUITES", ()), Suite),
        metrics={task: _items(name, "METRICS", found, Metric) for task, found in metrics.items()},
    )
    try:
        tasks = add_tables(tables)
    except BenchError as error:
        raise BenchError(f"the plugin {name} cannot be added: {error}") from error
    _loaded[name] = _Plugin(
        digest=modules_digest(_own_modules(module, used)),
        tasks=tasks,
        makes=frozenset(task.name for task in tables.tasks),
        loggers=loggers,
    )


def _mapping(name: str, module: ModuleType, table: str, expected: str) -> Mapping[str, Any]:
    found = getattr(module, table, {})
    if not isinstance(found, Mapping):
        raise BenchError(
            f"{table} of the plugin {name} is a {type(found).__name__}: expected {expected}."
        )
    return found


def _loggers(name: str, module: ModuleType) -> Mapping[str, Callable[[Path], Any]]:
    expected = 'classes, keyed by a name for --log, such as {"csv": CsvLogger}'
    loggers = _mapping(name, module, "LOGGERS", expected)
    for word, make in loggers.items():
        if not callable(make):
            raise BenchError(
                f"LOGGERS of the plugin {name} contains a {type(make).__name__} under {word!r}: "
                f"expected {expected}."
            )
        if word in plugin_loggers():
            raise BenchError(
                f"the plugin {name} cannot be added: a logger called {word!r} exists already. "
                "Rename the logger of the plugin."
            )
    return loggers


_NAME = "bench_plugin"


def _spec_of(file: Path) -> ModuleSpec:
    """Return the import spec of a plugin file, with a module name that is unique to its path."""
    name = f"{_NAME}_{sha256(str(file).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise BenchError(
            f"there is no plugin {file}. Pass the path of a Python file (.py) or of a task file "
            "(.toml)."
        )
    return spec


def _read_toml(file: Path) -> ModuleType:
    """Read the task in a TOML file, and return a module whose TASKS contains only this task.

    The hyperparameters in the file take precedence over those of benchharness for this task.
    """
    task, values = custom_tasks().read_task(file)
    add_hints(file, task.name, values)
    module = ModuleType(_NAME)
    module.__file__ = str(file)
    vars(module)["TASKS"] = (task,)
    return module


def _execute(file: Path) -> ModuleType:
    spec = _spec_of(file)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the module of their class here
    cast("Loader", spec.loader).exec_module(module)
    return module


# Finding the code of a plugin: its file, and modules that it imports from its folder or package.

_OTHERS = {"site-packages", "dist-packages", "benchharness"}
"""Names of folders whose code does not belong to a plugin, even inside the plugin's folder."""

_RUNS = {"import_module", "__import__", "exec", "exec_module", "run_module", "run_path"}
"""Names of functions that can import or run modules without an import statement."""


def _own_modules(module: ModuleType, used: Iterable[str] = ()) -> dict[str, Path]:
    """Return the files of a plugin's own code, keyed by their paths in its folder or package.

    The plugin's main file has the key "". The others are the modules named in `used`, and all
    modules that one of these files imports, even if the import is inside a function and the module
    is not loaded. So the result, on which the key of a job depends, does not depend on what else
    this process has imported. If the plugin imports modules by name at run time, all modules in its
    folder are included.
    """
    main = Path(str(module.__file__)).resolve()
    home = _home(module, main)

    def own(files: Iterable[Path]) -> dict[str, Path]:
        there = {f.relative_to(home): f for f in files if f.is_relative_to(home) and f != main}
        return {place.as_posix(): f for place, f in there.items() if not _OTHERS & {*place.parts}}

    found, seen = {"": main}, set[str]()
    todo = {module.__name__, *used, *_imports(module.__name__, main)}
    while todo - seen:
        seen.add(name := min(todo - seen))
        for spec in _specs(name):
            new = own([Path(spec.origin).resolve()] if spec.origin and spec.has_location else ())
            for place in new.keys() - found.keys():
                todo |= {*_imports(spec.name, new[place])}
            found |= new
    if _RUNS & seen:
        for pattern in ("**/*",) if (home / "__init__.py").is_file() else ("*", "*/*"):
            found |= own(modules_in(home, pattern).values())
    return found


def _home(module: ModuleType, main: Path) -> Path:
    """Return the folder of a plugin's own modules, or its main file if it has no other modules."""
    package = sys.modules.get(module.__name__.partition(".")[0])
    home = Path(next(iter(getattr(package, "__path__", ())), main.parent)).resolve()
    while (home.parent / "__init__.py").is_file():
        home = home.parent
    # A module in site-packages is next to other packages, which do not belong to the plugin.
    return main if home.name in _OTHERS else home


def _specs(name: str) -> Iterator[ModuleSpec]:
    """Yield the import specs of a module and its parent packages, without importing them."""
    path, parts = None, name.split(".")
    for whole in accumulate(parts, "{}.{}".format):
        loaded = getattr(sys.modules.get(whole), "__spec__", None)
        spec = loaded or PathFinder.find_spec(whole, path)
        if spec is None or whole in sys.stdlib_module_names:
            return
        yield spec
        path = spec.submodule_search_locations or ()


def _imports(name: str, file: Path) -> Iterator[str]:
    """Yield the names of modules that a source file imports.

    Names in _RUNS that it uses are also yielded. `name` is the full name of the file's module.
    """
    try:
        tree = ast.parse(file.read_bytes() if file.suffix == ".py" else b"")
    except (SyntaxError, ValueError):  # it may be written for another version of Python
        return
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else []
                base = ".".join(filter(None, [*above, module]))
                yield from (f"{base}.{each.name}" for each in names)
            case ast.Name(id=word) | ast.Attribute(attr=word) if word in _RUNS:
                yield word
