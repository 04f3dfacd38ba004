"""Gold files: accepted earlier outputs of a test."""

import io
import os
import re
from pathlib import Path

import pytest

from tests.helpers import ROOT

GOLD = ROOT / "tests" / "gold"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?( ?UTC|Z)?")


def check_gold(name: str, actual: str, folder: Path = GOLD) -> None:
    """Compare a text with the gold file of that name, ignoring dates.

    If they differ, the text is written next to the gold file as `actual-NAME` and the test fails;
    if BENCH_UPDATE_GOLD is 1 (`make gold`) it replaces the gold file.
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


_SMALLER = 4
"""Divisor of the size of kept pictures, because fonts differ slightly between machines."""


def check_picture(name: str, png: bytes, folder: Path = GOLD, *, tolerance: float = 6.0) -> None:
    """Compare a screenshot with the gold picture of that name, at a low resolution.

    The mean difference per colour, of 255, is within the tolerance; in each of 8 × 8 parts of the
    picture it is within five times the tolerance.
    """
    image = pytest.importorskip("PIL.Image")
    chops, stat = pytest.importorskip("PIL.ImageChops"), pytest.importorskip("PIL.ImageStat")
    gold, beside = folder / name, folder / f"actual-{name}"
    found = image.open(io.BytesIO(png)).convert("RGB")
    found = found.resize((found.width // _SMALLER, found.height // _SMALLER), image.Resampling.BOX)
    if os.environ.get("BENCH_UPDATE_GOLD") == "1":
        found.quantize(64).save(gold, optimize=True)
    known = image.open(gold).convert("RGB") if gold.exists() else found.point(lambda _: 0)
    known = known if known.size == found.size else found.point(lambda _: 0)
    apart = chops.difference(known, found)
    parts = apart.resize((8, 8), image.Resampling.BOX)
    mean = max(stat.Stat(apart).mean)
    worst = max(high for _, high in parts.getextrema())
    if mean > tolerance or worst > 5 * tolerance:
        found.save(beside)
        raise AssertionError(
            f"{name} looks otherwise (mean difference {mean:.1f}, of a part {worst}): see "
            f"{beside}, and accept it with `make gold`."
        )
    beside.unlink(missing_ok=True)
