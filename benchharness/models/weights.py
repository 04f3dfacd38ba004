"""What identifies the weights that a job starts from, so that equal weights are equal jobs."""

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
from benchharness.tasks.errors import ModelError
from benchharness.tasks.sources.hub import arriving, go_offline_if_unreachable

_TOKENIZERS = ("tokenizer*", "vocab*", "sentencepiece*", *TOKENIZER_FILES)
"""What is fetched of a repository besides its config, its weights and the code that is trusted."""


def download(hub_id: str, revision: str | None, trust: Trust = NOTHING) -> Path:
    """The cached folder of a hub repository's revision, fetched where it is not there yet.

    Its files are asked for first, so that nothing is fetched of one that cannot be loaded. Raises
    ModelError where it cannot, where the hub does not give it, or cannot be reached and the cache
    lacks it.
    """
    if go_offline_if_unreachable():
        folder = _download(hub_id, revision, ["config.json"])
        if not find_weights([path.name for path in folder.iterdir()]):
            raise _unreachable(hub_id)  # its config alone was fetched
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
        return folder  # a hub that has no answer today does not stop what was fetched before
    # By the name that was given, for which the library then knows the commit without a network.
    folder = _download(hub_id, revision, _wanted(hub_id, names, trust))
    _borrow_tokenizer(hub_id, revision, folder)
    return folder


def fetch_code(folder: Path, trust: Trust) -> None:
    """Brings trusted code into the cache that a checkpoint has in another repository of the hub.

    A config names it as "org/name--module.Class". What is in the cache stays as it is.
    """
    if not trust.remote_code:
        return
    for name in ("config.json", "tokenizer_config.json"):
        places = str(read_object(folder / name).get("auto_map") or "")
        for repository in re.findall(r"'([\w.-]+/[\w.-]+?)--", places):
            if not cache_folder(repository).is_dir():
                _download(repository, None, ["*.py"])


def _names(hub_id: str, revision: str | None) -> tuple[str, ...]:
    """The files of a repository, and those of the tokenizer that another one lends it."""
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
    """Puts links to another repository's tokenizer into the folder of one without any."""
    own = set(_ask(hub_id, revision).names)
    if (lender := _lender(hub_id)) is None or not own.isdisjoint(VOCABULARY_FILES):
        return
    lent = [name for name in _ask(*lender).names if name in TOKENIZER_FILES and name not in own]
    source = _download(*lender, lent)
    for name in lent:
        with suppress(FileExistsError):
            (folder / name).symlink_to(os.path.relpath(source / name, folder))


def _wanted(hub_id: str, names: Sequence[str], trust: Trust) -> list[str]:
    """The files of a repository that are fetched; ModelError where it cannot be loaded."""
    files = _sorted(hub_id, names, trust)
    index = [name for weights in files["weights"] if (name := index_of(weights))]
    tokenizer = [name for name in names if any(fnmatchcase(name, each) for each in _TOKENIZERS)]
    return list(
        dict.fromkeys((*files["config"], *files["weights"], *index, *tokenizer, *files["code"]))
    )


def _sorted(hub_id: str, names: Sequence[str], trust: Trust) -> Groups:
    """A repository's files by what they are; ModelError where it cannot be loaded."""
    try:
        return sort_files(names, called(hub_id), trust)
    except ModelError as error:
        known = next((spec for spec in MODELS.values() if spec.checkpoint == hub_id), None)
        is_told = known is not None and known.note not in ("", UNPINNED)
        note = f" Known of it: {known.note}." if known and is_told else ""
        raise ModelError(f"{error}{note}") from None


def _download(hub_id: str, revision: str | None, patterns: Sequence[str]) -> Path:
    offline, hub = go_offline_if_unreachable(), _import_hub()  # in this order
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
        reason = str(error).partition("\n")[0]  # the library adds a page of advice
        raise ModelError(
            f"the hub does not give the checkpoint {called(hub_id)} ({reason}); check its name, or "
            "give a folder with --model."
        ) from error
    if damaged:
        raise ModelError(
            f"{len(damaged)} files of the checkpoint {called(hub_id)} were damaged on their way "
            "from the hub and are deleted: the same command fetches them again."
        )
    return Path(folder)


def _import_hub() -> Any:
    """The hub's library, after `go_offline_if_unreachable`: it reads HF_HUB_OFFLINE on import.

    Its `errors.HTTPError` is the HTTP library's own (httpx or httpx2, by version): a refused
    connection is neither a HfHubHTTPError nor an OSError.
    """
    # Not imported with the package itself; it brings `constants` and `errors`.
    import huggingface_hub.file_download  # noqa: PLC0415  (as said above)

    return huggingface_hub


def require_checkpoint(
    checkpoint: str, revision: str | None, trust: Trust = NOTHING, *, whole: bool = False
) -> None:
    """Raises ModelError for a checkpoint that cannot be loaded, as far as that is quickly told.

    A hub id at a revision must be cached or within reach; nothing is fetched, and only the list of
    its files is asked for. Its config is looked at where it is cached, that of a folder always;
    `whole` asks for a decoder too. Our own encoders and baselines need nothing.
    """
    folder = Path(checkpoint)
    if revision is not None:
        folder = cache_folder(checkpoint) / "snapshots" / revision
        require_files(checkpoint, revision, trust)
    # A hub id and "builtin:tiny" are no absolute paths, whatever the current folder holds.
    if folder.is_absolute() and (folder / "config.json").is_file():
        check_loadable(folder, trust, whole=whole)


def require_listed(spec: ModelSpec) -> None:
    """Raises ModelError for a model of the hub whose repository lacks what a checkpoint needs.

    The list of its files is asked for, so this comes before any rows are read. Commits of our table
    are known to be whole, and without a network nothing is said.
    """
    is_asked = spec.is_hub and (spec.checkpoint, spec.revision) not in _pinned()
    if is_asked and not go_offline_if_unreachable():
        commit = _resolve_commit(spec.checkpoint, spec.revision)
        require_files(spec.checkpoint, commit, spec.trust)


def require_files(hub_id: str, revision: str, trust: Trust = NOTHING) -> None:
    """Raises ModelError where a hub repository cannot be had, or lacks what a checkpoint needs.

    It is as `require_checkpoint`, but for the config. Of a cached one the hub is not asked.
    """
    folder = cache_folder(hub_id) / "snapshots" / revision
    if folder.is_dir() and find_weights([path.name for path in folder.iterdir()]):
        checkpoint_files(folder, trust)
    elif go_offline_if_unreachable():
        raise _unreachable(hub_id)
    else:
        _sorted(hub_id, _names(hub_id, revision), trust)


def cache_folder(hub_id: str) -> Path:
    """Where the hub's library keeps a model, fetched or not."""
    return Path(_import_hub().constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"


def _unreachable(hub_id: str) -> ModelError:
    """The error for a model that can be had from nowhere, with everything that needs no hub."""
    return ModelError(
        f"model {called(hub_id)!r} is not in the cache and the hub cannot be reached: `bench run "
        "fetch` it where there is a network, or give a checkpoint folder (`--model DIR`) with rows "
        "that need no hub either (`--data DIR` or `--data mini`)."
    )


# From a revision on the hub to the commit that it names, without ever hanging.

_COMMIT = re.compile(r"[0-9a-f]{40}")

_TIMEOUT = 5.0


def _resolve_commit(hub_id: str, revision: str) -> str:
    """The 40-digit commit of a hub repository's revision.

    A commit of our table, and one that is in the cache, is returned as it is. Anything else is
    asked of the hub, or of the local cache where the hub is switched off (HF_HUB_OFFLINE) or
    silent. Raises ModelError where neither knows it.
    """
    cached = cache_folder(hub_id) / "snapshots" / revision
    if _COMMIT.fullmatch(revision) and ((hub_id, revision) in _pinned() or cached.is_dir()):
        return revision
    if go_offline_if_unreachable():
        if _COMMIT.fullmatch(revision):
            return revision  # whether it can be had is said before anything starts
        ref = cache_folder(hub_id) / "refs" / revision
        if not ref.is_file():
            raise _unreachable(hub_id)
        return ref.read_text(encoding="ascii").strip()  # the commit that it was when it was fetched
    return _ask(hub_id, revision).commit


def _pinned() -> set[tuple[str, str]]:
    """The commits of the table, by the repositories that they are of."""
    known = ((spec.checkpoint, spec.revision) for spec in MODELS.values())
    return {pair for pair in known if _COMMIT.fullmatch(pair[1])}


class _Listed(NamedTuple):
    """A revision on the hub: its commit, and the files that it has."""

    commit: str
    names: tuple[str, ...]


@cache
def _ask(hub_id: str, revision: str | None) -> _Listed:
    hub, name = _import_hub(), called(hub_id)
    try:
        info = hub.HfApi().model_info(hub_id, revision=revision, timeout=_TIMEOUT)
    except hub.errors.RepositoryNotFoundError:
        raise ModelError(
            f"the hub has no model {name!r} that is public or open to your token; check its name."
        ) from None
    except hub.errors.RevisionNotFoundError:
        raise ModelError(
            f"the hub's model {name!r} has no revision {revision!r}: give a branch, a tag or a "
            "commit."
        ) from None
    except (hub.errors.HTTPError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"the hub did not answer for model {name!r} ({reason}); try again, or give a folder."
        ) from error
    if info.sha is None:
        raise ModelError(f"the hub names no commit for {revision!r} of {name!r}; give a folder.")
    return _Listed(info.sha, tuple(each.rfilename for each in info.siblings or ()))


def weights_identity(spec: ModelSpec) -> str:
    """What the job records as its weights.

    "hub:ID@COMMIT" for the hub, "sha256:DIGEST" over the config, weights and tokenizer files of a
    folder, "builtin:NAME@DIGEST" over the data files of a built-in encoder (its code is covered by
    the job's method number), "baseline:NAME@VERSION" for a baseline. Raises ModelError where a hub
    name cannot be resolved to a commit.
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
"""What families call the number of their layers in config.json."""


def count_layers(spec: ModelSpec) -> int | None:
    """How many layers a checkpoint has above its embeddings; None where its config leaves it open.

    As `config_of`, it may ask the hub.
    """
    config = config_of(spec)
    return next((config[name] for name in _LAYERS if isinstance(config.get(name), int)), None)


def config_of(spec: ModelSpec) -> Mapping[str, Any]:
    """What a checkpoint's config.json says; that of a model on the hub is fetched, once."""
    return read_config(config_folder(spec) / "config.json")


def family_config(spec: ModelSpec) -> Mapping[str, Any]:
    """Return what is known of a model's family: its config.json, or the family in the table.

    Empty where only the hub could tell and does not: no job of such a model can start either.
    """
    if spec.family:
        return {"model_type": spec.family}
    try:
        return config_of(spec)
    except ModelError:
        return {}


def config_folder(spec: ModelSpec) -> Path:
    """The folder of a checkpoint's config and tokenizer; those of one on the hub are fetched."""
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
    """The most tokens of a row that a model reads; None where it has no limit, or none is known.

    That is so of a model on the hub that cannot be reached: no job of it can start either.
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
    """The commit in "hub:ID@COMMIT", None for weights that are not from the hub."""
    return weights.rpartition("@")[2] if weights.startswith("hub:") else None


def _builtin_folder(spec: ModelSpec) -> Path:
    """The folder inside the package that holds a built-in encoder's config and vocabulary."""
    folder = Path(str(files("benchharness"))) / spec.builtin
    if not folder.is_dir():
        raise ModelError(
            f"the built-in model {spec.name} has no folder {folder}; reinstall benchharness."
        )
    return folder


def files_digest(paths: Iterable[Path]) -> str:
    """The SHA-256 (hex) over names and contents of files, whatever their folder and order."""
    # Lines as sha256sum prints them; sorted, because folders list their files in any order.
    lines = sorted(f"{file_digest(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _data_files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file() and p.suffix not in (".py", ".pyc")]
