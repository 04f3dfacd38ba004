"""Distillation: a student also learns from a teacher's logits, hidden states and attention.

Logits are distilled as in Hinton et al., arXiv:1503.02531, and DistilBERT's
run_squad_w_distillation.py; states and attention as in TinyBERT (Jiao et al., arXiv:1909.10351,
section 3.1). The teacher reads the same batch as its student. It is not part of the student's
network, so its weights are neither trained nor saved, and they do not count as parameters.
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
from benchharness.errors import ModelError
from benchharness.extensions.distillation.hyperparameters import StudentOptions
from benchharness.heads import Head
from benchharness.heads.tag import IGNORED
from benchharness.recipes.recipe import Recipe

QUERY_AND_KEY: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("bert", "camembert", "electra", "ernie", "megatron-bert", "roberta", "xlm-roberta"),
        ("attention.self.query", "attention.self.key"),
    ),
    "distilbert": ("attention.q_lin", "attention.k_lin"),
}
"""Names of the query and key layers in a layer of the encoder, keyed by family. In these families,
attention scores are scaled products of queries and keys."""

TYPES = "token_type_ids"


@dataclass(kw_only=True)
class Teacher:
    """Teacher of a distillation: a network that was trained on the student's task.

    The network is in evaluation mode and on the student's device.

    Attributes:
        network: The teacher's network.
        options: The recipe's options for distillation.
        reads_types: Whether the teacher gets token types.
        student_reads_types: Whether the student gets token types.
        rows: Token id in the full vocabulary for each token id of the student, if the student's
            vocabulary was cut to the tokens that occur in the job's texts (see
            training/optimizer.py); else None.
        said: The teacher's logits for the current batch, from the moment when the teacher has
            computed them until they are added to the student's output; else None.
        watched: Recorded layer states of both networks; None if the student does not learn from
            the teacher's layers.
        on_layers: Whether the student currently learns only from the teacher's layers.
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
        """True if the loss of the current step includes differences from the teacher's layers.

        With `layer_epochs`, this is the case only in the first stage of the training.
        """
        in_turn = self.options.layer_epochs > 0
        return self.options.layer_weight > 0 and (self.on_layers or not in_turn)

    def turn_to(self, on_layers: bool) -> None:
        """Set whether the student currently learns only from the teacher's layers."""
        self.on_layers = on_layers

    def say(self, inputs: Mapping[str, Any]) -> Tensor:
        """Compute the teacher's logits for the student's batch, given the student's `inputs`."""
        # Change a copy, because the student reads the original inputs afterwards.
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
        """Add hooks to a student's network that add the teacher's logits to its output in training.

        The last axis then contains the teacher's logits, followed by one column with the loss of
        the layers (only while `watches` is true), followed by the student's own logits. Raises
        ModelError if the student learns from the teacher's layers, but the family of the student or
        of the teacher does not support this.
        """
        if self.options.layer_weight:
            self.watched = Watched.of(self, student)
        student.is_recordable = (
            False  # CUDA graphs would repeat one loss, but it may change between steps
        )
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
        assert self.said is not None, "the teacher reads the batch before the student"
        said, self.said = self.said, None
        if said.ndim == 1:  # multiple choice; with a language model's loss, `own` is (rows, 2)
            own, said = own.view(len(own), -1), said[:, None]  # (rows, 1 or 2), (rows, 1)
        if own.requires_grad:
            # A non-contiguous gradient would be summed in another order: its last bits may differ.
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
    """Return a head whose student also learns from a teacher.

    The loss of an item is `1 - teacher_weight` times the loss of `head`, plus `teacher_weight`
    times the loss between the student's and the teacher's logits, plus `layer_weight` times the
    loss of the layers (see `Watched.losses`; for a tagged sentence, it is multiplied by the number
    of words). With `layer_epochs`, the training has two stages: the first stage uses only the loss
    of the layers, and the second stage does not use this loss.

    Args:
        head: Head of the task.
        teacher: Trained teacher of the same task.
        recipe: Recipe of the student.
        kind: Head type, such as "pair".

    Raises:
        ModelError: The head's network returns losses instead of logits in training.
    """
    soft_loss, options = head.soft_loss, teacher.options
    weight, temperature = options.teacher_weight or 0.0, options.temperature or 1.0
    if soft_loss is None:
        raise ModelError(
            "a model that returns losses instead of logits in training cannot learn from a "
            "teacher: remove --teacher."
        )
    # Number of columns of the logits with the language modeling loss (heads/__init__.py): 0 or 1.
    language_model = int(recipe.pair is not None and recipe.pair.lm_weight > 0)

    def network(encoder: Encoder, task: Any) -> nn.Module:
        made = head.network(encoder, task)
        teacher.attach(made)
        return made

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        layers = int(teacher.watches)
        size = (logits.shape[-1] - layers - language_model) // 2  # outputs of each network
        said, losses, own = torch.split(logits, [size, layers, size + language_model], dim=-1)
        mine = own[..., :size]  # without the language model's column
        if kind == "choice":  # (items, options, 1) -> (items, options)
            said, mine = said[..., 0], mine[..., 0]
            own = own if language_model else mine
        total = head.loss(own, targets)  # (items,)
        if weight:
            soft = soft_loss(mine, said, targets, temperature)
            total = (1 - weight) * total + weight * soft
        # The layers' losses are one column: (items,), (items, options) or (items, tokens).
        if layers:
            found = _of_items(losses[..., 0])
            # The loss of a sentence is a sum over its words, so the layers' loss of the sentence is
            # multiplied by the number of words.
            counts = (targets != IGNORED).sum(-1) if kind == "tag" else 1
            of_layers = options.layer_weight * counts * found
            total = of_layers if teacher.on_layers else total + of_layers
        return total

    return replace(head, network=network, loss=loss)


def _of_items(losses: Tensor) -> Tensor:
    """Return one loss per item, `[items]`: the mean over its rows; -inf marks a missing row.

    `losses` are `[items]`, `[items, options]`, or `[items, tokens]` with the row's loss repeated
    for every token.
    """
    if losses.ndim == 1:
        return losses
    is_row = ~losses.isneginf()  # (items, options), or (items, tokens)
    return losses.where(is_row, 0.0).sum(1) / is_row.sum(1)


# TinyBERT's losses of the layers.


@dataclass(kw_only=True)
class States:
    """Inputs and outputs of an encoder's layers, recorded during a forward pass as padded states.

    The inner lists of `hidden`, `queries` and `keys` contain states `[rows, tokens, size]`, in one
    tensor per call of the encoder (which is called several times if the network computes its rows
    in chunks).

    Attributes:
        hidden: Inputs of the first layer, followed by the outputs of each layer, so there is one
            inner list more than layers.
        queries: Queries of each layer. The inner lists stay empty in families that QUERY_AND_KEY
            does not contain.
        keys: Keys of each layer. The inner lists stay empty in the same families.
        heads: Number of attention heads.
        is_on: Whether states are currently recorded.
    """

    hidden: list[list[Tensor]]
    queries: list[list[Tensor]]
    keys: list[list[Tensor]]
    heads: int
    is_on: bool = False

    @classmethod
    def of(cls, network: Any) -> "States":
        """Attach hooks to an encoder that record its states, and return the object that holds them.

        States are recorded between `begin` and `end`.
        """
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
        """Clear the recorded states and start recording."""
        for kept in (*self.hidden, *self.queries, *self.keys):
            kept.clear()
        self.is_on = True

    def end(self) -> None:
        """Stop recording.

        Otherwise states would be recorded a second time when the backward pass recomputes a layer.
        """
        self.is_on = False

    def attention(self, layer: int) -> Tensor:
        """Return a layer's attention scores before softmax: `[rows, heads, tokens, tokens]`.

        They are computed from the recorded queries and keys, so these must not be empty. `layer` is
        the index of the layer, from 0.
        """
        query, key = (
            # (rows, tokens, heads * size) -> (rows, heads, tokens, size)
            states.view(*states.shape[:2], self.heads, -1).transpose(1, 2)
            for states in (torch.cat(self.queries[layer]), torch.cat(self.keys[layer]))
        )
        scores: Tensor = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return scores.float()


@dataclass(kw_only=True)
class Watched:
    """Recorded layer states of a student and its teacher, from which the layer loss is computed.

    Attributes:
        student: States of the student.
        teacher: States of the teacher.
        fit: Trained linear layer from the student's hidden size to the teacher's; an identity if
            the sizes are equal.
    """

    student: States
    teacher: States
    fit: nn.Module

    @classmethod
    def of(cls, teacher: Teacher, student: Any) -> "Watched":
        """Attach hooks that record the layer states of a student and of its teacher.

        If their hidden sizes differ, a linear layer that converts the student's states to the
        teacher's size is added to the student. Raises ModelError if the family of either network
        does not support the recording of its layers.
        """
        networks: tuple[Any, Any] = (student.encoder, teacher.network.encoder)
        for each in networks:
            family = each.config.model_type
            if family not in FAMILIES | CUT or is_foreign(each):
                raise ModelError(
                    f"layer_weight can be set only for the families "
                    f"{', '.join(sorted(FAMILIES | CUT))}, but the student or the teacher belongs "
                    f"to the family {family}: remove layer_weight."
                )
        sizes = [each.config.hidden_size for each in networks]
        student.reads_first_token = False  # the loss needs the last layer's states of all tokens
        if sizes[0] != sizes[1]:
            student.layer_fit = nn.Linear(
                *sizes
            )  # an attribute, so that the optimizer finds its weights
        return cls(
            student=States.of(networks[0]),
            teacher=States.of(networks[1]),
            fit=getattr(student, "layer_fit", nn.Identity()),
        )

    def losses(self, mask: Tensor) -> Tensor:
        """Return one loss per row in fp32: `[rows]`.

        For each layer of the student, the loss has the mean squared difference between its states
        and those of a layer of the teacher, and likewise between their attention scores. All of
        these are added up. Layer m (from 1) of the student's M layers is compared with layer
        m * N / M (rounded) of the teacher's N layers, and the input of the student's first layer
        with the input of the teacher's first layer. Attention scores are compared only if the
        queries and keys of both networks are recorded, and if both networks have the same number of
        heads.

        `mask` `[rows, tokens]` is 0 at padding.
        """
        self.student.end()
        mine, theirs = self.student, self.teacher
        depth, above = len(mine.hidden) - 1, len(theirs.hidden) - 1
        # Index of the teacher's states for each of the student's; 0 is the first layer's input.
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
