"""What any encoder must beat: the most frequent answer, and a linear model over words. No torch."""

from benchharness.floors.run import run_floor

__all__ = ["run_floor"]
