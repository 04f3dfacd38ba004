"""A training as it is compared, and what a Trainer's arguments and checkpoint say of one."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchharness.leaderboard.job import START_FROM, Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.text import digest
from benchharness.models import find_model
from benchharness.models.families import is_causal
from benchharness.models.folder import read_object
from benchharness.models.pickles import Described
from benchharness.models.weights import config_folder
from benchharness.recipes.recipe import ADAFACTOR, ADAMW, LINEAR, SETTINGS
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import SUITES, find_task


class Said(NamedTuple):
    """A value and where it was read."""

    value: Any
    place: str


Values = Mapping[str, Said]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training: its values by the recipe's names and by those of FACTS.

    `scores` are of dev by our metrics' names, from 0 to 1. `task`, `head` and `labels` are empty
    where nothing says them, as is the model's `family`, transformers' model_type; `unknown` are the
    names of values that nobody here knows, `flags` what must be known of the scores.
    """

    name: str
    values: Values
    scores: Mapping[str, float] = field(default_factory=dict)
    task: str = ""
    head: str = ""
    family: str = ""
    labels: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


FACTS: Mapping[str, Any] = {
    "label_smoothing": 0.0,
    "noise": 0.0,
    "order": "random",
    "drop_last": False,
    "bias_correction": True,
    "decays": "weights of two dimensions or more",
    "update_scale": True,
    "padding": "none",
}
"""What code decides that no recipe says, as it is here: smoothed labels, noise on embeddings, the
order of rows, whether an epoch's last small batch is left out, Adam's bias correction, what decays,
whether Adafactor scales updates by the weights, and what a batch is padded to. Besides these there
are train_rows, dev_rows, train_data, dev_data, model, tokenizer, pooling, attention_dropout,
precision, seed, protocol, selected_by, metric, and start_from, what is trained before."""


def of_run(result: Result) -> Training:
    """A stored run."""
    job = result.job
    values = {n: Said(s.value, s.source) for n, s in job.settings.items() if n != START_FROM}
    if decoupled := values.pop("decoupled_weight_decay", None):  # per step, as Composer counts
        share = decoupled.value / values["learning_rate"].value
        values["weight_decay"] = Said(share, decoupled.place)
    values |= {name: Said(value, "benchharness") for name, value in FACTS.items()}
    values |= {name: Said(getattr(job, name), "the run") for name in ("precision", "seed")}
    start = job.shown_start or "pretrained weights"
    values["start_from"] = Said(start, "the run")
    values |= _data_of(job, result.provenance)
    family = ""
    try:
        spec = find_model(job.checkpoint, job.trust)
        family = spec.family
        folder = config_folder(spec)
        values = {**of_checkpoint(folder, "the checkpoint"), **values}
        family = str(read_object(folder / "config.json").get("model_type", family))
    except BenchError:  # it is not here any more, and what it says is not known
        pass
    rate = values.get("dropout")
    if rate is not None and "dropout" in job.settings:  # sets those of attention too
        values["attention_dropout"] = rate
    task = find_task(job.task)
    first = next((e for e in result.evaluations if e.task == job.task and e.scores), None)
    scores = {} if first is None else first.scores
    named = SUITES[task.suite].rule.cells.get(task.name, (task.metrics[0].name,))
    values["metric"] = Said(", ".join(m.name for m in task.metrics), "the task")
    values["selected_by"] = Said(", ".join(named), "the task")
    return Training(
        name=f"run {job.key[:12]}",
        values=values,
        scores={name: value for name, value in scores.items() if math.isfinite(value)},
        task=job.task,
        head=task.head,
        family=family,
        flags=result.flags.get(job.task, ()),
    )


def _data_of(job: Job, provenance: Mapping[str, Any]) -> Iterator[tuple[str, Said]]:
    """The rows and fingerprints of train and of the first dev split."""
    dev = find_task(job.task).dev_splits[:1]
    for kind, split in (("train", "train"), *(("dev", name) for name in dev)):
        name = f"{job.task}:{split}"
        rows = provenance.get("data", {}).get(name, {}).get("rows")
        if isinstance(rows, int):
            yield f"{kind}_rows", Said(rows, job.data)
        if name in job.fingerprints:
            yield f"{kind}_data", Said(job.fingerprints[name][:12], job.data)


# A checkpoint's folder: ours before the training, theirs after it.

_DROPOUTS = {
    "dropout": ("hidden_dropout_prob", "hidden_dropout", "dropout", "dropout_rate", "resid_pdrop"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
    "classifier_dropout": (
        *("classifier_dropout", "classifier_dropout_prob", "cls_dropout"),
        *("seq_classif_dropout", "summary_last_dropout"),
    ),
}
"""What configs of transformers call these rates, as in encoder/__init__.py."""

_SIZES = ("hidden_size", "dim", "d_model", "n_embd", "embedding_size")
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


def of_checkpoint(folder: Path, place: str) -> dict[str, Said]:
    """What a folder's config.json and tokenizer say."""
    config, found = read_object(folder / "config.json"), dict[str, Said]()

    def first(names: Sequence[str]) -> Any:
        return next((config[name] for name in names if config.get(name) is not None), None)

    def say(name: str, value: Any, file: str = "config.json") -> None:
        if isinstance(value, str) or (isinstance(value, int | float) and math.isfinite(value)):
            found[name] = Said(value, f"{place}: {file}")

    if "model_type" in config:
        say("model", f"{config['model_type']}, {first(_LAYERS)} layers of {first(_SIZES)}")
        usual = "last token" if is_causal(config) else "as the family"
        say("pooling", config.get("classifier_pooling", usual))
    for name, names in _DROPOUTS.items():
        # Without one of its own a classifier has the encoder's.
        say(name, first((*names, *_DROPOUTS["dropout"])))
    tokens = read_object(folder / "tokenizer.json")
    if vocabulary := tokens.get("model", {}).get("vocab"):
        words = f" ({digest(sorted(vocabulary))[:6]})" if isinstance(vocabulary, dict) else ""
        case = "lower case" if _lowers(tokens.get("normalizer") or {}) else "keeps the case"
        say("tokenizer", f"{len(vocabulary):,} tokens{words}, {case}", "tokenizer.json")
    return found


def _lowers(normalizer: Mapping[str, Any]) -> bool:
    parts = normalizer.get("normalizers", [normalizer])
    return any(part.get("lowercase") is True or part.get("type") == "Lowercase" for part in parts)


# The arguments of a Trainer, and of transformers' example scripts, by their names of 4.x and 5.x.

_ALIASES = {alias: name for name, facts in SETTINGS.items() for alias in facts.aliases}

_OWN = re.compile(
    r"optim|optim_args|adafactor|lr_scheduler_\w+|warmup_\w+|num_warmup_steps|(per_\w+|total_)?train_"
    r"batch_size|gradient_accumulation_steps|num_devices|nproc_per_node|distributed_state|max_steps"
    r"|max_train_steps|num_(train_)?epochs|max_grad_norm|fp16|bf16|tf32|mixed_precision|(data_)?seed"
    r"|label_smoothing_factor|neftune_noise_alpha|group_by_length|train_sampling_strategy|load_best_"
    r"model_at_end|metric_for_best_model|early_stopping_patience|eval(uation)?_strategy|eval_steps"
    r"|dataloader_drop_last|pad_to_max_length|(task|dataset)_name|dataset_config_name|model_name_or"
    r"_path|max_(train|eval|val)_samples"
)
"""The arguments that are read one by one below; others may be values of a recipe."""

_OF_NO_EFFECT = re.compile(
    r"_|output_dir|overwrite|logging|log_|report|run_name|resume|hub_|push_to|save_|disable_tqdm"
    r"|debug|ddp_|fsdp|deepspeed|dataloader_|remove_unused|label_names|length_column|skip_memory"
    r"|torch|jit_mode|use_|no_cuda|local_rank|tpu_|xpu_|past_index|prediction_loss|per_\w+_eval"
    r"|eval_|do_|include_|batch_eval|greater_is|ignore_data|restore_|full_determ|accelerator|half_"
    r"|parallelism|sharded|mp_param|fp16_|bf16_full|auto_find|gradient_checkpointing|activation_"
    r"|average_tokens|split_batches|trackio|project|enable_jit|cache_dir|model_revision|token"
    r"|trust_remote|preprocessing|train_file|validation_file|test_file|max_predict|ray_|liger"
    r"|config_name|tokenizer_name|with_tracking|checkpointing_steps|optim_target|label_column"
    r"|text_column|dispatch|evaluate_|null_score|n_best|version_2|return_entity|ignore_mismatched|final_|cached"
)
"""Beginnings of arguments that change no result, or not those of a run to its end on one task."""

PRECISIONS = ("fp16", "bf16", "tf32")


def of_arguments(args: Values, total: int = 0) -> tuple[dict[str, Said], tuple[str, ...]]:
    """The values of a Trainer's arguments by our names, and the arguments that nobody knows.

    `total` is the number of its optimizer steps, 0 where that is not known.
    """
    args = {name: said for name, said in args.items() if said.value is not None}
    found = dict[str, Said]()
    for name, said in args.items():
        known = name if name in SETTINGS else _ALIASES.get(name, "")
        if known and not _OWN.fullmatch(name):
            value = SETTINGS[known].rule.read(said.value)
            found[known] = Said(str(said.value) if value is None else value, said.place)
    for part in (_batch, _schedule, _optimizer, _selection, _rest):
        found |= dict(part(args, total))
    unknown = (name for name in args if name not in {*SETTINGS, *_ALIASES})
    unread = (name for name in unknown if not _OWN.fullmatch(name))
    return found, tuple(name for name in unread if not _OF_NO_EFFECT.match(name))


Found = Iterator[tuple[str, Said]]


def _number(args: Values, *names: str) -> tuple[float, str]:
    """The first number above 0 among these, and where it was read; 0 where there is none."""
    for name in names:
        if name in args and (value := _as_number(args[name].value)) > 0:
            return value, args[name].place
    return 0.0, ""


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def is_on(args: Values, *names: str) -> bool:
    """Whether one of these is set, as Python or a command line says it."""
    words = (str(args[name].value).lower() for name in names if name in args)
    return any(word in ("true", "1", "yes", "") for word in words)


def _batch(args: Values, _: int) -> Found:
    whole, place = _number(args, "total_train_batch_size")
    if not whole:
        names = ("per_gpu_train_batch_size", "per_device_train_batch_size", "train_batch_size")
        each, place = _number(args, *names)
        state = args.get("distributed_state", Said(None, "")).value
        processes = state.state.get("num_processes") if isinstance(state, Described) else None
        # A process of torch.distributed has one GPU; 4.x without a state says no more than that.
        if processes is None and _as_number(getattr(args.get("local_rank"), "value", -1)) >= 0:
            return
        devices = _number(args, "num_devices", "nproc_per_node")[0] or float(processes or 1)
        parts = (
            _number(args, name)[0] or 1.0 for name in ("_n_gpu", "gradient_accumulation_steps")
        )
        whole = each * devices * math.prod(parts)
    if whole:
        yield "batch_size", Said(int(whole), place)


def _schedule(args: Values, _: int) -> Found:
    steps, place = _number(args, "max_steps", "max_train_steps")
    if steps:
        yield "steps", Said(int(steps), place)
    else:
        epochs, place = _number(args, "num_train_epochs", "num_epochs")
        if epochs:
            yield "epochs", Said(epochs, place)
    kind = args.get("lr_scheduler_type")
    has_warmup = kind is None or kind.value != "constant"  # which transformers begins at once
    number, place = _number(args, "warmup_steps", "num_warmup_steps") if has_warmup else (0.0, "")
    ratio, other = _number(args, "warmup_ratio") if has_warmup else (0.0, "")
    if number >= 1:
        yield "warmup_steps", Said(int(number), place)
    elif number or ratio:
        # transformers 5 takes warmup_steps below 1 for a share.
        yield "warmup_ratio", Said(number or ratio, place or other)
    elif named := [n for n in ("warmup_steps", "warmup_ratio", "num_warmup_steps") if n in args]:
        yield "warmup_ratio", Said(0.0, args[named[0]].place)
    if kind is not None:
        word, options = str(kind.value), args.get("lr_scheduler_kwargs", Said({}, "")).value
        power = _as_number(options.get("power", 1.0)) if isinstance(options, dict) else 1.0
        is_line = word == "polynomial" and power == 1  # down to 1e-7, as good as 0
        word = LINEAR if is_line else word.removesuffix("_with_warmup")
        yield "schedule", Said(word, kind.place)
        if word == "polynomial":
            yield "schedule_power", Said(power, kind.place)


def _optimizer(args: Values, _: int) -> Found:
    name = str(args["optim"].value) if "optim" in args else ""
    place = args["optim"].place if name else ""
    if is_on(args, "adafactor"):
        name, place = ADAFACTOR, args["adafactor"].place
    if name:
        is_plain = name.startswith(ADAMW) and not re.search("bit|bnb|anyprecision|schedule", name)
        yield "optimizer", Said(ADAMW if is_plain else name, place)
    if name == ADAFACTOR:
        yield "update_scale", Said(False, "transformers' Trainer")
    if "max_grad_norm" in args:
        norm = _as_number(args["max_grad_norm"].value)
        yield (
            "max_grad_norm",
            Said(norm if 0 < norm < math.inf else 0.0, args["max_grad_norm"].place),
        )


def _selection(args: Values, total: int) -> Found:
    if "load_best_model_at_end" in args:
        place = args["load_best_model_at_end"].place
        yield "best_checkpoint", Said(is_on(args, "load_best_model_at_end"), place)
    if patience := _number(args, "early_stopping_patience")[0]:
        yield "early_stopping", Said(int(patience), args["early_stopping_patience"].place)
    if metric := args.get("metric_for_best_model"):
        word = str(metric.value).removeprefix("eval_")
        yield "selected_by", Said(METRICS.get(word, word), metric.place)
    how = args.get("eval_strategy") or args.get("evaluation_strategy") or Said("no", "")
    if how.value == "epoch" and (epochs := _number(args, "num_train_epochs")[0]):
        yield "evaluations", Said(math.ceil(epochs), how.place)
    if (
        how.value == "steps"
        and total
        and (every := _number(args, "eval_steps", "logging_steps")[0])
    ):
        count = total // every if every >= 1 else 1 / every  # below 1 it is a share of all steps
        yield "evaluations", Said(round(count), how.place)


METRICS = {
    "matthews_correlation": "mcc",
    "spearmanr": "spearman",
    "exact_match": "em",
    "exact": "em",
    "acc": "accuracy",
}
"""What transformers' scripts call our metrics."""


def _rest(args: Values, _: int) -> Found:
    said = [name for name in PRECISIONS if name in args]
    if said or "mixed_precision" in args:
        word = "fp16" if "AMP" in str(args.get("mixed_precision")) else "fp32"
        on = next((name for name in said if is_on(args, name)), word)
        yield "precision", Said(on, args[(*said, "mixed_precision")[0]].place)
    for ours, theirs, read in (
        ("seed", "seed", lambda value: int(_as_number(value))),
        ("label_smoothing", "label_smoothing_factor", _as_number),
        ("noise", "neftune_noise_alpha", _as_number),
        ("train_rows", "max_train_samples", lambda value: int(_as_number(value))),
        ("drop_last", "dataloader_drop_last", lambda _: is_on(args, "dataloader_drop_last")),
    ):
        if theirs in args:
            yield ours, Said(read(args[theirs].value), args[theirs].place)
    if how := args.get("train_sampling_strategy"):  # transformers 5
        order = "by length" if how.value == "group_by_length" else str(how.value)
        yield "order", Said(order, how.place)
    elif "group_by_length" in args:
        word = "by length" if is_on(args, "group_by_length") else "random"
        yield "order", Said(word, args["group_by_length"].place)
