"""What a checkpoint may do besides being read: both can run whatever its author wrote."""

from dataclasses import dataclass

__all__ = ["NOTHING", "Trust"]


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whether code that comes with a checkpoint is run, and whether pickled weights are loaded."""

    remote_code: bool = False
    pickle: bool = False


NOTHING = Trust()
