"""Gold files: what a test produced once, looked at and accepted."""

import os
import re
from pathlib import Path

from tests.helpers import ROOT

__all__ = ["check_gold"]

GOLD = ROOT / "tests" / "gold"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?( ?UTC|Z)?")


def check_gold(name: str, actual: str, folder: Path = GOLD) -> None:
    """Compare a text with the gold file of that name, dates aside.

    A difference leaves the text beside the gold as `actual-NAME` and fails; with BENCH_UPDATE_GOLD
    set to 1 (`make gold`) it becomes the gold.
    """
    gold, beside = folder / name, folder / f"actual-{name}"
    scrubbed = "\n".join(line.rstrip() for line in DATE.sub("DATE", actual).splitlines()) + "\n"
    if os.environ.get("BENCH_UPDATE_GOLD") == "1":
        gold.write_text(scrubbed, encoding="utf-8")
    if not gold.exists() or gold.read_text(encoding="utf-8") != scrubbed:
        beside.write_text(scrubbed, encoding="utf-8")
        raise AssertionError(
            f"{gold.name} is not what came out: see the difference with "
            f"`diff {gold} {beside}`, and accept it with `make gold`."
        )
    beside.unlink(missing_ok=True)
