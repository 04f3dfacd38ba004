"""Read files of torch.save without unpickling them, so that nothing is imported or called.

torch.save writes a zip file with a pickle in it; before torch 1.6 it wrote several pickles in a
row. The numbers of the tensors are stored after the pickles. A pickle is a program for a stack
machine. `Machine` executes the instructions that build plain values. For instructions that would
create an object, `Machine` only records the class and the state of the object. This is enough for
weights, because a pickle describes a tensor by its position in the file and its shape.
"""

import json
import mmap
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.models.spec import shown

LARGEST = 16 * 2**20
"""Largest size of a pickle in bytes, without the numbers of its tensors. For comparison, the
arguments of a Trainer take 5,000 bytes, and the names of T5's weights take 200,000 bytes."""

MOST_WORK = 4_000_000
"""Largest number of values that a pickle may use as keys of mappings, as members of sets, as
arguments of calls or as attributes of objects. The size of the pickle does not limit this number,
because a pickle can use one value many times with two bytes each time. Weight files need fewer than
ten values per tensor."""

DEEPEST = 100
"""Largest depth of nested tuples. Python computes hashes and comparisons of nested tuples by
recursion without a limit, so very deep tuples would crash the process."""

OLD_PICKLES = 4
"""Number of pickles at the start of a file that torch before 1.6 wrote: the magic number, the
version, system information, and the stored object."""

DAMAGED = (
    *(OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, OverflowError),
    *(struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    MemoryError,
)
"""Exceptions that are raised when a file is incomplete or was not written by torch.save."""


@dataclass(eq=False)
class Described:
    """Stand-in for an object that a pickle would create, or for a class or a function.

    Attributes:
        name: The full name of the class or function.
        args: The arguments with which the pickle would call it.
        state: The attributes that the pickle would set in the object, keyed by name.
    """

    name: str
    args: tuple[Any, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)


class Machine:
    """A stack machine that executes the instructions of a pickle without creating objects.

    Attributes:
        stack: The current stack.
        below: The stacks that MARK instructions have set aside.
        memo: The values that the pickle has saved for later use, keyed by their index.
        work: The number of values that were used as keys, set members, arguments or attributes.
        tuples: For each tuple that was made, keyed by its `id`: the tuple, the number of values in
            it and its depth.
    """

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.work = 0
        self.tuples: dict[int, tuple[Any, int, int]] = {}

    def look_at(self, values: Iterable[Any]) -> None:
        """Add the number of these values, including those inside tuples, to `work`.

        Raises:
            ValueError: `work` is now above MOST_WORK.
        """
        self.work += sum(self.tuples.get(id(each), (each, 1, 0))[1] for each in values)
        if self.work > MOST_WORK:
            raise ValueError(f"its pickle uses more than {MOST_WORK:,} values")

    def tuple_of(self, values: list[Any]) -> tuple[Any, ...]:
        """Make a tuple of these values, and record its size and its depth.

        Raises:
            ValueError: More than DEEPEST tuples are nested within each other.
        """
        inner = [self.tuples.get(id(each), (each, 1, 0)) for each in values]
        depth = 1 + max((deep for _, _, deep in inner), default=0)
        if depth > DEEPEST:
            raise ValueError(f"its pickle has more than {DEEPEST} tuples nested within each other")
        made = tuple(values)
        # The tuple itself is stored too, because Python may reuse the id of a deleted tuple.
        self.tuples[id(made)] = (made, 1 + sum(size for _, size, _ in inner), depth)
        return made

    def mapping_of(self, values: list[Any]) -> dict[Any, Any]:
        """Make a dict from a list in which keys and values alternate."""
        self.look_at(values[::2])
        return dict(zip(values[::2], values[1::2], strict=True))

    def set_of(self, values: list[Any]) -> frozenset[Any]:
        """Make a frozenset of these values."""
        self.look_at(values)
        return frozenset(values)

    def called(self, *, new: bool = False) -> Any:
        """Pop a function and its arguments off the stack; return a stand-in for the result.

        If `new` is true, the function is a class, and the pickle would call its `__new__`.
        """
        function, args = self.last(2)
        self.look_at(args if isinstance(args, tuple) else ())
        return self.call(function, args, new=new)

    def call(self, called: Any, args: Any, *, new: bool = False) -> Any:
        """Return a stand-in for the result of a call, which is not made; subclasses define this.

        Args:
            called: The stand-in for the function.
            args: Arguments of the call.
            new: Whether `called` is a class, and the pickle would call its `__new__`.
        """
        raise NotImplementedError

    def named(self, name: str) -> Described:
        """Return a stand-in for the class or function `name`, which unpickling would import."""
        return Described(name)

    def storage(self, words: Any) -> Any:
        """Return a stand-in for the numbers of a tensor, which are stored outside of the pickle.

        `words` describes the numbers as torch has written it: their type, their key (which
        identifies them in the file) and their count.
        """
        return Described("storage", (words,))

    def run(self, stream: Any) -> Any:
        """Execute the instructions of one pickle, and return the value that the pickle describes.

        Args:
            stream: A binary file that is open at the start of the pickle. At the end of this
                method, its position is behind the pickle.

        Raises:
            ValueError: The pickle is too large or has an unknown instruction.
            EOFError: The pickle ends too early.
            Exception: Another of the exceptions in DAMAGED, if the pickle is damaged otherwise.
        """
        start = stream.tell()
        for code, arg, place in pickletools.genops(stream):
            if code.name == "STOP":
                return self.stack.pop()
            if place is not None and place - start > LARGEST:
                raise ValueError(f"its pickle has more than {LARGEST:,} bytes")
            if code.name in _EFFECTS:
                _EFFECTS[code.name](self, arg)
            elif code.name in _MAKERS:
                made = _MAKERS[code.name](self, arg)  # this call may replace `self.stack`
                self.stack.append(made)
            elif arg is not None and not code.stack_before:
                self.stack.append(arg)  # a number, a string or bytes
            else:  # OBJ and extensions, which torch never writes
                raise ValueError(f"its pickle has an unknown instruction, {code.name}")
        raise EOFError("it ends too early")

    def mark(self) -> None:
        """Set the current stack aside and begin a new one (instruction MARK)."""
        self.below.append(self.stack)
        self.stack = []

    def since_mark(self) -> list[Any]:
        """Return the values pushed since the last MARK, and restore the stack before it."""
        found, self.stack = self.stack, self.below.pop()
        return found

    def remember(self, place: int | None) -> None:
        """Store the top value of the stack in the memo at the index `place`.

        If `place` is None, the number of stored values is used as the index.
        """
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def last(self, count: int) -> list[Any]:
        """Pop the last `count` values off the stack; raise EOFError if the stack has fewer."""
        if count > len(self.stack):
            raise EOFError("its stack is empty")
        found = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return found

    def extend(self, added: list[Any]) -> None:
        """Add values to the list, set or dict on top of the stack.

        For a dict, keys and values alternate in `added`.

        Raises:
            TypeError: There is another object on top of the stack.
        """
        target = self.stack[-1]
        if isinstance(target, dict):
            target.update(self.mapping_of(added))
        elif isinstance(target, list):
            target += added
        elif isinstance(target, set):
            self.look_at(added)
            target.update(added)
        elif not isinstance(target, Described):  # values of a custom list or dict are ignored
            raise TypeError("it adds values to an object that is not a list, a set or a dict")

    def build(self) -> None:
        """Pop the state of an object off the stack, and add it to the stand-in for the object.

        The stand-in is the value below the state on the stack.
        """
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Described) and isinstance(state, dict):
            self.look_at(state)
            target.state.update(state)


_Step = Callable[[Machine, Any], Any]

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
"""Functions for instructions that push nothing on the stack, keyed by instruction."""

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
    "TUPLE": lambda machine, _: machine.tuple_of(machine.since_mark()),
    "TUPLE1": lambda machine, _: machine.tuple_of(machine.last(1)),
    "TUPLE2": lambda machine, _: machine.tuple_of(machine.last(2)),
    "TUPLE3": lambda machine, _: machine.tuple_of(machine.last(3)),
    "FROZENSET": lambda machine, _: machine.set_of(machine.since_mark()),
    "DICT": lambda machine, _: machine.mapping_of(machine.since_mark()),
    "GLOBAL": lambda machine, arg: machine.named(arg.replace(" ", ".")),
    "STACK_GLOBAL": lambda machine, _: machine.named(".".join(machine.last(2))),
    "REDUCE": lambda machine, _: machine.called(),
    "NEWOBJ": lambda machine, _: machine.called(new=True),
    "INST": lambda m, arg: m.call(m.named(arg.replace(" ", ".")), (*m.since_mark(),)),
    "PERSID": lambda machine, arg: machine.storage(arg),
    "BINPERSID": lambda machine, _: machine.storage(*machine.last(1)),
}
"""Functions for instructions that push a value other than their argument, keyed by instruction."""


# Read weights.

_TYPES: Mapping[str, tuple[str, int]] = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
"""torch's names of storage types, mapped to safetensors' names of dtypes and bytes per number."""

_TENSOR = ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter")
_REBUILD = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2")
_AROUND = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_FROM_TYPE = "torch._tensor._rebuild_from_type_v2"

_WEIGHTS = frozenset(
    {
        *(_TENSOR + _REBUILD + _AROUND),
        *(_FROM_TYPE, "collections.OrderedDict", "torch.Size", "torch.device"),
        *("builtins.set", "__builtin__.set", "_codecs.encode"),
        *(f"torch.{kind}" for kind in _TYPES),
        *(f"torch.{kind}" for kind in ("float16", "bfloat16", "float32", "float64", "int64")),
    }
)
"""Names of classes and functions that may occur in a file with only weights. torch.load with
weights_only=True permits more names."""


@dataclass(frozen=True, kw_only=True)
class _Storage:
    """Location of numbers in a file, which tensors may share: key, type, start and length."""

    key: str
    kind: str
    start: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor in a file, described as a view of stored numbers.

    Attributes:
        storage: The stored numbers, which several tensors may share.
        start: The position of the tensor's first number in the storage.
        shape: The shape of the tensor.
        strides: For each dimension, the distance in the storage between the numbers of two
            neighboring indices, as in `torch.Tensor.stride`.
    """

    storage: _Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def kind(self) -> str:
        """Type of the numbers in the notation of safetensors, such as "F32"."""
        return _TYPES[self.storage.kind][0]

    @property
    def width(self) -> int:
        """Number of bytes per number."""
        return _TYPES[self.storage.kind][1]


@dataclass(frozen=True, kw_only=True)
class PickledWeights:
    """Description of the content of a pickled file.

    Attributes:
        tensors: The tensors at the top level of the file, keyed by name.
        others: The names of the classes and functions of other objects in the file.
        inside: The keys of dicts at the top level that contain tensors, such as "state_dict".
    """

    tensors: Mapping[str, Tensor]
    others: tuple[str, ...]
    inside: tuple[str, ...]

    def count(self) -> int:
        """Return the total number of values in the tensors; equal views count only once."""
        shared = {(t.storage.key, t.start, t.shape): prod(t.shape) for t in self.tensors.values()}
        return sum(shared.values())


def read_pickled(path: Path) -> PickledWeights:
    """Read the description of the weights in a file that torch.save wrote.

    If the file is damaged, one of the exceptions in DAMAGED is raised.
    """
    with _opened(path) as (made, _):
        return made


def weights_of(path: Path, trust: Trust) -> PickledWeights:
    """Read the description of the weights in a file that torch.save wrote.

    Other objects in the file are never created.

    Args:
        path: Path of the file.
        trust: Permissions of the user. They determine whether other objects are skipped or raise
            an error.

    Raises:
        ModelError: The file is damaged, contains no tensors at its top level, or contains other
            objects without the permission of the user.
    """
    try:
        found = read_pickled(path)
    except DAMAGED as error:
        raise damaged(path, error) from None
    if found.others and not trust.pickle:
        raise ModelError(
            f"{shown(path)} contains more than weights ({', '.join(found.others[:3])}), and "
            "other objects are never loaded: use a model.safetensors, or pass --allow-pickle to "
            "read only the weights."
        )
    if not found.tensors:
        within = f"they are inside {found.inside[0]!r}" if found.inside else "it contains none"
        raise ModelError(
            f"{shown(path)} has no weights at its top level ({within}): load the file in the "
            "program that trained the model, and save the model and its tokenizer with "
            "model.save_pretrained(FOLDER) and tokenizer.save_pretrained(FOLDER)."
        )
    return found


def damaged(path: Path, error: Exception) -> ModelError:
    """Return the ModelError for a file of pickled weights that cannot be read at all.

    `error` is the exception that reading the file `path` has raised.
    """
    return ModelError(
        f"{shown(path)} cannot be read as a file of torch.save ({error}): copy the checkpoint "
        "again, or save it as safetensors."
    )


def holds_more(weights: Iterable[Path]) -> bool:
    """Return whether one of these weight files contains objects other than weights.

    torch.load refuses such files, unless it is allowed to run their code.
    """
    return any(read_pickled(path).others for path in weights)


class _Weights(Machine):
    """Machine that replaces tensors by `Tensor` objects, and records all other objects' names."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[str] = []
        self.storages: dict[str, _Storage] = {}

    def storage(self, words: Any) -> Any:
        # `words` is like ("storage", torch.FloatStorage, "0", "cpu", 768). Old files add None or,
        # for a view of another storage, the view's key, start and length.
        _, kind, key, _, count, *view = words
        name = kind.name.rpartition(".")[2]
        if name not in _TYPES:
            return kind
        whole = _Storage(key=str(key), kind=name, start=0, count=int(count))
        self.storages[whole.key] = whole
        if not view or view[0] is None:
            return whole
        _, start, length = view[0]
        return _Storage(key=whole.key, kind=name, start=int(start), count=int(length))

    def named(self, name: str) -> Described:
        if name not in _WEIGHTS:
            self.others.append(name)
        return super().named(name)

    def call(self, called: Any, args: Any, *, new: bool = False) -> Any:  # noqa: ARG002
        if not isinstance(called, Described) or not isinstance(args, tuple):
            raise TypeError("its pickle calls an object that is not a function")
        name = called.name
        if name == "collections.OrderedDict" and not args:
            return {}
        if name in _REBUILD:
            return _tensor(*args[:4], *args[6:])
        if name in _AROUND and args and isinstance(args[0], Tensor):
            return args[0]
        if name == _FROM_TYPE and isinstance(args[1], Described) and args[1].name in _TENSOR:
            return self.call(args[0], args[2])
        return Described(name, args)


def _tensor(storage: Any, start: Any, shape: Any, strides: Any, turned: Any = None) -> Any:
    """Return a tensor; raise ValueError if it extends beyond its storage or must be negated."""
    if not isinstance(storage, _Storage):
        return Described("torch.Tensor")  # its storage type is unsupported and was recorded already
    if turned:
        raise ValueError("it has a tensor whose numbers must be negated after reading")
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    last = start + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if min((start, *shape, *strides)) < 0 or (0 not in shape and last >= storage.count):
        raise ValueError("a tensor extends beyond its stored numbers")
    return Tensor(storage=storage, start=storage.start + start, shape=shape, strides=strides)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[PickledWeights, Callable[[Tensor], Any]]]:
    """Context manager that yields the weights in a file and a function that reads one tensor."""
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        machine = _Weights()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                made, places = _of_zip(machine, archive, content)
        else:
            made, places = _of_old(machine, content)
        for key, storage in machine.storages.items():
            start, size = places[key]
            if storage.count * _TYPES[storage.kind][1] > min(size, len(content) - start):
                raise ValueError(f"the data of storage {key} are truncated")

        def numbers(tensor: Tensor) -> Any:
            """Return a tensor's numbers as an array of raw bytes, one item per number."""
            width = tensor.width
            start = places[tensor.storage.key][0] + tensor.start * width
            strides = tuple(stride * width for stride in tensor.strides)
            return np.ndarray(tensor.shape, f"V{width}", content, start, strides)

        yield _sorted(made, machine.others), numbers


_Places = Mapping[str, tuple[int, int]]
"""Start of each storage's numbers in the file and their size, in bytes, keyed by storage key."""


def _of_zip(machine: Machine, archive: zipfile.ZipFile, content: mmap.mmap) -> tuple[Any, _Places]:
    members = {member.filename: member for member in archive.infolist()}
    pickles = [name for name in members if name.endswith("/data.pkl")]
    if len(pickles) != 1 or members[pickles[0]].file_size > LARGEST:
        raise ValueError(
            f"expected one pickle with at most {LARGEST:,} bytes, pickles found: {len(pickles)}"
        )
    within = pickles[0].removesuffix("data.pkl")
    order = f"{within}byteorder"
    if order in members and archive.read(order) != b"little":
        raise ValueError("its numbers are not in little-endian byte order")
    with archive.open(pickles[0]) as stream:
        made = machine.run(stream)
    return made, {
        name.removeprefix(f"{within}data/"): _place(member, content)
        for name, member in members.items()
        if name.startswith(f"{within}data/")
    }


def _place(member: zipfile.ZipInfo, content: mmap.mmap) -> tuple[int, int]:
    """Return the start and size of a zip member's bytes, which follow a variable header."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("its numbers are compressed, which torch.save never does")
    name, more = struct.unpack_from("<HH", content, member.header_offset + 26)
    return member.header_offset + 30 + name + more, member.file_size


def _of_old(machine: "_Weights", content: mmap.mmap) -> tuple[Any, _Places]:
    mark = machine.run(content)
    if mark != _MARK:
        return mark, {}  # the file was written by pickle, not by torch, so it has no tensors
    _, system = (_Weights().run(content) for _ in range(OLD_PICKLES - 2))
    if not system.get("little_endian", True):
        raise ValueError("its numbers are not in little-endian byte order")
    made = machine.run(content)
    places = {}
    for key in _Weights().run(content):  # the storages' keys, in order
        width = _TYPES[machine.storages[key].kind][1]
        count = int.from_bytes(content.read(8), "little")
        places[key] = (content.tell(), count * width)
        content.seek(count * width, 1)
    return made, places


_MARK = 0x1950A86A20F9469CFC6C
"""Magic number at the start of a file from before torch 1.6."""


def _sorted(made: Any, others: Sequence[str]) -> PickledWeights:
    """Return the tensors in the unpickled value, and the names of all other objects."""
    if not isinstance(made, dict):
        return PickledWeights(
            tensors={}, others=tuple(dict.fromkeys((*others, _kind(made)))), inside=()
        )
    return PickledWeights(
        tensors={str(name): value for name, value in made.items() if isinstance(value, Tensor)},
        others=tuple(dict.fromkeys(others)),
        inside=tuple(
            str(name)
            for name, value in made.items()
            if isinstance(value, dict) and any(isinstance(each, Tensor) for each in value.values())
        ),
    )


def _kind(made: Any) -> str:
    return made.name if isinstance(made, Described) else type(made).__name__


# Write weights as safetensors.


def write_safetensors(path: Path, to: Path) -> list[str]:
    """Write the tensors of a file of torch.save as safetensors, and return their names.

    Tensors that share numbers are each written in full. If the file cannot be read, one of the
    exceptions in DAMAGED is raised.

    Args:
        path: The file that torch.save wrote.
        to: The safetensors file to write.
    """
    with _opened(path) as (made, numbers), to.open("wb") as file:
        # The widest numbers come first, so that every tensor is aligned to its numbers' width.
        ordered = sorted(made.tensors.items(), key=lambda item: (-item[1].width, item[0]))
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, tensor in ordered:
            start, end = end, end + prod(tensor.shape) * tensor.width
            places = {"data_offsets": [start, end]}
            header[name] = {"dtype": tensor.kind, "shape": list(tensor.shape), **places}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            file.write(np.ascontiguousarray(numbers(tensor)).data)
        return [name for name, _ in ordered]
