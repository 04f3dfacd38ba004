"""A `training_args.bin` and an `optimizer.pt`, not unpickled: nothing is imported or called."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from benchharness.models.pickles import DAMAGED, LARGEST, OLD_PICKLES, Described, Machine
from benchharness.tasks.errors import DataError

_LIBRARIES = ("transformers", "accelerate", "peft", "trl", "sentence_transformers", "setfit")
"""Whose classes the Trainer's arguments hold, and those of the trainers that are built on it."""

_CALLED = frozenset(
    {
        *("torch.device", "torch.dtype", "torch.Size", "collections.OrderedDict"),
        *("builtins.set", "builtins.frozenset", "builtins.getattr", "builtins.bytearray"),
        *("__builtin__.set", "__builtin__.frozenset", "__builtin__.getattr", "_codecs.encode"),
        *("datetime.timedelta", "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.Path"),
    }
)
"""What else is called when such a file is loaded; anything else is somebody's own code."""


MOST_VALUES, DEEPEST, LONGEST = 5_000, 20, 100_000
"""A file of a Trainer's arguments may hold this many values (most have some 200), nested this deep,
in texts of this many characters."""


def read_arguments(path: Path) -> Mapping[str, Any]:
    """The fields of the Trainer's arguments in a file; enums are the words that they are made of.

    DataError where the file is damaged, is of something else, or would run code.
    """
    try:
        found = next((each for each in _objects(path) if isinstance(each, Described)), None)
        _check_size(found)
    except DataError:
        raise
    except DAMAGED as error:
        raise DataError(
            f"{path} is damaged or no file of torch.save ({error}); copy it again, or give another "
            "file of that training."
        ) from None
    if found is None or "learning_rate" not in found.state:
        holds = f"a {found.name}" if found else "no object"
        raise DataError(f"{path} holds {holds}, and not the arguments of a Trainer.")
    return found.state


def _check_size(found: Any) -> None:
    """ValueError for more than people print and compare; a value that is named twice counts twice.

    A pickle of 400 bytes may have a list within a list that is there 2 ** 40 times.
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
            raise ValueError(f"a value of more than {LONGEST:,} letters or {LONGEST // 10:,} bits")
        if count + len(waiting) + len(inner) > MOST_VALUES or depth > DEEPEST:
            raise ValueError(f"more than {MOST_VALUES:,} values, or {DEEPEST} within each other")
        waiting += [(each, depth + 1) for each in inner]


def read_groups(path: Path) -> Sequence[Mapping[str, Any]]:
    """The groups of an optimizer's state that have parameters; none of one that is saved otherwise.

    DataError where the file is damaged or would run code.
    """
    try:
        found = next(_objects(path)) if zipfile.is_zipfile(path) else None
        groups = found.get("param_groups") if isinstance(found, dict) else None
        listed = groups if isinstance(groups, list) else []
        kept = [each for each in listed if isinstance(each, dict) and each.get("params")]
        for each in kept:  # of a large network the parameters are many
            _check_size({name: value for name, value in each.items() if name != "params"})
    except DAMAGED as error:
        raise DataError(f"{path} is damaged ({error}); copy it again, or remove it.") from None
    return kept


def _objects(path: Path) -> Iterator[Any]:
    """What the pickles of a file make, one after the other."""
    if not zipfile.is_zipfile(path):
        if path.stat().st_size > LARGEST:
            raise ValueError(f"more than {LARGEST:,} bytes")
        stream = BytesIO(path.read_bytes())
        for _ in range(OLD_PICKLES):
            yield _Arguments(path).run(stream)
        return
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith("/data.pkl")]
        if len(members) != 1 or members[0].file_size > LARGEST:
            raise ValueError(f"{len(members)} pickles, or one of more than {LARGEST:,} bytes")
        yield _Arguments(path).run(BytesIO(archive.read(members[0])))


class _Arguments(Machine):
    """The machine of a Trainer's file, in which little else is called than classes of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def call(self, called: Any, args: Any, *, new: bool = False) -> Any:
        """The word of an enum, or an object with its arguments.

        A class makes an object without arguments wherever it is from (`new`): no code of it runs.
        """
        if not isinstance(called, Described) or called.args or not isinstance(args, tuple):
            raise TypeError("a call of what is no function")
        module, _, name = called.name.rpartition(".")
        is_class = module.split(".")[0] in _LIBRARIES and name[:1].isupper()
        is_known = is_class or called.name in _CALLED or module.startswith("torch._utils")
        if not is_known and (args or not new):
            raise DataError(
                f"{self.path} runs code when it is loaded ({called.name}), which no Trainer's file "
                "does; it was not loaded. Give another file of that training."
            )
        if called.name == "collections.OrderedDict":
            return {}
        # An enum is its class with its value, or, before Python 3.11.4, getattr of it and its name,
        # which in transformers is the value in capitals.
        plain = [each for each in args if isinstance(each, str | int | float)]
        if len(plain) != 1 or new:
            return Described(called.name, args)
        return str(plain[0]).lower() if name == "getattr" else plain[0]
