"""Compare trainings by benchharness and by transformers, step by step (`make parity`).

For every family and head, `run_job` (packed rows, own attention, reduced vocabulary, the last layer
at first tokens only) and the loop of `benchmarks/parity.py` start from the same small random
weights, including the head's, and see the same rows in the same order, without dropout. Their
losses at each of 20 steps, all weights at the end, and their predictions are compared.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from torch import Tensor, nn

from benchharness.extensions.adapters import technique as adapters
from benchharness.extensions.adapters.hyperparameters import ALL_LINEAR
from benchharness.heads.published import SUMMARY, published_names
from benchharness.leaderboard.job import Job
from benchharness.models.families import has_class
from benchharness.progress import Progress
from benchharness.recipes.classes import KINDS, LACKING
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.compute import Compute
from benchharness.worker import task_setup
from benchharness.worker.job import run_job
from benchharness.worker.technique import Prepared, Work
from benchmarks.parity import Loop, collate, decaying, encode, fine_tune, predict
from tests.helpers.families import DECODERS, FAMILIES, make_config, save_family
from tests.helpers.plans import plan_job

__all__ = [
    "CASES",
    "DECODER_CASES",
    "DEVIATIONS",
    "LIMIT",
    "LORA",
    "STILL",
    "VALUES",
    "Certified",
    "Difference",
    "Start",
    "certify",
    "compare",
    "deviations_of",
    "dropout_apart",
    "first_token_apart",
    "still",
    "train_ours",
    "train_theirs",
]

TASKS = {
    "pair": "glue/mrpc",
    "choice": "swag/regular",
    "span": "squad/v1.1",
    "tag": "conll2003/ner",
}
"""Tasks to train on, keyed by head type; their rows are in the packaged data."""

ROWS = 40
"""Number of rows of train and of dev. With batches of 6, an epoch ends with a batch of 4."""

LIMIT = 1e-5
"""Largest relative difference that is allowed in fp32."""

FURTHER = 2.0
"""Largest allowed ratio of benchharness's distance to transformers' distance, where a distance is
the difference of bf16 losses from fp32 losses. With 20 losses each and different rounding, either
side may be nearer by that factor. If fp32 exceeds LIMIT, the same ratio applies to the distances of
fp32 from fp64."""

OTHER_SEEDS = range(2, 9)
"""Seeds to add for a family and head that exceeds FURTHER with its own seed; the results of all
seeds are then pooled. A training of 20 steps is chaotic, but an error would show with every seed.
"""

UNSEEN = 1e-5
"""Largest gradient of an element, as a share of the norm of all gradients, that counts as mere
rounding. A key's bias adds the same to all scores of a softmax, and an option's bias to all
options, so the true gradient of both is zero."""

VALUES = {
    "learning_rate": 1e-3,
    "batch_size": 6,
    "steps": 20,
    "warmup_steps": 4,
    "weight_decay": 0.1,
    # Larger than usual: with a smaller epsilon, a gradient of mere rounding would give a full step.
    "adam_epsilon": 1e-4,
    "max_grad_norm": 1.0,
    "max_tokens": 64,
}

REACH = VALUES["learning_rate"] * VALUES["steps"] / 2
"""Farthest that Adam can move an element in a training: the sum of its learning rates."""

SETTINGS = {
    **{name: str(value) for name, value in VALUES.items()},
    "accumulation": "2",
    "evaluations": "1",
    "adam_beta1": "0.9",
    "adam_beta2": "0.999",
    "schedule": "linear",
    "layer_decay": "1",
    "optimizer": "adamw",
    "early_stopping": "0",
}
OF_HEADS = {
    "pair": {"orders": "given", "lm_weight": "0"},
    "choice": {"lm_weight": "0"},
    # Windows do not overlap, as in run_qa.py if it is called without an overlap.
    "span": {"stride": "128", "answerable_weight": "0", "beam_size": "0"},
    "tag": {},
}
"""Settings that a family's recipe might set to other values."""

STILL = {"dropout": "0", "classifier_dropout": "0"}

LORA = {
    "lora_rank": "4",
    "lora_alpha": "8",
    "lora_dropout": "0",
    "lora_targets": ALL_LINEAR,
}
"""Settings of low-rank adapters, with which each decoder is also trained."""

DECODER_CASES = [
    (family, kind) for family in DECODERS for kind in KINDS if has_class(family, KINDS[kind])
]
CASES = [
    *((family, kind) for family in FAMILIES for kind in KINDS if (family, kind) not in LACKING),
    *DECODER_CASES,
]


# The common start of both sides.


@dataclass(frozen=True, kw_only=True)
class Start:
    """The start of a training, which is the same for benchharness and transformers.

    `ours` is benchharness's network for the job before its training, and `weights` are its weights.
    transformers' network is created from `config` and given the same weights.
    """

    job: Job
    kind: str
    ours: nn.Module
    weights: Mapping[str, Tensor]
    config: Any
    tokenizer: Any

    @classmethod
    def of(
        cls, model: str, kind: str, *, settings: Mapping[str, str] = STILL, **plan: Any
    ) -> "Start":
        """Build the start of a head on a checkpoint; `settings` are added to the common ones."""
        overrides = SETTINGS | OF_HEADS[kind] | settings
        usual = {"limit": ROWS, "precision": "fp32", "start_from": "pretrained"}
        task = plan.pop("task", TASKS[kind])
        return cls.begin(plan_job(model, task, overrides=overrides, **usual | plan), kind)

    @classmethod
    def begin(cls, job: Job, kind: str) -> "Start":
        """Build the start of any job."""
        work = Work.to_predict(job, Compute(device=torch.device("cpu"), precision="fp32"))
        encoder = task_setup.load_pretrained(job, work.recipe)  # draws the job's random numbers
        config = copy.deepcopy(encoder.network.config)
        run = task_setup.load_run(work, encoder)
        network = run.network
        prepared = Prepared(
            setups=run.setups, network=network, rows={}, features={}, limits=run.limits
        )
        for technique in run.techniques:
            technique.on_network(prepared)  # adds adapters, if the job has them
        return cls(
            job=job,
            kind=kind,
            ours=network,
            weights={name: weight.clone() for name, weight in network.state_dict().items()},
            config=config,
            tokenizer=encoder.tokenizer,
        )

    @property
    def labels(self) -> list[str]:
        """Names of the head's outputs, if it has one output per label of the task; else empty."""
        task: Any = find_task(self.job.task)
        return list(task.tags if self.kind == "tag" else getattr(task, "labels", ()))

    def examples(self, split: str) -> Sequence[Any]:
        return read(find_task(self.job.task), split, parse_data("mini"), self.job.limit).examples

    def network(self) -> Any:
        """Build transformers' network with the same weights."""
        config = copy.deepcopy(self.config)
        config.num_labels = {"span": 2, "choice": 1}.get(self.kind, len(self.labels))
        for name, value in SUMMARY.items() if config.model_type == "convbert" else ():
            setattr(config, name, value)
        network = getattr(transformers, f"AutoModelFor{KINDS[self.kind]}").from_config(config)
        if "lora_rank" in self.job.settings:
            network = _with_adapters(network, self.job)
        state = network.state_dict()
        with torch.no_grad():
            for name, their_name in names_of(self.weights, network).items():
                state[their_name].copy_(self.weights[name])
        return network

    def loop(self, **departures: bool) -> Loop:
        """Build the settings of the independent loop from the job's settings."""
        values: dict[str, Any] = {name: self.job.settings[name].value for name in VALUES}
        bf16 = self.job.precision == "bf16"
        known = {"kind": self.kind, "seed": self.job.seed, "bf16": bf16}
        return Loop(**known, epsilon=values.pop("adam_epsilon"), **values, **departures)


TRAINED = ".modules_to_save.default"
"""Part of PEFT's names for the weights of a head; it also keeps a copy of the original head."""


def names_of(weights: Mapping[str, Tensor], theirs: Any) -> dict[str, str]:
    own = {
        name.replace(TRAINED, ""): name
        for name in theirs.state_dict()
        if ".original_module." not in name
    }
    found = published_names(weights, own, theirs.base_model_prefix)
    return {mine: own[name] for mine, name in found.items()}


def _with_adapters(network: Any, job: Job) -> Any:
    """Add PEFT's adapters to all linear layers of a network's layers; its head is trained too."""
    head = [name for name, _ in network.named_children() if name != network.base_model_prefix]
    layers = {
        name.rpartition(".")[2]
        for name, module in network.named_modules()
        if ".layers." in name and isinstance(module, nn.Linear)
    }
    config = LoraConfig(
        r=job.settings["lora_rank"].value,
        lora_alpha=job.settings["lora_alpha"].value,
        target_modules=sorted(layers),
        modules_to_save=[n for n in head if [*network.get_submodule(n).parameters()]],
    )
    made: PeftModel = get_peft_model(network, config)
    return made.get_base_model()


# The two sides, and their difference.


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a training: losses, weights, predictions and their score.

    `weights` and `unseen` are keyed by benchharness's names of the weights. `unseen` are masks of
    the elements whose gradient is mere rounding, not zero as for unused words.
    """

    losses: list[float]
    weights: Mapping[str, Tensor]
    answers: list[Any]
    score: float
    unseen: Mapping[str, Tensor] = field(default_factory=dict)


def train_ours(start: Start, folder: Path) -> Outcome:
    """Train the job with `run_job`, which writes its weights into the folder."""
    losses: list[float] = []

    def report(progress: Progress) -> None:
        if progress.phase == "training":
            losses.append(progress.loss or 0.0)

    adapted: dict[str, Tensor] = {}
    merge = adapters.merge_adapters

    def record(network: Any) -> None:  # before the adapters are merged into the weights
        adapted.update({name: w.clone() for name, w in network.state_dict().items()})
        merge(network)

    with mock.patch.object(adapters, "merge_adapters", record):
        result = run_job(start.job, report, keep=folder)
    encoder = load_file(folder / "model.safetensors")
    weights = {f"encoder.{name}": weight for name, weight in encoder.items()}
    weights |= load_file(folder / "head.safetensors")
    weights = adapted or weights
    column = {"span": "text", "tag": "tags"}.get(start.kind, "scores")
    answers = [row[column] for row in result.evaluations[0].predictions]
    return Outcome(losses=losses, weights=weights, answers=answers, score=_score(start, answers))


def train_theirs(start: Start, *, double: bool = False, **departures: bool) -> Outcome:
    """Train transformers' class with the independent loop; `double` computes in fp64."""
    network, loop = start.network(), start.loop(**departures)
    network = network.double() if double else network
    train, dev = (
        encode(start.examples(split), start.labels, start.tokenizer, loop)
        for split in ("train", "dev")
    )
    losses, gradients = fine_tune(network, train, start.tokenizer, loop)
    answers = predict(network, dev, start.tokenizer, loop)
    if start.kind == "tag":
        answers = [[start.labels[number] for number in row] for row in answers]
    state, names = network.state_dict(), names_of(start.weights, network)
    return Outcome(
        losses=losses,
        weights={name: state[their_name] for name, their_name in names.items()},
        answers=answers,
        score=_score(start, answers),
        unseen={
            name: (gradients[theirs] > 0) & (gradients[theirs] < UNSEEN)
            for name, theirs in names.items()
            if theirs in gradients
        },
    )


def _score(start: Start, answers: Sequence[Any]) -> float:
    """Return the percentage of rows that are predicted correctly, or of words for tags."""
    right: list[bool] = []
    for example, answer in zip(start.examples("dev"), answers, strict=True):
        match start.kind:
            case "pair":
                right.append(start.labels[int(np.argmax(answer))] == example.label)
            case "choice":
                right.append(int(np.argmax(answer)) in example.gold)
            case "span":
                right.append(answer in [text for text, _ in example.answers])
            case _:
                right += [a == b for a, b in zip(answer, example.tags, strict=False)]
    return 100 * fmean(right)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Differences between two trainings, each relative to the second one.

    Attributes:
        losses: The largest difference of a step's loss.
        weights: The largest difference of a weight: the norm of the difference over the norm.
        answers: The largest difference of probabilities, or the share of predictions that differ.
    """

    losses: float
    weights: float
    answers: float

    @property
    def largest(self) -> float:
        return max(self.losses, self.weights, self.answers)


def compare(one: Outcome, other: Outcome) -> Difference:
    ours, theirs = np.array(one.losses), np.array(other.losses)
    weights = [
        _apart(one.weights[name][~unseen], other.weights[name][~unseen])
        for name, unseen in other.unseen.items()
    ]
    return Difference(
        losses=float((np.abs(ours - theirs) / np.abs(theirs)).max()),
        weights=max(weights),
        answers=_other_answers(one.answers, other.answers),
    )


def _apart(one: Tensor, other: Tensor) -> float:
    """Return the norm of the difference, divided by the larger of two norms.

    The first is the weight's norm, and the second is the farthest that training can move it. The
    second is larger for a bias that starts at 0 and hardly moves, because the gradients of a
    question's options nearly cancel (MobileBERT's last layer). Its value is mere rounding.
    """
    size = max(float(other.double().norm()), REACH * other.numel() ** 0.5)
    return float((one.double() - other.double()).norm()) / size if size else 0.0


def _other_answers(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    if isinstance(theirs[0], str):
        return fmean(a != b for a, b in zip(ours, theirs, strict=True))
    if isinstance(theirs[0][0], str):
        return fmean(_begun(a) != _begun(b) for a, b in zip(ours, theirs, strict=True))
    return float(np.abs(np.array(ours) - np.array(theirs)).max())


def _begun(tags: Sequence[str]) -> list[str]:
    """Return tags in which every entity begins with B, as benchharness writes them.

    conlleval also accepts entities that begin with I.
    """
    before = ["O", *tags]
    return [
        f"B{tag[1:]}" if tag[0] == "I" and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags, strict=False)
    ]


# Dropout with different draws, compared by mean and variance.


def dropout_apart(start: Start, draws: int = 300) -> float:
    """Compare the logits of both sides under dropout, and return the larger mean squared z-score.

    The logits of 24 rows are drawn many times. One mean compares the means of the draws, the other
    one their variances; each is about 1 if both sides' dropout is equally distributed. benchharness
    computes packed rows, and transformers padded rows.
    """
    loop = start.loop()
    rows = encode(start.examples("dev")[:24], start.labels, start.tokenizer, loop)
    batch = collate(rows, start.tokenizer, loop)
    batch.pop("labels")
    torch.manual_seed(1)
    ours, theirs = start.ours.train(), start.network().train()
    # Gradients stay on, because without them attention is computed as in prediction.
    one = torch.stack([ours(**batch).detach() for _ in range(draws)])  # [draws, rows, outputs]
    other = torch.stack([theirs(**batch).logits.detach() for _ in range(draws)])
    means = (one.mean(0) - other.mean(0)) / ((one.var(0) + other.var(0)) / draws).sqrt()
    # For normal draws the logarithm of a variance has a variance of 2 / (draws - 1).
    spreads = (one.var(0).log() - other.var(0).log()) / (4 / (draws - 1)) ** 0.5
    return float(max(means.square().mean(), spreads.square().mean()))


def first_token_apart(start: Start, folder: Path) -> tuple[float, float, float]:
    """Measure the effect of computing the last layer at first tokens only.

    Returns the difference from transformers with this shortcut and without it, and the change of
    the score that it makes.
    """
    theirs, own = train_theirs(start), train_ours(start, folder / "first")
    with mock.patch.object(task_setup, "use_first_token"):
        whole = train_ours(start, folder / "whole")
    apart = (compare(each, theirs).largest for each in (own, whole))
    return (*apart, own.score - whole.score)


# Intended differences.


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """An intended difference from transformers, with its reason.

    `applies` returns whether a start has it, and `departs` are the fields of `Loop` with which the
    independent loop reproduces it.
    """

    why: str
    applies: Callable[[Start, Any], bool]
    departs: Mapping[str, bool] = field(default_factory=dict)


DEVIATIONS = {
    "p": Deviation(
        why="the softmax of spans excludes padding, and includes the question for BigBird",
        applies=lambda start, _: start.kind == "span",
        departs={"masks_padding": True},
    ),
    "d": Deviation(
        why="all weights with two dimensions have weight decay, even if they are called bias",
        applies=lambda _, theirs: (
            decaying(theirs, by_shape=True) != decaying(theirs, by_shape=False)
        ),
        departs={"decays_by_shape": True},
    ),
    "w": Deviation(
        why="rows are not padded, but transformers' ConvBERT and Funnel read padding",
        applies=lambda start, _: start.config.model_type in ("convbert", "funnel"),
        departs={"alone": True},
    ),
}


def deviations_of(start: Start) -> list[str]:
    """Return the letters of the deviations that apply to the family and head of a start."""
    theirs = start.network()
    return [letter for letter, each in DEVIATIONS.items() if each.applies(start, theirs)]


def departures_of(letters: Iterable[str]) -> dict[str, bool]:
    """Return the fields of `Loop` by which the independent loop reproduces these deviations."""
    return {name: True for letter in letters for name in DEVIATIONS[letter].departs}


@dataclass(frozen=True, kw_only=True)
class Certified:
    """Result for a family and head.

    Attributes:
        family: The family.
        kind: The head type.
        fp32: The difference of benchharness and transformers in fp32, without the deviations.
        unseen: The share of elements of weights whose gradient is only rounding.
        meant: The effects of each deviation, keyed by its letter: the largest difference of losses
            and weights, and the change of the score in points.
        exact: The distances of benchharness and transformers in fp32 from transformers in fp64;
            measured only if `fp32` is over the limit, to distinguish rounding from an error.
        bf16: The difference of their losses in bf16; None if they were not compared.
        turned: The difference of two runs of the independent loop in bf16, one of which has the
            rows of each batch in reverse order.
        rounded: The distances of benchharness and transformers in bf16 from transformers in fp32.
        seeds: The number of seeds that `rounded` is pooled over.
    """

    family: str
    kind: str
    fp32: Difference
    unseen: float
    meant: Mapping[str, tuple[float, float]]
    exact: tuple[float, float] | None = None
    bf16: float | None = None
    turned: float | None = None
    rounded: tuple[float, float] | None = None
    seeds: int = 1

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Certified":
        """Build the result from the plain data of `asdict`."""
        return cls(**{**record, "fp32": Difference(**record["fp32"])})

    @property
    def holds_in_fp32(self) -> bool:
        """True if the difference in fp32 is within LIMIT or can be explained by rounding.

        It can if benchharness is about as close to fp64 as transformers is.
        """
        is_rounding = self.exact is not None and self.exact[0] <= FURTHER * self.exact[1]
        return self.fp32.largest <= LIMIT or is_rounding

    @property
    def holds(self) -> bool:
        """True if fp32 holds, and benchharness in bf16 is about as close to it as transformers."""
        near = self.rounded is None or self.rounded[0] <= FURTHER * self.rounded[1]
        return self.holds_in_fp32 and near


def certify(
    family: str,
    kind: str,
    folder: Path,
    *,
    bf16: bool = True,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Certified:
    """Compare a family's head with transformers, in a folder that the family's heads may share.

    With the `settings` LORA, adapters are trained, and compared with those of PEFT.
    """
    transformers.logging.disable_progress_bar()
    checkpoint = folder / family
    if not checkpoint.exists():
        save_family(checkpoint, family, **still(family))
    start = Start.of(str(checkpoint), kind, settings={**STILL, **settings})
    letters = deviations_of(start)
    departures = departures_of(letters)
    ours = train_ours(start, folder / kind)
    theirs = train_theirs(start, **departures)
    # Single rows are not compared in bf16: they would be slow, and would be rounded differently.
    is_half = bf16 and not departures.get("alone")
    half = _half(start, folder / f"{kind}-bf16", departures, theirs) if is_half else {}
    meant = {}
    for letter in letters:
        other = train_theirs(start, **departures_of(each for each in letters if each != letter))
        apart = compare(ours, other)
        meant[letter] = max(apart.losses, apart.weights), ours.score - other.score
    apart, exact = compare(ours, theirs), None
    if apart.largest > LIMIT:
        double = train_theirs(start, double=True, **departures)
        exact = compare(ours, double).largest, compare(theirs, double).largest
    return Certified(
        family=family,
        kind=kind,
        fp32=apart,
        exact=exact,
        unseen=float(torch.cat([each.flatten() for each in theirs.unseen.values()]).float().mean()),
        meant=meant,
        **half,
    )


def _half(
    start: Start, folder: Path, departures: Mapping[str, bool], exact: Outcome
) -> dict[str, Any]:
    """Return the results in bf16; none for DeBERTa v1, whose class cannot compute in bf16."""
    if start.config.model_type == "deberta":
        return {}
    half = replace(start, job=replace(start.job, precision="bf16"))
    ours, theirs = train_ours(half, folder), train_theirs(half, **departures)
    turned = train_theirs(half, **departures, turned=True)
    rounded = [(spread(ours, exact), spread(theirs, exact))]
    if rounded[0][0] > FURTHER * rounded[0][1]:
        rounded += [_of_seed(start, seed, folder, departures) for seed in OTHER_SEEDS]
    squares = [fmean(side**2 for side in sides) for sides in zip(*rounded, strict=True)]
    return {
        "bf16": spread(ours, theirs),
        "turned": spread(turned, theirs),
        "rounded": (squares[0] ** 0.5, squares[1] ** 0.5),
        "seeds": len(rounded),
    }


def _of_seed(
    start: Start, seed: int, folder: Path, departures: Mapping[str, bool]
) -> tuple[float, float]:
    """Return the distances of both sides in bf16 from fp32, for another seed."""
    exact = Start.begin(replace(start.job, seed=seed), start.kind)
    half = replace(exact, job=replace(exact.job, precision="bf16"))
    expected = train_theirs(exact, **departures)
    ours = train_ours(half, folder.with_name(f"{folder.name}-{seed}"))
    return spread(ours, expected), spread(train_theirs(half, **departures), expected)


def spread(one: Outcome, other: Outcome) -> float:
    """Return the root mean square of the relative differences of losses."""
    ours, theirs = np.array(one.losses), np.array(other.losses)
    return float(np.sqrt((((ours - theirs) / theirs) ** 2).mean()))


def still(family: str) -> dict[str, float]:
    """Return the dropout rates of a family's config, all set to 0."""
    config = make_config(family).to_dict()
    rates = [name for name, value in config.items() if "drop" in name and isinstance(value, float)]
    return dict.fromkeys([*rates, "classifier_dropout"], 0.0)
