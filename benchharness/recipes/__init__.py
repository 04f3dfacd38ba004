"""Recipes: hyperparameters from papers with their sources, resolved for a model and a task."""

from benchharness.recipes.recipe import Recipe
from benchharness.recipes.resolve import ResolvedRecipe, resolve_recipe, resolve_sweep

__all__ = ["Recipe", "ResolvedRecipe", "resolve_recipe", "resolve_sweep"]
