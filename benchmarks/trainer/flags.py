"""Flags of the Trainer: the example scripts' defaults, and flags that make it fast.

Defaults were read in transformers' examples/pytorch (text-classification/run_glue.py at commit
242e7fc6, question-answering/run_qa.py at 03ea97ae, multiple-choice/run_swag.py at 0055f834,
token-classification/run_ner.py at 049d2bf1) and in training_args.py of transformers 5.23.
"""

from dataclasses import dataclass, replace
from typing import Any

__all__ = ["FLAGS", "Flags"]


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Options for building and computing batches.

    `pads_to_limit` are the head types for which every row is padded to the maximum length. For the
    others rows are padded to the longest row of a batch, rounded up to a multiple of `multiple`.
    """

    pads_to_limit: frozenset[str] = frozenset()
    multiple: int | None = None
    by_length: bool = False
    bf16: bool = False
    tf32: bool = False
    compiled: bool = False
    workers: int = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for TrainingArguments."""
        return {
            "bf16": self.bf16,
            "train_sampling_strategy": "group_by_length" if self.by_length else "random",
            "dataloader_num_workers": self.workers,
            "torch_compile": self.compiled,
            **({"tf32": True} if self.tf32 else {}),  # a processor without tf32 rejects it
        }


BEST = Flags(multiple=8, by_length=True, bf16=True)

FLAGS = {
    "default": Flags(pads_to_limit=frozenset({"pair", "span"})),
    "best": BEST,
    "best-16": replace(BEST, multiple=16),
    "best-workers": replace(BEST, workers=2),
    "best-gpu": replace(BEST, tf32=True, workers=4),
    "best-compiled": replace(BEST, tf32=True, workers=4, compiled=True),
    "best-fp32": replace(BEST, bf16=False),
    "random": Flags(multiple=16),
    "random-bf16": Flags(multiple=16, bf16=True),
}
"""Flags, keyed by name.

"default" has the defaults of the example scripts: run_glue.py and run_qa.py have
--pad_to_max_length True, with 128 and 384 tokens; run_swag.py and run_ner.py have it False. All of
them use fp32, random order, no data loader workers, and fused AdamW (training_args.py, `optim`,
since torch 2.8), which is therefore on in all flags. "best" is compared with the other flags whose
names begin with "best", to ensure that it is the best. "random" and "random-bf16" are for
comparisons of scores: they do not change which examples share a step (docs/log.md describes the
effect of grouping by length on STS-B).
"""
