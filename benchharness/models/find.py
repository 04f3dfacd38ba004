"""From what a user types after `--model` to ModelSpecs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from glob import glob, has_magic
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchharness.leaderboard.job import Stage
from benchharness.models.spec import MODELS, NOTHING, ModelSpec, Trust
from benchharness.tasks.errors import ModelError, unknown_name

# A checkpoint folder as transformers' save_pretrained writes it, read without torch.

_VOCABULARY_FILES = (
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
)
"""Without any of these transformers makes a tokenizer that knows five tokens, and says nothing."""

_TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer_config.json",
    *_VOCABULARY_FILES,
)

_AS_ROBERTA = ("camembert", "longformer", "mpnet", "roberta")
"""Families, and all whose names hold one of these, that count positions as RoBERTa does."""

_RELATIVE = ("deberta", "deberta-v2", "funnel", "mt5", "t5", "umt5", "xlnet")
"""Families that know how far tokens are from each other, and take rows of any length."""


def describe_folder(folder: Path, trust: Trust = NOTHING) -> ModelSpec:
    """The ModelSpec of an absolute folder; ModelError where it is no checkpoint."""
    weights = checkpoint_files(folder, trust)["weights"]
    config = read_config(folder / "config.json")
    return ModelSpec(
        name=folder.name,
        checkpoint=str(folder),
        family=str(config["model_type"]),
        title=f"{config['model_type']} checkpoint in a folder",
        parameters=_count_parameters(weights),
        max_tokens=longest_row(folder),
        trust=trust,
    )


def checkpoint_files(folder: Path, trust: Trust = NOTHING) -> dict[str, list[Path]]:
    """The files that a loaded checkpoint depends on: its config, weights and tokenizer, sorted.

    Weights are safetensors: pickled ones can run code when they are loaded and are left alone,
    unless they are trusted and there are no others. Code is among the files where it is trusted.
    Raises ModelError naming what is missing.
    """
    config = folder / "config.json"
    weights = sorted(folder.glob("model*.safetensors"))
    pickled = sorted(folder.glob("pytorch_model*.bin"))
    if trust.pickle:
        weights = weights or pickled
    tokenizer = [folder / name for name in _TOKENIZER_FILES if (folder / name).is_file()]
    if not config.is_file():
        raise ModelError(
            f"{folder} is not a checkpoint: it has no config.json; expected a folder that "
            "save_pretrained wrote."
        )
    if not weights and pickled:
        raise ModelError(
            f"{folder} has only pickled weights ({pickled[0].name}), which can run code when they "
            "are loaded: get model.safetensors, or trust them with --allow-pickle."
        )
    if not weights:
        raise ModelError(
            f"{folder} is not a checkpoint: it has no weights; expected model.safetensors beside "
            "config.json (save_pretrained writes it)."
        )
    if not any(path.name in _VOCABULARY_FILES for path in tokenizer):
        raise ModelError(
            f"{folder} is not a checkpoint: it has no vocabulary; expected tokenizer.json or "
            "vocab.txt beside config.json (the tokenizer's save_pretrained writes it)."
        )
    code = sorted(folder.glob("*.py")) if trust.remote_code else []
    return {"config": [config], "weights": weights, "tokenizer": tokenizer, "code": code}


# Whether transformers can load a folder as an encoder at all, told without importing it.

_ENCODERS_ALONE = ("mt5", "t5", "t5gemma", "umt5")
"""Encoders with a decoder of which transformers gives the encoder alone."""


def check_loadable(folder: Path, trust: Trust = NOTHING, *, whole: bool = False) -> None:
    """Raises ModelError where a folder's config says that it cannot be loaded as an encoder.

    Where the `whole` is asked for it is one with a decoder. That is only what is quickly told: an
    unknown family, code that is not there or not trusted, or that has no encoder, and a decoder
    beside the encoder. Weights are looked at by the worker.
    """
    config = read_config(folder / "config.json")
    family, code = str(config["model_type"]), config.get("auto_map") or {}
    is_known = _is_known_family(family)
    if not is_known and "AutoConfig" not in code:
        raise ModelError(
            f"{folder} is of the family {family!r}, which this version of transformers does not "
            "know, and brings no code of its own (auto_map in config.json): another version may."
        )
    if not is_known and not trust.remote_code:
        raise ModelError(untrusted(folder))
    if whole:
        if not has_decoder(config):
            raise ModelError(no_decoder(f"{folder} holds {family}, which"))
    elif trust.remote_code and ("AutoModel" in code or not is_known):
        _check_code(folder, code)
    elif has_decoder(config) and family not in _ENCODERS_ALONE:
        raise ModelError(
            f"{folder} holds {family}, an encoder with a decoder, and transformers does not give "
            "its encoder alone: give --as text, or use an encoder, or a checkpoint of T5 and its "
            "kin."
        )


def has_decoder(config: Mapping[str, Any]) -> bool:
    """Whether a checkpoint answers in words."""
    return bool(config.get("is_encoder_decoder"))


def no_decoder(what: str) -> str:
    """What is said of a model without one that is to answer in words."""
    return (
        f"{what} has no decoder to answer with: --as text is for encoders with one (T5, mT5, "
        "Flan-T5, BART)."
    )


def untrusted(folder: Path) -> str:
    """What is said of a checkpoint whose code would have to run."""
    return (
        f"{folder} needs the Python code that comes with it, which is not run unless it is "
        "trusted: read it, then give --trust-remote-code."
    )


def _check_code(folder: Path, code: Mapping[str, Any]) -> None:
    """A checkpoint's code has to offer an encoder, and to be there; "repo--module.Class" is not."""
    if "AutoModel" not in code:
        raise ModelError(
            f"the code of {folder} offers {', '.join(sorted(code))} and no AutoModel, by which an "
            "encoder is loaded: add it to auto_map in config.json."
        )
    places = {str(code[name]) for name in ("AutoConfig", "AutoModel") if name in code}
    modules = {place.rpartition(".")[0] for place in places if "--" not in place}
    if missing := sorted(m for m in modules if not (folder / f"{m}.py").is_file()):
        raise ModelError(
            f"{folder} lacks {missing[0]}.py, which its config.json names (auto_map): copy the "
            "checkpoint again."
        )


@cache
def _is_known_family(family: str) -> bool:
    """Whether a table of transformers names it; importing the tables would take seconds."""
    found = find_spec("transformers")
    folders = found.submodule_search_locations if found else None
    tables = [path for folder in folders or () for path in Path(folder, "models/auto").glob("*.py")]
    word = f'"{family}"'
    return not tables or any(word in path.read_text(encoding="utf-8") for path in tables)


def read_config(path: Path) -> Mapping[str, Any]:
    """What a checkpoint's config.json says; ModelError where it is none of transformers."""
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{path} is not readable JSON ({error}); copy the checkpoint again."
        ) from None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            f"{path} has no model_type, so the encoder's family is unknown; expected a config.json "
            "that transformers wrote."
        )
    return config


def longest_row(folder: Path) -> int | None:
    """The most tokens of a row that the checkpoint of a folder reads; None without a limit.

    Of its network's positions and its tokenizer's limit the smaller one counts.
    """
    config, limits = read_config(folder / "config.json"), []
    if is_unbounded(config["model_type"], config):
        return None
    positions = config.get("max_position_embeddings", config.get("n_positions"))
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's first ones, up to the padding's, are not for tokens; MPNet's is always 1.
        family = config["model_type"]
        padding = 1 if family == "mpnet" else int(config.get("pad_token_id") or 0)
        as_roberta = any(name in family for name in _AS_ROBERTA)
        limits.append(positions - (padding + 1) * as_roberta)
    with suppress(OSError, ValueError, RecursionError, AttributeError):  # the worker says so
        text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
        limit = json.loads(text).get("model_max_length")
        if isinstance(limit, int | float) and 0 < limit < NO_LIMIT:
            limits.append(int(limit))
    return min(limits, default=None)


NO_LIMIT = 10**9
"""Tokens; transformers writes 10**30 where a tokenizer has no limit, more than numpy holds."""


def is_unbounded(family: str, config: Mapping[str, Any] = MappingProxyType({})) -> bool:
    """Whether a network of a family takes rows of any length, whatever its tokenizer says.

    DeBERTa may have positions too, by a value of its config; the known checkpoints have none.
    """
    has_positions = "deberta" in family and config.get("position_biased_input", bool(config))
    return family in _RELATIVE and not has_positions


def _count_parameters(weights: list[Path]) -> float | None:
    """Millions of parameters by the headers of the safetensors files; None of pickled ones."""
    if any(path.suffix != ".safetensors" for path in weights):
        return None
    return round(sum(_header_parameters(path) for path in weights) / 1e6, 1)


def _header_parameters(path: Path) -> int:
    """The number of values in a safetensors file: it starts with a length and a JSON table."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError(f"a header of {length} bytes in {path.stat().st_size}")
            header = json.loads(file.read(length))
        return sum(prod(t["shape"]) for name, t in header.items() if name != "__metadata__")
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ModelError(
            f"{path} is not a whole safetensors file ({error}); copy the checkpoint again."
        ) from None


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)\w[\w./+-]*", re.ASCII)
"""A branch, a tag or a commit; git allows no two dots in a row either."""


def find_model(name: str, trust: Trust = NOTHING) -> ModelSpec:
    """The model of that name: a known one, a checkpoint folder, or a name on the hub.

    Known names, aliases and hub ids come first, so that a folder called `roberta-base` in the
    current directory is never taken by accident: write `./roberta-base` for it. NAME=FOLDER says
    what a folder is, whatever it is called: a known model, with its recipe, or a name for the
    board. A model of the hub is that of another branch, tag or commit with `@REVISION` behind it.
    `trust` is what the user allows a checkpoint to do; encoders of ours and baselines need none.
    Raises ModelError for a folder that is no checkpoint, or none of the known model's family, and
    BenchError with a close name for anything else.
    """
    folder = Path(name).expanduser()
    if (known := _known(name)) is not None:
        return replace(known, trust=trust) if known.is_hub or known.is_folder else known
    if name.strip() and _is_folder(folder):
        return describe_folder(folder.resolve(), trust)
    for given, path in _named(name):
        if given and path and _is_folder(Path(path).expanduser()):
            return _called(given, describe_folder(Path(path).expanduser().resolve(), trust))
    on_hub, at, revision = name.partition("@")
    if (spec := _on_hub(on_hub, trust)) is not None:
        if not at:
            return spec
        if _REVISION.fullmatch(revision):
            return _at_revision(spec, revision)
    hint = (
        "`bench list models` shows the known ones; a folder or an `org/name` on the hub works too."
    )
    raise unknown_name("model or checkpoint folder", name, _names(), hint)


def _on_hub(name: str, trust: Trust) -> ModelSpec | None:
    """The model of that name if it is one on the hub, known or not."""
    known = _known(name)
    if known is not None:
        return replace(known, trust=trust) if known.is_hub else None
    if not _HUB_ID.fullmatch(name):
        return None
    title = f"{name} on the hub"
    return ModelSpec(name=name, checkpoint=name, revision="main", title=title, trust=trust)


def _at_revision(spec: ModelSpec, revision: str) -> ModelSpec:
    """The model as it is at a revision: a checkpoint of its pretraining where that has a step."""
    step, tokens = _numbers_in(revision)
    stage = None
    if step is not None:
        stage = Stage(run=spec.name, step=step, tokens=tokens, family=spec.family)
    return replace(
        spec,
        name=f"{spec.name}@{revision}",
        revision=revision,
        title=f"{spec.checkpoint} at {revision}",
        note="",
        stage=stage,
    )


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _called(name: str, found: ModelSpec) -> ModelSpec:
    """The checkpoint of a folder under a name that the user gives it."""
    known = _known(name)
    if known is None:
        return replace(found, name=name)
    if known.family != found.family or not known.is_hub:
        raise ModelError(
            f"{found.checkpoint} holds a {found.family} encoder, and {known.name} is "
            f"{known.title}: give the folder another name."
        )
    return replace(
        known,
        checkpoint=found.checkpoint,
        revision="",
        parameters=found.parameters,
        max_tokens=found.max_tokens,
        trust=found.trust,
    )


def _known(name: str) -> ModelSpec | None:
    wanted = name.lower()
    for spec in MODELS.values():
        if wanted in (spec.name, spec.checkpoint.lower(), *spec.aliases):
            return spec
    return None


def _names() -> list[str]:
    return [name for spec in MODELS.values() for name in (spec.name, *spec.aliases)]


# Several checkpoints of one pretraining run: the folders that a pattern matches, in their order.


def find_models(name: str, trust: Trust = NOTHING) -> tuple[ModelSpec, ...]:
    """The models that a name stands for: those of a pattern of folders, or the one of that name.

    Folders that a pattern (`'DIR/step-*'`) matches are checkpoints of one pretraining run, which is
    called after the folder that they are in, or NAME with NAME='DIR/step-*'. They come by their
    steps. Raises BenchError where nothing matches, where one of them says no step, where two say
    the same, or where they are of several families; else as `find_model`.
    """
    if not has_magic(name) or _known(name) is not None or _is_folder(Path(name).expanduser()):
        return (find_model(name, trust),)
    ways = [*_named(name), ("", name)]
    given, pattern = next((way for way in ways if _is_there(way[1])), ways[0])
    if given and _is_folder(Path(pattern).expanduser()):
        return (find_model(name, trust),)
    found = [describe_folder(path, trust) for path in _matches(pattern)]
    run = given or Path(found[0].checkpoint).parent.name
    return tuple(_in_order(run, found, named=given))


def _named(name: str) -> list[tuple[str, str]]:
    """What NAME=FOLDER may mean, as either may hold a "=" too (`runs/lr=1e-4`)."""
    parts = name.split("=")
    ways = (("=".join(parts[:n]), "=".join(parts[n:])) for n in range(1, len(parts)))
    return [(given.strip(), folder.strip()) for given, folder in ways]


def _is_there(pattern: str) -> bool:
    whole = Path(pattern).expanduser()
    return _is_folder(whole) or bool(glob(str(whole)))  # noqa: PTH207  (as in _matches)


def _matches(pattern: str) -> list[Path]:
    """The folders that a pattern matches, absolute."""
    whole = str(Path(pattern).expanduser())
    matches = map(Path, glob(whole))  # noqa: PTH207  (Path.glob takes no absolute pattern)
    found = sorted(path for path in matches if path.is_dir())
    if not found:
        raise ModelError(f"no folder matches {pattern!r}: {_what_is_there(Path(whole).parent)}.")
    return [path.resolve() for path in found]


_FEW = 5
"""Names in an error."""


def _what_is_there(folder: Path) -> str:
    if has_magic(str(folder)):
        return "give another pattern"
    if not folder.is_dir():
        return f"there is no folder {folder}"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"the folders of {folder} are {', '.join(names[:_FEW]) or 'none'}{more}"


def _in_order(run: str, found: Sequence[ModelSpec], named: str) -> Iterator[ModelSpec]:
    """The checkpoints of a run by their steps, each with a name of its own."""
    families = {spec.family: spec for spec in found}
    if len(families) > 1:
        kinds = " and ".join(f"{Path(s.checkpoint).name} is {f}" for f, s in families.items())
        raise ModelError(
            f"the checkpoints of {run} are of unlike families, which no pretraining run has "
            f"({kinds}): give each family a pattern of its own."
        )
    stages = {spec: _stage_of(run, spec) for spec in found}
    by_step: dict[int, ModelSpec] = {}
    for spec, stage in stages.items():
        other = by_step.setdefault(stage.step, spec)
        if other is not spec:
            raise ModelError(
                f"{other.checkpoint} and {spec.checkpoint} are both of step {stage.step}: give a "
                "pattern that matches one of them."
            )
    for spec in sorted(found, key=lambda spec: stages[spec].step):
        known = _called(named, spec) if named else spec
        yield replace(known, name=f"{run}/{Path(spec.checkpoint).name}", stage=stages[spec])


_STATE, _OWN = "trainer_state.json", "pretraining.json"
"""What transformers' Trainer writes beside a checkpoint, and what anybody may write there."""


def _stage_of(run: str, spec: ModelSpec) -> Stage:
    """Of a folder: by what files in it say, else by the numbers in its name."""
    folder = Path(spec.checkpoint)
    step, tokens = _numbers_in(folder.name, bare=True)
    state, own, config = (_read_object(folder / n) for n in (_STATE, _OWN, "config.json"))
    steps = (state.get("global_step"), own.get("step"), step)
    seen = (state.get("num_input_tokens_seen"), own.get("tokens"), config.get("tokens_seen"))
    found = next((n for n in steps if _is_count(n)), None)
    if found is None:
        raise ModelError(
            f"{folder} does not say at which step it was saved: expected a number in its name "
            f"(step-1000), global_step in {_STATE}, or step in {_OWN}."
        )
    # The Trainer writes 0 where it does not count tokens.
    counted = next((n for n in seen if _is_count(n) and (n or found == 0)), tokens)
    return Stage(run=run, step=found, tokens=counted, family=spec.family)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _read_object(path: Path) -> dict[str, Any]:
    """A file's JSON object; nothing where there is no such file, or it holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_NUMBER = r"[-_=]?(\d+|\d+\.\d+(?=[kmbt]))([kmbt]?)(?![a-z\d.])"


def _numbers_in(name: str, *, bare: bool = False) -> tuple[int | None, int | None]:
    """The step and the tokens in a name, such as "step1000-tokens4B" or "step_20k".

    A `bare` number, as in "checkpoint-500", is a step too, the last one where there are several.
    """
    low = name.lower()
    tokens = re.search(rf"tokens?{_NUMBER}", low)
    if tokens:
        low = low.replace(tokens[0], "")
    steps = re.findall(rf"steps?{_NUMBER}", low)
    if bare and not steps:
        steps = re.findall(rf"(?<![\d.]){_NUMBER}", low)
    return (_count(*steps[-1]) if steps else None, _count(*tokens.groups()) if tokens else None)


def _count(digits: str, unit: str) -> int:
    return round(float(digits) * _UNITS[unit])
