"""Files of the hub's repositories, from benchmarks/hub.toml, for the local test hub."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "benchmarks" / "hub.toml"
CATALOGUE: Mapping[str, Mapping[str, Mapping[str, Any]]] = tomllib.loads(_FILE.read_text("utf-8"))
MODELS, DATA = CATALOGUE["models"], CATALOGUE["data"]

CONVERTED = "refs/convert/parquet"
"""Branch of a data set with the hub's automatic conversion."""
