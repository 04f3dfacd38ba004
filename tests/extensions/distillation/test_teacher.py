"""Tests of the training of students by distillation from a teacher."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchharness.encoder import keep_layers, layers_of, load_encoder
from benchharness.errors import BenchError, JobError, ModelError
from benchharness.extensions.distillation.teacher import Teacher, with_teacher
from benchharness.heads import head_for
from benchharness.kept_folders import HEAD
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.tasks.suites import find_task
from benchharness.worker.job import run_job
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.mini_jobs import QUICK, make_job
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.stopped_jobs import stop
from tests.helpers.training import RECIPE as USUAL
from tests.helpers.training import having

SHORT = QUICK | {"layers": "1"}


def plan(task: str, model: str = "tiny", teacher: str = "tiny", **settings: str) -> list[Job]:
    """Return the jobs of a teacher that trains for one epoch, and of its student with one layer."""
    longest = {"max_tokens": settings["max_tokens"]} if "max_tokens" in settings else {}
    return list(
        plan_jobs(
            model,
            task,
            overrides=SHORT | settings,
            limit=16,
            precision="fp32",
            teacher=(make_job(task, limit=16, model=teacher, **longest),),
        ).jobs
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which each teacher's network is stored once."""
    return tmp_path_factory.mktemp("teachers")


def taught(kept: Path, task: str, **settings: str) -> tuple[Job, Path]:
    """Return a student's job, and the folder of its teacher."""
    teacher, student = plan(task, **settings)
    folder = kept / teacher.key
    if not folder.exists():
        run_job(teacher, keep=folder)
    return student, folder


def losses(result: Result) -> list[float]:
    return [point.loss for point in result.curve]


def alone(student: Job) -> Job:
    return plan_job("tiny", student.task, overrides=SHORT, limit=16, precision="fp32")


HEADS = (
    *("glue/rte", "glue/stsb", "superglue/copa", "squad/v2.0", "conll2003/ner"),
    pytest.param("superglue/wic", marks=pytest.mark.soak),
    pytest.param("hotpotqa/distractor", marks=pytest.mark.soak),
)


@pytest.mark.parametrize("task", HEADS)
def test_students_of_every_head_learn_from_their_teacher(kept: Path, task: str) -> None:
    student, folder = taught(kept, task)
    found = run_job(student, teacher=folder)
    assert all(np.isfinite(losses(found)))
    assert found.provenance["teacher"]["run"] == student.teacher.run  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "task", ["glue/rte", pytest.param("superglue/copa", marks=pytest.mark.soak)]
)
def test_teacher_weight_0_gives_the_result_without_a_teacher(kept: Path, task: str) -> None:
    student, folder = taught(kept, task, teacher_weight="0")
    found, own = run_job(student, teacher=folder), run_job(alone(student))
    assert losses(found) == losses(own)
    assert found.evaluations == own.evaluations
    assert found.cost.parameters == own.cost.parameters, "its teacher is no part of it"
    student, _ = taught(kept, task)
    assert losses(run_job(student, teacher=folder)) != losses(own)


def test_the_key_of_a_student_includes_the_run_of_its_teacher(kept: Path) -> None:
    student, _ = taught(kept, "glue/rte")
    own = alone(student)
    assert student.teacher is not None
    assert student.teacher.alone == own.key
    assert student.key != own.key
    assert replace(student, teacher=None, settings=own.settings).key == own.key
    assert own.teacher is None
    assert Job.from_json(json.loads(json.dumps(student.to_json()))) == student
    other = replace(student, teacher=replace(student.teacher, run="0" * 64))
    assert other.key != student.key
    renamed = replace(student, teacher=replace(student.teacher, model="x", variant="y", alone=""))
    assert renamed.key == student.key


def test_interrupted_student_job_resumes_bit_for_bit(kept: Path, tmp_path: Path) -> None:
    student, folder = taught(kept, "glue/rte", epochs="4", batch_size="8", layer_weight="1")
    expected = run_job(student, teacher=folder)
    stop(student, tmp_path, step=3, teacher=folder)
    found = run_job(student, snapshots=tmp_path, teacher=folder)
    assert losses(found) == losses(expected)
    assert found.evaluations == expected.evaluations
    assert found.provenance["resumed"] == {"times": 1, "steps": [3]}


@pytest.mark.soak
@pytest.mark.parametrize("step", [2, 4, 6])
def test_distillation_with_separate_epochs_for_layer_outputs_resumes_bit_for_bit(
    kept: Path, tmp_path: Path, step: int
) -> None:
    """Interrupt the job during the four steps of the layer epochs, after them, and later."""
    values = {"epochs": "2", "layer_epochs": "2", "layer_learning_rate": "1e-3"}
    student, folder = taught(kept, "glue/rte", batch_size="8", layer_weight="1", **values)
    expected = run_job(student, teacher=folder)
    stop(student, tmp_path, step=step, teacher=folder)
    found = run_job(student, snapshots=tmp_path, teacher=folder)
    assert losses(found) == losses(expected)
    assert found.evaluations == expected.evaluations
    assert found.provenance["resumed"] == {"times": 1, "steps": [step]}


def test_student_learns_teacher_outputs_after_the_layer_epochs(kept: Path) -> None:
    """Check that the learning rate is constant in layer epochs, which have no evaluations."""
    values = {"epochs": "2", "layer_epochs": "3", "layer_learning_rate": "0.125"}
    student, folder = taught(kept, "glue/rte", batch_size="8", layer_weight="1", **values)
    found = run_job(student, teacher=folder)
    rates = {point.step: point.learning_rate for point in found.curve}
    assert {rates[step] for step in range(1, 7)} == {0.125}
    assert rates[10] < rates[9] < 0.125
    assert [point.step for point in found.curve if point.scores] == [8, 10]


def test_student_that_copies_all_layers_predicts_like_its_teacher(kept: Path) -> None:
    values = {"layers": "0", "learning_rate": "1e-30", "from_teacher": "true"}
    student, folder = taught(kept, "glue/rte", **values)
    teacher, _ = plan("glue/rte")
    dev, of_teacher = (run_job(student, teacher=folder).evaluations[0], run_job(teacher))
    theirs = of_teacher.evaluations[0]
    assert dev.predictions == theirs.predictions
    student, _ = taught(kept, "glue/rte", **values | {"from_teacher": "false"})
    assert run_job(student, teacher=folder).evaluations[0].predictions != theirs.predictions


def test_student_that_copies_some_layers_has_the_weights_of_these_teacher_layers(
    kept: Path, tmp_path: Path
) -> None:
    values = {"layers": "1", "learning_rate": "1e-30", "from_teacher": "true"}
    student, folder = taught(kept, "glue/rte", **values)
    run_job(student, teacher=folder, keep=tmp_path / student.key)
    of_teacher, of_student = (
        load_file(each / "model.safetensors") for each in (folder, tmp_path / student.key)
    )
    assert {name for name in of_teacher if "layer.1." in name} == of_teacher.keys() - of_student
    for name, weight in of_student.items():
        assert torch.allclose(of_teacher[name], weight, rtol=0, atol=1e-20), name
    heads = [load_file(each / HEAD) for each in (folder, tmp_path / student.key)]
    for name, weight in heads[1].items():
        assert torch.allclose(heads[0][name], weight, rtol=0, atol=1e-20), name


def test_damaged_or_missing_teacher_model_is_an_error(kept: Path, tmp_path: Path) -> None:
    student, folder = taught(kept, "glue/rte")
    assert student.teacher is not None
    copy = tmp_path / student.teacher.run
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / HEAD).write_bytes((copy / HEAD).read_bytes()[:-1] + b"x")
    with pytest.raises(JobError, match="differs from the file that was written"):
        run_job(student, teacher=copy)
    with pytest.raises(JobError, match="no folder with the network of tiny"):
        run_job(student)


# A teacher that is attached to the network of its student.


class Same:
    """Networks of a student and its teacher with the same encoder weights."""

    def __init__(self, task: str, **values: float) -> None:
        self.task = find_task(task)
        recipe = {"teacher_weight": 0.5, "temperature": 2.0} | values
        self.recipe = having(RECIPE, **recipe)  # type: ignore[arg-type]
        own = load_encoder("builtin:tiny", None, 1)
        self.network = head_for(self.task).network(own, self.task).eval()
        self.teacher = Teacher(network=self.network, options=self.recipe.added["teacher"])
        encoder = load_encoder("builtin:tiny", None, 1)
        self.head = with_teacher(head_for(self.task), self.teacher, self.recipe, self.task.head)
        self.student = self.head.network(encoder, self.task)
        torch.manual_seed(0)
        self.inputs = {
            "input_ids": torch.randint(5, 100, (3, 8)),
            "attention_mask": torch.tensor([[1] * 8, [1] * 5 + [0] * 3, [1] * 3 + [0] * 5]),
        }


RECIPE = having(
    USUAL,
    epochs=1.0,
    batch_size=4,
    warmup_ratio=0.0,
    weight_decay=0.0,
    adam_epsilon=1e-8,
    max_tokens=64,
    dropout=0.0,
)


def quiet(network: torch.nn.Module) -> torch.nn.Module:
    """Return the network in training mode, without dropout."""
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return network.train()


def test_student_loss_is_the_weighted_sum_of_hard_and_soft_losses() -> None:
    same = Same("glue/rte")
    student = quiet(same.student)
    with torch.no_grad():
        same.network.classifier.output.weight.mul_(3.0)
    logits, targets = student(**same.inputs), torch.tensor([0, 1, 0])
    theirs, mine = logits.split(2, dim=-1)
    assert torch.equal(theirs, same.network(**same.inputs))
    own = torch.nn.functional.cross_entropy(mine, targets, reduction="none")
    soft = 4 * torch.nn.functional.kl_div(
        (mine / 2).log_softmax(-1), (theirs / 2).softmax(-1), reduction="none"
    ).sum(-1)
    assert torch.allclose(same.head.loss(logits, targets), 0.5 * own + 0.5 * soft, atol=1e-6)


def test_teacher_gets_no_gradients_in_student_training() -> None:
    same = Same("glue/rte", layer_weight=1.0)
    student = quiet(same.student)
    same.head.loss(student(**same.inputs), torch.tensor([0, 1, 0])).sum().backward()
    assert all(weight.grad is None for weight in same.network.parameters())
    assert any(weight.grad is not None for weight in student.parameters())
    known = {id(weight) for weight in student.parameters()}
    assert not known & {id(weight) for weight in same.network.parameters()}


def test_student_predicts_without_its_teacher() -> None:
    same = Same("glue/rte")
    assert same.student.eval()(**same.inputs).shape == (3, 2)


def test_layer_loss_of_equal_student_and_teacher_layers_is_zero() -> None:
    same = Same("glue/rte", layer_weight=1.0)
    logits = quiet(same.student)(**same.inputs)
    assert logits.shape == (3, 5)
    assert logits[:, 2].abs().max() < 1e-9
    with torch.no_grad():
        layers_of(same.student.encoder).layers[0].attention.self.query.weight.add_(0.1)
    assert same.student(**same.inputs)[:, 2].min() > 0


def test_the_layer_loss_compares_states_and_attention_scores() -> None:
    """The reference uses transformers' states, for a student with half of its teacher's layers."""
    same = Same("glue/rte", layer_weight=1.0)
    encoder = load_encoder("builtin:tiny", None, 2)
    keep_layers(encoder, 1)
    encoder.network.config._attn_implementation = "eager"
    student = quiet(same.head.network(encoder, same.task))
    found = student(**same.inputs)[:, 2]

    def states(network: object) -> list[torch.Tensor]:
        return list(network(**same.inputs, output_hidden_states=True).hidden_states)  # type: ignore[operator]

    def scores(network: object, layer: int, below: torch.Tensor) -> torch.Tensor:
        attention = layers_of(network).layers[layer].attention.self  # type: ignore[arg-type]
        query, key = (
            part(below).unflatten(-1, (attention.num_attention_heads, -1)).transpose(1, 2)
            for part in (attention.query, attention.key)
        )
        return query @ key.mT / query.shape[-1] ** 0.5

    with torch.no_grad():
        mine, theirs = states(student.encoder), states(same.network.encoder)
        mask = same.inputs["attention_mask"].bool()
        ours, others = (
            scores(student.encoder, 0, mine[0]),
            scores(same.network.encoder, 1, theirs[1]),
        )
        expected = []
        for row in range(3):
            kept = mask[row]
            parts = [(mine[0] - theirs[0])[row][kept], (mine[1] - theirs[2])[row][kept]]
            attention = (ours - others)[row][:, kept][:, :, kept]
            expected.append(sum(p.square().mean().item() for p in (*parts, attention)))
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


def test_loss_during_the_layer_epochs_is_only_the_layer_loss() -> None:
    """Check also that the loss after the layer epochs has no layer loss."""
    same, targets = Same("glue/rte", layer_weight=2.0, layer_epochs=1.0), torch.tensor([0, 1, 0])
    student = quiet(same.student)
    with torch.no_grad():
        layers_of(student.encoder).layers[0].attention.self.query.weight.add_(0.1)
    same.teacher.turn_to(True)
    logits = student(**same.inputs)
    assert torch.equal(same.head.loss(logits, targets), 2.0 * logits[:, 2])
    same.teacher.turn_to(False)
    logits = student(**same.inputs)
    assert logits.shape == (3, 4)
    only = having(same.recipe, layer_weight=0.0, layer_epochs=0.0)
    plain = with_teacher(
        head_for(same.task),
        Teacher(network=same.network, options=only.added["teacher"]),
        only,
        same.task.head,
    )
    assert torch.equal(same.head.loss(logits, targets), plain.loss(logits, targets))


def test_a_student_with_another_hidden_size_has_a_projection(tmp_path: Path) -> None:
    wide = save_checkpoint(tmp_path / "wide", hidden_size=24)
    teacher, student = plan("glue/rte", teacher=str(wide), layer_weight="1", max_tokens="32")
    run_job(teacher, keep=tmp_path / teacher.key)
    found = run_job(student, teacher=tmp_path / teacher.key)
    fit = 128 * 24 + 24
    own = replace(student, teacher=None, settings=alone(student).settings)
    assert found.cost.parameters == run_job(own).cost.parameters + fit
    assert all(np.isfinite(losses(found)))


def test_student_without_token_types_can_learn_from_a_teacher_with_token_types(
    kept: Path, tmp_path: Path
) -> None:
    checkpoint = save_checkpoint(tmp_path / "student", "distilbert")
    student, folder = taught(kept, "glue/rte", model=str(checkpoint), layers="0")
    assert all(np.isfinite(losses(run_job(student, teacher=folder))))


def test_a_teacher_with_another_tokenizer_is_an_error(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "other")
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    words = list(tokenizer["model"]["vocab"])
    exchanged = dict(zip(words, [*words[:5], *reversed(words[5:])], strict=True))
    tokenizer["model"]["vocab"] = {exchanged[w]: n for w, n in tokenizer["model"]["vocab"].items()}
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    other, pupil = plan("glue/rte", teacher=str(checkpoint), max_tokens="32")
    run_job(other, keep=tmp_path / other.key)
    with pytest.raises(ModelError, match="into different tokens than its student"):
        run_job(pupil, teacher=tmp_path / other.key)
    other, pupil = plan("glue/rte", teacher=str(checkpoint))
    with pytest.raises(ModelError, match="at most 40 tokens, but its student reads 128"):
        run_job(pupil, teacher=_left(other, tmp_path))


def _left(job: Job, folder: Path) -> Path:
    run_job(job, keep=folder / job.key)
    return folder / job.key


# Encoders that keep only some of their layers.


@pytest.mark.parametrize(
    ("wanted", "kept_layers"),
    [(6, [0, 2, 4, 7, 9, 11]), (3, [0, 6, 11]), (1, [0]), (12, [*range(12)]), ("0+2", [0, 2])],
)
def test_layers_kept_by_a_student_are_spaced_as_in_distilbert(
    wanted: int | str, kept_layers: list[int]
) -> None:
    encoder = load_encoder("builtin:tiny", None, 1)
    first = layers_of(encoder.network).layers[0]
    more = (type(first)(encoder.config) for _ in range(11))
    encoder.network.encoder.layer = torch.nn.ModuleList([first, *more])
    before = layers_of(encoder.network).layers
    keep_layers(encoder, wanted)
    found = layers_of(encoder.network).layers
    assert [next(n for n, each in enumerate(before) if each is one) for one in found] == kept_layers
    assert encoder.config.num_hidden_layers == len(kept_layers)


@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "convbert", "distilbert", "electra"])
def test_encoder_of_every_family_can_be_reduced_to_one_layer(tmp_path: Path, family: str) -> None:
    encoder = load_encoder(str(save_checkpoint(tmp_path, family)), None, 1)
    whole = len(layers_of(encoder.network).layers)
    keep_layers(encoder, 1)
    ids = torch.tensor([[2, 7, 8, 3]])
    states = encoder.network(input_ids=ids, attention_mask=torch.ones_like(ids))[0]
    assert states.shape == (1, 4, encoder.config.hidden_size)
    assert whole > len(layers_of(encoder.network).layers) == 1


def test_keeping_layers_that_the_encoder_does_not_have_is_an_error(tmp_path: Path) -> None:
    for wanted in (3, "0+2"):
        with pytest.raises(ModelError, match=r"has only 2 layers .numbers begin at 0"):
            keep_layers(load_encoder("builtin:tiny", None, 1), wanted)
    albert = load_encoder(str(save_checkpoint(tmp_path, "albert")), None, 1)
    with pytest.raises(ModelError, match="this model belongs to the family albert: omit"):
        keep_layers(albert, 1)


@pytest.mark.parametrize("words", ["3", "0+2", "1,3"])
def test_planning_a_student_with_nonexistent_layers_is_an_error(words: str) -> None:
    with pytest.raises(BenchError, match=r"tiny: layers is .*has only 2 layers .numbers begin"):
        plan("glue/rte", layers=words)


@pytest.mark.parametrize("words", ["2+1", "1+1", "x", "-1", "1.5", "1+"])
def test_an_invalid_list_of_layers_is_an_error(words: str) -> None:
    with pytest.raises(BenchError, match="expected a number of layers, or the numbers of"):
        plan("glue/rte", layers=words)
