"""The command `bench levels`."""

from collections import Counter
from typing import Annotated

import typer

from benchharness.cli.options import argument, with_options


@with_options()
def levels(key: Annotated[str, argument("KEY", "Key of a stored run; its beginning is enough.")]):
    """Show how far the predicted levels of a run are from the gold ones."""
    import benchharness as bh  # imported here, because importing pandas takes most of a second

    found = bh.predictions(key)
    far = Counter(
        abs(int(one) - int(other))
        for one, other in zip(found["gold"], found["predicted"], strict=True)
    )
    for distance in sorted(far):
        typer.echo(f"{distance} levels away: {far[distance]}")
