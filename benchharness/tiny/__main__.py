"""`python -m benchharness.tiny [FOLDER]`: write tiny's vocabulary and configuration."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from benchharness.tasks import mini
from benchharness.tiny import folder
from benchharness.tiny.vocabulary import mini_words, train_vocabulary

# the shape of BERT-Tiny, https://github.com/google-research/bert (2 layers of 128)
SHAPE = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
}
TOKENIZER = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512}


def write(target: Path) -> None:
    """Write vocab.txt, tokenizer_config.json and config.json into `target`."""
    pieces = train_vocabulary(mini_words(mini.folder()))
    target.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{piece}\n" for piece in pieces)
    (target / "vocab.txt").write_text(text, encoding="utf-8", newline="\n")
    _write_json(target / "tokenizer_config.json", TOKENIZER)
    _write_json(target / "config.json", SHAPE | {"vocab_size": len(pieces)})


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else folder())
