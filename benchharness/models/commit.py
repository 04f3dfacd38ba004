"""From a revision on the hub to the commit that it names, without ever hanging."""

import re

from benchharness.models.weights import cache_folder, unreachable
from tasks.errors import ModelError
from tasks.sources.hub import go_offline_if_unreachable

__all__ = ["resolve_commit"]

_COMMIT = re.compile(r"[0-9a-f]{40}")

_TIMEOUT = 5.0


def resolve_commit(hub_id: str, revision: str) -> str:
    """The 40-digit commit of a hub repository's revision.

    A pinned commit is returned as it is. A branch is asked of the hub, or of the local cache where
    the hub is switched off (HF_HUB_OFFLINE) or silent. Raises ModelError where neither knows it.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    if go_offline_if_unreachable():
        return _commit_in_cache(hub_id, revision)
    return _commit_on_hub(hub_id, revision)


def _commit_on_hub(hub_id: str, revision: str) -> str:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (  # type: ignore[attr-defined]
        HTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        commit = HfApi().model_info(hub_id, revision=revision, timeout=_TIMEOUT).sha
    except RepositoryNotFoundError:
        raise ModelError(
            f"the hub has no model {hub_id!r} that is public or open to your token; check its name."
        ) from None
    except RevisionNotFoundError:
        raise ModelError(
            f"the hub's model {hub_id!r} has no revision {revision!r}; give a branch or a commit."
        ) from None
    except (HTTPError, OSError) as error:
        raise ModelError(
            f"the hub did not answer for model {hub_id!r} ({error}); try again, or give a folder."
        ) from error
    if commit is None:
        raise ModelError(f"the hub names no commit for {revision!r} of {hub_id!r}; give a folder.")
    return commit


def _commit_in_cache(hub_id: str, revision: str) -> str:
    ref = cache_folder(hub_id) / "refs" / revision
    if not ref.is_file():
        raise unreachable(hub_id)
    return ref.read_text(encoding="ascii").strip()
