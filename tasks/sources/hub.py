"""Read data sets from the Hugging Face hub at a pinned revision, or from the local cache.

Without a network, the Hugging Face libraries retry for up to several minutes even if the data are
cached, and a server that accepts a connection but never answers blocks them forever. So the hub is
probed once per process. If it does not answer, the libraries are switched to offline mode before
they are imported.
"""

import hashlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

from benchharness.errors import DataError, first_line
from benchharness.tasks.sources.formats import FILE
from benchharness.tasks.sources.source import Row, Source, Split

# Downloaded files are verified here. The library of the hub names each cached file by the digest
# that the hub reports (a SHA-256 for large files, git's SHA-1 for others), but never compares the
# digest with the content, so a file that is damaged during the download would remain undetected.


@contextmanager
def arriving(repository: Path) -> Iterator[list[Path]]:
    """Verify the files that are downloaded inside the block of this context manager.

    When the block ends, even by an exception, the files that were added to the cache are verified.
    Damaged files are deleted, so that they can be downloaded again.

    Args:
        repository: Folder in which the library of the hub caches the files of a data set.

    Yields:
        A list that is empty at first. When the block ends, the paths of the deleted files are added
        to it.
    """
    blobs = repository / "blobs"
    # Files that were cached before are not verified again, because they may be large.
    known, damaged = set(blobs.glob("*")), list[Path]()
    try:
        yield damaged
    finally:  # the block may have failed because of a damaged file
        for path in sorted(set(blobs.glob("*")) - known):
            if not _is_whole(path):
                path.unlink()
                damaged.append(path)


def _is_whole(path: Path) -> bool:
    """Return whether the content of a file has the digest that is the file's name.

    Returns True if the name is not a digest, as for files that are still being downloaded.
    """
    if re.fullmatch("[0-9a-f]{64}", path.name):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == path.name
    if re.fullmatch("[0-9a-f]{40}", path.name):
        content = path.read_bytes()
        # git's digest covers the object type, the size, a zero byte and the content.
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return digest.hexdigest() == path.name
    return True


PROBE_SECONDS = 3.0
"""Time in seconds within which the hub must answer."""


def hub_is_reachable(timeout: float = PROBE_SECONDS) -> bool:
    """Return whether the hub answers within `timeout` seconds.

    The request is sent from a thread, because looking up a host name has no time-out.
    """
    answers: list[bool] = []
    probe = threading.Thread(target=lambda: answers.append(_answers(timeout)), daemon=True)
    probe.start()
    probe.join(timeout)
    # If the probe hangs, the list is still empty, and the daemon thread ends with the process.
    return answers == [True]


def _answers(timeout: float) -> bool:
    # These modules import ssl, which is not needed for local data and checkpoints.
    from http.client import HTTPException  # noqa: PLC0415  (imports ssl)
    from urllib import error, request  # noqa: PLC0415  (imports ssl)

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        question = request.Request(endpoint, method="HEAD")  # noqa: S310 - the user's own setting
        with request.urlopen(question, timeout=timeout):  # noqa: S310
            return True
    # An HTTP error, such as 401 or 404, is an answer too.
    except error.HTTPError:
        return True
    except (OSError, ValueError, HTTPException):
        return False


@cache
def go_offline_if_unreachable() -> bool:
    """Switch the Hugging Face libraries to offline mode if the hub does not answer.

    The hub is probed once per process. For offline mode, the environment variable HF_HUB_OFFLINE is
    set, which the libraries read on import and child processes inherit. If the libraries are
    already imported, their constants are changed too.

    Returns:
        True if the libraries are in offline mode, no matter whether this function or the user has
        set the variable.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        return True
    if hub_is_reachable():
        return False
    os.environ["HF_HUB_OFFLINE"] = "1"
    for module in ("huggingface_hub.constants", "datasets.config"):
        if module in sys.modules:
            sys.modules[module].HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    return True


def hub_rows(source: Source, split_name: str) -> list[Row]:
    """Return the rows of a split on the hub.

    Raises:
        DataError: If the data set cannot be read, or if its revision, columns or labels are not the
            expected ones.
    """
    if not source.configs:
        config = source.split(split_name).config or source.config
        return _config_rows(replace(source, config=config), split_name)
    parts = (
        (name, _config_rows(replace(source, config=name), split_name)) for name in source.configs
    )
    # Tasks with several configs have one official file per config. Rows of these files may have the
    # name of their file in the column FILE, so rows from the hub have the name of their config.
    return [{FILE: name, **row} for name, part in parts for row in part]


def _config_rows(source: Source, split_name: str) -> list[Row]:
    dataset = hub_dataset(source, split_name)
    _check_label_names(source, dataset)
    return _rows(source, source.split(split_name), dataset)


def hub_dataset(source: Source, split_name: str) -> Any:
    """Load a split from the hub as a `datasets.Dataset`.

    Raises:
        DataError: If the data set cannot be loaded, or if its revision is not the expected one.
    """
    split = source.split(split_name)
    if not source.hub:
        raise DataError(
            f"{source.config or 'this task'} is not on the hub: use `--data DIR` with its files."
        )
    offline = go_offline_if_unreachable()
    if offline and not _is_cached(source):
        raise DataError(_absent(source, "the hub cannot be reached and nothing is cached"))
    with arriving(_repository(source)) as damaged:
        dataset = _load(source, split, offline)
    if damaged:
        # Delete the data sets that the libraries have prepared from damaged files.
        for file in dataset.cache_files:
            shutil.rmtree(Path(file["filename"]).parent, ignore_errors=True)
        raise DataError(
            _absent(
                source,
                f"some of its files ({len(damaged)}) were damaged during the download and have "
                "been deleted (run the same command again to download them)",
            )
        )
    _check_revision(source, dataset)
    return dataset


def hub_splits(
    hub: str, config: str | None, revision: str | None
) -> tuple[str, str, tuple[str, ...]]:
    """Return the config, the commit and the names of the splits of any data set on the hub.

    Args:
        hub: Name of the data set.
        config: Name of the config; None if the data set has only one.
        revision: Commit, branch or tag; None for the main branch. Without a network, only a commit
            works, because a branch or tag must be resolved to its current commit.

    Raises:
        DataError: If the data set cannot be found, or if it has several configs and `config` is
            None.
    """
    offline = go_offline_if_unreachable()
    import huggingface_hub  # noqa: PLC0415  (heavy, and reads HF_HUB_OFFLINE on import)

    datasets = _datasets()
    commit = revision or "main"
    try:
        # A branch such as "main" changes, so it is replaced by its current commit.
        if re.fullmatch("[0-9a-f]{40}", commit) is None:
            commit = str(huggingface_hub.HfApi().dataset_info(hub, revision=commit).sha)
        path = f"hf://datasets/{hub}"
        configs = datasets.get_dataset_config_names(path, revision=commit)
        if config is None and len(configs) > 1:
            raise DataError(
                f"{hub} on the hub has {len(configs)} configs ({', '.join(configs[:8])}): name "
                f"one of them, for example --hf {hub}:{configs[0]}."
            )
        chosen = config or configs[0]
        return (
            chosen,
            commit,
            tuple(datasets.get_dataset_split_names(path, chosen, revision=commit)),
        )
    except DataError:
        raise
    except hub_errors() as error:
        reason = next(iter(str(error).strip().splitlines()), "").rstrip(".")
        why = "the hub cannot be reached" if offline else f"{type(error).__name__}: {reason}"
        raise DataError(
            f"the data set {hub} could not be found: {why}; pass its rows with --data-file."
        ) from error


def hub_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that Hugging Face's libraries raise if a data set cannot be loaded."""
    import huggingface_hub  # noqa: PLC0415  (heavy, and reads HF_HUB_OFFLINE on import)

    exceptions = _datasets().exceptions
    failed = (exceptions.DatasetsError, huggingface_hub.errors.HfHubHTTPError)
    return (OSError, ValueError, RuntimeError, *failed)


def _absent(source: Source, reason: str) -> str:
    return (
        f"the data set {source.hub} ({source.config}) could not be loaded: {reason}; "
        "use `--data DIR` with the official files, or `--data mini`."
    )


def _home() -> Path:
    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")


def _repository(source: Source) -> Path:
    """Return the folder in which the libraries cache the downloaded files of a data set."""
    files = Path(os.environ.get("HF_HUB_CACHE") or _home() / "hub")
    return files / f"datasets--{source.hub.replace('/', '--')}"


def _is_cached(source: Source) -> bool:
    """Return whether a data set is in the libraries' cache, without importing the libraries."""
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or _home() / "datasets")
    config = source.config + (f"-data_dir={source.hub_folder}" if source.hub_folder else "")
    return (prepared / source.hub.replace("/", "___") / config).is_dir()


def _datasets() -> Any:
    """Import `datasets` and disable its progress bars and logs.

    `go_offline_if_unreachable` must be called before.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import datasets  # noqa: PLC0415  (heavy, and reads HF_HUB_OFFLINE on import)

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    return datasets


def _load(source: Source, split: Split, offline: bool) -> Any:
    datasets = _datasets()
    # The "hf://" prefix prevents `datasets` from reading a local folder with the same name.
    path = f"hf://datasets/{source.hub}"
    try:
        return datasets.load_dataset(
            path,
            source.config or None,
            data_dir=source.hub_folder or None,
            revision=source.revision,
            split=split.hub,
        )
    except hub_errors() as error:
        said = f"{type(error).__name__}: {first_line(error)}"  # messages may have several lines
        raise DataError(_absent(source, "it is not in the cache" if offline else said)) from error


def _check_revision(source: Source, dataset: Any) -> None:
    """Raise DataError if another revision was loaded than the pinned one.

    If the pinned revision cannot be downloaded, `load_dataset` falls back to the newest one in the
    cache.
    """
    found = {Path(file["filename"]).parent.name for file in dataset.cache_files}
    if source.is_pinned and found != {source.revision}:
        raise DataError(
            _absent(
                source,
                f"revision {source.revision} could not be downloaded, and only "
                f"{', '.join(sorted(found))} is cached",
            )
        )


def _check_label_names(source: Source, dataset: Any) -> None:
    """Raise DataError if the names of a ClassLabel, or their order, are not as expected."""
    for column, names in {source.label: source.label_names, **source.classes}.items():
        feature = dataset.features.get(column)
        # In a column of lists, the ClassLabel is the attribute `feature`.
        found = tuple(getattr(getattr(feature, "feature", feature), "names", ()))
        if found != names:
            raise DataError(
                f"the labels of {source.hub} ({source.config}) on the hub are {', '.join(found)}; "
                f"expected {', '.join(names)}: use `--data DIR` with the official files."
            )


def _rows(source: Source, split: Split, dataset: Any) -> list[Row]:
    """Return the rows with the columns of the source; nested columns have dotted names."""
    flat = dataset.flatten()
    found = flat.column_names
    absent = [name for name in source.columns if name not in found]
    if missing := set(absent) - set(source.optional):
        raise DataError(
            f"{source.hub} ({source.config}, {split.hub}) on the hub has no column "
            f"{', '.join(sorted(missing))}; it has {', '.join(found)}: use `--data DIR` with the "
            "official files."
        )
    nothing = dict.fromkeys(absent)
    kept = flat.select_columns([name for name in source.columns if name in found])
    return [nothing | _row(source, split, row, index) for index, row in enumerate(kept)]


def _row(source: Source, split: Split, row: Mapping[str, Any], index: int) -> dict[str, object]:
    place = f"{source.hub} ({source.config}, {split.hub}) row {index}"
    named: dict[str, object] = {
        column: [_name(names, number, place) for number in row[column]]
        for column, names in source.classes.items()
    }
    if source.label in row:
        label = row[source.label]
        named[source.label] = (
            [_name(source.label_names, number, place) for number in label]
            if isinstance(label, list)
            else _label(source, split, label, place)
        )
    return {**row, **named}


def _label(source: Source, split: Split, label: Any, place: str) -> str | float | None:
    """Return the name of a label, or the number in a regression.

    Returns None if the label is hidden, or if the annotators did not agree. On the hub, both are
    encoded as -1.
    """
    may_lack = split.hub.startswith("test") or source.unlabelled is not None
    if split.hidden or (label == -1 and may_lack):
        return None
    if not source.label_names:
        return None if label is None else _shortest(label)
    return _name(source.label_names, label, place)


def _name(names: tuple[str, ...], label: Any, place: str) -> str:
    if label not in range(len(names)):
        raise DataError(
            f"{place} has the label {label}; expected 0 to {len(names) - 1}: use `--data DIR` with "
            "the official files."
        )
    return names[int(label)]


def _shortest(number: float) -> float:
    """Return the shortest decimal that rounds to the same float32, e.g. 3.8 instead of 3.79999.

    Official files have this number.
    """
    # Nine digits identify any float32, so one of these texts always matches.
    texts = (f"{number:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if pack("f", float(text)) == pack("f", number))
