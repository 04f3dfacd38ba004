"""Models: known checkpoints, checkpoints in folders or on the hub, and the identity of weights."""

from benchharness.leaderboard.job import Trust
from benchharness.models.find import find_model, find_models
from benchharness.models.spec import BASELINES, MODELS, ModelSpec, add_model
from benchharness.models.weights import weights_identity

__all__ = [
    "BASELINES",
    "MODELS",
    "ModelSpec",
    "Trust",
    "add_model",
    "find_model",
    "find_models",
    "weights_identity",
]
