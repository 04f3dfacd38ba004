"""What the trackers of others are told of a run: TensorBoard, Weights & Biases, MLflow, trackio.

One file a tracker, each imported only where it is asked for. They listen to the driver and never to
training: what a tracker does, or fails to do, changes no result and stops no job.
"""

from benchharness.loggers.listening import Listening
from benchharness.loggers.logger import LOGGERS, Logger, Loggers, open_loggers

__all__ = ["LOGGERS", "Listening", "Logger", "Loggers", "open_loggers"]
