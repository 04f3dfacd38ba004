"""Recipes: each paper's fine-tuning values, with their sources, resolved for a model and a task."""
