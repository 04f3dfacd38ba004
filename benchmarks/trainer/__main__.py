"""Fine-tune a checkpoint on official files with transformers' Trainer, for comparison.

    python -m benchmarks.trainer CHECKPOINT FOLDER --task glue/cola --flags best --seed 1

It reads, tokenizes and scores without any code of benchharness. It prints one JSON line for each
task, with the task, the seed, the flags, the seconds, and the scores and counts that `fine_tune`
returns.
"""

import argparse
import json
import time
from dataclasses import fields, replace

from benchmarks.trainer.flags import FLAGS
from benchmarks.trainer.problem import Request
from benchmarks.workloads import Values


def main() -> None:
    options = _parse()
    from benchmarks.trainer.fine_tune import fine_tune

    flags = FLAGS[options.flags]
    given = {f.name: getattr(options, f.name) for f in fields(Values)}
    values = replace(Values(epochs=3.0), **{n: v for n, v in given.items() if v is not None})
    for task in options.task:
        head = HEADS[task.partition("/")[0]]
        start = time.monotonic()
        request = Request(
            checkpoint=options.checkpoint,
            folder=options.folder,
            task=task,
            max_tokens=values.max_tokens,
            pads=head in flags.pads_to_limit,
            multiple=flags.multiple,
        )
        run = fine_tune(request, head, flags, values, options.seed)
        seconds = round(time.monotonic() - start, 1)
        told = {"task": task, "seed": options.seed, "flags": options.flags}
        print(json.dumps({**told, **run, "seconds": seconds}), flush=True)


HEADS = {"glue": "pair", "squad": "span", "race": "choice", "swag": "choice", "conll2003": "tag"}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint")
    parser.add_argument("folder", help="folder with the task's official files")
    parser.add_argument("--task", action="append", required=True)
    parser.add_argument("--flags", choices=sorted(FLAGS), default="random")
    parser.add_argument("--seed", type=int, default=1)
    for field in fields(Values):
        kind = float if field.type is float else int
        name = field.name.replace("_", "-")
        parser.add_argument(
            f"--{name}", type=kind, help="default: the one of BERT's run_classifier.py"
        )
    return parser.parse_args()


if __name__ == "__main__":
    main()
