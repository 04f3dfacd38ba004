"""Settings and scores of a training in comparable form, read from a run or a Trainer's files."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchharness.errors import BenchError
from benchharness.leaderboard.job import START_FROM, Job, value_text
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.text import digest
from benchharness.models import find_model
from benchharness.models.families import is_causal
from benchharness.models.folder import read_object
from benchharness.models.pickles import Described
from benchharness.models.weights import config_folder
from benchharness.recipes.recipe import ADAFACTOR, ADAMW, LINEAR, SETTINGS
from benchharness.tasks.suites import SUITES, find_task


class Said(NamedTuple):
    """Value of a setting, with its source.

    Attributes:
        value: Value of the setting.
        place: The source of the value, for messages, such as a file and the name of an argument.
        assumed: True if the value is a default of the other tool that no file contains.
    """

    value: Any
    place: str
    assumed: bool = False


Values = Mapping[str, Said]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings and scores of a stored run, or of a training with another tool.

    Attributes:
        name: The name of the training in messages.
        values: The value of each setting, with its source. The keys are the names of recipe
            settings, and the other names that are listed at `FACTS`.
        scores: The scores on dev, from 0 to 1, keyed by benchharness's metric names.
        task: The name of the task; empty if unknown.
        head: The head type, such as "pair" or "span"; empty if unknown.
        family: The model's `model_type` in transformers; empty if unknown.
        labels: The labels of the task; empty if unknown.
        model_names: All names by which benchharness knows the checkpoint.
        keeps_words: True if no row was truncated, False if some were, or if this is unknown.
        unknown: The names of arguments that benchharness does not know.
        flags: Warnings about the scores.
        remarks: Sentences about the score that settings do not express, such as another split.
        limit: The run's `--limit`; None if all rows were used, or if unknown.
        data: Description of the source of the rows, such as "official data"; empty if unknown.
    """

    name: str
    values: Values
    scores: Mapping[str, float] = field(default_factory=dict)
    task: str = ""
    head: str = ""
    family: str = ""
    labels: frozenset[str] = frozenset()
    model_names: frozenset[str] = frozenset()
    keeps_words: bool = False
    unknown: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    limit: int | None = None
    data: str = ""


RANDOM = "random"

MINI = "mini"

SYNTHETIC, OFFICIAL = "mini data (synthetic)", "official data"
"""Values of `Training.data`. Whether the rows of files are official ones is unknown."""

PRETRAINED = "pretrained weights"
"""Value of `start_from` if a run starts with the weights of its checkpoint."""

ALL_DECAY = "all weights, biases and norms too"
"""Value of `decays` if weight decay applies to all parameters."""

FACTS: Mapping[str, Any] = {
    "label_smoothing": 0.0,
    "noise": 0.0,
    "order": RANDOM,
    "drop_last": False,
    "bias_correction": True,
    "decays": "weights of two dimensions or more",
    "update_scale": True,
    "padding": "none",
    "padding_side": "right",
    "truncation_side": "right",
}
"""Values that the code of benchharness fixes, so recipes cannot set them: label smoothing,
noise on embeddings, the order of rows, whether an epoch's last small batch is dropped, Adam's bias
correction, which parameters decay, whether Adafactor scales updates by the weights, the length
and side of padding, and the side of truncation. Other values of a training that are not in its
recipe are train_rows, dev_rows, train_data, dev_data, checkpoint (its name), model, tokenizer,
lower_case, special_tokens, pooling, attention_dropout, precision, seed, protocol, selected_by,
metric, and start_from (the task that is trained first).
"""


def model_name(word: object) -> str:
    """Return the last part of a checkpoint's hub id or path, in lower case."""
    return str(word).rstrip("/").rpartition("/")[2].lower()


def of_run(result: Result) -> Training:
    """Return the settings and scores of a stored run, with the source of each setting."""
    job = result.job
    values = {n: Said(s.value, s.source) for n, s in job.settings.items() if n != START_FROM}
    # Decoupled weight decay (as in Composer) is not multiplied by the learning rate. Divide it by
    # the learning rate, so that it can be compared with usual weight decay.
    if decoupled := values.pop("decoupled_weight_decay", None):
        share = decoupled.value / values["learning_rate"].value
        values["weight_decay"] = Said(share, decoupled.place)
    values |= {name: Said(value, "benchharness") for name, value in FACTS.items()}
    values |= {name: Said(getattr(job, name), "the run") for name in ("precision", "seed")}
    start = job.shown_start or PRETRAINED
    values["start_from"] = Said(start, "the run")
    values["checkpoint"] = Said(job.model, "the run")
    values |= _data_of(job, result.provenance)
    family, names = "", {job.model, job.checkpoint}
    try:
        spec = find_model(job.checkpoint, job.trust)
        family, names = spec.family, {*names, spec.name, spec.checkpoint, *spec.aliases}
        folder = config_folder(spec)
        values = {**of_checkpoint(folder, "the checkpoint"), **values}
        family = str(read_object(folder / "config.json").get("model_type", family))
    except BenchError:  # the checkpoint no longer exists, so its values are unknown
        pass
    rate = values.get("dropout")
    if rate is not None and "dropout" in job.settings:  # a recipe sets both rates to one value
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
        limit=job.limit,
        data={MINI: SYNTHETIC, "hub": OFFICIAL}.get(job.data, ""),
        model_names=frozenset(map(model_name, names)),
        keeps_words=_keeps_words(result.provenance),
    )


def _keeps_words(provenance: Mapping[str, Any]) -> bool:
    lost = [said.get("truncated") for said in provenance.get("data", {}).values()]
    return bool(lost) and not any(count is None or count for count in lost)


def _data_of(job: Job, provenance: Mapping[str, Any]) -> Iterator[tuple[str, Said]]:
    """Yield the numbers of rows and the fingerprints of the train split and the first dev split."""
    dev = find_task(job.task).dev_splits[:1]
    for kind, split in (("train", "train"), *(("dev", name) for name in dev)):
        name = f"{job.task}:{split}"
        rows = provenance.get("data", {}).get(name, {}).get("rows")
        if isinstance(rows, int):
            yield f"{kind}_rows", Said(rows, job.data)
        if name in job.fingerprints:
            yield f"{kind}_data", Said(job.fingerprints[name][:12], job.data)


# Reading a checkpoint's folder: a run's pretrained checkpoint, or the output of another tool.

_DROPOUTS = {
    "dropout": ("hidden_dropout_prob", "hidden_dropout", "dropout", "dropout_rate", "resid_pdrop"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop"),
    "classifier_dropout": (
        *("classifier_dropout", "classifier_dropout_prob", "cls_dropout"),
        *("seq_classif_dropout", "summary_last_dropout"),
    ),
}
"""Names of each dropout rate in the configs of transformers, as in encoder/__init__.py."""

_SIZES = ("hidden_size", "dim", "d_model", "n_embd", "embedding_size")
_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")


def of_checkpoint(folder: Path, place: str) -> dict[str, Said]:
    """Read the settings in the config.json and in the tokenizer files of a checkpoint's folder.

    Args:
        folder: Folder of the checkpoint.
        place: Text with which the source of each value begins, such as "the checkpoint".

    Returns:
        The values, keyed by setting.
    """
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
        # A classifier without its own rate uses the encoder's rate.
        say(name, first((*names, *_DROPOUTS["dropout"])))
    for name, (value, file) in _of_tokenizer(folder):
        say(name, value, file)
    return found


_TOKENIZER, _TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
_WORDPIECES, _PIECES = "vocab.txt", "vocab.json"


def _of_tokenizer(folder: Path) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield a tokenizer's settings, such as `special_tokens`, each with its value and file."""
    tokens, config = (read_object(folder / name) for name in (_TOKENIZER, _TOKENIZER_CONFIG))
    if vocabulary := tokens.get("model", {}).get("vocab"):
        words = f" ({digest(sorted(vocabulary))[:6]})" if isinstance(vocabulary, dict) else ""
        yield "tokenizer", (f"{len(vocabulary):,} tokens{words}", _TOKENIZER)
        yield "special_tokens", (_template(tokens.get("post_processor") or {}), _TOKENIZER)
    elif not tokens:
        yield from _of_vocabulary(folder, str(config.get("tokenizer_class", "")))
    yield from _case(tokens, config)
    for name in ("padding", "truncation"):
        if "direction" in (tokens.get(name) or {}):
            yield f"{name}_side", (tokens[name]["direction"].lower(), _TOKENIZER)
        if f"{name}_side" in config:
            yield f"{name}_side", (config[f"{name}_side"], _TOKENIZER_CONFIG)


def _of_vocabulary(folder: Path, name: str) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield the settings of a tokenizer without a tokenizer.json, from its list of words.

    `name` is the tokenizer's class in transformers. Only the class has the special tokens, so they
    are known for the classes in `_OF_CLASS`.
    """
    file = next((f for f in (_WORDPIECES, _PIECES) if (folder / f).is_file()), None)
    if file is None:
        return
    if file == _PIECES:
        words = sorted(read_object(folder / file))
    else:
        text = (folder / file).read_text(encoding="utf-8", errors="replace")
        lines = text.rstrip("\n").split("\n")  # a token may contain another line break
        words = sorted(set(lines))
    yield "tokenizer", (f"{len(words):,} tokens ({digest(words)[:6]})", file)
    if processor := _OF_CLASS.get(name.removesuffix("Fast")):
        yield "special_tokens", (_template(processor), _TOKENIZER_CONFIG)


_BERT = {"type": "BertProcessing", "cls": ("[CLS]", 101), "sep": ("[SEP]", 102)}
_ROBERTA = {"type": "RobertaProcessing", "cls": ("<s>", 0), "sep": ("</s>", 2)}
_OF_CLASS = {
    **dict.fromkeys(("BertTokenizer", "ElectraTokenizer", "DistilBertTokenizer"), _BERT),
    "RobertaTokenizer": _ROBERTA,
}
"""Post-processors that transformers gives to tokenizers of these classes, keyed by class."""


def _case(
    tokens: Mapping[str, Any], config: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield `lower_case` with its value and source file; with both values if two files differ."""
    found = {}
    if "normalizer" in tokens:
        found[_TOKENIZER] = _lowers(tokens["normalizer"] or {})
    if isinstance(config.get("do_lower_case"), bool):
        found[_TOKENIZER_CONFIG] = config["do_lower_case"]
    if len({*found.values()}) > 1:  # transformers' version determines which file is used
        text = ", ".join(f"{value_text(case)} by {file}" for file, case in found.items())
        yield "lower_case", (text, _TOKENIZER_CONFIG)
    elif found:
        file, case = next(iter(found.items()))
        yield "lower_case", (case, file)


def _lowers(normalizer: Mapping[str, Any]) -> bool:
    parts = normalizer.get("normalizers", [normalizer])
    return any(part.get("lowercase") is True or part.get("type") == "Lowercase" for part in parts)


def _template(processor: Mapping[str, Any]) -> str:
    """Return the template for a pair of texts, such as "[CLS] A [SEP] B:1 [SEP]:1".

    The numbers are token type ids; the id 0 is omitted.
    """
    kind = processor.get("type")
    if kind == "Sequence":
        found = [_template(part) for part in processor["processors"]]
        return next((words for words in found if words != _BARE), _BARE)
    if kind == "TemplateProcessing":
        parts = [inner for part in processor["pair"] for inner in part.values()]
        return " ".join(f"{p['id']}:{p['type_id']}".removesuffix(":0") for p in parts)
    if kind not in ("BertProcessing", "RobertaProcessing"):
        return _BARE
    begin, end = processor["cls"][0], processor["sep"][0]
    second = f"B:1 {end}:1" if kind == "BertProcessing" else f"{end} B {end}"
    return f"{begin} A {end} {second}"


_BARE = "A B"


# Arguments of a Trainer and of the example scripts, by their names in transformers 4 and 5.

_ALIASES = {alias: name for name, facts in SETTINGS.items() for alias in facts.aliases}

PRECISIONS = ("fp16", "bf16", "tf32")

OWN = (
    *("optim", "optim_args", "adafactor", "lr_scheduler_type", "lr_scheduler_kwargs"),
    *("warmup_steps", "warmup_ratio", "num_warmup_steps", "max_steps", "max_train_steps"),
    *("num_train_epochs", "num_epochs", "total_train_batch_size", "train_batch_size"),
    *("per_device_train_batch_size", "per_gpu_train_batch_size", "gradient_accumulation_steps"),
    *("num_devices", "nproc_per_node", "distributed_state", "max_grad_norm", *PRECISIONS),
    *("mixed_precision", "seed", "data_seed", "label_smoothing_factor", "neftune_noise_alpha"),
    *("group_by_length", "train_sampling_strategy", "load_best_model_at_end"),
    *("metric_for_best_model", "early_stopping_patience", "eval_strategy", "evaluation_strategy"),
    *("eval_steps", "dataloader_drop_last", "pad_to_max_length", "task_name", "dataset_name"),
    *("dataset_config_name", "model_name_or_path", "do_lower_case"),
    *("max_train_samples", "max_eval_samples", "max_val_samples"),
)
"""Names of the arguments that `of_arguments` translates one by one. Other arguments are translated
only if they are names or aliases of recipe settings."""

_OF_NO_EFFECT = re.compile(
    r"_|output_dir|overwrite|logging|log_|report|run_name|resume|hub_|push_to|save_|disable_tqdm"
    r"|debug|ddp_|fsdp|deepspeed|dataloader_|remove_unused|label_names|length_column|skip_memory"
    r"|torch(_compile|_empty|dynamo)|jit_mode|use_|no_cuda|local_rank|tpu_|xpu_|past_index"
    r"|prediction_loss|per_\w+_eval|eval_|do_(train|eval|predict)|include_|batch_eval|greater_is"
    r"|ignore_data|restore_|full_determ|accelerator|half_|parallelism|sharded|mp_param|fp16_"
    r"|bf16_full|auto_find|gradient_checkpointing|activation_|average_tokens|split_batches|trackio"
    r"|project|enable_jit|cache_dir|token$|trust_remote|preprocessing|test_file|max_predict|ray_"
    r"|liger|with_tracking|checkpointing_steps|optim_target|label_column|text_column|dispatch"
    r"|evaluate_|null_score|n_best|version_2|return_entity|ignore_mismatched|final_|cached"
)
"""Pattern that matches the beginnings of names of arguments that do not affect the result."""


def of_arguments(args: Values, total: int = 0) -> tuple[dict[str, Said], tuple[str, ...]]:
    """Translate the arguments of a Trainer or an example script to settings of benchharness.

    Args:
        args: The arguments, keyed by name.
        total: The number of optimizer steps in the training; 0 if it is unknown.

    Returns:
        The values, keyed by setting, and the names of arguments that benchharness does not know and
        that may affect the result.
    """
    usual = {"model_revision": "main", "train_file": "", "validation_file": ""}
    args = {n: said for n, said in args.items() if said.value not in (None, usual.get(n))}
    found = dict[str, Said]()
    for name, said in args.items():
        known = name if name in SETTINGS else _ALIASES.get(name, "")
        if known and name not in OWN:
            value = SETTINGS[known].rule.read(said.value)
            found[known] = Said(str(said.value) if value is None else value, said.place)
    for part in (_batch, _schedule, _optimizer, _selection, _rest):
        found |= dict(part(args, total))
    unknown = (name for name in args if name not in {*SETTINGS, *_ALIASES})
    unread = (name for name in unknown if name not in OWN)
    return found, tuple(name for name in unread if not _OF_NO_EFFECT.match(name))


Found = Iterator[tuple[str, Said]]


def _number(args: Values, *names: str) -> tuple[float, str]:
    """Return the first of these arguments that is positive, with its source; else (0, "")."""
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
    """Return whether any of the named arguments is True, or a text that means this.

    Such texts are "true", "1", "yes", and the empty text.
    """
    words = (str(args[name].value).lower() for name in names if name in args)
    return any(word in ("true", "1", "yes", "") for word in words)


def _batch(args: Values, _: int) -> Found:
    whole, place = _number(args, "total_train_batch_size")
    if not whole:
        names = ("per_gpu_train_batch_size", "per_device_train_batch_size", "train_batch_size")
        each, place = _number(args, *names)
        state = args.get("distributed_state", Said(None, "")).value
        processes = state.state.get("num_processes") if isinstance(state, Described) else None
        # A `local_rank` of 0 or more means torch.distributed, where each process has one GPU. If
        # `distributed_state` is missing (transformers 4), the number of processes is unknown, and
        # so is the batch size.
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
    has_warmup = kind is None or kind.value != "constant"  # "constant" ignores warmup arguments
    number, place = _number(args, "warmup_steps", "num_warmup_steps") if has_warmup else (0.0, "")
    ratio, other = _number(args, "warmup_ratio") if has_warmup else (0.0, "")
    if number >= 1:
        yield "warmup_steps", Said(int(number), place)
    elif number or ratio:
        # In transformers 5, warmup_steps below 1 is a share of all steps.
        yield "warmup_ratio", Said(number or ratio, place or other)
    elif named := [n for n in ("warmup_steps", "warmup_ratio", "num_warmup_steps") if n in args]:
        yield "warmup_ratio", Said(0.0, args[named[0]].place)
    if kind is not None:
        word, options = str(kind.value), _options(args.get("lr_scheduler_kwargs"))
        power = _as_number(options.pop("power", 1.0))
        is_line = word == "polynomial" and power == 1  # its end, 1e-7, is practically 0
        word = LINEAR if is_line else word.removesuffix("_with_warmup")
        more = "".join(f", {name} {value}" for name, value in options.items())
        yield "schedule", Said(word + more, kind.place)
        if word == "polynomial":
            yield "schedule_power", Said(power, kind.place)


def _options(said: Said | None) -> dict[str, Any]:
    """Return the mapping in an argument, which is JSON text on a command line."""
    value = said.value if said else {}
    found = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    return dict(found) if isinstance(found, dict) else {"options": found}


def _optimizer(args: Values, _: int) -> Found:
    name = str(args["optim"].value) if "optim" in args else ""
    place = args["optim"].place if name else ""
    if is_on(args, "adafactor"):
        name, place = ADAFACTOR, args["adafactor"].place
    if name:
        is_plain = name.startswith(ADAMW) and not re.search("bit|bnb|anyprecision|schedule", name)
        more = f", {args['optim_args'].value}" if "optim_args" in args else ""
        yield "optimizer", Said((ADAMW if is_plain else name) + more, place)
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
        count = total // every if every >= 1 else 1 / every  # below 1, `every` is a share
        yield "evaluations", Said(round(count), how.place)


METRICS = {
    "matthews_correlation": "mcc",
    "spearmanr": "spearman",
    "exact_match": "em",
    "exact": "em",
    "acc": "accuracy",
}
"""Names of metrics in benchharness, keyed by their names in transformers' scripts."""


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
        ("dev_rows", "max_val_samples", lambda value: int(_as_number(value))),
        ("dev_rows", "max_eval_samples", lambda value: int(_as_number(value))),
        ("checkpoint", "model_name_or_path", str),
        ("lower_case", "do_lower_case", lambda _: is_on(args, "do_lower_case")),
        ("drop_last", "dataloader_drop_last", lambda _: is_on(args, "dataloader_drop_last")),
    ):
        if theirs in args:
            yield ours, Said(read(args[theirs].value), args[theirs].place)
    yield from _order(args)


def _order(args: Values) -> Found:
    """Yield the order of rows, marked as assumed if it is the Trainer's default (random)."""
    if how := args.get("train_sampling_strategy"):  # only in transformers 5
        order = "by length" if how.value == "group_by_length" else str(how.value)
        yield "order", Said(order, how.place, order == RANDOM)
    elif "group_by_length" in args:
        word = "by length" if is_on(args, "group_by_length") else RANDOM
        yield "order", Said(word, args["group_by_length"].place, word == RANDOM)
    other, seed = args.get("data_seed"), args.get("seed")
    if other and seed and _as_number(other.value) != _as_number(seed.value):
        yield "order", Said(f"{RANDOM}, by the seed {other.value}", other.place)
