"""Pretrain a small BERT by masked language modelling, and keep checkpoints of several steps.

    python -m benchmarks.pretrain --data GLUE --out DIR

The texts are the train splits of GLUE's tasks in the folder (`mini` for the packaged ones). They
are read at run time, and only a vocabulary and weights are kept. DIR gets `step-0`, the random
weights, and a folder for each of the requested steps. The steps are evenly spaced on a logarithmic
scale, because a model learns most at the beginning.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from benchharness.errors import BenchError
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import SUITES, TASKS

__all__ = ["pretrain", "steps_to_keep", "texts_of"]

SHARE = 0.15
"""Share of tokens to predict, of which 8 of 10 are masked, as in BERT (arXiv:1810.04805)."""

LONGEST = 64
"""Maximum length of a text, in tokens."""


def main() -> None:
    options = _parse()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    pretrain(texts_of(options.data), Path(options.out), options)


def texts_of(data: str) -> list[str]:
    """Return the distinct texts of all of GLUE's train splits that the source has, in order."""
    source, found = parse_data(data), dict[str, None]()
    for name in SUITES["glue"].tasks:
        task = TASKS[name]
        if task.trained_on is not None:
            continue
        try:
            rows = read(task, "train", source, None)
        except BenchError:
            continue  # the folder does not have this task
        examples: Sequence[Any] = rows.examples
        found |= {text: None for e in examples for text in (e.text_a, e.text_b) if text}
    return list(found)


def steps_to_keep(last: int, count: int) -> list[int]:
    """Return about `count` steps up to the last one, evenly spaced on a logarithmic scale."""
    first = max(1.0, last / 100)
    ratio = (last / first) ** (1 / (count - 1))
    return sorted({round(first * ratio**n) for n in range(count)})


def pretrain(texts: Sequence[str], out: Path, options: argparse.Namespace) -> None:
    """Train for the requested steps on the texts, and write the checkpoints to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = _train_tokenizer(texts, out, options.vocabulary)
    network = BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=options.width,
            num_hidden_layers=options.layers,
            num_attention_heads=options.width // 64,
            intermediate_size=4 * options.width,
        )
    )
    encoded = tokenizer(list(texts), max_length=LONGEST, truncation=True).input_ids
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=0.01)
    keep, tokens, began = steps_to_keep(options.steps, options.keep), 0, time.monotonic()
    _save(network, tokenizer, out, 0, tokens)
    network.train()
    for step, batch in zip(range(1, options.steps + 1), _batches(encoded, options), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = options.rate * _height(step / options.steps)
        ids, labels, attention = _masked(batch, tokenizer)
        chosen = labels != -100
        hidden = network.bert(input_ids=ids, attention_mask=attention).last_hidden_state[chosen]
        loss = torch.nn.functional.cross_entropy(network.cls(hidden), labels[chosen])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        tokens += int(attention.sum())
        if step in keep:
            _save(network, tokenizer, out, step, tokens)
            seconds = time.monotonic() - began
            print(
                f"step {step}: loss {loss.item():.3f}, {tokens:,} tokens, {seconds:.0f} s",
                flush=True,
            )


def _height(done: float) -> float:
    """Return the factor of the learning rate: it rises for a tenth of the steps, then falls to 0.1.

    `done` is the share of steps that are done.
    """
    return done / 0.1 if done < 0.1 else 1.0 - 0.9 * (done - 0.1) / 0.9


def _train_tokenizer(texts: Sequence[str], out: Path, size: int) -> Any:
    trained = BertWordPieceTokenizer()
    trained.train_from_iterator(texts, vocab_size=size, min_frequency=2, show_progress=False)
    trained.save_model(str(out))
    return BertTokenizerFast(vocab=str(out / "vocab.txt"), do_lower_case=True)


def _batches(
    encoded: Sequence[list[int]], options: argparse.Namespace
) -> Iterator[list[list[int]]]:
    """Yield batches endlessly; the texts of a batch have similar lengths."""
    draw = torch.Generator().manual_seed(options.seed)
    while True:
        order = torch.randperm(len(encoded), generator=draw).tolist()
        chunk = options.batch * 50
        for start in range(0, len(order), chunk):
            some = sorted(order[start : start + chunk], key=lambda place: len(encoded[place]))
            starts = torch.randperm(-(-len(some) // options.batch), generator=draw).tolist()
            for number in starts:
                places = some[number * options.batch : (number + 1) * options.batch]
                yield [encoded[place] for place in places]


def _masked(batch: Sequence[list[int]], tokenizer: Any) -> tuple[Any, Any, Any]:
    """Return partly masked or changed token ids, labels (-100 elsewhere) and the attention mask."""
    longest = max(map(len, batch))
    rows = [ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids in batch]
    ids = torch.tensor(rows)
    attention = (ids != tokenizer.pad_token_id).long()
    special = torch.tensor([tokenizer.cls_token_id, tokenizer.sep_token_id])
    free = attention.bool() & ~torch.isin(ids, special)
    chosen = free & (torch.rand(ids.shape) < SHARE)
    labels = torch.where(chosen, ids, -100)
    if not chosen.any():
        labels[0, 1] = ids[0, 1]
    kind = torch.rand(ids.shape)
    ids = torch.where(chosen & (kind < 0.8), tokenizer.mask_token_id, ids)
    changed = chosen & (kind >= 0.9)
    return torch.where(changed, torch.randint(5, len(tokenizer), ids.shape), ids), labels, attention


def _save(network: Any, tokenizer: Any, out: Path, step: int, tokens: int) -> None:
    folder = out / f"step-{step}"
    network.save_pretrained(folder)  # includes the head that zero-shot scoring uses
    tokenizer.save_pretrained(folder)
    state = {"global_step": step, "num_input_tokens_seen": tokens}
    (folder / "trainer_state.json").write_text(json.dumps(state) + "\n", encoding="utf-8")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of GLUE's files, or `mini`")
    parser.add_argument("--out", required=True, help="folder for the checkpoints")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--keep", type=int, default=23, help="checkpoints to save after step 0")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
