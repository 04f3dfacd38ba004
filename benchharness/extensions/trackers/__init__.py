"""Send runs to experiment trackers: TensorBoard, Weights & Biases, MLflow, trackio."""

from benchharness.extension import Extension

EXTENSION = Extension(
    name="trackers",
    package=__name__,
    loggers={
        "tensorboard": "trackers:TensorBoard",
        "wandb": "trackers:Wandb",
        "mlflow": "trackers:Mlflow",
        "trackio": "trackers:Trackio",
    },
)
