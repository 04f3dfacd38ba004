"""Export a trained model to a folder in transformers' format, which is checked before it appears.

    DIR/config.json model.safetensors tokenizer.json tokenizer_config.json ...
    DIR/benchharness.json     the run, its task, limits and scores, and the result of the check
    DIR/manifest.json         the digest of every file
    DIR/modules.json sentence_bert_config.json 1_Pooling/ 2_Normalize/    for a retrieval run, in
                              the format of sentence-transformers

A model that no transformers class can represent is written in the format of a kept run, for `bench
predict` only.
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
from benchharness.errors import BenchError
from benchharness.extensions.frozen.technique import LiveEncoder
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
from benchharness.models.folder import POOLINGS
from benchharness.recipes.classes import BODY, Published, published_class
from benchharness.worker.checkpoint import WEIGHTS, KeptRun


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Folder to which a trained model was exported, and the result of its check.

    Attributes:
        folder: Path of the folder.
        published: Transformers class that loads the folder, or the reason why there is none.
        checked: Comparison of the exported model with the run.
        flags: Warnings about the scores of the run on its task.
    """

    folder: Path
    published: Published
    checked: Checked
    flags: tuple[str, ...] = ()

    def load(self) -> tuple[Any, Any]:
        """Load the model and the tokenizer with transformers, and return them in this order.

        Raises:
            BenchError: No transformers class represents the model.
        """
        if self.published.lacking:
            raise BenchError(f"{self.published.sentence}: only `bench predict` can load it.")
        found = getattr(transformers, self.published.auto_class).from_pretrained(self.folder)
        return found, transformers.AutoTokenizer.from_pretrained(self.folder)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return {
            "folder": str(self.folder),
            "class": self.published.auto_class or None,
            "lacking": self.published.sentence or None,
            "check": asdict(self.checked),
            "flags": list(self.flags),
        }


def class_of(model: TrainedModel) -> Published:
    """Return the transformers class that represents a model, or the reason why there is none."""
    encoder = _encoder_of(model)
    return published_class(
        model.task, model.recipe, encoder.config.model_type, is_foreign=is_foreign(encoder)
    )


def _encoder_of(model: TrainedModel) -> Any:
    """Return the encoder without the wrapper that selects the states of a frozen encoder."""
    encoder: Any = model.network.encoder
    return encoder.encoder if isinstance(encoder, LiveEncoder) else encoder


def take(
    model: TrainedModel, result: Result, to: Path, dev: Sequence[Dev], *, anyway: bool = False
) -> Taken:
    """Write a trained model to a folder in transformers' format, and check the folder.

    If no transformers class represents the model, the folder has the format of a kept run instead,
    which only `bench predict` can load. If anything fails, no folder is left.

    Args:
        model: Trained model, in fp32.
        result: Result of the run that trained it.
        to: Folder to write.
        dev: Splits for the check, with the predictions that the run stored.
        anyway: True to accept predictions that differ from the stored ones by more than rounding.

    Returns:
        The written folder, with the result of its check.

    Raises:
        JobError: transformers computes something else from the folder, predictions differ from the
            stored ones by more than rounding, or the disk has too little space.
        BenchError: The folder contains other files than an earlier export of this run, or the
            tokenizer has no usable token for padding.
    """
    check_place(to, result.job.key)
    found = class_of(model)
    sizes = [path.stat().st_size for path in model.folder.iterdir()]
    require_room(to, sum(sizes), f"for {to}", "choose another folder")
    facts = {"run": result.job.key, "task": model.task.name, "model": result.job.model}
    with new_folder(to, facts) as draft:
        run = _shared_run(model, result)
        if found.lacking:
            for name in check_folder(model.folder)["files"]:
                shutil.copy(model.folder / name, draft / name)
            run.write(draft)
            checked = check_own(model, dev)
        else:
            # In fp32, the encoder without its wrapper returns the same states.
            model.network.encoder = _encoder_of(model)
            write_published(model, draft, found.auto_class)
            if found.auto_class == BODY:
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
    """Write the config, weights and tokenizer of a model so that a transformers class loads them.

    Args:
        model: Trained model.
        folder: Folder to which the files are written.
        auto_class: Name of the transformers class.

    Raises:
        BenchError: The tokenizer of a decoder has no token that can be used for padding.
    """
    tokenizer = _tokenizer_of(model)
    config = _config_of(model, tokenizer, auto_class)
    with torch.device("meta"):  # only names and shapes are needed
        theirs = getattr(transformers, auto_class).from_config(config)
    config.architectures = [type(theirs).__name__]
    body = "" if model.recipe.uses_decoder or auto_class == BODY else theirs.base_model_prefix
    state = published_state(model.network, theirs.state_dict(), body, scale_of(model))
    if "token_type_ids" not in tokenizer.model_input_names:
        without_types(state, model.task)
    # Tied weights are not saved, because a transformers class copies them from their counterparts.
    # Weights that are listed as tied but differ (the output layer of T5 1.1) are saved.
    tied = getattr(theirs, "all_tied_weights_keys", {})
    kept = {n: w for n, w in state.items() if n not in tied or not w.equal(state[tied[n]])}
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})
    config.to_json_file(folder / "config.json")
    save_tokenizer(tokenizer, folder)
    if model.recipe.uses_decoder:  # save the maximum length and greedy decoding
        encoder: Any = model.network.encoder
        encoder.generation_config.save_pretrained(folder)


MODULES = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
"""Classes of the modules that sentence-transformers applies one after the other, each with the
subfolder of its files."""

MODES = (*POOLINGS, "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens")


def write_modules(model: TrainedModel, folder: Path) -> None:
    """Write the files from which sentence-transformers knows how vectors are computed.

    The releases 2 to 6 of sentence-transformers can read these files. The classes of the modules
    have the names of release 5, which release 6 accepts too. Earlier releases do not know the names
    of release 6.

    Args:
        model: Trained retrieval model.
        folder: Exported folder, to which the files are written.
    """
    encoder: Any = model.network.encoder
    chosen = model.recipe.of_head(model.task.head).pooling
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
    """Return a copy of the tokenizer with all settings that a run applies to it."""
    tokenizer: Any = deepcopy(model.tokenizer)
    if tokenizer.is_fast:  # remove settings of earlier encodings, which would be saved too
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
    """Return a padding token; if `is_read` is True, one that never occurs around texts.

    With `is_read`, the transformers class finds the end of a text as the last token that is not the
    padding token, but some tokenizers pad with the token that ends a text. Raises BenchError if
    there is no other token.
    """
    around = {*tokenizer("a")["input_ids"], *tokenizer("a", "a")["input_ids"]}
    added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    tokens = (tokenizer.pad_token, *added, tokenizer.eos_token, tokenizer.unk_token)
    known = (token for token in tokens if token is not None)
    free = (str(t) for t in known if tokenizer.convert_tokens_to_ids(t) not in around)
    usual = tokenizer.pad_token or tokenizer.eos_token
    if (found := next(free, None if is_read else usual)) is None:
        raise BenchError(
            "the tokenizer puts all its special tokens around texts, so transformers cannot "
            "distinguish padding from the end of a text: add a separate pad_token to the "
            "checkpoint's tokenizer, and train again."
        )
    return found


def _config_of(model: TrainedModel, tokenizer: Any, auto_class: str) -> Any:
    encoder: Any = model.network.encoder
    config = deepcopy(encoder.config)
    config.dtype = torch.float32  # the checkpoint may have another dtype
    for name, value in published_config(model.task, auto_class, config.model_type).items():
        setattr(config, name, value)
    if is_causal({"model_type": config.model_type}):
        config.pad_token_id = tokenizer.pad_token_id
    return config


def _shared_run(model: TrainedModel, result: Result) -> KeptRun:
    """Return the record of the run for the folder, without local paths, as in a shared export."""
    shared = shared_outcome(result)
    assert isinstance(shared, Result), "only for results"
    job = shared.job
    if job.trust.remote_code and class_of(model).lacking:  # the checkpoint's name locates the code
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
