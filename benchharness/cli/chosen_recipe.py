"""From a name to the model whose recipe is meant."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchharness.models import ModelSpec

__all__ = ["recipe_owner"]


def recipe_owner(name: str) -> "ModelSpec":
    """The model of that name; for the name of a recipe alone, one that is trained by it.

    Raises as `find_model` does where the name is neither.
    """
    from benchharness.models import ModelSpec, find_model
    from benchharness.recipes.read import packaged_names
    from tasks.errors import BenchError, ModelError

    try:
        return find_model(name)
    except ModelError:
        raise
    except BenchError:
        if name in packaged_names():
            return ModelSpec(name=name, checkpoint=name, recipe=name)
        raise
