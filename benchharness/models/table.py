"""The known checkpoints. A revision is the commit whose weights the published numbers are of.

Parameters are the published counts in millions: BERT table 1 of arXiv:1810.04805, RoBERTa from
fairseq's examples/roberta/README.md, DistilBERT table 3 of arXiv:1910.01108, MiniLM from unilm's
minilm/README.md. Anything else runs unregistered by its folder or hub name.
"""

from benchharness.models.spec import ModelSpec

__all__ = ["MODELS"]

_BERT = "Devlin et al. 2019, arXiv:1810.04805"
_ROBERTA = "Liu et al. 2019, arXiv:1907.11692"

_KNOWN = (
    ModelSpec(
        name="tiny",
        checkpoint="builtin:tiny",
        family="bert",
        recipe="tiny",
        title="BERT, 2 layers of 128, trained from scratch: for demonstrations",
        parameters=0.6,
        max_tokens=512,
    ),
    ModelSpec(
        name="bert-base-uncased",
        checkpoint="google-bert/bert-base-uncased",
        revision="86b5e0934494bd15c9632b12f734a8a67f723594",
        family="bert",
        aliases=("bert", "bert-base"),
        title="BERT base, uncased",
        parameters=110,
        max_tokens=512,
        cite=_BERT,
    ),
    ModelSpec(
        name="bert-large-uncased",
        checkpoint="google-bert/bert-large-uncased",
        revision="6da4b6a26a1877e173fca3225479512db81a5e5b",
        family="bert",
        aliases=("bert-large",),
        title="BERT large, uncased",
        parameters=340,
        max_tokens=512,
        cite=_BERT,
    ),
    ModelSpec(
        name="bert-base-cased",
        checkpoint="google-bert/bert-base-cased",
        revision="cd5ef92a9fb2f889e972770a36d4ed042daf221e",
        family="bert",
        title="BERT base, cased",
        parameters=110,
        max_tokens=512,
        cite=_BERT,
    ),
    ModelSpec(
        name="bert-large-cased",
        checkpoint="google-bert/bert-large-cased",
        revision="main",
        family="bert",
        title="BERT large, cased",
        parameters=340,
        max_tokens=512,
        cite=_BERT,
        note="no commit could be confirmed, so the one that main names is recorded with each run",
    ),
    ModelSpec(
        name="roberta-base",
        checkpoint="FacebookAI/roberta-base",
        revision="e2da8e2f811d1448a5b465c236feacd80ffbac7b",
        family="roberta",
        aliases=("roberta",),
        title="RoBERTa base",
        parameters=125,
        max_tokens=512,
        cite=_ROBERTA,
    ),
    ModelSpec(
        name="roberta-large",
        checkpoint="FacebookAI/roberta-large",
        revision="722cf37b1afa9454edce342e7895e588b6ff1d59",
        family="roberta",
        title="RoBERTa large",
        parameters=355,
        max_tokens=512,
        cite=_ROBERTA,
    ),
    ModelSpec(
        name="distilbert-base-uncased",
        checkpoint="distilbert/distilbert-base-uncased",
        revision="12040accade4e8a0f71eabdb258fecc2e7e948be",
        family="distilbert",
        aliases=("distilbert", "distilbert-base"),
        title="DistilBERT base, uncased",
        parameters=66,
        max_tokens=512,
        cite="Sanh et al. 2019, arXiv:1910.01108",
    ),
    ModelSpec(
        name="minilm",
        checkpoint="nreimers/MiniLM-L6-H384-uncased",
        revision="3276f0fac9d818781d7a1327b3ff818fc4e643c0",
        family="bert",
        aliases=("minilm-l6", "minilm-l6-h384-uncased"),
        title="MiniLM, 6 layers of 384, uncased",
        parameters=22.7,
        max_tokens=512,
        cite="Wang et al. 2020, arXiv:2002.10957",
    ),
)

MODELS: dict[str, ModelSpec] = {spec.name: spec for spec in _KNOWN}
