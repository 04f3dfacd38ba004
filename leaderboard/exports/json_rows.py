"""Scores as a JSON list of objects."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from leaderboard.exports.lines import ScoreLine

__all__ = ["to_json"]


def to_json(lines: Iterable[ScoreLine]) -> str:
    """An object a score, with the names of ScoreLine; ASCII, and null for None."""
    return json.dumps([asdict(line) for line in lines], indent=2, allow_nan=False) + "\n"
