"""A board's entries as charts call them."""

from collections import Counter
from dataclasses import dataclass

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry

__all__ = ["NamedEntry", "named_entries"]


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """An entry with the `id` that all its marks carry, and a name that no other one has."""

    id: str
    name: str
    entry: Entry


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """The entries of a board, whose id in the page is `anchor`.

    A name is the model, with its recipe where models repeat, and with the precision where that is
    not enough.
    """
    recipes = [(entry.model, entry.recipe_label) for entry in board.entries]
    models, pairs = Counter(model for model, _ in recipes), Counter(recipes)
    found = []
    for number, (entry, (model, recipe)) in enumerate(zip(board.entries, recipes, strict=True)):
        name = model if models[model] == 1 else f"{model}, {recipe}"
        if pairs[model, recipe] > 1:
            name = f"{model}, {recipe}, {entry.precision}"
        found.append(NamedEntry(id=f"{anchor}-e{number}", name=name, entry=entry))
    return tuple(found)
