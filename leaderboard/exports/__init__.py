"""Export formats: stored boards and predictions as files that other programs read."""
