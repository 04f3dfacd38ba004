"""Script that reads exported folders with transformers alone, in a separate process.

stdin has JSON by folder: its class, the texts of some examples as lists of rows, which of the texts
are truncated, and whether each row is computed alone, without padding. Writes the logits of every
folder to the .npz file given as argument.
"""

import json
import sys

import numpy as np
import torch
import transformers


def main(file: str) -> None:
    sys.modules["benchharness"] = None  # any import of benchharness now raises ImportError
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    found = {}
    for place, (name, examples, cut, is_alone) in json.load(sys.stdin).items():
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        network = getattr(transformers, name).from_pretrained(place)
        batches = examples if "Choice" in name else [[row for rows in examples for row in rows]]
        for number, rows in enumerate(batches):
            logits = []
            for part in [[row] for row in rows] if is_alone else [rows]:
                texts = [list(column) for column in zip(*part, strict=True)]
                inputs = tokenizer(*texts, truncation=cut, padding=True, return_tensors="pt")
                logits.append(_logits(network, name, dict(inputs)))
            found[f"{place}|{number}"] = torch.cat(logits).numpy()
    np.savez(file, **found)


@torch.inference_mode()
def _logits(network, name, inputs):
    if "Choice" in name:
        return network(**{key: value[None] for key, value in inputs.items()}).logits[0]
    outputs, mask = network(**inputs), inputs["attention_mask"].bool()
    if "Question" in name:
        both = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        return both[:, : mask.shape[1]][mask]
    return outputs.logits[:, : mask.shape[1]][mask] if "Token" in name else outputs.logits


if __name__ == "__main__":
    main(sys.argv[1])
