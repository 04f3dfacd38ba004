"""`bh.explain`: what differs between a run and another training, as a data frame."""

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
    """Where another training differs from a run, the likeliest first: `bench explain`.

    `where` is a Trainer's output folder, a file, another run's key, or a published row. A line a
    value: `name`, `ours`, `theirs`, where each was read, its largest measured effect in `points`
    with its `source`, and the `change` that gives a run the other value. `frame.attrs` has the
    `metric`, the `gap` (theirs less ours, 0 to 1), the `flags` of both scores, the names
    `not_said`, `unread`, `unknown`, what is `assumed` of the other by name, and how many values
    were `compared`.
    """
    with open_store(fspath(db), create=False) as store:
        found = explain_run(trained(store, key), fspath(where), store)
    columns = [each.name for each in fields(Difference)]
    frame = pd.DataFrame([vars(each) for each in found.differences], columns=columns)
    known = ("metric", "gap", "not_said", "unread", "unknown", "assumed", "compared", "flags")
    frame.attrs = {name: getattr(found, name) for name in known}
    return frame
