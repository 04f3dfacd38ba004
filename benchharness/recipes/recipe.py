"""The hyperparameters of a fine-tuning run, as the training loop reads them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, get_args

from benchharness.leaderboard.job import Setting
from benchharness.tasks.errors import BenchError, ModelError, unknown_name

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
"""What a head reads: the fine-tuned encoder's last layer, or layers of a frozen one."""

EACH = "each"
"""Stands for the embeddings and every layer, each in a row of its own."""

LAYER = "layer-"
"""How the name of a single frozen layer begins: layer-1 is the one above the embeddings."""


def least_layers(features: str) -> int:
    """How many layers an encoder must have for a choice of features."""
    number = features.removeprefix(LAYER)
    if number != features:
        return int(number) if number.isdecimal() else 0
    return _LEAST.get(features, 0)


_LEAST = {"second-to-last": 2, "sum-last-4": 4, "concat-last-4": 4}

_UNFREEZING = ("all", "gradual")

GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS = "given", "both", "added"

LINEAR = "linear"
SCHEDULES = (LINEAR, "cosine", "constant", "polynomial", "slanted-triangular")
"""How the learning rate falls after its warm-up; each formula is in training/optimizer.py."""

SENTENCE, DOCUMENT = "sentence", "document"
"""What an encoder reads of a text that is tagged: a sentence alone, or in its document."""

ADAMW, ADAFACTOR = "adamw", "adafactor"

AND = "+"
"""Stands between the numbers of layers that are kept; a comma would make a sweep."""


def kept_layers(wanted: int | str, count: int) -> list[int]:
    """The numbers of the layers that an encoder of so many keeps, rising.

    A number is spread evenly from the first layer to the last, as transformers'
    distillation/scripts/extract_distilbert.py takes 0, 2, 4, 7, 9 and 11 of twelve; "0+2+4" names
    them, and 0 is all. Raises ModelError for layers that the encoder has not.
    """
    if not wanted:
        return [*range(count)]
    if isinstance(wanted, str):
        kept = [int(number) for number in wanted.split(AND)]
    else:
        last = (count - 1) / max(1, wanted - 1)
        kept = [round(number * last) for number in range(wanted)]
    if len(kept) > count or kept[-1] >= count:
        raise ModelError(
            f"layers is {wanted}, and this encoder has {count} layers, from 0 to {count - 1}: give "
            "fewer, or leave layers out."
        )
    return kept


ON_DEV = "dev"
_HELD_OUT = "train:"
"""Which rows choose among a run's evaluations: dev, or "train:SHARE", a part of train."""


MAX_ANSWER_TOKENS = 30
"""The longest answer: google-research/bert run_squad.py, --max_answer_length."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every value that training depends on, besides model, data and seed.

    `batch_size` counts the examples of one optimizer step; they are computed in `accumulation`
    parts with the same result. `warmup_ratio` is the share of all steps in which the learning rate
    rises linearly, and `warmup_steps`, where it is above 0, their number instead. After it the rate
    falls as `schedule` says, "polynomial" with the power `schedule_power`. `max_grad_norm` is
    infinite where gradients are not clipped; a setting says 0 for it, as fairseq does, because JSON
    has no infinity. `max_tokens` bounds an encoded example. `evaluations` is how often dev is
    scored, evenly spaced, the last time at the end.

    A step takes from each weight of two dimensions or more the share `weight_decay` times its
    learning rate (per unit of the rate, as torch's AdamW counts). `decoupled_weight_decay`, where
    it is above 0, is in its place the share that a step at the full rate takes (per step, as
    Composer's DecoupledAdamW counts); both fall with the schedule. At a rate of 5e-5 the one's
    0.1 is the other's 5e-6.

    A run ends with the weights of its last step; with `best_checkpoint` with those of its best
    evaluation by the task's headline, the first of equal ones; with `average_last` above 1 with the
    mean of those at its last so many evaluations. `early_stopping`, where it is above 0, ends the
    training after so many evaluations in a row that were not better than the best one. `select_on`
    says what these evaluations are of: dev, or "train:0.1", a tenth of train that is not trained
    on; dev is then scored once, by the weights that the run ends with.

    `dropout` is that of the encoder and `classifier_dropout` that of the layer on it, the
    checkpoint's own where they are None.

    `features` says which states the head reads; all choices but "fine-tuned" leave the encoder as
    it is. `lora_rank` above 0 trains low-rank adapters in the encoder's place. With `unfreeze`
    "gradual" the first epoch trains the head alone and every further one a layer more. The learning
    rate is multiplied with `layer_decay` from each layer to the one below it; the top layer is
    `top_layer_depth` such steps below the head.

    Only pair tasks have `orders`, for texts whose order means nothing: with "both" each pair is
    trained on in both orders, so that an epoch has twice as many rows, and with "added" both are
    read and their states added before the classifier. Pairs and choices have `lm_weight`: so many
    times the language model's mean loss on the same texts is added to theirs, for models that read
    from left to right.

    Where `shots` is above 0, about so many rows of train are trained on, with the labels in their
    proportions; the seed draws them.

    Where `steps` is above 0 it is the number of optimizer steps in the place of `epochs`. With the
    `optimizer` "adafactor" an update is divided by the root of a factored mean of squared
    gradients, and scaled by the weight's own (Shazeer and Stern, arXiv:1804.04235, as T5 uses it:
    no momentum); it has none of Adam's three values.

    With `as_text` an encoder-decoder reads the row as one text and answers in words, of at most
    `max_target_tokens` tokens; all that only other heads read is left out.

    Only tasks that are trained together have a `sampling_power`: the task of each step is drawn
    with a probability proportional to its number of examples to that power. Without it, None, an
    epoch has each batch of each task once, in a random order.

    With `deterministic` a GPU computes by kernels that give the same bits each time, which takes
    longer; a CPU's always do.

    Only span tasks have `stride` and `max_question_tokens`: windows of a long context begin every
    `stride` tokens, and each holds at most `max_question_tokens` of the question. Where their
    `answerable_weight` is above 0, so many times the loss of a classifier of "no answer" is added,
    whose logit is then the score of no answer. Where `beam_size` is, an answer's last token is
    predicted beside its first, in prediction beside each of the best `beam_size` ones.
    An answer has at most `max_answer_tokens`.

    Only tag tasks have `lstm_size`: where it is above 0, a bidirectional LSTM of two layers, of so
    many units each way, reads the states of a frozen encoder below the classifier. With `context`
    "document" the encoder reads as much of the document around a sentence as `max_tokens` allows;
    what is learned and predicted are the sentence's words alone.

    `layers` above 0 keeps so many of the encoder's layers, evenly spaced; "0+2+4" names them.

    Only a student has the other six: its loss is (1 - `teacher_weight`) times its own plus
    `teacher_weight` times that towards its teacher's outputs at the `temperature`, plus
    `layer_weight` times that towards its teacher's states and attention (heads/teacher.py). With
    `layer_epochs` it learns in turn: so many epochs from the layers alone, at a constant rate, the
    `layer_learning_rate` where there is one, and then those of `epochs` from the rest, with its own
    moments. With `from_teacher` it begins with its teacher's weights.

    The head learns at the `head_learning_rate` where there is one, and the encoder at the other.
    Only coreference has `training_segments`: a step reads at most so many segments of `max_tokens`
    of a document, at a random place of it.
    """

    learning_rate: float
    epochs: float
    batch_size: int
    accumulation: int
    warmup_ratio: float
    weight_decay: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    max_grad_norm: float
    max_tokens: int
    evaluations: int
    dropout: float | None = None
    classifier_dropout: float | None = None
    features: str = FINE_TUNED
    lora_rank: int = 0
    unfreeze: str = "all"
    layer_decay: float = 1.0
    top_layer_depth: int = 2
    orders: str = GIVEN_ORDER
    lm_weight: float = 0.0
    schedule: str = LINEAR
    schedule_power: float = 1.0
    warmup_steps: int = 0
    decoupled_weight_decay: float = 0.0
    best_checkpoint: bool = False
    early_stopping: int = 0
    average_last: int = 1
    select_on: str = ON_DEV
    deterministic: bool = False
    shots: int = 0
    stride: int | None = None
    max_question_tokens: int | None = None
    answerable_weight: float = 0.0
    beam_size: int = 0
    max_answer_tokens: int = MAX_ANSWER_TOKENS
    sampling_power: float | None = None
    lstm_size: int = 0
    head_learning_rate: float | None = None
    training_segments: int | None = None
    optimizer: str = ADAMW
    steps: int = 0
    as_text: bool = False
    max_target_tokens: int | None = None
    context: str = SENTENCE
    layers: int | str = 0
    teacher_weight: float | None = None
    temperature: float | None = None
    layer_weight: float = 0.0
    layer_epochs: float = 0.0
    layer_learning_rate: float | None = None
    from_teacher: bool = False

    @property
    def is_frozen(self) -> bool:
        """True where only the head is trained, on states that never change."""
        return self.features != FINE_TUNED

    @property
    def held_out(self) -> float:
        """The share of train that is evaluated on in the place of dev, 0 for none."""
        return 0.0 if self.select_on == ON_DEV else float(self.select_on.removeprefix(_HELD_OUT))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """The recipe that a job's resolved settings hold."""
        names = [field.name for field in fields(cls) if field.name in settings]
        values: dict[str, Any] = {name: settings[name].value for name in names}
        return cls(**values | {"max_grad_norm": values["max_grad_norm"] or math.inf})


# Whether a hyperparameter's name, type and range are right, and its value in the right type.


class _Rule(NamedTuple):
    """Which values are right, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


_POSITIVE = _Rule("above 0", lambda value: value > 0)
_NOT_NEGATIVE = _Rule("at least 0", lambda value: value >= 0)
_COUNT = _Rule("at least 1", lambda value: value >= 1)
_SHARE = _Rule("at least 0 and at most 1", lambda value: 0 <= value <= 1)
_BELOW_ONE = _Rule("at least 0 and below 1", lambda value: 0 <= value < 1)
_FACTOR = _Rule("above 0 and at most 1", lambda value: 0 < value <= 1)
# Four special tokens at most (RoBERTa's around a pair) and one of each text.
_ROOM = _Rule("at least 6", lambda value: value >= 6)

# A token that begins the answer (BART's), one of it, and the one that ends it.
_TARGETS = _Rule("at least 3", lambda value: value >= 3)

_RULES = {
    "learning_rate": _POSITIVE,
    "epochs": _POSITIVE,
    "batch_size": _COUNT,
    "accumulation": _COUNT,
    "warmup_ratio": _SHARE,
    "weight_decay": _NOT_NEGATIVE,
    "adam_beta1": _BELOW_ONE,
    "adam_beta2": _BELOW_ONE,
    "adam_epsilon": _POSITIVE,
    "max_grad_norm": _NOT_NEGATIVE,
    "max_tokens": _ROOM,
    "evaluations": _COUNT,
    "dropout": _BELOW_ONE,
    "classifier_dropout": _BELOW_ONE,
    "lora_rank": _NOT_NEGATIVE,
    "layer_decay": _FACTOR,
    "top_layer_depth": _NOT_NEGATIVE,
    "lm_weight": _NOT_NEGATIVE,
    "stride": _COUNT,
    "max_question_tokens": _COUNT,
    "max_target_tokens": _TARGETS,
    "steps": _NOT_NEGATIVE,
    "answerable_weight": _NOT_NEGATIVE,
    "beam_size": _NOT_NEGATIVE,
    "max_answer_tokens": _COUNT,
    "sampling_power": _NOT_NEGATIVE,
    "lstm_size": _NOT_NEGATIVE,
    "head_learning_rate": _POSITIVE,
    "training_segments": _COUNT,
    "schedule_power": _POSITIVE,
    "warmup_steps": _NOT_NEGATIVE,
    "decoupled_weight_decay": _BELOW_ONE,
    "early_stopping": _NOT_NEGATIVE,
    "average_last": _COUNT,
    "shots": _NOT_NEGATIVE,
    "teacher_weight": _SHARE,
    "temperature": _POSITIVE,
    "layer_weight": _NOT_NEGATIVE,
    "layer_epochs": _NOT_NEGATIVE,
    "layer_learning_rate": _POSITIVE,
}

CHOICES = {
    "features": FEATURES,
    "unfreeze": _UNFREEZING,
    "schedule": SCHEDULES,
    "orders": (GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS),
    "optimizer": (ADAMW, ADAFACTOR),
    "context": (SENTENCE, DOCUMENT),
}
"""The settings that are one of a few words."""

_FLAGS = {"true": True, "yes": True, "false": False, "no": False}

_OTHER_NAMES = {
    "lr": "learning_rate",
    "bs": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "train_batch_size": "batch_size",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "train_steps": "steps",
    "optim": "optimizer",
    "max_target_length": "max_target_tokens",
    "gradient_accumulation_steps": "accumulation",
    "warmup": "warmup_ratio",
    "wd": "weight_decay",
    "adam_eps": "adam_epsilon",
    "eps": "adam_epsilon",
    "clip": "max_grad_norm",
    "grad_clip": "max_grad_norm",
    "max_seq_length": "max_tokens",
    "max_length": "max_tokens",
    "doc_stride": "stride",
    "max_query_length": "max_question_tokens",
    "max_answer_length": "max_answer_tokens",
    "hidden_dropout_prob": "dropout",
    "layerwise_learning_rate_decay": "layer_decay",
    "llrd": "layer_decay",
    "lora_r": "lora_rank",
    "rank": "lora_rank",
    "num_hidden_layers": "layers",
    "alpha_ce": "teacher_weight",
}
"""What transformers' TrainingArguments, its example scripts, peft and people call them."""

_TYPES: dict[str, type] = {
    f.name: float if float in (f.type, *get_args(f.type)) else int for f in fields(Recipe)
}


def check_setting(name: str, setting: Setting) -> Setting:
    """The same setting with its value as the recipe's type (an epoch count is always a float).

    A text is parsed, so that `--set epochs=3` and `epochs = 3` in a file are one value and give one
    job key. Raises BenchError for an unknown name, another type or a value out of range.
    """
    value: str | float | bool | None
    if name in _OTHERS:
        read, expected = _OTHERS[name]
        value = read(setting.value)
    elif name in _RULES:
        value, expected = _in_range(name, setting.value)
    else:
        raise unknown_name("hyperparameter", name, (*_RULES, *_OTHERS), other_names=_OTHER_NAMES)
    if value is None:
        raise BenchError(f"{name} is {setting.value!r} ({setting.source}), expected {expected}.")
    return replace(setting, value=value)


def _in_range(name: str, value: object) -> tuple[int | float | None, str]:
    """The value as the number that it should be, None where it is none, and what is expected."""
    kind = "a whole number" if _TYPES[name] is int else "a number"
    number = _number(value, whole=_TYPES[name] is int)
    is_right = number is not None and math.isfinite(number) and _RULES[name].holds(number)
    return number if is_right else None, f"{kind} that is {_RULES[name].words}"


def _word(value: object, words: Sequence[str]) -> str | None:
    return value if isinstance(value, str) and value in words else None


def _features(value: object) -> str | None:
    """A choice of features, a single layer's with its number in one spelling."""
    word = str(value)
    number = word.removeprefix(LAYER)
    if word != number and number.isdecimal() and int(number) > 0:
        return f"{LAYER}{int(number)}"
    return _word(value, FEATURES)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else _FLAGS.get(str(value).lower())


def _rows(value: object) -> str | None:
    """The word "dev", or "train:SHARE" in one spelling of the share."""
    text = str(value)
    share = _number(text.removeprefix(_HELD_OUT), whole=False)
    if text == ON_DEV:
        return text
    if not text.startswith(_HELD_OUT) or share is None or not 0 < share < 1:
        return None
    return f"{_HELD_OUT}{share}"


def _layers(value: object) -> int | str | None:
    """How many layers, 0 for all, or the rising numbers of some, from 0: "0+2+4"."""
    number = _number(value, whole=True)
    if number is not None:
        return int(number) if number >= 0 else None
    words = str(value).split(AND)
    if len(words) < 2 or not all(word.strip().isdecimal() for word in words):
        return None
    named = [int(word) for word in words]
    return AND.join(map(str, named)) if named == sorted(set(named)) else None


_OTHERS: Mapping[str, tuple[Callable[[object], str | int | bool | None], str]] = {
    **{
        name: (partial(_word, words=words), f"one of: {', '.join(words)}")
        for name, words in CHOICES.items()
    },
    "as_text": (_flag, "true or false"),
    "features": (
        _features,
        f"one of: {', '.join(FEATURES)}, {LAYER}N with N from 1, or {EACH} for every layer",
    ),
    "best_checkpoint": (_flag, "true or false"),
    "deterministic": (_flag, "true or false"),
    "from_teacher": (_flag, "true or false"),
    "layers": (_layers, "a number of layers, or those to keep by their numbers from 0, as 0+2+4"),
    "select_on": (_rows, "dev, or train:SHARE with a share between 0 and 1, as in train:0.1"),
}
"""The settings that are no numbers: what reads them, and what is right, in words."""


def _number(value: object, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not whole:
        return number
    return int(number) if number.is_integer() else None
