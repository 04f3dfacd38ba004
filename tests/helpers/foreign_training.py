"""Output of transformers' Trainer: a real run, and a folder as version 4 wrote it."""

import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

ENUMS = {
    "evaluation_strategy": "transformers.trainer_utils IntervalStrategy",
    "logging_strategy": "transformers.trainer_utils IntervalStrategy",
    "lr_scheduler_type": "transformers.trainer_utils SchedulerType",
    "optim": "transformers.training_args OptimizerNames",
}

OF_4 = {
    "output_dir": "out",
    "overwrite_output_dir": False,
    "do_train": True,
    "evaluation_strategy": "epoch",
    "per_device_train_batch_size": 16,
    "per_gpu_train_batch_size": None,
    "gradient_accumulation_steps": 2,
    "learning_rate": 5e-5,
    "weight_decay": 0.01,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-6,
    "max_grad_norm": 1.0,
    "num_train_epochs": 3.0,
    "max_steps": -1,
    "lr_scheduler_type": "linear",
    "warmup_ratio": 0.0,
    "warmup_steps": 1,
    "logging_strategy": "steps",
    "no_cuda": True,
    "seed": 1,
    "fp16": False,
    "fp16_opt_level": "O1",
    "bf16": False,
    "local_rank": -1,
    "xpu_backend": None,
    "dataloader_drop_last": False,
    "load_best_model_at_end": False,
    "metric_for_best_model": None,
    "sharded_ddp": [],
    "label_smoothing_factor": 0.0,
    "optim": "adamw_hf",
    "adafactor": False,
    "group_by_length": False,
    "report_to": ["tensorboard"],
    "_n_gpu": 0,
}
"""Training arguments of version 4.20, relevant and irrelevant ones, with the run's values."""


def write_arguments(file: Path, values: Mapping[str, Any]) -> None:
    """Write training_args.bin like torch.save, with the class names of version 4."""
    body = [b"\x80\x02ctransformers.training_args\nTrainingArguments\n)\x81}("]
    for name, value in values.items():
        # Without the protocol opcode at the beginning and STOP at the end.
        plain = pickle.dumps(value, protocol=2)[2:-1]
        body.append(pickle.dumps(name, protocol=2)[2:-1])
        if name in ENUMS:
            body.append(b"c" + ENUMS[name].replace(" ", "\n").encode() + b"\n" + plain + b"\x85R")
        else:
            body.append(plain)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"".join(body) + b"ub.")
        archive.writestr("archive/version", "3\n")


def write_folder(folder: Path, checkpoint: Path, **changes: Any) -> Path:
    """Write an output folder of version 4 with the values above and these `changes`.

    Names in capitals change other files: CONFIG, STATE, RESULTS, LENGTH, TOKENS (tokenizer.json)
    and TOKENIZER (tokenizer_config.json).
    """
    folder.mkdir()
    write_arguments(
        folder / "training_args.bin", OF_4 | {n: v for n, v in changes.items() if n.islower()}
    )
    config = json.loads((checkpoint / "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], **changes.get("CONFIG", {})}
    (folder / "config.json").write_text(json.dumps(config))
    state = {"max_steps": 6, "num_train_epochs": 3, "log_history": [], **changes.get("STATE", {})}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    results = {"eval_accuracy": 0.75, "eval_f1": 0.8, "eval_loss": 0.5, "eval_runtime": 1.0}
    results |= {"train_samples": 40, "eval_samples": 40, **changes.get("RESULTS", {})}
    (folder / "all_results.json").write_text(json.dumps(results))
    tokens = json.loads((checkpoint / "tokenizer.json").read_text())
    tokens["truncation"] = {"max_length": changes.get("LENGTH", 40), "strategy": "LongestFirst"}
    (folder / "tokenizer.json").write_text(json.dumps(tokens | changes.get("TOKENS", {})))
    named = json.loads((checkpoint / "tokenizer_config.json").read_text())
    named |= changes.get("TOKENIZER", {})
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


class DecayOfAll(Trainer):
    """Trainer that applies weight decay to biases and norms too."""

    def get_decay_parameter_names(self, model: Any) -> list[str]:
        return [name for name, _ in model.named_parameters()]


def train(
    folder: Path,
    checkpoint: Path,
    texts: Any,
    labels: Any,
    *,
    kind: type[Trainer] = Trainer,
    length: int = 40,
    side: str = "right",
    config: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Train with the installed Trainer, and save the output as the example scripts do."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, padding_side=side)
    rows = Dataset.from_dict({"text": texts, "labels": labels}).map(
        lambda row: tokenizer(row["text"], truncation=True, max_length=length),
        remove_columns="text",
    )
    trainer = kind(
        AutoModelForSequenceClassification.from_pretrained(checkpoint, **(config or {})),
        TrainingArguments(
            output_dir=str(folder),
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            log_level="error",
            **{"save_strategy": "no", **options},
        ),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=lambda found: {
            "accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())
        },
    )
    trainer.train()
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("eval", trainer.evaluate())
    return folder
