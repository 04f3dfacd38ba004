"""Whether a training of ours does what transformers does, step by step: `make parity`.

For every family and head, `run_job` (packed rows, attention of our own, cut vocabulary, the last
layer at first tokens) and the loop of `benchmarks/parity.py` start from the same small random
weights, the head's too, and see the same rows in the same order, without dropout. Their losses
after each of 20 steps, all weights at the end, and their answers are compared.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor, nn

from benchharness.heads.published import SUMMARY, published_names
from benchharness.leaderboard.job import Job
from benchharness.progress import Progress
from benchharness.recipes.classes import KINDS, LACKING
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.training.compute import Compute
from benchharness.worker import task_setup
from benchharness.worker.job import run_job
from benchharness.worker.technique import Work
from benchmarks.parity import Loop, collate, decaying, encode, fine_tune, predict
from tests.helpers.families import FAMILIES, make_config, save_family
from tests.helpers.plans import plan_job

__all__ = [
    "CASES",
    "DEVIATIONS",
    "LIMIT",
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
"""One of each head, of the embedded data."""

ROWS = 40
"""Of train and of dev. Batches of 6 end an epoch with one of 4."""

LIMIT = 1e-5
"""The largest relative difference in fp32."""

FURTHER = 2.0
"""How many times further from fp32 ours may be in bf16 than transformers' is: of 20 losses each,
whose rounding differs, either may be the nearer one by that much. The same holds in fp32 against
fp64 for a cell over the limit."""

OTHER_SEEDS = range(2, 9)
"""A cell that is further with its own seed is measured with these too, and all count together: one
training of 20 steps is chaotic, and a fault would be there with every seed."""

UNSEEN = 1e-5
"""The largest gradient, as a share of the norm of all, that a number of a weight may have by
rounding alone. A key's bias adds the same to all scores of a softmax, and an option's to all
options: neither has a gradient."""

VALUES = {
    "learning_rate": 1e-3,
    "batch_size": 6,
    "steps": 20,
    "warmup_steps": 4,
    "weight_decay": 0.1,
    # Larger than usual: below it a gradient of rounding alone would be steps as long as any other.
    "adam_epsilon": 1e-4,
    "max_grad_norm": 1.0,
    "max_tokens": 64,
}

REACH = VALUES["learning_rate"] * VALUES["steps"] / 2
"""How far Adam can move a number in a training: the sum of its rates."""

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
    # Windows follow one another, as run_qa.py's do without an overlap.
    "span": {"stride": "128", "answerable_weight": "0", "beam_size": "0"},
    "tag": {},
}
"""What families' recipes would set otherwise."""

STILL = {"dropout": "0", "classifier_dropout": "0"}

CASES = [(family, kind) for family in FAMILIES for kind in KINDS if (family, kind) not in LACKING]


# What both sides begin with.


@dataclass(frozen=True, kw_only=True)
class Start:
    """A job, our network before its first step, its weights, and what transformers needs."""

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
        """The start of a head on a checkpoint; the `settings` are beside those of all."""
        overrides = SETTINGS | OF_HEADS[kind] | settings
        usual = {"limit": ROWS, "precision": "fp32", "start_from": "pretrained"}
        task = plan.pop("task", TASKS[kind])
        return cls.begin(plan_job(model, task, overrides=overrides, **usual | plan), kind)

    @classmethod
    def begin(cls, job: Job, kind: str) -> "Start":
        """The start of any job."""
        work = Work.to_predict(job, Compute(device=torch.device("cpu"), precision="fp32"))
        encoder = task_setup.load_pretrained(job, work.recipe)  # draws as the job itself will
        config = copy.deepcopy(encoder.network.config)
        network = task_setup.load_run(work, encoder).network
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
        """The names of the outputs, where a head has as many as the task has labels."""
        task: Any = find_task(self.job.task)
        return list(task.tags if self.kind == "tag" else getattr(task, "labels", ()))

    def examples(self, split: str) -> Sequence[Any]:
        return read(find_task(self.job.task), split, parse_data("mini"), self.job.limit).examples

    def network(self) -> Any:
        """transformers' class with the same weights."""
        config = copy.deepcopy(self.config)
        config.num_labels = {"span": 2, "choice": 1}.get(self.kind, len(self.labels))
        for name, value in SUMMARY.items() if config.model_type == "convbert" else ():
            setattr(config, name, value)
        network = getattr(transformers, f"AutoModelFor{KINDS[self.kind]}").from_config(config)
        state = network.state_dict()
        with torch.no_grad():
            for name, their_name in names_of(self.weights, network).items():
                state[their_name].copy_(self.weights[name])
        return network

    def loop(self, **departures: bool) -> Loop:
        """The values of the job, as the independent loop takes them."""
        values: dict[str, Any] = {name: self.job.settings[name].value for name in VALUES}
        bf16 = self.job.precision == "bf16"
        known = {"kind": self.kind, "seed": self.job.seed, "bf16": bf16}
        return Loop(**known, epsilon=values.pop("adam_epsilon"), **values, **departures)


def names_of(weights: Mapping[str, Tensor], theirs: Any) -> dict[str, str]:
    return published_names(weights, theirs.state_dict(), theirs.base_model_prefix)


# The two sides, and how far they are apart.


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a training left: losses, weights by our names, answers and their score.

    `unseen` says which numbers of the weights have no gradient but rounding's. Those that have none
    at all, as unused words, are not among them.
    """

    losses: list[float]
    weights: Mapping[str, Tensor]
    answers: list[Any]
    score: float
    unseen: Mapping[str, Tensor] = field(default_factory=dict)


def train_ours(start: Start, folder: Path) -> Outcome:
    """The job, by `run_job`, which leaves its weights in the folder."""
    losses: list[float] = []

    def report(progress: Progress) -> None:
        if progress.phase == "training":
            losses.append(progress.loss or 0.0)

    result = run_job(start.job, report, keep=folder)
    encoder = load_file(folder / "model.safetensors")
    weights = {f"encoder.{name}": weight for name, weight in encoder.items()}
    weights |= load_file(folder / "head.safetensors")
    column = {"span": "text", "tag": "tags"}.get(start.kind, "scores")
    answers = [row[column] for row in result.evaluations[0].predictions]
    return Outcome(losses=losses, weights=weights, answers=answers, score=_score(start, answers))


def train_theirs(start: Start, *, double: bool = False, **departures: bool) -> Outcome:
    """The same by transformers' class and the independent loop; `double` computes it in fp64."""
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
    """The share of right answers in percent: rows, or words that are tagged."""
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
    """How far two trainings are apart, each relative to the second one.

    `losses` is the largest of all steps, `weights` that of all weights (of each the norm of the
    difference over the norm), `answers` the largest of probabilities, or the share of answers that
    are others.
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
    """The norm of the difference over the weight's, or over how far its steps could have gone.

    The latter is more for a bias that starts at 0 and hardly moves, because gradients of a
    question's options nearly cancel (MobileBERT's last layer): what is left of them is rounding.
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
    """Tags whose entities begin with B, as ours are written; conlleval reads both alike."""
    before = ["O", *tags]
    return [
        f"B{tag[1:]}" if tag[0] == "I" and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags, strict=False)
    ]


# Dropout, whose draws differ: its mean and variance.


def dropout_apart(start: Start, draws: int = 300) -> float:
    """How far the logits of 24 rows under dropout are apart: the larger mean of squared z.

    Of the means of many draws, and of their variances; either is about 1 where both sides drop
    alike. The logits of one draw are packed rows of ours and padded ones of transformers.
    """
    loop = start.loop()
    rows = encode(start.examples("dev")[:24], start.labels, start.tokenizer, loop)
    batch = collate(rows, start.tokenizer, loop)
    batch.pop("labels")
    torch.manual_seed(1)
    ours, theirs = start.ours.train(), start.network().train()
    # With gradients: only then is attention computed as in training.
    one = torch.stack([ours(**batch).detach() for _ in range(draws)])  # (draws, rows, outputs)
    other = torch.stack([theirs(**batch).logits.detach() for _ in range(draws)])
    means = (one.mean(0) - other.mean(0)) / ((one.var(0) + other.var(0)) / draws).sqrt()
    # The logarithm of a variance has a variance of 2 / (draws - 1), of normal draws.
    spreads = (one.var(0).log() - other.var(0).log()) / (4 / (draws - 1)) ** 0.5
    return float(max(means.square().mean(), spreads.square().mean()))


def first_token_apart(start: Start, folder: Path) -> tuple[float, float, float]:
    """How far ours is from transformers' with the last layer at first tokens, and without.

    And what that does to the score.
    """
    theirs, own = train_theirs(start), train_ours(start, folder / "first")
    with mock.patch.object(task_setup, "use_first_token"):
        whole = train_ours(start, folder / "whole")
    apart = (compare(each, theirs).largest for each in (own, whole))
    return (*apart, own.score - whole.score)


# Where ours differs on purpose.


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A difference that is meant: `why`, where it is, and how the independent loop takes it over.

    `departs` are the fields of `Loop` that do so.
    """

    why: str
    applies: Callable[[Start, Any], bool]
    departs: Mapping[str, bool] = field(default_factory=dict)


DEVIATIONS = {
    "p": Deviation(
        why="a span's softmax leaves padding out, and has BigBird's question",
        applies=lambda start, _: start.kind == "span",
        departs={"masks_padding": True},
    ),
    "d": Deviation(
        why="all weights of two dimensions decay, even if named bias",
        applies=lambda _, theirs: (
            decaying(theirs, by_shape=True) != decaying(theirs, by_shape=False)
        ),
        departs={"decays_by_shape": True},
    ),
    "w": Deviation(
        why="no row is padded, while ConvBERT and Funnel see padding",
        applies=lambda start, _: start.config.model_type in ("convbert", "funnel"),
        departs={"alone": True},
    ),
}


def deviations_of(start: Start) -> list[str]:
    """The letters of those that a family and head have."""
    theirs = start.network()
    return [letter for letter, each in DEVIATIONS.items() if each.applies(start, theirs)]


def departures_of(letters: Iterable[str]) -> dict[str, bool]:
    """Return the fields of `Loop` by which the independent loop has these deviations too."""
    return {name: True for letter in letters for name in DEVIATIONS[letter].departs}


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What was found of a family and head.

    `fp32` and `bf16` are how far ours and transformers' are apart without the deviations. `exact`
    is how far ours and theirs in fp32 are from theirs in fp64; it is measured where `fp32` is over
    the limit, to tell rounding from a fault. `meant` is how far each deviation takes losses and
    weights, and the score (ours less transformers', in points). `turned` is how far two runs of the
    independent loop are apart in bf16, in one of which the rows of each batch are in the opposite
    order. `rounded` is how far ours in bf16 is from transformers' in fp32, and how far theirs is,
    of so many `seeds`. All of bf16 is None where it is not compared.
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
        """What `asdict` has made plain."""
        return cls(**{**record, "fp32": Difference(**record["fp32"])})

    @property
    def holds_in_fp32(self) -> bool:
        """Whether fp32 is within the limit, or about as near to fp64 as transformers' is."""
        is_rounding = self.exact is not None and self.exact[0] <= FURTHER * self.exact[1]
        return self.fp32.largest <= LIMIT or is_rounding

    @property
    def holds(self) -> bool:
        """Whether fp32 holds, and bf16 is about as near to it as transformers' is."""
        near = self.rounded is None or self.rounded[0] <= FURTHER * self.rounded[1]
        return self.holds_in_fp32 and near


def certify(family: str, kind: str, folder: Path, *, bf16: bool = True) -> Certified:
    """Compares a family's head; the folder is an empty one, or that of its other heads."""
    transformers.logging.disable_progress_bar()
    checkpoint = folder / family
    if not checkpoint.exists():
        save_family(checkpoint, family, **still(family))
    start = Start.of(str(checkpoint), kind)
    letters = deviations_of(start)
    departures = departures_of(letters)
    ours = train_ours(start, folder / kind)
    theirs = train_theirs(start, **departures)
    # Rows that are computed one by one would be slow in bf16, and their rounding another one's.
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
    """What is said of bf16; nothing of DeBERTa v1, whose class cannot compute it."""
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
    """How far ours and transformers' in bf16 are from fp32 with another head, order and seed."""
    exact = Start.begin(replace(start.job, seed=seed), start.kind)
    half = replace(exact, job=replace(exact.job, precision="bf16"))
    expected = train_theirs(exact, **departures)
    ours = train_ours(half, folder.with_name(f"{folder.name}-{seed}"))
    return spread(ours, expected), spread(train_theirs(half, **departures), expected)


def spread(one: Outcome, other: Outcome) -> float:
    """The root mean square of the relative differences of losses."""
    ours, theirs = np.array(one.losses), np.array(other.losses)
    return float(np.sqrt((((ours - theirs) / theirs) ** 2).mean()))


def still(family: str) -> dict[str, float]:
    """The rates of a family's config, all at 0."""
    config = make_config(family).to_dict()
    rates = [name for name, value in config.items() if "drop" in name and isinstance(value, float)]
    return dict.fromkeys([*rates, "classifier_dropout"], 0.0)
