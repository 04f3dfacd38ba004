"""Training: optimizer steps, prediction and snapshots, independent of tasks and heads."""
