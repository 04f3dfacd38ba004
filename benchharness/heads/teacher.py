"""Distillation: in addition to the labels, a teacher's outputs, states and attention are learned.

The outputs as in Hinton et al., arXiv:1503.02531, and DistilBERT's run_squad_w_distillation.py; the
states and the attention as in TinyBERT (Jiao et al., arXiv:1909.10351, section 3.1). The teacher
reads the batch that its student reads, and is no part of the student's network: it is neither
trained nor saved nor counted.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.encoder import CUT, FAMILIES, Encoder, layers_of
from benchharness.encoder.network import is_foreign
from benchharness.encoder.packing import PACKING, is_packed, padded
from benchharness.heads import Head
from benchharness.heads.tag import IGNORED
from benchharness.recipes.recipe import Recipe, StudentOptions
from benchharness.tasks.errors import ModelError

QUERY_AND_KEY: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("bert", "camembert", "electra", "ernie", "megatron-bert", "roberta", "xlm-roberta"),
        ("attention.self.query", "attention.self.key"),
    ),
    "distilbert": ("attention.q_lin", "attention.k_lin"),
}
"""Families whose attention scores are the products of what these layers of theirs give."""

TYPES = "token_type_ids"


@dataclass(kw_only=True)
class Teacher:
    """A trained network of the same task, in evaluation mode and on the student's device.

    `reads_types` says whether it is given token types, `student_reads_types` the same of its
    student. `rows` are the vocabulary's rows by the ids that its student reads, None where those
    are the vocabulary's own (training/optimizer.py).
    """

    network: Any
    options: StudentOptions
    reads_types: bool = True
    student_reads_types: bool = True
    rows: Tensor | None = None
    said: Tensor | None = field(default=None, repr=False)
    watched: "Watched | None" = None
    on_layers: bool = False

    @property
    def watches(self) -> bool:
        """Whether the student learns from the layers now."""
        in_turn = self.options.layer_epochs > 0
        return self.options.layer_weight > 0 and (self.on_layers or not in_turn)

    def turn_to(self, on_layers: bool) -> None:
        """Has the student learn from the layers alone, or from all else that the recipe names."""
        self.on_layers = on_layers

    def say(self, inputs: Mapping[str, Any]) -> Tensor:
        """Its logits for what its student is given."""
        # A copy: the student reads the same ones after it.
        told = dict(inputs)
        if self.rows is not None:
            told["input_ids"] = self.rows[told["input_ids"]]
        if not self.reads_types:
            told.pop(TYPES, None)
        if not is_packed(self.network):
            told.pop("packing", None)
        with torch.no_grad():
            logits: Tensor = self.network(**told)
        return logits

    def attach(self, student: Any) -> None:
        """Has a network give, in training, the teacher's logits and the layers' losses too.

        They stand before its own in the last dimension: (..., teacher's + layers' + own).
        """
        if self.options.layer_weight:
            self.watched = Watched.of(self, student)
        student.is_recordable = False  # what it learns changes from step to step
        student.register_forward_pre_hook(self._before, with_kwargs=True)
        student.register_forward_hook(self._after, with_kwargs=True)

    def _before(self, student: nn.Module, args: Any, inputs: dict[str, Any]) -> Any:
        if not student.training:
            return None
        with self._watching():
            self.said = self.say(inputs)
        if self.watched is not None and self.watches:
            self.watched.student.begin()
        if not self.student_reads_types:
            inputs = {name: value for name, value in inputs.items() if name != TYPES}
        return args, inputs

    def _after(self, student: nn.Module, _: Any, inputs: dict[str, Any], own: Tensor) -> Tensor:
        if not student.training:
            return own
        assert self.said is not None, "it was asked before the student"
        said, self.said = self.said, None
        if said.ndim == 1:  # the rows of a choice; its own are (rows, 2) with a second loss
            own, said = own.view(len(own), -1), said[:, None]  # (rows, 1 or 2), (rows, 1)
        if own.requires_grad:
            # A gradient that lies between others is summed in another order: other last bits.
            own.register_hook(torch.Tensor.contiguous)  # type: ignore[no-untyped-call]
        parts = [said.float(), own.float()]  # (..., outputs) each
        if self.watched is not None and self.watches:
            losses = self.watched.losses(inputs["attention_mask"])  # (rows,)
            shape = (-1, *[1] * (own.ndim - 1))
            parts.insert(1, losses.view(shape).expand(*own.shape[:-1], 1))
        return torch.cat(parts, dim=-1)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        if self.watched is None or not self.watches:
            yield
            return
        self.watched.teacher.begin()
        yield
        self.watched.teacher.end()


def with_teacher(head: Head, teacher: Teacher, recipe: Recipe, kind: str) -> Head:
    """The head of a type ("pair") with what its student learns from a teacher.

    The loss of an item is (1 - `teacher_weight`) times its own, `teacher_weight` times that towards
    the teacher's logits, and `layer_weight` times that of the layers, or in turn this alone.
    """
    soft_loss, options = head.soft_loss, teacher.options
    weight, temperature = options.teacher_weight or 0.0, options.temperature or 1.0
    if soft_loss is None:
        raise ModelError(
            "a model that gives losses in training, and no outputs, has nothing to learn from "
            "a teacher's: leave --teacher out."
        )
    # The column of the language model's loss, where the head has one (heads/head.py).
    language_model = int(recipe.pair is not None and recipe.pair.lm_weight > 0)

    def network(encoder: Encoder, task: Any) -> nn.Module:
        made = head.network(encoder, task)
        teacher.attach(made)
        return made

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        layers = int(teacher.watches)
        size = (logits.shape[-1] - layers - language_model) // 2  # outputs of either
        said, losses, own = torch.split(logits, [size, layers, size + language_model], dim=-1)
        mine = own[..., :size]  # without the language model's column
        if kind == "choice":  # (items, options, 1) -> (items, options)
            said, mine = said[..., 0], mine[..., 0]
            own = own if language_model else mine
        total = head.loss(own, targets)  # (items,)
        if weight:
            soft = soft_loss(mine, said, targets, temperature)
            total = (1 - weight) * total + weight * soft
        # One column: (items,), (items, options) or (items, tokens) of the layers' losses.
        if layers:
            found = _of_items(losses[..., 0])
            # A sentence's loss is the sum over its words, by whose number a batch's is divided.
            counts = (targets != IGNORED).sum(-1) if kind == "tag" else 1
            of_layers = options.layer_weight * counts * found
            total = of_layers if teacher.on_layers else total + of_layers
        return total

    return replace(head, network=network, loss=loss)


def _of_items(losses: Tensor) -> Tensor:
    """One loss an item (items,): that of its row, or the mean of its rows, -inf for none.

    Of (items,), of (items, options), or of (items, tokens), where all tokens of a row have its own.
    """
    if losses.ndim == 1:
        return losses
    is_row = ~losses.isneginf()  # (items, options), or (items, tokens)
    return losses.where(is_row, 0.0).sum(1) / is_row.sum(1)


# TinyBERT's losses of the layers.


@dataclass(kw_only=True)
class States:
    """What an encoder's layers read and gave while it was computed: padded states by layer.

    `hidden` are those below the first layer and above each, `scores` queries and keys.
    """

    hidden: list[list[Tensor]]
    queries: list[list[Tensor]]
    keys: list[list[Tensor]]
    heads: int
    is_on: bool = False

    @classmethod
    def of(cls, network: Any) -> "States":
        """The states of an encoder, kept from `begin` to `end`."""
        layers = layers_of(network).layers
        found = cls(
            hidden=[[] for _ in range(len(layers) + 1)],
            queries=[[] for _ in layers],
            keys=[[] for _ in layers],
            heads=network.config.num_attention_heads,
        )

        def keep(place: list[Tensor]) -> Any:
            def hook(_: nn.Module, _args: Any, output: Any) -> None:
                if found.is_on:
                    states = output if isinstance(output, Tensor) else output[0]
                    packing = PACKING.get()
                    place.append(states if packing is None else padded(states, packing))

            return hook

        def keep_first(module: nn.Module, args: tuple[Tensor, ...]) -> None:
            keep(found.hidden[0])(module, (), args[0])

        layers[0].register_forward_pre_hook(keep_first)
        for number, layer in enumerate(layers):
            layer.register_forward_hook(keep(found.hidden[number + 1]))
            for name, place in zip(
                QUERY_AND_KEY.get(network.config.model_type, ()),
                (found.queries[number], found.keys[number]),
                strict=False,
            ):
                layer.get_submodule(name).register_forward_hook(keep(place))
        return found

    def begin(self) -> None:
        """Keeps what is computed from here on."""
        for kept in (*self.hidden, *self.queries, *self.keys):
            kept.clear()
        self.is_on = True

    def end(self) -> None:
        """Keeps nothing more: what is computed again for gradients is the same."""
        self.is_on = False

    def attention(self, layer: int) -> Tensor:
        """The attention scores of a layer before the softmax, (rows, heads, tokens, tokens)."""
        query, key = (
            # (rows, tokens, heads * size) -> (rows, heads, tokens, size)
            states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)
            for states in (torch.cat(self.queries[layer]), torch.cat(self.keys[layer]))
        )
        scores: Tensor = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return scores.float()


@dataclass(kw_only=True)
class Watched:
    """The states of a student and of its teacher, and the layer between their sizes."""

    student: States
    teacher: States
    fit: nn.Module

    @classmethod
    def of(cls, teacher: Teacher, student: Any) -> "Watched":
        """Those of two networks; the fitting layer becomes a part of the student's.

        Raises ModelError for a family whose layers are not told apart.
        """
        networks: tuple[Any, Any] = (student.encoder, teacher.network.encoder)
        for each in networks:
            family = each.config.model_type
            if family not in FAMILIES | CUT or is_foreign(each):
                raise ModelError(
                    f"layer_weight is for {', '.join(sorted(FAMILIES | CUT))}, and one of student "
                    f"and teacher is {family}: leave layer_weight out."
                )
        sizes = [each.config.hidden_size for each in networks]
        student.reads_first_token = False  # the last layer's states are of all tokens
        if sizes[0] != sizes[1]:
            student.layer_fit = nn.Linear(*sizes)  # named, so that the optimizer finds its weights
        return cls(
            student=States.of(networks[0]),
            teacher=States.of(networks[1]),
            fit=getattr(student, "layer_fit", nn.Identity()),
        )

    def losses(self, mask: Tensor) -> Tensor:
        """Of each row (rows,) the sum over layers of mean squared differences, in fp32.

        A student's layer m of M learns from its teacher's m * N / M of N, and what is below the
        first one from the same; attention scores only where both have as many heads of such.
        """
        self.student.end()
        mine, theirs = self.student, self.teacher
        depth, above = len(mine.hidden) - 1, len(theirs.hidden) - 1
        # By the student's layers the teacher's; what is below the first one is 0 for both.
        steps = [round(number * above / depth) for number in range(depth + 1)]
        is_token = mask.float()  # (rows, tokens)
        count = is_token.sum(1)  # (rows,)
        total = torch.zeros_like(count)  # (rows,)
        for number, step in enumerate(steps):
            apart = (  # (rows, tokens, size)
                self.fit(torch.cat(mine.hidden[number])).float() - theirs.hidden[step][0].float()
            )
            total = total + (apart.square().mean(-1) * is_token).sum(1) / count
        if mine.heads != theirs.heads or not (mine.queries[0] and theirs.queries[0]):
            return total
        is_pair = is_token[:, :, None] * is_token[:, None]  # (rows, tokens, tokens)
        for number, step in enumerate(steps[1:]):
            # (rows, heads, tokens, tokens) -> (rows, tokens, tokens)
            apart = (mine.attention(number) - theirs.attention(step - 1)).square().mean(1)
            total = total + (apart * is_pair).sum((1, 2)) / count.square()
        return total
