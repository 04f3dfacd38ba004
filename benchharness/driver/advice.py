"""Advice at the end of a run: commands of extensions that the user could run next."""

from collections.abc import Iterable
from typing import NamedTuple

from benchharness.discovery import member, places
from benchharness.driver.options import RunOptions
from benchharness.leaderboard.store.store import Store


class Advice(NamedTuple):
    """A command that the user could run next, with the reason.

    Attributes:
        sentence: What was found, in a sentence.
        command: The command, as typed in a shell.
        call: The same command as a call in Python.
    """

    sentence: str
    command: str
    call: str


def advice_on(options: RunOptions, store: Store, keys: Iterable[str]) -> list[Advice]:
    """Return the advice of all extensions on the finished jobs of a run.

    Args:
        options: The options of the run.
        store: The open database of results.
        keys: The keys of the jobs of the run.
    """
    rows = [row for row in store.runs_with(keys) if row.status == "finished"]
    return [
        each
        for name, place in places("advice").items()
        for each in member(f"the advice {name}", place)(options, store, rows)
    ]
