"""SWAG in the official CSV: which of four endings goes with the thing in hand."""

import csv
import io
from pathlib import Path
from random import Random
from typing import NamedTuple

from tasks.mini.drawing import draw_splits
from tasks.mini.grammar import draw_scene, hypernym
from tasks.mini.lexicon import NAMES, TIMES
from tasks.mini.writing import write_text

__all__ = ["write_swag"]

SIZES = (500, 150, 80)

ENDINGS = {
    "vehicle": ("drives it home.", "parks it in front of the house.", "stops it at the corner."),
    "tool": ("works with it all day.", "makes a chair with it.", "puts it back into the toolbox."),
    "fruit": ("eats it slowly.", "cuts it and takes a bite.", "puts it into a cake."),
    "instrument": ("plays a song on it.", "starts to make music.", "tunes it for the concert."),
    "garment": ("puts it on.", "folds it and wears another one.", "hangs it over a chair."),
}

COLUMNS = (
    "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0",
    "ending1", "ending2", "ending3",
)  # fmt: skip


class Situation(NamedTuple):
    """A first sentence, the start of the second one, four endings and the right one's index."""

    first: str
    start: str
    endings: tuple[str, ...]
    label: int


def write_swag(folder: Path) -> None:
    """Write train.csv and val.csv with labels, test.csv without."""
    splits = draw_splits("swag", _draw, SIZES)
    for name, situations in zip(("train", "val", "test"), splits, strict=True):
        _write(folder / f"{name}.csv", situations, hidden=name == "test")


def _draw(rng: Random) -> Situation:
    scene = draw_scene(rng)
    gender = rng.choice(tuple(NAMES))
    name, pronoun = rng.choice(NAMES[gender]), "She" if gender == "female" else "He"
    event = rng.choice((f"finds the {scene.thing}", f"takes the {scene.thing}"))
    first = f"{name} {event} {scene.place} {rng.choice(TIMES)}."
    kind = hypernym(scene.thing)
    wrong = rng.sample([k for k in ENDINGS if k != kind], 3)
    endings = [rng.choice(ENDINGS[k]) for k in (kind, *wrong)]
    right = endings[0]
    rng.shuffle(endings)
    return Situation(first, pronoun, tuple(endings), endings.index(right))


def _write(path: Path, situations: list[Situation], *, hidden: bool) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS if hidden else (*COLUMNS, "label"))
    for number, situation in enumerate(situations):
        first, start, endings, label = situation
        row = (number, f"mini_{number}", number, f"{first} {start}", first, start, "gold", *endings)
        table.writerow(row if hidden else (*row, label))
    write_text(path, text.getvalue())
