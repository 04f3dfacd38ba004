"""Models: the table of known checkpoints, any folder or hub name, and what identifies weights."""

from benchharness.models.find import find_model
from benchharness.models.floors import FLOORS
from benchharness.models.identity import weights_identity
from benchharness.models.spec import ModelSpec
from benchharness.models.table import MODELS, add_model
from benchharness.models.trust import Trust

__all__ = ["FLOORS", "MODELS", "ModelSpec", "Trust", "add_model", "find_model", "weights_identity"]
