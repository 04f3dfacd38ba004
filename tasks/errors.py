"""The errors that a user can mend, and the exit code of each.

    BenchError            2   an argument, a name or a setting is wrong
    |-- DataError         4   a file, a data set, the hub: missing or malformed
    |-- ModelError        4   a checkpoint: missing, not a checkpoint, or incomplete
    |-- JobError          1   a job that started and could not finish
    `-- StoreError        5   the leaderboard's database: locked, corrupt, too new

The message is one sentence that names the thing, what was found, what was expected and the next
step. Anything that is not a BenchError is a bug of ours and keeps its traceback.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from benchharness.tasks.passwords import without_passwords


def one_line(sentence: object) -> str:
    """The sentence, also where a name in it has line breaks."""
    return " ".join(str(sentence).splitlines())


class BenchError(Exception):
    """Something the user can mend; `exit_code` is the process's exit status.

    Each argument is a sentence and a line, whatever line breaks the names in it have.
    None shows a password of an URL.
    """

    exit_code = 2

    def __init__(self, *sentences: object) -> None:
        super().__init__(*(without_passwords(str(each)) for each in sentences))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.args))


class DataError(BenchError):
    """A data set, a file or the hub is missing or malformed."""

    exit_code = 4


class ModelError(BenchError):
    """A checkpoint is missing, is not a checkpoint, or lacks layers."""

    exit_code = 4


class JobError(BenchError):
    """A job started and could not finish (diverged, killed, out of memory).

    `kind` is that of the Failure that it becomes.
    """

    exit_code = 1
    kind = "failed"


class StoreError(BenchError):
    """The leaderboard's database is locked, corrupt or of a newer schema."""

    exit_code = 5


class BusyStoreError(StoreError):
    """Another process has the leaderboard's database, or its server is away: waiting may help."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str = "", other_names: Mapping[str, str] = {}
) -> BenchError:
    """The error for a name that is in no table: `no suite is called 'gleu'. ...`.

    A close name is proposed ("Did you mean 'glue'?"); `hint` ends the sentence when nothing is
    close, e.g. "`bench list suites` shows them". `other_names` are what others call the known ones.
    """
    names = sorted(set(known))
    asked = name.lower()
    if other_names.get(asked) in names:
        close = [other_names[asked]]
    else:
        close = get_close_matches(asked, names, n=1, cutoff=0.6)
    advice = f"Did you mean {close[0]!r}?" if close else hint or f"Known: {', '.join(names)}."
    return BenchError(f"no {kind} is called {name!r}. {advice}")
