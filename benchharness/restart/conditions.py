"""What must be as it was for a state to be taken up: everything that changes bits and is in no key.

Recipe, data, weights and seed are in the key of the job, by which its states are found.
"""

import hashlib
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

__all__ = ["conditions", "source_digest", "what_differs"]

LOADED = time.time()
"""When this process has loaded our code, or begun to."""

SOURCES = {
    "benchharness": "**/*.py",
    "leaderboard": "*.py",
    "tasks": "**/*.py",
}
"""Our Python files by package, without pages and plots."""

NOT_IN_WORKERS = ("cli", "engines")

MACHINE = ("device", "capability", "threads")
"""Which processor computes, its widest instructions, and in how many parts it adds up."""


def conditions(provenance: Mapping[str, Any]) -> dict[str, str]:
    """By name, from what a result says of where it comes from."""
    found = {
        "the code": source_digest()[:12],
        **provenance["versions"],
        **{name: provenance["machine"][name] for name in MACHINE},
        "processes": provenance["machine"].get("processes", 1),
        "the tokenizer": provenance["model"]["tokenizer"],
        "the encoder it starts from": provenance.get("started_from", {}).get("sha256"),
    }
    return {name: str(value) for name, value in found.items()}


def source_digest() -> str:
    """The SHA-256 (hex) of the Python files that a job may use: an edit counts at once.

    Where a file was edited after this process has loaded it, what runs is not known: the digest is
    then of no code.
    """
    digest, edited = hashlib.sha256(), 0.0
    for package, pattern in SOURCES.items():
        root = Path(str(files(package)))
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root)
            if name.parts[0] in NOT_IN_WORKERS:
                continue
            digest.update(f"{package}/{name}\0".encode())
            digest.update(path.read_bytes())
            edited = max(edited, path.stat().st_mtime)
    if edited > LOADED:
        digest.update(f"edited at {edited}, loaded at {LOADED}".encode())
    return digest.hexdigest()


def what_differs(kept: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """What is not as it was, "torch (2.11 then, 2.13 now)"; empty where all of it is."""
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    return ", ".join(f"{name} ({kept.get(name)} then, {now.get(name)} now)" for name in names)
