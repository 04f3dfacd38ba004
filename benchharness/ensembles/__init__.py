"""Ensembles: the stored predictions of several runs made into one, without any training."""

from benchharness.ensembles.average import average
from benchharness.stored.ensemble import make_ensemble

__all__ = ["average", "make_ensemble"]
