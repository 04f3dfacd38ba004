"""Hyperparameters of a fine-tuning run, in groups, with their meaning and valid values.

Each hyperparameter is declared once, with its range, the names that other tools have for it, and
the settings that it needs or excludes. A job has only the hyperparameters that its head, its
encoder and its technique use. A hyperparameter that does not apply is absent from the job's
settings, and thus from its key. A group is None if none of its hyperparameters applies.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from benchharness.leaderboard.job import TEACHER, Setting
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
"""Values of `features`, which selects the input of a model head.

"fine-tuned" selects the last layer of an encoder that is trained with the head. All other values
freeze the encoder, and select the embeddings, one layer, or the sum or concatenation of several
layers; "sum-all" sums all layers without the embeddings. "mix" is a learned weighted mean of the
embeddings and all layers.
"""

EACH = "each"
"""Value of `features` that stands for several runs: a head is trained on the embeddings and on the
output of every layer."""

LAYER = "layer-"
"""Prefix of values of `features` that select a single layer of a frozen encoder, e.g. "layer-1".

The layer above the embeddings has the number 1.
"""

GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS = "given", "both", "added"

LINEAR = "linear"
SCHEDULES = (LINEAR, "cosine", "constant", "polynomial", "slanted-triangular")
"""Names of learning rate schedules after the warm-up; the formulas are in training/optimizer.py."""

SENTENCE, DOCUMENT = "sentence", "document"
"""Values of `context`: for tagging, the input of the encoder is a sentence alone, or the sentence
within its document."""

ADAMW, ADAFACTOR = "adamw", "adafactor"

ON_DEV = "dev"
_HELD_OUT = "train:"
"""Values of `select_on`, which names the rows that are evaluated during training: "dev", or
"train:SHARE" for a held-out part of train."""

MAX_ANSWER_TOKENS = 30
"""Default for the maximum length of an answer in tokens (--max_answer_length in run_squad.py of
google-research/bert)."""

AND = "+"
"""Separator of layer numbers in a value of `layers`, e.g. "0+2+4".

It is not a comma, because commas separate the values of a grid.
"""


def least_layers(features: str) -> int:
    """Return the minimum number of layers that an encoder must have for a value of `features`.

    The result is 0 for values that suit every encoder.
    """
    number = features.removeprefix(LAYER)
    if number != features:
        return int(number) if number.isdecimal() else 0
    return {"second-to-last": 2, "sum-last-4": 4, "concat-last-4": 4}.get(features, 0)


def kept_layers(wanted: int | str, count: int) -> list[int]:
    """Return the numbers (from 0) of the layers that an encoder keeps, in ascending order.

    Args:
        wanted: Value of the hyperparameter `layers`. An integer is the number of layers to keep,
            spread evenly from the first to the last, as in transformers'
            distillation/scripts/extract_distilbert.py (0, 2, 4, 7, 9 and 11 of 12 layers); 0 keeps
            all layers. A text contains the numbers of the layers to keep, e.g. "0+2+4".
        count: Number of layers of the encoder.

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
    return AND.join(map(str, named)) if named == sorted(set(named)) else None


_ROOM = count(6)  # four special tokens (RoBERTa, for a pair) and one token per text

_FROZEN = "freezes the encoder"
_WHOLE = "trains the whole encoder and decoder"
_ENDS = "selects the final weights in another way"


@dataclass(frozen=True, kw_only=True)
class Optim:
    """Hyperparameters of the optimizer and its steps.

    Attributes:
        learning_rate: Maximum learning rate of the schedule.
        batch_size: Number of examples per optimizer step.
        accumulation: Number of micro-batches in which a batch is processed. It affects the memory,
            but not the result.
        weight_decay: Weight decay as in torch's AdamW: each step subtracts from a weight the
            fraction `weight_decay` times the current learning rate. Weight tensors with only one
            dimension do not decay.
        max_grad_norm: Maximum norm of the gradients, to which larger gradients are scaled down;
            infinity for no limit. In settings, infinity is written as 0, as in fairseq, because
            JSON has no infinity.
        decoupled_weight_decay: Weight decay as in Composer's DecoupledAdamW, which replaces
            `weight_decay` if it is above 0: a step at the maximum learning rate subtracts this
            fraction, and the fraction follows the schedule of the learning rate. At a maximum
            learning rate of 5e-5, 5e-6 equals a `weight_decay` of 0.1.
        head_learning_rate: Maximum learning rate of the head; None for the same as the encoder's.
        optimizer: "adamw" or "adafactor". Adafactor divides an update by the root of a factored
            mean of squared gradients, and scales it by the size of the weight (Shazeer and Stern,
            arXiv:1804.04235), without momentum, as in T5. The group `Adam` does not apply to it.
        deterministic: True to use slower GPU kernels that give the same bits in each run. CPU
            kernels always do so.
        activation_checkpointing: True to store only the inputs of layers, and to compute their
            activations again in the backward pass. The result is the same; training needs a
            fraction of the memory, and 20 to 33 % more time.
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
    """Hyperparameters of AdamW's moments; Adafactor does not have them.

    Attributes:
        adam_beta1: Decay rate of the first moment, the mean of gradients.
        adam_beta2: Decay rate of the second moment, the mean of squared gradients.
        adam_epsilon: Number that is added to the denominator of an update.
    """

    unless: ClassVar = ("optimizer",)
    adam_beta1: float = hyperparameter(BELOW_ONE)
    adam_beta2: float = hyperparameter(BELOW_ONE)
    adam_epsilon: float = hyperparameter(POSITIVE, aliases="adam_eps eps")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Hyperparameters for the length of the training and the schedule of the learning rate.

    Attributes:
        epochs: Number of passes over the training examples, which may be a fraction.
        warmup_ratio: Fraction of the steps in which the learning rate rises linearly (warm-up).
        schedule: Name of the schedule of the learning rate after the warm-up (see `SCHEDULES`).
        schedule_power: Power of the schedule "polynomial".
        warmup_steps: Number of steps of the warm-up, which replaces `warmup_ratio` if above 0.
        steps: Number of optimizer steps, which replaces `epochs` if above 0.
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
    """Hyperparameters for the length of inputs and the choice of training rows.

    Attributes:
        max_tokens: Maximum number of tokens of an encoded example.
        shots: Approximate number of train rows to use, drawn with the seed of the run and
            stratified by label; 0 for all rows.
        train_languages: Languages of the training rows of a multilingual task, e.g. "de", "de+fr"
            or "all"; empty for the task's train split, which is usually English.
        sampling_power: For tasks that are trained together, each step draws a task with a
            probability proportional to its number of examples raised to this power. If it is None,
            an epoch uses each batch of each task once, in random order.
    """

    max_tokens: int = hyperparameter(_ROOM, aliases="max_seq_length max_length")
    shots: int = hyperparameter(COUNT_OR_NONE, 0)
    train_languages: str = hyperparameter(Rule(lambda value: str(value).lower(), "languages"), "")
    sampling_power: float | None = hyperparameter(NOT_NEGATIVE, None, needs="together")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Hyperparameters for the selection of a run's final weights; by default, the last weights.

    Attributes:
        evaluations: Number of evaluations. They are evenly spaced, and the last one is at the end
            of the training.
        best_checkpoint: True to use the weights at the evaluation with the best score (the first
            such evaluation if several are equally good).
        early_stopping: Number of consecutive evaluations without an improvement after which the
            training ends; 0 to train to the end.
        average_last: Number of last evaluations over which the weights are averaged; 1 to use the
            last weights.
        select_on: Rows on which the model is evaluated: "dev", or e.g. "train:0.1" for a tenth of
            train that is held out from training. With held-out rows, dev is scored only once, with
            the final weights.
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
        """Fraction of train that is held out for evaluations during training; 0 if dev is used."""
        return 0.0 if self.select_on == ON_DEV else float(self.select_on.removeprefix(_HELD_OUT))


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Hyperparameters of the encoder: its layers, which of them are trained, and the head's input.

    Attributes:
        dropout: Dropout rate in the encoder; None for the rate of the checkpoint.
        classifier_dropout: Dropout rate before the classifier; None for the rate of the checkpoint.
        features: States of the encoder that the head reads (see `FEATURES`). With every value
            except "fine-tuned", the encoder is frozen.
        unfreeze: "all" to train all layers from the start, or "gradual" to train only the head in
            the first epoch, and one more layer in every further epoch.
        layer_decay: Factor by which the learning rate is multiplied from each layer to the layer
            below.
        top_layer_depth: Number of times that `layer_decay` is applied to the learning rate of the
            top layer.
        layers: Number of layers of the encoder to keep, evenly spaced, or the numbers of the layers
            to keep, e.g. "0+2+4"; 0 to keep all layers.
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
            _read_layers,
            "a number of layers, or the numbers of the layers to keep (from 0), e.g. 0+2+4",
        ),
        0,
        aliases="num_hidden_layers",
    )

    @property
    def is_frozen(self) -> bool:
        """True if the encoder is frozen, so that only the head is trained."""
        return self.features != FINE_TUNED


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Hyperparameters for tasks with one or two texts, and for multiple choice.

    Attributes:
        orders: "given" to encode the two texts of a pair only in their own order. The other values
            are for pairs whose order has no meaning. With "both", the model is trained on each pair
            in both orders, so an epoch has twice as many rows. With "added", the encoder reads both
            orders, and their states are added before the classifier.
        lm_weight: For causal models, weight of the language model loss on the same texts, which is
            added to the loss of the head.
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
    """Hyperparameters for answers that are spans of a context, which is split into windows.

    Attributes:
        stride: Distance in tokens between the beginnings of two windows of the context.
        max_question_tokens: Maximum number of tokens of the question in each window.
        answerable_weight: Weight of the loss of a classifier that detects questions without an
            answer. The logit of this classifier is the no-answer score. 0 for no classifier.
        beam_size: If it is above 0, the last token of an answer is predicted given the first token,
            for this number of best first tokens. If it is 0, both are predicted independently.
        max_answer_tokens: Maximum number of tokens of an answer.
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
    """Hyperparameters for tagging words.

    Attributes:
        lstm_size: Number of units in each direction of a bidirectional LSTM with two layers, which
            is added between a frozen encoder and the classifier; 0 for no LSTM.
        context: "sentence" to encode each sentence alone, or "document" to encode it with as much
            of the surrounding document as `max_tokens` allows. Only the words of the sentence
            itself are trained on and predicted.
    """

    heads: ClassVar = ("tag",)
    lstm_size: int = hyperparameter(COUNT_OR_NONE, 0)
    context: str = hyperparameter(one_of(SENTENCE, DOCUMENT), SENTENCE)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Hyperparameters of a training run in groups.

    Together with the model, the data and the seed, they determine the result of the run. The last
    groups (from `adam` on) are None if a job uses none of their hyperparameters.

    Attributes:
        optim: Hyperparameters of the optimizer.
        schedule: Length of the training, and schedule of the learning rate.
        rows: Length of inputs, and choice of training rows.
        selection: Selection of the final weights.
        encoder: Hyperparameters of the encoder.
        adam: Moments of AdamW.
        pair: Head for one or two texts, and for multiple choice.
        span: Head for answers that are spans of a context.
        tag: Head for tagging words.
        added: Groups that extensions define, keyed by head type or training technique.
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
    added: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def first_stage(self) -> tuple[float, float | None]:
        """Epochs and learning rate of a first stage of the training, which has another loss.

        The learning rate of the stage is constant; None means `learning_rate`. An extension's group
        of hyperparameters in `added` may define such a stage; without one, the epochs are 0.
        """
        stages = (getattr(group, "first_stage", None) for group in self.added.values())
        return next(filter(None, stages), (0.0, None))

    @property
    def uses_decoder(self) -> bool:
        """True if the network consists of an encoder and its decoder, and has no head."""
        return any(name in _WITH_DECODER for name in self.added)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Recipe":
        """Build a recipe from the values of hyperparameters, keyed by name.

        A hyperparameter that is missing gets its default.
        """
        found: dict[str, Any] = {}
        for name, kind in _GROUPS.items():
            own = {each: values[each] for each in _names(kind) if each in values}
            if own or name in _NEEDED:
                found[name] = kind(**own)
        added = {name: found.pop(name) for name in _ADDED if name in found}
        return cls(**found, added=added)

    @classmethod
    def untrained(cls, values: Mapping[str, Any]) -> "Recipe":
        """Build the recipe of a job without training.

        Hyperparameters that every training needs, and that are not in `values`, are 0.
        """
        needed = [each for name in _NEEDED for each in _names(_GROUPS[name])]
        needed = [name for name in needed if SETTINGS[name].default is MISSING]
        return cls.of({**dict.fromkeys(needed, 0), **values})

    def of_head(self, head: str) -> Any:
        """Return the group of hyperparameters for a head type, such as `span` for "span".

        The result is None if the recipe has no hyperparameters of this head type.
        """
        groups: dict[str, Any] = {
            **self.added,
            **dict.fromkeys(PairOptions.heads, self.pair),
            "span": self.span,
            "tag": self.tag,
        }
        return groups.get(head)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """Build the recipe from the settings of a job, keyed by hyperparameter.

        A `max_grad_norm` of 0, which means no limit, becomes infinity.
        """
        values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
        return cls.of(values | {"max_grad_norm": values["max_grad_norm"] or math.inf})


_ADDED: Mapping[str, type] = {
    head: member(f"the hyperparameters of {head}", place)
    for head, place in places("hyperparameters").items()
}
"""Classes of the groups that extensions define, keyed by head type or training technique."""

_WITH_DECODER = {name for name, group in _ADDED.items() if getattr(group, "uses_decoder", False)}
"""Names of the groups in `_ADDED` of techniques that train an encoder together with its decoder."""

_GROUPS: Mapping[str, type] = {
    name: (get_args(kind) or (kind,))[0]
    for name, kind in get_type_hints(Recipe).items()
    if name != "added"
} | {**_ADDED}
"""Classes of all groups: those of Recipe, keyed by field, and those in `_ADDED`."""

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
"""Metadata of all hyperparameters, keyed by name, in the order in which they are displayed."""

SWITCHES = tuple(name for name, facts in SETTINGS.items() if facts.recipe)
"""Names of the flags that have a recipe of their own."""

OF_DECODERS = frozenset(name for group in _WITH_DECODER for name in _names(_GROUPS[group]))
"""Names of the hyperparameters that only networks with a decoder have."""

OF_STUDENTS = tuple(name for name, facts in SETTINGS.items() if facts.needs == TEACHER)
"""Names of the hyperparameters that have no effect without a teacher."""


def count_steps(items: Sequence[int], batch_size: int, epochs: float) -> int:
    """Return the number of optimizer steps of a run, rounded up; it is at least 1.

    Each batch has items of only one task, and the last batch of a task in an epoch may be smaller.

    Args:
        items: Number of items of each task.
        batch_size: Number of items per batch.
        epochs: Number of passes over the data; may be a fraction.
    """
    return max(1, math.ceil(epochs * sum(math.ceil(size / batch_size) for size in items)))


def check_setting(name: str, setting: Setting) -> Setting:
    """Check a setting, and convert its value to the type of the hyperparameter.

    Texts are parsed, so that `--set epochs=3` and `epochs = 3` in a file give the same job key.

    Args:
        name: Name of the hyperparameter.
        setting: Setting with a single value.

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
    """Return whether a setting has its default value, so that it can be left out of a job.

    The result is false for hyperparameters that a job always states (`Facts.stated`).
    """
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
"""Texts to display instead of a default value that would be unclear, keyed by setting."""


def shown_value(name: str, setting: Setting | None) -> Any:
    """Return the value of a setting for display.

    A value that switches a setting off, such as a `layer_decay` of 1, is displayed as "off".

    Args:
        name: Name of the setting.
        setting: The setting; None if it is not set. Its default is then displayed, usually as a
            word such as "off" or "all".
    """
    facts = SETTINGS.get(name)  # None for "start_from", which is not a hyperparameter
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
    """Return the settings on which the result of a job depends.

    Settings without an effect on the job are left out, and so are default values, except for
    settings that every job states (`Facts.stated`). If one of two alternative settings for the same
    quantity is used, such as `steps` instead of `epochs`, the other one is set to 0.

    Args:
        settings: All settings, with checked values.
        heads: Head types of the job's tasks.
        techniques: Training techniques of the job: "together" for multi-task training, "teacher"
            for distillation.
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
    # `needs` is the name of a setting that must not have its default ("layer_decay"), a setting
    # with a required value ("schedule=polynomial"), or a technique ("teacher" or "together").
    needed, _, value = facts.needs.partition("=")
    if facts.heads and not {*facts.heads} & {*heads}:
        return False
    if needed and needed not in {*on, *techniques}:
        return False
    return not (value and on[needed].value != value) and not on.keys() & {*facts.unless}


def clashes(settings: Mapping[str, Setting]) -> Iterator[str]:
    """Yield a message for each setting that does not fit the other settings.

    A setting may exclude another setting, exceed a bound that another setting sets, or have no
    effect without another setting.

    Args:
        settings: Settings with checked values, keyed by name.
    """
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
    ("early_stopping", "evaluations", 1, "evaluations must be larger than early_stopping"),
    ("average_last", "evaluations", 0, "evaluations must be at least average_last"),
)
"""Settings whose value must not exceed that of another setting: the setting, the other setting, the
smallest allowed difference, and advice for the error message."""
