"""Packed batches: an encoder computes one row of real tokens.

Only attention knows where a sequence begins and ends. A padded batch goes into the encoder and
padded hidden states come out, so heads see no difference; what lies between computes no padding.

    padded batch, (3, 5)        packed row, (1, 10), as every layer but attention sees it

    row 0  a b c . .            a b c D E F G H k l
    row 1  D E F G H            ^     ^         ^
    row 2  k l . . .            firsts = 0, 3, 8     position ids 0 1 2 0 1 2 3 4 0 1

What is known of a packing without looking at a tensor is known on the host, where lengths are: its
few tensors of indices go to the device with the batch, and nothing is read back from there.

Each device has attention of its own (cpu.py, cuda.py), which is given where sequences begin.
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
from benchharness.tasks.errors import ModelError

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
"""Families (transformers' model_type) whose tokens meet only in attention that goes through
transformers' attention interface, and that take position ids."""


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
"""Families whose layers alone are packed (layers.py), with the classes that read padded states; or
none, where attention is as PACKABLE's.

Padded stay ConvBERT, whose convolutions read the states at padding; Funnel, which halves rows from
block to block; Longformer, which pads them to its window and asks the device about its mask; XLNet,
of which only the feed-forward part would gain (3 % on a CPU); and checkpoints' own code."""


OF_PACKING = ("places", "positions", "offsets")


@dataclass(frozen=True, kw_only=True)
class Packing:
    """The sequences of one packed row, of a padded batch (rows, width).

    `lengths` are the rows' on the host. The tensors are on the device: `places` where each packed
    token stands in the padded batch, row by row; `positions` which of its sequence's it is; and
    `offsets` (sequences + 1,) where the sequences begin and the last one ends.

    `tail` tokens of padding, not more than `width`, may follow as a sequence of their own, so that
    packed rows of many lengths have one shape. Their places are those of one more row of the batch.

    `kept` is what attention makes of it once for all layers.
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
        """The packing of a padded batch's attention mask (rows, tokens), padding at the end.

        Waits for the mask's device: what trains and predicts gives lengths, which it knows.
        """
        return cls.of_lengths(mask.sum(1).cpu().numpy(), mask.shape[1], mask.device)

    @classmethod
    def of_lengths(
        cls, lengths: NDArray[np.int64], width: int, device: torch.device, tail: int = 0
    ) -> "Packing":
        """The packing of rows of these lengths, each padded to the width."""
        tensors = send(cls.indices(lengths, width, tail), device)
        indices: Any = dict(zip(OF_PACKING, tensors, strict=True))
        return cls(lengths=lengths, width=width, tail=tail, **indices)

    @staticmethod
    def indices(lengths: NDArray[np.int64], width: int, tail: int = 0) -> list[NDArray[np.int64]]:
        """The arrays of a packing's tensors, to be sent to the device with others."""
        sizes = np.append(lengths, tail) if tail else lengths  # (sequences,)
        offsets = np.concatenate([[0], np.cumsum(sizes)])  # (sequences + 1,)
        sequences = np.repeat(np.arange(len(sizes)), sizes)  # (tokens,)
        positions = np.arange(offsets[-1]) - offsets[sequences]  # (tokens,)
        return [sequences * width + positions, positions, offsets]

    def __getitem__(self, rows: slice) -> "Packing":
        """The packing of some of the rows, as the slice of any other input is theirs."""
        return Packing.of_lengths(self.lengths[rows], self.width, self.places.device)

    @property
    def rows(self) -> int:
        """Rows of the padded batch."""
        return len(self.lengths)

    @property
    def sequences(self) -> int:
        """The rows, and one more for the tail."""
        return self.rows + (self.tail > 0)

    @property
    def tokens(self) -> int:
        """Tokens of the packed row."""
        return len(self.places)

    @property
    def firsts(self) -> Tensor:
        """Where the rows begin in the packed row, (rows,)."""
        return self.offsets[: self.rows]

    def once(self, name: Any, make: Callable[[], T]) -> T:
        """What `make` gives, made once under that name."""
        if name not in self.kept:
            self.kept[name] = make()
        found: T = self.kept[name]
        return found

    def pack(self, values: Tensor) -> Tensor:
        """The padded batch's values (rows, width, ...) as (1, tokens, ...); zero in the tail."""
        if self.tail:
            values = functional.pad(values, (*[0] * (2 * values.ndim - 1), 1))
        return values.flatten(0, 1).index_select(0, self.places)[None]

    def table(self, states: Tensor) -> Tensor:
        """Packed states (tokens, ...) as (sequences, width, ...), zero at padding."""
        shape = (self.sequences * self.width, *states.shape[1:])
        filled = states.new_zeros(shape).index_copy(0, self.places, states)
        return filled.view(self.sequences, self.width, *states.shape[1:])


@dataclass(frozen=True, kw_only=True)
class Attention:
    """softmax(query key^T * scale) with dropout, times value, within each sequence of a packed row.

    `rate` is the dropout of the attention probabilities. With a `window` tokens see those that are
    fewer places away; where it `is_causal`, themselves and those before. What computes it (cpu.py,
    cuda.py) takes query, key and value (tokens, heads, size), and gives as much.
    """

    packing: Packing
    scale: float
    rate: float = 0.0
    window: int | None = None
    is_causal: bool = False


NARROWED = "is_at_first_token"
"""The attribute of an attention whose other outputs than first tokens' are unused (__init__.py)."""


def send(arrays: Sequence[NDArray[np.int64]], device: torch.device) -> list[Tensor]:
    """Arrays as tensors on a device, for which the host does not wait.

    To a GPU they go as one copy from pinned memory, which is queued behind what the GPU has to do
    before; torch keeps that memory until the copy is made.
    """
    if device.type != "cuda":
        return [torch.from_numpy(array).to(device) for array in arrays]
    pinned = torch.empty(sum(map(np.size, arrays)), dtype=torch.int64, pin_memory=True)
    np.concatenate([array.ravel() for array in arrays], out=pinned.numpy())
    return parts_of(pinned.to(device, non_blocking=True), [array.shape for array in arrays])


def parts_of(buffer: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The tensors of these shapes that stand end to end in a buffer, as views of it."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = torch.split(buffer, sizes)
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


PACKING: ContextVar[Packing | None] = ContextVar("PACKING", default=None)
"""The packing of what an encoder computes at this moment.

Attention and the last layer's narrowing look here, because no family passes a value of ours through
its layers.
"""

# How an encoder of transformers comes to compute packed rows.
#
# transformers lets a model's attention be replaced by a registered function. Ours needs no mask.


def prepare_for(device: torch.device, network: Any) -> None:
    """Has a head's network computed as quickly as the device allows; its results stay the same.

    To be called when the head is on the encoder, which is `network.encoder`.
    """
    use_packed_rows(network.encoder, device.type)
    if device.type == "cpu":
        _kernels("cpu").use_fast_dropout(network)


def use_packed_rows(network: nn.Module, device: str) -> None:
    """Has an encoder of transformers compute packed rows, where its family allows that."""
    config: Any = network.config
    family = config.model_type
    if family not in PACKABLE | LAYERS.keys() or is_foreign(network):
        return
    if not LAYERS.get(family):
        # Whoever chose another one, such as eager, is to have it.
        if config._attn_implementation != "sdpa":
            return
        name = f"benchharness_{device}"  # what transformers calls this attention implementation
        AttentionInterface.register(name, _attention_by(_kernels(device)))
        AttentionMaskInterface.register(name, _no_mask)
        network.set_attn_implementation(name)  # type: ignore[operator]
    if family in PACKABLE:
        use_packing(network)
    else:  # no other family's run loads it
        import_module("benchharness.encoder.layers").use_packed_layers(network, LAYERS[family])


def _kernels(device: str) -> ModuleType:
    """What computes attention on that type of device: a module with `attend`, `attend_first`."""
    return import_module(f"benchharness.encoder.{device}")  # no other device's is loaded


def _no_mask(*_args: Any, **_options: Any) -> None:
    """The packing says what attends to what."""


def _attention_by(kernels: ModuleType) -> Callable[..., tuple[Tensor, None]]:
    """Attention by transformers' signature: states (1, heads, tokens, size) -> (1, tokens, ...)."""

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
        # EuroBERT's rotation under autocast leaves fp32, which torch's own attention casts back.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if key.shape[1] < query.shape[1]:  # EuroBERT: several heads of queries share one of keys
            shares = query.shape[1] // key.shape[1]  # heads of queries for one of keys
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
"""What is packed of an encoder's inputs; the mask becomes the packing, the rest stays."""


def use_packing(network: Any) -> None:
    """Has an encoder of transformers compute packed rows, whose attention reads PACKING."""
    first, is_layers_alone = first_position(network), network.config.model_type in LAYERS

    def pack(_: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
        packing = inputs.pop("packing", None) or Packing.of(inputs["attention_mask"])
        PACKING.set(packing)  # for attention, and for the last layer
        if is_layers_alone:
            return args, inputs
        del inputs["attention_mask"]
        # (rows, width) -> (1, tokens)
        # A network with its pretrained head names all of its encoder's inputs, some as None.
        given = [name for name in PER_TOKEN if inputs.get(name) is not None]
        packed = {name: packing.pack(inputs.pop(name)) for name in given}
        return args, {**packed, **inputs, "position_ids": packing.positions[None] + first}

    def unpack(_: nn.Module, _args: Any, _inputs: Any, output: Any) -> Any:
        packing = PACKING.get()
        PACKING.set(None)
        if packing is None or output is None:  # the encoder raised
            return output
        for name in ("last_hidden_state", "hidden_states"):
            states = getattr(output, name, None)
            if isinstance(states, Tensor):
                output[name] = padded(states, packing)
            elif states is not None:
                output[name] = tuple(padded(layer, packing) for layer in states)
        return output

    network.register_forward_pre_hook(pack, with_kwargs=True)
    # always_call: where the encoder raises, PACKING is not to stay for what is computed next.
    network.register_forward_hook(unpack, with_kwargs=True, always_call=True)
    network.is_packed = True  # is_packed() looks for it, through any head


def is_packed(network: nn.Module) -> bool:
    """True for a network with an encoder that computes packed rows."""
    return any(getattr(module, "is_packed", False) for module in network.modules())


def first_position(network: nn.Module) -> int:
    """The position of a first token: RoBERTa and its kin count from behind the padding index."""
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
    """Packed states (1, tokens, size) as (rows, width, size); padded ones as they are.

    States of first tokens alone, (1, rows, size), become (rows, 1, size).
    """
    if states.shape[:2] == (1, packing.tokens):
        return packing.table(states.squeeze(0))[: packing.rows]
    # With one token a row, both ways give the same.
    return states.transpose(0, 1) if states.shape[:2] == (1, packing.rows) else states


# Layers that are computed again in the backward pass, packed rows too.


def can_checkpoint(network: nn.Module) -> bool:
    """Whether layers in a network that are trained can be computed again."""
    return any(True for _ in _encoders(network))


def checkpoint_activations(network: nn.Module) -> None:
    """Has the layers in a network computed again in each backward pass, while it trains.

    Raises ModelError where its family has no layers that can be.
    """
    encoders = list(_encoders(network))
    if not encoders:
        raise ModelError(
            "activation_checkpointing is on, and this encoder has no layers that transformers can "
            "compute again: leave it out, or --set accumulation to more."
        )
    options = {"use_reentrant": False, "context_fn": _contexts}
    for encoder in encoders:
        # The second is its name in transformers before 5.23, and goes with 6.
        name = "activation_checkpointing_enable"
        name = name if hasattr(encoder, name) else "gradient_checkpointing_enable"
        getattr(encoder, name)(options)


def _encoders(network: nn.Module) -> Iterator[Any]:
    """Those of transformers in a network: a checkpoint's own code may lose gradients."""
    for module in network.modules():
        known = isinstance(module, PreTrainedModel) and module.supports_gradient_checkpointing
        can_be = any(hasattr(part, "gradient_checkpointing") for part in module.modules())
        learns = any(weight.requires_grad for weight in module.parameters())
        if known and can_be and learns and not is_foreign(module):
            yield module


def _contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """What surrounds a layer in the forward pass, and where it is computed again."""
    return nullcontext(), _in_packing(PACKING.get())


@contextmanager
def _in_packing(packing: Packing | None) -> Iterator[None]:
    # The encoder's own is over by then; a GPU's backward pass has a thread without any.
    before = PACKING.set(packing)
    try:
        yield
    finally:
        PACKING.reset(before)
