"""The hyperparameters of a fine-tuning run, in groups: what they mean, and which values are right.

Each is declared once, with its range, other people's names for it, and what it goes with. A job has
those alone that its head, its encoder and its technique use; what does not apply is absent from its
settings, and so from its key, and a group of which nothing applies is None.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, get_args, get_type_hints

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

GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS = "given", "both", "added"

LINEAR = "linear"
SCHEDULES = (LINEAR, "cosine", "constant", "polynomial", "slanted-triangular")
"""How the learning rate falls after its warm-up; each formula is in training/optimizer.py."""

SENTENCE, DOCUMENT = "sentence", "document"
"""What an encoder reads of a text that is tagged: a sentence alone, or in its document."""

MEAN, FIRST, LAST = "mean", "first", "last"
"""What of a text's states is its vector."""

ADAMW, ADAFACTOR = "adamw", "adafactor"

ON_DEV = "dev"
_HELD_OUT = "train:"
"""Which rows choose among a run's evaluations: dev, or "train:SHARE", a part of train."""

MAX_ANSWER_TOKENS = 30
"""The longest answer: google-research/bert run_squad.py, --max_answer_length."""

AND = "+"
"""Stands between the numbers of layers that are kept; a comma would make a sweep."""


def least_layers(features: str) -> int:
    """How many layers an encoder must have for a choice of features."""
    number = features.removeprefix(LAYER)
    if number != features:
        return int(number) if number.isdecimal() else 0
    return {"second-to-last": 2, "sum-last-4": 4, "concat-last-4": 4}.get(features, 0)


def kept_layers(wanted: int | str, count: int) -> list[int]:
    """The numbers of the layers that an encoder of `count` layers keeps, rising.

    A number is spread evenly from the first layer to the last, as transformers'
    distillation/scripts/extract_distilbert.py takes 0, 2, 4, 7, 9 and 11 of twelve; "0+2+4" names
    them, and 0 is all. Raises ModelError for layers that the encoder has not.
    """
    if not wanted:
        return [*range(count)]
    if isinstance(wanted, str):
        kept = [int(number) for number in wanted.split(AND)]
    else:
        last = (count - 1) / max(1, wanted - 1)  # how far apart they are
        kept = [round(number * last) for number in range(wanted)]
    if len(kept) > count or kept[-1] >= count:
        raise ModelError(
            f"layers is {wanted}, and this encoder has {count} layers, from 0 to {count - 1}: give "
            "fewer, or leave layers out."
        )
    return kept


# Which values are right: what reads one, giving None for a wrong one, and what is expected.

Value = str | int | float | bool


class _Rule(NamedTuple):
    read: Callable[[object], Value | None]
    expected: str
    words: tuple[str, ...] = ()


def _as_number(value: object) -> float | None:
    # True is an int for Python, and would be a learning rate of 1.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None  # "nan" and "inf" are no values


def _number(words: str, holds: Callable[[float], bool], *, whole: bool = False) -> _Rule:
    def read(value: object) -> int | float | None:
        number = _as_number(value)
        if number is None or not holds(number) or (whole and not number.is_integer()):
            return None
        return int(number) if whole else number  # 3.0 and 3 are one value, and one key

    return _Rule(read, f"a {'whole ' * whole}number that is {words}")


def _count(least: int) -> _Rule:
    return _number(f"at least {least}", lambda value: value >= least, whole=True)


def _one_of(*words: str) -> _Rule:
    expected = f"one of: {', '.join(words)}"
    return _Rule(lambda value: str(value) if value in words else None, expected, words)


def _read_features(value: object) -> str | None:
    """A choice of features; the number of a single layer in one spelling."""
    word = str(value)
    number = word.removeprefix(LAYER)
    if word != number and number.isdecimal() and int(number) > 0:
        return f"{LAYER}{int(number)}"  # layer-07 is layer-7
    return word if word in FEATURES else None


def _read_rows(value: object) -> str | None:
    """The word "dev", or "train:SHARE" in one spelling of the share."""
    text = str(value)
    share = _as_number(text.removeprefix(_HELD_OUT))
    if text == ON_DEV:
        return text
    if not text.startswith(_HELD_OUT) or share is None or not 0 < share < 1:
        return None
    return f"{_HELD_OUT}{share}"  # 0.10 is 0.1


def _read_layers(value: object) -> int | str | None:
    """How many layers, 0 for all, or the rising numbers of some, from 0: "0+2+4"."""
    number = _as_number(value)
    if number is not None:
        return int(number) if number >= 0 and number.is_integer() else None
    words = str(value).split(AND)
    if len(words) < 2 or not all(word.strip().isdecimal() for word in words):
        return None
    named = [int(word) for word in words]
    return AND.join(map(str, named)) if named == sorted(set(named)) else None  # each once


_POSITIVE = _number("above 0", lambda value: value > 0)
_NOT_NEGATIVE = _number("at least 0", lambda value: value >= 0)
_SHARE = _number("at least 0 and at most 1", lambda value: 0 <= value <= 1)
_BELOW_ONE = _number("at least 0 and below 1", lambda value: 0 <= value < 1)
_FACTOR = _number("above 0 and at most 1", lambda value: 0 < value <= 1)
_COUNT, _COUNT_OR_NONE = _count(1), _count(0)
_ROOM = _count(6)  # four special tokens at most (RoBERTa's around a pair), and one of each text
_TARGETS = _count(3)  # a token that begins the answer (BART's), one of it, and the one that ends it
_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_FLAG = _Rule(lambda value: _FLAGS.get(str(value).lower()), "true or false")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a hyperparameter besides its name, type and default.

    `aliases` are what transformers' TrainingArguments, its example scripts, peft and people call
    it. `heads` are the head types that alone have it, all where it is empty. It means nothing, and
    is left out, where one of `unless` is on, or where `needs` (a name, or name=value) is not; with
    one of `excludes`, which says what that does, it is refused. `instead_of` is the same in another
    unit: of two layers the later one holds. A value that is `stated` is part of a job also where it
    is the default.
    """

    rule: _Rule
    default: Any
    stated: bool
    aliases: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    needs: str = ""
    excludes: Mapping[str, str] = field(default_factory=dict)
    instead_of: str = ""


def _value(
    rule: _Rule, default: Any = MISSING, *, aliases: str = "", unless: str = "", **facts: Any
) -> Any:
    """A field of a group; one without a default is always stated."""
    facts |= {"aliases": tuple(aliases.split()), "unless": tuple(unless.split())}
    facts.setdefault("stated", default is MISSING)  # a job has it whatever it is
    known = Facts(rule=rule, default=default, **facts)
    return field(default=default, metadata={"facts": known})


_FROZEN = "leaves the encoder as it is"
_WHOLE = "trains encoder and decoder whole"
_ENDS = "ends a run otherwise"


@dataclass(frozen=True, kw_only=True)
class Optim:
    """The optimizer's step.

    `batch_size` counts the examples of one optimizer step; they are computed in `accumulation`
    parts with the same result. `max_grad_norm` is infinite where gradients are not clipped; a
    setting says 0 for it, as fairseq does, because JSON has no infinity. The head learns at the
    `head_learning_rate` where there is one.

    A step takes from each weight of two dimensions or more the share `weight_decay` times its
    learning rate (per unit of the rate, as torch's AdamW counts). `decoupled_weight_decay`, where
    it is above 0, is instead the share that a step at the full rate takes (per step, as Composer's
    DecoupledAdamW counts); both fall with the schedule. At a rate of 5e-5 the one's 0.1 is the
    other's 5e-6.

    With the `optimizer` "adafactor" an update is divided by the root of a factored mean of squared
    gradients, and scaled by the weight's own (Shazeer and Stern, arXiv:1804.04235, as T5 uses it:
    no momentum); it has none of Adam's three values.

    With `deterministic` a GPU computes by kernels that give the same bits each time, which takes
    longer; a CPU's always do. `activation_checkpointing` has layers keep their input alone and
    computes them again in the backward pass: the same result from a fraction of the memory, in a
    fifth to a third more time.
    """

    learning_rate: float = _value(_POSITIVE, aliases="lr")
    batch_size: int = _value(_COUNT, aliases="bs per_device_train_batch_size train_batch_size")
    accumulation: int = _value(_COUNT, aliases="gradient_accumulation_steps")
    weight_decay: float = _value(_NOT_NEGATIVE, aliases="wd")
    max_grad_norm: float = _value(_NOT_NEGATIVE, aliases="clip grad_clip")
    decoupled_weight_decay: float = _value(_BELOW_ONE, 0.0, instead_of="weight_decay")
    head_learning_rate: float | None = _value(_POSITIVE, None, unless="features")
    optimizer: str = _value(_one_of(ADAMW, ADAFACTOR), ADAMW, aliases="optim")
    deterministic: bool = _value(_FLAG, False)
    activation_checkpointing: bool = _value(
        _FLAG, False, unless="features", aliases="gradient_checkpointing checkpointing"
    )


@dataclass(frozen=True, kw_only=True)
class Adam:
    """The moments of AdamW."""

    unless: ClassVar = ("optimizer",)
    adam_beta1: float = _value(_BELOW_ONE)
    adam_beta2: float = _value(_BELOW_ONE)
    adam_epsilon: float = _value(_POSITIVE, aliases="adam_eps eps")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long is trained, and by which rates.

    Where `steps` is above 0 it is the number of optimizer steps instead of `epochs`. `warmup_ratio`
    is the share of all steps in which the learning rate rises linearly, and `warmup_steps`, where
    it is above 0, their number instead. After it the rate falls as `schedule` says, "polynomial"
    with the power `schedule_power`.
    """

    epochs: float = _value(_POSITIVE, aliases="num_train_epochs num_epochs")
    warmup_ratio: float = _value(_SHARE, aliases="warmup")
    schedule: str = _value(_one_of(*SCHEDULES), LINEAR)
    schedule_power: float = _value(_POSITIVE, 1.0, needs="schedule=polynomial")
    warmup_steps: int = _value(_COUNT_OR_NONE, 0, instead_of="warmup_ratio")
    steps: int = _value(_COUNT_OR_NONE, 0, instead_of="epochs", aliases="max_steps train_steps")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What is read, and of how many rows.

    `max_tokens` bounds an encoded example. Where `shots` is above 0, about that many rows of train
    are trained on, with the labels in their proportions; the seed draws them. Of a task of many
    languages `train_languages` ("de", "de+fr", "all") are trained on instead of English.

    Only tasks that are trained together have a `sampling_power`: the task of each step is drawn
    with a probability proportional to its number of examples to that power. Without it, None, an
    epoch has each batch of each task once, in a random order.
    """

    max_tokens: int = _value(_ROOM, aliases="max_seq_length max_length")
    shots: int = _value(_COUNT_OR_NONE, 0)
    train_languages: str = _value(_Rule(lambda value: str(value).lower(), "languages"), "")
    sampling_power: float | None = _value(_NOT_NEGATIVE, None, needs="together")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which weights a run ends with: those of its last step, where nothing below says otherwise.

    `evaluations` is how often dev is scored, evenly spaced, the last time at the end. With
    `best_checkpoint` the run ends with the weights of its best evaluation by the task's headline,
    the first of equal ones; with `average_last` above 1 with the mean of those at its last
    `average_last` evaluations. `early_stopping`, where it is above 0, ends the training after that
    number of evaluations in a row that were not better than the best one. `select_on` says what
    these evaluations are of: dev, or "train:0.1", a tenth of train that is not trained on; dev is
    then scored once, by the weights that the run ends with.
    """

    evaluations: int = _value(_COUNT)
    best_checkpoint: bool = _value(_FLAG, False)
    early_stopping: int = _value(_COUNT_OR_NONE, 0)
    average_last: int = _value(
        _COUNT, 1, excludes={"best_checkpoint": _ENDS, "early_stopping": _ENDS}
    )
    select_on: str = _value(
        _Rule(_read_rows, "dev, or train:SHARE with a share between 0 and 1, as in train:0.1"),
        ON_DEV,
    )

    @property
    def held_out(self) -> float:
        """The share of train that is evaluated on instead of dev, 0 for none."""
        return 0.0 if self.select_on == ON_DEV else float(self.select_on.removeprefix(_HELD_OUT))


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """What of the encoder is there, what of it is trained, and what the head reads of it.

    `dropout` is that of the encoder and `classifier_dropout` that of the layer on it, the
    checkpoint's own where they are None. `layers` above 0 keeps that number of the encoder's
    layers, evenly spaced; "0+2+4" names them.

    `features` says which states the head reads; all choices but "fine-tuned" leave the encoder as
    it is. `lora_rank` above 0 trains low-rank adapters instead of the encoder. With `unfreeze`
    "gradual" the first epoch trains the head alone and every further one a layer more. The learning
    rate is multiplied with `layer_decay` from each layer to the one below it; the top layer is
    `top_layer_depth` such steps below the head.
    """

    dropout: float | None = _value(
        _BELOW_ONE, None, unless="features", aliases="hidden_dropout_prob"
    )
    classifier_dropout: float | None = _value(_BELOW_ONE, None, unless="as_text")
    features: str = _value(
        _Rule(
            _read_features,
            f"one of: {', '.join(FEATURES)}, {LAYER}N with N from 1, or {EACH} for every layer",
            FEATURES,
        ),
        FINE_TUNED,
        excludes={"as_text": _WHOLE},
    )
    lora_rank: int = _value(
        _COUNT_OR_NONE,
        0,
        excludes={"features": _FROZEN, "as_text": _WHOLE},
        aliases="lora_r rank",
    )
    unfreeze: str = _value(
        _one_of("all", "gradual"), "all", excludes={"features": _FROZEN, "as_text": _WHOLE}
    )
    layer_decay: float = _value(
        _FACTOR,
        1.0,
        unless="features",
        excludes={"as_text": _WHOLE},
        aliases="layerwise_learning_rate_decay llrd",
    )
    top_layer_depth: int = _value(_COUNT_OR_NONE, 2, needs="layer_decay", unless="features")
    layers: int | str = _value(
        _Rule(
            _read_layers, "a number of layers, or those to keep by their numbers from 0, as 0+2+4"
        ),
        0,
        aliases="num_hidden_layers",
    )

    @property
    def is_frozen(self) -> bool:
        """True where only the head is trained, on states that never change."""
        return self.features != FINE_TUNED


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Of pairs of texts, and of choices among options.

    `orders` are for texts whose order means nothing: with "both" each pair is trained on in both
    orders, so that an epoch has twice as many rows, and with "added" both are read and their states
    added before the classifier. With an `lm_weight` that many times the language model's mean loss
    on the same texts is added to the head's own, for models that read from left to right.
    """

    heads: ClassVar = ("pair", "choice")
    unless: ClassVar = ("as_text",)
    orders: str = _value(
        _one_of(GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS),
        GIVEN_ORDER,
        heads=("pair",),
    )
    lm_weight: float = _value(_NOT_NEGATIVE, 0.0, unless="features")


@dataclass(frozen=True, kw_only=True)
class SpanOptions:
    """Of answers in a context: windows of it begin every `stride` tokens.

    Each holds at most `max_question_tokens` of the question. Where `answerable_weight` is above 0,
    that many times the loss of a classifier of "no answer" is added, whose logit is then the score
    of no answer. Where `beam_size` is, an answer's last token is predicted given its first, in
    prediction given each of the best `beam_size` ones. An answer has at most `max_answer_tokens`.
    """

    heads: ClassVar = ("span",)
    unless: ClassVar = ("as_text",)
    stride: int = _value(_COUNT, 128, stated=True, aliases="doc_stride")
    max_question_tokens: int = _value(_COUNT, 64, stated=True, aliases="max_query_length")
    answerable_weight: float = _value(_NOT_NEGATIVE, 0.0)
    beam_size: int = _value(_COUNT_OR_NONE, 0)
    max_answer_tokens: int = _value(_COUNT, MAX_ANSWER_TOKENS, aliases="max_answer_length")


@dataclass(frozen=True, kw_only=True)
class TagOptions:
    """Of tagged words.

    With an `lstm_size` above 0 a bidirectional LSTM of two layers, of that many units each way,
    reads the states of a frozen encoder below the classifier. With `context` "document" the encoder
    reads as much of the document around a sentence as `max_tokens` allows; what is learned and
    predicted are the sentence's words alone.
    """

    heads: ClassVar = ("tag",)
    lstm_size: int = _value(_COUNT_OR_NONE, 0)
    context: str = _value(_one_of(SENTENCE, DOCUMENT), SENTENCE)


@dataclass(frozen=True, kw_only=True)
class CorefOptions:
    """Of coreference: a step reads at most `training_segments` segments of a document.

    Each has at most `max_tokens`; they begin at a random place. None reads the head's usual number.
    """

    heads: ClassVar = ("coref",)
    training_segments: int | None = _value(_COUNT, None)


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Of a text's one vector: the mean of its tokens' states, or that of one token (`pooling`).

    Cosines are multiplied with the `similarity_scale` before the softmax of a training.
    """

    heads: ClassVar = ("ranking",)
    pooling: str = _value(
        _one_of(MEAN, FIRST, LAST),
        MEAN,
        stated=True,
        excludes={"features": "reads a frozen encoder, as --shots 0 does"},
    )
    similarity_scale: float = _value(_POSITIVE, 20.0, stated=True)


SHAPES: Mapping[str, tuple[int, int]] = {
    "bert-base": (12, 768),
    "bert-large": (24, 1024),
    "bert-small": (4, 512),
    "bert-mini": (4, 256),
}
"""The layers and the width of BERT's sizes (arXiv:1810.04805, 3; arXiv:1908.08962, table 1)."""


@dataclass(frozen=True, kw_only=True)
class TimedOptions:
    """Of an encoder that is timed: `passes` over all documents, in turns with the `reference`.

    That is a BERT of this size with random weights.
    """

    heads: ClassVar = ("timed",)
    reference: str = _value(
        _one_of(*SHAPES),
        "bert-base",
        stated=True,
        excludes=dict.fromkeys(("features", "lora_rank"), "is timed for no encoder"),
    )
    passes: int = _value(_COUNT, 5, stated=True)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Of answers in words: an encoder-decoder reads the row as one text.

    It answers in at most `max_target_tokens` tokens; all that only other heads read is left out.
    """

    as_text: bool = _value(_FLAG, False)
    max_target_tokens: int | None = _value(
        _TARGETS, None, needs="as_text", aliases="max_target_length"
    )


@dataclass(frozen=True, kw_only=True)
class StudentOptions:
    """Distillation: what a student learns from its teacher.

    Its loss is (1 - `teacher_weight`) times its own plus `teacher_weight` times that towards its
    teacher's outputs at the `temperature`, plus `layer_weight` times that towards its teacher's
    states and attention (heads/teacher.py). With `layer_epochs` it learns in turn: that many epochs
    from the layers alone, at a constant rate, the `layer_learning_rate` where there is one, and
    then those of `epochs` from the rest, with its own moments. With `from_teacher` it begins with
    its teacher's weights.
    """

    needs: ClassVar = "teacher"
    teacher_weight: float | None = _value(_SHARE, None, aliases="alpha_ce")
    temperature: float | None = _value(_POSITIVE, None)
    layer_weight: float = _value(_NOT_NEGATIVE, 0.0)
    layer_epochs: float = _value(_NOT_NEGATIVE, 0.0)
    layer_learning_rate: float | None = _value(_POSITIVE, None)
    from_teacher: bool = _value(_FLAG, False)


HeadOptions = PairOptions | SpanOptions | TagOptions | CorefOptions | RankingOptions


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every value that training depends on, besides model, data and seed.

    Adam's group, and those of heads and techniques, are None where a job has no value of theirs.
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
    coref: CorefOptions | None = None
    ranking: RankingOptions | None = None
    timed: TimedOptions | None = None
    text: TextOptions | None = None
    student: StudentOptions | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Recipe":
        """The recipe of values by their names."""
        found = {}
        for each in fields(cls):
            kind = _GROUPS[each.name]
            own = {name: values[name] for name in _names(kind) if name in values}
            if own or each.default is MISSING:
                found[each.name] = kind(**own)
        return cls(**found)

    @classmethod
    def untrained(cls, values: Mapping[str, Any]) -> "Recipe":
        """The recipe of a job that trains nothing: 0 is what training alone would read."""
        groups = [_GROUPS[each.name] for each in fields(cls) if each.default is MISSING]
        needed = [each.name for group in groups for each in fields(group)]
        needed = [name for name in needed if SETTINGS[name].default is MISSING]
        return cls.of({**dict.fromkeys(needed, 0), **values})

    def of_head(self, head: str) -> HeadOptions | None:
        """The options of a head type, None where the job has none of them."""
        groups: dict[str, HeadOptions | None] = {
            **dict.fromkeys(PairOptions.heads, self.pair),
            "span": self.span,
            "tag": self.tag,
            "coref": self.coref,
            "ranking": self.ranking,
        }
        return groups.get(head)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """The recipe that a job's resolved settings hold."""
        values: dict[str, Any] = {name: setting.value for name, setting in settings.items()}
        return cls.of(values | {"max_grad_norm": values["max_grad_norm"] or math.inf})


_GROUPS: Mapping[str, type] = {
    name: (get_args(kind) or (kind,))[0] for name, kind in get_type_hints(Recipe).items()
}
"""The classes of a recipe's fields, of which those may be None that a job need not have."""


def _names(group: type) -> list[str]:
    return [field.name for field in fields(group)]


def _facts(group: Any, known: Facts) -> Facts:
    """What is known of a field, with what holds for all of its group."""
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
"""Every hyperparameter by its name, in the order in which they are shown."""

DISTILLATION = tuple(_names(StudentOptions))
"""The hyperparameters that mean nothing without a teacher."""

TEACHER = "teacher"
"""What a job has that hyperparameters may need; another is that its tasks are trained TOGETHER."""


def check_setting(name: str, setting: Setting) -> Setting:
    """The same setting with its value as the recipe's type (an epoch count is always a float).

    A text is parsed, so that `--set epochs=3` and `epochs = 3` in a file are one value and give one
    job key. Raises BenchError for an unknown name, another type or a value out of range.
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
    """Whether a job with the value is the same as one without."""
    facts = SETTINGS[name]
    return not facts.stated and bool(setting.value == facts.default)


_OFF: Mapping[str, Any] = {"max_grad_norm": 0, "layer_decay": 1}
"""Numbers that switch a setting off, where it can be on in another recipe."""

_UNSET = {
    "dropout": "the checkpoint's",
    "classifier_dropout": "the checkpoint's",
    "layers": "all",
    "start_from": "pretrained",
}
"""What a job without a value does, where its default does not say so."""


def shown_value(name: str, setting: Setting | None) -> Any:
    """A value as a reader of recipes sees it; of a recipe without one what a job then does."""
    facts = SETTINGS.get(name)  # of the start there are none
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
    """The settings that the result of a job depends on; `techniques` are "together" and "teacher".

    Of a value that is given in two units the other one, which every recipe has from BERT's, is 0.
    """
    on = {name: setting for name, setting in settings.items() if not is_default(name, setting)}
    for name in [*on]:
        if usual := SETTINGS[name].instead_of:
            on[usual] = Setting(value=0.0, source=f"{name} is in its place")
    found = {name: on[name] for name in on if _applies(name, on, heads, techniques)}
    if "evaluations" in found and found["evaluations"].value == 1:
        found.pop("best_checkpoint", None)  # the only one is the best
    if "features" in found and "orders" in found and found["orders"].value == ADDED_ORDERS:
        found.pop("orders")  # frozen states are of the given one
    return found


def _applies(
    name: str, on: Mapping[str, Setting], heads: Collection[str], techniques: Collection[str]
) -> bool:
    facts = SETTINGS[name]
    # "layer_decay" needs that value to be on, "schedule=polynomial" that very value, and "teacher"
    # or "together" that technique.
    needed, _, value = facts.needs.partition("=")  # a name, or name=value
    if facts.heads and not {*facts.heads} & {*heads}:
        return False
    if needed and needed not in {*on, *techniques}:
        return False
    return not (value and on[needed].value != value) and not on.keys() & {*facts.unless}


def clashes(settings: Mapping[str, Setting]) -> Iterator[str]:
    """A sentence about each of the values that do not go with another."""
    on = {name: setting for name, setting in settings.items() if not is_default(name, setting)}

    def said(name: str) -> str:
        return f"{name} is {on[name].value!r} ({on[name].source})"

    pairs = ((name, *each) for name in on for each in SETTINGS[name].excludes.items())
    for name, other, effect in pairs:
        if other in on:
            yield f"{said(name)}, but {said(other)}, which {effect}: give one of them."
    for name, bound, gap, advice in _BOUNDS:
        if {name, bound} <= on.keys() and int(on[name].value) + gap > int(on[bound].value):
            yield f"{said(name)}, but {said(bound)}: {advice}."
    for name, (holds, advice) in _CONDITIONS.items():
        if name in on and not holds(on):
            yield f"{said(name)}, but {advice}."


def _chooses(on: Mapping[str, Setting]) -> bool:
    several = "evaluations" not in on or on["evaluations"].value != 1
    return several and bool({"best_checkpoint", "early_stopping"} & on.keys())


_FREE_LSTM = "an LSTM reads the states of a frozen encoder, so add features=last or leave it out"
_NO_CHOICE = (
    "the run chooses among no evaluations: give best_checkpoint=true or early_stopping, and "
    "several evaluations"
)
_CONDITIONS: Mapping[str, tuple[Callable[[Mapping[str, Setting]], bool], str]] = {
    "lstm_size": (lambda on: "features" in on, _FREE_LSTM),
    "select_on": (_chooses, _NO_CHOICE),
}
"""What has to be so of the other values, and what is said where it is not."""

_BOUNDS = (
    ("accumulation", "batch_size", 0, "a batch has no more parts than examples"),
    ("early_stopping", "evaluations", 1, "a patience needs more evaluations than it waits for"),
    ("average_last", "evaluations", 0, "weights are taken after evaluations, so raise those"),
)
"""Values that others bound: by how much these have to be larger, and what is said."""
