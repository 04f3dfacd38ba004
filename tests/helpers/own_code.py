"""A checkpoint whose network is code of its own, as little of it as transformers loads."""

import json
from pathlib import Path

import transformers
from safetensors.torch import save_file
from transformers import AutoTokenizer

from benchharness.tiny import folder as tiny_folder

CONFIGURATION = """
from transformers import PretrainedConfig

class OwnConfig(PretrainedConfig):
    model_type = "FAMILY"

    def __init__(self, vocab_size=100, hidden_size=16, **options):
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        super().__init__(**options)
"""
MODELING = """
import torch
from torch import nn
from transformers import PreTrainedModel
from .configuration_own import OwnConfig

class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        size = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, size, padding_idx=0)
        self.mix = nn.TransformerEncoderLayer(size, 2, 32, batch_first=True, dropout=0.0)
        self.pooler = nn.Linear(size, size)
        self.post_init()

    def forward(self, input_ids, attention_mask):
        states = self.mix(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        self.pooler(states[:, 0])  # not to be taken away
        return states
"""
GETTER = """
    def get_input_embeddings(self):
        return self.words
"""
SETTER = """
    def set_input_embeddings(self, value):
        self.words = value
"""
ALIAS = """
    def set_input_embeddings(self, value):
        self.also_words = value
"""
COMPUTED = """
class Computed(OwnModel):
    def __init__(self, config):
        super().__init__(config)
        own = self.mix if NESTED else self
        LINES

OwnModel = Computed
"""


def computed(lines: str, *, nested: bool = False) -> str:
    """Code after which `__init__` also runs these lines, `own` being the network or its layer."""
    body = lines.replace("\n", "\n" + " " * 8)
    return COMPUTED.replace("NESTED", str(nested)).replace("LINES", body)


def save_own(folder: Path, methods: str = "", family: str = "own", **config: object) -> Path:
    """A checkpoint folder; `methods` are added to its network's class."""
    folder.mkdir(parents=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
    tokenizer.save_pretrained(folder)
    (folder / "configuration_own.py").write_text(CONFIGURATION.replace("FAMILY", family))
    (folder / "modeling_own.py").write_text(MODELING + methods)
    content = {
        "model_type": family,
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "type_vocab_size": 2,
        "auto_map": {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.OwnModel",
        },
    }
    (folder / "config.json").write_text(json.dumps(content))
    loaded = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
    transformers.set_seed(7)
    network = transformers.AutoModel.from_config(loaded, trust_remote_code=True)
    names = {weight.data_ptr(): name for name, weight in reversed(network.state_dict().items())}
    weights = {n: w.contiguous() for n, w in network.state_dict().items() if n in names.values()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(content | config))
    return folder
