"""Read trainings of other tools, published results and stored runs for a comparison.

A training can be a Trainer's output folder or a file from it, the command line of an example script
of transformers, a recipe, a published result with the recipe of its paper, or another stored run.
"""

import json
import math
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.explanation.pickled import read_arguments, read_groups
from benchharness.extensions.explanation.training import (
    ALL_DECAY,
    FACTS,
    METRICS,
    OFFICIAL,
    SYNTHETIC,
    Said,
    Training,
    Values,
    is_on,
    of_arguments,
    of_checkpoint,
    of_run,
)
from benchharness.leaderboard.boards.published import PublishedRow, every_row, find_system
from benchharness.leaderboard.job import START_FROM, Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import Store
from benchharness.models import find_model
from benchharness.models.folder import stated_pooling
from benchharness.models.pickles import LARGEST
from benchharness.recipes import resolve_recipe
from benchharness.recipes.recipe import SETTINGS

_KEY = re.compile(r"[0-9a-f]{4,64}")


def read_training(place: str, run: Result, store: Store) -> Training:
    """Read the training that the option `--from` specifies.

    Args:
        place: Value of `--from`: a Trainer's output folder, a file with its arguments, the key of a
            run, or a published result ("TABLE: SYSTEM").
        run: Stored run with which the training will be compared. A recipe is resolved for the task
            and the model of this run, and a published result must be on its task.
        store: The database of stored runs.

    Raises:
        BenchError: The value does not specify a training.
        DataError: The folder or file contains no training arguments, is damaged, or would run code
            when it is loaded.
    """
    path = Path(place).expanduser()
    try:
        if path.is_dir():
            return _of_folder(path, run)
        if path.is_file():
            return _of_file(path, run.job)
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise DataError(
            f"{place} does not have the format of a Trainer's output ({error!r:.80}). Copy it "
            "again, or use only the file with the arguments."
        ) from error
    if _KEY.fullmatch(place):
        return of_run(trained(store, place))
    table, _, system = place.partition(": ")
    if system:
        return _of_published(table, system, run)
    raise BenchError(
        f"--from {place!r} is not a folder, file, key or published result: use a Trainer's output "
        "folder, a file with a command line, a recipe, the key of a run, or 'TABLE: SYSTEM'."
    )


def trained(store: Store, key: str) -> Result:
    """Return the stored run with a key, which must have trained an encoder on one task.

    Args:
        store: The database of stored runs.
        key: The key of the run, or its first characters.

    Raises:
        BenchError: There is no such run, it failed, or it did not train an encoder on exactly one
            task.
    """
    found = store.result(key)
    job = found.job
    if not isinstance(found, Result):
        raise BenchError(
            f"run {key} has no score to explain: its status is {found.kind} ({found.error})."
        )
    if job.kind != "model" or job.is_zero_shot or len(job.trained_tasks) > 1:
        what = (
            f"was trained on {job.title}"
            if len(job.trained_tasks) > 1
            else "did not train an encoder"
        )
        raise BenchError(f"run {key} {what}: use a run that trained an encoder on one task.")
    return found


# A Trainer's output folder.

_ARGUMENTS, _STATE = "training_args.bin", "trainer_state.json"
_RESULTS = ("train_results.json", "eval_results.json", "all_results.json")


def _of_folder(folder: Path, run: Result) -> Training:
    """Read the training in an output folder; missing files are read from its newest checkpoint."""
    numbered = [p for p in folder.glob("checkpoint-*") if p.name.rpartition("-")[2].isdecimal()]
    newest = max(numbered, key=lambda p: int(p.name.rpartition("-")[2]), default=folder)

    def of(name: str) -> Path:
        return folder / name if (folder / name).is_file() else newest / name

    state = _object(of(_STATE))
    results = {name: value for file in _RESULTS for name, value in _object(folder / file).items()}
    args = _arguments(of(_ARGUMENTS), folder / "README.md")
    if not (args or state or results):
        raise DataError(
            f"{folder} does not describe a training run: expected a Trainer's {_ARGUMENTS}, "
            f"{_STATE}, {_RESULTS[-1]}, or a README.md with its hyperparameters."
        )
    args = {**dict(_of_state(state)), **args}
    adapter = _object(folder / "adapter_config.json")
    if "r" in adapter:
        args["lora_rank"] = Said(adapter["r"], "adapter_config.json")
    total = state.get("max_steps")
    found = _of_trainer(str(folder), args, total if isinstance(total, int) else 0)
    logged = [each for each in state.get("log_history", ()) if "eval_loss" in each]
    scores = _scores(results) or _scores(logged[-1] if logged else {})
    config = _object(of("config.json"))
    values = {
        **found.values,
        **of_checkpoint(of("config.json").parent, "its folder"),
        **dict(_of_tokenizer(of("tokenizer.json"))),
        **{name: said for name, said in found.values.items() if not said.assumed},
        **dict(_of_optimizer(of("optimizer.pt"))),
        **dict(_of_results(results)),
    }
    if started := config.get("_name_or_path"):
        values["checkpoint"] = Said(str(started), "config.json: _name_or_path")
    if pooling := stated_pooling(folder):
        values["pooling"] = Said(pooling, "1_Pooling/config.json")
    if scores:
        values["metric"] = Said(", ".join(scores), "its results")
    if "train_rows" not in values and total:
        values |= dict(_counted_rows(values, total, of_run(run).values))
    return replace(found, values=values, scores=scores, **_of_task(config))


def _arguments(file: Path, card: Path) -> dict[str, Said]:
    """Read a Trainer's arguments from a file or, if it does not exist, from a model card."""
    if file.is_file():
        return _placed(read_arguments(file), file.name)
    return dict(_of_card(_text(card))) if card.is_file() else {}


def _placed(values: Mapping[str, Any], place: str) -> dict[str, Said]:
    return {name: Said(value, f"{place}: {name}") for name, value in values.items()}


def _counted_rows(values: Values, total: int, ours: Values) -> Iterator[tuple[str, Said]]:
    """Yield the number of training rows, estimated from the steps per epoch.

    If the number of rows of the stored run would give as many steps, this number is yielded.
    """
    if not {"epochs", "batch_size"} <= values.keys() or "train_rows" not in ours:
        return
    batch, rows = values["batch_size"].value, int(ours["train_rows"].value)
    steps = total / values["epochs"].value
    is_ours = abs(math.ceil(rows / batch) - steps) < 1
    yield (
        "train_rows",
        Said(rows if is_ours else round(steps * batch), f"{_STATE}: estimated from the steps"),
    )


def _of_state(state: Mapping[str, Any]) -> Iterator[tuple[str, Said]]:
    """Yield the arguments that trainer_state.json contains."""
    if epochs := state.get("num_train_epochs"):
        yield "num_train_epochs", Said(epochs, _STATE)
    stopping = state.get("stateful_callbacks", {}).get("EarlyStoppingCallback", {})
    if patience := stopping.get("args", {}).get("early_stopping_patience"):
        yield "early_stopping_patience", Said(patience, _STATE)
    if state.get("best_model_checkpoint"):
        yield "load_best_model_at_end", Said(True, f"{_STATE}: best_model_checkpoint")


def _of_results(results: Mapping[str, Any]) -> Iterator[tuple[str, Said]]:
    for ours, theirs in (("train_rows", "train_samples"), ("dev_rows", "eval_samples")):
        if isinstance(results.get(theirs), int | float):
            yield ours, Said(int(results[theirs]), f"{_RESULTS[-1]}: {theirs}")


def _scores(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores on dev, keyed by benchharness's metric names.

    Percentages, such as those of SQuAD's script, are divided by 100.
    """
    found = {}
    for name, value in results.items():
        word = name.removeprefix("eval_")
        is_score = word != name and not _MEASURES_TIME.search(word)
        if is_score and isinstance(value, int | float) and math.isfinite(value):
            found[METRICS.get(word, word)] = value / 100 if abs(value) > 1 else float(value)
    return found


_MEASURES_TIME = re.compile(
    "loss|runtime|per_second|samples|combined|time|total|memory|epoch|thresh"
)


def _of_tokenizer(file: Path) -> Iterator[tuple[str, Said]]:
    """Yield the maximum length that was saved with the tokenizer."""
    cut = _object(file).get("truncation") or {}
    if "max_length" in cut:
        yield "max_tokens", Said(cut["max_length"], "tokenizer.json: truncation")


def _of_optimizer(file: Path) -> Iterator[tuple[str, Said]]:
    """Yield settings from the parameter groups in the optimizer's final state."""
    groups = read_groups(file) if file.is_file() else ()
    place = f"{file.name}: param_groups"

    def numbers(name: str) -> list[float]:
        return [float(g[name]) for g in groups if isinstance(g.get(name), int | float)]

    if decays := numbers("weight_decay"):
        yield "weight_decay", Said(max(decays), place)
        yield "decays", Said(ALL_DECAY if min(decays) > 0 else BY_NAME, place)
    rates = sorted({*numbers("initial_lr")})
    if rates:
        several = f"{len(rates)} rates, {rates[0]:g} to {rates[-1]:g}"
        yield "learning_rate", Said(several if len(rates) > 1 else rates[0], place)
    betas = [each for g in groups[:1] for each in g.get("betas", ())]
    for name, value in zip(_OF_ADAM, (*betas, *numbers("eps")[:1]) if betas else (), strict=False):
        yield name, Said(value, place)


BY_NAME = "all but biases and norms, by name"

_HEADS = {
    "SequenceClassification": "pair",
    "MultipleChoice": "choice",
    "QuestionAnswering": "span",
    "QuestionAnsweringSimple": "span",
    "TokenClassification": "tag",
}


def _of_task(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the head type, the task and its labels in a config.json; each is empty if unknown."""
    name = str((config.get("architectures") or [""])[0]).rpartition("For")[2]
    labels = config.get("id2label")
    words = frozenset(map(str, labels.values() if isinstance(labels, dict) else ()))
    named = not any(re.fullmatch(r"LABEL_\d+|\d+", word) for word in words)
    task = str(config.get("finetuning_task") or "")
    return {"head": _HEADS.get(name, ""), "labels": words if named else frozenset(), "task": task}


_LINE = re.compile(r"(?m)^- (\w+): (.+)$")
_OF_CARD = {
    "lr_scheduler_warmup_ratio": "warmup_ratio",
    "lr_scheduler_warmup_steps": "warmup_steps",
}
_OF_CARD |= {"training_steps": "max_steps", "mixed_precision_training": "mixed_precision"}


def _of_card(text: str) -> Iterator[tuple[str, Said]]:
    """Yield the hyperparameters in a Trainer's model card."""
    place = "README.md"
    for name, value in _LINE.findall(text.partition("hyperparameters were used")[2]):
        if name != "optimizer":
            yield _OF_CARD.get(name, name), Said(value, place)
            continue
        # "Adam with betas=(0.9,0.999) and epsilon=1e-08", or "Use adamw_torch with betas=...".
        yield "optim", Said("adafactor" if "adafactor" in value.lower() else "adamw", place)
        numbers = re.search(r"betas=\(([\d.]+), ?([\d.]+)\) and epsilon=([\d.e-]+)", value)
        for parameter, number in zip(_OF_ADAM, numbers.groups() if numbers else (), strict=False):
            yield parameter, Said(number, place)


_OF_ADAM = ("adam_beta1", "adam_beta2", "adam_epsilon")


def _of_trainer(name: str, args: Values, total: int = 0) -> Training:
    """Return the settings of a training with transformers' Trainer, given its arguments."""
    values, unknown = of_arguments(args, total)
    place = "transformers' Trainer"
    facts: dict[str, Any] = {**FACTS, "decays": BY_NAME, "padding": "to the longest row"}
    if pads := args.get("pad_to_max_length"):
        word = "to the limit" if is_on(args, "pad_to_max_length") else facts["padding"]
        values["padding"] = Said(word, pads.place)
    off = {n: f.default for n, f in SETTINGS.items() if not f.stated and f.default is not None}
    absent = {
        n: Said(v, place, n in facts)
        for n, v in {**off, **facts}.items()
        if n not in values and n not in _UNSURE
    }
    if total and "steps" not in values and "epochs" not in values:
        values["steps"] = Said(total, _STATE)
    return Training(name=name, values={**absent, **values}, unknown=unknown)


_UNSURE = frozenset(
    {"steps", "warmup_steps", "schedule", "schedule_power", "shots", "as_text", "optimizer"}
    | {"max_answer_tokens", "best_checkpoint", "early_stopping", "evaluations", "update_scale"}
    | {"drop_last", "order"}
)
"""Settings that a Trainer or its script may change without writing them to a file. If such a value
is missing, it may differ from the default.
"""


# Single files: a Trainer's arguments, a command line or a recipe.


def _of_file(path: Path, job: Job) -> Training:
    if path.suffix == ".toml":
        own = resolve_recipe(find_model(job.checkpoint, job.trust), job.task, str(path), {})
        said = {n: Said(s.value, s.source) for n, s in own.settings.items() if n != START_FROM}
        said["checkpoint"] = Said(job.model, "the run")
        return Training(name=str(path), values=said)
    script, place = "", path.name
    if path.suffix in (".bin", ".pt"):
        args = _placed(read_arguments(path), place)
    elif path.suffix == ".md":
        args = dict(_of_card(_text(path)))
    elif path.suffix == ".json":
        args = _placed(_object(path), place)
        script = "run_glue" if args.get("task_name", Said(None, "")).value else "Trainer"
    else:
        script, args = _of_command(_text(path), place)
    if not script and "learning_rate" not in args:
        raise DataError(
            f"{path} does not describe a training run: expected the command line of run_glue.py, "
            "run_qa.py, run_swag.py or run_ner.py, a JSON file with their arguments, a "
            f"{_ARGUMENTS}, a model card, or a recipe (TOML)."
        )
    if script:
        args = {**_placed(_defaults(script), f"the default of {script}"), **args}
    # In run_qa.py, the stride is the overlap of adjacent windows. In benchharness, it is the
    # distance between their starts.
    if script.startswith("run_qa"):
        stride = args["doc_stride"]
        args["doc_stride"] = Said(f"so that {stride.value} overlap", stride.place)
    words = ("task_name", "dataset_name", "dataset_config_name")
    named = (args[name].value for name in words if name in args)
    head = _SCRIPTS.get(script.removesuffix("_no_trainer"), ("",))[0]
    task = " ".join(str(each) for each in named if each)
    return replace(_of_trainer(str(path), args), task=task, head=head)


_SCRIPTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "run_glue": ("pair", {"max_seq_length": 128, "pad_to_max_length": True}),
    "run_classification": ("pair", {"max_seq_length": 128, "pad_to_max_length": True}),
    "run_qa": (
        "span",
        {
            "max_seq_length": 384,
            "doc_stride": 128,
            "max_answer_length": 30,
            "pad_to_max_length": True,
        },
    ),
    "run_squad": (
        "span",
        {"max_seq_length": 384, "doc_stride": 128, "max_query_length": 64, "max_answer_length": 30},
    ),
    "run_swag": ("choice", {}),
    "run_ner": ("tag", {}),
}
"""Head type and default arguments of each example script of transformers."""

_TRAINER_DEFAULTS = {
    "learning_rate": 5e-5,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 3.0,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "lr_scheduler_type": "linear",
    "warmup_steps": 0,
    "optim": "adamw_torch",
    "seed": 42,
    "label_smoothing_factor": 0.0,
    "fp16": False,
    "load_best_model_at_end": False,
    "group_by_length": False,
    "dataloader_drop_last": False,
}
"""Defaults of TrainingArguments that are the same in versions 4.0 to 5.23."""


def _defaults(script: str) -> dict[str, Any]:
    own = _SCRIPTS.get(script.removesuffix("_no_trainer"), ("", {}))[1]
    # The no_trainer scripts have a training loop without gradient clipping.
    clip = {"max_grad_norm": 0.0} if script.endswith("_no_trainer") else {}
    return {**_TRAINER_DEFAULTS, **own, **clip}


def _of_command(text: str, place: str) -> tuple[str, dict[str, Said]]:
    """Return the script and arguments of a command line, with the file's variables substituted."""
    known = dict(re.findall(r"(?m)^\s*(?:export\s+)?(\w+)=[\"']?([^\s\"']+)", text))
    line = Template(text.replace("\\\n", " ")).safe_substitute(known)
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise DataError(f"{place} does not contain a command line ({error}).") from None
    script, args = "", dict[str, Said]()
    for word, after in pairwise([*words, "--"]):
        if name := re.search(r"(run_\w+)\.py$", word):
            script = name[1]
        elif word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            found = value if equals else "true" if after.startswith("--") else after
            args[flag.replace("-", "_")] = Said(found, f"{place}: --{flag}")
    return script, args


# Stored and published results.


def _of_published(table: str, system: str, run: Result) -> Training:
    """Return the training of a published result, with its paper's recipe if the model is known.

    Its scores are left out if they are not on the rows of the run.
    """
    job, ours = run.job, of_run(run)
    suite = job.task.partition("/")[0]
    known = [
        row for row in every_row() if (row.table, row.system, row.suite) == (table, system, suite)
    ]
    rows = [row for row in known if row.of(job.task)]
    dev = [row for row in rows if row.split == "dev"] or rows
    if not dev:
        raise BenchError(
            f"no published result on {job.task} is called '{table}: {system}'. "
            f"`bench show published --suite {suite}` lists all tables and systems."
        )
    row, named = dev[0], find_system(system, table)
    if row.protocol == "human":
        raise BenchError(
            f"{system} ({table}) is a score of human performance, which has no training. Choose "
            f"the score of a system; `bench show published --suite {suite}` lists them."
        )
    values = dict[str, Said]()
    if named and named.model:  # the recipes of other systems are unknown
        settings = resolve_recipe(find_model(named.model), job.task, None, {}).settings
        values = {n: Said(s.value, s.source) for n, s in settings.items() if n != START_FROM}
        values["checkpoint"] = Said(named.model, row.source)
    source = values["adam_epsilon"].place if "adam_epsilon" in values else ""
    if source.startswith(_UNCORRECTED):
        values["bias_correction"] = Said(False, source)
    values["protocol"] = Said(f"{row.split}, {row.protocol}", f"{row.source}: {row.place}")
    counts = dict(zip(("train_rows", "dev_rows"), _official_rows().get(job.task, ()), strict=False))
    values |= {name: Said(count, OFFICIAL) for name, count in counts.items()}
    cells = [cell for cell in row.of(job.task) if len(cell.scores) == 1]
    other = _other_rows(ours, counts)
    is_on_same = row.split == "dev" and not other
    scores = {cell.scores[0]: cell.value / 100 for cell in cells} if is_on_same else {}
    return Training(
        name=f"{system} ({table})",
        values=values,
        scores=scores,
        task=job.task,
        data=OFFICIAL,
        remarks=tuple(_published_remarks(row, job, named.model if named else "", other)),
    )


@cache
def _official_rows() -> Mapping[str, tuple[int, int]]:
    """Return the numbers of rows of official train and dev splits, keyed by task."""
    file = files("benchharness.extensions.explanation") / "official_rows.toml"
    known = tomllib.loads(file.read_text(encoding="utf-8"))
    return {task: (train, dev) for task, (train, dev) in known.items()}


def _other_rows(ours: Training, official: Mapping[str, int]) -> str:
    """Return a description of a run's rows if its dev rows are known to be unofficial, else ""."""
    if ours.data == SYNTHETIC:
        return SYNTHETIC
    rows = {name: ours.values[name].value for name in official if name in ours.values}
    if "dev_rows" not in rows or rows["dev_rows"] == official["dev_rows"]:
        return ""
    return f"{rows['dev_rows']:,} dev rows instead of the official {official['dev_rows']:,}"


def _published_remarks(row: PublishedRow, job: Job, model: str, other: str) -> Iterator[str]:
    """Yield sentences about differences in the way a published score and a run's were obtained.

    Args:
        row: Published row.
        job: Job of the run.
        model: Name of the published model in benchharness; empty if it is unknown.
        other: Description of the run's rows if they are not the official ones; else empty.
    """
    printed = ", ".join(f"{' or '.join(c.scores)} {c.printed}" for c in row.of(job.task))
    if other:
        yield (
            f"the data differ, so the scores cannot be compared: the run is on {other}, the "
            f"published score ({printed}) is on the official data."
        )
    if row.split != "dev":
        yield (
            f"the splits differ, so the scores cannot be compared: the published score ({printed}) "
            f"is on {row.split}, the run's score on dev."
        )
    elif any(len(cell.scores) > 1 for cell in row.of(job.task)):
        yield f"the source does not state which of these scores it prints: {printed}."
    if row.protocol.startswith("best of"):
        yield (
            f"the published score is the best of several training runs (protocol: {row.protocol}), "
            "but the run is a single one, whose score is usually lower."
        )
    elif row.protocol.partition(" ±")[0] not in ("unsaid", *_SINGLE):
        yield (
            f"the published score has the protocol {row.protocol!r}, but the run is a single "
            "training run."
        )
    spec = find_model(model) if model else None
    if spec and job.model.lower() == spec.name.lower() and job.checkpoint != spec.checkpoint:
        yield (
            f"the weights may differ: the run started with the weights of {job.checkpoint}, "
            f"the published model with {spec.checkpoint}."
        )


_SINGLE = ("single", "one seed", "one checkpoint")
"""Protocols of published scores of a single training run."""


_UNCORRECTED = ("google-research/bert", "google-research/electra")
"""Repositories whose optimizer (AdamWeightDecayOptimizer) omits Adam's bias correction."""


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"more than {LARGEST:,} bytes")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as text ({error}).") from None


def _object(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file, or an empty one if the file does not exist.

    Raises:
        DataError: The file contains something else.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON ({error}). Copy it again.") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not a JSON object: expected a file that a Trainer wrote.")
    return found
