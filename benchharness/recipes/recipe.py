"""Hyperparameters of a fine-tuning run, in groups, with their meaning and valid values.

Each hyperparameter is declared once, with its range, the names that other tools have for it, and
the settings that it needs or excludes. A job has only the hyperparameters that its head, its
encoder and its technique use. A hyperparameter that does not apply is absent from the job's
settings, and thus from its key. A group is None if none of its hyperparameters applies.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, get_args, get_type_hints

from benchharness.discovery import member, places
from benchharness.errors import BenchError, ModelError, unknown_name
from benchharness.hyperparameter import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_NONE,
    FACTOR,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Facts,
    Rule,
    as_number,
    count,
    hyperparameter,
    one_of,
)
from benchharness.leaderboard.job import Setting
from benchharness.leaderboard.text import counted

FINE_TUNED = "fine-tuned"
FEATURES = (
    FINE_TUNED,
    "embeddings",
    "last",
    "second-to-last",
    "sum-last-4",
    "concat-last-4",
    "sum-all",
    "mix",
)
"""Input of the head: the last layer of the fine-tuned encoder, or layers of a frozen encoder."""

EACH = "each"
"""Value of `features` that stands for the embeddings and every layer; a head is trained on each."""

LAYER = "layer-"
"""Prefix of the names of single frozen layers; layer-1 is the layer above the embeddings."""

GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS = "given", "both", "added"

LINEAR = "linear"
SCHEDULES = (LINEAR, "cosine", "constant", "polynomial", "slanted-triangular")
"""Names of learning rate schedules after the warm-up; the formulas are in training/optimizer.py."""

SENTENCE, DOCUMENT = "sentence", "document"
"""Input of an encoder for tagging: a sentence alone, or the sentence within its document."""

ADAMW, ADAFACTOR = "adamw", "adafactor"

ON_DEV = "dev"
_HELD_OUT = "train:"
"""Values of `select_on`, which names the rows that are evaluated during training: "dev", or
"train:SHARE" for a held-out part of train."""

MAX_ANSWER_TOKENS = 30
"""Length of the longest answer in tokens (--max_answer_length in google-research/bert
run_squad.py)."""

AND = "+"
"""Separator of the numbers of kept layers. It is not a comma, because commas separate the values of
a grid."""


def least_layers(features: str) -> int:
    """Return how many layers an encoder must have for a value of `features`."""
    number = features.removeprefix(LAYER)
    if number != features:
        return int(number) if number.isdecimal() else 0
    return {"second-to-last": 2, "sum-last-4": 4, "concat-last-4": 4}.get(features, 0)


def kept_layers(wanted: int | str, count: int) -> list[int]:
    """Return the numbers of the layers that an encoder of `count` layers keeps, in ascending order.

    Args:
        wanted: How many layers to keep, spread evenly from the first to the last, as in
            transformers' distillation/scripts/extract_distilbert.py (0, 2, 4, 7, 9 and 11 of 12);
            or the numbers of the layers to keep, as in "0+2+4"; or 0 for all layers.
        count: How many layers the encoder has.

    Raises:
        ModelError: The encoder has too few layers.
    """
    if not wanted:
        return [*range(count)]
    if isinstance(wanted, str):
        kept = [int(number) for number in wanted.split(AND)]
    else:
        last = (count - 1) / max(1, wanted - 1)  # distance between consecutive kept layers
        kept = [round(number * last) for number in range(wanted)]
    if len(kept) > count or kept[-1] >= count:
        raise ModelError(
            f"layers is {wanted}, but this encoder has only {counted(count, 'layer')} (numbers "
            "begin at 0): keep fewer, or remove this setting."
        )
    return kept


def _read_features(value: object) -> str | None:
    """Parse a value of `features`, and normalize a layer number in it; return None if invalid."""
    word = str(value)
    number = word.removeprefix(LAYER)
    if word != number and number.isdecimal() and int(number) > 0:
        return f"{LAYER}{int(number)}"  # layer-07 becomes layer-7
    return word if word in FEATURES else None


def _read_rows(value: object) -> str | None:
    """Parse "dev" or "train:SHARE", and normalize the share; return None if invalid."""
    text = str(value)
    share = as_number(text.removeprefix(_HELD_OUT))
    if text == ON_DEV:
        return text
    if not text.startswith(_HELD_OUT) or share is None or not 0 < share < 1:
        return None
    return f"{_HELD_OUT}{share}"  # 0.10 becomes 0.1


def _read_layers(value: object) -> int | str | None:
    """Parse a number of layers (0: all) or a list of layers ("0+2+4"); return None if invalid."""
    number = as_number(value)
    if number is not None:
        return int(number) if number >= 0 and number.is_integer() else None
    words = str(value).split(AND)
    if len(words) < 2 or not all(word.strip().isdecimal() for word in words):
        return None
    named = [int(word) for word in words]
    return AND.join(map(str, named)) if named == sorted(set(named)) else None  # no duplicates


_ROOM = count(6)  # four special tokens (RoBERTa, for a pair) and one token per text
_TARGETS = count(3)  # the start token (in BART), one answer token, and the end token

_FROZEN = "freezes the encoder"
_WHOLE = "trains the whole encoder and decoder"
_ENDS = "selects the final weights in another way"


@dataclass(frozen=True, kw_only=True)
class Optim:
    """Hyperparameters of the optimizer's step.

    `batch_size` is the number of examples per optimizer step. These are processed in `accumulation`
    micro-batches, which does not change the result. `max_grad_norm` is infinite if gradients are
    not clipped. In settings it is then 0, as in fairseq, because JSON has no infinity. If
    `head_learning_rate` is given, it is the learning rate of the head.

    A step subtracts from each weight of two or more dimensions the fraction `weight_decay` times
    its learning rate, as in torch's AdamW. If `decoupled_weight_decay` is above 0, it is used
    instead: a step at the full learning rate subtracts this fraction, as in Composer's
    DecoupledAdamW. Both fractions fall with the schedule. At a learning rate of 5e-5, a
    `weight_decay` of 0.1 equals a `decoupled_weight_decay` of 5e-6.

    If `optimizer` is "adafactor", an update is divided by the root of a factored mean of squared
    gradients and scaled by the size of the weight (Shazeer and Stern, arXiv:1804.04235, as in T5,
    without momentum). Adam's three values do not apply to it.

    If `deterministic` is true, a GPU uses slower kernels that give the same bits each time. Kernels
    on a CPU always do so. If `activation_checkpointing` is true, layers keep only their input and
    recompute their activations in the backward pass. The result is the same, with a fraction of the
    memory but 20 to 33 % more time.
    """

    learning_rate: float = hyperparameter(POSITIVE, aliases="lr")
    batch_size: int = hyperparameter(
        COUNT, aliases="bs per_device_train_batch_size train_batch_size"
    )
    accumulation: int = hyperparameter(COUNT, aliases="gradient_accumulation_steps")
    weight_decay: float = hyperparameter(NOT_NEGATIVE, aliases="wd")
    max_grad_norm: float = hyperparameter(NOT_NEGATIVE, aliases="clip grad_clip")
    decoupled_weight_decay: float = hyperparameter(BELOW_ONE, 0.0, instead_of="weight_decay")
    head_learning_rate: float | None = hyperparameter(POSITIVE, None, unless="features")
    optimizer: str = hyperparameter(one_of(ADAMW, ADAFACTOR), ADAMW, aliases="optim")
    deterministic: bool = hyperparameter(FLAG, False)
    activation_checkpointing: bool = hyperparameter(
        FLAG, False, unless="features", aliases="gradient_checkpointing checkpointing"
    )


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Hyperparameters of AdamW's moments."""

    unless: ClassVar = ("optimizer",)
    adam_beta1: float = hyperparameter(BELOW_ONE)
    adam_beta2: float = hyperparameter(BELOW_ONE)
    adam_epsilon: float = hyperparameter(POSITIVE, aliases="adam_eps eps")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Length of the training, and schedule of its learning rate.

    `steps`, if above 0, is the number of optimizer steps and replaces `epochs`. `warmup_ratio` is
    the share of all steps in which the learning rate rises linearly. `warmup_steps`, if above 0, is
    the number of these steps and replaces `warmup_ratio`. After the warm-up the rate falls
    according to `schedule`; `schedule_power` is the power of the schedule "polynomial".
    """

    epochs: float = hyperparameter(POSITIVE, aliases="num_train_epochs num_epochs")
    warmup_ratio: float = hyperparameter(SHARE, aliases="warmup")
    schedule: str = hyperparameter(one_of(*SCHEDULES), LINEAR)
    schedule_power: float = hyperparameter(POSITIVE, 1.0, needs="schedule=polynomial")
    warmup_steps: int = hyperparameter(COUNT_OR_NONE, 0, instead_of="warmup_ratio")
    steps: int = hyperparameter(
        COUNT_OR_NONE, 0, instead_of="epochs", aliases="max_steps train_steps"
    )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Maximum length of the inputs, and choice of the training rows.

    `max_tokens` is the maximum length of an encoded example. If `shots` is above 0, the training
    uses about that number of train rows. They are drawn with the seed, and the labels keep their
    original proportions. For a multilingual task, `train_languages` ("de", "de+fr", "all") replaces
    English as the training language.

    `sampling_power` applies only to tasks that are trained together: each step draws a task with a
    probability proportional to the task's number of examples to that power. If it is None, an epoch
    uses each batch of each task once, in random order.
    """

    max_tokens: int = hyperparameter(_ROOM, aliases="max_seq_length max_length")
    shots: int = hyperparameter(COUNT_OR_NONE, 0)
    train_languages: str = hyperparameter(Rule(lambda value: str(value).lower(), "languages"), "")
    sampling_power: float | None = hyperparameter(NOT_NEGATIVE, None, needs="together")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choice of the final weights of a run; by default, they are the weights of the last step.

    `evaluations` is the number of evaluations, which are evenly spaced; the last one is at the end.
    If `best_checkpoint` is true, the run ends with the weights of the evaluation with the best
    headline score (the first one if several are equal). If `average_last` is above 1, it ends with
    the mean of the weights at its last `average_last` evaluations. `early_stopping`, if above 0,
    ends the training after that number of consecutive evaluations without an improvement.
    `select_on` names the rows of these evaluations: dev, or "train:0.1", a tenth of train that is
    held out from training. In the latter case, dev is scored once, with the final weights.
    """

    evaluations: int = hyperparameter(COUNT)
    best_checkpoint: bool = hyperparameter(FLAG, False)
    early_stopping: int = hyperparameter(COUNT_OR_NONE, 0)
    average_last: int = hyperparameter(
        COUNT, 1, excludes={"best_checkpoint": _ENDS, "early_stopping": _ENDS}
    )
    select_on: str = hyperparameter(
        Rule(_read_rows, "dev, or train:SHARE with a share between 0 and 1, as in train:0.1"),
        ON_DEV,
    )

    @property
    def held_out(self) -> float:
        """Share of train that is held out for evaluations during training; 0 if these use dev."""
        return 0.0 if self.select_on == ON_DEV else float(self.select_on.removeprefix(_HELD_OUT))


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Options for the encoder: its layers, which of them are trained, and the input of the head.

    `dropout` is the rate in the encoder and `classifier_dropout` the rate before the classifier;
    None keeps the checkpoint's rates. `layers` above 0 keeps that number of the encoder's layers,
    evenly spaced; "0+2+4" names the layers to keep.

    `features` selects the states that the head reads; all values except "fine-tuned" freeze the
    encoder. If `unfreeze` is "gradual", the first epoch trains the head alone, and every further
    epoch trains one more layer. The learning rate is multiplied by `layer_decay` from each layer to
    the layer below. The top layer counts as `top_layer_depth` layers below the head.
    """

    dropout: float | None = hyperparameter(
        BELOW_ONE, None, unless="features", aliases="hidden_dropout_prob"
    )
    classifier_dropout: float | None = hyperparameter(BELOW_ONE, None, unless="as_text")
    features: str = hyperparameter(
        Rule(
            _read_features,
            f"one of: {', '.join(FEATURES)}, {LAYER}N with N from 1, or {EACH} for every layer",
            FEATURES,
        ),
        FINE_TUNED,
        excludes={"as_text": _WHOLE},
    )
    unfreeze: str = hyperparameter(
        one_of("all", "gradual"), "all", excludes={"features": _FROZEN, "as_text": _WHOLE}
    )
    layer_decay: float = hyperparameter(
        FACTOR,
        1.0,
        unless="features",
        excludes={"as_text": _WHOLE},
        aliases="layerwise_learning_rate_decay llrd",
    )
    top_layer_depth: int = hyperparameter(COUNT_OR_NONE, 2, needs="layer_decay", unless="features")
    layers: int | str = hyperparameter(
        Rule(
            _read_layers, "a number of layers, or the numbers of layers to keep (from 0), as 0+2+4"
        ),
        0,
        aliases="num_hidden_layers",
    )

    @property
    def is_frozen(self) -> bool:
        """True if only the head is trained, on states of a frozen encoder."""
        return self.features != FINE_TUNED


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Options for pairs of texts, and for multiple choice.

    `orders` is for pairs whose order has no meaning. If it is "both", the training uses each pair
    in both orders, so an epoch has twice as many rows. If it is "added", the encoder reads both
    orders, and their states are added before the classifier. For causal models, the mean language
    model loss on the same texts is added to the head's loss with the weight `lm_weight`.
    """

    heads: ClassVar = ("pair", "choice")
    unless: ClassVar = ("as_text",)
    orders: str = hyperparameter(
        one_of(GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS),
        GIVEN_ORDER,
        heads=("pair",),
    )
    lm_weight: float = hyperparameter(NOT_NEGATIVE, 0.0, unless="features")


@dataclass(frozen=True, kw_only=True)
class SpanOptions:
    """Options for answers in a context, which is split into windows: one every `stride` tokens.

    Each window has at most `max_question_tokens` tokens of the question. If `answerable_weight` is
    above 0, the loss of a "no answer" classifier is added with that weight, and the classifier's
    logit is the no-answer score. If `beam_size` is above 0, an answer's last token is predicted
    given its first token; prediction does this for each of the best `beam_size` first tokens. An
    answer has at most `max_answer_tokens` tokens.
    """

    heads: ClassVar = ("span",)
    unless: ClassVar = ("as_text",)
    stride: int = hyperparameter(COUNT, 128, stated=True, aliases="doc_stride")
    max_question_tokens: int = hyperparameter(COUNT, 64, stated=True, aliases="max_query_length")
    answerable_weight: float = hyperparameter(NOT_NEGATIVE, 0.0)
    beam_size: int = hyperparameter(COUNT_OR_NONE, 0)
    max_answer_tokens: int = hyperparameter(COUNT, MAX_ANSWER_TOKENS, aliases="max_answer_length")


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """Options for tagging words.

    If `lstm_size` is above 0, a bidirectional LSTM between a frozen encoder and the classifier
    reads the encoder's states. It has two layers, with that number of units in each direction. If
    `context` is "document", the encoder reads as much of the document around a sentence as
    `max_tokens` allows, but only the sentence's own words are trained on and predicted.
    """

    heads: ClassVar = ("tag",)
    lstm_size: int = hyperparameter(COUNT_OR_NONE, 0)
    context: str = hyperparameter(one_of(SENTENCE, DOCUMENT), SENTENCE)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options for text-to-text, in which an encoder-decoder reads one text and generates another.

    If `as_text` is true, answers are generated in this way, with at most `max_target_tokens`
    tokens. Settings that only other heads use are left out.
    """

    as_text: bool = hyperparameter(FLAG, False)
    max_target_tokens: int | None = hyperparameter(
        _TARGETS, None, needs="as_text", aliases="max_target_length"
    )


@dataclass(frozen=True, kw_only=True)
class StudentOptions:
    """Options for distillation: the losses with which a student learns from its teacher.

    The loss is (1 - `teacher_weight`) times the task's loss, plus `teacher_weight` times the loss
    on the teacher's outputs at the `temperature`, plus `layer_weight` times the loss on the
    teacher's states and attention (heads/teacher.py). If `layer_epochs` is above 0, there are two
    stages. The first stage trains for `layer_epochs` with the loss on layers alone, at a constant
    learning rate (`layer_learning_rate`, if set). The second stage trains for `epochs` with the
    other losses and new optimizer moments. If `from_teacher` is true, the student begins with its
    teacher's weights.
    """

    needs: ClassVar = "teacher"
    teacher_weight: float | None = hyperparameter(SHARE, None, aliases="alpha_ce")
    temperature: float | None = hyperparameter(POSITIVE, None)
    layer_weight: float = hyperparameter(NOT_NEGATIVE, 0.0)
    layer_epochs: float = hyperparameter(NOT_NEGATIVE, 0.0)
    layer_learning_rate: float | None = hyperparameter(POSITIVE, None)
    from_teacher: bool = hyperparameter(FLAG, False)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Hyperparameters of a training, which with model, data and seed determine its result.

    The groups for Adam, heads and techniques are None if a job uses none of their hyperparameters.
    `added` contains the groups that extensions define, keyed by head type.
    """

    optim: Optim
    schedule: Schedule
    rows: Rows
    selection: Selection
    encoder: EncoderOptions
    adam: Adam | None = None
    pair: PairOptions | None = None
    span: SpanOptions | None = None
    tag: TagOptions | None = None
    text: TextOptions | None = None
    student: StudentOptions | None = None
    added: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Recipe":
        """Build a recipe from values that are keyed by hyperparameter."""
        found: dict[str, Any] = {}
        for name, kind in _GROUPS.items():
            own = {each: values[each] for each in _names(kind) if each in values}
            if own or name in _NEEDED:
                found[name] = kind(**own)
        added = {name: found.pop(name) for name in _ADDED if name in found}
        return cls(**found, added=added)

    @classmethod
    def untrained(cls, values: Mapping[str, Any]) -> "Recipe":
        """Build the recipe of a job without training; values that only training needs are 0."""
        needed = [each for name in _NEEDED for each in _names(_GROUPS[name])]
        needed = [name for name in needed if SETTINGS[name].default is MISSING]
        return cls.of({**dict.fromkeys(needed, 0), **values})

    def of_head(self, head: str) -> Any:
        """Return the group of options for a head type; None if the job has no such options."""
        groups: dict[str, Any] = {
            **self.added,
            **dict.fromkeys(PairOptions.heads, self.pair),
            "span": self.span,
            "tag": self.tag,
        }
        return groups.get(head)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """Build the recipe from a job's resolved settings."""
        values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
        return cls.of(values | {"max_grad_norm": values["max_grad_norm"] or math.inf})


_ADDED: Mapping[str, type] = {
    head: member(f"the hyperparameters of the head type {head}", place)
    for head, place in places("hyperparameters").items()
}
"""Classes of the groups that extensions define, keyed by head type."""

_GROUPS: Mapping[str, type] = {
    name: (get_args(kind) or (kind,))[0]
    for name, kind in get_type_hints(Recipe).items()
    if name != "added"
} | {**_ADDED}
"""Classes of the groups, keyed by the field names of Recipe, or by head type."""

_NEEDED = tuple(
    each.name
    for each in fields(Recipe)
    if each.default is MISSING and each.default_factory is MISSING
)
"""Names of the groups that every recipe has."""


def _names(group: type) -> list[str]:
    return [field.name for field in fields(group)]


def _facts(group: Any, known: Facts) -> Facts:
    """Return the metadata of a hyperparameter, completed with the class variables of its group."""
    return replace(
        known,
        heads=known.heads or getattr(group, "heads", ()),
        unless=(*known.unless, *getattr(group, "unless", ())),
        needs=known.needs or getattr(group, "needs", ""),
    )


SETTINGS: Mapping[str, Facts] = {
    field.name: _facts(group, field.metadata["facts"])
    for group in _GROUPS.values()
    for field in fields(group)
}
"""Metadata of all hyperparameters, keyed by name, in display order."""

DISTILLATION = tuple(_names(StudentOptions))
"""Names of hyperparameters that have no effect without a teacher."""

TEACHER = "teacher"
"""Name of the technique distillation, which `Facts.needs` may contain. The other technique is
TOGETHER, which is multi-task training."""


def check_setting(name: str, setting: Setting) -> Setting:
    """Check a setting, and return it with its value converted to the hyperparameter's type.

    Values that are strings are parsed, so that `--set epochs=3` and `epochs = 3` in a file give the
    same job key.

    Raises:
        BenchError: The name is unknown, or the value has another type or is out of range.
    """
    if name not in SETTINGS:
        aliases = {alias: known for known, facts in SETTINGS.items() for alias in facts.aliases}
        raise unknown_name("hyperparameter", name, [*SETTINGS], other_names=aliases)
    rule = SETTINGS[name].rule
    value = rule.read(setting.value)
    if value is None:
        raise BenchError(
            f"{name} is {setting.value!r} ({setting.source}), expected {rule.expected}."
        )
    return replace(setting, value=value)


def is_default(name: str, setting: Setting) -> bool:
    """Return whether a setting has its default value and can be omitted from a job."""
    facts = SETTINGS[name]
    return not facts.stated and bool(setting.value == facts.default)


_OFF: Mapping[str, Any] = {"max_grad_norm": 0, "layer_decay": 1}
"""Values that switch off a setting; they are displayed as "off"."""

_UNSET = {
    "dropout": "the checkpoint's",
    "classifier_dropout": "the checkpoint's",
    "layers": "all",
    "start_from": "pretrained",
}
"""Texts to display instead of the default value, keyed by setting, where that value would be
unclear."""


def shown_value(name: str, setting: Setting | None) -> Any:
    """Return a setting's value for display, or a word such as "off" or "all" if it is not set."""
    facts = SETTINGS.get(name)  # None for "start_from"
    default = facts.default if facts and facts.default is not MISSING else None
    value = setting.value if setting else default
    if name in _OFF and value == _OFF[name]:
        return "off"
    if setting or isinstance(value, str | bool):
        return value
    return _UNSET.get(name) or ("none" if value is None else "off" if value == 0 else value)


def applying(
    settings: Mapping[str, Setting], heads: Collection[str], techniques: Collection[str]
) -> dict[str, Setting]:
    """Return the settings that the result of a job depends on.

    If a quantity is set in one of two units, such as steps instead of epochs, the setting in the
    other unit is set to 0.

    Args:
        settings: All checked settings.
        heads: The head types of the job's tasks.
        techniques: The techniques of the job: "together", "teacher" or both.
    """
    on = {name: setting for name, setting in settings.items() if not is_default(name, setting)}
    for name in [*on]:
        if usual := SETTINGS[name].instead_of:
            on[usual] = Setting(value=0.0, source=f"{name} is in its place")
    found = {name: on[name] for name in on if _applies(name, on, heads, techniques)}
    if "evaluations" in found and found["evaluations"].value == 1:
        found.pop("best_checkpoint", None)  # a single evaluation is always the best
    if "features" in found and "orders" in found and found["orders"].value == ADDED_ORDERS:
        found.pop("orders")  # frozen states are computed in the given order only
    return found


def _applies(
    name: str, on: Mapping[str, Setting], heads: Collection[str], techniques: Collection[str]
) -> bool:
    facts = SETTINGS[name]
    # `needs` may be a setting that must be on ("layer_decay"), a setting with a required value
    # ("schedule=polynomial"), or a required technique ("teacher" or "together").
    needed, _, value = facts.needs.partition("=")
    if facts.heads and not {*facts.heads} & {*heads}:
        return False
    if needed and needed not in {*on, *techniques}:
        return False
    return not (value and on[needed].value != value) and not on.keys() & {*facts.unless}


def clashes(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Yield a message for each setting that contradicts another setting."""
    on = {name: setting for name, setting in settings.items() if not is_default(name, setting)}

    def said(name: str) -> str:
        return f"{name} is {on[name].value!r} ({on[name].source})"

    pairs = ((name, *each) for name in on for each in SETTINGS[name].excludes.items())
    for name, other, effect in pairs:
        if other in on:
            yield f"{said(name)}, but {said(other)}, which {effect}: use only one of them."
    for name, bound, gap, advice in _BOUNDS:
        if {name, bound} <= on.keys() and int(on[name].value) + gap > int(on[bound].value):
            yield f"{said(name)}, but {said(bound)}: {advice}."
    for name, (holds, advice) in _CONDITIONS.items():
        if name in on and not holds(on):
            yield f"{said(name)}, but {advice}."


def _chooses(on: Mapping[str, Setting]) -> bool:
    several = "evaluations" not in on or on["evaluations"].value != 1
    return several and bool({"best_checkpoint", "early_stopping"} & on.keys())


_FREE_LSTM = "an LSTM needs a frozen encoder, so add features=last or remove lstm_size"
_NO_CHOICE = (
    "the run does not select among evaluations: add best_checkpoint=true or early_stopping, and "
    "use several evaluations"
)
_CONDITIONS: Mapping[str, tuple[Callable[[Mapping[str, Setting]], bool], str]] = {
    "lstm_size": (lambda on: "features" in on, _FREE_LSTM),
    "select_on": (_chooses, _NO_CHOICE),
}
"""Conditions under which a setting may be on, keyed by setting, each with advice for the error
message."""

_BOUNDS = (
    ("accumulation", "batch_size", 0, "a batch cannot have more micro-batches than examples"),
    ("early_stopping", "evaluations", 1, "early stopping needs more evaluations than it waits for"),
    ("average_last", "evaluations", 0, "weights are averaged over evaluations, so use more"),
)
"""Settings whose value must not exceed that of another setting: the setting, the other setting, the
smallest allowed difference, and advice for the error message."""
