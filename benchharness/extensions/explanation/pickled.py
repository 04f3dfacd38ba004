"""Read `training_args.bin` and `optimizer.pt` without running code from them."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.models.pickles import DAMAGED, LARGEST, OLD_PICKLES, Described, Machine

_LIBRARIES = ("transformers", "accelerate", "peft", "trl", "sentence_transformers", "setfit")
"""Libraries whose classes occur in the arguments of a Trainer or of its subclasses."""

_CALLED = frozenset(
    {
        *("torch.device", "torch.dtype", "torch.Size", "collections.OrderedDict"),
        *("builtins.set", "builtins.frozenset", "builtins.getattr", "builtins.bytearray"),
        *("__builtin__.set", "__builtin__.frozenset", "__builtin__.getattr", "_codecs.encode"),
        *("datetime.timedelta", "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.Path"),
    }
)
"""Other functions that are called when such a file is unpickled. Any function that is not listed is
treated as third-party code.
"""


MOST_VALUES, DEEPEST, LONGEST = 5_000, 20, 100_000
"""Limits for a file with a Trainer's arguments: the maximum number of values (most files have about
200), the maximum depth of nesting, and the maximum number of characters in a string.
"""


def read_arguments(path: Path) -> Mapping[str, Any]:
    """Return the Trainer's arguments in a `training_args.bin`, keyed by name.

    Enums are replaced by their values.

    Raises:
        DataError: The file is damaged, contains something else, or would run code when it is
            loaded.
    """
    try:
        found = next((each for each in _objects(path) if isinstance(each, Described)), None)
        _check_size(found)
    except DataError:
        raise
    except DAMAGED as error:
        raise DataError(
            f"{path} is damaged or was not written by torch.save ({error}). Copy it again, or use "
            "another file of the same training run."
        ) from None
    if found is None or "learning_rate" not in found.state:
        holds = f"an object of {found.name}" if found else "no object"
        raise DataError(f"{path} contains {holds} instead of the arguments of a Trainer.")
    return found.state


def _check_size(found: Any) -> None:
    """Raise ValueError if data exceed the limits.

    Values count as often as they are referenced: a pickle of 400 bytes can contain nested lists in
    which the same list occurs 2 ** 40 times.
    """
    waiting, count = [(found, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        match value:
            case Described():
                inner = [*value.args, *value.state.items()]
            case dict():
                inner = [*value.items()]
            case list() | tuple() | set() | frozenset():
                inner = [*value]
            case _:
                inner = []
        is_long = isinstance(value, str | bytes) and len(value) > LONGEST
        if is_long or (isinstance(value, int) and value.bit_length() > LONGEST // 10):
            raise ValueError(f"a value has over {LONGEST:,} letters or {LONGEST // 10:,} bits")
        if count + len(waiting) + len(inner) > MOST_VALUES or depth > DEEPEST:
            raise ValueError(f"it has over {MOST_VALUES:,} values or {DEEPEST} levels of nesting")
        waiting += [(each, depth + 1) for each in inner]


def read_groups(path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the parameter groups in an `optimizer.pt`, without groups that have no parameters.

    The result is empty if the file does not have the zip format of torch.save.

    Raises:
        DataError: The file is damaged, or would run code when it is loaded.
    """
    try:
        found = next(_objects(path)) if zipfile.is_zipfile(path) else None
        groups = found.get("param_groups") if isinstance(found, dict) else None
        listed = groups if isinstance(groups, list) else []
        kept = [each for each in listed if isinstance(each, dict) and each.get("params")]
        for each in kept:  # the size of "params" is not checked: a large network has many
            _check_size({name: value for name, value in each.items() if name != "params"})
    except DAMAGED as error:
        raise DataError(f"{path} is damaged ({error}). Copy it again, or remove it.") from None
    return kept


def _objects(path: Path) -> Iterator[Any]:
    """Yield the objects of the pickles in a file, in order."""
    if not zipfile.is_zipfile(path):
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        stream = BytesIO(path.read_bytes())
        for _ in range(OLD_PICKLES):
            yield _Arguments(path).run(stream)
        return
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith("/data.pkl")]
        if len(members) != 1 or members[0].file_size > LARGEST:
            raise ValueError(f"it does not have exactly one pickle of at most {LARGEST:,} bytes")
        yield _Arguments(path).run(BytesIO(archive.read(members[0])))


class _Arguments(Machine):
    """Pickle interpreter for a Trainer's files, which only permits calls of known classes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def call(self, called: Any, args: Any, *, new: bool = False) -> Any:
        """Return the value of an enum, or a description of an object and its arguments.

        Objects that are created without arguments (`new`) may have any class, because no code of
        the class runs.

        Raises:
            DataError: The file would call third-party code.
        """
        if not isinstance(called, Described) or called.args or not isinstance(args, tuple):
            raise TypeError("it calls an object that is not a function")
        module, _, name = called.name.rpartition(".")
        is_class = module.split(".")[0] in _LIBRARIES and name[:1].isupper()
        is_known = is_class or called.name in _CALLED or module.startswith("torch._utils")
        if not is_known and (args or not new):
            raise DataError(
                f"{self.path} was not loaded, because it would run code ({called.name}). A "
                "Trainer's files never do this. Use another file of the same training run."
            )
        if called.name == "collections.OrderedDict":
            return {}
        # An enum is pickled as a call of its class with the value or, before Python 3.11.4, as a
        # call of getattr with its class and name. In transformers, the name is the value in
        # capitals.
        plain = [each for each in args if isinstance(each, str | int | float)]
        if len(plain) != 1 or new:
            return Described(called.name, args)
        return str(plain[0]).lower() if name == "getattr" else plain[0]
