"""Properties of a model family (transformers' model_type), found without importing torch."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHECKED = frozenset(
    {
        "albert",
        "bert",
        "big_bird",
        "camembert",
        "convbert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
        "ernie",
        "eurobert",
        "funnel",
        "gpt2",
        "longformer",
        "megatron-bert",
        "mobilebert",
        "modernbert",
        "mpnet",
        "mt5",
        "neobert",
        "new",
        "nomic_bert",
        "openai-gpt",
        "roberta",
        "t5",
        "umt5",
        "xlm-roberta",
        "xlnet",
    }
)
"""Model families (values of transformers' model_type) for which heads/classifiers.py knows how the
authors, or transformers' classes, classify a text. "new" is the model_type of gte's own code."""

CLASSIFIED = frozenset(
    {
        "data2vec-text",
        "esm",
        "esmc",
        "flaubert",
        "fnet",
        "gte",
        "ibert",
        "jina_embeddings_v3",
        "layoutlm",
        "luke",
        "markuplm",
        "modernbert-decoder",
        "nystromformer",
        "rembert",
        "roberta-prelayernorm",
        "roc_bert",
        "roformer",
        "squeezebert",
        "tapas",
        "ultrabert",
        "xlm",
        "xlm-roberta-xl",
        "xmod",
        "yoso",
    }
)
"""Further families for which heads/classifiers.py has the layers of transformers' text classifiers.
A trial forward pass finds their other properties, such as the effect of padding."""

_BOTH_SIDES = frozenset({"bert-generation", "cpmant", "xlnet"})
"""Families whose tokens also attend to later tokens, although transformers lists them as causal
language models. BERT-generation is an encoder unless its config has is_decoder, CPM-Ant is a prefix
language model, and XLNet is a permutation model."""


def is_causal(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json describes a decoder, whose tokens attend only to earlier tokens.

    This is the case if transformers has a causal but no masked language model for the family. If
    the checkpoint comes with its own code for an unknown family, this is the case if `auto_map`
    in the config names a causal but no masked language model. Encoder-decoder models, and a few
    families such as XLNet, never count as decoders.
    """
    family, code = str(config.get("model_type")), config.get("auto_map") or {}
    if config.get("is_encoder_decoder") or family in _BOTH_SIDES:
        return False
    if "AutoModel" in code and family not in _families("CAUSAL_LM") | _families("MASKED_LM"):
        return "AutoModelForCausalLM" in code and "AutoModelForMaskedLM" not in code
    return family in _families("CAUSAL_LM") - _families("MASKED_LM")


def is_unchecked(config: Mapping[str, Any]) -> bool:
    """Return whether a trial forward pass must find the properties of this model family.

    `config` is the content of a config.json. For decoders and encoder-decoder models, the result is
    always False.
    """
    is_known = config.get("model_type") in CHECKED or config.get("is_encoder_decoder")
    return not is_known and not is_causal(config)


def has_class(family: str, kind: str) -> bool:
    """Return whether transformers has a class for a model family and a kind of task.

    Args:
        family: The family (transformers' model_type), such as "bert".
        kind: The part of the class's name after "For", such as "TokenClassification".
    """
    return family in _families(re.sub(r"(?<!^)(?=[A-Z])", "_", kind).upper())


@cache
def _families(kind: str) -> frozenset[str]:
    """Return the families for which transformers has a class of this kind ("CAUSAL_LM").

    The list of these families is read from the source of transformers, because importing it takes
    seconds.
    """
    found = find_spec("transformers")
    places = found.submodule_search_locations if found else None
    files = [Path(place, "models/auto/modeling_auto.py") for place in places or ()]
    text = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
    # The mapping begins with its name and ends with the first ")" that starts a line.
    table = re.search(rf"^MODEL_FOR_{kind}_MAPPING_NAMES\b.*?^\)$", text, re.DOTALL | re.MULTILINE)
    return frozenset(re.findall(r'\(\s*"([^"]+)",', table[0])) if table else frozenset()
