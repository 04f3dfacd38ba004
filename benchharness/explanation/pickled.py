"""What a `training_args.bin` says, without unpickling it: nothing is imported, nothing called.

torch.save writes a zip with a pickle in it, before torch 1.6 several pickles in a row. A pickle is
a program for a stack machine. This one carries out the instructions that build plain values; where
the program makes an object, it notes the object's class and state, and makes none.
"""

import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from benchharness.tasks.errors import DataError

LARGEST = 16 * 2**20
"""Bytes. A Trainer's arguments are 5,000; a checkpoint's weights are in pickles too."""

_PICKLES = 4
"""How many a file of an old torch begins with: its mark, its version, its machine, the object."""

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


@dataclass(eq=False)
class Described:
    """An object that a pickle would make: its class or what it is called with, and its state."""

    name: str
    args: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)


def read_arguments(path: Path) -> Mapping[str, Any]:
    """The fields of the Trainer's arguments in a file; enums are the words that they are made of.

    DataError where the file is damaged, is of something else, or would run code.
    """
    try:
        found = next((each for each in _objects(path) if isinstance(each, Described)), None)
    except DataError:
        raise
    except (*_DAMAGED, RecursionError) as error:
        raise DataError(
            f"{path} is damaged or no file of torch.save ({error}); copy it again, or give another "
            "file of that training."
        ) from None
    if found is None or "learning_rate" not in found.state:
        holds = f"a {found.name}" if found else "no object"
        raise DataError(f"{path} holds {holds}, and not the arguments of a Trainer.")
    return found.state


_DAMAGED = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, OverflowError),
    *(struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


def _objects(path: Path) -> Iterator[Any]:
    """What the pickles of a file make, one after the other."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"more than {LARGEST:,} bytes")
    if not zipfile.is_zipfile(path):
        stream = BytesIO(path.read_bytes())
        for _ in range(_PICKLES):
            yield _Machine(path).run(stream)
        return
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.endswith("/data.pkl")]
        if len(members) != 1 or members[0].file_size > LARGEST:
            raise ValueError(f"{len(members)} pickles, or one of more than {LARGEST:,} bytes")
        yield _Machine(path).run(BytesIO(archive.read(members[0])))


class _Machine:
    """The stack, the stacks below its marks, and the memo of one pickle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self, stream: BytesIO) -> Any:
        """Carries out the instructions up to the end of one pickle, and returns what it makes."""
        for code, arg, _ in pickletools.genops(stream):
            if code.name == "STOP":
                return self.stack.pop()
            if code.name in _EFFECTS:
                _EFFECTS[code.name](self, arg)
            elif code.name in _MAKERS:
                made = _MAKERS[code.name](self, arg)  # which may be with another stack
                self.stack.append(made)
            elif arg is not None and not code.stack_before:
                self.stack.append(arg)  # a number, a text or bytes
            else:  # OBJ and extensions, which no torch has ever written
                raise ValueError(f"the instruction {code.name}")
        raise EOFError("it ends too early")

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        found, self.stack = self.stack, self.below.pop()
        return found

    def remember(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def last(self, count: int) -> list[Any]:
        found = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return found

    def call(self, called: Any, args: Any, *, new: bool = False) -> Any:
        """What stands for a call: the word of an enum, or an object with its arguments.

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

    def extend(self, added: list[Any]) -> None:
        """Adds values to the list or set on the stack, or names and values to the mapping."""
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(zip(added[::2], added[1::2], strict=True))
        elif isinstance(target, list):
            target += added
        else:
            target.update(added)

    def build(self) -> None:
        """Gives the object on the stack its fields."""
        state, target = self.stack.pop(), self.stack[-1]
        target.state.update(state if isinstance(state, dict) else {})


_Step = Callable[[_Machine, Any], Any]

_EFFECTS: Mapping[str, _Step] = {
    "PROTO": lambda *_: None,
    "FRAME": lambda *_: None,
    "MARK": lambda machine, _: machine.mark(),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.since_mark(),
    **dict.fromkeys(
        ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), lambda machine, arg: machine.remember(arg)
    ),
    **dict.fromkeys(
        ("APPENDS", "SETITEMS", "ADDITEMS"), lambda machine, _: machine.extend(machine.since_mark())
    ),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "SETITEM": lambda machine, _: machine.extend(machine.last(2)),
    "BUILD": lambda machine, _: machine.build(),
}
"""The instructions that put nothing on the stack."""

_MAKERS: Mapping[str, _Step] = {
    "NONE": lambda *_: None,
    "NEWTRUE": lambda *_: True,
    "NEWFALSE": lambda *_: False,
    "EMPTY_LIST": lambda *_: [],
    "EMPTY_TUPLE": lambda *_: (),
    "EMPTY_DICT": lambda *_: {},
    "EMPTY_SET": lambda *_: set(),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, arg: machine.memo[arg]),
    "DUP": lambda machine, _: machine.stack[-1],
    "LIST": lambda machine, _: machine.since_mark(),
    "TUPLE": lambda machine, _: (*machine.since_mark(),),
    "TUPLE1": lambda machine, _: (*machine.last(1),),
    "TUPLE2": lambda machine, _: (*machine.last(2),),
    "TUPLE3": lambda machine, _: (*machine.last(3),),
    "FROZENSET": lambda machine, _: frozenset(machine.since_mark()),
    "DICT": lambda machine, _: dict(zip(*[iter(machine.since_mark())] * 2, strict=True)),
    "GLOBAL": lambda _, arg: Described(arg.replace(" ", ".")),
    "STACK_GLOBAL": lambda machine, _: Described(".".join(machine.last(2))),
    "REDUCE": lambda machine, _: machine.call(*machine.last(2)),
    "NEWOBJ": lambda machine, _: machine.call(*machine.last(2), new=True),
    "INST": lambda m, arg: m.call(Described(arg.replace(" ", ".")), (*m.since_mark(),)),
    "PERSID": lambda *_: Described("storage"),
    "BINPERSID": lambda machine, _: machine.last(1) and Described("storage"),
}
"""The instructions that put a value on the stack which is not their argument."""
