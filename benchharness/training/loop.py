"""Training loop: an iterator over optimizer steps. Prediction is in predict.py.

The loop does not depend on tasks or heads. It needs a network from padded rows to logits, the
targets, and a loss function. Several networks that share weights, one per task, may be trained
together; each step then trains one of them.
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
from benchharness.errors import JobError
from benchharness.progress import SIGNALS, Progress, Reporter
from benchharness.recipes.recipe import Recipe, count_steps
from benchharness.training.batching import (
    Features,
    Indices,
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
"""Cost of starting one more micro-batch, in padded tokens, keyed by device type. On a CPU, values
from 16 to 128 are equally fast (MiniLM on MRPC and CoLA). The GPU's value is an estimate. Both are
for families that compute padded rows. Four times the value is used for families in which only some
modules compute padded rows. Batches of all other families are not cut by length."""

STEPS_BETWEEN_LOOKS = 16
"""Number of steps between two checks of how much freed memory the C library keeps."""


@dataclass(frozen=True, kw_only=True)
class TaskBatches:
    """Training data of one task: network, features, targets and loss.

    Attributes:
        network: The task's network.
        features: Encoded rows to learn from.
        targets: Target of each item of the features.
        loss: Function of logits and targets that returns one loss per item.
        on_layers: Function that is called before each step of the task. Its argument is True if a
            student learns only from its teacher's layers in this step (the first stage of a
            distillation with `layer_epochs`), else False.
        is_whole: Whether an item's loss depends on the other items of its batch. Batches are then
            not cut into micro-batches (see `Head.whole_batch`).
    """

    network: nn.Module
    features: Features
    targets: Tensor
    loss: Loss
    on_layers: Callable[[bool], None] = lambda _: None
    is_whole: bool = False

    @property
    def items(self) -> int:
        """Number of items to learn from."""
        return len(self.features.item_sizes)


@dataclass(kw_only=True)
class Training:
    """Training in progress: an iterable over its optimizer steps, whose state can be saved.

        for step in training:
            if step in training.plan.evaluations:
                with training.meter.paused():
                    scores = ...
                training.mark(scores, scores["accuracy"])

    A step changes the weights of the network, the optimizer's moments, the random number generators
    and the meter. `state` returns all of these, and `restore` sets them. The learning rate and the
    next batch follow from the number of finished steps.

    Each step trains one task (see `mixed_batches`), and leaves weights that only other tasks use
    unchanged. The loss of a step is the mean over the losses of its batch (one per item, or another
    number if the features have `terms`). Except for rounding and the random numbers of dropout, it
    does not depend on how the batch is cut into micro-batches. On a CPU, the same seed and number
    of threads give bit-identical weights, even if the training is stopped after any step and
    restored from its state.

    Attributes:
        network: Network that is trained. It contains the networks of all `tasks`; with a single
            task, it is the network of this task.
        tasks: Training data of each task.
        recipe: Recipe of the run.
        seed: Seed of the random number generators.
        compute: Device, precision and processes.
        weights: Weights that are trained in at least one epoch.
        optimizer: Optimizer of these weights.
        plan: Number of steps, and steps that are followed by an evaluation or other work.
        meter: Counters of steps, losses and scores.
        freed: Controller of the freed memory that the C library keeps (see FreedMemory); None on a
            GPU.
        kept: Copies in CPU memory, keyed by name, of weights that the run may end with: the weights
            at the best evaluation so far, or the sum of the weights at the last evaluations.
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
    freed: FreedMemory | None
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
        """Return a training before its first step, and seed all random number generators.

        Args:
            network: Network to train, which contains the networks of all tasks.
            tasks: Training data of each task.
            recipe: Recipe of the run.
            seed: Seed of the random number generators.
            compute: Device, precision and processes.
            report: Function that is called with the progress.
        """
        # The initialization of the network has drawn random numbers, whose count depends on the
        # model family. Seed again, so that the following random numbers do not depend on it.
        _seed_everything(seed)
        network.to(compute.device).train()
        if recipe.optim.activation_checkpointing:
            checkpoint_activations(network)
        items = [task.items for task in tasks]
        plan = Plan.of(items, recipe, compute)
        if compute.on_gpu and compute.precision == "bf16" and not recipe.encoder.is_frozen:
            from benchharness.training.cuda import Casts  # noqa: PLC0415  (only for a GPU)

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
        """Make the remaining optimizer steps; after each, yield the number of finished steps.

        The caller evaluates the network after the steps in `plan.evaluations`, and calls `mark`
        with the scores. If a training was stopped during an evaluation and then restored, the step
        before this evaluation is yielded once more. After the last step, the final weights of the
        run are loaded into the network.

        Raises:
            DivergedError: A loss or a gradient norm is not finite.
            OutOfMemoryError: Memory runs out.
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
        """True if the training has ended, including the evaluation after its last step."""
        return (self.meter.step == self.plan.steps or self.is_stopped) and not self.is_due

    @property
    def is_stopped(self) -> bool:
        """True if early stopping has ended the training."""
        return 0 < self.recipe.selection.early_stopping <= self.meter.waited

    @property
    def is_due(self) -> bool:
        """True if the learning curve still lacks the point that is planned for the current step."""
        return self.meter.step in self.plan.points and not self.meter.is_marked

    @cached_property
    def batches(self) -> Iterator[tuple[TaskBatches, Indices, list[Part]]]:
        """Iterator over the remaining steps, each with its task, items and micro-batches.

        The items are the indices of all items of the batch. The micro-batches contain only the
        share of this process.
        """
        drawn = mixed_batches(
            [task.items for task in self.tasks],
            self.recipe.optim.batch_size,
            range(self.meter.step, self.plan.steps),
            self.seed,
            self.recipe.rows.sampling_power,
        )
        for number, batch in drawn:
            task = self.tasks[number]
            yield task, batch, self.parts_of(task, batch)  # pads a batch only when it is needed

    def parts_of(self, task: TaskBatches, batch: Indices) -> list[Part]:
        """Cut this process's share of a batch into micro-batches, and copy them to the device.

        Args:
            task: Task of the batch.
            batch: Indices of the items of the batch, in all processes.

        Returns:
            The micro-batches. The copies may not be finished when this method returns.

        Raises:
            JobError: The batch must not be cut (see `TaskBatches.is_whole`), but several processes
                train together.
        """
        features, device = task.features, self.compute.device
        lengths, sizes = features.item_lengths, features.item_sizes
        share = self.compute.ranks.share(batch, lengths)
        # Packed batches have no padding that cutting could save.
        overhead = sys.maxsize if self._packs else CUT_OVERHEAD[device.type]
        if self._attends_padded:  # only some modules compute padding, at a quarter of the cost
            overhead = 4 * CUT_OVERHEAD[device.type]
        accumulation = self.recipe.optim.accumulation
        if task.is_whole and self.compute.ranks.count > 1:
            raise JobError(
                "the loss of this task compares all examples of a batch, so several processes "
                "cannot share the batch: start only one process."
            )
        if task.is_whole:
            task.network.parts = accumulation  # type: ignore[assignment]  # number of pieces
            cut = [share]
        else:
            cut = cut_by_length(share, lengths, accumulation, overhead, sizes)
        terms = features.count_terms(batch)  # number of losses of the whole batch
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
        """Function that computes micro-batches with CUDA graphs; None if they are not used."""
        can_be = self._packs and getattr(self.network, "is_recordable", not self._attends_padded)
        # Recomputing a layer reads the state of the random number generator, which cannot be
        # recorded in a graph.
        can_be = can_be and not self.recipe.optim.activation_checkpointing
        if not self.compute.graphs or not can_be or self.recipe.encoder.is_frozen:
            return None
        if len(self.tasks) > 1:  # the key of a graph does not identify the task's network
            return None
        from benchharness.training.cuda import Graphs  # noqa: PLC0415  (only for a GPU)

        return Graphs(_backward_part, self.weights)

    def step(self) -> None:
        """Make the next optimizer step.

        Signals that stop the job take effect when the step has ended. The loss stays on the device
        until the meter reads it.
        """
        with SIGNALS.held_back():
            self._step()

    def _step(self) -> None:
        (task, batch, parts), done = next(self.batches), self.meter.step
        sizes = [each.items for each in self.tasks]
        # An epoch is one of all tasks together.
        per_epoch = count_steps(sizes, self.recipe.optim.batch_size, epochs=1)
        rate = self._rate(done)
        update_groups(self.optimizer.param_groups, rate, epoch=done // per_epoch)
        if 0 < done == self.plan.layer_steps:
            self.optimizer.state.clear()  # forget the moments of the first stage's loss
        task.on_layers(done < self.plan.layer_steps)
        mean = self._gradients(task, parts)  # a scalar
        norm = clip_in_step(self.optimizer, self.weights, self.recipe.optim.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()  # sets the gradients to None, which frees their memory
        tokens = task.features.lengths[task.features.rows_of(batch)].sum()
        self.meter.count(mean, norm, rate, items=len(batch), tokens=int(tokens))
        if self.freed and self.meter.step % STEPS_BETWEEN_LOOKS == 0:
            self.freed.look()

    def _rate(self, step: int) -> float:
        """Return the learning rate of a step: constant in a first stage, then scheduled."""
        recipe, first = self.recipe, self.plan.layer_steps
        if step < first:
            return recipe.first_stage[1] or recipe.optim.learning_rate
        return learning_rate(step - first, self.plan.steps - first, recipe)

    def _gradients(self, task: TaskBatches, parts: Sequence[Part]) -> Tensor:
        """Compute the gradients of a batch's mean loss, and return the loss.

        All processes that train together get the same gradients and loss.
        """
        ranks, recipe, lost = self.compute.ranks, self.recipe, 0
        if ranks.count > 1:
            # Let each process draw its own dropout. The seed depends on the step, so that a resumed
            # job draws the same numbers.
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
        # If memory runs out in one process, all stop, because the others would wait for its
        # gradients for ever. The error is raised outside of `except`, so that it does not keep the
        # first error's traceback alive, which refers to the memory that is to be freed.
        if lost := ranks.greatest(lost):
            keeps = not (recipe.encoder.is_frozen or recipe.optim.activation_checkpointing)
            raise OutOfMemoryError(lost, can_spare=keeps and can_checkpoint(self.network))
        ranks.add_gradients(self.weights)
        return ranks.add_up(mean)  # the sum of the processes' shares

    def _after_step(self) -> None:
        """Read losses if they are due, and add the points of the curve that need no evaluation."""
        step = self.meter.step
        if step in self.plan.reads:
            with SIGNALS.held_back():
                self.meter.read()
        if self.is_due and step not in self.plan.evaluations:
            self.mark({})

    @SIGNALS.held_back()
    def mark(self, scores: Mapping[str, float], value: float | None = None) -> None:
        """Add a point for the last step to the learning curve, and record its evaluation, if any.

        If an evaluation is planned after this step, `value` is recorded, and the weights are copied
        if the run may end with them. Finally, the network is put back into training mode.

        Args:
            scores: Scores of the evaluation, keyed by metric; empty if there was none.
            value: Score by which evaluations are compared, the higher the better; None if the score
                is undefined or there was no evaluation.
        """
        self.meter.mark(scores)
        if self.meter.step in self.plan.evaluations:
            self.meter.values.append(self.compute.ranks.same(value))
            self._keep()
        self.network.train()  # predict has put it into evaluation mode

    def _keep(self) -> None:
        """Copy the current weights if the run may end with them."""
        number, selection = len(self.meter.values), self.recipe.selection
        is_best = selection.best_checkpoint and self.meter.best == number - 1
        if not is_best and not 1 < selection.average_last > len(self.plan.evaluations) - number:
            return
        for name, tensor in self._changing():
            # Copy to the CPU, because the GPU may have no room for a second copy of the weights.
            copy = tensor.detach().to("cpu", copy=True)
            # To average the weights at several evaluations, keep only their sum, because a copy for
            # each would need too much memory. Integers such as position ids are not averaged.
            adds = not is_best and name in self.kept and copy.is_floating_point()
            self.kept[name] = self.kept[name] + copy if adds else copy

    @SIGNALS.held_back()
    def _end(self) -> None:
        """Load the final weights of the run into the network; a second call changes nothing."""
        # Number of evaluations whose weights are averaged; 1 if none are averaged.
        summed = min(self.recipe.selection.average_last, len(self.plan.evaluations))
        with torch.no_grad():
            for name, tensor in self._changing() if self.kept else ():
                kept = self.kept[name]
                tensor.copy_(kept / summed if summed > 1 and kept.is_floating_point() else kept)

    def state(self) -> State:
        """Return the state of the training, with everything that the next step depends on.

        Raises DivergedError if a loss or a gradient norm that was not read before is not finite, so
        that no diverged state is saved.
        """
        self.meter.read()  # only losses that have been read are part of the state
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
        """Load a state that an earlier training has returned (see `state`), to continue from it.

        The earlier training must have had the same settings. Call this before the first step.
        """
        # Copy into the existing tensors, because the optimizer and others refer to them.
        with torch.no_grad():
            for name, tensor in self._changing():
                tensor.copy_(state.tensors["weights"][name])
        restore_moments(self.optimizer, state.tensors["optimizer"])
        self.kept = dict(state.tensors.get("kept", {}))
        self.meter.restore(state.numbers["meter"])
        # Restore random states last, because the code above may draw random numbers.
        restore_random(state.tensors["random"], state.numbers["random"])

    def _changing(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the trained weights and the buffers of the network, with their names."""
        trained = {id(weight) for weight in self.weights}
        named = self.network.named_parameters()
        yield from ((name, weight) for name, weight in named if id(weight) in trained)
        yield from self.network.named_buffers()


def _seed_everything(seed: int) -> None:
    """Seed the generators of Python, NumPy and torch, on every device."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _backward_part(network: nn.Module, goals: Tensor, loss: Loss, *, part: Part) -> Tensor:
    """Add the gradients of a micro-batch's share of the batch's mean loss; return that share."""
    goals = goals[part.tensors["items"]]  # (items, ...)
    told = {"targets": goals} if getattr(network, "reads_targets", False) else {}
    # Logits are (rows, outputs) or (rows, tokens, outputs); for items of several rows, the rows
    # become two dimensions (items, options).
    logits = part.side_by_side(network(**part.inputs, **told))
    # Divide by the terms of the whole batch, so that the gradients of all micro-batches add up to
    # the gradient of the batch's mean loss.
    share = loss(logits, goals).sum() / part.terms  # a scalar
    share.backward()  # type: ignore[no-untyped-call]
    if casts := getattr(network, "casts", None):  # set by training/cuda.py
        casts.collect()
    return share.detach()
