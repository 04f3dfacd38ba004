"""A trained model as a folder in transformers' own form, which is checked before it is sealed.

    DIR/config.json model.safetensors tokenizer.json tokenizer_config.json ...
    DIR/benchharness.json     the run, its task, limits and scores, and what the check has found
    DIR/manifest.json         the digest of every file
    DIR/modules.json sentence_bert_config.json 1_Pooling/ 2_Normalize/    of a retrieval run, for
                              sentence-transformers

What no class of transformers can say is written as a run keeps it, for `bench predict` alone.
"""

import json
import shutil
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from benchharness.encoder.network import is_foreign
from benchharness.encoder.tokenizer import save_tokenizer
from benchharness.extensions.kept_models.check import (
    Checked,
    Dev,
    check,
    check_own,
    require_stored_answers,
    scale_of,
)
from benchharness.extensions.kept_models.load import TrainedModel
from benchharness.heads.published import UNSCALED, published_config, published_state, without_types
from benchharness.kept_folders import TAKEN, check_folder, check_place, new_folder, require_room
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.sharing import shared_outcome
from benchharness.models.families import is_causal
from benchharness.recipes.classes import BODY, Published, published_class
from benchharness.recipes.zero_shot import POOLINGS
from benchharness.tasks.errors import BenchError
from benchharness.worker.checkpoint import WEIGHTS, KeptRun
from benchharness.worker.frozen import LiveEncoder


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A folder that was written, and what its check has found.

    `flags` are what must be known of the run's scores of its task.
    """

    folder: Path
    published: Published
    checked: Checked
    flags: tuple[str, ...] = ()

    def load(self) -> tuple[Any, Any]:
        """The model and the tokenizer, by transformers; BenchError where no class has it."""
        if self.published.lacking:
            raise BenchError(f"{self.published.sentence}: `bench predict` alone reads it.")
        found = getattr(transformers, self.published.auto_class).from_pretrained(self.folder)
        return found, transformers.AutoTokenizer.from_pretrained(self.folder)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "folder": str(self.folder),
            "class": self.published.auto_class or None,
            "lacking": self.published.sentence or None,
            "check": asdict(self.checked),
            "flags": list(self.flags),
        }


def class_of(model: TrainedModel) -> Published:
    """The class of transformers that a model is, or what none can say."""
    encoder = _encoder_of(model)
    return published_class(
        model.task, model.recipe, encoder.config.model_type, is_foreign=is_foreign(encoder)
    )


def _encoder_of(model: TrainedModel) -> Any:
    """The encoder itself, without what chooses among a frozen one's states."""
    encoder: Any = model.network.encoder
    return encoder.encoder if isinstance(encoder, LiveEncoder) else encoder


def take(
    model: TrainedModel, result: Result, to: Path, dev: Sequence[Dev], *, anyway: bool = False
) -> Taken:
    """Writes a model's folder, whole or not at all; JobError where transformers reads another.

    `dev` are the rows that the check reads, with what the run has answered to them: JobError too
    where answers differ by more than rounding, unless `anyway`. The model is to be in fp32. Raises
    BenchError for a folder that is there and is not this run's.
    """
    check_place(to, result.job.key)
    found = class_of(model)
    sizes = [path.stat().st_size for path in model.folder.iterdir()]
    require_room(to, sum(sizes), f"for {to}")
    facts = {"run": result.job.key, "task": model.task.name, "model": result.job.model}
    with new_folder(to, facts) as draft:
        run = _shared_run(model, result)
        if found.lacking:
            for name in check_folder(model.folder)["files"]:
                shutil.copy(model.folder / name, draft / name)
            run.write(draft)
            checked = check_own(model, dev)
        else:
            model.network.encoder = _encoder_of(model)  # in fp32 they are its last states
            write_published(model, draft, found.auto_class)
            if model.recipe.ranking:
                write_modules(model, draft)
            checked = check(model, draft, found.auto_class, dev)
        if not anyway:
            require_stored_answers(model, checked)
        flags = result.flags.get(model.task.name, ())
        taken = Taken(folder=to, published=found, checked=checked, flags=flags)
        described = taken.to_json() | _described(model, run)
        del described["folder"]
        (draft / TAKEN).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return taken


def write_published(model: TrainedModel, folder: Path, auto_class: str) -> None:
    """Writes a model's config, weights and tokenizer as transformers' class has them."""
    tokenizer = _tokenizer_of(model)
    config = _config_of(model, tokenizer, auto_class)
    with torch.device("meta"):  # for the names and the shapes alone
        theirs = getattr(transformers, auto_class).from_config(config)
    config.architectures = [type(theirs).__name__]
    body = "" if model.recipe.text or auto_class == BODY else theirs.base_model_prefix
    state = published_state(model.network, theirs.state_dict(), body, scale_of(model))
    if "token_type_ids" not in tokenizer.model_input_names:
        without_types(state, model.task)
    # A class fills them from the others, but for T5 1.1's output layer, which it names too.
    tied = getattr(theirs, "all_tied_weights_keys", {})
    kept = {n: w for n, w in state.items() if n not in tied or not w.equal(state[tied[n]])}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})
    config.to_json_file(folder / "config.json")
    save_tokenizer(tokenizer, folder)
    if model.recipe.text:  # how many tokens, and that the likeliest one is said
        encoder: Any = model.network.encoder
        encoder.generation_config.save_pretrained(folder)


MODULES = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
"""What sentence-transformers makes a vector by, one after the other, and their folders."""

MODES = (*POOLINGS, "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens")


def write_modules(model: TrainedModel, folder: Path) -> None:
    """Writes how tokens' states become a vector, as sentence-transformers' releases 2 to 6 read it.

    The names are those that 5 writes; 6 reads them, and what it writes no earlier one does.
    """
    assert model.recipe.ranking, "of a retrieval run"
    encoder: Any = model.network.encoder
    chosen = model.recipe.ranking.pooling
    files: dict[str, Any] = {
        "modules.json": [
            {
                "idx": number,
                "name": str(number),
                "path": path,
                "type": f"sentence_transformers.models.{name}",
            }
            for number, (name, path) in enumerate(MODULES)
        ],
        "sentence_bert_config.json": {
            "max_seq_length": model.limits.max_tokens,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": encoder.config.hidden_size,
            **{f"pooling_mode_{mode}": POOLINGS.get(mode) == chosen for mode in MODES},
            "include_prompt": True,
        },
        "2_Normalize/config.json": {},
        "config_sentence_transformers.json": {
            "__version__": {"transformers": transformers.__version__, "pytorch": torch.__version__},
            "prompts": {"query": "", "document": ""},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _tokenizer_of(model: TrainedModel) -> Any:
    """A copy of the tokenizer that says by itself all that a run knows of it."""
    tokenizer: Any = deepcopy(model.tokenizer)
    if tokenizer.is_fast:  # what encoding has left in it would be saved too
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    encoder: Any = model.network.encoder
    family = encoder.config.model_type
    if is_causal({"model_type": family}):
        tokenizer.pad_token = _pad_of_decoder(tokenizer, is_read=model.task.head == "pair")
    tokenizer.padding_side = "left" if family == "xlnet" else "right"
    tokenizer.truncation_side = "right"
    tokenizer.model_max_length = model.limits.max_tokens
    for name in ("model_input_names", "padding_side", "truncation_side"):
        tokenizer.init_kwargs[name] = getattr(tokenizer, name)
    return tokenizer


def _pad_of_decoder(tokenizer: Any, *, is_read: bool) -> str:
    """Return a token to pad with, which stands around no text if a class looks for it.

    Transformers' text classes of decoders read the last token of a row that is not the one they pad
    with, and some pad with the token at which a text ends. Raises BenchError where none is left.
    """
    around = {*tokenizer("a")["input_ids"], *tokenizer("a", "a")["input_ids"]}
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    tokens = (tokenizer.pad_token, *added, tokenizer.eos_token, tokenizer.unk_token)
    known = (token for token in tokens if token is not None)
    free = (str(t) for t in known if tokenizer.convert_tokens_to_ids(t) not in around)
    usual = tokenizer.pad_token or tokenizer.eos_token
    if (found := next(free, None if is_read else usual)) is None:
        raise BenchError(
            "the tokenizer has no special token that stands around no text, and transformers' "
            "class finds the end of a text by the token that rows are padded with: give the "
            "checkpoint's tokenizer a pad_token of its own, and train again."
        )
    return found


def _config_of(model: TrainedModel, tokenizer: Any, auto_class: str) -> Any:
    encoder: Any = model.network.encoder
    config = deepcopy(encoder.config)
    config.dtype = torch.float32  # the checkpoint may have been saved in another
    for name, value in published_config(model.task, auto_class, config.model_type).items():
        setattr(config, name, value)
    if is_causal({"model_type": config.model_type}):
        config.pad_token_id = tokenizer.pad_token_id
    return config


def _shared_run(model: TrainedModel, result: Result) -> KeptRun:
    """What the folder says of the run; its paths are as on a page for others."""
    shared = shared_outcome(result)
    assert isinstance(shared, Result), "of a result"
    job = shared.job
    if job.trust.remote_code and class_of(model).lacking:  # whose code is there alone
        job = replace(job, checkpoint=result.job.checkpoint)
    return KeptRun.of(job, model.limits, result.evaluations, result.curve, shared.provenance)


def _described(model: TrainedModel, run: KeptRun) -> dict[str, Any]:
    return {
        **run.to_json(),
        "key": run.job.key,
        "task": model.task.name,
        "scale": list(getattr(model.task, "scale", UNSCALED)),
        "in_last_layer": list(scale_of(model)),
    }
