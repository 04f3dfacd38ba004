"""Python function `bh.explain`, which compares a run with another training run in a data frame."""

from dataclasses import fields
from os import fspath
from pathlib import Path

import pandas as pd

from benchharness.driver.options import DATABASE, speaks_python
from benchharness.extensions.explanation.beside import explain_run
from benchharness.extensions.explanation.differences import Difference
from benchharness.extensions.explanation.foreign import trained
from benchharness.leaderboard.store.store import open_store


@speaks_python
def explain(key: str, where: str | Path, *, db: str | Path = DATABASE) -> pd.DataFrame:
    """Return the settings in which a run and another training run differ, likeliest causes first.

    This is `bench explain` as a function.

    Args:
        key: The key of the run, or its first characters.
        where: The other training run: a Trainer's output folder, a file of arguments, another run's
            key, or a published result ("TABLE: SYSTEM").
        db: The database that contains the run.

    Returns:
        A data frame with one row per setting that differs: its `name`, the run's value (`ours`),
            the other training run's value (`theirs`), the sources of both (`ours_from`,
            `theirs_from`), the largest effect that benchharness has measured (`points`, with its
            `source`), and the option that gives a run the other value (`change`). `frame.attrs` has
            the `metric`, the `gap` (the other score minus the run's, from 0 to 1), the `flags` of
            both scores, the names of settings that only the run specifies (`not_said`), that only
            the other training specifies (`unread`) and that benchharness does not know (`unknown`),
            the default values that are `assumed` for the other training run, the number of
            `compared` settings, and sentences about other differences, such as another split
            (`remarks`).

    Raises:
        BenchError: There is no such run or training, a run did not train an encoder on exactly one
            task, or the two are on different tasks.
        DataError: The folder or file contains no training arguments, is damaged, or would run code
            when it is loaded.
    """
    with open_store(fspath(db), create=False) as store:
        found = explain_run(trained(store, key), fspath(where), store)
    columns = [each.name for each in fields(Difference)]
    frame = pd.DataFrame([vars(each) for each in found.differences], columns=columns)
    known = ("metric", "gap", "not_said", "unread", "unknown", "assumed", "compared", "flags")
    frame.attrs = {name: getattr(found, name) for name in (*known, "remarks")}
    return frame
