"""The shapes of the hub's repositories by benchmarks/hub.toml, of which the stand-in is made."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "benchmarks" / "hub.toml"
CATALOGUE: Mapping[str, Mapping[str, Mapping[str, Any]]] = tomllib.loads(_FILE.read_text("utf-8"))
MODELS, DATA = CATALOGUE["models"], CATALOGUE["data"]

CONVERTED = "refs/convert/parquet"
"""The branch of a data set with the hub's own conversion."""
