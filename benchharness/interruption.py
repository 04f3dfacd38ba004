"""SIGTERM and SIGINT in a worker: they end it at once, or after what must not be left half done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

__all__ = ["SIGNALS", "Interrupted", "Signals"]


class Interrupted(BaseException):
    """SIGTERM or SIGINT arrived; its number is the argument."""


@dataclass(kw_only=True)
class Signals:
    """Turns signals into Interrupted, or holds them back.

    `arrived` is the one that waits, 0 for none, and `announce` is called when one has to wait.
    """

    is_held: bool = False
    arrived: int = 0
    announce: Callable[[], None] = lambda: None

    def take(self, number: int, _: FrameType | None = None) -> None:
        """Raises Interrupted, unless signals are held back; the handler of the signals."""
        if not self.is_held:
            raise Interrupted(number)
        self.arrived = number
        self.announce()

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """A block that no signal interrupts; Interrupted is raised before or after it.

        Within another one it is a part of that.
        """
        if self.is_held:
            yield
            return
        self._raise_arrived()
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
        self._raise_arrived()

    @contextmanager
    def announced_by(self, announce: Callable[[], None]) -> Iterator[None]:
        """A block in which a signal that has to wait is announced."""
        before, self.announce = self.announce, announce
        try:
            yield
        finally:
            self.announce = before

    def _raise_arrived(self) -> None:
        number, self.arrived = self.arrived, 0
        if number:
            raise Interrupted(number)


SIGNALS = Signals()
"""Those of this process, which has one handler for each."""
