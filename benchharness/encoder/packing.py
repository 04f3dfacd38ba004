"""Packed batches, which an encoder computes as a single row that holds only real tokens.

Only attention knows where a sequence begins and ends. The encoder still takes a padded batch and
returns padded hidden states, so heads see no difference; its layers compute no padding.

    padded batch, (3, 5)        packed row, (1, 10), as every layer but attention sees it

    row 0  a b c . .            a b c D E F G H k l
    row 1  D E F G H            ^     ^         ^
    row 2  k l . . .            firsts = 0, 3, 8     position ids 0 1 2 0 1 2 3 4 0 1

The host knows the lengths, so it computes everything that follows from them: a few index tensors
are sent to the device with the batch, and nothing is read back from the device.

Each type of device has its own attention function (cpu.py, cuda.py), which receives the offsets of
the sequences.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from benchharness.encoder.network import is_foreign
from benchharness.errors import ModelError

T = TypeVar("T")

PACKABLE = frozenset(
    {
        "albert",
        "bert",
        "camembert",
        "distilbert",
        "electra",
        "ernie",
        "eurobert",
        "modernbert",
        "roberta",
        "xlm-roberta",
    }
)
"""Families (transformers' model_type) that can compute packed rows from the embeddings to the last
layer. They accept position ids, and their tokens interact only in attention that goes through
transformers' attention interface."""


LAYERS: Mapping[str, frozenset[str]] = {
    "big_bird": frozenset({"BigBirdSelfAttention"}),
    "deberta": frozenset({"DisentangledSelfAttention"}),
    "deberta-v2": frozenset({"DisentangledSelfAttention", "ConvLayer"}),
    "gpt2": frozenset(),
    "megatron-bert": frozenset({"MegatronBertSelfAttention"}),
    "mobilebert": frozenset(),
    "mpnet": frozenset({"MPNetSelfAttention"}),
    "mt5": frozenset({"MT5Attention"}),
    "openai-gpt": frozenset({"Attention"}),
    "t5": frozenset({"T5Attention"}),
    "umt5": frozenset({"UMT5Attention"}),
}
"""Families in which only the layers compute packed rows (layers.py), mapped to the names of module
classes that need padded states. The set is empty if attention works as in the families of PACKABLE.

Other families compute padded rows: ConvBERT, because its convolutions read the states at padding;
Funnel, because it halves the number of states from block to block; Longformer, because it pads rows
to its window and reads its mask back from the device; XLNet, because only its feed-forward part
would gain (3 % on a CPU); and networks whose code comes with the checkpoint.
"""


OF_PACKING = ("places", "positions", "offsets")


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The layout of one packed row, made from a padded batch `[rows, width]`.

    Each row of the batch becomes a sequence of the packed row, without its padding.

    Attributes:
        lengths: Number of tokens of each row without padding, in CPU memory: `[rows]`.
        width: Number of tokens of a row with padding.
        tail: Number of padding tokens at the end of the packed row, at most `width`. With them,
            packed rows of different lengths can have the same shape. They form an additional
            sequence, which stands for an additional row of the padded batch.
        places: Index of each packed token in the flattened padded batch, on the device: `[tokens]`.
        positions: Index of each packed token in its sequence, on the device: `[tokens]`.
        offsets: Index of the first token of each sequence in the packed row, then the number of
            tokens, on the device: `[sequences + 1]`.
        kept: Cache of values that attention computes once per packing for all layers (see `once`).
    """

    lengths: NDArray[np.int64]
    width: int
    tail: int = 0
    places: Tensor
    positions: Tensor
    offsets: Tensor
    kept: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, mask: Tensor) -> "Packing":
        """Return the packing for an attention mask `[rows, tokens]` with all padding at the end.

        The CPU waits until the mask has been copied from its device. Training and prediction avoid
        this: they know the lengths and call `of_lengths`.
        """
        return cls.of_lengths(mask.sum(1).cpu().numpy(), mask.shape[1], mask.device)

    @classmethod
    def of_lengths(
        cls, lengths: NDArray[np.int64], width: int, device: torch.device, tail: int = 0
    ) -> "Packing":
        """Return the packing of a padded batch, given the lengths of its rows.

        Args:
            lengths: Number of tokens of each row without padding: `[rows]`.
            width: Number of tokens of a row with padding.
            device: Device of the packing's tensors.
            tail: Number of padding tokens at the end of the packed row.
        """
        tensors = send(cls.indices(lengths, width, tail), device)
        indices: Any = dict(zip(OF_PACKING, tensors, strict=True))
        return cls(lengths=lengths, width=width, tail=tail, **indices)

    @staticmethod
    def indices(lengths: NDArray[np.int64], width: int, tail: int = 0) -> list[NDArray[np.int64]]:
        """Return the fields `places`, `positions` and `offsets` of a packing, in CPU memory.

        The arguments are the same as for `of_lengths`.
        """
        sizes = np.append(lengths, tail) if tail else lengths  # (sequences,)
        offsets = np.concatenate([[0], np.cumsum(sizes)])  # (sequences + 1,)
        sequences = np.repeat(np.arange(len(sizes)), sizes)  # (tokens,)
        positions = np.arange(offsets[-1]) - offsets[sequences]  # (tokens,)
        return [sequences * width + positions, positions, offsets]

    def __getitem__(self, rows: slice) -> "Packing":
        """Return the packing of some rows of the batch, without padding at its end (`tail`)."""
        return Packing.of_lengths(self.lengths[rows], self.width, self.places.device)

    @property
    def rows(self) -> int:
        """Number of rows in the padded batch."""
        return len(self.lengths)

    @property
    def sequences(self) -> int:
        """Number of rows, plus one if the packed row ends with padding (`tail`)."""
        return self.rows + (self.tail > 0)

    @property
    def tokens(self) -> int:
        """Number of tokens in the packed row, including padding at its end (`tail`)."""
        return len(self.places)

    @property
    def firsts(self) -> Tensor:
        """Index of each row's first token in the packed row, `[rows]`."""
        return self.offsets[: self.rows]

    def once(self, name: Any, make: Callable[[], T]) -> T:
        """Return the cached value of this name; if there is none yet, call `make` and cache it."""
        if name not in self.kept:
            self.kept[name] = make()
        found: T = self.kept[name]
        return found

    def pack(self, values: Tensor) -> Tensor:
        """Pack a padded batch of values `[rows, width, ...]` into one row `[1, tokens, ...]`.

        The row contains the values of the batch without its padding, followed by `tail` zeros.
        """
        if self.tail:
            values = functional.pad(values, (*[0] * (2 * values.ndim - 1), 1))
        return values.flatten(0, 1).index_select(0, self.places)[None]

    def table(self, states: Tensor) -> Tensor:
        """Pad packed states `[tokens, ...]` to `[sequences, width, ...]`, with zeros at padding."""
        shape = (self.sequences * self.width, *states.shape[1:])
        filled = states.new_zeros(shape).index_copy(0, self.places, states)
        return filled.view(self.sequences, self.width, *states.shape[1:])


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Parameters of attention within each sequence of a packed row.

    The attention is softmax(query key^T * scale) value. The functions that compute it are in cpu.py
    and cuda.py.

    Attributes:
        packing: Layout of the packed row.
        scale: Factor by which the products of queries and keys are multiplied.
        rate: Dropout rate of the attention probabilities.
        window: A token attends only to tokens less than `window` positions away, on either side;
            None for no such limit.
        is_causal: If true, a token attends only to itself and to earlier tokens.
    """

    packing: Packing
    scale: float
    rate: float = 0.0
    window: int | None = None
    is_causal: bool = False


NARROWED = "is_at_first_token"
"""Name of the attribute that marks an attention module whose outputs are used only at first tokens
(see use_first_token in __init__.py)."""


def send(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Copy arrays to a device without waiting for the device, and return them as tensors.

    For a GPU, all arrays are sent in one copy from pinned memory, which is queued behind the GPU's
    earlier work. torch keeps the pinned memory until the copy is done.
    """
    if device.type != "cuda":
        return [torch.from_numpy(array).to(device) for array in arrays]
    pinned = torch.empty(sum(map(np.size, arrays)), dtype=torch.int64, pin_memory=True)
    np.concatenate([array.ravel() for array in arrays], out=pinned.numpy())
    return parts_of(pinned.to(device, non_blocking=True), [array.shape for array in arrays])


def parts_of(buffer: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Split a one-dimensional buffer into consecutive views, one per shape."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = torch.split(buffer, sizes)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


PACKING: ContextVar[Packing | None] = ContextVar("PACKING", default=None)
"""Packing of the batch that an encoder is currently computing; None if no encoder is computing.

Attention, and the last layer if it computes first tokens only, read the packing here, because no
family of transformers passes additional arguments through its layers.
"""

# Hooks that make an encoder of transformers compute packed rows.
#
# In transformers, a registered function can replace a model's attention. benchharness's function
# needs no mask.


def prepare_for(device: torch.device, network: Any) -> None:
    """Make the network of a head use the fastest implementation for a device.

    The encoder, `network.encoder`, then computes packed rows if its family supports them. On a CPU,
    the network uses FastDropout. The results change only by rounding and by the random numbers of
    dropout. This function must be called after the head was attached to its encoder.
    """
    use_packed_rows(network.encoder, device.type)
    if device.type == "cpu":
        _kernels("cpu").use_fast_dropout(network)


def use_packed_rows(network: nn.Module, device: str) -> None:
    """Make an encoder of transformers compute packed rows, if its family supports it.

    A packed row contains the tokens of several rows, without padding. In most families, the
    attention function must be replaced for this. If an encoder of such a family uses another
    function than "sdpa", the default of transformers, the encoder is left unchanged. An encoder
    whose code comes with the checkpoint is left unchanged, too.

    Args:
        network: Encoder to change.
        device: Type of the device, "cpu" or "cuda".
    """
    config: Any = network.config
    family = config.model_type
    if family not in PACKABLE | LAYERS.keys() or is_foreign(network):
        return
    if not LAYERS.get(family):
        # If another attention was chosen explicitly, such as "eager", it is kept.
        if config._attn_implementation != "sdpa":
            return
        name = f"benchharness_{device}"  # the name under which transformers finds it
        AttentionInterface.register(name, _attention_by(_kernels(device)))
        AttentionMaskInterface.register(name, _no_mask)
        network.set_attn_implementation(name)  # type: ignore[operator]
    if family in PACKABLE:
        use_packing(network)
    else:  # the module is imported only for these families
        import_module("benchharness.encoder.layers").use_packed_layers(network, LAYERS[family])


def _kernels(device: str) -> ModuleType:
    """Return the module with `attend` and `attend_first` for a type of device."""
    return import_module(f"benchharness.encoder.{device}")  # do not import other devices' modules


def _no_mask(*_args: Any, **_options: Any) -> None:
    """Return None instead of a mask: the packing determines which tokens attend to which."""


def _attention_by(kernels: ModuleType) -> Callable[..., tuple[Tensor, None]]:
    """Return an attention function with transformers' signature.

    The function maps states `[1, heads, tokens, size]` to `[1, tokens, heads, size]`.
    """

    def attention(  # noqa: PLR0913, PLR0917  (transformers' signature of an attention function)
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,  # noqa: ARG001
        dropout: float = 0.0,
        scaling: float | None = None,
        sliding_window: int | None = None,
        **_options: Any,
    ) -> tuple[Tensor, None]:
        packing = PACKING.get()
        assert packing is not None
        scale = 1.0 / math.sqrt(query.shape[-1]) if scaling is None else scaling
        # (1, heads, tokens, size) -> (tokens, heads, size)
        query, key, value = (t.squeeze(0).transpose(0, 1) for t in (query, key, value))
        # Under autocast, EuroBERT's rotary embedding returns fp32. torch's own attention would cast
        # it back.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if key.shape[1] < query.shape[1]:  # EuroBERT: grouped-query attention
            shares = query.shape[1] // key.shape[1]  # query heads per key head
            key, value = (tensor.repeat_interleave(shares, dim=1) for tensor in (key, value))
        formula = Attention(
            packing=packing,
            scale=scale,
            rate=dropout,
            window=sliding_window,
            is_causal=getattr(module, "is_causal", False),
        )
        attend = kernels.attend_first if getattr(module, NARROWED, False) else kernels.attend
        return attend(query, key, value, formula)[None], None

    return attention


PER_TOKEN = ("input_ids", "token_type_ids")
"""Names of an encoder's inputs that are packed. The packing replaces the attention mask and
determines the position ids. All other inputs are passed unchanged."""


def use_packing(network: Any) -> None:
    """Add hooks to an encoder of transformers that pack its inputs and pad its output states.

    The hooks also set PACKING, which the encoder's attention must read. In the families that LAYERS
    lists, the hooks do nothing else, because the layers pack and pad their states themselves.
    """
    first, is_layers_alone = first_position(network), network.config.model_type in LAYERS

    def pack(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
        packing = inputs.pop("packing", None) or Packing.of(inputs["attention_mask"])
        PACKING.set(packing)  # read by the attention and by the last layer
        if is_layers_alone:
            return args, inputs
        del inputs["attention_mask"]
        # (rows, width) -> (1, tokens). Inputs may be None: a model with its pretrained head passes
        # all inputs of its encoder by name.
        given = [name for name in PER_TOKEN if inputs.get(name) is not None]
        packed = {name: packing.pack(inputs.pop(name)) for name in given}
        return args, {**packed, **inputs, "position_ids": packing.positions[None] + first}

    def unpack(_: nn.Module, _args: Any, _inputs: Any, output: Any) -> Any:
        packing = PACKING.get()
        PACKING.set(None)
        if packing is None or output is None:  # the encoder has raised an exception
            return output
        for name in ("last_hidden_state", "hidden_states"):
            states = getattr(output, name, None)
            if isinstance(states, Tensor):
                output[name] = padded(states, packing)
            elif states is not None:
                output[name] = tuple(padded(layer, packing) for layer in states)
        return output

    network.register_forward_pre_hook(pack, with_kwargs=True)
    # always_call: if the encoder raises, PACKING must not stay set for the next batch.
    network.register_forward_hook(unpack, with_kwargs=True, always_call=True)
    network.is_packed = True  # is_packed() looks for this attribute


def is_packed(network: nn.Module) -> bool:
    """Return whether a network contains an encoder that computes packed rows."""
    return any(getattr(module, "is_packed", False) for module in network.modules())


def first_position(network: nn.Module) -> int:
    """Return the position id that the first token of a text has in this network.

    It is 0, except in families such as RoBERTa, which number positions from the id after the
    padding id.
    """
    return max(
        (
            module.padding_idx + 1
            for name, module in network.named_modules()
            if name.endswith("position_embeddings")
            and isinstance(module, nn.Embedding)
            and module.padding_idx is not None
        ),
        default=0,
    )


def padded(states: Tensor, packing: Packing) -> Tensor:
    """Convert packed states `[1, tokens, size]` to padded states `[rows, width, size]`.

    If only the first token of each row has a state, `[1, rows, size]` becomes `[rows, 1, size]`.
    States of any other shape are returned unchanged, because they are padded already.
    """
    if states.shape[:2] == (1, packing.tokens):
        return packing.table(states.squeeze(0))[: packing.rows]
    # If each row has one token, both cases apply and give the same result.
    return states.transpose(0, 1) if states.shape[:2] == (1, packing.rows) else states


# Activation checkpointing with packed rows: the backward pass recomputes the layers.


def can_checkpoint(network: nn.Module) -> bool:
    """Return whether a network has trained layers that support activation checkpointing."""
    return any(True for _ in _encoders(network))


def checkpoint_activations(network: nn.Module) -> None:
    """Make a network's layers recompute their activations in the backward pass to save memory.

    Raises ModelError if the network has no trained layers that support it.
    """
    encoders = list(_encoders(network))
    if not encoders:
        raise ModelError(
            "activation_checkpointing is on, but this encoder has no layers that transformers can "
            "recompute: omit activation_checkpointing, or pass a larger --set accumulation=N."
        )
    options = {"use_reentrant": False, "context_fn": _contexts}
    for encoder in encoders:
        # The second name is for transformers before 5.23, and will be removed in version 6.
        name = "activation_checkpointing_enable"
        name = name if hasattr(encoder, name) else "gradient_checkpointing_enable"
        getattr(encoder, name)(options)


def _encoders(network: nn.Module) -> Iterator[Any]:
    """Yield the trained transformers models in a network that support activation checkpointing.

    A checkpoint's own code is left out, because it may lose gradients.
    """
    for module in network.modules():
        known = isinstance(module, PreTrainedModel) and module.supports_gradient_checkpointing
        can_be = any(hasattr(part, "gradient_checkpointing") for part in module.modules())
        learns = any(weight.requires_grad for weight in module.parameters())
        if known and can_be and learns and not is_foreign(module):
            yield module


def _contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a layer's forward pass and of its recomputation."""
    return nullcontext(), _in_packing(PACKING.get())


@contextmanager
def _in_packing(packing: Packing | None) -> Iterator[None]:
    # When the backward pass runs, the encoder has reset PACKING. On a GPU, the backward pass also
    # runs in another thread, in which PACKING was never set.
    before = PACKING.set(packing)
    try:
        yield
    finally:
        PACKING.reset(before)
