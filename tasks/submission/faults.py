"""What is wrong with a submission, said so that its author can find and mend it."""

from collections import Counter
from dataclasses import dataclass

__all__ = ["Fault", "Faults"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: the file, its line from 1 (0: the file as a whole), and what is wrong there.

    A `mendable` one has a single right answer, which `repair` writes.
    """

    file: str
    line: int
    sentence: str
    mendable: bool

    def __str__(self) -> str:
        place = f"{self.file} line {self.line}" if self.line else self.file
        return f"{place}: {self.sentence}"


class Faults:
    """The faults of one file, gathered while it is read; one that comes again is counted."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[tuple[str, bool], int] = {}
        self._again: Counter[tuple[str, bool]] = Counter()

    def add(self, sentence: str, line: int = 0, *, mendable: bool = False) -> None:
        """Take a fault of a line; equal sentences become one fault, at the first of its lines."""
        fault = (sentence, mendable)
        if fault in self._found:
            self._again[fault] += 1
        else:
            self._found[fault] = line

    def all(self) -> tuple[Fault, ...]:
        """Every fault once, in the order in which they were found."""
        return tuple(
            Fault(
                file=self._file,
                line=line,
                sentence=sentence + _more(self._again[sentence, mendable]),
                mendable=mendable,
            )
            for (sentence, mendable), line in self._found.items()
        )


def _more(times: int) -> str:
    """How many times the fault comes again."""
    return f" (and {times} more)" if times else ""
