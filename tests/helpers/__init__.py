"""Helpers that several test modules share."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout; child processes get it on their path to import the helpers."""
