"""What several test modules share."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The checkout, which child processes get on their path to import what is here."""
