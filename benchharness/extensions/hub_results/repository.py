"""Read the files with results in a model's repository on the Hugging Face Hub.

Only `.eval_results/*.yaml` and README.md are read, into memory. No file is written, and nothing in
them is executed.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypeVar

from benchharness.errors import BenchError, DataError, first_line
from benchharness.extensions.exports import cards
from benchharness.leaderboard.text import visible
from benchharness.tasks.sources.hub import go_offline_if_unreachable

T = TypeVar("T")

CARD = "README.md"
FOLDER = ".eval_results/"
MOST_BYTES = 2**20
"""Largest size of a file in bytes. PyYAML needs about ten seconds for a file of this size."""

MOST_FILES = 100
"""Largest number of files in the folder `.eval_results`."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_RESULTS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\.ya?ml")


class HubError(DataError):
    """Raised if the Hub does not answer or fails, so that further requests would fail too."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """Repository of a model on the Hub at one commit.

    Attributes:
        name: Name of the repository, "owner/name".
        commit: The commit, 40 hex digits.
        date: Time of the commit, in UTC as ISO 8601; empty if the Hub does not give it.
        url: Web address of the files at this commit; the path of a file is appended to it.
        files: Texts of the files that may have results, keyed by path.
    """

    name: str
    commit: str
    date: str
    url: str
    files: Mapping[str, str]

    def address(self, path: str) -> str:
        """Return the web address of a file at this commit."""
        return f"{self.url}/{path}"


def read_repository(name: str, revision: str | None = None) -> Repository:
    """Read the files of a model's repository that may have results.

    Args:
        name: Name of the repository, "owner/name".
        revision: Commit, branch or tag; None for the main branch.

    Raises:
        BenchError: The name cannot be the name of a repository.
        DataError: The Hub does not answer, there is no such repository or revision, it has no file
            with results, or a file is too large, was damaged during the download, is not UTF-8 text
            or has an unusual name.
    """
    try:
        cards.import_hub().utils.validate_repo_id(name)
    except ValueError as error:
        raise BenchError(
            f"{name!r} is not the name of a repository on the hub: expected ORG/MODEL."
        ) from error
    hub = reach_hub(f"read from {name}")
    info = request_hub(hub, name, lambda: hub.HfApi().model_info(name, revision=revision))
    commit = str(info.sha)
    if not _COMMIT.fullmatch(commit):
        raise DataError(f"the hub names {commit!r:.60} as the commit of {name}: expected a SHA-1.")
    paths = list(_paths(name, [str(each.rfilename) for each in info.siblings or ()]))
    files = {path: _text(hub, name, commit, path) for path in paths}
    url = f"{hub.constants.ENDPOINT}/{name}/blob/{commit}"
    moment = info.last_modified
    date = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else ""
    return Repository(name=name, commit=commit, date=date, url=url, files=files)


def reach_hub(purpose: str) -> Any:
    """Return huggingface_hub if the Hub answers.

    Args:
        purpose: End of the message "the hub does not answer, so nothing was ...".

    Raises:
        HubError: The Hub does not answer, or the libraries are in offline mode.
    """
    if go_offline_if_unreachable():
        raise HubError(
            f"the hub does not answer, so nothing was {purpose}: check the network, HF_ENDPOINT "
            "and HF_HUB_OFFLINE."
        )
    return cards.import_hub()


def request_hub(hub: Any, name: str, request: Callable[[], T]) -> T:
    """Return the answer to a request about a repository.

    Args:
        hub: The module huggingface_hub.
        name: Name of the repository.
        request: Function that sends the request. Each of its errors is taken for an error of the
            Hub, so it does nothing else.

    Raises:
        HubError: The Hub fails, or has not answered for a minute.
        DataError: The Hub refuses the request, for example because there is no such repository.
    """
    try:
        with cards.watched(hub.utils.get_session(), []):
            return request()
    except Exception as error:  # any error of the Hub's client and its HTTP library
        status = getattr(getattr(error, "response", None), "status_code", 0)
        kind = DataError if status in cards.REFUSED else HubError
        raise kind(f"{name} could not be read from the hub: {_reason(hub, error)}.") from error


def _reason(hub: Any, error: Exception) -> str:
    if isinstance(error, hub.errors.GatedRepoError):
        return "its files are only for users whom the owner has accepted (`hf auth login`)"
    if isinstance(error, hub.errors.RevisionNotFoundError):
        return "it has no such commit, branch or tag"
    if isinstance(error, hub.errors.RepositoryNotFoundError):
        return "there is no such repository, or it is private (`hf auth login`)"
    return first_line(error).removesuffix(".")


def _paths(name: str, listed: list[str]) -> Iterator[str]:
    """Yield the paths of the files that may have results.

    Raises:
        DataError: There is none, there are too many, or one of them has an unusual name.
    """
    inside = sorted(path for path in listed if path.startswith(FOLDER))
    found = [path for path in inside if path.endswith((".yaml", ".yml"))]
    for path in found:
        if not _RESULTS.fullmatch(path.removeprefix(FOLDER)):
            raise DataError(
                f"{name} has the file {visible(path)!r:.120}: expected {FOLDER}NAME.yaml with only "
                "letters, digits, dots, dashes and underscores in NAME."
            )
    if len(found) > MOST_FILES:
        raise DataError(
            f"{name} has {len(found)} files in {FOLDER}: expected at most {MOST_FILES}."
        )
    if not found and CARD not in listed:
        raise DataError(f"{name} has no results: it has neither {FOLDER}*.yaml nor {CARD}.")
    yield from found
    if CARD in listed:
        yield CARD


def _text(hub: Any, name: str, commit: str, path: str) -> str:
    """Download a file into memory, compare its digest, and return its text."""
    content, tag = request_hub(hub, name, lambda: _content(hub, name, commit, path))
    if len(content) > MOST_BYTES:
        raise DataError(
            f"{path} of {name} is too large: a file with results may have at most "
            f"{MOST_BYTES / 2**20:g} MiB."
        )
    # The tag of a file that is not in LFS is git's digest, of which the client's own downloads
    # make no use: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    if _COMMIT.fullmatch(tag) and digest.hexdigest() != tag:
        raise DataError(f"{path} of {name} was damaged during the download: run the command again.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} of {name} is not UTF-8 text.") from error


def _content(hub: Any, name: str, commit: str, path: str) -> tuple[bytes, str]:
    """Return the content of a file and its tag; reading ends above MOST_BYTES."""
    url = hub.hf_hub_url(name, path, revision=commit)
    # A compressed answer could become a thousand times as large while it is read.
    headers = hub.utils.build_hf_headers() | {"Accept-Encoding": "identity"}
    deadline = time.monotonic() + cards.ANSWER_SECONDS
    content = bytearray()
    with hub.utils.get_session().stream("GET", url, headers=headers) as response:
        hub.utils.hf_raise_for_status(response)
        for part in response.iter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                break
            if time.monotonic() > deadline:
                raise DataError(f"{path} took more than {cards.ANSWER_SECONDS:g} seconds")
        return bytes(content), response.headers.get("ETag", "").strip('"')
