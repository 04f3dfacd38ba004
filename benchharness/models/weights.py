"""Identify the weights with which a job starts, and download and check checkpoints.

Equal weights have the same identity wherever they are stored, so equal jobs have the same key.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from benchharness.errors import ModelError
from benchharness.leaderboard.job import Trust
from benchharness.models.folder import (
    check_loadable,
    checkpoint_files,
    is_unbounded,
    longest_row,
    read_config,
    read_object,
)
from benchharness.models.spec import (
    MODELS,
    NOTHING,
    TOKENIZER_FILES,
    UNPINNED,
    VOCABULARY_FILES,
    Groups,
    ModelSpec,
    called,
    find_weights,
    index_of,
    sort_files,
)
from benchharness.tasks.sources.hub import arriving, go_offline_if_unreachable

_TOKENIZERS = ("tokenizer*", "vocab*", "sentencepiece*", *TOKENIZER_FILES)
"""Patterns of the names of tokenizer files, which are downloaded in addition to a repository's
config, weights and trusted code."""


def download(hub_id: str, revision: str | None, trust: Trust = NOTHING) -> Path:
    """Download the missing files of a checkpoint from the hub, and return its folder in the cache.

    The list of files is requested first, so that nothing is downloaded from a repository that is
    not a checkpoint.

    Args:
        hub_id: The repository, as "org/name".
        revision: The branch, tag or commit; None for the default branch.
        trust: Permissions that the user gives the checkpoint. Code is downloaded only if it is
            trusted.

    Raises:
        ModelError: The repository is not a checkpoint, the hub refuses the request, a file was
            damaged during the download, or the hub cannot be reached and the cache lacks the
            checkpoint.
    """
    if go_offline_if_unreachable():
        folder = _download(hub_id, revision, ["config.json"])
        if not find_weights([path.name for path in folder.iterdir()]):
            raise _unreachable(hub_id)  # the cache contains its config, but not its weights
    else:
        folder = _fetch(hub_id, revision, trust)
    checkpoint_files(folder, trust)
    return folder


def _fetch(hub_id: str, revision: str | None, trust: Trust) -> Path:
    try:
        names = _names(hub_id, revision)
    except ModelError:
        folder = cache_folder(hub_id) / "snapshots" / str(revision)
        if not folder.is_dir() or not find_weights([path.name for path in folder.iterdir()]):
            raise
        return folder  # use the cached files if the hub does not answer
    # Pass the revision unchanged (a branch is not resolved), so that the library finds it offline
    # later.
    folder = _download(hub_id, revision, _wanted(hub_id, names, trust))
    _borrow_tokenizer(hub_id, revision, folder)
    return folder


def fetch_code(folder: Path, trust: Trust) -> None:
    """Download the code of a checkpoint that is in another hub repository, if it is trusted.

    The configs in the checkpoint's folder refer to such code in the form "org/name--module.Class".
    A repository that is already in the cache is not updated.

    Args:
        folder: The folder of the checkpoint.
        trust: Permissions that the user gives the checkpoint, which determine whether its code is
            trusted.
    """
    if not trust.remote_code:
        return
    for name in ("config.json", "tokenizer_config.json"):
        places = str(read_object(folder / name).get("auto_map") or "")
        for repository in re.findall(r"'([\w.-]+/[\w.-]+?)--", places):
            if not cache_folder(repository).is_dir():
                _download(repository, None, ["*.py"])


def _names(hub_id: str, revision: str | None) -> tuple[str, ...]:
    """Return the file names of a repository, and of the tokenizer that it takes from another."""
    names = _ask(hub_id, revision).names
    lender = _lender(hub_id)
    if lender is None or not set(VOCABULARY_FILES).isdisjoint(names):
        return names
    return (*names, *(name for name in _ask(*lender).names if name in TOKENIZER_FILES))


def _lender(hub_id: str) -> tuple[str, str] | None:
    lender = next((spec.lender for spec in MODELS.values() if spec.checkpoint == hub_id), "")
    name, _, commit = lender.partition("@")
    return (name, commit) if name else None


def _borrow_tokenizer(hub_id: str, revision: str | None, folder: Path) -> None:
    """Link the tokenizer of another repository into a checkpoint's folder if it has none."""
    own = set(_ask(hub_id, revision).names)
    if (lender := _lender(hub_id)) is None or not own.isdisjoint(VOCABULARY_FILES):
        return
    lent = [name for name in _ask(*lender).names if name in TOKENIZER_FILES and name not in own]
    source = _download(*lender, lent)
    for name in lent:
        with suppress(FileExistsError):
            (folder / name).symlink_to(os.path.relpath(source / name, folder))


def _wanted(hub_id: str, names: Sequence[str], trust: Trust) -> list[str]:
    """Return the files of a repository to download; raise ModelError if it cannot be loaded."""
    files = _sorted(hub_id, names, trust)
    index = [name for weights in files["weights"] if (name := index_of(weights))]
    tokenizer = [name for name in names if any(fnmatchcase(name, each) for each in _TOKENIZERS)]
    return list(
        dict.fromkeys((*files["config"], *files["weights"], *index, *tokenizer, *files["code"]))
    )


def _sorted(hub_id: str, names: Sequence[str], trust: Trust) -> Groups:
    """Group a repository's files by kind; raise ModelError if they are not a checkpoint."""
    try:
        return sort_files(names, called(hub_id), trust)
    except ModelError as error:
        known = next((spec for spec in MODELS.values() if spec.checkpoint == hub_id), None)
        is_told = known is not None and known.note not in ("", UNPINNED)
        note = f" Note on this model: {known.note}." if known and is_told else ""
        raise ModelError(f"{error}{note}") from None


def _download(hub_id: str, revision: str | None, patterns: Sequence[str]) -> Path:
    offline, hub = go_offline_if_unreachable(), _import_hub()  # in this order (see _import_hub)
    try:
        with arriving(cache_folder(hub_id)) as damaged:
            folder = hub.snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=patterns,
                local_files_only=offline,
            )
    except hub.errors.LocalEntryNotFoundError:
        raise _unreachable(hub_id) from None
    except (hub.errors.HTTPError, ValueError, OSError) as error:
        reason = str(error).partition("\n")[0]  # the first line, without the library's long advice
        raise ModelError(
            f"the checkpoint {called(hub_id)} cannot be downloaded from the hub ({reason}); check "
            "its name, or pass a folder with --model."
        ) from error
    if damaged:
        raise ModelError(
            f"files of the checkpoint {called(hub_id)} were damaged during the download and have "
            f"been deleted ({len(damaged)}): run the same command again to fetch them."
        )
    return Path(folder)


def _import_hub() -> Any:
    """Import the hub's library; call `go_offline_if_unreachable` first.

    The library reads HF_HUB_OFFLINE on import. Its `errors.HTTPError` comes from the HTTP library
    (httpx or httpx2, depending on the version). It is needed because a refused connection raises
    neither a HfHubHTTPError nor an OSError.
    """
    # The package does not import this submodule by itself. Importing it also imports `constants`
    # and `errors`.
    import huggingface_hub.file_download  # noqa: PLC0415  (as said above)

    return huggingface_hub


def require_checkpoint(
    checkpoint: str, revision: str | None, trust: Trust = NOTHING, *, whole: bool = False
) -> None:
    """Raise ModelError if quick checks show that a checkpoint cannot be loaded.

    A checkpoint on the hub must be in the cache or be complete on the hub; nothing is downloaded.
    The config is checked if the checkpoint is a folder or is in the cache. Built-in encoders and
    baselines always pass.

    Args:
        checkpoint: The hub id, the absolute path of a folder, "builtin:NAME" or "baseline:NAME".
        revision: The commit on the hub; None if the checkpoint is not on the hub.
        trust: Permissions that the user gives the checkpoint.
        whole: Whether the checkpoint must have a decoder.
    """
    folder = Path(checkpoint)
    if revision is not None:
        folder = cache_folder(checkpoint) / "snapshots" / revision
        require_files(checkpoint, revision, trust)
    # A hub id and "builtin:tiny" are not absolute paths, so files in the current folder are never
    # used.
    if folder.is_absolute() and (folder / "config.json").is_file():
        check_loadable(folder, trust, whole=whole)


def require_listed(spec: ModelSpec) -> None:
    """Raise ModelError if the repository of a hub model lacks files that a checkpoint needs.

    Only the list of files is requested. Nothing is checked if the hub cannot be reached or if the
    model is not on the hub. Known models with a pinned commit are not checked either, because their
    files are known to be complete.
    """
    is_asked = spec.is_hub and (spec.checkpoint, spec.revision) not in _pinned()
    if is_asked and not go_offline_if_unreachable():
        commit = _resolve_commit(spec.checkpoint, spec.revision)
        require_files(spec.checkpoint, commit, spec.trust)


def require_files(hub_id: str, revision: str, trust: Trust = NOTHING) -> None:
    """Raise ModelError if a hub repository is unavailable, or lacks files that a checkpoint needs.

    Unlike `require_checkpoint`, this function does not check the config. If the repository is in
    the cache, no request is sent to the hub.

    Args:
        hub_id: The repository, as "org/name".
        revision: Commit of the repository.
        trust: Permissions that the user gives the checkpoint.
    """
    folder = cache_folder(hub_id) / "snapshots" / revision
    if folder.is_dir() and find_weights([path.name for path in folder.iterdir()]):
        checkpoint_files(folder, trust)
    elif go_offline_if_unreachable():
        raise _unreachable(hub_id)
    else:
        _sorted(hub_id, _names(hub_id, revision), trust)


def cache_folder(hub_id: str) -> Path:
    """Return the folder in which Hugging Face's library caches a model; it may not exist yet."""
    return Path(_import_hub().constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"


def _unreachable(hub_id: str) -> ModelError:
    """Return the error for a model that is not cached when the hub cannot be reached."""
    return ModelError(
        f"model {called(hub_id)!r} is not in the cache and the hub cannot be reached: download it "
        "with `bench fetch` where there is a network, or use a checkpoint folder (`--model "
        "DIR`) and data that do not need the hub (`--data DIR` or `--data mini`)."
    )


# Resolve a hub revision to its commit, with a timeout.

_COMMIT = re.compile(r"[0-9a-f]{40}")

_TIMEOUT = 5.0


def _resolve_commit(hub_id: str, revision: str) -> str:
    """Return the 40-digit commit of a hub repository's revision.

    A commit is returned unchanged if it is cached or is the pinned commit of a known model. Any
    other revision is looked up on the hub, or in the local cache if the hub is switched off
    (HF_HUB_OFFLINE) or cannot be reached. Raises ModelError if the revision is unknown there.
    """
    cached = cache_folder(hub_id) / "snapshots" / revision
    if _COMMIT.fullmatch(revision) and ((hub_id, revision) in _pinned() or cached.is_dir()):
        return revision
    if go_offline_if_unreachable():
        if _COMMIT.fullmatch(revision):
            return revision  # a later check finds out whether it is available
        ref = cache_folder(hub_id) / "refs" / revision
        if not ref.is_file():
            raise _unreachable(hub_id)
        return ref.read_text(encoding="ascii").strip()  # the commit of the last download
    return _ask(hub_id, revision).commit


def _pinned() -> set[tuple[str, str]]:
    """Return the (hub id, commit) pairs of all known models with a pinned commit."""
    known = ((spec.checkpoint, spec.revision) for spec in MODELS.values())
    return {pair for pair in known if _COMMIT.fullmatch(pair[1])}


class _Listed(NamedTuple):
    """Commit and file names of a revision on the hub."""

    commit: str
    names: tuple[str, ...]


@cache
def _ask(hub_id: str, revision: str | None) -> _Listed:
    hub, name = _import_hub(), called(hub_id)
    try:
        info = hub.HfApi().model_info(hub_id, revision=revision, timeout=_TIMEOUT)
    except hub.errors.RepositoryNotFoundError:
        raise ModelError(
            f"the hub has no model {name!r} that is public or visible to your token; check its "
            "name."
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(
            f"the hub's model {name!r} has no revision {revision!r}: use a branch, a tag or a "
            "commit."
        ) from None
    except (hub.errors.HTTPError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"the hub did not answer for model {name!r} ({reason}); try again, or use a checkpoint "
            "folder."
        ) from error
    if info.sha is None:
        raise ModelError(
            f"the hub returned no commit for the revision {revision!r} of {name!r}; use a "
            "checkpoint folder."
        )
    return _Listed(info.sha, tuple(each.rfilename for each in info.siblings or ()))


def weights_identity(spec: ModelSpec) -> str:
    """Return the string that identifies a model's weights in a job.

    Returns:
        "hub:ID@COMMIT" for a hub model, "sha256:DIGEST" for a folder (the digest of its config,
        weights, tokenizer and trusted code), "builtin:NAME@DIGEST" for a built-in encoder (the
        digest of its data files), or "baseline:NAME@VERSION". The digest of a built-in encoder does
        not depend on its code; when this code changes, METHOD in leaderboard/job.py is increased.

    Raises:
        ModelError: The revision of a hub model cannot be resolved to a commit.
    """
    if spec.is_baseline:
        return f"{spec.checkpoint}@{spec.revision}"
    if spec.is_builtin:
        return f"{spec.checkpoint}@{files_digest(_data_files(_builtin_folder(spec)))}"
    if spec.is_folder:
        groups = checkpoint_files(Path(spec.checkpoint), spec.trust)
        return "sha256:" + files_digest(path for group in groups.values() for path in group)
    return f"hub:{spec.checkpoint}@{_resolve_commit(spec.checkpoint, spec.revision)}"


_LAYERS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers")
"""Names for the number of layers in the config.json of different families."""


def count_layers(spec: ModelSpec) -> int | None:
    """Return the number of layers of a model's checkpoint; None if its config does not state it.

    For a hub model, the config is downloaded, unless it is in the cache.

    Raises:
        ModelError: The config cannot be downloaded or read.
    """
    config = config_of(spec)
    return next((config[name] for name in _LAYERS if isinstance(config.get(name), int)), None)


_SIZES = ("hidden_size", "dim", "d_model", "n_embd")
"""Names for the size of the hidden states in the config.json of different families."""


def hidden_size(spec: ModelSpec) -> int | None:
    """Return the size of a model's hidden states; None if its config is missing or lacks it.

    For a hub model, the config is downloaded, unless it is in the cache.
    """
    try:
        config = config_of(spec)
    except ModelError:  # every job with such a model fails anyway
        return None
    return next((config[name] for name in _SIZES if isinstance(config.get(name), int)), None)


def config_of(spec: ModelSpec) -> Mapping[str, Any]:
    """Return the content of a model's config.json.

    For a hub model, the config is downloaded, unless it is in the cache.

    Raises:
        ModelError: The config cannot be downloaded or read.
    """
    return read_config(config_folder(spec) / "config.json")


def family_config(spec: ModelSpec) -> Mapping[str, Any]:
    """Return a config that states the family of a model.

    If `spec` states the family, the config contains only `model_type`; otherwise it is the content
    of config.json. If the config cannot be downloaded or read, the result is {}, because every job
    with such a model fails anyway.
    """
    if spec.family:
        return {"model_type": spec.family}
    try:
        return config_of(spec)
    except ModelError:
        return {}


def config_folder(spec: ModelSpec) -> Path:
    """Return the folder with config.json and tokenizer_config.json of a model.

    For a hub model, the two files are downloaded, unless they are in the cache.

    Raises:
        ModelError: A hub model cannot be downloaded, or a built-in model lacks its folder.
    """
    if spec.is_builtin:
        return _builtin_folder(spec)
    if spec.is_folder:
        return Path(spec.checkpoint)
    return _config_on_hub(spec.checkpoint, spec.revision)


@cache
def _config_on_hub(hub_id: str, revision: str) -> Path:
    commit = _resolve_commit(hub_id, revision)
    return _download(hub_id, commit, ["config.json", "tokenizer_config.json"])


def reach(spec: ModelSpec) -> int | None:
    """Return the maximum number of tokens per input of a model; None if unlimited or unknown.

    The maximum is unknown if the config of a hub model cannot be downloaded. In that case, every
    job with the model fails anyway.
    """
    if spec.is_baseline:
        return None
    if not spec.is_hub:
        return longest_row(config_folder(spec))
    if spec.max_tokens is not None:
        return None if is_unbounded(spec.family) else spec.max_tokens
    try:
        return longest_row(config_folder(spec)) if spec.revision else None
    except ModelError:
        return None


def hub_revision(weights: str) -> str | None:
    """Return the commit in the identity of weights; None if the weights are not from the hub.

    The identity is a result of `weights_identity`, such as "hub:ID@COMMIT".
    """
    return weights.rpartition("@")[2] if weights.startswith("hub:") else None


def _builtin_folder(spec: ModelSpec) -> Path:
    """Return the folder inside the package with a built-in encoder's config and vocabulary."""
    folder = Path(str(files("benchharness"))) / spec.builtin
    if not folder.is_dir():
        raise ModelError(
            f"the built-in model {spec.name} has no folder {folder}; reinstall benchharness."
        )
    return folder


def files_digest(paths: Iterable[Path]) -> str:
    """Return the SHA-256 digest (hex) of the names and contents of files.

    The order of the files and the names of their folders have no effect.
    """
    # The lines have the format of sha256sum. They are sorted, because folders list files in any
    # order.
    lines = sorted(f"{file_digest(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 digest (hex) of the bytes in a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _data_files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
