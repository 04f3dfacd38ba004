"""A training: an iterator over its optimizer steps. Predicting is in predict.py.

Knows neither task nor head: a network from padded features to logits, targets, and a loss per item.
Several of these may share weights; the steps are then each of one of them.
"""

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from benchharness.encoder.packing import can_checkpoint, checkpoint_activations, is_packed
from benchharness.progress import SIGNALS, Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.errors import JobError
from benchharness.training.batching import (
    Features,
    Indices,
    count_steps,
    cut_by_length,
    mixed_batches,
)
from benchharness.training.compute import Compute, Layout, Part
from benchharness.training.meter import Meter, Plan
from benchharness.training.optimizer import (
    clip_in_step,
    learning_rate,
    make_optimizer,
    moments,
    restore_moments,
    update_groups,
)
from benchharness.training.predict import FreedMemory, OutOfMemoryError, is_out_of_memory
from benchharness.training.snapshots import State, random_numbers, random_tensors, restore_random

Loss = Callable[[Tensor, Tensor], Tensor]

CUT_OVERHEAD = {"cpu": 64, "cuda": 4096}
"""What starting one more micro-batch costs, in padded tokens; packed attention is not cut. The
CPU's: 16 to 128 are as fast (MiniLM on MRPC and CoLA). The GPU's is an estimate, not measured, for
families that are not packed."""

STEPS_BETWEEN_LOOKS = 16
"""After how many steps it is looked at how much freed memory is kept."""


@dataclass(frozen=True, kw_only=True)
class TaskBatches:
    """What is learned of one task: by which network, from what, and towards which goals.

    `targets` are one for each item of the features, and `loss(logits, targets)` one for each item.
    `on_layers(True)` has the loss be that of the layers alone, `on_layers(False)` the other.
    Where the batch `is_whole`, an item's loss depends on the others: it is computed at once.
    """

    network: nn.Module
    features: Features
    targets: Tensor
    loss: Loss
    on_layers: Callable[[bool], None] = lambda _: None
    is_whole: bool = False

    @property
    def items(self) -> int:
        """How many items there are to learn from."""
        return len(self.features.item_sizes)


@dataclass(kw_only=True)
class Training:
    """A training in progress: all that the next step depends on.

        for step in training:
            if step in training.plan.evaluations:
                with training.meter.paused():
                    scores = ...
                training.mark(scores, scores["accuracy"])

    What a step changes are the weights of the network, the optimizer's moments, the random number
    generators and the meter; `state` gives all of these, `restore` puts them back. The learning
    rate and the next batch follow from the number of steps done. `weights` are those that are
    trained, now or in a later epoch. `kept` are, by name and on the CPU, those of the best
    evaluation so far, or the sum of those at the last ones, where the recipe ends with them.

    `network` is what is trained, with the networks of all `tasks` in it: mostly that of the only
    one. Each step is of one task (`mixed_batches`), and leaves weights that others alone use as
    they are. The loss of a step is the mean over the items of its batch (over their terms, where
    they have several), however the batch is cut into micro-batches. On a CPU the same seed and
    number of threads give the same bits, also where the training was stopped and restored from its
    state after any step.
    """

    network: nn.Module
    tasks: tuple[TaskBatches, ...]
    recipe: Recipe
    seed: int
    compute: Compute
    weights: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    plan: Plan
    meter: Meter
    freed: FreedMemory | None  # on a CPU
    kept: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def begin(  # noqa: PLR0913  (what is trained, on what, how and where)
        cls,
        network: nn.Module,
        tasks: Sequence[TaskBatches],
        recipe: Recipe,
        *,
        seed: int,
        compute: Compute,
        report: Reporter,
    ) -> Self:
        """A training before its first step; seeds every generator."""
        # The network was drawn from the seed too. Seeded again, what is drawn from here on does not
        # depend on how many numbers a family's layers took.
        _seed_everything(seed)
        network.to(compute.device).train()
        if recipe.optim.activation_checkpointing:
            checkpoint_activations(network)
        items = [task.items for task in tasks]
        plan = Plan.of(items, recipe, compute)
        if compute.on_gpu and compute.precision == "bf16" and not recipe.encoder.is_frozen:
            from benchharness.training.cuda import Casts  # noqa: PLC0415  (on a GPU alone)

            for note in Casts(list(dict.fromkeys(task.network for task in tasks))).notes:
                report(Progress(phase="loading", note=note))
        return cls(
            network=network,
            tasks=tuple(replace(task, targets=task.targets.to(compute.device)) for task in tasks),
            recipe=recipe,
            seed=seed,
            compute=compute,
            weights=[weight for weight in network.parameters() if weight.requires_grad],
            optimizer=make_optimizer(network, recipe),
            plan=plan,
            meter=Meter(items=sum(items), steps=plan.steps, report=report),
            freed=None if compute.on_gpu else FreedMemory(),
        )

    def __iter__(self) -> Iterator[int]:
        """Makes the steps that are left in place; yields after each how many are done.

        Evaluations are the loop's to make, and to `mark`. A training that was stopped in one yields
        that step once more. After the last step the network has the weights that the run ends with.
        Raises DivergedError at the first loss or gradient that is not finite, and OutOfMemoryError.
        """
        self._after_step()
        if self.is_due:
            yield self.meter.step
        while self.meter.step < self.plan.steps and not self.is_stopped:
            self.step()
            self._after_step()
            yield self.meter.step
        self._end()

    @property
    def is_over(self) -> bool:
        """True after the evaluation of the last step, which may be that of an early stop."""
        return (self.meter.step == self.plan.steps or self.is_stopped) and not self.is_due

    @property
    def is_stopped(self) -> bool:
        """Whether the patience has run out."""
        return 0 < self.recipe.selection.early_stopping <= self.meter.waited

    @property
    def is_due(self) -> bool:
        """Whether the curve still lacks the point of the last step."""
        return self.meter.step in self.plan.points and not self.meter.is_marked

    @cached_property
    def batches(self) -> Iterator[tuple[TaskBatches, Indices, list[Part]]]:
        """The task and items of every step that is left, and the parts of our share of them."""
        drawn = mixed_batches(
            [task.items for task in self.tasks],
            self.recipe.optim.batch_size,
            range(self.meter.step, self.plan.steps),
            self.seed,
            self.recipe.rows.sampling_power,
        )
        for number, batch in drawn:
            task = self.tasks[number]
            yield task, batch, self.parts_of(task, batch)  # padded when its turn comes

    def parts_of(self, task: TaskBatches, batch: Indices) -> list[Part]:
        """This process's share of a batch in micro-batches, on their way to the device."""
        features, device = task.features, self.compute.device
        lengths, sizes = features.item_lengths, features.item_sizes
        share = self.compute.ranks.share(batch, lengths)
        # A packed batch has no padding to save: another micro-batch would only cost its start.
        overhead = sys.maxsize if self._packs else CUT_OVERHEAD[device.type]
        if self._attends_padded:  # about a quarter of the work
            overhead = 4 * CUT_OVERHEAD[device.type]
        accumulation = self.recipe.optim.accumulation
        if task.is_whole and self.compute.ranks.count > 1:
            raise JobError("a loss of the whole batch is computed by one process: start only one.")
        if task.is_whole:
            task.network.parts = accumulation  # type: ignore[assignment]  # it computes in as many
            cut = [share]
        else:
            cut = cut_by_length(share, lengths, accumulation, overhead, sizes)
        terms = features.count_terms(batch)  # of the whole batch
        return [Part.of(features, each, device, terms=terms, layout=self._layout) for each in cut]

    @cached_property
    def _packs(self) -> bool:
        return is_packed(self.network)

    @cached_property
    def _attends_padded(self) -> bool:
        return any(getattr(part, "attends_padded", False) for part in self.network.modules())

    @cached_property
    def _layout(self) -> Layout:
        if self._graphs is not None:
            return "bucket"
        return "packed" if self._packs else "padded"

    @cached_property
    def _graphs(self) -> Callable[..., Tensor] | None:
        """What records and replays steps, where that is wanted and all is on the device."""
        can_be = self._packs and getattr(self.network, "is_recordable", not self._attends_padded)
        # Computed again, a layer reads the generator's state, which cannot be recorded.
        can_be = can_be and not self.recipe.optim.activation_checkpointing
        if not self.compute.graphs or not can_be or self.recipe.encoder.is_frozen:
            return None
        if len(self.tasks) > 1:  # a layout does not say which network it is of
            return None
        from benchharness.training.cuda import Graphs  # noqa: PLC0415  (on a GPU alone)

        return Graphs(_backward_part, self.weights)

    def step(self) -> None:
        """Makes the next optimizer step, which signals do not interrupt.

        Its loss is not looked at before a later `read`.
        """
        with SIGNALS.held_back():
            self._step()

    def _step(self) -> None:
        (task, batch, parts), done = next(self.batches), self.meter.step
        sizes = [each.items for each in self.tasks]
        per_epoch = count_steps(sizes, self.recipe.optim.batch_size, epochs=1)  # of all tasks
        rate = self._rate(done)
        update_groups(self.optimizer.param_groups, rate, epoch=done // per_epoch)
        if 0 < done == self.plan.layer_steps:
            self.optimizer.state.clear()  # moments of another loss
        task.on_layers(done < self.plan.layer_steps)
        mean = self._gradients(task, parts)  # ()
        norm = clip_in_step(self.optimizer, self.weights, self.recipe.optim.max_grad_norm)  # ()
        self.optimizer.step()
        self.optimizer.zero_grad()  # sets them to None: the next backward pass allocates anew
        tokens = task.features.lengths[task.features.rows_of(batch)].sum()
        self.meter.count(mean, norm, rate, items=len(batch), tokens=int(tokens))
        if self.freed and self.meter.step % STEPS_BETWEEN_LOOKS == 0:
            self.freed.look()

    def _rate(self, step: int) -> float:
        """The learning rate of a step: as scheduled, but constant while the layers are learned."""
        recipe, first = self.recipe, self.plan.layer_steps
        if step < first:
            assert recipe.student is not None
            return recipe.student.layer_learning_rate or recipe.optim.learning_rate
        return learning_rate(step - first, self.plan.steps - first, recipe)

    def _gradients(self, task: TaskBatches, parts: Sequence[Part]) -> Tensor:
        """Adds the gradients of a batch's mean loss, which it returns; the same in all ranks."""
        ranks, recipe, lost = self.compute.ranks, self.recipe, 0
        if ranks.count > 1:
            # Each draws its own dropout. From the step, so that a resumed job draws the same.
            _seed_everything(ranks.own_seed(self.seed, self.meter.step))
        backward_part = self._graphs or _backward_part
        mean = torch.zeros((), device=self.compute.device)  # so that the host does not wait
        try:
            with self.compute.autocast():
                for part in parts:
                    mean += backward_part(task.network, task.targets, task.loss, part=part)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            lost = math.ceil(len(part) / getattr(task.network, "parts", 1))
        # All stop where memory ran out on one: the others would wait for its gradients for ever.
        # Raised out here, it does not keep alive what the other one's traceback refers to.
        if lost := ranks.greatest(lost):
            keeps = not (recipe.encoder.is_frozen or recipe.optim.activation_checkpointing)
            raise OutOfMemoryError(lost, can_spare=keeps and can_checkpoint(self.network))
        ranks.add_gradients(self.weights)
        return ranks.add_up(mean)  # of every process's share

    def _after_step(self) -> None:
        """Reads losses when the plan says so, and marks the points that need no evaluation."""
        step = self.meter.step
        if step in self.plan.reads:
            with SIGNALS.held_back():
                self.meter.read()
        if self.is_due and step not in self.plan.evaluations:
            self.mark({})

    @SIGNALS.held_back()
    def mark(self, scores: Mapping[str, float], value: float | None = None) -> None:
        """Puts the last step's point on the curve, with the scores of its evaluation.

        `value` is the one by which evaluations are compared; None where it is undefined.
        """
        self.meter.mark(scores)
        if self.meter.step in self.plan.evaluations:
            self.meter.values.append(self.compute.ranks.same(value))
            self._keep()
        self.network.train()  # predict has put it into evaluation mode

    def _keep(self) -> None:
        """Keeps the weights of this evaluation, where the run may end with them."""
        number, selection = len(self.meter.values), self.recipe.selection
        is_best = selection.best_checkpoint and self.meter.best == number - 1
        if not is_best and not 1 < selection.average_last > len(self.plan.evaluations) - number:
            return
        for name, tensor in self._changing():
            # A second copy of the weights would not fit on every GPU that the training fits on.
            copy = tensor.detach().to("cpu", copy=True)
            # Of several the sum alone: copies of all would not fit into memory for long. Counters
            # such as position ids are no weights: the last ones stay.
            adds = not is_best and name in self.kept and copy.is_floating_point()
            self.kept[name] = self.kept[name] + copy if adds else copy

    @SIGNALS.held_back()
    def _end(self) -> None:
        """Puts the weights that the run ends with into the network; again, it changes nothing."""
        summed = min(self.recipe.selection.average_last, len(self.plan.evaluations))  # 1 for none
        with torch.no_grad():
            for name, tensor in self._changing() if self.kept else ():
                kept = self.kept[name]
                tensor.copy_(kept / summed if summed > 1 and kept.is_floating_point() else kept)

    def state(self) -> State:
        """All that the next step depends on. Raises DivergedError rather than keep what is lost."""
        self.meter.read()  # losses still on the device are in no number that is written
        kept = {"kept": self.kept} if self.kept else {}
        return State(
            tensors={
                "weights": dict(self._changing()),
                "optimizer": moments(self.optimizer),
                "random": random_tensors(),
                **kept,
            },
            numbers={"random": random_numbers(), "meter": self.meter.numbers()},
        )

    def restore(self, state: State) -> None:
        """Goes back, or on, to a state of the same training; before its first step."""
        # Into the tensors that are there, which the optimizer and others refer to.
        with torch.no_grad():
            for name, tensor in self._changing():
                tensor.copy_(state.tensors["weights"][name])
        restore_moments(self.optimizer, state.tensors["optimizer"])
        self.kept = dict(state.tensors.get("kept", {}))
        self.meter.restore(state.numbers["meter"])
        # Last, because whatever was drawn on the way here must not count.
        restore_random(state.tensors["random"], state.numbers["random"])

    def _changing(self) -> Iterator[tuple[str, Tensor]]:
        """The weights that are trained, and the buffers, by name."""
        trained = {id(weight) for weight in self.weights}
        named = self.network.named_parameters()
        yield from ((name, weight) for name, weight in named if id(weight) in trained)
        yield from self.network.named_buffers()


def _seed_everything(seed: int) -> None:
    """Seeds the generators of python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _backward_part(network: nn.Module, goals: Tensor, loss: Loss, *, part: Part) -> Tensor:
    """Adds a micro-batch's gradients of the batch's mean loss; gives its share of that loss."""
    goals = goals[part.tensors["items"]]  # (items, ...)
    told = {"targets": goals} if getattr(network, "reads_targets", False) else {}
    # (rows, outputs) of texts, (rows, tokens, outputs) of tokens, (rows, ...) -> (items, options)
    logits = part.side_by_side(network(**part.inputs, **told))
    # Divided by the whole batch's terms, the parts' gradients add up to those of its mean.
    share = loss(logits, goals).sum() / part.terms  # ()
    share.backward()  # type: ignore[no-untyped-call]
    if casts := getattr(network, "casts", None):  # training/cuda.py
        casts.collect()
    return share.detach()
