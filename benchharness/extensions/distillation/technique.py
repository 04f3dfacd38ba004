"""Distillation technique: load the network of a teacher's run and attach it to a student."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from benchharness.encoder import Encoder, layers_of
from benchharness.errors import JobError, ModelError
from benchharness.extensions.distillation.hyperparameters import StudentOptions
from benchharness.extensions.distillation.teacher import Teacher, with_teacher
from benchharness.kept_folders import check_checkpoint
from benchharness.leaderboard.job import TEACHER
from benchharness.machine import text_digest
from benchharness.recipes.recipe import kept_layers
from benchharness.training.optimizer import UsedVocabulary
from benchharness.worker.checkpoint import KeptRun, folder_of_a_run
from benchharness.worker.kept_network import kept_network
from benchharness.worker.task_setup import TaskSetup
from benchharness.worker.technique import Prepared, Technique, Work


def technique(work: Work) -> Technique:
    """Load the teacher of a student's job, and return the distillation technique.

    Raises JobError if the folder with the teacher is missing, is damaged or contains the network of
    another run, and ModelError if the contents of the folder are malformed.
    """
    job, folder = work.job, work.folders.get("teacher")
    assert job.teacher is not None, "the job is a student's"
    name = job.shown_teacher
    if folder is None:
        raise JobError(f"no folder with the network of {name} was passed to this job.")
    digests = check_checkpoint(folder, job.teacher.run)
    with folder_of_a_run(folder):
        taught = KeptRun.read(folder).job
    if taught.key != job.teacher.run:  # computed from the job in the folder and its permissions
        raise JobError(
            f"{folder} contains the network of a run other than {name}: delete this folder."
        )
    options = work.recipe.added.get(TEACHER) or StudentOptions()
    # A student that learns from the teacher's layers compares the states of all tokens.
    every_state = bool(options.layer_weight)
    kept = kept_network(folder, taught, work.compute, every_state=every_state)
    digest = text_digest(str(sorted(digests.items())))
    return Distillation(
        work=work,
        network=Teacher(network=kept.setups[0].network, options=options),
        encoder=kept.encoder,
        name=name,
        provenance={"teacher": {"name": name, "run": job.teacher.run, "sha256": digest}},
    )


@dataclass(kw_only=True)
class Distillation(Technique):
    """Technique that trains a student with a teacher.

    Attributes:
        network: The teacher, which contains the teacher's network.
        encoder: The teacher's encoder, with its tokenizer.
        name: Name of the teacher's run, for messages.
    """

    network: Teacher
    encoder: Encoder
    name: str

    def on_setups(self, setups: Sequence[TaskSetup]) -> None:
        """Add the distillation losses to the head of the job's only task."""
        (setup,) = setups
        setup.head = with_teacher(setup.head, self.network, self.work.recipe, setup.task.head)
        setup.on_layers = self.network.turn_to  # training switches between the two losses

    def on_network(self, prepared: Prepared) -> None:
        """Copy weights of the teacher to the student, and check that both read the same tokens.

        The weights are copied only if the recipe sets `from_teacher`. If only the teacher reads
        token types, they are added to the training rows.

        Raises:
            ModelError: Teacher and student do not read the same tokens, or the student's rows are
                too long for the teacher.
        """
        self._begin(prepared.network)
        self._add_types(prepared)

    def _begin(self, student: Any) -> None:
        """Copy the teacher's weights to the student if the recipe sets `from_teacher`.

        Each layer of the student gets the weights of the teacher's layer with the same number in
        the checkpoint. All other weights are copied by name.
        """
        own = self.network.network
        if not self.network.options.from_teacher:
            return
        # As for DistilBERT (Sanh et al. 2019, section 3), some of the teacher's layers are copied.
        layers, every = (layers_of(each.encoder).layers for each in (student, own))
        kept = kept_layers(self.work.recipe.encoder.layers, len(every))
        with torch.no_grad():
            for layer, number in zip(layers, kept, strict=True):
                layer.load_state_dict(every[number].state_dict())
            known = {id(weight) for layer in layers for weight in layer.parameters()}
            state = own.state_dict()
            for name, weight in student.named_parameters():
                if id(weight) not in known:
                    weight.copy_(state[name])  # weights outside the layers, such as embeddings

    def _add_types(self, prepared: Prepared) -> None:
        """Add token types to the student's training rows if only the teacher reads them.

        Raises ModelError if teacher and student do not read the same tokens.
        """
        (setup,), limits, features = prepared.setups, prepared.limits, prepared.features
        teacher, network, ours = self.encoder, self.network, features[setup.trained]
        if limits.max_tokens > teacher.max_tokens:
            raise ModelError(
                f"the teacher {self.name} reads at most {teacher.max_tokens} tokens, but its "
                f"student reads {limits.max_tokens}: pass --set max_tokens={teacher.max_tokens}."
            )
        examples = prepared.rows[setup.trained].examples
        theirs = setup.head.encode(examples, teacher.tokenizer, limits)
        network.student_reads_types = ours.token_types is not None
        network.reads_types = theirs.token_types is not None
        # Compare all tokens, because the soft targets for different tokens would be wrong.
        same_types = np.array_equal(ours.token_types, theirs.token_types)  # type: ignore[arg-type]
        both = network.student_reads_types and network.reads_types
        if not (
            np.array_equal(ours.starts, theirs.starts)
            and np.array_equal(ours.token_ids, theirs.token_ids)
            and (same_types or not both)
        ):
            raise ModelError(
                f"the teacher {self.name} splits texts into different tokens than its student: "
                "choose a teacher and a student with the same vocabulary."
            )
        if network.reads_types and not network.student_reads_types:
            # The student removes token types again before its forward pass (teacher.py).
            features[setup.trained] = replace(ours, token_types=theirs.token_types)

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Make the teacher convert the student's token ids to ids of the full vocabulary.

        This is called when the student's vocabulary has been cut (see UsedVocabulary).
        """
        self.network.rows = torch.from_numpy(vocabulary.rows).to(self.work.compute.device)
